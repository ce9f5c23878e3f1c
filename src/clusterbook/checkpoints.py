"""The file of a training's state, from which a killed run resumes, and what tells runs apart."""

from __future__ import annotations

import ast
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

from . import paths
from .checks import InputError


def fingerprint(*arrays: Any) -> str:
    """A hash of the content, type and shape of arrays or tensors."""
    return joblib.hash([np.ascontiguousarray(array.numpy(force=True) if isinstance(array, Tensor)
                                             else array) for array in arrays])


def code_hash(*folders: Path) -> str:
    """A hash of the parsed Python files of some folders: comments do not count."""
    files = sorted({file for folder in folders for file in folder.glob("*.py")})
    return joblib.hash([(file.name, ast.dump(ast.parse(file.read_bytes()))) for file in files])


class Checkpoint:
    """The file of a training's state, for one combination of parameters, data and code.

    *parameters* are all that affect the result: numbers, strings, lists, arrays; *data*, *code* and
    *y*, the classes that are scored, are fingerprints. `train` saves every ``every_seconds``; 0
    means after each epoch. Raises InputError if nothing can be written there; makes the folder if
    it is missing.
    """

    def __init__(self, path: str | Path, *, parameters: Mapping[str, Any], data: str, code: str,
                 y: str = "", every_seconds: float = 30.0) -> None:
        if Path(path).is_dir():
            raise InputError(f"checkpoint must be the path of a file, such as 'run.pt', but {path} "
                             "is a folder")
        self.path = Path(path)
        self._progress = self.path.with_suffix(".json")
        if self._progress == self.path or not _is_progress(self._progress):
            raise InputError(f"a checkpoint at {path} would replace {self._progress} to say how "
                             "far the training is; name another path, such as 'run.pt'")
        self.every_seconds = every_seconds
        self._identity = {name: as_json(value) for name, value in parameters.items()}
        self._identity |= {"the data": data, "the code": code, "y": y}
        self._temporary = Path(f"{path}.tmp")
        self._saved_at = time.monotonic()
        # Refuse a path that can't be written to now, not when the first save is due.
        paths.write_atomically(self._temporary, noun="the checkpoint")
        self._temporary.unlink()

    @property
    def due(self) -> bool:
        """Whether the last save, or the start, is at least ``every_seconds`` ago."""
        return time.monotonic() - self._saved_at >= self.every_seconds

    def save(self, payload: Mapping[str, Any], about: Mapping[str, Any] | None = None) -> None:
        """Replace the file by one that holds *payload*, or leave it as it was.

        *payload* may hold tensors, numbers, strings, lists and dictionaries. *about* says how far
        the training is: JSON beside the file, for ``clusterbook status``. Raises InputError if
        nothing can be written.
        """
        buffer = io.BytesIO()
        torch.save({"identity": self._identity, "payload": payload}, buffer)
        content = buffer.getbuffer()
        paths.write_atomically(self.path, hashlib.sha256(content).digest(), content,
                               noun="the checkpoint", temporary=self._temporary)
        if about:
            paths.write_atomically(self._progress, as_json(about).encode())
        self._saved_at = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """The payload saved last, its tensors on the CPU; None if there is no file.

        Raises InputError if the file can't be read, or belongs to another run.
        """
        stored = _read(self.path)
        if stored is None:
            return None
        new = self._identity
        old = {"y": new["y"], **stored["identity"]}     # early files lack it
        changed = [f"{name} differs" if name in ("the data", "the code", "y") else
                   f"the parameter {name!r} was {old.get(name, 'absent')} and is now "
                   f"{new.get(name, 'absent')}"
                   for name in sorted(old | new) if old.get(name) != new.get(name)]
        if changed:
            raise InputError(f"the checkpoint {self.path} belongs to another run: "
                             f"{', '.join(changed)}; name another path, or delete the file")
        return stored["payload"]


def _is_progress(path: Path) -> bool:
    """Whether a file is absent, or says how far a training is."""
    return not path.exists() or b'"epochs":' in path.read_bytes()


def threads_of(path: str | Path | None) -> int | None:
    """The number of threads that a checkpoint's training was begun with; None if there is none."""
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
