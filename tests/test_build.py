"""Building the book: what is executed again, what stops a build, what a stopped build leaves.

`test_example` builds a small book by the command, and `test_book` looks at this one.
"""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
import yaml
from _support import CHECKOUT, CONFIG, PLAIN, Book, tree

from bookledger import build as building
from bookledger import outputs
from bookledger.build import BuildError, build
from bookledger.execution import ChapterError
from clusterbook import datasets
from clusterbook.checks import InputError


@pytest.fixture
def quick(book: Book, monkeypatch):
    """Builds without a kernel and without Jupyter Book: what is executed, and whether pages are.

    Chapters fail as they are told.
    """
    done = []

    def execute(source: Path, output: Path, environment: object) -> nbformat.NotebookNode:
        done.append(source.stem)
        if source.stem in run.fails:
            raise run.fails[source.stem]
        notebook = nbformat.read(source, as_version=4)
        if "print" in notebook.cells[-1].source:
            text = re.search("'(.*)'", notebook.cells[-1].source)[1]
            notebook.cells[-1].outputs = [nbformat.v4.new_output("stream", text=text)]
        nbformat.write(notebook, output)
        return notebook

    def jupyter_book(source: Path, target: Path, builder: str) -> Path:
        done.append("pages")
        shutil.rmtree(target, ignore_errors=True)
        (target / builder).mkdir(parents=True)
        (target / builder / "index.html").write_text(f"build {done.count('pages')}")
        return target / builder

    monkeypatch.setattr("bookledger.execution.execute", execute)
    monkeypatch.setattr("joblib.cpu_count", lambda: 1)      # joblib then calls it here
    monkeypatch.setattr(building, "jupyter_book", jupyter_book)
    book.write("src/clusterbook/extra.py", '"""An idea."""\nx = 1\n')
    monkeypatch.setattr(building, "_LIBRARY", book.package)
    monkeypatch.setattr(building, "__file__", str(book.engine / "build.py"))
    for name in ("tiny", "other", "comparison"):
        book.notebook(name, "1 + 1")
    book.notebook("scores", "1 + 1", folder="book", parameters=None)
    book.notebook("tiny-paper", "1 + 1", folder="book/runs")

    def run(**options) -> list[str]:
        done.clear()
        build(**options)
        return [*sorted({*done} - {"pages"}), *(name for name in done if name == "pages")]

    run.done, run.fails = done, {}
    return run


def test_only_what_depends_on_a_change_is_executed_again(book: Book, quick, monkeypatch):
    book.notebook("scores", "evidence.recorded('tiny', 'x')", folder="book", parameters=None)
    book.notebook("other", "evidence.load_claims()", "datasets.load('wine')")
    # book/runs holds runs, not chapters.
    everything = ["comparison", "other", "scores", "tiny", "pages"]
    assert quick() == everything and quick() == []
    book.notebook("tiny", "page('tiny')", "1 + 2")
    assert quick() == ["tiny", "pages"]
    right = "- id: {}\n  says: It is right.\n  relation: holds\n"
    for file, text, executed in (
            ("src/bookledger/verdicts.py", "# another rule\n", []),
            ("data/records/tiny-paper-seed0.json", "{}", ["scores", "tiny"]),
            ("data/records/third-paper-seed0.json", "{}", []),
            ("data/claims/tiny.yaml", "[]", ["other"]),
            ("data/claims/README.md", "How they are written.", []),
            ("src/clusterbook/datasets/catalog.yaml", "{}", []),
            ("data/expectations/other.yaml", right.format("other-right"), ["other"]),
            ("data/expectations/errata.yaml", right.format("errata-other-right"), []),
            ("data/expectations/drawn/tiny.json", "{}", ["tiny"]),
            ("data/errata/other.yaml", "[]", []),
            ("data/sources/other.yaml", "[]", []),
            ("notebooks/profiles/tiny-small.toml", "says = 'A.'\nparameters = {seed = 1}\n", []),
            ("book/intro.md", "# A small book\n\nOther words.\n", []),
            ("_config.yml", "title: Another title\n", []),
            ("book/ledger.toml", f"{PLAIN}# names of methods\n", everything[:-1]),
            ("src/clusterbook/extra.py", "x = 2\n", everything[:-1])):
        (book.root / file).unlink(missing_ok=True)      # it may be a link to the real one
        book.write(file, text)
        assert quick() == [*executed, "pages"], file
    assert quick() == []
    known = datasets.catalog()
    for name, executed in (("digits", []), ("wine", ["other"])):
        monkeypatch.setattr(datasets, "catalog", lambda name=name: [
            replace(one, content="0" * 64) if one.name == name else one for one in known])
        book.write("book/intro.md", f"# Other {name}\n")
        assert quick() == [*executed, "pages"], name
    monkeypatch.setattr(building, "version", lambda name: "99")
    assert quick() == everything


