"""What the theme and docutils leave out for keyboards and screen readers, added to each page.

Tables get a region of their own that scrolls and can be reached by keyboard, and no two regions of
a page share a name. The parameters of a long signature are set in a list that describes nothing:
it is marked as layout. The entries of the bibliography get the role that their list expects. The
theme's arrow that opens a part of the contents gets a name.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from sphinx.application import Sphinx

_MARKS = re.compile(r'<h[1-6]>(?P<heading>.*?)<a class="headerlink"'
                    r'|(?P<table><div class="pst-scrollable-table-container">)'
                    r'|(?P<region><[a-z]+ [^>]*role="region"[^>]*>)', re.DOTALL)
_LABEL = re.compile(r'aria-label="([^"]*)"')


def reachable(body: str) -> str:
    """Add what is missing to the HTML of a page.

    Examples
    --------
    >>> table = '<div class="pst-scrollable-table-container">'
    >>> print(reachable('<h2>Data<a class="headerlink"></a></h2>' + table + table))
    ... # doctest: +NORMALIZE_WHITESPACE
    <h2>Data<a class="headerlink"></a></h2><div class="pst-scrollable-table-container"
    role="region" tabindex="0" aria-label="Table: Data"><div
    class="pst-scrollable-table-container" role="region" tabindex="0"
    aria-label="Table: Data (2)">
    """
    body = body.replace(' role="doc-biblioentry"', ' role="listitem"')
    body = re.sub(r"(?<=\n)<dl>(?=\n<dd><em class=\"sig-param)", '<dl role="presentation">', body)
    heading, seen = "", Counter()

    def marked(found: re.Match) -> str:
        nonlocal heading
        if found["heading"]:
            heading = html.escape(html.unescape(re.sub("<[^>]*>", "", found["heading"])).strip())
            return found[0]
        tag = found[0] if found["region"] else (
            f'{found[0][:-1]} role="region" tabindex="0" aria-label="Table: {heading}">')
        label = _LABEL.search(tag)
        if label is None:
            return tag
        seen[label[1]] += 1
        if seen[label[1]] == 1:
            return tag
        return tag.replace(label[0], f'aria-label="{label[1]} ({seen[label[1]]})"')

    return _MARKS.sub(marked, body)


def named(contents: str) -> str:
    """Name the arrows that open the parts of a table of contents.

    Examples
    --------
    >>> named('<a href="runs.html">Runs</a><details><summary><i></i></summary>')
    '<a href="runs.html">Runs</a><details><summary aria-label="Pages under Runs"><i></i></summary>'
    """
    return re.sub(r"(>([^<>]*)</a>\s*<details[^>]*>\s*<summary)(?=>)",
                  r'\1 aria-label="Pages under \2"', contents)


def improve(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Mend a page's body, and the contents that its template asks for."""
    if "body" in context:
        context["body"] = reachable(context["body"])
    contents: Callable[..., Any] | None = context.get("generate_toctree_html")
    if contents is not None:
        def with_names(*args, **options):
            return named(str(contents(*args, **options)))

        context["generate_toctree_html"] = with_names


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the step, after the theme made its contents."""
    app.connect("html-page-context", improve, priority=900)
    return {"version": "1.0", "parallel_read_safe": True, "parallel_write_safe": True}
