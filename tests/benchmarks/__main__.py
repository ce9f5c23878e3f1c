"""Speed, as ratios of one run, and memory: ``python tests/benchmarks [NAME]...``.

A function below prepares its data and returns its cases, ours first; they are measured in turns.
``book/benchmarks.csv`` has the ratios. The last one, ``notebooks``, executes every notebook and
fails where one holds `LIMIT` bytes or more.
"""

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import torch
from sklearn.cluster import KMeans, SpectralCoclustering
from torch import Tensor

from bookledger import config
from clusterbook import TELL, paths, training
from clusterbook.deepcluster import kmeans
from clusterbook.idc import losses
from clusterbook.weights import WeightCoclustering

Cases = dict[str, Callable[[], object]]
#: What a notebook has to stay under, in bytes: Binder gives a container about 2 GB.
LIMIT = 1.6e9
EXECUTE = """import sys, pathlib, bookledger.execution
bookledger.execution.execute(*map(pathlib.Path, sys.argv[1:]))"""


def tell_epochs() -> Cases:
    """Two epochs of TELL on 4,096 images of 28 x 28, one of each kind (centers, encoder)."""
    X = torch.rand(4096, 784, generator=torch.Generator().manual_seed(0))
    return {"clusterbook": _tell(X), "bfloat16": _tell(X, precision="bfloat16")}


def _tell(X: Tensor, **options: object) -> Callable[[], object]:
    """Epochs of one and the same model."""
    settings = TELL(10, image_shape=(1, 28, 28), **options)
    with training.seeded(0, X.device) as generator:
        model = settings._new_model(X.shape[1])
        optimizer = torch.optim.Adadelta(model.parameters())
        step = settings._step("training", model, optimizer)
    return lambda: training.train(
        step, (X,), epochs=2, batch_size=256, generator=generator, drop_last=True,
        state={"model": model, "optimizer": optimizer}, progress=False)


def idc_coding_rate() -> Cases:
    """Total coding rate and gradient, 5,748 features, 100 samples."""
    gates = torch.rand(100, 5748, generator=torch.Generator().manual_seed(0)).requires_grad_()
    return {"clusterbook": lambda: losses.gate_coding_loss(gates, 1.0).backward(),
            "full determinant": lambda: _full_determinant(gates, 1.0).backward()}


def _full_determinant(gates: Tensor, eps: float) -> Tensor:
    """The loss with the determinant over features, as the released code has it."""
    m, d = gates.shape
    return -0.5 * torch.logdet(torch.eye(d) + d / (m * eps) * gates.T @ gates) / m


def kmeans_20000() -> Cases:
    """K-means of 20,000 x 64 in 100 clusters to the end."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 64), dtype=np.float32)
    X += 2 * rng.standard_normal((100, 64), dtype=np.float32)[rng.integers(100, size=len(X))]
    theirs = KMeans(100, n_init=1, tol=0, random_state=0)
    return {"clusterbook": lambda: kmeans(torch.from_numpy(X), 100, max_iter=300),
            "scikit-learn": lambda: theirs.fit(X)}


def coclustering_512() -> Cases:
    """Co-clustering of 512 x 512 weights, k = 8."""
    W = np.random.default_rng(0).standard_normal((512, 512))
    theirs = SpectralCoclustering(8, svd_method="randomized", random_state=0)
    return {
        "clusterbook, joint": lambda: WeightCoclustering(8, random_state=0).fit(W),
        "scikit-learn, randomized": lambda: theirs.fit(np.abs(W))}


BENCHMARKS = {function.__name__: function for function in (
    tell_epochs, idc_coding_rate, kmeans_20000, coclustering_512)}


def compare(cases: Cases, enough: float = 60.0, at_most: int = 7) -> None:
    """Print seconds and ratios of cases that are measured in turns, after a round to warm up."""
    rounds: list[list[float]] = []
    while len(rounds) <= at_most and (len(rounds) < 3 or np.sum(rounds[1:]) < enough):
        rounds.append([])
        for case in cases.values():
            begun = time.perf_counter()
            case()
            rounds[-1].append(time.perf_counter() - begun)
    seconds = np.array(rounds[1:])                      # (rounds, cases)
    ratios = np.median(seconds / seconds[:, :1], axis=0)
    for label, fastest, ratio in zip(cases, seconds.min(0), ratios, strict=True):
        print(f"  {label:28}{fastest:10.3f} s{ratio:8.2f}", flush=True)


def peak(notebook: Path) -> int:
    """Execute a notebook at its defaults; the most that its kernel, and what that started, held."""
    most = 0
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.Popen([sys.executable, "-c", EXECUTE, notebook, Path(folder, "out.ipynb")])
        while run.poll() is None:
            time.sleep(0.1)
            with suppress(psutil.Error):        # a process ended meanwhile
                most = max(most, sum(one.memory_full_info().pss for one in
                                     psutil.Process(run.pid).children(recursive=True)))
    return most


def memory() -> bool:
    """Print the MB that every notebook holds; whether one holds too much."""
    root, much = paths.root(), False
    for path in config.notebooks(root):
        bytes_ = peak(path)
        much |= bytes_ >= LIMIT
        print(f"  {path.relative_to(root).as_posix():36}{bytes_ / 1e6:10,.0f}"
              f"{'  too much' * (bytes_ >= LIMIT)}", flush=True)
    return much


def main(names: list[str]) -> int:
    """Measure what is named, or everything; the status for the shell."""
    known = [*BENCHMARKS, "notebooks"]
    if unknown := set(names) - set(known):
        print(f"no benchmark {', '.join(unknown)}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    print(f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
          f"Python {platform.python_version()}, torch {torch.__version__}")
    for name in [name for name in names or known if name in BENCHMARKS]:
        print(f"\n{BENCHMARKS[name].__doc__}", flush=True)
        compare(BENCHMARKS[name]())
    return int("notebooks" in (names or known) and memory())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
