"""Claims: statements of the sources, one YAML file a chapter, validated when it is loaded.

``data/claims/README.md`` describes the keys of each kind of claim. Verdicts are never written in
these files: they follow from the records. The reader of YAML files below, which names the line of
each mistake, also serves expectations, errata and the lineage of the code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, Literal

import yaml
from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.dataclasses import dataclass as model

from .. import paths
from ..errors import InputError, unknown

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, populate_by_name=True,
                    str_strip_whitespace=True, str_min_length=1)
Seen = Literal["paper", "repository", "second-hand"]

_OF_VALUE = ("profile", "metric", "statistic", "value", "tolerance", "why")
KINDS = {
    "value": (_OF_VALUE, ("differs",)),
    "difference": ((*_OF_VALUE, "minus"), ("differs",)),
    "trend": (("profile", "metric", "relation", "than", "holds_in"), ("differs",)),
    "exact": (("check",), ("profile",)),
    "source-error": (("check",), ("profile",)),
}
"""Each kind of claim, the fields that it needs, and those that it may have."""


@model(frozen=True, config=STRICT)
class Claim:
    """A statement of a source, and how it is compared; the fields are the keys of the YAML file.

    ``holds_in`` is the key ``in``; ``chapter`` is the file's name. A key that is absent is None.
    """

    id: str
    chapter: str
    says: str
    source: str
    seen: Seen
    kind: Literal["value", "difference", "trend", "exact", "source-error"]
    where: str | None = None
    section: str | None = None
    profile: str | None = None
    statistic: str | None = None
    metric: str | None = None
    minus: str | None = None
    value: int | float | None = None
    tolerance: int | float | None = Field(None, ge=0)
    why: str | None = None
    relation: Literal["<", ">", "<=", ">="] | None = None
    than: str | int | float | None = None
    holds_in: Literal["all", "most"] | None = Field(None, alias="in")
    check: str | None = None
    differs: str | None = None
    cannot_compare: str | None = None
    not_attempted: str | None = None

    @field_validator("statistic")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        return name and statistic(name).name

    @model_validator(mode="after")
    def _has_the_keys_of_its_kind(self) -> Claim:
        needed, optional = KINDS[self.kind]
        fields = {field for of_kind in KINDS.values() for keys in of_kind for field in keys}
        given = {field for field in fields if getattr(self, field) is not None}
        for field in sorted(given - {*needed, *optional}):
            raise ValueError(f"a claim of kind {self.kind!r} has no key {field!r}", field)
        if self.cannot_compare is not None and self.not_attempted is not None:
            raise ValueError("either cannot_compare or not_attempted, not both", "not_attempted")
        unfinished = self.not_attempted is None or given - {"profile", "differs"}
        for field in needed:
            if field not in given and self.cannot_compare is None and unfinished:
                key = "in" if field == "holds_in" else field
                raise ValueError(f"the key {key!r} is missing from a claim of kind {self.kind!r}")
        if self.seen == "second-hand" and self.where is None:
            raise ValueError("second-hand needs the key 'where', the document that quotes it")
        if self.profile is not None and not self.profile.startswith(f"{self.chapter}-"):
            raise ValueError(f"profile must begin with '{self.chapter}-'", "profile")
        return self

    @property
    def stated(self) -> str:
        """The comparison in symbols, ``acc = 0.9516 ± 0.02``; a dash where there is none."""
        if self.check is not None:
            return self.check
        if self.metric is None:
            return "–"
        if self.kind == "trend":
            return f"{self.metric} {self.relation} {self.than} in {self.holds_in} seeds"
        left = self.metric if self.kind == "value" else f"{self.metric} − {self.minus}"
        return f"{left} = {self.value} ± {self.tolerance}"

    @property
    def allowed(self) -> str:
        """The comparison without its value: ``mean of acc, ± 0.02``; a record keeps it."""
        return f"{self.statistic} of {self.stated.partition(' = ')[0]}, ± {self.tolerance}"


def load_claims(folder: Path | str | None = None) -> list[Claim]:
    """Every claim of a folder (default: the book's), by file and line.

    Raises InputError, beginning with the file and the line, for a claim that is not valid.
    """
    return read_folder(folder or paths.root() / "data" / "claims", Claim, "claim")


# --- statistics: how a source turns several runs into one number

SELECTORS: dict[str, tuple[str, Callable]] = {
    "loss": ("loss", min),
    "silhouette": ("silhouette", max),
    "labels": ("acc", max),     # selection on ground truth: only where the source did
}
"""Selector → the metric (or history column) that it reads, and which end of it is the better."""

_OVER_SEEDS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean, "single": fmean, "median": median, "minimum": min, "maximum": max,
    "standard deviation": stdev,
}


@dataclass(frozen=True)
class Statistic:
    """A way to turn runs into the number that a source reports.

    =========================  ================================================================
    name                       what is computed of our runs (one per seed)
    =========================  ================================================================
    mean                       the mean over seeds
    single                     the source made one run; the mean over ours stands for it
    median, minimum, maximum   over seeds
    standard deviation         over seeds, with n - 1
    best of N by SELECTOR      of the N lowest seeds, the run that the selector prefers
    best epoch by SELECTOR     the mean over seeds of each run's epoch that the selector prefers
    =========================  ================================================================

    ``seeds`` is the number of seeds that it takes; ``selector`` is a key of `SELECTORS`.
    """

    name: str
    seeds: int
    selector: str | None = None

    @property
    def is_mean(self) -> bool:
        """Whether it is a mean over seeds, so that the t-interval of the mean applies."""
        return self.name in ("mean", "single") or self.name.startswith("best epoch")

    def row(self, metrics: Mapping[str, float], history: Sequence[Mapping]) -> Mapping | None:
        """The numbers of a run to read: its metrics, or its best epoch; None when it has none."""
        if self.selector is None:
            return metrics
        column, better = SELECTORS[self.selector]
        if self.name.startswith("best epoch"):
            epochs = [epoch for epoch in history if column in epoch]
            return better(epochs, key=lambda epoch: epoch[column], default=None)
        return metrics if column in metrics else None

    def of(self, runs: Sequence[tuple[Mapping[str, float], float]]) -> float:
        """The statistic of runs, each its `row` and its number, ordered by seed."""
        if self.selector is None or self.is_mean:
            return _OVER_SEEDS.get(self.name, fmean)([number for _, number in runs])
        column, better = SELECTORS[self.selector]
        return better(runs[:self.seeds], key=lambda run: run[0][column])[1]


def statistic(name: str) -> Statistic:
    """The statistic of that name.

    Raises
    ------
    InputError
        When there is none; the nearest is named.

    Examples
    --------
    >>> best = statistic("best of 2 by loss")
    >>> best.of([({"loss": 0.3}, 0.81), ({"loss": 0.1}, 0.95), ({"loss": 0.0}, 0.99)])
    0.95
    """
    if name in _OVER_SEEDS:
        return Statistic(name, 2 if name == "standard deviation" else 1)
    best = re.fullmatch(r"best (?:of ([2-9]|[1-9]\d+)|epoch) by (\w+)", name)
    if best and best[2] in SELECTORS:
        return Statistic(name, int(best[1] or 1), best[2])
    raise unknown("statistic", name, [
        *_OVER_SEEDS, *(f"best {of} by {by}" for of in ("of N", "epoch") for by in SELECTORS)])


# --- YAML files that are lists of entries


@dataclass(frozen=True)
class Entry:
    """One entry of a YAML file, with the line of each of its keys (of None: its first line)."""

    noun: str
    file: str
    values: Mapping[str, Any]
    lines: Mapping[str | None, int]
    model: Any = None

    def error(self, text: str, key: str | None = None) -> InputError:
        """The error for this entry; it points at the key's line, else at the first."""
        who = f"{self.noun} {self.values['id']!r}" if "id" in self.values else f"a {self.noun}"
        return InputError(f"{self.file}:{self.lines.get(key, self.lines[None])}: {who}: {text}")


def read_folder(folder: Path | str, kind: type, noun: str, home: str = "chapter") -> list:
    """Every entry of the YAML files of a folder as a *kind*, by file and line; see `read_file`."""
    return [entry.model for path in sorted(Path(folder).glob("*.yaml"))
            for entry in read_file(path, kind, noun, home)]


def read_file(path: Path, kind: type, noun: str, home: str | None = None) -> tuple[Entry, ...]:
    """Every entry of a YAML file, validated; it is read again only when it has changed.

    *kind* is a pydantic dataclass and *noun* names it in errors. With *home*, that field takes the
    file's name, and every entry needs an ``id`` that is its own and begins with that name.

    Raises InputError for the first mistake, beginning with the file and the line.
    """
    written = path.stat()
    return _read(path, kind, noun, home, written.st_mtime_ns, written.st_size)


@cache
def _read(path: Path, kind: type, noun: str, home: str | None, *_: int) -> tuple[Entry, ...]:
    fields = kind.__pydantic_fields__.items()
    known = [field.alias or name for name, field in fields if name != home]
    file, prefix = "/".join(path.parts[-3:]), path.stem.replace("_", "-") + "-"
    found: list[Entry] = []
    for values, lines in _mappings(path, file):
        entry = Entry(noun, file, values, lines)
        for key, value in values.items():
            if key not in known:
                raise entry.error(str(unknown("key", key, known)), key)
            if value is None:
                raise entry.error(f"{key} has no value", key)
        more = {home: path.stem} if home else {}
        try:
            read = kind(**values, **more)
        except ValidationError as error:
            raise entry.error(*mistake(error)) from None
        if home and not re.fullmatch(rf"{re.escape(prefix)}[a-z0-9]+(-[a-z0-9]+)*", read.id):
            raise entry.error(f"an id begins with its chapter, {prefix!r}, and has only small "
                              "letters, digits and single hyphens", "id")
        first = next((other for other in found if home and other.model.id == read.id), None)
        if first:
            raise entry.error(f"duplicate id (first on line {first.lines['id']})", "id")
        found.append(Entry(noun, file, values, lines, read))
    return tuple(found)


def _mappings(path: Path, file: str) -> Iterator[tuple[dict[str, Any], dict[str | None, int]]]:
    """Each mapping of a YAML list, and the lines of its keys."""
    line = 1
    try:
        # Composing gives nodes, which know their lines; constructing a node gives its value.
        loader = _Loader(path.read_text(encoding="utf-8"))
        root = loader.get_single_node() or yaml.SequenceNode("", [])
        if not isinstance(root, yaml.SequenceNode):
            raise ValueError("the file must be a list")
        for node in root.value:
            line = node.start_mark.line + 1
            if not isinstance(node, yaml.MappingNode):
                raise ValueError("an entry must be a mapping of keys to values")
            values, lines = {}, {None: line}
            for key, value in node.value:
                line = key.start_mark.line + 1
                if key.value in values:
                    raise ValueError(f"duplicate key {key.value!r}")
                values[key.value] = loader.construct_object(value, deep=True)
                lines[key.value] = line
            yield values, lines
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "a character is not allowed"
        raise InputError(f"{file}:{mark.line + 1 if mark else line}: not valid YAML: {problem} (a "
                         "text with ': ', '#', '<' or '>' in it needs quotes)") from error
    except ValueError as error:
        raise InputError(f"{file}:{line}: {error}") from error


class _Loader(yaml.SafeLoader):
    """YAML 1.1, in which 1e-3 is a number as in YAML 1.2."""


_Loader.add_implicit_resolver("tag:yaml.org,2002:float",
                              re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789"))


def mistake(error: ValidationError) -> tuple[str, str | None]:
    """The last mistake that pydantic found, in words, and the key that it is about."""
    last = error.errors()[-1]
    field, text = ".".join(map(str, last["loc"])), last["msg"]
    key = last["loc"][0] if field else None
    if last["type"] == "value_error":       # raised by a validator of ours: text, key
        text, key = (*last["ctx"]["error"].args, key)[:2]
    if last["input"] == "":
        text += "; YAML reads a bare > as text: write it in quotes"
    return f"{field}: {text}" if field else text, key
