"""Run a chapter with other parameters: papermill's injection, made strict.

Mistakes in what was typed are found before the first cell runs, and a stopped run leaves no
partial files. The notebook learns from the environment where to leave figures and records (see
`clusterbook.paths`). Each has a kernel, a process of its own: one that dies takes no other along.
"""

from __future__ import annotations

import glob
import json
import logging
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell

from clusterbook import paths
from clusterbook.checks import one_of
from clusterbook.errors import InputError, OutOfTime
from clusterbook.figures.showing import LIST, as_asked
from clusterbook.paths import write_atomically
from clusterbook.progress import bar

from . import parameters, sheet, slices, underway
from .checks import UNMADE
from .parameters import Chapter, Profile
from .provenance import described
from .records import Record, code_in_use, read_record
from .records import plain as recordable
from .verdicts import stale_among

FAILED_CHECK = "✗ "
"""The beginning of a failed check's line in an output (see `bookledger.checks.check`)."""

_HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Linux hands out memory anew at each step, in pieces of 4 kB unless asked for larger ones: a fifth
of the time of TELL's step on MNIST. Results stay the same, bit for bit."""


class ChapterError(RuntimeError):
    """A chapter failed: which one, which cell, which error."""


# --- executing a notebook ----------------------------------------------------------------------


def execute(source: Path, output: Path, *, values: Mapping[str, Any] | None = None,
            environment: Mapping[str, str] | None = None, progress: str | None = None
            ) -> nbformat.NotebookNode:
    """Execute a notebook, write the executed one, whole or not at all, and return it.

    Parameters
    ----------
    source, output : Path
        The notebook, and the file of its executed copy.
    values : mapping, optional
        Parameters to inject after the cell tagged ``parameters``.
    environment : mapping, optional
        Variables for the notebook's kernel.
    progress : str, optional
        Label of a progress bar over cells; the notebook's own bars move below it.

    Raises InputError or OutOfTime if a cell raised one, and ChapterError if a cell failed
    otherwise or the kernel died.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError
    from papermill.translators import PythonTranslator
    from traitlets.config import Config

    notebook = nbformat.read(source, as_version=4)
    if values:
        tagged = ["parameters" in cell.metadata.get("tags", []) for cell in notebook.cells]
        injected = PythonTranslator.codify(
            values, "Set by clusterbook run; this replaces the values in the cell above.")
        notebook.cells.insert(tagged.index(True) + 1, new_code_cell(
            injected, metadata={"tags": ["injected-parameters"]}))
    # Of a kernel that is stopped it would report the cell that was waiting.
    logging.getLogger("asyncio").setLevel("CRITICAL")
    variables = {**_HUGE_PAGES, **os.environ,
                 "CLUSTERBOOK_PROGRESS": _terminal() if progress else "off",
                 **_mine.variables, **(environment or {})}
    with tempfile.TemporaryDirectory(prefix="clusterbook-") as work:
        client = NotebookClient(
            notebook, timeout=None, kernel_name="python3", record_timing=False,
            resources={"metadata": {"path": work}},
            # An unencrypted kernel warns on the terminal, once a run.
            config=Config({"KernelManager": {"transport_encryption": "auto"}}))
        try:
            with (client.setup_kernel(env=variables, stderr=subprocess.DEVNULL),
                  stoppable(client.km.provisioner.process)):
                for i, cell in enumerate(bar(notebook.cells, progress or "", unit="cell",
                                             progress=None if progress else False)):
                    client.execute_cell(cell, i)
                about = client.wait_for_reply(client.kc.kernel_info())["content"]
                notebook.metadata.language_info = about["language_info"]
        except CellExecutionError as error:
            message = plain(error.evalue)
            for kind in (InputError, OutOfTime):
                if error.ename == kind.__name__:
                    raise kind(message) from None
            raise ChapterError(
                f"{source.stem}, cell {cell.execution_count} failed: {error.ename}: {message}\n"
                + textwrap.indent(cell.source.strip(), "    ")) from None
        except DeadKernelError:
            raise ChapterError(f"{source.stem} failed: its kernel died in the middle of a cell; "
                               "probably out of memory") from None
    write_notebook(notebook, output)
    return notebook


def write_notebook(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Write a notebook's file, whole or not at all."""
    write_atomically(path, (nbformat.writes(notebook) + "\n").encode())


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


def failed_checks(notebook: nbformat.NotebookNode, *more: str) -> list[str]:
    """The lines of the checks that failed, and those that begin with one of *more*."""
    return [line for text in outputs(notebook) for line in text.splitlines()
            if line.startswith((FAILED_CHECK, *more))]


