"""The engine serves another book: one paper that is not about clustering, from run to page."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from _support import CHECKOUT, tree, without_settings
from bs4 import BeautifulSoup

EXAMPLE = CHECKOUT / "tests" / "example"


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A copy of the example, and what runs the command for it: status, output, messages."""
    root = tmp_path_factory.mktemp("another") / "a {book} of one's own"
    shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns("_build"))

    def command(*words):
        done = subprocess.run(
            [sys.executable, "-m", "clusterbook", *words], cwd=root.parent, capture_output=True,
            env=without_settings() | {"CLUSTERBOOK_BOOK": root.name}, text=True)
        return done.returncode, done.stdout, done.stderr

    return root, command


def test_a_second_book_is_run_and_its_record_comes_out_the_same(book):
    root, command = book
    file = root / "data" / "records" / "needle-paper-seed3.json"
    before, others = json.loads(file.read_text(encoding="utf-8")), tree(root / "data" / "records")
    file.unlink()
    status, said, _ = command("run", "needle", "--profile", "needle-paper", "--seeds", "2-3",
                              "--record")
    assert status == 0 and "needle-paper-seed2: recorded already, skipped" in said
    after = json.loads(file.read_text(encoding="utf-8"))
    for key in ("metrics", "checks", "claims", "parameters", "code"):
        assert after[key] == before[key], key
    assert not {"needle-paper-seed3.json", "manifest.json"} & {
        name for name, content in tree(root / "data" / "records").items()
        if content == others[name]}
    shutil.copy2(EXAMPLE / "data" / "records" / file.name, file)
    shutil.copy2(EXAMPLE / "data" / "records" / "manifest.json", file.parent)


@pytest.mark.slow
def test_records_are_run_again_and_a_fabricated_one_is_named(book):
    root, command = book
    folder, verified = root / "data" / "records", root / "data" / "verified"
    before = tree(folder)
    status, said, wrong = command("verify", "--by", "Ada")
    lines = said.splitlines()
    assert (status, len(lines), len({*lines})) == (0, 3, 3), wrong
    assert all(re.fullmatch(r"needle-paper-seed\d: agrees; 3 of 3 numbers equal", line)
               for line in lines)
    assert tree(folder) == before, "a record was touched"
    one = json.loads(next(verified.glob("*.json")).read_text(encoding="utf-8"))
    assert one["by"] == "Ada" and one["machine"]["cores"] and not one["differences"]
    line = (r"Run again: 3 of 5 records\. All numbers of a record agreed, within their tolerances, "
            r"in 3 of 3 reruns by Ada on .+, \d{4}-\d\d-\d\d\.")
    assert re.search(line, " ".join(command("scorecard")[1].split()))

    # Every field consistent with every other, but no run gives it.
    name = lines[0].partition(":")[0]
    file = folder / f"{name}.json"
    record = json.loads(file.read_text(encoding="utf-8"))
    record["metrics"]["pi"] += 0.02
    file.write_text(json.dumps(record), encoding="utf-8")
    listed = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    listed[file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(listed), encoding="utf-8")
    assert "Run again: 2 of 5 records" in command("scorecard")[1], "attested is another file"
    status, said, wrong = command("verify", f"{name}.json", "--by", "Grace")
    assert status == 1 and wrong.endswith(f"{name}: not what a run on this machine gives\n")
    assert re.match(rf"{name}: DIFFERS in 1 of 3 numbers; recorded on .+, run again on .+\n"
                    r"    pi: \S+ recorded, \S+ again, 0 allowed", said)
    said = " ".join(command("scorecard")[1].split())
    assert "in 2 of 2 reruns by Ada on " in said and "; 0 of 1 reruns by Grace on " in said
    profile, seed = name.rsplit("-seed", 1)
    assert f". On no machine so far: {profile} (seed {seed}, recorded on " in said
    for words, sentence in (
            (["needle-paper-seed9"], "did you mean 'needle-paper-seed"), (["--by", " "], "--by")):
        status, _, wrong = command("verify", *words)
        assert status == 2 and sentence in wrong and not wrong.count("\n") - 1
    shutil.rmtree(verified)
    for name in before:
        shutil.copy2(EXAMPLE / "data" / "records" / name, folder / name)


def test_a_second_book_has_verdicts_of_its_own(book):
    _, said, _ = book[1]("scorecard")
    for line in ("Headline results, 1: 1 not reproduced.", "Other results, 1: 1 reproduced."):
        assert line in said
    assert "tell" not in said and "TELL" not in said


@pytest.mark.slow
def test_it_is_built_once_and_a_warning_leaves_the_site_as_it_is(book):
    root, command = book
    sources, html = tree(root, leaving_out=["_build"]), root / "_build" / "html"
    assert command("book")[2].splitlines()[-1] == "building the pages"
    assert tree(root, leaving_out=["_build"]) == sources, "the build wrote into the sources"
    site = tree(html)
    pages = {name: BeautifulSoup((html / name).read_text(encoding="utf-8"), "html.parser")
             for name in ("book/intro.html", "book/scorecard.html", "notebooks/needle.html")}
    words = [badge.text for badge in pages["book/scorecard.html"].select(".cb-verdict")]
    assert {"reproduced", "not reproduced", "confirmed"} == set(words)
    assert pages["book/intro.html"].select_one(".cb-result .cb-verdict").text == "not reproduced"
    (figure,) = pages["notebooks/needle.html"].select("figure")
    assert figure["id"] == "figure-needle-estimate" and figure.select("svg.cb-wide, svg.cb-narrow")
    assert len(figure.select("figcaption")) == 1 and "One series" in figure.figcaption.text
    assert not pages["notebooks/needle.html"].select(".cell_output em"), "twice"
    assert [link.text for link in figure.select(".cb-row a")] == ["PNG", "SVG", "CSV"]
    assert all((html / "notebooks" / link["href"]).is_file() for link in figure.select(".cb-row a"))
    assert figure.select_one(".cb-row pre").text.startswith("clusterbook run needle --only estima")
    assert [line.text[0] for line in pages["notebooks/needle.html"].select("p.cb-check")] == ["✓"]
    with zipfile.ZipFile(html / "notebooks.zip") as archive:
        (entry,) = archive.infolist()
        packed = json.loads(archive.read(entry))
    download = (html / "_sources/notebooks/needle.ipynb").read_text(encoding="utf-8")
    assert entry.filename == "notebooks/needle.ipynb" and '"drawn"' not in download
    executed = json.loads(download)
    assert any(cell.get("outputs") for cell in executed["cells"])
    for cell in executed["cells"]:
        cell |= {"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {}
    assert packed == executed, "other cells, or outputs in the archive"

    said = command("book")
    assert said == (0, f"{html / 'index.html'}\n", "nothing changed since the last build\n")
    intro = root / "book" / "intro.md"
    intro.write_text("# Intro\n\n[nowhere](#nowhere)\n\n:::{view} scorecrd\n:::\n", "utf-8")
    status, _, said = command("book")
    assert status == 1 and re.search(r"^ +book/intro\.md:3: WARNING: .*nowhere", said, re.MULTILINE)
    assert re.search("did you mean.*scorecard", said) and tree(html) == site
