"""What the tests of TELL, IDC and DeepCluster share: small fits, and their steps."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.base import BaseEstimator
from torch.optim.optimizer import register_optimizer_step_pre_hook

from clusterbook import IDC, TELL, DeepCluster

SHAPE = (1, 8, 8)
X = np.random.default_rng(0).random((60, 64), dtype=np.float32)     # three batches of 20
Y = np.arange(60) % 3
SETTINGS = {
    TELL: {"image_shape": SHAPE, "epochs": 2},
    IDC: {"encdec": [8, 4, 8], "clustering_head": [4, 8], "aux_classifier": 8, "epochs": 4,
          "gates_hidden_dim": 8, "ae_non_gated_epochs": 1, "ae_pretrain_epochs": 2,
          "start_global_gates_training_on_epoch": 3},
    DeepCluster: {"image_shape": SHAPE, "n_components": 8, "epochs": 2, "flip": False},
}


class Takes(BaseEstimator):
    """Holds so many megabytes while it is fitted, and gives them back; another process loads it."""

    def __init__(self, megabytes=0):
        self.megabytes = megabytes

    def fit(self, X, y=None):
        return np.ones(self.megabytes * 2**17).sum()


def written(folder: Path, rows: np.ndarray = X) -> Path:
    """The folder, with these images of 8 x 8 pixels in it."""
    folder.mkdir()
    for number, row in enumerate(rows):
        image = Image.fromarray((row.reshape(8, 8) * 255).round().astype(np.uint8))
        image.save(folder / f"{number:03}.png")
    return folder


def make(kind: type, **more: Any) -> Any:
    """A small estimator of that kind."""
    return kind(**{"n_clusters": 3, "batch_size": 20, "random_state": 0, "device": "cpu",
                   **SETTINGS.get(kind, {}), **more})


def weights(model: Any) -> dict[str, torch.Tensor]:
    """Everything that was learned by gradients, by name."""
    return model._fitted()["weights"]


def same(a: Any, b: Any, *parts: str) -> bool:
    """Whether two models have the same weights, of all networks or of those named."""
    a, b = weights(a), weights(b)
    names = [name for name in a if not parts or name.split(".")[0] in parts]
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in names)


def generators() -> list:
    """The states of the global generators that a training could use.

    Not Python's own: a server that another test left in this process draws from it at any time.
    """
    return [torch.get_rng_state().tolist(), np.random.get_state()[1].tolist()]  # noqa: NPY002


def everything(model: Any) -> tuple:
    """All results of a fit but for seconds, to compare."""
    rows = [{name: value for name, value in row.items() if "seconds" not in name}
            for row in model.history_.rows]
    learned = [getattr(model, name, None) for name in ("loss_", "kept_epoch_", "inertia_")]
    snapshots = [part.state_dict() for part in getattr(model, "_snapshots", {}).values()]
    tensors = [{name: tensor.tolist() for name, tensor in state.items()}
               for state in (weights(model), *snapshots)]
    return (tensors, rows, model.labels_.tolist(), learned,
            np.asarray(getattr(model, "assignments_", ())).tolist())


@contextmanager
def before_steps(call: Callable[[int, Any], None] = lambda *_: None) -> Iterator[list[int]]:
    """Call ``call(number, optimizer)`` before each step of any optimizer; the steps so far."""
    count = [0]

    def hook(optimizer: Any, *_: Any) -> None:
        call(count[0] + 1, optimizer)
        count[0] += 1

    handle = register_optimizer_step_pre_hook(hook)
    try:
        yield count
    finally:
        handle.remove()
