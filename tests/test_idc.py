"""IDC's estimator: its stages and schedules, exact resume, its settings and files, its contract."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import pickle
import random
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch.nn import BatchNorm1d
from torch.optim.optimizer import register_optimizer_step_pre_hook

import clusterbook
from clusterbook import IDC, metrics, training
from clusterbook.datasets import make_synthetic
from clusterbook.errors import InputError
from clusterbook.idc import greedy_accuracy, open_features
from clusterbook.training import Checkpoint

# Checks of scikit-learn that the estimator fails, each with its reason.
EXPECTED_FAILURES = {
    "check_methods_sample_order_invariance": "float32 products round by a row's place in them",
}
X, Y, INFORMATIVE = make_synthetic(15, random_state=0)      # 60 samples: three batches of 20
PARTS = ("autoencoder", "gating", "head", "auxiliary", "global_gates")
EVERY = {"evaluate_every": 1}
# The published configuration as it is printed in the original notebook; indentation put back.
MNIST = """
dataset: MNIST10K
data_dir: idc/data
scaler: MinMaxScaler
batch_size: 100
seeds: 1
epochs: &epochs 700
ae_non_gated_epochs: 10
ae_pretrain_epochs: 300
start_global_gates_training_on_epoch: 400
mask_percentage: 0.9
latent_noise_std: 0.01
trainer:
  devices: 1
  accelerator: gpu
  max_epochs: *epochs
  deterministic: true
  logger: true
  log_every_n_steps: 10
  check_val_every_n_epoch: 10
  enable_checkpointing: false
  num_sanity_val_steps: 0
gtcr_loss: true
gtcr_projection_dim: null # for large number of features use it
gtcr_eps: 1
eps: 0.1
use_gating: true
gates_hidden_dim: 784
encdec: [512, 512, 2048, &bn_layer 10, 2048, 512, 512]
clustering_head: [*bn_layer, 2048]
tau: 100
aux_classifier: [2048]
local_gates_lambda: 1
global_gates_lambda: 0.0001
gtcr_lambda: 0.01
lr:
  pretrain: 1e-3
  clustering: 1e-2
  aux_classifier: 1e-2
sched:
  pretrain_min_lr: 1e-6
  clustering_min_lr: 1e-6
