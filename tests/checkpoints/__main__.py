"""A long run's checkpoint in files small enough to commit, and back again.

``python tests/checkpoints pack RUNFOLDER TARGET`` writes what the run needs to go on: for each
training one file, anew each time, with weights, optimizer, history and random numbers, and one file
for each snapshot that was taken, which is written once. Snapshots that are not due yet are left
out; they are replaced when they are. ``unpack TARGET RUNFOLDER`` puts it together, and the resumed
run ends bit for bit like an uninterrupted one. RUNFOLDER is a folder of `_build/checkpoints`.
"""

import argparse
import hashlib
import io
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import torch

from clusterbook import paths
from clusterbook.checkpoints import _read

LIMIT = 10_000_000          # bytes of a file


def of_epoch(weights: dict[str, Any], epoch: str) -> dict[str, Any]:
    """One model's weights of those of all snapshots, whose names begin with their epochs."""
    return {name.partition(".")[2]: value for name, value in weights.items()
            if name.partition(".")[0] == epoch}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two models have the same weights, bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def pack(run: Path, target: Path) -> None:
    """Write the files of a run; stops at a snapshot of another run, and at a file too large."""
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(run.glob("*.pt")):
        stored, epochs = _read(path), {}
        for stage, content in stored["payload"].items():
            weights, done = content["state"].pop("snapshots", {}), content["rows"][-1]["epoch"]
            epochs[stage] = list(dict.fromkeys(name.partition(".")[0] for name in weights))
            for epoch in (epoch for epoch in epochs[stage] if int(epoch) <= done):
                file, model = target / f"{path.stem}.{stage}.{epoch}", of_epoch(weights, epoch)
                if not file.exists():
                    torch.save(model, file)
                elif not same(model, torch.load(file, weights_only=True)):
                    sys.exit(f"{file} is of another run")
        torch.save({**stored, "epochs": epochs, "saved": path.stat().st_mtime}, target / path.name)
    for path in run.glob("*.json"):
        shutil.copyfile(path, target / path.name)
    if large := [path.name for path in target.iterdir() if path.stat().st_size >= LIMIT]:
        sys.exit(f"too large to commit: {', '.join(large)}")


def unpack(target: Path, run: Path) -> None:
    """Put a run's checkpoints together again, with the times at which they were saved."""
    for path in sorted(target.glob("*.pt")):
        stored = torch.load(path, weights_only=True)
        saved, epochs = stored.pop("saved"), stored.pop("epochs")
        for stage, content in stored["payload"].items():
            snapshots = {}
            for epoch in epochs[stage]:
                file = target / f"{path.stem}.{stage}.{epoch}"
                model = (torch.load(file, weights_only=True) if file.exists()
                         else content["state"]["model"])        # replaced when it is due
                snapshots |= {f"{epoch}.{name}": value for name, value in model.items()}
            if snapshots:
                content["state"]["snapshots"] = snapshots
        write(stored, run / path.name)
        os.utime(run / path.name, (saved, saved))
    for path in target.glob("*.json"):
        shutil.copyfile(path, run / path.name)


def write(stored: dict[str, Any], path: Path) -> None:
    """Write a checkpoint's file as `Checkpoint.save` does."""
    buffer = io.BytesIO()
    torch.save(stored, buffer)
    content = buffer.getvalue()
    paths.write_atomically(path, hashlib.sha256(content).digest(), content)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python tests/checkpoints", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("pack", "unpack"))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    asked = parser.parse_args()
    {"pack": pack, "unpack": unpack}[asked.do](asked.source, asked.target)
