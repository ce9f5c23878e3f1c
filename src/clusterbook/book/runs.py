"""Run a chapter with other parameters: papermill, made strict.

Mistakes in what was typed are found before the first cell runs. An error that the library raised
for the person comes back as its one sentence, and a stopped run leaves no partial files. The
notebook learns from the environment where to leave figures, records and checkpoints (see
`clusterbook.paths`).
"""

from __future__ import annotations

import errno
import glob
import json
import logging
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_markdown_cell

from .. import paths
from ..errors import InputError
from ..paths import write_atomically
from ..progress import bar
from . import parameters
from .parameters import Chapter, Profile, own_file, read_notebook

FAILED_CHECK = "✗ "
"""The beginning of a failed check's line in an output (see `clusterbook.evidence.check`)."""


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

    Raises
    ------
    InputError
        If a cell raised one (the same sentence), or a file can't be written.
    ChapterError
        If a cell failed otherwise, or the kernel died.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from traitlets.config import Config

    # Papermill logs what is checked already, or raised below.
    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    variables = {"CLUSTERBOOK_PROGRESS": _terminal() if progress else "off", **(environment or {})}

    def escaped(path: Path) -> str:     # papermill fills in {…} in a path
        return str(path).replace("{", "{{").replace("}", "}}")

    with _temporary_folder() as folder:
        draft, work = folder / source.name, folder / "work"
        work.mkdir()
        try:
            papermill.execute_notebook(
                escaped(source), escaped(draft), dict(values or {}), cwd=escaped(work),
                kernel_name="python3", kernel_manager_class=_kernel_manager(variables),
                progress_bar={"desc": progress, "leave": False} if progress else False,
                # An unencrypted kernel warns on the terminal, once a run.
                config=Config({"KernelManager": {"transport_encryption": "auto"}}))
        except PapermillExecutionError as error:
            message = plain(error.evalue)
            if error.ename == InputError.__name__:
                raise InputError(message) from None
            lines = (error.source or "").strip().splitlines()
            excerpt = [f"    {line}" for line in lines[:12] + ["…"] * (len(lines) > 12)]
            raise ChapterError("\n".join([f"{source.stem}, cell {error.exec_count} failed: "
                                          f"{error.ename}: {message}", *excerpt])) from None
        except KeyboardInterrupt:
            # asyncio would print the traceback of the stopped cell's task.
            logging.getLogger("asyncio").setLevel(logging.CRITICAL)
            raise
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise InputError(f"the run can't go on, {folder.parent} is full: {error.strerror}; "
                             "make room, or name another folder in TMPDIR") from error
        except DeadKernelError:
            raise ChapterError(f"{source.stem} failed: its kernel died in the middle of a cell; "
                               "probably out of memory") from None
        executed = nbformat.read(draft, as_version=4)
        _clean(executed)
        write_notebook(executed, output)
        return executed


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


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    try:
        made = tempfile.TemporaryDirectory(prefix="clusterbook-")
    except OSError as error:
        raise InputError(f"no folder for temporary files can be made: {error.strerror}; make room, "
                         "or name another place in TMPDIR") from error
    with made as name:
        yield Path(name)


def _kernel_manager(variables: Mapping[str, str]) -> type:
    """Kernels with these variables, whose own tracebacks reach no terminal."""
    from jupyter_client.manager import AsyncKernelManager

    class QuietKernel(AsyncKernelManager):
        async def start_kernel(self, **options: Any) -> None:
            options |= {"env": {**os.environ, **variables}, "stderr": subprocess.DEVNULL}
            await super().start_kernel(**options)

    return QuietKernel


def _clean(notebook: nbformat.NotebookNode) -> None:
    """Remove papermill's metadata, which differ between equal runs; title the injected cell."""
    notebook.metadata.pop("papermill", None)
    for cell in notebook.cells:
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.source = cell.source.replace(
                "# Parameters\n", "# Set by clusterbook run; this replaces the values of the "
                "parameters cell above.\n", 1)
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
        if not cell.metadata.get("tags", True):
            cell.metadata.pop("tags")


# --- checks ------------------------------------------------------------------------------------


