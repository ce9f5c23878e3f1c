"""The book that the engine serves: where it lies, and what its file ``book/ledger.toml`` says.

The engine knows no subject. The names of chapters and methods, of metrics, and of the modules that
load data and start several processes stand in that file.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal

from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass as model

from clusterbook import paths
from clusterbook.checks import InputError, one_of

FILE = Path("book", "ledger.toml")


@model(frozen=True, config=ConfigDict(extra="forbid"))
class Selector:
    """How a source picks one of several runs or epochs: by which metric, which end is better."""

    metric: str
    better: Literal["min", "max"]

    @property
    def best(self) -> Callable[..., Any]:
        """``min`` or ``max``."""
        return min if self.better == "min" else max


@model(frozen=True, config=ConfigDict(extra="forbid"))
class Metrics:
    """What the book says of its metrics; their keys are words joined by ``_``."""

    main: tuple[str, ...] = ()              # a sweep draws the first of them that was measured
    spelled: dict[str, str] = field(default_factory=dict)       # part of a key → in a text
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)    # by the key's last part
    axes: dict[str, str] = field(default_factory=dict)      # part of a key → axis of the scorecard
    selectors: dict[str, Selector] = field(default_factory=dict)


@model(frozen=True, config=ConfigDict(extra="forbid"))
class Again:
    """What ``clusterbook verify`` has to know of runs that are made again."""

    allowed: str | None = None              # module:function; metric, value → largest difference
    profiles: tuple[str, ...] = ()          # cheap ones, which end alike on every processor


@model(frozen=True, config=ConfigDict(extra="forbid"))
class Lead:
    """What a chapter is known for: a claim, and the profile whose runs stand against it."""

    claim: str
    profile: str
    metrics: dict[str, str]                 # metric → its name
    judged_by: str                          # the text or code that its claims were read in


@model(frozen=True, config=ConfigDict(extra="forbid"))
class Command:
    """A command of the book's own beside those of `bookledger.cli`."""

    does: str                               # module:function of texts; gives lines to print
    says: str                               # what it is for
    arguments: dict[str, str]               # its arguments, in order: name → what it is

    def __call__(self, *words: str) -> list[str]:
        """Do it; the lines to print."""
        return resolve_name(self.does)(*words)


@model(frozen=True, config=ConfigDict(extra="forbid"))
class Book:
    """The content of ``book/ledger.toml``."""

    title: str
    about: str
    methods: dict[str, str]                 # chapter → the name of its method, in the book's order
    metrics: Metrics = field(default_factory=Metrics)
    versions: dict[str, tuple[str, ...]] = field(default_factory=dict)  # chapter → its methods
    leads: dict[str, Lead] = field(default_factory=dict)    # chapter → what its three lines are of
    first_errata: tuple[str, ...] = ()      # those that matter most
    last_epoch: dict[str, str] = field(default_factory=dict)    # parameter → keeps the last epoch
    again: Again = field(default_factory=Again)
    library: str | None = None              # package whose methods carry a VERSION
    data: str | None = None                 # module with catalog, content, status and fetch
    processes: str | None = None            # module:function that runs a chapter under torchrun
    commands: dict[str, Command] = field(default_factory=dict)

    def method(self, chapter: str) -> str:
        """The name of a chapter's method; of an unknown chapter, its own."""
        return self.methods.get(chapter, chapter)

    def order(self, chapter: str) -> int:
        """The place of a chapter in the book; unknown ones come last."""
        return [*self.methods, chapter].index(chapter)

    def datasets(self) -> Any:
        """The module that knows the book's data sets; InputError if it names none."""
        if self.data is None:
            raise InputError(f"{FILE} names no module of data sets (the key data)")
        return resolve_name(self.data)

    def catalog(self) -> dict[str, Any]:
        """The known data sets by name; empty without a module of data sets."""
        return {source.name: source for source in self.datasets().catalog()} if self.data else {}

    def under_torchrun(self) -> Callable[..., Any]:
        """What runs a chapter in several processes; InputError if the book has nothing."""
        if self.processes is None:
            raise InputError("this book has no training by several processes; run it without "
                             "torchrun")
        return resolve_name(self.processes)

    def allowed(self) -> Callable[[str, float], float]:
        """How far a metric may be from its recorded value; without a function of the book, 0."""
        return resolve_name(self.again.allowed) if self.again.allowed else lambda metric, value: 0.0


def root() -> Path:
    """The folder that holds ``notebooks/``, ``book/`` and ``data/``.

    It is the one that ``CLUSTERBOOK_BOOK`` names, or else the one that the library comes with.
    """
    named = os.environ.get("CLUSTERBOOK_BOOK")
    return Path(named) if named else paths.root()


def checkout() -> Path | None:
    """The root if it is a folder to work in; None if it is a part of an installed package."""
    here = root()
    return None if paths.checkout() is None and here == paths.root() else here


def book() -> Book:
    """What the book at `root` says of itself; InputError for a mistake in its file."""
    path = root() / FILE
    if not path.is_file():
        raise InputError(f"{root()} is no book: it has no {FILE}")
    return _read(path, path.stat().st_mtime_ns)


@cache
def _read(path: Path, _written: int) -> Book:
    content = read(path, tomllib.loads, "TOML")
    with mistakes_in(FILE):
        return Book(**content)


@contextmanager
def mistakes_in(place: object) -> Iterator[None]:
    """Turn an error about some content into an InputError that begins with its place."""
    try:
        yield
    except (TypeError, ValueError) as error:        # a TypeError for a wrong key, or no mapping
        raise InputError(f"{place}: {mistake(error)}") from None


def mistake(error: Exception) -> str:
    """A mistake in words, the last that pydantic found."""
    if not isinstance(error, ValidationError):
        return str(error)
    last = error.errors()[-1]
    said = mistake(last["ctx"]["error"]) if last["type"] == "value_error" else last["msg"]
    return ": ".join(filter(None, [".".join(map(str, last["loc"])), said]))


def read(path: Path, parse: Callable[[str], Any], kind: str) -> Any:
    """A file's content, parsed; InputError if it can't be read or is not of its *kind*."""
    file = "/".join(path.parts[-3:])
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: not {kind}: {' '.join(str(error).split())}") from None


def load_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where there is no file."""
    found = read(path, json.loads, "JSON") if path.is_file() else {}
    if not isinstance(found, dict):
        raise InputError(f"{'/'.join(path.parts[-3:])}: not a JSON object")
    return found


def pick(kind: str, name: str, known: Mapping[str, Any]) -> Any:
    """What is known by a name; InputError, with the nearest name, for an unknown one."""
    one_of(kind, name, known)
    return known[name]


def sha256(content: bytes) -> str:
    """The SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def chapters() -> list[str]:
    """The chapters' names: one notebook each."""
    return sorted(path.stem for path in (root() / "notebooks").glob("*.ipynb"))


def notebooks(root: Path) -> list[Path]:
    """Every notebook that the book executes: chapters, their audits, the pages around them."""
    return sorted(path for folder in ("notebooks", "book", "book/audit")
                  for path in (root / folder).glob("*.ipynb"))
