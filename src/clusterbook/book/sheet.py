"""The contact sheet: one page over the figures that a run or a sweep wrote.

It lies beside them as ``index.html`` and needs neither network nor script. Names, captions and
alternative texts come from the list that `clusterbook.figures.show` leaves beside the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment
from markdown_it import MarkdownIt
from markupsafe import Markup

from .. import __version__
from ..errors import InputError
from ..figures.showing import LIST, listed
from ..paths import write_atomically
from .parameters import Chapter, Table

PAGE = "index.html"
TABLE = "sweep.csv"
MARK = '<meta name="generator" content="clusterbook">'
_MARKS = {      # what a file of that name or ending holds near its beginning if we wrote it
    PAGE: (MARK,),
    TABLE: ("run,", ",seconds,", "failed checks"),
    LIST: ('"name"', '"alt"', '"caption"'),
    ".png": ("Software\0Matplotlib", "Description\0"),
    ".svg": ("Matplotlib v", "<dc:description>"),
}


def refuse_others(folder: Path) -> None:
    """Raise InputError for a folder with a page, table or picture that no command wrote."""
    for path in sorted(folder.glob("*")):
        marks, beginning = _MARKS.get(path.name) or _MARKS.get(path.suffix) or (), ""
        with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
            beginning = file.read(10_000)
        if not all(mark in beginning for mark in marks):
            raise InputError(f"{path} was not written by clusterbook and might be replaced; name a "
                             "folder that is empty or has results of a run only")


def write(folder: Path, *, title: str, chapter: Chapter, values: Sequence[Mapping[str, Any]],
          parts: Mapping[str, Path], command: str = "", problems: Sequence[str] = (),
          tables: Sequence[Table] = ()) -> Path:
    """Write the page of a folder of figures.

    Parameters
    ----------
    folder : Path
        Of the page; the figures lie in it, or in folders below.
    title : str
        The heading.
    chapter : Chapter
    values : sequence of mapping
        The parameters of each run.
    parts : mapping
        A run's name (``"seed 0"``; empty for one run) → the folder of its figures. Figures of the
        same name stand side by side.
    command : str
        What was typed.
    problems : sequence of str
        Shown at the top: a summary, and a line for each failed check.
    tables : sequence of Table
        Shown below the figures.

    Returns
    -------
    Path
        The page.
    """
    markdown = MarkdownIt("js-default")                     # escapes HTML
    figures: dict[str, dict[str, list]] = {}
    for part, place in parts.items():
        for entry in listed(place):
            figure = figures.setdefault(entry["name"], {"pictures": [], "captions": []})
            figure["pictures"] += _pictures(part, entry, place.relative_to(folder))
            caption = Markup(markdown.renderInline(entry["caption"]))
            if caption not in figure["captions"]:
                figure["captions"].append(caption)
    heads = ("parameter", "value", "default", "meaning")
    rows = []
    for name, parameter in chapter.parameters.items():
        several = dict.fromkeys(repr(each[name]) for each in values)
        rows.append((name, ", ".join(several), repr(parameter.default), parameter.meaning))
    page = _template().render(
        title=title, command=command, problems=problems, figures=figures, tables=tables,
        parameters=Table("Parameters", heads, rows, heads[:3]), version=__version__)
    write_atomically(folder / PAGE, page.encode())
    return folder / PAGE


def _pictures(part: str, entry: Mapping[str, Any], place: Path) -> list[dict[str, str]]:
    """The files of a figure, one for each of its steps, if it has any."""
    found = []
    for i, step in enumerate(entry.get("steps") or [""], start=1):
        name = f"{entry['name']}-{i}" if step else entry["name"]
        label = ", ".join(filter(None, [part, step]))
        alt = f"{entry['alt']} {label}." if label else entry["alt"]
        found.append({"address": quote((place / name).as_posix()), "label": label, "alt": alt})
    return found


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
<details><summary>Parameters</summary>{{ parameters._repr_html_()|safe }}</details>
{% for name, figure in figures.items() %}
<section id="{{ name }}"><h2>{{ name }}</h2>
<div class="pictures">
{% for picture in figure.pictures %}
<figure><a href="{{ picture.address }}.svg"><img src="{{ picture.address }}.png"
  alt="{{ picture.alt }}"></a><figcaption>{{ picture.label }}</figcaption></figure>
{% endfor %}
</div>
{% for caption in figure.captions %}<p>{{ caption }}</p>{% endfor %}
</section>
{% else %}
<p>There is no figure.</p>
{% endfor %}
{% for table in tables %}{{ table._repr_html_()|safe }}{% endfor %}
</main>
<footer>clusterbook {{ version }}</footer>
</body>
</html>
"""


@cache
def _template():
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_PAGE)
