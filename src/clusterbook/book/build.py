"""Build the book, as a site or as a PDF, without writing to the checkout.

Changed notebooks are executed side by side, one process a core, into a cache whose keys are hashes
of everything that their outputs depend on. The sources are copied to ``_build/stage`` with the
executed notebooks in their places, Jupyter Book builds that copy, and the finished site replaces
the old one by rename. If a chapter or a page fails, the earlier site stays.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import as_completed
from html import unescape
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .. import paths
from ..errors import InputError

# Imported where they are used: parameters and runs. Nothing is to wait for them when nothing
# changed.

_VERSIONS = ("numpy", "scipy", "scikit-learn", "torch", "matplotlib", "jupyter-book", "myst-nb",
             "sphinx-book-theme")
_EVIDENCE = ("data/claims", "data/errata", "data/expectations", "data/records")
_LONGEST = ("comparison", "tell", "idc", "deepcluster", "weights")      # executed first
_RUNS = ("book", "runs")        # executed at the paper's scale, once, and rendered as they are


class BuildError(RuntimeError):
    """Chapters failed, or Jupyter Book reported an error or a warning."""


def build(*, run: bool = True, output: Path | None = None, progress: bool = False,
          say: Callable[[str], None] = lambda line: None) -> Path:
    """Execute the chapters that changed and build the site.

    Parameters
    ----------
    run : bool
        Execute what has changed; False renders the committed outputs.
    output : Path, optional
        Folder for everything that the build leaves: the site in ``html/``, executed notebooks, the
        log. Default: the checkout's ``_build``.
    progress : bool
        Show a bar over the chapters.
    say : callable (str) -> None
        Receives a line for each step.

    Returns
    -------
    Path
        The site's ``index.html``.

    Raises
    ------
    BuildError
        If a chapter or one of its checks fails, or Jupyter Book warns or fails.
    InputError
        If the output folder can't be written, or a file of the book is damaged.
    """
    source, output = paths.root(), output or _default_output()
    site, old, key = output / "html", output / "html.old", _site_key(source, run)
    if old.is_dir() and not site.exists():      # a build was killed between the two renames
        old.rename(site)
    if (site / ".key").is_file() and (site / ".key").read_text(encoding="utf-8") == key:
        say("nothing changed since the last build")
        return site / "index.html"
    executed = executed_pages(source, output, run=run, progress=progress, say=say)
    say("building the pages")
    stage(source, output / "stage", executed)
    jupyter_book(output / "stage", output / "site", output / "build.log")
    finished = output / "site" / "_build" / "html"
    for source_map in (finished / "_static").rglob("*.map"):
        source_map.unlink()             # 3 MB for debugging the theme's scripts
    (finished / ".key").write_text(key, encoding="utf-8")
    shutil.rmtree(old, ignore_errors=True)
    if site.exists():
        site.rename(old)
    finished.rename(site)
    for folder in (old, output / "site"):
        shutil.rmtree(folder, ignore_errors=True)
    return site / "index.html"


def build_pdf(*, run: bool = True, output: Path | None = None, progress: bool = False,
              say: Callable[[str], None] = lambda line: None) -> Path:
    """Execute the chapters that changed and set the book as a PDF, ``pdf/clusterbook.pdf``.

    Parameters and errors are those of `build`; LaTeX has to be installed.
    """
    missing = [name for name in ("latexmk", "xelatex") if shutil.which(name) is None]
    if missing:
        raise InputError(
            f"the PDF is set by LaTeX, and {' and '.join(missing)} can't be found; install a LaTeX "
            "with XeLaTeX and latexmk, on Debian and Ubuntu: apt-get install latexmk texlive-xetex "
            "texlive-latex-extra texlive-fonts-recommended fonts-freefont-otf")
    source, output = paths.root(), output or _default_output()
    executed = executed_pages(source, output, run=run, progress=progress, say=say)
    say("building the pages")
    staged, log = output / "stage-pdf", output / "latex.log"
    stage(source, staged, executed, printed=True)
    jupyter_book(staged, output / "latex", log, builder="latex")
    say("setting the pages with LaTeX")
    return _latex(output / "latex" / "_build" / "latex", output / "pdf", log)


def _default_output() -> Path:
    return (paths.checkout() or Path.cwd()) / "_build"


# --- keys --------------------------------------------------------------------------------------


def _site_key(source: Path, run: bool) -> str:
    """A hash of all files that the site is made of, and of the versions."""
    package = Path(paths.__file__).parent
    files = [source / "_config.yml", *source.glob("data/*.yaml"), *package.rglob("*.py"),
             package / "datasets" / "catalog.yaml"]
    for folder in ("book", "notebooks", *_EVIDENCE):
        files += [path for path in (source / folder).rglob("*") if "__pycache__" not in path.parts]
    return _hash(run, _contents(files), _versions())


def notebook_key(path: Path) -> str:
    """A hash of everything that a notebook's outputs depend on.

    That is: its cells; the code, without comments and docstrings, of every clusterbook module that
    it reaches; the claims, expectations, errata and records of its chapter, for a page around the
    chapters those of all, and their parameters and profiles; the versions of what it runs on.
    """
    from ..fingerprint import hash_modules, modules_of
    from .parameters import read, read_notebook

    notebook = read_notebook(path)
    cells = [(c.cell_type, c.source, c.metadata.get("tags", [])) for c in notebook.cells]
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    root, chapter = paths.root(), path.stem if path.parent.name == "notebooks" else ""
    files = [root / "data" / "lineage.yaml", Path(paths.__file__).parent / "datasets/catalog.yaml",
             *(file for folder in _EVIDENCE for file in (root / folder).glob(f"{chapter}*"))]
    shown = {}
    if not chapter:
        files += (root / "notebooks" / "profiles").glob("*.yaml")
        shown = {name: repr(read(name).parameters) for name in paths.chapters()}
    return _hash(cells, hash_modules(modules_of(code)), _contents(files), shown, _versions())


def _contents(files: Iterable[Path]) -> list[tuple[str, str]]:
    return [(str(path), hashlib.sha256(path.read_bytes()).hexdigest())
            for path in sorted(set(files)) if path.is_file()]


def _hash(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _versions() -> dict[str, str]:
    python = ".".join(map(str, sys.version_info[:2]))
    return {"python": python, **{name: version(name) for name in _VERSIONS}}


# --- executing ---------------------------------------------------------------------------------


def executed_pages(source: Path, output: Path, *, run: bool, progress: bool,
                   say: Callable[[str], None]) -> dict[Path, Path]:
    """Each notebook of the contents → its executed copy; without *run*, the committed one.

    Raises BuildError if notebooks failed, after all others were executed and kept for the next
    build.
    """
    from .parameters import read_yaml
    from .runs import writable

    writable(output / "executed")
    read_yaml(source / "_config.yml")       # a damaged one is found before a chapter runs
    found = {path: source / path for path in pages(source) if path.suffix == ".ipynb"}
    if not run:
        return found
    for path in found:
        if path.parts[:2] != _RUNS:
            key = notebook_key(source / path)[:16]
            found[path] = output / "executed" / f"{path.stem}-{key}.ipynb"
    missing = [path for path, cached in found.items() if not cached.is_file()]
    missing.sort(key=lambda path: _LONGEST.index(path.stem) if path.stem in _LONGEST else 99)
    errors = _execute_all({source / path: found[path] for path in missing}, progress, say)
    if errors:
        lines = [f"  {path.relative_to(source).as_posix()}: {error}"
                 for path, error in errors.items()]
        said = (f"{len(errors)} of {len(missing)} notebooks failed; the earlier site stays, and "
                "the next build executes only what failed")
        raise BuildError("\n".join([said, *lines]))
    for old in set((output / "executed").glob("*.ipynb")) - set(found.values()):
        old.unlink()
    return found


def _execute_all(notebooks: Mapping[Path, Path], progress: bool, say: Callable[[str], None]
                 ) -> dict[Path, str]:
    """Execute notebooks side by side, in the given order; the errors of those that failed."""
    from ..progress import bar
    from .processes import cores, processes
    from .runs import ChapterError

    if not notebooks:
        return {}
    # Small work: with more threads than idle cores it takes ten times as long.
    threads = os.environ.get("OMP_NUM_THREADS") or "1"
    number = min(len(notebooks), max(1, cores() // (int(threads) if threads.isdecimal() else 1)))
    say(f"executing {len(notebooks)} notebooks, {number} at a time")
    errors: dict[Path, str] = {}
    with (processes(number, threads) as submit,
          bar(len(notebooks), "chapters", unit="chapter", progress=progress) as shown):
        pending = {submit(_execute, path, cached): path for path, cached in notebooks.items()}
        for future in as_completed(pending):
            path = pending[future]
            try:
                line = f"{path.stem}: executed in {future.result():.0f} s"
            except (ChapterError, InputError) as error:
                errors[path], line = str(error), f"{path.stem}: failed"
            shown.clear()
            say(line)
            shown.update()
    return {path: errors[path] for path in notebooks if path in errors}


def _execute(path: Path, cached: Path) -> float:
    """Execute a notebook into the cache, if its checks hold; the seconds that it took."""
    from .runs import ChapterError, execute, failed_checks

    begun, draft = time.monotonic(), cached.with_suffix(".draft")
    try:
        failed = failed_checks(execute(path, draft))
        if failed:
            raise ChapterError("\n".join(["a check does not hold with the default parameters:",
                                          *(f"    {line}" for line in failed)]))
        draft.rename(cached)
    finally:
        draft.unlink(missing_ok=True)
    return time.monotonic() - begun


def pages(source: Path) -> list[Path]:
    """Every page of the table of contents, relative to the book's root, with its suffix."""
    from .parameters import read_yaml

    def names(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            for key, value in node.items():
                yield from [value] if key in ("file", "root") else names(value)
        elif isinstance(node, list):
            for item in node:
                yield from names(item)

    found = []
    for name in names(read_yaml(source / "book" / "_toc.yml")):
        files = [Path(name + ending) for ending in (".ipynb", ".md")
                 if (source / (name + ending)).is_file()]
        if not files:
            raise InputError(f"book/_toc.yml names {name}, which is not there")
        found.append(files[0])
    return found


# --- the staged sources ------------------------------------------------------------------------


def stage(source: Path, target: Path, notebooks: Mapping[Path, Path], printed: bool = False
          ) -> None:
    """Copy the book's sources, with the executed notebooks in their places."""
    from .parameters import read_notebook
    from .runs import write_notebook

    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source / "book", target / "book",
                    ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    shutil.copy2(source / "_config.yml", target)
    # The scorecard's rows link to the records.
    (target / "extra" / "records").mkdir(parents=True)
    for record in (source / "data" / "records").glob("*.json"):
        shutil.copy2(record, target / "extra" / "records")
    # A recorded run is downloaded from its own page.
    with zipfile.ZipFile(target / "extra" / "notebooks.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for place, executed in sorted(notebooks.items()):
            if place.parts[:2] != _RUNS:
                archive.write(executed, place)
    for place, executed in notebooks.items():
        notebook = read_notebook(executed)
        for cell in notebook.cells:
            if "outputs" in cell:
                _fit(cell, place.stem, printed)
        write_notebook(notebook, target / place)


def _fit(cell: Any, page: str, printed: bool) -> None:
    """Fit a cell's outputs to its page.

    A figure of `clusterbook.figures.show` gets its text, its caption and an anchor, which begins
    with the page's name because anchors are unique in the whole book. A data frame gets a region
    that scrolls by keys, without empty heads in its corner. Print shows tables as plain text.
    """
    from markdown_it import MarkdownIt

    cell.outputs = [output for output in cell.outputs
                    if "caption_of" not in output.get("metadata", {}).get("clusterbook", {})]
    for output in cell.outputs:
        data, about = output.get("data", {}), output.get("metadata", {}).get("clusterbook", {})
        html = data.get("text/html", "")
        if "alt" in about and html:                     # a figure in steps
            caption = MarkdownIt().renderInline(about["caption"])
            data["text/html"] = html.replace(
                "<figure ", f'<figure id="{page}-{about["name"]}" ', 1).replace(
                "</figure>", '<figcaption><p><span class="caption-text">'
                f"{caption}</span></p></figcaption></figure>", 1)
        elif "alt" in about:
            figure = {"name": f"{page}-{about['name']}", "caption": about["caption"]}
            cell.metadata["mystnb"] = {"image": {"alt": about["alt"]}, "figure": figure}
        elif 'class="dataframe"' in html:
            html = re.sub(r"<th([^>]*)></th>", r"<td\1></td>", html)
            data["text/html"] = ('<div class="cb-scorecard-scroll" role="region" tabindex="0" '
                                 f'aria-label="Table">{html}</div>')
        elif printed and data.get("text/plain", "").startswith("<IPython."):    # HTML alone
            text = re.sub(r"<[^>]*>", " ", html.replace("</tr>", "\n"))
            data["text/plain"] = unescape(text).strip()


def jupyter_book(source: Path, target: Path, log: Path, builder: str = "html") -> None:
    """Render the staged sources below ``target/_build``; a warning counts as an error."""
    from .runs import plain

    shutil.rmtree(target, ignore_errors=True)
    # Its command may belong to another Python, and it has no __main__.
    main = "from jupyter_book.cli.main import main; main(prog_name='jupyter-book')"
    command = [sys.executable, "-P", "-c", main, "build", str(source), "--path-output",
               str(target), "--toc", str(source / "book" / "_toc.yml"), "--builder", builder,
               "-W", "-n", "--keep-going"]
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False,
                              env={**os.environ, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"})
    if done.returncode:
        lines = plain(log.read_text(encoding="utf-8")).splitlines()
        wrong = [line for line in lines if "WARNING" in line or "ERROR" in line] or lines[-15:]
        shown = [f"    {line.replace(f'{source}{os.sep}', '')}" for line in wrong[:20]]
        raise BuildError("\n".join(["Jupyter Book reported, and a warning counts as an error:",
                                    *shown, f"The whole log: {log}"]))


# --- the PDF -----------------------------------------------------------------------------------


def _latex(pages: Path, target: Path, log: Path) -> Path:
    """Run LaTeX as often as references need, and replace the earlier PDF."""
    # Jupyter Book's document class loads bbm, whose fonts no page needs and Debian ships in 1 GB.
    (pages / "bbm.sty").write_text("\\ProvidesPackage{bbm}\n\\newcommand{\\mathbbm}[1]"
                                   "{\\mathbb{#1}}\n", encoding="utf-8")
    # Code is set in matplotlib's font, which has the signs of checks and formulas.
    fonts = Path(find_spec("matplotlib").origin).parent / "mpl-data" / "fonts" / "ttf"
    for font in fonts.glob("DejaVuSansMono*.ttf"):
        shutil.copy2(font, pages)
    with log.open("a", encoding="utf-8") as file:
        done = subprocess.run(["latexmk", "-xelatex", "-interaction=nonstopmode", "-halt-on-error",
                               "clusterbook.tex"], cwd=pages, stdin=subprocess.DEVNULL,
                              stdout=file, stderr=subprocess.STDOUT, check=False,
                              env={**os.environ, "LATEXOPTS": ""})
    made = pages / "clusterbook.pdf"
    if done.returncode or not made.is_file():
        wrong = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
                 if line.startswith("! ")]
        raise BuildError("\n".join(["LaTeX failed:", *(f"    {line}" for line in wrong[:5]),
                                    f"The whole log: {log}"]))
    target.mkdir(exist_ok=True)
    return made.replace(target / made.name)
