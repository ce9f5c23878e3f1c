"""The scorecard and what a chapter says, from files to text and HTML."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pytest
from _support import CHECKOUT, PLAIN, module_of, put, record

from bookledger import load_claims, scorecard, status, wording
from bookledger.checks import as_it_stands
from bookledger.claims import Comparison
from bookledger.notebook import origin, table
from bookledger.records import dumps, recorded, write_manifest
from bookledger.views import columns, in_brief, result, summary, verdicts
from clusterbook import paths
from clusterbook.checks import InputError

CLAIMS = """\
- {id: demo-acc, tier: headline, says: It reaches <95%> & more, seen: second-hand, where: a report,
   source: 'Somebody "et al.", Table 1', section: results, kind: value, profile: demo-paper,
   metric: acc, statistic: mean, value: 0.95, tolerance: 0.02, why: seeds < 2%}
- {id: demo-better-than-the-rivals-on-everything, tier: minor, says: better, source: s,
   seen: paper, kind: trend, profile: demo-paper, metric: acc, relation: ">",
   than: kmeans_acc_on_the_raw_pixels, in: all}
- {id: demo-best, tier: headline, says: b, source: s, seen: paper, kind: value,
   profile: demo-paper, tolerance: 0.1, why: w, replaces: {demo-best-v: the same as NMI},
   compares: [{id: demo-best-acc, metric: acc, statistic: best of 3 by loss, value: 0.5},
              {id: demo-best-mean, metric: acc, statistic: mean, value: 0.95},
              {id: demo-best-nmi, metric: nmi, statistic: mean, value: 0.5}]}
- {id: demo-identity, tier: supporting, says: a = b, source: s, seen: paper, kind: exact,
   check: demo-a-b}
- {id: demo-big, tier: minor, says: ImageNet, source: s, seen: paper, kind: value,
   not_attempted: "12 GPU days"}
"""
OTHER = """\
- {id: other-x, tier: minor, says: x, source: s, seen: paper, by: others, kind: exact,
   check: other-y}
"""


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A checkout with two chapters, of which one has a method, claims and three records."""
    put(tmp_path, {
        "data/claims/demo.yaml": CLAIMS, "data/claims/other.yaml": OTHER,
        "src/clusterbook/demo/__init__.py": '"""Demo."""\nVERSION = 1\nrate = 0.1\n',
        "book/ledger.toml": PLAIN,
        "notebooks/demo.ipynb": '{"cells": []}'})
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    monkeypatch.setattr(paths, "checkout", lambda: tmp_path)
    monkeypatch.setattr("bookledger.verdicts.ENOUGH_SEEDS", 3)
    monkeypatch.setattr("bookledger.machine.library", lambda: tmp_path / "src" / "clusterbook")
    for seed, acc in enumerate([0.945, 0.95, 0.955]):
        write(tmp_path, seed, record(
            seed=seed, code="demo 1", checks={"demo-a-b": True}, claims=held_now(),
            metrics={"acc": acc, "kmeans_acc_on_the_raw_pixels": 0.5, "loss": float(seed)}))
    return tmp_path


def held_now():
    """Every number of the claims as a record keeps it."""
    return {number.id: as_it_stands(number) for one in load_claims() for number in one.compares}


def write(book, seed, values):
    put(book, {f"data/records/demo-paper-seed{seed}.json": dumps(values)})
    write_manifest(book / "data" / "records")


def record_file(book, seed):
    return book / "data" / "records" / f"demo-paper-seed{seed}.json"


def rewrite(book, seed, **changes):
    write(book, seed, json.loads(record_file(book, seed).read_text()) | changes)


WORDS = {"demo-acc": "reproduced", "demo-better-than-the-rivals-on-everything": "reproduced",
         "demo-best": "not reproduced", "demo-identity": "confirmed", "demo-big": "not attempted",
         "other-x": "not attempted"}


def words():
    return {claim.id: verdict.word for claim, verdict in scorecard().rows}


def cells(html):
    """The texts of a view's cells by row."""
    return [[" ".join(" ".join(cell.itertext()).split()) for cell in row]
            for row in ET.fromstring(html).iter("tr")]


