"""Writing and reading records, and the checks that go into them."""

from __future__ import annotations

import json
import os
import socket
from datetime import UTC, datetime
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from _support import LEDGER, put

from bookledger import arrays, load_records, model_file, page, recorded
from bookledger import records as records_module
from bookledger.records import MODEL_LIMIT
from clusterbook import datasets, paths
from clusterbook.checks import InputError

CONTEXT = {
    "chapter": "weights", "profile": "weights-demo", "seed": 4, "assumed": ["rate"],
    "parameters": {"epochs": 3, "seeds": [0], "image": "/home/somebody/cat.png", "rate": 0.001},
    "started": "2025-01-02T03:04:05+00:00", "piece": "2025-01-02T05:00:00.000+00:00",
    "earlier": 12.5, "code": "the code at the start", "git": {"commit": "abc", "clean": True},
}
RECORD = "weights-demo-seed4.json"
CLAIMS = "".join(f"""\
- {{id: {profile}-acc, tier: minor, says: s, source: t, seen: paper, kind: value,
   profile: {profile}, metric: a, statistic: mean, value: 1, tolerance: 0.5, why: w}}
""" for profile in ("weights-demo", "weights-b"))
EXPECTED = """\
- {id: weights-acc-high, says: the accuracy is high, relation: ">=", bound: 0.9, why: w}
- {id: weights-low, says: the loss is low, relation: "<", bound: 0.5, why: w}
- {id: weights-share, says: a share, relation: between, bound: [0, 1], why: w}
- {id: weights-same, says: both agree, relation: equals}
- {id: weights-close, says: both are close, relation: equals, tolerance: 1.0e-3, why: w}
- {id: weights-three, says: there are three, relation: equals, bound: 3, why: w}
- {id: weights-below, says: it lies below its null, relation: "<"}
- {id: weights-paired, says: labels are paired, relation: holds}
"""


@pytest.fixture(autouse=True)
def book(tmp_path, monkeypatch):
    """A book of its own, in which nothing was asked for."""
    put(tmp_path, {"book/ledger.toml": LEDGER,
                   "data/claims/weights.yaml": CLAIMS,
                   "data/expectations/weights.yaml": EXPECTED})
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    monkeypatch.delenv("CLUSTERBOOK_RECORDS", raising=False)
    monkeypatch.delenv("CLUSTERBOOK_RUN", raising=False)
    return tmp_path


@pytest.fixture
def asked(book, monkeypatch):
    """The folder in which a run in progress was asked to leave its record."""
    folder = book / "data" / "records"
    monkeypatch.setenv("CLUSTERBOOK_RECORDS", str(folder))
    set_context(monkeypatch)
    return folder


def set_context(monkeypatch, **changes):
    monkeypatch.setenv("CLUSTERBOOK_RUN", json.dumps({**CONTEXT, **changes}))


def test_nothing_is_written_unless_asked(book, monkeypatch):
    before = sorted(book.rglob("*"))
    silent = "not recorded: nothing asked for a record of this run"
    assert repr(page("weights").record({"acc": 1}, threads=4)) == silent
    monkeypatch.setenv("CLUSTERBOOK_RECORDS", str(book / "records"))
    assert repr(page("weights").record({"a": 1.0})) == silent
    monkeypatch.delenv("CLUSTERBOOK_RECORDS")
    set_context(monkeypatch)
    assert repr(page("weights").record({"a": float("nan")})) == silent
    assert sorted(book.rglob("*")) == before


