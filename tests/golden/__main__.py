"""Whether two versions of the library compute the same: ``python tests/golden OLD NEW``.

OLD and NEW are git revisions; ``.`` is the working tree. The same short fits (``fits.py``) run
against both in one call on one machine with one thread, and what they learn is compared bit for
bit: weights, labels, histories but for seconds. Every difference is named, and the status is 1
unless there is none.

``--list`` names the fits, ``--only TEXT`` runs those with that text in their names, and
``--lineage`` prints what ``data/lineage.yaml`` is to hold of a change that changed nothing.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NAMED = 10                  # differences of a fit that are told


@dataclass(frozen=True)
class Side:
    """What the fits gave in one version."""

    revision: str
    arrays: dict[str, dict[str, np.ndarray]]
    said: dict[str, str]
    code: dict[str, str]
    seconds: float


def git(*arguments: str) -> bytes:
    """What a git command prints; ends the program where git refuses."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"git {' '.join(arguments)}: {done.stderr.decode().strip()}")
    return done.stdout


def checkout(revision: str, folder: Path) -> Path:
    """The root of a version's files: a copy in *folder*, or the working tree itself."""
    if revision == ".":
        return ROOT
    commit = git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit.decode().strip(), "src",
                                             "notebooks", "_config.yml"))) as tar:
        tar.extractall(folder, filter="data")
    return folder


def run(revision: str, names: list[str], chapters: list[str]) -> Side:
    """Run the fits of this checkout against the library of a version."""
    with tempfile.TemporaryDirectory(prefix="golden-") as temporary:
        folder = Path(temporary)
        (folder / "out").mkdir()
        source = checkout(revision, folder / "version") / "src"
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("CLUSTERBOOK_") or name == "CLUSTERBOOK_DATA"}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        asked = json.dumps({"names": names, "chapters": chapters})
        subprocess.run([sys.executable, str(HERE / "fits.py"), str(folder / "out"), str(source),
                        asked], env={**environment, **threads, "PYTHONPATH": str(source)},
                       cwd=folder, check=True)
        said = json.loads((folder / "out" / "said.json").read_text())
        arrays: dict[str, dict[str, np.ndarray]] = {}
        with np.load(folder / "out" / "arrays.npz", allow_pickle=False) as stored:
            for key in stored.files:
                name, _, part = key.partition("|")
                arrays.setdefault(name, {})[part] = stored[key]
    return Side(revision, arrays, **said)


def differences(old: Side, new: Side, name: str) -> list[str]:
    """Every difference of a fit, in words; none where there was nothing before to compare with."""
    if name in old.said and "not in this version" in old.said[name] and name not in new.said:
        return []
    said = [f"{side.revision}: {side.said[name]}" for side in (old, new) if name in side.said]
    if said:
        return said
    before, after = old.arrays[name], new.arrays[name]
    found = [f"{part}: only in {(old if part in before else new).revision}"
             for part in sorted(before.keys() ^ after.keys())]
    for part in sorted(before.keys() & after.keys()):
        a, b = before[part], after[part]
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            found.append(f"{part}: {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}")
        elif a.tobytes() != b.tobytes():
            found.append(f"{part}: {_apart(a, b)}")
    return found


def _apart(a: np.ndarray, b: np.ndarray) -> str:
    if a.dtype.kind not in "fiub" or not a.ndim:
        return f"{a} and {b}"
    with np.errstate(all="ignore"):
        largest = np.nanmax(np.abs(a.astype(np.float64) - b.astype(np.float64)))
    return f"{int((a != b).sum())} of {a.size} numbers differ, by at most {largest:.3g}"


def lineage(old: Side, new: Side, compared: int) -> str:
    """The entries of ``data/lineage.yaml`` for the chapters whose code has another hash."""
    commit = git("rev-parse", "HEAD" if new.revision == "." else new.revision).decode().strip()
    return "".join(
        f"- chapter: {chapter}\n  old: {old.code[chapter]}\n  new: {new.code[chapter]}\n"
        f"  commit: {commit}\n  says: {compared} short fits are bit-identical (python tests/golden "
        f"{old.revision} {commit[:7]})\n"
        for chapter in sorted(old.code) if old.code[chapter] != new.code[chapter])


def main() -> int:
    """Compare two versions; the status for the shell."""
    sys.path.insert(0, str(HERE))
    from fits import FITS

    parser = argparse.ArgumentParser(prog="python tests/golden", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", nargs="?")
    parser.add_argument("new", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--lineage", action="store_true")
    asked = parser.parse_args()
    names = [name for name in FITS if asked.only in name]
    if asked.list:
        print("\n".join(names))
        return 0
    if asked.old is None or asked.new is None or not names:
        parser.error("name two versions, such as HEAD~ and ., and fits that exist (--list)")
    if asked.lineage and asked.only:
        parser.error("a lineage needs all fits; leave out --only")
    if asked.lineage and asked.new == "." and git("status", "--porcelain", "--", "src",
                                                  "notebooks"):
        parser.error("the working tree differs from its commit; commit first")
    records = (ROOT / "data" / "records").glob("*-seed*.json")
    chapters = sorted({json.loads(path.read_text())["chapter"] for path in records})
    told = sys.stderr if asked.lineage else sys.stdout
    old, new = (run(revision, names, chapters) for revision in (asked.old, asked.new))
    same = bad = 0
    for name in names:
        found = differences(old, new, name)
        bad += bool(found)
        same += not found and name in old.arrays
        if name in old.said and not found:
            print(f"{name}: new, {asked.old}: {old.said[name]}", file=told)
        for text in found[:NAMED]:
            print(f"{name}: {text}", file=told)
        if len(found) > NAMED:
            print(f"{name}: … and {len(found) - NAMED} more", file=told)
    print(f"{same} of {len(names)} fits are bit-identical, {bad} differ "
          f"({old.seconds:.0f} s, {new.seconds:.0f} s)", file=told)
    if asked.lineage and not bad:
        print(lineage(old, new, same), end="")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
