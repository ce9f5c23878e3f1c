"""Run a chapter with other parameters: strict before it starts, whole or nothing when it ends.

Mistakes in what was typed are found before the first cell runs, and a stopped run leaves no
partial files. The notebook learns from the environment where to leave figures and records (see
`clusterbook.paths`).
"""

from __future__ import annotations

import glob
import json
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_markdown_cell

from clusterbook import paths
from clusterbook.checks import one_of
from clusterbook.errors import InputError, OutOfTime
from clusterbook.figures.showing import LIST, as_asked, listed
from clusterbook.paths import write_atomically
from clusterbook.progress import bar

from . import parameters, slices, underway
from .checks import UNMADE
from .execution import (
    FAILED_CHECK,
    ChapterError,
    cores,
    execute,
    failed_checks,
    outputs,
    plain,
    processes,
    write_notebook,
    write_page,
)
from .machine import code_in_use
from .parameters import Chapter, Profile
from .records import Record, differing, read_record
from .verdicts import stale_among
from .views import described

__all__ = ["FAILED_CHECK", "ChapterError", "Run", "cores", "execute", "failed_checks", "make",
           "outputs", "plain", "processes", "recorded", "run", "write_notebook"]

PAGE = "index.html"     # the executed notebook, beside the figures of its run


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
    variables: Mapping[str, str] = field(default_factory=dict)      # more ones for its kernel
    command: str = ""                   # what was typed
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
    *command* is what was typed in all, for the page. A seed with a record of today's parameters,
    code and data is skipped.

    Raises InputError before anything runs, and the errors of `execute`.
    """
    chapter = parameters.read(name)
    chosen = chapter.profile(profile)
    values = chapter.values(chosen, overrides)
    look = as_asked(formats, width, style)
    for wrong, says in (
            (records and (overrides or not chosen),
             "a record belongs to a profile as it stands: give --profile and no -p with --record, "
             "or write a profile of your own in notebooks/profiles"),
            (budget and not records,
             "--for needs --record: only recorded runs keep a checkpoint to resume from"),
            (records and only, "a record is of a whole run: leave out --only or --record"),
            (look and not figures,
             "--format, --width and --style need --figures DIR, where figures are kept")):
        if wrong:
            raise InputError(says)
    drawn = _alone(chapter, only, [*(overrides or {}), *(["seed"] if seeds else [])])
    until = time.time() + underway.seconds(budget) if budget else math.inf
    if seeds:
        chapter.parameter("seed")       # refuses a chapter without it
    planned, several = [], len(seeds or ()) > 1
    for seed in seeds or [None]:
        planned.append(Run(
            chapter, chosen, values if seed is None else {**values, "seed": seed},
            output.with_stem(f"{output.stem}-seed{seed}") if output and several else output,
            figures / f"seed{seed}" if figures and several else figures,
            records, drawn, look, command))
        refuse_others(planned[-1])
    said, problems = [], []
    for one in bar(planned, "seeds", unit="run", progress=None if several else False):
        try:
            done, lines = _once(one, until)
        except OutOfTime as error:
            return [*said, f"{one.name}: {error}; the same command resumes it",
                    *underway.lines(one.checkpoints)]
        said += [f"{one.name}: {line}" for line in done]
        problems += [(one.name, line) for line in lines]
    if figures and overrides and not only:
        for name in overrides:
            fixed = [one.name + " (recorded)" * one.recorded for one in chapter.figures().values()
                     if name not in one.parameters]
            said += [f"-p {name} can't change {', '.join(fixed)}"] if fixed else []
    if problems:
        wrong = sum(line.startswith(FAILED_CHECK) for _, line in problems)
        said += [f"checks: {wrong} failed, {len(problems) - wrong} not made",
                 *(f"{name}: {line}" for name, line in problems)]
    return said


def _alone(chapter: Chapter, names: Sequence[str], given: Sequence[str]) -> list[slices.Drawn]:
    """The figures of these names; InputError if a given parameter reaches none of them."""
    if not names:
        return []
    known = chapter.figures()
    for name in names:
        one_of(f"figure of {chapter.name}", name, known)
    drawn = [known[name] for name in dict.fromkeys(names)]
    reached = [one for one in chapter.parameters if any(one in each.parameters for each in drawn)]
    for name in given:
        if name not in reached:
            recorded = " (drawn from records)" * all(each.recorded for each in drawn)
            raise InputError(f"{', '.join(each.name for each in drawn)} can't change with {name}, "
                             f"only with: {', '.join(reached) or 'no parameter'}{recorded}")
    return drawn


def refuse_others(run: Run) -> None:
    """Raise InputError if a file that no run of the chapter wrote is in the way of a new one.

    An executed notebook has the ids of its chapter's cells. A folder of figures has a list of what
    runs left there.
    """
    others, output = [], run.output
    if output and output.suffix != ".ipynb":
        raise InputError(f"--output names a notebook, and {output.name!r} does not end in .ipynb; "
                         f"write {output.stem or 'out'}.ipynb")
    for folder, name in ((output and output.parent, output and output.name), (run.figures, ""),
                         (run.records, "")):
        if folder:
            writable(folder, name)
    if output and os.path.lexists(output):
        first = f'"id": "{run.chapter.notebook.cells[0].get("id")}"'
        if not output.is_file() or first not in output.read_text("utf-8", errors="replace"):
            others.append(output)
    if run.figures:
        page, kept = run.figures / PAGE, run.figures / LIST
        try:
            known = {entry["name"] for entry in listed(run.figures)}
        except (OSError, TypeError, ValueError, KeyError):
            known, others = set(), [*others, kept]
        others += [page] * (page.exists() and not kept.is_file())
        wanted = [one.name for one in run.only] or run.chapter.figures()
        for name in set(wanted) - known:
            pattern = re.compile(rf"{name}(-\d+)?\.(csv|pdf|png|svg)")
            others += [path for path in run.figures.iterdir() if pattern.fullmatch(path.name)]
    if others:
        raise InputError(f"{others[0]} was not written by a run of {run.chapter.name} and might be "
                         "replaced; name another place")


def writable(folder: Path, name: str = "") -> None:
    """Make a folder; InputError if a file of that name can't be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{name}."):
            pass
    except OSError as error:
        raise InputError(f"nothing can be written to {folder}: {error.strerror}; name another "
                         "folder") from None


