"""The Sphinx extension of the book: views of the evidence, and what lies beside the pages.

The directive ``view`` shows claims, records and verdicts as they are when the page is built, and
lists chapters and methods. `outputs` has what notebooks show.

Formulas and icons are drawn when the book is built: browsers show MathML and inline SVG by
themselves. The scripts and fonts that would draw them there, 4 MB, are left out of the site.
"""

import base64
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache
from html import escape
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from types import CodeType
from typing import Any, get_type_hints

import joblib
import nbformat
from docutils import nodes
from fontTools.pens.svgPathPen import SVGPathPen
from fontTools.ttLib import TTFont
from math_core import LatexError, LatexToMathML
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import stringify_signature
from sphinx.util.logging import getLogger
from sphinx.writers.html5 import HTML5Translator

from clusterbook import figures
from clusterbook.checks import InputError

from . import config, parameters, pieces, sources, views
from .machine import library
from .outputs import shown
from .records import HELD

_EQUATION = re.compile(r"\bEqs?\. (\d+)((?: (?:and|to) \d+)?)")
_FOLD = ":::{dropdown} Functions and classes\n"
#: What the theme would load for each page; only the page of results searches.
_FILES = r'(?s)\s*<(?:link|(script))\b[^>]*"[^"]*(?:{})[^"]*"[^>]*>(?(1).*?</script>)'
_UNUSED = re.compile(_FILES.format("fontawesome|thebe"))
_SEARCH = re.compile(_FILES.format("searchtools|language_data|searchindex"))
_ICON = re.compile(r'<(i|span) class="([^"]*\bfa[sb]?[ -][^"]*)"([^>]*)></\1>')
#: Of code, tags without a color of their own: names, signs and spaces.
_PLAIN = re.compile(r'<span class="(?:n|nn|nx|p|pm|w)">([^<]*)</span>')
_ALIKE = re.compile(r'<span class="(\w{1,2})">([^<]*)</span>(?:<span class="\1">[^<]*</span>)+')


def methods() -> str:
    """Markdown on the library's methods: where each equation is computed, and every module."""
    tables, modules, folder = [], [], library()
    for chapter, title in config.book().methods.items():
        rows = []
        for path in sorted((folder / chapter).glob("*.py")):        # a comparison has none
            file = path.relative_to(folder.parent).as_posix()
            name = file.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
            fold = path.stem != "__init__"
            modules.append(f"### {name}\n\n{_FOLD * fold}```{{eval-rst}}\n.. automodule:: {name}\n"
                           f"   :members:\n   :ignore-module-all:\n```\n{':::' * fold}")
            codes = [compile(path.read_bytes(), file, "exec")]
            for code in codes:          # their list grows by what each defines
                codes += [part for part in code.co_consts if isinstance(part, CodeType)]
                begins = str(next(iter(code.co_consts), "")).partition("\n\n")[0]   # the docstring
                function = code.co_qualname.replace(".<locals>", "")
                rows += [(int(first), f"\n| {first}{more} | `{function}` | `{file}` |")
                         for first, more in _EQUATION.findall(" ".join(begins.split()))]
        if rows:
            tables.append(f"**{title}**\n\n| Equation | Function | File |\n|---|---|---|"
                          + "".join(row for _, row in sorted(rows)))
    return "\n\n".join(tables + modules)


VIEWS: dict[str, Callable[..., views.View | str]] = {
    view.__name__.replace("_", "-"): view for view in (
        methods, sources.errata, sources.erratum, pieces.pieces, views.in_brief, views.result,
        views.scorecard, views.status, views.summary, views.under_way, views.verdicts)}
VIEWS |= {"parameters": parameters.shown, "sources": sources.source_table}
"""The views that a page can show, by the name that the directive gives them.

A view that is a text is Markdown, with headings of the page.
"""


class Inserted(SphinxDirective):
    """The directive ``view``: ``scorecard``, ``result tell``, or another of `VIEWS`.

    It replaces its content, which a reader sees where the directive is not known, on Colab.
    """

    has_content = True
    required_arguments, optional_arguments, final_argument_whitespace = 1, 1, True

    def run(self) -> list[nodes.Node]:
        """The view as it is now; a page with a view is read again in every build."""
        self.env.note_reread()
        name, *words = " ".join(self.arguments).split()
        try:
            view = config.pick("view", name, VIEWS)(*words)
        except (InputError, TypeError) as error:        # a wrong name, or number of them
            raise self.error(str(error)) from None
        if isinstance(view, str):
            return self.parse_text_to_nodes(view, allow_section_headings=True)
        return shown(view, self.env.docname)


