"""A sweep: input is checked first, every run is there once, the drawing shows what ran."""

from __future__ import annotations

import csv
import json
import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from _support import Book, alive, wait_for
from bs4 import BeautifulSoup

from clusterbook.book import processes, runs, sheet, sweep
from clusterbook.book.runs import ChapterError
from clusterbook.errors import InputError
from clusterbook.evidence.records import dumps
from clusterbook.fingerprint import fingerprint

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


def record_of(run: runs.Run, metrics: dict, checks: dict | None = None) -> bytes:
    """The record that a run with these metrics would have left."""
    name = run.chapter.name
    return dumps({
        "chapter": name, "profile": run.profile.name if run.profile else f"{name}-default",
        "parameters": run.values, "assumed": [], "seed": run.values["seed"],
        "metrics": metrics, "checks": checks or {}, "history": [],
        "git": {"commit": None, "clean": None},
        "code": fingerprint(name), "tolerances": {},
        "versions": {}, "machine": {"cpu": "c", "gpu": None, "cores": 2, "threads": 1},
        "data": None, "started": "2026-01-02T03:04:05+00:00", "seconds": 2.5,
        "peak_memory_mb": None, "arrays": None}).encode()


@pytest.fixture
def made(monkeypatch) -> list[dict]:
    """Runs are not made; each leaves a record, and its parameters here."""
    asked: list[dict] = []
    one_at_a_time = threading.Lock()        # threads that parse Python disturb each other in 3.11

    def apart(owner, threads, function, run) -> dict[str, bytes]:
        asked.append(run.values)
        metrics = {"acc": run.values["rate"] * (1 + run.values["seed"]),
                   "loss": float(run.values["n"])}
        checks = {f"tiny-{i}": i >= run.values["n"] for i in range(3)}
        with one_at_a_time:
            return {".json": record_of(run, metrics, checks), ".npz": b"arrays"}

    monkeypatch.setattr(processes, "apart", apart)
    return asked


# --- which runs ----------------------------------------------------------------------------------


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
    assert found.swept == ["rate", "name"]
    names = list(found.runs)
    assert names[2] == "tiny-rate=0.1-n=5-name=b-seed0"
    # The axis is the parameter that was typed first; the name of a run does not depend on it.
    other = sweep.grid("tiny", {"name": "A,b", "n": "5", "rate": "0.1,1"}, seeds=[0, 3])
    assert other.swept == ["name", "rate"] and set(other.runs) == set(names)
    assert sweep.grid("tiny", {"n": "1,2", "seeds": "7"}).runs["tiny-n=1-seeds=7-seed0"]
    tiny.profile("tiny-small", rate=2.0, seeds=[5])
    small = sweep.grid("tiny", {"n": "1,2"}, profile="tiny-small").runs["tiny-small-n=1-seed0"]
    assert small.values["seeds"] == [5] and small.values["rate"] == 2.0


def test_names_of_runs_are_fit_for_files_and_distinct(tiny: Book):
    values = ["a/b", "a_b", "A_b", "x" * 300, "x" * 299 + "y", "../up", "ü"]
    found = list(sweep.grid("tiny", {"name": ";".join(values)}).runs)
    assert len({name.lower() for name in found}) == len(values)
    assert all(len(name) < 200 and not {"/", ".."} & set(name) for name in found)
    assert len(sweep.grid("tiny", {"ks": "[];1,2;12"}).runs) == 3


def test_an_interrupted_run_keeps_its_checkpoint_until_parameters_or_code_change(
        tiny: Book, tmp_path, monkeypatch):
    seen: list[str] = []

    def apart(owner, threads, function, run):
        seen.append(run.checkpoint)
        raise ChapterError("interrupted")

    monkeypatch.setattr(processes, "apart", apart)

    def again(**asked: str) -> set[str]:
        seen.clear()
        with pytest.raises(ChapterError, match="interrupted"):
            sweep.sweep("tiny", {"n": "1,2", **asked}, output=tmp_path / "out", workers=1)
        return set(seen)

    first = again()
    assert len(first) == 2 and again() == first
    assert not again(deep="true") & first
    monkeypatch.setattr(sweep, "fingerprint", lambda chapter: "other code")
    assert not again() & first


