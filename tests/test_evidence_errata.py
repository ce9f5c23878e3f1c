"""Errata: what a file may say, the page against the files, and every demonstration turned round."""

from __future__ import annotations

import ast
import re
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import nbformat
import pytest

from clusterbook import evidence, paths
from clusterbook.errors import InputError
from clusterbook.evidence import load_claims, load_errata, load_expectations
from clusterbook.evidence.views import WIDTH

PAGE = Path(__file__).resolve().parents[1] / "book" / "errata.ipynb"

GOOD = """\
# a work
- id: demo-index
  title: An index that is <wrong>
  kind: paper
  where: "Somebody & others, 2022: Eq. 1"
  seen: paper
  stands: The sum runs over k.
  right: It runs over i.
  changes: Nothing.
  claims: [demo-claim]
  check: errata-demo-index
  reported: no
- {id: demo-gone, title: A file that is gone, kind: code, where: a repository, seen: repository,
   stands: s, right: r, changes: c, not_demonstrated: it is not there, reported: issue 7}
"""
CLAIMS = """\
- {id: demo-claim, says: s, source: s, seen: paper, kind: exact, check: demo-check, section: here}
"""


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A checkout with one work's errata and a claim."""
    for name, text in {"errata": GOOD, "claims": CLAIMS}.items():
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "demo.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    return tmp_path


def refusal(tmp_path, text):
    folder = tmp_path / "data" / "errata"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "demo.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_errata(folder)
    return str(caught.value)


# --- files -----------------------------------------------------------------------------------


def test_a_good_file_is_read_in_its_order(book):
    first, second = load_errata()
    assert (first.id, first.work, first.kind, first.claims) == (
        "demo-index", "demo", "paper", ("demo-claim",))
    assert (first.check, first.not_demonstrated, first.reported) == (
        "errata-demo-index", None, False)
    assert (second.check, second.not_demonstrated, second.reported) == (
        None, "it is not there", "issue 7")


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("id: demo-index", "id: other-index", 2, "begins with its chapter, 'demo-'"),
        ("id: demo-gone", "id: demo-index", 13, "duplicate id (first on line 2)"),
        ("kind: paper", "kind: papers", 4, "kind: Input should be 'paper'"),
        ("seen: paper", "seen: memory", 6, "seen: Input should be 'paper'"),
        ("stands: The", "is: The", 7, "there is no key 'is'"),
        ("  right: It runs over i.\n", "", 2, "right: Field required"),
        ("  reported: no\n", "", 2, "reported: Field required"),
        ("reported: no", "reported: [7]", 12, "reported.literal[False]: Input should be"),
        ("changes: Nothing.", "changes:", 9, "changes has no value"),
        ("[demo-claim]", "demo-claim", 10, "claims: Input should be a valid tuple"),
        ("  check: errata-demo-index\n", "", 2, "either check"),
        ("check: errata-demo-index", "check: c\n  not_demonstrated: why", 12, "either check"),
        ("where: a repository", "where: a: b", 13, "not valid YAML"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path, old, new, line, says):
    assert GOOD.count(old) == 1
    message = refusal(tmp_path, GOOD.replace(old, new))
    assert message.startswith(f"data/errata/demo.yaml:{line}: "), message
    assert says in message


# --- what is shown ---------------------------------------------------------------------------


def test_one_erratum_says_everything_as_text_and_as_html(book):
    shown = evidence.erratum("demo-index")
    for text in ("Eq. 1 (read in the paper)", "over k.", "over i.", "Nothing.", "demo-claim"):
        assert text in repr(shown)
    html = shown._repr_html_()
    ET.fromstring(html)
    assert 'id="demo-index"' in html
    assert 'href="scorecard.html#demo-claim"' in html
    assert 'href="../notebooks/demo.html#here"' in html
    assert "&lt;wrong&gt;" in html and "Somebody &amp; others" in html
    assert "<dt>Reported</dt><dd>no</dd>" in html
    other = evidence.erratum("demo-gone")._repr_html_()
    assert "it is not there" in other and "<dd>issue 7</dd>" in other


def test_the_table_counts_and_leads_to_each_entry(book):
    shown = evidence.errata()
    assert repr(shown).startswith("2 errata: 1 in papers, 1 in released code; "
                                  "1 demonstrated by a cell, 1 reported.")
    root = ET.fromstring(f"<div>{shown._repr_html_()}</div>")
    links = {link.get("href") for link in root.iter("a")}
    assert links == {"#errata-of-demo", "#demo-index", "#demo-gone"}
    cells = [[" ".join(cell.itertext()) for cell in row] for row in root.iter("tr")]
    assert [row[-2:] for row in cells[2:]] == [["by a cell", "no"], ["no", "yes"]]


def test_the_others_are_shown_in_full(book):
    shown = evidence.errata("demo", demonstrated=False)
    assert [erratum.id for erratum in shown.rows] == ["demo-gone"]
    assert 'class="cb-erratum"' in shown._repr_html_()
    assert [e.id for e in evidence.errata("demo", demonstrated=True).rows] == ["demo-index"]


@pytest.mark.parametrize("ask", [lambda: evidence.erratum("demo-indx"),
                                 lambda: evidence.errata("dmo")])
def test_an_unknown_name_is_answered_with_the_nearest(book, ask):
    with pytest.raises(InputError, match="did you mean 'demo"):
        ask()


def test_all_of_them_fit_a_terminal():
    for shown in (evidence.errata(), *map(evidence.erratum, by_id())):
        assert max(map(len, repr(shown).splitlines())) <= WIDTH


# --- the files against the page and the claims -------------------------------------------------


@cache
def by_id():
    return {erratum.id: erratum for erratum in load_errata()}


@cache
def cells() -> list[str]:
    notebook = nbformat.read(PAGE, as_version=4)
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def names(call: str) -> list[str]:
    """The first arguments of the page's calls of ``evidence.<call>``, in their order."""
    return re.findall(rf'evidence\.{call}\(\s*"([^"]+)"', "\n".join(cells()))


def test_every_check_of_an_entry_is_on_the_page_and_every_check_of_the_page_is_of_an_entry():
    named = {erratum.check for erratum in by_id().values()} - {None}
    on_page = names("check")
    assert len(set(on_page)) == len(on_page)
    assert named == set(on_page)
    assert set(on_page) == {e.id for e in load_expectations() if e.chapter == "errata"}


def test_a_demonstration_follows_its_entry():
    """Each demonstrated entry is shown once, and its check is the next call of the page."""
    calls = re.findall(r'evidence\.(erratum|check)\(\s*"([^"]+)"', "\n".join(cells()))
    after = {name: calls[i + 1] for i, (call, name) in enumerate(calls) if call == "erratum"}
    assert len(after) == len(names("erratum"))
    assert after == {e.id: ("check", e.check) for e in by_id().values() if e.check}
    works = [ast.literal_eval(work) for work in re.findall(
        r'evidence\.errata\(("\w+"), demonstrated=False\)', "\n".join(cells()))]
    assert works == list(dict.fromkeys(erratum.work for erratum in by_id().values()))


def test_the_claims_that_are_named_exist_and_every_source_error_is_named():
    kinds = {claim.id: claim.kind for claim in load_claims()}
    named = {name for e in by_id().values() for name in e.claims}
    assert named <= set(kinds)
    assert {name for name, kind in kinds.items() if kind == "source-error"} <= named