def test_a_record_holds_the_run_and_its_results(asked):
    here = page("weights")
    here.check("weights-acc-high", 0.95)
    here.check("weights-low", 0.6)
    done = here.record(
        {"acc": np.float32(0.5), "n": np.int64(3), "empty": np.bool_(True)},
        history=[{"epoch": 1, "loss": 1 / 3}, {"epoch": 2, "loss": 0.25}],
        arrays={"centers": np.arange(6.0).reshape(2, 3)}, data=datasets.load("wine"))
    assert repr(done) == f"recorded: {RECORD}"
    assert sorted(path.name for path in asked.iterdir()) == [
        "manifest.json", RECORD, "weights-demo-seed4.npz"]
    (found,) = load_records(asked)
    assert (found.chapter, found.profile, found.seed) == ("weights", "weights-demo", 4)
    assert found.parameters == {"epochs": 3, "seeds": [0], "image": "cat.png", "rate": 0.001}
    assert found.assumed == ("rate",)
    assert found.metrics == {"acc": 0.5, "n": 3, "empty": True}
    assert found.checks == {"weights-acc-high": True, "weights-low": False}
    assert found.history == ({"epoch": 1, "loss": 0.3333333}, {"epoch": 2, "loss": 0.25})
    assert [part.tolist() for part in found.column("loss")] == [[1, 2], [0.3333333, 0.25]]
    assert [part.size for part in found.column("nmi")] == [0, 0]
    assert found.claims == {"weights-demo-acc": "value, mean: a = 1 ± 0.5"} and not found.doubts
    assert (found.code, found.git) == (CONTEXT["code"], CONTEXT["git"])
    assert found.started == "2025-01-02T03:04:05+00:00"
    source = next(source for source in datasets.catalog() if source.name == "wine")
    assert found.data == {"name": "wine", "sha256": source.content}
    assert {"python", "numpy", "scikit-learn", "clusterbook"} <= found.versions.keys()
    assert found.machine["cores"] == os.cpu_count()
    assert found.machine["instructions"] == torch.backends.cpu.get_cpu_capability()
    np.testing.assert_array_equal(arrays(found)["centers"], [[0, 1, 2], [3, 4, 5]])
    file = asked / "weights-demo-seed4.npz"
    file.write_bytes(file.read_bytes() + b" ")
    for _ in range(2):                      # arrays that are not the run's own, or missing
        with pytest.raises(InputError, match="is missing, or not the file that"):
            arrays(found)
        file.unlink(missing_ok=True)


def test_the_time_is_summed_over_the_pieces_of_a_run(asked, monkeypatch):
    now = datetime(2025, 1, 2, 5, 0, 30, tzinfo=UTC)
    monkeypatch.setattr(records_module, "datetime", Mock(wraps=datetime, now=lambda _zone: now))
    page("weights").record({"a": 1.0})
    assert load_records(asked)[0].seconds == 12.5 + 30
    now = datetime(2025, 1, 1, tzinfo=UTC)                      # a clock that was set back
    page("weights").record({"a": 1.0})
    assert load_records(asked)[0].seconds == 12.5


def test_the_text_of_a_record_is_sorted_a_row_of_history_a_line_and_says_nothing_private(asked):
    page("weights").record({"b": 1.0, "a": 2.0}, history=[{"loss": 1.0}, {"loss": 0.5}])
    text = (asked / RECORD).read_text()
    assert ' "history": [\n  {"loss": 1.0},\n  {"loss": 0.5}\n ],\n' in text
    assert ' "metrics": {"a": 2.0, "b": 1.0},\n' in text
    keys = [line.split(":")[0] for line in text.splitlines() if line.startswith(' "')]
    assert keys == sorted(keys) and len(keys) == 18
    assert not [private for private in (socket.gethostname(), str(asked.parent), "/home/")
                if private in text]


def test_another_seed_is_another_file_and_the_same_seed_replaces(asked, monkeypatch):
    for seed, a, more in ((0, 1.0, {"arrays": {"x": np.ones(2)}}), (1, 2.0, {}), (0, 3.0, {})):
        set_context(monkeypatch, seed=seed)
        page("weights").record({"a": a}, **more)
    assert [(found.seed, found.metrics["a"]) for found in load_records(asked)] == [(0, 3), (1, 2)]
    assert not list(asked.glob("*.npz"))  # the later run had no arrays


def test_values_that_are_no_numbers_are_refused_and_nothing_is_written(asked):
    for metrics, more, words in (
            ({"nmi": 1.0, "acc": np.nan}, {}, r"of weights-demo: metrics\.acc.*finite number"),
            ({"acc": np.ones(3)}, {}, "can't hold ndarray"),
            ({"acc": 1.0}, {"history": [{"loss": np.nan}]}, "history"),
            ({"acc": 1.0}, {"arrays": {"x": np.array([object()])}}, "holds objects")):
        with pytest.raises(InputError, match=words):
            page("weights").record(metrics, **more)
    assert not asked.exists()


@pytest.mark.parametrize(("old", "new", "words"), [
    (' "seed": 4,\n', "", "seed: Field required"),
    ('"a": 1.0', '"a": NaN', "metrics.a.float: Input should be a finite number"),
    ('"seed": 4', '"seed": 5', "must be called weights-demo-seed5.json"),
    ('"seed": 4', '"path": "elsewhere", "seed": 4', "'path'"),
    ("+00:00", "+02:00", "started: String should match"),
    ('"profile": "weights-demo"', '"profile": "weights-../b"', "profile: String should match"),
    ("}\n", "", "not a record"),
])
def test_a_damaged_record_is_named(asked, old, new, words):
    page("weights").record({"a": 1.0}, history=[{"loss": 1.0}])
    text = (asked / RECORD).read_text()
    assert old in text
    (asked / RECORD).write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=words) as caught:
        load_records(asked)
    assert str(caught.value).startswith(f"data/records/{RECORD}: ")


