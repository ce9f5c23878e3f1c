"""Runs that take days: stopped when their time is over, reported while they run, resumed."""

import json
import os
import shlex
from datetime import datetime
from types import SimpleNamespace

import pytest
from _support import TRAINS, Book, inline

from bookledger import cli, config, load_records, runs, under_way
from bookledger.pieces import pieces


def test_the_pieces_of_the_long_run_join_and_are_its_progress_so_far():
    view = pieces()
    kept = [row for row in view.rows if row["seconds"]]
    ends = [0, *(int(row["last"]) for row in kept)]
    assert [int(row["first"]) - 1 for row in kept] == ends[:-1], "an epoch is missing, or twice"
    assert [row["began"] for row in kept] == sorted(row["began"] for row in kept)
    path = config.root() / "data" / "records" / "under-way" / "tell-mnist-paper-seed0.json"
    if path.exists():       # until it is recorded
        assert json.loads(path.read_text())["trainings"]["main-0"]["epoch"] == ends[-1]
    (record,) = (each for each in load_records() if each.name == "tell-mnist-800-seed0")
    assert record.seconds == pytest.approx(sum(float(row["seconds"]) for row in kept
                                               if int(row["last"]) <= 800), abs=1)
    assert view.html.count("<svg") == 2 and 'id="rerun-pieces-' in view.html
    assert f"<td>{kept[-1]['first']}–{ends[-1]}</td>" in view.html


def test_the_time_given_stops_after_an_epoch_and_the_same_command_goes_on(
        book: Book, tmp_path, monkeypatch, capsys):
    inline(monkeypatch)
    book.notebook("tiny", f"{TRAINS}\nModel().fit(2, every_seconds=1000)")
    book.profile("tiny-long", seed=3)
    records = book.root / "data" / "records"
    other = runs.checkpoints() / "tiny-long-seed8" / "notes.txt"
    other.parent.mkdir(parents=True)
    other.touch()
    command = ["run", "tiny", "--profile", "tiny-long", "--record", str(records), "--for"]
    with monkeypatch.context() as early:        # a second after that has passed for the kernel
        early.setattr(runs, "time", SimpleNamespace(time=lambda: 0.0))
        assert cli.main([*command, "0s"]) == 0
        out = capsys.readouterr().out
        assert "tiny-long-seed3: not begun, because the time given is over" in out
        assert cli.main([*command, "1s"]) == 0
    out = capsys.readouterr().out
    assert "tiny-long-seed3: stopped after epoch 1 of 2" in out and "same command resumes it" in out
    assert cli.main(["status"]) == 0
    out = capsys.readouterr().out
    assert "main: epoch 1 of 2" in out
    assert f"resume: {shlex.join(['clusterbook', *command, '1s'])}\n" in out
    path = records / "under-way" / "tiny-long-seed3.json"
    left = json.loads(path.read_text())
    assert (left["profile"], left["seed"], left["parameters"]) == ("tiny-long", 3, {"seed": 3})
    assert {"git", "code", "started"} <= left.keys()
    assert left["trainings"]["main"]["rows"] == [{"epoch": 1, "loss": 2.0}]
    assert load_records(records) == [], "a progress file is no record"
    page = under_way()
    assert "<td>main: epoch 1 of 2" in page.html and "accuracy" not in page.html
    left["trainings"]["main"]["rows"] = [{"epoch": 1, "acc": 0.25}, {"epoch": 2, "loss": 2.0}]
    path.write_text(json.dumps(left))
    assert "; accuracy 0.250 at epoch 1</td>" in under_way().html

    assert cli.main([*command, "1h"]) == 0
    (record,) = load_records(records)
    assert record.metrics == {"weight": 3.0} and not path.exists()
    assert record.started[:19] == left["started"][:19], "the time of the second piece alone"
    assert str(under_way()) == "No recorded run is under way."
    assert [folder.name for folder in runs.checkpoints().iterdir()] == ["tiny-long-seed8"]
    capsys.readouterr()
    assert cli.main(["status"]) == 0 and "no run is unfinished" in capsys.readouterr().out


