"""Run a chapter with other parameters: papermill's injection, made strict.

Mistakes in what was typed are found before the first cell runs. An error that the library raised
for the user comes back as its one sentence, and a stopped run leaves no partial files. The
notebook learns from the environment where to leave figures, records and checkpoints (see
`clusterbook.paths`).
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell

from .. import paths
from ..errors import InputError, OutOfTime
from ..paths import write_atomically
from ..progress import bar
from . import parameters, underway
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
    OutOfTime
        If a training reached the deadline in ``CLUSTERBOOK_UNTIL``.
    ChapterError
        If a cell failed otherwise, or the kernel died.
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
    variables = {**os.environ, "CLUSTERBOOK_PROGRESS": _terminal() if progress else "off",
                 **(environment or {})}
    with tempfile.TemporaryDirectory(prefix="clusterbook-") as work:
        client = NotebookClient(
            notebook, timeout=None, kernel_name="python3", record_timing=False,
            resources={"metadata": {"path": work}},
            # An unencrypted kernel warns on the terminal, once a run.
            config=Config({"KernelManager": {"transport_encryption": "auto"}}))
        try:
            with client.setup_kernel(env=variables, stderr=subprocess.DEVNULL):
                for i, cell in enumerate(bar(notebook.cells, progress or "", unit="cell",
                                             progress=None if progress else False)):
                    client.execute_cell(cell, i)
                about = client.wait_for_reply(client.kc.kernel_info())["content"]
                notebook.metadata.language_info = about["language_info"]
        except CellExecutionError as error:
            message = plain(error.evalue)
            if error.ename == InputError.__name__:
                raise InputError(message) from None
            if error.ename == OutOfTime.__name__:
                raise OutOfTime(message) from None
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
    checkpoints: str = ""               # the folder's name in `checkpoints`, if not that of the run
    part: str = ""                      # which of several runs: "seed 3"
    folder: str = field(default_factory=lambda: str(Path.cwd()))    # of the user

    @property
    def name(self) -> str:
        """The profile or chapter with the seed; also the name of a profile's record."""
        name = self.profile.name if self.profile else self.chapter.name
        return f"{name}-seed{self.values['seed']}" if "seed" in self.values else name


def run(name: str, *, profile: str | None = None, overrides: Mapping[str, str] | None = None,
        seeds: Sequence[int] | None = None, output: Path | None = None,
        figures: Path | None = None, records: Path | None = None, budget: str | None = None,
        command: str = "") -> list[str]:
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
    budget : str, optional
        A duration such as ``2h``, after which trainings stop at the end of their epoch. The same
        call goes on from there.
    command : str
        What was typed, for the contact sheet.

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
    if budget is not None and records is None:
        raise InputError("--for needs --record: only recorded runs keep a checkpoint to go on from")
    until = time.time() + underway.seconds(budget) if budget else math.inf
    if seeds and "seed" not in values:
        raise InputError(f"{name} has no parameter 'seed'; --seeds can't repeat it")
    planned = [Run(chapter, chosen, values, output, figures, records)]
    if seeds:
        planned = [replace(planned[0], values={**values, "seed": seed}) for seed in seeds]
    if len(planned) > 1:        # each in places of its own
        planned = [replace(
            one, part=f"seed {seed}", figures=figures and figures / f"seed{seed}",
            output=output and output.with_stem(f"{output.stem}-seed{seed}"))
            for seed, one in zip(seeds, planned, strict=True)]
    for one in planned:
        if one.output:
            _refuse_output(one.output, chapter)
            writable(one.output.parent, one.output.name)
    for folder in dict.fromkeys([figures, *(one.figures for one in planned)] if figures else []):
        sheet.refuse_others(folder)
    for folder in filter(None, (figures, records)):
        writable(folder)

    said, failed, stopped = [], {}, []
    for one in bar(planned, "seeds", unit="run", progress=None if len(planned) > 1 else False):
        if records and (record := recorded(one, records / f"{one.name}.json")):
            said.append(f"{one.name}: recorded already, skipped")
            failed[one.part] = [FAILED_CHECK + id for id, held in record.checks.items() if not held]
            continue
        begun = time.time() - 1         # a file system's clock may be behind
        try:
            if time.time() >= until:
                raise OutOfTime("not begun, because the time given is over")
            failed[one.part] = make(one, one.name, until)
        except OutOfTime as error:
            said.append(f"{one.name}: {error}; the same command goes on")
            said += [f"    {line}" for line in underway.lines(checkpoints() / one.name)]
            stopped.append(one)
            continue
        if figures:
            (figures / sheet.PAGE).unlink(missing_ok=True)      # of an earlier run
        kept = {"notebook": one.output, "figures": one.figures, "record": records}
        said += [f"{one.name}: {what} in {where}" for what, where in kept.items() if where]
        beside = one.output.parent.glob("*.csv") if one.output else ()
        tables = sorted(file.name for file in beside if file.stat().st_mtime >= begun
                        and file.name.startswith(f"{one.output.stem}-"))
        if tables:
            said.append(f"{one.name}: tables {', '.join(tables)} in {one.output.parent}")
    lines = [f"{part}: {line}" if part else line for part in failed for line in failed[part]]
    wrong = sum(line.startswith(FAILED_CHECK) for part in failed for line in failed[part])
    counted = f"checks: {wrong} failed, {len(lines) - wrong} not made"
    if figures and not stopped:
        page = sheet.write(figures, title=chapter.title, chapter=chapter,
                           values=[one.values for one in planned],
                           parts={one.part: one.figures for one in planned},
                           command=command, problems=[counted, *lines] if lines else [])
        said.append(f"contact sheet: {page}")
    return [*said, counted] if lines else said


