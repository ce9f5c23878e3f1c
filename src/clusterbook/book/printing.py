"""The whole book as one PDF: Jupyter Book's LaTeX of the staged pages, set by latexmk.

Pages are the same as the site's. Tables that only a browser can show become lists, and of a figure
in steps the first one stands. Fonts for code come from matplotlib, which every machine that runs a
chapter has: they hold the signs that checks and formulas in code are written with.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from html import escape
from importlib.util import find_spec
from pathlib import Path

import nbformat

from .. import paths
from ..errors import InputError
from .build import BuildError, default_output, executed_pages, jupyter_book, stage
from .reading import read_notebook

_PROGRAMS = ("latexmk", "xelatex")
_FONTS = ("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique",
          "DejaVuSansMono-BoldOblique")
# Jupyter Book's document class loads it for letters that no page uses; on Debian the package comes
# with a gigabyte of fonts.
_BBM = "\\ProvidesPackage{bbm}\n\\newcommand{\\mathbbm}[1]{\\mathbb{#1}}\n"


def build_pdf(*, run: bool = True, output: Path | None = None, progress: bool = False,
              say=lambda line: None) -> Path:
    """Execute the chapters and set the book as a PDF.

    Parameters
    ----------
    run, output, progress, say
        As for `clusterbook.book.build.build`; the PDF is ``pdf/clusterbook.pdf`` in the folder.

    Returns
    -------
    Path
        The PDF.

    Raises
    ------
    ChapterError
        As for `clusterbook.book.build.build`.
    BuildError
        If Jupyter Book warns or fails, or LaTeX fails.
    InputError
        If LaTeX is not installed, or the output folder can't be written.
    """
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        raise InputError(
            f"the PDF is set by LaTeX, and {' and '.join(missing)} can't be found; install a LaTeX "
            "with XeLaTeX and latexmk, on Debian and Ubuntu: apt-get install latexmk texlive-xetex "
            "texlive-latex-extra texlive-fonts-recommended fonts-freefont-otf")
    source = paths.root()
    output = output or default_output()
    executed = executed_pages(source, output, run=run, progress=progress, say=say)
    say("building the pages")
    staged = output / "stage-pdf"
    stage(source, staged, executed)
    for place in executed:
        _print_tables(staged / place)
    jupyter_book(staged, output / "latex", output / "latex.log", builder="latex")
    say("setting the pages with LaTeX")
    return _set(output / "latex" / "_build" / "latex", output / "pdf", output / "latex.log")


def _print_tables(path: Path) -> None:
    """Give every output that is HTML and no picture a form that can be printed."""
    notebook = read_notebook(path)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "text/html" in data and "image/png" not in data:
                data["text/markdown"] = as_markdown(data["text/html"])
    nbformat.write(notebook, path)


def as_markdown(html: str) -> str:
    """An HTML output as Markdown: a table as a list of its rows, its columns named in each.

    What a page folds away stays folded away: the scorecard lists all claims, once.

    Examples
    --------
    >>> print(as_markdown("<table><caption>Scores</caption><tr><th>method</th><th>ACC</th></tr>"
    ...                   "<tr><th>k_means</th><td>0.79<div>3 seeds</div></td></tr></table>"))
    **Scores**
    <BLANKLINE>
    - k\\_means. *ACC*: 0.79. 3 seeds
    """
    from bs4 import BeautifulSoup

    page = BeautifulSoup(html, "html.parser")
    for unseen in page.select("[hidden], style, script, th details"):
        unseen.decompose()
    for folded in page.find_all("details"):
        shown = folded.find("summary").get_text(" ", strip=True).removesuffix(" Show them.")
        folded.replace_with(BeautifulSoup(f"<p>{escape(shown)}</p>", "html.parser"))
    blocks = []
    for part in page.find_all(["p", "table", "dl"]):
        if part.name == "p":
            blocks.append(_words(part))
        elif part.name == "dl":
            named = zip(part.find_all("dt"), part.find_all("dd"), strict=True)
            blocks.append("\n".join(f"- *{_words(name)}*: {_words(what)}" for name, what in named))
        else:
            blocks += _rows(part)
    return "\n\n".join(filter(None, blocks))


def _rows(table) -> list[str]:
    caption = table.find("caption")
    blocks = [f"**{_words(caption)}**"] if caption else []
    heads: list[str] = []
    for row in table.find_all("tr"):
        name, *values = [_words(cell) for cell in row.find_all(["th", "td"])]
        if not heads:
            heads = values
        elif not values:
            blocks.append(f"**{name}**")
        else:
            told = [f"*{head}*: {value}" for head, value in zip(heads, values, strict=True)
                    if value not in ("", "–")]
            blocks.append("- " + ". ".join(part.removesuffix(".") for part in [name, *told]))
    return blocks


def _words(element) -> str:
    """What an element says, on one line."""
    said: list[str] = []
    for child in element.children:
        if child.name is None:
            text = re.sub(r"([\\`*_\[\]<>#])", r"\\\1", " ".join(child.split()))
        elif child.name == "code":
            text = f"`{child.get_text()}`"
        elif child.name == "strong" or "cb-verdict" in child.get("class", ()):
            text = f"**{_words(child)}**"
        else:
            text = _words(child)
        if not text:
            continue
        if said and child.name == "div" and not said[-1].endswith((".", ":")):
            said[-1] += "."
        said.append(text)
    return re.sub(r" ([,.;:)])", r"\1", " ".join(said)).replace("( ", "(")


def _set(pages: Path, target: Path, log: Path) -> Path:
    """Run LaTeX as often as references need, and put its PDF in the place of the old one."""
    (pages / "bbm.sty").write_text(_BBM, encoding="utf-8")
    fonts = Path(find_spec("matplotlib").origin).parent / "mpl-data" / "fonts" / "ttf"
    for name in _FONTS:
        shutil.copy2(fonts / f"{name}.ttf", pages)
    with log.open("a", encoding="utf-8") as file:
        status = subprocess.run(
            ["latexmk", "-xelatex", "-interaction=nonstopmode", "-halt-on-error",
             "clusterbook.tex"], cwd=pages, stdin=subprocess.DEVNULL, stdout=file,
            stderr=subprocess.STDOUT, check=False, env={**os.environ, "LATEXOPTS": ""}).returncode
    made = pages / "clusterbook.pdf"
    if status or not made.is_file():
        wrong = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
                 if line.startswith("! ")]
        raise BuildError("LaTeX failed:\n" + "\n".join(f"    {line}" for line in wrong[:5])
                         + f"\nThe whole log: {log}")
    target.mkdir(exist_ok=True)
    return made.replace(target / made.name)
