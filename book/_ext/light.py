"""MathJax only where a page has formulas.

Jupyter Book asks Sphinx for every script on every page; the one that sets formulas has two
megabytes, and the opening page has no formula.
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

_FORMULA = ('class="math ', 'class="math"')


def drop_mathjax(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Take the script out of a page whose body holds no formula."""
    if not any(mark in context.get("body", "") for mark in _FORMULA):
        context["script_files"] = [
            file for file in context["script_files"]
            if app.config.mathjax_path not in (getattr(file, "filename", None) or "")
        ]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the step, after all scripts are listed."""
    app.connect("html-page-context", drop_mathjax, priority=900)
    return {"version": "1.0", "parallel_read_safe": True, "parallel_write_safe": True}