save_seed_checkpoints: false
validate: true
"""


def idc(**options):
    settings = {"n_clusters": 4, "encdec": (12, 4, 12), "clustering_head": (4, 8),
                "aux_classifier": 8, "gates_hidden_dim": 10, "batch_size": 20,
                "ae_non_gated_epochs": 1, "ae_pretrain_epochs": 3,
                "start_global_gates_training_on_epoch": 4, "epochs": 6, "random_state": 0,
                # Large steps and a low temperature: in so few steps clusters would not part.
                "lr_pretrain": 0.01, "lr_clustering": 0.3, "tau": 0.5, "device": "cpu",
                "select": "last"}
    return IDC(**{**settings, **options})


def weights(model):
    return {name: tensor.clone() for name, tensor in model.model_.state_dict().items()}


def same(a, b, *parts):
    """Whether two models have the same weights, of all networks or of those named."""
    a, b = weights(a), weights(b)
    names = [name for name in a if not parts or name.split(".")[0] in parts]
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in names)


def ends_alike(a, b):
    """Whether two models are the same bit for bit, with all that they remember."""
    return (same(a, b) and a.history_.rows == b.history_.rows
            and np.array_equal(a.labels_, b.labels_) and a.kept_epoch_ == b.kept_epoch_
            and [(run["seed"], run["history"].rows) for run in a.runs_]
            == [(run["seed"], run["history"].rows) for run in b.runs_])


@contextmanager
def before_steps(call):
    """Call ``call(number, optimizer)`` before each step of any optimizer, counted from 1."""
    count = [0]

    def hook(optimizer, *_):
        count[0] += 1
        call(count[0], optimizer)

    handle = register_optimizer_step_pre_hook(hook)
    try:
        yield count
    finally:
        handle.remove()


class Frame:
    """A table with named columns, as much as pandas' tables and others' have in common."""

    def __init__(self, columns):
        self.columns, self._values = list(columns), columns
        self.shape = (len(next(iter(columns.values()))), len(columns))

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, name):
        return self._values[name]

    def __array__(self, dtype=None, copy=None):
        return np.column_stack([np.asarray(v, dtype=object) for v in self._values.values()]
                               ).astype(dtype or object)


def frame(X, **more):
    return Frame({**{f"gene {j}": column for j, column in enumerate(X.T)}, **more})


# --- stages and schedules -----------------------------------------------------------------------


def rows_of(model):
    return [(row["stage"], row["epoch"]) for row in model.history_.rows]


def test_the_stages_have_exactly_the_epochs_asked_for():
    model = idc().fit(X)
    assert rows_of(model) == [("reconstruction", 1), ("gated", 1), ("gated", 2), ("clustering", 1),
                              ("global", 1), ("global", 2)]
    published = IDC()._stage_epochs()
    assert published == {"reconstruction": 10, "gated": 290, "clustering": 100, "global": 300}


@pytest.mark.parametrize(("options", "stages"), [
    ({"ae_non_gated_epochs": 0}, "gated gated gated clustering global global"),
    ({"ae_non_gated_epochs": 3}, "reconstruction " * 3 + "clustering global global"),
    ({"start_global_gates_training_on_epoch": 0}, "reconstruction gated gated" + " global" * 3),
    ({"start_global_gates_training_on_epoch": 9}, "reconstruction gated gated" + " clustering" * 3),
    ({"use_gating": False}, "reconstruction " * 3 + "clustering global global"),
    ({"epochs": 3}, "reconstruction gated gated"),
    ({"epochs": 0, "ae_pretrain_epochs": 0, "ae_non_gated_epochs": 0}, ""),
])
def test_stages_follow_from_the_settings(options, stages):
    model = idc(**options).fit(X)
    assert [row["stage"] for row in model.history_.rows] == stages.split()
    assert model.labels_.shape == (60,) and np.array_equal(model.predict(X), model.labels_)


def test_what_each_stage_reports():
    rows = idc(evaluate_every=100, ae_pretrain_epochs=9, start_global_gates_training_on_epoch=10,
               epochs=12).fit(X, Y).history_.rows
    errors = ["clean", "gated", "masked", "latent"]
    seen = {row["stage"]: list(row)[2:] for row in rows}
    assert seen["reconstruction"] == errors
    assert list(rows[1])[2:] == [*errors, "regularizer", "coding_rate"]
    assert seen["gated"][6:] == ["local_gates", "open_local_gates", "overall"]
    assert seen["clustering"] == ["compression"]
    assert {"compression", "cross_entropy", "global_regularizer", "overall", "occupied",
            "local_gates", "open_local_gates", "global_gates", "open_global_gates", "silhouette",
            "davies_bouldin", "acc", "acc_greedy", "nmi", "ari"} <= set(seen["global"])


def test_what_is_reported_is_what_the_model_gives():
    model = idc(batch_norm="gated", **EVERY).fit(X, Y)
    last, z = model.history_.rows[-1], model.transform(X)
    gates = model.local_gates(X)
    assert last["overall"] == 6 and last["occupied"] == len(set(model.labels_))
    assert last["local_gates"] == open_features(gates, original=True, batch_size=20)
    assert last["open_local_gates"] == open_features(gates)
    assert last["global_gates"] == pytest.approx(model.global_gates_.sum(1).mean(), abs=1e-5)
    assert last["open_global_gates"] == (model.global_gates_ > 0).sum(1).mean()
    assert last["acc"] == metrics.accuracy(Y, model.labels_)
    assert last["acc_greedy"] == greedy_accuracy(Y, model.labels_)
    assert last["occupied"] > 1
    assert last["silhouette"] == pytest.approx(metrics.silhouette(z, model.labels_), abs=1e-6)
    assert last["davies_bouldin"] == pytest.approx(metrics.davies_bouldin(z, model.labels_))
    assert model.compression_ == last["compression"] and model.kept_epoch_ == 6


def test_scores_are_evaluated_when_the_epochs_over_all_stages_say():
    model = idc(evaluate_every=2, epochs=7).fit(X)
    assert [row["overall"] for row in model.history_.rows if "overall" in row] == [2, 3, 4, 6, 7]


def test_learning_rates_fall_along_a_cosine_over_the_stages_that_share_an_optimizer():
    rates = {}

    def note(_number, optimizer):
        rates.setdefault(optimizer, []).append(optimizer.param_groups[0]["lr"])

    with before_steps(note):
        idc(lr_pretrain=0.3, lr_clustering=0.2, lr_aux_classifier=0.1, sched_pretrain_min_lr=0.01,
            sched_clustering_min_lr=0.02).fit(X)
    pretraining, head, auxiliary = rates.values()
    for found, high, low in ((pretraining, 0.3, 0.01), (head, 0.2, 0.02)):
        assert len(found) == 9                              # three epochs of three batches
        expected = [low + (high - low) * (1 + math.cos(math.pi * t / 9)) / 2 for t in range(9)]
        assert found == pytest.approx(expected, abs=1e-9)
    assert auxiliary == [0.1] * 6


def test_sparsity_is_asked_for_ever_more():
    asked = []
    sparse, plain = IDC._sparse_loss, IDC._reconstruction

    def noting(model, networks, batch, weight):
        asked.append(weight)
        return sparse(model, networks, batch, weight)

    def noting_plain(model, networks, batch, gates=None):
        if gates is None:
            asked.append(None)
        return plain(model, networks, batch, gates)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IDC, "_sparse_loss", noting)
        patch.setattr(IDC, "_reconstruction", noting_plain)
        idc(local_gates_lambda=8.0, ae_pretrain_epochs=5, epochs=5).fit(X)
    assert asked[:3] == [None] * 3                          # without gates
    expected = [8 * 0.5 * (1 - math.cos(math.pi * t / 4)) for t in (1, 2, 3, 4)]
    assert asked[3:] == pytest.approx(np.repeat(expected, 3))
    assert asked[3] < asked[-1] == 8


def test_more_sparsity_closes_gates_and_none_leaves_them_open():
    counts = [idc(ae_pretrain_epochs=30, epochs=30, local_gates_lambda=weight, gtcr_lambda=0.0,
                  lr_pretrain=0.01).fit(X).history_.column("local_gates")[1][-1]
              for weight in (0.0, 1.0, 30.0)]
    assert counts[0] > counts[1] > counts[2]
    assert counts[0] > 5 and counts[2] < 2


@pytest.mark.parametrize("batch_norm", ["gated", "mixed"])
def test_the_encoder_and_its_gates_are_frozen_in_the_second_training(batch_norm):
    before, after = (idc(batch_norm=batch_norm, epochs=epochs).fit(X) for epochs in (3, 6))
    assert same(before, after, "autoencoder", "gating")
    assert not same(before, after, "head") and not same(before, after, "global_gates")
    assert not same(before, after, "auxiliary")
    assert np.array_equal(before.transform(X), after.transform(X))
    assert np.array_equal(before.local_gates(X), after.local_gates(X))


def test_the_head_alone_moves_before_the_global_gates_do():
    before, after = (idc(batch_norm="gated", **more).fit(X) for more in (
        {"epochs": 3}, {"start_global_gates_training_on_epoch": 6}))
    assert same(before, after, "autoencoder", "gating", "auxiliary", "global_gates")
    assert not same(before, after, "head")


def test_as_released_the_weights_are_frozen_but_the_averages_drift():
    before, after = (idc(batch_norm="drifting", epochs=epochs).fit(X) for epochs in (3, 6))
    a, b = weights(before), weights(after)
    moved = {name.rpartition(".")[2] for name in a
             if name.startswith(("autoencoder", "gating")) and not torch.equal(a[name], b[name])}
    assert moved == {"running_mean", "running_var", "num_batches_tracked"}


def test_calibration_makes_the_encoder_see_gated_samples_as_one_batch():
    model = idc()._new_model(13)
    with torch.no_grad(), training.seeded(0):
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    gated = torch.as_tensor(X) * 0.5
    model.eval()
    mixed = model.embed(gated)
    model.calibrate(gated)
    assert not model.training and not any(part.training for part in model.modules())
    by_itself = copy.deepcopy(model.autoencoder).train().encoder(gated)
    # A running variance divides by n - 1, a batch's own by n.
    torch.testing.assert_close(model.embed(gated), by_itself.detach(), rtol=0.05, atol=0.05)
    assert not torch.allclose(mixed, by_itself, rtol=0.05, atol=0.05)
    assert {layer.momentum for layer in model.modules() if isinstance(layer, BatchNorm1d)} == {0.1}


def test_the_clusters_that_the_classifier_learns_are_the_heads(monkeypatch):
    taught = []
    whole = IDC._global_loss

    def noting(settings, model, gated, labels):
        taught.append((gated, labels))
        assert not gated.requires_grad and not labels.is_floating_point()
        return whole(settings, model, gated, labels)

    monkeypatch.setattr(IDC, "_global_loss", noting)
    model = idc(lr_clustering=1e-9, sched_clustering_min_lr=0.0).fit(X)
    samples = torch.cat([gated for gated, _ in taught[:3]])
    expected = torch.as_tensor(X * model.local_gates(X))
    assert torch.equal(samples.unique(dim=0), expected.unique(dim=0))


# --- switches -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "gone"), [
    ({"use_gating": False}, {"regularizer", "coding_rate"}),
    ({"gtcr_loss": False}, {"coding_rate"}), ({"mask_percentage": 0.0}, {"masked"}),
    ({"latent_noise_std": 0}, {"latent"})], ids=lambda value: "-".join(sorted(map(str, value))))
def test_a_switch_leaves_its_part_out_of_the_loss(options, gone):
    columns = [{name for row in model.history_.rows for name in row}
               for model in (idc().fit(X), idc(**options).fit(X))]
    assert columns[0] - columns[1] - {"silhouette", "davies_bouldin"} == gone


def test_without_gating_all_features_are_let_through():
    model = idc(use_gating=False).fit(X)
    assert np.array_equal(model.local_gates(X), np.ones_like(X))
    assert model.history_.rows[-1]["local_gates"] == 13
    assert not any(name.startswith("gating") for name in weights(model))


def test_weight_zero_is_the_same_as_a_term_left_out():
    # The coding rate draws no random numbers, so everything else is the same.
    assert same(idc(gtcr_lambda=0.0).fit(X), idc(gtcr_loss=False).fit(X))


@pytest.mark.parametrize("options", [
    {"gate_noise": 0.5}, {"regularizer": "paper"}, {"reconstruction": "l1"},
    {"compression": "paper"}, {"batch_norm": "mixed"}, {"batch_norm": "gated"}, {"tau": 1.0},
    {"gtcr_projection_dim": 5}, {"gtcr_eps": 0.5}, {"eps": 0.5}, {"gtcr_lambda": 1.0},
    {"local_gates_lambda": 9.0}, {"global_gates_lambda": 9.0}, {"mask_percentage": 0.5},
    {"latent_noise_std": 0.5}, {"precision": "bfloat16"}, {"lr_pretrain": 0.02},
    {"lr_clustering": 0.1}, {"lr_aux_classifier": 0.1}, {"sched_pretrain_min_lr": 1e-3},
    {"sched_clustering_min_lr": 0.01}], ids=str)
def test_every_setting_changes_what_is_learnt(options):
    assert not same(idc().fit(X), idc(**options).fit(X))


def test_a_projection_is_kept_with_the_weights_and_is_the_seeds():
    one, two, other = (idc(gtcr_projection_dim=5, random_state=seed).fit(X) for seed in (0, 0, 1))
    assert one.model_.projection.shape == (13, 5)
    assert torch.equal(one.model_.projection, two.model_.projection)
    assert not torch.equal(one.model_.projection, other.model_.projection)


# --- what is kept -------------------------------------------------------------------------------


@pytest.mark.parametrize(("select", "column", "best"), [("silhouette", "silhouette", max),
                                                        ("loss", "compression", min)])
def test_the_kept_epoch_is_the_best_of_the_last_stage_without_classes(select, column, best):
    options = {"epochs": 12, "lr_clustering": 0.5, "batch_norm": "gated", **EVERY}
    model, last = idc(select=select, **options).fit(X, Y), idc(**options).fit(X, Y)
    rows = [row for row in model.history_.rows if row["stage"] == "global" and column in row]
    assert len(rows) > 3
    kept = next(row for row in rows if row["overall"] == model.kept_epoch_)
    assert kept[column] == best(row[column] for row in rows)
    assert metrics.accuracy(Y, model.labels_) == kept["acc"]
    assert model.history_.rows == last.history_.rows and last.kept_epoch_ == 12
    assert model.kept_epoch_ != 12 and not same(model, last)
    assert np.array_equal(model.predict(X), model.labels_)


@pytest.mark.parametrize(("select", "column", "best", "seed"), [
    ("silhouette", "silhouette", max, 3), ("loss", "compression", min, 2)])
def test_an_epoch_before_the_last_stage_is_never_kept(select, column, best, seed):
    model = idc(select=select, epochs=12, start_global_gates_training_on_epoch=9, random_state=seed,
                lr_clustering=0.5, batch_norm="gated", **EVERY).fit(X)
    rows = [row for row in model.history_.rows if column in row]
    assert best(rows, key=lambda row: row[column])["stage"] == "clustering"
    last = [row for row in rows if row["stage"] == "global"]
    assert model.kept_epoch_ == best(last, key=lambda row: row[column])["overall"]


@pytest.mark.parametrize("select", ["last", "loss", "silhouette"])
def test_classes_never_decide_anything(select):
    options = {"select": select, "epochs": 9, "seeds": 2, **EVERY}
    without = idc(**options).fit(X)
    for y in (Y, np.array(["a", "b"] * 30)):
        scored = idc(**options).fit(X, y)
        assert same(without, scored) and without.kept_epoch_ == scored.kept_epoch_
        assert np.array_equal(without.labels_, scored.labels_)
        assert [run["kept_epoch"] for run in without.runs_] == [run["kept_epoch"]
                                                                for run in scored.runs_]
    assert not any("acc" in row for row in without.history_.rows)
    assert any("acc" in row for row in scored.history_.rows)


def test_classes_are_not_looked_at_unless_asked_to_validate():
    model = idc(validate=False).fit(X, Y)
    assert not any("acc" in row for row in model.history_.rows) and same(model, idc().fit(X, Y))


def test_several_seeds_are_the_runs_that_each_would_be_alone():
    together = idc(seeds=3, evaluate_every=3).fit(X)
    alone = [idc(random_state=seed).fit(X) for seed in range(3)]
    assert [run["seed"] for run in together.runs_] == [0, 1, 2]
    stages = [[row["stage"] for row in run["history"].rows] for run in together.runs_]
    assert stages[1][0] == "seed 2: reconstruction"
    assert [run["compression"] for run in together.runs_] == [m.compression_ for m in alone]
    best = min(alone, key=lambda model: model.compression_)
    assert same(together, best) and together.compression_ == best.compression_


# --- randomness ---------------------------------------------------------------------------------


def test_the_seed_decides_everything_and_another_gives_another():
    one, two, other = (idc(random_state=seed).fit(X) for seed in (3, 3, 4))
    assert ends_alike(one, two)
    for part in PARTS:
        assert not same(one, other, part)


def test_the_callers_random_numbers_are_left_alone():
    torch.manual_seed(1), np.random.seed(1), random.seed(1)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    model = idc(select="silhouette", gtcr_projection_dim=4, **EVERY).fit(X)
    model.predict(X), model.local_gates(X)
    assert torch.equal(torch.get_rng_state(), before[0]) and random.getstate() == before[2]
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    torch.manual_seed(2)
    assert same(model, idc(select="silhouette", gtcr_projection_dim=4, **EVERY).fit(X))


def test_how_often_it_is_looked_at_does_not_matter():
    assert same(idc(**EVERY).fit(X), idc(evaluate_every=1000).fit(X))


# --- resume -------------------------------------------------------------------------------------


RUNS = {
    # Steps of the stages' epochs: 3; 3, 3; 3; 6, 6.
    "usual": ({}, [2, 5, 11, 20]),
    "silhouette": ({"select": "silhouette", "epochs": 8, **EVERY}, [32]),
    "frozen": ({"batch_norm": "gated", "select": "loss", **EVERY}, [11, 20]),
    "two seeds": ({"seeds": 2, "gtcr_projection_dim": 4}, [35]),
    "without gates": ({"use_gating": False}, [5]),
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kill_9_loses_nothing_in_any_stage(tmp_path):
    """Each run is killed at each of its deaths, started again, and ends like one never stopped."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, __file__, str(tmp_path)], env=environment, check=True,
                          capture_output=True, text=True, timeout=600)
    for name, report in json.loads(done.stdout).items():
        assert report["signals"] == [signal.SIGKILL] * len(RUNS[name][1]) + [0], name
        for death, begun in zip(RUNS[name][1], report["begun"], strict=True):
            # Nothing that was finished is done again: at most the six steps of an epoch.
            assert death - 6 < begun <= death, name
        assert report["end"] == report["whole"], name
        assert report["steps_of_another_fit"] == 0


