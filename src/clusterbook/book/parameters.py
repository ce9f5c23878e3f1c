"""A chapter's parameters: read from its notebook, checked before anything runs.

The cell tagged ``parameters`` holds one literal a line::

    epochs: int = 40  # passes over the training data | paper: 5 | more: higher accuracy, slower

It is read by `ast`, never executed. Papermill only logs a line when a name is unknown and takes a
value of any type; here a wrong name or a wrong type is an error before the first cell runs.
"""

from __future__ import annotations

import ast
import io
import math
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import nbformat

from .. import paths
from ..errors import InputError, unknown
from .reading import read_notebook, read_yaml

MOST_VALUES = 10_000    # of a range, and runs of a command: more are a slip of the keyboard
_LARGEST = 2**63 - 1    # what numpy and torch hold
_TYPES = {"int": int, "float": float, "str": str, "bool": bool, "list": list, "None": None}


@dataclass(frozen=True)
class Parameter:
    """One line of a parameters cell."""

    name: str
    type: Any              # int, list[float], str | None …
    default: Any
    meaning: str
    paper: str             # the value in the paper, in words; "—" where it has none
    effect: str            # what to expect when it is changed


def notebook_path(chapter: str) -> Path:
    """The notebook of a chapter or of an executable page such as the scorecard.

    Raises
    ------
    InputError
        If there is none; it names the nearest chapter.
    """
    for folder in ("book", "notebooks"):
        found = {path.stem: path for path in (paths.root() / folder).glob("*.ipynb")}
        if chapter in found:
            return found[chapter]
    raise unknown("chapter", chapter, paths.chapters())


def parameters_cell(notebook: nbformat.NotebookNode) -> str | None:
    """The source of the cell tagged ``parameters``, or None where there is none.

    Raises InputError where there are several: papermill takes the first and says nothing.
    """
    tagged = [c.source for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    if len(tagged) > 1:
        raise InputError(f"{len(tagged)} cells are tagged 'parameters'; leave the tag on one")
    return tagged[0] if tagged else None


def read(chapter: str) -> dict[str, Parameter]:
    """Every parameter of a chapter, in the order of its cell; a page around it has none."""
    path = notebook_path(chapter)
    notebook = read_notebook(path)
    try:
        source = parameters_cell(notebook)
        if source is None and path.parent.name != "book":
            raise InputError("no cell is tagged 'parameters'")
        return parse(source or "")
    except InputError as error:
        raise InputError(f"{path.name}, parameters cell: {error}") from None


def parse(source: str) -> dict[str, Parameter]:
    """Read a parameters cell without running it.

    Examples
    --------
    >>> parse("epochs: int = 5  # passes over the data | paper: 5 | slower")["epochs"].meaning
    'passes over the data'
    """
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise InputError(f"line {error.lineno}: not Python: {error.msg}") from None
    except _UNREADABLE:
        raise InputError("not Python that can be read: a null byte, or nested too deep") from None
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    found: dict[str, Parameter] = {}
    for node in body:
        line = f"line {node.lineno}"
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
                and node.value):
            raise InputError(f"{line}: expected 'name: type = literal  "
                             "# meaning | paper: … | effect'")
        name = node.target.id
        try:
            default = ast.literal_eval(node.value)
        except (TypeError, *_UNREADABLE):
            raise InputError(f"{line}: {name} must be a literal, not something derived") from None
        parts = [part.strip() for part in comments.get(node.end_lineno, "").split("|")]
        if len(parts) != 3 or not parts[1].startswith("paper:") or not all(parts):
            raise InputError(f"{line}: {name} needs a comment 'meaning | paper: value | effect'")
        if name in found:
            raise InputError(f"{line}: {name} stands twice")
        expected = _type(node.annotation, line)
        found[name] = Parameter(name, expected, _default(expected, default, f"{line}: {name}"),
                                parts[0], parts[1].removeprefix("paper:").strip(), parts[2])
    return found


def _default(expected: Any, default: Any, where: str) -> Any:
    # The notebook itself runs with what stands there, so a text is no number here.
    try:
        if (value := _convert(expected, default)) == default:
            return value
    except ValueError:
        pass
    raise InputError(f"{where} is to be {type_name(expected)}, but its default {_shown(default)} "
                     f"is {_a(default)}")


