"""Run a chapter with other parameters: strict before it starts, whole or nothing when it ends.

Mistakes in what was typed are found before the first cell runs, and a stopped run leaves no
partial files. The notebook learns from the environment where to leave figures and records (see
`clusterbook.paths`). A recorded run has a folder of checkpoints, beside each of which its training
writes how far it is (`clusterbook.training`): for ``clusterbook status``, and for the progress file
that a stopped run leaves in ``under-way``, beside its records. Its numbers decide no verdict.
"""

import json
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import starmap
from pathlib import Path
from typing import Any

import nbformat

from clusterbook import paths
from clusterbook.checks import InputError, OutOfTime
from clusterbook.figures.showing import LIST, as_asked, files, listed
from clusterbook.paths import write_atomically

from . import config, execution, parameters, slices
from .checks import UNMADE
from .machine import code_in_use
from .parameters import Chapter, Profile
from .records import Record, differing, read_record
from .verdicts import stale_among
from .wording import so_far

PAGE = "index.html"     # the executed notebook, beside the figures of its run
_STAGE = ".clusterbook-"        # begins the name of a folder in which figures wait
MOST_ROWS = 300         # of a training's history in a progress file
_UNITS = {"h": 3600, "m": 60, "s": 1}
_KEPT = ("chapter", "profile", "seed", "parameters", "assumed", "started", "git", "code")


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
        """The profile or chapter with the seed."""
        name = self.profile.name if self.profile else self.chapter.name
        return f"{name}-seed{self.values['seed']}" if "seed" in self.values else name

    @property
    def record(self) -> Path:
        """The file of its record."""
        name = self.profile.name if self.profile else f"{self.chapter.name}-default"
        return self.records / f"{name}-seed{self.values.get('seed')}.json"

    @property
    def checkpoints(self) -> Path:
        """The folder of its checkpoints."""
        return checkpoints() / (self.checkpoint or self.name)

    @property
    def progress(self) -> Path:
        """The file that it leaves with its records if it is stopped."""
        return self.records / "under-way" / f"{self.name}.json"


def run(name: str, *, profile: str | None = None, overrides: Mapping[str, str] | None = None,
        seeds: Sequence[int] | None = None, output: Path | None = None,
        figures: Path | None = None, records: Path | None = None, budget: str | None = None,
        only: Sequence[str] = (), formats: str | None = None, width: str | None = None,
        style: str | None = None, command: str = "") -> list[str]:
    """Run a chapter once, or once per seed; a line for each thing done and each failed check.

    The arguments are those of ``clusterbook run --help``: *overrides* are parameters as typed, and
    *command* is what was typed in all, for the page. A seed with a record of today's parameters,
    code and data is skipped.

    Raises InputError before anything runs, and the errors of `execute`.
    """
    chapter = parameters.read(name)
    chosen = chapter.profile(profile)
    values = chapter.values(chosen, overrides)
    look = as_asked(formats, width, style)
    if records and (overrides or only or not chosen):
        raise InputError("a record is of a profile as it stands: give --profile and no -p or "
                         "--only, or write a profile of your own in notebooks/profiles")
    if budget is not None and not records:
        raise InputError("--for needs --record: only a recorded run can be resumed")
    if look and not figures:
        raise InputError("--format, --width and --style need --figures DIR, where figures are kept")
    seeds = parameters.distinct_seeds(chapter, seeds)
    drawn = _alone(chapter, only, [*(overrides or {}), *(["seed"] if seeds else [])])
    until = math.inf if budget is None else time.time() + seconds(budget)
    planned, several = [], len(seeds) > 1
    for seed in seeds or [None]:
        planned.append(Run(
            chapter, chosen, values if seed is None else {**values, "seed": seed},
            output.with_stem(f"{output.stem}-seed{seed}") if output and several else output,
            figures / f"seed{seed}" if figures and several else figures,
            records, drawn, look, command))
        _refuse_others(planned[-1])
    said, failed = [], []
    for one in planned:
        if records and recorded(one):
            _tidy(one)      # a run that was interrupted just after its record did not
            said.append(f"{one.name}: recorded already, skipped")
            continue
        try:
            if time.time() >= until:
                raise OutOfTime("not begun, because the time given is over")
            failed += [f"{one.name}: {line}" for line in make(one, one.name, until)]
        except OutOfTime as error:
            return [*said, f"{one.name}: {error}; the same command resumes it",
                    *starmap(so_far, reports(one.checkpoints).items())]
        kept = {"notebook": one.output, "figures": one.figures, "record": records,
                "page": one.figures and one.figures / PAGE}
        said += [f"{one.name}: {what} in {where}" for what, where in kept.items() if where]
        if records and read_record(one.record).git["clean"] is False:
            said.append(f"{one.name}: this record confirms no claim, because the checkout has "
                        "changed or new files, which git status names")
    return said + failed


