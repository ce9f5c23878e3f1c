"""Speed and memory, measured in one run: ``python tests/benchmarks [--save FILE] [NAME]...``.

A benchmark is a function below that prepares its data and returns its cases, ours first. Speed is
measured case after case in one process, so that a ratio is of one moment; peak memory in a process
for each case, where it counts everything, the libraries and the data too. Compare ratios, not
seconds: the machine and its load decide those. ``--save`` writes the table of
``book/benchmarks.csv``. The last one, ``notebooks``, executes every notebook and fails where one
holds 1.6 GB or more.
"""

from __future__ import annotations

import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import released
import torch
from sklearn.cluster import KMeans, SpectralCoclustering
from sklearn.preprocessing import normalize
from torch import Tensor

import notebooks  # beside this file
from bookledger.machine import peak_memory_mb
from clusterbook import IDC, TELL, datasets, training
from clusterbook.deepcluster import kmeans
from clusterbook.idc import losses as idc_losses
from clusterbook.idc.networks import adam, descend
from clusterbook.weights import WeightCoclustering

Cases = dict[str, Callable[[], object]]


def coclustering_512(size: int = 512) -> Cases:
    """Co-clustering of 512 x 512 weights, k = 8 (to take under 0.5 s)."""
    W = np.random.default_rng(0).standard_normal((size, size))
    theirs = SpectralCoclustering(8, svd_method="randomized", random_state=0)
    return {
        "clusterbook, joint": lambda: WeightCoclustering(8, random_state=0).fit(W),
        "clusterbook, dhillon": lambda: WeightCoclustering(8, "dhillon", random_state=0).fit(W),
        "scikit-learn, randomized": lambda: theirs.fit(np.abs(W)),
    }


def coclustering_4096() -> Cases:
    """Co-clustering of 4096 x 4096 weights, k = 8 (to take under 20 s and 2 GB)."""
    return coclustering_512(4096)


def tell_epochs() -> Cases:
    """Two epochs of TELL on 4,096 images of 28 x 28, one of either kind (to gain 2.2; 4.5)."""
    images = np.random.default_rng(0).integers(0, 256, (4096, 28, 28), dtype=np.uint8)
    X = torch.from_numpy(images.reshape(len(images), -1).astype(np.float32) / 255)
    return {"clusterbook": _tell(X), "compiled": _tell(X, compile=True),
            "bfloat16": _tell(X, precision="bfloat16"),
            "bfloat16, compiled": _tell(X, precision="bfloat16", compile=True),
            "released loop": lambda: released.tell(images)}


def tell_busy() -> Cases:
    """Ten epochs of TELL on the digits beside one busy process (to take at most 1.5 of alone)."""
    data = datasets.load("digits")
    model = TELL(10, image_shape=data.image_shape, epochs=10, random_state=0, progress=False)

    def beside() -> None:
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
            try:
                model.fit(data.X)
            finally:
                busy.kill()

    return {"alone": lambda: model.fit(data.X), "beside a busy process": beside}


def tell_memory() -> Cases:
    """One epoch of TELL on 70,000 images of 28 x 28 (to stay under 2 GB)."""
    X = np.random.default_rng(0).random((70_000, 784), dtype=np.float32)
    model = TELL(10, image_shape=(1, 28, 28), epochs=1, random_state=0, progress=False)
    return {"clusterbook": lambda: model.fit(X)}


def tell_gpu() -> Cases:
    """Ten epochs of TELL on 70,000 images, on a GPU (to take at most 2 s: 3,000 in ten minutes)."""
    if not torch.cuda.is_available():
        return {}
    X = torch.rand(70_000, 784, device="cuda")
    cases = {"clusterbook": _tell(X, epochs=10),
             "clusterbook, compiled": _tell(X, epochs=10, compile=True),
             "clusterbook, bfloat16": _tell(X, epochs=10, precision="bfloat16")}
    return {name: lambda case=case: (case(), torch.cuda.synchronize())
            for name, case in cases.items()}


def _tell(X: Tensor, epochs: int = 2, **options: object) -> Callable[[], object]:
    """Epochs of one and the same model, so that compiling is part of the warming up."""
    settings = TELL(10, image_shape=(1, 28, 28), **options)
    with training.seeded(0, X.device) as generator:
        model = settings._new_model(X.shape[1]).to(X.device)
        optimizer = torch.optim.Adadelta(model.parameters())
        step = settings._step("training", model, optimizer)
    return lambda: training.train(
        step, (X,), epochs=epochs, batch_size=256, generator=generator, drop_last=True,
        state={"model": model, "optimizer": optimizer}, progress=False)