def _type(node: ast.expr, line: str) -> Any:
    match node:
        case ast.Name(id=name) if name in _TYPES and name != "list":
            return _TYPES[name]
        case ast.Constant(value=None):
            return None
        case ast.Subscript(value=ast.Name(id="list"), slice=inner):
            return list[_type(inner, line)]
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return _type(left, line) | _type(right, line)
    raise InputError(f"{line}: the type {ast.unparse(node)!r} is not one of int, float, str, bool, "
                     "list[…] or a union of them with None")


def type_name(expected: Any) -> str:
    """A type as the parameters cell writes it."""
    if isinstance(expected, UnionType):
        return " | ".join(type_name(part) for part in get_args(expected))
    if get_origin(expected) is list:
        return f"list[{type_name(get_args(expected)[0])}]"
    return "None" if expected in (None, NoneType) else expected.__name__


def convert(parameter: Parameter, value: Any) -> Any:
    """The value in the parameter's own type.

    A whole number serves as a float, and YAML 1.1's ``1e-3`` (a string there) as the number that
    it looks like; nothing else is bent.

    Raises
    ------
    InputError
        If the value has another type.
    """
    try:
        return _convert(parameter.type, value)
    except ValueError:
        raise InputError(
            f"{parameter.name} takes {type_name(parameter.type)}, for example "
            f"{parameter.default!r}; {_shown(value)} is {_a(value)}"
        ) from None


def _convert(expected: Any, value: Any) -> Any:
    if isinstance(expected, UnionType):
        for part in get_args(expected):
            try:
                return _convert(part, value)
            except ValueError:
                continue
    elif expected in (None, NoneType):
        if value is None:
            return None
    elif get_origin(expected) is list:
        if isinstance(value, (list, tuple)):
            return [_convert(get_args(expected)[0], item) for item in value]
    elif expected is float:
        if isinstance(value, (int, float, str)) and not isinstance(value, bool) and (
                not _too_large(value)):
            number = float(value)
            if math.isfinite(number):
                return number
    elif type(value) is expected and not _too_large(value):
        return value
    raise ValueError


def _too_large(value: Any) -> bool:
    return isinstance(value, int) and abs(value) > _LARGEST


def _shown(value: Any) -> str:
    """A value as an error quotes it: not longer than a line."""
    try:
        text = repr(value)
    except ValueError:                  # Python prints no integer of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:59]}…"


def _a(value: Any) -> str:
    if _too_large(value):
        return "too large: whole numbers end at 2**63 - 1"
    noun = type(value).__name__
    return {"NoneType": "None", "str": "a text", "int": "a whole number", "float": "a number",
            "bool": "a truth value", "list": "a list"}.get(noun, noun)


def from_text(parameter: Parameter, text: str) -> Any:
    """What somebody typed after ``-p NAME``, in the parameter's type.

    A list may be written with or without brackets, whole numbers also as a range: ``0-4``.

    Examples
    --------
    >>> seeds = Parameter("seeds", list[int], [], "", "", "")
    >>> from_text(seeds, "0-2,7")
    [0, 1, 2, 7]
    """
    try:
        return _from_text(parameter.type, text)
    except InputError:
        raise
    except ValueError:
        return convert(parameter, _literal(text))


# What parsing raises beside SyntaxError: for null bytes, and for nesting that is too deep.
_UNREADABLE = (ValueError, RecursionError, MemoryError)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (TypeError, SyntaxError, *_UNREADABLE):
        return {"true": True, "false": False, "none": None, "null": None}.get(text.lower(), text)


def _from_text(expected: Any, text: str) -> Any:
    value = _literal(text)
    if isinstance(expected, UnionType):
        # Any text is a str, so that part is tried last.
        for part in sorted(get_args(expected), key=lambda part: part is str):
            try:
                return _from_text(part, text)
            except InputError:
                raise
            except ValueError:
                continue
    if expected is str:
        return value if isinstance(value, str) else text
    if get_origin(expected) is list:
        if isinstance(value, list):
            return _convert(expected, value)
        kind = get_args(expected)[0]
        inside = text.strip().removeprefix("[").removesuffix("]")
        items = [item.strip() for item in inside.split(",") if item.strip()]
        return [_from_text(kind, one) for item in items
                for one in (seed_range(item) if kind is int else [item])]
    return _convert(expected, value)


