"""Every claim that was changed after its profile's first record, from the repository's history.

``python tests/amendments`` writes data/amendments/history.json: for each commit that touches the
claims, what changed of those that already had a record, with the verdicts before and after, each
computed by the code of its commit; and the records that were edited. Where each claim of the time
before claims were merged stands now does not change any more. Last it writes the tables in
book/amendments.md; ``python tests/amendments page`` writes these alone.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import yaml

from bookledger.claims import _Loader

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "data" / "amendments" / "history.json"
PAGE = ROOT / "book" / "amendments.md"
MARKS = "% Written by python tests/amendments.", "% To here."
RECORDS = ":(glob)data/records/*-seed*.json"      # not the progress files in under-way
DECIDES = ("kind", "profile", "statistic", "metric", "minus", "value", "tolerance", "relation",
           "than", "in", "check", "depends_on", "cannot_compare", "not_attempted")
WORDS = """import json
import {} as evidence
print(json.dumps({{claim.id: verdict.word for claim, verdict in evidence.scorecard().rows}}))"""


def git(*arguments: str) -> str:
    """The output of a git command; empty where it fails."""
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, check=False)
    return done.stdout.decode().strip() if done.returncode == 0 else ""


@cache
def parsed(file: str, blob: str) -> list[dict]:
    """The claims of a file's content, which many commits share."""
    return [{**claim, "chapter": Path(file).stem}
            for claim in yaml.load(git("show", blob), _Loader)]


@cache
def claims(commit: str) -> list[dict]:
    """Every claim at a commit, as its file has it, and its chapter."""
    lines = git("ls-tree", commit, "data/claims/").splitlines()
    return [claim for line in lines if line.endswith(".yaml")
            for claim in parsed(line.partition("\t")[2], line.split()[2])]


@cache
def numbers(commit: str) -> dict[str, dict]:
    """Every number of every claim at a commit: id → its deciding keys, and its claim's id."""
    found = {}
    for claim in claims(commit):
        for number in claim.get("compares", [{"id": claim["id"]}]):
            whole = {**claim, **number}
            found[number["id"]] = {key: whole[key] for key in DECIDES if key in whole} | {
                "claim": claim["id"], "chapter": claim["chapter"]}
    return found


@cache
def recorded(commit: str) -> set[str]:
    """The profiles, and chapters, that have a record at a commit."""
    listed = git("ls-tree", "--name-only", commit, "data/records/").splitlines()
    names = [Path(file).name.partition("-seed")[0] for file in listed if file.endswith(".json")]
    return {*names, *(name.partition("-")[0] for name in names)}


