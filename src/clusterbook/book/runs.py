"""Run a chapter with other parameters: papermill, made strict.

Everything that can be wrong in what was typed is found before the first cell runs; an error that
the library raised for the person who typed comes back as its one sentence; a run that is stopped
leaves no half-written file. The notebook learns where to leave its figures, its record and its
checkpoints from the environment (see `clusterbook.paths`).
"""

from __future__ import annotations

import errno
import glob
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import nbformat

from .. import evidence, paths
from ..errors import InputError
from ..evidence.checks import UNMADE
from ..evidence.records import code_in_use
from ..evidence.verdicts import is_stale, present_code, present_data
from ..paths import write_atomically
from . import clock, ours, pages, parameters, sheet
from .grid import own_file

#: How a failed check reads in a notebook's output (see `clusterbook.evidence.check`).
FAILED_CHECK = "✗ "


class ChapterError(RuntimeError):
    """A chapter failed: which one, which cell, which error."""


class KernelDied(ChapterError):
    """A chapter's kernel was gone in the middle of a cell."""


def execute(source: Path, output: Path, *, values: Mapping[str, Any] | None = None,
            environment: Mapping[str, str] | None = None, progress: str | None = None
            ) -> nbformat.NotebookNode:
    """Execute a notebook, write the executed one, whole or not at all, and return it.

    Parameters
    ----------
    source, output : Path
        The notebook, and where its executed copy goes.
    values : mapping, optional
        Parameters to inject after the cell tagged ``parameters``.
    environment : mapping, optional
        Variables for the notebook's kernel.
    progress : str, optional
        Label of a progress bar over cells; in a terminal the notebook's own bars move below it.
        Without it no bar is shown.

    Raises
    ------
    InputError
        If a cell raised one: the same sentence. Also if a file can't be written.
    ChapterError
        If a cell failed otherwise: chapter, cell, error. Also if the kernel died.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from traitlets.config import Config

    # It logs parameters that its regular expression can't find, and a kernel that died: the first
    # are checked already, the second is an error below.
    logging.getLogger("papermill").setLevel(logging.CRITICAL)

    with _temporary_folder() as folder:
        draft = folder / source.name
        work = folder / "work"
        work.mkdir()
        try:
            with _environment({"CLUSTERBOOK_PROGRESS": _terminal() if progress else "off",
                               **(environment or {})}):
                papermill.execute_notebook(
                    _braces(source), _braces(draft), dict(values or {}), cwd=_braces(work),
                    kernel_name="python3", kernel_manager_class=_quiet_kernel(),
                    progress_bar={"desc": progress, "leave": False} if progress else False,
                    # An unencrypted kernel warns on the terminal, once a run.
                    config=Config({"KernelManager": {"transport_encryption": "auto"}}),
                )
        except PapermillExecutionError as error:
            message = plain(error.evalue)
            if error.ename == InputError.__name__:
                raise InputError(message) from None
            raise ChapterError(f"{source.stem}, cell {error.exec_count} failed: {error.ename}: "
                               f"{message}\n{_excerpt(error.source or '')}") from None
        except KeyboardInterrupt:
            # The stopped cell's task ends unheard; asyncio would print its traceback at the end.
            logging.getLogger("asyncio").setLevel(logging.CRITICAL)
            raise
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise InputError(f"the run can't go on, {folder.parent} is full: {error.strerror}; "
                             "make room, or name another folder in TMPDIR") from error
        except DeadKernelError:
            raise KernelDied(f"{source.stem} failed: its kernel died in the middle of a cell; "
                             "most often the memory did not suffice") from None
        executed = nbformat.read(draft, as_version=4)
        clean(executed)
        write_atomically(output, (nbformat.writes(executed) + "\n").encode())
        return executed


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


def _quiet_kernel() -> type:
    """A kernel whose own complaints, such as a traceback when it is stopped, reach no terminal."""
    from jupyter_client.manager import AsyncKernelManager

    class QuietKernel(AsyncKernelManager):
        async def start_kernel(self, **options: Any) -> None:
            await super().start_kernel(**options, stderr=subprocess.DEVNULL)

    return QuietKernel


def _braces(path: Path) -> str:
    # Papermill reads {…} in a path as a field to fill in.
    return str(path).replace("{", "{{").replace("}", "}}")


def plain(text: str) -> str:
    """A text of a terminal without its colors."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).strip()


