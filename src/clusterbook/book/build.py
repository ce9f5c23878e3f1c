"""Build the static book without writing to the checkout.

Each notebook of the table of contents is executed into a cache, keyed by everything that its
outputs depend on. The sources are copied to ``_build/stage`` with the executed notebooks in their
places, Jupyter Book builds that, and the finished site replaces the old one by rename: a chapter or
a page that fails leaves the previous site as it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import nbformat
from markdown_it import MarkdownIt

from .. import paths
from ..errors import InputError
from ..fingerprint import hash_modules, modules_of
from . import parameters
from .reading import read_notebook, read_yaml
from .runs import ChapterError, execute, failed_checks, plain, writable

_VERSIONS = ("numpy", "scipy", "scikit-learn", "torch", "matplotlib", "jupyter-book", "myst-nb",
             "sphinx-book-theme")


_CATALOG = Path(paths.__file__).with_name("datasets") / "catalog.yaml"
# Executed at the paper's scale, once: rendered as they are.
_RUNS = ("book", "runs")


class BuildError(RuntimeError):
    """Jupyter Book reported an error or a warning."""


def build(*, run: bool = True, output: Path | None = None, progress: bool = False,
          say=lambda line: None) -> Path:
    """Execute the chapters and build the book.

    Parameters
    ----------
    run : bool
        Execute what has changed; False renders the committed outputs.
    output : Path, optional
        Folder for everything that the build leaves: the site in ``html/``, executed notebooks, the
        log. Default: the checkout's ``_build``.
    progress : bool
        Show a bar over the cells of a chapter.
    say : callable (str) -> None
        Told what happens, a line each.

    Returns
    -------
    Path
        The site's ``index.html``.

    Raises
    ------
    ChapterError
        If a chapter fails, or a check of a chapter does not hold with the default parameters.
    BuildError
        If Jupyter Book warns or fails.
    InputError
        If the output folder can't be written.
    """
    source = paths.root()
    output = output or default_output()
    read_yaml(source / "_config.yml")       # a damaged one is found before a chapter runs
    executed = executed_pages(source, output, run=run, progress=progress, say=say)
    key = _site_key(source, executed.values())
    site = output / "html"
    if _key_of(site) == key:
        say("nothing changed since the last build")
        return site / "index.html"
    say("building the pages")
    stage(source, output / "stage", executed)
    jupyter_book(output / "stage", output / "site", output / "build.log")
    finished = output / "site" / "_build" / "html"
    for source_map in (finished / "_static").rglob("*.map"):
        source_map.unlink()             # 3 MB for who debugs the theme's own scripts
    (finished / ".key").write_text(key, encoding="utf-8")
    _swap(finished, site)
    shutil.rmtree(output / "site", ignore_errors=True)
    return site / "index.html"


def default_output() -> Path:
    """Where a build leaves things if nothing else is said: the checkout's ``_build``."""
    return (paths.checkout() or Path.cwd()) / "_build"


def executed_pages(source: Path, output: Path, *, run: bool, progress: bool,
                   say: Callable[[str], None]) -> dict[Path, Path]:
    """Each notebook of the contents → its executed copy; without *run*, the committed one."""
    if find_spec("jupyter_book") is None:
        raise ModuleNotFoundError("No module named 'jupyter_book'", name="jupyter_book")
    writable(output)
    writable(output / "executed")
    _recover(output)
    notebooks = [path for path in pages(source) if path.suffix == ".ipynb"]
    return {
        path: _executed(source / path, output, f"{i}/{len(notebooks)}", progress, say)
        if run and path.parts[:2] != _RUNS else source / path
        for i, path in enumerate(notebooks, start=1)
    }


def pages(source: Path) -> list[Path]:
    """Every page of the table of contents, relative to the book's root, with its suffix."""
    def files(node) -> Iterable[str]:
        if isinstance(node, dict):
            for name, value in node.items():
                if name in ("file", "root"):
                    yield value
                else:
                    yield from files(value)
        elif isinstance(node, list):
            for item in node:
                yield from files(item)

    found = []
    for name in files(read_yaml(source / "book" / "_toc.yml")):
        candidates = [Path(name + suffix) for suffix in (".ipynb", ".md")]
        page = next((path for path in candidates if (source / path).is_file()), None)
        if page is None:
            raise InputError(f"book/_toc.yml names {name}, which is not there")
        found.append(page)
    return found


