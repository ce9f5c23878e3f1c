"""The Sphinx extension of the book: views of the evidence, and pages that everybody can read.

The directive ``view`` shows claims, records and verdicts as they are when the page is built.
`outputs` has what notebooks show. Then: accessibility, launch buttons, scripts, tables in print,
numpydoc that Sphinx can't read, and what lies beside the pages.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.docutils import SphinxDirective

from clusterbook import figures
from clusterbook.checks import one_of
from clusterbook.errors import InputError

from . import config, parameters, site, sources, views
from .outputs import Folded, shown

VIEWS: dict[str, Callable[..., views.View]] = {
    "errata": sources.errata,
    "erratum": sources.erratum,
    "parameters": parameters.parameter_table,
    "profiles": parameters.profile_table,
    "result": views.result,
    "scorecard": views.scorecard,
    "sources": sources.source_table,
    "status": views.status,
    "summary": views.summary,
    "under-way": views.under_way,
    "verdicts": views.verdicts,
}
"""The views that a page can show, by the name that the directive gives them."""
_MATH = re.compile(r"(?P<before>(?:(?<=[\s>])[^\s<>]{1,12})?)"
                   r'<span class="math[^>]*>[^<]*</span>(?P<after>[^\s<]*)')
_GROUP = 'role="group" tabindex="0" aria-label="Table"'


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
            one_of("view", name, VIEWS)
            view = VIEWS[name](*words)
        except (InputError, TypeError) as error:        # a wrong name, or number of them
            raise self.error(str(error)) from None
        return shown(view, self.env.docname)


def reachable(body: str) -> str:
    """Let keys reach what scrolls, and mend what has a wrong role."""
    body = body.replace(' role="doc-biblioentry"', ' role="listitem"')
    table = '<div class="pst-scrollable-table-container"'
    body = body.replace(table, f"{table} {_GROUP}")
    # The parameters of a long signature are a list that describes nothing.
    body = re.sub(r"(?<=\n)<dl>(?=\n<dd><em class=\"sig-param)", '<dl role="presentation">', body)
    # A data frame, with empty heads in its corner.
    body = re.sub(r"<div>(?=\s*<style scoped)", f'<div class="cb-scorecard-scroll" {_GROUP}>', body)
    return re.sub(r"<th([^>]*)></th>", r"<td\1></td>", body)


def named(contents: str) -> str:
    """Name the arrows that open the parts of a table of contents."""
    return re.sub(r"(>([^<>]*)</a>\s*<details[^>]*>\s*<summary)(?=>)",
                  r'\1 aria-label="Pages under \2"', contents)


def kept(body: str) -> str:
    """Keep formulas with what touches them, and options whole; let long names break at dots."""
    body = _MATH.sub(lambda found: f'<span class="cb-keep">{found[0]}</span>'
                     if found["before"] or found["after"] else found[0], body)
    body = re.sub(r'<span class="pre(?=">\[?-)', r"\g<0> cb-keep", body)
    return re.sub(r'(?<=<span class="pre">)[^<]{12,}', lambda found: re.sub(
        r"(?<=\w)[._/](?=\w)", r"\g<0><wbr>", found[0]), body)


def launched(body: str, link: str) -> str:
    """The front page's body with one button more, which opens the first chapter on Colab."""
    return re.sub(r'(?<=<p class="cb-buttons">)(.*?)(?=</p>)',
                  rf'\1 <a href="{link}">Open in Colab</a>', body, count=1, flags=re.DOTALL)


def improve(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any],
            doctree: Any) -> None:
    """Mend a page's body, contents, scripts and buttons, after the theme made them."""
    body = context.get("body", "")
    if 'class="math' not in body:       # MathJax: 2 MB
        context["script_files"] = [file for file in context["script_files"]
                                   if app.config.mathjax_path not in str(file.filename)]
    context["body"] = figures.glyphs_once(kept(reachable(body)))
    if contents := context.get("generate_toctree_html"):
        context["generate_toctree_html"] = lambda *args, **options: named(
            str(contents(*args, **options)))
    if pagename == app.config.root_doc and (address := site.current(Path(app.srcdir))).repository:
        first = f"notebooks/{next(iter(config.book().methods))}.ipynb"
        context["body"] = launched(context["body"], address.launchers(first)["Colab"])
    buttons = context.get("header_buttons", [])
    for group in [group for group in buttons if group.get("label") == "launch-buttons"]:
        if not pagename.startswith("notebooks/"):       # only a chapter installs what it needs
            buttons.remove(group)
            continue
        links = site.current(Path(app.srcdir)).launchers(f"{pagename}.ipynb")
        group["buttons"].append({"type": "link", "text": "Kaggle", "tooltip": "Launch on Kaggle",
                                 "icon": "fa-brands fa-kaggle", "url": links["Kaggle"]})


