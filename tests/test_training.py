"""The training loop on a small network with dropout, batch norm, SGD momentum and Adadelta."""

import io
import json
import os
import sys
import warnings

import numpy as np
import pytest
import torch
from _fits import generators
from _support import put
from torch import nn

from clusterbook import paths, training
from clusterbook.checkpoints import Checkpoint, code_hash, fingerprint
from clusterbook.checks import InputError, OutOfTime
from clusterbook.training import BatchNorm2d, History, TrainingError, seeded, train

# Torch warns of a scheduler that steps first in a process, as it does in a resumed run.
pytestmark = pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
EPOCHS = 6
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no CUDA GPU"))]


def checkpoint_at(path, *, lr=0.1, data="d", code="c", every_seconds=0.0, **more):
    return Checkpoint(path, parameters={"lr": lr, **more}, data=data, code=code,
                      every_seconds=every_seconds)


def fit(seed=0, *, epochs=EPOCHS, stages=(None,), device="cpu", before_step=None, **options):
    """Train the small network; its history and everything that decides what comes next."""
    x = torch.randn(37, 5, generator=torch.Generator().manual_seed(99)).to(device)
    y, history = (x.sum(1) > 0).long(), History()
    with seeded(seed, device) as generator:
        body = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.4))
        state = {"body": body.to(device), "head": nn.Linear(8, 2).to(device)}
        state["sgd"] = torch.optim.SGD(state["body"].parameters(), lr=0.1, momentum=0.9)
        state["adadelta"] = torch.optim.Adadelta(state["head"].parameters())
        state["schedule"] = torch.optim.lr_scheduler.ExponentialLR(state["sgd"], 0.8)

        def step(epoch, x, y):
            if before_step:
                before_step((stage, epoch) if stage else epoch)
            loss = nn.functional.cross_entropy(state["head"](state["body"](x)), y)
            for name in ("sgd", "adadelta"):
                state[name].zero_grad()
            loss.backward()
            for name in ("sgd", "adadelta"):
                state[name].step()
            return {"loss": loss}

        def batches(epoch, size):
            if epoch > 1:
                state["schedule"].step()
            for rows in torch.randperm(37, generator=generator).to(device).split(size):
                yield x[rows], y[rows]

        options = {"batch_size": 8, "batches": batches, **options}
        if on_epoch := options.get("on_epoch"):
            options["on_epoch"] = lambda epoch, row: on_epoch(epoch, row, generator)
        for stage in stages:
            history += train(step, (x, y), epochs=epochs, generator=generator, state=state,
                             stage=stage, **options)
            with torch.no_grad():       # what happens between stages draws random numbers too
                body[0].weight += 0.01 * torch.rand_like(body[0].weight)
        return history, everything(state, generator)


def everything(state, generator):
    """Weights, buffers, optimizers and generators as one text, exact to the last bit."""
    held = {name: part.state_dict() for name, part in state.items()}
    held |= {"shuffling": generator.get_state(), "torch": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        held["cuda"] = torch.cuda.get_rng_state()
    return json.dumps(held, default=lambda tensor: tensor.tolist())


class Stop(Exception):
    """What ends a run in the middle, without the loop's doing."""


def stopping(at, error=Stop, skip=2):
    """Raise in the third step of an epoch, not at its border."""
    seen = []

    def before_step(epoch):
        seen.append(epoch)
        if seen.count(at) > skip:
            raise error

    return before_step


def test_a_gpu_without_kernels_is_left_alone_with_a_warning(monkeypatch):
    ones = torch.ones

    def without_kernels(*shape, device):
        if str(device) == "cuda":
            raise RuntimeError("CUDA error: no kernel image is available for execution\nmore")
        return ones(*shape, device=device)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "ones", without_kernels)
    with pytest.warns(UserWarning, match="training on the CPU: .*no kernel image .*choose the GPU"):
        assert training.resolve_device().type == "cpu"
    with pytest.raises(InputError, match="can't use the device 'cuda' .*no kernel image"):
        training.resolve_device("cuda")


