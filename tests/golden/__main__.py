"""Golden numbers, and whether two versions of the library compute the same.

    python tests/golden --write
    python tests/golden OLD NEW [--only TEXT]

The first command writes ``numbers.json``, with which `make test` compares what the short fits of
``fits.py`` give. It keeps each number that still holds, and refuses others of a method whose
``VERSION`` is still the one that the file is of.

The second compares git revisions bit for bit; ``.`` is the working tree. The same fits run against
both in one call on one machine with one thread. Weights, labels, histories but for seconds, and
measures are compared. Every difference is named, and the status is 1 unless there is none.
``--only TEXT`` runs the fits with that text in their names.
"""

from __future__ import annotations

import argparse
import io
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


def run(revision: str, text: str) -> dict[str, Any]:
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
            [sys.executable, HERE / "fits.py", folder / "found", text], cwd=folder,
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


def main() -> int:
    """Do what the command line asks; the status for the shell."""
    parser = argparse.ArgumentParser(prog="python tests/golden", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revisions", nargs="*", metavar="REVISION")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if len(asked.revisions) != 2 * (not asked.write):
        parser.error("give either two revisions, or --write")
    if asked.write:
        from golden import write

        return write()
    old, new = (run(revision, asked.only) for revision in asked.revisions)
    same = bad = 0
    for name in sorted(old["arrays"] | old["failed"]):
        if name in old["failed"] and name in new["arrays"]:
            print(f"{name}: not compared, since OLD {old['failed'][name]}")
            continue
        found = ([f"NEW {new['failed'][name]}"] if name in new["failed"] else
                 differences(old["arrays"][name], new["arrays"][name]))
        same, bad = same + (not found), bad + bool(found)
        for line in found[:NAMED]:
            print(f"{name}: {line}")
        if len(found) > NAMED:
            print(f"{name}: … and {len(found) - NAMED} more")
    print(f"{same} of {same + bad} fits are bit-identical, {bad} differ "
          f"({old['seconds']:.0f} s, {new['seconds']:.0f} s)")
    return int(bad > 0 or same == 0)


if __name__ == "__main__":
    sys.exit(main())
