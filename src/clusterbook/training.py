"""The one training loop: device, threads, seeds, history, exact resume; exact batch norm.

A method brings a function that does everything for one batch and the objects that it changes;
`train` brings the rest. An epoch must follow from its number, from those objects and from torch's
random numbers alone. Then a killed run that is resumed ends bit for bit like an uninterrupted one
(CPU, same machine, threads and versions; on CUDA as far as its kernels are deterministic).
"""

from __future__ import annotations

import copy
import json
import math
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.flop_counter import FlopCounterMode

from . import checks
from .checkpoints import Checkpoint, as_json, threads_of
from .checks import InputError, OutOfTime, unknown
from .paths import bar

#: Multiply-adds of a training step, forward and backward, up to which one thread computes it, about
#: a tenth of a second on one core. Of the recorded runs those on digits of 8 x 8 and on tables lie
#: below (2.0e9 at most), most on MNIST and CIFAR above (from 2.7e9). On two busy cores a second
#: thread made small steps 7 to 45 times slower (each waits for the other) and large ones 1.7 times
#: faster.
SMALL_STEP = 2.5e9


#: Held in a fit: torch has one generator, and one number of threads, for all threads of a process.
_TURN = threading.RLock()


class TrainingError(RuntimeError):
    """Raised when a loss is no longer a finite number, with its name and the epoch."""


# ------------------------------------------------------------------------ device and random numbers


def resolve_device(device: str | torch.device = "auto") -> torch.device:
    """The torch device of that name; ``"auto"`` is CUDA where it works, else the CPU.

    A GPU that torch has no kernels for, such as Kaggle's P100, is left alone with a warning. Raises
    InputError if torch can't write numbers to a named device and read them back.
    """
    by_itself = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        probe = torch.ones(1, device=by_itself if device == "auto" else device)
        probe.item()                                    # "meta" has no numbers
    except Exception as error:                          # torch has several types for it
        reason = str(error).partition("\n")[0].rstrip(".")
        if device != "auto":
            raise InputError(f"torch can't use the device {str(device)!r} ({reason}); use 'cpu' or "
                             "'auto'") from error
        warnings.warn(f"training on the CPU: torch can't use the GPU ({reason}); on Kaggle choose "
                      "the GPU T4", stacklevel=2)
        return torch.device("cpu")
    return probe.device                                 # with its number, if it is a GPU


@contextmanager
def seeded(random_state: object = None, device: str | torch.device = "cpu"
           ) -> Iterator[torch.Generator]:
    """Let *random_state* decide torch's random numbers inside the ``with`` block, and only there.

    Torch's global generators (the CPU's, and the GPU's if *device* is one) are seeded on entry and
    restored on exit; tensors are made on the CPU and in single precision, whatever the caller's
    defaults are. Threads of one process take turns.
    Yields a CPU generator for shuffling, a stream of its own.
    """
    streams = np.random.SeedSequence(checks.as_seed(random_state))
    for_torch, for_shuffling = streams.generate_state(2)
    gpus = _gpus(resolve_device(device))
    # Under a device's context each call of torch takes longer, a small fit a tenth.
    on_cpu = nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu")
    with _TURN, torch.inference_mode(False), on_cpu, torch.random.fork_rng(gpus):
        # torch.manual_seed would seed every GPU, also those that are not restored.
        torch.default_generator.manual_seed(int(for_torch))
        for gpu in gpus:
            torch.cuda.default_generators[gpu].manual_seed(int(for_torch))
        precision = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        try:
            yield torch.Generator().manual_seed(int(for_shuffling))
        finally:
            torch.set_default_dtype(precision)


def seeds(generator: torch.Generator, shape: tuple[int, ...] = ()) -> Tensor:
    """Random seeds from 0 to 2**31 - 1, int64, the same with torch 2.6 as with newer versions.

    For so wide a range ``torch.randint`` of 2.6 gives other numbers.
    """
    return torch.empty(shape, dtype=torch.int64).random_(generator=generator) % 2**31


def _gpus(device: torch.device) -> list[int]:
    """The CUDA device whose random numbers computing on *device* draws, if any."""
    return [device.index] if device.type == "cuda" else []


# -------------------------------------------------------------------------------- number of threads


def multiply_adds(forward: Callable[[Tensor], Any], shape: tuple[int, ...], device: str = "meta"
                  ) -> int:
    """The multiply-adds of *forward*'s matrix products and convolutions; backward takes twice them.

    On the device "meta", on which the networks must lie too, nothing is computed.
    """
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        forward(torch.zeros(shape, device=device))
    return counter.get_total_flops() // 2


