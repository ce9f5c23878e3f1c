"""Execute notebooks by papermill: one, several side by side, one as a page.

Each has a kernel, a process of its own: one that dies takes no other along.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import closing, contextmanager
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import nbformat
from nbformat.v4 import new_markdown_cell

from clusterbook.checks import InputError, OutOfTime, said, whole
from clusterbook.paths import write_atomically

FAILED_CHECK = "✗ "
"""The beginning of a failed check's line in an output (see `bookledger.checks.check`)."""

_HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Linux hands out memory anew at each step, in pieces of 4 kB unless asked for larger ones: a fifth
of the time of TELL's step on MNIST. Results stay the same, bit for bit."""

_NO_START = "Kernel died before replying"
"""What jupyter_client raises, as a RuntimeError, of a kernel that ended before it ran any code."""

_RELATIVE = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)[^)]*\)")    # a link to a file


class ChapterError(RuntimeError):
    """A chapter failed: which one, which cell, which error."""


def execute(source: Path, output: Path, *, values: Mapping[str, Any] | None = None,
            environment: Mapping[str, str] | None = None, progress: str | None = None
            ) -> nbformat.NotebookNode:
    """Execute a notebook by papermill, write the executed one, whole or not at all, and return it.

    Parameters
    ----------
    source, output : Path
        The notebook, and the file of its executed copy.
    values : mapping, optional
        Parameters to inject after the cell tagged ``parameters``.
    environment : mapping, optional
        Variables for the notebook's kernel; ``TMPDIR`` also has the folder in which it runs.
    progress : str, optional
        Label of a progress bar over cells; the notebook's own bars move below it.

    Raises InputError or OutOfTime if a cell raised one, and ChapterError if a cell failed
    otherwise or the kernel died.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError

    environment = environment or {}
    notebook = nbformat.read(source, as_version=4)
    variables = {**_HUGE_PAGES, **os.environ,
                 "CLUSTERBOOK_PROGRESS": _terminal() if progress else "off", **environment}
    shown = {"desc": progress, "unit": "cell", "leave": False, "disable": None}
    with tempfile.TemporaryDirectory(
            prefix="clusterbook-", dir=environment.get("TMPDIR")) as folder:
        try:
            executed = papermill.execute_notebook(
                notebook, None, dict(values or {}), engine_name=_engine(), kernel_name="python3",
                progress_bar=shown if progress else False, environment=variables, folder=folder)
        except papermill.PapermillExecutionError as error:
            message = plain(error.evalue)
            for kind in (InputError, OutOfTime):
                if error.ename == kind.__name__:
                    raise kind(message) from None
            raise ChapterError(
                f"{source.stem}, cell {error.exec_count} failed: {error.ename}: {message}\n"
                + textwrap.indent(error.source.strip(), "    ")) from None
        except DeadKernelError:
            raise ChapterError(f"{source.stem} failed: its kernel died in the middle of a cell; "
                               "probably out of memory") from None
        except RuntimeError as error:
            if _NO_START not in str(error):
                raise
            raise ChapterError(f"{source.stem} failed: its kernel did not start; "
                               "`python -m ipykernel_launcher` may tell why") from None
    # papermill adds times and empty lists of tags.
    before = {cell.id: cell.metadata for cell in notebook.cells}
    for cell in executed.cells:
        cell.metadata = before.get(cell.id, {"tags": ["injected-parameters"]})
    del executed.metadata["papermill"]
    write_notebook(executed, output)
    return executed


@cache
def _engine() -> str:
    """The name of a papermill engine that gives each kernel its own environment and folder.

    papermill's own would change those of this process, which may run several notebooks at a time.
    """
    from papermill.clientwrap import PapermillNotebookClient
    from papermill.engines import Engine, papermill_engines
    from traitlets.config import Config

    class Apart(Engine):
        @classmethod
        def execute_managed_notebook(cls, nb_man, kernel_name, *, environment, folder, **_):
            for left in reversed(range(3)):
                client = PapermillNotebookClient(
                    nb_man, kernel_name=kernel_name, timeout=None, record_timing=False,
                    raise_on_iopub_timeout=False,       # a busy machine may be late
                    resources={"metadata": {"path": tempfile.mkdtemp(dir=folder)}},
                    # An unencrypted kernel warns on the terminal, once a run.
                    config=Config({"KernelManager": {"transport_encryption": "auto",
                                                     "connection_file": f"{folder}/kernel.json"}}))
                try:
                    client.execute(env=environment, stderr=subprocess.DEVNULL)
                    return
                except RuntimeError as error:
                    # Before the kernel opens the ports chosen for it, another process can take one.
                    if _NO_START not in str(error) or not left:
                        raise

    # Of a kernel that is stopped it would report the cell that was waiting.
    logging.getLogger("asyncio").setLevel("CRITICAL")
    papermill_engines.register("clusterbook", Apart)
    return "clusterbook"


def write_notebook(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Write a notebook's file, whole or not at all."""
    write_atomically(path, (nbformat.writes(notebook) + "\n").encode())