@pytest.mark.parametrize("device", DEVICES)
def test_the_seed_decides_everything_and_the_callers_generators_are_left_as_they_were(device):
    before = generators()
    first, again, other = fit(3, device=device), fit(3, device=device), fit(4, device=device)
    assert first[1] == again[1] and first[0].rows == again[0].rows
    assert first[1] != other[1] and first[0].rows != other[0].rows
    with pytest.raises(Stop):
        fit(None, before_step=stopping(2))
    assert generators() == before


def test_seeds_are_those_of_every_torch():
    # As torch 2.15's randint, and not as that of 2.6, which gives 953453411.
    generator = torch.Generator().manual_seed(5)
    assert training.seeds(generator) == 236996814
    assert training.seeds(generator, (2, 1)).tolist() == [[1423042237], [1562238070]]


def test_shuffling_and_torch_have_different_streams_of_one_seed():
    with seeded(5) as generator:
        shuffling, own = torch.rand(4, generator=generator), torch.rand(4)
    with seeded(5) as generator:
        torch.rand(100)  # must not move the shuffling
        assert torch.equal(torch.rand(4, generator=generator), shuffling)
    with seeded(6) as generator:
        assert not torch.equal(torch.rand(4, generator=generator), shuffling)
    assert not torch.equal(shuffling, own)


@pytest.mark.parametrize(("drop_last", "used"), [(False, 7), (True, 6)])
def test_history_means_equal_a_hand_loop(drop_last, used):
    seen = []

    def step(epoch, batch):
        seen.append(batch.tolist())
        return {"mean": batch.mean(), "largest": batch.max()}

    numbers = torch.arange(7.0, dtype=torch.float64)
    history = train(step, (numbers,), epochs=1, batch_size=3, generator=torch.Generator(), state={},
                    batches=lambda epoch, size: zip(numbers.split(size)), drop_last=drop_last)
    assert sum(seen, []) == list(range(used))
    largest = sum(max(batch) * len(batch) for batch in seen) / used
    assert history.rows == [{"epoch": 1, "mean": (used - 1) / 2, "largest": largest}]


@pytest.mark.parametrize("device", DEVICES)
def test_on_epoch_cannot_disturb_training(device):
    def meddling(epoch, row, generator):
        assert not torch.is_grad_enabled()
        row["loss"] = -1.0
        torch.rand(epoch, generator=generator)
        return {"noise": torch.rand(3, device=device), "drawn": np.arange(2)}

    plain, meddled = fit(device=device), fit(device=device, on_epoch=meddling)
    assert plain[1] == meddled[1]
    assert plain[0].column("loss")[1].tolist() == meddled[0].column("loss")[1].tolist()
    assert meddled[0].rows[0]["drawn"] == [0, 1]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("at", [1, 4, EPOCHS])
def test_a_resumed_run_ends_where_the_uninterrupted_one_does(tmp_path, at, device):
    whole, path = fit(device=device), tmp_path / "new" / "run.pt"
    with pytest.raises(Stop):
        fit(device=device, checkpoint=checkpoint_at(path), before_step=stopping(at))
    started = []
    resumed = fit(device=device, checkpoint=checkpoint_at(path), before_step=started.append)
    assert started[0] == at and resumed[1] == whole[1] and resumed[0].rows == whole[0].rows
    assert sorted(os.listdir(path.parent)) == ["run.json", "run.pt"]