@contextmanager
def threads(step: float, asked: int | None = None, checkpoint: str | Path | None = None
            ) -> Iterator[int]:
    """Set the number of threads of torch, BLAS and OpenMP inside the ``with`` block; yields it.

    It decides the last bits of a sum, and after some epochs the clusters. So it follows the work: a
    *step* of at most `SMALL_STEP` multiply-adds is computed by one thread, a larger one by as many
    as torch takes, which heeds OMP_NUM_THREADS. The number *asked* for wins, then the one with
    which an existing *checkpoint* was begun. Raises InputError for a number below 1, or a file that
    is no checkpoint.
    """
    if asked is not None:
        checks.whole("threads", asked, 1)
    with _TURN:
        before = torch.get_num_threads()
        number = int(asked or threads_of(checkpoint) or (1 if step <= SMALL_STEP else before))
        with threadpool_limits(number):
            torch.set_num_threads(number)       # threadpoolctl does not see the MKL inside torch
            try:
                yield number
            finally:
                torch.set_num_threads(before)


# -------------------------------------------------------------------------------------- the history


@dataclass
class History:
    """Measurements of each epoch.

    ``rows`` has one dictionary per epoch, ready for JSON: ``epoch`` (from 1), ``stage`` if the
    stage has a name, the mean of each quantity over the epoch's samples, and what ``on_epoch``
    added. ``seconds`` is the wall time, summed over the pieces of a run that was interrupted,
    ``threads`` the number of torch's threads, the most of several stages; 0 before any.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    threads: int = 0

    def __len__(self) -> int:
        """The number of epochs."""
        return len(self.rows)

    def __add__(self, later: History) -> History:
        """The history of two stages, one after the other."""
        return History(self.rows + later.rows, self.seconds + later.seconds,
                       max(self.threads, later.threads))

    def column(self, name: str, stage: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The epochs (of one stage, if named) that have *name*, and its values there.

        Raises InputError if there are rows, but none with that name, or if several stages have it
        and none is named: each counts its epochs from 1.
        """
        rows = [row for row in self.rows if stage in (None, row.get("stage"))]
        found = [(row["epoch"], row[name]) for row in rows if name in row]
        if len(several := dict.fromkeys(row.get("stage") for row in rows if name in row)) > 1:
            raise InputError(f"{name} belongs to the stages {', '.join(map(str, several))}, and "
                             "each counts its epochs from 1; name one of them, as stage=")
        if self.rows and not rows:
            raise unknown("stage of the history", stage,
                          {row["stage"] for row in self.rows if row.get("stage")})
        if rows and not found:
            raise unknown("column of the history", name, {key for row in rows for key in row})
        return np.array([e for e, _ in found], dtype=int), np.array([v for _, v in found])


# ----------------------------------------------------------------------------------------- the loop