def configure(app: Sphinx, settings: Config) -> None:
    """Switch off buttons without an address, and Thebe, which runs code through a server."""
    known = bool(site.current(Path(app.srcdir)).repository)
    settings.html_theme_options |= {"use_repository_button": known, "use_issues_button": known}
    if not known:
        settings.html_theme_options["launch_buttons"] = {}
    for event, listeners in app.events.listeners.items():
        app.events.listeners[event] = [one for one in listeners
                                       if one.handler.__module__ != "sphinx_thebe"]
    app.registry.css_files = [file for file in app.registry.css_files
                              if file[0] != "sphinx-thebe.css"]


def fit_tables(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Give the columns of printed tables widths: LaTeX would not break their lines."""
    for table in doctree.findall(nodes.table) if app.builder.format == "latex" else ():
        rows = [[len(cell.astext()) for cell in row.findall(nodes.entry)]
                for row in table.findall(nodes.row)]
        columns = list(table.findall(nodes.colspec))
        if {len(row) for row in rows} != {len(columns)}:
            continue  # cells that span columns: left to LaTeX
        for column, width in zip(columns, shares(rows), strict=True):
            column["colwidth"] = width
        table["classes"] = [*set(table["classes"]) - {"colwidths-auto"}, "colwidths-given"]


def shares(rows: list[list[int]]) -> list[int]:
    """Widths of columns in percent, by the lengths of their longest cells within bounds."""
    widths = [min(max(*column, 6), 36) for column in zip(*rows, strict=True)]
    return [round(100 * width / sum(widths)) for width in widths]


def finish(app: Sphinx, error: Exception | None) -> None:
    """Put beside the pages what they link to: records, claims as data, and notebooks to run."""
    if error or app.builder.format != "html":
        return
    out = Path(app.outdir)
    shutil.copytree(config.root() / "data" / "records", out / "records", dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("*.npz", "*.pt", "under-way"))
    (out / "claims.json").write_bytes(sources.as_json())
    with zipfile.ZipFile(out / "notebooks.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for page in sorted(app.env.found_docs):
            file = Path(app.env.doc2path(page))
            if file.suffix != ".ipynb" or config.is_run(Path(page)):    # runs have their own page
                continue
            # Without the SVGs, which only a page shows. Sorted keys put the figure's name after.
            text = re.sub(r'"(csv|drawn)": "[^"]*",\s*', "", file.read_text(encoding="utf-8"))
            archive.writestr(zipfile.ZipInfo.from_file(file, f"{page}.ipynb"), text,
                             zipfile.ZIP_DEFLATED)
            (out / "_sources" / f"{page}.ipynb").write_text(text, encoding="utf-8")
    # Maps are for debugging the theme's scripts, its fonts lie there once more as WOFF2, and its
    # translations were read during the build.
    for unused in (out / "_static").rglob("*"):
        if unused.suffix in (".map", ".ttf", ".po", ".mo"):
            unused.unlink()


def readable(lines: list[str]) -> list[str]:
    """Turn footnotes, whose numbers are unique on a page, into a list; join attributes' names."""
    text = re.sub(r"^(\s*)\.\. \[(\d+)\] ", r"\1\2. ", "\n".join(lines), flags=re.MULTILINE)
    before, section, after = re.sub(r"\[(\d+)\]_", r"[\1]", text).partition("Attributes\n---")
    # "low, high : float" is taken for one name.
    after = re.sub(r"(?m)^\w+(, \w+)+(?= : )", lambda found: found[0].replace(", ", ","), after)
    return f"{before}{section}{after}".split("\n")


def rewrite(app, what, name, obj, options, lines) -> None:
    """Let napoleon, which comes later, read a docstring that it can read."""
    lines[:] = readable(lines)


def sign(app, what, name, obj, options, signature, returns) -> tuple[str, str] | None:
    """Leave out of a signature how a default is made."""
    return (signature.replace("<factory>", "..."), returns) if signature else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the steps and the directives."""
    app.setup_extension("sphinx.ext.autodoc")       # whose events two steps wait for
    app.add_directive("view", Inserted)
    app.add_transform(Folded)
    app.connect("config-inited", configure)
    app.connect("html-page-context", improve, priority=900)
    app.connect("doctree-resolved", fit_tables)
    app.connect("build-finished", finish)
    app.connect("autodoc-process-docstring", rewrite, priority=400)
    app.connect("autodoc-process-signature", sign)
    return {"version": "1.0", "parallel_read_safe": True, "parallel_write_safe": True}
