"""Reading one source against the schema: what it assigns, and everything that is wrong with it."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml
from msgspec import inspect as kinds

from voice_omni.config.schema import Group, Leaf, Named, Node, Path
from voice_omni.config.sources import Origin, Said

HIDDEN: Final = "(hidden)"
"""Stands for a secret value wherever values are shown."""
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True, slots=True)
class Assigned:
    """A value that a source gives to one leaf."""

    path: Path
    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a source says and that cannot be."""

    path: Path
    what: str
    origin: Origin

    def __str__(self) -> str:
        return f"{self.origin}: {'.'.join(self.path) or 'the configuration'} {self.what}"


Finding = Assigned | Problem


def read(schema: Group, said: Said, names: Collection[Path] = ()) -> Iterator[Finding]:
    """Everything that one statement assigns or gets wrong.

    ``names`` are the user-chosen names known so far, as paths, for sources that do not keep the case of letters.
    """
    node: Node = schema
    path: Path = ()
    for depth, part in enumerate(said.path):
        match node:
            case Leaf():
                yield Problem(said.path, f"does not exist: {_dotted(path)} is {node.expects}", said.origin)
                return
            case Group(children=children):
                name = _folded(part, children) if said.folds else part
                if name not in children:
                    rest = (part, *said.path[depth + 1 :])
                    unknown = (*path, *(piece.lower() if said.folds else piece for piece in rest))
                    yield Problem(unknown, _unknown(path, name, children), said.origin)
                    return
                node, path = children[name], (*path, name)
            case Named(child=child):
                known = [name[-1] for name in names if name[:-1] == path]
                node, path = child, (*path, _folded(part, known) if said.folds else part)
    yield from _read_node(node, said.node, path, said.origin, said.text)


def _read_node(node: Node, given: yaml.Node, path: Path, origin: Origin, text: str | None) -> Iterator[Finding]:
    origin = origin.at(given)
    match node:
        case Leaf():
            yield _read_leaf(node, given, path, origin, text)
        case Group() | Named():
            if not isinstance(given, yaml.MappingNode):
                if not _is_null(given):
                    yield Problem(path, f"is {_shown(given)}; it must be keys with values", origin)
                return
            yield from _read_mapping(node, given, path, origin)


def _read_mapping(node: Group | Named, given: yaml.MappingNode, path: Path, origin: Origin) -> Iterator[Finding]:
    seen: set[str] = set()
    for key, value in given.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else _shown(key)
        here = origin.at(key)
        if name in seen:
            yield Problem((*path, name), "stands here a second time", here)
        elif isinstance(node, Named):
            yield from _read_node(node.child, value, (*path, name), origin, None)
        elif name in node.children:
            yield from _read_node(node.children[name], value, (*path, name), origin, None)
        else:
            yield Problem((*path, name), _unknown(path, name, node.children), here)
        seen.add(name)


def _read_leaf(leaf: Leaf, given: yaml.Node, path: Path, origin: Origin, text: str | None) -> Finding:
    try:
        value = msgspec.convert(_plain(leaf, given, text), leaf.type, strict=False)
    except (msgspec.ValidationError, yaml.YAMLError):
        shown = HIDDEN if leaf.secret else _shown(given)
        return Problem(path, f"is {shown}; it must be {leaf.expects}", origin)
    if isinstance(value, float) and not math.isfinite(value):
        return Problem(path, f"is {_shown(given)}; it must be finite", origin)
    return Assigned(path, value, origin)


def _plain(leaf: Leaf, given: yaml.Node, text: str | None) -> Any:
    """What stands in the source, before its type is enforced.

    The schema decides the type, not YAML's guess: ``voice: no`` is a text and ``1e-3`` a number.
    """
    if _is_null(given) and _takes(leaf.info, kinds.NoneType):
        return None
    if text is not None and _takes(leaf.info, kinds.StrType):
        return text
    if not isinstance(given, yaml.ScalarNode):
        return _construct(given)
    return None if _is_null(given) else given.value


def _construct(given: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(given)
    finally:
        loader.dispose()


def _takes(info: kinds.Type, kind: type[kinds.Type]) -> bool:
    while isinstance(info, kinds.Metadata):
        info = info.type
    if isinstance(info, kinds.UnionType):
        return any(_takes(member, kind) for member in info.types)
    return isinstance(info, kind)


def _is_null(given: yaml.Node) -> bool:
    return isinstance(given, yaml.ScalarNode) and given.style is None and given.value in _NULLS


def _shown(given: yaml.Node) -> str:
    if _is_null(given):
        return "empty"
    if isinstance(given, yaml.ScalarNode):
        return f"'{_short(given.value)}'"
    return _short(str(_construct(given))) if isinstance(given, yaml.SequenceNode) else "a mapping"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _unknown(path: Path, name: str, known: Iterable[str]) -> str:
    return f"does not exist; {suggestion(name, known, f'{_dotted(path)} has')}"


def suggestion(name: str, known: Iterable[str], lead: str) -> str:
    """``did you mean 'x'?``, or the whole choice after ``lead``."""
    choice = list(known)
    close = difflib.get_close_matches(name, choice, n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else f"{lead} {', '.join(sorted(choice))}"


def _folded(name: str, known: Iterable[str]) -> str:
    return next((other for other in known if other.lower() == name.lower()), name.lower())


def _dotted(path: Path) -> str:
    return ".".join(path) or "the top level"