# --- kernels side by side ----------------------------------------------------------------------


class _Mine(threading.local):
    """Of the kernels that this thread starts: their owner, and variables of their environment."""

    owner, variables = "", {}


_mine = _Mine()
_kernels: dict[subprocess.Popen, str] = {}      # kernel → its owner
_stopped: set[str] = set()


def cores() -> int:
    """The number of cores that this process may use."""
    return joblib.cpu_count()


@contextmanager
def processes(number: int, threads: str = "1") -> Iterator[Callable[..., Future]]:
    """Yield a function that submits calls, so many at a time; no kernel is left after the block."""
    pool, owner = ThreadPoolExecutor(number), uuid.uuid4().hex
    try:
        yield partial(pool.submit, apart, owner, threads)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        stop(owner)
        raise
    finally:
        pool.shutdown()


def apart(owner: str, threads: str, function: Callable, *arguments: Any) -> Any:
    """Call a function whose kernels compute with so many threads; `stop` of the owner ends them."""
    _mine.owner = owner
    _mine.variables = dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
    return function(*arguments)


@contextmanager
def stoppable(kernel: subprocess.Popen) -> Iterator[None]:
    """Let `stop` kill a kernel that this thread has started."""
    _kernels[kernel] = _mine.owner
    try:
        if _mine.owner in _stopped:
            kernel.kill()
        yield
    finally:
        del _kernels[kernel]


def stop(owner: str) -> None:
    """Kill the kernels of an owner, and those that it would start."""
    _stopped.add(owner)
    for kernel, other in list(_kernels.items()):
        if other == owner:
            kernel.kill()


# --- a run -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One execution of a chapter: its parameters, and where it leaves things."""

    chapter: Chapter
    profile: Profile | None
    values: Mapping[str, Any]
    output: Path | None = None          # the executed notebook
    figures: Path | None = None
    records: Path | None = None
    only: Sequence[slices.Drawn] = ()   # the figures to draw, if not all
    look: Mapping[str, str] = field(default_factory=dict)   # of the files of figures
    checkpoint: str = ""                # the name of its folder, if it is not that of the run
    folder: str = field(default_factory=lambda: str(Path.cwd()))    # of the user

    @property
    def name(self) -> str:
        """The profile or chapter with the seed; also the name of a profile's record."""
        name = self.profile.name if self.profile else self.chapter.name
        return f"{name}-seed{self.values['seed']}" if "seed" in self.values else name

    @property
    def checkpoints(self) -> Path:
        """The folder of its checkpoints."""
        return underway.checkpoints() / (self.checkpoint or self.name)


def run(name: str, *, profile: str | None = None, overrides: Mapping[str, str] | None = None,
        seeds: Sequence[int] | None = None, output: Path | None = None,
        figures: Path | None = None, records: Path | None = None, budget: str | None = None,
        only: Sequence[str] = (), formats: str | None = None, width: str | None = None,
        style: str | None = None, command: str = "") -> list[str]:
    """Run a chapter once, or once per seed; a line for each thing done.

    The arguments are those of ``clusterbook run --help``: *overrides* are parameters as typed, and
    *command* is what was typed in all, for the contact sheet. A seed with a record of today's
    parameters, code and data is skipped.

    Raises InputError before anything runs, and the errors of `execute`.
    """
    chapter = parameters.read(name)
    chosen = chapter.profile(profile)
    values = chapter.values(chosen, overrides)
    if records and (overrides or not chosen):
        raise InputError("a record belongs to a profile as it stands: give --profile and no -p "
                         "with --record, or write a profile of your own in notebooks/profiles")
    if budget and not records:
        raise InputError("--for needs --record: only recorded runs keep a checkpoint to go on from")
    if records and only:
        raise InputError("a record is of a whole run: leave out --only or --record")
    look = as_asked(formats, width, style)
    if look and not figures:
        raise InputError("--format, --width and --style need --figures DIR, where figures are kept")
    given = [*(overrides or {}), *(["seed"] if seeds else [])]
    drawn = _alone(chapter, only, given) if only else []
    until = time.time() + underway.seconds(budget) if budget else math.inf
    if seeds:
        chapter.parameter("seed")       # refuses a chapter without it
    planned = {}                        # the part of the contact sheet → its run
    for seed in seeds or [None]:
        part = f"seed {seed}" if seeds and len(seeds) > 1 else ""
        planned[part] = Run(
            chapter, chosen, values if seed is None else {**values, "seed": seed},
            output and output.with_stem(f"{output.stem}-seed{seed}") if part else output,
            figures and figures / f"seed{seed}" if part else figures, records, drawn, look)
    for one in planned.values():
        sheet.refuse_others(chapter, one.output, figures, one.figures)
        if one.output:
            writable(one.output.parent, one.output.name)
    for folder in filter(None, (figures, records)):
        writable(folder)

    said, lines, wrong = [], [], 0
    for part, one in bar(planned.items(), "seeds", unit="run",
                         progress=None if len(planned) > 1 else False):
        try:
            done, found = _once(one, until)
        except OutOfTime as error:
            return [*said, f"{one.name}: {error}; the same command goes on",
                    *underway.lines(one.checkpoints)]
        if figures:
            (figures / sheet.PAGE).unlink(missing_ok=True)      # of an earlier run
        said += [f"{one.name}: {line}" for line in done]
        wrong += sum(line.startswith(FAILED_CHECK) for line in found)
        lines += [f"{part}: {line}" if part else line for line in found]
    counted = [f"checks: {wrong} failed, {len(lines) - wrong} not made"] if lines else []
    if figures:
        page = sheet.write(
            figures, title=chapter.title, chapter=chapter, command=command,
            values=[one.values for one in planned.values()], problems=counted + lines,
            parts={part: one.figures for part, one in planned.items()})
        said.append(f"contact sheet: {page}")
        known = chapter.figures().values() if overrides and not only else []
        for name in overrides or {}:
            fixed = [one.name + " (recorded)" * one.recorded for one in known
                     if name not in one.parameters]
            said += [f"-p {name} can't change {', '.join(fixed)}"] if fixed else []
    return said + counted


