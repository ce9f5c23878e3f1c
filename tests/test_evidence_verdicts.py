"""Every rule of the verdicts, on records written by hand; stale records."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import fmean

import nbformat
import pytest
from _support import LEDGER, PACKAGE, put, record
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bookledger import WORDS, Claim, Comparison, Record, judge, load_records
from bookledger.checks import as_it_stands, cells_of_checks
from bookledger.machine import hashes, version_of
from bookledger.verdicts import judge_number, stale_among, t_interval
from bookledger.wording import measured
from clusterbook import datasets, paths
from clusterbook.checks import InputError

A, B, C = (digit * 64 for digit in "abc")
NOW = {"demo-acc": "as the claim stands now"}


@pytest.fixture(autouse=True)
def enough(monkeypatch):
    """The rules are tried at three seeds, whatever number the book asks for."""
    monkeypatch.setattr("bookledger.verdicts.ENOUGH_SEEDS", 3)


def run(seed, /, acc=None, **changes):
    """A clean record of seed *seed*, made on the day after its seed."""
    return Record(**record(**{
        "seed": seed, "metrics": {} if acc is None else {"acc": acc}, "claims": NOW,
        "parameters": {"epochs": 3}, "assumed": (), "history": (),
        "started": f"2025-01-0{1 + seed}T00:00:00+00:00", **changes}))


VALUE = Comparison(
    id="demo-acc", kind="value", profile="demo-paper", statistic="mean", metric="acc", value=0.95,
    tolerance=0.02, why="w")
BEST = replace(VALUE, statistic="best of 3 by loss")
SPREAD = replace(VALUE, statistic="standard deviation", value=0.01)
GAIN = replace(VALUE, kind="difference", minus="kmeans", value=0.17)
TREND = replace(VALUE, kind="trend", statistic=None, value=None, tolerance=None, why=None,
                relation=">", than=0.9, holds_in="all")
MOST = replace(TREND, holds_in="most")
EXACT = replace(TREND, kind="exact", metric=None, relation=None, than=None, holds_in=None,
                profile=None, check="c")
ERROR = replace(EXACT, kind="source-error")
KMEANS = replace(VALUE, metric="kmeans_acc", value=0.25, depends_on=("dataset", "scaler"))


def runs(*values, **changes):
    return [run(seed, value, **changes) for seed, value in enumerate(values)]


def both(*pairs, names=("acc", "kmeans")):
    return [run(seed, metrics=dict(zip(names, pair, strict=True)))
            for seed, pair in enumerate(pairs)]


def checks(*outcomes, **changes):
    return [run(seed, checks={"c": held}, **changes) for seed, held in enumerate(outcomes)]


def held(number, records):
    """The records, with the claim as it stands now unless they hold another."""
    now = {number.id: as_it_stands(number)}
    return [replace(one, claims=now) if one.claims == NOW else one for one in records]


def first_held(text):
    """Four runs whose first, by start and not by seed, held another claim than the others."""
    found = runs(0.95, 0.95, 0.95)
    return [*found, run(3, 0.95, claims={"demo-acc": text}, started="2024-12-31T00:00:00Z")]


RULES = [
    # value: within the tolerance
    (VALUE, runs(0.945, 0.95, 0.955), "reproduced", "The mean is 0.95, within 0.02 of 0.95"),
    (VALUE, runs(0.93, 0.93, 0.93), "reproduced", "at the edge, whatever binary makes of it"),
    (VALUE, runs(0.95, 0.95), "indicative", "2 seeds instead of the required 3"),
    # value: outside
    (VALUE, runs(0.9299, 0.9299, 0.9299), "not reproduced", "not within 0.02 of 0.95"),
    (VALUE, runs(0.80, 0.80), "inconclusive", "2 seeds instead of"),
    (VALUE, runs(0.80, 0.90, 0.70), "inconclusive", "the interval reaches into the band"),
    (VALUE, runs(0.60, 0.70, 0.50), "not reproduced", "interval 0.3516 to 0.8484"),
    (VALUE, runs(0.92, 0.93, 0.925), "inconclusive", "the interval reaches into the band"),
    (VALUE, runs(0.90, 0.95, 0.99), "indicative", "the interval is wider than the band"),
    (replace(VALUE, statistic="single"), runs(0.80, 0.90, 0.70), "inconclusive", "interval"),
    (SPREAD, runs(0.94, 0.95, 0.96), "reproduced", "standard deviation is 0.01"),
    (SPREAD, runs(0.94), "inconclusive",
     "One seed has no standard deviation; 1 seed instead of the required 3"),
    # the best of N by loss: the statistic decides, and it takes N seeds
    (BEST, both((0.7, 2), (0.95, 1), (0.6, 3), names=("acc", "loss")), "reproduced", "by loss"),
    (BEST, both((0.95, 2), (0.7, 1), (0.6, 3), names=("acc", "loss")), "not reproduced", "0.7"),
    (BEST, runs(0.95, 0.95, 0.95), "not attempted", "has what is compared"),
    (replace(BEST, statistic="best of 5 by loss"),
     both(*[(0.95, 1)] * 4, names=("acc", "loss")), "indicative",
     "The best of 4 by loss has 0.95, within 0.02 of 0.95; 4 seeds instead of the required 5"),
    (replace(BEST, statistic="best of 5 by loss"), both((0.8, 1), names=("acc", "loss")),
     "inconclusive", "The one recorded seed has 0.8, not within"),
    # the best epoch, which the source chose by the labels
    (replace(VALUE, statistic="best epoch by labels"),
     runs(0.1, 0.1, 0.1, history=({"acc": 0.5}, {"acc": 0.95}, {"acc": 0.9})), "reproduced", ""),
    (VALUE, [*runs(0.95, 0.95, 0.95), run(3)], "indicative", "1 run of this profile did not"),
    # difference
    (GAIN, both((0.95, 0.78), (0.90, 0.73), (0.99, 0.82)), "reproduced", "mean is 0.17"),
    (GAIN, both((0.95, 0.90), (0.95, 0.90), (0.95, 0.90)), "not reproduced", "mean is 0.05"),
    # trend
    (TREND, runs(0.92, 0.92, 0.93), "reproduced", "holds in 3 of 3 seeds"),
    (TREND, runs(0.91, 0.92), "indicative", ""),
    (TREND, runs(0.91, 0.90, 0.93), "not reproduced", "holds in 2 of 3 seeds"),
    (TREND, runs(0.91, 0.90), "inconclusive", ""),
    (TREND, runs(0.91, 0.92, 0.93, 0.94, 0.90), "not reproduced", "holds in 4 of 5 seeds"),
    (MOST, runs(0.96, 0.96, 0.97, 0.96, 0.89), "reproduced", "holds in 4 of 5 seeds"),
    (MOST, runs(0.91, 0.90, 0.93), "indicative",
     "holds in 2 of 3 seeds; the 95% interval of the mean difference is -0.02461 to 0.05128"),
    (MOST, runs(0.91, 0.90, 0.93, 0.1), "inconclusive", "holds in 2 of 4 seeds; the 95% interval"),
    (MOST, runs(0.81, 0.84, 0.83, 0.82), "not reproduced", "holds in none of 4 seeds"),
    (TREND, runs(0.99, 0.91, 0.92), "indicative", "the 95% interval"),
    (replace(TREND, relation=">="), runs(0.9, 0.9, 0.9), "reproduced", ""),
    (replace(TREND, relation="<", than="kmeans"), both((1, 2), (4, 3), (5, 6)),
     "not reproduced", ""),
    # exact and source-error
    (EXACT, checks(True), "confirmed", "The check c holds in 1 run"),
    (EXACT, checks(True, False), "demonstration fails", "fails in 1 of 2 runs"),
    (EXACT, checks(True, profile="demo-default"), "confirmed", ""),
    (replace(EXACT, profile="demo-paper"), checks(True, profile="demo-b"), "not attempted", ""),
    (ERROR, checks(True, True), "refuted", "check c, which refutes it, holds in 2 runs"),
    (ERROR, checks(False), "demonstration fails", ""),
    # settings that are not the source's soften a hit and a miss; doubts about our runs a hit only
    (VALUE, runs(0.95, 0.95, 0.95, assumed=("lr",)), "indicative", "settings chosen here: lr"),
    (VALUE, runs(0.80, 0.80, 0.80, assumed=("lr",)), "inconclusive", "settings chosen here: lr"),
    (VALUE, runs(0.80, 0.80, 0.80, assumed=tuple("abcde")), "inconclusive",
     "settings chosen here: a, b, c and 2 others"),
    (TREND, runs(0.1, 0.1, 0.1, assumed=("lr",)), "inconclusive", "settings chosen here: lr"),
    (VALUE, runs(0.80, 0.80, 0.80, doubts=("edited",)), "not reproduced", "edited"),
    (VALUE, runs(0.80, 0.80, 0.80, claims={}), "not reproduced", "added or changed after"),
    (VALUE, [*runs(0.95, 0.95), run(2, 0.95, doubts=("edited",))], "indicative", "edited"),
    (TREND, runs(0.95, 0.95, 0.95, doubts=("edited",)), "indicative", "edited"),
    (EXACT, checks(True, doubts=("edited",)), "indicative", "edited"),
    (EXACT, checks(True, claims={}), "indicative", "the check was added or changed after"),
    (ERROR, checks(True, claims={}), "refuted", "the check was added or changed after"),
    # of a number that depends on two settings, the others count for nothing, whatever its name
    (KMEANS, [run(seed, metrics={"kmeans_acc": 0.8}, assumed=("lr",)) for seed in range(3)],
     "not reproduced", ""),
    (KMEANS, [run(seed, metrics={"kmeans_acc": 0.8}, assumed=("lr", "scaler"))
              for seed in range(3)], "inconclusive", "settings chosen here: scaler."),
    (replace(KMEANS, depends_on=None),
     [run(seed, metrics={"kmeans_acc": 0.8}, assumed=("lr",)) for seed in range(3)],
     "inconclusive", "settings chosen here: lr."),
    # the claim as the profile's first record holds it
    (VALUE, first_held(as_it_stands(VALUE)), "reproduced", ""),
    *[(VALUE, first_held(as_it_stands(replace(VALUE, **change))), "indicative",
       "added or changed after")
      for change in ({"tolerance": 0.01}, {"value": 0.9}, {"statistic": "single"},
                     {"metric": "nmi"}, {"kind": "difference", "minus": "kmeans"})],
    *[(TREND, first_held(as_it_stands(replace(TREND, **change))), "indicative",
       "added or changed after")
      for change in ({"than": 0.95}, {"relation": ">="}, {"holds_in": "most"})],
    (VALUE, runs(0.95, 0.95, 0.95, claims={}), "indicative", "changed after the first record"),
    # runs that are not the source's
    (replace(VALUE, differs="MNIST"), runs(0.95, 0.95, 0.95), "indicative",
     "differs from the source: MNIST"),
    (replace(VALUE, differs="MNIST"), runs(0.80, 0.80, 0.80), "inconclusive", "MNIST"),
    # nothing to compare
    (VALUE, [], "not attempted", "No recorded run of demo-paper"),
    (VALUE, runs(0.95, 0.95, 0.95, profile="demo-other"), "not attempted", "demo-paper"),
    (VALUE, both((1, 2), names=("nmi", "ari")), "not attempted", "compared (acc)"),
    (EXACT, [], "not attempted", "No recorded run has what is compared (c)"),
    (replace(VALUE, not_attempted="12 GPU days"), [], "not attempted", "12 GPU days"),
    (replace(VALUE, not_attempted="12 GPU days"), runs(0.95, 0.95, 0.95), "reproduced", ""),
    (replace(VALUE, cannot_compare="another metric"), runs(0.95, 0.95, 0.95), "cannot compare",
     "another metric"),
]


@pytest.mark.parametrize(("number", "records", "word", "words"), RULES)
def test_each_rule(number, records, word, words):
    verdict = judge_number(number, held(number, records))
    assert (verdict.word, verdict.stale) == (word, False)
    assert verdict.reason
    if not words.startswith("at the edge"):
        assert words in verdict.reason


def test_a_stale_record_marks_the_verdict_and_keeps_its_word():
    reached = {word for _, _, word, _ in RULES} | {"not finished"}      # below
    assert reached == set(WORDS), "every word is reached"
    records = held(VALUE, runs(0.95, 0.95, 0.95))
    verdict = judge_number(VALUE, records, stale={"demo-paper-seed2"})
    assert (verdict.word, verdict.stale, verdict.label) == (
        "reproduced", True, "reproduced (stale)")
    stale = {"demo-paper-seed0"}
    assert judge_number(EXACT, held(EXACT, checks(True)), stale=stale).label == "confirmed (stale)"
    # A fresh success does not hide a stale failure.
    assert judge_number(EXACT, checks(True, False), stale={"demo-paper-seed1"}).label == (
        "demonstration fails (stale)")


def test_a_claim_has_the_worst_of_its_numbers_verdicts():
    claim = Claim(id="demo-run", chapter="demo", tier="headline", says="s", source="s",
                  seen="paper", kind="value", profile="demo-paper", statistic="mean",
                  tolerance=0.02, why="w", compares=[
                      {"id": "demo-acc", "metric": "acc", "value": 0.95},
                      {"id": "demo-nmi", "metric": "nmi", "value": 0.9},
                      {"id": "demo-ari", "metric": "ari", "value": 0.8}])
    other = run(0, metrics={"acc": 0.1}, chapter="other", profile="other-paper")
    found = [run(seed, metrics={"acc": 0.95, "nmi": 0.5},
                 claims={one.id: as_it_stands(one) for one in claim.compares})
             for seed in range(3)]
    verdict = judge(claim, [other, *found[::-1]], stale={"demo-paper-seed1"})
    assert [part.word for part in verdict.parts] == [
        "reproduced", "not reproduced", "not attempted"]
    assert verdict.label == "not reproduced (stale)" and "of 0.9" in verdict.reason
    assert verdict.records == tuple(f"demo-paper-seed{seed}" for seed in range(3))
    assert judge(claim, found[:0]).word == "not attempted"
    assert judge(claim, found[:0], begun={"demo-other"}).word == "not attempted"
    assert judge(claim, found[:0], begun={"demo-paper"}).word == "not finished"


def test_the_words_have_one_order_of_severity_and_refuted_is_the_worst():
    order = sorted(WORDS, key=WORDS.get, reverse=True)
    assert order == ["refuted", "not reproduced", "demonstration fails", "inconclusive",
                     "not finished", "not attempted", "cannot compare", "indicative",
                     "reproduced", "confirmed"]
    assert len({*WORDS.values()}) == len(WORDS)


@pytest.mark.parametrize("outcomes, says", [
    ([True, True], "holds in 2 runs"), ([True, False], "does not always hold in 2 runs")])
def test_a_check_says_in_how_many_runs_it_holds(outcomes, says):
    assert measured(EXACT, judge_number(EXACT, checks(*outcomes))) == says


def test_one_seed_has_no_standard_deviation_and_is_no_best_of_several():
    assert measured(SPREAD, judge_number(SPREAD, runs(0.94))) == "none from 1 seed"
    one = judge_number(BEST, both((0.8, 1), names=("acc", "loss")))
    assert measured(BEST, one) == "0.8 (1 seed)"


def test_a_claim_that_several_checks_confirm_counts_them():
    claim = Claim(id="demo-both", chapter="demo", tier="headline", says="s", source="s",
                  seen="paper", kind="exact", profile="demo-paper", compares=[
                      {"id": "demo-c", "check": "c"}, {"id": "demo-d", "check": "d"}])
    now = {one.id: as_it_stands(one) for one in claim.compares}
    found = [run(seed, checks={"c": True} | ({"d": True} if seed else {}), claims=now)
             for seed in range(3)]
    assert judge(claim, found).reason == "The 2 checks hold in 2 runs."


def test_the_reason_of_a_claim_with_several_numbers_says_which_one():
    claim = Claim(id="demo-both", chapter="demo", tier="headline", says="s", source="s",
                  seen="paper", kind="value", profile="demo-paper", statistic="mean", value=0.9,
                  tolerance=0.01, why="w", compares=[
                      {"id": "demo-x", "metric": "acc", "told": "accuracy"},
                      {"id": "demo-y", "metric": "nmi", "told": "NMI, last epoch"}])
    found = [run(seed, metrics={"acc": 0.9, "nmi": 0.5}) for seed in range(3)]
    assert judge(claim, found).reason.startswith("NMI, last epoch: the mean is 0.5, not within")


@pytest.mark.parametrize(("number", "seeds", "text"), [
    (VALUE, (0.95, 0.94, 0.6), "0.83 ± 0.20 (3 seeds, 2 within tolerance)"),
    (VALUE, (0.95, 0.94, 0.96), "0.950 ± 0.010 (3 seeds)"),
    (VALUE, (0.9, 0.9, 0.9), "0.9 (the same in 3 seeds)"),
    (TREND, (0.95, 0.95, 0.95), "0.95, larger in 3 of 3 seeds"),
    (TREND, (0.5, 0.5, 0.5), "0.5, larger in none of 3 seeds"),
])
def test_a_result_says_how_the_seeds_lie(number, seeds, text):
    assert measured(number, judge_number(number, held(number, runs(*seeds)))) == text


def test_the_seeds_are_those_that_the_profile_lists(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    put(tmp_path, {"book/ledger.toml": LEDGER})
    (tmp_path / "notebooks" / "profiles").mkdir(parents=True)
    profile = tmp_path / "notebooks" / "profiles" / "demo-paper.toml"
    records = held(VALUE, runs(0.95, 0.95, 0.95))
    for seeds, word, says in (([0, 1, 2], "reproduced", ""),
                              ([0, 1, 2, 3, 4], "indicative", "profile's seeds 3, 4 is rec"),
                              ([0, 1], "indicative", "not of the profile: seed 2")):
        profile.write_text(f"seeds = {seeds}\n")
        verdict = judge_number(VALUE, records)
        assert verdict.word == word and says in verdict.reason


def test_the_hash_of_a_checks_code_is_that_of_python_3_11_in_every_version(tmp_path):
    """Records keep it. Later versions have further fields, or leave empty lists out."""
    (tmp_path / "notebooks").mkdir()
    new_notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in (
        "def half(x):\n    return f'{x / 2:.1f}'", "evidence.check('a-half', half(1), [])")])
    nbformat.write(new_notebook, tmp_path / "notebooks" / "demo.ipynb")
    found = cells_of_checks(tmp_path / "notebooks" / "demo.ipynb", 0)
    assert found == {"a-half": "cbd50e2e7a0c"}


@pytest.fixture
def versions(tmp_path, monkeypatch):
    """What sets the versions of a book's methods, and a hash that was of demo's version 1."""
    put(tmp_path, {"book/ledger.toml": LEDGER.replace(
        "[versions]", '[versions]\npair = ["other", "demo"]')})
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    monkeypatch.setattr("bookledger.machine.library", lambda: tmp_path / "src")
    put(tmp_path, {"data/versions.json": json.dumps({"demo 1": [A], "demo 1, other 4": [B]})})

    def set_to(**numbers):
        for name, number in numbers.items():
            put(tmp_path, {f"src/{name}/__init__.py": f"x = 1\nVERSION = {number}\n"})

    put(tmp_path, {"src/datasets/__init__.py": "x = 1  # it has none\n"})
    set_to(demo=1, other=4)
    return set_to


def stale(**changes):
    return bool(stale_among([run(0, **changes)]))


def test_data_are_compared_by_name_where_both_are_known(versions):
    now = next(source.content for source in datasets.catalog() if source.name == "wine")
    for name, sha256, expected in (("wine", now, False), ("wine", "0" * 64, True),
                                   ("own.csv", "0" * 64, False), (None, "", False)):
        data = name and {"name": name, "sha256": sha256}
        assert stale(data=data, code="demo 1") == expected
        assert stale(data=data, code="demo 2")


def test_a_record_of_another_version_is_stale(versions):
    both = {"chapter": "pair", "profile": "pair-paper"}
    gone = {"chapter": "gone", "profile": "gone-paper", "code": "gone 1"}
    assert version_of("demo") == "demo 1" and version_of("pair") == "demo 1, other 4"
    assert not stale(code="demo 1") and not stale(code="demo 1, other 4", **both)
    assert not stale(code=A) and not stale(code=B, **both)      # before methods had versions
    assert stale(code=B) and stale(code=A, **both)              # of another chapter
    assert stale(code=C) and stale(code="demo 11") and stale(code="other 4") and stale(**gone)
    versions(other=5)
    assert not stale(code="demo 1") and stale(code="demo 1, other 4", **both) and stale(
        code=B, **both)
    versions(demo=2, further=1)
    assert version_of("pair") == "demo 2, other 5" and version_of("unlisted").endswith("other 5")
    assert stale(code="demo 1") and stale(code=A) and not stale(code="demo 2")


RECORDS = load_records()
#: The hashes of commit 7f75684, at which a run of weeks goes on: its record comes later.
AT_7F75684 = {
    "comparison": "1302b5ececb5e607a66a52df03a8ae30fd6c479db13a53f3613f554baa05d547",
    "deepcluster": "882ba0ef8a3b0be2378807a99f9a477711d80b8b64d2e6c2e0885a92e840876e",
    "idc": "dbee7a05d9742c3c16f0a3a738668a1dd9439746f298db24810d0141680f960d",
    "tell": "0707d5b8a72ecca785af402fa96301d784c4c70c81b328385e9ab3dae9e38ff3",
    "weights": "1db5e7529e6591811f0f96919fc203b4e0fdfaa1dcc2936ee6c3c36948591555"}


def test_records_with_a_hash_of_the_code_are_of_version_1():
    assert set(AT_7F75684) == {record.chapter for record in RECORDS}
    all_methods = "deepcluster 1, idc 1, tell 1, weights 1"
    for chapter, code in [*AT_7F75684.items(), *((one.chapter, one.code) for one in RECORDS)]:
        if len(code) == 64:
            expected = all_methods if chapter == "comparison" else f"{chapter} 1"
            assert hashes()[code] == expected, chapter


@pytest.mark.parametrize("method", ["tell", "idc", "deepcluster", "weights", "one more"])
def test_a_raised_version_makes_the_records_of_its_chapters_stale(method, monkeypatch, tmp_path):
    for path in PACKAGE.glob("*/__init__.py"):
        text = path.read_text(encoding="utf-8")
        put(tmp_path, {f"{path.parent.name}/__init__.py": text.replace("VERSION = ", "VERSION = 9")
                       if path.parent.name == method else text})
    before = stale_among(RECORDS)
    put(tmp_path, {"one more/__init__.py": "VERSION = 1\n"})
    monkeypatch.setattr("bookledger.machine.library", lambda: tmp_path)
    assert stale_among(RECORDS) == before | {record.name for record in RECORDS
                                             if record.chapter in (method, "comparison")
                                             and method != "one more"}


def test_numbers_beside_the_verdict_are_over_all_seeds():
    verdict = judge_number(BEST, both((0.7, 2), (0.95, 1), (0.6, 3), names=("acc", "loss")))
    assert (verdict.ours, verdict.mean, verdict.n) == (0.95, pytest.approx(0.75), 3)
    assert verdict.sd == pytest.approx(0.180277563773)  # by hand: sqrt(0.065 / 2)
    assert verdict.records == tuple(f"demo-paper-seed{seed}" for seed in range(3))


numbers = st.floats(-100, 100, allow_nan=False).map(lambda x: round(x, 6))


def test_an_interval_ends_where_its_metric_does():
    found = (0.6, 0.99, 1.0)
    low, high = t_interval(found)
    assert low < 0.6 and high > 1
    for claim in VALUE, TREND:
        assert judge_number(claim, runs(*found)).interval == (low, 1)
    cuts = [run(seed, metrics={"cut": value}) for seed, value in enumerate(found)]
    assert judge_number(replace(VALUE, metric="cut"), cuts).interval == (low, high)
    gains = [run(seed, metrics={"acc": value, "kmeans": 0.0}) for seed, value in enumerate(found)]
    assert judge_number(GAIN, gains).interval == (low, high), "a difference has no such range"


def test_a_cost_is_computed_from_recorded_runs():
    timed = [run(seed, metrics={"seconds_per_epoch": 3600.0 * (seed + 1)}, machine={"threads": 2})
             for seed in range(2)]
    planned = replace(VALUE, metric=None, statistic=None, value=None, tolerance=None, why=None,
                      not_attempted="{10 epochs of demo-paper} a seed")
    assert judge_number(planned, timed).reason == "about 30 core-hours a seed"
    with pytest.raises(InputError, match="no record of demo-paper has a time"):
        judge_number(planned, runs(0.9))


@settings(deadline=None)  # a busy machine is no failure
@given(st.lists(numbers, min_size=2, max_size=12).filter(lambda found: len(set(found)) > 1))
def test_the_interval_is_scipys(found):
    expected = stats.t.interval(0.95, len(found) - 1, fmean(found), stats.sem(found))
    assert t_interval(found) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert t_interval(found[:1]) is None
