"""A sweep: what is asked is checked first, every run is there once, what is drawn is what ran."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import numpy as np
import pytest
from _support import Book, alive, wait_for
from bs4 import BeautifulSoup

from clusterbook.book import grid, summary, sweep, worker
from clusterbook.errors import InputError
from clusterbook.evidence.records import dumps
from clusterbook.evidence.verdicts import present_code

PARAMETERS = """\
rate: float = 0.5  # how fast | paper: 0.5 | faster
n: int = 1  # a count | paper: 1 | more
name: str = "digits"  # a text | paper: none | another
deep: bool = False  # whether | paper: no | deeper
ks: list[int] = [2]  # several counts | paper: 2 | more
limit: int | None = None  # a bound | paper: none | bounded
seed: int = 0  # decides everything random | paper: 0 | other numbers
seeds: list[int] = [1, 2, 3]  # further runs | paper: five | more"""


@pytest.fixture
def tiny(book: Book) -> Book:
    book.notebook("tiny", "1 + 1", parameters=PARAMETERS)
    return book


def rows(folder: Path) -> list[dict[str, str]]:
    with open(folder / "sweep.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def record_of(about: dict, metrics: dict, checks: dict | None = None) -> bytes:
    """The record that a run with these metrics would have left."""
    return dumps({
        "chapter": about["chapter"], "profile": about["profile"] or f"{about['chapter']}-default",
        "parameters": about["parameters"], "assumed": [], "seed": about["seed"],
        "metrics": metrics, "checks": checks or {}, "history": [],
        "git": {"commit": None, "clean": None},
        "code": present_code([about["chapter"]])[about["chapter"]], "tolerances": {},
        "versions": {}, "machine": {"cpu": "c", "gpu": None, "cores": 2, "threads": 1},
        "data": None, "started": "2026-01-02T03:04:05+00:00", "seconds": 2.5,
        "peak_memory_mb": None, "arrays": None}).encode()


@pytest.fixture
def made(monkeypatch) -> list[dict]:
    """Runs are not made; each leaves a record, and its parameters here."""
    asked: list[dict] = []

    one_at_a_time = threading.Lock()        # threads that parse Python disturb each other in 3.11

    def work(job: worker.Job) -> worker.Outcome:
        values = job.about["parameters"]
        asked.append(values)
        metrics = {"acc": values["rate"] * (1 + values["seed"]), "loss": float(values["n"])}
        with one_at_a_time:
            return worker.Outcome({".json": record_of(job.about, metrics), ".npz": b"arrays"})

    monkeypatch.setattr(worker, "work", work)
    return asked


# --- which runs --------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "text", "values"), [
    ("rate", "1e-4,1e-3, 1e-2", [1e-4, 1e-3, 1e-2]),
    ("rate", "2", [2.0]),
    ("n", "2-4,8", [2, 3, 4, 8]),
    ("name", "digits,wine", ["digits", "wine"]),
    ("name", "a,b.csv;", ["a,b.csv"]),
    ("name", "a,b.csv;c.csv", ["a,b.csv", "c.csv"]),
    ("deep", "true,false", [True, False]),
    ("ks", "1,2;3", [[1, 2], [3]]),
    ("ks", "1-3", [[1, 2, 3]]),
    ("ks", "[];[1, 2]", [[], [1, 2]]),
    ("limit", "none,3", [None, 3]),
])
def test_the_values_of_a_parameter(tiny: Book, name, text, values):
    known = grid.parameters.read("tiny")
    assert grid.values_of(known[name], text) == values


def test_the_grid_is_every_combination_with_every_seed(tiny: Book):
    found = grid.grid("tiny", {"rate": "0.1,1", "n": "5", "name": "A,b"}, seeds=[0, 3])
    assert [(r.values["rate"], r.values["name"], r.values["seed"]) for r in found.runs] == [
        (0.1, "A", 0), (0.1, "A", 3), (0.1, "b", 0), (0.1, "b", 3),
        (1.0, "A", 0), (1.0, "A", 3), (1.0, "b", 0), (1.0, "b", 3)]
    assert all(r.values["n"] == 5 and r.values["limit"] is None for r in found.runs)
    assert found.swept == ["rate", "name"]
    names = [run.name for run in found.runs]
    assert names[2] == "tiny-rate=0.1-n=5-name=b-seed0"
    assert len({name.lower() for name in names}) == 8
    # The axis is the parameter that was typed first; the name of a run does not depend on it.
    other = grid.grid("tiny", {"name": "A,b", "n": "5", "rate": "0.1,1"}, seeds=[0, 3])
    assert other.swept == ["name", "rate"] and sorted(r.name for r in other.runs) == sorted(names)


