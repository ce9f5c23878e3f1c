"""The staged sources of a build: notebooks as their pages show them.

Each figure gets its caption, its drawings and the row below it; hidden code and checks are folded;
what readers download lies beside the pages.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from html import escape, unescape
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.image import imread

from clusterbook.figures import on_a_page
from clusterbook.figures.showing import MOST_CSV, unpacked
from clusterbook.figures.steps import ENVIRONMENT

from . import config, provenance, site
from .parameters import read, read_notebook
from .runs import write_notebook

DRAWINGS = "drawings"
"""The folder of the staged sources that holds each figure's HTML."""


def stage(source: Path, target: Path, notebooks: Mapping[Path, Path]) -> None:
    """Copy the book's sources, with the executed notebooks in their places."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source / "book", target / "book")
    shutil.copy2(source / "_config.yml", target)
    # The scorecard's rows link to the records.
    shutil.copytree(source / "data" / "records", target / "extra" / "records",
                    ignore=shutil.ignore_patterns("*.npz", "*.pt", "under-way"))
    with zipfile.ZipFile(target / "extra" / "notebooks.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for place, executed in sorted(notebooks.items()):
            if not config.is_run(place):        # a recorded run is downloaded from its own page
                archive.writestr(zipfile.ZipInfo.from_file(executed, place), undrawn(executed),
                                 zipfile.ZIP_DEFLATED)
            notebook = read_notebook(executed)
            notebook.cells = _joined(notebook.cells)
            chapter = read(place.stem) if place.parts[0] == "notebooks" else None
            commands = {name: chapter.command(figure)
                        for name, figure in chapter.figures().items()} if chapter else {}
            for cell in notebook.cells:
                if "run-head" in cell.metadata.get("tags", []):
                    cell.source = cell.source.replace("Verdicts rest on all seeds.", _OF_ITS_DAY)
                if "outputs" in cell:
                    _fit(cell, place, target, commands)
            write_notebook(notebook, target / place)
    (target / "extra" / "claims.json").write_text(provenance.as_json(), encoding="utf-8")


def undrawn(notebook: Path) -> str:
    """A notebook to download: without the SVGs, which only a page shows."""
    # Sorted keys put the figure's name after them.
    return re.sub(r'"(csv|drawn)": "[^"]*",\s*', "", notebook.read_text(encoding="utf-8"))


def _fit(cell: Any, place: Path, target: Path, commands: Mapping[str, str]) -> None:
    """Fit a cell's outputs to its page in the staged sources *target*.

    *commands* has what draws each figure of the page alone. A figure of `clusterbook.figures.show`
    gets its text, its caption and an anchor, which begins with the page's name because anchors are
    unique in the whole book; its SVGs and the row below it go into files of `DRAWINGS` with the
    anchor's name, which the finished page shows. HTML alone gets the text that is printed. Links of
    views lead from one folder below the root; an audit page lies in two.
    """
    page, kept = place.stem.replace("_", "-"), []     # an anchor has no underscore
    if _says_check(cell):       # it is HTML already
        return
    for output in cell.outputs:
        data, about = output.get("data", {}), output.get("metadata", {}).get("clusterbook", {})
        html = data.get("text/html", "")
        if html and len(place.parts) > 2:
            html = data["text/html"] = re.sub(r'href="(?![#/]|\w+:)', 'href="../', html)
        if "caption_of" in about:
            continue
        if "alt" in about and config.is_run(place) and int.from_bytes(
                base64.b64decode(data["image/png"])[20:24]) < _LEAST:
            data.clear()
            data["text/plain"] = (f"Left out: the figure {about['name']}, which shows nothing in "
                                  "this run.")
        elif "alt" in about:
            name = f"{page}-{about['name']}"
            origin = re.sub(r"(?<![\w-])(live|recorded)(?= )", r"{term}`\1`",
                            about.get("origin", ""))
            caption = "\n\n".join(filter(None, (about["caption"], origin)))
            cell.metadata["mystnb"] = {"image": {"alt": about["alt"]},
                                       "figure": {"name": name, "caption": caption}}
            data.pop("text/html", None)         # a figure with sliders is a figure too
            folder = target / DRAWINGS
            folder.mkdir(exist_ok=True)
            if config.is_run(place):     # its colors are in its pixels
                if (imread(BytesIO(base64.b64decode(data["image/png"])))[..., :3] > 0.9).all(
                        axis=-1).mean() > _LINES:
                    cell.metadata["mystnb"]["image"]["classes"] = "cb-lines"
            else:
                row = _beside(cell.get("id"), about, data["image/png"], place, target / "extra",
                              commands.get(about["name"]))
                (folder / f"{name}.row.html").write_text(row, encoding="utf-8")
            svgs = about.pop("drawn", None)
            about.pop("csv", None)
            # In a recorded run of earlier code the steps are a figure of their own.
            html = re.sub(r'<(/?)figure|"figure(?=\.cb-steps)', lambda found: (
                '"div' if found[1] is None else f"<{found[1]}div"), html)
            if text := on_a_page({**about, "drawn": svgs}, page) if svgs else html:
                text = _outside(text, target / "extra" / "drawn", "../" * (len(place.parts) - 1))
                (folder / f"{name}.html").write_text(text, encoding="utf-8")
        elif data.get("text/plain", "").startswith("<IPython."):
            text = re.sub(r"<[^>]*>", " ", html.replace("</tr>", "\n"))
            data["text/plain"] = unescape(text).strip()
        if html := data.get("text/html"):
            data["text/html"] = typeset(html)
        if data.get("text/plain", "").startswith(("Removed: ", "Left out: ")):
            data["text/html"] = f'<p class="cb-check">{escape(data["text/plain"])}</p>'
        kept.append(output)
    cell.outputs = kept


_OF_ITS_DAY = """\
Verdicts rest on all seeds, and those on this page are of the day of the run; today's stand in the \
[scorecard](../scorecard.ipynb)."""
_LINES = 0.7        # a share of white above which a picture is lines, which a dark page inverts
_LEAST = 100        # pixels of a figure's height; what is lower has no room for any picture
_PARTS = re.compile(r"<(code|pre|style|script)\b.*?</\1>|<[^>]*>|[^<]+", re.DOTALL)


