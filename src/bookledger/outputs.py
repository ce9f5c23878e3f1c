"""How the outputs of a notebook become parts of a page: figures, tables, the lines of checks.

MyST-NB finds `Outputs` by the entry point ``myst_nb.mime_renderers`` and asks it for each output;
on pages that are built without the extension `bookledger.pages` it renders nothing. Drawings are
what `clusterbook.figures.showing.show` left in the output's metadata. A page has HTML, print has the
picture or the text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from docutils import nodes
from matplotlib.image import imread
from myst_nb.core.render import MimeData, NbElementRenderer, create_figure_context
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from clusterbook.figures import on_a_page
from clusterbook.figures.showing import MOST_CSV, unpacked

from . import config, site
from .parameters import read
from .views import View, cards

EXTENSION = "bookledger.pages"
_LINES = 0.7        # a share of white above which a picture is lines, which a dark page inverts
_LEAST = 100        # pixels of a figure's height; what is lower has no room for any picture
_PARTS = re.compile(r"<(code|pre|style|script)\b.*?</\1>|<[^>]*>|[^<]+", re.DOTALL)


class Outputs:
    """Renders what `clusterbook.figures.showing.show` and the page's evidence display."""

    @staticmethod
    def handle_mime(renderer: NbElementRenderer, data: MimeData, inline: bool
                    ) -> list[nodes.Node] | None:
        """The nodes of one MIME type of an output; None leaves it to MyST-NB."""
        env = renderer.renderer.sphinx_env
        if inline or env is None or EXTENSION not in env.app.extensions:
            return None
        about = data.output_metadata.get("clusterbook", {})
        if "caption_of" in about:           # the figure has it
            return []
        if "alt" in about:
            if data.mime_type == "image/png":
                return _figure(renderer, data, about, env.app, env.docname)
            if data.mime_type == "text/html" and "drawn" not in about:
                _step_through(renderer, data.string, about, env.app, env.docname)
            return []
        if "cards" in about:
            return shown(cards(about["cards"]), env.docname) if (
                data.mime_type == "text/markdown") else []
        if data.mime_type == "text/html":
            return [nodes.raw("", fitted(data.string, env.docname), format="html",
                              classes=["output", "text_html"])]
        if data.mime_type == "text/plain" and data.string.startswith(("Removed: ", "Left out: ")):
            return both(_line(data.string), data.string)
        return None


def both(html: str, text: str) -> list[nodes.Node]:
    """HTML for a page, and the text that is printed instead of it."""
    printed = nodes.literal_block(text, text, language="text")
    return [nodes.raw("", html, format="html"), addnodes.only("", printed, expr="latex")]


def shown(view: View, page: str) -> list[nodes.Node]:
    """A view of claims or records on a page."""
    return both(fitted(view.html, page), str(view))


def fitted(html: str, page: str) -> str:
    """HTML, typeset, whose links, which lead from one folder below the root, lead from a page."""
    up = "../" * (page.count("/") - 1)
    return typeset(re.sub(r'href="(?![#/]|\w+:)', f'href="{up}', html))


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


def _line(text: str) -> str:
    return f'<p class="cb-check">{typeset(escape(text))}</p>'


# --- figures -----------------------------------------------------------------------------------


def anchor(about: Mapping[str, Any], page: str) -> str:
    """A figure's anchor: it begins with the page's name, because it is unique in the whole book."""
    return f"{Path(page).name.replace('_', '-')}-{about['name']}"


def _figure(renderer: NbElementRenderer, data: MimeData, about: Mapping[str, Any], app: Sphinx,
            page: str) -> list[nodes.Node]:
    """A figure with its number, caption and origin; its SVGs on a page, its picture in print."""
    png, name = base64.b64decode(data.content), anchor(about, page)
    old = config.is_run(Path(page))
    if old and int.from_bytes(png[20:24]) < _LEAST:
        text = f"Left out: the figure {about['name']}, which shows nothing in this run."
        return both(_line(text), text)
    origin = re.sub(r"(?<![\w-])(live|recorded)(?= )", r"{term}`\1`", about.get("origin", ""))
    holder = nodes.Element()
    with renderer.renderer.current_node_context(holder), create_figure_context(
            renderer.renderer, {"name": name, "caption": f"{about['caption']}\n\n{origin}"},
            data.line or 0):
        renderer.renderer.current_node.extend(
            _pictures(renderer, data, about, app, page, png))
    (figure,) = holder.children
    if not old and app.builder.format == "html":
        if not isinstance(figure[-1], nodes.legend):
            figure += nodes.legend()
        figure[-1] += nodes.raw("", _row(about, page, png, data, app), format="html")
    return [figure]