def test_names_of_runs_are_fit_for_files_and_tell_values_apart(tiny: Book, tmp_path, monkeypatch):
    values = ["a/b", "a_b", "a b", "x" * 300, "x" * 299 + "y", "../up", "folder:here", "ü"]
    found = grid.grid("tiny", {"name": ";".join(values)}).runs
    assert len({run.name for run in found}) == len(values)
    assert all(len(run.name) < 200 and "/" not in run.name and ".." not in run.name
               for run in found)
    lists = grid.grid("tiny", {"ks": "[];1,2;12"}).runs
    assert [run.name for run in lists] == [
        f"tiny-ks={word}-seed0" for word in ("empty", "1,2", "12")]
    # The same word names another folder elsewhere.
    monkeypatch.chdir(tmp_path)
    assert grid.grid("tiny", {"name": "folder:here;b"}).runs[0].name != found[6].name


def test_a_run_is_one_training_unless_somebody_says_otherwise(tiny: Book):
    assert grid.grid("tiny", {"n": "1,2"}).runs[0].values["seeds"] == []
    assert grid.grid("tiny", {"n": "1,2", "seeds": "7"}).runs[0].values["seeds"] == [7]
    tiny.profile("tiny-small", rate=2.0, seeds=[5])
    found = grid.grid("tiny", {"n": "1,2"}, profile="tiny-small").runs[0]
    assert found.values["seeds"] == [5] and found.values["rate"] == 2.0
    assert found.name == "tiny-small-n=1-seed0"


@pytest.mark.parametrize(("asked", "names"), [
    ({"chapter": "tyni"}, ("'tyni'", "'tiny'")),
    ({"profile": "tiny-smal"}, ("'tiny-smal'", "'tiny-small'")),
    ({"texts": {"rat": "1,2"}}, ("'rat'", "'rate'")),
    ({"texts": {"rate": "1,fast"}}, ("rate", "float", "'fast'")),
    ({"texts": {"n": "1,2.5"}}, ("n takes int", "2.5")),
    ({"texts": {"n": "1,,2"}}, ("n has an empty value",)),
    ({"texts": {"rate": "0.1,1e-1"}}, ("rate", "0.1", "twice")),
    ({"texts": {"n": "4-2"}}, ("'4-2'", "backwards")),
    ({"texts": {"rate": "1"}}, ("several values", "clusterbook run")),
    ({"texts": {}}, ("several values",)),
    ({"texts": {"rate": "1,2", "n": "1,2", "deep": "true,false"}},
     ("at most two", "rate, n, deep")),
    ({"texts": {"rate": "1,2", "n": "1-9"}}, ("8 at most", "n has 9 values")),
    ({"texts": {"seed": "1,2"}}, ("--seeds",)),
    ({"workers": 0}, ("--workers", "at least 1")),
    ({"workers": 2, "scheduler": "tcp://a:1"}, ("--workers", "cluster")),
    ({"output": "a file"}, ("a file",)),
    ({"output": "site"}, ("index.html", "no contact sheet")),
], ids=str)
def test_mistakes_are_refused_before_anything_runs(tiny: Book, tmp_path, monkeypatch, made, asked,
                                                   names):
    tiny.profile("tiny-small", rate=2.0)
    (tmp_path / "a file").write_text("in the way")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("mine")
    monkeypatch.chdir(tmp_path)
    options = {"chapter": "tiny", "texts": {"rate": "1,2"}, **asked}
    if "output" in asked:
        options["output"] = Path(asked["output"])
    with pytest.raises(InputError) as error:
        sweep.sweep(options.pop("chapter"), options.pop("texts"), **options)
    for name in names:
        assert name in str(error.value)
    assert "\n" not in str(error.value) and made == []
    assert (tmp_path / "site" / "index.html").read_text() == "mine"


