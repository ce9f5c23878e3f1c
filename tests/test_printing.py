"""The book as a PDF: refused in one sentence without LaTeX; tables that print; a small one."""

from __future__ import annotations

import shutil
import sys

import nbformat
import pytest
import yaml
from _support import CHECKOUT, CONFIG, Book

from clusterbook import cli
from clusterbook.book import printing
from clusterbook.book.build import BuildError
from clusterbook.book.printing import as_markdown, build_pdf

needs_latex = pytest.mark.skipif(not all(map(shutil.which, ("latexmk", "xelatex"))),
                                 reason="no LaTeX on this machine")


def without(monkeypatch, *missing: str) -> None:
    found = shutil.which
    monkeypatch.setattr(printing.shutil, "which", lambda name, *more: (
        None if name in missing else f"/usr/bin/{name}" if name in ("latexmk", "xelatex")
        else found(name, *more)))


@pytest.mark.parametrize(("missing", "said"), [
    (["latexmk", "xelatex"], "latexmk and xelatex can't be found"),
    (["xelatex"], "and xelatex can't be found")])
def test_without_latex_one_sentence_says_what_to_install(book: Book, capsys, monkeypatch, missing,
                                                         said):
    book.notebook("tiny", "1 / 0")  # nothing is executed
    book.toc("book/intro", "notebooks/tiny")
    without(monkeypatch, *missing)
    assert cli.main(["book", "--pdf"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("clusterbook: the PDF is set by")
    assert said in err and "apt-get install latexmk texlive-xetex" in err
    assert not (book.root / "_build").exists()


# --- what HTML becomes -----------------------------------------------------------------------


def test_a_table_becomes_a_list_with_its_columns_named():
    assert as_markdown("""<div class="cb-scorecard-scroll"><table><caption>2 claims</caption>
      <thead><tr><th>Claim</th><th>Ours</th><th>Verdict</th></tr></thead><tbody>
      <tr><th colspan="3">tell</th></tr>
      <tr><th><a href="#x"><code>tell-acc</code></a><div>It has *95* %</div><details><summary>
      more</summary>unseen</details></th><td>0.9 ± 0.1</td>
      <td><span class="cb-verdict cb-verdict-refuted">refuted</span><div>It fell.</div></td></tr>
      <tr><th>tell_nmi</th><td>–</td><td>not run</td></tr></tbody></table></div>""").split("\n\n") \
        == ["**2 claims**", "**tell**",
            r"- `tell-acc`. It has \*95\* %. *Ours*: 0.9 ± 0.1. *Verdict*: **refuted**. It fell",
            r"- tell\_nmi. *Verdict*: not run"]


def test_a_list_of_terms_keeps_its_terms_and_what_is_folded_stays_folded():
    assert as_markdown("<div><p><strong>An error</strong> (<code>a_b</code>)</p><dl><dt>Where</dt>"
                       "<dd>Table 1</dd><dt>Right</dt><dd>2 &lt; 3</dd></dl></div>") == (
        "**An error** (`a_b`)\n\n- *Where*: Table 1\n- *Right*: 2 \\< 3")
    assert as_markdown("<div><details><summary>2 claims: 2 refuted. Show them.</summary><table>"
                       "<tr><td>1</td></tr></table></details></div>") == "2 claims: 2 refuted."


@pytest.mark.parametrize("page", ["book/scorecard", "book/errata", "book/status",
                                  "book/parameters", "notebooks/comparison", "notebooks/tell"])
def test_every_table_of_the_book_can_be_printed(page):
    notebook = nbformat.read(CHECKOUT / f"{page}.ipynb", as_version=4)
    tables = [output.data["text/html"] for cell in notebook.cells
              for output in cell.get("outputs", []) if "text/html" in output.get("data", {})
              and "image/png" not in output.data]
    assert tables
    for html in tables:
        printed = as_markdown(html)
        assert len(printed) > 20
        assert "<" not in printed.replace("\\<", "").replace("<=", "").replace("< ", ""), printed


# --- LaTeX -----------------------------------------------------------------------------------


@pytest.fixture
def staged(book: Book, monkeypatch):
    """Pages without Jupyter Book, and a LaTeX that does what a test says."""
    def jupyter_book(source, target, log, builder):
        (target / "_build" / builder).mkdir(parents=True, exist_ok=True)
        log.write_text("")

    def latex(script: str) -> None:
        tool = book.root / "tools" / "latexmk"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(f"#!{sys.executable}\n{script}\n")
        tool.chmod(0o755)
        (tool.parent / "xelatex").symlink_to(tool)
        monkeypatch.setenv("PATH", str(tool.parent), prepend=":")

    monkeypatch.setattr(printing, "jupyter_book", jupyter_book)
    return latex


def test_a_latex_that_fails_is_told_and_leaves_the_previous_pdf(book: Book, staged):
    previous = book.write("_build/pdf/clusterbook.pdf", "the previous one")
    staged("print('! Undefined control sequence.'); raise SystemExit(12)")
    with pytest.raises(BuildError, match="(?s)LaTeX failed.*Undefined control sequence.*log"):
        build_pdf(run=False)
    assert previous.read_text() == "the previous one"


def test_the_pdf_replaces_the_previous_one_and_the_site_stays(book: Book, staged):
    book.write("_build/pdf/clusterbook.pdf", "the previous one")
    site = book.write("_build/html/index.html", "the site")
    staged("open('clusterbook.pdf', 'w').write('the new one')")
    said = []
    made = build_pdf(run=False, say=said.append)
    assert made == book.root / "_build" / "pdf" / "clusterbook.pdf"
    assert made.read_text() == "the new one" and site.read_text() == "the site"
    assert said == ["building the pages", "setting the pages with LaTeX"]


@needs_latex
def test_a_small_book_is_set_with_formulas_a_figure_and_a_table(book: Book, monkeypatch):
    ours = yaml.safe_load((CHECKOUT / "_config.yml").read_text(encoding="utf-8"))
    config = yaml.safe_load(CONFIG) | {"latex": ours["latex"]}
    config["sphinx"]["config"] |= {name: value for name, value in ours["sphinx"]["config"].items()
                                   if "latex" in name}
    config["sphinx"]["local_extensions"] = {"printed": "book/_ext"}
    config["parse"] = ours["parse"]
    book.write("_config.yml", yaml.safe_dump(config))
    (book.root / "book" / "_ext").mkdir()
    shutil.copy(CHECKOUT / "book" / "_ext" / "printed.py", book.root / "book" / "_ext")
    book.write("book/intro.md", "# A small book\n\n$\\mathcal{L}_1 = \\beta_i^2$ and Σβ ≥ 2 ✓.\n\n"
               "| what | " + " | ".join("abcde") + " |\n" + "|---" * 6 + "|\n"
               + "| a long row of words | 1 | 2 | 3 | 4 | $x$ |\n" * 40)
    path = book.notebook("tiny", "'✓ ✗ ᵢ ₖ 0.1 ± 0.2'", "table", shows="✓ 1 ✗ 2\n")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[-1].outputs.append(nbformat.v4.new_output("display_data", data={
        "text/html": "<table><tr><th>a</th><th>b</th></tr><tr><th>c_d</th><td>5 %</td></tr>"
                     "</table>",
        "text/plain": "<IPython.core.display.HTML object>"}))
    nbformat.write(notebook, path)
    book.toc("book/intro", "notebooks/tiny")
    made = build_pdf(run=False)
    assert made.read_bytes().startswith(b"%PDF") and made.stat().st_size > 20_000
    log = (book.root / "_build/latex/_build/latex/clusterbook.log").read_text(errors="replace")
    assert "Missing character" not in log
    assert "Overfull \\hbox" not in log