def _pictures(renderer: NbElementRenderer, data: MimeData, about: Mapping[str, Any], app: Sphinx,
              page: str, png: bytes) -> list[nodes.Node]:
    (picture,) = renderer.render_image(data)
    picture["alt"] = about["alt"]
    if "drawn" in about:
        drawing = _outside(on_a_page(about, anchor({"name": ""}, page)[:-1]), page, app)
        return [nodes.raw("", drawing, format="html"),
                addnodes.only("", picture, expr="latex")]
    # Its colors are in its pixels, and a phone scrolls it.
    white = (imread(BytesIO(png))[..., :3] > 0.9).all(axis=-1).mean()
    picture["classes"] += ["cb-lines"] * bool(white > _LINES)
    opens = (f'<div class="cb-picture" role="region" tabindex="0" '
             f'aria-label="Picture: {anchor(about, page)}">')
    return [nodes.raw("", opens, format="html"), picture, nodes.raw("", "</div>", format="html")]


def _step_through(renderer: NbElementRenderer, html: str, about: Mapping[str, Any], app: Sphinx,
                  page: str) -> None:
    """Show pictures with sliders in place of a figure's one picture, which print keeps."""
    figure = renderer.renderer.document.ids[anchor(about, page)]
    opens, picture, closes = figure[:3]
    for gone in (opens, closes):
        figure.remove(gone)
    figure[0] = addnodes.only("", picture, expr="latex")
    # In a recorded run of earlier code the steps are a figure of their own.
    html = re.sub(r'<(/?)figure|"figure(?=\.cb-steps)', lambda found: (
        '"div' if found[1] is None else f"<{found[1]}div"), html)
    figure.insert(0, nodes.raw("", _outside(html, page, app), format="html"))


def _outside(html: str, page: str, app: Sphinx) -> str:
    """Move the large pictures of a drawing into files, each once, and load those of steps later."""
    folder = Path(app.outdir) / "drawn"

    def moved(found: re.Match) -> str:
        png = base64.b64decode(found[1])
        file = folder / f"{hashlib.sha256(png).hexdigest()[:16]}.png"
        folder.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png)
        return f'"{"../" * page.count("/")}{folder.name}/{file.name}"'

    if app.builder.format == "html":
        html = re.sub(r'"data:image/png;base64,([^"]{1000,})"', moved, html)
    return html.replace("<img ", '<img loading="lazy" ')


def _row(about: Mapping[str, Any], page: str, png: bytes, data: MimeData, app: Sphinx) -> str:
    """The row below a figure: its files, its permanent address, the command that draws it alone.

    The files are written beside the pages, in ``figures/WORK/NAME``, whose own page leads to where
    the figure stands now. Of a figure with sliders they have the position that is shown first.
    """
    name, files = about["name"], {"PNG": png}
    place = f"figures/{Path(page).name.replace('_', '-')}/{name}"
    if "drawn" in about:
        first = about.get("explorable", {}).get("start", 0)
        files["SVG"] = unpacked(about["drawn"])[first][1].encode()
    if "csv" in about and len(text := unpacked(about["csv"])) <= MOST_CSV:
        files["CSV"] = text.encode()
    (folder := Path(app.outdir) / place).mkdir(parents=True, exist_ok=True)
    for kind, content in files.items():
        (folder / f"{name}.{kind.lower()}").write_bytes(content)
    now = f"../../../{page}.html#{anchor(about, page)}"
    (folder / "index.html").write_text(
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Figure {name}</title>'
        f'\n<meta http-equiv="refresh" content="0; url={now}"></head>\n'
        f'<body><a href="{now}">The figure {name}</a></body></html>\n', encoding="utf-8")
    base = "../" * page.count("/") + place
    links = [f'<a href="{base}/{name}.{kind.lower()}" download>{kind}</a>' for kind in files]
    links.append(f'<a href="{base}/index.html">Permalink</a>')
    if (address := site.current(Path(app.srcdir))).repository:
        cell = cell_ids(app.env.doc2path(page))[data.cell_index]
        links.append(f'<a href="{address.launchers(f"{page}.ipynb")["Colab"]}#scrollTo={cell}">'
                     "Open in Colab</a>")
    if command := commands(page).get(name):
        words = " ".join(f'<span class="cb-keep">{escape(word)}</span>'
                         for word in command.split(" "))
        title = "Draw it with another value" if " -p " in command else "Draw it"
        links.append(f'<details><summary>{title}</summary><div class="highlight"><pre>{words}'
                     "</pre></div></details>")
    return "\n".join(['<div class="cb-row">', *links, "</div>"])


