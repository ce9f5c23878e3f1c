"""Build the book, as a site or as a PDF, without writing to the checkout.

Changed notebooks are executed side by side into a cache. Jupyter Book renders a copy of the
sources with the executed notebooks in their places, and the finished site replaces the old one by
rename. If a chapter or a page fails, the earlier site stays.
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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .. import paths
from ..errors import InputError

# Imported where they are used: parameters, runs and stage. When nothing changed, nothing is to wait
# for them.

_VERSIONS = ("numpy", "scipy", "scikit-learn", "torch", "matplotlib", "jupyter-book", "myst-nb",
             "sphinx-book-theme")
_EVIDENCE = ("data/claims", "data/errata", "data/expectations", "data/records", "data/sources")
_LONGEST = "comparison"         # takes a third of the time of two cores, so it must not begin last


class BuildError(RuntimeError):
    """Chapters failed, or Jupyter Book reported an error or a warning."""


def build(*, run: bool = True, pdf: bool = False, output: Path | None = None,
          say: Callable[[str], None] = lambda line: None) -> Path:
    """Execute the chapters that changed and build the site, or a PDF; the path of what was built.

    Parameters
    ----------
    run : bool
        Execute what has changed; False renders the committed outputs.
    pdf : bool
        Build one PDF of the whole book instead of the site; LaTeX has to be installed.
    output : Path, optional
        Folder for everything that the build leaves: the site in ``html/``, the PDF in ``pdf/``,
        executed notebooks, logs. Default: the checkout's ``_build``.
    say : callable (str) -> None
        Receives a line for each step.

    Raises BuildError if a chapter, one of its checks, Jupyter Book or LaTeX fails; InputError if a
    file of the book is damaged, or LaTeX is missing.
    """
    missing = [name for name in ("latexmk", "xelatex") if shutil.which(name) is None]
    if pdf and missing:
        raise InputError(
            f"the PDF is set by LaTeX, and {' and '.join(missing)} can't be found; install a LaTeX "
            "with XeLaTeX and latexmk, on Debian and Ubuntu: apt-get install latexmk texlive-xetex "
            "texlive-latex-extra texlive-fonts-recommended fonts-freefont-otf")
    source, output = paths.root(), output or (paths.checkout() or Path.cwd()) / "_build"
    site, old = output / "html", output / "html.old"
    if old.is_dir() and not site.exists():      # a build was killed between the two renames
        old.rename(site)
    files = [source / name for name in ("_config.yml", "book", "notebooks", "data/versions.json")]
    files += [*(source / name for name in _EVIDENCE), Path(paths.__file__).parent]
    key, built = _key(run, _contents(files)), site / ".key"
    if not pdf and built.is_file() and built.read_text(encoding="utf-8") == key:
        say("nothing changed since the last build")
        return site / "index.html"
    from .stage import stage, undrawn

    notebooks = executed_pages(source, output, run=run, say=say)
    say("building the pages")
    stage(source, output / "stage", notebooks)
    rendered = jupyter_book(output / "stage", output / "rendered", "latex" if pdf else "html")
    if pdf:
        say("setting the pages with LaTeX")
        return _set_by_latex(rendered, output / "pdf")
    for place, executed in notebooks.items():       # a page was rendered from fewer cells
        if (download := rendered / "_sources" / place).is_file() and not paths.is_run(place):
            download.write_text(undrawn(executed), encoding="utf-8")
    # Maps are for debugging the theme's scripts, and its fonts lie there once more as WOFF2.
    for unused in (rendered / "_static").rglob("*"):
        if unused.suffix in (".map", ".ttf"):
            unused.unlink()
    shown = "".join(page.read_text(encoding="utf-8") for page in rendered.rglob("*.html"))
    for picture in (rendered / "_images").glob("*"):
        if picture.name not in shown:       # its figure is drawn
            picture.unlink()
    (rendered / ".key").write_text(key, encoding="utf-8")
    shutil.rmtree(old, ignore_errors=True)
    if site.exists():
        site.rename(old)
    rendered.rename(site)
    for folder in (old, output / "rendered"):
        shutil.rmtree(folder, ignore_errors=True)
    return site / "index.html"


# --- keys --------------------------------------------------------------------------------------


def notebook_key(path: Path) -> str:
    """A hash of everything that a notebook's outputs depend on.

    That is: its cells; the code of the methods, data and figures, without comments; the claims,
    expectations, errata and records of its chapter, for a page around the chapters those of all,
    and their parameters and profiles; the versions of what it runs on.
    """
    from .parameters import read, read_notebook

    notebook = read_notebook(path)
    cells = [(c.cell_type, c.source, c.metadata.get("tags", [])) for c in notebook.cells]
    root, chapter = paths.root(), path.stem if path.parent.name in ("notebooks", "audit") else ""
    package = Path(paths.__file__).parent
    code = paths.code_hash(package, *(folder for folder in package.iterdir()
                                      if folder.name not in ("book", "evidence")))
    files = [root / "data/versions.json", package / "datasets/catalog.yaml",
             *(file for folder in _EVIDENCE for file in (root / folder).glob(f"*{chapter}*"))]
    shown = {}
    if not chapter:
        files.append(root / "notebooks" / "profiles")
        shown = {name: repr(read(name).parameters) for name in paths.chapters()}
    return _key(cells, code, _contents(files), shown)


def _contents(places: Sequence[Path]) -> list[tuple[str, str]]:
    """Every file in these files and folders, with its hash."""
    files = {file for place in places for file in (place, *place.rglob("*"))
             if file.is_file() and file.suffix != ".pyc"}
    return [(str(file), hashlib.sha256(file.read_bytes()).hexdigest()) for file in sorted(files)]


def _key(*parts: Any) -> str:
    """A hash of these parts and of the versions."""
    versions = {name: version(name) for name in _VERSIONS} | {"python": str(sys.version_info[:2])}
    return hashlib.sha256(json.dumps([parts, versions], sort_keys=True).encode()).hexdigest()


# --- executing ---------------------------------------------------------------------------------


def executed_pages(source: Path, output: Path, *, run: bool, say: Callable[[str], None]
                   ) -> dict[Path, Path]:
    """Each notebook of the contents → its executed copy; without *run*, the committed one."""
    from ..settings import read_yaml

    read_yaml(source / "_config.yml")       # a damaged one is found before a chapter runs
    found = {page: source / page for page in pages(source) if page.suffix == ".ipynb"}
    (output / "executed").mkdir(parents=True, exist_ok=True)
    if not run:
        return found
    for page in found:
        if not paths.is_run(page):
            key = notebook_key(source / page)[:16]
            found[page] = output / "executed" / f"{page.stem}-{key}.ipynb"
    missing = {page: path for page, path in found.items() if not path.is_file()}
    if missing:
        _execute_all(source, missing, say)
    for old in set((output / "executed").iterdir()) - set(found.values()):
        old.unlink()
    return found


def _execute_all(source: Path, notebooks: Mapping[Path, Path], say: Callable[[str], None]) -> None:
    """Execute notebooks side by side; BuildError, after the last one, names those that failed."""
    from .runs import ChapterError, cores, processes

    # Small work: with more threads than idle cores it takes ten times as long.
    threads = os.environ.get("OMP_NUM_THREADS") or "1"
    number = min(len(notebooks), max(1, cores() // (int(threads) if threads.isdecimal() else 1)))
    say(f"executing {len(notebooks)} notebooks, {number} at a time")
    errors = []
    with processes(number, threads) as submit:
        pending = {submit(_execute, source / page, notebooks[page]): page
                   for page in sorted(notebooks, key=lambda page: page.stem != _LONGEST)}
        for done, future in enumerate(as_completed(pending), start=1):
            page = pending[future]
            try:
                ended = f"executed in {future.result():.0f} s"
            except (ChapterError, InputError) as error:
                errors.append(f"  {page.as_posix()}: {error}")
                ended = "failed"
            say(f"{page.stem}: {ended} ({done} of {len(notebooks)})")
    if errors:
        raise BuildError("\n".join([
            f"{len(errors)} of {len(notebooks)} notebooks failed; the earlier site stays, and the "
            "next build executes only what failed", *errors]))


def _execute(path: Path, cached: Path) -> float:
    """Execute a notebook into the cache, if its checks hold; the seconds that it took."""
    from .runs import ChapterError, execute, failed_checks

    begun, draft = time.monotonic(), cached.with_suffix(".draft")
    failed = failed_checks(execute(path, draft))
    if failed:
        raise ChapterError("\n    ".join(
            ["a check does not hold with the default parameters:", *failed]))
    draft.replace(cached)
    return time.monotonic() - begun


def pages(source: Path) -> list[Path]:
    """Every page of the table of contents, relative to the book's root, with its suffix."""
    from ..settings import read_yaml

    toc, found = source / "book" / "_toc.yml", []
    read_yaml(toc)                          # says in which line it is damaged
    for name in re.findall(r"(?m)^[\s-]*(?:root|file): (\S+)", toc.read_text(encoding="utf-8")):
        files = [Path(name + ending) for ending in (".ipynb", ".md")
                 if (source / (name + ending)).is_file()]
        if not files:
            raise InputError(f"book/_toc.yml names {name}, which is not there")
        found.append(files[0])
    return found


