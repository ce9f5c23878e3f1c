"""A sweep: input is checked first, every run is there once, the drawing shows what ran."""

from __future__ import annotations

import csv
import gc
import os
import signal
from pathlib import Path

import numpy as np
import psutil
import pytest
from _support import HANG, Book, alive, record, wait_for

from bookledger import runs, sweep
from bookledger.execution import RESUMES, ChapterError
from bookledger.machine import version_of
from bookledger.records import dumps
from clusterbook.checks import InputError

PARAMETERS = """\
rate: float = 0.5  # how fast | paper: 0.5 | faster
n: int = 1  # a count | paper: 1 | more
name: str = "digits"  # a text | paper: none | another
deep: bool = False  # whether | paper: no | deeper
ks: list[int] = [2]  # several counts | paper: 2 | more
seed: int = 0  # decides everything random | paper: 0 | other numbers
seeds: list[int] = [1, 2, 3]  # further runs | paper: five | more"""


@pytest.fixture
def tiny(book: Book) -> Book:
    book.notebook("tiny", "1 + 1", parameters=PARAMETERS)
    return book


def rows(folder: Path) -> list[dict[str, str]]:
    with open(folder / "sweep.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def made(monkeypatch) -> list[runs.Run]:
    """Runs are made here, without a kernel: each leaves a record, and is listed.

    A rate of 7 is a mistake, 8 breaks what makes it, 10 has other code.
    """
    asked: list[runs.Run] = []

    def make(run: runs.Run) -> None:
        asked.append(run)
        rate, seed = run.values["rate"], run.values["seed"]
        if rate in (7, 8):
            raise (InputError if rate == 7 else OSError)("there are 3 rows\nin two lines")
        content = dumps(record(
            chapter="tiny", profile="tiny-default", parameters=run.values, seed=seed,
            metrics={"acc": rate * (1 + seed), "n": 7.0}, seconds=2.5,
            code=version_of("tiny") if rate != 10 else "0" * 64,
            started="2026-01-02T03:04:05+00:00"))
        (run.records / f"tiny-default-seed{seed}.npz").write_bytes(b"arrays")
        (run.records / f"tiny-default-seed{seed}.json").write_text(content, encoding="utf-8")

    monkeypatch.setattr(runs, "make", make)
    monkeypatch.setattr(sweep.joblib, "cpu_count", lambda: 1)   # joblib then calls it here
    return asked


@pytest.mark.parametrize(("name", "text", "values"), [
    ("rate", "1e-4,1e-3, 1e-2", [1e-4, 1e-3, 1e-2]), ("n", "2-4,8", [2, 3, 4, 8]),
    ("name", "a,b.csv;", ["a,b.csv"]), ("name", "a,b.csv;c.csv", ["a,b.csv", "c.csv"]),
    ("deep", "true,false", [True, False]), ("ks", "1-3", [[1, 2, 3]]),
    ("ks", "[];1,2", [[], [1, 2]])])
def test_the_values_of_a_parameter(tiny: Book, name, text, values):
    known = sweep.parameters.read("tiny").parameters
    assert sweep.values_of(known[name], text) == values


def test_the_grid_is_every_combination_with_every_seed(tiny: Book):
    found = sweep.grid("tiny", {"rate": "0.1,1", "n": "5", "name": "A,b"}, seeds=[0, 3])
    values = [(r.values["rate"], r.values["name"], r.values["seed"]) for r in found.runs.values()]
    assert values == [(rate, name, seed) for rate in (0.1, 1.0) for name in "Ab" for seed in (0, 3)]
    assert all(r.values["n"] == 5 and r.values["seeds"] == [] for r in found.runs.values())
    assert [name.rpartition("-")[0] for name in found.runs] == ["tiny-seed0", "tiny-seed3"] * 4
    # The axis is the parameter that was typed first; the name of a run does not depend on it.
    other = sweep.grid("tiny", {"name": "A,b", "n": "5", "rate": "0.1,1"}, seeds=[0, 3])
    assert other.swept == ["name", "rate"] and other.runs.keys() == found.runs.keys()
    tiny.profile("tiny-small", rate=2.0, seeds=[5])
    small = sweep.grid("tiny", {"n": "1,2"}, profile="tiny-small")
    small = next(iter(small.runs.values()))
    assert small.values["seeds"] == [5] and small.values["rate"] == 2.0


@pytest.fixture
def drawn(monkeypatch) -> list:
    """The axes and legends of the figures that are saved."""
    found, save = [], sweep.save
    monkeypatch.setattr(sweep, "save", lambda figure, *about: found.append(figure) or save(
        figure, *about))
    return found


def test_table_and_figure(tiny: Book, tmp_path, made, monkeypatch, drawn):
    monkeypatch.chdir(tmp_path)
    first, *said = sweep.sweep("tiny", {"rate": "1,0.01,0.1", "n": "2"}, seeds=[0, 1, 2])
    folder = Path("sweep-tiny-rate")
    assert first == "9 runs: 9 made, 0 were there already, 0 failed"
    assert said[:2] == [f"table: {folder / 'sweep.csv'}", f"figure: {folder / 'acc'}.png and .svg"]
    assert [line.split() for line in said[2:]] == [
        ["count", "mean", "std"], ["rate"], ["1.00", "3", "2.00", "1.00"],
        ["0.01", "3", "0.02", "0.01"], ["0.10", "3", "0.20", "0.10"]]
    table = rows(folder)
    assert list(table[0]) == ["run", "rate", "seed", "seconds", "acc", "n"]
    assert [(r["rate"], r["seed"], r["acc"]) for r in table[6:]] == [
        ("0.1", "0", "0.1"), ("0.1", "1", "0.2"), ("0.1", "2", str(0.1 * 3))]
    assert {(r["seconds"], r["n"]) for r in table} == {("2.5", "7.0")}
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {"acc.png", "acc.svg", "figures.json", "sweep.csv", *(
        f"runs/{row['run']}/tiny-default-seed{row['seed']}.{ending}" for row in table
        for ending in ("json", "npz"))}
    [axis] = drawn[0].axes
    assert (axis.get_xlabel(), axis.get_ylabel(), axis.get_xscale()) == (
        "rate: how fast", "acc", "log")
    drawn[0].savefig(tmp_path / "drawn.svg")
    ticks = [label.get_text() for label in axis.get_xticklabels()]
    assert {"0.01", "0.1", "1"} <= {*ticks}, "the axis has other signs than numbers"
    dots, means = (np.transpose(line.get_data()).astype(float) for line in axis.lines[:2])
    assert sorted(map(tuple, dots)) == [(rate, rate * seed) for rate in (0.01, 0.1, 1)
                                        for seed in (1, 2, 3)]
    np.testing.assert_allclose(means, [[0.01, 0.02], [0.1, 0.2], [1, 2]])
    [bars] = axis.containers
    np.testing.assert_allclose([ends[:, 1] for ends in bars.lines[2][0].get_segments()],
                               [[0.01, 0.03], [0.1, 0.3], [1, 3]])


def test_a_second_parameter_is_lines_and_texts_stand_in_their_order(tiny: Book, tmp_path, made,
                                                                    drawn):
    sweep.sweep("tiny", {"ks": "1,2;3", "rate": "1,0.1"}, seeds=[0, 1], metrics=["acc", "n"],
                output=tmp_path / "new")
    axis = drawn[0].axes[0]
    assert [t.get_text() for t in axis.get_xticklabels()] == ["[1, 2]", "[3]"]
    assert [t.get_text() for t in drawn[0].legends[0].get_texts()] == ["1.0", "0.1"]
    assert drawn[0].legends[0].get_title().get_text() == "rate: how fast"
    assert len(drawn) == 2


def test_a_finished_run_is_made_again_only_if_its_parameters_or_files_changed(
        tiny: Book, tmp_path, made, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before, after = 1.0e9, 4.0e9            # the record was begun in January 2026
    names = {"my.csv": "my.csv", "folder:pictures": "pictures/a.png"}
    Path("pictures").mkdir()
    for file in names.values():
        Path(file).write_text("a\n1\n", encoding="utf-8")
        os.utime(file, (before, before))
    os.utime("pictures", (before, before))

    def again(rate="0.1,1", seeds=(0, 1), name="digits", **more) -> list[tuple]:
        made.clear()
        sweep.sweep("tiny", {"rate": rate, "name": name}, output=tmp_path / "out", seeds=seeds,
                    **more)
        return sorted((run.values["rate"], run.values["seed"]) for run in made)

    every = [(0.1, 0), (0.1, 1), (1.0, 0), (1.0, 1)]
    with pytest.raises(InputError, match=r"'ac'; did you mean 'acc'\? Known: acc, n"):
        again(metrics=["ac"])
    assert len(made) == 4 and again() == [], "an unknown metric loses no run"
    assert again("0.1,1,3", seeds=[0]) == [(3.0, 0)], "only the new value"
    assert len(rows(tmp_path / "out")) == 3, "the table is of this sweep"
    tiny.notebook("tiny", "1 + 1", parameters=PARAMETERS.replace("n: int = 1", "n: int = 2"))
    assert again() == every, "a parameter that nobody typed changed"
    for name, file in names.items():
        assert [again(name=name), again(name=name)] == [every, []]
        os.utime(file, (after, after))
        assert again(name=name) == every, "the file was written since"


def test_runs_that_fail_stop_no_other_and_keep_their_checkpoints(tiny: Book, tmp_path, made,
                                                                 capsys, monkeypatch):
    asked = {"name": "tiny", "overrides": {"rate": "7,8,10,4"}, "output": tmp_path / "out"}
    for _ in range(2):      # what failed is made again, and fails again
        with pytest.raises(ChapterError) as error:
            sweep.sweep(**asked, seeds=[1])
    first, *lines = str(error.value).splitlines()
    assert first.startswith("3 of 4 runs failed; the others are in ")
    other = ("that machine runs another version of the method "
             f"({'0' * 64}, not {version_of('tiny')})")
    assert [line.strip() for line in lines[:4]] == [
        "rate 7.0, seed 1: there are 3 rows", "rate 8.0, seed 1: there are 3 rows",
        f"rate 10.0, seed 1: {other}", f"table: {tmp_path / 'out' / 'sweep.csv'}"]
    assert lines[-1].split() == ["4.0", "1", "8.0", "NaN"], "what was measured is shown, too"
    lines = lines[:3]
    said = [line.strip().replace(": ", " failed: ", 1) for line in lines]
    assert sorted(capsys.readouterr().err.splitlines()) == sorted(said * 2), "and no bar"
    assert [row["acc"] for row in rows(tmp_path / "out")] == ["", "", "", "8.0"]
    assert (tmp_path / "out" / "acc.svg").is_file()
    kept = [run.checkpoint for run in made]
    assert set(kept[:4]) > set(kept[4:]) and len(set(kept)) == 4
    monkeypatch.setattr(sweep, "version_of", lambda chapter: "tiny 2")
    with pytest.raises(ChapterError):
        sweep.sweep(**asked, seeds=[1])
    assert not {run.checkpoint for run in made[7:]} & set(kept)
    asked |= {"overrides": {"rate": "7,8"}, "output": tmp_path / "none"}
    for _ in range(2):      # the folder is a sweep's, though it has no record
        with pytest.raises(ChapterError, match="2 of 2 runs failed"):
            sweep.sweep(**asked, seeds=[1])


# --- processes ---------------------------------------------------------------------------------

RUN = """\
import os, pathlib, time
import bookledger
evidence = bookledger.page('tiny')
log = pathlib.Path(os.environ["LOG"])
(log / f"begun-{rate:g}-{os.getpid()}").touch()
for _ in range(6000):           # for minutes at most
    if not (log / f"wait-{rate:g}").exists():
        break
    time.sleep(0.02)
else:
    (log / "survived").touch()
evidence.record({"acc": rate, "threads": int(os.environ["OMP_NUM_THREADS"])})"""


@pytest.fixture
def log(book: Book, tmp_path) -> Path:
    """A folder for the marks of runs; a file ``wait-0.1`` there makes that run wait."""
    book.notebook("tiny", RUN, parameters=PARAMETERS)
    folder = tmp_path / "log"
    folder.mkdir()
    return folder


def kernels(log: Path) -> list[int]:
    return [int(path.name.rpartition("-")[2]) for path in log.glob("begun-*")]


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["Ctrl-C", "kill -9", "kill -9 of a worker"])
def test_a_stopped_sweep_leaves_no_kernel_and_resumes(book: Book, log, tmp_path, stop):
    (tmp_path / "temporary").mkdir()
    asked = ("sweep", "tiny", "-p", "rate", "1,2", "--workers", "2", "--output", "out")
    settings = {"LOG": log, "TMPDIR": tmp_path / "temporary", "OMP_NUM_THREADS": 3}
    (log / "wait-2").touch()
    process = book.start(*asked, **settings)
    wait_for(lambda: len(kernels(log)) == 2 and list(book.root.glob("out/runs/*/*.json")), process)
    if stop == "Ctrl-C":
        # It reaches this group: no worker, which could report it in its own words.
        assert process.pid not in {os.getpgid(psutil.Process(pid).ppid())
                                   for pid in kernels(log) if alive(pid)}
        os.killpg(process.pid, signal.SIGINT)
    elif stop == "kill -9":
        process.kill()
    else:
        waiting = psutil.Process(next(pid for pid in kernels(log) if alive(pid)))
        waiting.parent().kill()
    wait_for(lambda: not any(map(alive, kernels(log))))
    assert not (log / "survived").exists()
    out, err = process.communicate(timeout=HANG)
    if stop == "Ctrl-C":
        assert (process.returncode, out) == (130, "")
        assert err == f"clusterbook: interrupted; {RESUMES}\n"
    if "worker" in stop:
        assert process.returncode == 1
        assert err == ("clusterbook: a process was killed, probably because memory was full; "
                       f"{RESUMES}\n")
    if stop != "kill -9":
        assert not list((tmp_path / "temporary").iterdir())
    (log / "wait-2").unlink()
    done = book.command(*asked, **settings)
    assert done.returncode == 0 and "2 runs: 1 made, 1 were there already, 0 failed" in done.stdout
    assert [(row["acc"], row["threads"]) for row in rows(book.root / "out")] == [
        ("1.0", "1"), ("2.0", "1")]


def test_no_scheduler_or_no_worker_is_one_sentence(tiny: Book, tmp_path, monkeypatch, made):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(sweep, "_ANSWERS", 0.5)
    asked = {"name": "tiny", "overrides": {"n": "1,2"}, "output": tmp_path / "out"}
    for address in ("tcp://127.0.0.1:9", "nonsense://x:1", "tcp://here:port"):
        with pytest.raises(InputError, match=f"with a worker answers at '{address}'"):
            sweep.sweep(**asked, scheduler=address)
    gc.collect()
    with (distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster,
          pytest.raises(InputError, match="0/1 workers arrived.* starts a worker")):
        sweep.sweep(**asked, scheduler=cluster.scheduler_address)


@pytest.mark.slow
def test_a_cluster_makes_the_runs(book: Book, log, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.syspath_prepend(book.root / "src")          # what a worker imports
    monkeypatch.setattr(sweep, "_ANSWERS", 300)
    monkeypatch.setenv("LOG", str(log))
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True,
                                  dashboard_address=None) as cluster:
        asked = {"scheduler": cluster.scheduler_address, "output": tmp_path / "out"}
        monkeypatch.setattr(runs, "make", lambda run: pytest.fail("it was made on this machine"))
        said = sweep.sweep("tiny", {"rate": "0.1,1"}, seeds=[1], **asked)
    assert said[0] == "2 runs: 2 made, 0 were there already, 0 failed"
    assert [(row["acc"], row["threads"]) for row in rows(tmp_path / "out")] == [
        ("0.1", "1"), ("1.0", "1")]