@cache
def commands(page: str) -> dict[str, str]:
    """Figure → the command that draws it alone, of a chapter."""
    if not page.startswith("notebooks/"):
        return {}
    chapter = read(Path(page).name)
    return {name: chapter.command(figure) for name, figure in chapter.figures().items()}


@cache
def cell_ids(notebook: str) -> list[str]:
    """The identifiers of a notebook's cells."""
    import nbformat

    return [cell.get("id", "") for cell in nbformat.read(notebook, as_version=4).cells]


# --- cells -------------------------------------------------------------------------------------


class Folded(SphinxTransform):
    """Leaves less to unfold: hidden code without output joins the hidden code below it, and checks
    that follow one another share a line.
    """

    default_priority = 880

    def apply(self, **kwargs: Any) -> None:
        """Join cells of the document."""
        for above, cell in self._adjacent():
            if _hidden(above) and not _part(above, "output"):
                _part(cell, "source").insert(0, _part(above, "source").children)
                above.parent.remove(above)
        groups = {id(cell): [cell] for cell in self._cells() if _said(cell)}
        for above, cell in self._adjacent():
            if _said(above) and _said(cell):
                groups[id(cell)] = groups.pop(id(above)) + [cell]
        for first, *others in groups.values():
            for cell in others:
                cell.parent.remove(cell)
            _fold(first, others)

    def _cells(self) -> list[nodes.container]:
        return [node for node in self.document.findall(nodes.container)
                if node.get("nb_element") == "cell_code"]

    def _adjacent(self) -> Iterator[tuple[nodes.container, nodes.container]]:
        """Each cell with hidden code, and the cell right above it."""
        for above in self._cells():
            below = above.next_node(descend=False, siblings=True)
            if below is not None and _hidden(below):
                yield above, below


def _hidden(cell: nodes.Node) -> bool:
    tags = cell.get("cell_metadata", {}).get("tags", []) if isinstance(
        cell, nodes.container) else []
    return "hide-input" in tags and "parameters" not in tags    # those unfold by themselves


def _part(cell: nodes.container, kind: str) -> nodes.container | None:
    """The container of a cell's source or of its output."""
    return next((part for part in cell if part.get("nb_element") == f"cell_code_{kind}"), None)


def _said(cell: nodes.container) -> str:
    """The line of a cell that shows the line of a check and nothing else."""
    output = _part(cell, "output")
    text = output.astext() if output and len(output) == 1 else ""
    return text if re.fullmatch("[✓✗] .*", text) else ""


def _fold(first: nodes.container, others: Sequence[nodes.container]) -> None:
    """Show checks as one line, which unfolds the code that is hidden, and what each says."""
    cells, inside = [first, *others], []
    lines = [_said(cell) for cell in cells]
    failed = [line for line in lines if line.startswith("✗")]
    summary = lines[0] if not others else "; ".join(failed) or f"✓ {len(lines)} checks hold"
    for line, cell in zip(lines, cells, strict=True):
        if others:
            inside.append(nodes.raw("", f"<p>{typeset(escape(line))}</p>", format="html"))
        if _hidden(cell):
            inside += _part(cell, "source").children
    output, said = _part(first, "output"), typeset(escape(summary))
    line, printed = both(_line(summary), "\n".join(lines))
    if _hidden(first):
        first["classes"] = ["cell"]
        first.children, first["hide_mode"] = [output], None
    if inside:
        opens = f'<details class="cb-check"><summary>{said}</summary>'
        line = addnodes.only("", nodes.raw("", opens, format="html"), *inside,
                             nodes.raw("", "</details>", format="html"), expr="html")
    output.children = []
    output += [line, printed]