# --- table, figures and page ---------------------------------------------------------------------


def test_table_figure_and_page(tiny: Book, tmp_path, made, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drawn = []
    response = sweep.figures.response
    monkeypatch.setattr(sweep.figures, "response", lambda *lines, **options: drawn.append(
        (*lines, options)) or response(*lines, **options))
    said = sweep.sweep("tiny", {"rate": "1,0.01,0.1", "n": "2"}, seeds=[0, 1, 2], command="typed")
    folder = Path("sweep-tiny-rate")
    assert said == ["9 runs: 9 made, 0 were there already, 0 failed",
                    f"table: {folder / 'sweep.csv'}", f"figure: {folder / 'acc'}.png and .svg",
                    f"contact sheet: {folder / 'index.html'}"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "acc.png", "acc.svg", "figures.json", "index.html", "runs", "sweep.csv"]

    table = rows(folder)
    assert list(table[0]) == [
        "run", "rate", "n", "seed", "seconds", "failed checks", "acc", "loss"]
    assert [(r["rate"], r["seed"], r["acc"]) for r in table[6:]] == [
        ("0.1", "0", "0.1"), ("0.1", "1", "0.2"), ("0.1", "2", str(0.1 * 3))]
    assert {(r["n"], r["seconds"], r["loss"], r["failed checks"]) for r in table} == {
        ("2", "2.5", "2.0", "2")}
    for row in table:
        kept = sorted(path.name for path in (folder / "runs" / row["run"]).iterdir())
        assert kept == [f"tiny-default-seed{row['seed']}.{ending}" for ending in ("json", "npz")]

    (lines, options), = drawn
    assert options == {"x": "rate: how fast", "y": "acc", "scale": "log", "seeds": "3 seeds",
                       "lines_are": ""}
    for (rate, values, mean, deviation), expected in zip(lines[""], (0.01, 0.1, 1), strict=True):
        np.testing.assert_allclose([rate, *values, mean, deviation],
                                   expected * np.array([1, 1, 2, 3, 2, 1]))

    soup = BeautifulSoup((folder / "index.html").read_text(), "html.parser")
    assert soup.h1.get_text() == "The chapter tiny: a sweep of rate"
    assert soup.pre.get_text() == "typed" and soup.find("script") is None
    assert "rate" in soup.img["alt"] and "acc" in soup.img["alt"]
    every, over = soup.find_all("table")
    assert "1.0, 0.01, 0.1" in every.get_text()
    assert [[c.get_text() for c in row.find_all(["th", "td"])] for row in over.tbody("tr")][2] == [
        "0.1", "3", "0.20 ± 0.10"]


def test_a_second_parameter_is_lines_and_texts_stand_in_their_order(tiny: Book, tmp_path, made,
                                                                    monkeypatch):
    drawn = []
    monkeypatch.setattr(sweep, "save", lambda figure, *about: drawn.append(figure))
    monkeypatch.setattr(sheet, "write", lambda folder, **about: folder)
    sweep.sweep("tiny", {"name": "wine,digits", "rate": "10,1"}, seeds=[0, 1], metrics=["acc"],
                output=tmp_path)
    axis = drawn[0].axes[0]
    assert [t.get_text() for t in axis.get_xticklabels()] == ["wine", "digits"]
    assert [t.get_text() for t in drawn[0].legends[0].get_texts()] == ["10", "1"]
    assert drawn[0].legends[0].get_title().get_text() == "rate: how fast"
    sweep.sweep("tiny", {"ks": "1,2;3"}, metrics=["acc", "loss"], output=tmp_path / "lists")
    assert len(drawn) == 3
    assert [t.get_text() for t in drawn[1].axes[0].get_xticklabels()] == ["1, 2", "3"]


def test_a_metric_may_have_the_name_of_a_parameter_and_a_run_may_fail(tiny: Book, tmp_path):
    planned = sweep.grid("tiny", {"n": "1,2"})
    first, second = planned.runs
    for metrics, main in (({"n": 7.0, "acc": 0.5}, "acc"), ({"n": 7.0}, "n"),
                          ({"test_accuracy": 1.0, "a": 2.0}, "test_accuracy")):
        record = SimpleNamespace(seconds=1.0, checks={}, metrics=metrics)
        table = sweep.frame(planned, {first: record}).set_index("run")
        assert table["n"].to_list() == [1, 2] and np.isnan(table.loc[second, "seconds"])
        assert f"figure: {tmp_path / main}.png and .svg" in sweep.draw(
            tmp_path, planned, {first: record})


def test_an_unknown_metric_ends_the_sweep_after_one_run(tiny: Book, tmp_path, made, monkeypatch):
    stopped, apart, stop = threading.Event(), processes.apart, processes.stop

    def one_then_wait(*arguments) -> dict[str, bytes]:      # the second run ends with the sweep
        if made and not stopped.wait(30):
            stopped.set()                                   # a sweep that goes on fails below
        return apart(*arguments)

    monkeypatch.setattr(processes, "apart", one_then_wait)
    monkeypatch.setattr(processes, "stop", lambda owner: (stop(owner), stopped.set()))
    asked = {"seeds": list(range(20)), "metrics": ["acc", "los"], "workers": 1, "output": tmp_path}
    for begun in ((1, 2), (0,)):        # the second sweep finds a record, and needs no run
        made.clear()
        with pytest.raises(InputError, match=r"'los'; did you mean 'loss'\? Known: acc, loss"):
            sweep.sweep("tiny", {"rate": "1,2"}, **asked)
        assert len(made) in begun
        assert list((tmp_path / "runs").glob("*/*.json")), "the run that was made is lost"


# --- what is made again --------------------------------------------------------------------------


def test_a_finished_run_is_not_made_again(tiny: Book, tmp_path, made):
    def again(rate="0.1,1", seeds=(0, 1)) -> list[tuple]:
        made.clear()
        sweep.sweep("tiny", {"rate": rate}, output=tmp_path, seeds=list(seeds))
        return sorted((values["rate"], values["seed"]) for values in made)

    every = [(0.1, 0), (0.1, 1), (1.0, 0), (1.0, 1)]
    assert [again(), again()] == [every, []]
    assert again("0.1,1,10", seeds=[0]) == [(10.0, 0)], "only the new value"
    assert len(rows(tmp_path)) == 3, "the table is of this sweep"
    (tmp_path / "runs" / "tiny-rate=1.0-seed1" / "tiny-default-seed1.json").unlink()
    assert again() == [(1.0, 1)]
    tiny.notebook("tiny", "1 + 1", parameters=PARAMETERS.replace("n: int = 1", "n: int = 2"))
    assert again() == every, "a parameter that nobody typed changed"


def test_a_run_on_a_file_that_was_written_since_is_made_again(tiny: Book, tmp_path, made,
                                                              monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.csv").write_text("a\n1\n")
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").write_bytes(b"")
    before, after = 1.0e9, 4.0e9            # the record was begun in January 2026

    def again(name: str) -> int:
        made.clear()
        sweep.sweep("tiny", {"n": "1,2", "name": name}, output=tmp_path / "out")
        return len(made)

    for file, name in (("my.csv", "my.csv"), ("pictures/a.png", "folder:pictures")):
        for one in (tmp_path / file, (tmp_path / file).parent):
            os.utime(one, (before, before))
        assert [again(name), again(name)] == [2, 0]
        os.utime(tmp_path / file, (after, after))
        assert again(name) == 2


# --- what fails ----------------------------------------------------------------------------------


def test_a_run_that_fails_stops_no_other_and_is_named(tiny: Book, tmp_path, made, monkeypatch):
    apart = processes.apart

    def sometimes(owner, threads, function, run):
        rate = run.values["rate"]
        if rate == 1.0:
            raise InputError("there are 3 rows, but 5 clusters\nin two lines")
        if rate == 2.0:
            raise OSError("the cluster broke")
        if rate == 3.0:                         # made by other code than this machine's
            return {".json": record_of(run, {"acc": 1.0}).replace(b'"code": "', b'"code": "0')}
        return apart(owner, threads, function, run) if rate == 4.0 else {}

    monkeypatch.setattr(processes, "apart", sometimes)
    with pytest.raises(ChapterError) as error:
        sweep.sweep("tiny", {"rate": "1,2,3,4,5"}, seeds=[1], workers=1,
                    output=tmp_path)
    first, *lines = str(error.value).splitlines()
    assert first.startswith("4 of 5 runs failed; the others are in ")
    assert lines == ["  tiny-rate=1.0-seed1: there are 3 rows, but 5 clusters",
                     "  tiny-rate=2.0-seed1: the cluster broke",
                     "  tiny-rate=3.0-seed1: it was made by other code than this machine's",
                     "  tiny-rate=5.0-seed1: it left no record: its notebook does not call "
                     "evidence.record"]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["tiny-rate=4.0-seed1"]
    assert rows(tmp_path)[3]["acc"] == "8.0" and (tmp_path / "acc.svg").is_file()
    assert "the cluster broke" in (tmp_path / "index.html").read_text()


def test_a_sweep_of_which_every_run_fails_says_so(tiny: Book, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "apart", lambda *asked: {})
    with pytest.raises(ChapterError, match="^2 of 2 runs failed"):
        sweep.sweep("tiny", {"n": "1,2"}, metrics=["acc"], output=tmp_path)
    assert "There is no figure." in (tmp_path / "index.html").read_text()


# --- real processes ------------------------------------------------------------------------------

RUN = """\
import os, pathlib, signal, time
from clusterbook import evidence
from clusterbook.errors import InputError
log = pathlib.Path(os.environ["LOG"])
me = f"{rate:g}-{seed}"
(log / f"begun-{me}-{os.getpid()}").touch()
def asked(what):
    return (log / f"{what}-{me}").exists()
if asked("fail"):
    raise InputError("there are 3 rows,\\nbut 5 clusters")
if asked("kill"):
    os.kill(os.getpid(), signal.SIGKILL)
for _ in range(5000):
    if asked("wait"):
        time.sleep(0.02)
evidence.record({"acc": rate * seed, "threads": int(os.environ["OMP_NUM_THREADS"])})
(log / f"ended-{me}-{os.getpid()}").touch()
"""


@pytest.fixture
def log(book: Book, tmp_path, monkeypatch) -> Path:
    """A folder for the marks of runs; a file ``wait-0.1-1`` there makes that run wait."""
    book.notebook("tiny", RUN, parameters=PARAMETERS)
    folder = tmp_path / "log"
    folder.mkdir()
    monkeypatch.setenv("LOG", str(folder))
    return folder


def noted(log: Path, what: str) -> list[str]:
    """The runs that began or ended, each as often as it did."""
    return sorted(path.name.removeprefix(f"{what}-").rpartition("-")[0]
                  for path in log.glob(f"{what}-*"))


def pid_of(log: Path, run: str) -> int:
    return int(next(log.glob(f"begun-{run}-*")).name.rpartition("-")[2])


def test_runs_fail_and_die_alone_and_a_stopped_sweep_goes_on(book: Book, log, tmp_path):
    asked = ("sweep", "tiny", "-p", "rate", "0.1,1", "--seeds", "0-1", "--workers", "1",
             "--output", "my sweep")
    marks = [log / name for name in ("fail-0.1-1", "kill-1-0", "wait-1-1")]
    for mark in marks:
        mark.touch()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = book.start(*asked, LOG=log, OMP_NUM_THREADS=7, TMPDIR=temporary)
    wait_for(lambda: noted(log, "begun") == ["0.1-0", "0.1-1", "1-0", "1-1"], process, seconds=300)
    kernel = pid_of(log, "1-1")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines() == [
        "tiny-rate=0.1-seed1 failed: there are 3 rows,",
        "tiny-rate=1.0-seed0 failed: tiny failed: its kernel died in the middle of a cell; "
        "probably out of memory",
        "clusterbook: interrupted; no partial files left"]
    wait_for(lambda: not alive(kernel), seconds=60)
    folder = book.root / "my sweep"
    assert [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()] \
        == ["runs/tiny-rate=0.1-seed0/tiny-default-seed0.json"]
    for mark in marks:
        mark.unlink()
    done = book.command(*asked, LOG=log, OMP_NUM_THREADS=7)
    assert (done.returncode, done.stderr) == (0, ""), "a bar without a terminal, or a complaint"
    assert done.stdout.splitlines()[0] == "4 runs: 3 made, 1 were there already, 0 failed"
    assert noted(log, "ended") == ["0.1-0", "0.1-1", "1-0", "1-1"]
    assert {row["threads"] for row in rows(folder)} == {"1"}
    record = json.loads((folder / "runs/tiny-rate=1.0-seed1/tiny-default-seed1.json").read_text())
    assert record["parameters"]["rate"] == 1.0 and record["metrics"]["acc"] == 1.0


# --- a cluster -----------------------------------------------------------------------------------


def test_no_scheduler_or_no_worker_is_one_sentence(tiny: Book, tmp_path, monkeypatch, made):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(sweep, "_ANSWERS", 0.5)
    for address in ("tcp://127.0.0.1:9", "nonsense://x:1", "tcp://here:port"):
        with pytest.raises(InputError, match=f"no Dask scheduler answers at '{address}'"):
            sweep.sweep("tiny", {"n": "1,2"}, scheduler=address, output=tmp_path / "out")
    with distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster, pytest.raises(
            InputError, match="has no workers; start one with: dask worker"):
        sweep.sweep("tiny", {"n": "1,2"}, scheduler=cluster.scheduler_address,
                    output=tmp_path / "out")


def test_a_cluster_that_loses_a_worker_makes_every_run(book: Book, log, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    psutil = pytest.importorskip("psutil")
    monkeypatch.syspath_prepend(book.root / "src")          # what a worker imports
    monkeypatch.chdir(tmp_path)
    for mark in ("wait-1-1", "wait-6-0"):
        (log / mark).touch()
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True,
                                  dashboard_address=None) as cluster:
        asked = {"scheduler": cluster.scheduler_address, "output": Path("out")}
        with pytest.raises(InputError, match="'nope'"):
            sweep.sweep("tiny", {"rate": "5,6"}, metrics=["nope"], **asked)
        assert noted(log, "ended") == ["5-0"]
        wait_for(lambda: not list(log.glob("begun-6-0-*")) or not alive(pid_of(log, "6-0")),
                 seconds=120)                               # where it is over, nobody goes on
        said = []
        sweeping = threading.Thread(target=lambda: said.extend(sweep.sweep(
            "tiny", {"rate": "0.1,1"}, seeds=[1], **asked)))
        sweeping.start()
        wait_for(lambda: list(log.glob("begun-1-1-*")), seconds=300)
        kernel = psutil.Process(pid_of(log, "1-1"))
        worker = kernel.parent()
        assert worker.pid in [nanny.pid for nanny in cluster.workers.values()]
        os.kill(worker.pid, signal.SIGKILL)
        wait_for(lambda: not alive(kernel.pid), seconds=120)
        (log / "wait-1-1").unlink()
        sweeping.join(timeout=300)
        assert not sweeping.is_alive()
    assert said[0] == "2 runs: 2 made, 0 were there already, 0 failed"
    assert [row["acc"] for row in rows(tmp_path / "out")] == ["0.1", "1.0"]
    assert noted(log, "begun").count("1-1") == 2 and noted(log, "ended").count("1-1") == 1
