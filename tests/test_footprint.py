"""The memory of a fit: what it takes is seen, and what others took is not."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from clusterbook import footprint

X = np.zeros((4, 2))
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measured on Linux only")


class Takes(BaseEstimator):
    """Holds so many megabytes while it is fitted, and gives them back."""

    def __init__(self, megabytes: int = 0):
        self.megabytes = megabytes

    def fit(self, X, y=None):
        if self.megabytes < 0:
            raise ValueError("no such memory")
        held = np.ones(self.megabytes * 2**17)
        self.total_ = held.sum()
        return self


@linux
def test_what_a_fit_takes_is_seen_whatever_came_before():
    wanted = {"small": 1, "large": 300, "small again": 1}
    taken = footprint.peak_memory({name: Takes(size) for name, size in wanted.items()},
                                  np.ones((2**20, 8)))          # 64 MB, which do not count
    assert list(taken) == list(wanted)
    for name, size in wanted.items():
        assert size <= taken[name] < size + 12, name


@linux
def test_a_fit_that_fails_is_said():
    with pytest.raises(RuntimeError, match="ValueError: no such memory"):
        footprint.peak_memory({"small": Takes(1), "none": Takes(-1)}, X)


def test_elsewhere_nothing_is_made_up(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    taken = footprint.peak_memory({"small": Takes(1)}, X)
    assert list(taken) == ["small"] and math.isnan(taken["small"])