def test_a_trained_model_is_kept_beside_its_record(asked, monkeypatch):
    model = torch.nn.Linear(3, 2)
    assert repr(page("weights").record({"a": 1.0}, model=model)) == f"recorded: {RECORD}"
    stored = torch.load(model_file("weights-demo-seed4"), weights_only=True)
    assert all(torch.equal(stored[name], value) for name, value in model.state_dict().items())
    itself = SimpleNamespace(save=lambda path: path.write_bytes(b"itself"))
    page("weights").record({"a": 1.0}, model=itself)
    assert model_file("weights-demo-seed4").read_bytes() == b"itself"
    monkeypatch.setattr(records_module, "MODEL_LIMIT", 1000)
    for more, said in (({}, f"recorded: {RECORD}"),
                       ({"model": model}, "without the trained model, which has more than")):
        assert said in repr(page("weights").record({"a": 1.0}, **more))
        with pytest.raises(InputError, match="kept model: 'weights-demo-seed4'.*Known: none"):
            model_file("weights-demo-seed4")
    for file in (paths.checkout() / "data" / "records").glob("*.pt"):
        assert file.with_suffix(".json").is_file(), f"{file.name} belongs to no record"
        assert file.stat().st_size <= MODEL_LIMIT


def test_a_notebook_gets_records_by_what_they_were_run_with(monkeypatch):
    monkeypatch.setattr(paths, "root", paths.checkout)
    shipped = load_records()
    monkeypatch.setattr(records_module, "load_records", lambda: shipped)
    digits = recorded("tell", "tell-digits")
    assert digits.title == "TELL on scikit-learn's digits, 60 epochs, 5 recorded seeds"
    assert list(digits.metric("acc")) == [0, 1, 2, 3, 4] and digits.values("no such") == []
    same = {name: digits[0].parameters[name] for name in ("dataset", "epochs", "alpha", "network")}
    assert recorded("tell", **same) == digits
    for name, value in (("dataset", "mnist"), ("epochs", 59), ("alpha", 0.01), ("new", None)):
        assert not recorded("tell", **same | {name: value}), name
    assert recorded("tell", "tell-mnist-adam").label == "no recorded run"
    several = recorded("tell", "tell-mnist-30", "tell-mnist-small")
    assert several.metric("acc").keys() == {0, 1, 2, 3, 4} and len(several) == 8
    assert {run.profile for run in several} == {"tell-mnist-30", "tell-mnist-small"}
    for profiles, parameters in (((), {}), (("tell-digits",), {"epochs": 60})):
        with pytest.raises(InputError, match="either profiles, or the parameters"):
            recorded("tell", *profiles, **parameters)


def test_the_data_of_records_are_those_that_the_catalog_has():
    known = {source.name: source.content for source in datasets.catalog()}
    for record in load_records(paths.checkout() / "data" / "records"):
        assert known[record.data["name"]] == record.data["sha256"], (
            f"{record.name}: the data set has changed, so its records are stale")


def test_a_parameter_that_a_notebook_gets_later_counts_as_its_default(book):
    name = "data/records/tell-digits-seed0.json"
    cell = {"metadata": {"tags": ["parameters"]}, "source": ["warmth: float = 1  # | paper: 1 | "]}
    put(book, {name: (paths.checkout() / name).read_text(encoding="utf-8"),
               "notebooks/tell.ipynb": json.dumps({"cells": [cell]})})
    for given, found in (({}, 1), ({"warmth": 1.0}, 1), ({"warmth": 2.0}, 0), ({"wramth": 1.0}, 0)):
        assert len(recorded("tell", dataset="digits", epochs=60, **given)) == found


