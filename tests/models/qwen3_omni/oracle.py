"""The published implementation as the oracle of the generating stages: what it answers, and what it computes on the
way.

Its own encoders give the media rows, so that only the thinker, the talker and the code predictor are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import _get_feat_extract_output_lengths

from voice_omni.engines.interface import Piece
from voice_omni.models.qwen3_omni.config import OmniConfig
from voice_omni.models.qwen3_omni.patches import Grid
from voice_omni.models.qwen3_omni.placeholders import Film, Placeholders

NEWLINE: Final = 5
"""The tiny vocabulary has no text; any token may end a line."""


@dataclass(frozen=True)
class Case:
    """A prompt, and everything that the oracle's ``generate`` wants beside it."""

    tokens: list[int]
    media: dict[str, Any] = field(default_factory=dict)


@dataclass
class Answer:
    """``tokens`` without the one that ended them, ``frames`` of 16 codes; the rest is what led to them.

    ``hidden`` ``[n, width]``: the inner layer's row of each position; ``thinker_last`` and ``talker_last`` ``[steps,
    width]``: the final rows that tokens were drawn from, ``thinker_logits`` and ``code_logits`` ``[steps,
    vocabulary]``; ``residual_logits``: ``[15, codes]`` of each frame; ``rows``: the talker's prompt.
    """

    tokens: list[int] = field(default_factory=list)
    first_codes: list[int] = field(default_factory=list)
    frames: list[list[int]] = field(default_factory=list)
    hidden: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    thinker_last: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    talker_last: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    thinker_logits: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    code_logits: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    residual_logits: list[torch.Tensor] = field(default_factory=list)
    rows: torch.Tensor = field(default_factory=lambda: torch.empty(0))


