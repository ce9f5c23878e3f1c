"""A long run's checkpoint in files small enough to commit, and back again.

``python tests/checkpoints pack RUNFOLDER TARGET`` writes what the run needs to go on: for each
training one file, anew each time, with weights, optimizer, history and random numbers, and one file
for each snapshot that was taken, which is written once. Snapshots that are not due yet are left
out; they are replaced when they are. ``unpack TARGET RUNFOLDER`` puts it together, and the resumed
run ends bit for bit like an uninterrupted one. RUNFOLDER is a folder of `_build/checkpoints`.

``shorten RUNFOLDER TARGET EPOCHS`` writes the checkpoint of a finished run of TELL of so many
epochs, from the snapshot and the history of a longer one, of which it is the beginning. With it
``clusterbook run --record`` trains nothing, measures, and writes a record that names that run.
TARGET is the folder of the shorter run, such as ``_build/checkpoints/tell-mnist-800-seed0``.
"""

import argparse
import hashlib
import io
import json
import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from clusterbook import TELL, paths
from clusterbook.checkpoints import _read, as_json

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


def shorten(run: Path, target: Path, epochs: int) -> None:
    """Write the checkpoint of the run that a longer one was after *epochs*, as if it ended there.

    Exact, because nothing in TELL's training depends on how many epochs are to come. Optimizer and
    random numbers are those of the longer run: nothing is trained with them.
    """
    (path,) = run.glob("*.pt")
    stored = _read(path)
    ((stage, content),) = stored["payload"].items()
    state, rows = content["state"], content["rows"]
    taken = sorted({int(name.partition(".")[0]) for name in state["snapshots"]})
    if epochs not in taken or len(rows) < epochs:
        sys.exit(f"{run.name}, at epoch {len(rows)}, has no snapshot of epoch {epochs}; it takes "
                 f"those of {', '.join(map(str, taken))}")
    content["rows"] = rows[:epochs]
    content["seconds"] *= epochs / len(rows)
    state["model"] = of_epoch(state["snapshots"], str(epochs))
    state["snapshots"] = {name: value for name, value in state["snapshots"].items()
                          if int(name.partition(".")[0]) <= epochs}
    target.mkdir(parents=True)
    today = TELL(2, random_state=0, checkpoint=target / path.name)._checkpoint([], 0, 1)
    stored["identity"] |= {
        "epochs": as_json(epochs), "the code": today._identity["the code"],
        "snapshot_epochs": as_json([epoch for epoch in taken if epoch <= epochs])}
    write(stored, target / path.name)
    about = json.loads(path.with_suffix(".json").read_text())
    (target / path.with_suffix(".json").name).write_text(as_json(
        about | {"epoch": epochs, "epochs": epochs, "rows": content["rows"]}))
    clock = json.loads((run / "clock.json").read_text())
    (target / "clock.json").write_text(as_json({
        "started": clock["started"], "piece": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "earlier": content["seconds"],
        "taken_from": f"{run.name}, epoch {epochs} of {about['epochs']}"}))


def write(stored: dict[str, Any], path: Path) -> None:
    """Write a checkpoint's file as `Checkpoint.save` does."""
    buffer = io.BytesIO()
    torch.save(stored, buffer)
    content = buffer.getvalue()
    paths.write_atomically(path, hashlib.sha256(content).digest(), content)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python tests/checkpoints", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("pack", "unpack", "shorten"))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("epochs", type=int, nargs="*")
    asked = parser.parse_args()
    {"pack": pack, "unpack": unpack, "shorten": shorten}[asked.do](
        asked.source, asked.target, *asked.epochs)