def _excerpt(source: str) -> str:
    lines = source.strip().splitlines()
    return "\n".join(f"    {line}" for line in lines[:12]) + ("\n    …" if len(lines) > 12 else "")


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_INJECTED = "# Set by clusterbook run; this replaces the values of the parameters cell above."


def clean(notebook: nbformat.NotebookNode) -> None:
    """Remove what differs between two equal runs: papermill's metadata and timings, in place.

    The cell that papermill put in says what it is, for who edits the one above it.
    """
    notebook.metadata.pop("papermill", None)
    for cell in notebook.cells:
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.source = cell.source.replace("# Parameters\n", f"{_INJECTED}\n", 1)
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
        if not cell.metadata.get("tags", True):
            cell.metadata.pop("tags")


def outputs(notebook: nbformat.NotebookNode) -> Iterator[str]:
    """Every plain-text output of a notebook, in order."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            yield "".join(text)


def failed_checks(notebook: nbformat.NotebookNode) -> list[str]:
    """The lines of all checks that did not hold."""
    return [line for line in unheld_checks(notebook) if line.startswith(FAILED_CHECK)]


def unheld_checks(notebook: nbformat.NotebookNode) -> list[str]:
    """The lines of all checks that did not hold or were not made."""
    return [line for text in outputs(notebook) for line in text.splitlines()
            if line.startswith((FAILED_CHECK, UNMADE))]


def tally(unheld: Mapping[str, Sequence[str]]) -> str:
    """How many checks of some runs do not hold or were not made; empty where all hold.

    Examples
    --------
    >>> tally({"": ["✗ it converges", "✗ it is near", "not checked: seeds agree"]})
    '2 checks of this run do not hold, 1 was not made'
    >>> tally({"seed 0": ["✗ it converges"], "seed 1": []})
    '1 check of these runs does not hold'
    """
    lines = [line for one in unheld.values() for line in one]
    failed = sum(line.startswith(FAILED_CHECK) for line in lines)
    counts = [(failed, "does not hold", "do not hold"),
              (len(lines) - failed, "was not made", "were not made")]
    parts = [f"{n} {singular if n == 1 else plural}" for n, singular, plural in counts if n]
    if not parts:
        return ""
    number, rest = parts[0].split(" ", 1)
    runs = "this run" if len(unheld) == 1 else "these runs"
    return ", ".join([f"{number} check{'' if number == '1' else 's'} of {runs} {rest}", *parts[1:]])


def run(chapter: str, *, profile: str | None = None, overrides: Mapping[str, str] | None = None,
        seeds: Sequence[int] | None = None, output: Path | None = None,
        figures: Path | None = None, records: Path | None = None, progress: bool = False
        ) -> list[str]:
    """Run a chapter once, or once per seed; see ``clusterbook run --help``.

    Parameters
    ----------
    chapter, profile, overrides
        See `~clusterbook.book.parameters.resolve`.
    seeds : sequence of int, optional
        Repeat the run with each as its ``seed``. A seed whose record is there, made by today's
        code with today's parameters, is skipped.
    output : Path, optional
        Where the executed notebook goes; with several seeds ``-seed0`` … is added to its name. That
        of a recorded run begins with the run's provenance.
    figures, records : Path, optional
        Folders for figure files, over which a contact sheet is written, and for records. Figures
        are put there when their run has ended.
    progress : bool
        Show bars over seeds and cells.

    Returns
    -------
    list of str
        What was done, a line each.

    Raises
    ------
    InputError, ChapterError
        See `execute`.
    """
    values = parameters.resolve(chapter, profile, overrides)
    source = parameters.notebook_path(chapter)
    if records is not None and (profile is None or overrides):
        raise InputError("a record belongs to a profile as it stands: give --profile and no -p "
                         "with --record, or write a profile of your own in notebooks/profiles")
    if seeds is not None and "seed" not in values:
        raise InputError(f"{chapter} has no parameter 'seed'; --seeds can't repeat it")
    turns = [_turn(profile or chapter, values if seed is None else {**values, "seed": seed},
                   f"seed{seed}" if len(seeds or ()) > 1 else "", output, figures, records)
             for seed in seeds or [None]]
    _refuse_places(source, turns, figures)
    said: list[str] = []
    unheld: dict[str, list[str]] = {}
    for turn in _bar(turns, progress and len(turns) > 1):
        told = turn.part.replace("seed", "seed ")
        if records is not None and (record := _recorded(records, turn.name, chapter, turn.values)):
            said.append(f"{turn.name}: recorded already, skipped")
            unheld[told] = [f"{FAILED_CHECK}{id}" for id, held in record.checks.items() if not held]
            continue
        with sheet.drawing(figures, turn.part) as draft, _new_tables(turn) as tables:
            unheld[told] = one(source, context(chapter, profile, turn.values, turn.target),
                               turn.target, {**turn.places, "figures": draft},
                               turn.name if progress else None)
        kept = {"notebook": turn.target, "figures": turn.places["figures"], "record": records}
        said += [f"{turn.name}: {what} in {where}" for what, where in kept.items() if where]
        if tables:
            said.append(f"{turn.name}: tables {', '.join(tables)} in {turn.places['tables']}")
    counted = tally(unheld)
    if figures:
        seed = {"seed": sheet.Several(seeds)} if len(turns) > 1 else {}
        page = sheet.write(
            figures, title=sheet.title_of(source),
            parts={turn.part.replace("seed", "seed "): turn.places["figures"] for turn in turns},
            settings=sheet.folded(counted, unheld)
            + sheet.settings(chapter, turns[0].values | seed),
            command=command("run", chapter, profile, overrides, seeds, figures=figures))
        said.append(f"contact sheet: {page}")
    return [*said, counted] if counted else said


class _Turn(NamedTuple):
    """One of the runs that were asked for, and where it leaves things."""

    name: str
    part: str                           # folder in that of the figures, if there are several runs
    values: dict[str, Any]
    target: Path | None                 # the executed notebook
    places: dict[str, Path | None]      # see `one`


def _turn(name: str, values: dict[str, Any], part: str, output: Path | None, figures: Path | None,
          records: Path | None) -> _Turn:
    name = f"{name}-seed{values['seed']}" if "seed" in values else name
    target = output.with_stem(f"{output.stem}-{part}") if output and part else output
    return _Turn(name, part, values, target, {
        "figures": figures / part if figures else None,
        "records": records,
        "checkpoints": checkpoints() / name if records else None,
        "tables": target.parent if target else None,
    })


def _refuse_places(source: Path, turns: Sequence[_Turn], figures: Path | None) -> None:
    """Refuse what can't be written, and what would replace anything that no run wrote."""
    records = turns[0].places["records"]
    if figures is not None:
        for folder in dict.fromkeys([figures, *(turn.places["figures"] for turn in turns)]):
            ours.refuse_figures(folder)
    for turn in turns:
        if (target := turn.target) is not None:
            if target.is_dir():
                raise InputError(f"--output names the notebook's file, but {target} is a folder")
            if target.suffix != ".ipynb":
                raise InputError(f"--output names a notebook, and {target.name!r} does not end in "
                                 f".ipynb; write {target.stem or 'out'}.ipynb")
            for name, value in turn.values.items():
                mine = own_file(value)
                if mine and mine.exists() and target.exists() and mine.samefile(target):
                    raise InputError(f"--output {target} is the file that {name} names and would "
                                     "be overwritten; name another file")
            ours.refuse_notebook(target, source)
        if records is not None:
            ours.refuse_record(records, turn.name)
    for target in filter(None, (turn.target for turn in turns)):
        writable(target.parent, target.name)
    for folder in filter(None, (figures, records)):
        writable(folder)


