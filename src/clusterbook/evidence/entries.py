"""YAML files that are lists of entries, validated so that each mistake names its file and line.

Claims, expectations, errata and the lineage of the code are written this way. Each kind of entry is
a pydantic dataclass; what it refuses is explained here, with "did you mean" for keys and words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import ConfigDict, ValidationError, ValidationInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from ..errors import InputError

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, populate_by_name=True,
                    str_strip_whitespace=True, str_min_length=1)
Seen = Literal["paper", "repository", "second-hand"]
FIELD = {"in": "holds_in"}      # key → field, where the key can't be the name of one
Model = TypeVar("Model")


@dataclass(frozen=True)
class Entry:
    """One mapping of a YAML list, with the line of each key."""

    noun: str
    chapter: str
    file: str
    line: int
    values: Mapping[str, Any]
    lines: Mapping[str, int]

    def error(self, text: str, key: str | None = None) -> InputError:
        """The error for this entry; it points at the key's line, else at the entry's first."""
        name = self.values.get("id")
        who = f"{self.noun} {name!r}" if isinstance(name, str) else f"a {self.noun}"
        return InputError(f"{self.file}:{self.lines.get(key, self.line)}: {who}: {text}")

    def read(self, kind: type[Model], hints: Mapping[str, str] | None = None, **more: Any) -> Model:
        """The entry as a *kind*; *more* are fields that the file does not give.

        Raises
        ------
        InputError
            For the first mistake, with its file and line; *hints* explains keys that people try.
        """
        fields = kind.__pydantic_fields__.items()
        known = [field.alias or name for name, field in fields if name not in more]
        for key in self.values:
            if key not in known:
                unknown_key = did_you_mean(f"key {key!r} is not known", key, sorted(known))
                raise self.error((hints or {}).get(key, unknown_key), key)
        try:
            found = kind(**self.values, **more)
        except ValidationError as error:
            raise self._explained(error.errors()) from None
        for key, value in self.values.items():
            if value is None:
                raise self.error(f"{key} has no value", key)
        return found

    def _explained(self, mistakes: Sequence[ErrorDetails]) -> InputError:
        missing = [found["loc"][0] for found in mistakes if found["type"] == "missing"]
        if missing:
            return self.error(f"the key {missing[0]!r} is missing")
        key = mistakes[0]["loc"][0] if mistakes[0]["loc"] else None
        # Of a field that may be one of several types, the last one's mistake says the most.
        last = [found for found in mistakes if found["loc"][:1] == mistakes[0]["loc"][:1]][-1]
        value, context = self.values.get(key), last.get("ctx", {})
        match last["type"]:
            case "value_error":
                text = str(context["error"])
            case "entry":
                text, key = context["text"], context["key"]
            case "literal_error":
                allowed = re.findall("'([^']*)'", context["expected"])
                text = did_you_mean(f"{key} can't be {value!r}", str(value), allowed)
            case "tuple_type":
                text = f"{key} must be a list, not {value!r}"
            case "string_type" | "string_too_short":
                text = f"{key} must be text, not {value!r}"
            case _:
                text = f"{key} must be a number, not {value!r}{as_number(value)}"
        return self.error(text, key)


def mistake(text: str, key: str | None = None) -> PydanticCustomError:
    """What a validator of a whole entry raises; the error points at the key's line."""
    return PydanticCustomError("entry", "{text}", {"text": text, "key": key})


def need(entry: object, keys: Iterable[str], because: str) -> None:
    """Refuse an entry that lacks one of the keys; for validators."""
    for key in keys:
        if getattr(entry, FIELD.get(key, key)) is None:
            raise mistake(f"the key {key!r} is missing{because}")


def not_negative(value: float | None, info: ValidationInfo) -> float | None:
    """A validator of numbers such as tolerances."""
    if value is not None and value < 0:
        raise ValueError(f"{info.field_name} can't be negative, but is {value!r}")
    return value