def test_every_claim_is_listed_once_the_headlines_first(book):
    card = scorecard()
    assert [claim.id for claim, _ in card.rows] == [claim.id for claim in load_claims()]
    assert words() == WORDS
    text = str(card)
    assert " ".join(text.split()).startswith(
        "Headline results, 2: 1 reproduced, 1 not reproduced. Other results, 2: 1 reproduced, 1 "
        "not attempted. Statements and formulas, 1: 1 confirmed. Third-party claims, 1: 1 not "
        "attempted. None of 3 records was run again yet: clusterbook verify does that. "
        "2 headline claims: 1 reproduced, 1 not reproduced demo-acc: reproduced. ")
    assert all(text.count(f"\n{name}: {word}. ") == 1 for name, word in WORDS.items())
    assert max(map(len, text.splitlines())) <= 100
    assert text.partition("demo-best: ")[2].splitlines()[:3] == [
        "not reproduced. The best of 3 by loss has 0.945, not within 0.1 of 0.5.",
        "    acc = 0.5 ± 0.1: 0.945 (best of 3 by loss), mean 0.9500 ± 0.0050 (3 seeds), "
        "not reproduced", "    acc = 0.95 ± 0.1: 0.9500 ± 0.0050 (3 seeds), reproduced"]
    shown = summary()
    assert "\n\ndemo\n    Headline results: 1 reproduced, 1 not reproduced\n" in repr(shown)
    assert cells(shown.html)[1] == [
        "demo", "1 reproduced, 1 not reproduced", "1 reproduced, 1 not attempted", "1 confirmed",
        "–", ""]


def test_a_table_that_a_terminal_cannot_hold_becomes_paragraphs():
    words = " ".join(["word"] * 18)
    assert columns(["a", "b", "c"], [["x", words, ""]]) == f"a  b{' ' * 90}c\nx  {words}"
    assert columns(["a", "b", "c", "d"], [["first", words, "", "d"]]) == (
        f"first\n    b: {words}\n    d: d")


def test_what_is_compared_names_both_sides_and_the_relation():
    difference = Comparison(
        id="one-difference", kind="difference", profile="p", metric="l1_acc", minus="kmeans_acc",
        statistic="mean", value=0.1, tolerance=0.05, why="w")
    trend = {"id": "a-trend", "kind": "trend", "profile": "p", "metric": "acc", "relation": "<",
             "than": "no_gates_nmi", "in": "all"}
    for number, words in (
            (difference, "l1 accuracy minus k-means accuracy 0.1 ± 0.05"),
            (Comparison(**trend), "accuracy < no gates NMI in all seeds"),
            (Comparison(**trend | {"told": "it rises"}), "it rises in all seeds"),
            (Comparison(**trend | {"relation": ">=", "than": 0.9}), "accuracy ≥ 0.9 in all seeds")):
        assert wording.compared(number) == words
    for claim in load_claims():
        for number in claim.compares if claim.tier == "headline" else ():
            assert number.told or number.metric is None, number.id


def test_another_version_of_a_method_makes_its_records_stale(book):
    for old, new, stale in (("rate = 0.1", "rate = 0.10", False),
                            ("VERSION = 1", "VERSION = 2", True)):
        edit(book, "src/clusterbook/demo/__init__.py", old, new)
        assert words() == WORDS
        for text, of_stale in ((str(scorecard()), "1 reproduced (stale)"),
                               (verdicts("demo").html, 'cb-stale">'),
                               (verdicts("demo").html, "have changed since these runs")):
            assert (of_stale in text) == stale