OF_DEFAULTS = "expected of the default parameters:"
# An expectation, the values, whether it holds (None: nothing to compare), and words that are shown.
CHECKS = [
    ("acc-high", (0.9,), True, "✓ the accuracy is high"),
    ("acc-high", (torch.tensor([0.95, 0.99], requires_grad=True),), True, "✓"),
    ("acc-high", (0.8999999,), False, f"(measured 0.9; {OF_DEFAULTS} >= 0.9)"),
    ("acc-high", (0.95, 0.1), False, "measured 0.95 and 0.1;"),
    ("acc-high", (float("nan"),), False, "measured nan;"),
    ("acc-high", (None,), None, "not checked: the accuracy is high (this run measured nothing to"),
    ("share", (0.0, 1.0), True, "✓"),
    ("share", (1.01,), False, "between (0.0, 1.0))"),
    ("share", (np.array([0.5, 1.5]),), False, "measured [0.5, 1.5];"),
    ("same", (np.arange(3), [0, 1, 2]), True, "✓"),
    ("same", (["a", "b"], ["a", "c"]), False, "measured ['a', 'b'] and ['a', 'c'];"),
    ("same", (np.ones(3), np.ones((3, 3))), False, "measured [1, 1, 1] and [[1, 1, 1]"),
    ("close", (1.0, 1.0009), True, "✓"),
    ("close", (1.0, 1.0011), False, f"measured 1 and 1.001; {OF_DEFAULTS} equals within 0.001)"),
    ("close", (1000.0, 1000.005), False, "measured 1000 and 1000;"),    # nothing relative
    ("three", (4,), False, "equals 3.0)"),
    ("below", (0.2, 0.2), False, f"{OF_DEFAULTS} <)"),
    ("below", ([0.1, 0.3], [0.2, 0.2]), False, "measured [0.1, 0.3] and [0.2, 0.2];"),
    ("paired", (True, np.array([True, True])), True, "✓"),
    ("paired", (False,), False, f"measured False; {OF_DEFAULTS} holds)"),
    ("paired", (np.array([True, False]),), False, "measured [ True, False];"),
    ("paired", ([],), None, "not checked"),
]


@pytest.mark.parametrize(("name", "values", "holds", "words"), CHECKS)
def test_a_check_holds_fails_or_was_not_made(name, values, holds, words):
    """A line that holds is constant; one that fails shows what was measured, and does not stop."""
    here = page("weights")
    outcome = here.check(f"weights-{name}", *values)
    assert bool(outcome) == (holds is True) and words in repr(outcome)
    assert repr(outcome)[0] == {True: "✓", False: "✗", None: "n"}[holds]
    assert here.outcomes == ({} if holds is None else {f"weights-{name}": holds})


def test_a_check_that_failed_once_stays_failed_in_the_record(book):
    here = page("weights")
    here.check("weights-acc-high", 0.1)
    assert here.check("weights-acc-high", 0.99)
    assert here.outcomes == {"weights-acc-high": False}
    path = book / "data" / "expectations" / "weights.yaml"      # edited, it is read again
    path.write_text(EXPECTED.replace("0.9,", "0.99,"))
    os.utime(path, ns=(1, 1))
    assert not here.check("weights-acc-high", 0.95)
    for name, value, words in (("paired", 1.0, "'weights-paired' takes True or False"),
                               ("acc-hihg", 1, "did you mean 'weights-acc-high'"),
                               ("below", 1, "needs two values to compare, not 1")):
        with pytest.raises(InputError, match=words):
            here.check(f"weights-{name}", value)


KEPT = {"acc": 0.5, "nmi": 0.3}         # of the second of three epochs
HISTORY = [{"epoch": 1, "acc": 0.4, "nmi": 0.2}, {"epoch": 2, **KEPT, "loss": 1.0},
           {"epoch": 3, "acc": 0.6, "nmi": 0.4, "loss": 2.0}]


@pytest.mark.parametrize(("metrics", "parameters", "wrong"), [
    ({"acc": 0.6, "nmi": 0.4, "loss": 2.0, "seconds": 9.0}, {}, ""),
    ({"acc": 0.62, "nmi": 0.4}, {}, "acc"),                     # two points more than there were
    ({"acc": 0.6, "nmi": 0.3}, {}, "nmi"),
    (KEPT, {"select": "last"}, "acc, nmi"), (KEPT, {}, "acc, nmi"),     # not of the last epoch
    (KEPT, {"select": "loss"}, ""), ({**KEPT, "loss": 2.0}, {"select": "loss"}, ""),
    ({"acc": 0.5, "nmi": 0.2}, {"select": "loss"}, "acc, nmi"),         # of two epochs
    ({"acc": 0.52, "nmi": 0.4}, {"select": "loss"}, "acc"),
])
def test_metrics_that_the_history_contradicts_are_refused(metrics, parameters, wrong, asked):
    page("weights").record(metrics, history=HISTORY)
    found = json.loads((asked / RECORD).read_text()) | {"parameters": parameters}
    (asked / RECORD).write_text(json.dumps(found))
    if wrong:
        with pytest.raises(InputError,
                           match=f"{RECORD}: these metrics do not match the history: .*{wrong}$"):
            load_records(asked)
    else:
        assert [record.metrics for record in load_records(asked)] == [metrics]


def test_a_damaged_attestation_is_named(book):
    put(book, {"data/verified/x.json": "{}"})
    with pytest.raises(InputError, match=r"^verified/x.json: "):
        records_module.attestations([])
