"""Writing a run's record: what a notebook's last cell calls.

Nothing is written unless ``clusterbook run`` asked for it, so the same cell is silent everywhere
else: in a reader's Jupyter, on Colab, under nbval, in the book's build.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from numbers import Number
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from .. import __version__, datasets, paths
from ..errors import InputError
from ..fingerprint import fingerprint
from ..paths import write_atomically
from .checks import checked
from .claims import load_claims
from .records import as_record, dumps, sha256

MODEL_LIMIT = 10_000_000    # bytes; the weights of a larger model stay where they were trained


@dataclass(frozen=True, repr=False)
class Recorded:
    """What `record` returns: displays whether the run was recorded, and in which file.

    A training that took more than one thread is said too: another number may give other results.
    """

    file: str | None
    too_large: int | None = None
    threads: int = 1

    def __repr__(self) -> str:
        """The line that a cell displays; it names no folder of this machine."""
        words = ("not recorded: nothing asked for a record of this run" if self.file is None
                 else f"recorded: {self.file}")
        if self.too_large is not None:
            words += (f", without the trained model: it takes {self.too_large / 1e6:.1f} MB, and "
                      f"what ships is under {MODEL_LIMIT / 1e6:.0f}")
        return words + (f" (trained with {self.threads} threads)" if self.threads > 1 else "")


def record(
    metrics: Mapping[str, float],
    *,
    history: Mapping[str, Sequence[float]] | Iterable[Mapping[str, float]] | None = None,
    arrays: Mapping[str, np.ndarray] | None = None,
    seconds: float | None = None,
    data: Any = None,
    seed: int | None = None,
    model: Any = None,
) -> Recorded:
    """Write down what this run measured, if ``clusterbook run --record`` asked for it.

    Parameters
    ----------
    metrics
        What was measured at the end of the run.
    history
        What was measured in each epoch: a list of rows, or columns of equal length.
    arrays
        Small arrays that figures need, written beside the record.
    seconds
        Wall time; by default the run's, summed over its pieces if it was interrupted.
    data
        The data set that was used, or its ``name`` and ``sha256``.
    seed
        By default the run's.
    model
        The trained estimator (kept by its ``save``) or torch module (its ``state_dict``). The file
        is kept beside the record if it is under 10 MB; `model_file` finds it.

    Raises
    ------
    InputError
        For a number that is not finite, or a field of the wrong type.
    """
    folder, run = paths.asked("records"), paths.run_context()
    if folder is None or not run:
        return Recorded(None, threads=_threads_used())

    chapter = run["chapter"]
    profile = run.get("profile") or f"{chapter}-default"
    now = datetime.now(UTC)
    started = _utc(run["started"]) if run.get("started") else now
    if seconds is None:
        piece = _utc(run["piece"]) if run.get("piece") else started
        seconds = run.get("earlier", 0.0) + (now - piece).total_seconds()
    elif not run.get("started"):
        started = now - timedelta(seconds=float(seconds))
    odd = {name: value for name, value in plain(dict(metrics)).items()
           if isinstance(value, float) and not math.isfinite(value)}
    if odd:
        raise InputError(f"a record's metrics must be finite, but {odd} of {profile}; leave out "
                         "what could not be measured (a trained run goes on from its checkpoint)")
    packed, trained = _packed(arrays), _trained(model)
    git_state, code = code_in_use(chapter)
    values = {
        "chapter": chapter,
        "profile": profile,
        "parameters": plain(run.get("parameters") or {}),
        "assumed": sorted(run.get("assumed") or ()),
        "seed": run.get("seed") if seed is None else int(seed),
        "metrics": plain(dict(metrics)),
        "checks": checked(),
        "history": [_seven_digits(row) for row in _rows(history)],
        "git": git_state,
        "code": code,
        "tolerances": _tolerances(profile),
        "versions": versions(),
        "machine": machine(),
        "data": _data(data),
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(float(seconds), 3),
        "peak_memory_mb": peak_memory_mb(),
        "arrays": sha256(packed) if packed else None,
    }
    written = as_record(values, f"the record of {profile}")
    too_large = len(trained) if trained and len(trained) > MODEL_LIMIT else None
    _write(Path(folder), written.name, dumps(values),
           {".npz": packed, ".pt": None if too_large else trained})
    return Recorded(f"{written.name}.json", too_large, _threads_used())


@cache
def code_in_use(chapter: str) -> tuple[dict[str, Any], str]:
    """The git state and the fingerprint of the code, as they were when this was first asked.

    A run asks when it imports this module: code that is edited while it trains is not what ran.
    """
    return git_state(), fingerprint(chapter)


def _write(folder: Path, name: str, text: str, beside: Mapping[str, bytes | None]) -> None:
    """First what lies beside it: the record, which holds a checksum of the arrays, comes last."""
    for ending, content in beside.items():
        if content:
            write_atomically(folder / f"{name}{ending}", content)
    write_atomically(folder / f"{name}.json", text.encode())
    for ending, content in beside.items():
        if not content:
            (folder / f"{name}{ending}").unlink(missing_ok=True)    # of an earlier run


def _packed(arrays: Mapping[str, np.ndarray] | None) -> bytes | None:
    if not arrays:
        return None
    found = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in found.items():
        if array.dtype.hasobject:
            raise InputError(f"the array {name!r} holds objects; a record keeps numbers and text")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **found)
    return buffer.getvalue()


def _trained(model: Any) -> bytes | None:
    """The file of a trained model."""
    if model is None:
        return None
    with tempfile.TemporaryDirectory(prefix="clusterbook-") as folder:
        path = Path(folder) / "model.pt"
        if hasattr(model, "save"):
            model.save(path)
        else:
            import torch  # heavy, and for a run that is recorded only

            torch.save(model.state_dict(), path)
        return path.read_bytes()


def _rows(history: Any) -> list[dict[str, Any]]:
    """History as rows, from rows or from columns of equal length."""
    if history is None:
        return []
    if not isinstance(history, Mapping):
        return [plain(dict(row)) for row in history]
    columns = {name: list(column) for name, column in history.items()}
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise InputError(f"the columns of a history must be equally long, not {lengths}")
    rows = zip(*columns.values(), strict=True)
    return [plain(dict(zip(columns, row, strict=True))) for row in rows]


def plain(value: Any) -> Any:
    """A value as JSON knows it; of a path in somebody's file system only the last part."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        for kind in (PurePosixPath, PureWindowsPath):
            if kind(value).is_absolute() or value.startswith("~"):
                return kind(value).name
        return value
    if hasattr(value, "item") and math.prod(value.shape) == 1:
        return value.item()  # of numpy or torch
    if value is None or isinstance(value, Number):
        return value
    raise InputError(f"a record can't hold {type(value).__name__}: {str(value)[:80]!r}")


