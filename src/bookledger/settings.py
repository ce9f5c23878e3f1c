"""Settings as people write them, in YAML or after ``-p NAME``, as values of a parameter's type.

A run and its record read a profile with the same functions: neither takes 010 for 8, nor 1e-3 for a
text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, TypeAdapter

from clusterbook.errors import InputError

MOST_VALUES = 10_000    # of a range, and runs of a command
_LARGEST = 2**63 - 1    # the largest integer of numpy and torch
SCALARS = {"int": Annotated[int, Field(ge=-_LARGEST, le=_LARGEST)],
           "float": Annotated[float, Field(allow_inf_nan=False)], "str": str, "bool": bool}
"""The types of parameters; the others are lists of one of them, such as ``list[int]``."""
TYPES = {name: TypeAdapter(kind) for name, kind in SCALARS.items()} | {
    f"list[{name}]": TypeAdapter(list[kind]) for name, kind in SCALARS.items()}
_READS = {"int": int, "float": float, "str": lambda text: text,
          "bool": lambda text: {"true": True, "false": False}[text.lower()]}


def as_type(kind: str, text: str | list[str]) -> Any:
    """Convert what was typed, or stands in a profile, to one of `TYPES`.

    A list may stand in brackets or not, and its integers may be a range: ``0-4``. Raises TypeError
    for a value of another type, and InputError for a range that is none.

    Examples
    --------
    >>> as_type("list[int]", "0-2,7")
    [0, 1, 2, 7]
    """
    words, is_list = text, kind.startswith("list")
    if is_list and isinstance(text, str):
        words = [word.strip(" '\"") for word in text.strip(" []").split(",") if word.strip()]
    if kind == "list[int]":
        words = [number for word in words for number in number_range(str(word))]
    try:        # pydantic alone would take 0-4 for -4
        read = _READS[kind.removeprefix("list[").removesuffix("]")]
        value = [read(word) for word in words] if is_list else read(text)
        return TYPES[kind].validate_python(value, strict=True)
    except (AttributeError, LookupError, TypeError, ValueError):
        raise TypeError(f"{text!r} is not {kind}") from None


def number_range(text: str) -> list[str]:
    """Expand ``"2-4"`` to ``["2", "3", "4"]``; any other text stands for itself.

    Raises InputError for a range that runs backwards or has more than `MOST_VALUES`.
    """
    ends = re.fullmatch(r"(\d{1,19})-(\d{1,19})", text)
    if ends is None:
        return [text]
    first, last = map(int, ends.groups())
    if not 0 <= last - first < MOST_VALUES:
        raise InputError(f"the range {text!r} runs backwards or has more than {MOST_VALUES:,} "
                         "values; write a shorter one, with its smaller number first")
    return [str(i) for i in range(first, last + 1)]


class UniqueKeys:
    """Lets a YAML loader refuse a key that stands twice, of which it would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping without duplicate keys."""
        seen = []
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} stands twice",
                                           problem_mark=key.start_mark)
            seen.append(key.value)
        return super().construct_mapping(node, deep)


class _Texts(UniqueKeys, yaml.BaseLoader):
    """Reads every scalar as a text."""


def read_yaml(path: Path) -> Any:
    """Read a YAML file: mappings and lists of texts, as they stand there.

    So 010 is not 8, nor 1:30 90, as in YAML 1.1; and no key may stand twice.

    Raises InputError if the file can't be read or is not such YAML.
    """
    file = "/".join(path.parts[-2:])
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Texts)
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror}") from None
    except (UnicodeDecodeError, RecursionError, yaml.YAMLError) as error:
        raise InputError(f"{file}: not YAML: {' '.join(str(error).split())}") from None
