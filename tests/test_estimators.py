"""What TELL, IDC and DeepCluster share: threads, checkpoints, files, and bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from clusterbook import IDC, TELL, DeepCluster, training
from clusterbook.classifier import train_classifier
from clusterbook.errors import InputError
from clusterbook.evidence import records

X = np.random.default_rng(0).random((60, 64), dtype=np.float32)
Y = np.arange(60) % 3
SHAPE = (1, 8, 8)


def make(kind, **more):
    """A small estimator of that kind."""
    settings = {
        TELL: dict(image_shape=SHAPE, epochs=2, batch_size=20),
        IDC: dict(encdec=[8, 4, 8], clustering_head=[4, 8], aux_classifier=8, gates_hidden_dim=8,
                  epochs=4, ae_non_gated_epochs=1, ae_pretrain_epochs=2, batch_size=20,
                  start_global_gates_training_on_epoch=3),
        DeepCluster: dict(image_shape=SHAPE, n_components=8, epochs=2, batch_size=20, flip=False),
    }[kind]
    return kind(3, **{"random_state": 0, "device": "cpu", **settings, **more})


def classify(**more):
    return train_classifier(X, Y, X, Y, hidden=[8], epochs=2, random_state=0, **more)


TRAINERS = pytest.mark.parametrize("train", [
    *(lambda kind=kind, **more: make(kind, **more).fit(X) for kind in (TELL, IDC, DeepCluster)),
    classify], ids=["TELL", "IDC", "DeepCluster", "classifier"])


@pytest.fixture
def seen(monkeypatch):
    """A caller with two threads, and the number that each training is computed with."""
    numbers, train = [], training.train

    def watched(*arguments, **options):
        numbers.append(torch.get_num_threads())
        return train(*arguments, **options)

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(training, "train", watched)
    monkeypatch.setattr(training, "threads_used", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield numbers
    torch.set_num_threads(before)


# ------------------------------------------------------------------------------------ a quiet guest


@pytest.mark.parametrize("kind", [TELL, IDC, DeepCluster])
def test_nothing_is_printed_or_warned_and_data_are_left_alone(kind, capfd):
    read_only = X.copy()
    read_only.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(kind).fit(read_only, Y).predict(read_only)
    assert capfd.readouterr() == ("", "")
    assert np.array_equal(read_only, X)


# ----------------------------------------------------------------------------------------- threads


@pytest.mark.parametrize(("step", "asked", "named", "number"), [
    (training.SMALL_STEP, None, None, 1),
    (training.SMALL_STEP + 1, None, None, 2),
    (0, None, "2", 2),
    (0, 3, None, 3),
    (0, 3, "2", 3),
    (1e12, 1, None, 1),
])
def test_the_number_of_threads_follows_the_work_and_whoever_names_one(
        seen, monkeypatch, step, asked, named, number):
    if named:
        monkeypatch.setenv("OMP_NUM_THREADS", named)
    pools = {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}
    with pytest.raises(KeyError), training.threads(step, asked) as found:
        assert found == number == torch.get_num_threads()
        assert {pool["num_threads"] for pool in threadpool_info()} == {number}
        raise KeyError
    assert torch.get_num_threads() == 2
    assert {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()} == pools
    assert records.machine()["threads"] == number


@TRAINERS
def test_small_work_takes_one_thread_and_a_checkpoint_goes_on_with_its_number(
        seen, train, tmp_path, monkeypatch):
    path = tmp_path / "run.pt"
    train()
    assert set(seen) == {1} and torch.get_num_threads() == 2
    assert records.machine()["threads"] == 1
    seen.clear()
    train(threads=2, checkpoint=path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    train(checkpoint=path)
    assert set(seen) == {2} and records.machine()["threads"] == 2
    with pytest.raises(InputError, match="the parameter 'threads' was 2 and is now 1"):
        train(threads=1, checkpoint=path)


def test_online_steps_follow_the_rule_too(seen, monkeypatch):
    model, numbers, descend = make(TELL).fit(X), [], TELL._descend
    monkeypatch.setattr(TELL, "_descend", lambda *args: (
        numbers.append(torch.get_num_threads()), descend(*args))[1])
    model.partial_fit(X)
    assert set(numbers) == {1} and torch.get_num_threads() == 2


CHAPTER = dict(encdec=[128, 128, 256, 10, 256, 128, 128], gates_hidden_dim=64,
               clustering_head=[10, 256], aux_classifier=256, batch_size=100)
TABLE = dict(encdec=[64, 64, 10, 64, 64], gates_hidden_dim=64, clustering_head=[10, 256],
             aux_classifier=64)


@pytest.mark.parametrize(("step", "small"), [
    (lambda: TELL(image_shape=SHAPE)._step_size(1797, 64), True),
    (lambda: TELL(image_shape=SHAPE, network="fcn")._step_size(1797, 64), True),
    (lambda: TELL(image_shape=(1, 28, 28))._step_size(70_000, 784), False),
    (lambda: IDC(**CHAPTER)._step_size(1797, 64), True),
    (lambda: IDC(batch_size=250, **TABLE)._step_size(5000, 100), True),
    (lambda: IDC()._step_size(10_000, 784), False),
    (lambda: images(SHAPE, 128), True),
    (lambda: images((3, 32, 32), 64), False),
])
def test_digits_and_tables_are_small_and_mnist_is_not(step, small):
    state = torch.get_rng_state()
    assert 0 < step() and (step() <= training.SMALL_STEP) == small
    assert torch.equal(torch.get_rng_state(), state)


def images(shape, batch_size):
    model = DeepCluster(30, image_shape=shape, n_components=32, batch_size=batch_size)
    return model._step_size(1000, shape)


# ------------------------------------------------------------------ files of models and checkpoints


@pytest.mark.parametrize(("kind", "name"), [(TELL, "tell-mnist-30"), (IDC, "idc-synthetic"),
                                            (DeepCluster, "deepcluster-mnist")])
def test_models_saved_before_there_was_a_number_load(kind, name):
    assert kind.load(records.model_file(f"{name}-seed0"), device="cpu").threads is None


def test_a_model_is_saved_through_a_link_or_refused(tmp_path):
    model, link = make(TELL, threads=1).fit(X), tmp_path / "latest.pt"
    link.symlink_to(tmp_path / "model.pt")
    model.save(link)
    assert link.is_symlink() and TELL.load(link, device="cpu").threads == 1
    content = torch.load(link, weights_only=True)
    for lacks in ("clusterbook", "settings", "weights"):
        torch.save({name: part for name, part in content.items() if name != lacks}, link)
        with pytest.raises(InputError, match=f"no model that TELL.save wrote .*{lacks}"):
            TELL.load(link, device="cpu")
    for path, says in ((tmp_path, "it is a folder"), ("/dev/full", "it is not a file")):
        with pytest.raises(InputError, match=rf"^the model .* can't be written \({says}\); name a"):
            model.save(path)


@TRAINERS
def test_a_path_device_or_number_of_threads_that_cannot_be_is_refused(train, tmp_path):
    (tmp_path / "file").write_text("")
    for options, says in (
            ({"checkpoint": ""}, "^checkpoint must be the path of a file, such as 'run.pt'"),
            ({"checkpoint": tmp_path / "file" / "run.pt"}, "^the checkpoint .* can't be written"),
            ({"device": "meta"}, "^torch can't use the device 'meta' .*; use 'cpu' or 'auto'$"),
            ({"threads": 0}, "threads must be a whole number of at least 1")):
        with pytest.raises(InputError, match=says):
            train(**options)


def test_a_checkpoint_needs_a_seed(tmp_path):
    with pytest.raises(InputError, match="a checkpoint needs random_state, such as 0"):
        make(TELL, checkpoint=tmp_path / "run.pt", random_state=None).fit(X)


@pytest.mark.parametrize("kind", [TELL, IDC, DeepCluster])
def test_a_checkpoint_belongs_to_all_code_of_its_estimator(kind, tmp_path, monkeypatch):
    covered = set()
    monkeypatch.setattr("clusterbook.base.hash_modules", lambda names: covered.update(names) or "")
    make(kind, checkpoint=tmp_path / "run.pt")._checkpoint("data", 0, 1)
    method = kind.__module__.split(".")[1]
    assert {"base", "checkpoints", "metrics", "training", method, f"{method}.networks"} <= covered
    assert not {"datasets", "evidence", "figures", "paths"} & covered
