"""The errata as they are shown, and the files against the page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from functools import cache

import nbformat
import pytest
from _support import CHECKOUT, PLAIN, module_of, put
from test_evidence_claims import ERRATA, SOURCES

import bookledger as evidence
from bookledger import load_claims, load_errata, load_expectations, load_sources
from clusterbook import paths
from clusterbook.checks import InputError

PAGES = [CHECKOUT / "book" / "audit" / f"{work}.ipynb"
         for work in ("tell", "idc", "deepcluster", "weights")]
CLAIMS = """\
- {id: demo-claim, tier: minor, says: s, source: s, seen: paper, kind: exact, check: demo-check,
   section: here}
"""


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A checkout with one work's errata and a claim."""
    put(tmp_path, {f"data/{name}/demo.yaml": text for name, text in (
        ("errata", ERRATA), ("claims", CLAIMS), ("sources", SOURCES))}
        | {"book/ledger.toml": PLAIN})
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    return tmp_path


def test_one_erratum_says_everything_as_text_and_as_html(book):
    shown = evidence.erratum("demo-index", "demo-gone")
    for text in ("An index that is <wrong>", "Somebody & others (a draft): Eq. 1", "over k.",
                 "over i.", "Nothing.", "demo-claim", "concerns a statement or code",
                 "it is not there", "Reported: issue 7"):
        assert text in " ".join(repr(shown).split())
    ET.fromstring(shown.html)
    for part in ('id="erratum-demo-index"', 'id="erratum-demo-older"',
                 'href="scorecard.html#demo-claim"', 'href="../notebooks/demo.html#here"',
                 "&lt;wrong&gt;", "Somebody &amp; others", "<dd>no</dd>"):
        assert part in shown.html
    for ask, name in ((evidence.erratum, "demo-indx"), (evidence.errata, "dmo")):
        with pytest.raises(InputError, match="did you mean 'demo"):
            ask(name)


def test_the_table_counts_and_leads_to_each_entry(book):
    shown = evidence.errata()
    assert " ".join(repr(shown).split("\n\n")[0].split()) == (
        "2 errata: 1 concern a number, 1 a statement, 0 are typos or slips; "
        "1 demonstrated in code, 1 already public")
    root = ET.fromstring(shown.html)
    links = {link.get("href") for link in root.iter("a")}
    assert links == {"audit/demo.html#erratum-demo-index", "audit/demo.html#erratum-demo-gone"}
    cells = [[" ".join(cell.itertext()) for cell in row] for row in root.iter("tr")]
    assert [row[-3:] for row in cells[1:]] == [      # what changes a number comes first
        ["concerns a published number", "no", "yes"],
        ["concerns a statement or code", "in code", "no"]]


def test_the_sources_say_what_was_read_what_they_offer_and_which_letters_were_sent(book):
    file = book / "data" / "sources" / "demo.yaml"
    for read, sent in (("a draft", "none"), ("a draft, sent: 2026-12-01",
                                             "Somebody & others (2026-12-01)")):
        file.write_text(SOURCES.replace("a draft", read))
        shown = evidence.source_table()
        for text in ("Somebody & others  a draft", "some/repository    commit 0123456",
                     "a network: unused", f"Letters sent to authors: {sent}."):
            assert text in repr(shown)
        (link,) = ET.fromstring(shown.html).iter("a")
        assert link.get("href") == f"https://example.org/some/tree/{'0123456789' * 4}"


@cache
def by_id():
    return {erratum.id: erratum for erratum in load_errata()}


def test_every_entry_is_shown_once_and_followed_by_its_demonstrations():
    page = "\n".join(cell.source for path in PAGES for cell in nbformat.read(path, 4).cells)
    calls = re.findall(r'(?:(:::\{view\} erratum )([\w -]+)|evidence\.check\(\s*"(errata-[\w-]+))',
                       page)
    assert len(set(calls)) == len(calls)
    after: dict[str, list] = {}
    for shows, ids, check in calls:
        if shows:
            after |= {id: [] for id in ids.split()}
        else:
            list(after.values())[-1].append(check)
    assert after == {e.id: list(e.checks) for e in by_id().values()}
    assert not [e.id for e in by_id().values() if bool(e.checks) == bool(e.not_demonstrated)]
    assert {name for names in after.values() for name in names} == {
        e.id for e in load_expectations() if e.chapter == "errata"}


def test_what_is_named_exists_and_every_source_error_is_named():
    sources, claims = load_sources(), load_claims()
    assert {erratum.source for erratum in by_id().values()} <= set(sources)
    assert all(source.commit or source.read and source.kind != "code"
               for source in sources.values())
    named = {name for e in by_id().values() for name in e.claims}
    assert {claim.id for claim in claims if claim.quote} <= named <= {c.id for c in claims}


def test_the_letters_are_those_of_the_entries():
    letters = module_of(CHECKOUT / "tests" / "letters" / "__main__.py").letters()
    assert {file.name: file.read_text(encoding="utf-8")
            for file in (CHECKOUT / "book" / "letters").glob("*.md")} == letters, (
        "run: python tests/letters")
