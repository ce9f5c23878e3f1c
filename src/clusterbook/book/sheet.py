"""The contact sheet: one page over the figures that a run or a sweep wrote.

It lies beside them as ``index.html`` and needs neither network nor script. Above the figures stand
the command and the parameters that made them; names, captions and alternative texts come from the
list that `clusterbook.figures.show` leaves beside the files.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment
from markdown_it import MarkdownIt
from markupsafe import Markup
from PIL import Image

from .. import __version__
from ..errors import InputError
from ..evidence.records import git_state
from ..figures.showing import LIST, listed
from ..paths import write_atomically
from .parameters import Chapter, Table

PAGE = "index.html"
MARK = '<meta name="generator" content="clusterbook">'


class Several(list):
    """The values of a parameter that differs between the runs of a page."""

    def __repr__(self) -> str:
        return ", ".join(map(repr, self))


@contextmanager
def drawing(page: Path | None, folder: Path | None) -> Iterator[Path | None]:
    """Yield a temporary folder for a run's figures; at the end they replace those in *folder*.

    If the run fails, the figures and the page of an earlier run stay as they are.

    Parameters
    ----------
    page : Path or None
        The folder of the page; None if no figures are wanted.
    folder : Path or None
        The folder of the figures: *page*, or one in it.
    """
    if page is None:
        yield None
        return
    with tempfile.TemporaryDirectory(dir=page, prefix=".drawing-") as name:
        yield Path(name)
        clear(page)
        folder.mkdir(exist_ok=True)
        (folder / LIST).unlink(missing_ok=True)     # an earlier run may have drawn other figures
        for file in Path(name).iterdir():
            file.replace(folder / file.name)


def clear(folder: Path) -> None:
    """Remove the page of an earlier run, before its figures change."""
    refuse_page(folder)
    (folder / PAGE).unlink(missing_ok=True)


def write(folder: Path, *, title: str, chapter: Chapter, values: Mapping[str, Any],
          parts: Mapping[str, Path], command: Sequence[str],
          checks: tuple[str, Mapping[str, Sequence[str]]] = ("", {}),
          failure: str = "", tables: Sequence[Table] = ()) -> Path:
    """Write the page of a folder of figures.

    Parameters
    ----------
    folder : Path
        Of the page; the figures lie in it, or in folders below.
    title : str
        The heading.
    chapter, values
        What was run, with the value of each parameter, or `Several`.
    parts : mapping
        A run's name (``"seed 0"``; empty for one run) → the folder of its figures. Figures of the
        same name stand side by side.
    command : sequence of str
        The words of the command that repeats it.
    checks : tuple
        The number of checks that failed, in words, and their lines by the run's name.
    failure : str
        A sentence about runs that failed.
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
            figure = figures.setdefault(entry["name"], {"rows": [], "captions": [], "texts": []})
            figure["rows"].append((part, _pictures(part, entry, place, folder)))
            caption = Markup(markdown.renderInline(entry["caption"]))
            for texts, text in ((figure["captions"], caption), (figure["texts"], entry["alt"])):
                texts += [text] if text not in texts else []
    heads = ("parameter", "value", "default", "meaning")
    rows = [(name, repr(value), repr(chapter.parameters[name].default),
             chapter.parameters[name].meaning) for name, value in values.items()]
    changed = [row for row in rows if row[1] != row[2]]
    page = _template().render(
        title=title, command=shlex.join(command), checks=checks, failure=failure, figures=figures,
        changed=Table("Parameters that are not at their default", heads, changed, heads[:3]),
        every=Table("All parameters", heads, rows, heads[:3]), tables=tables, made_by=_made_by())
    write_atomically(folder / PAGE, page.encode())
    return folder / PAGE