def test_stored_outputs_are_no_reason_to_execute_and_can_be_rendered(book: Book, quick, tmp_path):
    quick()
    book.notebook("tiny", "1 + 1", shows="committed output")
    assert quick() == ["pages"] == quick(run=False, output=tmp_path / "elsewhere")
    staged = tmp_path / "elsewhere" / "stage" / "notebooks" / "tiny.ipynb"
    assert "committed output" in staged.read_text()


@pytest.mark.parametrize("fails", [False, True])
def test_what_fails_stops_no_other_and_is_executed_in_each_build(book: Book, quick, fails):
    quick()
    before = tree(book.root / "_build" / "html")
    book.notebook("other", "2 + 2")
    book.notebook("tiny", "print('✗ tiny-accuracy: at least 0.9')")
    if fails:
        quick.fails["tiny"] = ChapterError("its kernel died")
    for executed in (["other", "tiny"], ["tiny"]):  # a failed run must not be taken from the cache
        with pytest.raises(BuildError) as error:
            quick()
        assert sorted(quick.done) == executed
    assert str(error.value) == (
        "1 of 1 notebooks failed; the earlier site stays; the next build executes these\n"
        "  notebooks/tiny.ipynb: " + (
            "its kernel died" if fails else "a check fails with the default parameters:"
                                            "\n    ✗ tiny-accuracy: at least 0.9"))
    assert tree(book.root / "_build" / "html") == before
    quick.fails.clear()
    book.notebook("tiny", "2 + 2")
    assert quick() == ["tiny", "pages"]
    left = sorted(path.stem.rpartition("-")[0]
                  for path in (book.root / "_build" / "executed").iterdir())
    assert left == ["comparison", "other", "scores", "tiny"], "an earlier one stays in the cache"
    assert [path.name for path in (book.root / "_build").glob("html*")] == ["html"]


def test_the_pdf_replaces_the_previous_one_unless_latex_fails(book: Book, quick, monkeypatch):
    with monkeypatch.context() as without:
        without.setattr(building.shutil, "which", {"latexmk": "latexmk"}.get)
        with pytest.raises(InputError, match="needs a LaTeX; .*install latexmk texlive-xe"):
            build(pdf=True)
    assert not (book.root / "_build").exists()

    def latex(script: str) -> None:
        book.write("tools/latexmk", f"#!{sys.executable}\n{script}\n").chmod(0o755)

    latex("print('! Undefined control sequence.'); raise SystemExit(12)")
    (book.root / "tools" / "xelatex").symlink_to("latexmk")
    monkeypatch.setenv("PATH", str(book.root / "tools"), prepend=":")
    previous = book.write("_build/pdf/clusterbook.pdf", "the previous one")
    with pytest.raises(BuildError, match="(?s)LaTeX failed.*Undefined control sequence.*log"):
        quick(run=False, pdf=True)
    assert previous.read_text() == "the previous one"
    site, said = book.write("_build/html/index.html", "the site"), []
    latex("open('clusterbook.pdf', 'w').write('the new one')")
    assert build(run=False, pdf=True, say=said.append) == previous
    assert previous.read_text() == "the new one" and site.read_text() == "the site"
    assert said == ["building the pages", "setting the pages with LaTeX"]


@pytest.mark.skipif(not all(map(shutil.which, ("latexmk", "xelatex"))),
                    reason="no LaTeX on this machine")
def test_a_small_book_is_set_with_formulas_and_a_table(book: Book):
    ours = yaml.safe_load((CHECKOUT / "_config.yml").read_text(encoding="utf-8"))
    config = yaml.safe_load(CONFIG)
    config |= {name: ours[name] for name in ("latex", "parse", "repository")}
    config["sphinx"]["config"] = {name: value for name, value in
                                  ours["sphinx"]["config"].items() if "latex" in name}
    book.write("_config.yml", yaml.safe_dump(config))
    shutil.copytree(CHECKOUT / "book/assets/latex", book.root / "book/assets/latex")
    book.write("book/intro.md", "# A small book\n\n$\\mathcal{L}_1 = \\beta_i^2$ and Σβ ≥ 2 ✓.\n\n"
               "| what | " + " | ".join("abcde") + " |\n" + "|---" * 6 + "|\n"
               + "| a long row of words | 1 | 2 | 3 | 4 | $x$ |\n" * 40)
    book.notebook("tiny", "'✓ ✗ ᵢ ₖ 0.1 ± 0.2'", "table", shows=f"✓ 1 ✗ 2 {'x' * 90}\n")
    book.toc("book/intro", "notebooks/tiny")
    made = build(run=False, pdf=True)
    assert made.read_bytes().startswith(b"%PDF") and made.stat().st_size > 20_000
    log = next((book.root / "_build" / "rendered").rglob("clusterbook.log"))
    text = log.read_text(errors="replace")
    assert "Missing character" not in text and "Overfull \\hbox" not in text


def test_signs_of_formulas_are_typeset_in_texts_and_not_in_code():
    assert outputs.typeset("1 ± 2, L_clu = -1 <pre>z_i = -1</pre> 2026-11-22 of n_rows") == (
        "1\xa0±\xa02, L<sub>clu</sub> = −1 <pre>z_i = -1</pre> 2026-11-22 of n_rows")