def test_the_html_is_well_formed_and_escaped(book):
    tree = ET.fromstring(scorecard().html)
    (scrolling,) = tree.findall("div[@role='region']")
    assert scrolling.get("style") == "overflow-x: auto"
    table = scrolling.find("table")
    assert [head.get("scope") for head in table.iter("th")] == ["col"] * 2 + ["row"] * 2
    folded = tree.findall("details")        # the other claims, a click away
    assert [[one.get("id") for one in part.iterfind(".//div[@class='cb-says']")]
            for part in folded] == [
        ["demo-better-than-the-rivals-on-everything", "demo-identity", "demo-big"], ["other-x"]]
    row, several = table.find("tbody").findall("tr")
    text = " ".join("".join(row.itertext()).split())
    for part in ("It reaches <95%> & more", 'Somebody "et al.", Table 1 (second-hand: a report)',
                 "acc = 0.95 ± 0.02: seeds < 2%", "Runs: demo-paper-seed0, demo-paper-seed1, "):
        assert part in text
    assert [link.get("href") for link in row.findall(".//a")] == [
        "../book/scorecard.html#demo-acc", "../notebooks/demo.html#results",
        *(f"../records/demo-paper-seed{seed}.json" for seed in range(3))]
    word = row.find(".//span")
    assert word.get("class") == "cb-verdict cb-verdict-reproduced"
    assert word.text == "reproduced"  # in words, not in color alone
    # A claim with several numbers has a line for each, and keeps the old addresses.
    assert [line.text.partition(" →")[0] for line in several.find("td")] == [
        "accuracy 0.5 ± 0.1", "accuracy 0.95 ± 0.1", "NMI 0.5 ± 0.1"]
    assert {"demo-best", "demo-best-acc", "demo-best-nmi", "demo-best-v"} <= {
        element.get("id") for element in several.iter()}


def test_the_strip_places_ours_by_tolerances_and_cuts_what_is_far(book):
    near, far, mean = ET.fromstring(scorecard().html).findall(".//svg")
    assert [[dot.get("cx") for dot in strip.findall("circle")] for strip in (near, far, mean)] == [
        ["93.8", "100.0", "106.2", "100.0"], ["200"] * 3,
        ["98.8", "100.0", "101.2", "100.0"]], "seeds and mean"
    assert [dot.get("class") for dot in near.findall("circle")] == ["cb-seed"] * 3 + [None]
    assert far.get("aria-label") == "4.4 tolerances above the published number, beyond the axis"
    assert far.find("path[@class='cb-beyond']").get("d").startswith("M188"), "an arrow to the right"
    assert near.find("path[@class='cb-beyond']") is None
    interval = near.find("path[@class='cb-interval']").get("d")
    half = 4.302653 * 0.005 / 3**0.5 / 0.02 * 25    # t, sd and seeds by hand; 25 a tolerance
    assert interval == f"M{100 - half:.1f} 8H{100 + half:.1f}"
    assert far.find("path[@class='cb-interval']") is None       # the best of three has none


def test_published_and_ours_stand_on_one_axis_and_are_told_in_brief(book):
    put(book, {"book/ledger.toml": PLAIN + """
[metrics.axes]
acc = "accuracy"
[leads.demo]
claim = "demo-acc"
profile = "demo-paper"
metrics = {acc = "accuracy"}
judged_by = "a report"
"""})
    head, (first, best, mean) = ET.fromstring(scorecard().html).findall(".//table")[0][1:]
    ends = 0.5, 0.95 + 4.302653 * 0.005 / 3**0.5    # what is published, the end of an interval

    def at(value):
        return f"{8 + 304 * (value - ends[0]) / (ends[1] - ends[0]):.1f}"

    assert [(text.text, text.get("x")) for text in head.iter("text")] == [
        (f"{value}", at(value)) for value in (0.5, 0.6, 0.7, 0.8, 0.9)], "round numbers alone"
    assert "".join(first.find("th").itertext()).strip() == "demo: accuracy"
    assert [cell.text for cell in first.findall("td")[::2]] == ["0.95", "0.9500 ± 0.0050 (3 seeds)"]
    assert first.find(".//path[@class='cb-published']").get("d").startswith(f"M{at(0.95)} 2l")
    assert [dot.get("cx") for dot in best.iter("circle")] == [
        *map(at, (0.945, 0.95, 0.955)), at(0.945)], "seeds, then ours: the best by loss"
    assert best.find(".//path[@class='cb-interval']") is None
    assert len(mean.findall(".//path[@class='cb-interval']")) == 1
    said = repr(in_brief("demo"))
    for part in ('Published: It reaches <95%> & more (Somebody "et al.", Table 1, as others quote '
                 "it). Verdict: reproduced.",
                 "Ours: accuracy 0.9500 ± 0.0050 (demo-paper, 3 recorded seeds).",
                 "Headline results: 1 reproduced, 1 not reproduced."):
        assert part in " ".join(said.split())
    dots, judged = ET.fromstring(summary().html).findall(".//tr")[1].findall("td")[::4]
    assert [dot.get("class").split("cb-verdict-")[1] for dot in dots.iter("a")] == [
        "reproduced", "not-reproduced"] and judged.text == "a report"
    for seed in range(3):
        record_file(book, seed).unlink()
    first, *_ = ET.fromstring(scorecard().html).findall(".//table")[0].find("tbody")
    assert first.find(".//path[@class='cb-published cb-open']") is not None
    assert first.find(".//circle") is None and "Ours: not measured." in repr(in_brief("demo"))
    report = {"epoch": 2, "epochs": 9, "seconds_an_epoch": 1.0, "stage": "",
              "rows": [{"epoch": 1, "acc": 0.5}]}
    for name, word in (("demo-other", "not attempted"), ("demo-paper", "not finished")):
        run = {"started": "2026-11-25T00:00:00+00:00", "trainings": {f"{name}-seed0": report}}
        put(book, {f"data/records/under-way/{name}-seed0.json": json.dumps(run)})
        said = " ".join(repr(in_brief("demo")).split())
        assert f"). Verdict: {word}." in said, "of this claim's profile"
        assert ("2 not finished" in said) == (word == "not finished"), said
    with pytest.raises(InputError, match="chapter with a lead: 'dmo'; did you mean 'demo'"):
        in_brief("dmo")