def share(app: Sphinx) -> None:
    """Let each processor read and write some of the pages; jupyter-book has no option for it."""
    app.parallel = joblib.cpu_count()
    for extension in app.extensions.values():       # some of jupyter-book's don't say that they are
        extension.parallel_read_safe = True


def pack(app: Sphinx) -> None:
    """Make the wheel and the sdist, if the package ``build`` is here, before pages link to them."""
    folder, root, found = Path(app.outdir, "packages"), config.checkout(), find_spec("build")
    if (app.builder.format == "html" and root and (root / "pyproject.toml").is_file()
            and found and found.origin):
        subprocess.run([sys.executable, "-m", "build", "--outdir", folder, root], check=True)
    links = [f'- <a href="../packages/{file.name}" download>{file.name}</a>: '
             f"{file.stat().st_size / 1e6:.0f} MB" for file in sorted(folder.glob("*"))]
    VIEWS["packages"] = lambda: "\n".join(links) or (
        "- This copy of the site has neither a wheel nor an sdist: it was built without the Python "
        "package `build`. In a clone of the repository, `python -m build` makes both.")


def adjust(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any],
           doctree: Any) -> None:
    """Leave out of a page what it does not need, after the theme made it."""
    context["body"] = figures.glyphs_once(context.get("body", ""))
    context["script_files"] = [file for file in context["script_files"] if not re.search(
        "(?i)thebe", f"{file.filename} {file.attributes}")]     # runs code through a server
    if not pagename.startswith("notebooks/"):       # only a chapter installs what it needs
        context["header_buttons"] = [button for button in context.get("header_buttons", [])
                                     if button.get("label") != "launch-buttons"]


class Words(SearchEnglish):
    """What the search finds: words, and decimal numbers, which English would split."""

    js_splitter_code = (r"var splitQuery = query => query.match("
                        r"/\p{Number}+(?:\.\p{Number}+)+|[\p{Letter}\p{Number}_]+/gu) ?? [];")

    def split(self, input: str) -> list[str]:
        """The words of a text, as the script splits a query."""
        return re.findall(r"\d+(?:\.\d+)+|\w+", input)


