"""What the tests of runs, build, command and book share: a small checkout of their own."""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import nbformat
import psutil
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from clusterbook import paths

PACKAGE = Path(paths.__file__).resolve().parent
CHECKOUT = PACKAGE.parents[1]
SEED = "seed: int = 0  # decides everything random | paper: 0 | other numbers"
HANG = 1000
"""Seconds that only what hangs takes, also on a busy machine: tests wait for events."""
LEDGER = (CHECKOUT / "book" / "ledger.toml").read_text(encoding="utf-8")
#: The same without what names claims and errata of this book.
PLAIN = re.sub(r"(?m)^first_errata.*\n|^\[(leads|metrics\.axes)\]\n(?:.+\n)+", "", LEDGER)
CONFIG = """\
title: A small book
author: nobody
repository: {url: "", branch: v1.0, released: false}
only_build_toc_files: true
execute: {execute_notebooks: "off"}
sphinx: {extra_extensions: [bookledger.pages]}
"""
#: A training without a network, of all processes that there are: each adds one at each step.
TRAINS = """\
import os
import time
import torch
import bookledger
from clusterbook import checkpoints, paths, training
from clusterbook.deepcluster import distributed

evidence = bookledger.page('tiny')

class Model:
    def set_params(self, progress):
        return self

    def fit(self, epochs, every_seconds=0.0):
        with distributed.together(self, epochs):
            while distributed.here.rank and distributed.of_first(None):
                distributed.total(torch.ones(1, 1))
            if not distributed.here.rank:
                self.train(epochs, every_seconds)
                distributed.of_first(False)

    def train(self, epochs, every_seconds):
        model, steps = torch.nn.Linear(1, 1, bias=False), []
        torch.nn.init.ones_(model.weight)

        @torch.no_grad()
        def step(epoch, x):
            steps.append(time.sleep(0.1))
            while epoch > 1 and os.path.exists(os.environ.get("HOLD", "")):
                time.sleep(0.05)
            distributed.of_first(True)
            model.weight += distributed.total(torch.ones(1, 1))
            return {"loss": model.weight.sum()}

        training.train(
            step, (torch.ones(4, 1),), epochs=epochs, batch_size=4, generator=torch.Generator(),
            state={"model": model}, stop=paths.time_is_up, checkpoint=checkpoints.Checkpoint(
                paths.checkpoint("main"), parameters={}, data="d", code="c",
                every_seconds=every_seconds))
        print("steps:", len(steps))
        evidence.record({"weight": model.weight.item()})"""


class Book:
    """A checkout in a temporary folder: links to the package, with small pages around them."""

    def __init__(self, root: Path):
        self.root, self.package = root, root / "src" / "clusterbook"
        self.engine = root / "src" / "bookledger"
        # Links save copying and, for the compiled files, compiling. paths.py is a real copy,
        # because the package finds its checkout by that file's place.
        shutil.copytree(PACKAGE, self.package, copy_function=os.symlink)
        shutil.copytree(PACKAGE.with_name("bookledger"), self.engine, copy_function=os.symlink)
        (self.package / "paths.py").unlink()
        shutil.copy2(PACKAGE / "paths.py", self.package)
        for folder in ("notebooks/profiles", "book", "data/claims", "data/expectations",
                       "data/records"):
            (root / folder).mkdir(parents=True)
        self.write("_config.yml", CONFIG)
        self.write("book/ledger.toml", LEDGER)
        self.toc("book/intro")
        self.write("book/intro.md", "# A small book\n\nIts first page.\n")

    def write(self, name: str, text: str) -> Path:
        put(self.root, {name: text})
        return self.root / name

    def notebook(self, name: str, *code: str, parameters: str | None = SEED,
                 folder: str = "notebooks", shows: str | None = None, tagged: int = 1) -> Path:
        """Write a notebook of code cells; *shows* is a stored output of the last one.

        *tagged* is the number of cells that are tagged as parameters, from the first one on.
        """
        sources = [parameters] * (parameters is not None) + list(code)
        tags = tagged if parameters is not None else tagged - 1
        cells = [new_markdown_cell(f"# The chapter {name}", id=f"{name}-0")]
        for i, source in enumerate(sources, start=1):
            cells.append(new_code_cell(source, id=f"{name}-{i}"))
            if i <= tags:
                cells[-1].metadata["tags"] = ["parameters"]
        if shows is not None:
            cells[-1].outputs = [nbformat.v4.new_output("stream", text=shows)]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel})
        return self.write(f"{folder}/{name}.ipynb", nbformat.writes(notebook))

    def profile(self, name: str, /, **parameters: object) -> Path:
        lines = [f"{key} = {json.dumps(value)}" for key, value in parameters.items()]
        return self.write(f"notebooks/profiles/{name}.toml",
                          "\n".join(['says = "A small rerun."', "[parameters]", *lines]))

    def toc(self, root: str, *files: str) -> None:
        chapters = {"chapters": [{"file": name} for name in files]} if files else {}
        self.write("book/_toc.yml", yaml.safe_dump({"format": "jb-book", "root": root, **chapters}))

    def environment(self, **more: object) -> dict[str, str]:
        """The variables of a command that imports this checkout's package."""
        return without_settings() | {"PYTHONPATH": str(self.root / "src"),
                                     **{name: str(value) for name, value in more.items()}}

    def command(self, *arguments: object, **environment: object) -> subprocess.CompletedProcess:
        """``clusterbook`` in a process of its own."""
        return subprocess.run([sys.executable, "-m", "clusterbook", *map(str, arguments)],
                              cwd=self.root, env=self.environment(**environment),
                              capture_output=True, text=True, timeout=HANG, check=False)

    def start(self, *arguments: object, **environment: object) -> subprocess.Popen:
        """The same, left running; a group of its own that Ctrl-C reaches, as in a terminal."""
        return subprocess.Popen([sys.executable, "-m", "clusterbook", *map(str, arguments)],
                                cwd=self.root, env=self.environment(**environment),
                                start_new_session=True, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(
                                    signal.SIGINT, signal.SIG_DFL))

    def sources(self) -> dict[str, str]:
        """Every file of the checkout but ``_build``, with its hash."""
        return tree(self.root, leaving_out=("_build", "__pycache__"))