def train(
    step: Callable[..., Mapping[str, Tensor]], tensors: tuple[Tensor, ...], *, epochs: int,
    batch_size: int, generator: torch.Generator, state: dict[str, Any], drop_last: bool = False,
    batches: Callable[[int, int], Iterable[tuple[Tensor, ...]]] | None = None,
    on_epoch: Callable[[int, dict[str, Any]], Mapping[str, Any] | None] | None = None,
    checkpoint: Checkpoint | None = None, stop: Callable[[], bool] | None = None,
    stage: str | None = None, progress: bool | None = None,
) -> History:
    """Train for a number of epochs on tensors in memory, or resume a killed run.

    Modules in *state* are in training mode when an epoch begins, and in evaluation mode during
    *on_epoch* and when training returns. Raises InputError for epochs or a batch size out of range,
    and for another run's checkpoint; TrainingError if a loss is NaN or infinite.

    Parameters
    ----------
    step : callable
        ``step(epoch, *batch)`` does everything for one batch, the optimizer's step included, and
        returns scalar tensors by name, to be averaged over the epoch's samples.
    tensors : tuple of Tensor
        Each (n_samples, ...), on the device; a batch holds the same rows of each.
    epochs, batch_size : int
        A batch larger than the data is clipped, with a warning.
    generator : torch.Generator
        On the CPU; decides the order of the samples. See `seeded`.
    state : dict
        Name to module, optimizer, scheduler: all with ``state_dict`` that *step* changes.
    drop_last : bool
        Leave out a smaller last batch.
    batches : callable, optional
        ``batches(epoch, batch_size)`` yields an epoch's batches, by default all rows of *tensors*
        in a new order; the first tensor of a batch has a row for each of its samples. It may
        replace objects in *state*; its random numbers belong to training.
    on_epoch : callable, optional
        ``on_epoch(epoch, row)`` after the last batch, without gradients, returns more numbers for
        the history's row. Its random numbers do not affect training.
    checkpoint : Checkpoint, optional
        Saved when due, at the end, and, as of the last finished epoch, where training is stopped.
    stop : callable, optional
        Asked after each epoch but the last, if there is a checkpoint, whether the time is over;
        then OutOfTime is raised. Ctrl-C stops training, too.
    stage : str, optional
        This call's name, also in the history's rows; unique where several share one checkpoint: a
        finished stage is restored and skipped.
    progress : bool, optional
        See `bar`.
    """
    checks.whole("epochs", epochs)
    checks.whole("batch_size", batch_size, 1)
    n, device, name = len(tensors[0]), tensors[0].device, stage or "training"
    gpus = _gpus(device)
    if batch_size > n:
        # Of this line, not of its callers': a fit in four stages says it once.
        warnings.warn(f"batch_size {batch_size} is larger than the data; all {n} samples make one "
                      "batch", UserWarning, stacklevel=1)
    batch_size = min(int(batch_size), n)
    n_batches = n // batch_size if drop_last else -(-n // batch_size)

    def shuffled(_epoch: int, size: int) -> Iterator[tuple[Tensor, ...]]:
        for rows in torch.randperm(n, generator=generator).to(device).split(size):
            yield tuple(tensor.index_select(0, rows) for tensor in tensors)

    begun = time.perf_counter()
    earlier, history = _resumed(checkpoint, name, state, generator, gpus)
    history.threads = torch.get_num_threads()
    spent, resumed, unsaved = history.seconds, len(history), None
    try:
        with bar(epochs, name, progress=progress, initial=resumed, unit="epoch") as shown:
            for epoch in range(resumed + 1, epochs + 1):
                _modules(state).train()
                found = (batches or shuffled)(epoch, batch_size)
                means = _one_epoch(step, epoch, islice(found, n_batches))
                row = {"epoch": epoch, **({"stage": stage} if stage else {}), **means}
                if on_epoch:
                    _modules(state).eval()
                    shuffling = generator.get_state()
                    with torch.no_grad(), torch.random.fork_rng(gpus):
                        row |= json.loads(as_json(on_epoch(epoch, dict(row)) or {}))
                    generator.set_state(shuffling)
                history.rows.append(row)
                history.seconds = spent + time.perf_counter() - begun
                if checkpoint:
                    pace = (time.perf_counter() - begun) / (epoch - resumed)
                    unsaved = ({**earlier, name: _snapshot(state, generator, gpus, history)},
                               {"stage": stage, "epoch": epoch, "epochs": epochs,
                                "seconds_an_epoch": pace, "rows": list(history.rows)})
                    if checkpoint.due or epoch == epochs:
                        checkpoint.save(*unsaved)
                        unsaved = None
                    if epoch < epochs and stop is not None and stop():
                        raise OutOfTime(f"stopped after epoch {epoch} of {epochs}, because the "
                                        "time given is over")
                shown.set_postfix({key: f"{means[key]:.4g}" for key in means}, refresh=False)
                shown.update()
    except (KeyboardInterrupt, SystemExit, OutOfTime):
        if unsaved:
            checkpoint.save(*unsaved)
        raise
    _modules(state).eval()
    return history


@torch.enable_grad()      # also where the caller has switched gradients off
def _one_epoch(step: Callable[..., Mapping[str, Tensor]], epoch: int,
               batches: Iterable[tuple[Tensor, ...]]) -> dict[str, float]:
    """Take an epoch's steps; the mean over its samples of each quantity."""
    total, samples = 0.0, 0
    for batch in batches:
        values = step(epoch, *batch)
        scalars = torch.stack([value.detach().reshape(()) for value in values.values()])
        wide = torch.float32 if scalars.device.type == "mps" else torch.float64
        total = total + scalars.to(wide) * len(batch[0])
        samples += len(batch[0])
    means = dict(zip(values, (total / samples).tolist(), strict=True))
    for name, mean in means.items():
        if not math.isfinite(mean):
            raise TrainingError(f"{name} became {mean} in epoch {epoch}: training diverged; lower "
                                "the learning rate, or look for extreme values in the data")
    return means


def _modules(state: Mapping[str, Any]) -> nn.ModuleList:
    return nn.ModuleList(part for part in state.values() if isinstance(part, nn.Module))


def _snapshot(state: Mapping[str, Any], generator: torch.Generator, gpus: list[int],
              history: History) -> dict[str, Any]:
    """Deep copy of all training state."""
    return {"state": {name: copy.deepcopy(part.state_dict()) for name, part in state.items()},
            "shuffling": generator.get_state(), "cpu": torch.get_rng_state(),
            "gpu": [torch.cuda.get_rng_state(gpu) for gpu in gpus],
            "rows": list(history.rows), "seconds": history.seconds}