def test_a_chapter_without_a_seed_is_not_repeated(book: Book):
    book.notebook("tiny", "1", parameters="n: int = 1  # a count | paper: 1 | more")
    with pytest.raises(InputError, match="no parameter 'seed'"):
        sweep.sweep("tiny", {"n": "1,2"}, seeds=[0, 1])
    assert [run.name for run in grid.grid("tiny", {"n": "1,2"}).runs] == ["tiny-n=1", "tiny-n=2"]


# --- what comes of it --------------------------------------------------------------------------


def test_table_figure_and_page(tiny: Book, tmp_path, made, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drawn = []
    response = summary.figures.response
    monkeypatch.setattr(summary.figures, "response",
                        lambda *lines, **options: drawn.append((*lines, options)) or
                        response(*lines, **options))
    said = sweep.sweep("tiny", {"rate": "0.01,0.1,1", "n": "4"}, seeds=[0, 1, 2])
    folder = Path("sweep-tiny-rate")
    assert said == ["9 runs: 9 made", f"table: {folder / 'sweep.csv'}",
                    f"figure: {folder / 'acc'}.png and .svg",
                    f"contact sheet: {folder / 'index.html'}"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "acc.png", "acc.svg", "figures.json", "index.html", "runs", "sweep.csv"]

    table = rows(folder)
    assert list(table[0]) == ["run", "rate", "n", "seed", "seconds", "error", "acc", "loss"]
    assert [(r["rate"], r["seed"], r["acc"]) for r in table[3:6]] == [
        ("0.1", "0", "0.1"), ("0.1", "1", "0.2"), ("0.1", "2", str(0.1 * 3))]
    assert {(r["n"], r["seconds"], r["loss"], r["error"]) for r in table} == {
        ("4", "2.5", "4.0", "")}
    for row in table:
        kept = sorted(path.name for path in (folder / "runs" / row["run"]).iterdir())
        assert kept == [f"tiny-default-seed{row['seed']}.{ending}" for ending in ("json", "npz")]

    (lines, options), = drawn
    assert options == {"x": "rate: how fast", "y": "accuracy (ACC)", "scale": "log",
                       "seeds": "3 seeds", "lines_are": ""}
    assert list(lines) == [""]
    for (rate, values, mean, deviation), expected in zip(lines[""], (0.01, 0.1, 1), strict=True):
        measured = expected * np.array([1, 2, 3])
        assert rate == expected
        np.testing.assert_allclose(values, measured)
        np.testing.assert_allclose((mean, deviation), (measured.mean(), measured.std(ddof=1)))

    soup = BeautifulSoup((folder / "index.html").read_text(), "html.parser")
    assert soup.h1.get_text() == "The chapter tiny: a sweep of rate"
    assert soup.pre.get_text() == ("clusterbook sweep tiny -p rate 0.01,0.1,1 -p n 4 --seeds 0-2 "
                                   "--output sweep-tiny-rate")
    assert "rate" in soup.img["alt"] and "acc" in soup.img["alt"] and soup.find("script") is None
    over, every = soup.find_all("table")[-2:]
    assert [[c.get_text() for c in row.find_all(["th", "td"])] for row in over.tbody("tr")][1] == [
        "0.1", "3", "0.20 ± 0.10", "0.1", "0.3"]
    assert len(every.tbody("tr")) == 9
    links = [unquote(a["href"]) for a in every.find_all("a")]
    assert len(links) == 9 and all((folder / link).is_file() for link in links)


def test_the_page_says_how_many_checks_of_each_run_failed(tiny: Book, tmp_path, monkeypatch):
    def work(job: worker.Job) -> worker.Outcome:
        n = job.about["parameters"]["n"]
        checks = {f"tiny-{i}": i >= n for i in range(3)} if n < 3 else {}
        return worker.Outcome({".json": record_of(job.about, {"acc": 0.5}, checks)})

    monkeypatch.setattr(worker, "work", work)
    sweep.sweep("tiny", {"n": "0-3"}, workers=1, output=tmp_path)
    soup = BeautifulSoup((tmp_path / "index.html").read_text(), "html.parser")
    every = soup.find_all("table")[-1]
    heads = [head.get_text() for head in every.thead.find_all("th")]
    cells = [row.find_all(["th", "td"]) for row in every.tbody("tr")]
    assert [row[heads.index("failed checks")].get_text() for row in cells] == [
        "0 of 3", "1 of 3", "2 of 3", "–"]


def test_a_second_parameter_is_lines_and_names_are_a_scale_of_their_own(tiny: Book, tmp_path, made,
                                                                        monkeypatch):
    drawn = []
    monkeypatch.setattr(summary, "save", lambda figure, *about: drawn.append(figure))
    monkeypatch.setattr(summary.sheet, "write", lambda folder, **about: folder)
    sweep.sweep("tiny", {"name": "wine,digits", "rate": "10,1"}, seeds=[0, 1], metrics=["acc"],
                output=tmp_path)
    axis = drawn[0].axes[0]
    assert [t.get_text() for t in axis.get_xticklabels()] == ["wine", "digits"]
    assert [t.get_text() for t in drawn[0].legends[0].get_texts()] == ["10", "1"]
    assert drawn[0].legends[0].get_title().get_text() == "rate: how fast"
    sweep.sweep("tiny", {"ks": "1,2;3"}, metrics=["acc", "loss"], output=tmp_path / "lists")
    assert len(drawn) == 3
    assert [t.get_text() for t in drawn[1].axes[0].get_xticklabels()] == ["1, 2", "3"]


def test_a_metric_with_the_name_of_a_parameter_has_its_own_column(tiny: Book):
    planned = grid.grid("tiny", {"n": "1,2"})
    record = SimpleNamespace(seconds=1.0, metrics={"n": 7.0, "acc": 0.5})
    text = summary.table(planned, {planned.runs[0].name: record}, {planned.runs[1].name: "broke"})
    first, second = csv.DictReader(text.splitlines())
    assert (first["n"], first["n (metric)"], first["acc"]) == ("1", "7.0", "0.5")
    assert (second["n"], second["acc"], second["error"]) == ("2", "", "broke")
    assert first["error"] == ""


@pytest.mark.parametrize(("metrics", "main"), [
    ({"zeta": 1, "nmi": 2, "acc": 3}, "acc"), ({"ari": 1, "nmi": 2}, "nmi"),
    ({"zeta": 1, "beta": 2}, "zeta")])
def test_the_main_metric(metrics, main):
    assert summary.main_metric(SimpleNamespace(chapter="tiny", metrics=metrics)) == main


def test_the_main_metric_of_a_chapter_without_agreement_is_its_first_claims():
    record = SimpleNamespace(chapter="weights", metrics={"ami_classes": 1, "test_accuracy": 2})
    assert summary.main_metric(record) == "test_accuracy"


def test_an_unknown_metric_ends_the_sweep_after_one_run(tiny: Book, tmp_path, made):
    asked = {"seeds": list(range(20)), "metrics": ["acc", "los"], "workers": 1, "output": tmp_path}
    with pytest.raises(InputError, match=r"'los'; did you mean 'loss'\? Known: acc, loss"):
        sweep.sweep("tiny", {"rate": "1,2"}, **asked)
    assert 1 <= len(made) <= 3, "what was begun meanwhile"
    kept = list((tmp_path / "runs").glob("*/*.json"))
    assert kept, "the run that was made is lost"
    made.clear()
    with pytest.raises(InputError, match="'los'"):
        sweep.sweep("tiny", {"rate": "1,2"}, **asked)
    assert made == [], "a record was there already"
    (tmp_path / "index.html").write_text(sweep.ours.MARK)
    with pytest.raises(InputError, match="'los'"):
        sweep.sweep("tiny", {"rate": "1,2"}, **asked)
    assert (tmp_path / "index.html").is_file(), "nothing was begun, and the page is gone"


# --- a sweep that is started again -------------------------------------------------------------


def test_what_is_finished_is_not_made_again(tiny: Book, tmp_path, made, monkeypatch):
    tiny.notebook("tiny", "import clusterbook.extra", parameters=PARAMETERS)
    extra = tiny.write("src/clusterbook/extra.py", "x = 1\n")

    def again(rate="0.1,1", **asked) -> list[tuple]:
        made.clear()
        sweep.sweep("tiny", {"rate": rate}, output=tmp_path, **{"seeds": [0, 1], **asked})
        return sorted((values["rate"], values["seed"]) for values in made)

    every = [(0.1, 0), (0.1, 1), (1.0, 0), (1.0, 1)]
    assert again() == every
    assert again() == []
    assert again("0.1,1,10", seeds=[0]) == [(10.0, 0)], "only what is new"
    assert len(rows(tmp_path)) == 3, "the table is of this sweep"
    (tmp_path / "runs" / "tiny-rate=1.0-seed1" / "tiny-default-seed1.json").unlink()
    assert again() == [(1.0, 1)]
    extra.write_text("x = 2\n")
    assert again() == every, "the code changed"
    tiny.notebook("tiny", "import clusterbook.extra",
                  parameters=PARAMETERS.replace("n: int = 1", "n: int = 2"))
    assert again() == every, "a parameter that nobody typed changed"


def test_a_run_on_a_file_that_was_written_since_is_made_again(tiny: Book, tmp_path, made,
                                                              monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "my.csv"
    table.write_text("a\n1\n")
    (tmp_path / "pictures").mkdir()
    picture = tmp_path / "pictures" / "a.png"
    picture.write_bytes(b"")
    before, after = 1.0e9, 4.0e9            # the record was begun in January 2026

    def again(name: str) -> int:
        made.clear()
        sweep.sweep("tiny", {"n": "1,2", "name": name}, output=tmp_path / "out")
        return len(made)

    for path, name in ((table, "my.csv"), (picture, "folder:pictures")):
        for one in (path, path.parent):
            os.utime(one, (before, before))
        assert [again(name), again(name)] == [2, 0]
        os.utime(path, (after, after))
        assert again(name) == 2


# --- what fails --------------------------------------------------------------------------------


def test_a_run_that_fails_stops_no_other_and_is_named(tiny: Book, tmp_path, made, monkeypatch,
                                                      capsys):
    work, died = worker.work, []

    def sometimes(job):
        values = job.about["parameters"]
        if (values["rate"], values["seed"]) == (1.0, 1):
            return worker.Outcome(error="there are 3 rows, but 5 clusters")
        if values["rate"] == 2.0 and (values["seed"] == 0 or not died):
            died.append(values["seed"])
            return worker.Outcome(error="its kernel died", died=True)
        if values["rate"] == 3.0:
            raise OSError("the cluster broke\nin two lines")
        return work(job)

    monkeypatch.setattr(worker, "work", sometimes)
    with pytest.raises(sweep.SweepError) as error:
        sweep.sweep("tiny", {"rate": "1,2,3,4"}, seeds=[1, 0], workers=1, output=tmp_path)
    first, *lines = str(error.value).splitlines()
    assert first.startswith("4 of 8 runs failed; the others are in ")
    assert lines == ["  tiny-rate=1.0-seed1: there are 3 rows, but 5 clusters",
                     "  tiny-rate=2.0-seed0: its kernel died",
                     "  tiny-rate=3.0-seed1: OSError: the cluster broke",
                     "  tiny-rate=3.0-seed0: OSError: the cluster broke"]
    assert died == [1, 0, 0], "once more, and not again"
    told = capsys.readouterr().err
    assert "tiny-rate=2.0-seed1: its kernel died; it is begun once more" in told
    table = {row["run"]: row for row in rows(tmp_path)}
    assert len(table) == 8 and table["tiny-rate=2.0-seed1"]["acc"] == "4.0"
    assert table["tiny-rate=1.0-seed1"]["error"] == "there are 3 rows, but 5 clusters"
    page = BeautifulSoup((tmp_path / "index.html").read_text(), "html.parser").get_text()
    assert "its kernel died" in page and "4 of 8 runs failed." in page
    assert (tmp_path / "acc.svg").is_file()


def test_a_sweep_of_which_every_run_fails_says_so(tiny: Book, tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "work", lambda job: worker.Outcome(error="no"))
    with pytest.raises(sweep.SweepError, match="^2 of 2 runs failed"):
        sweep.sweep("tiny", {"n": "1,2"}, output=tmp_path)
    assert [row["error"] for row in rows(tmp_path)] == ["no", "no"]
    assert "There is no figure." in (tmp_path / "index.html").read_text()


def test_a_chapter_that_records_nothing_ends_the_sweep(tiny: Book, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(worker, "work", lambda job: asked.append(job) or worker.Outcome())
    with pytest.raises(sweep.SweepError, match=r"left no record: its notebook does not call"):
        sweep.sweep("tiny", {"n": "1-9"}, workers=1, output=tmp_path)
    assert len(asked) <= 3


def test_a_run_of_other_code_is_not_kept(tiny: Book, tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "work", lambda job: worker.Outcome({
        ".json": record_of(job.about, {"acc": 1.0}).replace(b'"code": "', b'"code": "0')}))
    with pytest.raises(sweep.SweepError, match="made by other code"):
        sweep.sweep("tiny", {"n": "1,2"}, workers=1, output=tmp_path)
    assert not (tmp_path / "runs").exists()


def test_a_record_comes_after_what_lies_beside_it(tiny: Book, tmp_path, made, monkeypatch):
    written = []
    monkeypatch.setattr(sweep, "write_atomically", lambda path, _: written.append(path.suffix))
    sweep.sweep("tiny", {"n": "1,2"}, workers=1, output=tmp_path)
    assert written == [".npz", ".json"] * 2


# --- real processes ----------------------------------------------------------------------------

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
    (log / f"kill-{me}").unlink()
    os.kill(os.getppid(), signal.SIGKILL)  # the process that runs this notebook
    time.sleep(600)
while asked("wait"):
    time.sleep(0.02)
evidence.record({"acc": rate * seed, "threads": int(os.environ["OMP_NUM_THREADS"])})
(log / f"ended-{me}-{os.getpid()}").touch()
"""


@pytest.fixture
def log(book: Book, tmp_path, monkeypatch) -> Path:
    """What the runs of a chapter note down; a file ``wait-0.1-1`` there makes that run wait."""
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


def test_runs_are_processes_with_one_thread_that_fail_and_die_alone(book: Book, log, tmp_path):
    (log / "fail-1-0").touch()
    (log / "kill-0.1-1").touch()
    asked = ("sweep", "tiny", "-p", "rate", "0.1,1", "--seeds", "0-1", "--workers", "2",
             "--output", "my sweep")
    done = book.command(*asked, LOG=log, OMP_NUM_THREADS=7)
    assert (done.returncode, done.stdout) == (1, "")
    said = done.stderr.splitlines()
    assert any("tiny-rate=0.1-seed1: its process was killed by signal 9" in line for line in said)
    assert said[-2].startswith("clusterbook: 1 of 4 runs failed; the others are in my sweep, ")
    assert said[-1] == "  tiny-rate=1.0-seed0: there are 3 rows,"
    assert noted(log, "begun") == ["0.1-0", "0.1-1", "0.1-1", "1-0", "1-1"]
    assert noted(log, "ended") == ["0.1-0", "0.1-1", "1-1"]
    folder = book.root / "my sweep"
    table = {row["run"]: row for row in rows(folder)}
    assert {row["threads"] for name, row in table.items() if name != "tiny-rate=1.0-seed0"} == {"1"}
    assert table["tiny-rate=0.1-seed1"]["acc"] == "0.1"
    record = json.loads((folder / "runs" / "tiny-rate=1.0-seed1" / "tiny-default-seed1.json"
                         ).read_text())
    assert record["parameters"]["rate"] == 1.0 and record["parameters"]["seeds"] == []
    assert record["metrics"]["acc"] == 1.0

    (log / "fail-1-0").unlink()
    done = book.command(*asked, LOG=log)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "4 runs: 1 made, 3 were there already"
    assert done.stderr == "", "a bar where there is no terminal, or a complaint"
    assert noted(log, "begun").count("1-0") == 2 and len(noted(log, "begun")) == 6


def test_an_interrupted_sweep_leaves_nothing_half_written_and_nobody_behind(book: Book, log,
                                                                            tmp_path):
    (log / "wait-1-0").touch()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = book.start("sweep", "tiny", "-p", "rate", "0.1,1", "--output", "out", "--workers",
                         "1", LOG=log, TMPDIR=temporary)
    wait_for(lambda: noted(log, "begun") == ["0.1-0", "1-0"], process, seconds=300)
    kernel = pid_of(log, "1-0")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, "")
    assert err == "clusterbook: interrupted; nothing half-written was left\n"
    wait_for(lambda: not alive(kernel), seconds=60)
    wait_for(lambda: not list(temporary.glob("clusterbook-*")), seconds=60)
    left = sorted(path.relative_to(book.root / "out").as_posix()
                  for path in (book.root / "out").rglob("*") if path.is_file())
    assert left == ["runs/tiny-rate=0.1-seed0/tiny-default-seed0.json"]


def test_a_run_ends_with_the_process_that_asked_for_it(book: Book, log, tmp_path):
    (log / "wait-1-0").touch()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    planned = grid.grid("tiny", {"rate": "1,2"})
    (_, job), *_ = sweep._jobs(planned, planned.runs, {}).values()
    asking = ("import json, sys\nfrom clusterbook.book import worker\n"
              "worker.work(worker.Job(**json.loads(sys.argv[1])))")
    process = subprocess.Popen(
        [sys.executable, "-c", asking, json.dumps(vars(job))], cwd=tmp_path,
        env=book.environment(LOG=log, TMPDIR=temporary))
    wait_for(lambda: noted(log, "begun"), process, seconds=300)
    kernel = pid_of(log, "1-0")
    process.kill()                                      # it can't say goodbye
    process.wait()
    wait_for(lambda: not alive(kernel), seconds=60)
    wait_for(lambda: not list(temporary.glob("clusterbook-*")), seconds=60)
    assert noted(log, "ended") == []


def test_a_process_that_cant_begin_is_a_failed_run(tiny: Book, monkeypatch, tmp_path):
    (tiny.package / "book" / "runs.py").write_text(
        "import atexit, time\natexit.register(time.sleep, 1)\nraise SystemError('broken here')\n")
    planned = grid.grid("tiny", {"rate": "1,2"})
    (_, job), *_ = sweep._jobs(planned, planned.runs, {}).values()
    assert worker.work(job) == worker.Outcome(error="SystemError: broken here")


# --- a cluster ---------------------------------------------------------------------------------


class Workers:
    """What a client would hear from workers: an answer each, or an exception."""

    def __init__(self, *answers):
        self.answers = answers

    def run(self, what, *arguments, on_error):
        assert on_error == "return"
        answer = self.answers[0 if what is eval else 1]
        return {f"tcp://w{i}:1": one for i, one in enumerate(answer)}


VERSION = sweep.__version__


@pytest.mark.parametrize(("answers", "says"), [
    (([], []), "has no workers; start one with: dask worker tcp://s:1"),
    (([VERSION, ModuleNotFoundError(name="clusterbook")], []),
     f"worker tcp://w1:1 has no clusterbook; install clusterbook {VERSION}"),
    (([ModuleNotFoundError(name="papermill")], []), "worker tcp://w0:1 has no papermill"),
    (([VERSION, "0.0.1"], []), f"worker tcp://w1:1 has clusterbook 0.0.1, and here is {VERSION}"),
    (([VERSION], ["another"]), "other code for tiny"),
    (([VERSION], [InputError("there is no such notebook")]), "other code for tiny"),
], ids=["none", "absent", "no papermill", "older", "other code", "no chapter"])
def test_workers_that_cant_make_the_runs_are_refused(tiny: Book, answers, says):
    with pytest.raises(InputError, match=says) as error:
        sweep._refuse_other_code(Workers(*answers), "tcp://s:1", "tiny")
    assert "\n" not in str(error.value)


def test_no_scheduler_is_one_sentence(tiny: Book, tmp_path, monkeypatch, made):
    pytest.importorskip("distributed")
    monkeypatch.setattr(sweep, "_ANSWERS", 0.5)
    with pytest.raises(InputError, match="no Dask scheduler answers at 'tcp://127.0.0.1:9'"):
        sweep.sweep("tiny", {"n": "1,2"}, scheduler="tcp://127.0.0.1:9", output=tmp_path / "out")
    for address in ("foo", "nonsense://x", "tcp://", "tcp://here:", "tcp://here:port"):
        with pytest.raises(InputError, match=f"'{address}' is no address of a Dask scheduler"):
            sweep.sweep("tiny", {"n": "1,2"}, scheduler=address, output=tmp_path / "out")
    with pytest.raises(InputError, match="no Dask scheduler answers at 'nonsense://x:1'"):
        sweep.sweep("tiny", {"n": "1,2"}, scheduler="nonsense://x:1", output=tmp_path / "out")
    assert not (tmp_path / "out").exists(), "a folder was left of what never ran"


def test_a_cluster_that_loses_a_worker_makes_every_run_once(book: Book, log, tmp_path,
                                                            monkeypatch):
    distributed = pytest.importorskip("distributed")
    psutil = pytest.importorskip("psutil")
    monkeypatch.syspath_prepend(book.root / "src")          # what a worker imports
    monkeypatch.chdir(tmp_path)
    (log / "wait-1-1").touch()
    written = []
    write = sweep.write_atomically
    monkeypatch.setattr(sweep, "write_atomically",
                        lambda path, content: (written.append(path), write(path, content)))
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True,
                                  dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        with monkeypatch.context() as other:
            other.setattr(sweep, "_VERSION", "__import__('clusterbook_of_old')")
            with pytest.raises(InputError, match="has no clusterbook_of_old; install clusterbook"):
                sweep.sweep("tiny", {"rate": "0.1,1"}, scheduler=address)
        assert not noted(log, "begun")

        def runs(process) -> bool:
            with contextlib.suppress(psutil.NoSuchProcess):     # it ended, or waits to be reaped
                return worker.__name__ in process.cmdline()
            return False

        def under_way() -> list:
            return [process for nanny in cluster.workers.values()
                    for process in psutil.Process(nanny.pid).children() if runs(process)]

        (log / "wait-6-0").touch()
        with pytest.raises(InputError, match="'nope'"):
            sweep.sweep("tiny", {"rate": "5,6"}, metrics=["nope"], scheduler=address,
                        output=Path("ended"))
        wait_for(lambda: not under_way(), seconds=120)      # where it is over, nobody goes on
        assert noted(log, "ended") == ["5-0"]

        said, written[:] = [], []
        sweeping = threading.Thread(target=lambda: said.extend(sweep.sweep(
            "tiny", {"rate": "0.1,1"}, seeds=[0, 1], scheduler=address, output=Path("out"))))
        sweeping.start()
        wait_for(lambda: list(log.glob("begun-1-1-*")), seconds=300)
        kernel = psutil.Process(pid_of(log, "1-1"))
        of_the_run = kernel.parent()
        dask_worker = of_the_run.parent()
        assert dask_worker.pid in [nanny.pid for nanny in cluster.workers.values()]
        os.kill(dask_worker.pid, signal.SIGKILL)
        wait_for(lambda: not alive(kernel.pid) and not alive(of_the_run.pid), seconds=120)
        assert noted(log, "ended").count("1-1") == 0
        (log / "wait-1-1").unlink()
        sweeping.join(timeout=300)
        assert not sweeping.is_alive()
    assert said[0] == "4 runs: 4 made"
    names = [f"tiny-rate={rate}-seed{seed}" for rate in (0.1, 1.0) for seed in (0, 1)]
    assert [row["run"] for row in rows(tmp_path / "out")] == names
    assert [row["acc"] for row in rows(tmp_path / "out")] == ["0.0", "0.1", "0.0", "1.0"]
    assert sorted(path.parent.name for path in written) == names, "each record is written once"
    assert noted(log, "begun").count("1-1") == 2 and noted(log, "ended").count("1-1") == 1
