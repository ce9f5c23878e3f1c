"""The amendments page against the repository's history, where there is one."""

import json
import tomllib

import pytest
import yaml
from _support import CHECKOUT, module_of, put
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
    found = history.everything()
    written = {key: [{name: value for name, value in one.items() if name != "verdicts"}
                     for one in WRITTEN[key]] for key in found}
    assert written == found, "run python tests/amendments"


@needs_history
def test_nothing_that_has_a_record_is_changed_and_not_committed():
    for kind, found in history.uncommitted().items():
        assert not found, f"{kind} after a first record; commit, then run python tests/amendments"


def test_what_a_deciding_check_compares_is_computed_as_committed(monkeypatch):
    kept = json.loads(history.CELLS.read_text(encoding="utf-8"))
    assert history.computed() == kept, "run python tests/amendments, which lists it on the page"
    read = history.nbformat.read

    def edited(path, **options):            # a cell above, not the check's own
        notebook = read(path, **options)
        for cell in notebook.cells:
            cell.source = cell.source.replace(
                "beta = 2 * centers, -(centers ** 2).sum(1), (X ** 2).sum(1)",
                "beta = 2 * centers, -(centers ** 2).sum(1), 0 * (X ** 2).sum(1)").replace(
                "logits, tau = X @ W.T + b, 1.0", "logits, tau = X @ W.T + b, 2.0")
        return notebook

    monkeypatch.setattr(history.nbformat, "read", edited)
    found = history.computed()
    differ = {id for id in kept if found[id] != kept[id]}
    assert {"tell-expansion", "tell-beta-slip"} <= differ and len(differ) < 6


CLAIM = """\
- {{id: demo-acc, tier: {tier}, says: {says}, source: Table 1, seen: paper, kind: value,
   profile: demo-a, metric: acc, value: 0.9, tolerance: 0.1{more}}}
"""


def claim(tier: str = "headline", says: str = "good", more: str = ", differs: small") -> dict:
    return {"data/claims/demo.yaml": CLAIM.format(tier=tier, says=says, more=more)}


def profile(seeds: list[int], epochs: int = 30) -> dict:
    return {"notebooks/profiles/demo-a.toml":
            f"seeds = {seeds}\n[parameters]\nepochs = {epochs}\n"}


def records(*seeds: int, acc: float = 0.5) -> dict:
    return {f"data/records/demo-a-seed{seed}.json": json.dumps({
        "seed": seed, "metrics": {"acc": acc}, "rows": ["loss"] * 50, "started": seed})
        for seed in seeds}


BEFORE = {"data/amendments/cells.json": '{"demo-check": "a"}', **claim(), **profile([0, 1, 2]),
          **records(0, 1, 2)}
MISSES = dict.fromkeys(records(0, 1, 2))
ATTACKS = {     # what is changed, where the history tells it, and words of it
    "differs removed": (claim(more=""), "changes", "differs"),
    "three misses deleted, three better seeds added": (
        MISSES | records(3, 4, 5, acc=0.9), "records", "deleted"),
    "the profile's list edited with them": (
        profile([3, 4, 5]), "profiles", "seeds: [0, 1, 2] → [3, 4, 5]"),
    "the list shortened": (profile([2]), "profiles", "seeds: [0, 1, 2] → [2]"),
    "a profile that has records": (profile([0, 1, 2], 3), "profiles", "parameters: epochs"),
    "other words": (claim(says="bad"), "reworded", "says"),
    "another tier": (claim(tier="minor"), "reworded", "tier"),
    "a cell above a check": ({"data/amendments/cells.json": '{"demo-check": "b"}'}, "reworded",
                             "cells above the check"),
    "a metric edited": (records(0, acc=0.9), "records", "metrics"),
}


@pytest.fixture
def past(tmp_path, monkeypatch):
    """A repository with a history of its own, and what commits to it."""
    monkeypatch.setattr(history, "ROOT", tmp_path)
    monkeypatch.setattr(history, "CELLS", tmp_path / "data" / "amendments" / "cells.json")
    for name, value in {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
                        **{f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER")
                           for what in ("NAME", "EMAIL")}}.items():
        monkeypatch.setenv(name, value)

    def commit(files, message="more"):
        change(tmp_path, files)
        history.git("add", "-A")
        history.git("commit", "-q", "--allow-empty", "-m", message)
        return history.git("rev-parse", "HEAD")

    history.git("init", "-q", "-b", "main")
    for kind in ("amendments", "claims", "profiles", "records"):      # each has a first commit
        commit({file: text for file, text in BEFORE.items() if f"/{kind}/" in file})
    assert not any(history.everything().values())
    return commit


def change(root, files):
    for file in [file for file, text in files.items() if text is None]:
        (root / file).unlink()
    put(root, {file: text for file, text in files.items() if text is not None})


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_told_before_its_commit_and_after_it(name, past, tmp_path):
    files, kind, words = ATTACKS[name]
    change(tmp_path, files)
    assert words in str(history.uncommitted()[kind])
    commit = past({})
    found = history.everything()
    assert [one["commit"] for one in found[kind]] == [commit] and words in str(found[kind])
    assert not any(told for other, told in found.items() if other != kind)
    assert not any(history.uncommitted().values())


def test_a_merge_that_loses_a_record_is_told(past, tmp_path):
    history.git("checkout", "-q", "-b", "side", "HEAD~1")
    past({"data/records/demo-a-seed0.json": '{"seed": 0, "started": 9}'})
    history.git("checkout", "-q", "main")
    history.git("merge", "-q", "-s", "ours", "--no-commit", "side")
    commit = past(MISSES | {"data/records/demo-a-seed0.json": '{"seed": 0, "started": 9}'})
    assert len(history.git("rev-list", "--parents", "-n", "1", "HEAD").split()) == 3
    assert commit in [one["commit"] for one in history.everything()["records"]]
    # What one side changed and the other did not is told once, by that side's own commit.
    history.git("checkout", "-q", "-b", "other", "HEAD")
    edited = past({"data/claims/demo.yaml": BEFORE["data/claims/demo.yaml"].replace("0.9", "0.8")})
    history.git("checkout", "-q", "main")
    past({"README": "a"})
    history.git("merge", "-q", "--no-edit", "other")
    assert [one["commit"] for one in history.everything()["changes"]] == [edited]


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


def test_the_workflow_fetches_the_whole_history():
    jobs = yaml.safe_load((CHECKOUT / ".github/workflows/test.yml").read_text("utf-8"))["jobs"]
    [fetched] = [step["with"] for step in jobs["test"]["steps"]
                 if "checkout" in step.get("uses", "")]
    assert fetched["fetch-depth"] == 0