def as_tuple(value: Any) -> Any:
    """A validator, to be run first, of what YAML and JSON have as lists."""
    return tuple(value) if isinstance(value, list) else value


def read_folder(folder: Path, noun: str) -> Iterator[Entry]:
    """Every entry of every ``*.yaml`` file in a folder; the chapter is the file's name.

    Raises
    ------
    InputError
        For invalid YAML, an entry that is no mapping, a duplicate key, and an id that is missing,
        duplicate, or does not begin with its chapter's name.
    """
    for path in sorted(folder.glob("*.yaml")):
        lines: dict[str, int] = {}
        for entry in read_file(path, noun):
            name, prefix = entry.values.get("id"), path.stem.replace("_", "-") + "-"
            if "id" not in entry.values:
                raise entry.error("the key 'id' is missing")
            if not re.fullmatch(rf"{re.escape(prefix)}[a-z0-9]+(-[a-z0-9]+)*", str(name)):
                raise entry.error(f"an id begins with its chapter, {prefix!r}, and has only small "
                                  "letters, digits and single hyphens", "id")
            if name in lines:
                raise entry.error(f"duplicate id (first on line {lines[name]})", "id")
            lines[name] = entry.lines["id"]
            yield entry


def read_file(path: Path, noun: str) -> list[Entry]:
    """The entries of one file, not yet validated."""
    file = "/".join(path.parts[-3:])
    try:
        # Composing gives nodes, which know their lines; constructing a node gives its value.
        loader = yaml.SafeLoader(path.read_text(encoding="utf-8"))
        root = loader.get_single_node()
        if root is None:
            return []
        if not isinstance(root, yaml.SequenceNode):
            raise InputError(f"{file}:{_line(root)}: the file must be a list of {noun}s")
        return [_entry(loader, node, noun, path.stem, file) for node in root.value]
    except UnicodeDecodeError as error:
        raise InputError(f"{file}:1: the file is not UTF-8 text ({error.reason})") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or "a character is not allowed"
        raise InputError(f"{file}:{mark.line + 1 if mark else 1}: not valid YAML: {problem} "
                         "(a text with ': ', '#', '<' or '>' in it needs quotes)") from error


def stamps(folder: Path) -> tuple[tuple[str, int], ...]:
    """Names and times of a folder's files: a key for caching what was read from them."""
    return tuple((path.name, path.stat().st_mtime_ns) for path in sorted(folder.glob("*.yaml")))


def is_number(value: Any) -> bool:
    """Whether a value is a finite int or float; a bool is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def did_you_mean(text: str, name: str, allowed: Sequence[str]) -> str:
    """*text* with the nearest of the allowed words, and all of them."""
    near = get_close_matches(name, allowed, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"{text}{hint} Known: {', '.join(allowed)}"


def _entry(loader: yaml.SafeLoader, node: yaml.Node, noun: str, chapter: str, file: str) -> Entry:
    if not isinstance(node, yaml.MappingNode):
        raise InputError(f"{file}:{_line(node)}: a {noun} must be a mapping of keys to values")
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for key_node, value_node in node.value:
        key = str(key_node.value)
        if key in values:
            raise InputError(f"{file}:{_line(key_node)}: duplicate key {key!r} in a {noun}")
        try:
            values[key] = loader.construct_object(value_node, deep=True)
        except ValueError as error:
            raise InputError(f"{file}:{_line(value_node)}: {key} has no value: {error}") from error
        lines[key] = _line(key_node)
    return Entry(noun, chapter, file, _line(node), values, lines)


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def as_number(value: Any) -> str:
    """Advice for what YAML 1.1 reads as text although a person means a number, such as 1e-3."""
    try:
        number = float(value) if isinstance(value, str) else math.nan
    except ValueError:
        return ""
    if not math.isfinite(number):
        return ""
    return f"; write {number!r}" if "e" not in repr(number) else f"; write {number:.1e}"
