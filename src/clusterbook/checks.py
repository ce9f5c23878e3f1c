"""The errors for invalid input and for the end of the time given, and checks of arguments."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

_LISTED = 100       # known names in an error


class InputError(ValueError):
    """Raised for invalid user input, with one sentence about what is wrong and what to do.

    The ``clusterbook`` command prints the sentence alone and exits with status 2.
    """


class OutOfTime(RuntimeError):
    """Raised by training when the time of ``clusterbook run --for`` is over; its state is saved."""


def said(error: BaseException) -> str:
    """What an error says, or its kind if it says nothing, such as a MemoryError.

    Torch's advice to load a file that could run anything is left out.
    """
    if "weights_only" in str(error):
        return "it holds other things than numbers"
    return str(error) or type(error).__name__


def unknown(kind: str, name: object, known: Iterable[str]) -> InputError:
    """The error for an unknown name, with the nearest known one.

    >>> print(unknown("data set", "mnits", ["digits", "mnist"]))
    unknown data set: 'mnits'; did you mean 'mnist'? Known: digits, mnist
    """
    names = sorted(known)
    lower = {one.lower(): one for one in names}
    near = get_close_matches(str(name).lower(), lower, n=1, cutoff=0.5)
    hint = f"; did you mean {lower[near[0]]!r}?" if near else "."
    if len(names) > _LISTED:
        names[_LISTED:] = [f"and {len(names) - _LISTED} more"]
    return InputError(f"unknown {kind}: {str(name)!r}{hint} Known: {', '.join(names) or 'none'}")


def whole(name: str, value: Any, least: int = 0) -> None:
    """Raise InputError unless *value* is a whole number of at least *least*."""
    if not _is_whole(value) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")


def wholes(name: str, value: Any) -> None:
    """Raise InputError unless *value* is a sequence of whole numbers of at least 1."""
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    if not listed or not all(_is_whole(one) and one > 0 for one in value):
        raise InputError(f"{name} must be a list of whole numbers of at least 1, not {value!r}")


def number(name: str, value: Any, *, zero: bool = False) -> None:
    """Raise InputError unless *value* is a finite number above 0, or with *zero* at least 0."""
    real = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not real or value < 0 or (value == 0 and not zero):
        floor = "at least" if zero else "above"
        raise InputError(f"{name} must be a number {floor} 0, not {value!r}")


def one_of(name: str, value: Any, known: Iterable[str]) -> None:
    """Raise InputError, with the nearest name, unless *value* is one of the known ones."""
    if value not in known:
        raise unknown(name, value, known)


def image_shape(value: Any) -> tuple[int, int, int]:
    """(channels, height, width); raises InputError unless *value* is that."""
    sizes = value if isinstance(value, Sequence) else ()
    if len(sizes) != 3 or not all(_is_whole(size) and size > 0 for size in sizes):
        raise InputError("image_shape must be three positive whole numbers, (channels, height, "
                         f"width), not {value!r}")
    return tuple(map(int, sizes))


def rows(X: Any, takes_shape: bool) -> None:
    """Raise InputError for images that are not flattened to rows; the message says how."""
    if len(shape := getattr(X, "shape", ())) > 2:
        rest, first = tuple(map(int, shape[1:])), ""
        images = rest if len(rest) == 3 else (1, *rest)
        if len(rest) == 3 and rest[2] in (1, 3, 4) and rest[0] not in (1, 3, 4):
            first, images = ".transpose(0, 3, 1, 2)", (rest[2], *rest[:2])      # colors are last
        more = f" and image_shape={images}" if takes_shape and len(images) == 3 else ""
        raise InputError(f"X has the shape {tuple(shape)}, but a sample is a row: give "
                         f"X{first}.reshape(len(X), -1){more}")


def pixels(X: Any, shape: tuple[int, ...]) -> None:
    """Raise InputError unless the rows of *X* are images of that shape with pixels in [0, 1]."""
    if math.prod(shape) != X.shape[1]:
        raise InputError(f"image_shape {shape} has {math.prod(shape)} values, but X has "
                         f"{X.shape[1]} features")
    low, high = float(X.min()), float(X.max())
    if low < -1e-6 or high > 1 + 1e-6:      # scaled ones are off by rounding
        raise InputError("pixels must lie in [0, 1] where image_shape is set, but X runs from "
                         f"{low:g} to {high:g}; divide bytes by 255")


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def as_seed(random_state: object = None) -> int:
    """The seed, from 0 to 2**32 - 1, that scikit-learn's *random_state* stands for.

    An int is its own seed; None takes fresh entropy, not numpy's global generator; a numpy
    ``RandomState`` or ``Generator`` is drawn from. Raises InputError for anything else.
    """
    import numpy as np  # late: the command's help needs no numpy

    if random_state is None:
        return secrets.randbits(32)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**32, dtype=np.uint32))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**32))
    if _is_whole(random_state) and 0 <= random_state < 2**32:
        return int(random_state)
    raise InputError("random_state must be None, a whole number from 0 to 2**32 - 1, or a numpy "
                     f"RandomState or Generator, but is {random_state!r}")


def as_random_state(random_state: object = None) -> Any:
    """A numpy ``RandomState`` as it is, and one with the seed `as_seed` for anything else."""
    import numpy as np

    return (random_state if isinstance(random_state, np.random.RandomState)
            else np.random.RandomState(as_seed(random_state)))
