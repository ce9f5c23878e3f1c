"""What was changed after the first record of a profile, from the repository's history.

``python tests/amendments`` writes data/amendments/history.json: for each commit, what changed of
claims and profiles that already had a record, with the verdicts before and after, each computed by
the code of its commit; and the records that were edited. Where each claim of the time before claims
were merged stands now does not change any more. Last it writes the tables in book/amendments.md;
``python tests/amendments page`` writes these alone, data/amendments/cells.json, a hash of the code
behind each check that decides a claim, and the manifest of the records.
"""

import ast
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import nbformat
import yaml

from bookledger import config, load_claims, slices
from bookledger.checks import _dumped
from bookledger.claims import _Loader
from bookledger.records import write_manifest

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "data" / "amendments" / "history.json"
CELLS = TARGET.with_name("cells.json")      # `computed`, as committed
PAGE = ROOT / "book" / "amendments.md"
MARKS = "% Written by python tests/amendments.", "% To here."
RECORDS = "data/records/"
WORK = ""       # the working tree, where a commit stands otherwise
DECIDES = ("kind", "profile", "statistic", "metric", "minus", "value", "tolerance", "relation",
           "than", "in", "check", "depends_on", "differs", "cannot_compare", "not_attempted")
SAYS = ("says", "source", "seen", "where", "note", "quote", "tier", "by")
OF_PROFILES = ("seeds", "parameters", "assumed")
WORDS = """import json
import {} as evidence
print(json.dumps({{claim.id: verdict.word for claim, verdict in evidence.scorecard().rows}}))"""


def git(*arguments: str) -> str:
    """The output of a git command; empty where it fails."""
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, check=False)
    return done.stdout.decode().strip() if done.returncode == 0 else ""


@cache
def listing(commit: str, folder: str) -> dict[str, str]:
    """The files of a folder at a commit, each with the id of its content."""
    if commit == WORK:
        contents = {f"{folder}{path.name}": path.read_bytes()
                    for path in sorted((ROOT / folder).glob("*")) if path.is_file()}
        return {file: hashlib.sha1(b"blob %d\0" % len(text) + text).hexdigest()
                for file, text in contents.items()}
    lines = git("ls-tree", commit, folder).splitlines()
    return {line.partition("\t")[2]: line.split()[2] for line in lines if " blob " in line}


def content(file: str, blob: str) -> str:
    """A file's text, from the working tree if no commit has it."""
    return git("show", blob) or (ROOT / file).read_text(encoding="utf-8")