def _alone(chapter: Chapter, names: Sequence[str], given: Sequence[str]) -> list[slices.Drawn]:
    """The figures of these names; InputError if a given parameter reaches none of them."""
    known = chapter.figures()
    for name in names:
        one_of(f"figure of {chapter.name}", name, known)
    drawn = [known[name] for name in dict.fromkeys(names)]
    reached = [one for one in chapter.parameters if any(one in each.parameters for each in drawn)]
    for name in given:
        if name not in reached:
            many, text = len(drawn) > 1, ", ".join(each.name for each in drawn)
            what = f"none of the figures {text} depends" if many else (
                f"the figure {text} does not depend")
            raise InputError(f"{what} on {name}; {'they depend' if many else 'it depends'} on: "
                             f"{', '.join(reached) or 'no parameter'}"
                             + " (drawn from records)" * all(each.recorded for each in drawn))
    return drawn


def _once(run: Run, until: float) -> tuple[list[str], list[str]]:
    """Make a run that is not recorded: what was done, and the lines of checks that failed."""
    if run.records and (record := recorded(run, run.records / f"{run.name}.json")):
        return (["recorded already, skipped"],
                [FAILED_CHECK + id for id, held in record.checks.items() if not held])
    begun = time.time()
    if begun >= until:
        raise OutOfTime("not begun, because the time given is over")
    with underway.reported(run.checkpoints) if run.records else nullcontext():
        failed = make(run, run.name, until)
    kept = {"notebook": run.output, "figures": run.figures, "record": run.records}
    said = [f"{what} in {where}" for what, where in kept.items() if where]
    if run.output:
        beside = run.output.parent.glob(f"{glob.escape(run.output.stem)}-*.csv")
        tables = sorted(file.name for file in beside     # a file system's clock may be behind
                        if file.stat().st_mtime >= begun - 1)
        said += [f"tables {', '.join(tables)} in {run.output.parent}"] if tables else []
    return said, failed