class Oracle:
    def __init__(self, model: Any, config: OmniConfig) -> None:
        self.model = model
        self.config = config
        # The talker counts a sound's rows where there are pictures too, for which its own configuration lacks this.
        self.model.talker.config.audio_config = self.model.thinker.config.audio_config

    def answer(self, case: Case, **limits: Any) -> Answer:
        """Greedy, within these limits, which are passed on."""
        answer = Answer()
        thinker, talker, predictor = self.model.thinker, self.model.talker, self.model.talker.code_predictor
        undo = [(part, part.generate) for part in (thinker, talker, predictor)]
        codec = self.model.code2wav
        layer = self.config.talker.accept_hidden_layer if self.config.talker else 0

        def think(*args: Any, **kwargs: Any) -> Any:
            result = undo[0][1](*args, **kwargs, output_logits=True)
            end = kwargs["eos_token_id"]
            answer.tokens = [token for token in result.sequences[0, len(case.tokens) :].tolist() if token != end]
            answer.hidden = torch.cat([states[layer] for states in result.hidden_states], dim=1)[0]
            answer.thinker_last = torch.cat([states[-1][0, -1:] for states in result.hidden_states])
            answer.thinker_logits = torch.cat(result.logits)
            return result

        def talk(*args: Any, **kwargs: Any) -> Any:
            answer.rows = kwargs["inputs_embeds"][0]
            result = undo[1][1](*args, **kwargs, output_logits=True)
            answer.first_codes = result.sequences[0].tolist()
            answer.talker_last = torch.cat([states[0][-1][0, -1:] for states in result.hidden_states])
            answer.code_logits = torch.cat(result.logits)
            answer.frames = [states[-1][0].tolist() for states in result.hidden_states if states[-1] is not None]
            return result

        def predict(*args: Any, **kwargs: Any) -> Any:
            result = undo[2][1](*args, **kwargs, output_logits=True)
            answer.residual_logits.append(torch.cat(result.logits))
            return result

        for (part, _), replaced in zip(undo, (think, talk, predict), strict=True):
            part.generate = replaced
        codec.chunked_decode = lambda codes, **_: torch.zeros(1, 1, 1)
        try:
            self.model.generate(
                input_ids=torch.tensor([case.tokens]),
                attention_mask=torch.ones((1, len(case.tokens)), dtype=torch.int64),
                thinker_eos_token_id=self.config.im_end_token_id,
                thinker_do_sample=False,
                talker_do_sample=False,
                **limits,
                **case.media,
            )
        except RuntimeError:
            # It cannot stack the frames of a speech that ends at once.
            if answer.frames or not answer.first_codes:
                raise
        finally:
            for part, generate in undo:
                part.generate = generate
            del codec.chunked_decode
        return answer

    def spoken(self, case: Case, tokens: list[int], **limits: Any) -> Answer:
        """What is said when the thinker answers with these tokens, whatever it would choose."""
        script = iter([*tokens, self.config.im_end_token_id])

        def choose(module: Any, given: Any, logits: torch.Tensor) -> torch.Tensor:
            chosen = torch.full_like(logits, -1.0)
            chosen[..., next(script)] = 1.0
            return chosen

        hook = self.model.thinker.lm_head.register_forward_hook(choose)
        try:
            return self.answer(case, **{**limits, "thinker_max_new_tokens": len(tokens) + 1})
        finally:
            hook.remove()

    @torch.no_grad()
    def piece(self, case: Case) -> Piece:
        """The whole prompt as the thinker's stage reads it."""
        model, media, ids = self.model.thinker.model, case.media, torch.tensor(case.tokens)
        thinker = self.config.thinker
        single = (thinker.audio_token_id, thinker.image_token_id, thinker.video_token_id)
        at = np.flatnonzero(np.isin(case.tokens, single))
        if not len(at):
            return Piece(case.tokens)
        rows = torch.zeros((len(ids), thinker.text.hidden_size))
        deepstack = torch.zeros((len(thinker.vision.deepstack_visual_indexes), *rows.shape))
        lengths = None
        if "input_features" in media:
            heard = model.get_audio_features(media["input_features"], media["feature_attention_mask"])
            rows[ids == thinker.audio_token_id] = heard.last_hidden_state
            lengths = media["feature_attention_mask"].sum(1)
        for token, pixels, grid, read in (
            (thinker.image_token_id, "pixel_values", "image_grid_thw", model.get_image_features),
            (thinker.video_token_id, "pixel_values_videos", "video_grid_thw", model.get_video_features),
        ):
            if pixels in media:
                seen = read(media[pixels], media[grid])
                rows[ids == token] = torch.cat(seen.pooler_output)
                deepstack[:, ids == token] = torch.stack([torch.cat(layer) for layer in seen.deepstack_features])
        positions, _ = model.get_rope_index(
            ids[None],
            media.get("image_grid_thw"),
            media.get("video_grid_thw"),
            torch.ones_like(ids)[None],
            media.get("use_audio_in_video", False),
            lengths,
            media.get("video_second_per_grid"),
        )
        return Piece(
            case.tokens,
            rows[at].numpy(),
            at,
            deepstack[:, at].numpy() if deepstack.any() else None,
            positions[:, 0].float().numpy(),
        )


