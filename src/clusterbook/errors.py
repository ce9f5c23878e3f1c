"""The errors for invalid user input and for the end of the time given."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Raised for invalid user input, with one sentence about what is wrong and what to do.

    The ``clusterbook`` command prints the sentence alone and exits with status 2.
    """


class OutOfTime(RuntimeError):
    """Raised by training when the time of ``clusterbook run --for`` is over; its state is saved."""


def unknown(kind: str, name: object, known: Iterable[str]) -> InputError:
    """The error for an unknown name, with the nearest known one.

    Examples
    --------
    >>> print(unknown("data set", "mnits", ["digits", "mnist"]))
    there is no data set 'mnits'; did you mean 'mnist'? Known: digits, mnist
    """
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return InputError(f"there is no {kind} {str(name)!r}{hint} Known: {', '.join(names) or 'none'}")
