"""Every rule of the verdicts, on records written by hand; stale records, and replaced code."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from clusterbook import datasets, paths
from clusterbook.errors import InputError
from clusterbook.evidence import WORDS, Claim, Record, judge
from clusterbook.evidence.verdicts import is_stale, leads, load_lineage, t_interval

A, B, C, D = (digit * 64 for digit in "abcd")


def run(seed, /, acc=None, **changes):
    """A clean record of seed *seed*, made on the day after its seed."""
    metrics = changes.pop("metrics", {} if acc is None else {"acc": acc})
    fields = {
        "chapter": "demo", "profile": "demo-paper", "parameters": {"epochs": 3}, "assumed": (),
        "seed": seed, "metrics": metrics, "checks": {}, "history": (),
        "git": {"commit": "abc", "clean": True}, "code": A, "tolerances": {"demo-acc": 0.02},
        "versions": {"python": "3.11.7"}, "data": None,
        "machine": {"cpu": "a", "gpu": None, "cores": 2, "threads": 1},
        "started": f"2025-01-0{1 + seed}T00:00:00+00:00", "seconds": 1.0,
        "peak_memory_mb": None, "arrays": None,
    }
    return Record(**{**fields, **changes})


VALUE = Claim(
    id="demo-acc", chapter="demo", says="It reaches 95 %", source="T1", seen="paper", kind="value",
    profile="demo-paper", statistic="mean", metric="acc", value=0.95, tolerance=0.02, why="w")
BEST = replace(VALUE, statistic="best of 3 by loss")
SPREAD = replace(VALUE, statistic="standard deviation", value=0.01)
GAIN = replace(VALUE, kind="difference", minus="kmeans", value=0.17)
TREND = replace(VALUE, kind="trend", statistic=None, value=None, tolerance=None, why=None,
                relation=">", than=0.9, holds_in="all")
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
    (VALUE, runs(0.95, 0.95), "indicative", "2 seeds instead of at least 3"),
    # value: outside
    (VALUE, runs(0.9299, 0.9299, 0.9299), "not reproduced", "not within 0.02 of 0.95"),
    (VALUE, runs(0.80, 0.80), "inconclusive", "2 seeds instead of"),
    (VALUE, runs(0.80, 0.90, 0.70), "inconclusive", "half the 95 % interval is more"),
    (replace(VALUE, statistic="single"), runs(0.80, 0.90, 0.70), "inconclusive", "interval"),
    (replace(VALUE, statistic="median"), runs(0.80, 0.90, 0.70), "not reproduced", "median is 0.8"),
    (replace(VALUE, statistic="maximum"), runs(0.80, 0.95, 0.70), "reproduced", "maximum is 0.95"),
    (SPREAD, runs(0.94, 0.95, 0.96), "reproduced", "standard deviation is 0.01"),
    (SPREAD, runs(0.94), "inconclusive", "1 seed instead of"),
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
    (replace(TREND, relation="<", than="kmeans"), both((1, 2), (4, 3), (5, 6)),
     "not reproduced", ""),
    # exact and source-error
    (EXACT, checks(True), "confirmed", "The check c holds in 1 run"),
    (EXACT, checks(True, False), "not reproduced", "fails in 1 of 2 runs"),
    (EXACT, checks(True, profile="demo-default"), "confirmed", ""),
    (replace(EXACT, profile="demo-paper"), checks(True, profile="demo-b"), "not attempted", ""),
    (ERROR, checks(True, True), "refuted", "holds in 2 runs"),
    (ERROR, checks(False), "not reproduced", ""),
    # what keeps a result from being reproduced, but not from being wrong
    (VALUE, runs(0.95, 0.95, 0.95, assumed=("lr",)), "indicative", "does not give lr"),
    (VALUE, runs(0.80, 0.80, 0.80, assumed=("lr",)), "not reproduced", "does not give lr"),
    (VALUE, [*runs(0.95, 0.95), run(2, 0.95, git={"commit": "abc", "clean": False})],
     "indicative", "differs from its commit"),
    (VALUE, [*runs(0.95, 0.95), run(2, 0.95, git={"commit": None, "clean": None})],
     "indicative", "in no commit, or"),
    (TREND, runs(0.95, 0.95, 0.95, git={"commit": "abc", "clean": False}), "indicative", ""),
    (VALUE, at_own_tolerance(0.02, 0.02), "reproduced", ""),
    (VALUE, at_own_tolerance(0.01, 0.02), "indicative", "younger than the first record, which "
     "holds 0.01"),
    (VALUE, at_own_tolerance(0.02, 0.01), "reproduced", ""),
    (VALUE, runs(0.95, 0.95, 0.95, tolerances={}), "indicative", "which holds none"),
    # since records hold the statistic and the metric too
    (VALUE, at_own_tolerance(VALUE.allowed, 0.02), "reproduced", ""),
    (VALUE, at_own_tolerance("mean of nmi, ± 0.02", 0.02), "indicative", "holds mean of nmi, ±"),
    (GAIN, [run(s, metrics={"acc": 0.95, "kmeans": 0.78}, tolerances={GAIN.id: GAIN.allowed})
            for s in range(3)], "reproduced", ""),
    (replace(GAIN, minus="gmm"), [run(s, metrics={"acc": 0.95, "gmm": 0.78},
            tolerances={GAIN.id: GAIN.allowed}) for s in range(3)], "indicative", "younger"),
    # runs that are not the source's
    (replace(VALUE, differs="MNIST"), runs(0.95, 0.95, 0.95), "indicative",
     "other than in the source: MNIST"),
    (replace(VALUE, differs="MNIST"), runs(0.80, 0.80, 0.80), "not reproduced", "MNIST"),
    # nothing to compare
    (VALUE, [], "not attempted", "No recorded run of demo-paper"),
    (VALUE, runs(0.95, 0.95, 0.95, profile="demo-other"), "not attempted", "demo-paper"),
    (VALUE, both((1, 2), names=("nmi", "ari")), "not attempted", "compares (acc)"),
    (EXACT, [], "not attempted", "No recorded run of demo"),
    (replace(VALUE, not_attempted="12 GPU days"), [], "not attempted", "12 GPU days"),
    (replace(VALUE, not_attempted="12 GPU days"), runs(0.95, 0.95, 0.95), "reproduced", ""),
    (replace(VALUE, cannot_compare="another metric"), runs(0.95, 0.95, 0.95), "cannot compare",
     "another metric"),
]


@pytest.mark.parametrize(("claim", "records", "word", "words"), RULES)
def test_each_rule(claim, records, word, words):
    verdict = judge(claim, records)
    assert (verdict.word, verdict.stale) == (word, False)
    assert verdict.reason
    if not words.startswith("at the edge"):
        assert words in verdict.reason


def test_every_word_is_reached():
    assert {word for _, _, word, _ in RULES} == set(WORDS)


def test_a_stale_record_marks_the_verdict_and_keeps_its_word():
    verdict = judge(VALUE, runs(0.95, 0.95, 0.95), stale={"demo-paper-seed2"})
    assert (verdict.word, verdict.stale, verdict.label) == (
        "reproduced", True, "reproduced (stale)")
    assert judge(EXACT, checks(True), stale={"demo-paper-seed0"}).label == "confirmed (stale)"
    # A fresh run of the same check counts alone.
    assert judge(EXACT, checks(True, False), stale={"demo-paper-seed1"}).label == "confirmed"


WINE = {"name": "wine", "sha256": "0" * 64}


def test_data_are_compared_by_name_where_both_are_known():
    code = {"demo": A}
    for data, present, stale in (
        (WINE, {"wine": "0" * 64}, False),
        (WINE, {"wine": "1" * 64}, True),
        (WINE, {"digits": "1" * 64}, False),        # nobody knows what it is now
        (None, {"wine": "1" * 64}, False),
    ):
        assert is_stale(run(0, data=data), code, present) == stale
        assert is_stale(run(0, data=data, code=D), code, present)
    assert is_stale(run(0, data=WINE), code)
    now = next(source.content for source in datasets.catalog() if source.name == "wine")
    assert not is_stale(run(0, data={"name": "wine", "sha256": now}), code)


# --- code that replaced other code without changing a number


def entry(old, new, chapter="demo", **changes):
    values = {"chapter": chapter, "old": old, "new": new, "commit": "e" * 40, "says": "a test",
              **changes}
    return "- " + "\n  ".join(f"{key}: {value}" for key, value in values.items()) + "\n"


@pytest.fixture
def lineage(tmp_path, monkeypatch):
    """What writes the lineage of a book."""
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    return lambda *entries: (tmp_path / "data" / "lineage.yaml").write_text("".join(entries))


def test_a_record_of_replaced_code_is_not_stale(lineage):
    def stale(code, now=C):
        return is_stale(run(0, code=code), {"demo": now}, {})

    assert stale(A) and stale(B) and not stale(C)           # there is no file
    lineage(entry(A, B), entry(B, C))
    assert load_lineage() == {("demo", A): B, ("demo", B): C}
    assert not stale(A) and not stale(B) and not stale(C)
    assert stale(D) and stale(A, now=D) and stale(C, now=B)
    assert is_stale(run(0, code=A), {}, {})                 # the module is gone
    assert not leads({("other", A): B}, "demo", A, B)


@pytest.mark.parametrize(("entries", "says"), [
    ([entry(A, B), entry(A, C)], "is replaced twice"),
    ([entry(A, B), entry(B, C), entry(C, A)], "or by itself"),
    ([entry(A, A)], "or by itself"),
    ([entry(A, "abc")], ":3: replacement: new: String should match pattern"),
    ([entry(A, B, commit="main")], ":4: replacement: commit: String should match"),
])
def test_a_mistake_in_the_lineage_is_refused(lineage, entries, says):
    lineage(*entries)
    with pytest.raises(InputError, match=rf"data/lineage\.yaml.*{says}"):
        load_lineage()


def test_the_books_own_lineage_is_about_chapters():
    assert {chapter for chapter, _ in load_lineage()} <= set(paths.chapters())


# --- numbers


def test_numbers_beside_the_verdict_are_over_all_seeds():
    records = both((0.7, 2), (0.95, 1), (0.6, 3), names=("acc", "loss"))
    verdict = judge(BEST, records)
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
        words.append(judge(claim, records).word)
    if words[0] in ("reproduced", "indicative"):
        assert words[1] == words[0]


@settings(deadline=None)  # a busy machine is no failure
@given(st.lists(st.floats(0.9, 1.0), min_size=1, max_size=6), st.sampled_from(["dirty", "assumed"]))
def test_a_blemish_never_lifts_a_verdict(found, blemish):
    changes = {"dirty": {"git": {"commit": "a", "clean": False}}, "assumed": {"assumed": ("lr",)}}
    plain = judge(VALUE, runs(*found)).word
    marred = judge(VALUE, runs(*found, **changes[blemish])).word
    assert marred != "reproduced"
    assert STANDING.index(marred) <= STANDING.index(plain)
