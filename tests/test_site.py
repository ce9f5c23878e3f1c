"""The book's one address: written everywhere together, and nowhere else."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess

import nbformat
import pytest

from clusterbook import cli, paths
from clusterbook.book import site
from clusterbook.book.site import Address
from clusterbook.errors import InputError

CHECKOUT = paths.checkout()
FIRST = Address("https://github.com/first-owner/the_book", "v0.9")
SECOND = Address("https://github.com/Second/other.book", "release/1.0")
SUFFIXES = {".cff", ".ipynb", ".md", ".py", ".toml", ".yaml", ".yml"}


@pytest.fixture(scope="module")
def texts():
    """The names of all text files of the checkout; this one names two addresses."""
    names = [path.relative_to(CHECKOUT).as_posix() for folder in ("book", "notebooks", "src", ".")
             for path in CHECKOUT.glob(f"{folder}/*" if folder == "." else f"{folder}/**/*")
             if path.is_file() and path.suffix in SUFFIXES]
    return sorted(set(names))


def copied(folder, texts):
    """A copy of the checkout's text files."""
    for name in texts:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(CHECKOUT / name, folder / name)
    return folder


@pytest.fixture
def few(texts):
    """The names of the text files with one notebook, which is quicker to write."""
    return [name for name in texts if not name.endswith(".ipynb") or name.endswith("/tell.ipynb")]


@pytest.fixture
def copy(tmp_path, few):
    """A copy of these files, for a test to write to."""
    return copied(tmp_path, few)


@pytest.fixture(scope="module")
def addressed(tmp_path_factory, texts):
    """A copy with the first address, which tests only read, and what was written."""
    copy = copied(tmp_path_factory.mktemp("addressed"), texts)
    return copy, site.write(FIRST, copy)


def content(folder, names):
    return {name: (folder / name).read_bytes() for name in names}


def naming(folder, names, *words):
    return {name for name, text in content(folder, names).items()
            if any(word.encode() in text for word in words)}


def test_one_command_writes_every_place_and_no_other_place_names_the_address(addressed, texts):
    copy, written = addressed
    assert set(written) == set(site.places(copy)) == naming(copy, texts, FIRST.repository)
    notebooks = {name for name in written if name.endswith(".ipynb")}
    assert {f"notebooks/{chapter}.ipynb" for chapter in paths.chapters()} <= notebooks
    assert naming(copy, notebooks, f'REPOSITORY, REF = \\"{FIRST.repository}\\"') == notebooks
    assert site.current(copy) == FIRST


def test_an_address_replaces_another_and_can_be_taken_out(copy, few):
    before = content(copy, few)
    site.write(FIRST, copy)
    assert naming(copy, few, SECOND.repository) == set()
    assert set(site.write(SECOND, copy)) == naming(copy, few, SECOND.repository)
    assert not naming(copy, few, "first-owner", FIRST.pages, "v0.9\"")
    assert site.write(SECOND, copy) == []
    site.write(Address(""), copy)
    for service in ("colab.research.google.com/github", "kernels/welcome?src=https://github",
                    "mybinder.org/v2"):
        found = naming(copy, few, service)
        assert not {name for name in found if not name.startswith(("src", "tests", "book/_ext"))}
    site.write(site.current(CHECKOUT), copy)
    assert content(copy, few) == before


def test_nothing_names_the_address_that_is_set_but_its_places(texts):
    if now := site.current(CHECKOUT).repository:
        assert naming(CHECKOUT, texts, now) <= set(site.places(CHECKOUT))


def test_the_links_open_the_notebook_at_the_tag():
    assert FIRST.launchers("notebooks/tell.ipynb") == {
        "Colab": "https://colab.research.google.com/github/first-owner/the_book/blob/v0.9/"
                 "notebooks/tell.ipynb",
        "Kaggle": "https://kaggle.com/kernels/welcome?src=https://github.com/first-owner/the_book/"
                  "blob/v0.9/notebooks/tell.ipynb",
        "Binder": "https://mybinder.org/v2/gh/first-owner/the_book/v0.9"
                  "?urlpath=lab/tree/notebooks/tell.ipynb",
    }
    assert FIRST.pages == "https://first-owner.github.io/the_book"
    assert Address("https://github.com/Me/me.github.io").pages == "https://me.github.io"


