"""Qwen3-Omni: hears, sees, writes and speaks (https://arxiv.org/abs/2509.17765).

What comes from a checkpoint
    :mod:`.config` its configuration, typed and checked; :mod:`.layout` the name, shape and owner of every tensor;
    :mod:`.checkpoint` the tensors themselves, each stage its own; :mod:`.weights` where the released one lies.
What a prompt is made of
    :mod:`.tokenizer` text and ids; :mod:`.chat` conversations as text; :mod:`.placeholders` the places of sounds,
    pictures and films, and rotary positions; :mod:`.prompt` all of it as pieces for an engine.
What is heard and seen
    :mod:`.media` decodes what clients send; :mod:`.mel`, :mod:`.audio_tower` and :mod:`.audio_encoder` turn sound into
    rows for the thinker, window by window while it arrives; :mod:`.patches` and :mod:`.vision_tower` do so for pictures
    and films.
What is written and said
    :mod:`.backbones`, :mod:`.thinker`, :mod:`.talker`, :mod:`.code_predictor` the generating parts as the torch engine
    sees them; :mod:`.thinker_runner`, :mod:`.talker_runner`, :mod:`.talker_prompt` and :mod:`.talker_view` what their
    stages do; :mod:`.code2wav`, :mod:`.code2wav_layers` and :mod:`.code2wav_stage` codec frames to samples.
What makes a pipeline of it
    :mod:`.pipeline` declares it, :mod:`.options` its settings, and :mod:`.stages` builds the runners;
    :mod:`.preprocess_stage`, :mod:`.image_stage`, :mod:`.audio_stage` and :mod:`.decode_stage` are those that do not
    generate. :mod:`.prompt_segments` and :mod:`.assembly` take a prompt apart and put it together again as its media
    come; :mod:`.wire` names what the stages send each other, :mod:`.requests` what they read of a request.

Importing this package loads no model library; its modules need the extra ``torch``.
"""