def typeset(html: str) -> str:
    """HTML whose text, but for code, has subscripts, minus signs, and dates that stay whole.

    Examples
    --------
    >>> typeset("<b>L_clu = -1</b>, z_i of n_rows, <code>a_1</code>")
    '<b>L<sub>clu</sub> = −1</b>, z<sub>i</sub> of n_rows, <code>a_1</code>'
    """
    def part(found: re.Match) -> str:
        if found[0].startswith("<"):
            return found[0]
        text = re.sub(r"\b(L(?=_[a-z])|[^\W\d_](?=_\w{1,2}\b))_(\w+)\b", r"\1<sub>\2</sub>",
                      re.sub(r"(?<![\w-])-(?=\.?\d)", "−", found[0]))
        text = text.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")
        return re.sub(r"\b\d{4}-\d\d-\d\d\b", r'<span class="cb-keep">\g<0></span>', text)

    return _PARTS.sub(part, html)


def _beside(cell: str, about: Mapping, png: str, place: Path, extra: Path, command: str | None
            ) -> str:
    """The row below a figure: its files, its permanent address, the *command* that draws it alone.

    The files are written beside the pages, in ``figures/WORK/NAME``, whose own page leads to where
    the figure stands now. Of a figure with sliders they have the position that is shown first.
    """
    work, up = place.stem.replace("_", "-"), "../" * (len(place.parts) - 1)
    name, files = about["name"], {"PNG": base64.b64decode(png)}
    folder = extra / "figures" / work / name
    if "drawn" in about:
        first = about.get("explorable", {}).get("start", 0)
        files["SVG"] = unpacked(about["drawn"])[first][1].encode()
    if "csv" in about and len(text := unpacked(about["csv"])) <= MOST_CSV:
        files["CSV"] = text.encode()
    folder.mkdir(parents=True)
    for kind, content in files.items():
        (folder / f"{name}.{kind.lower()}").write_bytes(content)
    page = f"../../../{place.with_suffix('.html').as_posix()}#{work}-{name}"
    (folder / "index.html").write_text(_MOVED.format(page=page, name=name), encoding="utf-8")
    address = site.current().repository and site.current().launchers(place.as_posix())["Colab"]
    return ENVIRONMENT.from_string(_ROW).render(
        files=files, base=f"{up}figures/{work}/{name}/", name=name, command=command,
        colab=address and f"{address}#scrollTo={cell}")


