"""Every rule of the verdicts, on records written by hand."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from clusterbook import datasets
from clusterbook.evidence import WORDS, Claim, Record, judge
from clusterbook.evidence.verdicts import t_interval

CODE = {"demo": "now"}


def run(seed, /, acc=None, **changes):
    """A clean record of seed *seed*, made on the day after its seed."""
    metrics = changes.pop("metrics", {} if acc is None else {"acc": acc})
    fields = {
        "chapter": "demo",
        "profile": "demo-paper",
        "parameters": {"epochs": 3},
        "assumed": (),
        "seed": seed,
        "metrics": metrics,
        "checks": {},
        "history": (),
        "git": {"commit": "abc", "clean": True},
        "code": "now",
        "tolerances": {"demo-acc": 0.02},
        "versions": {"python": "3.11.7"},
        "machine": {"cpu": "a", "gpu": None, "cores": 2, "threads": 1},
        "data": None,
        "started": f"2025-01-0{1 + seed}T00:00:00+00:00",
        "seconds": 1.0,
        "peak_memory_mb": None,
        "arrays": None,
    }
    return Record(**{**fields, **changes})


VALUE = Claim(
    id="demo-acc", chapter="demo", says="It reaches 95 %", source="T1", seen="paper", kind="value",
    profile="demo-paper", statistic="mean", metric="acc", value=0.95, tolerance=0.02, why="w",
)
BEST = replace(VALUE, statistic="best of 3 by loss")
GAIN = replace(VALUE, kind="difference", minus="kmeans", value=0.17)
TREND = replace(
    VALUE, kind="trend", statistic=None, value=None, tolerance=None, why=None,
    relation=">", than=0.9, holds_in="all",
)
MOST = replace(TREND, holds_in="most")
EXACT = replace(TREND, kind="exact", metric=None, relation=None, than=None, holds_in=None,
                profile=None, check="c")
ERROR = replace(EXACT, kind="source-error")


def runs(*values, **changes):
    return [run(seed, value, **changes) for seed, value in enumerate(values)]


def both(*pairs, names=("acc", "kmeans")):
    return [run(seed, metrics=dict(zip(names, pair, strict=True)))
            for seed, pair in enumerate(pairs)]


def checks(*outcomes, **changes):
    return [run(seed, checks={"c": held}, **changes) for seed, held in enumerate(outcomes)]


def at_own_tolerance(first, later):
    """Five runs whose first, by start and not by seed, held another tolerance than the others."""
    found = runs(0.95, 0.95, 0.95, 0.95, tolerances={"demo-acc": later})
    held = {"demo-acc": first}
    return [*found, run(4, 0.95, tolerances=held, started="2024-12-31T00:00:00Z")]


RULES = [
    # value: within the tolerance
    (VALUE, runs(0.94, 0.95, 0.96), "reproduced", "The mean is 0.95, within 0.02 of 0.95"),
    (VALUE, runs(0.93, 0.93, 0.93), "reproduced", "at the edge, whatever binary makes of it"),
    (VALUE, runs(0.97, 0.97, 0.97), "reproduced", ""),
    (VALUE, runs(0.95, 0.95), "indicative", "2 seeds instead of at least 3"),
    (VALUE, runs(0.95), "indicative", "1 seed instead of"),
    # value: outside
    (VALUE, runs(0.9299, 0.9299, 0.9299), "not reproduced", "not within 0.02 of 0.95"),
    (VALUE, runs(0.80, 0.81, 0.80), "not reproduced", ""),
    (VALUE, runs(0.80, 0.80), "inconclusive", "2 seeds instead of"),
    (VALUE, runs(0.80), "inconclusive", ""),
    (VALUE, runs(0.80, 0.90, 0.70), "inconclusive", "half the 95 % interval is more"),
    (replace(VALUE, statistic="single"), runs(0.80, 0.90, 0.70), "inconclusive", "interval"),
    (replace(VALUE, statistic="median"), runs(0.80, 0.90, 0.70), "not reproduced", "median is 0.8"),
    (replace(VALUE, statistic="maximum"), runs(0.80, 0.95, 0.70), "reproduced", "maximum is 0.95"),
    (replace(VALUE, statistic="standard deviation", value=0.01), runs(0.94, 0.95, 0.96),
     "reproduced", "standard deviation is 0.01"),
    (replace(VALUE, statistic="standard deviation", value=0.01), runs(0.94), "inconclusive",
     "no standard deviation"),
    # the best of N by loss: the statistic decides, and it takes N seeds
    (BEST, both((0.7, 2), (0.95, 1), (0.6, 3), names=("acc", "loss")), "reproduced", "by loss"),
    (BEST, both((0.95, 2), (0.7, 1), (0.6, 3), names=("acc", "loss")), "not reproduced", "0.7"),
    (BEST, runs(0.95, 0.95, 0.95), "not attempted", "has what the claim compares"),
    (replace(BEST, statistic="best of 5 by loss"),
     both(*[(0.95, 1)] * 4, names=("acc", "loss")), "indicative", "4 seeds instead of at least 5"),
    # the best epoch, which the source chose by the labels
    (replace(VALUE, statistic="best epoch by labels"),
     runs(0.1, 0.1, 0.1, history=({"acc": 0.5}, {"acc": 0.95}, {"acc": 0.9})), "reproduced", ""),
    (VALUE, [*runs(0.95, 0.95, 0.95), run(3)], "reproduced", "1 run of this profile did not"),
    # difference
    (GAIN, both((0.95, 0.78), (0.90, 0.73), (0.99, 0.82)), "reproduced", "mean is 0.17"),
    (GAIN, both((0.95, 0.90), (0.95, 0.90), (0.95, 0.90)), "not reproduced", "mean is 0.05"),
    # trend
    (TREND, runs(0.91, 0.92, 0.93), "reproduced", "holds in 3 of 3 seeds"),
    (TREND, runs(0.91, 0.92), "indicative", ""),
    (TREND, runs(0.91, 0.90, 0.93), "not reproduced", "holds in 2 of 3 seeds"),
    (TREND, runs(0.91, 0.90), "inconclusive", ""),
    (MOST, runs(0.91, 0.90, 0.93), "reproduced", "holds in 2 of 3 seeds"),
    (MOST, runs(0.91, 0.90, 0.93, 0.1), "not reproduced", "holds in 2 of 4 seeds"),
    (replace(TREND, relation=">="), runs(0.9, 0.9, 0.9), "reproduced", ""),
    (replace(TREND, relation="<", than="kmeans"), both((1, 2), (3, 4), (5, 6)), "reproduced", ""),
    (replace(TREND, relation="<", than="kmeans"), both((1, 2), (4, 3), (5, 6)),
     "not reproduced", ""),
    # exact and source-error
    (EXACT, checks(True), "confirmed", "The check c holds in 1 run"),
    (EXACT, checks(True, False), "not reproduced", "fails in 1 of 2 runs"),
    (EXACT, checks(True, profile="demo-default"), "confirmed", ""),
    (replace(EXACT, profile="demo-paper"), checks(True, profile="demo-b"), "not attempted", ""),
    (EXACT, [*checks(True), run(1, checks={"c": False}, code="old")], "confirmed", ""),
    (ERROR, checks(True, True), "refuted", "holds in 2 runs"),
    (ERROR, checks(False), "not reproduced", ""),
    # what keeps a result from being reproduced, but not from being wrong
    (VALUE, runs(0.95, 0.95, 0.95, assumed=("lr",)), "indicative", "does not give lr"),
    (VALUE, runs(0.80, 0.80, 0.80, assumed=("lr",)), "not reproduced", "does not give lr"),
    (VALUE, [*runs(0.95, 0.95), run(2, 0.95, git={"commit": "abc", "clean": False})],
     "indicative", "differs from its commit"),
    (VALUE, [*runs(0.95, 0.95), run(2, 0.95, git={"commit": None, "clean": None})],
     "indicative", "in no commit"),
    (TREND, runs(0.95, 0.95, 0.95, git={"commit": "abc", "clean": False}), "indicative", ""),
    (VALUE, at_own_tolerance(0.02, 0.02), "reproduced", ""),
    (VALUE, at_own_tolerance(0.01, 0.02), "indicative", "younger than the first record, which "
     "holds 0.01"),
    (VALUE, at_own_tolerance(0.02, 0.01), "reproduced", ""),
    (VALUE, runs(0.95, 0.95, 0.95, tolerances={}), "indicative", "which holds none"),
    # since records hold the statistic and the metric too
    (VALUE, at_own_tolerance(VALUE.allowed, 0.02), "reproduced", ""),
    (VALUE, at_own_tolerance("mean of nmi, ± 0.02", 0.02), "indicative", "holds mean of nmi, ±"),
    (VALUE, at_own_tolerance("median of acc, ± 0.02", 0.02), "indicative", "median of acc"),
    (GAIN, [run(s, metrics={"acc": 0.95, "kmeans": 0.78}, tolerances={GAIN.id: GAIN.allowed})
            for s in range(3)], "reproduced", ""),
    (replace(GAIN, minus="gmm"), [run(s, metrics={"acc": 0.95, "gmm": 0.78},
            tolerances={GAIN.id: GAIN.allowed}) for s in range(3)], "indicative", "younger"),
    # runs that are not the source's
    (replace(VALUE, differs="MNIST"), runs(0.95, 0.95, 0.95), "indicative",
     "other than in the source: MNIST"),
    (replace(TREND, differs="MNIST"), runs(0.91, 0.92, 0.93), "indicative", "MNIST"),
    (replace(VALUE, differs="MNIST"), runs(0.80, 0.80, 0.80), "not reproduced", "MNIST"),
    # nothing to compare
    (VALUE, [], "not attempted", "No run is recorded at the profile demo-paper"),
    (VALUE, runs(0.95, 0.95, 0.95, profile="demo-other"), "not attempted", "demo-paper"),
    (VALUE, runs(0.95, 0.95, 0.95, chapter="other", profile="other-paper"),
     "not attempted", "demo-paper"),
    (VALUE, both((1, 2), names=("nmi", "ari")), "not attempted", "compares (acc)"),
    (EXACT, [], "not attempted", "No run of the chapter demo"),
    (replace(VALUE, not_attempted="12 GPU days"), [], "not attempted", "12 GPU days"),
    (replace(VALUE, not_attempted="12 GPU days"), runs(0.95, 0.95, 0.95), "reproduced", ""),
    (replace(VALUE, cannot_compare="another metric"), runs(0.95, 0.95, 0.95), "cannot compare",
     "another metric"),
]


@pytest.mark.parametrize(("claim", "records", "word", "words"), RULES)
def test_each_rule(claim, records, word, words):
    verdict = judge(claim, records, fingerprints=CODE)
    assert verdict.word == word
    assert not verdict.stale
    if not words.startswith("at the edge"):
        assert words in verdict.reason
    assert verdict.reason


def test_every_word_is_reached():
    assert {word for _, _, word, _ in RULES} == set(WORDS)


def test_a_changed_code_marks_the_verdict_stale_and_keeps_its_word():
    verdict = judge(VALUE, [*runs(0.95, 0.95), run(2, 0.95, code="old")], fingerprints=CODE)
    assert (verdict.word, verdict.stale, verdict.label) == (
        "reproduced", True, "reproduced (stale)",
    )
    verdict = judge(EXACT, checks(True, code="old"), fingerprints=CODE)
    assert verdict.label == "confirmed (stale)"
    assert judge(VALUE, runs(0.95), fingerprints={}).stale  # the module is gone


WINE = {"name": "wine", "sha256": "0" * 64}


def test_other_data_mark_the_verdict_stale_and_keep_its_word():
    now = {"name": "wine", "sha256": next(
        source.content for source in datasets.catalog() if source.name == "wine")}
    assert not judge(VALUE, runs(0.95, 0.95, 0.95, data=now), fingerprints=CODE).stale
    verdict = judge(VALUE, [*runs(0.95, 0.95, data=now), run(2, 0.95, data=WINE)],
                    fingerprints=CODE)
    assert verdict.label == "reproduced (stale)"
    assert judge(EXACT, checks(True, data=WINE), fingerprints=CODE).label == "confirmed (stale)"
    # A fresh run of the same check counts alone.
    mixed = [*checks(True, data=now), run(1, checks={"c": False}, data=WINE)]
    assert judge(EXACT, mixed, fingerprints=CODE).label == "confirmed"


@pytest.mark.parametrize(
    ("data", "contents", "stale"),
    [
        (WINE, {"wine": "0" * 64}, False),
        (WINE, {"wine": "1" * 64}, True),
        (WINE, {"digits": "1" * 64}, False),  # nobody knows what it is now
        (WINE, {}, False),
        (None, {"wine": "1" * 64}, False),
        ({"name": "generated", "sha256": "2" * 64}, None, False),
    ],
)
def test_data_are_compared_by_name_where_both_are_known(data, contents, stale):
    records = runs(0.95, 0.95, 0.95, data=data)
    assert judge(VALUE, records, fingerprints=CODE, contents=contents).stale == stale
    records = runs(0.95, 0.95, 0.95, data=data, code="old")
    assert judge(VALUE, records, fingerprints=CODE, contents=contents).stale


def test_numbers_beside_the_verdict_are_over_all_seeds():
    records = both((0.7, 2), (0.95, 1), (0.6, 3), names=("acc", "loss"))
    verdict = judge(BEST, records, fingerprints=CODE)
    assert verdict.ours == 0.95
    assert (verdict.mean, verdict.n) == (pytest.approx(0.75), 3)
    assert verdict.sd == pytest.approx(0.180277563773)  # by hand: sqrt(0.065 / 2)
    assert verdict.records == tuple(f"demo-paper-seed{seed}" for seed in range(3))


numbers = st.floats(-100, 100, allow_nan=False).map(lambda x: round(x, 6))


@settings(deadline=None)  # a busy machine is no failure
@given(st.lists(numbers, min_size=2, max_size=12).filter(lambda found: len(set(found)) > 1))
def test_the_interval_is_scipys(found):
    expected = stats.t.interval(0.95, len(found) - 1, fmean(found), stats.sem(found))
    assert t_interval(found) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert t_interval(found[:1]) is None


STANDING = ["not reproduced", "inconclusive", "indicative", "reproduced"]


thousandths = st.integers(0, 1000).map(lambda x: x / 1000)


@settings(deadline=None)  # a busy machine is no failure
@given(st.lists(thousandths, min_size=1, max_size=6), thousandths, thousandths.map(lambda x: x / 2))
def test_within_a_tolerance_means_within_any_larger_one(found, value, tolerance):
    """A larger tolerance that was held from the start never turns success into failure."""
    words = []
    for allowed in (tolerance, tolerance + 0.1):
        claim = replace(VALUE, value=value, tolerance=allowed)
        records = runs(*found, tolerances={"demo-acc": allowed})
        words.append(judge(claim, records, fingerprints=CODE).word)
    if words[0] in ("reproduced", "indicative"):
        assert words[1] == words[0]


@settings(deadline=None)  # a busy machine is no failure
@given(st.lists(st.floats(0.9, 1.0), min_size=1, max_size=6), st.sampled_from(["dirty", "assumed"]))
def test_a_blemish_never_lifts_a_verdict(found, blemish):
    changes = {"dirty": {"git": {"commit": "a", "clean": False}}, "assumed": {"assumed": ("lr",)}}
    plain = judge(VALUE, runs(*found), fingerprints=CODE).word
    marred = judge(VALUE, runs(*found, **changes[blemish]), fingerprints=CODE).word
    assert marred != "reproduced"
    assert STANDING.index(marred) <= STANDING.index(plain)