def idc_step() -> Cases:
    """Ten gated steps of IDC, 784 features, batches of 100 (to gain 1.6)."""
    X = torch.rand(100, 784, generator=torch.Generator().manual_seed(0))
    settings = IDC(10)
    with training.seeded(0):
        model, theirs = settings._new_model(784), released.Idc(784)
    ours = adam([*model.autoencoder.parameters(), *model.gating.parameters()], 1e-3, 1)
    first = torch.optim.Adam(theirs.parameters(), 1e-3)

    def steps() -> None:
        for _ in range(10):
            descend(settings._sparse_loss(model, X, 0.5)[0], *ours)

    def released_steps() -> None:
        for _ in range(10):
            released.descend(first, theirs.pretraining(X, 0.5))

    return {"clusterbook": steps, "released loop": released_steps}


def idc_schedule() -> Cases:
    """A tenth of IDC's 700 epochs on 500 MNIST digits, all stages (to gain 3)."""
    data = datasets.load("mnist-small")
    X, y = data.X[::10], data.y[::10]
    model = IDC(10, epochs=70, ae_non_gated_epochs=1, ae_pretrain_epochs=30,
                start_global_gates_training_on_epoch=40, constant_columns="keep", random_state=0,
                progress=False)
    return {"clusterbook": lambda: model.fit(X, y), "released loop": lambda: released.idc(
        X, y, epochs=70, plain=1, pretrained=30, joint=40)}


def idc_coding_rate() -> Cases:
    """Total coding rate and gradient, 5,748 features, 100 samples (to gain at least 50)."""
    gates = torch.rand(100, 5748, generator=torch.Generator().manual_seed(0)).requires_grad_()
    return {
        "clusterbook": lambda: idc_losses.gate_coding_loss(gates, 1.0).backward(),
        "full determinant": lambda: _full_determinant(gates, 1.0).backward(),
    }


def _full_determinant(gates: Tensor, eps: float) -> Tensor:
    """The loss with the determinant over features, as the released code has it."""
    m, d = gates.shape
    return -0.5 * torch.logdet(torch.eye(d) + d / (m * eps) * gates.T @ gates) / m


def kmeans_20000() -> Cases:
    """K-means of 20,000 x 64 in 100 clusters to the end (to take at most scikit-learn's time)."""
    X = _clustered(20_000, 64, 100)
    theirs = KMeans(100, n_init=1, tol=0, random_state=0)
    return {"clusterbook": lambda: kmeans(torch.from_numpy(X), 100, max_iter=300),
            "scikit-learn": lambda: theirs.fit(X), **_by_faiss(X, 100, 25)}


def kmeans_200000() -> Cases:
    """K-means of 200,000 x 256 in 1,000 clusters, 10 rounds (within 1.5 of faiss, under 3 GB)."""
    X = normalize(_clustered(200_000, 256, 1000))
    return {"clusterbook": lambda: kmeans(torch.from_numpy(X), 1000, max_iter=10),
            **_by_faiss(X, 1000, 10)}