@contextmanager
def _new_tables(turn: _Turn) -> Iterator[list[str]]:
    """A list that at the end of the block has the files which a run put beside its notebook."""
    def there() -> dict[str, tuple[int, int]]:
        if turn.target is None:
            return {}
        files = turn.target.parent.glob(f"{glob.escape(turn.target.stem)}-*")
        return {file.name: (state.st_ino, state.st_mtime_ns) for file in files
                if file.suffix != ".ipynb" and file.is_file() and (state := file.stat())}

    before, names = there(), []
    yield names
    names += sorted(name for name, state in there().items() if before.get(name) != state)


def command(verb: str, chapter: str, profile: str | None,
            overrides: Mapping[str, str] | None, seeds: Sequence[int] | None,
            **places: Path | str | None) -> list[str]:
    """The words of the command that asks for this; *places* are options by their names."""
    words = ["clusterbook", verb, chapter]
    if profile is not None:
        words += ["--profile", profile]
    for name, text in (overrides or {}).items():
        words += ["-p", name, text]
    if seeds is not None:
        in_turn = len(seeds) > 1 and list(seeds) == list(range(seeds[0], seeds[-1] + 1))
        words += ["--seeds", f"{seeds[0]}-{seeds[-1]}" if in_turn else ",".join(map(str, seeds))]
    for option, place in places.items():
        if place is not None:
            words += [f"--{option}", str(place)]
    return words