def _resumed(checkpoint: Checkpoint | None, name: str, state: Mapping[str, Any],
             generator: torch.Generator, gpus: list[int]) -> tuple[dict[str, Any], History]:
    """The snapshots of the stages before this one; this one's history, its state put back."""
    if checkpoint is None:
        return {}, History()
    stages = checkpoint.load() or {}
    earlier = {key: stages[key] for key in takewhile(name.__ne__, stages)}
    if name not in stages:
        return earlier, History()
    stored = stages[name]
    for key, part in state.items():
        part.load_state_dict(stored["state"][key])
    generator.set_state(stored["shuffling"])
    torch.set_rng_state(stored["cpu"])
    for gpu, random_numbers in zip(gpus, stored["gpu"], strict=False):
        torch.cuda.set_rng_state(random_numbers, gpu)
    return earlier, History(list(stored["rows"]), stored["seconds"])


# ---------------------------------------------------------------------------- batch normalization


class BatchNorm2d(nn.BatchNorm2d):
    r"""`torch.nn.BatchNorm2d`, exact also on a CPU with channels last, where convolutions are fast.

    There torch adds up all pixels of a batch one after the other in single precision: with 200,000
    of them its outputs are off by :math:`10^{-4}`. Here each sample is summed by itself, which
    torch does pairwise, and the samples' sums in double precision. That is exact to single
    precision unless a channel's mean is many times its deviation. Elsewhere (GPU, evaluation, other
    types; without statistics, momentum or weights) torch's own is used. Parameters, buffers and
    ``state_dict`` are torch's.
    """

    #: Adds up the sums of several processes, each with a part of the batch; here there is one.
    total = staticmethod(lambda sums: sums)

    def forward(self, images: Tensor) -> Tensor:
        """Normalize *images*, (n_samples, channels, height, width), channel by channel."""
        if not self.training or self._torch_is_exact(images):
            return super().forward(images)
        normalized, mean, variance = _Normalize.apply(images, self.weight, self.bias, self.eps,
                                                      self.total)
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance, self.momentum)
        return normalized

    def _torch_is_exact(self, images: Tensor) -> bool:
        return (images.device.type != "cpu" or images.dtype != torch.float32
                or self.momentum is None or not self.track_running_stats or not self.affine
                or images.numel() // images.shape[1] < 2
                or not images.is_contiguous(memory_format=torch.channels_last))


class _Normalize(torch.autograd.Function):
    """Normalization by the batch's own statistics, and its gradient; also the unbiased variance."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, bias: Tensor, eps: float,
                of_all: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        x = _rows(images)
        n = torch.full((1,), x.shape[0] * x.shape[1], dtype=torch.float64, device=x.device)
        sums = of_all(torch.cat([_total(x), _total(x * x), n]))
        total, squares, n = sums.split([x.shape[2], x.shape[2], 1])
        mean = total / n
        variance = (squares / n - mean.square()).clamp_(min=0)
        ctx.of_all = of_all
        ctx.save_for_backward(images, weight, mean, (variance + eps).rsqrt(), n)
        mean, variance = mean.float(), variance.float()
        unbiased = variance * (n / (n - 1)).float()
        ctx.mark_non_differentiable(mean, unbiased)
        # torch's evaluation form takes the statistics as given: one pass, exact.
        return (nn.functional.batch_norm(images, mean, variance, weight, bias, False, 0.0, eps),
                mean, unbiased)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        images, weight, mean, scale, n = ctx.saved_tensors
        x, dy = _rows(images), _rows(grad.contiguous(memory_format=torch.channels_last))
        own = torch.stack([_total(dy), _total(dy * x)])
        (d_bias, d_weight), (own_bias, own_weight) = (
            (sums[0], (sums[1] - mean * sums[0]) * scale) for sums in (ctx.of_all(own), own))
        # dx = w s (dy - d_bias/n - x̂ d_weight/n) with x̂ = (x - m) s, as a dy + b x + c
        a = weight * scale
        b = -a * scale * d_weight / n
        c = -a * d_bias / n - b * mean
        dx = torch.addcmul(c.float(), dy, a.float()).addcmul_(x, b.float())
        shape = images.shape
        # The gradients of weight and bias are summed with those of all other parameters.
        return (dx.unflatten(1, shape[2:]).permute(0, 3, 1, 2), own_weight.float(),
                own_bias.float(), None, None)


def _rows(images: Tensor) -> Tensor:
    """The pixels as rows, (n_samples, n_pixels, channels): a view of images with channels last."""
    return images.permute(0, 2, 3, 1).flatten(1, 2)


def _total(x: Tensor) -> Tensor:
    """Sum over samples and pixels, float64, (channels,)."""
    return x.sum(1).double().sum(0)
