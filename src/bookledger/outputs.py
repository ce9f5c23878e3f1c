"""How the outputs of a notebook become parts of a page: figures, tables, the lines of checks.

MyST-NB finds `Outputs` by the entry point ``myst_nb.mime_renderers`` and asks it for each output;
on pages that are built without the extension `bookledger.pages` it renders nothing. Drawings are
what `clusterbook.figures.showing.show` left in the output's metadata. A page has HTML, print has
the picture or the text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
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
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform

from clusterbook.figures import on_a_page
from clusterbook.figures.showing import MOST_CSV, unpacked

from . import config, site
from .parameters import read, read_notebook
from .views import View

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
        env, kind, text = renderer.renderer.sphinx_env, data.mime_type, data.string
        if inline or env is None or EXTENSION not in env.app.extensions:
            return None
        about = data.output_metadata.get("clusterbook", {})
        if "caption_of" in about:           # the figure has it
            return []
        if "alt" in about:
            return _figure(renderer, data, about, env) if kind == "image/png" else []
        if kind == "text/html":
            return [nodes.raw("", fitted(text, env.docname), format="html",
                              classes=["output", "text_html"])]
        if kind == "text/plain" and text.startswith(("Removed: ", "Left out: ")):
            return both(_line(text), text)
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


def _figure(renderer: NbElementRenderer, data: MimeData, about: Mapping[str, Any],
            env: BuildEnvironment) -> list[nodes.Node]:
    """A figure with its number, caption and origin, and the row below it.

    A page has its SVGs, print its picture. Its anchor begins with the page's name, because it is
    unique in the whole book.
    """
    page, png = env.docname, base64.b64decode(data.content)
    work, of_a_run = Path(page).name.replace("_", "-"), config.is_run(Path(page))
    name = f"{work}-{about['name']}"
    if of_a_run and int.from_bytes(png[20:24]) < _LEAST:
        text = f"Left out: the figure {about['name']}, which shows nothing in this run."
        return both(_line(text), text)
    (picture,) = renderer.render_image(data)
    picture["alt"] = about["alt"]
    if "drawn" in about:
        html = on_a_page(about, work)
    else:       # in a recorded run of earlier code, steps are a figure of their own
        _, outputs = renderer.renderer.nb_client.code_cell_outputs(data.cell_index)
        html = next(output["data"] for output in outputs if about["name"] == output.get(
            "metadata", {}).get("clusterbook", {}).get("name")).get("text/html", "")
        html = re.sub("<(/?)figure", r"<\1div", html).replace('"figure.cb-steps', '"div.cb-steps')
    if html:
        pictures = [nodes.raw("", _outside(html, page, env.app), format="html"),
                    addnodes.only("", picture, expr="latex")]
    else:       # its colors are in its pixels, and a phone scrolls it
        white = (imread(BytesIO(png))[..., :3] > 0.9).all(axis=-1).mean()
        picture["classes"] += ["cb-lines"] * bool(white > _LINES)
        opens = ('<div class="cb-picture" role="region" tabindex="0" '
                 f'aria-label="Picture: {name}">')
        pictures = [nodes.raw("", opens, format="html"), picture,
                    nodes.raw("", "</div>", format="html")]
    origin = about.get("origin", "")
    if (config.root() / "book" / "glossary.md").is_file():
        origin = re.sub(r"(?<![\w-])(live|recorded)(?= )", r"{term}`\1`", origin)
    text, holder = f"{about['caption']}\n\n{origin}", nodes.Element()
    with renderer.renderer.current_node_context(holder), create_figure_context(
            renderer.renderer, {"name": name, "caption": text}, data.line or 0):
        # One node: the caption has to be the second.
        renderer.renderer.current_node.append(nodes.container("", *pictures))
    (figure,) = holder.children
    if not of_a_run and env.app.builder.format == "html":
        if not isinstance(figure[-1], nodes.legend):
            figure += nodes.legend()
        row = _row(about, env, f"figures/{work}/{about['name']}", name, png, data.cell_index)
        figure[-1] += nodes.raw("", row, format="html")
    return [figure]


def _outside(html: str, page: str, app: Sphinx) -> str:
    """Move the large pictures of a drawing into files, each once, and load those of steps later."""
    folder = Path(app.outdir) / "drawn"

    def moved(found: re.Match) -> str:
        png = base64.b64decode(found[1])
        file = folder / f"{hashlib.sha256(png).hexdigest()[:16]}.png"
        folder.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png)
        return f'"{"../" * page.count("/")}drawn/{file.name}"'

    if app.builder.format == "html":
        html = re.sub(r'"data:image/png;base64,([^"]{1000,})"', moved, html)
    return html.replace("<img ", '<img loading="lazy" ')


def _row(about: Mapping[str, Any], env: BuildEnvironment, place: str, anchor: str, png: bytes,
         cell: int) -> str:
    """The row below a figure: its files, its permanent address, the command that draws it alone.

    The files are written beside the pages, in ``figures/WORK/NAME``, whose own page leads to where
    the figure stands now. Of a figure with sliders they have the position that is shown first.
    """
    page, name, files = env.docname, about["name"], {"PNG": png}
    if "drawn" in about:
        first = about.get("explorable", {}).get("start", 0)
        files["SVG"] = unpacked(about["drawn"])[first][1].encode()
    if "csv" in about and len(text := unpacked(about["csv"])) <= MOST_CSV:
        files["CSV"] = text.encode()
    (folder := Path(env.app.outdir) / place).mkdir(parents=True, exist_ok=True)
    for kind, content in files.items():
        (folder / f"{name}.{kind.lower()}").write_bytes(content)
    (folder / "index.html").write_text(
        _MOVED.format(to=f"../../../{page}.html#{anchor}", name=name), encoding="utf-8")
    base = "../" * page.count("/") + place
    links = [f'<a href="{base}/{name}.{kind.lower()}" download>{kind}</a>' for kind in files]
    links.append(f'<a href="{base}/index.html">Permalink</a>')
    if (address := site.current(Path(env.app.srcdir))).repository:
        cells = read_notebook(Path(env.doc2path(page))).cells
        to = f"{address.launchers(f'{page}.ipynb')['Colab']}#scrollTo={cells[cell].get('id')}"
        links.append(f'<a href="{to}">Open in Colab</a>')
    if command := commands(page).get(name):
        words = [f'<span class="cb-keep">{escape(word)}</span>' for word in command.split(" ")]
        title = "Draw it with another value" if " -p " in command else "Draw it"
        links.append(f'<details><summary>{title}</summary><div class="highlight"><pre>'
                     f"{' '.join(words)}</pre></div></details>")
    return "\n".join(['<div class="cb-row">', *links, "</div>"])


_MOVED = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Figure {name}</title>
<meta http-equiv="refresh" content="0; url={to}"></head>
<body><a href="{to}">The figure {name}</a></body></html>
"""