@cache
def words(commit: str) -> dict[str, str]:
    """The verdict on each claim at a commit, by the code of that commit."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "-C", ROOT, "archive", commit], capture_output=True,
                                 check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        engine = Path(folder, "src", "bookledger").is_dir()     # before, the library had it inside
        code = WORDS.format("bookledger" if engine else "clusterbook.evidence")
        done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True,
                              check=True, env={"PYTHONPATH": f"{folder}/src", "PATH": "/usr/bin"})
    return json.loads(done.stdout)


def differences(before: dict, after: dict) -> dict[str, list]:
    """The deciding keys that differ; of a reason only whether there is one."""
    def shown(values: dict, key: str) -> object:
        return key in values if key in ("cannot_compare", "not_attempted") else values.get(key)

    return {key: [shown(before, key), shown(after, key)] for key in DECIDES
            if shown(before, key) != shown(after, key)}


def changes(commit: str) -> list[dict]:
    """What a commit changed of the numbers that had a record before it; without verdicts."""
    old, new, has = numbers(f"{commit}~1"), numbers(commit), recorded(f"{commit}~1")
    found = []
    for id in old.keys() | new.keys():
        before, after = old.get(id, {}), new.get(id, {})
        # A check may be made by any profile of its chapter.
        made_by = {one.get("profile", one["chapter"] if "check" in one else None)
                   for one in (before, after) if one}
        different = differences(before, after)
        change = "changed" if before and after else "added" if after else "removed"
        if made_by & has and different:
            found.append({
                "commit": commit, "id": id, "change": change,
                "fields": different if change == "changed" else {},
                "reason": after.get("cannot_compare") or after.get("not_attempted") or ""})
    return sorted(found, key=lambda one: one["id"])


def amended() -> list[str]:
    """The commits that touch the claims, oldest first."""
    return git("log", "--reverse", "--format=%H", "--", "data/claims/*.yaml").splitlines()[1:]


def edited_records() -> list[dict]:
    """The commits that edited or deleted records, with the fields that differ."""
    found = []
    for commit in git("log", "--reverse", "--diff-filter=MD", "--format=%H", "--",
                      RECORDS).splitlines():
        profiles, fields = set(), set()
        for line in git("diff", "--name-status", "--diff-filter=MD", f"{commit}~1", commit, "--",
                        RECORDS).splitlines():
            status, file = line.split("\t")
            profiles.add(Path(file).name.partition("-seed")[0])
            if status == "D":
                fields.add("deleted")
                continue
            before, after = (json.loads(git("show", f"{at}:{file}"))
                             for at in (f"{commit}~1", commit))
            different = {key for key in before.keys() | after.keys()
                         if before.get(key) != after.get(key)}
            fields |= {"run anew"} if "started" in different else different
        found.append({"commit": commit, "profiles": sorted(profiles), "fields": sorted(fields)})
    return found


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; a cell that is neither code nor a link is shown as it is."""
    def cell(text: str) -> str:
        plain = not text.startswith(("`", "<a "))
        return re.sub(r"([\\`*_{}\[\]<>|$~#])", r"\\\1", text) if plain else text

    lines = [heads, ["---"] * len(heads), *([cell(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tables(history: dict) -> str:
    """The tables of the page."""
    about, changed = history["commits"], []
    for one in history["changes"]:
        day, subject = about[one["commit"]]
        fields = "; ".join(f"{key}: {old} → {new}" for key, (old, new) in one["fields"].items())
        changed.append((day, f"`{one['commit'][:8]}`", f"`{one['id']}`",
                        f"{one['change']}{': ' if fields else ''}{fields}",
                        " → ".join(word or "–" for word in one["verdicts"]),
                        one["reason"] or subject))
    edited = [(about[one["commit"]][0], f"`{one['commit'][:8]}`", ", ".join(one["profiles"]),
               ", ".join(one["fields"]), about[one["commit"]][1]) for one in history["records"]]
    now = '<a href="scorecard.html#{0}"><code>{0}</code></a>'.format
    moved = [(f"`{one['id']}`", one["verdict"], now(one["now"]) if one["now"] else one["reason"])
             for one in history["places"]]
    return "\n\n".join([
        f":::{{dropdown}} {len(changed)} changes to claims after the first record of their profile",
        table(("Date", "Commit", "Claim", "Change", "Verdict", "Reason"), changed), ":::",
        f"{len(edited)} commits replaced or edited records:",
        table(("Date", "Commit", "Profiles", "What differs", "Reason"), edited),
        f":::{{dropdown}} Where each of the {len(moved)} claims before the merge stands now",
        table(("Claim", "Verdict then", "Now"), moved), ":::"])


def page() -> str:
    """The amendments page with the tables of the history."""
    begin, end = MARKS
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    shown = tables(json.loads(TARGET.read_text(encoding="utf-8")))
    return f"{before}{begin}\n\n{shown}\n\n{end}{rest.partition(end)[2]}"


def history() -> None:
    """Write the history."""
    found = [change for commit in amended() for change in changes(commit)]
    for change in found:
        commit, id = change["commit"], change["id"]
        change["verdicts"] = [
            words(at).get(numbers(at).get(id, {}).get("claim", id))
            for at in (f"{commit}~1", commit)]
    edited = edited_records()
    about = {commit: git("show", "-s", "--format=%as%n%s", commit).split("\n", 1)
             for commit in sorted({one["commit"] for one in (*found, *edited)})}
    kept = json.loads(TARGET.read_text(encoding="utf-8"))["places"]
    text = json.dumps({"commits": about, "changes": found, "records": edited, "places": kept},
                      indent=1, ensure_ascii=False, sort_keys=True)
    TARGET.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["page"]:
        history()
    PAGE.write_text(page(), encoding="utf-8")
