"""The tree of everything that can be set for one pipeline, read from the settings' own types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType, UnionType
from typing import Any, Final, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect as kinds

from voice_omni.config.settings import (
    SCHEDULER_OPTIONS,
    SECRET,
    ProcessSettings,
    Settings,
    StageSettings,
    default_scheduler,
)
from voice_omni.pipeline.spec import PipelineSpec

Path: TypeAlias = tuple[str, ...]
REQUIRED: Final = msgspec.NODEFAULT


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value: its annotated type, its default (:data:`REQUIRED` if it has none) and its meaning."""

    type: Any
    default: Any
    meaning: str
    secret: bool = False
    """Whether its value is never shown."""

    @property
    def info(self) -> kinds.Type:
        info = kinds.type_info(self.type)
        while isinstance(info, kinds.Metadata):
            info = info.type
        return info

    @property
    def expects(self) -> str:
        """What a value must be, in words: ``a number from 0 to 2``."""
        return _words(self.info)


@dataclass(frozen=True, slots=True)
class Group:
    """A fixed set of keys; ``build`` makes the settings object out of their values."""

    build: type[Any]
    children: Mapping[str, Node]


@dataclass(frozen=True, slots=True)
class Named:
    """Keys that the user chooses, each with the same content."""

    child: Group


Node: TypeAlias = Leaf | Group | Named


def schema_of(spec: PipelineSpec) -> Group:
    """The schema of a pipeline's settings: the common ones, and each stage with its own options."""
    credits = _leaves(StageSettings)["credits"]
    stages = {
        stage.name: Group(
            StageSettings,
            MappingProxyType(
                {
                    "options": _group(stage.options),
                    "scheduler": _group(SCHEDULER_OPTIONS[stage.scheduler], default_scheduler(stage)),
                    "credits": replace(credits, default=stage.credits),
                }
            ),
        )
        for stage in spec.stages
    }
    parts: dict[str, Node] = {
        "processes": Named(_group(ProcessSettings)),
        "stages": Group(dict, MappingProxyType(stages)),
    }
    root = _group(Settings, parts=parts)
    if spec.checkpoint is not None:
        return root
    # There is nothing that a model could stand for.
    return replace(root, children={name: child for name, child in root.children.items() if name != "model"})


def leaves(node: Node, path: Path = ()) -> Iterator[tuple[Path, Leaf]]:
    """Every value below a node with its path; user-chosen names appear as ``NAME``."""
    match node:
        case Leaf():
            yield path, node
        case Group():
            for name, child in node.children.items():
                yield from leaves(child, (*path, name))
        case Named():
            yield from leaves(node.child, (*path, "NAME"))


def _group(cls: type[Any], instance: Any = REQUIRED, parts: Mapping[str, Node] = MappingProxyType({})) -> Group:
    """``instance`` holds the defaults if it is given, ``parts`` the children that the class alone does not tell."""
    children: dict[str, Node] = {}
    for name, leaf in _leaves(cls).items():
        if name in parts:
            children[name] = parts[name]
            continue
        if instance is not REQUIRED:
            leaf = replace(leaf, default=getattr(instance, name))
        if isinstance(leaf.type, type) and issubclass(leaf.type, msgspec.Struct):
            children[name] = _group(leaf.type, leaf.default)
        else:
            _check_readable(leaf, f"{cls.__name__}.{name}")
            children[name] = leaf
    return Group(cls, MappingProxyType(children))


def _leaves(cls: type[Any]) -> dict[str, Leaf]:
    """Every field of a class as if it were one value, with the default that the class says."""
    # Both look at the whole class, which takes long.
    hints, fields = get_type_hints(cls, include_extras=True), msgspec.structs.fields(cls)
    return {
        field.name: Leaf(
            hints[field.name],
            field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory(),
            _meaning(hints[field.name]),
            _secret(hints[field.name]),
        )
        for field in fields
    }


def _check_readable(leaf: Leaf, name: str) -> None:
    try:
        kinds.type_info(leaf.type)
    except TypeError as error:
        advice = "a range goes with the number alone: Annotated[int, Meta(ge=0)] | None"
        raise TypeError(f"{name} is no type that settings can be read into: {error}; {advice}") from error


def _meaning(hint: Any) -> str:
    """The description in the hint's ``Meta``, also in one of a union's members: ``Annotated[float, ...] | None``."""
    for meta in getattr(hint, "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.description:
            return meta.description
    members = get_args(hint) if get_origin(hint) in {Union, UnionType} else ()
    return next((meaning for member in members if (meaning := _meaning(member))), "")


def _secret(hint: Any) -> bool:
    metas = (meta for meta in getattr(hint, "__metadata__", ()) if isinstance(meta, msgspec.Meta))
    return any((meta.extra or {}).get(SECRET, False) for meta in metas)


def _words(info: kinds.Type) -> str:
    match info:
        case kinds.Metadata():
            return _words(info.type)
        case kinds.BoolType():
            return "true or false"
        case kinds.IntType():
            return "a whole number" + _range(info)
        case kinds.FloatType():
            return "a number" + _range(info)
        case kinds.StrType(pattern=str(pattern)):
            return f"text like {pattern}"
        case kinds.StrType(min_length=int(least)) if least > 0:
            return "text that is not empty"
        case kinds.StrType():
            return "text"
        case kinds.LiteralType():
            return "one of " + ", ".join(str(value) for value in info.values)
        case kinds.NoneType():
            return "null"
        case kinds.UnionType():
            return " or ".join(_words(member) for member in info.types)
        case kinds.VarTupleType() | kinds.ListType() | kinds.SetType() | kinds.FrozenSetType():
            empty = " that is not empty" if info.min_length else ""
            return f"a list{empty}, each {_words(info.item_type)}"
        case kinds.TupleType():
            return "a list of " + " and ".join(_words(member) for member in info.item_types)
        case kinds.DictType():
            return f"keys with values, each {_words(info.value_type)}"
        case _:
            return type(info).__name__.removesuffix("Type").lower()


def _range(info: kinds.IntType | kinds.FloatType) -> str:
    if info.ge is not None and info.le is not None:
        return f" from {_number(info.ge)} to {_number(info.le)}"
    bounds = [
        f"{word} {_number(bound)}"
        for word, bound in (("at least", info.ge), ("above", info.gt), ("at most", info.le), ("below", info.lt))
        if bound is not None
    ]
    return ", " + " and ".join(bounds) if bounds else ""


def _number(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"