@cache
def commands(page: str) -> dict[str, str]:
    """Figure → the command that draws it alone, of a chapter."""
    if not page.startswith("notebooks/"):
        return {}
    chapter = read(Path(page).name)
    return {name: chapter.command(figure) for name, figure in chapter.figures().items()}


# --- cells -------------------------------------------------------------------------------------


class Folded(SphinxTransform):
    """Leaves less to unfold: hidden code without output joins the hidden code below it, and hidden
    checks that follow one another share a line, which unfolds what each says and its code.
    """

    default_priority = 880

    def apply(self, **kwargs: Any) -> None:
        """Join cells of the document."""
        checks: dict[nodes.Node, list[tuple[str, list[nodes.Node]]]] = {}   # by the first cell
        for cell in [node for node in self.document.findall(nodes.container) if _is_cell(node)]:
            above = _above(cell)
            if _hidden(cell) and _hidden(above) and not _part(above, "output"):
                _part(cell, "source").insert(0, _part(above, "source").children)
                above.parent.remove(above)
                above = _above(cell)
            output = _part(cell, "output")
            text = output.astext() if output and len(output) == 1 else ""
            if re.fullmatch("[✓✗] .*", text) and not _hidden(cell):
                output.children = []
                output += both(_line(text), text)
            elif re.fullmatch("[✓✗] .*", text):
                first = above if above in checks else cell
                checks.setdefault(first, []).append((text, _part(cell, "source").children))
                if above in checks:
                    cell.parent.remove(cell)
        for cell, said in checks.items():
            output = _part(cell, "output")
            output.children = []
            output += _folded(said)
            cell["classes"], cell["hide_mode"], cell.children = ["cell"], None, [output]


def _is_cell(node: nodes.Node | None) -> bool:
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"


def _above(cell: nodes.container) -> nodes.Node | None:
    place = cell.parent.index(cell)
    return cell.parent[place - 1] if place else None


def _hidden(cell: nodes.Node | None) -> bool:
    tags = cell["cell_metadata"].get("tags", []) if _is_cell(cell) else []
    return "hide-input" in tags and "parameters" not in tags    # those unfold by themselves


def _part(cell: nodes.container, kind: str) -> nodes.container | None:
    """The container of a cell's source or of its output."""
    return next((part for part in cell if part.get("nb_element") == f"cell_code_{kind}"), None)


def _folded(checks: Sequence[tuple[str, list[nodes.Node]]]) -> list[nodes.Node]:
    """Checks and the code of each: on a page one line, in print all of them."""
    lines = [line for line, _ in checks]
    failed = [line for line in lines if line.startswith("✗")]
    summary = lines[0] if len(lines) == 1 else (
        "; ".join(failed) or f"✓ {len(lines)} checks hold")
    html = f'<details class="cb-check"><summary>{typeset(escape(summary))}</summary>'
    parts = []
    for line, code in checks:
        html += f"<p>{typeset(escape(line))}</p>" if len(lines) > 1 else ""
        parts += [nodes.raw("", html, format="html"), *code]
        html = ""
    _, printed = both("", "\n".join(lines))
    return [addnodes.only("", *parts, nodes.raw("", "</details>", format="html"), expr="html"),
            printed]
