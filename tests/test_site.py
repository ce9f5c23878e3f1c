"""The book's one address: written everywhere together, and nowhere else."""

from __future__ import annotations

import shutil
import subprocess

import nbformat
import pytest
import yaml
from _support import CHECKOUT, module_of

from bookledger import config
from clusterbook.checks import InputError

site = module_of(CHECKOUT / ".github" / "scripts" / "site.py")
Address, current = site.Address, site.current

SCRIPT = ".github/scripts/site.py"
FIRST = Address("https://github.com/first-owner/the_book", "v0.9")
SECOND = Address("https://github.com/Second/other.book", "v1.0rc1", released=True)
SUFFIXES = {".bib", ".cff", ".ipynb", ".json", ".md", ".py", ".toml", ".yaml", ".yml"}
NAMES = sorted({path.relative_to(CHECKOUT).as_posix()
                for pattern in ("book/**/*", "notebooks/**/*", "src/**/*", "*", ".github/scripts/*")
                for path in CHECKOUT.glob(pattern) if path.is_file() and path.suffix in SUFFIXES})
# With two notebooks, which is quicker to write; without the script that reads the others' titles.
FEW = [name for name in NAMES if not name.endswith((".ipynb", "citation.py"))
       or name.endswith(("/tell.ipynb", "/intro.ipynb"))]


def copied(folder, names):
    """A copy of the checkout's text files."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(CHECKOUT / name, folder / name)
    return folder


@pytest.fixture
def copy(tmp_path):
    return copied(tmp_path, FEW)


@pytest.fixture(scope="module")
def addressed(tmp_path_factory):
    """A whole copy with the first address, which tests only read, and what was written."""
    copy = copied(tmp_path_factory.mktemp("addressed"), NAMES)
    return copy, site.write(FIRST, copy)


def content(folder):
    return {name: (folder / name).read_bytes() for name in FEW}


def naming(folder, names, *words):
    return {name for name in names if any(word.encode() in (folder / name).read_bytes()
                                          for word in words)}


def test_one_command_writes_every_place_and_no_other_place_names_the_address(addressed):
    copy, written = addressed
    assert set(written) == naming(copy, NAMES, "first-owner/the_book", FIRST.pages)
    assert {"CITATION.cff", "book/cite.md"} < set(written)
    notebooks = {name for name in written if name.endswith(".ipynb")}
    assert {f"notebooks/{chapter}.ipynb" for chapter in config.chapters()} <= notebooks
    assert naming(copy, notebooks, f'LIBRARY = \\"{FIRST.library}\\"') == (
        notebooks - {"book/intro.ipynb"})
    assert naming(copy, NAMES, ">Open in Colab</a>") == {"book/intro.ipynb", SCRIPT}
    buttons = yaml.safe_load((copy / "_config.yml").read_text(encoding="utf-8"))
    assert buttons["launch_buttons"]["colab_url"] and buttons["html"]["use_issues_button"]
    assert current(copy) == FIRST
    if now := current(CHECKOUT).repository:
        assert naming(CHECKOUT, NAMES, now) <= set(written)


def test_an_address_replaces_another_and_can_be_taken_out(copy):
    before = content(copy)
    site.write(FIRST, copy)
    assert set(site.write(SECOND, copy)) == naming(copy, FEW, "Second/other.book", SECOND.library)
    assert current(copy) == SECOND
    assert not naming(copy, FEW, "first-owner", FIRST.pages, "v0.9\"")
    assert site.write(SECOND, copy) == []
    site.write(Address(""), copy)
    services = ("colab.research.google.com/github", "kernels/welcome?src=https://github",
                "mybinder.org/v2", SECOND.repository)
    assert naming(copy, FEW, *services) <= {SCRIPT}
    site.write(current(CHECKOUT), copy)
    assert content(copy) == before


def test_the_links_open_the_notebook_at_the_tag():
    file = "first-owner/the_book/blob/v0.9/notebooks/tell.ipynb"
    assert FIRST.launchers("notebooks/tell.ipynb") == {
        "Colab": f"https://colab.research.google.com/github/{file}",
        "Kaggle": f"https://kaggle.com/kernels/welcome?src=https://github.com/{file}",
        "Binder": "https://mybinder.org/v2/gh/first-owner/the_book/v0.9"
                  "?urlpath=lab/tree/notebooks/tell.ipynb",
    }
    assert FIRST.pages == "https://first-owner.github.io/the_book"
    assert Address("https://github.com/Me/me.github.io").pages == "https://me.github.io"


@pytest.mark.parametrize(("address", "says"), [
    (("https://gitlab.com/a/b",), "form https://github"), (("", "main"), "--ref names a tag"),
    (("", "v1..2"), "--ref names a tag"), (("", "first", True), "a release has a tag such as v1")])
def test_an_address_that_nothing_opens_is_refused(address, says):
    with pytest.raises(InputError, match=says):
        Address(*address)


def test_a_place_that_lost_its_line_stops_all(copy):
    path = copy / "README.md"
    path.write_text(path.read_text("utf-8").replace("<!-- end of address -->", ""), "utf-8")
    before = content(copy)
    with pytest.raises(InputError, match="README.md: .*restore it with git"):
        site.write(FIRST, copy)
    assert content(copy) == before


def test_the_command_says_and_writes(copy, capsys):
    assert site.main(["--repository", f"{FIRST.repository}.git/", "--ref", "v0.9"], copy) == 0
    assert "notebooks/tell.ipynb\n" in capsys.readouterr().out
    assert site.main([], copy) == 0
    assert capsys.readouterr().out == f"{FIRST.repository} at v0.9\n"
    assert site.main(["--repository", "", "--ref", "main"], copy) == 2


def test_the_bootstrap_installs_the_library_at_its_tag_and_neither_torch_nor_numpy(
        addressed, monkeypatch):
    """Where it is missing; where it imports, the cell does nothing."""
    called, status, found = [], 0, True
    monkeypatch.setattr(subprocess, "call", lambda command: called.append(command) or status)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found or None)
    for chapter in config.chapters():
        notebook = nbformat.read(addressed[0] / f"notebooks/{chapter}.ipynb", as_version=4)
        (cell,) = [c.source for c in notebook.cells if "bootstrap" in c.metadata.get("tags", [])]
        found = True
        monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
        exec(cell, {})
        assert not called, "a wheel that is installed stays"
        found = False
        exec(cell, {})
        command = called.pop()
        assert command[1:4] == ["-m", "pip", "install"] and "--no-deps" in command
        library, *others = [word for word in command[4:] if not word.startswith("--")]
        assert library == f"clusterbook @ git+{FIRST.repository}@v0.9"
        assert others == ["munkres<2"]
        monkeypatch.delenv("COLAB_RELEASE_TAG")
        exec(cell, {})
        assert "--no-deps" not in called.pop(), "elsewhere it needs what it imports"
    status = 1
    with pytest.raises(RuntimeError, match=f"{FIRST.ref} could.*Settings → Internet → On"):
        exec(cell, {})
    with pytest.raises(RuntimeError, match="clusterbook is missing: get its wheel .* pip install"):
        exec(cell.replace(FIRST.library, ""), {})
    assert len(called) == 1, "it asks no index for a name that is not there"
