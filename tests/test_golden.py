"""Every method gives its golden numbers, or has another VERSION."""

import fits
import golden
import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from bookledger.machine import version_of
from clusterbook.checks import InputError

W = np.ones(3, dtype=np.float32)


@pytest.mark.parametrize(("method", "name"), [
    pytest.param(method, name, id=name) for method, fits in golden.GOLDEN.items() for name in fits])
def test_a_fit_gives_its_golden_numbers(method, name):
    stored = golden.stored(method)
    assert stored["version"] == golden.version(method), (
        f"{method} has a new VERSION; write its numbers: python tests/golden {method}")
    assert not golden.differences(stored["fits"].get(name, {}), golden.golden(method, name)), (
        f"the numbers of {method} changed: raise VERSION in src/clusterbook/{method}/__init__.py, "
        f"then python tests/golden {method}; or mend the code")


def test_the_numbers_are_those_of_these_fits_and_no_two_fits_are_alike():
    assert {path.stem for path in golden.NUMBERS.iterdir()} == set(golden.GOLDEN)
    found = []
    for method, known in golden.GOLDEN.items():
        stored = golden.stored(method)["fits"]
        assert list(stored) == list(known), f"python tests/golden {method}"
        assert version_of(method) == f"{method} {golden.version(method)}", (
            "VERSION is no line of its own")
        found += map(repr, stored.values())
    assert version_of("all of them") == ", ".join(map(version_of, golden.GOLDEN)), (
        "a method with a VERSION has no fits in tests/golden/fits")
    assert len(set(found)) == len(found) > 60


FOUND = {"model": KMeans(2, n_init=1).fit([[0.0], [1.0]]), "net": torch.nn.Linear(2, 1),
         "row": [{"a": 1, "loss": 0.5, "b_seconds": 2}, {"a": 2, "loss": np.nan}], "x": np.eye(9)}


def test_everything_that_was_learned_is_compared():
    arrays = dict(fits.flat(FOUND))
    assert {"model.labels_", "model.cluster_centers_", "net.weight", "row[0].a"} <= set(arrays)
    assert not [name for name in arrays if "seconds" in name]
    found = golden.numbers(arrays)
    assert not golden.differences(found, golden.numbers(arrays))
    assert found["x"] == pytest.approx([1 / 9, 1 / 3, np.cos(np.arange(0, 81, 10)).sum() / 9])
    for name, change in (("x", np.eye(9)[::-1]), ("x", np.eye(9) * 1.0001), ("x", np.eye(9) + 1e-5),
                         ("row[0].loss", np.array(0.6)), ("row[1].loss", np.array(np.inf)),
                         ("row[1].a", np.array(3)),
                         ("model.labels_", arrays["model.labels_"][::-1])):
        assert len(golden.differences(found, golden.numbers({**arrays, name: change}))) == 1, name
    assert not golden.differences(found, golden.numbers({**arrays, "x": np.eye(9) + 1e-7}))
    assert golden.differences(found, golden.numbers(arrays | {"y": W})) == ["y: only now"]


def test_numbers_are_not_replaced_without_a_new_version(tmp_path, monkeypatch, capsys):
    present, results = [1], {"tell: a": {"x": ["ab", 1.0]}}
    for name, value in (("NUMBERS", tmp_path), ("GOLDEN", {"idc": {}, "tell": results}),
                        ("golden", lambda method, name: golden.GOLDEN[method][name]),
                        ("version", lambda method: present[-1])):
        monkeypatch.setattr(golden, name, value)

    def write(status, x, **more):
        results["tell: a"] = {"x": x, **more}
        assert golden.write(["tell"]) == status
        return golden.stored("tell")["fits"]["tell: a"]

    first = write(0, ["ab", 1.0])
    assert first == {"x": ["ab", 1.0]}
    assert write(0, ["ab", 1.000001]) == first, "it still holds"
    assert write(1, ["ab", 1.1]) == first == write(1, ["cd", 1.0]) == write(1, ["ab"])
    said = capsys.readouterr().out
    assert "tell: a: x: [1.0] before, [1.1] now" in said and "tell: a: x: other labels" in said
    assert write(0, ["ab", 1.0], y=[2.0])["y"] == [2.0]             # a further measure
    present.append(2)
    assert write(0, ["cd", 1.1]) == {"x": ["cd", 1.1]}
    assert golden.stored("tell")["version"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["tell.json"], "no other was asked for"
    with pytest.raises(InputError, match="method with fits: 'tall'; did you mean 'tell'"):
        golden.write(["tall"])
