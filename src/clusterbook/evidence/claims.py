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

from dataclasses import dataclass
from pathlib import Path

from .. import paths
from ..errors import InputError
from . import measures
from .entries import Entry, is_number, looks_like_number, read_folder

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
        found = measures.statistic(name)
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