def without_settings() -> dict[str, str]:
    """The environment without this machine's own settings of the book."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith("CLUSTERBOOK_")}


def put(folder: Path, files: dict[str, str]) -> None:
    """Write text files below a folder, by their names."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def book(tmp_path, monkeypatch) -> Book:
    """A small checkout, with a path that is hard to handle; this process and kernels use it."""
    book = Book(tmp_path / "a {book} of one's own")
    for name in [name for name in os.environ if name.startswith("CLUSTERBOOK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(book.root / "src"))
    monkeypatch.setenv("CLUSTERBOOK_BOOK", str(book.root))
    monkeypatch.setattr(paths, "checkout", lambda: book.root)
    monkeypatch.setattr(paths, "__file__", str(book.package / "paths.py"))
    monkeypatch.setattr("bookledger.machine.library", lambda: book.package)
    return book


def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs execute their cells in this process; `test_runs` has the kernels."""
    from bookledger import execution

    def execute(source: Path, output: Path, *, values: Mapping[str, object],
                environment: Mapping[str, str], progress: str | None = None):
        notebook, names = nbformat.read(source, as_version=4), {}
        with monkeypatch.context() as set_here:
            for name, value in {"CLUSTERBOOK_PROGRESS": "off", **environment}.items():
                set_here.setenv(name, value)
            for cell in notebook.cells:
                # Compiled: after a KeyboardInterrupt in a text, Python exits as if interrupted.
                exec(compile(cell.source * (cell.cell_type == "code"), cell.id, "exec"), names)
                names |= values if "parameters" in cell.metadata.get("tags", ()) else {}
        execution.write_notebook(notebook, output)
        return notebook

    monkeypatch.setattr(execution, "execute", execute)


def record(**changes: object) -> dict[str, object]:
    """What the record of a clean run holds, with changes."""
    return {"chapter": "demo", "profile": "demo-paper", "parameters": {}, "assumed": [], "seed": 0,
            "metrics": {}, "checks": {}, "history": [], "git": {"commit": "a", "clean": True},
            "code": "a" * 64, "claims": {}, "data": None, "seconds": 1.0, "peak_memory_mb": None,
            "versions": {"python": "3.11.7", "torch": "2", "numpy": "2", "scikit-learn": "1"},
            "machine": {"cpu": "c", "gpu": None, "cores": 1, "threads": 1},
            "started": "2025-01-01T00:00:00+00:00", "arrays": None, **changes}


def module_of(file: Path) -> ModuleType:
    """A Python file outside of the package, as a module."""
    spec = importlib.util.spec_from_file_location(f"{file.parent.name}_{file.stem}", file)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tree(folder: Path, leaving_out: Sequence[str] = ()) -> dict[str, str]:
    """Every file below a folder, with the hash of its content."""
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not set(leaving_out) & set(path.relative_to(folder).parts)}


def wait_for(condition: Callable[[], object], process: subprocess.Popen | None = None) -> None:
    """Wait until the condition holds; fail if the process ends before it does."""
    end = time.monotonic() + HANG
    while not condition():
        if process is not None and process.poll() is not None:
            out, err = process.communicate()
            pytest.fail(f"the command ended with {process.returncode}:\n{out}\n{err}")
        if time.monotonic() > end:
            pytest.fail("waited too long")
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not collected yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Torchrun:
    """A command of two ranks, all of whose processes are known."""

    def __init__(self, folder: Path, environment: dict[str, str], *arguments: object) -> None:
        self._mark = {"RANKS_MARK": uuid.uuid4().hex}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
             "-m", "clusterbook", "run", *map(str, arguments)], cwd=folder, text=True,
            env=environment | self._mark | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)

    def processes(self) -> list[psutil.Process]:
        """The living processes, with their environments."""
        return [one for one in psutil.process_iter(["environ"])
                if self._mark.items() <= (one.info["environ"] or {}).items() and alive(one.pid)]

    def rank(self, number: int) -> int:
        """The process that torchrun started for a rank."""
        return min(one.pid for one in self.processes() if "CLUSTERBOOK_RUN" not in
                   one.info["environ"] and one.info["environ"].get("RANK") == str(number))

    def end(self) -> tuple[int, str]:
        """Status and text; fails if it hangs, or if a process is left, and leaves none."""
        try:
            said, _ = self.process.communicate(timeout=HANG)
            wait_for(lambda: not self.processes())
        finally:
            for one in self.processes():
                one.kill()
        return self.process.returncode, said


def shown(path: Path) -> str:
    """All plain text that an executed notebook shows."""
    from bookledger import execution

    return "\n".join(execution.outputs(nbformat.read(path, as_version=4)))
