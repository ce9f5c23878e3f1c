"""The memory of a fit: what it takes is seen, and what others took is not."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from clusterbook import footprint


class Takes(BaseEstimator):
    """Holds so many megabytes while it is fitted, and gives them back."""

    def __init__(self, megabytes=0):
        self.megabytes = megabytes

    def fit(self, X, y=None):
        return np.ones(self.megabytes * 2**17).sum()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measured on Linux only")
def test_what_a_fit_takes_is_seen_whatever_came_before():
    wanted, X = {"small": 1, "large": 300, "small again": 1}, np.ones((2**20, 8))
    taken = footprint.peak_memory({name: Takes(size) for name, size in wanted.items()}, X)
    assert list(taken) == list(wanted)
    for name, size in wanted.items():
        assert size <= taken[name] < size + 12, name            # without the 64 MB of data


def test_elsewhere_nothing_is_made_up(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert math.isnan(footprint.peak_memory({"small": Takes(1)}, np.ones((4, 2)))["small"])
