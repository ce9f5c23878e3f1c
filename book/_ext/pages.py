"""Changes to each page: accessibility, launch buttons, scripts, and tables in print."""

from __future__ import annotations

import html
import re
from collections import Counter
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

_MARKS = re.compile(r'<h[1-6]>(?P<heading>.*?)<a class="headerlink"'
                    r'|(?P<table><div class="pst-scrollable-table-container">)'
                    r'|(?P<region><[a-z]+ [^>]*role="region"[^>]*>)', re.DOTALL)
_KAGGLE = "https://kaggle.com/kernels/welcome?src="
_NOT_OURS = "https://github.com/executablebooks/jupyter-book"  # Jupyter Book's default


def reachable(body: str) -> str:
    """Make tables regions that keys reach, give regions distinct names, and mend two roles."""
    body = body.replace(' role="doc-biblioentry"', ' role="listitem"')
    # The parameters of a long signature are a list that describes nothing.
    body = re.sub(r"(?<=\n)<dl>(?=\n<dd><em class=\"sig-param)", '<dl role="presentation">', body)
    heading, seen = "", Counter()

    def marked(found: re.Match) -> str:
        nonlocal heading
        if found["heading"]:
            heading = html.escape(html.unescape(re.sub("<[^>]*>", "", found["heading"])).strip())
            return found[0]
        tag = found[0] if found["region"] else (
            f'{found[0][:-1]} role="region" tabindex="0" aria-label="Table: {heading}">')
        label = re.search(r'aria-label="([^"]*)"', tag)
        if label is None:
            return tag
        seen[label[1]] += 1
        number = f" ({seen[label[1]]})" if seen[label[1]] > 1 else ""
        return tag.replace(label[0], f'aria-label="{label[1]}{number}"')

    return _MARKS.sub(marked, body)


def named(contents: str) -> str:
    """Name the arrows that open the parts of a table of contents."""
    return re.sub(r"(>([^<>]*)</a>\s*<details[^>]*>\s*<summary)(?=>)",
                  r'\1 aria-label="Pages under \2"', contents)


def kaggle_url(repository: str, branch: str, page: str) -> str:
    """The address at which Kaggle opens the notebook of a page."""
    return f"{_KAGGLE}{repository.rstrip('/')}/blob/{branch}/{page}.ipynb"


def shares(rows: list[list[int]]) -> list[int]:
    """Widths of columns in percent, by their longest cells within bounds.

    Parameters
    ----------
    rows : list of list of int
        The length of each cell.
    """
    widths = [min(max(*column, 6), 36) for column in zip(*rows, strict=True)]
    return [round(100 * width / sum(widths)) for width in widths]


def improve(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any],
            doctree: Any) -> None:
    """Mend a page's body, contents, scripts and buttons, after the theme made them."""
    body = context.get("body", "")
    if not any(mark in body for mark in ('class="math ', 'class="math"')):     # MathJax: 2 MB
        context["script_files"] = [file for file in context["script_files"]
                                   if app.config.mathjax_path
                                   not in (getattr(file, "filename", None) or "")]
    if body:
        context["body"] = reachable(body)
    if contents := context.get("generate_toctree_html"):
        context["generate_toctree_html"] = lambda *args, **options: named(
            str(contents(*args, **options)))
    options, buttons = app.config.html_theme_options, context.get("header_buttons", [])
    for group in [group for group in buttons if group.get("label") == "launch-buttons"]:
        if not pagename.startswith("notebooks/"):       # only a chapter installs what it needs
            buttons.remove(group)
            continue
        group["buttons"].append({
            "type": "link", "text": "Kaggle", "tooltip": "Launch on Kaggle",
            "icon": "fa-brands fa-kaggle",
            "url": kaggle_url(options["repository_url"],
                              options.get("repository_branch") or "main", pagename)})


def configure(app: Sphinx, config: Config) -> None:
    """Switch off buttons without an address, and Thebe, which runs code through a server."""
    options = config.html_theme_options
    known = options.get("repository_url") not in (None, "", _NOT_OURS)
    options |= {"use_repository_button": known, "use_issues_button": known}
    if not known:
        options["launch_buttons"] = {}
    for listeners in list(app.events.listeners.values()):
        for listener in list(listeners):
            if listener.handler.__module__ == "sphinx_thebe":
                app.disconnect(listener.id)
    app.registry.css_files = [file for file in app.registry.css_files
                              if file[0] != "sphinx-thebe.css"]


def fit_tables(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Give the columns of printed tables widths: LaTeX would not break their lines."""
    for table in doctree.findall(nodes.table) if app.builder.format == "latex" else ():
        group = table.next_node(nodes.tgroup)
        rows = [[len(cell.astext()) for cell in row.findall(nodes.entry)]
                for row in group.findall(nodes.row)]
        columns = list(group.findall(nodes.colspec))
        if len({len(row) for row in rows}) > 1 or len(rows[0]) != len(columns):
            continue  # cells that span columns: left to LaTeX
        for column, width in zip(columns, shares(rows), strict=True):
            column["colwidth"] = width
        table["classes"] = [name for name in table["classes"] if name != "colwidths-auto"]
        table["classes"].append("colwidths-given")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the steps."""
    app.connect("config-inited", configure)
    app.connect("html-page-context", improve, priority=900)
    app.connect("doctree-resolved", fit_tables)
    return {"version": "1.0", "parallel_read_safe": True, "parallel_write_safe": True}
