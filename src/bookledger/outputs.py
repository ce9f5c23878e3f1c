"""How the outputs of a notebook become parts of a page: figures, tables, the lines of checks.

MyST-NB finds `Outputs` by the entry point ``myst_nb.mime_renderers`` and asks it for each output;
on pages that are built without the extension `bookledger.pages` it renders nothing. Drawings are
what `clusterbook.figures.showing.show` left in the output's metadata. A page has HTML, print has
the picture or the text.
"""

import base64
import json
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_nb.core.render import MimeData, NbElementRenderer, create_figure_context
from PIL import Image
from sphinx import addnodes
from sphinx.environment import BuildEnvironment

from clusterbook.figures import flat, glyphs_once, live, on_a_page
from clusterbook.figures.showing import unpacked

from .config import sha256
from .parameters import read
from .views import View

EXTENSION = "bookledger.pages"
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
            own = ["cb-own"] * ('class="cb-' in text)       # it brings its colors
            return [nodes.raw("", typeset(text), format="html",
                              classes=["output", "text_html", *own])]
        if kind == "text/plain" and re.fullmatch("[✓✗] .*", text):
            return _both(f'<p class="cb-check">{typeset(escape(text))}</p>', text)
        return None


def _both(html: str, text: str) -> list[nodes.Node]:
    """HTML for a page, and the text that is printed instead of it."""
    printed = nodes.literal_block(text, text, language="text")
    return [nodes.raw("", html, format="html"), addnodes.only("", printed, expr="latex")]


def shown(view: View, page: str) -> list[nodes.Node]:
    """A view on a page; its links lead from one folder below the root."""
    up = "../" * (page.count("/") - 1)
    return _both(typeset(re.sub(r'href="(?![#/]|\w+:)', f'href="{up}', view.html)), str(view))


def typeset(html: str) -> str:
    """HTML whose text, but for code, has subscripts and minus signs.

    Examples
    --------
    >>> typeset("<b>L_clu = -1</b>, z_i of n_rows, <code>a_1</code>")
    '<b>L<sub>clu</sub> = −1</b>, z<sub>i</sub> of n_rows, <code>a_1</code>'
    """
    def part(found: re.Match) -> str:
        if found[0].startswith("<"):
            return found[0]
        text = re.sub(r"(?<![\w-])-(?=\.?\d)", "−", found[0].replace(" ± ", "\xa0±\xa0"))
        return re.sub(r"\b(L(?=_[a-z])|[^\W\d_](?=_\w{1,2}\b))_(\w+)\b", r"\1<sub>\2</sub>", text)

    return _PARTS.sub(part, html)


def _figure(renderer: NbElementRenderer, data: MimeData, about: Mapping[str, Any],
            env: BuildEnvironment) -> list[nodes.Node]:
    """A figure with its number, caption and origin, and the row below it.

    A page has its SVGs, print its picture; so have pages of runs of before there were SVGs. Its
    anchor has the work's name; a work's chapter and audit page have no name in common.
    """
    work = Path(env.docname).name.replace("_", "-")
    (picture,) = renderer.render_image(data)
    picture["alt"], pictures = about["alt"], [picture]
    if "drawn" in about:
        html = _drawn(about, env, work)
        pictures = [nodes.raw("", html, format="html"), addnodes.only("", picture, expr="latex")]
    text, holder = f"{about['caption']}\n\n{about.get('origin', '')}", nodes.Element()
    with renderer.renderer.current_node_context(holder), create_figure_context(
            renderer.renderer, {"name": f"figure-{work}-{about['name']}", "caption": text},
            data.line or 0):
        # One node: the caption has to be the second.
        renderer.renderer.current_node.append(nodes.container("", *pictures))
    (figure,) = holder.children
    if "drawn" in about and env.app.builder.format == "html":
        if not isinstance(figure[-1], nodes.legend):
            figure += nodes.legend()
        row = _row(about, env, f"figures/{work}/{about['name']}", base64.b64decode(data.content))
        figure[-1] += nodes.raw("", row, format="html")
    return [figure]


def _drawn(about: Mapping[str, Any], env: BuildEnvironment, work: str) -> str:
    """The SVG that a page begins with; a script beside the pages has what it needs later.

    A script, because a page that is opened from a file may load no other text.
    """
    begins, later = on_a_page(about, work)
    # Without the letters that the page has.
    parts = glyphs_once("\0".join([begins, *(_outside(part, env) for part in later)])).split("\0")
    later_at = _beside(env, f"drawn/{work}-{about['name']}.js",
                       f"document.currentScript.draw({json.dumps(parts[1:])});".encode())
    wide, narrow = (re.search(rf'<svg class="cb-(?:{kind})" [^>]*\bheight="(\d+)', html)
                    for kind, html in (("wide|only", begins), ("narrow", "".join(later))))
    picture = (f'<div class="cb-drawn" style="--cb-wide: {wide[1]}px; '
               f'--cb-narrow: {(narrow or wide)[1]}px" '
               f'data-later="{later_at}">{_outside(begins, env)}</div>')
    up = "../" * env.docname.count("/")
    return picture + (live.html(about["live"], f"{up}_static/live") if "live" in about else "")


def _beside(env: BuildEnvironment, place: str, content: bytes) -> str:
    """Write a file beside the pages; its address from this page."""
    file = Path(env.app.outdir, place)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return f'{"../" * env.docname.count("/")}{place}'


def _outside(html: str, env: BuildEnvironment) -> str:
    """Compress the pictures of a drawing, move the large ones into files, load steps' later."""
    def moved(found: re.Match) -> str:
        png, made = base64.b64decode(found[1]), BytesIO()
        Image.open(BytesIO(png)).save(made, "WEBP", lossless=True)      # often less than half
        if len(made.getvalue()) < 500:
            return f'"data:image/webp;base64,{base64.b64encode(made.getvalue()).decode()}"'
        return f'"{_beside(env, f"drawn/{sha256(png)[:16]}.webp", made.getvalue())}"'

    html = re.sub(r'"data:image/png;base64,([^"]+)"', moved, html)
    return html.replace("<img ", '<img loading="lazy" ')


def _row(about: Mapping[str, Any], env: BuildEnvironment, place: str, png: bytes) -> str:
    """The row below a figure: its files, and the command that draws it alone.

    Of a figure with sliders the files have the position that is shown first.
    """
    name, first = about["name"], about.get("explorable", {}).get("start", 0)
    files = {"PNG": png, "SVG": flat(unpacked(about["drawn"])[first][1]).encode()}
    if "csv" in about:
        files["CSV"] = unpacked(about["csv"]).encode()
    parts = []
    for kind, content in files.items():
        address = _beside(env, f"{place}/{name}.{kind.lower()}", content)
        parts.append(f'<a href="{address}" download>{kind}</a>')
    if command := _commands(env.docname).get(name):
        title = "Command for this figure" + " with another value" * (" -p " in command)
        parts.append(f"<details><summary>{title}</summary><pre>{escape(command)}</pre></details>")
    return f'<div class="cb-row">{" ".join(parts)}</div>'


@cache
def _commands(page: str) -> dict[str, str]:
    """Figure → the command that draws it alone, of a chapter."""
    if not page.startswith("notebooks/"):
        return {}
    chapter = read(Path(page).name)
    return {name: chapter.command(figure) for name, figure in chapter.figures().items()}
