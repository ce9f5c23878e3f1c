"""Code that replaced other code without changing a number."""

from __future__ import annotations

import subprocess

import pytest
from test_evidence_verdicts import EXACT, VALUE, run, runs

from clusterbook import paths
from clusterbook.errors import InputError
from clusterbook.evidence import at_last_tag, judge, status, views
from clusterbook.evidence.verdicts import leads, load_lineage, present_code
from clusterbook.evidence.views import REPLACED

A, B, C, D = (digit * 64 for digit in "abcd")


def entry(old, new, chapter="demo", **changes):
    values = {"chapter": chapter, "old": old, "new": new, "commit": "e" * 40, "says": "a test",
              **changes}
    return "- " + "\n  ".join(f"{key}: {value}" for key, value in values.items()
                              if value is not None) + "\n"


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book with one chapter; returns what writes its lineage."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "demo.ipynb").write_text("{}")
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    monkeypatch.setattr(paths, "checkout", lambda: tmp_path)
    return lambda *entries: (tmp_path / "data" / "lineage.yaml").write_text("".join(entries))


def stale(code, now=C):
    return judge(VALUE, runs(0.95, 0.95, 0.95, code=code), fingerprints={"demo": now}).stale


def test_a_record_of_replaced_code_is_not_stale(book):
    assert stale(A) and stale(B) and not stale(C)           # there is no file
    book(entry(A, B), entry(B, C))
    assert load_lineage() == {("demo", A): B, ("demo", B): C}
    assert not stale(A) and not stale(B) and not stale(C)
    assert stale(D) and stale(A, now=D) and stale(C, now=B)


def test_what_does_not_lead_to_the_present_code_is_as_if_it_were_not_there(book):
    book(entry(A, B), entry(C, D))
    assert stale(A, now=C) and stale(B, now=C) and not stale(C, now=C)
    assert judge(VALUE, runs(0.95, code=A), fingerprints={}).stale      # the module is gone


def test_another_chapters_lineage_is_its_own(book):
    assert not leads({("other", A): B}, "demo", A, B)
    assert leads({("demo", A): B}, "demo", A, B)


def test_a_check_of_replaced_code_counts_as_fresh(book):
    book(entry(A, C))
    checked = [run(0, code=A, checks={"c": True}), run(1, code=B, checks={"c": False})]
    assert judge(EXACT, checked, fingerprints={"demo": C}).label == "confirmed"


@pytest.mark.parametrize(("entries", "line", "says"), [
    ([entry(A, B), entry(A, C)], 7, "replaced already by an entry above"),
    ([entry(A, B), entry(B, A)], 8, "leads back to the code that it replaces"),
    ([entry(A, B), entry(B, C), entry(C, A)], 13, "leads back"),
    ([entry(A, A)], 3, "leads back"),
    ([entry(A, "abc")], 3, "new: String should match pattern"),
    ([entry(A, B, commit="123")], 4, "commit: Input should be a valid string"),
    ([entry(A, B, commit="main")], 4, "commit: String should match"),
    ([entry(A, B, says=None)], 1, "says: Field required"),
    ([entry(A, B, because="x")], 6, "there is no key 'because'"),
    (["demo: {a: b}\n"], 1, "must be a list"),
])
def test_a_mistake_is_refused_with_file_and_line(book, entries, line, says):
    book(*entries)
    with pytest.raises(InputError, match=rf"data/lineage\.yaml:{line}: .*{says}"):
        stale(A)


def test_the_status_says_that_the_code_was_replaced(book):
    def code(of):
        return status([run(0, 0.95, chapter="weights", profile="weights-x", code=of)]
                      ).rows[0].cells["Code"]

    (paths.root() / "notebooks" / "weights.ipynb").write_text('{"cells": []}')
    now = present_code(["weights"])["weights"]
    assert code(now) == "abc" and code(A) == "abc, stale"
    book(entry(A, now, chapter="weights"))
    assert code(A) == f"abc, {REPLACED}"


def test_a_tag_is_judged_by_its_own_lineage(book, monkeypatch):
    def git(*arguments):
        subprocess.run(["git", "-C", str(paths.root()), "-c", "user.name=a", "-c", "user.email=a",
                        *arguments], check=True, capture_output=True)

    seen = []
    monkeypatch.setattr(views, "judge", lambda *_, lineage, **__: seen.append(lineage))
    monkeypatch.setattr(views.Scorecard, "words", lambda _: {})
    claims = paths.root() / "data" / "claims"
    claims.mkdir()
    (claims / "demo.yaml").write_text(
        "- {id: demo-x, says: x, source: s, seen: paper, kind: exact, check: demo-y}\n")
    book(entry(A, B, chapter="former"))
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    git("tag", "v1")
    book(entry(B, C))
    assert at_last_tag() == {} and seen == [{("former", A): B}]


def test_the_books_own_lineage_is_about_chapters():
    assert {chapter for chapter, _ in load_lineage()} <= set(paths.chapters())
