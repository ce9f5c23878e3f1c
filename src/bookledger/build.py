"""Build the book, as a site or as a PDF, without writing to the checkout.

Changed notebooks are executed side by side into a cache. Jupyter Book, with the extension
`bookledger.pages`, renders a copy of the sources with the executed notebooks in their places, and
the finished site replaces the old one by rename. If a chapter or a page fails, the earlier site
stays.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clusterbook import paths
from clusterbook.checks import InputError

from . import config
from .claims import read_yaml

# `execution` and `parameters` are imported late, so that an unchanged build stays fast.

_VERSIONS = ("numpy", "scipy", "scikit-learn", "torch", "matplotlib", "jupyter-book", "myst-nb",
             "sphinx-book-theme")
_SOURCES = ("_config.yml", "book", "notebooks", "data/claims", "data/errata",
            "data/expectations", "data/versions.json", "data/records", "data/sources",
            "data/verified")
_LIBRARY = Path(paths.__file__).parent


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
    if pdf and not (shutil.which("latexmk") and shutil.which("xelatex")):
        raise InputError("the PDF needs a LaTeX; on Debian: apt-get install latexmk texlive-xetex "
                         "texlive-latex-extra texlive-fonts-recommended fonts-freefont-otf")
    source, output = config.root(), output or (config.checkout() or Path.cwd()) / "_build"
    site = output / "html"
    key = _key(run, _contents([*(source / name for name in _SOURCES), _LIBRARY,
                               Path(__file__).parent]))
    if not pdf and (site / ".key").is_file() and (site / ".key").read_text("utf-8") == key:
        say("nothing changed since the last build")
        return site / "index.html"
    for name in ("_config.yml", "book/_toc.yml"):
        read_yaml(source / name)        # a damaged one is found before a chapter runs
    notebooks = executed_pages(source, output, run=run, say=say)
    say("building the pages")
    copy_sources(source, output / "stage", notebooks)
    rendered = jupyter_book(output / "stage", output / "rendered", "latex" if pdf else "html")
    if pdf:
        say("setting the pages with LaTeX")
        return _set_by_latex(rendered, output / "pdf")
    (rendered / ".key").write_text(key, encoding="utf-8")
    if site.exists():
        site.rename(output / "rendered" / "earlier")
    rendered.rename(site)
    shutil.rmtree(output / "rendered")
    return site / "index.html"


def copy_sources(source: Path, target: Path, notebooks: Mapping[Path, Path]) -> None:
    """Copy the book's sources, with the executed notebooks in their places."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source / "book", target / "book")
    shutil.copy2(source / "_config.yml", target)
    for place, executed in notebooks.items():
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(executed, target / place)


def notebook_key(path: Path) -> str:
    """A hash of everything that a notebook's outputs depend on.

    That is: its cells; the library, clusterbook; the book's file; the catalog's entries and the
    chapters' records that its code names; what it expects; claims, if it reads some; the versions
    of what it runs on. Not the engine: what it judges is shown when the pages are built.
    """
    from .parameters import read_notebook

    cells = [(c.cell_type, c.source, c.metadata.get("tags", [])) for c in read_notebook(path).cells]
    code = "\n".join(source for kind, source, _ in cells if kind == "code")
    data = config.root() / "data"
    page = re.sub("^(book|notebooks)/", "", path.relative_to(config.root()).as_posix())
    files = [*{*_LIBRARY.rglob("*.*")} - {*_LIBRARY.rglob("*.yaml")},       # without the catalog
             config.root() / config.FILE, data / "expectations" / f"{path.stem}.yaml",
             data / "expectations" / "drawn" / f"{page.removesuffix('.ipynb')}.json"]
    for chapter in config.chapters():           # recorded("tell", …), page("tell")
        if re.search(rf"""\(\s*["']{chapter}["']""", code):
            files += (data / "records").glob(f"{chapter}-*")
    for word, found in (("load_claims", "claims/*.yaml"), ("errata-", "expectations/errata.yaml")):
        files += data.glob(found) if word in code else ()
    entries = [asdict(one) for name, one in config.book().catalog().items() if name in code]
    return _key(cells, entries, _contents(files))


def _contents(places: Sequence[Path]) -> list[tuple[str, str]]:
    """Every file in these files and folders, with its hash."""
    files = {file for place in places for file in (place, *place.rglob("*"))
             if file.is_file() and file.suffix != ".pyc"}
    return [(str(file), config.sha256(file.read_bytes())) for file in sorted(files)]


def _key(*parts: Any) -> str:
    """A hash of these parts and of the versions."""
    versions = {name: version(name) for name in _VERSIONS} | {"python": str(sys.version_info[:2])}
    return config.sha256(json.dumps([parts, versions], sort_keys=True).encode())


def executed_pages(source: Path, output: Path, *, run: bool, say: Callable[[str], None]
                   ) -> dict[Path, Path]:
    """Each notebook of the book → its executed copy; without *run*, the committed one.

    What is not in the cache is executed side by side. BuildError, after the last one, names those
    that failed.
    """
    from .execution import side_by_side

    found = {path.relative_to(source): path for path in config.notebooks(source)}
    if not run:
        return found
    cache = output / "executed"
    cache.mkdir(parents=True, exist_ok=True)
    found = {page: cache / f"{page.stem}-{notebook_key(path)[:16]}.ipynb"
             for page, path in found.items()}
    missing = [page for page, path in found.items() if not path.is_file()]
    missing.sort(key=lambda page: -(source / page).stat().st_size)      # these take longest
    if missing:
        say(f"executing {len(missing)} notebooks")
    calls, errors = [(page, source / page, found[page]) for page in missing], []
    with side_by_side(_execute, calls) as ended:
        for done, (page, seconds, error) in enumerate(ended, start=1):
            errors += [f"  {page.as_posix()}: {error}"] if error else []
            how = "failed" if error else f"executed in {seconds:.0f} s"
            say(f"{page.stem}: {how} ({done} of {len(missing)})")
    if errors:
        raise BuildError("\n".join([f"{len(errors)} of {len(missing)} notebooks failed; the "
                                    "earlier site stays; the next build executes these", *errors]))
    for old in {*cache.iterdir()} - {*found.values()}:
        old.unlink()
    return found


def _execute(page: Path, path: Path, cached: Path, folder: Path, variables: Mapping[str, str]
             ) -> float:
    """Execute a notebook into the cache, if its checks hold; the seconds that it took."""
    from .execution import execute, failed_checks

    begun, draft = time.monotonic(), cached.with_suffix(".draft")
    if failed := failed_checks(execute(path, draft, environment=variables)):
        raise BuildError("\n    ".join(["a check fails with the default parameters:", *failed]))
    draft.replace(cached)
    return time.monotonic() - begun


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
        text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(encoding="utf-8", errors="replace"))
        lines = text.strip().replace(f"{folder}{os.sep}", "").splitlines()
        shown = [line for line in lines if re.search(wrong, line)] or lines[-15:]
        raise BuildError("\n    ".join([failed, *shown[:20], f"The whole log: {log}"]))
