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

@pytest.fixture
def copy(tmp_path):
    """A copy of the checkout's text files."""
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(CHECKOUT / name, tmp_path / name)
    return tmp_path


def content(folder):
    return {name: (folder / name).read_bytes() for name in NAMES}


def naming(folder, *words):
    return {name for name, text in content(folder).items()
            if any(word.encode() in text for word in words)}


def test_an_address_is_written_everywhere_replaced_and_taken_out(copy):
    before, chapters = content(copy), {f"notebooks/{name}.ipynb" for name in config.chapters()}
    written = set(site.write(FIRST, copy))
    assert written == naming(copy, "first-owner/the_book", FIRST.pages)
    assert {"CITATION.cff", "book/cite.md", *chapters} < written and current(copy) == FIRST
    assert naming(copy, f'LIBRARY = \\"{FIRST.library}\\"') == {
        name for name in written if name.endswith(".ipynb")} - {"book/intro.ipynb"}
    buttons = yaml.safe_load((copy / "_config.yml").read_text(encoding="utf-8"))
    assert buttons["launch_buttons"]["colab_url"] and buttons["html"]["use_issues_button"]
    assert set(site.write(SECOND, copy)) == naming(
        copy, "Second/other.book", SECOND.library, SECOND.pages)
    assert not naming(copy, "first-owner", FIRST.pages, 'v0.9"')
    assert current(copy) == SECOND and site.write(SECOND, copy) == []
    site.write(Address(""), copy)
    services = ("colab.research.google.com/github", "kernels/welcome?src=https://github",
                "mybinder.org/v2", SECOND.repository)
    assert naming(copy, *services) <= {SCRIPT}
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
        copy, monkeypatch):
    """Where it is missing; where it imports, the cell does nothing."""
    called, status, found = [], 0, True
    site.write(FIRST, copy)
    monkeypatch.setattr(subprocess, "call", lambda command: called.append(command) or status)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found or None)
    for chapter in config.chapters():
        notebook = nbformat.read(copy / f"notebooks/{chapter}.ipynb", as_version=4)
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
