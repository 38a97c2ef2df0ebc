"""The architecture as imports: they point downward, and only a model's own package knows that model."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import voice_omni
from voice_omni import models
from voice_omni.models import registry
from voice_omni.pipeline.spec import PipelineSpec
from voice_omni.pipeline.topology import find_faults

ROOT = Path(voice_omni.__file__).parent


@dataclass(frozen=True)
class Import:
    """``module`` imports ``imported``; ``line`` tells where. Imports inside functions count too."""

    module: str
    imported: str
    line: int

    @property
    def package(self) -> str:
        return layer_of(self.module)

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.imported}"


def layer_of(module: str) -> str:
    """``voice_omni.pipeline.node`` -> ``pipeline``."""
    return module.split(".")[1] if "." in module else ""


def module_name(source: Path) -> str:
    parts = source.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(source): source for source in sorted(ROOT.rglob("*.py"))}


def imports_of(module: str) -> Iterator[Import]:
    source = MODULES[module]
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from (Import(module, alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: a relative import"
            assert node.module is not None
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                yield Import(module, inside if inside in MODULES else node.module, node.lineno)


IMPORTS = [found for module in MODULES for found in imports_of(module)]
OURS = [found for found in IMPORTS if found.imported.startswith("voice_omni.")]


def shown(found: list[Import]) -> str:
    return "\n".join(map(str, found))


# -- the layers --------------------------------------------------------------------------------------------------------

BELOW = {
    "proto": set(),
    "audio": set(),
    "relay": {"proto"},
    "weights": {"proto"},
    "engines": {"proto"},
    "model_runner": {"engines", "proto"},
    "scheduling": {"model_runner", "engines", "proto"},
    "config": {"pipeline", "scheduling", "session", "transports", "proto"},
    "pipeline": {"config", "scheduling", "relay", "proto"},
    "client": {"pipeline", "proto"},
    "realtime": {"client", "audio", "proto"},
    "session": {"realtime", "client", "audio", "weights", "proto"},
    "transports": {"session", "realtime", "audio", "proto"},
    "server": {"transports", "session", "realtime", "client", "config", "proto"},
    "models": {"model_runner", "engines", "pipeline", "weights", "audio", "proto"},
    "cli": {
        *("server", "transports", "session", "client", "pipeline", "config", "models"),
        *("weights", "relay", "audio", "proto"),
    },
}
"""What each package may import; everything else would point upward or sideways."""

DECLARATIONS = {
    "voice_omni.pipeline.spec",
    "voice_omni.scheduling.options",
    "voice_omni.session.options",
    "voice_omni.transports.webrtc.options",
}
"""Modules that only declare what there is to configure."""


def test_every_package_has_its_place_in_the_table() -> None:
    assert {layer_of(module) for module in MODULES} - {""} == set(BELOW)


def test_imports_point_downward() -> None:
    wrong = [
        found
        for found in OURS
        if found.package and layer_of(found.imported) not in BELOW[found.package] | {found.package}
    ]
    assert not wrong, shown(wrong)


def test_the_table_itself_has_no_cycles_but_that_of_the_configuration() -> None:
    """``config`` describes the layers and is read by them: it may touch their declarations only."""
    lower = {package: below - {"config"} for package, below in BELOW.items() if package != "config"}
    order: list[str] = []
    while len(order) < len(lower):
        free = [package for package in lower if package not in order and lower[package] <= set(order)]
        assert free, f"a cycle among {set(lower) - set(order)}"
        order += free
    described = [
        found for found in OURS if found.package == "config" and layer_of(found.imported) not in ("config", "proto")
    ]
    wrong = [found for found in described if found.imported not in DECLARATIONS]
    assert not wrong, shown(wrong)


# -- the model ---------------------------------------------------------------------------------------------------------


def test_nobody_outside_the_model_packages_imports_one() -> None:
    """The command line asks the registry; stage processes import what the configuration names."""
    wrong = [
        found
        for found in OURS
        if layer_of(found.imported) == "models"
        and found.package != "models"
        and not (found.package == "cli" and found.imported == "voice_omni.models.registry")
    ]
    assert not wrong, shown(wrong)


def test_model_packages_do_not_import_each_other() -> None:
    def owner(module: str) -> str:
        return ".".join(module.split(".")[:3])

    inside = [found for found in OURS if found.package == "models" and layer_of(found.imported) == "models"]
    wrong = [
        found
        for found in inside
        if found.module != "voice_omni.models.registry" and owner(found.module) != owner(found.imported)
    ]
    assert not wrong, shown(wrong)


def test_no_model_is_named_outside_its_package() -> None:
    """Not even as text in code: no branch anywhere asks which model is running."""
    packages = {info.name for info in ROOT.joinpath("models").iterdir() if info.is_dir() and info.name[0] != "_"}
    assert packages
    wrong = [
        f"{module}:{node.lineno} names {node.value!r}"
        for module, source in MODULES.items()
        if layer_of(module) not in ("models", "cli", "config")
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Constant) and node.value in packages
    ]
    assert not wrong, "\n".join(wrong)


def test_model_packages_know_of_the_pipeline_only_how_to_declare_one() -> None:
    wrong = [
        found
        for found in OURS
        if found.package == "models"
        and layer_of(found.imported) == "pipeline"
        and found.imported != "voice_omni.pipeline.spec"
    ]
    assert not wrong, shown(wrong)


def test_the_registry_finds_a_package_that_nobody_told_it_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new model is one folder."""
    folder = tmp_path / "found_by_itself"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "pipeline.py").write_text(
        "from dataclasses import replace\n"
        "from tests.support.toy import PIPELINE as TOY\n"
        "PIPELINE = replace(TOY, name='found')\n"
    )
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    try:
        assert registry.get("found").name == "found"
        assert "starter" in registry.pipelines()
    finally:
        for name in [name for name in sys.modules if name.startswith("voice_omni.models.found_by_itself")]:
            del sys.modules[name]