def test_ctrl_c_keeps_the_last_finished_epoch_and_a_finished_run_returns_at_once(tmp_path):
    path, there = tmp_path / "run.pt", []
    stop = stopping(4, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        fit(checkpoint=checkpoint_at(path, every_seconds=1e9),
            before_step=lambda epoch: (there.append(path.exists()), stop(epoch)))
    assert not any(there), "it was saved before"
    assert json.loads((tmp_path / "run.json").read_text())["epoch"] == 3
    started = []
    resumed = fit(checkpoint=checkpoint_at(path), before_step=started.append)
    assert started[0] == 4 and resumed[1] == fit()[1]
    again = fit(checkpoint=checkpoint_at(path), before_step=stopping(1, skip=0))
    assert again[1] == resumed[1] and again[0] == resumed[0]        # seconds too


def test_a_time_budget_stops_after_an_epoch_and_the_next_run_goes_on(tmp_path):
    whole, path, over = fit(), tmp_path / "run.pt", {"stop": lambda: True}
    for epoch in range(1, EPOCHS):
        with pytest.raises(OutOfTime, match=f"stopped after epoch {epoch} of {EPOCHS}"):
            fit(checkpoint=checkpoint_at(path, every_seconds=1000), **over)
        said = json.loads((tmp_path / "run.json").read_text())
        assert (said["epoch"], said["epochs"], len(said["rows"])) == (epoch, EPOCHS, epoch)
        assert said["seconds_an_epoch"] > 0
    last = fit(checkpoint=checkpoint_at(path), **over)      # the last epoch is not stopped
    assert last[1] == whole[1] and last[0].rows == whole[0].rows
    assert fit(**over)[1] == whole[1], "without a checkpoint it could not go on: it isn't stopped"


def test_a_longer_first_stage_voids_the_second(tmp_path):
    stages, at = ("first", "second"), checkpoint_at(tmp_path / "run.pt")
    fit(stages=stages, epochs=3, checkpoint=at)
    assert fit(stages=stages, epochs=4, checkpoint=at)[1] == fit(stages=stages, epochs=4)[1]


def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused_by_name(tmp_path):
    path = tmp_path / "run.pt"
    checkpoint_at(path, sizes=(2, 3), start=np.eye(2)).save({"a": 1})
    same = {"start": torch.eye(2), "sizes": [2, 3]}         # compared by value
    assert checkpoint_at(path, **same).load() == {"a": 1}
    for changed, message in (
            ({"lr": 0.2}, r"the parameter 'lr' was 0.1 and is now 0.2; name another path, or dele"),
            ({"k": 5}, r"the parameter 'k' was absent and is now 5;"),
            ({"lr": 1, "data": "e"}, "'lr' was 0.1 and is now 1, the data differs;"),
            ({"code": "e"}, "run: the code differs;")):
        with pytest.raises(InputError, match=message):
            checkpoint_at(path, **{**same, **changed}).load()
    checkpoint_at(path).save({"weights": torch.arange(500.0)})
    whole = path.read_bytes()
    for place in (0, 40, len(whole) // 2, len(whole) - 1):              # cut, or with a changed bit
        path.write_bytes(whole[:place])
        with pytest.raises(InputError, match=r"run\.pt can't be read.*delete it"):
            checkpoint_at(path).load()
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1:])
        with pytest.raises(InputError, match=r"run\.pt can't be read.*delete it"):
            checkpoint_at(path).load()


def test_a_hash_of_code_is_of_all_that_runs_in_some_folders(tmp_path):
    put(tmp_path, dict.fromkeys(["a/one.py", "a/two.py", "b/one.py"], "x = 1\n"))
    a, b = tmp_path / "a", tmp_path / "b"
    before, both = code_hash(a), code_hash(a, b)
    put(tmp_path, {"a/one.py": "x  =  1     # why\n", "b/one.py": "x = 3\n"})
    assert code_hash(a) == before and code_hash(a, b) != both
    (a / "two.py").unlink()
    assert code_hash(a) != before


def test_fingerprints():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert len({fingerprint(same) for same in (
        x, torch.from_numpy(x), np.asfortranarray(x), torch.tensor(x.T).T)}) == 1
    different = [x, x + np.float32(1e-6), x.T, x.ravel(), x.astype(np.float64), x[:0]]
    assert len({fingerprint(array) for array in different}) == len(different)
    assert fingerprint([1, 2], [3]) != fingerprint([1], [2, 3])


def test_a_large_batch_is_clipped_with_one_warning():
    with warnings.catch_warnings(action="default", record=True) as said:
        assert fit(batch_size=100, drop_last=True)[1] == fit(batch_size=37)[1]
        fit(batch_size=100)         # the next of several stages
    assert [str(one.message) for one in said] == [
        "batch_size 100 is larger than the data; all 37 samples make one batch"]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_loss_that_is_no_number_stops_training(value):
    def step(epoch, x):
        return {"fine": x.mean(), "cost": torch.tensor(value if epoch == 2 else 0.0)}

    with pytest.raises(TrainingError, match=f"cost became {value} in epoch 2"):
        train(step, (torch.zeros(4),), epochs=5, batch_size=2, generator=torch.Generator(),
              state={})


