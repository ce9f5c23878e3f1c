"""The command: exit statuses, one sentence for a mistake, what each subcommand shows."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from unittest.mock import Mock

import pytest
from _support import Book

import bookledger as evidence
from bookledger import cli, config, parameters, runs
from bookledger.execution import ChapterError
from clusterbook import datasets


def said(capsys, *arguments: object) -> tuple[int, str, str]:
    """The status of a command in this process, and what it printed."""
    capsys.readouterr()
    status = cli.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def refused(capsys, *arguments: object) -> str:
    """The one sentence with which a command refuses: status 2, nothing on stdout."""
    status, out, err = said(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("clusterbook: ") and err.endswith("\n") and err.count("\n") == 1
    return err


def test_without_a_network_the_sentence_says_what_to_do(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CLUSTERBOOK_DATA", str(tmp_path))
    monkeypatch.setattr("time.sleep", Mock())                       # between two tries
    for name in ("http_proxy", "https_proxy", "no_proxy"):          # nothing listens there
        for variable in (name, name.upper()):
            monkeypatch.setenv(variable, "" if name == "no_proxy" else "http://127.0.0.1:9")
    sentence = refused(capsys, "data", "mnist")
    for name in ("mnist", "network", "digits"):
        assert name in sentence
    assert not [path for path in tmp_path.rglob("*") if path.is_file()], "something was left"


def test_a_missing_package_is_named_with_its_extra(book: Book, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)         # a sweep makes its folder before it asks for a cluster
    book.notebook("tiny", "1 + 1", parameters="n: int = 1  # a count | paper: 1 | more")
    for name, extra, command in (
            ("papermill", "book", "run tiny"),
            ("distributed", "dask", "sweep tiny -p n 1,2 --scheduler tcp://127.0.0.1:9")):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, name, None)
            said = refused(capsys, *command.split())
        assert f"needs {name}; install clusterbook with its extra {extra}" in said
    absent = Mock(side_effect=PackageNotFoundError("numpy"))
    monkeypatch.setattr("bookledger.build.version", absent)
    assert "needs numpy; install clusterbook" in refused(capsys, "book")


@pytest.mark.parametrize(("error", "status", "says"), [
    (ChapterError("tiny, cell 2 failed"), 1, "tiny, cell 2 failed"),
    (KeyboardInterrupt(), 130, "interrupted; no partial files left"),
    (KeyboardInterrupt("the same command resumes from epoch 3"), 130,
     "interrupted; the same command resumes from epoch 3"),
    (OSError(28, "No space left on device"), 1, "No space left on device; make room for the "
     "output and in TMPDIR"),
    (PermissionError(13, "Permission denied", "a file"), 2, "a file: Permission denied"),
    (RuntimeError("a fault of ours"), None, ""), (TypeError("another"), None, ""),
    (ModuleNotFoundError("", name="clusterbook.gone"), None, "")], ids=repr)
def test_what_fails_is_said_and_a_fault_of_ours_is_not_hidden(capsys, monkeypatch, error, status,
                                                              says):
    monkeypatch.setattr(datasets, "catalog", Mock(side_effect=error))
    if status is None:
        with pytest.raises(type(error)):
            cli.main(["data"])
    else:
        assert said(capsys, "data") == (status, "", f"clusterbook: {says}\n")


@pytest.mark.parametrize("value", ["-0.5,0.5", "-1", "--", "-p"])
def test_a_value_may_begin_with_a_minus(monkeypatch, value):
    asked = []
    monkeypatch.setattr("bookledger.sweep.sweep", lambda **options: asked.append(options)
                        or [])
    assert cli.main(["sweep", "weights", "-p", "pixel_mean", value, "-p", "epochs", "1"]) == 0
    assert asked[0]["overrides"] == {"pixel_mean": value, "epochs": "1"}


def test_torchrun_starts_a_run_and_nothing_else(capsys, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "one")
    for words in (["sweep", "tell", "-p", "alpha", "1,2"], ["book"], ["status"]):
        assert "'clusterbook run' only" in refused(capsys, *words)


def test_the_help_names_every_command(capsys):
    status, out, _ = said(capsys, "--help")
    assert status == 0 and cli.main([]) == 2, "no command shows the help"
    assert "130 interrupted" in " ".join(out.split())
    for command in (*cli._COMMANDS, *config.book().commands):
        assert re.search(rf"(?m)^ +{command}\b", out), command


def test_a_book_has_commands_of_its_own(book: Book, capsys):
    with (book.root / "book" / "ledger.toml").open("a", encoding="utf-8") as file:
        file.write('[commands.spell]\ndoes = "textwrap:wrap"\nsays = "part a text"\n'
                   'arguments = {TEXT = "what to part"}\n')
    assert said(capsys, "spell", "so " * 40)[1].count("so\n") == 2
    assert "part a text" in said(capsys, "--help")[1]
    status, _, err = said(capsys, "spell")
    assert status == 2 and "required: TEXT" in err


def test_parameters_and_figures_are_listed(book: Book, capsys):
    book.notebook("tiny", "figures.show(x, name='a-line')")
    book.profile("tiny-small", seed=1)
    assert said(capsys, "parameters", "tiny") == (
        0, f"{parameters.parameter_table('tiny')}\n\n{parameters.profile_table('tiny')}\n", "")
    status, out, _ = said(capsys, "figures")
    assert status == 0 and out.startswith("tiny: 1 figure\n") and "--only a-line" in out


def test_data_shows_every_data_set_with_license_and_checksums(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CLUSTERBOOK_DATA", str(tmp_path))
    status, out, err = said(capsys, "data")
    assert (status, err) == (0, "") and str(tmp_path) in out
    for source in datasets.catalog():
        block = out[out.index(f"\n{source.name} "):].lstrip()
        assert block.split()[1] == ("missing" if source.files else "embedded")
        for text in (source.title, source.license, source.size, *source.files,
                     *source.files.values()):
            assert text in block


def test_the_scorecard_is_printed(book: Book, capsys):
    assert said(capsys, "scorecard") == (0, f"{evidence.scorecard()}\n", "")


def test_the_record_goes_where_it_was_asked(book: Book, capsys, monkeypatch):
    asked = []
    monkeypatch.setattr(runs, "run", lambda **options: asked.append(options["records"]) or [])
    for place in ([], ["mine"]):
        assert said(capsys, "run", "tiny", "--profile", "tiny-small", "--record", *place)[0] == 0
    status, out, err = said(capsys, "run", "tiny")
    assert (status, err) == (0, "") and "--output FILE" in out and "--figures DIR" in out
    assert asked == [book.root / "data" / "records", Path("mine"), None]


def test_only_the_path_of_the_book_goes_to_stdout(capsys, monkeypatch):
    def build(run, pdf, say):
        say("1/1 tiny: unchanged")
        return Path("html/index.html") if run else Path("committed/index.html")

    monkeypatch.setattr("bookledger.build.build", build)
    assert said(capsys, "book") == (0, "html/index.html\n", "1/1 tiny: unchanged\n")
    assert said(capsys, "book", "--no-execute")[1] == "committed/index.html\n"