def write_page(notebook: nbformat.NotebookNode, path: Path, command: str) -> None:
    """Write an executed notebook as one HTML page without code, with its pictures in it.

    Cells that are tagged ``remove-report`` are left out, and links to other pages. *command* is
    shown at the end. Formulas need MathJax, so the network; the rest does not.
    """
    from nbconvert import HTMLExporter

    shown = deepcopy(notebook)
    shown.cells = [cell for cell in shown.cells
                   if "remove-report" not in cell.metadata.get("tags", [])]
    for cell in shown.cells:
        if cell.cell_type == "markdown":
            cell.source = _RELATIVE.sub(r"\1", cell.source)
    shown.cells.append(new_markdown_cell(f"Made by:\n\n```\n{command}\n```"))
    exporter = HTMLExporter(
        template_name="classic",        # shows alternative texts
        exclude_input=True, exclude_input_prompt=True, exclude_output_prompt=True,
        exclude_anchor_links=True)
    title = shown.cells[0].source.partition("\n")[0].removeprefix("# ")
    page, _ = exporter.from_notebook_node(shown, {"metadata": {"name": title}})
    write_atomically(path, page.encode())


def plain(text: str) -> str:
    """A terminal's text without its colors."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).strip()


def _terminal() -> str:
    """The path of stderr's terminal, which the kernel opens by name: its own stderr is captured."""
    try:
        return os.ttyname(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):  # Windows; no terminal; no file
        return "off"


def outputs(notebook: nbformat.NotebookNode) -> Iterator[str]:
    """Every plain-text output of a notebook, in order."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            yield "".join(output.get("text") or output.get("data", {}).get("text/plain", ""))


def told(notebook: nbformat.NotebookNode) -> list[str]:
    """What a notebook says to who runs it (`bookledger.notebook.Page.say`), as plain text."""
    said = [output.get("metadata", {}).get("clusterbook", {}).get("said", "")
            for cell in notebook.cells for output in cell.get("outputs", [])]
    return [text.replace("**", "") for text in said if text]


def failed_checks(notebook: nbformat.NotebookNode, *more: str) -> list[str]:
    """The lines of the checks that failed, and those that begin with one of *more*."""
    return [line for text in outputs(notebook) for line in text.splitlines()
            if line.startswith((FAILED_CHECK, *more))]


# --- side by side ------------------------------------------------------------------------------


ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
RESUMES = "the same command makes only what is missing"


@contextmanager
def side_by_side(function: Callable[..., Any], calls: Sequence[tuple], workers: int | None = None,
                 cluster: bool = False, again: str = RESUMES
                 ) -> Iterator[Iterator[tuple[Any, Any, str]]]:
    """Yield, as calls of a function end, their first argument, result or None, and error or "".

    joblib makes them in so many processes, by default one per processor, or on the *cluster* that
    it was told of. The function also gets a folder of temporary files, and variables for its
    kernels: that folder, and one thread. After an error in the block, or Ctrl-C, neither processes
    nor temporary files are left; *again* tells what the same command does then.

    Raises InputError for less than one process, and ChapterError if one was killed.
    """
    if workers is not None:
        whole("--workers", workers, 1)
    number = None if cluster else min(workers or joblib.cpu_count(), len(calls)) or 1
    try:
        # In that folder a call may still write when it is ended early.
        with (tempfile.TemporaryDirectory(
                  prefix="clusterbook-", ignore_cleanup_errors=True) as folder,
              warnings.catch_warnings(action="ignore"),     # joblib's, of calls that end early
              closing(joblib.Parallel(number, return_as="generator_unordered", batch_size=1)(
                  joblib.delayed(_as_child)(os.getpid(), folder, function, *call)
                  for call in calls)) as ended):
            yield ended
    except KeyboardInterrupt:
        raise KeyboardInterrupt(again) from None
    except BrokenExecutor:
        raise ChapterError("a process was killed, probably because memory was full; "
                           + again) from None


def _as_child(parent: int, folder: str, function: Callable[..., Any], *arguments: Any
              ) -> tuple[Any, Any, str]:
    _end_with(parent)
    there = folder if os.path.isdir(folder) else None       # not on another machine
    with tempfile.TemporaryDirectory(prefix="clusterbook-", dir=there) as own:
        try:
            result = function(*arguments, Path(own), ONE_THREAD | {"TMPDIR": own})
            return arguments[0], result, ""
        except Exception as error:
            return arguments[0], None, said(error)


@cache
def _end_with(parent: int) -> None:
    """End this process, and so its kernels, when its parent is killed; no other process than that.

    A worker that waits for a kernel would not notice. Ctrl-C reaches the parent alone, which ends
    its workers: where it reached an idle one, Python could report it among the parent's messages.
    """
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    if os.getppid() == parent:
        if sys.platform != "win32":
            os.setpgrp()
        threading.Thread(target=watch, daemon=True).start()
