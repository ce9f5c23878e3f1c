"""Claims: YAML files about the sources, validated when they are loaded.

``data/claims/README.md`` describes the keys. Verdicts are never written in these files: they follow
from the records. `read_folder` also reads expectations, errata and sources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, ConfigDict, Field, Strict, model_validator
from pydantic.dataclasses import dataclass as model
from pydantic_core import ArgsKwargs

from clusterbook.checks import InputError

from . import config

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, populate_by_name=True,
                    str_strip_whitespace=True, str_min_length=1)
_YAML = "YAML (a text with ': ', '#', '<' or '>' in it needs quotes)"
Id = Annotated[str, Field(pattern="^[a-z0-9]+(-[a-z0-9]+)+$")]


# --- statistics: how a source turns several runs into one number

STATISTIC = (r"^(?:mean|single|standard deviation|"
             r"best (?:of ([2-9]|[1-9]\d+)|epoch) by (\w+))$")


class Statistic:
    """A way to turn runs into the number that a source reports.

    ``data/claims/README.md`` lists the names. ``seeds`` is the number of seeds that it takes;
    ``is_mean`` says whether it is a mean over seeds, to which the t-interval applies.

    Examples
    --------
    >>> best = Statistic("best of 2 by loss")
    >>> best.of([({"loss": 0.3}, 0.81), ({"loss": 0.1}, 0.95), ({"loss": 0.0}, 0.99)])
    0.95
    """

    def __init__(self, name: str) -> None:
        seeds, selector = re.fullmatch(STATISTIC, name).groups()
        known = config.book().metrics.selectors
        if selector not in (None, *known):
            raise ValueError(f"a best is by {' or '.join(known)}, not by {selector!r}")
        self.selector = known.get(selector)
        self.name = name
        self.best_epoch = name.startswith("best epoch")
        self.is_mean = name in ("mean", "single") or self.best_epoch
        self.seeds = 2 if name == "standard deviation" else int(seeds or 1)

    def row(self, metrics: Mapping[str, float], history: Sequence[Mapping[str, Any]]
            ) -> Mapping[str, Any]:
        """The numbers of a run to read: its metrics, or its best epoch; empty if it has none."""
        if self.selector is None:
            return metrics
        column = self.selector.metric
        if not self.best_epoch:
            return metrics if column in metrics else {}
        epochs = [epoch for epoch in history if column in epoch]
        return self.selector.best(epochs, key=lambda epoch: epoch[column], default={})

    def named(self, n_seeds: int) -> str:
        """The statistic of so many seeds in a sentence, with its verb."""
        if not self.name.startswith("best"):
            return "mean is" if self.is_mean else f"{self.name} is"
        if n_seeds >= self.seeds:
            return f"{self.name} has"
        if n_seeds == 1:
            return "one recorded seed has"
        return f"{self.name.replace(str(self.seeds), str(n_seeds), 1)} has"

    def of(self, runs: Sequence[tuple[Mapping[str, float], float]]) -> float | None:
        """The statistic of runs, each its `row` and its number, ordered by seed.

        None for the standard deviation of one.
        """
        numbers = [number for _, number in runs]
        if self.is_mean:
            return fmean(numbers)
        if self.selector is None:
            return stdev(numbers) if len(numbers) > 1 else None
        return self.selector.best(runs[:self.seeds],
                                  key=lambda run: run[0][self.selector.metric])[1]


# --- claims


_OF_VALUE = ("profile", "metric", "statistic", "value", "tolerance", "why")
_OF_RUNS = ("depends_on", "differs", "told")
KINDS = {
    "value": (_OF_VALUE, _OF_RUNS),
    "difference": ((*_OF_VALUE, "minus"), _OF_RUNS),
    "trend": (("profile", "metric", "relation", "than", "holds_in"), _OF_RUNS),
    "exact": (("check",), ("profile",)),
    "source-error": (("check",), ("profile",)),
}
"""Each kind of comparison, the fields that it needs, and those that it may have."""


_Number = Annotated[int, Strict()] | Annotated[float, Strict()]      # no text, and no true


@model(frozen=True, config=STRICT | ConfigDict(strict=False))     # so that a claim has mappings
class Comparison:
    """One number or statement of a claim, and how runs are compared with it.

    ``holds_in`` is the key ``in``, ``told`` what a result box calls the number, and ``depends_on``
    the only parameters that it depends on. A key that is absent is None.
    """

    id: Id
    kind: Literal["value", "difference", "trend", "exact", "source-error"]
    profile: str | None = None
    statistic: Annotated[str, Field(pattern=STATISTIC), AfterValidator(
        lambda name: Statistic(name).name)] | None = None
    metric: str | None = None
    told: str | None = None
    minus: str | None = None
    value: _Number | None = None
    tolerance: _Number | None = Field(None, ge=0)
    why: str | None = None
    relation: Literal["<", ">", "<=", ">="] | None = None
    than: str | _Number | None = None
    holds_in: Literal["all", "most"] | None = Field(None, alias="in")
    check: str | None = None
    depends_on: tuple[str, ...] | None = None
    differs: str | None = None
    cannot_compare: str | None = None
    not_attempted: str | None = None

    @model_validator(mode="after")
    def _has_the_keys_of_its_kind(self) -> Comparison:
        needed, optional = KINDS[self.kind]
        given = {key for key, value in vars(self).items() if value is not None} - {
            "id", "kind", "cannot_compare", "not_attempted"}
        if extra := sorted(given - {*needed, *optional}):
            raise ValueError(f"a comparison of kind {self.kind!r} has no key {extra[0]!r}")
        if self.cannot_compare and self.not_attempted:
            raise ValueError("either cannot_compare or not_attempted, not both")
        planned = self.not_attempted is not None and given <= {"profile", "differs"}
        missing = sorted({*needed} - given)
        if missing and not planned and not self.cannot_compare:
            raise ValueError(f"a comparison of kind {self.kind!r} needs {', '.join(missing)}")
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


@model(frozen=True, config=STRICT)
class Claim:
    """A statement of a source; the fields are the keys of the YAML file.

    ``compares`` are its numbers, each with an id of its own; a claim with one number gives the
    number's keys itself, and keys that all numbers share stand in the claim. ``by`` says whether it
    is a claim of the work's authors or somebody else's about the work. ``quote`` is the
    sentence or formula as printed, for a claim that a check refutes. ``note`` says what a reader of
    the verdict has to know and no rule takes into account. ``replaces`` maps the id of an
    earlier claim that was merged into this one to the reason. ``chapter`` is the file's name.
    """

    id: Id
    chapter: str
    tier: Literal["headline", "supporting", "minor"]
    says: str
    source: str
    seen: Literal["paper", "repository", "second-hand"]
    compares: Annotated[tuple[Comparison, ...], Strict(False)]
    by: Literal["authors", "others"] = "authors"
    where: str | None = None
    section: str | None = None
    note: str | None = None
    quote: str | None = None
    replaces: Annotated[dict[str, str], Strict(False)] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _shares_keys(cls, given: ArgsKwargs) -> dict:
        """The keys of numbers that stand in the claim, handed to each of its numbers."""
        entry = dict(given.kwargs)
        own = {key: entry.pop(key) for key in [*entry] if key not in cls.__dataclass_fields__}
        numbers = entry.get("compares") or [{"id": entry.get("id")}]
        return {**entry, "compares": [{**own, **number} for number in numbers]}


def load_claims(folder: Path | str | None = None) -> list[Claim]:
    """Every claim of a folder (default: the book's), by the order of the chapters and line.

    Raises InputError, which names the file and the claim, for one that is not valid.
    """
    return read_folder(Claim, "claims", folder)


# --- YAML files that are lists of entries


def read_folder(kind: type, name: str, folder: Path | str | None = None) -> list[Any]:
    """Every entry of the YAML files of a folder, validated, by the order of the book and line.

    *kind* is a pydantic dataclass, whose second field takes the file's name. The folder is by
    default the book's that is called *name*. Every entry has a unique ``id`` that begins with the
    file's name. A file is read again only when it has changed.

    Raises InputError for the first mistake, with the file, the entry and the key.
    """
    files = Path(folder or config.root() / "data" / name).glob("*.yaml")
    return [entry for path in sorted(files, key=lambda path: config.book().order(path.stem))
            for entry in _read(path, kind, path.stat().st_mtime_ns)]


@cache
def _read(path: Path, kind: type, _written: int) -> tuple:
    file, prefix, found = "/".join(path.parts[-3:]), path.stem.replace("_", "-"), {}
    _, home, *_ = kind.__dataclass_fields__
    entries = read_yaml(path) or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{file}: the file must be a list of mappings")
    for i, entry in enumerate(entries, start=1):
        with config.mistakes_in(f"{file}: {kind.__name__.lower()} {entry.get('id', i)}"):
            one = kind(**entry, **{home: path.stem})
            if one.id in found or not one.id.startswith(f"{prefix}-"):
                raise ValueError(f"an id must begin with '{prefix}-' and be unique")
            found[one.id] = one
    return tuple(found.values())


def read_yaml(path: Path) -> Any:
    """The content of a YAML file; InputError as by `config.read`."""
    return config.read(path, _parsed, _YAML)


def _parsed(text: str) -> Any:
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:         # which is no ValueError
        raise ValueError(error) from None


class _Loader(yaml.SafeLoader):
    """YAML 1.1, but 1e-3 is a number as in YAML 1.2, and every key is unique."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} is a duplicate",
                                           problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver("tag:yaml.org,2002:float",
                              re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789"))