def outputs(notebook: nbformat.NotebookNode) -> Iterator[str]:
    """Every plain-text output of a notebook, in order."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            yield "".join(text)


def failed_checks(notebook: nbformat.NotebookNode, *more: str) -> list[str]:
    """The lines of the checks that failed, and those that begin with one of *more*."""
    return [line for text in outputs(notebook) for line in text.splitlines()
            if line.startswith((FAILED_CHECK, *more))]


def tally(lines: Sequence[str]) -> str:
    """Count the checks that failed or were not made; empty if there are none.

    Examples
    --------
    >>> tally(["✗ it converges", "not checked: seeds agree"])
    'checks: 1 failed, 1 not made'
    """
    failed = sum(line.startswith(FAILED_CHECK) for line in lines)
    return f"checks: {failed} failed, {len(lines) - failed} not made" if lines else ""


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
    checkpoints: str = ""               # name of the folder below `checkpoints`; empty: none
    part: str = ""                      # which of several runs: "seed 3"
    folder: str = field(default_factory=lambda: str(Path.cwd()))    # of the person

    @property
    def name(self) -> str:
        """The profile or chapter with the seed; also the record's name."""
        name = self.profile.name if self.profile else self.chapter.name
        return f"{name}-seed{self.values['seed']}" if "seed" in self.values else name

    @property
    def context(self) -> dict[str, Any]:
        """What the notebook learns of its run; see `clusterbook.paths.run_context`."""
        return {"chapter": self.chapter.name, "profile": self.profile and self.profile.name,
                "parameters": dict(self.values), "seed": self.values.get("seed"),
                "assumed": sorted(self.profile.assumed) if self.profile else [],
                "folder": self.folder, "changed": self.chapter.changed(self.values),
                **({"output": self.output.stem} if self.output else {})}


def run(name: str, *, profile: str | None = None, overrides: Mapping[str, str] | None = None,
        seeds: Sequence[int] | None = None, output: Path | None = None,
        figures: Path | None = None, records: Path | None = None, progress: bool = False
        ) -> list[str]:
    """Run a chapter once, or once per seed; see ``clusterbook run --help``.

    Parameters
    ----------
    name : str
        The chapter.
    profile : str, optional
        A named parameter set.
    overrides : mapping, optional
        Parameters as typed; they win over the profile.
    seeds : sequence of int, optional
        Values of ``seed``. A seed with a record of today's code and parameters is skipped.
    output : Path, optional
        The executed notebook; of several seeds ``-seed0`` … is added to its name.
    figures, records : Path, optional
        Folders for figures, with a contact sheet, and for records.
    progress : bool
        Show bars over seeds and cells.

    Returns
    -------
    list of str
        A line for each thing done.

    Raises
    ------
    InputError, ChapterError
        As `execute`.
    """
    from . import sheet  # heavy: matplotlib

    chapter = parameters.read(name)
    chosen = chapter.profile(profile)
    values = chapter.values(chosen, overrides)
    if records is not None and (chosen is None or overrides):
        raise InputError("a record belongs to a profile as it stands: give --profile and no -p "
                         "with --record, or write a profile of your own in notebooks/profiles")
    if seeds is not None and "seed" not in values:
        raise InputError(f"{name} has no parameter 'seed'; --seeds can't repeat it")
    planned = []
    for seed in seeds or [None]:
        part = f"seed{seed}" if len(seeds or ()) > 1 else ""
        own = values if seed is None else {**values, "seed": seed}
        one = Run(chapter, chosen, own, records=records, part=part.replace("seed", "seed "),
                  output=output.with_stem(f"{output.stem}-{part}") if output and part else output,
                  figures=figures / part if figures else None)
        planned.append(replace(one, checkpoints=one.name) if records else one)
    _refuse_places(planned, figures, records)

    said: list[str] = []
    unheld: dict[str, list[str]] = {}
    for one in bar(planned, "seeds", unit="run", progress=progress and len(planned) > 1):
        if records and (record := _recorded(one)):
            said.append(f"{one.name}: recorded already, skipped")
            unheld[one.part] = [f"{FAILED_CHECK}{id}" for id, held in record.checks.items()
                                if not held]
            continue
        before = _tables(one.output)
        with sheet.drawing(figures, one.figures) as draft:
            unheld[one.part] = make(replace(one, figures=draft), one.name if progress else None)
        kept = {"notebook": one.output, "figures": one.figures, "record": records}
        said += [f"{one.name}: {what} in {where}" for what, where in kept.items() if where]
        if tables := sorted(dict(_tables(one.output) - before)):
            said.append(f"{one.name}: tables {', '.join(tables)} in {one.output.parent}")
    counted = tally([line for lines in unheld.values() for line in lines])
    if figures:
        several = {"seed": sheet.Several(seeds)} if len(planned) > 1 else {}
        page = sheet.write(figures, title=chapter.title, chapter=chapter,
                           values={**planned[0].values, **several},
                           parts={one.part: one.figures for one in planned},
                           command=command("run", name, profile, overrides, seeds, figures=figures),
                           checks=(counted, unheld))
        said.append(f"contact sheet: {page}")
    return [*said, counted] if counted else said


