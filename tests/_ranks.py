"""What ``test_distributed`` compares: the same functions in one process and in each of several."""

import os
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.distributed as dist
from _fits import before_steps
from torch import multiprocessing, nn

from clusterbook import DeepCluster, datasets
from clusterbook.deepcluster import clustering, distributed, fit_reduction, kmeans, reduce
from clusterbook.deepcluster.distributed import BatchNorm2d
from clusterbook.deepcluster.networks import FolderImages

SIZE = 2
SETTINGS = {"n_clusters": 10, "image_shape": (1, 8, 8), "n_components": 16, "batch_size": 101,
            "crop_scale": (0.8, 1.0), "flip": False, "random_state": 0, "device": "cpu",
            "progress": False}


def together(folder: Path) -> list[dict[str, Any]]:
    """What each of the ranks, a process of its own, computes of `alone`; then a stop.

    A rank that waits for ever is killed, and lacks what it did not come to.
    """
    store = dist.TCPStore("localhost", 0, SIZE, is_master=True, wait_for_workers=False)
    method = "fork" if sys.platform.startswith("linux") else "spawn"   # torch is there: no imports
    ranks = multiprocessing.start_processes(_one, (folder, store.port), SIZE, join=False,
                                            start_method=method)
    end = time.monotonic() + 180        # they take seconds
    while not ranks.join(timeout=5) and time.monotonic() < end:
        pass
    for process in ranks.processes:
        process.kill()
    return [torch.load(folder / f"{rank}.result", weights_only=False) for rank in range(SIZE)]


def _one(rank: int, folder: Path, port: int) -> None:
    torch.set_num_threads(1)
    with distributed.group(dist.FileStore(str(folder / "store"), SIZE), rank, SIZE):
        found = alone(folder)
    torch.save(found, folder / f"{rank}.result")
    found["command"] = out_of_time(folder, rank, port)
    with distributed.group(dist.FileStore(str(folder / "store again"), SIZE), rank, SIZE):
        found["resumed"] = resumed(folder)
    torch.save(found, folder / f"{rank}.result")


def alone(folder: Path) -> dict[str, Any]:
    """All that is compared, here or in each of the ranks."""
    files = {"X": folder / "images", "batch_size": 20, "n_clusters": 5, "epochs": 2}
    return {"clusters": clusters(), "reductions": reductions(),
            "normalized": normalized(), "step": first_step(), "noise": noise(),
            "trained": trained(), "files": trained(**files)}


def digits(n: int) -> np.ndarray:
    return datasets.load("digits").X[:n]


def clusters() -> dict[str, tuple]:
    """K-means of features of which each process has a part: labels of all, centers, inertia."""
    torch.manual_seed(0)
    middles = torch.randn(12, 16) * 3
    found = {}
    for name, X in {
            "as many as are held": middles.repeat(100, 1)[:901] + torch.randn(901, 16),
            "seeded on a part": middles.repeat(600, 1)[:5001] + torch.randn(5001, 16),
            "far from the origin": middles.repeat(50, 1)[:301] + torch.randn(301, 16) + 1000,
            "too few points": torch.arange(8.0).repeat_interleave(5)[:37, None]}.items():
        with mock.patch.object(clustering, "SEEDED_ON", 2000):
            one = kmeans(distributed.part(X), 12, seed=3)
        assert len(one.labels) - len(X) // distributed.here.size in (0, 1)
        found[name] = (distributed.rows(one.labels), one.centers, one.inertia)
    return found


def reductions() -> dict[str, tuple]:
    """PCA of parts: its numbers, and all reduced features."""
    torch.manual_seed(1)
    X = torch.randn(501, 20) @ torch.randn(20, 20) + 100
    fewer, found = torch.randn(15, 20), {}
    for name, features in {"rows": distributed.part(X), "fewer than features":
                           distributed.part(fewer),
                           "batches": iter(distributed.part(X).split(50))}.items():
        fitted = fit_reduction(features, 8)
        own = distributed.part(fewer if name.startswith("fewer") else X)
        found[name] = (fitted.mean, fitted.components, fitted.variances,
                       distributed.rows(reduce(own, fitted)))
    return found


