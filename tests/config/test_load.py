"""Resolving settings: which source wins, what is remembered about it, and what an error says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from voice_omni.config import default_settings, load, pipeline_name
from voice_omni.pipeline.spec import PipelineSpec
from voice_omni.proto.errors import OmniError
from voice_omni.scheduling.options import Code2WavOptions, OmniOptions

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "duo.yaml"
        path.write_text(text)
        return path

    return write


def error_of(spec: PipelineSpec, path: Path | None, *overrides: str, **environ: str) -> OmniError:
    with pytest.raises(OmniError) as caught:
        load(spec, path, overrides, environ)
    assert caught.value.code == "invalid_config"
    return caught.value


# Defaults


def test_without_sources_the_defaults_hold_and_say_so(spec: PipelineSpec) -> None:
    resolved = load(spec, None, (), {})
    assert resolved.settings == default_settings(spec)
    assert {str(value.origin) for value in resolved.values} == {"default"}


def test_by_default_every_stage_has_a_process_of_its_own(spec: PipelineSpec) -> None:
    processes = load(spec, None, (), {}).settings.processes
    assert {name: process.stages for name, process in processes.items()} == {
        "thinker": ("thinker",),
        "talker": ("talker",),
    }


def test_a_stage_declares_its_own_credits(spec: PipelineSpec) -> None:
    stages = load(spec, None, (), {}).settings.stages
    assert {name: stage.credits for name, stage in stages.items()} == {"thinker": 16, "talker": 4}


def test_each_stage_has_the_options_of_its_scheduler_kind(spec: PipelineSpec) -> None:
    stages = load(spec, None, (), {}).settings.stages
    assert isinstance(stages["thinker"].scheduler, OmniOptions)
    assert isinstance(stages["talker"].scheduler, Code2WavOptions)


# Precedence and provenance


def test_the_command_line_wins_over_the_environment_over_the_file(spec: PipelineSpec, write: Write) -> None:
    path = write("server:\n  port: 1\n  host: file\n  open_to_network: true\nlimits:\n  max_requests: 3\n")
    resolved = load(
        spec,
        path,
        ["server.port=3"],
        {"VOICE_OMNI__SERVER__PORT": "2", "VOICE_OMNI__SERVER__HOST": "environment", "VOICE_OMNI_CACHE": "/elsewhere"},
    )
    assert resolved.settings.server.port == 3
    assert resolved.settings.server.host == "environment"
    assert resolved.settings.limits.max_requests == 3
    assert str(resolved.origin("server.port")) == "command line"
    assert str(resolved.origin("server.host")) == "environment variable VOICE_OMNI__SERVER__HOST"
    assert str(resolved.origin("limits.max_requests")) == f"{path}:6"
    assert str(resolved.origin("server.shutdown_s")) == "default"


def test_of_two_overrides_the_later_one_wins(spec: PipelineSpec) -> None:
    assert load(spec, None, ["server.port=1", "server.port=2"], {}).settings.server.port == 2


def test_a_file_lays_the_stages_out_as_a_whole(spec: PipelineSpec, write: Write) -> None:
    resolved = load(spec, write("processes:\n  all:\n    stages: [thinker, talker]\n    inline: true\n"), (), {})
    assert list(resolved.settings.processes) == ["all"]
    assert resolved.settings.process_of("talker") == "all"


def test_an_override_changes_the_layout_that_stands(spec: PipelineSpec) -> None:
    resolved = load(spec, None, ["processes.talker.replicas=2"], {"VOICE_OMNI__PROCESSES__THINKER__THREADS": "1"})
    assert resolved.settings.processes["talker"].replicas == 2
    assert resolved.settings.processes["thinker"].threads == 1


def test_the_pipeline_is_known_before_its_settings_are(write: Write) -> None:
    path = write("pipeline: duo\nstages:\n  unknown_yet: {}\n")
    assert pipeline_name(None, (), {}) == "starter"
    assert pipeline_name(path, (), {}) == "duo"
    assert pipeline_name(path, ["pipeline=trio"], {}) == "trio"


# How values are written


@pytest.mark.parametrize("text", ["no", "1.50", "'quoted'", "null", "You are: [kind]", "[a, b]", ""])
def test_a_text_stays_as_it_is_typed_on_the_command_line(spec: PipelineSpec, text: str) -> None:
    settings = load(spec, None, [f"stages.thinker.options.system_prompt={text}"], {}).settings
    assert settings.stages["thinker"].options.system_prompt == text


def test_the_settings_decide_the_type_of_a_plain_value(spec: PipelineSpec, write: Write) -> None:
    options = "{system_prompt: no, voice: 1.50, temperature: 1e-3, sizes: [3, 4]}"
    thinker = load(spec, write(f"stages:\n  thinker:\n    options: {options}\n"), (), {}).settings.stages["thinker"]
    assert thinker.options.system_prompt == "no"
    assert thinker.options.voice == "1.50"
    assert thinker.options.temperature == 0.001
    assert thinker.options.sizes == (3, 4)


def test_null_takes_an_optional_value_back(spec: PipelineSpec, write: Write) -> None:
    path = write("stages:\n  thinker:\n    options:\n      voice: anna\n")
    assert load(spec, path, (), {}).settings.stages["thinker"].options.voice == "anna"
    overridden = load(spec, path, ["stages.thinker.options.voice=null"], {})
    assert overridden.settings.stages["thinker"].options.voice is None


def test_a_whole_group_can_be_set_at_once(spec: PipelineSpec) -> None:
    server = load(spec, None, ["server={host: '::1', port: 7}"], {}).settings.server
    assert (server.host, server.port) == ("::1", 7)


def test_an_empty_file_and_empty_groups_say_nothing(spec: PipelineSpec, write: Write) -> None:
    assert load(spec, write("# nothing\n"), (), {}).settings == default_settings(spec)
    assert load(spec, write("processes:\nserver:\n"), (), {}).settings == default_settings(spec)


# Errors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("server: {port: 99999}", "server.port is '99999'; it must be a whole number from 0 to 65535"),
        ("server: {port: }", "server.port is empty; it must be a whole number from 0 to 65535"),
        ("server: 8000", "server is '8000'; it must be keys with values"),
        ("[1]", "the configuration is [1]; it must be keys with values"),
        ("sever: {port: 1}", "sever does not exist; did you mean 'server'?"),
        ("xyz: 1", "xyz does not exist; the top level has limits, pipeline, processes, server, session, stages"),
        ("stages: {thinkr: {}}", "stages.thinkr does not exist; did you mean 'thinker'?"),
        ("limits: {request_deadline_s: .inf}", "limits.request_deadline_s is '.inf'; it must be a number, above 0"),
        ("limits: {request_deadline_s: inf}", "limits.request_deadline_s is 'inf'; it must be finite"),
        ("server: {port: 1, port: 2}", "server.port stands here a second time"),
        ("processes: {a: {replicas: 1}}", "processes.a.stages is missing; it must be a list that is not empty"),
        ("pipeline: trio", "pipeline is 'trio'; it must be 'duo', the pipeline that runs"),
    ],
)
def test_an_error_names_the_place_the_key_the_value_and_what_is_right(
    spec: PipelineSpec, write: Write, text: str, message: str
) -> None:
    path = write(text)
    assert f"{path}:1: {message}" in str(error_of(spec, path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("temperature: warm", "temperature is 'warm'; it must be a number from 0 to 2"),
        ("mode: slow", "mode is 'slow'; it must be one of exact, fast"),
        ("sizes: [1, b]", "sizes is [1, 'b']; it must be a list, each a whole number"),
        ("system_prompt: ", "system_prompt is empty; it must be text"),
        ("tempreature: 1", "tempreature does not exist; did you mean 'temperature'?"),
    ],
)
def test_a_models_own_options_are_checked_alike(spec: PipelineSpec, write: Write, options: str, message: str) -> None:
    path = write(f"stages:\n  thinker:\n    options:\n      {options}\n")
    assert str(error_of(spec, path)) == f"{path}:4: stages.thinker.options.{message}"


def test_all_problems_are_reported_at_once(spec: PipelineSpec, write: Write) -> None:
    path = write("server:\n  port: -1\n  hots: x\n")
    error = error_of(spec, path, "limits.max_requests=many", VOICE_OMNI__SERVER__PROT="1")
    assert str(error).splitlines() == [
        "4 problems in the configuration:",
        f"  {path}:2: server.port is '-1'; it must be a whole number from 0 to 65535",
        f"  {path}:3: server.hots does not exist; did you mean 'host'?",
        "  environment variable VOICE_OMNI__SERVER__PROT: server.prot does not exist; did you mean 'port'?",
        "  command line: limits.max_requests is 'many'; it must be a whole number, at least 1",
    ]
    assert error.info.param == "server.port"


def test_settings_that_do_not_fit_together_name_their_source(spec: PipelineSpec) -> None:
    error = error_of(spec, None, "limits.hang_ms=100")
    assert str(error).startswith("command line: limits does not fit together: hang_ms is 100 and heartbeat_ms 100")


def test_an_override_needs_a_key_and_a_value(spec: PipelineSpec) -> None:
    assert "'server.port' on the command line: it must be KEY=VALUE" in str(error_of(spec, None, "server.port"))


def test_an_override_cannot_go_below_a_value(spec: PipelineSpec) -> None:
    error = error_of(spec, None, "server.port.number=1")
    assert "server.port.number does not exist: server.port is a whole number" in str(error)


def test_a_file_that_is_no_yaml_names_the_line(spec: PipelineSpec, write: Write) -> None:
    path = write("server:\n  port: [1\n")
    assert f"{path}:3: not valid YAML" in str(error_of(spec, path))


def test_a_missing_file_is_named(spec: PipelineSpec, tmp_path: Path) -> None:
    error = error_of(spec, tmp_path / "absent.yaml")
    assert str(error) == f"cannot read the configuration {tmp_path}/absent.yaml: No such file or directory"


def test_a_misplaced_stage_names_the_line(spec: PipelineSpec, write: Write) -> None:
    path = write("processes:\n  a:\n    stages: [thinker, tlker]\n")
    assert str(error_of(spec, path)).splitlines()[1:] == [
        f"  {path}:3: processes.a.stages names 'tlker', which is no stage; did you mean 'talker'?",
        f"  {path}:3: processes leaves out the stage 'talker'; every stage needs a process",
    ]