class _Quick(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Reads numbers as the book's own loader does, in a third of the time."""

    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


@cache
def parsed(file: str, blob: str) -> list[dict]:
    """The claims of a file's content, which many commits share."""
    return [{**claim, "chapter": Path(file).stem}
            for claim in yaml.load(content(file, blob), _Quick) or []]


@cache
def profile(file: str, blob: str) -> dict:
    """What a profile's file sets, which many commits share too."""
    read = {".toml": tomllib.loads, ".yaml": yaml.safe_load}[Path(file).suffix]
    values = read(content(file, blob)) or {}
    return {key: values[key] for key in OF_PROFILES if values.get(key)}


@cache
def numbers(commit: str) -> dict[str, dict]:
    """Every number of every claim at a commit: id → its own keys, and its claim's id."""
    found = {}
    for file, blob in listing(commit, "data/claims/").items():
        for claim in parsed(file, blob) if file.endswith(".yaml") else ():
            for number in claim.get("compares", [{"id": claim["id"]}]):
                whole = {**claim, **number}
                found[number["id"]] = {key: whole[key] for key in (*DECIDES, *SAYS)
                                       if key in whole} | {
                    "claim": claim["id"], "chapter": claim["chapter"]}
    return found


@cache
def profiles(commit: str) -> dict[str, dict]:
    """What every profile at a commit sets."""
    return {Path(file).stem: profile(file, blob)
            for file, blob in listing(commit, "notebooks/profiles/").items()
            if file.endswith((".toml", ".yaml"))}


def computed() -> dict[str, str]:
    """Every check that decides a claim, with a hash of all code that what it compares comes from.

    That is: the cells of its notebook that its own cell needs, as a figure that is drawn alone.
    """
    wanted = {number.check for claim in load_claims() for number in claim.compares if number.check}
    found = {}
    for path in config.notebooks(ROOT):
        cells = [*slices._cells(nbformat.read(path, as_version=4))]
        for end, (_, text, read, _) in enumerate(cells):
            code, needed = [text], {slices._ALL, *read}
            for _, other, reads, changed in reversed(cells[:end]):
                if changed & needed:
                    code.append(other)
                    needed |= reads
            digest = hashlib.sha256("\n".join(_dumped(ast.parse(one)) for one in code).encode())
            found |= {id: digest.hexdigest()[:12] for id in wanted
                      if f'evidence.check("{id}"' in re.sub(r"check\(\s+", "check(", text)}
    return dict(sorted(found.items()))


@cache
def computations(commit: str) -> dict[str, dict]:
    """The hashes of `computed` that a commit has in the file."""
    at = listing(commit, f"{CELLS.parent.relative_to(ROOT).as_posix()}/")
    file = CELLS.relative_to(ROOT).as_posix()
    return {id: {"cells": digest} for id, digest in json.loads(
        content(file, at[file])).items()} if file in at else {}


@cache
def recorded(commit: str) -> set[str]:
    """The profiles, and chapters, that have a record at a commit."""
    names = {Path(file).name.partition("-seed")[0] for file in listing(commit, RECORDS)
             if re.search(r"-seed\d+\.json$", file)}
    return {*names, *(name.partition("-")[0] for name in names)}


@cache
def before(commit: str) -> list[tuple[str, str]]:
    """The parents of a commit, each with what it came from where there is a second one.

    What a merge has from one parent instead of the other is told by that side's own commits, but
    for a parent's own change that the merge lost.
    """
    if commit == WORK:
        return [(git("rev-parse", "HEAD"), "")]
    parents = git("rev-list", "--parents", "-n", "1", commit).split()[1:]
    base = git("merge-base", "--octopus", *parents) if len(parents) > 1 else ""
    return [(parent, base) for parent in parents]


def pairs(read, commit: str) -> Iterator[tuple[str, str, dict, dict]]:
    """What differs of what *read* finds in a commit and in a parent: parent, name, both values."""
    for parent, base in before(commit):
        old, new = read(parent), read(commit)
        earlier = read(base) if base else {}
        for name in sorted(old.keys() | new.keys()):
            was, now, then = (one.get(name, {}) for one in (old, new, earlier))
            for key in {*was, *now} if base else ():        # what the other side changed
                if was.get(key) == then.get(key):
                    now = {one: value for one, value in now.items() if one != key} | (
                        {key: was[key]} if key in was else {})
            if was != now:
                yield parent, name, was, now


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


def differences(was: dict, now: dict) -> dict[str, list]:
    """The deciding keys that differ; of a reason only whether there is one."""
    def shown(values: dict, key: str) -> object:
        return key in values if key in ("cannot_compare", "not_attempted") else values.get(key)

    return {key: [shown(was, key), shown(now, key)] for key in DECIDES
            if shown(was, key) != shown(now, key)}


def changes(commit: str) -> list[dict]:
    """What a commit changed of the numbers that had a record before it; without verdicts."""
    found = []
    for parent, id, was, now in pairs(numbers, commit):
        # A check may be made by any profile of its chapter.
        made_by = {one.get("profile", one["chapter"] if "check" in one else None)
                   for one in (was, now) if one}
        different = differences(was, now)
        change = "changed" if was and now else "added" if now else "removed"
        if made_by & recorded(parent) and different:
            found.append({
                "commit": commit, "id": id, "change": change,
                "fields": different if change == "changed" else {},
                "reason": now.get("cannot_compare") or now.get("not_attempted") or ""})
    return found


def reworded(commit: str) -> list[dict]:
    """The claims of profiles with a record whose words, tier or source a commit changed, by key."""
    keys: dict[str, set[str]] = {}
    for parent, _, was, now in pairs(numbers, commit):
        if was and now and {one.get("profile", one["chapter"]) for one in (was, now)} & recorded(
                parent):
            for key in SAYS:
                if was.get(key) != now.get(key):
                    keys.setdefault(key, set()).add(now["claim"])
    for _, id, was, _ in pairs(computations, commit):
        if was:
            keys.setdefault("cells above the check", set()).add(id)
    return [{"commit": commit, "key": key, "claims": sorted(found)} for key, found in keys.items()]


def other_profiles(commit: str) -> list[dict]:
    """The profiles with a record that a commit edited or removed, and what differs."""
    found = []
    for parent, name, was, now in pairs(profiles, commit):
        if was and name in recorded(parent):
            fields = []
            for key in OF_PROFILES:
                old, new = was.get(key, {}), now.get(key, {})
                if old != new and key == "seeds":
                    fields.append(f"seeds: {old or 'none'} → {new or 'none'}")
                elif old != new:
                    other = sorted(one for one in {*old, *new} if old.get(one) != new.get(one))
                    fields.append(f"{key}: {', '.join(other)}")
            found.append({"commit": commit, "profile": name, "fields": fields})
    return found


def touched(*places: str) -> list[str]:
    """The commits after the first, merges too, that touch these files, oldest first."""
    found = git("log", "--reverse", "--full-history", "--no-renames", "--format=%H", "--",
                *places).splitlines()
    return list(dict.fromkeys(found))[1:]


def records(commit: str) -> dict[str, dict]:
    """The content of every record at a commit, as the ids of its files have it."""
    return {Path(file).stem: {"file": file, "blob": blob} for file, blob in listing(
        commit, RECORDS).items() if re.search(r"-seed\d+\.json$", file)}


def edited_records(commit: str) -> list[dict]:
    """The records that a commit edited or deleted, with the fields that differ."""
    edited, fields = set(), set()
    for _, name, was, now in pairs(records, commit):
        if not was:
            continue
        edited.add(name.partition("-seed")[0])
        if not now:
            fields.add("deleted")
            continue
        old, new = (json.loads(content(**one)) for one in (was, now))
        different = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
        fields |= {"run anew"} if "started" in different else different
    return [{"commit": commit, "profiles": sorted(edited), "fields": sorted(fields)}] * bool(fields)


def everything() -> dict[str, list[dict]]:
    """All that the history has to tell, without verdicts."""
    return {
        "changes": [one for commit in touched("data/claims/*.yaml") for one in changes(commit)],
        "reworded": [one for commit in touched("data/claims/*.yaml", "data/amendments/cells.json")
                     for one in reworded(commit)],
        "profiles": [one for commit in touched("notebooks/profiles")
                     for one in other_profiles(commit)],
        "records": [one for commit in touched(":(glob)data/records/*-seed*.json")
                    for one in edited_records(commit)]}


def uncommitted() -> dict[str, list[dict]]:
    """The same of the working tree, which no commit has yet."""
    for read in (listing, before, numbers, profiles, computations, recorded):
        read.cache_clear()
    return {name: read(WORK) for name, read in (
        ("changes", changes), ("reworded", reworded), ("profiles", other_profiles),
        ("records", edited_records))}


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; a cell that is neither code nor a link is shown as it is."""
    def cell(text: str) -> str:
        plain = not text.startswith(("`", "<a "))
        return re.sub(r"([\\`*_{}\[\]<>|$~#])", r"\\\1", text) if plain else text

    lines = [heads, ["---"] * len(heads), *([cell(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tables(history: dict) -> str:
    """The tables of the page."""
    def dated(one: dict, *cells: str) -> tuple[str, ...]:
        day, subject = history["commits"][one["commit"]]
        return day, f"`{one['commit'][:8]}`", *cells, one.get("reason") or subject

    def change(one: dict) -> str:
        fields = "; ".join(f"{key}: {old} → {new}" for key, (old, new) in one["fields"].items())
        return f"{one['change']}: {fields}" if fields else one["change"]

    changed = [dated(one, f"`{one['id']}`", change(one),
                     " → ".join(word or "–" for word in one["verdicts"]))
               for one in history["changes"]]
    edited = [dated(one, ", ".join(one["profiles"]), ", ".join(one["fields"]))
              for one in history["records"]]
    others = [dated(one, f"`{one['profile']}`", "; ".join(one["fields"]))
              for one in history["profiles"]]
    words = [dated(one, one["key"], ", ".join(one["claims"])) for one in history["reworded"]]
    now = '<a href="scorecard.html#{0}"><code>{0}</code></a>'.format
    moved = [(f"`{one['id']}`", one["verdict"], now(one["now"]) if one["now"] else one["reason"])
             for one in history["places"]]
    return "\n\n".join([
        f":::{{dropdown}} {len(changed)} changes to claims after the first record of their profile",
        table(("Date", "Commit", "Claim", "Change", "Verdict", "Reason"), changed), ":::",
        f"{len(edited)} commits replaced or edited records:",
        table(("Date", "Commit", "Profiles", "What differs", "Reason"), edited),
        f":::{{dropdown}} {len(others)} changes to profiles after their first record",
        table(("Date", "Commit", "Profile", "What differs", "Reason"), others), ":::",
        f":::{{dropdown}} {len(words)} changes to words, tiers and sources of claims after the "
        "first record of their profile",
        table(("Date", "Commit", "Key", "Claims", "Reason"), words), ":::",
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
    found = everything()
    for change in found["changes"]:
        commit, id = change["commit"], change["id"]
        change["verdicts"] = [
            words(at).get(numbers(at).get(id, {}).get("claim", id))
            for at in (f"{commit}~1", commit)]
    about = {commit: git("show", "-s", "--format=%as%n%s", commit).split("\n", 1)
             for commit in sorted({one["commit"] for told in found.values() for one in told})}
    kept = json.loads(TARGET.read_text(encoding="utf-8"))["places"]
    text = json.dumps({"commits": about, **found, "places": kept},
                      indent=1, ensure_ascii=False, sort_keys=True)
    TARGET.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    write_manifest(ROOT / RECORDS)
    CELLS.write_text(f"{json.dumps(computed(), indent=1)}\n", encoding="utf-8")
    if sys.argv[1:] != ["page"]:
        history()
    PAGE.write_text(page(), encoding="utf-8")
