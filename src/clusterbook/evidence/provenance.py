"""Where a run's numbers come from: code, versions, machine. Never who ran it or in which folder."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .. import __version__, paths

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
    used = getattr(sys.modules.get("clusterbook.training"), "threads_used", 0)
    used_gpu = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    cores = os.cpu_count() or 1
    return {
        "cpu": _processor(),
        "gpu": torch.cuda.get_device_name() if used_gpu else None,
        "cores": cores,
        "threads": used or (torch.get_num_threads() if torch is not None else cores),
    }


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