def _pictures(part: str, entry: Mapping[str, Any], place: Path, folder: Path
              ) -> list[dict[str, Any]]:
    """A figure's files, one for each of its steps, if it has any."""
    found = []
    for i, step in enumerate(entry.get("steps") or [""], start=1):
        file = place / (f"{entry['name']}-{i}" if step else entry["name"])
        with Image.open(f"{file}.png") as opened:
            width, height = opened.size
        label = ", ".join(filter(None, [part, step]))
        found.append({"address": quote(file.relative_to(folder).as_posix()), "label": label,
                      "alt": f"{entry['alt']} {label}." if label else entry["alt"],
                      "width": width // 2, "height": height // 2})
    return found


def _made_by() -> str:
    state = git_state()
    commit = f", commit {state['commit'][:12]}" if state["commit"] else ""
    return f"clusterbook {__version__}{commit}{', changed since' * (state['clean'] is False)}"


# --- what a page and its figures may replace ---------------------------------------------------


def refuse_page(folder: Path) -> None:
    """Raise InputError where a page is that no command wrote."""
    page = folder / PAGE
    if os.path.lexists(page) and not begins_with(page, MARK):
        raise InputError(f"{page} is no contact sheet and would be overwritten by one; name "
                         "another folder")


def refuse_figures(folder: Path) -> None:
    """Raise InputError for a folder with a page or pictures that no command wrote."""
    refuse_page(folder)
    others = [path for path in sorted(folder.glob("*"))
              if path.name == LIST and not (path.is_file() and _is_list(folder))
              or path.suffix in (".png", ".svg") and not _is_drawn(path)]
    if os.path.lexists(folder) and not folder.is_dir():
        others = [folder]
    if others:
        raise InputError(f"{others[0]} was not written by clusterbook and a figure might replace "
                         "it; name a folder that is empty or has figures of a run only")


def begins_with(path: Path, *parts: str) -> bool:
    """Whether the beginning of a file holds all these parts."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            beginning = file.read(10_000)
    except OSError:
        return False
    return all(part in beginning for part in parts)


def _is_list(folder: Path) -> bool:
    try:
        return all({"name", "alt", "caption"} <= entry.keys() for entry in listed(folder))
    except (OSError, ValueError, TypeError, AttributeError):
        return False


def _is_drawn(path: Path) -> bool:
    """Whether `clusterbook.figures` wrote a picture, by the metadata that it leaves."""
    if path.suffix == ".svg":
        return begins_with(path, f"<dc:title>{path.stem}</dc:title>")
    try:
        with Image.open(path) as picture:
            made_by = picture.info.get("Software", "")
            return made_by.startswith("Matplotlib") and "Description" in picture.info
    except OSError:
        return False


# --- the page ----------------------------------------------------------------------------------

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
:root { --text: #1f2328; --muted: #515a66; --rule: #d1d5da; --head: #f3f4f5; --link: #0550ae; }
@media (prefers-color-scheme: dark) { :root {
  --text: #e3e6ea; --muted: #a9b2be; --rule: #3d4754; --head: #22282f; --link: #79b8ff; }
  body { background: #121212; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 80rem; color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; }
a { color: var(--link); padding-block: .4rem; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
pre { background: var(--head); padding: .75rem; white-space: pre-wrap; overflow-wrap: anywhere; }
nav a { display: inline-block; margin-right: 1.25rem; }
.pictures { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
.steps { display: flex; gap: 1rem; grid-column: 1 / -1; }
.steps figure { flex: 0 0 min(85%, 26rem); }
.steps, .cb-scorecard-scroll { overflow-x: auto; }
figure { margin: 0; }
img { max-width: 100%; height: auto; background: #fff; border: 1px solid var(--rule); }
caption, figcaption, footer { color: var(--muted); text-align: left; }
section > p { max-width: 46rem; }
summary { cursor: pointer; padding: .4rem 0; }
table { border-collapse: collapse; font-size: .925rem; }
th, td { border: 1px solid var(--rule); padding: .35rem .6rem; text-align: left;
  vertical-align: top; }
thead th { background: var(--head); }
tbody th { font-weight: 500; }
</style>
</head>
<body>
<main>
<h1>{{ title }}</h1>
<pre><code>{{ command }}</code></pre>
{% if failure %}<p><strong>{{ failure }}</strong></p>{% endif %}
{% if checks[0] %}
<details class="checks"><summary><strong>{{ checks[0] }}</strong></summary>
{% for part, lines in checks[1].items() if lines %}
{% if part %}<p>{{ part }}</p>{% endif %}
<ul>{% for line in lines %}<li>{{ line }}</li>{% endfor %}</ul>
{% endfor %}
</details>
{% endif %}
{% if changed.rows %}{{ changed._repr_html_()|safe }}{% else %}
<p>All parameters are at their defaults.</p>{% endif %}
<details><summary>All parameters</summary>{{ every._repr_html_()|safe }}</details>
{% if figures|length > 1 %}
<nav aria-label="Figures">{% for name in figures %}
<a href="#{{ name }}">{{ name }}</a>{% endfor %}</nav>
{% endif %}
{% for name, figure in figures.items() %}
<section id="{{ name }}"><h2>{{ name }}</h2>
<div class="pictures">
{% for part, pictures in figure.rows %}
{% if pictures|length > 1 %}
<div class="steps" role="region" tabindex="0" aria-label="Steps of {{ name }} {{ part }}">
{% endif %}
{% for picture in pictures %}
<figure><a href="{{ picture.address }}.png"><img src="{{ picture.address }}.png" loading="lazy"
  width="{{ picture.width }}" height="{{ picture.height }}" alt="{{ picture.alt }}"></a>
<figcaption>{{ picture.label }}{% for kind in ("PNG", "SVG") %}
 <a href="{{ picture.address }}.{{ kind|lower }}"
  aria-label="{{ kind }} of {{ name }} {{ picture.label }}">{{ kind }}</a>{% endfor %}
</figcaption></figure>
{% endfor %}
{% if pictures|length > 1 %}</div>{% endif %}
{% endfor %}
</div>
{% for caption in figure.captions %}<p>{{ caption }}</p>{% endfor %}
<details><summary>In words</summary>
{% for text in figure.texts %}<p>{{ text }}</p>{% endfor %}</details>
</section>
{% else %}
<p>There is no figure.</p>
{% endfor %}
{% for table in tables %}{{ table._repr_html_()|safe }}{% endfor %}
</main>
<footer>{{ made_by }}</footer>
</body>
</html>
"""


@cache
def _template():
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_PAGE)
