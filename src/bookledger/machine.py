"""What a run is made with: the method's version, the commit, the machine; never who or where.

A method is a package of the book's library with the line ``VERSION = 1`` in its ``__init__``. The
number is raised with every change of the numbers that the method gives, those of the training loop
and the scores included: the golden numbers in ``tests/golden`` fail until it is. It is read as
text, because importing a method takes seconds. A record of another version is stale.
"""

import os
import platform
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from . import config


def library() -> Path | None:
    """The folder of the book's library; None for a book without one."""
    name = config.book().library
    return Path(find_spec(name).origin).parent if name else None


def version_of(chapter: str) -> str:
    """The present version of a chapter's code, as a new record has it: ``"demo 1"``.

    A chapter without a method of its own has the versions of those that the book's file names, and
    of all methods without an entry there.
    """
    numbers, folder = {}, library()
    for path in sorted(folder.glob("*/__init__.py")) if folder else ():
        if line := re.search(r"(?m)^VERSION = (\d+)$", path.read_text(encoding="utf-8")):
            numbers[path.parent.name] = line[1]
    methods = config.book().versions.get(chapter, [chapter] if chapter in numbers else numbers)
    return ", ".join(f"{name} {number}" for name, number in numbers.items() if name in methods)


def hashes() -> dict[str, str]:
    """Hash of code → its version, for records from before methods had one.

    ``data/versions.json`` lists the hashes of each version; the list does not grow.
    """
    listed = config.load_json(config.root() / "data" / "versions.json")
    return {code: version for version, codes in listed.items() for code in codes}


def code_in_use(chapter: str) -> dict[str, Any]:
    """The version of the present code, its commit, and whether nothing differs from that.

    ``clusterbook run`` hands them to the notebook that it starts: code that is edited while a run
    trains is not the code that ran. What runs write (records, executed notebooks) may differ.
    Outside a checkout both are None.
    """
    root, clean = config.checkout(), None
    if commit := root and git(root, "rev-parse", "HEAD"):
        clean = git(root, "status", "--porcelain", "--", ".", *map(
            ":(exclude){}".format, ("data/records", "data/verified", "book/runs"))) == ""
    return {"git": {"commit": commit, "clean": clean}, "code": version_of(chapter)}


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
    cores, described = os.cpu_count() or 1, Path("/proc/cpuinfo")
    text = described.read_text(encoding="utf-8") if described.is_file() else ""
    found = re.search(r"^model name\s*: *(.+)$", text, re.M)
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