def _alone(chapter: Chapter, names: Sequence[str], given: Sequence[str]) -> list[slices.Drawn]:
    """The figures of these names; InputError if none of the given parameters can change one."""
    if not names:
        return []
    known = chapter.figures()
    drawn = [config.pick(f"figure of {chapter.name}", name, known) for name in dict.fromkeys(names)]
    those = ", ".join(one.name for one in drawn)
    reach = dict.fromkeys(name for one in drawn for name in one.parameters)
    if given and not reach:
        raise InputError(f"no parameter changes {those}; leave out {', '.join(given)}")
    if given and reach.keys().isdisjoint(given):
        raise InputError(f"{those} can't change with {', '.join(given)}, only with: "
                         f"{', '.join(reach)}")
    return drawn


def _refuse_others(run: Run) -> None:
    """Raise InputError if a run might replace what no run wrote, or can't write where it has to.

    An executed notebook has the ids of its chapter's cells; a folder of figures has a list of them.
    """
    if output := run.output:
        if output.suffix != ".ipynb":
            raise InputError(f"--output takes a notebook, not {output.name!r}: write "
                             f"{output.stem or 'out'}.ipynb")
        own_folder(output.parent)
        first = f'"id": "{run.chapter.notebook.cells[0].get("id")}"'
        with suppress(FileNotFoundError):
            if first not in output.read_text("utf-8", errors="replace"):
                raise InputError(f"{output} was not written by a run of {run.chapter.name}; name "
                                 "another file")
    if run.figures:
        own_folder(run.figures, LIST)
        names = {one.name for one in run.only} or run.chapter.figures().keys()
        for one in listed(run.figures):
            if one["name"] in names and one.get("chapter", run.chapter.name) != run.chapter.name:
                raise InputError(f"{run.figures} has a figure {one['name']} of {one['chapter']}; "
                                 "name another folder")
    if run.records:
        own_folder(run.records)


