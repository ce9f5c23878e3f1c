"""What the tests of the built book share: it is built once, from the committed outputs.

A warning in any page fails that build. Test workers share one: the first to ask builds it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from _support import CHECKOUT, tree, wait_for
from bs4 import BeautifulSoup

from clusterbook import paths
from clusterbook.book.build import build, pages

TOC = sorted(page.with_suffix(".html").as_posix() for page in pages(CHECKOUT))
CHAPTERS = [f"notebooks/{name}.html" for name in paths.chapters()]
# Sphinx's own pages, beside those of the contents.
INDEXES = ["genindex.html", "py-modindex.html", "search.html"]


def built_once(folder: Path) -> tuple[Path, bool]:
    """The site, and whether its build left the checkout as it was; *folder* is all workers'."""
    said = folder / "left the checkout as it was"
    try:
        folder.mkdir()
    except FileExistsError:
        wait_for(said.exists, seconds=1200)
        answer = said.read_text(encoding="utf-8")
    else:
        answer = "the build failed"
        try:
            answer = str(_build(folder))
        finally:
            said.with_suffix(".new").write_text(answer, encoding="utf-8")
            said.with_suffix(".new").rename(said)
    if answer not in ("True", "False"):
        pytest.fail(f"{answer}, in the worker that began it")
    return folder / "html", answer == "True"


def _build(folder: Path) -> bool:
    watched = [CHECKOUT / name for name in ("book", "notebooks", "data/claims")]
    before = [tree(path, ["__pycache__"]) for path in watched]
    build(run=False, output=folder)
    return before == [tree(path, ["__pycache__"]) for path in watched]


def parse(site: Path) -> dict[str, BeautifulSoup]:
    """Every page by its path in the site."""
    return {path.relative_to(site).as_posix():
            BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
            for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