def _once(run: Run, until: float) -> tuple[list[str], list[str]]:
    """Make a run that is not recorded: what was done, and the lines of checks that failed."""
    if run.records and (record := recorded(run, run.records / f"{run.name}.json")):
        _tidy(run)      # a run that was interrupted just after its record did not
        return (["recorded already, skipped"],
                [FAILED_CHECK + id for id, held in record.checks.items() if not held])
    begun = time.time()
    if begun >= until:
        raise OutOfTime("not begun, because the time given is over")
    with underway.reported(run.checkpoints) if run.records else nullcontext():
        failed = make(run, run.name, until)
    kept = {"notebook": run.output, "figures": run.figures, "record": run.records,
            "page": run.figures and run.figures / PAGE}
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
        context |= code_in_use(chapter.name) | underway.clock(run.checkpoints)
    with tempfile.TemporaryDirectory(
            prefix="clusterbook-", dir=run.variables.get("TMPDIR")) as folder:
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
                        "CLUSTERBOOK_ONLY": ",".join(one.name for one in run.only),
                        **run.variables}
        try:
            executed = execute(source, run.output or Path(folder, "executed.ipynb"),
                               values=changed, environment=environment, progress=progress)
        except (KeyboardInterrupt, OutOfTime) as error:
            reports = underway.reports(run.checkpoints) if run.records else {}
            if reports:
                underway.write(underway.file(run.records, run.name), reports, context)
            if reports and isinstance(error, KeyboardInterrupt):
                epoch = next(iter(reports.values()))["epoch"]
                raise KeyboardInterrupt(
                    f"the same command resumes from epoch {epoch:,}") from None
            raise
        if run.figures:
            _keep_figures(drawn, run.figures)
            write_page(executed, run.figures / PAGE, run.command)
    if run.output and run.records:
        _mark(executed, run)
        write_notebook(executed, run.output)
    if run.records:
        _tidy(run)
    return failed_checks(executed, UNMADE)


def _tidy(run: Run) -> None:
    """Remove what a recorded run has kept on its way."""
    shutil.rmtree(run.checkpoints, ignore_errors=True)
    underway.file(run.records, run.name).unlink(missing_ok=True)


def _keep_figures(drawn: Path, folder: Path) -> None:
    """Replace a run's figures in a folder, each file whole, and list them with the earlier ones."""
    entries = {entry["name"]: entry for entry in [*listed(folder), *listed(drawn)]}
    content = json.dumps(list(entries.values()), ensure_ascii=False, indent=1) + "\n"
    write_atomically(folder / LIST, content.encode())       # first: what is listed may be replaced
    for file in sorted(drawn.iterdir()):
        if file.name != LIST:
            write_atomically(folder / file.name, file.read_bytes())


# --- records -----------------------------------------------------------------------------------


def recorded(run: Run, path: Path) -> Record | None:
    """The run's record in that file, or None if its parameters, code or data are not today's."""
    if not path.exists():
        return None
    record = read_record(path)
    if differing(record, run.values) or not record.parameters.keys() <= run.values.keys():
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
