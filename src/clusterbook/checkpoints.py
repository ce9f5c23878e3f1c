"""Checkpoints for resuming a killed run, and fingerprints of data.

A checkpoint belongs to one set of parameters, one data set and one state of the code; another
run's, or a damaged one, is refused by name.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from torch import Tensor

from .errors import InputError
from .paths import write_atomically


def fingerprint(*arrays: Any) -> str:
    """A hash of the content, type and shape of arrays or tensors.

    Examples
    --------
    >>> fingerprint(np.zeros(3)) == fingerprint(torch.zeros(3, dtype=torch.float64))
    True
    >>> fingerprint(np.zeros(3)) == fingerprint(np.zeros((3, 1)))
    False
    """
    return joblib.hash([np.ascontiguousarray(array.numpy(force=True) if isinstance(array, Tensor)
                                             else array) for array in arrays])


class Checkpoint:
    """The file of a training's state, for one combination of parameters, data and code.

    Raises InputError if nothing can be written there.

    Parameters
    ----------
    path : str or Path
        Its folder is made if it is missing.
    parameters : dict
        All that decides the result: numbers, strings, lists, arrays.
    data, code : str
        Their fingerprints.
    every_seconds : float
        Seconds between two saves of `train`; with 0 it saves after each epoch.
    """

    def __init__(self, path: str | Path, *, parameters: Mapping[str, Any], data: str, code: str,
                 every_seconds: float = 30.0) -> None:
        if Path(path).is_dir():
            raise InputError(f"checkpoint must be the path of a file, such as 'run.pt', but {path} "
                             "is a folder")
        self.path = Path(path)
        self.every_seconds = every_seconds
        self._identity = {name: as_json(value) for name, value in parameters.items()}
        self._identity |= {"the data": data, "the code": code}
        self._temporary = Path(f"{path}.tmp")
        self._saved_at = time.monotonic()
        # A place that can't be written to is refused now, not when the first save is due.
        write_atomically(self._temporary, noun="the checkpoint")
        self._temporary.unlink()

    @property
    def due(self) -> bool:
        """Whether the last save, or the start, is at least ``every_seconds`` ago."""
        return time.monotonic() - self._saved_at >= self.every_seconds

    def save(self, payload: Mapping[str, Any]) -> None:
        """Replace the file by one that holds *payload*, or leave it as it was.

        Raises InputError if the file can't be written. *payload* may hold tensors, numbers,
        strings, lists and dictionaries.
        """
        buffer = io.BytesIO()
        torch.save({"identity": self._identity, "payload": payload}, buffer)
        content = buffer.getbuffer()
        write_atomically(self.path, hashlib.sha256(content).digest(), content,
                         noun="the checkpoint", temporary=self._temporary)
        self._saved_at = time.monotonic()

    def report(self, about: Mapping[str, Any]) -> None:
        """Write how far the training is, as JSON beside the file; for ``clusterbook status``."""
        write_atomically(self.path.with_suffix(".json"), as_json(about).encode())

    def load(self) -> dict[str, Any] | None:
        """The payload saved last, its tensors on the CPU; None if there is no file.

        Raises InputError if the file can't be read, or belongs to another run, with what differs.
        """
        stored = _read(self.path)
        if stored is None:
            return None
        old, new, changed = stored["identity"], self._identity, []
        for name in sorted(old.keys() | new.keys()):
            before, now = old.get(name, "absent"), new.get(name, "absent")
            if before != now:
                changed.append(f"{name} differs" if name in ("the data", "the code") else
                               f"the parameter {name!r} was {before} and is now {now}")
        if changed:
            raise InputError(f"the checkpoint {self.path} belongs to another run: "
                             f"{', '.join(changed)}; name another path, or delete the file")
        return stored["payload"]


def threads_of(path: str | Path | None) -> int | None:
    """The number of threads that a checkpoint's training was begun with; None if there is no file.

    Raises InputError if the file can't be read.
    """
    stored = None if path is None else _read(Path(path))
    return stored and json.loads(stored["identity"].get("threads", "null"))


def as_json(value: Any) -> str:
    """*value* as JSON; arrays and tensors become lists."""
    return json.dumps(value, sort_keys=True, default=lambda array: array.tolist())


def _read(path: Path) -> dict[str, Any] | None:
    """Identity and payload of a checkpoint's file; None if there is none."""
    if not path.is_file():
        return None
    try:
        content = path.read_bytes()
        digest, content = content[:32], content[32:]
        if hashlib.sha256(content).digest() != digest:  # torch overlooks some changed bytes
            raise ValueError("its bytes are not those that were written")
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:                          # torch reports damage by half a dozen types
        raise InputError(f"the checkpoint {path} can't be read: it is damaged, or no checkpoint; "
                         "delete it, or name another path") from error
