"""Whether two versions of the library compute the same: ``python tests/golden OLD NEW``.

OLD and NEW are git revisions; ``.`` is the working tree. The same short fits (``fits.py``) run
against both in one call on one machine with one thread, and what they learn is compared bit for
bit: weights, labels, histories but for seconds. Every difference is named, and the status is 1
unless there is none.

``--only TEXT`` runs the fits with that text in their names, and ``--lineage`` prints what
``data/lineage.yaml`` is to hold of a change that changed nothing.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NAMED = 10                  # differences of a fit that are told


def git(*arguments: str) -> bytes:
    """What a git command prints; ends the program where git refuses."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"git {' '.join(arguments)}: {done.stderr.decode().strip()}")
    return done.stdout


def run(revision: str, text: str, chapters: list[str]) -> dict[str, Any]:
    """What this checkout's fits give with the library of a version; see ``main`` of ``fits.py``."""
    with tempfile.TemporaryDirectory(prefix="golden-") as temporary:
        folder, root = Path(temporary), ROOT
        if revision != ".":
            root, files = folder / "version", git("archive", revision, "src", "notebooks",
                                                  "_config.yml")
            with tarfile.open(fileobj=io.BytesIO(files)) as tar:
                tar.extractall(root, filter="data")
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("CLUSTERBOOK_") or name == "CLUSTERBOOK_DATA"}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        subprocess.run(
            [sys.executable, HERE / "fits.py", folder / "found", text, *chapters], cwd=folder,
            env={**environment, **threads, "PYTHONPATH": str(root / "src")}, check=True)
        found = pickle.loads((folder / "found").read_bytes())
        if not Path(found["source"]).resolve().is_relative_to(root.resolve()):
            sys.exit(f"clusterbook was imported from {found['source']}, not from {root}")
    return found


def differences(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> list[str]:
    """Every difference between what a fit learned in two versions, in words."""
    found = [f"{part}: only in {'OLD' if part in before else 'NEW'}"
             for part in sorted(before.keys() ^ after.keys())]
    for part in sorted(before.keys() & after.keys()):
        a, b = before[part], after[part]
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            found.append(f"{part}: {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}")
        elif a.tobytes() != b.tobytes():
            apart = f"{a} and {b}"
            if a.ndim and a.dtype.kind in "fiub":
                largest = np.nanmax(np.abs(a.astype(np.float64) - b.astype(np.float64)))
                apart = f"{(a != b).sum()} of {a.size} numbers differ, by at most {largest:.3g}"
            found.append(f"{part}: {apart}")
    return found


def lineage(old: dict[str, str], new: dict[str, str], commit: str, says: str) -> str:
    """The entries of ``data/lineage.yaml`` for the chapters whose code has another hash."""
    return "".join(f"- chapter: {chapter}\n  old: {old[chapter]}\n  new: {new[chapter]}\n"
                   f"  commit: {commit}\n  says: {says}\n"
                   for chapter in sorted(old) if old[chapter] != new[chapter])


def main() -> int:
    """Compare two versions; the status for the shell."""
    parser = argparse.ArgumentParser(prog="python tests/golden", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--lineage", action="store_true")
    asked = parser.parse_args()
    if asked.lineage and (asked.only or asked.new == "."):
        parser.error("a lineage needs all fits, and a commit as NEW")
    records = (ROOT / "data" / "records").glob("*-seed*.json")
    chapters = sorted({json.loads(path.read_text())["chapter"] for path in records})
    told = sys.stderr if asked.lineage else sys.stdout
    old, new = (run(revision, asked.only, chapters) for revision in (asked.old, asked.new))
    same = bad = 0
    for name in sorted(old["arrays"] | old["failed"]):
        if name in old["failed"] and name in new["arrays"]:
            print(f"{name}: not compared, since OLD {old['failed'][name]}", file=told)
            continue
        found = ([f"NEW {new['failed'][name]}"] if name in new["failed"] else
                 differences(old["arrays"][name], new["arrays"][name]))
        same, bad = same + (not found), bad + bool(found)
        for line in found[:NAMED]:
            print(f"{name}: {line}", file=told)
        if len(found) > NAMED:
            print(f"{name}: … and {len(found) - NAMED} more", file=told)
    print(f"{same} of {same + bad} fits are bit-identical, {bad} differ "
          f"({old['seconds']:.0f} s, {new['seconds']:.0f} s)", file=told)
    if asked.lineage and not bad:
        commit = git("rev-parse", f"{asked.new}^{{commit}}").decode().strip()
        says = (f"{same} short fits are bit-identical (python tests/golden {asked.old} "
                f"{commit[:7]})")
        print(lineage(old["code"], new["code"], commit, says), end="")
    return int(bad > 0 or same == 0)


if __name__ == "__main__":
    sys.exit(main())
