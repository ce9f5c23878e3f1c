"""The script that compares two versions: that it notices, and what it prints."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

GOLDEN = Path(__file__).parent / "golden"


def load(name, monkeypatch):
    """A file of the script, as a module."""
    spec = spec_from_file_location(f"golden_{name.strip('_')}", GOLDEN / f"{name}.py")
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)      # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def sides(monkeypatch):
    """Makes two versions' results from what one fit gave in each, or said."""
    golden = load("__main__", monkeypatch)

    def side(revision, found):
        said = {"fit": found} if isinstance(found, str) else {}
        arrays = {} if said else {"fit": {name: np.asarray(a) for name, a in found.items()}}
        return golden.Side(revision, arrays, said, {"idc": revision * 64, "tell": "c" * 64}, 0.0)

    return golden, lambda old, new: (side("a", old), side("b", new))


W = np.ones(3, dtype=np.float32)


@pytest.mark.parametrize(("old", "new", "told"), [
    ({"w": W}, {"w": W}, []),
    ({"w": W * np.nan}, {"w": W * np.nan}, []),
    ({"w": W}, {"w": np.nextafter(W, 2)}, ["w: 3 of 3 numbers differ, by at most 1.19e-07"]),
    ({"w": W}, {"w": W.astype(np.float64)}, ["w: float32[3] and float64[3]"]),
    ({"w": W}, {"w": W[:2]}, ["w: float32[3] and float32[2]"]),
    ({"w": 0.0}, {"w": -0.0}, ["w: 0.0 and -0.0"]),
    ({"w": W}, {"v": W}, ["v: only in b", "w: only in a"]),
    ("not in this version: x", {"w": W}, []),
    ({"w": W}, "not in this version: x", ["b: not in this version: x"]),
    ("failed: y", {"w": W}, ["a: failed: y"]),
    ("not in this version: x", "not in this version: x",
     ["a: not in this version: x", "b: not in this version: x"]),
])
def test_every_difference_is_named(sides, old, new, told):
    golden, made = sides
    assert golden.differences(*made(old, new), "fit") == told


def test_a_lineage_has_the_chapters_whose_code_changed(sides, monkeypatch):
    golden, made = sides
    monkeypatch.setattr(golden, "git", lambda *_: b"d" * 40 + b"\n")
    assert golden.lineage(*made({"w": W}, {"w": W}), 97) == (
        f"- chapter: idc\n  old: {'a' * 64}\n  new: {'b' * 64}\n  commit: {'d' * 40}\n"
        "  says: 97 short fits are bit-identical (python tests/golden a ddddddd)\n")


def test_everything_that_was_learnt_is_compared(monkeypatch):
    fits = load("fits", monkeypatch)
    found = dict(fits.flat({"model": KMeans(2, n_init=1).fit([[0.0], [1.0]]),
                            "net": torch.nn.Linear(1, 1), "row": [{"a": 1, "b_seconds": 2}]}))
    assert {"model.labels_", "model.cluster_centers_", "net.weight", "row[0].a"} <= set(found)
    assert not [name for name in found if "seconds" in name]
    with pytest.raises(fits.Missing, match=r"clusterbook\.IDC\(nothing=\)"):
        fits.made("IDC", nothing=1)
    with pytest.raises(fits.Missing, match=r"clusterbook\.weights\.nothing"):
        fits.public("weights.nothing")


def test_the_fits_have_a_list():
    done = subprocess.run([sys.executable, GOLDEN, "--list"], capture_output=True, text=True,
                          check=True)
    assert {"tell: cnn", "idc: all stages", "deepcluster: digits"} <= set(done.stdout.splitlines())
