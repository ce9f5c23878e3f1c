"""Checks of arguments: one clear sentence for the person who typed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from .errors import InputError, unknown


def whole(name: str, value: Any, least: int = 0) -> None:
    """Raise InputError unless *value* is a whole number of at least *least*."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")


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