def everything(model):
    """All that a fit leaves, in a form that one process can hand to another."""
    digest = hashlib.sha256()
    for name, tensor in weights(model).items():
        digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return {"weights": digest.hexdigest(), "labels": model.labels_.tolist(),
            "kept": model.kept_epoch_, "rows": [run["history"].rows for run in model.runs_]}


def doomed(folder, options, done, at):
    """Fit in this process until SIGKILL strikes before a step, *done* steps being on disk."""
    def call(number, _optimizer):
        if done + number == at:
            os.kill(os.getpid(), signal.SIGKILL)

    with before_steps(call) as counted:
        model = idc(**options, checkpoint=folder / "run.pt").fit(X, Y)
    (folder / "steps").write_text(str(counted[0]))
    (folder / "end.json").write_text(json.dumps(everything(model)))


def begins(options, at):
    """The steps that were on disk when a run died before the step *at*: its finished epochs'."""
    lengths, finished = idc(**options)._stage_epochs(), 0
    for _ in range(options.get("seeds", 1)):
        for stage, epochs in lengths.items():
            for _ in range(epochs):
                steps = 6 if stage == "global" else 3
                if finished + steps >= at:
                    return finished
                finished += steps
    return finished


def nursery(root):
    """Import torch once, fork one child after the other, and report how each of them ended."""
    torch.set_num_threads(1)
    Checkpoint.due = property(lambda _self: True)
    reports = {}
    for name, (options, deaths) in RUNS.items():
        folder = root / name
        folder.mkdir()
        report = {"signals": [], "begun": [begins(options, at) + 1 for at in deaths],
                  "whole": everything(idc(**options).fit(X, Y))}
        for before, at in zip([0, *deaths], [*deaths, None], strict=True):
            child = os.fork()
            if child == 0:
                doomed(folder, options, begins(options, before) if before else 0, at)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            report["signals"].append(os.WTERMSIG(status) if os.WIFSIGNALED(status) else status)
        report["end"] = json.loads((folder / "end.json").read_text())
        total = begins(options, 10**6)
        assert int((folder / "steps").read_text()) == total - begins(options, deaths[-1])
        with before_steps(lambda *_: None) as counted:
            assert everything(idc(**options, checkpoint=folder / "run.pt").fit(X, Y)) == report[
                "whole"]
        reports[name] = {**report, "steps_of_another_fit": counted[0]}
    print(json.dumps(reports))


