"""The contact sheet: one page over the figures that a run or a sweep wrote.

It lies beside them as ``index.html`` and needs neither network nor script. Names, captions and
alternative texts come from the list that `clusterbook.figures.showing.show` leaves beside them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markdown_it import MarkdownIt

from clusterbook import __version__
from clusterbook.errors import InputError
from clusterbook.figures.showing import LIST, listed, stems
from clusterbook.figures.steps import ENVIRONMENT
from clusterbook.paths import write_atomically

from .parameters import Chapter, table
from .views import View

PAGE = "index.html"
TABLE = "sweep.csv"
MARK = '<meta name="generator" content="clusterbook">'
_MARKS = {      # what a file of that name or ending holds near its beginning if we wrote it
    PAGE: (MARK,),
    TABLE: ("run,", ",seconds,", "failed checks"),
    LIST: ('"name"', '"alt"', '"caption"'),
    ".png": ("Software\0Matplotlib", "Description\0"),
    ".svg": ("Matplotlib v", "<dc:description>"),
    ".pdf": ("Matplotlib pdf backend", "/Subject"),
}


def refuse_others(chapter: Chapter, output: Path | None, *folders: Path | None) -> None:
    """Raise InputError for what no command wrote: a notebook, or a page, table or picture.

    *output* is the file of an executed notebook, which keeps the cells' ids of its chapter.
    """
    if output and output.suffix != ".ipynb":
        raise InputError(f"--output names a notebook, and {output.name!r} does not end in .ipynb; "
                         f"write {output.stem or 'out'}.ipynb")
    numbers = [f"{name}.csv" for name in chapter.figures()]
    marks = {path: _MARKS.get(path.name) or _MARKS.get(path.suffix) or (
                 ("series,x,y",) if path.name in numbers else ())
             for folder in folders if folder for path in sorted(folder.glob("*"))}
    if output and os.path.lexists(output):
        marks[output] = (f'"id": "{chapter.notebook.cells[0].get("id")}"',)
    for path, wanted in marks.items():
        beginning = ""
        with suppress(OSError), path.open("rb") as file:        # of a PDF it is the end
            file.seek(max(0, path.stat().st_size - 10_000) if path.suffix == ".pdf" else 0)
            beginning = file.read(10_000).decode(errors="replace")
        if not all(mark in beginning for mark in wanted):
            raise InputError(f"{path} was not written by a run of {chapter.name} and might be "
                             "replaced; name another place")


def write(folder: Path, *, title: str, chapter: Chapter, values: Sequence[Mapping[str, Any]],
          parts: Mapping[str, Path], command: str = "", problems: Sequence[str] = (),
          tables: Sequence[View] = ()) -> Path:
    """Write the page of a folder of figures, and return its file.

    *parts* maps a run's name (``"seed 0"``; empty for one run) to the folder of its figures, which
    is *folder* or lies below it; figures of the same name stand side by side. *values* are the
    parameters of each run. *problems* are lines for the top, *tables* stand below the figures.
    """
    markdown = MarkdownIt("js-default")                     # escapes HTML
    figures: dict[str, dict[str, list]] = {}
    for part, place in parts.items():
        for entry in listed(place):
            figure = figures.setdefault(entry["name"], {"pictures": [], "captions": []})
            for step, file in stems(entry).items():
                label = ", ".join(filter(None, [part, step]))
                figure["pictures"].append((
                    quote((place.relative_to(folder) / file).as_posix()), label,
                    f"{entry['alt']} {label}." if label else entry["alt"], entry["formats"]))
            caption = markdown.renderInline(entry["caption"])
            if caption not in figure["captions"]:
                figure["captions"].append(caption)
    heads = ("parameter", "value", "default", "meaning")
    rows = [(name, ", ".join(dict.fromkeys(repr(each[name]) for each in values)),
             repr(parameter.default), parameter.meaning)
            for name, parameter in chapter.parameters.items()]
    page = ENVIRONMENT.from_string(_PAGE).render(
        title=title, command=command, problems=problems, figures=figures, tables=tables,
        parameters=table("Parameters", heads, rows, heads[:3]), version=__version__)
    write_atomically(folder / PAGE, page.encode())
    return folder / PAGE


_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
""" + MARK + """
<title>{{ title }}</title>
<style>
body { margin: 0 auto; padding: 1rem; max-width: 80rem; font: 1rem/1.5 system-ui, sans-serif; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
.pictures { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
figure { margin: 0; }
img { max-width: 100%; background: #fff; }
caption, th, td { padding: .35rem .6rem; text-align: left; vertical-align: top; }
th, td { border: 1px solid gray; font-weight: normal; }
table { border-collapse: collapse; }
.cb-scorecard-scroll { overflow-x: auto; }
</style>
</head>
<body>
<main>
<h1>{{ title }}</h1>
{% if command %}<pre><code>{{ command }}</code></pre>{% endif %}
{% if problems %}<ul>{% for problem in problems %}<li>{{ problem }}</li>{% endfor %}</ul>{% endif %}
<details><summary>Parameters</summary>{{ parameters.html|safe }}</details>
{% for name, figure in figures.items() %}
<section id="{{ name }}"><h2>{{ name }}</h2>
<div class="pictures">
{% for address, label, alt, formats in figure.pictures %}
{% set best = (["svg", "pdf", "png"]|select("in", formats)|list)[0] %}
<figure><a href="{{ address }}.{{ best }}">{% if formats == ["pdf"] %}{{ alt }}{% else %}
<img src="{{ address }}.{{ "png" if "png" in formats else "svg" }}"
  alt="{{ alt }}">{% endif %}</a><figcaption>{{ label }}</figcaption></figure>
{% endfor %}
</div>
{% for caption in figure.captions %}<p>{{ caption|safe }}</p>{% endfor %}
</section>
{% else %}
<p>There is no figure.</p>
{% endfor %}
{% for table in tables %}{{ table.html|safe }}{% endfor %}
</main>
<footer>clusterbook {{ version }}</footer>
</body>
</html>
"""