def make(run: Run, progress: str | None = None) -> list[str]:
    """Execute a run's notebook; the lines of its checks that failed or were not made.

    Raises
    ------
    InputError, ChapterError
        As `execute`.
    """
    from ..evidence.checks import UNMADE  # heavy: matplotlib
    from ..evidence.records import code_in_use

    resumed = checkpoints() / run.checkpoints if run.checkpoints else None
    places = {"figures": run.figures, "records": run.records, "checkpoints": resumed,
              "tables": run.output.parent if run.output else None}
    environment = {f"CLUSTERBOOK_{kind.upper()}": str(Path(place).resolve())
                   for kind, place in places.items() if place is not None}
    if os.environ.get("CLUSTERBOOK_DATA"):      # relative to the person's folder, not to the run's
        environment["CLUSTERBOOK_DATA"] = str(paths.data_home().resolve())
    with _temporary_folder() as folder, _clock(resumed) as times:
        source = folder / f"{run.chapter.name}.ipynb"
        source.write_text(nbformat.writes(run.chapter.notebook), encoding="utf-8")
        # The code that runs is that of the start, even if somebody edits it meanwhile.
        code = code_in_use(run.chapter.name) if run.records else {}
        environment["CLUSTERBOOK_RUN"] = json.dumps({**run.context, **times, **code})
        executed = execute(source, run.output or folder / "executed.ipynb",
                           values=run.context["changed"], environment=environment,
                           progress=progress)
    if run.output and run.records:
        _mark(executed, run)
        write_notebook(executed, run.output)
    if resumed:
        shutil.rmtree(resumed, ignore_errors=True)
    return failed_checks(executed, UNMADE)


def checkpoints() -> Path:
    """The folder of the checkpoints of recorded runs; a finished run removes its own."""
    here = paths.checkout()
    return here / "_build" / "checkpoints" if here else paths.data_home() / "checkpoints"


def command(verb: str, chapter: str, profile: str | None, typed: Mapping[str, str] | None,
            seeds: Sequence[int] | None, **options: object) -> list[str]:
    """The words of a ``clusterbook`` command; *options* that are empty or None are left out."""
    words = ["clusterbook", verb, chapter]
    words += ["--profile", profile] if profile else []
    words += [word for name, text in (typed or {}).items() for word in ("-p", name, text)]
    if seeds is not None:
        in_turn = len(seeds) > 1 and list(seeds) == list(range(seeds[0], seeds[-1] + 1))
        words += ["--seeds", f"{seeds[0]}-{seeds[-1]}" if in_turn else ",".join(map(str, seeds))]
    for option, value in options.items():
        if value:
            words += [f"--{option}", *map(str, value if isinstance(value, list) else [value])]
    return words


def writable(folder: Path, name: str = "") -> None:
    """Make a folder; InputError if a file of that name can't be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{name}."):
            pass
    except OSError as error:
        raise InputError(f"nothing can be written to {folder}: {error.strerror}; name another "
                         "folder") from None


def _refuse_places(planned: Sequence[Run], figures: Path | None, records: Path | None) -> None:
    """Refuse before a run what can't be written, or would replace what no run wrote."""
    from . import sheet

    for folder in dict.fromkeys([figures, *(one.figures for one in planned)]):
        if folder is not None:
            sheet.refuse_figures(folder)
    for one in planned:
        if one.output is not None:
            _refuse_output(one.output, one)
    for output in (one.output for one in planned if one.output):
        writable(output.parent, output.name)
    for folder in filter(None, (figures, records)):
        writable(folder)