@pytest.mark.parametrize(("changed", "says"), [
    ({"tau": 50.0}, "the parameter 'tau' was 0.5 and is now 50.0"),
    ({"encdec": (11, 4, 12)}, "the parameter 'encdec' was"),
    ({"random_state": 1}, "the parameter 'seed' was 0 and is now 1")])
def test_another_runs_checkpoint_is_refused_before_training(tmp_path, changed, says):
    path = tmp_path / "run.pt"
    idc(checkpoint=path).fit(X)
    before = path.read_bytes()
    with before_steps(lambda *_: None) as counted, pytest.raises(InputError, match=says):
        idc(**{"checkpoint": path, **changed}).fit(X)
    assert counted[0] == 0 and path.read_bytes() == before
    with pytest.raises(InputError, match="the data differs"):
        idc(checkpoint=path).fit(X + 1)
    with pytest.raises(InputError, match="needs random_state, such as 0"):
        idc(checkpoint=path, random_state=None).fit(X)


def test_a_checkpoint_of_other_code_is_refused(tmp_path, monkeypatch):
    kept = {"epochs": 3, "checkpoint": tmp_path / "run.pt"}
    idc(**kept).fit(X)
    monkeypatch.setattr("clusterbook.base.hash_modules", lambda names: "other")
    with pytest.raises(InputError, match="the code differs"):
        idc(**kept).fit(X)


