"""The contact sheet: one small page over the figures that a run or a sweep wrote.

It lies beside them as ``index.html`` and needs no network and no script. Each figure stands with
its name, caption and text, and links to its PNG and SVG; above them are the command and the
parameters that made them. What is said of a figure comes from the list that
`clusterbook.figures.show` leaves beside its files.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markdown_it import MarkdownIt
from PIL import Image

from .. import __version__
from ..evidence.records import git_state
from ..figures.showing import LIST, listed
from ..paths import write_atomically
from . import parameters
from .ours import MARK, PAGE, refuse_page
from .reading import read_notebook


def clear(folder: Path) -> None:
    """Remove the page of an earlier run, so that none is there while its figures change.

    Raises
    ------
    InputError
        See `clusterbook.book.ours.refuse_page`.
    """
    refuse_page(folder)
    (folder / PAGE).unlink(missing_ok=True)


@contextmanager
def drawing(folder: Path | None, part: str = "") -> Iterator[Path | None]:
    """A place for the figures of a run; at the end of the block they go to their folder.

    A run that does not end leaves there what an earlier one left, the page included. None for who
    wants no figures.

    Parameters
    ----------
    folder : Path or None
        The folder of the page.
    part : str
        The folder in it that the figures go to; itself if empty.
    """
    if folder is None:
        yield None
        return
    with tempfile.TemporaryDirectory(dir=folder, prefix=".drawing-") as name:
        draft = Path(name) / part
        draft.mkdir(exist_ok=True)
        yield draft
        clear(folder)
        place = folder / part
        place.mkdir(exist_ok=True)
        # What a run with other parameters left there is on no page with this run's.
        (place / LIST).unlink(missing_ok=True)
        for file in draft.iterdir():
            file.replace(place / file.name)


def write(folder: Path, *, title: str, command: Sequence[str], settings: str,
          parts: Mapping[str, Path], tables: str = "") -> Path:
    """Write the page of a folder of figures.

    Parameters
    ----------
    folder : Path
        Where the page goes; the figures lie in it, or in folders below.
    title : str
        What was run.
    command : sequence of str
        The words of the command that repeats it.
    settings : str
        HTML of the parameters, see `settings`.
    parts : mapping
        What a set of figures belongs to (``"seed 0"``; empty if there is only one set) → its
        folder. Figures of the same name stand side by side.
    tables : str
        HTML that stands behind the figures.

    Returns
    -------
    Path
        Of the page.
    """
    shown = {part: {entry["name"]: entry for entry in listed(place)}
             for part, place in parts.items()}
    names = dict.fromkeys(name for entries in shown.values() for name in entries)
    sections = [
        _section(name, [_picture(part, entries[name], parts[part], folder)
                        for part, entries in shown.items() if name in entries],
                 [entries[name] for entries in shown.values() if name in entries])
        for name in names
    ]
    contents = "".join(f'<li><a href="#{name}">{name}</a></li>' for name in names)
    page = _PAGE.format(
        title=escape(title), command=escape(shlex.join(command)), settings=settings,
        contents=f"<nav aria-label=\"Figures\"><ul>{contents}</ul></nav>" if len(names) > 1 else "",
        sections="\n".join(sections) or "<p>There is no figure.</p>", tables=tables,
        made_by=escape(_made_by()))
    write_atomically(folder / PAGE, page.encode())
    return folder / PAGE


def title_of(notebook: Path) -> str:
    """The heading of a notebook's first cell, or its file's name."""
    first = read_notebook(notebook).cells[0].source.partition("\n")[0]
    return first.removeprefix("# ").strip() or notebook.stem


def folded(head: str, parts: Mapping[str, Sequence[str]]) -> str:
    """A sentence as HTML, and behind it, folded, lines by the runs that they belong to."""
    if not head:
        return ""
    lists = [(f"<p>{escape(part)}</p>" if part else "")
             + "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"
             for part, lines in parts.items() if lines]
    return (f'<details class="checks"><summary><strong>{escape(head)}</strong></summary>'
            + "".join(lists) + "</details>\n")


def settings(chapter: str, values: Mapping[str, Any]) -> str:
    """A chapter's parameters as HTML: those that are not at their default first, then all.

    Parameters
    ----------
    chapter : str
        Whose meanings are shown.
    values : mapping
        The value of each parameter; where there are several, a list of type `Several`.
    """
    known = parameters.read(chapter)
    rows = [(name, _value(value), _value(known[name].default), known[name].meaning)
            for name, value in values.items()]
    heads = ("parameter", "value", "default", "meaning")
    changed = [row for row in rows if row[1] != row[2]]
    parts = ["<p>All parameters are at their defaults.</p>" if rows and not changed else ""]
    if changed:
        parts.append(table("Parameters that are not at their default", heads, changed, code=3))
    if rows:
        parts.append("<details><summary>All parameters</summary>"
                     + table("All parameters", heads, rows, code=3) + "</details>")
    return "\n".join(parts)


class Several(list):
    """The values of a parameter that a sweep varies."""


def _value(value: Any) -> str:
    return ", ".join(map(repr, value)) if isinstance(value, Several) else repr(value)


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, code: int = 0,
          links: Mapping[str, str] | None = None) -> str:
    """A table that scrolls in its own box; its first *code* columns hold code.

    *links* has the address of some cells of the first column.
    """
    def cell(i: int, text: str) -> str:
        inside = f"<code>{escape(text)}</code>" if i < code else escape(text)
        if i == 0:
            address = (links or {}).get(text)
            linked = f'<a href="{address}">{inside}</a>' if address else inside
            return f'<th scope="row">{linked}</th>'
        return f"<td>{inside}</td>"

    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
    body = "\n".join("<tr>" + "".join(cell(i, text) for i, text in enumerate(row)) + "</tr>"
                     for row in rows)
    return (f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}">'
            f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>\n{body}\n</tbody></table></div>")


def _section(name: str, pictures: Sequence[str], entries: Sequence[Mapping[str, Any]]) -> str:
    """A figure: the pictures of all parts, then what is said of it, once if it is the same."""
    markdown = MarkdownIt("js-default")                     # escapes HTML
    captions = dict.fromkeys(markdown.renderInline(entry["caption"]) for entry in entries)
    texts = dict.fromkeys(entry["alt"] for entry in entries)
    return "\n".join([
        f'<section id="{name}"><h2>{name}</h2>', '<div class="pictures">', *pictures, "</div>",
        *(f"<p>{caption}</p>" for caption in captions),
        "<details><summary>In words</summary>", *(f"<p>{escape(text)}</p>" for text in texts),
        "</details></section>"])


def _picture(part: str, entry: Mapping[str, Any], place: Path, folder: Path) -> str:
    name, steps = entry["name"], entry.get("steps")
    images = []
    for i, step in enumerate(steps or [""], start=1):
        file = f"{name}-{i}" if steps else name
        address = quote((place / file).relative_to(folder).as_posix())
        with Image.open(place / f"{file}.png") as opened:
            width, height = opened.size
        label = ", ".join(filter(None, [part, step]))
        told = f"{entry['alt']} {label}." if label else entry["alt"]
        links = [f'<a href="{address}.{kind.lower()}" '
                 f'aria-label="{escape(f"{kind} of {name} {label}".strip())}">{kind}</a>'
                 for kind in ("PNG", "SVG")]
        images.append(
            f'<figure><a href="{address}.png"><img src="{address}.png" loading="lazy" '
            f'width="{width // 2}" height="{height // 2}" alt="{escape(told)}"></a>'
            f"<figcaption>{escape(label)} {' '.join(links)}</figcaption></figure>")
    if not steps:
        return images[0]
    return "\n".join([f'<div class="steps" role="region" tabindex="0" '
                      f'aria-label="{escape(f"Steps of {name} {part}".strip())}">',
                      *images, "</div>"])


def _made_by() -> str:
    state = git_state()
    commit = f", commit {state['commit'][:12]}" if state["commit"] else ""
    changed = ", changed since" if state["clean"] is False else ""
    return f"clusterbook {__version__}{commit}{changed}"


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
""" + MARK + """
<title>{title}</title>
<style>
:root {{ --ground: #fff; --text: #1f2328; --muted: #515a66; --rule: #d1d5da; --head: #f3f4f5;
  --link: #0550ae; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ground: #121212; --text: #e3e6ea; --muted: #a9b2be; --rule: #3d4754; --head: #22282f;
    --link: #79b8ff; }}
}}
* {{ box-sizing: border-box; }}
body {{ margin: 0 auto; padding: 1rem; max-width: 80rem; background: var(--ground);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }}
h1 {{ font-size: 1.6rem; line-height: 1.25; }}
h2 {{ font: 600 1.1rem/1.3 ui-monospace, monospace; margin: 2.5rem 0 .75rem; }}
a {{ color: var(--link); }}
:focus-visible {{ outline: 3px solid var(--link); outline-offset: 2px; }}
pre {{ background: var(--head); padding: .75rem; border-radius: .4rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }}
nav ul {{ display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: 0; list-style: none; }}
nav a, figcaption a {{ display: inline-block; padding: .4rem 0; }}
.pictures {{ display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }}
.steps {{ display: flex; gap: 1rem; overflow-x: auto; grid-column: 1 / -1; }}
.steps figure {{ flex: 0 0 min(85%, 26rem); }}
figure {{ margin: 0; }}
img {{ display: block; max-width: 100%; height: auto; background: #fff; padding: .4rem;
  border: 1px solid var(--rule); border-radius: .4rem; }}
figcaption, footer {{ color: var(--muted); font-size: .925rem; }}
figcaption a {{ margin-right: .5rem; }}
section > p {{ max-width: 46rem; }}
summary {{ cursor: pointer; padding: .4rem 0; }}
.scroll {{ overflow-x: auto; margin: 1rem 0; }}
table {{ border-collapse: collapse; font-size: .925rem; }}
caption {{ text-align: left; color: var(--muted); padding-bottom: .4rem; }}
th, td {{ border: 1px solid var(--rule); padding: .35rem .6rem; text-align: left;
  vertical-align: top; font-variant-numeric: tabular-nums; }}
thead th {{ background: var(--head); }}
tbody th {{ font-weight: 500; }}
footer {{ margin-top: 3rem; border-top: 1px solid var(--rule); padding-top: .75rem; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<pre><code>{command}</code></pre>
{settings}
{contents}
{sections}
{tables}
</main>
<footer>{made_by}</footer>
</body>
</html>
"""
