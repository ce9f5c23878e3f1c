"""What the sources say, one YAML file a chapter, checked when it is loaded.

A claim is one mapping. Every claim has

``id``
    begins with the chapter's name: ``tell-mnist-acc``;
``says``
    the statement, as a sentence;
``source``
    where it is said: work, year, table or section;
``seen``
    who read it there: ``paper``, ``repository`` or ``second-hand``; with ``second-hand``, ``where``
    names the document that quotes it;
``kind``
    how it is compared, with the keys of the table below.

================  ==============================================================================
kind              further keys
================  ==============================================================================
value             ``profile``, ``metric``, ``statistic``, ``value``, ``tolerance``, ``why``
difference        the same, and ``minus``: ``metric - minus`` is compared with ``value``
trend             ``profile``, ``metric``, ``relation``, ``than``, ``in``: ``metric relation than``
                  holds in ``all`` or ``most`` of the seeds
exact             ``check``: the expectation that a cell of the chapter settles
source-error      ``check``: the demonstration that what the source states can't hold
================  ==============================================================================

``than`` is a number or a metric; ``relation`` is one of ``<``, ``>``, ``<=``, ``>=`` (in quotes).
``why`` gives the reason of the tolerance. ``against`` names a second profile that ``minus`` or
``than`` is read from, run by run with the same seed. ``exact`` and ``source-error`` may name a
``profile``; without one, every run of the chapter counts.

A value, a difference or a trend may have ``differs``: where the runs are not the source's, such as
other data. It is at most *indicative* then.

Any claim may have ``section`` (an anchor in its chapter), and either ``cannot_compare`` (the
reason) or ``not_attempted`` (the reason and what it would cost); with these two, the keys of its
kind may be absent. Verdicts are never written here: they follow from the records.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import yaml

from .. import paths
from ..errors import InputError, unknown

SEEN = ("paper", "repository", "second-hand")
RELATIONS = ("<", ">", "<=", ">=")
KINDS: dict[str, tuple[str, ...]] = {
    "value": ("profile", "metric", "statistic", "value", "tolerance", "why"),
    "difference": ("profile", "metric", "minus", "statistic", "value", "tolerance", "why"),
    "trend": ("profile", "metric", "relation", "than", "in"),
    "exact": ("check",),
    "source-error": ("check",),
}
"""Each kind of claim, and the keys that it needs."""

_ALWAYS = ("id", "says", "source", "seen", "kind")
_ANYWHERE = ("where", "section", "cannot_compare", "not_attempted")
_ALSO = {
    "value": ("differs",),
    "difference": ("against", "differs"),
    "trend": ("against", "differs"),
    "exact": ("profile",),
    "source-error": ("profile",),
}
_HINTS = {
    "verdict": "a verdict is not written, it follows from the records; what can't be compared or "
    "was not run says so under 'cannot_compare' or 'not_attempted'",
    "assumed": "settings that the source did not publish stand under 'assumed' in the profile",
}


@dataclass(frozen=True)
class Claim:
    """What a source states, and how it is compared; the fields are the keys of the YAML file.

    ``holds_in`` is the key ``in``; ``chapter`` is the file's name. What a claim lacks is None.
    """

    id: str
    chapter: str
    says: str
    source: str
    seen: str
    kind: str
    where: str | None = None
    section: str | None = None
    profile: str | None = None
    against: str | None = None
    statistic: str | None = None
    metric: str | None = None
    minus: str | None = None
    value: float | None = None
    tolerance: float | None = None
    why: str | None = None
    relation: str | None = None
    than: float | str | None = None
    holds_in: str | None = None
    check: str | None = None
    differs: str | None = None
    cannot_compare: str | None = None
    not_attempted: str | None = None

    @property
    def stated(self) -> str:
        """What is compared, in symbols: ``acc = 0.9516 ± 0.02``; a dash where nothing is."""
        if self.check is not None:
            return self.check
        if self.metric is None:
            return "–"
        other = self.minus if self.minus is not None else self.than
        if self.against is not None:
            other = f"{other} of {self.against}"
        if self.kind == "trend":
            return f"{self.metric} {self.relation} {other} in {self.holds_in} seeds"
        left = self.metric if self.kind == "value" else f"{self.metric} − {other}"
        return f"{left} = {self.value} ± {self.tolerance}"

    @property
    def allowed(self) -> str:
        """What is compared and how far it may be off: ``mean of acc, ± 0.02``; no value in it."""
        return f"{self.statistic} of {self.stated.partition(' = ')[0]}, ± {self.tolerance}"


def load_claims(folder: Path | str | None = None) -> list[Claim]:
    """Every claim of every chapter, in the order of the files' names and of their lines.

    Parameters
    ----------
    folder : path, optional
        The folder of the YAML files; the book's ``data/claims`` by default.

    Raises
    ------
    InputError
        For whatever this module's description does not allow; the message begins with the file and
        the line.
    """
    folder = Path(folder) if folder is not None else paths.root() / "data" / "claims"
    return [_claim(entry) for entry in read_folder(folder, "claim")]


def _claim(entry: Entry) -> Claim:
    # A wrong word in `kind` decides which other keys make sense, so it is looked at first.
    every_key = {*_ALWAYS, *_ANYWHERE,
                 *(key for keys in (*KINDS.values(), *_ALSO.values()) for key in keys)}
    entry.keys_within(every_key, _HINTS)
    entry.required(_ALWAYS)
    kind = entry.word("kind", KINDS)
    own = {*_ALWAYS, *_ANYWHERE, *KINDS[kind], *_ALSO[kind]}
    for key in entry.values:
        if key not in own:
            raise entry.error(f"a claim of kind {kind!r} has no key {key!r}", key)
    _check_reasons(entry, kind)

    texts = ("says", "source", "where", "section", "profile", "against", "metric", "minus", "why",
             "check", "differs", "cannot_compare", "not_attempted")  # fmt: skip
    values = {key: entry.text(key) for key in texts}
    claim = Claim(
        id=entry.values["id"],
        chapter=entry.chapter,
        kind=kind,
        seen=entry.word("seen", SEEN),
        statistic=_statistic(entry, "against" in entry.values),
        value=entry.number("value"),
        tolerance=entry.positive("tolerance"),
        relation=_relation(entry),
        than=_than(entry),
        holds_in=entry.word("in", ("all", "most")),
        **values,
    )
    for key in ("profile", "against"):
        name = getattr(claim, key)
        if name is not None and not name.startswith(f"{entry.chapter}-"):
            raise entry.error(f"{key} must begin with {entry.chapter + '-'!r}, not {name!r}", key)
    return claim


def _check_reasons(entry: Entry, kind: str) -> None:
    """Refuse a claim that lacks what its kind needs, or a reason where one is due."""
    given = entry.values
    if "cannot_compare" in given and "not_attempted" in given:
        raise entry.error("either cannot_compare or not_attempted, not both", "not_attempted")
    if given["seen"] == "second-hand":
        entry.required(["where"], "; second-hand names the document that quotes it")
    if "tolerance" in given:
        entry.required(["why"], "; a tolerance needs its reason")
    started = "metric" in given or "check" in given
    if "cannot_compare" not in given and ("not_attempted" not in given or started):
        entry.required(KINDS[kind], f", which a claim of kind {kind!r} needs")
    if "against" in given and "minus" not in given and isinstance(given.get("than"), int | float):
        raise entry.error("against is another profile's metric, but 'than' is a number", "against")


def _statistic(entry: Entry, has_against: bool) -> str | None:
    name = entry.text("statistic")
    if name is None:
        return None
    try:
        found = statistic(name)
    except InputError as error:
        raise entry.error(str(error), "statistic") from None
    if has_against and not found.is_mean:
        raise entry.error(
            f"a difference between two profiles is a mean over seeds; {name!r} would mix "
            "the runs that each profile selects",
            "statistic",
        )
    return name


def _relation(entry: Entry) -> str | None:
    if entry.values.get("relation") == "":
        text = "relation is empty: YAML reads a bare > as a text block; write it in quotes"
        raise entry.error(text, "relation")
    return entry.word("relation", RELATIONS)


def _than(entry: Entry) -> float | str | None:
    than = entry.values.get("than")
    if "than" not in entry.values or is_number(than):
        return than
    if looks_like_number(than):
        entry.number("than")  # refuses it, and says how to write it
    if not isinstance(than, str) or not than.strip():
        raise entry.error(f"than must be a number or a metric's name, not {than!r}", "than")
    return than.strip()


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


SELECTORS: dict[str, tuple[str, Callable]] = {
    "loss": ("loss", min),
    "silhouette": ("silhouette", max),
    "labels": ("acc", max),
}
"""Selector → the metric that it reads, and which end of it is the better one."""

_OVER_SEEDS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "single": fmean,
    "median": median,
    "minimum": min,
    "maximum": max,
    "standard deviation": stdev,
}


@dataclass(frozen=True)
class Statistic:
    """One way to turn runs into the number that a source reports.

    Attributes
    ----------
    name : str
        The words of the claim, such as ``"best of 5 by loss"``.
    seeds : int
        How many seeds it takes; with fewer it is not the source's statistic.
    of : callable
        Maps the list of ``(metrics of the run, its number)``, ordered by seed, to a float.
    row : callable
        Maps a run's metrics and history to the numbers to read; None when the run lacks them.
    is_mean : bool
        Whether it is a mean over seeds, so that the t-interval of the mean applies.
    """

    name: str
    seeds: int
    of: Callable[[Sequence[tuple[Mapping[str, float], float]]], float]
    row: Callable[[Mapping[str, float], Sequence[Mapping[str, Any]]], Mapping[str, Any] | None]
    is_mean: bool


def names() -> list[str]:
    """The words that a claim's ``statistic`` may be; N is a number of at least 2."""
    best = [f"best {of} by {by}" for of in ("of N", "epoch") for by in SELECTORS]
    return [*_OVER_SEEDS, *best]


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
        over = _OVER_SEEDS[name]
        is_mean = over is fmean
        at_least = 2 if over is stdev else 1
        return Statistic(name, at_least, lambda runs: over(_numbers(runs)), _metrics, is_mean)
    found = re.fullmatch(r"best (?:of (\d+)|epoch) by (\w+)", str(name))
    if found and found[2] in SELECTORS:
        column, better = SELECTORS[found[2]]
        if found[1] is None:
            row = _best_epoch(column, better)
            return Statistic(name, 1, lambda runs: fmean(_numbers(runs)), row, True)
        if (count := int(found[1])) >= 2:
            of = _best_run(count, column, better)
            return Statistic(name, count, of, _with_column(column), False)
    raise unknown("statistic", name, names())


