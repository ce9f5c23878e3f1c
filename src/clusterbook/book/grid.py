"""Which runs a sweep consists of: every combination of the values that were asked for.

Everything is looked at here, before the first run begins.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from ..errors import InputError, unknown
from . import parameters
from .parameters import Parameter

MOST_LINES = 8          # as many as there are colors


@dataclass(frozen=True)
class Run:
    """One run of a sweep."""

    name: str                       # of its folder
    values: Mapping[str, Any]       # of every parameter


@dataclass(frozen=True)
class Grid:
    """The runs of a sweep, and how they were asked for."""

    chapter: str
    profile: str | None
    texts: Mapping[str, str]                    # as typed
    given: Mapping[str, tuple[Any, ...]]        # the same as values
    seeds: tuple[int, ...]                      # empty where the chapter has none
    runs: tuple[Run, ...]

    @property
    def swept(self) -> list[str]:
        """The parameters with several values: that of the x axis, and that of the lines, if any."""
        return [name for name, values in self.given.items() if len(values) > 1]

    def points(self) -> list[tuple[Any, ...]]:
        """Every combination of the swept values, in the order in which they were typed."""
        return list(itertools.product(*(self.given[name] for name in self.swept)))

    def point(self, run: Run) -> tuple[Any, ...]:
        """The swept values of a run."""
        return tuple(run.values[name] for name in self.swept)


def grid(chapter: str, texts: Mapping[str, str], *, profile: str | None = None,
         seeds: Sequence[int] | None = None) -> Grid:
    """The runs of a sweep.

    A chapter's own list of further seeds (``seeds``) is empty in a sweep, which has its own, unless
    the profile or the person says otherwise: each run is one training.

    Parameters
    ----------
    chapter, profile
        See `~clusterbook.book.parameters.resolve`.
    texts : mapping
        Parameter → its values, see `values_of`.
    seeds : sequence of int, optional
        Each combination is run with each of them.

    Raises
    ------
    InputError
        For anything that is wrong in what was asked.
    """
    known = parameters.read(chapter)
    base = parameters.resolve(chapter, profile)
    for name in texts:
        if name not in known:
            raise unknown(f"parameter of {chapter}", name, known)
    if "seed" in texts:
        raise InputError("the seeds of a sweep are given with --seeds, for example --seeds 0-4")
    if seeds is not None and "seed" not in known:
        raise InputError(f"{chapter} has no parameter 'seed'; --seeds can't repeat it")
    given = {name: tuple(values_of(known[name], texts[name])) for name in known if name in texts}
    # The first that was typed is the x axis.
    given = {name: given[name] for name in texts}
    _refuse_what_cant_be_drawn(given)

    said = parameters.profiles(chapter)[profile].values if profile is not None else {}
    if _is_list(known.get("seeds")) and "seeds" not in {*texts, *said}:
        base["seeds"] = []
    seeds = tuple(dict.fromkeys(seeds)) if seeds else (base["seed"],) if "seed" in known else ()
    count = math.prod(map(len, given.values())) * max(len(seeds), 1)
    if count > parameters.MOST_VALUES:
        raise InputError(f"this sweep has {count:,} runs; at most {parameters.MOST_VALUES:,} can "
                         "be asked for: give fewer values or seeds")
    in_order = [name for name in known if name in given]        # a name is the same in any order
    runs = []
    for values in itertools.product(*given.values()):
        chosen = dict(zip(given, values, strict=True))
        for seed in seeds or (None,):
            own = {**base, **chosen, **({} if seed is None else {"seed": seed})}
            words = [f"{name}={_word(chosen[name])}" for name in in_order]
            words += [] if seed is None else [f"seed{seed}"]
            runs.append(Run(_name("-".join([profile or chapter, *words])), own))
    return Grid(chapter, profile, dict(texts), given, seeds, tuple(runs))


def values_of(parameter: Parameter, text: str) -> list[Any]:
    """The values that somebody typed for a parameter of a sweep.

    Commas part them. Where a value has commas itself, semicolons do: always between the values of
    a list parameter, and wherever there is a semicolon; one at the end parts nothing. Whole
    numbers may be a range.

    Examples
    --------
    >>> values_of(Parameter("alpha", float, 0.1, "", "", ""), "1e-3,1e-2")
    [0.001, 0.01]
    >>> values_of(Parameter("k", int, 2, "", "", ""), "2-4,8")
    [2, 3, 4, 8]
    >>> values_of(Parameter("ks", list[int], [], "", "", ""), "1,2;[];5")
    [[1, 2], [], [5]]
    >>> values_of(Parameter("dataset", str, "digits", "", "", ""), "a,b.csv;")
    ['a,b.csv']
    """
    semicolon = ";" in text or _is_list(parameter)
    parts = [part.strip() for part in text.removesuffix(";").split(";" if semicolon else ",")]
    if parameter.type is int:
        parts = [one for part in parts for one in parameters.seed_range(part)]
    values: list[Any] = []
    for part in parts:
        if not part and not _is_list(parameter):
            raise InputError(f"{parameter.name} has an empty value in {text!r}")
        value = parameters.from_text(parameter, part)
        if value in values:
            raise InputError(f"{parameter.name} has the value {value!r} twice")
        values.append(value)
    return values


def _is_list(parameter: Parameter | None) -> bool:
    if parameter is None:
        return False
    kinds = get_args(parameter.type) if isinstance(parameter.type, UnionType) else (parameter.type,)
    return any(get_origin(kind) is list for kind in kinds)


def _refuse_what_cant_be_drawn(given: Mapping[str, Sequence[Any]]) -> None:
    swept = [name for name, values in given.items() if len(values) > 1]
    if not swept:
        raise InputError("a sweep needs a parameter with several values, for example "
                         "-p alpha 1e-4,1e-3; `clusterbook run` makes one run, or one per seed")
    if len(swept) > 2:
        raise InputError(f"a sweep draws at most two parameters with several values, and "
                         f"{', '.join(swept)} have: give one value to all but two")
    if len(swept) == 2 and len(given[swept[1]]) > MOST_LINES:
        raise InputError(f"the second parameter is drawn as lines, {MOST_LINES} at most, and "
                         f"{swept[1]} has {len(given[swept[1]])} values; name it first")


def _word(value: Any) -> str:
    """A value as part of a file's name that no other value has."""
    if own_file(value):
        value = str(Path(str(value).removeprefix("folder:")).expanduser().resolve())
    items = list(map(str, value)) if isinstance(value, list) else [str(value)]
    text = ",".join(items) if items else "empty"
    plain = re.sub(r"[^a-z0-9.,+-]+", "_", text.lower())[-40:].strip("._")
    # Upper and lower case are one to some file systems.
    clear = plain == text and not any("," in item or item == "empty" for item in items)
    return plain if clear else f"{plain}_{_digest(repr(value))}"


def _name(text: str) -> str:
    return text if len(text) <= 150 else f"{text[:140]}_{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def own_file(value: Any) -> Path | None:
    """The file or folder of the person's own that a parameter's value names, if it does."""
    if not isinstance(value, str) or not value:
        return None
    try:
        path = Path(value.removeprefix("folder:")).expanduser()
        return path if value.startswith("folder:") or path.suffix and path.exists() else None
    except (OSError, RuntimeError):     # too long for a file's name, or ~ of nobody
        return None