def _clustered(n: int, d: int, k: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    X += 2 * rng.standard_normal((k, d), dtype=np.float32)[rng.integers(k, size=n)]
    return X


def _by_faiss(X: np.ndarray, k: int, rounds: int) -> Cases:
    """faiss where it is installed, with as many threads as torch and all of its rounds."""
    try:
        import faiss
    except ImportError:
        return {}
    faiss.omp_set_num_threads(torch.get_num_threads())
    theirs = faiss.Kmeans(X.shape[1], k, niter=rounds, min_points_per_centroid=1,
                          max_points_per_centroid=10_000_000)

    def fit() -> None:
        theirs.train(X)
        theirs.index.search(X, 1)

    return {f"faiss, {rounds} rounds": fit}


_TRAINING = """\
import bookledger as evidence
from clusterbook import TELL, datasets, metrics
data = datasets.load("digits")
model = TELL(10, image_shape=data.image_shape, alpha=alpha, epochs=5, random_state=seed,
             progress=False).fit(data.X)
evidence.record({"acc": metrics.accuracy(data.y, model.labels_)})"""


def sweep_workers() -> Cases:
    """A sweep of 8 runs, a training each (two workers to take at most 0.65 of one's time)."""
    # The small checkout of the tests.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from _support import SEED, Book

    temporary = tempfile.TemporaryDirectory(prefix="clusterbook-")
    book = Book(Path(temporary.name) / "book")
    alpha = "alpha: float = 0.001  # scale of the weights | paper: 0.001 | longer steps"
    book.notebook("tiny", _TRAINING, parameters=f"{alpha}\n{SEED}")
    asked = ("sweep", "tiny", "-p", "alpha", "1e-4,1e-3", "--seeds", "0-3")

    def swept(workers: int) -> None:
        with tempfile.TemporaryDirectory(dir=temporary.name) as output:     # no run is there yet
            done = book.command(*asked, "--workers", workers, "--output", output, timeout=3600)
        if done.returncode:
            raise RuntimeError(done.stderr)

    return {"one worker": lambda: swept(1), "two workers": lambda: swept(2)}


BENCHMARKS = {function.__name__: function for function in (
    coclustering_512, coclustering_4096, tell_epochs, tell_busy, tell_gpu, tell_memory, idc_step,
    idc_schedule, idc_coding_rate, kmeans_20000, kmeans_200000, sweep_workers)}


def speeds(cases: Cases, enough: float = 60.0, at_most: int = 7) -> list[list[float]]:
    """Seconds of every case, a row a round, after one round that only warms up.

    In turns: a machine is slower at one moment than at another, and a ratio is of the same moment.
    """
    rounds: list[list[float]] = []
    while len(rounds) <= at_most and (len(rounds) < 3 or np.sum(rounds[1:]) < enough):
        row = []
        for case in cases.values():
            begun = time.perf_counter()
            case()
            row.append(time.perf_counter() - begun)
        rounds.append(row)
    return rounds[1:]


def measure(name: str) -> list[dict]:
    """Every case of a benchmark: the fastest round, the median ratio to ours, the peak memory.

    No row where this machine has nothing to measure it on.
    """
    def asked(what: str) -> Any:
        process = subprocess.run([sys.executable, __file__, "--measure", name, what],
                                 stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(process.stdout)

    found = asked("speed")
    if not found["labels"]:
        return []
    seconds = np.array(found["rounds"])                     # (rounds, cases)
    ratios = np.median(seconds / seconds[:, :1], axis=0)
    return [{"label": label, "seconds": seconds[:, i].min(), "ratio": ratios[i],
             "mib": asked(label)} for i, label in enumerate(found["labels"])]


def measure_here(name: str, what: str) -> Any:
    """The speed of all cases, or the peak memory of the one of that name, in this process."""
    cases = BENCHMARKS[name]()
    if what == "speed":
        return {"labels": list(cases), "rounds": speeds(cases)}
    cases[what]()
    return peak_memory_mb()


def main(names: list[str], save: str | None = None) -> int:
    """Print a table a benchmark, and write them into one; the status for the shell."""
    known = [*BENCHMARKS, "notebooks"]
    if unknown := [name for name in names if name not in known]:
        print(f"there is no benchmark {unknown[0]!r}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    print(f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
          f"Python {platform.python_version()}, torch {torch.__version__}")
    status, lines = 0, [("Measured", "Version", "Relative time")]
    for name in names or known:
        if name == "notebooks":
            print("\nnotebooks: every notebook at its defaults (to stay under 1.6 GB).", flush=True)
            status = notebooks.main()
            continue
        print(f"\n{name}: {BENCHMARKS[name].__doc__}", flush=True)
        if not (rows := measure(name)):
            print("  not measured: this machine has nothing to measure it on")
            continue
        print(f"  {'':28}{'seconds':>10}{'ratio':>8}{'peak MiB':>10}")
        for row in rows:
            print(f"  {row['label']:28}{row['seconds']:10.3f}{row['ratio']:8.2f}"
                  f"{row['mib'] or float('nan'):10.0f}")
        what = BENCHMARKS[name].__doc__.partition(" (to ")[0].replace(" x ", " × ")
        lines += [(what if row is rows[1] else "", row["label"],
                   f"{row['ratio']:,.{2 if row['ratio'] < 100 else 0}f}") for row in rows[1:]]
    if save:
        with open(save, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)
    return status


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--measure", name, what]:
            print(json.dumps(measure_here(name, what)))
        case ["--save", file, *names]:
            sys.exit(main(names, file))
        case names:
            sys.exit(main(names))