@pytest.mark.parametrize(("environment", "terminal", "shown"), [
    ({}, True, True), ({}, False, False), ({"CLUSTERBOOK_PROGRESS": "off"}, True, False),
    ({"CLUSTERBOOK_PROGRESS": "on"}, False, True), ({"JPY_SESSION_NAME": "a.ipynb"}, False, True),
    ({"COLAB_RELEASE_TAG": "1", "CLUSTERBOOK_PROGRESS": "off"}, False, False)])
def test_the_progress_bar_is_shown_only_to_a_person(monkeypatch, environment, terminal, shown):
    for name in ("CLUSTERBOOK_PROGRESS", "JPY_SESSION_NAME", "COLAB_RELEASE_TAG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stderr", stderr := io.StringIO())
    stderr.isatty = lambda: terminal
    assert paths.bar(1).disable is not shown


def normalized(layer, x):
    """Output, gradients of input, weight and bias, and the running statistics."""
    torch.manual_seed(1)
    nn.init.uniform_(layer.weight, 0.5, 1.5)
    nn.init.uniform_(layer.bias)
    layer = layer.to(x.dtype)
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    weights = torch.randn(x.shape, dtype=torch.float64).to(x.dtype) * 1e-3 + 2e-4
    out = layer(x)
    (out * weights).sum().backward()
    return {"out": out, "images": x.grad, "weight": layer.weight.grad, "bias": layer.bias.grad,
            "mean": layer.running_mean, "variance": layer.running_var,
            "batches": layer.num_batches_tracked}


@pytest.mark.parametrize("n", [256, 2])
def test_batch_norm_is_exact_where_torch_is_not(n):
    torch.manual_seed(0)
    x = torch.randn(n, 16, 28, 28) + 0.7 * torch.randn(1, 16, 1, 1)
    x = x.contiguous(memory_format=torch.channels_last)
    found, exact = normalized(BatchNorm2d(16), x), normalized(nn.BatchNorm2d(16), x.double())
    errors = {name: ((found[name].double() - exact[name]).abs().max() / exact[name].abs().max())
              for name in found}
    assert max(errors.values()) < 2e-6, errors


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])      # and channels first
def test_elsewhere_batch_norm_is_torchs_own(dtype):
    x = torch.randn(8, 16, 28, 28, dtype=dtype)
    found, expected = normalized(BatchNorm2d(16), x), normalized(nn.BatchNorm2d(16), x)
    assert all(torch.equal(found[name], expected[name]) for name in found)


@pytest.mark.parametrize("options", [
    {"momentum": None}, {"track_running_stats": False}, {"affine": False}])
def test_other_settings_of_batch_norm_are_torchs(options):
    x = torch.randn(4, 3, 5, 5).to(memory_format=torch.channels_last)
    assert torch.equal(BatchNorm2d(3, **options)(x), nn.BatchNorm2d(3, **options)(x))


def test_a_stage_that_a_history_lacks_is_named():
    history = History([{"epoch": 1, "stage": "gated", "clean": 0.5}], 1.0)
    assert history.column("clean", "gated")[1].tolist() == [0.5]
    for asked, says in ((("clean", "gatd"), "stage of the history: 'gatd'; did you mean 'gated'"),
                        (("clea", "gated"), "unknown column of the history: 'clea'; did you mean")):
        with pytest.raises(InputError, match=says):
            history.column(*asked)
    both = history + History([{"epoch": 1, "stage": "clustering", "clean": 0.4}], 1.0)
    with pytest.raises(InputError, match="clean belongs to the stages gated, clustering"):
        both.column("clean")
    with pytest.raises(InputError, match="unknown stage of the history: 'gated'. Known: none"):
        History([{"epoch": 1, "clean": 0.5}], 1.0).column("clean", "gated")
