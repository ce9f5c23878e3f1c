"""A sweep: input is checked first, every run is there once, the drawing shows what ran."""

from __future__ import annotations

import csv
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from _support import HANG, Book, alive, record, wait_for
from bs4 import BeautifulSoup

from clusterbook.book import runs, sheet, sweep
from clusterbook.book.runs import ChapterError
from clusterbook.errors import InputError
from clusterbook.evidence.records import dumps
from clusterbook.evidence.versions import version_of

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


def record_of(run: runs.Run, metrics: dict) -> dict[str, bytes]:
    """The record that a run with these metrics would have left; n of its checks failed."""
    seed = run.values["seed"]
    content = dumps(record(
        chapter="tiny", profile="tiny-default", parameters=run.values, seed=seed, metrics=metrics,
        checks={f"tiny-{i}": i >= run.values["n"] for i in range(3)}, code=version_of("tiny"),
        started="2026-01-02T03:04:05+00:00", seconds=2.5))
    return {f"tiny-default-seed{seed}.npz": b"arrays",
            f"tiny-default-seed{seed}.json": content.encode()}


@pytest.fixture
def made(monkeypatch) -> list[dict]:
    """Runs are not made; each leaves a record, and its parameters here."""
    asked: list[dict] = []
    one_at_a_time = threading.Lock()        # threads that parse Python disturb each other in 3.11

    def apart(owner, threads, function, run) -> dict[str, bytes]:
        asked.append(run.values)
        with one_at_a_time:
            return record_of(run, {"acc": run.values["rate"] * (1 + run.values["seed"]),
                                   "loss": float(run.values["n"])})

    monkeypatch.setattr(runs, "apart", apart)
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
    assert found.swept == ["rate", "name"]
    assert list(found.runs)[2] == "tiny-rate=0.1-n=5-name=b-seed0"
    # The axis is the parameter that was typed first; the name of a run does not depend on it.
    other = sweep.grid("tiny", {"name": "A,b", "n": "5", "rate": "0.1,1"}, seeds=[0, 3])
    assert other.swept == ["name", "rate"] and other.runs.keys() == found.runs.keys()
    assert sweep.grid("tiny", {"n": "1,2", "seeds": "7"}).runs["tiny-n=1-seeds=7-seed0"]
    tiny.profile("tiny-small", rate=2.0, seeds=[5])
    small = sweep.grid("tiny", {"n": "1,2"}, profile="tiny-small").runs["tiny-small-n=1-seed0"]
    assert small.values["seeds"] == [5] and small.values["rate"] == 2.0
    # Names are fit for files, and distinct.
    values = ["a/b", "a_b", "A_b", "x" * 300, "x" * 299 + "y", "../up", "ü"]
    names = list(sweep.grid("tiny", {"name": ";".join(values)}).runs)
    assert len({name.lower() for name in names}) == len(values)
    assert all(len(name) < 200 and not {"/", ".."} & set(name) for name in names)
    assert len(sweep.grid("tiny", {"ks": "[];1,2;12"}).runs) == 3


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
    table = rows(folder)
    assert list(table[0]) == [
        "run", "rate", "n", "seed", "seconds", "failed checks", "acc", "loss"]
    assert [(r["rate"], r["seed"], r["acc"]) for r in table[6:]] == [
        ("0.1", "0", "0.1"), ("0.1", "1", "0.2"), ("0.1", "2", str(0.1 * 3))]
    assert {(r["n"], r["seconds"], r["loss"], r["failed checks"]) for r in table} == {
        ("2", "2.5", "2.0", "2")}
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {
        "acc.png", "acc.svg", "figures.json", "index.html", "sweep.csv",
        *(f"runs/{row['run']}/tiny-default-seed{row['seed']}.{ending}" for row in table
          for ending in ("json", "npz"))}
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
    assert [cell.get_text() for cell in over.tbody("tr")[2](["th", "td"])] == [
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


def test_a_metric_may_have_the_name_of_a_parameter(tiny: Book, tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "apart", lambda *asked: record_of(
        asked[-1], {"n": 7.0, "z": 2.0}))
    said = sweep.sweep("tiny", {"n": "1,2"}, output=tmp_path, workers=1)
    assert [(row["n"], row["n (metric)"], row["z"]) for row in rows(tmp_path)] == [
        ("1", "7.0", "2.0"), ("2", "7.0", "2.0")]
    assert f"figure: {tmp_path / 'n'}.png and .svg" in said, "of no known score the first"


def test_an_unknown_metric_ends_the_sweep_after_one_run(tiny: Book, tmp_path, made, monkeypatch):
    stopped, apart, stop = threading.Event(), runs.apart, runs.stop

    def one_then_wait(*arguments) -> dict[str, bytes]:      # the second run ends with the sweep
        if made:
            assert stopped.wait(HANG)
        return apart(*arguments)

    monkeypatch.setattr(runs, "apart", one_then_wait)
    monkeypatch.setattr(runs, "stop", lambda owner: (stop(owner), stopped.set()))
    asked = {"seeds": list(range(20)), "metrics": ["acc", "los"], "workers": 1, "output": tmp_path}
    for begun in ((1, 2), (0,)):        # the second sweep finds a record, and needs no run
        made.clear()
        with pytest.raises(InputError, match=r"'los'; did you mean 'loss'\? Known: acc, loss"):
            sweep.sweep("tiny", {"rate": "1,2"}, **asked)
        assert len(made) in begun
        assert list((tmp_path / "runs").glob("*/*.json")), "the run that was made is lost"


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

    def again(rate="0.1,1", seeds=(0, 1), name="digits") -> list[tuple]:
        made.clear()
        sweep.sweep("tiny", {"rate": rate, "name": name}, output=tmp_path / "out", seeds=seeds)
        return sorted((values["rate"], values["seed"]) for values in made)

    every = [(0.1, 0), (0.1, 1), (1.0, 0), (1.0, 1)]
    assert [again(), again()] == [every, []]
    assert again("0.1,1,10", seeds=[0]) == [(10.0, 0)], "only the new value"
    assert len(rows(tmp_path / "out")) == 3, "the table is of this sweep"
    run = "tiny-rate=1.0-name=digits-seed1/tiny-default-seed1.json"
    (tmp_path / "out" / "runs" / run).unlink()
    assert again() == [(1.0, 1)]
    tiny.notebook("tiny", "1 + 1", parameters=PARAMETERS.replace("n: int = 1", "n: int = 2"))
    assert again() == every, "a parameter that nobody typed changed"
    for name, file in names.items():
        assert [again(name=name), again(name=name)] == [every, []]
        os.utime(file, (after, after))
        assert again(name=name) == every, "the file was written since"


def test_a_run_keeps_its_checkpoint_until_parameters_or_code_change(tiny: Book, tmp_path,
                                                                    monkeypatch):
    seen: set[str] = set()
    monkeypatch.setattr(runs, "apart", lambda *asked: seen.add(asked[-1].checkpoint) or {})

    def again(**asked: str) -> set[str]:
        seen.clear()
        with pytest.raises(ChapterError, match="^2 of 2 runs failed"):
            sweep.sweep("tiny", {"n": "1,2", **asked}, output=tmp_path, metrics=["acc"])
        return set(seen)

    first = again()
    assert "There is no figure." in (tmp_path / "index.html").read_text()
    assert len(first) == 2 and again() == first and not again(deep="true") & first
    monkeypatch.setattr(sweep, "version_of", lambda chapter: "tiny 2")
    assert not again() & first


def test_a_run_that_fails_stops_no_other_and_is_named(tiny: Book, tmp_path, made, monkeypatch,
                                                      capsys):
    apart = runs.apart
    errors = {1.0: InputError("there are 3 rows, but 5 clusters\nin two lines"),
              2.0: OSError("the cluster broke")}

    def sometimes(*asked):
        rate = asked[-1].values["rate"]
        if rate in errors:
            raise errors[rate]
        left = apart(*asked) if rate < 5.0 else {}
        if rate == 3.0:                         # made by other code than this machine's
            left = {name: content.replace(b'"code": "', b'"code": "0')
                    for name, content in left.items()}
        return left

    monkeypatch.setattr(runs, "apart", sometimes)
    for _ in range(2):      # what failed is made again, and fails again
        with pytest.raises(ChapterError) as error:
            sweep.sweep("tiny", {"rate": "1,2,3,4,5"}, seeds=[1], output=tmp_path)
    first, *lines = str(error.value).splitlines()
    assert first.startswith("4 of 5 runs failed; the others are in ")
    no_record = ("it left no record made by this machine's code: a notebook calls "
                 "evidence.record, all machines have one commit")
    assert lines == ["  tiny-rate=1.0-seed1: there are 3 rows, but 5 clusters",
                     "  tiny-rate=2.0-seed1: the cluster broke",
                     f"  tiny-rate=3.0-seed1: {no_record}", f"  tiny-rate=5.0-seed1: {no_record}"]
    said = [line.strip().replace(": ", " failed: ", 1) for line in lines]
    assert sorted(capsys.readouterr().err.splitlines()) == sorted(said * 2), "and no bar"
    assert [row["acc"] for row in rows(tmp_path)] == ["", "", "", "8.0", ""]
    assert (tmp_path / "acc.svg").is_file()
    assert "the cluster broke" in (tmp_path / "index.html").read_text()


RUN = """\
import os, pathlib, time
from clusterbook import evidence
log = pathlib.Path(os.environ["LOG"])
me = f"{rate:g}-{seed}"
(log / f"begun-{me}-{os.getpid()}").touch()
while (log / f"wait-{me}").exists():
    time.sleep(0.02)
evidence.record({"acc": rate * seed, "threads": int(os.environ["OMP_NUM_THREADS"])})
(log / f"ended-{me}-{os.getpid()}").touch()
"""


@pytest.fixture
def log(book: Book, tmp_path, monkeypatch):
    """A folder for the marks of runs; a file ``wait-0.1-1`` there makes that run wait."""
    book.notebook("tiny", RUN, parameters=PARAMETERS)
    folder = tmp_path / "log"
    folder.mkdir()
    monkeypatch.setenv("LOG", str(folder))
    yield folder
    for mark in folder.glob("wait-*"):
        mark.unlink()


def noted(log: Path, what: str) -> list[str]:
    """The runs that began or ended, each as often as it did."""
    return sorted(path.name.removeprefix(f"{what}-").rpartition("-")[0]
                  for path in log.glob(f"{what}-*"))


def pid_of(log: Path, run: str) -> int:
    return int(next(log.glob(f"begun-{run}-*")).name.rpartition("-")[2])


def test_no_scheduler_or_no_worker_is_one_sentence(tiny: Book, tmp_path, monkeypatch, made):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(sweep, "_ANSWERS", 0.5)
    asked = {"name": "tiny", "overrides": {"n": "1,2"}, "output": tmp_path / "out"}
    for address in ("tcp://127.0.0.1:9", "nonsense://x:1", "tcp://here:port"):
        with pytest.raises(InputError, match=f"no Dask scheduler answers at '{address}'"):
            sweep.sweep(**asked, scheduler=address)
    monkeypatch.setattr(sweep, "_ANSWERS", 300)
    with (distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster,
          pytest.raises(InputError, match="has no workers; start one with: dask worker")):
        sweep.sweep(**asked, scheduler=cluster.scheduler_address)


def test_a_cluster_makes_the_runs_and_a_sweep_that_ends_stops_its_own(book: Book, log, tmp_path,
                                                                      monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.syspath_prepend(book.root / "src")          # what a worker imports
    monkeypatch.setattr(sweep, "_ANSWERS", 300)
    (log / "wait-6-0").touch()
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=True,
                                  dashboard_address=None) as cluster:
        asked = {"scheduler": cluster.scheduler_address, "output": tmp_path / "out"}
        with pytest.raises(InputError, match="'nope'"):
            sweep.sweep("tiny", {"rate": "5,6"}, metrics=["nope"], **asked)
        assert noted(log, "ended") == ["5-0"]
        # Where it is over, nobody goes on.
        wait_for(lambda: not list(log.glob("begun-6-0-*")) or not alive(pid_of(log, "6-0")))
        said = sweep.sweep("tiny", {"rate": "0.1,1"}, seeds=[1], **asked)
    assert said[0] == "2 runs: 2 made, 0 were there already, 0 failed"
    assert [(row["acc"], row["threads"]) for row in rows(tmp_path / "out")] == [
        ("0.1", "1"), ("1.0", "1")]