def own_folder(folder: Path, mark: str = "") -> None:
    """Make a folder; InputError if nothing can be written there.

    With *mark*, a folder that has files but none of that name is refused, too.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"nothing can be written to {folder}: {error.strerror}; name another "
                         "folder") from None
    others = [file for file in folder.iterdir() if not file.name.startswith(_STAGE)]
    if mark and others and not (folder / mark).exists():
        raise InputError(f"{folder} is not empty and was not written by a run; name another folder")


@contextmanager
def _or_nothing(checkpoints: Path) -> Iterator[None]:
    """Remove the folder of a run that ends before it has a checkpoint."""
    try:
        yield
    finally:
        if not any(checkpoints.glob("*.pt")):
            shutil.rmtree(checkpoints, ignore_errors=True)


def make(run: Run, progress: str | None = None, until: float = math.inf) -> list[str]:
    """Execute a run's notebook; what it says, and its checks that failed or were not made.

    Figures of an earlier run are replaced at the end, if this one succeeds: see `_publish`. A run
    that is stopped, by Ctrl-C or at the time *until*, leaves its progress file with its records.

    Raises the errors of `execute`, and ChapterError if no record was made that was asked for.
    """
    chapter, beside = run.chapter, run.output       # tables go beside it, but not among chapters
    if beside and beside.resolve() == (
            config.root() / "notebooks" / f"{chapter.name}.ipynb").resolve():
        beside = None
    changed = {name: value for name, value in run.values.items()
               if value != chapter.parameters[name].default}
    context = {"chapter": chapter.name, "profile": run.profile and run.profile.name,
               "parameters": run.values, "changed": changed, "seed": run.values.get("seed"),
               "assumed": sorted(run.profile.assumed) if run.profile else [],
               "folder": run.folder, "output": beside and beside.stem}
    if run.records:             # the code at the beginning, even if it is edited while it runs
        context |= code_in_use(chapter.name) | clock(run.checkpoints, run.command)
    # Figures wait beside those of earlier runs: a full disk leaves these whole.
    with (_or_nothing(run.checkpoints) if run.records else nullcontext(),
          tempfile.TemporaryDirectory(
              prefix="clusterbook-", dir=run.variables.get("TMPDIR")) as folder,
          tempfile.TemporaryDirectory(prefix=_STAGE, dir=run.figures or folder) as drawn):
        source = Path(folder, f"{chapter.name}.ipynb")
        execution.write_notebook(slices.alone(chapter.notebook, run.only) if run.only
                                 else chapter.notebook, source)
        places = {"figures": run.figures and drawn, "records": run.records,
                  "checkpoints": run.records and run.checkpoints,
                  "tables": beside.parent if beside else run.figures, "data": paths.data_home()}
        environment = {f"CLUSTERBOOK_{kind.upper()}": str(Path(place).resolve())
                       for kind, place in places.items() if place}
        environment |= {"CLUSTERBOOK_RUN": json.dumps(context), "CLUSTERBOOK_UNTIL": str(until),
                        "CLUSTERBOOK_ONLY": ",".join(one.name for one in run.only),
                        **run.variables}
        try:
            executed = execution.execute(
                source, run.output or Path(folder, "executed.ipynb"), values=changed,
                environment=environment, progress=progress)
        except (KeyboardInterrupt, OutOfTime) as error:
            found = reports(run.checkpoints) if run.records else {}
            if found and recorded(run):         # stopped just after its record
                _tidy(run)
            elif found:
                _write_progress(run.progress, found, context)
                if isinstance(error, KeyboardInterrupt):
                    epoch = next(iter(found.values()))["epoch"]
                    error.args = (f"the same command resumes from epoch {epoch:,}",)
            raise
        if run.figures:
            _publish(run, Path(drawn), executed)
    if run.records:
        if not run.record.is_file():
            raise execution.ChapterError(f"{run.name} ran to its end but left no record in "
                                         f"{run.records}: its notebook does not call "
                                         "evidence.record")
        if run.output:
            _mark(executed, run)
            execution.write_notebook(executed, run.output)
        _tidy(run)
    return [*execution.told(executed), *execution.failed_checks(executed, UNMADE)]


def _publish(run: Run, drawn: Path, executed: nbformat.NotebookNode) -> None:
    """Put a run's figures into its folder, all of them or none; those of other runs stay.

    The list says which command made which.
    """
    made = [{**one, "chapter": run.chapter.name, "command": run.command} for one in listed(drawn)]
    before, names = listed(run.figures), {one["name"] for one in made}
    kept = [one for one in before if one["name"] not in names]
    says = [run.command, *(f"{one['name']} is of an earlier run: {one.get('command', '')}"
                           for one in kept)]
    content = json.dumps([*kept, *made], ensure_ascii=False, indent=1) + "\n"
    execution.write_page(executed, drawn / PAGE, "\n".join(says))
    write_atomically(drawn / LIST, content.encode())
    new = sorted(drawn.iterdir(), key=lambda file: file.name == LIST)
    for file in new:
        os.replace(file, run.figures / file.name)
    for name in {file for one in before if one not in kept for file in files(one)} - {
            file.name for file in new}:
        (run.figures / name).unlink(missing_ok=True)


def _mark(notebook: nbformat.NotebookNode, run: Run) -> None:
    """Title the notebook of a recorded run with profile and seed, and say what it is."""
    chapter, profile, seed = run.chapter, run.profile.name, run.values.get("seed")
    notebook.cells[0].source = "\n".join([
        f"# {profile}, seed {seed}",
        f"A recorded run of [{chapter.title}](../../notebooks/{chapter.name}.ipynb), as it was "
        "executed; sentences and checks were written for the default parameters. It has a "
        f'<a href="../records/{run.name}.json">record</a>. To repeat it: `clusterbook run '
        f"{chapter.name} --profile {profile} --seeds {seed} --record out`",
        notebook.cells[0].source.partition("\n")[2]])


def _tidy(run: Run) -> None:
    """Remove what a recorded run has kept on its way."""
    shutil.rmtree(run.checkpoints, ignore_errors=True)
    run.progress.unlink(missing_ok=True)


def recorded(run: Run) -> Record | None:
    """The run's record, or None if its parameters, code or data are not today's."""
    if not run.record.exists():
        return None
    record = read_record(run.record)
    if differing(record, run.values) or not record.parameters.keys() <= run.values.keys():
        return None
    # A file of the user's own has no checksum: was it written since?
    begun = datetime.fromisoformat(record.started).timestamp()
    for value in map(str, run.values.values()):
        own = Path(os.path.expanduser(value.removeprefix("folder:")))
        if (own.suffix or value.startswith("folder:")) and os.path.exists(own):
            if any(file.stat().st_mtime >= begun for file in [own, *own.rglob("*")]):
                return None
    return None if stale_among([record]) else record


# --- runs that take days -----------------------------------------------------------------------


def seconds(text: str) -> float:
    """The seconds in a duration such as ``2h``, ``90m`` or ``1h30m``.

    Examples
    --------
    >>> seconds("1h30m")
    5400.0
    """
    if not re.fullmatch(r"(?=.)(\d{1,4}h)?(\d{1,5}m)?(\d{1,6}s)?", text):
        raise InputError(f"--for takes a duration such as 2h, 90m or 1h30m, not {text[:60]!r}")
    return float(sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)(.)", text)))


def checkpoints() -> Path:
    """The folder of the checkpoints of recorded runs; a finished run removes its own."""
    here = config.checkout()
    return here / "_build" / "checkpoints" if here else paths.data_home() / "checkpoints"


def clock(folder: Path, command: str = "") -> dict[str, str | float]:
    """When a run and its present piece began (UTC, ISO 8601), and the seconds of earlier pieces.

    The *command* that was typed is kept too, for `unfinished`.

    They are kept in a file beside the checkpoints. A stopped piece counts up to its last
    checkpoint, from which the next one resumes; without a checkpoint a run begins anew.
    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    times, kept = {"started": now, "earlier": 0.0}, folder / "clock.json"
    saved = [path.stat().st_mtime for path in folder.glob("*.pt")]
    if saved and kept.is_file():
        times = config.load_json(kept)
        begun = datetime.fromisoformat(times["piece"]).timestamp()
        times["earlier"] += max(0.0, max(saved) - begun)
    times |= {"piece": now, "command": command}
    write_atomically(kept, json.dumps(times).encode())
    return times