def make(run: Run, progress: str | None = None, until: float = math.inf) -> list[str]:
    """Execute a run's notebook; the lines of its checks that failed or were not made.

    Figures of an earlier run are replaced at the end, if this one succeeds. A run that is stopped,
    by Ctrl-C or at the time *until*, leaves its progress file with its records.

    Raises
    ------
    InputError, ChapterError
        As `execute`.
    """
    from ..evidence.checks import UNMADE  # heavy: matplotlib
    from ..evidence.records import code_in_use
    from ..figures.showing import LIST

    chapter, seed = run.chapter, run.values.get("seed")
    changed = chapter.changed(run.values)
    resumed = checkpoints() / (run.checkpoints or run.name) if run.records else None
    with tempfile.TemporaryDirectory(prefix="clusterbook-") as folder:
        source, drawn = Path(folder, f"{chapter.name}.ipynb"), Path(folder, "figures")
        drawn.mkdir()
        write_notebook(chapter.notebook, source)
        context = {"chapter": chapter.name, "profile": run.profile and run.profile.name,
                   "parameters": dict(run.values), "changed": changed, "seed": seed,
                   "assumed": sorted(run.profile.assumed) if run.profile else [],
                   "folder": run.folder, **_times(resumed)}
        if run.records:         # even if the code is edited while it runs
            context |= code_in_use(chapter.name)
        if run.output:
            context["output"] = run.output.stem
        places = {"figures": drawn if run.figures else None, "records": run.records,
                  "checkpoints": resumed, "tables": run.output and run.output.parent,
                  "data": paths.data_home()}
        environment = {f"CLUSTERBOOK_{kind.upper()}": str(Path(place).resolve())
                       for kind, place in places.items() if place is not None}
        environment["CLUSTERBOOK_RUN"] = json.dumps(context)
        environment["CLUSTERBOOK_UNTIL"] = str(until)
        try:
            with underway.reported(resumed):
                executed = execute(source, run.output or Path(folder, "executed.ipynb"),
                                   values=changed, environment=environment, progress=progress)
        except (KeyboardInterrupt, OutOfTime):
            if resumed and underway.reports(resumed):
                underway.write(run.records, run.name, resumed, context)
            raise
        if run.figures:
            (run.figures / LIST).unlink(missing_ok=True)
            shutil.copytree(drawn, run.figures, dirs_exist_ok=True)
    if run.output and run.records:
        _mark(executed, run)
        write_notebook(executed, run.output)
    if resumed:
        shutil.rmtree(resumed, ignore_errors=True)
        (run.records / underway.FOLDER / f"{run.name}.json").unlink(missing_ok=True)
    return failed_checks(executed, UNMADE)


def checkpoints() -> Path:
    """The folder of the checkpoints of recorded runs; a finished run removes its own."""
    here = paths.checkout()
    return here / "_build" / "checkpoints" if here else paths.data_home() / "checkpoints"