def test_the_status_lists_each_profile_with_the_cost_and_code_of_all_its_seeds(book):
    shown = status()
    assert shown.rows == (("demo-paper", {
        "Time per seed": "1.0 s", "Peak memory": "not known", "Machine": "c, threads: 1, cores: 1",
        "Code": "a"}),)
    assert repr(shown).startswith("1 recorded profile\n\nProfile ")
    tree = ET.fromstring(shown.html)
    assert tree.find(".//code").get("id") == "demo-paper"
    assert [link.get("href") for link in tree.iter("a")] == [
        f"../records/demo-paper-seed{seed}.json" for seed in range(3)]
    rewrite(book, 2, code="older", peak_memory_mb=1200.0, machine={
        "cpu": "c", "gpu": None, "cores": 1, "threads": 1, "instructions": "DEFAULT"})
    rewrite(book, 1, git={"commit": "a", "clean": False}, seconds=4.0, peak_memory_mb=1500.0,
            parameters={"epochs": 3, "seeds": []})
    ((_, found),) = status().rows
    assert found["Code"] == "a; a, changed, stale"      # one of three runs is
    assert found["Machine"] == "c, threads: 1, cores: 1; c (SSE), threads: 1, cores: 1"
    assert (found["Time per seed"], found["Peak memory"]) == ("2.0 s", "1,500 MiB")
    rewrite(book, 0, taken_from="demo-long-seed0, epoch 3 of 9")
    assert status().rows[0][1]["Code"] == (
        "a, seed 0 from demo-long-seed0, epoch 3 of 9; a, changed; a, stale")
    # Its training alone took longer than what was counted: an early record of a resumed run.
    rewrite(book, 1, metrics={"seconds_per_epoch": 10.0})
    assert status().rows[0][1]["Time per seed"] == "more than 11 s"


def test_a_work_says_its_own_claims(book):
    counts = "5 claims: 2 reproduced, 1 confirmed, 1 not reproduced, 1 not attempted"
    assert repr(verdicts("demo")).startswith(f"{counts}\ndemo-acc: reproduced. ")
    assert ET.fromstring(verdicts("demo").html).find(".//summary").text == counts
    for view in (verdicts, result):
        with pytest.raises(InputError, match="chapter with claims: 'dmo'; did you mean 'demo'"):
            view("dmo")


