"""The script that compares two versions: that it notices, and what it prints."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _support import CHECKOUT, module_of
from sklearn.cluster import KMeans

golden = module_of(CHECKOUT / "tests" / "golden" / "__main__.py")
W = np.ones(3, dtype=np.float32)


def side(revision: str, found: dict | str):
    """What one fit gave in a version, or said."""
    said = {"fit": found} if isinstance(found, str) else {}
    arrays = {} if said else {"fit": {name: np.asarray(a) for name, a in found.items()}}
    return golden.Side(revision, arrays, said, {"idc": revision * 64, "tell": "c" * 64}, 0.0)


@pytest.mark.parametrize(("old", "new", "told"), [
    ({"w": W * np.nan}, {"w": W * np.nan}, []),
    ({"w": W}, {"w": np.nextafter(W, 2)}, ["w: 3 of 3 numbers differ, by at most 1.19e-07"]),
    ({"w": W}, {"w": W.astype(np.float64)}, ["w: float32[3] and float64[3]"]),
    ({"w": W}, {"w": W[:2]}, ["w: float32[3] and float32[2]"]),
    ({"w": 0.0}, {"w": -0.0}, ["w: 0.0 and -0.0"]),
    ({"w": W}, {"v": W}, ["v: only in b", "w: only in a"]),
    ("not in this version: x", {"w": W}, []),
    ({"w": W}, "not in this version: x", ["b: not in this version: x"]),
    ("failed: y", {"w": W}, ["a: failed: y"]),
])
def test_every_difference_is_named(old, new, told):
    assert golden.differences(side("a", old), side("b", new), "fit") == told


def test_a_lineage_has_the_chapters_whose_code_changed(monkeypatch):
    monkeypatch.setattr(golden, "git", lambda *_: b"d" * 40 + b"\n")
    assert golden.lineage(side("a", {"w": W}), side("b", {"w": W}), 97) == (
        f"- chapter: idc\n  old: {'a' * 64}\n  new: {'b' * 64}\n  commit: {'d' * 40}\n"
        "  says: 97 short fits are bit-identical (python tests/golden a ddddddd)\n")


def test_everything_that_was_learned_is_compared():
    fits = module_of(CHECKOUT / "tests" / "golden" / "fits.py")
    found = dict(fits.flat({"model": KMeans(2, n_init=1).fit([[0.0], [1.0]]),
                            "net": torch.nn.Linear(1, 1), "row": [{"a": 1, "b_seconds": 2}]}))
    assert {"model.labels_", "model.cluster_centers_", "net.weight", "row[0].a"} <= set(found)
    assert not [name for name in found if "seconds" in name]
    assert {"tell: cnn", "idc: all stages", "deepcluster: digits"} <= set(fits.FITS)
    for made in (lambda: fits.made("IDC", nothing=1), lambda: fits.public("weights.nothing")):
        with pytest.raises(fits.Missing, match=r"clusterbook\.\w+.*nothing"):
            made()
