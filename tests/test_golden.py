"""The script that compares two versions: that it notices, and what it prints."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _support import CHECKOUT, module_of
from sklearn.cluster import KMeans

golden = module_of(CHECKOUT / "tests" / "golden" / "__main__.py")
fits = module_of(CHECKOUT / "tests" / "golden" / "fits.py")
W = np.ones(3, dtype=np.float32)


@pytest.mark.parametrize(("old", "new", "told"), [
    (W * np.nan, W * np.nan, []),
    (W, np.nextafter(W, 2), ["w: 3 of 3 numbers differ, by at most 1.19e-07"]),
    (W, W.astype(np.float64), ["w: float32[3] and float64[3]"]),
    (W, W[:2], ["w: float32[3] and float32[2]"]),
    (np.array(0.0), np.array(-0.0), ["w: 0.0 and -0.0"]),
])
def test_every_difference_is_named(old, new, told):
    assert golden.differences({"w": old}, {"w": new}) == told
    assert golden.differences({"w": old, "v": W}, {"w": old}) == ["v: only in OLD"]


def test_everything_that_was_learned_is_compared_and_a_lineage_has_what_changed():
    found = dict(fits.flat({"model": KMeans(2, n_init=1).fit([[0.0], [1.0]]),
                            "net": torch.nn.Linear(1, 1), "row": [{"a": 1, "b_seconds": 2}]}))
    assert {"model.labels_", "model.cluster_centers_", "net.weight", "row[0].a"} <= set(found)
    assert not [name for name in found if "seconds" in name]
    said = golden.lineage({"idc": "a", "tell": "b"}, {"idc": "c", "tell": "b"}, "d", "equal")
    assert said == "- chapter: idc\n  old: a\n  new: c\n  commit: d\n  says: equal\n"