@pytest.mark.parametrize("repository", [
    "github.com/a/b", "http://github.com/a/b", "https://gitlab.com/a/b", "https://github.com/a",
    "https://github.com/a/b/tree/main", "https://github.com/a/b c", "git@github.com:a/b"])
def test_an_address_that_nothing_opens_is_refused(repository):
    with pytest.raises(InputError, match="form https://github.com/OWNER/NAME"):
        Address(repository)


@pytest.mark.parametrize("ref", ["", "-f", "a b", "v1..2", 'v1"', "/v1", "v1/"])
def test_a_ref_that_git_would_refuse_is_refused(ref):
    with pytest.raises(InputError, match="--ref names a tag or a branch"):
        Address("", ref)


@pytest.mark.parametrize(("name", "lost"), [
    ("_config.yml", "repository:"), ("README.md", "<!-- address -->"),
    ("notebooks/tell.ipynb", "REPOSITORY, REF ="), ("pyproject.toml", "[project.optional")])
def test_a_place_that_lost_its_line_stops_all(copy, few, name, lost):
    text = (copy / name).read_text(encoding="utf-8")
    assert lost in text
    (copy / name).write_text(text.replace(lost, "gone", 1), encoding="utf-8")
    before = content(copy, few)
    with pytest.raises(InputError, match=f"{name}: .*restore it with git"):
        site.write(FIRST, copy)
    assert content(copy, few) == before


def test_the_command_says_and_writes(copy, monkeypatch, capsys):
    monkeypatch.setattr(paths, "checkout", lambda: copy)
    monkeypatch.setattr(paths, "root", lambda: copy)
    assert cli.main(["site", "--repository", f"{FIRST.repository}.git/", "--ref", "v0.9"]) == 0
    assert "notebooks/tell.ipynb\n" in capsys.readouterr().out
    assert cli.main(["site"]) == 0
    assert capsys.readouterr().out == f"{FIRST.repository} at v0.9\n"
    assert cli.main(["site", "--ref", "v1.0"]) == 0
    assert site.current(copy) == Address(FIRST.repository, "v1.0")
    assert cli.main(["site", "--repository", ""]) == 0
    assert site.current(copy) == Address("", "main"), "no address, and no tag of it"
    capsys.readouterr()
    assert cli.main(["site", "--repository", "somewhere"]) == 2
    assert "not 'somewhere'" in capsys.readouterr().err
    monkeypatch.setattr(paths, "checkout", lambda: None)
    with pytest.raises(InputError, match="written into a checkout"):
        site.write(FIRST)


# --- the cell that installs the library ------------------------------------------------------


def bootstrap(folder, chapter):
    notebook = nbformat.read(folder / "notebooks" / f"{chapter}.ipynb", as_version=4)
    (cell,) = [c for c in notebook.cells if "bootstrap" in c.metadata.get("tags", [])]
    return cell.source


@pytest.fixture
def hosted(monkeypatch):
    """A machine like Colab, without the library; returns what pip was called with."""
    called = []
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(subprocess, "call", lambda command: called.append(command) or 0)
    return called


def test_the_bootstrap_installs_the_library_at_its_tag_and_neither_torch_nor_numpy(
        addressed, hosted):
    for chapter in paths.chapters():
        exec(bootstrap(addressed[0], chapter), {})
        command = hosted.pop()
        assert command[1:4] == ["-m", "pip", "install"] and "--no-deps" in command
        wanted = [word for word in command[4:] if not word.startswith("--")]
        assert wanted[0] == f"clusterbook @ git+{FIRST.repository}@v0.9"
        assert [word.split(">")[0] for word in wanted[1:]] == ["munkres", "pooch"]


def test_a_bootstrap_that_cannot_install_says_what_to_do(addressed, hosted, monkeypatch):
    cell = bootstrap(addressed[0], "tell")
    with pytest.raises(RuntimeError, match="no repository address yet"):
        exec(cell.replace(FIRST.repository, ""), {})
    assert not hosted
    monkeypatch.setattr(subprocess, "call", lambda command: 1)
    with pytest.raises(RuntimeError, match="Settings → Internet → On"):
        exec(cell, {})


def test_on_any_other_machine_the_bootstrap_does_nothing(addressed, hosted, monkeypatch):
    monkeypatch.delenv("COLAB_RELEASE_TAG")
    exec(bootstrap(addressed[0], "tell"), {})
    assert not hosted