class Prompts:
    """Prompts of random content for the tiny checkpoint."""

    def __init__(self, config: OmniConfig, seed: int = 0) -> None:
        self._config = config
        self._random = torch.Generator().manual_seed(seed)

    def text(self, count: int = 6) -> Case:
        return self._with(self._words(count))

    def turns(self) -> Case:
        """The person, the assistant and the person again."""
        config = self._config
        first = [*self._turn(config.user_token_id, self._words(5))]
        answer = [*self._turn(config.assistant_token_id, self._words(7))]
        case = self.text(4)
        system = self._system()
        return Case([*system, *first, *answer, *case.tokens[len(system) :]])

    def audio(self, frames: int) -> Case:
        """``frames``: 100 in a second."""
        return self._with([*self._words(2), *self._sound(frames), *self._words(1)], **self._mel(frames))

    def two_sounds(self, first: int, second: int) -> Case:
        """A turn of sound and one more behind an answer."""
        config = self._config
        longest = max(first, second)
        heard = [self._mel(frames, longest) for frames in (first, second)]
        case = self._with(self._sound(second))
        system = self._system()
        turns = [*self._turn(config.user_token_id, self._sound(first))]
        turns += self._turn(config.assistant_token_id, self._words(7))
        media = {name: torch.cat([each[name] for each in heard]) for name in heard[0]}
        return Case([*system, *turns, *case.tokens[len(system) :]], media)

    def image(self, height: int = 4, width: int = 6) -> Case:
        thinker = self._config.thinker
        grid = torch.tensor([[1, height, width]])
        rows = height * width // thinker.vision.spatial_merge_size**2
        seen = [thinker.vision_start_token_id, *[thinker.image_token_id] * rows, thinker.vision_end_token_id]
        return self._with(
            [*self._words(2), *seen, *self._words(3)], pixel_values=self._patches(grid), image_grid_thw=grid
        )

    def film(self, seconds: int = 2, *, image_too: bool = False) -> Case:
        """With its sound; one grid for each second. ``image_too``: a picture before it."""
        thinker = self._config.thinker
        grid, mel = torch.tensor([[seconds, 4, 4]]), self._mel(seconds * 100)
        film = Film(Grid(seconds, 4, 4), 1.0, self._sound_rows(seconds * 100))
        tokens = [
            thinker.vision_start_token_id,
            *Placeholders(thinker).tokens(film),
            thinker.vision_end_token_id,
            *self._words(3),
        ]
        media = {
            **mel,
            "pixel_values_videos": self._patches(grid),
            "video_grid_thw": grid,
            "video_second_per_grid": torch.tensor([1.0]),
            "use_audio_in_video": True,
        }
        if image_too:
            image = self.image()
            end = image.tokens.index(thinker.vision_end_token_id) + 1
            start = image.tokens.index(thinker.vision_start_token_id)
            tokens = [*image.tokens[start:end], *self._words(1), *tokens]
            media |= image.media
        return self._with(tokens, **media)

    def _with(self, content: list[int], **media: Any) -> Case:
        """A system prompt, the person's turn and the answer's header."""
        config = self._config
        user = self._turn(config.user_token_id, content)
        return Case([*self._system(), *user, config.im_start_token_id, config.assistant_token_id, NEWLINE], media)

    def _system(self) -> list[int]:
        return self._turn(self._config.system_token_id, [11, 12, 13])

    def _turn(self, role: int, content: list[int]) -> list[int]:
        config = self._config
        return [config.im_start_token_id, role, NEWLINE, *content, config.im_end_token_id, NEWLINE]

    def _words(self, count: int) -> list[int]:
        return torch.randint(20, 480, (count,), generator=self._random).tolist()

    def _sound(self, frames: int) -> list[int]:
        thinker = self._config.thinker
        pads = [thinker.audio_token_id] * self._sound_rows(frames)
        return [thinker.audio_start_token_id, *pads, thinker.audio_end_token_id]

    def _sound_rows(self, frames: int) -> int:
        return int(_get_feat_extract_output_lengths(torch.tensor(frames), self._config.thinker.audio.n_window))

    def _mel(self, frames: int, padded: int | None = None) -> dict[str, torch.Tensor]:
        mel = torch.zeros((1, self._config.thinker.audio.num_mel_bins, padded or frames))
        mel[..., :frames] = torch.randn(mel[..., :frames].shape, generator=self._random)
        mask = torch.zeros((1, padded or frames), dtype=torch.int64)
        mask[:, :frames] = 1
        return {"input_features": mel, "feature_attention_mask": mask}

    def _patches(self, grid: torch.Tensor) -> torch.Tensor:
        vision = self._config.thinker.vision
        width = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
        return torch.randn((int(grid.prod()), width), generator=self._random)