def _seven_digits(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of history to the precision of float32, which halves the file."""
    return {
        name: float(f"{value:.7g}") if isinstance(value, float) else value
        for name, value in row.items()
    }


def _tolerances(profile: str) -> dict[str, str]:
    try:
        claims = load_claims()
    except InputError as error:
        # A run of hours is worth more than its tolerances; without them nothing is "reproduced".
        warnings.warn(f"the record holds no tolerances: {error}", stacklevel=3)
        return {}
    ours = [claim for claim in claims if claim.profile == profile]
    return {claim.id: claim.allowed for claim in ours if claim.tolerance is not None}


def _data(data: Any) -> dict[str, str] | None:
    """Name and checksum of the data: as given, or of a data set's content."""
    if data is None or isinstance(data, Mapping):
        return dict(data) if data is not None else None
    return {"name": data.source.name, "sha256": datasets.content(data)}


def _utc(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


# Where a run's numbers come from: code, versions, machine. Never who ran it or in which folder.
_PACKAGES = ("torch", "numpy", "scipy", "scikit-learn")
# What a run itself writes into the checkout does not make its code unclean.
_OUTPUTS = ("data/records", "book/runs")


def git_state(root: Path | None = None) -> dict[str, Any]:
    """The commit of the checkout and whether nothing in it differs from that commit.

    Records and executed notebooks do not count as differences, since runs write them. Both are
    None outside a git checkout.
    """
    root = root or paths.checkout()
    commit = git(root, "rev-parse", "HEAD") if root else None
    if commit is None:
        return {"commit": None, "clean": None}
    excluded = [f":(exclude){path}" for path in _OUTPUTS]
    changes = git(root, "status", "--porcelain", "--", ".", *excluded)
    return {"commit": commit, "clean": changes == ""}


def git(root: Path, *arguments: str) -> str | None:
    """What a git command prints, without surrounding space; None when it fails or git is absent."""
    # Without optional locks `git status` does not write the index: a run leaves the checkout alone.
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None


def versions() -> dict[str, str]:
    """The versions of Python, clusterbook and the packages that compute."""
    found = {"python": platform.python_version(), "clusterbook": __version__}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """The processor's model, the GPU that this process used (or None), cores, and threads.

    The threads are those of the largest training of this process; before any, torch's own number.
    """
    torch = sys.modules.get("torch")  # a run that used it has imported it
    used_gpu = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    cores = os.cpu_count() or 1
    return {
        "cpu": _processor(),
        "gpu": torch.cuda.get_device_name() if used_gpu else None,
        "cores": cores,
        "threads": _threads_used() or (torch.get_num_threads() if torch is not None else cores),
    }


def _threads_used() -> int:
    """The number of threads of the largest training of this process; 0 before any."""
    return getattr(sys.modules.get("clusterbook.training"), "threads_used", 0)


def peak_memory_mb() -> float | None:
    """The most memory that this process held, in mebibytes; None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


if _run := paths.run_context():
    with contextlib.suppress(InputError):
        code_in_use(_run["chapter"])