# --- other programs ----------------------------------------------------------------------------


def jupyter_book(source: Path, target: Path, builder: str) -> Path:
    """Render the staged sources; a warning counts as an error. Returns the folder of the pages."""
    shutil.rmtree(target, ignore_errors=True)
    # Its command may belong to another Python, and it has no __main__.
    main = "from jupyter_book.cli.main import main; main(prog_name='jupyter-book')"
    _call([sys.executable, "-P", "-c", main, "build", str(source), "--path-output", str(target),
           "--toc", str(source / "book" / "_toc.yml"), "--builder", builder, "-W", "-n",
           "--keep-going"],
          source, "Jupyter Book reported, and a warning counts as an error:", "WARNING|ERROR")
    return target / "_build" / builder


def _set_by_latex(pages: Path, target: Path) -> Path:
    """Run LaTeX as often as references need, and replace the earlier PDF."""
    import matplotlib

    # Jupyter Book's document class loads bbm, whose fonts no page needs and Debian ships in 1 GB.
    (pages / "bbm.sty").write_text("\\ProvidesPackage{bbm}\n\\newcommand{\\mathbbm}[1]"
                                   "{\\mathbb{#1}}\n", encoding="utf-8")
    # Code is set in matplotlib's font, which has the signs of checks and formulas.
    for font in Path(matplotlib.get_data_path()).glob("fonts/ttf/DejaVuSansMono*.ttf"):
        shutil.copy2(font, pages)
    _call(["latexmk", "-xelatex", "-interaction=nonstopmode", "-halt-on-error", "clusterbook.tex"],
          pages, "LaTeX failed:", "^! ")
    target.mkdir(exist_ok=True)
    return (pages / "clusterbook.pdf").replace(target / "clusterbook.pdf")


def _call(command: Sequence[str], folder: Path, failed: str, wrong: str) -> None:
    """Run a program in a folder; BuildError with the lines of its log that say what was wrong."""
    log = folder / "build.log"
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            check=False, env={**os.environ, "PYTHONIOENCODING": "utf-8", "LATEXOPTS": ""})
    if done.returncode:
        from .runs import plain

        lines = plain(log.read_text(encoding="utf-8", errors="replace")).splitlines()
        shown = [line for line in lines if re.search(wrong, line)] or lines[-15:]
        named = [f"    {line.replace(f'{folder}{os.sep}', '')}" for line in shown[:20]]
        raise BuildError("\n".join([failed, *named, f"The whole log: {log}"]))