def context(chapter: str, profile: str | None, values: Mapping[str, Any],
            target: Path | None = None) -> dict[str, Any]:
    """What a notebook is told of its run; see `clusterbook.paths.run_context`."""
    assumed = sorted(parameters.profiles(chapter)[profile].assumed) if profile else []
    return {"chapter": chapter, "profile": profile, "parameters": dict(values), "assumed": assumed,
            "seed": values.get("seed"), "folder": str(Path.cwd()),
            "changed": changed(chapter, values), **({"output": target.stem} if target else {})}


def changed(chapter: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not at their default. They alone are injected into the notebook."""
    known = parameters.read(chapter)
    return {name: value for name, value in values.items() if value != known[name].default}


def one(source: Path, about: Mapping[str, Any], target: Path | None,
        places: Mapping[str, Path | None], progress: str | None) -> list[str]:
    """Run a notebook once; the lines of its checks that do not hold or were not made.

    Parameters
    ----------
    source : Path
        The notebook.
    about : mapping
        See `context`.
    target : Path or None
        Where the executed notebook goes.
    places : mapping
        Kind → the folder in which the run leaves its ``figures``, ``records``, ``checkpoints`` or
        ``tables``, or None.
    progress : str or None
        Label of a progress bar over cells.

    Raises
    ------
    InputError, ChapterError
        See `execute`.
    """
    environment = {f"CLUSTERBOOK_{kind.upper()}": str(Path(place).resolve())
                   for kind, place in places.items() if place is not None}
    if os.environ.get("CLUSTERBOOK_DATA"):
        # The notebook runs in a folder of its own; a relative path means the person's.
        environment["CLUSTERBOOK_DATA"] = str(paths.data_home().resolve())
    with (_temporary_folder() as folder,
          clock.running(places.get("checkpoints")) as times):
        # The code that runs is that of the start, even if somebody edits it meanwhile.
        code = code_in_use(about["chapter"]) if places.get("records") else {}
        environment["CLUSTERBOOK_RUN"] = json.dumps({**about, **times, **code})
        executed = execute(source, target or folder / source.name, values=about["changed"],
                           environment=environment, progress=progress)
    if target and places.get("records"):
        pages.mark_file(target, _record_of(places["records"], about["profile"],
                                           about["parameters"]))
    if places.get("checkpoints"):
        shutil.rmtree(places["checkpoints"], ignore_errors=True)
    return unheld_checks(executed)


def _record_of(folder: Path, profile: str | None, values: Mapping[str, Any]) -> evidence.Record:
    """The record that a run has just left."""
    seed = values.get("seed")
    found = [r for r in evidence.load_records(folder) if (r.profile, r.seed) == (profile, seed)]
    if not found:
        raise ChapterError(f"{profile} ran to its end but left no record in {folder}: its notebook "
                           "does not call evidence.record")
    return found[0]


def _recorded(folder: Path, name: str, chapter: str, values: Mapping[str, Any]
              ) -> evidence.Record | None:
    """The run's record if there is one already, of the same parameters, code and data as today.

    A parameter that came after the record counts as its default.
    """
    found = [r for r in evidence.load_records(folder) if f"{r.profile}-seed{r.seed}" == name]
    now = present_code([chapter]), present_data()
    defaults = {known.name: known.default for known in parameters.read(chapter).values()}
    return next((r for r in found if {**defaults, **r.parameters} == values
                 and not is_stale(r, *now)), None)


def checkpoints() -> Path:
    """Where the runs that are recorded keep their checkpoints."""
    # Beside the build, where neither git nor the reader looks; a finished run removes its own.
    here = paths.checkout()
    return here / "_build" / "checkpoints" if here else paths.data_home() / "checkpoints"


def writable(folder: Path, name: str = "") -> None:
    """Make a folder, and refuse before a run what could not be written there after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{name}."):
            pass
    except OSError as error:
        raise InputError(f"nothing can be written to {folder}: {error.strerror}; name another "
                         "folder") from None


def _bar(turns: Sequence[_Turn], progress: bool):
    if not progress:
        return turns
    from tqdm import tqdm

    return tqdm(turns, desc="seeds", unit="run", file=sys.stderr)