def normalized() -> dict[str, torch.Tensor]:
    """Batch normalization of parts of a batch: outputs and gradients of all, and what it keeps."""
    torch.manual_seed(2)
    images = 3 * torch.randn(9, 4, 6, 6) + torch.arange(9.0).view(9, 1, 1, 1)
    factors, layer = torch.randn(9, 4, 6, 6), BatchNorm2d(4)
    nn.init.uniform_(layer.weight, 0.5, 1.5)
    own = distributed.part(images).contiguous(memory_format=torch.channels_last).requires_grad_()
    out = layer(own)
    (out * distributed.part(factors)).square().sum().backward()
    distributed.sum_gradients(layer.parameters())
    return {"out": distributed.rows(out.detach()), "images": distributed.rows(own.grad),
            "weight": layer.weight.grad, "bias": layer.bias.grad,
            "mean": layer.running_mean, "variance": layer.running_var}


def first_step() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Gradients of the first step of a training, of all images at once; the weights before it."""
    found: list = []

    def take(number: int, optimizer: torch.optim.Optimizer) -> None:
        parameters = [one for part in optimizer.param_groups for one in part["params"]]
        found[:] = [one.grad.clone() for one in parameters], [one.clone() for one in parameters]

    with before_steps(take):
        DeepCluster(**{**SETTINGS, "batch_size": 301}, epochs=1).fit(digits(301))
    return tuple(found)


def trained(X: Any = None, **more: Any) -> dict[str, Any]:
    """What a training leaves; 303 images in batches of 101, the last of one in each process."""
    held, read = [], [0]
    own_kmeans, own_image = clustering.kmeans, FolderImages._image

    def counting(X: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        held.append(len(X))
        return own_kmeans(X, *arguments, **options)

    def reading(images: FolderImages, *arguments: Any) -> torch.Tensor:
        read[0] += 1
        return own_image(images, *arguments)

    with (mock.patch.object(clustering, "kmeans", counting),
          mock.patch.object(FolderImages, "_image", reading)):
        model = DeepCluster(**{**SETTINGS, "epochs": 4, **more}).fit(
            digits(303) if X is None else X)
    return {"labels": model.labels_, "weights": model.network_.state_dict(), "held": held,
            "read": read[0], "rows": model.history_.rows,
            "assignments": model.assignments_.shape,
            "statistics": torch.stack([model.pixel_mean_, model.pixel_std_])}


def out_of_time(folder: Path, rank: int, port: int) -> str:
    """What ends a command, as under torchrun, whose first process is out of time after an epoch."""
    given = {"CLUSTERBOOK_RUN": "{}", "CLUSTERBOOK_UNTIL": "inf" if rank else "0",
             "TORCHELASTIC_RUN_ID": "a", "TORCHELASTIC_USE_AGENT_STORE": "True",
             "TORCHELASTIC_RESTART_COUNT": "0", "MASTER_ADDR": "localhost",
             "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(SIZE)}
    os.environ.update(given)
    distributed.GRACE = 1
    try:
        return f"{distributed.command(lambda: resumed(folder))}"
    except Exception as error:
        return f"{error}"
    finally:
        for name in given:
            del os.environ[name]


def resumed(folder: Path) -> dict[str, Any]:
    return trained(checkpoint=folder / "checkpoints" / f"{distributed.here.rank}.pt")


def noise() -> tuple[torch.Tensor, torch.Tensor]:
    """Random numbers of torch's own generator, and the next of the shared one."""
    generator = torch.Generator().manual_seed(0)
    distributed.own_noise(generator)
    return torch.rand(4), torch.rand(4, generator=generator)
