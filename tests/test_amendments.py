"""The amendments page against the repository's history, where there is one."""

from __future__ import annotations

import json
import tomllib

import pytest
import yaml
from _support import CHECKOUT, module_of
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from bookledger import judge, load_claims, load_records
from bookledger.records import HELD, MANIFEST, sha256

history = module_of(CHECKOUT / "tests" / "amendments" / "__main__.py")
WRITTEN = json.loads(history.TARGET.read_text(encoding="utf-8"))
RECORDS = history.ROOT / "data" / "records"

needs_history = pytest.mark.skipif(
    not history.git("rev-parse", "HEAD")
    or history.git("rev-parse", "--is-shallow-repository") == "true",
    reason="not checked: no history")


@needs_history
def test_the_page_lists_every_change_after_a_first_record():
    found = [change for commit in history.amended() for change in history.changes(commit)]
    written = [{key: value for key, value in change.items() if key != "verdicts"}
               for change in WRITTEN["changes"]]
    assert written == found, "run python tests/amendments"
    assert WRITTEN["records"] == history.edited_records(), "run python tests/amendments"


@needs_history
def test_every_record_was_its_profiles_run_at_a_commit_in_the_history_with_its_versions():
    ancestors = set(history.git("rev-list", "HEAD").split())
    for record in load_records():
        commit = record.git["commit"]
        assert commit in ancestors, record.name
        required = history.git("show", f"{commit}:pyproject.toml")
        for name in ("torch", "numpy", "scikit-learn"):
            line = next(line for line in required.splitlines() if f'"{name}>=' in line)
            ranges = SpecifierSet(line.partition(f'"{name}')[2].partition('"')[0])
            assert Version(record.versions[name]) in ranges, (record.name, name)
        place = f"{commit}:notebooks/profiles/{record.profile}"
        profile = tomllib.loads(history.git("show", f"{place}.toml")) or yaml.safe_load(
            history.git("show", f"{place}.yaml"))       # of the time before November 2026
        assumed = profile.get("assumed", {})
        assert (profile["parameters"] | assumed).items() <= record.parameters.items(), record.name
        assert set(assumed) == set(record.assumed), record.name


@needs_history
def test_every_claim_was_committed_before_its_first_record():
    records = {record.name: record for record in load_records()}
    late, compared = set(), 0
    for claim in load_claims():
        for number, part in zip(claim.compares, judge(claim, records.values()).parts, strict=True):
            if part.records:
                first = min((records[name] for name in part.records), key=lambda one: one.started)
                compared += 1
                if number.id not in history.numbers(first.git["commit"]):
                    late.add(number.id)
                    assert part.word in ("indicative", "inconclusive"), number.id
    assert compared > 50
    assert late == {"tell-selected-run"}, "commit a claim before the run that decides it"


def test_the_page_is_that_of_the_history():
    assert history.PAGE.read_text(encoding="utf-8") == history.page(), (
        "run python tests/amendments page")


def test_the_manifest_lists_every_file():
    listed = json.loads((RECORDS / MANIFEST).read_text(encoding="utf-8"))
    files = {path.name: path for path in RECORDS.glob("*-seed*.*")}
    assert listed.keys() == files.keys()
    assert [name for name in listed if sha256(files[name].read_bytes()) != listed[name]] == []
    assert not [record.doubts for record in load_records() if record.doubts]
    # The claims at the commits of the records that hold none themselves; there will be no others.
    assert sha256((RECORDS / HELD).read_bytes()).startswith("08cc2d726f3398e5")


def test_every_earlier_claim_stands_somewhere_or_says_why_not():
    now = {claim.id for claim in load_claims()}
    assert len(WRITTEN["places"]) == 289
    for place in WRITTEN["places"]:
        assert place["now"] in now or place["reason"], place["id"]
        if place["verdict"] == "not reproduced":        # a miss leaves only into a claim
            assert place["now"] in now, place["id"]
