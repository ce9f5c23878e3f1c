"""The engine serves another book: one paper that is not about clustering, from run to page."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from _support import CHECKOUT, tree, without_settings
from bs4 import BeautifulSoup

EXAMPLE = CHECKOUT / "tests" / "example"


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A copy of the example, and what runs the command for it."""
    root = tmp_path_factory.mktemp("another") / "book"
    shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns("_build"))

    def command(*words):
        return subprocess.run(
            [sys.executable, "-m", "bookledger", *words], cwd=root.parent, capture_output=True,
            env=without_settings() | {"CLUSTERBOOK_BOOK": root.name}, text=True, check=True).stdout

    return root, command


def test_a_second_book_is_run_and_its_record_comes_out_the_same(book):
    root, command = book
    file = root / "data" / "records" / "needle-paper-seed3.json"
    before, others = json.loads(file.read_text(encoding="utf-8")), tree(root / "data" / "records")
    file.unlink()
    said = command("run", "needle", "--profile", "needle-paper", "--seeds", "2-3", "--record")
    assert "needle-paper-seed2: recorded already, skipped" in said
    after = json.loads(file.read_text(encoding="utf-8"))
    for key in ("metrics", "checks", "claims", "parameters", "code"):
        assert after[key] == before[key], key
    assert not {"needle-paper-seed3.json", "manifest.json"} & {
        name for name, content in tree(root / "data" / "records").items()
        if content == others[name]} or after["started"] == before["started"]
    shutil.copy2(EXAMPLE / "data" / "records" / file.name, file)
    shutil.copy2(EXAMPLE / "data" / "records" / "manifest.json", file.parent)


def test_a_second_book_has_verdicts_and_pages_of_its_own(book):
    root, command = book
    said = command("scorecard")
    for line in ("Headline results, 1: 1 not reproduced.", "Other results, 1: 1 reproduced.",
                 "5 records; each matches its checksum"):
        assert line in said
    assert "tell" not in said and "TELL" not in said
    command("book", "--no-execute")
    pages = {name: BeautifulSoup((root / "_build" / "html" / name).read_text(encoding="utf-8"),
                                 "html.parser")
             for name in ("book/intro.html", "book/scorecard.html", "notebooks/needle.html")}
    words = [badge.text for badge in pages["book/scorecard.html"].select(".cb-verdict")]
    assert {"reproduced", "not reproduced", "confirmed"} == set(words)
    assert pages["book/intro.html"].select_one(".cb-result .cb-verdict").text == "not reproduced"
    figure = pages["notebooks/needle.html"].select_one("figure#needle-estimate")
    assert figure.select("svg.cb-wide, svg.cb-narrow") and "One series" in figure.figcaption.text