def reports(folder: Path) -> dict[str, dict[str, Any]]:
    """What the trainings of a run reported last, by their checkpoints' names; finished ones last.
    """
    found = {path.stem: config.load_json(path) for path in sorted(folder.glob("*.json"))
             if path.with_suffix(".pt").exists()}
    return dict(sorted(found.items(), key=lambda report: report[1]["epoch"] == report[1]["epochs"]))


def _write_progress(path: Path, trainings: Mapping[str, Any], context: Mapping[str, Any]) -> None:
    """Write a stopped run's progress file.

    It holds what a record would (chapter, profile, seed, parameters, commit, code), and for each
    training its epochs, pace and last `MOST_ROWS` rows.
    """
    content = {key: context[key] for key in _KEPT} | {"trainings": {
        name: report | {"rows": report["rows"][-MOST_ROWS:]}
        for name, report in trainings.items()}}
    write_atomically(path, json.dumps(content, indent=1).encode())


def unfinished() -> str:
    """A paragraph for each unfinished run: its trainings, and the command that resumes it."""
    said = []
    for folder in sorted({path.parent for path in checkpoints().glob("*/*.pt")}):
        typed = config.load_json(folder / "clock.json").get("command")
        said.append("\n    ".join([folder.name, *starmap(so_far, reports(folder).items()),
                                   f"resume: {typed or 'the same command again'}"]))
    return "\n\n".join(said) or "no run is unfinished"