def _executed(path: Path, output: Path, count: str, progress: bool, say) -> Path:
    """The executed notebook from the cache, or executed now."""
    cached = output / "executed" / f"{path.stem}-{notebook_key(path)[:16]}.ipynb"
    if cached.is_file():
        say(f"{count} {path.stem}: unchanged")
    else:
        say(f"{count} {path.stem}: executing")
        try:
            # Small work: with more threads than idle cores it takes ten times as long.
            threads = {} if os.environ.get("OMP_NUM_THREADS") else {"OMP_NUM_THREADS": "1"}
            execute(path, cached, environment=threads, progress=path.stem if progress else None)
        except InputError as error:
            raise ChapterError(f"{path.stem} failed with its default parameters: {error}") from None
    failed = failed_checks(read_notebook(cached))
    if failed:
        cached.unlink()
        raise ChapterError(f"{path.stem}: a check does not hold with the default parameters:\n"
                           + "\n".join(f"    {line}" for line in failed))
    for old in (output / "executed").glob(f"{path.stem}-{'?' * 16}.ipynb"):
        if old != cached:
            old.unlink()
    return cached


def notebook_key(path: Path) -> str:
    """A hash of everything that a notebook's outputs depend on.

    Its cells; the code of every clusterbook module that it reaches (comments and docstrings do not
    count); the claims, expectations, errata and records that it shows, and for a page around the
    chapters their parameters and profiles; the versions of what it runs on.
    """
    notebook = read_notebook(path)
    cells = [(c.cell_type, c.source, c.metadata.get("tags", [])) for c in notebook.cells]
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    chapter = path.stem if path.parent.name == "notebooks" else None
    data = paths.root() / "data"
    evidence = {
        str(file.relative_to(paths.root())): _hash(file.read_bytes())
        for file in sorted([*data.glob("*/*"), *data.glob("lineage.yaml")])
        if file.name == "lineage.yaml"
        or (file.parent.name in ("claims", "errata", "expectations", "records")
            and (chapter is None or file.name.startswith(chapter)))
    }
    if chapter is None:
        evidence |= {f"{name}.parameters": parameters.parameters_cell(read_notebook(
            parameters.notebook_path(name))) for name in paths.chapters()}
        evidence |= {file.name: _hash(file.read_bytes()) for file in
                     sorted((paths.root() / "notebooks" / "profiles").glob("*.yaml"))}
    parts = [cells, hash_modules(modules_of(code)), _hash(_CATALOG.read_bytes()), evidence,
             _versions()]
    return _hash(json.dumps(parts, sort_keys=True).encode())


def _site_key(source: Path, notebooks: Iterable[Path]) -> str:
    """A hash of everything that the site is made of, the library's docstrings included."""
    files = [source / "_config.yml", *sorted((source / "book").rglob("*")), *notebooks,
             *sorted(Path(paths.__file__).parent.rglob("*.py")), _CATALOG,
             *sorted((source / "data" / "records").glob("*.json"))]
    hashes = [(file.name, _hash(file.read_bytes())) for file in files
              if file.is_file() and "__pycache__" not in file.parts]
    return _hash(json.dumps([hashes, _versions()]).encode())


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"python": ".".join(map(str, sys.version_info[:2]))}
    for name in _VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def _key_of(site: Path) -> str | None:
    key = site / ".key"
    return key.read_text(encoding="utf-8") if key.is_file() else None