def seed_range(text: str) -> list[str]:
    """``"2-4"`` as ``["2", "3", "4"]``; anything else as itself.

    Raises InputError for a range that runs backwards or has more than `MOST_VALUES`.
    """
    first, dash, last = text.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()):
        return [text]
    low, high = whole(first), whole(last)
    if low > high:
        raise InputError(f"the range {text!r} runs backwards; write {last}-{first}")
    if high - low >= MOST_VALUES:
        raise InputError(f"the range {text!r} has {high - low + 1:,} values; a range has at most "
                         f"{MOST_VALUES:,}")
    return [str(i) for i in range(low, high + 1)]


def whole(digits: str) -> int:
    """The number that a text of decimal digits means; InputError if it is too large."""
    if len(digits) > len(str(_LARGEST)) or int(digits) > _LARGEST:
        raise InputError(f"{_shown(digits)} is too large: whole numbers end at 2**63 - 1")
    return int(digits)


@dataclass(frozen=True)
class Profile:
    """A named parameter set: ``notebooks/profiles/<name>.yaml``."""

    name: str
    chapter: str
    says: str                                            # one sentence: what it reruns
    parameters: Mapping[str, Any] = field(default_factory=dict)
    assumed: Mapping[str, Any] = field(default_factory=dict)   # settings the source did not publish

    @property
    def values(self) -> dict[str, Any]:
        """Published and assumed settings together."""
        return {**self.parameters, **self.assumed}


_PROFILE_KEYS = ("chapter", "says", "parameters", "assumed")


def profiles(chapter: str | None = None) -> dict[str, Profile]:
    """Every profile, or those of one chapter, by name; each is checked against its chapter."""
    folder = paths.root() / "notebooks" / "profiles"
    found = {path.stem: _profile(path) for path in sorted(folder.glob("*.yaml"))}
    return {name: p for name, p in found.items() if chapter in (None, p.chapter)}


def _profile(path: Path) -> Profile:
    content = read_yaml(path)
    try:
        if not isinstance(content, dict):
            raise InputError("expected the keys chapter, says, parameters and, if any, assumed")
        for key in content:
            if key not in _PROFILE_KEYS:
                raise unknown("key", key, _PROFILE_KEYS)
        missing = {"chapter", "says", "parameters"} - set(content)
        if missing:
            raise InputError(f"the key {sorted(missing)[0]!r} is missing")
        if not path.stem.startswith(f"{content['chapter']}-"):
            raise InputError(f"a profile of chapter {content['chapter']!r} is named "
                             f"{content['chapter']}-….yaml")
        for key, kind, name in (("says", str, "one sentence"), ("parameters", dict, "a mapping"),
                                ("assumed", dict, "a mapping")):
            if not isinstance(content.get(key) or kind(), kind):
                raise InputError(f"{key!r} must be {name}")
        if not content["says"]:
            raise InputError("'says' is empty; say in one sentence what the profile reruns")
        profile = Profile(path.stem, content["chapter"], content["says"],
                          content["parameters"] or {}, content.get("assumed") or {})
        if both := set(profile.parameters) & set(profile.assumed):
            raise InputError(f"{sorted(both)[0]} stands under both parameters and assumed")
        known = cached_read(profile.chapter)
        values = check(known, profile.values)
    except InputError as error:
        raise InputError(f"profiles/{path.name}: {error}") from None
    return Profile(profile.name, profile.chapter, profile.says,
                   {name: values[name] for name in profile.parameters},
                   {name: values[name] for name in profile.assumed})


cached_read = cache(read)


def check(known: Mapping[str, Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values in their parameters' types; an unknown name names the nearest one."""
    for name in values:
        if name not in known:
            raise unknown("parameter", name, known)
    return {name: convert(known[name], value) for name, value in values.items()}


def resolve(chapter: str, profile: str | None = None,
            overrides: Mapping[str, str] | None = None) -> dict[str, Any]:
    """All parameters of a run: defaults, then the profile's, then what was typed.

    Raises
    ------
    InputError
        For an unknown chapter, profile or parameter, or a value of the wrong type.
    """
    known = read(chapter)
    values = {name: parameter.default for name, parameter in known.items()}
    if profile is not None:
        named = profiles(chapter)
        if profile not in named:
            raise unknown(f"profile of {chapter}", profile, named)
        values.update(named[profile].values)
    for name, text in (overrides or {}).items():
        if name not in known:
            raise unknown(f"parameter of {chapter}", name, known)
        values[name] = from_text(known[name], text)
    return values