def make(run: Run, progress: str | None = None, until: float = math.inf) -> list[str]:
    """Execute a run's notebook; the lines of its checks that failed or were not made.

    Figures of an earlier run are replaced at the end, if this one succeeds. A run that is stopped,
    by Ctrl-C or at the time *until*, leaves its progress file with its records.

    Raises the errors of `execute`.
    """
    chapter = run.chapter
    changed = {name: value for name, value in run.values.items()
               if value != chapter.parameters[name].default}
    context = {"chapter": chapter.name, "profile": run.profile and run.profile.name,
               "parameters": run.values, "changed": changed, "seed": run.values.get("seed"),
               "assumed": sorted(run.profile.assumed) if run.profile else [],
               "folder": run.folder, "output": run.output and run.output.stem}
    if run.records:             # the code at the beginning, even if it is edited while it runs
        with _PARSES:
            context |= code_in_use(chapter.name) | underway.clock(run.checkpoints)
    with tempfile.TemporaryDirectory(prefix="clusterbook-") as folder:
        source, drawn = Path(folder, f"{chapter.name}.ipynb"), Path(folder, "figures")
        drawn.mkdir()
        write_notebook(slices.alone(chapter.notebook, run.only) if run.only else chapter.notebook,
                       source)
        places = {"figures": run.figures and drawn, "records": run.records,
                  "checkpoints": run.records and run.checkpoints,
                  "tables": run.output and run.output.parent, "data": paths.data_home()}
        environment = {f"CLUSTERBOOK_{kind.upper()}": str(Path(place).resolve())
                       for kind, place in places.items() if place}
        environment |= {"CLUSTERBOOK_RUN": json.dumps(context), "CLUSTERBOOK_UNTIL": str(until),
                        "CLUSTERBOOK_ONLY": ",".join(one.name for one in run.only), **run.look}
        try:
            executed = execute(source, run.output or Path(folder, "executed.ipynb"),
                               values=changed, environment=environment, progress=progress)
        except (KeyboardInterrupt, OutOfTime):
            if run.records and underway.reports(run.checkpoints):
                underway.write(run.records, run.name, run.checkpoints, context)
            raise
        if run.figures:
            (run.figures / LIST).unlink(missing_ok=True)
            shutil.copytree(drawn, run.figures, dirs_exist_ok=True)
    if run.output and run.records:
        _mark(executed, run)
        write_notebook(executed, run.output)
    if run.records:
        shutil.rmtree(run.checkpoints, ignore_errors=True)
        (run.records / underway.FOLDER / f"{run.name}.json").unlink(missing_ok=True)
    return failed_checks(executed, UNMADE)


_PARSES = threading.Lock()      # threads that parse Python disturb each other in Python 3.11


def writable(folder: Path, name: str = "") -> None:
    """Make a folder; InputError if a file of that name can't be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{name}."):
            pass
    except OSError as error:
        raise InputError(f"nothing can be written to {folder}: {error.strerror}; name another "
                         "folder") from None


# --- records -----------------------------------------------------------------------------------


def recorded(run: Run, path: Path) -> Record | None:
    """The run's record in that file, or None if its parameters, code or data are not today's.

    A parameter that was added after the record counts as its default.
    """
    if not path.exists():
        return None
    record = read_record(path)
    defaults = recordable(run.chapter.values())
    if {**defaults, **record.parameters} != recordable(run.values):
        return None
    # A file of the user's own has no checksum: was it written since?
    begun = datetime.fromisoformat(record.started).timestamp()
    for value in run.values.values():
        own = Path(os.path.expanduser(str(value).removeprefix("folder:")))
        if (own.suffix or str(value).startswith("folder:")) and os.path.exists(own):
            if any(file.stat().st_mtime >= begun for file in [own, *own.rglob("*")]):
                return None
    return None if stale_among([record]) else record


def _mark(notebook: nbformat.NotebookNode, run: Run) -> None:
    """Title the notebook of a recorded run with profile and seed; add its provenance below."""
    path = run.records / f"{run.name}.json"
    if not path.is_file():
        raise ChapterError(f"{run.name} ran to its end but left no record in {run.records}: its "
                           "notebook does not call evidence.record")
    record = read_record(path)
    rest = notebook.cells[0].source.partition("\n")[2].strip()
    about = described([record]) | {
        "Data": record.data["name"] if record.data else "none",
        "Chosen here, because no source has them": ", ".join(record.assumed) or "none"}
    opening = _PROVENANCE.format(
        says=run.profile.says, title=run.chapter.title, record=record,
        about="\n".join(f"- {head}: {cell}" for head, cell in about.items()))
    notebook.cells[0].source = f"# {record.profile}, seed {record.seed}"
    notebook.cells.insert(1, new_markdown_cell(opening, metadata={"tags": ["run-head"]}))
    if rest:
        notebook.cells.insert(2, new_markdown_cell(rest))


_PROVENANCE = """\
**A recorded run, as it was executed.** {says}

The notebook is the chapter [{title}](../../notebooks/{record.chapter}.ipynb) with these \
parameters. Its sentences and checks were written for the default ones. Verdicts rest on all seeds.

{about}

To repeat it:

```bash
clusterbook run {record.chapter} --profile {record.profile} --seeds {record.seed} --record out \
--output out/run.ipynb
```"""
