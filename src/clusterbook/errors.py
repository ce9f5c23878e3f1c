"""The one error for the person who typed: what was wrong, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """What somebody asked for can't be done; the message is one sentence for them.

    The ``clusterbook`` command prints the message alone and exits with status 2.
    Being a `ValueError`, it is also what scikit-learn expects of an estimator.
    """


def unknown(kind: str, name: object, known: Iterable[str]) -> InputError:
    """The error for a name that is not known; it names the nearest one.

    Examples
    --------
    >>> print(unknown("data set", "mnits", ["digits", "mnist"]))
    there is no data set 'mnits'; did you mean 'mnist'? Known: digits, mnist
    """
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    listed = ", ".join(names) if names else "none"
    return InputError(f"there is no {kind} {str(name)!r}{hint} Known: {listed}")