# --- what was learnt ----------------------------------------------------------------------------


def test_it_finds_clusters_and_their_features():
    """Each of three features tells a cluster from the others; the rest are faint noise."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 60)
    data = 0.2 * rng.standard_normal((180, 8))
    data[np.arange(180), y] += 3
    data = (data - data.mean(0)) / data.std(0)
    data[:, 3:] *= 0.01
    model = idc(n_clusters=3, encdec=(32, 3, 32), clustering_head=(3, 32), batch_size=30, epochs=80,
                ae_non_gated_epochs=5, ae_pretrain_epochs=50, tau=1.0, lr_clustering=0.01,
                start_global_gates_training_on_epoch=80, evaluate_every=50,
                batch_norm="gated", local_gates_lambda=3.0).fit(data)
    assert metrics.accuracy(y, model.labels_) > 0.9
    gates = model.local_gates(data)
    own, informative = gates[np.arange(180), y].mean(), gates[:, :3].mean()
    assert own > 0.35 and own > 2 * informative and gates[:, 3:].mean() < 0.05


def test_shapes_and_ranges_of_what_was_learnt():
    model = idc().fit(X)
    assert model.labels_.dtype == np.int64 and set(model.labels_) <= set(range(4))
    assert np.array_equal(model.predict(X), model.labels_)
    assert np.array_equal(idc().fit_predict(X), model.labels_)
    assert model.transform(X[:7]).shape == (7, 4)
    assert list(model.get_feature_names_out()) == ["idc0", "idc1", "idc2", "idc3"]
    assert model.reconstruct(X[:7]).shape == (7, 13)
    gates = model.local_gates(X)
    assert gates.shape == X.shape and 0 <= gates.min() < gates.max() <= 1
    assert model.global_gates_.shape == (4, 13)
    assert np.array_equal(model.local_gates(X), gates)
    one = np.concatenate([model.predict(X[i:i + 1]) for i in range(60)])
    assert np.array_equal(one, model.labels_)


def test_the_embedding_is_of_the_gated_sample():
    model = idc(ae_pretrain_epochs=20, epochs=22).fit(X)
    gated = torch.as_tensor(X * model.local_gates(X))
    with torch.no_grad():
        expected = model.model_.autoencoder.encoder(gated).numpy()
        plain = model.model_.autoencoder.encoder(torch.as_tensor(X)).numpy()
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-6)
    assert np.abs(plain - expected).max() > 1e-3


def test_selected_features_are_those_with_an_open_global_gate_widest_first():
    model = idc().fit(X)
    with torch.no_grad():
        weight = torch.full((4, 13), -2.0)
        weight[1, [7, 2, 5]] = torch.tensor([0.3, 2.0, -0.2])
        model.model_.global_gates.weight.copy_(weight)
    assert model.selected_features(1).tolist() == [2, 7, 5]
    assert model.selected_features(1, threshold=0.4).tolist() == [2, 7]
    assert model.selected_features(0).tolist() == []
    with pytest.raises(InputError, match="no cluster 4; they are 0 to 3"):
        model.selected_features(4)
    with pytest.raises(InputError, match="threshold must be from 0 to below 1, not 1"):
        model.selected_features(1, threshold=1)
    with pytest.raises(NotFittedError):
        idc().selected_features(0)


def test_global_gates_can_be_moved_by_a_larger_weight():
    usual = idc(epochs=20).fit(X)
    pressed = idc(epochs=20, global_gates_lambda=2e3, lr_aux_classifier=1.0).fit(X)
    assert np.abs(usual.global_gates_ - 0.5).max() < 0.1    # where they began
    assert pressed.global_gates_[np.unique(pressed.labels_)].mean() < 0.3


def test_a_saved_model_is_the_same_model(tmp_path):
    model = idc(select="silhouette", gtcr_projection_dim=4, **EVERY).fit(X)
    model.save(tmp_path / "model.pt")
    torch.manual_seed(5)
    before = torch.get_rng_state()
    loaded = IDC.load(tmp_path / "model.pt", device="cpu")
    assert torch.equal(torch.get_rng_state(), before)
    assert same(model, loaded) and np.array_equal(loaded.predict(X), model.labels_)
    assert np.array_equal(loaded.local_gates(X), model.local_gates(X))
    assert np.array_equal(loaded.global_gates_, model.global_gates_)
    assert (loaded.kept_epoch_, loaded.compression_) == (model.kept_epoch_, model.compression_)
    assert {k: v for k, v in loaded.get_params().items() if k not in ("random_state", "encdec",
            "clustering_head")} == {k: v for k, v in model.get_params().items() if k not in
                                    ("random_state", "encdec", "clustering_head")}
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.labels_)


def test_the_model_of_each_seed_is_saved_where_asked(tmp_path, monkeypatch):
    folder = tmp_path / "made" / "for this"
    model = idc(seeds=2, save_seed_checkpoints=folder).fit(X)
    assert sorted(path.name for path in folder.iterdir()) == ["idc-seed0.pt", "idc-seed1.pt"]
    for seed in (0, 1):
        loaded, alone = IDC.load(folder / f"idc-seed{seed}.pt"), idc(random_state=seed).fit(X)
        assert same(loaded, alone) and np.array_equal(loaded.predict(X), alone.labels_)
    assert same(model, min((idc(random_state=seed).fit(X) for seed in (0, 1)),
                           key=lambda one: one.compression_))
    monkeypatch.chdir(tmp_path)
    idc(save_seed_checkpoints=True).fit(X)
    assert (tmp_path / "idc-seed0.pt").is_file()
    with before_steps(lambda *_: None) as counted, pytest.raises(
            InputError, match="can't be created"):
        idc(save_seed_checkpoints=str(tmp_path / "idc-seed0.pt")).fit(X)
    assert counted[0] == 0


def test_a_saved_model_remembers_the_columns_that_were_left_out(tmp_path):
    with pytest.warns(UserWarning, match="constant"):
        model = idc().fit(FLAT)
    model.save(tmp_path / "model.pt")
    loaded = IDC.load(tmp_path / "model.pt")
    assert np.array_equal(loaded.local_gates(FLAT), model.local_gates(FLAT))
    assert np.array_equal(loaded.used_features_, model.used_features_)


def test_a_file_that_is_no_model_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        IDC.load(tmp_path / "none.pt")
    (tmp_path / "text.pt").write_text("hello")
    torch.save({"clusterbook": "TELL"}, tmp_path / "tell.pt")
    for name in ("text.pt", "tell.pt"):
        with pytest.raises(InputError, match=r"is no model that IDC\.save wrote"):
            IDC.load(tmp_path / name)


# --- configuration files ------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path):
    def write(text=MNIST, **changes):
        content = {**yaml.safe_load(text), **changes}
        path = tmp_path / "cfg.yaml"
        path.write_text(text if not changes else yaml.safe_dump(content))
        return path

    return write


def settings_of(model):
    return {name: list(value) if isinstance(value, tuple) else value
            for name, value in model.get_params().items()}


def test_the_published_file_gives_the_defaults_and_says_what_it_leaves_out(config):
    with pytest.warns(UserWarning) as caught:
        model = IDC.from_config(config())
    assert settings_of(model) == settings_of(IDC(constant_columns="keep"))
    text = str(caught[0].message)
    for name in ("dataset", "data_dir", "scaler", "trainer.devices",
                 "trainer.deterministic", "trainer.logger", "trainer.log_every_n_steps",
                 "trainer.enable_checkpointing", "trainer.num_sanity_val_steps"):
        assert name in text
    for name in ("max_epochs", "check_val_every_n_epoch", "accelerator", "gtcr", "save"):
        assert name not in text


def test_every_key_of_the_original_is_a_keyword(config):
    keys = {f"{key}_{inner}" if key != "trainer" else key: None
            for key, value in yaml.safe_load(MNIST).items()
            for inner in (value if isinstance(value, dict) else [""])}
    keys = {key.rstrip("_") for key in keys}
    ignored = {"dataset", "data_dir", "scaler", "trainer"}
    assert keys - ignored <= set(IDC().get_params())


@pytest.mark.filterwarnings("ignore:.*ignored")
def test_values_of_a_file_reach_the_estimator(config):
    trainer = {"max_epochs": 90, "check_val_every_n_epoch": 7, "accelerator": "cpu"}
    model = IDC.from_config(config(
        epochs=90, trainer=trainer, num_clusters=3, gtcr_loss=False, use_gating=False, tau=2,
        gtcr_projection_dim=64, lr={"pretrain": "2e-4"}, sched={"clustering_min_lr": 0.5},
        encdec=[9, 5, 9], clustering_head=[5, 7], validate=False, seeds=2,
        save_seed_checkpoints=True,
        ae_pretrain_epochs=50, start_global_gates_training_on_epoch=60), random_state=4, tau=3.0)
    found = settings_of(model)
    expected = {"epochs": 90, "evaluate_every": 7, "device": "cpu", "n_clusters": 3,
                "gtcr_loss": False, "use_gating": False, "gtcr_projection_dim": 64,
                "lr_pretrain": 2e-4, "lr_clustering": 1e-2, "sched_clustering_min_lr": 0.5,
                "encdec": [9, 5, 9], "clustering_head": [5, 7], "validate": False, "seeds": 2,
                "ae_pretrain_epochs": 50, "random_state": 4, "tau": 3.0,
                "save_seed_checkpoints": True, "constant_columns": "keep"}
    assert {name: found[name] for name in expected} == expected
    model.set_params(seeds=1, epochs=3, ae_pretrain_epochs=2, ae_non_gated_epochs=1, batch_size=20,
                     save_seed_checkpoints=False)
    assert model.fit(X, Y).labels_.shape == (60,)


@pytest.mark.parametrize(("changes", "says"), [
    ({"gtcr_los": True}, "no key in the configuration .*'gtcr_los'; did you mean 'gtcr_loss'"),
    ({"lr": {"pretrain": 1e-3, "gates": 1}}, r"'lr\.gates'"),
    ({"lr": 0.1}, "lr in the configuration .* must have keys of its own"),
    ({"epochs": 5}, "700 .* make the two equal"),
    ({"trainer": {"accelerator": "abacus"}}, "no accelerator 'abacus'"),
])
@pytest.mark.filterwarnings("ignore:.*ignored")
def test_a_file_that_the_original_would_not_know_is_refused(config, changes, says):
    with pytest.raises(InputError, match=says):
        IDC.from_config(config(**changes))


def test_a_file_that_is_no_configuration_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no configuration file"):
        IDC.from_config(tmp_path / "none.yaml")
    for content, says in (("- 1\n- 2", "must be keys with values"), ("{a: [", "can't be read"),
                          ("", "must be keys with values")):
        (tmp_path / "cfg.yaml").write_text(content)
        with pytest.raises(InputError, match=says):
            IDC.from_config(tmp_path / "cfg.yaml")
    with pytest.raises(TypeError):
        IDC.from_config(_written(tmp_path, "epochs: 5"), no_such_keyword=1)


def _written(folder, text):
    (folder / "cfg.yaml").write_text(text)
    return folder / "cfg.yaml"


def test_a_file_without_surprises_warns_of_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = IDC.from_config(_written(tmp_path, "lr: {pretrain: 1e-3}\nnum_clusters: 2"))
    assert (model.n_clusters, model.lr_pretrain) == (2, 1e-3)


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "says"), [
    ({"n_clusters": 61}, "n_clusters=61 exceeds n_samples=60; ask for fewer"),
    ({"n_clusters": 0}, "n_clusters must be a whole number of at least 1, not 0"),
    ({"batch_size": 1}, "batch_size must be a whole number of at least 2, not 1"),
    ({"batch_size": 2.5}, "batch_size must be a whole number"),
    ({"epochs": -1}, "epochs must be a whole number of at least 0"),
    ({"epochs": 2}, "=1, ae_pretrain_epochs=3 and epochs=2 must not decrease"),
    ({"ae_non_gated_epochs": 4}, "gated_epochs=4, ae_pretrain_epochs=3 and epochs=6 must not"),
    ({"mask_percentage": 90}, "mask_percentage is a fraction from 0 to below 1, not 90"),
    ({"mask_percentage": 1.0}, "to below 1, not 1.0"),
    ({"latent_noise_std": -0.1}, "latent_noise_std must be a number at least 0"),
    ({"tau": 0.0}, "tau must be a number above 0, not 0.0"),
    ({"eps": float("nan")}, "eps must be a number above 0, not nan"),
    ({"lr_pretrain": "1e-3"}, "lr_pretrain must be a number above 0, not '1e-3'"),
    ({"gtcr_eps": 0}, "gtcr_eps must be a number above 0"),
    ({"gtcr_projection_dim": 0}, "gtcr_projection_dim must be a whole number of at least 1"),
    ({"local_gates_lambda": float("inf")}, "local_gates_lambda must be a number at least 0"),
    ({"gtcr_loss": "yes"}, "gtcr_loss must be True or False, not 'yes'"),
    ({"use_gating": 1}, "use_gating must be True or False"),
    ({"encdec": []}, "encdec must be the widths"), ({"encdec": (8, 0, 8)}, "encdec must be"),
    ({"encdec": "512"}, "encdec must be"), ({"encdec": 512}, "encdec must be"),
    ({"clustering_head": (10, 8)}, "embeddings of size 10, but the middle one of encdec is 4"),
    ({"clustering_head": (4, 8, 8)}, r"clustering_head must be \[inputs, hidden\]"),
    ({"aux_classifier": (8, 8)}, r"aux_classifier must be \[hidden\]"),
    ({"aux_classifier": 0}, "aux_classifier must be"),
    ({"select": "best"}, "no select 'best'.*Known: last, loss, silhouette"),
    ({"regularizer": "code"}, "no regularizer 'code'.*paper, released"),
    ({"reconstruction": "l2"}, "no reconstruction 'l2'"),
    ({"batch_norm": "frozen"}, "no batch_norm 'frozen'"), ({"precision": "half"}, "no precision"),
    ({"seeds": 0}, "seeds must be a whole number of at least 1"),
    ({"constant_columns": "remove"}, "no constant_columns 'remove'.*drop, keep"),
    ({"save_seed_checkpoints": 3}, "save_seed_checkpoints must be a folder, True for the present"),
    ({"device": "abacus"}, "can't use the device 'abacus'"), ({"random_state": -1}, "random_state"),
], ids=str)
def test_a_setting_out_of_range_is_refused_before_training(options, says):
    with before_steps(lambda *_: None) as counted, pytest.raises(InputError, match=says):
        idc(**options).fit(X)
    assert counted[0] == 0


def test_missing_values_are_counted_by_column():
    holes = X.copy()
    holes[3:5, 2] = np.nan
    holes[7, 11] = np.inf
    with pytest.raises(InputError, match=r"2 missing values \(NaN\) and 1 infinite value \(inf\): "
                                         r"2 in column 2, 1 in column 11; fill them"):
        idc().fit(holes)
    model = idc().fit(X)
    for method in (model.predict, model.transform, model.local_gates, model.reconstruct):
        with pytest.raises(InputError, match="2 missing values"):
            method(holes)


@pytest.mark.parametrize("kind", ["Float64", "object"])
def test_what_pandas_calls_na_is_missing_and_not_infinite(kind):
    pd = pytest.importorskip("pandas")
    holes = pd.DataFrame(X).add_prefix("gene ").astype(kind)
    holes.iloc[4, 2] = pd.NA
    with pytest.raises(InputError, match=r"^X holds 1 missing value \(NaN\): 1 in column gene 2;"):
        idc().fit(holes)


def test_columns_are_called_by_their_names():
    holes = X.copy()
    holes[0, 3] = np.nan
    for _ in range(2):
        with pytest.raises(InputError, match="1 in column gene 3"):
            idc().fit(frame(holes))
    text = frame(X, species=["cat"] * 60, number=["1"] * 60, site=["a", "b"] * 30)
    for call in (idc().fit, idc().fit(X).predict):
        with pytest.raises(InputError, match="the columns species, site hold text"):
            call(text)
    assert same(idc().fit(frame(X)), idc().fit(X))


def test_columns_of_text_in_an_array_are_called_by_their_places():
    rows = [[*row, "cat", "3"] for row in X.tolist()]
    for table in (rows, np.array(rows), np.array(rows, dtype=object)):
        with pytest.raises(InputError, match="the columns 13 hold text"):
            idc().fit(table)
    assert same(idc().fit(np.array(X.tolist(), dtype=object)), idc().fit(X))


def test_columns_are_called_by_pandas_names():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=[f"gene {i}" for i in range(13)])
    model = idc().fit(table)
    assert same(model, idc().fit(X)) and list(model.feature_names_in_) == list(table.columns)
    table["gene 5"] = pandas.array([1, None] * 30, dtype="Int64")
    with pytest.raises(InputError, match="30 in column gene 5"):
        idc().fit(table)


FLAT = X.copy()
FLAT[:, [4, 9]] = 7.0, 0.0


def test_constant_columns_are_left_out_with_a_warning_and_keep_their_places():
    with pytest.warns(UserWarning, match="2 of 13 columns are constant and left out, so that their "
                                         "gates are 0: 4, 9; constant_columns='keep'") as caught:
        model = idc(**EVERY).fit(FLAT, Y)
    assert len(caught) == 1 and caught[0].filename == __file__
    used = np.delete(np.arange(13), [4, 9])
    assert np.flatnonzero(model.used_features_).tolist() == used.tolist()
    alone = idc(**EVERY).fit(X[:, used], Y)
    assert ends_alike(model, alone)
    for wide, narrow in ((model.local_gates(FLAT), alone.local_gates(X[:, used])),
                         (model.reconstruct(FLAT), alone.reconstruct(X[:, used])),
                         (model.global_gates_, alone.global_gates_)):
        assert np.array_equal(wide[:, used], narrow) and not wide[:, [4, 9]].any()
    assert set(model.selected_features(0)) <= set(used.tolist())
    changed = FLAT.copy()
    changed[:, 4] = 100
    assert np.array_equal(model.predict(changed), model.labels_)
    with pytest.warns(UserWarning, match=": gene 4, gene 9;"):
        idc().fit(frame(FLAT))
    with pytest.raises(ValueError, match="13 features"):
        model.predict(X[:, used])


def test_constant_columns_can_be_kept():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = idc(constant_columns="keep").fit(FLAT)
    assert model.used_features_.all() and (model.local_gates(FLAT)[:, 4] > 0).any()
    with pytest.raises(InputError, match="all columns of X are constant"):
        idc().fit(np.ones((60, 13)))


def test_few_samples_and_bad_classes_are_refused_before_training():
    with before_steps(lambda *_: None) as counted:
        for bad, says in ((X[:1], "1 sample"), (X[:3], "n_clusters=4 exceeds n_samples=3")):
            with pytest.raises(ValueError, match=says):
                idc().fit(bad)
        with pytest.raises(InputError, match="60|one label per sample|length"):
            idc().fit(X, Y[:-1])
        with pytest.raises(InputError):
            idc().fit(X, np.full(60, np.nan))
    assert counted[0] == 0


def test_a_batch_larger_than_the_data_is_clipped_with_one_warning():
    with pytest.warns(UserWarning, match="larger than the data; all 60") as caught:
        large = idc(batch_size=1000).fit(X)
    assert len(caught) == 1 and same(large, idc(batch_size=60).fit(X))


def test_training_that_diverges_says_so():
    with pytest.raises(training.TrainingError, match="diverged"):
        idc(lr_pretrain=1e30, sched_pretrain_min_lr=1e30).fit(X)


# --- the contract -------------------------------------------------------------------------------


SMALL = idc(n_clusters=3, encdec=(16, 3, 16), clustering_head=16, ae_pretrain_epochs=20, epochs=40,
            start_global_gates_training_on_epoch=30, batch_size=20, lr_pretrain=1e-2, tau=1.0,
            evaluate_every=20)


@parametrize_with_checks([SMALL], expected_failed_checks=lambda _model: EXPECTED_FAILURES)
@pytest.mark.filterwarnings("ignore:batch_size")
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_the_constructor_only_stores_and_fitting_changes_no_setting():
    widths, tag = [12, 4, 12], object()
    model = IDC(encdec=widths, n_clusters="nonsense", random_state=tag)
    assert model.encdec is widths and model.random_state is tag and model.n_clusters == "nonsense"
    fitted = idc(encdec=widths)
    before = settings_of(fitted)
    fitted.fit(X)
    assert settings_of(fitted) == before and widths == [12, 4, 12]
    assert not hasattr(clone(fitted), "model_") and not hasattr(clone(fitted), "global_gates_")


def test_the_book_offers_it():
    assert clusterbook.IDC is IDC and clusterbook.idc.IDC is IDC
    assert {"IDC", "idc"} <= set(dir(clusterbook))


if __name__ == "__main__":
    nursery(Path(sys.argv[1]))
