"""The columns of a person's own table: their names, which are the labels, and what a cell says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError

_LABELS = ("label", "class", "target", "y")  # names that are taken for the labels' by themselves
_MISSING = ("", "na", "n/a", "nan", "null", "?")
SHOWN = 5  # names in an error


# --- names -------------------------------------------------------------------------------------


def check_names(file: Path, names: Sequence[str]) -> None:
    """Every column has a name of its own."""
    if nameless := [f"column {i + 1}" for i, name in enumerate(names) if not name]:
        raise InputError(
            f"{file} has columns without a name ({listed(nameless)}): name or remove them; row "
            "numbers, which pandas writes so unless told index=False, are no feature"
        )
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(
            f"{file} has several columns of the same name ({listed(twice)}): expected each once; "
            "rename or remove the others"
        )


def label_name(
    file: Path, known: Sequence[str], labels: str | None, features: Sequence[str] | None
) -> str | None:
    """The name that was asked for, or the one that says so itself."""
    if labels is not None:
        if labels not in known:
            raise _no_column(file, "labels", labels, known)
        if labels in (features or ()):
            raise InputError(
                f"{labels!r} can't be both the labels and a feature: take it out of features, or "
                "name another column as labels"
            )
        return labels
    found = [name for name in known if name.casefold() in _LABELS and name not in (features or ())]
    if len(found) > 1:
        raise InputError(
            f"{file} has more than one column that could be the labels ({listed(found)}): name "
            f"the one, as in labels={found[0]!r}"
        )
    return found[0] if found else None


def chosen(file: Path, known: Sequence[str], features: Sequence[str] | None) -> list[str]:
    """The columns that were asked for, or all."""
    if features is None:
        return list(known)
    if unknown := [name for name in features if name not in set(known)]:
        raise _no_column(file, "features", unknown[0], known)
    return list(dict.fromkeys(features))


def _no_column(file: Path, setting: str, name: str, known: Sequence[str]) -> InputError:
    near = similar(name, known)
    hint = f"did you mean {near}?" if near else f"expected one of {listed(known) or 'none'}"
    return InputError(f"{file} has no {name!r}, which {setting} names; {hint}")


# --- cells and labels --------------------------------------------------------------------------


def as_number(cell: str) -> float | None:
    """What a cell says: NaN for a missing value, None for text."""
    if cell.strip().casefold() in _MISSING:
        return np.nan
    try:
        return None if "_" in cell else float(cell)  # Python reads 1_000 as a number
    except ValueError:
        return None


def is_missing(labels: np.ndarray) -> np.ndarray:
    """Which labels are missing, numbers or text."""
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind != "U":
        return np.zeros(labels.shape, dtype=bool)
    return np.array([label.strip().casefold() in _MISSING for label in labels.tolist()], dtype=bool)


def as_classes(labels: ArrayLike) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels as they come, to the class of each row and the classes' names.

    Numbers, also those that are written as text, are in the order of their values, other text is
    in alphabetic order.

    Parameters
    ----------
    labels : array-like with n_samples values

    Returns
    -------
    y : ndarray of int64, shape (n_samples,)
    classes : tuple of str

    Examples
    --------
    >>> as_classes(["10", "9", "9"])
    (array([1, 0, 0]), ('9', '10'))
    """
    values = label_values(np.asarray(labels).ravel())
    distinct, y = np.unique(values, return_inverse=True)
    return y.astype(np.int64), tuple(_class_name(value) for value in distinct.tolist())


def label_values(labels: np.ndarray) -> np.ndarray:
    """Numbers that are written as text, as numbers; all others as they come."""
    if labels.dtype.kind != "U":
        return labels
    labels = np.char.strip(labels)  # MATLAB fills text up with spaces
    numbers = [as_number(label) for label in labels.tolist()]
    # A float64 can't tell longer ones apart; NaN is not smaller either.
    if all(one is not None and abs(one) < 2**53 for one in numbers):
        return np.array(numbers)
    return labels


def _class_name(value: object) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value)


# --- in errors ---------------------------------------------------------------------------------


def similar(name: str, known: Iterable[str]) -> str:
    """The known names nearest to one, however they are capitalized, for an error; '' if none."""
    plain = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), plain, n=3, cutoff=0.6)
    return " or ".join(repr(plain[one]) for one in near)


def listed(names: Iterable[str]) -> str:
    """The first names, quoted, and how many more there are."""
    names = [repr(str(name)) for name in names]
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