_MOVED = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Figure {name}</title>
<meta http-equiv="refresh" content="0; url={page}"></head>
<body><a href="{page}">The figure {name}</a></body></html>
"""
_ROW = """\
<div class="cb-row">
{% for kind in files %}
<a href="{{ base }}{{ name }}.{{ kind|lower }}" download>{{ kind }}</a>
{% endfor %}
<a href="{{ base }}index.html">Permalink</a>
{% if colab %}<a href="{{ colab }}">Open in Colab</a>{% endif %}
{% if command %}
<details><summary>{{ "Draw it with another value" if " -p " in command else "Draw it" }}</summary>
<div class="highlight"><pre>{% for word in command.split(" ") %}{{ " " if not loop.first }}{#
#}<span class="cb-keep">{{ word }}</span>{% endfor %}</pre></div></details>
{% endif %}
</div>
"""


def _outside(text: str, folder: Path, root: str) -> str:
    """Move the large pictures of a drawing into files, each once, and load those of steps later."""
    def moved(found: re.Match) -> str:
        png = base64.b64decode(found[1])
        name = f"{hashlib.sha256(png).hexdigest()[:16]}.png"
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(png)
        return f'"{root}{folder.name}/{name}"'

    text = re.sub(r'"data:image/png;base64,([^"]{1000,})"', moved, text)
    return text.replace("<img ", '<img loading="lazy" ')


def _joined(cells: Sequence[Any]) -> list[Any]:
    """Cells with less to unfold: hidden code without output joins the hidden code below it, and
    checks that follow one another share a line.
    """
    joined, silent = [], []         # at most one silent cell
    for cell in cells:
        if "remove-cell" in cell.metadata.get("tags", []):
            continue
        if silent and _hidden(cell):
            cell.source = f"{silent.pop().source}\n\n\n{cell.source}"
        joined += silent
        silent = [cell] if _hidden(cell) and not cell.outputs else []
        joined += [] if silent else [cell]
    groups = []
    for cell in [*joined, *silent]:
        if groups and _hidden(cell) and _says_check(cell) and _says_check(groups[-1][0]):
            groups[-1].append(cell)
        else:
            groups.append([cell])
    for first, *others in groups:
        if _says_check(first):
            first.outputs[0]["data"]["text/html"] = _folded([first, *others])
            first.metadata["tags"] = ["remove-input"] if _hidden(first) else []
    return [group[0] for group in groups]


def _hidden(cell: Any) -> bool:
    tags = cell.metadata.get("tags", [])
    # The parameters unfold by themselves.
    return cell.cell_type == "code" and "hide-input" in tags and "parameters" not in tags


def _says_check(cell: Any) -> bool:
    """Whether a cell shows the line of a check and nothing else."""
    texts = [output.get("data", {}).get("text/plain", "\n") for output in cell.get("outputs", [])]
    return bool(re.fullmatch("[✓✗] .*", "".join(texts)))


def _folded(cells: Sequence[Any]) -> str:
    """The HTML of checks: a line, which unfolds the code that is hidden, and what each says."""
    from pygments import highlight, lexers
    from pygments.formatters import HtmlFormatter

    lines = [cell.outputs[0]["data"]["text/plain"] for cell in cells]
    code = [highlight(cell.source, lexers.PythonLexer(), HtmlFormatter()) if _hidden(cell) else ""
            for cell in cells]
    summary, inside = lines[0], code[0]
    if len(cells) > 1:
        failed = [line for line in lines if line.startswith("✗")]
        summary = "; ".join(failed) or f"✓ {len(lines)} checks hold"
        inside = "".join(f"<p>{typeset(escape(line))}</p>{part}"
                         for line, part in zip(lines, code, strict=True))
    said = typeset(escape(summary))
    return (f'<details class="cb-check"><summary>{said}</summary>{inside}</details>'
            if inside else f'<p class="cb-check">{said}</p>')