def test_an_interrupted_run_says_where_it_resumes(book: Book, tmp_path, monkeypatch, capsys):
    inline(monkeypatch)
    book.notebook("tiny", TRAINS, "Model().fit(2)\nraise KeyboardInterrupt")
    book.profile("tiny-long", seed=3)
    command = ["run", "tiny", "--profile", "tiny-long", "--record", str(tmp_path)]
    with monkeypatch.context() as before:               # as before the record was written
        before.setattr(runs, "recorded", lambda run: None)
        assert cli.main(command) == 130
    said = "clusterbook: interrupted; the same command resumes from epoch 2\n"
    assert capsys.readouterr().err.endswith(said)
    assert (tmp_path / "under-way" / "tiny-long-seed3.json").is_file()
    assert cli.main(command) == 0 and "recorded already" in capsys.readouterr().out
    assert not list(tmp_path.glob("under-way/*")) and not list(runs.checkpoints().iterdir())
    (tmp_path / "tiny-long-seed3.json").unlink()
    assert cli.main(command) == 130                     # stopped just after its record
    assert capsys.readouterr().err.endswith("interrupted; no partial files left\n")
    assert not list(tmp_path.glob("under-way/*")) and not list(runs.checkpoints().iterdir())


def test_the_time_of_all_pieces_is_summed(tmp_path):
    first = runs.clock(tmp_path)
    assert first["earlier"] == 0.0 and first["started"] == first["piece"]
    assert runs.clock(tmp_path)["earlier"] == 0.0, "without a checkpoint a run begins anew"
    (tmp_path / "training.pt").touch()
    for earlier, more in ((5.0, 5), (12.0, 7)):     # a stopped piece counts up to its checkpoint
        piece = json.loads((tmp_path / "clock.json").read_text())
        saved = datetime.fromisoformat(piece["piece"]).timestamp() + more
        os.utime(tmp_path / "training.pt", (saved, saved))
        times = runs.clock(tmp_path)
        assert times["earlier"] == pytest.approx(earlier) and times["started"] == piece["started"]


def report(folder, name, epoch, *, rows=1, stage=None):
    (folder / f"{name}.pt").touch()
    (folder / f"{name}.json").write_text(json.dumps({
        "stage": stage, "epoch": epoch, "epochs": 1000, "seconds_an_epoch": 36.0,
        "rows": [{"epoch": i + 1, "loss": 0.5} for i in range(rows)]}))


def test_each_training_of_a_run_has_a_line_and_a_sweep_goes_on(tmp_path, monkeypatch):
    folder = tmp_path / "sweep-tell-0123"
    folder.mkdir()
    (folder / "clock.json").write_text("{}")
    report(folder, "a-finished", 1000)
    report(folder, "main-3", 500, stage="gated")
    monkeypatch.setattr(runs, "checkpoints", lambda: tmp_path)
    said = runs.unfinished()
    assert said.splitlines() == [
        "sweep-tell-0123",
        "    main-3, gated: epoch 500 of 1,000, 36 s an epoch, 5.0 h of computing left",
        "    a-finished: epoch 1,000 of 1,000, 36 s an epoch, finished",
        "    resume: the same command again"]


def test_a_progress_file_holds_the_last_rows(tmp_path):
    report(tmp_path, "main-3", 1000, rows=1000)
    path = tmp_path / "tiny-long-seed3.json"
    runs._write_progress(path, runs.reports(tmp_path), dict.fromkeys(runs._KEPT))
    rows = json.loads(path.read_text())["trainings"]["main-3"]["rows"]
    assert (len(rows), rows[0]["epoch"], rows[-1]["epoch"]) == (runs.MOST_ROWS, 701, 1000)