def test_regressions_are_steps_down_and_lost_claims(book, monkeypatch, capsys):
    script = module_of(CHECKOUT / ".github" / "scripts" / "regressions.py")

    def git(*arguments):
        command = ["git", "-C", book, "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        subprocess.run(command, check=True, capture_output=True)

    now = script.words(book)
    assert now == WORDS and script.worse(WORDS, now) == []
    assert script.worse({
        "demo-acc": "indicative",           # now reproduced: better
        "demo-best": "inconclusive",        # now not reproduced: no step down, a finding
        "demo-big": "not reproduced",       # now not attempted: the run is lost
        "demo-identity": "refuted",         # now confirmed
        "demo-gone": "not attempted"}, now) == ["demo-big: not reproduced → not attempted",
                                                "demo-gone: not attempted → no longer a claim"]
    assert script.main() == 0 and "no earlier tag" in capsys.readouterr().out
    def tagged(tag, change):
        git("add", ".")
        git("commit", "-qm", tag)
        git("tag", tag)
        change()
        git("add", ".")
        git("commit", "-qm", f"after {tag}")
        assert script.main() == 1
        assert capsys.readouterr().out.startswith("demo-acc: reproduced → indicative\n"), tag

    git("init", "-q")
    profile = book / "notebooks" / "profiles" / "demo-paper.toml"
    tagged("v1", lambda: put(book, {f"{profile.relative_to(book)}": "seeds = [0, 1, 2, 3]\n"}))
    profile.unlink()            # the tag is judged by its own profiles
    tagged("v2", lambda: (record_file(book, 2).unlink(), write_manifest(book / "data/records")))


def edit(book, file, old, new):
    text = (book / file).read_text()
    assert old in text
    put(book, {file: text.replace(old, new)})


#: Attacks that once went through: none may leave "reproduced", "confirmed" or "refuted".
ATTACKS = {what: lambda book, change=change: edit(book, *change) for what, change in {
    "an edited metric": ("data/records/demo-paper-seed0.json", '"acc": 0.945', '"acc": 0.955'),
    "a record that the manifest does not list": (
        "data/records/manifest.json", "demo-paper-seed0", "demo-paper-seed9"),
    "a seed that nobody planned": (
        "notebooks/profiles/demo-paper.toml", "[0, 1, 2]", "[0, 1]"),
    "an edited value": ("data/claims/demo.yaml", "value: 0.95,", "value: 0.951,"),
    "an edited tolerance": ("data/claims/demo.yaml", "tolerance: 0.02", "tolerance: 0.03"),
    "another statistic": ("data/claims/demo.yaml", "mean, value: 0.95,", "single, value: 0.95,"),
    "an edited threshold": ("data/claims/demo.yaml", "kmeans_acc_on_the_raw_pixels", "0.5"),
    "an edited expectation": ("data/expectations/demo.yaml", "bound: 3", "bound: 2"),
    "an edited cell": ("notebooks/demo.ipynb", "a + f(b)", "a + 2 * f(b)"),
    "an edited function of another cell": ("notebooks/demo.ipynb", "x ** 1", "x ** 2"),
}.items()} | {
    "a deleted record": lambda book: record_file(book, 0).unlink(),
    "other parameters than the profile's": lambda book: [
        rewrite(book, seed, parameters={"epochs": 30}) for seed in range(3)],
    "code in no commit": lambda book: rewrite(book, 1, git={"commit": None, "clean": None}),
}
HITS = {name: word for name, word in WORDS.items() if word in ("reproduced", "confirmed")}


def test_a_note_is_shown_with_its_claim(book):
    edit(book, "data/claims/demo.yaml", "seen: ", "note: Others <differ>., seen: ")
    assert "Others &lt;differ&gt;." in scorecard().html and "Others &lt;" in verdicts("demo").html


def test_an_axis_with_a_single_number_and_no_run_is_left_out(book):
    put(book, {"book/ledger.toml": PLAIN + '[metrics.axes]\nacc = "accuracy"\n',
               "data/claims/demo.yaml": """\
- {id: demo-only, tier: headline, says: s, source: t, seen: paper, kind: value, told: a,
   profile: demo-other, metric: acc, statistic: mean, value: 0.9, tolerance: 0.1, why: w}
"""})
    assert "cb-axes" not in scorecard().html and "demo-only" in scorecard().html


@pytest.fixture
def planned(book):
    """The book with a profile that lists its seeds, and a check with its expectation and cell."""
    cells = ["def f(x):\n    return g(x)", "def g(x):\n    return x ** 1",
             'evidence.check("demo-a-b", a + f(b))  # three']
    put(book, {
        "notebooks/profiles/demo-paper.toml":
            "seeds = [0, 1, 2]\nparameters = {epochs = 3000}\n",
        "data/expectations/demo.yaml":
            '- {id: demo-a-b, says: "3", relation: equals, bound: 3, why: by definition}\n',
        "notebooks/demo.ipynb": json.dumps(
            {"cells": [{"cell_type": "code", "source": source} for source in cells]})})
    for seed in range(3):
        rewrite(book, seed, parameters={"epochs": 3000}, claims=held_now())
    edit(book, "notebooks/demo.ipynb", "# three", "# 3")        # a comment changes nothing
    assert words().items() >= HITS.items()
    return book


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_never_leaves_a_hit(planned, attack):
    ATTACKS[attack](planned)
    fallen = {claim.id: verdict.word for claim, verdict in scorecard().rows
              if HITS.get(claim.id, verdict.word) != verdict.word}
    assert set(fallen.values()) == {"indicative"}
    if attack in ("an edited metric", "a deleted record", "code in no commit",
                  "other parameters than the profile's"):
        assert {"demo-acc", "demo-better-than-the-rivals-on-everything"} <= fallen.keys()


def test_a_table_shows_means_and_spreads_and_a_best_beyond_the_spread():
    view = table({"<k-means>": {"ACC": [0.8, 0.9], "seconds": 1.25},
                           "TELL": {"ACC": 0.7, "seconds": [np.nan]}, "IDC": {"ACC": -0.1}},
                          "Two columns", digits=2)
    assert [" ".join(line.split()) for line in str(view).splitlines()] == [
        "Two columns", "", "ACC seconds", "<k-means> 0.85 ± 0.07 1.25", "TELL 0.70 –",
        "IDC −0.10 –"]
    assert "<strong>" not in view.html, "two of three are single runs"
    assert "&lt;k-means&gt;" in view.html and "<th scope=\"col\"></th>" not in view.html
    rows = {"a": {"s": [2, 2.1]}, "b": {"s": [1, 1.1]}, "c": {"s": [1.2, 2]}}
    assert "<strong>2.050 ± 0.071</strong>" in table({**rows, "c": {}}, "").html
    assert "<strong>1.050 ± 0.071</strong>" in table({**rows, "c": {}}, "", best=min).html
    assert "<strong>" not in table(rows, "").html, "2.05 is within the spread of 1.6"
    assert "<strong>" not in table({**rows, "c": {}}, "", best=None).html
    assert table({"a": {1: 0.5, "features": 0.75}}, "").parts[0].heads[1:] == ["1", "features"]
    assert ">0.00<" in table({"a": {"AMI": -0.001}}, "", digits=2).html, "no negative zero"
    told = str(table({"a": {"run": 0.5, "kept": 0.25}}, "T",
                     live=lambda row, column: column == "run"))
    assert told.split() == ["T", "(≈:", "live)", "run", "kept", "a", "≈0.500", "0.250"]
    told = str(table({"a": {"run": float("nan")}}, "T", live=lambda row, column: True))
    assert told.split() == ["T", "(≈:", "live)", "run", "a", "–"]


def test_a_result_box_has_every_headline_and_folds_the_others(book):
    def rows(place=".//table"):
        shown = ET.fromstring(result("demo").html)
        assert not shown.findall(".//*[@id]")
        return [" ".join("".join(row.itertext()).split())
                for row in shown.find(place).iter("tr")][1:]

    assert [row.split()[0] for row in rows()] == ["reproduced", "not"]
    assert [row.split()[0] for row in rows(".//details//table")] == [
        "reproduced", "confirmed", "not"]
    assert "0.9500 ± 0.0050" in rows()[0]
    for seed in range(3):
        record_file(book, seed).unlink()
    assert [row.split()[:2] for row in rows()] == [["not", "attempted"]] * 2, "visible, not folded"


def test_the_origin_of_a_figure_names_runs_seeds_and_time(book):
    live = SimpleNamespace(random_state=3, history_=SimpleNamespace(seconds=90.0))
    assert origin(live, live) == "live · seed 3 · 3.0 min"
    assert origin(seed=[1, 0], seconds=4) == "live · seeds 0, 1 · 4.0 s"
    runs = recorded("demo", "demo-paper")
    assert origin(runs) == "recorded demo-paper · seeds 0–2 · 1.0 s per seed on average"
    assert origin(runs[1], seed=0) == (
        "live · seed 0; recorded demo-paper · seed 1 · 1.0 s")
