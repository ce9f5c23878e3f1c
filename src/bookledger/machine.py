"""What a run was made with: code and machine; never who ran it or in which folder."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from . import config
from .versions import version_of


def code_in_use(chapter: str) -> dict[str, Any]:
    """The version of the present code, its commit, and whether nothing differs from that.

    ``clusterbook run`` hands them to the notebook that it starts: code that is edited while a run
    trains is not the code that ran. What runs write (records, executed notebooks) may differ.
    Outside a checkout the commit is the one that pip installed from, or None.
    """
    root = config.checkout()
    commit = git(root, "rev-parse", "HEAD") if root else _installed_commit()
    clean = True if commit else None
    if root and commit:
        clean = git(root, "status", "--porcelain", "--", ".", ":(exclude)data/records",
                    ":(exclude)book/runs") == ""
    return {"git": {"commit": commit, "clean": clean}, "code": version_of(chapter)}


def _installed_commit() -> str | None:
    """The commit of an installation from a repository, which pip keeps (PEP 610)."""
    try:
        kept = distribution("clusterbook").read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    return json.loads(kept or "{}").get("vcs_info", {}).get("commit_id")


def git(root: Path, *arguments: str) -> str | None:
    """The output of a git command without surrounding space; None when it fails."""
    # Without optional locks `git status` does not write the index: a run leaves the checkout alone.
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError:                     # git is not installed
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None


def machine(threads: int = 0) -> dict[str, Any]:
    """The processor's model and instructions, the GPU that this process used (or None), cores,
    and the threads that a training took; without any, torch's own number.
    """
    torch = sys.modules.get("torch")    # a run that used it has imported it
    used_gpu = torch and torch.cuda.is_available() and torch.cuda.is_initialized()
    cores = os.cpu_count() or 1
    described = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*: *(.+)$", described.read_text(encoding="utf-8"), re.M) if (
        described.is_file()) else None
    return {"cpu": found[1] if found else platform.processor() or platform.machine(),
            "instructions": torch.backends.cpu.get_cpu_capability() if torch else None,
            "gpu": torch.cuda.get_device_name() if used_gpu else None, "cores": cores,
            "threads": threads or (torch.get_num_threads() if torch else cores)}


def peak_memory_mb() -> float | None:
    """The most memory that this process held, in mebibytes; None on Windows."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)
