"""A configuration is what its file says, whoever wrote the file."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.released_qwen3_omni import CONFIG
from voice_omni.models.qwen3_omni.config import Rope, load_config, parse_config
from voice_omni.proto.errors import OmniError


def changed(path: str, value: Any = None) -> dict[str, Any]:
    """The released file with one field set to ``value``, or without it."""
    raw = copy.deepcopy(CONFIG)
    *parents, name = path.split(".")
    place = raw
    for parent in parents:
        place = place[parent]
    if value is None:
        del place[name]
    else:
        place[name] = value
    return raw


def test_the_released_file_is_understood() -> None:
    config = parse_config(CONFIG)
    assert config.thinker.text.rope == Rope(theta=1e6, mrope_section=(24, 20, 20))
    assert config.thinker.audio.n_window_infer == 800
    assert config.talker is not None
    assert config.talker.accept_hidden_layer == 24
    assert config.talker.speaker_id == {"chelsie": 2301, "ethan": 2302, "aiden": 2303}
    assert config.code2wav is not None
    assert config.code2wav.rope == Rope(theta=1e4)


def test_newer_writers_spell_the_rotary_parameters_differently() -> None:
    newer = copy.deepcopy(CONFIG)
    for decoder in (
        newer["thinker_config"]["text_config"],
        newer["talker_config"]["text_config"],
        newer["talker_config"]["code_predictor_config"],
        newer["code2wav_config"],
    ):
        scaling = decoder.pop("rope_scaling", None) or {"rope_type": "default"}
        decoder["rope_parameters"] = {**scaling, "rope_theta": decoder.pop("rope_theta")}
    newer["talker_config"]["text_config"]["num_local_experts"] = newer["talker_config"]["text_config"].pop(
        "num_experts"
    )
    assert parse_config(newer) == parse_config(CONFIG)


def test_a_file_that_the_library_wrote_is_understood(tiny: Path) -> None:
    config = load_config(tiny)
    assert config.talker is not None
    assert config.talker.text.num_experts == 8
    assert config.thinker.text.rope.mrope_section == (4, 2, 2)


def test_a_checkpoint_may_only_write() -> None:
    config = parse_config(CONFIG | {"enable_audio_output": False})
    assert config.talker is None
    assert config.code2wav is None


@pytest.mark.parametrize(
    "path",
    [
        "im_end_token_id",
        "thinker_config.audio_config.n_window_infer",
        "thinker_config.text_config.rope_theta",
        "talker_config.accept_hidden_layer",
        "code2wav_config.sliding_window",
    ],
)
def test_a_missing_field_is_an_error_and_no_default(path: str) -> None:
    with pytest.raises(OmniError, match=r"missing required field") as caught:
        parse_config(changed(path))
    assert caught.value.code == "weights_corrupt"
    assert caught.value.info.param == path.replace("rope_theta", "rope")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model_type", "qwen2_5_omni"),
        ("thinker_config.text_config.rope_scaling.rope_type", "yarn"),
        ("thinker_config.text_config.rope_scaling.interleaved", False),
        ("thinker_config.text_config.rope_scaling.mrope_section", [24, 20, 21]),
        ("thinker_config.text_config.mlp_only_layers", [0]),
        ("thinker_config.audio_config.n_window_infer", 850),
        ("thinker_config.audio_config.output_dim", 3584),
        ("thinker_config.vision_config.hidden_act", "gelu"),
        ("talker_config.text_config.attention_bias", True),
        ("talker_config.code_predictor_config.num_code_groups", 32),
        ("code2wav_config.num_key_value_heads", 8),
    ],
)
def test_what_would_give_wrong_results_is_refused(path: str, value: Any) -> None:
    with pytest.raises(OmniError) as caught:
        parse_config(changed(path, value))
    assert caught.value.code == "unsupported_model"
    assert caught.value.info.param is not None
    assert path.rpartition(".")[2] in caught.value.info.param


def test_a_field_of_another_type_is_named() -> None:
    with pytest.raises(OmniError) as caught:
        parse_config(changed("code2wav_config.sliding_window", "wide"))
    assert caught.value.code == "weights_corrupt"
    assert caught.value.info.param == "code2wav_config.sliding_window"


def test_a_folder_without_a_configuration_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(OmniError, match=r"config\.json") as caught:
        load_config(tmp_path)
    assert caught.value.code == "weights_corrupt"
    (tmp_path / "config.json").write_text(json.dumps(CONFIG)[:100])
    with pytest.raises(OmniError, match=r"config\.json"):
        load_config(tmp_path)