def _refuse_output(output: Path, run: Run) -> None:
    if output.is_dir():
        raise InputError(f"--output names the notebook's file, but {output} is a folder")
    if output.suffix != ".ipynb":
        raise InputError(f"--output names a notebook, and {output.name!r} does not end in .ipynb; "
                         f"write {output.stem or 'out'}.ipynb")
    for name, value in run.values.items():
        mine = own_file(value)
        if mine and mine.exists() and output.exists() and mine.samefile(output):
            raise InputError(f"--output {output} is the file that {name} names and would be "
                             "overwritten; name another file")
    if os.path.lexists(output):
        try:
            ids = Chapter("", output, read_notebook(output), {}).cell_ids
        except InputError:
            ids = set()
        if not ids & run.chapter.cell_ids:      # an executed or edited copy keeps them
            raise InputError(f"{output} is not a notebook of {run.chapter.name} and would be "
                             "overwritten; name another file")


def _tables(output: Path | None) -> set[tuple[str, tuple[int, int]]]:
    """The files beside a notebook that begin with its name, each with its state."""
    files = output.parent.glob(f"{glob.escape(output.stem)}-*") if output else ()
    return {(file.name, (file.stat().st_ino, file.stat().st_mtime_ns)) for file in files
            if file.suffix != ".ipynb" and file.is_file()}


# --- records -----------------------------------------------------------------------------------


def _recorded(run: Run):
    """The run's record, if it has the same parameters, code and data as today, or None.

    A parameter that was added after the record counts as its default.
    """
    from .. import evidence
    from ..evidence.verdicts import is_stale, present_code, present_data

    now = present_code([run.chapter.name]), present_data()
    defaults = run.chapter.values()
    for record in evidence.load_records(run.records):
        if f"{record.profile}-seed{record.seed}" == run.name and (
                {**defaults, **record.parameters} == run.values and not is_stale(record, *now)):
            return record
    return None


def _mark(notebook: nbformat.NotebookNode, run: Run) -> None:
    """Title the notebook of a recorded run with profile and seed; add its provenance below."""
    from .. import evidence

    record = next((r for r in evidence.load_records(run.records) if r.profile == run.profile.name
                   and r.seed == run.values.get("seed")), None)
    if record is None:
        raise ChapterError(f"{run.profile.name} ran to its end but left no record in "
                           f"{run.records}: its notebook does not call evidence.record")
    title, _, rest = notebook.cells[0].source.partition("\n")
    notebook.cells[0].source = f"# {record.profile}, seed {record.seed}"
    opening = _provenance(record, run, title.removeprefix("# "))
    notebook.cells.insert(1, new_markdown_cell(opening, metadata={"tags": ["run-head"]}))
    if rest.strip():
        notebook.cells.insert(2, new_markdown_cell(rest.strip()))


_PROVENANCE = """\
**A recorded run, as it was executed.** {says}

The notebook is the chapter [{title}](../../notebooks/{chapter}.ipynb) with these parameters. So \
the sentences are the chapter's; some speak of its default run. Numbers are this run's; a figure \
that shows recorded runs names them. A check that fails here was written for the default \
parameters. Verdicts rest on all seeds.

- Code: {code}
- Machine: {machine}
- Versions: {versions}
- Began: {began} UTC; took {took}; peak memory {memory}
- Data: {data}{assumed}

To repeat it:

```bash
clusterbook run {chapter} --profile {profile} --seeds {seed} --record out --output out/run.ipynb
```"""


def _provenance(record, run: Run, title: str) -> str:
    from ..evidence.views import described

    cells = described([record])
    commit = record.git["commit"]
    assumed = ", ".join(f"`{name}`" for name in record.assumed)
    return _PROVENANCE.format(
        says=run.profile.says, title=title, chapter=record.chapter, profile=record.profile,
        seed=record.seed, machine=cells["Machine"], versions=cells["Versions"],
        code=f"commit `{commit}`" + ("" if record.git["clean"] else ", changed")
        if commit else "in no commit",
        began=record.started[:16].replace("T", " "), took=cells["Time, a seed"],
        memory=cells["Peak memory"], data=f"`{record.data['name']}`" if record.data else "none",
        assumed=f"\n- Chosen here, because no source has them: {assumed}" if assumed else "")


# --- the time of a run that is resumed ---------------------------------------------------------