@pytest.mark.parametrize("name", sorted(registry.pipelines()))
def test_every_declared_pipeline_is_valid(name: str) -> None:
    spec = registry.get(name)
    assert isinstance(spec, PipelineSpec)
    assert find_faults(spec) == []


# -- stages and schedulers ---------------------------------------------------------------------------------------------

SCHEDULERS = {f"voice_omni.scheduling.{name}" for name in ("simple", "omni", "code2wav", "base", "build")}


def test_a_stage_does_not_know_the_type_of_its_scheduler() -> None:
    known = {found.imported for found in imports_of("voice_omni.pipeline.stage")}
    assert not known & SCHEDULERS
    assert "voice_omni.scheduling.interface" in known


def test_schedulers_do_not_know_each_other() -> None:
    kinds = {f"voice_omni.scheduling.{name}" for name in ("simple", "omni", "code2wav")}
    wrong = [found for found in OURS if found.module in kinds and found.imported in kinds]
    assert not wrong, shown(wrong)


def test_the_rest_of_the_program_gets_its_schedulers_from_the_factory() -> None:
    wrong = [
        found
        for found in OURS
        if found.package != "scheduling" and found.imported in SCHEDULERS - {"voice_omni.scheduling.build"}
    ]
    assert not wrong, shown(wrong)


# -- the world outside -------------------------------------------------------------------------------------------------

HOMES = {
    "zmq": {"pipeline"},
    "starlette": {"server", "transports"},
    "uvicorn": {"server", "transports", "cli"},
    "websockets": {"transports", "cli"},
    "aiortc": {"transports"},
    "aioice": {"transports"},
    "av": {"transports", "models"},
    "pylibsrtp": {"transports"},
    "PIL": {"models"},
    "safetensors": {"models"},
    "jinja2": {"models"},
    "tokenizers": {"models"},
    "socket": {"cli", "transports"},
    "mmap": {"relay"},
    "ctypes": {"relay"},
    "sglang": {"engines"},
    "torch": {"engines", "models", "relay"},
    "transformers": {"engines", "models"},
    "ctranslate2": {"engines", "models"},
    "onnxruntime": {"models", "session"},
    "onnx": {"models"},
    "gruut": {"models"},
    "gguf": {"models"},
    "soundfile": {"cli", "audio"},
    "sounddevice": {"cli"},
}
"""Which packages may use what comes from outside: sockets stay at the rim, inference libraries below the schedulers."""


@pytest.mark.parametrize("library", HOMES)
def test_libraries_stay_where_they_belong(library: str) -> None:
    wrong = [
        found for found in IMPORTS if found.imported.split(".")[0] == library and found.package not in HOMES[library]
    ]
    assert not wrong, shown(wrong)


def loaded_by(module: str) -> set[str]:
    """The top-level packages that a fresh interpreter holds after it has imported ``module``."""
    code = f"import sys, {module}; print(*{{name.split('.')[0] for name in sys.modules}})"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    return set(shown.stdout.split())


HEAVY = {
    "PIL",
    "aiortc",
    "av",
    "jinja2",
    "safetensors",
    "sglang",
    "tokenizers",
    "torch",
    "transformers",
    "ctranslate2",
    "onnxruntime",
    "onnx",
    "gguf",
    "gruut",
    "soundfile",
    "sounddevice",
}


def test_the_command_line_starts_without_any_inference_library() -> None:
    assert not loaded_by("voice_omni.cli.main") & HEAVY


def test_a_stage_process_starts_with_what_it_needs() -> None:
    """No model library before its stage asks for one, and nothing of the network side."""
    assert not loaded_by("voice_omni.pipeline.worker") & (HEAVY | {"starlette", "uvicorn", "websockets"})


def test_the_declarations_of_all_models_load_none_of_them() -> None:
    assert not loaded_by("voice_omni.models.registry") & HEAVY
    code = "import sys; from voice_omni.models import registry; registry.pipelines(); registry.weights();"
    code += " print(*{name.split('.')[0] for name in sys.modules})"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(shown.stdout.split()) & HEAVY
