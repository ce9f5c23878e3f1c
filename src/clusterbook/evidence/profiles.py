"""What the numbers were made with: each recorded profile, its cost, its machine, its code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import ge
from statistics import fmean

from .records import Record, load_records
from .verdicts import is_stale, present_code, present_data
from .views import html

REPLACED = "recorded by earlier code, shown to be bit-identical on short runs"
_UNITS = ((3600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True)
class Profile:
    """The recorded runs of one profile, by seed; their code may have been replaced since."""

    records: tuple[Record, ...]
    stale: bool
    replaced: bool = False

    @property
    def name(self) -> str:
        """The profile's name."""
        return self.records[0].profile

    @property
    def chapter(self) -> str:
        """The chapter that was run."""
        return self.records[0].chapter

    def each(self, attribute: str) -> list:
        """Every value that an attribute has among the records, in their order, once."""
        found: list = []
        for record in self.records:
            value = getattr(record, attribute)
            if value not in found:
                found.append(value)
        return found

    def cells(self) -> dict[str, str]:
        """What the table shows, in words, under the heads of its columns."""
        memory = [r.peak_memory_mb for r in self.records if r.peak_memory_mb is not None]
        return {
            "Seeds": " ".join(str(record.seed) for record in self.records),
            "Time, a seed": took(self.records),
            "Peak memory": f"{max(memory):,.0f} MiB" if memory else "not known",
            "Machine": "; ".join(map(_machine, self.each("machine"))),
            "Versions": "; ".join(map(_versions, self.each("versions"))),
            "Date": "; ".join(dict.fromkeys(record.started[:10] for record in self.records)),
            "Code": "; ".join(map(_commit, self.each("git"))) + self._since(),
            "Trained model": "; ".join(self._models()) or "not kept",
        }

    def parameters(self) -> dict[str, str]:
        """Every parameter but the seed, with its value in words."""
        first = self.records[0]
        return {name: ("none" if value in ([], None, "") else str(value))
                + (" (assumed)" if name in first.assumed else "")
                for name, value in first.parameters.items() if name != "seed"}

    def _since(self) -> str:
        """What became of the code."""
        if self.stale:
            return ", stale"
        return f", {REPLACED}" if self.replaced else ""

    def _models(self) -> Iterator[str]:
        """The seeds whose trained model lies beside its record, with the size of its file."""
        for record in self.records:
            file = record.path.with_suffix(".pt") if record.path else None
            if file and file.is_file():
                yield f"seed {record.seed}, {file.stat().st_size / 1e6:.1f} MB"


@dataclass(frozen=True)
class Status:
    """Every recorded profile; prints as text, displays as a table."""

    profiles: tuple[Profile, ...]

    def __str__(self) -> str:
        """A paragraph a profile: what the table's cells say."""
        return "\n\n".join(
            "\n".join([profile.name, *(f"    {head}: {cell}" for head, cell in shown.items())])
            for profile in self.profiles
            if (shown := profile.cells())
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html("status", caption=f"{len(self.profiles)} recorded profiles",
                    heads=["Profile", *(self.profiles[0].cells() if self.profiles else ())],
                    groups=groupby(self.profiles, key=lambda profile: profile.chapter))


def status(records: Iterable[Record] | None = None) -> Status:
    """Every profile of some records (default: the book's): what it was made with, what it cost."""
    records = load_records() if records is None else list(records)
    code, data = present_code(record.chapter for record in records), present_data()
    groups = groupby(records, key=lambda record: (record.chapter, record.profile))
    found = (tuple(group) for _, group in groups)
    return Status(tuple(Profile(group, any(is_stale(r, code, data) for r in group),
                                any(r.code != code.get(r.chapter) for r in group))
                        for group in found))


def took(records: Sequence[Record]) -> str:
    """The mean wall time of some runs, in words.

    Of a run whose pieces were not added up, which early records were, its training's own clock
    tells more: it goes on over the pieces. Its time is a lower bound.
    """
    seconds = [record.seconds for record in records]
    trained = [record.metrics.get("seconds_per_epoch", 0) * record.parameters.get("epochs", 0)
               for record in records]
    mean = duration(fmean(map(max, seconds, trained)))
    return mean if all(map(ge, seconds, trained)) else f"more than {mean}"


def duration(seconds: float) -> str:
    """A time in the largest unit that fits, two digits: ``45 s``, ``12 min``, ``1.4 h``.

    Examples
    --------
    >>> [duration(seconds) for seconds in (8.24, 59.7, 745, 5040, 36000)]
    ['8.2 s', '60 s', '12 min', '1.4 h', '10 h']
    """
    size, unit = next(((s, u) for s, u in _UNITS if seconds >= s), _UNITS[-1])
    amount = seconds / size
    return f"{amount:.{1 if amount < 9.95 else 0}f} {unit}"


def _machine(machine: Mapping[str, object]) -> str:
    threads = machine["threads"]
    used = machine["gpu"] or machine["cpu"]
    return f"{used}, threads: {threads}, cores: {machine['cores']}"


def _versions(versions: Mapping[str, str]) -> str:
    shown: Sequence[str] = ("python", "torch", "numpy", "scikit-learn")
    return ", ".join(f"{name} {versions[name]}" for name in shown if name in versions)


def _commit(git: Mapping[str, object]) -> str:
    if git["commit"] is None:
        return "no commit"
    return str(git["commit"])[:8] + ("" if git["clean"] else ", changed")