def fit_tables(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Give the columns of printed tables widths: LaTeX would not break the lines of long ones."""
    for table in doctree.findall(nodes.table) if app.builder.format == "latex" else ():
        rows = [[min(max(len(cell.astext()), 6), 36) for cell in row.findall(nodes.entry)]
                for row in table.findall(nodes.row)]
        columns = [*table.findall(nodes.colspec)]
        if {len(row) for row in rows} == {len(columns)}:        # no cell spans columns
            for column, widths in zip(columns, zip(*rows, strict=True), strict=True):
                column["colwidth"] = max(widths)
            table["classes"] = ["colwidths-given"]


def formula(translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML; one that has none is a warning with its place: the build fails."""
    block, text = isinstance(node, nodes.math_block), node.astext()
    if block and r"\\" in text and r"\begin" not in text:
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    try:
        made = LatexToMathML().convert_with_local_state(text, displaystyle=block)
    except LatexError as error:
        getLogger(__name__).warning("no MathML for %r: %s", text, error, location=node)
        made = escape(text)
    kind = "div" if block else "span"
    translator.body.append(translator.starttag(node, kind, "", CLASS="math"))
    translator.body.append(f"{made}</{kind}>")
    raise nodes.SkipNode


def lighter(html: str, static: Path, searches: bool = False) -> str:
    """A page of the theme, with its icons drawn, fewer tags around code, and no unused files.

    What is folded is named by its title.
    """
    def joined(found: re.Match) -> str:
        text = "".join(re.findall(">([^<]*)</span>", found[0]))
        return f'<span class="{found[1]}">{text}</span>'

    def drawn(found: re.Match) -> str:
        named = re.sub(' title="[^"]*"', "", found[3])
        return f'<svg class="cb-icon {found[2]}"{named} {icon(static, found[2])}</svg>'

    # Screen readers would say these words of every fold instead of its title.
    html = html.replace('<summary aria-label="Toggle hidden content">', "<summary>")
    html = _ICON.sub(drawn, _ALIKE.sub(joined, _PLAIN.sub(r"\1", _UNUSED.sub("", html))))
    return html if searches else _SEARCH.sub("", html)


@cache
def icon(static: Path, classes: str) -> str:
    """An icon of the theme's fonts, by its classes: the rest of an SVG, hidden from readers."""
    css = (static / "styles" / "pydata-sphinx-theme.css").read_text(encoding="utf-8")
    names = "|".join(re.findall(r"fa-([\w-]+)", classes))
    code = int(re.search(rf'\.fa-(?:{names}):before[^{{]*{{content:"\\(\w+)"', css)[1], 16)
    style = "brands" if re.search(r"\bfab|brands", classes) else "solid"
    (file,) = (static / "vendor" / "fontawesome" / "webfonts").glob(f"fa-{style}-*.ttf")
    font = TTFont(file)
    glyphs = font.getGlyphSet()
    glyph, pen = glyphs[font.getBestCmap()[code]], SVGPathPen(glyphs)
    glyph.draw(pen)
    return (f'aria-hidden="true" height="1em" viewBox="0 -448 {glyph.width} 512"><path '
            f'fill="currentColor" transform="scale(1 -1)" d="{pen.getCommands()}"/>')


def trim(static: Path) -> None:
    """Remove what no page loads: maps, fonts, their rules, and what was read during the build."""
    sheet = static / "styles" / "pydata-sphinx-theme.css"
    css = re.sub(r'@font-face{[^}]*webfonts[^}]*}|(?:\.fa-[\w-]+:before,?)+{content:"[^"]*"}', "",
                 sheet.read_text(encoding="utf-8"))
    sheet.write_text(css, encoding="utf-8")
    shutil.rmtree(static / "vendor")
    shutil.rmtree(static / "locales", ignore_errors=True)
    for file in static.rglob("*.*"):
        if file.suffix == ".map" or re.match("fontawesome|sphinx-thebe", file.name):
            file.unlink()


def finish(app: Sphinx, error: Exception | None) -> None:
    """Put beside the pages what they link to: records, claims as data, and notebooks to run."""
    if error or app.builder.format != "html":
        return
    out = Path(app.outdir)
    shutil.copytree(config.root() / "data" / "records", out / "records", dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("*.npz", "*.pt", "under-way", HELD))
    (out / "claims.json").write_bytes(sources.as_json())
    with zipfile.ZipFile(out / "notebooks.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for page in sorted(app.env.found_docs):
            file = Path(app.env.doc2path(page))
            if file.suffix != ".ipynb":
                continue
            # Without the SVGs, which only a page shows, and with one picture of a figure that has
            # sliders: a run brings them back. Sorted keys put the figure's name after.
            text = re.sub(r'"(csv|drawn)": "[^"]*",\s*', "", file.read_text(encoding="utf-8"))
            if page.startswith("book/runs/"):       # have their own page, and larger pictures
                text = re.sub(r'(?<="image/png": ")[^"\\]*', lambda found: figures.few_colors(
                    base64.b64decode(found[0])), text)
            else:
                text = re.sub(r'(?s)"text/html": \[\s*"<div class=\\"cb-steps.*?\n *\],\s*', "",
                              text)
                notebook = parameters.read_notebook(file)
                for cell in notebook.cells:
                    if cell.cell_type == "code":
                        cell.outputs, cell.execution_count = [], None
                archive.writestr(f"{page}.ipynb", nbformat.writes(notebook))
            (out / "_sources" / f"{page}.ipynb").write_text(text, encoding="utf-8")
    for file in (out / "_images").glob("*.png"):
        file.write_bytes(base64.b64decode(figures.few_colors(file.read_bytes())))
    for file in out.rglob("*.html"):
        if "_static" not in file.parts:
            text = lighter(file.read_text(encoding="utf-8"), out / "_static",
                           searches=file.name == "search.html")
            file.write_text(text, encoding="utf-8")
    trim(out / "_static")


def plain_signature(_app: Sphinx, what: str, _name: str, thing: Any, _options: Any, _signature: str,
                    returns: str) -> tuple[str, str] | None:
    """The signature of a dataclass on the library's page, without how pydantic validates it."""
    if what != "class" or not is_dataclass(thing):
        return None
    found = signature(thing)
    types = get_type_hints(thing) if hasattr(thing, "__pydantic_fields__") else {}
    found = found.replace(parameters=[
        field.replace(annotation=types.get(field.name, field.annotation))
        for field in found.parameters.values()], return_annotation=found.empty)
    # Sphinx takes apart only what is Python.
    shown = stringify_signature(found, unqualified_typehints=True).replace("<factory>", "...")
    return shown, returns


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the steps and the directive."""
    app.setup_extension("sphinx.ext.autodoc")       # declares the event of signatures
    app.add_directive("view", Inserted)
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
    app.config.html_math_renderer = "mathml"
    app.add_search_language(Words)
    app.add_js_file(None, body=Path(__file__).with_name("drawn.js").read_text(encoding="utf-8"))
    app.connect("builder-inited", share)
    app.connect("builder-inited", pack)
    app.connect("autodoc-process-signature", plain_signature)
    app.connect("html-page-context", adjust, priority=900)
    app.connect("doctree-resolved", fit_tables)
    app.connect("build-finished", finish)
    return {"version": "1.0", "parallel_read_safe": True, "parallel_write_safe": True}
