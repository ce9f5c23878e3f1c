"""The wall time of a run that keeps checkpoints: the sum of its pieces, when it was interrupted.

The count lies in a file beside the checkpoints and goes with them. A piece that is killed can't
write it at its end, so it is written every so often.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from ..errors import InputError
from ..paths import write_atomically

FILE = "clock.json"


@contextmanager
def running(folder: Path | None, every: float = 30.0) -> Iterator[dict[str, str | float]]:
    """Count the time of a piece of a run, from here to the end of the block.

    Parameters
    ----------
    folder : Path or None
        Where the run keeps its checkpoints; None if it keeps none, and is one piece.
    every : float
        Seconds between two writings: of a piece that is killed, at most these are not counted.

    Yields
    ------
    dict
        ``started``, when the first piece began; ``piece``, when this one did (UTC, ISO 8601);
        ``earlier``, the seconds of the pieces before this one.
    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    times = {"started": now, "earlier": 0.0} | _earlier(folder) | {"piece": now}
    if folder is None:
        yield times
        return
    begun, ended = time.monotonic(), threading.Event()

    def write() -> None:
        seconds = times["earlier"] + time.monotonic() - begun
        write_atomically(folder / FILE, json.dumps(
            {"started": times["started"], "earlier": round(seconds, 3)}).encode())

    def keep_writing() -> None:
        while not ended.wait(every):
            with suppress(InputError):      # said once, at the end
                write()

    writer = threading.Thread(target=keep_writing, daemon=True)
    writer.start()
    try:
        yield times
    finally:
        ended.set()
        writer.join()
        write()


def _earlier(folder: Path | None) -> dict[str, str | float]:
    """What the pieces before left; nothing where no checkpoint is there to go on from."""
    if folder is None or not (folder / FILE).is_file() or not any(folder.glob("*.pt")):
        return {}
    return json.loads((folder / FILE).read_text(encoding="utf-8"))