def stage(source: Path, target: Path, notebooks: dict[Path, Path]) -> None:
    """Copy the book's sources to a folder of their own, executed notebooks in their places."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source / "book", target / "book",
                    ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    style = target / "book" / "assets" / "clusterbook.css"
    if style.is_file():                 # every page loads it; its comments are for its editors
        style.write_text(re.sub(r"/\*.*?\*/\s*", "", style.read_text(encoding="utf-8"),
                                flags=re.DOTALL), encoding="utf-8")
    shutil.copy2(source / "_config.yml", target)
    # Beside the pages: the scorecard's rows lead to the runs that they rest on.
    (target / "extra" / "records").mkdir(parents=True)
    for record in (source / "data" / "records").glob("*.json"):
        shutil.copy2(record, target / "extra" / "records")
    pack({place: executed for place, executed in notebooks.items() if place.parts[:2] != _RUNS},
         target / "extra" / "notebooks.zip")  # a recorded run is downloaded from its own page
    for place, executed in notebooks.items():
        notebook = read_notebook(executed)
        describe_figures(notebook, Path(place).stem)
        frame_tables(notebook)
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, target / place)


def pack(notebooks: Mapping[Path, Path], archive: Path) -> None:
    """Put notebooks into a zip file under their own paths; the same ones give the same bytes."""
    with zipfile.ZipFile(archive, "w") as file:
        for place, executed in sorted(notebooks.items()):
            entry = zipfile.ZipInfo(place.as_posix())  # without the time of this build
            entry.external_attr = 0o644 << 16  # otherwise what it unpacks to can't be read
            file.writestr(entry, executed.read_bytes(), zipfile.ZIP_DEFLATED)


def describe_figures(notebook: nbformat.NotebookNode, page: str) -> None:
    """Make the figures of `clusterbook.figures.show` the page's own, in place.

    A notebook shows the caption below the picture; the page gets one figure with its alternative
    text, a caption and an anchor. Anchors are the whole book's, so they begin with the page's name.
    """
    for cell in notebook.cells:
        kept = []
        for output in cell.get("outputs", []):
            about = output.get("metadata", {}).get("clusterbook", {})
            if "caption_of" in about:
                continue
            if "alt" in about and "text/html" in output["data"]:
                caption = MarkdownIt().renderInline(about["caption"])
                output["data"]["text/html"] = output["data"]["text/html"].replace(
                    "<figure ", f'<figure id="{page}-{about["name"]}" ', 1).replace(
                    "</figure>", '<figcaption><p><span class="caption-text">'
                    f"{caption}</span></p></figcaption></figure>", 1)
            elif "alt" in about:
                cell.metadata["mystnb"] = {
                    "image": {"alt": about["alt"]},
                    "figure": {"name": f"{page}-{about['name']}", "caption": about["caption"]},
                }
            kept.append(output)
        if "outputs" in cell:
            cell.outputs = kept


def frame_tables(notebook: nbformat.NotebookNode) -> None:
    """Let data frames scroll in a region that keys reach, and fill no corner with an empty head."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            text = output.get("data", {}).get("text/html", "")
            if 'class="dataframe"' in text:
                text = re.sub(r"<th([^>]*)></th>", r"<td\1></td>", text)
                output["data"]["text/html"] = (
                    '<div class="cb-scorecard-scroll" role="region" tabindex="0" '
                    f'aria-label="Table">{text}</div>')


def jupyter_book(source: Path, target: Path, log: Path, builder: str = "html") -> None:
    """Render the staged sources below ``target/_build``; a warning counts as an error."""
    shutil.rmtree(target, ignore_errors=True)
    # It can't be run by -m; its own command may belong to another Python, or be on no path.
    main = "from jupyter_book.cli.main import main; main(prog_name='jupyter-book')"
    command = [sys.executable, "-P", "-c", main, "build", str(source), "--path-output",
               str(target), "--toc", str(source / "book" / "_toc.yml"), "--builder", builder,
               "-W", "-n", "--keep-going"]
    with log.open("w", encoding="utf-8") as file:
        status = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False,
                                env={**os.environ, "NO_COLOR": "1",
                                     "PYTHONIOENCODING": "utf-8"}).returncode
    if status:
        lines = plain(log.read_text(encoding="utf-8")).splitlines()
        wrong = [line for line in lines if "WARNING" in line or "ERROR" in line] or lines[-15:]
        raise BuildError("Jupyter Book reported, and a warning counts as an error:\n"
                         # As the person knows the page: book/intro.md, not its staged copy.
                         + "\n".join(f"    {line.replace(f'{source}{os.sep}', '')}"
                                     for line in wrong[:20])
                         + f"\nThe whole log: {log}")


def _swap(finished: Path, site: Path) -> None:
    old = site.with_name("html.old")
    shutil.rmtree(old, ignore_errors=True)
    if site.exists():
        site.rename(old)
    finished.rename(site)
    shutil.rmtree(old, ignore_errors=True)


def _recover(output: Path) -> None:
    """Put the previous site back if a build was killed between the two renames."""
    old, site = output / "html.old", output / "html"
    if old.is_dir() and not site.exists():
        old.rename(site)