def t_interval(numbers: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """Student's t-interval of the mean of independent numbers; None for fewer than two.

    Examples
    --------
    >>> low, high = t_interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    if len(numbers) < 2:
        return None
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    n = len(numbers)
    half = float(stdtrit(n - 1, (1 + level) / 2)) * stdev(numbers) / math.sqrt(n)
    return fmean(numbers) - half, fmean(numbers) + half


def spread(mean: float, sd: float | None) -> str:
    """Mean ± standard deviation, both with as many decimals as the deviation's two digits need.

    Examples
    --------
    >>> spread(10.0243, 0.0171)
    '10.024 ± 0.017'
    """
    if not sd:
        return f"{mean:.4g}" + ("" if sd is None else " ± 0")
    decimals = min(max(1 - math.floor(math.log10(sd)), 0), 6)
    return f"{mean:.{decimals}f} ± {sd:.{decimals}f}"


def _numbers(runs: Sequence[tuple[Mapping[str, float], float]]) -> list[float]:
    return [number for _, number in runs]


def _metrics(metrics: Mapping, history: Sequence[Mapping]) -> Mapping:
    return metrics


def _with_column(column: str) -> Callable:
    return lambda metrics, history: metrics if column in metrics else None


def _best_epoch(column: str, better: Callable) -> Callable:
    def row(metrics: Mapping, history: Sequence[Mapping]) -> Mapping | None:
        epochs = [epoch for epoch in history if column in epoch]
        return better(epochs, key=lambda epoch: epoch[column]) if epochs else None

    return row


def _best_run(count: int, column: str, better: Callable) -> Callable:
    return lambda runs: better(runs[:count], key=lambda run: run[0][column])[1]
