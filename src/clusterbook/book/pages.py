"""An executed notebook as a page of its own: it says at its top which run it is.

The executed notebook of a profile reads like its chapter, numbers apart. So that one can't be
mistaken for the other, the page is called by its profile and seed, and begins with the run's
provenance and the command that repeats it.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat.v4 import new_markdown_cell

from ..errors import InputError
from ..evidence import Record
from ..evidence.views import described
from ..paths import write_atomically
from . import parameters
from .reading import read_notebook

TAG = "run-head"


def mark(notebook: nbformat.NotebookNode, record: Record) -> None:
    """Give an executed notebook the title and the head of its run, in place.

    Parameters
    ----------
    notebook : NotebookNode
        Executed; its first cell begins with the chapter's title.
    record : Record
        What the same run measured.

    Raises
    ------
    InputError
        If the notebook has no title.
    """
    title, _, rest = notebook.cells[0].source.partition("\n")
    if not title.startswith("# "):
        raise InputError("the notebook does not begin with a title")
    notebook.cells[0].source = f"# {record.profile}, seed {record.seed}"
    opening = head(record, title.removeprefix("# "))
    notebook.cells.insert(1, new_markdown_cell(opening, metadata={"tags": [TAG]}))
    if rest.strip():
        notebook.cells.insert(2, new_markdown_cell(rest.strip()))


def head(record: Record, title: str) -> str:
    """The provenance of a run of the chapter of that title and its command, as Markdown."""
    profile = parameters.profiles(record.chapter).get(record.profile)
    cells = described([record])
    assumed = ", ".join(f"`{name}`" for name in record.assumed)
    made = [
        f"Code: commit `{record.git['commit']}`" + ("" if record.git["clean"] else ", changed")
        if record.git["commit"] else "Code: in no commit",
        f"Machine: {cells['Machine']}",
        f"Versions: {cells['Versions']}",
        f"Began: {record.started[:16].replace('T', ' ')} UTC; took {cells['Time, a seed']}; "
        f"peak memory {cells['Peak memory']}",
        f"Data: `{record.data['name']}`" if record.data else "Data: none",
    ]
    if assumed:
        made.append(f"Chosen here, because no source has them: {assumed}")
    lines = [
        f"**A recorded run, as it was executed.** {profile.says if profile else ''}",
        "",
        f"The notebook is the chapter [{title}](../../notebooks/{record.chapter}.ipynb) with these "
        "parameters. So the sentences are the chapter's; some speak of its default run. Numbers "
        "are this run's; a figure that shows recorded runs names them. A check that fails here was "
        "written for the default parameters. Verdicts rest on all seeds.",
        "",
        *(f"- {line}" for line in made),
        "",
        "To repeat it:",
        "",
        "```bash",
        f"clusterbook run {record.chapter} --profile {record.profile} --seeds {record.seed} "
        "--record out --output out/run.ipynb",
        "```",
    ]
    return "\n".join(lines)


def mark_file(path: Path, record: Record) -> None:
    """`mark` a notebook's file."""
    notebook = read_notebook(path)
    mark(notebook, record)
    write_atomically(path, (nbformat.writes(notebook) + "\n").encode())