def writable(folder: Path, name: str = "") -> None:
    """Make a folder; InputError if a file of that name can't be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{name}."):
            pass
    except OSError as error:
        raise InputError(f"nothing can be written to {folder}: {error.strerror}; name another "
                         "folder") from None


def _refuse_output(output: Path, chapter: Chapter) -> None:
    """Refuse a file that is no notebook of this chapter; an executed copy keeps its cells' ids."""
    if output.suffix != ".ipynb":
        raise InputError(f"--output names a notebook, and {output.name!r} does not end in .ipynb; "
                         f"write {output.stem or 'out'}.ipynb")
    ids = set()
    with suppress(InputError):
        ids = {cell.get("id") for cell in read_notebook(output).cells}
    if os.path.lexists(output) and not ids & chapter.cell_ids:
        raise InputError(f"{output} is not a notebook of {chapter.name} and would be overwritten; "
                         "name another file")


def _times(folder: Path | None) -> dict[str, str | float]:
    """When a run and its present piece began (UTC, ISO 8601), and the seconds of earlier pieces.

    They are kept in a file beside the checkpoints. A stopped piece counts up to its last
    checkpoint, from which the next one resumes; without a checkpoint a run begins anew.
    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    times = {"started": now, "piece": now, "earlier": 0.0}
    if folder is None:
        return times
    clock = folder / "clock.json"
    saved = [path.stat().st_mtime for path in folder.glob("*.pt")]
    if saved and clock.is_file():
        times = json.loads(clock.read_text(encoding="utf-8"))
        begun = datetime.fromisoformat(times["piece"]).timestamp()
        times["earlier"] += max(0.0, max(saved) - begun)
        times["piece"] = now
    write_atomically(clock, json.dumps(times).encode())
    return times


# --- records -----------------------------------------------------------------------------------


def recorded(run: Run, path: Path):
    """The run's record in that file, or None if its parameters, code or data are not today's.

    A parameter that was added after the record counts as its default.
    """
    from ..evidence.records import plain, read_record
    from ..evidence.verdicts import is_stale, present_code

    if not path.exists():
        return None
    record = read_record(path)
    defaults = plain(run.chapter.values())
    if {**defaults, **record.parameters} != plain(run.values):
        return None
    if is_stale(record, present_code([run.chapter.name])):
        return None
    # A file of the user's own has no checksum: was it written since?
    begun = datetime.fromisoformat(record.started).timestamp()
    own = [path for path in map(own_file, run.values.values()) if path]
    files = [one for path in own for one in [path, *path.rglob("*")] if one.exists()]
    return None if any(file.stat().st_mtime >= begun for file in files) else record


def _mark(notebook: nbformat.NotebookNode, run: Run) -> None:
    """Title the notebook of a recorded run with profile and seed; add its provenance below."""
    from ..evidence.records import read_record
    from ..evidence.views import described

    path = run.records / f"{run.name}.json"
    if not path.is_file():
        raise ChapterError(f"{run.name} ran to its end but left no record in {run.records}: its "
                           "notebook does not call evidence.record")
    record = read_record(path)
    title, _, rest = notebook.cells[0].source.partition("\n")
    about = described([record]) | {
        "Data": record.data["name"] if record.data else "none",
        "Chosen here, because no source has them": ", ".join(record.assumed) or "none"}
    opening = _PROVENANCE.format(
        says=run.profile.says, title=title.removeprefix("# "), chapter=record.chapter,
        profile=record.profile, seed=record.seed,
        about="\n".join(f"- {head}: {cell}" for head, cell in about.items()))
    notebook.cells[0].source = f"# {record.profile}, seed {record.seed}"
    notebook.cells.insert(1, new_markdown_cell(opening, metadata={"tags": ["run-head"]}))
    if rest.strip():
        notebook.cells.insert(2, new_markdown_cell(rest.strip()))


_PROVENANCE = """\
**A recorded run, as it was executed.** {says}

The notebook is the chapter [{title}](../../notebooks/{chapter}.ipynb) with these parameters. Its \
sentences and checks were written for the default ones. Verdicts rest on all seeds.

{about}

To repeat it:

```bash
clusterbook run {chapter} --profile {profile} --seeds {seed} --record out --output out/run.ipynb
```"""
