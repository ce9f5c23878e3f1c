"""The most memory that each notebook holds at its default parameters, one kernel after another.

Counted are the kernel, and the kernel with the processes that it starts: of these what they hold of
their own, since the files that they map (torch's libraries) the kernel has mapped too. Jupyter
itself comes on top. Linux only; elsewhere nothing is measured.
"""

from __future__ import annotations

import dataclasses
import re
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from bookledger import execution
from clusterbook import paths

#: What a default run has to stay under, in bytes: Binder gives a container about 2 GB.
LIMIT = 1.6e9


@dataclasses.dataclass
class Peak:
    """The most that was held, in bytes: by the kernel, and by it and what it started at once."""

    kernel: int = 0
    together: int = 0
    seen: set[psutil.Process] = dataclasses.field(default_factory=set)

    def look(self, kernels: Iterable[psutil.Process]) -> None:
        """Take in what the kernels, one after another as a rule, and the others hold now.

        A process that is being started has its parent's memory until it runs a program of its own:
        it counts from the second look on.
        """
        trees = {kernel: {kernel, *kernel.children(recursive=True)} for kernel in kernels}
        before, self.seen = self.seen, set().union(*trees.values())
        for kernel, tree in trees.items():
            if kernel not in before or kernel.cmdline() == psutil.Process().cmdline():
                continue
            # The kernel's peak so far is exact; of several processes only the present is known.
            self.kernel = max(self.kernel, field(kernel, "status", "VmHWM"))
            self.together = max(self.together, self.kernel, field(kernel, "status", "VmRSS") + sum(
                field(other, "smaps_rollup", "Pss_Anon") for other in (tree & before) - {kernel}))


def notebooks() -> list[Path]:
    """The chapters, then the executable pages around them."""
    return [path for folder in ("notebooks", "book", "book/audit")
            for path in sorted((paths.root() / folder).glob("*.ipynb"))]


def name_of(notebook: Path) -> str:
    """Its name, unlike that of every other: an audit page is called as its chapter."""
    return f"audit/{notebook.stem}" if notebook.parent.name == "audit" else notebook.stem


def peak_of(notebook: Path) -> Peak:
    """Execute a notebook at its defaults; what it held."""
    with tempfile.TemporaryDirectory() as folder, watched() as peak:
        execution.execute(notebook, Path(folder) / notebook.name)
    return peak


@contextmanager
def watched(seconds: float = 0.1) -> Iterator[Peak]:
    """Look at the processes that this one starts from now on, every so often.

    What a kernel holds only in its last moments may be missed; what it held before is not.
    """
    peak, ended, there = Peak(), threading.Event(), set(psutil.Process().children())

    def look() -> None:
        while not ended.wait(seconds):
            try:
                peak.look(set(psutil.Process().children()) - there)
            except psutil.Error:        # a process ended meanwhile
                continue

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def field(process: psutil.Process, file: str, name: str) -> int:
    """A field of /proc that is given in kB, in bytes; 0 for a process that has ended."""
    try:
        text = Path(f"/proc/{process.pid}/{file}").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = re.search(rf"^{name}:\s+(\d+) kB$", text, re.M)
    return int(found[1]) * 1024 if found else 0


def main() -> int:
    """Print a table; 1 if a notebook reaches the limit."""
    print(f"  {'':28}{'kernel MB':>14}{'with others MB':>18}")
    status = 0
    for path in notebooks():
        peak = peak_of(path)
        numbers = [f"{held / 1e6:,.0f}" if held else "not measured"
                   for held in (peak.kernel, peak.together)]
        above = peak.together >= LIMIT
        status |= above
        print(f"  {name_of(path):28}{numbers[0]:>14}{numbers[1]:>18}"
              f"{'  too much' if above else ''}", flush=True)
    return int(status)
