"""One fit by several processes that ``torchrun`` starts: parts of the work, and sums.

``torchrun --nproc_per_node N -m clusterbook run deepcluster`` executes the notebook in rank 0 only.
Each fit there opens a process group, sends the others estimator and data, and all fit together.
They draw the same random numbers and so take the same steps, on parts of each batch.

In one process nothing here does anything. What rank 0 sends is unpickled.
"""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .. import training

#: The number of this process, from 0, among those that fit together.
here = SimpleNamespace(rank=0, size=1)
#: The longest that a rank waits for another one inside a fit.
PATIENCE = timedelta(minutes=30)
_FITS, _END = "fits", "end"         # keys of torchrun's store: how many there were, no more to come


def total(values: Tensor) -> Tensor:
    """The sum of all ranks' *values*, of one shape, the same bits in each; without gradient."""
    if here.size > 1:
        values = values.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(values)
    return values


def sum_gradients(parameters: Iterable[Tensor]) -> None:
    """Replace each parameter's gradient by the sum over the ranks."""
    for parameter in parameters:
        if parameter.grad is not None and here.size > 1:
            parameter.grad.copy_(total(parameter.grad))


def part(rows: Tensor) -> Tensor:
    """This rank's rows of a tensor that all ranks have: equally many in each, to within one."""
    return rows.tensor_split(here.size)[here.rank]


def rows(parts: Tensor, numbers: Tensor | None = None) -> Tensor:
    """The rows of these numbers, or all, of a tensor whose consecutive parts the ranks have."""
    counts = gathered(len(parts))
    if numbers is None:
        numbers = torch.arange(sum(counts), device=parts.device)
    own = numbers - sum(counts[:here.rank])         # numbers in this rank's part
    mine = (own >= 0) & (own < len(parts))
    found = parts.new_zeros(len(numbers), *parts.shape[1:])
    found[mine] = parts[own[mine]]
    return total(found)


def gathered(value: Any) -> list[Any]:
    """Every rank's value, in their order."""
    found = [value] * here.size
    if here.size > 1:
        dist.all_gather_object(found, value)
    return found


def of_first(value: Any) -> Any:
    """The value of rank 0."""
    found = [value]
    if here.size > 1:
        dist.broadcast_object_list(found)
    return found[0]


@torch.no_grad()
def same(*tensors: Tensor) -> None:
    """Replace the values of tensors by those of rank 0."""
    for tensor in tensors if here.size > 1 else ():
        dist.broadcast(tensor, 0)


def own_noise(generator: torch.Generator) -> None:
    """Let torch's global generators draw other noise in each rank; *generator* decides it."""
    if here.rank:
        copy = generator.clone_state()
        seed = int(training.seeds(copy)) + here.rank
        torch.default_generator.manual_seed(seed)
        torch.cuda.manual_seed(seed)                # of this rank's GPU, if there is any


class BatchNorm2d(training.BatchNorm2d):
    """Batch normalization, on any device, by the statistics of the images of all ranks."""

    total = staticmethod(total)

    def _torch_is_exact(self, images: Tensor) -> bool:
        return here.size == 1 and super()._torch_is_exact(images)


@dataclass
class CheckpointOfFirst:
    """The checkpoint of several ranks: all resume from it, and the first one alone saves it."""

    own: Any                                        # None in the others

    def __bool__(self) -> bool:
        return self.own is not None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def load(self) -> dict[str, Any] | None:
        """What the first rank has saved, in each of them."""
        return of_first(self.own and self.own.load())


@contextmanager
def group(store: dist.Store, rank: int, size: int) -> Iterator[None]:
    """Let this process be one of *size* that fit together inside the ``with`` block."""
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)
    here.rank, here.size = rank, size
    try:
        yield
    finally:
        here.rank, here.size = 0, 1
        dist.destroy_process_group()        # others that still wait for this rank get an error


@contextmanager
def together(estimator: Any, X: Any, alone: bool = False) -> Iterator[None]:
    """Have the other ranks of this run fit the same inside the ``with`` block, if there are any."""
    alone = alone or not {"CLUSTERBOOK_RUN", "TORCHELASTIC_RUN_ID"} <= os.environ.keys()
    if alone or here.size > 1 or os.environ["WORLD_SIZE"] == "1":
        yield
        return
    store, rank, size = next(dist.rendezvous("env://"))
    with group(dist.PrefixStore(f"fit{store.add(_FITS, 1)}", store), rank, size):
        of_first((estimator, X))
        yield


def command(run: Callable[[], list[str]]) -> list[str] | None:
    """Rank 0 returns what *run* does, and the others, which serve its fits until it ends, None."""
    store, rank, size = next(dist.rendezvous("env://"))
    if rank:
        return _serve(store, rank, size)
    # torchrun ends a rank by this signal if another one has failed; Ctrl-C leaves no kernel behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run()
    finally:
        store.set(_END, "")


def _serve(store: dist.Store, rank: int, size: int) -> None:
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    served = 0

    def is_over() -> bool:
        """Whether no further fit comes, as soon as that is known."""
        while not store.check([_END]) and store.add(_FITS, 0) == served:
            time.sleep(0.1)
        return store.check([_END])

    while not is_over():
        served += 1
        try:
            with group(dist.PrefixStore(f"fit{served}", store), rank, size):
                estimator, X = of_first(None)
                estimator.set_params(progress=False).fit(X)
        except Exception as error:      # rank 0 gets one too, and decides what follows
            warnings.warn(f"rank {rank} left the fit: {error}", stacklevel=2)
