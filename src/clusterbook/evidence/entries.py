"""YAML files that are lists of entries, read so that each mistake names its file and line.

Claims, expectations and errata are written this way, one file a chapter, with a closed set of keys.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from ..errors import InputError


@dataclass(frozen=True)
class Entry:
    """One mapping of a YAML list, with the line that each key stands in."""

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

    def keys_within(self, allowed: Iterable[str], hint: Mapping[str, str] | None = None) -> None:
        """Refuse a key that is not allowed; *hint* explains some of those that people try."""
        allowed = sorted(allowed)
        for key in self.values:
            if key in allowed:
                continue
            if hint and key in hint:
                raise self.error(hint[key], key)
            raise self.error(_unknown(f"key {key!r} is not known", key, allowed), key)

    def required(self, keys: Iterable[str], because: str = "") -> None:
        """Refuse an entry that lacks one of the keys."""
        for key in keys:
            if key not in self.values:
                raise self.error(f"the key {key!r} is missing{because}")

    def text(self, key: str) -> str | None:
        """A sentence or a name; None when the key is absent."""
        value = self.values.get(key)
        if key in self.values and not (isinstance(value, str) and value.strip()):
            raise self.error(f"{key} must be text, not {value!r}", key)
        return value.strip() if isinstance(value, str) else None

    def number(self, key: str) -> float | None:
        """A finite number; None when the key is absent."""
        value = self.values.get(key)
        if key in self.values and not is_number(value):
            raise self.error(f"{key} must be a number, not {value!r}{_as_number(value)}", key)
        return value

    def positive(self, key: str) -> float | None:
        """A finite number that is not negative; None when the key is absent."""
        value = self.number(key)
        if value is not None and value < 0:
            raise self.error(f"{key} can't be negative, but is {value!r}", key)
        return value

    def word(self, key: str, allowed: Iterable[str]) -> str | None:
        """One of a closed list of words; None when the key is absent."""
        allowed = list(allowed)
        value = self.values.get(key)
        if key in self.values and value not in allowed:
            raise self.error(_unknown(f"{key} can't be {value!r}", str(value), allowed), key)
        return value


def read_folder(folder: Path, noun: str) -> Iterator[Entry]:
    """Every entry of every ``*.yaml`` file in a folder; the chapter is the file's name.

    Raises
    ------
    InputError
        For YAML that does not parse, an entry that is no mapping, a key that stands twice, an id
        that is missing, stands twice, or does not begin with its chapter's name.
    """
    for path in sorted(folder.glob("*.yaml")):
        yield from _with_ids(read_file(path, noun))


def read_file(path: Path, noun: str) -> list[Entry]:
    """The entries of one file, their ids not yet looked at."""
    file = "/".join(path.parts[-3:])
    try:
        text = path.read_text(encoding="utf-8")
        # Composing gives nodes, which know their lines; constructing a node gives its value.
        loader = yaml.SafeLoader(text)
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
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or "a character is not allowed"
        advice = "a text with ': ', '#', '<' or '>' in it needs quotes"
        raise InputError(f"{file}:{line}: not valid YAML: {problem} ({advice})") from error


def stamps(folder: Path) -> tuple[tuple[str, int], ...]:
    """What changes when a file of the folder does: a key for what was read from it."""
    return tuple((path.name, path.stat().st_mtime_ns) for path in sorted(folder.glob("*.yaml")))


def is_number(value: Any) -> bool:
    """Whether a value is a finite int or float; a bool is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def looks_like_number(value: Any) -> bool:
    """Whether a text spells a finite number."""
    try:
        return isinstance(value, str) and math.isfinite(float(value))
    except ValueError:
        return False


def _entry(loader: yaml.SafeLoader, node: yaml.Node, noun: str, chapter: str, file: str) -> Entry:
    if not isinstance(node, yaml.MappingNode):
        raise InputError(f"{file}:{_line(node)}: a {noun} must be a mapping of keys to values")
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for key_node, value_node in node.value:
        key = str(key_node.value)
        if key in values:
            raise InputError(f"{file}:{_line(key_node)}: the key {key!r} stands twice in a {noun}")
        try:
            values[key] = loader.construct_object(value_node, deep=True)
        except ValueError as error:
            raise InputError(f"{file}:{_line(value_node)}: {key} has no value: {error}") from error
        lines[key] = _line(key_node)
    return Entry(noun, chapter, file, _line(node), values, lines)


def _with_ids(entries: list[Entry]) -> list[Entry]:
    seen: dict[str, int] = {}
    for entry in entries:
        entry.required(["id"])
        name, prefix = entry.text("id"), entry.chapter.replace("_", "-") + "-"
        if not name.startswith(prefix) or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
            raise entry.error(
                f"an id begins with its chapter, {prefix!r}, and has only small letters, digits "
                "and single hyphens",
                "id",
            )
        if name in seen:
            raise entry.error(f"the id stands already in line {seen[name]}", "id")
        seen[name] = entry.lines["id"]
    return entries


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _unknown(text: str, name: str, allowed: list[str]) -> str:
    near = get_close_matches(name, allowed, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"{text}{hint} Known: {', '.join(allowed)}"


def _as_number(value: Any) -> str:
    """Advice for what YAML 1.1 reads as text although a person means a number, such as 1e-3."""
    if not looks_like_number(value):
        return ""
    number = float(value)
    return f"; write {number!r}" if "e" not in repr(number) else f"; write {number:.1e}"