@contextmanager
def _clock(folder: Path | None) -> Iterator[dict[str, str | float]]:
    """Sum the wall time of a run's pieces in a file beside its checkpoints.

    Yields ``started``, when the first piece began; ``piece``, when this one did (UTC, ISO 8601);
    and ``earlier``, the seconds of the pieces before. A killed piece counts up to its last
    checkpoint, from which the next one resumes.
    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    times = {"started": now, "earlier": 0.0} | _earlier(folder) | {"piece": now}
    if folder is None:
        yield times
        return

    def write(earlier: float, running: bool) -> None:
        content = {**times, "earlier": round(earlier, 3), "running": running}
        write_atomically(folder / "clock.json", json.dumps(content).encode())

    begun = time.monotonic()
    write(times["earlier"], True)
    try:
        yield times
    finally:
        write(times["earlier"] + time.monotonic() - begun, False)


def _earlier(folder: Path | None) -> dict[str, str | float]:
    """The time of the pieces before; empty where there is no checkpoint to resume from."""
    saved = [path.stat().st_mtime for path in folder.glob("*.pt")] if folder else []
    if not saved or not (folder / "clock.json").is_file():
        return {}
    times = json.loads((folder / "clock.json").read_text(encoding="utf-8"))
    if times.pop("running", False):
        begun = datetime.fromisoformat(times["piece"]).timestamp()
        times["earlier"] += max(0.0, max(saved) - begun)
    return times


# --- processes of their own --------------------------------------------------------------------
#
# A run changes its process: papermill moves to another folder. So runs side by side are processes
# side by side.

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_GRACE = 20.0       # seconds for a kernel to end before its process does
_SERVE = "from clusterbook.book import runs; runs._serve()"
_running: dict[subprocess.Popen, str] = {}
_stopped: set[str] = set()


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def processes(number: int, threads: str = "1") -> Iterator[Callable[..., Future]]:
    """Yield a function that submits calls to so many processes; none is left after the block."""
    pool, owner = ThreadPoolExecutor(number), uuid.uuid4().hex
    try:
        yield lambda function, *arguments: pool.submit(apart, owner, threads, function, *arguments)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        stop(owner)
        raise
    finally:
        pool.shutdown()


def apart(owner: str, threads: str, function: Callable, *arguments: Any) -> Any:
    """Call a function in a process of its own; return its result or raise its error.

    The process reads its standard input and ends when that is closed, by `stop` or because this
    process ended.
    """
    environment = {**os.environ, **dict.fromkeys(_THREADS, threads)}
    with tempfile.TemporaryFile() as complaints:
        # -P: nothing is imported from the person's folder.
        process = subprocess.Popen([sys.executable, "-P", "-c", _SERVE], env=environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=complaints, start_new_session=True)
        _running[process] = owner
        try:
            if owner in _stopped:
                _close(process)
            process.stdin.write(pickle.dumps((function, arguments)))
            process.stdin.flush()
            answer = process.stdout.read()
        except (BrokenPipeError, ValueError):       # it has ended, or `stop` came first
            answer = b""
        finally:
            _running.pop(process)
            _close(process)
            status = process.wait()
        complaints.seek(0)
        lines = complaints.read().decode(errors="replace").strip().splitlines()
    if not answer:
        raise ChapterError(f"its process was killed by signal {-status}; probably out of memory"
                           if status < 0 else lines[-1] if lines else f"exit status {status}")
    result = pickle.loads(answer)
    if isinstance(result, Exception):
        raise result
    return result


def stop(owner: str) -> None:
    """End the processes of an owner, and those that it would start."""
    _stopped.add(owner)
    for process, other in list(_running.items()):
        if other == owner:
            _close(process)


def _close(process: subprocess.Popen) -> None:
    with suppress(BrokenPipeError):                 # of what was not yet written
        process.stdin.close()


def _serve() -> None:
    """In the process itself: read a call, make it, write its result or error."""
    signal.signal(signal.SIGINT, signal.default_int_handler)    # also where the shell ignores it
    function, arguments = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    with os.fdopen(os.dup(1), "wb") as answer:
        os.dup2(2, 1)                               # nothing else is printed there
        try:
            result = function(*arguments)
        except (InputError, RuntimeError) as error:
            result = error
        answer.write(pickle.dumps(result))


def _end_with_the_input() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)             # like Ctrl-C
    time.sleep(_GRACE)
    os._exit(130)
