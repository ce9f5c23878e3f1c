"""The scorecard and what a chapter says, from files to text and HTML."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ET

import pytest

from clusterbook import paths
from clusterbook.errors import InputError
from clusterbook.evidence import at_last_tag, fingerprint, load_claims, say, scorecard, status
from clusterbook.evidence import verdicts as verdicts_module
from clusterbook.evidence.records import dumps
from clusterbook.evidence.views import REPLACED, WIDTH

CLAIMS = """\
- id: demo-acc
  says: It reaches <95 %> & more
  source: Somebody "et al.", Table 1
  seen: second-hand
  where: a report
  section: results
  kind: value
  profile: demo-paper
  metric: acc
  statistic: mean
  value: 0.95
  tolerance: 0.02
  why: seeds < 2 %
- {id: demo-better-than-the-rivals-on-everything, says: better, source: s, seen: paper, kind: trend,
   profile: demo-paper, metric: acc, relation: ">", than: kmeans_acc_on_the_raw_pixels, in: all}
- {id: demo-best, says: b, source: s, seen: paper, kind: value, profile: demo-paper, metric: acc,
   statistic: best of 3 by loss, value: 0.5, tolerance: 0.1, why: w}
- {id: demo-identity, says: a = b, source: s, seen: paper, kind: exact, check: demo-a-b}
- {id: demo-big, says: ImageNet, source: s, seen: paper, kind: value, not_attempted: "12 GPU days"}
"""
OTHER = "- {id: other-x, says: x, source: s, seen: paper, kind: exact, check: other-y}\n"


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A checkout with two chapters, of which one has a method, claims and three records."""
    for name, text in {
        "data/claims/demo.yaml": CLAIMS,
        "data/claims/other.yaml": OTHER,
        "src/clusterbook/__init__.py": "_PUBLIC = {}\n",
        "src/clusterbook/demo.py": '"""Demo."""\nrate = 0.1\n',
        "notebooks/demo.ipynb": "{}",
        "notebooks/empty.ipynb": "{}",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    package = tmp_path / "src" / "clusterbook"
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    monkeypatch.setattr(paths, "checkout", lambda: tmp_path)
    real = fingerprint

    def of_this_book(chapter, package=tmp_path / "src" / "clusterbook"):
        return real(chapter, package=package or tmp_path / "src" / "clusterbook")

    monkeypatch.setattr(verdicts_module, "fingerprint", of_this_book)
    (tmp_path / "data" / "records").mkdir()
    for seed, acc in enumerate([0.94, 0.95, 0.96]):
        write(tmp_path, seed, acc, real("demo", package=package))
    return tmp_path


def write(book, seed, acc, code):
    values = {
        "chapter": "demo", "profile": "demo-paper", "parameters": {}, "assumed": [], "seed": seed,
        "metrics": {"acc": acc, "kmeans_acc_on_the_raw_pixels": 0.5, "loss": float(seed)},
        "checks": {"demo-a-b": True}, "history": [], "git": {"commit": "a", "clean": True},
        "code": code, "tolerances": {"demo-acc": 0.02, "demo-best": 0.1},
        "versions": {"python": "3.11.7", "torch": "2", "numpy": "2", "scikit-learn": "1"},
        "machine": {"cpu": "c", "gpu": None, "cores": 1, "threads": 1}, "data": None,
        "started": "2025-01-01T00:00:00+00:00", "seconds": 1, "peak_memory_mb": None,
        "arrays": None,
    }
    (book / "data" / "records" / f"demo-paper-seed{seed}.json").write_text(dumps(values))


def record_file(book, seed):
    return book / "data" / "records" / f"demo-paper-seed{seed}.json"


def rewrite(book, seed, **changes):
    values = json.loads(record_file(book, seed).read_text())
    record_file(book, seed).write_text(dumps({**values, **changes}))


WORDS = {
    "demo-acc": "reproduced",
    "demo-better-than-the-rivals-on-everything": "reproduced",
    "demo-best": "not reproduced",
    "demo-identity": "confirmed",
    "demo-big": "not attempted",
    "other-x": "not attempted",
}


def test_every_claim_is_listed_once_in_its_order(book):
    card = scorecard()
    assert [claim.id for claim, _ in card.rows] == [claim.id for claim in load_claims()]
    assert card.words() == WORDS
    assert card.counts() == {
        "demo": {"reproduced": 2, "confirmed": 1, "not reproduced": 1, "not attempted": 1},
        "other": {"not attempted": 1},
    }
    text = str(card)
    assert all(text.count(f"\n{name[:20]}") == 1 for name in WORDS)
    assert text.endswith("6 claims: 2 reproduced, 1 confirmed, 1 not reproduced, 2 not attempted")
    lines = text.splitlines()
    assert max(map(len, lines)) <= WIDTH == 100
    start = lines[2].index("verdict")       # the columns are aligned
    assert lines[3].startswith("demo-acc ") and lines[3][start:] == "reproduced"
    assert "0.950 ± 0.010 (3 seeds)" in lines[3]


def test_one_digit_of_a_record_changes_the_scorecard(book):
    before = scorecard()
    path = record_file(book, 1)
    assert '"acc": 0.95,' in path.read_text()
    path.write_text(path.read_text().replace('"acc": 0.95,', '"acc": 0.05,'))
    after = scorecard()
    assert after.words()["demo-acc"] == "inconclusive"
    assert str(after) != str(before)
    assert after._repr_html_() != before._repr_html_()
    path.unlink()
    assert scorecard().words()["demo-acc"] == "indicative"


@pytest.mark.parametrize(
    ("old", "new", "stale"),
    [("0.1", "0.2", True), ("rate", "# a comment\nrate", False), ('"""Demo."""', "", False)],
)
def test_edited_code_makes_its_records_stale_and_prose_does_not(book, old, new, stale):
    path = book / "src" / "clusterbook" / "demo.py"
    path.write_text(path.read_text().replace(old, new))
    card = scorecard()
    assert card.words() == WORDS
    assert (card.counts()["demo"].get("reproduced", 0) == 0) == stale
    assert ("2 reproduced (stale)" in str(card)) == stale
    assert ("cb-stale" in card._repr_html_()) == stale
    assert ("have changed since these runs" in say("demo")._repr_html_()) == stale


def test_the_html_is_well_formed_and_escaped(book):
    tree = ET.fromstring(scorecard()._repr_html_())
    scrolling = tree.find("div[@role='region']")
    assert scrolling.get("style") == "overflow-x: auto"
    table = scrolling.find("table")
    assert [head.get("scope") for head in table.find("thead").iter("th")] == ["col"] * 5
    scopes = [head.get("scope") for head in table.iter("th")]
    assert (scopes.count("row"), scopes.count("rowgroup")) == (6, 2)
    row = next(row for row in table.iter("tr") if row.get("id") == "demo-acc")
    text = "".join(row.itertext())
    assert "It reaches <95 %> & more" in text
    assert 'Somebody "et al.", Table 1 (second-hand: a report)' in text
    assert "Tolerance: seeds < 2 %" in text
    assert "demo-paper, seeds 0 1 2" in text
    assert [link.get("href") for link in row.findall(".//a")] == [
        "../notebooks/demo.html#results", "status.html#demo-paper",
        *(f"../records/demo-paper-seed{seed}.json" for seed in range(3))]
    word = row.find(".//span")
    assert word.get("class") == "cb-verdict cb-verdict-reproduced"
    assert word.text == "reproduced"  # in words, not in color alone


def test_the_rows_can_be_chosen_where_scripts_run_and_all_stand_where_not(book):
    tree = ET.fromstring(scorecard()._repr_html_())
    bar = tree.find("div[@class='cb-filter']")
    assert bar.get("hidden") is not None
    works, verdicts = ([option.text for option in select] for select in bar.iter("select"))
    assert works == ["all", "demo", "other"]
    assert verdicts == ["all", "reproduced", "confirmed", "not reproduced", "not attempted"]
    rows = [row for row in tree.iter("tr") if row.get("data-work")]
    assert {(row.get("id"), row.get("data-verdict")) for row in rows} == set(WORDS.items())
    assert not any(row.get("hidden") for row in rows)


def test_the_counts_are_drawn_and_told_in_words(book):
    (book / "src" / "clusterbook" / "demo.py").write_text("rate = 3\n")
    card = scorecard()
    axis = card.figure().axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["demo", "other"]
    widths = {bars.get_label(): [bar.get_width() for bar in bars] for bars in axis.containers}
    assert widths == {"reproduced (stale)": [2, 0], "confirmed (stale)": [1, 0],
                      "not reproduced (stale)": [1, 0], "not attempted": [1, 1]}
    assert card.describe().endswith("1 not attempted; other: 1 claim: 1 not attempted")


def test_the_status_lists_every_recorded_profile_with_its_cost_and_code(book):
    shown = status()
    assert [profile.name for profile in shown.rows] == ["demo-paper"]
    assert shown.rows[0].cells == {
        "Seeds": "0 1 2", "Time, a seed": "1.0 s", "Peak memory": "not known",
        "Machine": "c, threads: 1, cores: 1", "Date": "2025-01-01", "Code": "a",
        "Versions": "python 3.11.7, torch 2, numpy 2, scikit-learn 1",
        "Trained model": "not kept"}
    assert repr(shown).startswith("demo-paper\n    Seeds: 0 1 2\n")
    row = next(row for row in ET.fromstring(shown._repr_html_()).iter("tr") if row.get("id"))
    assert row.get("id") == "demo-paper"
    assert [link.get("href") for link in row.iter("a")] == [
        f"../records/demo-paper-seed{seed}.json" for seed in range(3)]


def test_the_status_is_of_all_seeds(book):
    record_file(book, 1).with_suffix(".pt").write_bytes(bytes(1_250_000))
    rewrite(book, 2, code="older", peak_memory_mb=1200.0)
    rewrite(book, 1, git={"commit": "a", "clean": False}, seconds=4.0, peak_memory_mb=1500.0,
            parameters={"epochs": 3, "seeds": []})
    cells = status().rows[0].cells
    assert cells["Trained model"] == "seed 1, 1.2 MB"
    assert cells["Code"] == "a; a, changed, stale"      # one of three runs is
    assert (cells["Time, a seed"], cells["Peak memory"]) == ("2.0 s", "1,500 MiB")
    # Its training alone took longer than what was counted: an early record of a resumed run.
    rewrite(book, 1, metrics={"seconds_per_epoch": 10.0})
    assert status().rows[0].cells["Time, a seed"] == "more than 11 s"
    # Code that was replaced without changing a number is not stale, and the page says so.
    now = json.loads(record_file(book, 0).read_text())["code"]
    rewrite(book, 2, code="f" * 64)
    (book / "data" / "lineage.yaml").write_text(
        f"- {{chapter: demo, old: {'f' * 64}, new: {now}, commit: {'e' * 40}, says: s}}\n")
    assert status().rows[0].cells["Code"] == f"a; a, changed, {REPLACED}"
    for seed in range(3):
        record_file(book, seed).unlink()
    assert ET.fromstring(status()._repr_html_()).find(".//caption").text == "0 recorded profiles"


def test_a_chapter_says_its_own_claims(book):
    shown = say("demo")
    assert repr(shown).startswith(
        "5 claims: 2 reproduced, 1 confirmed, 1 not reproduced, 1 not attempted\n")
    assert "12 GPU days" in repr(shown)
    tree = ET.fromstring(shown._repr_html_())
    assert tree.find(".//a").get("href") == "#results"
    assert not [row for row in tree.iter("tr") if row.get("id")]  # shown twice, ids would clash
    assert "cb-filter" not in shown._repr_html_()
    assert 'href="../notebooks/demo.html#results"' in say("demo", here=False)._repr_html_()
    assert [claim.id for claim, _ in say(["demo-big", "demo-acc"]).rows] == ["demo-big", "demo-acc"]
    assert repr(say("demo-acc")).startswith("1 claim: 1 reproduced")
    assert repr(say("empty")) == "0 claims"  # a chapter that claims nothing
    assert ET.fromstring(say("empty")._repr_html_()).text == "0 claims"
    with pytest.raises(InputError, match="no chapter or claim 'demo-ac'; did you mean 'demo-"):
        say(["demo-ac"])


def test_regressions_are_steps_down_and_lost_claims(book):
    card = scorecard()
    assert card.regressions(WORDS) == []
    before = {
        "demo-acc": "indicative",  # now reproduced: better
        "demo-best": "inconclusive",  # now not reproduced: no step down, a finding
        "demo-big": "not reproduced",  # now not attempted: the run is lost
        "demo-identity": "refuted",  # now confirmed
        "demo-gone": "not attempted",
    }
    assert card.regressions(before) == [
        "demo-big: not reproduced → not attempted",
        "demo-gone: not attempted → no longer a claim",
    ]
    assert card.regressions({**WORDS, "demo-best": "reproduced"}) == [
        "demo-best: reproduced → not reproduced"]


def git(book, *arguments):
    command = ["git", "-C", book, "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    subprocess.run(command, check=True, capture_output=True)


def commit(book, tag):
    git(book, "add", ".")
    git(book, "commit", "-qm", tag)
    git(book, "tag", tag)


def test_the_last_tag_is_judged_as_it_stood(book):
    assert at_last_tag() is None  # no repository
    write(book, 3, 0.95, "older code")  # its failed check was mended, as the code at the tag tells
    mended = record_file(book, 3)
    mended.write_text(mended.read_text().replace('"demo-a-b": true', '"demo-a-b": false'))
    git(book, "init", "-q")
    assert at_last_tag() is None  # no tag
    commit(book, "v1")
    for seed in range(4):
        record_file(book, seed).unlink()
    (book / "src" / "clusterbook" / "demo.py").write_text("rate = 3\n")
    assert at_last_tag() == WORDS
    lost = scorecard().regressions(at_last_tag())
    assert [line.partition(":")[0] for line in lost] == list(WORDS)[:4]
    commit(book, "v2")
    with pytest.raises(InputError, match="v2 can't be compared with: it lacks claims, records"):
        at_last_tag()
    write(book, 0, 0.95, "code")
    (book / "data" / "claims" / "demo.yaml").write_text("- {id: demo-x}\n")
    commit(book, "v3")
    with pytest.raises(InputError, match="v3 can't be compared with: data/claims/demo"):
        at_last_tag()
