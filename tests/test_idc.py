"""IDC's estimator: stages and schedules, selection, exact resume, files, settings, contract."""

from __future__ import annotations

import copy
import json
import math
import pickle
import random
import warnings
from contextlib import contextmanager
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch.nn import BatchNorm1d
from torch.optim.optimizer import register_optimizer_step_pre_hook

from clusterbook import IDC, evidence, metrics, training
from clusterbook.datasets import make_synthetic
from clusterbook.errors import InputError
from clusterbook.idc import greedy_accuracy, open_features
from clusterbook.training import Checkpoint

# Checks of scikit-learn that the estimator fails, each with its reason.
EXPECTED_FAILURES = {
    "check_methods_sample_order_invariance": "float32 products round by a row's place in them",
}
X, Y, INFORMATIVE = make_synthetic(15, random_state=0)      # 60 samples: three batches of 20
EVERY = {"evaluate_every": 1}
FLAT = X.copy()
FLAT[:, [4, 9]] = 7.0, 0.0
# The published configuration.
MNIST = """
{dataset: MNIST10K, data_dir: idc/data, scaler: MinMaxScaler, batch_size: 100, seeds: 1,
 epochs: &epochs 700, ae_non_gated_epochs: 10, ae_pretrain_epochs: 300,
 start_global_gates_training_on_epoch: 400, mask_percentage: 0.9, latent_noise_std: 0.01,
 trainer: {devices: 1, accelerator: gpu, max_epochs: *epochs, check_val_every_n_epoch: 10},
 gtcr_loss: true, gtcr_projection_dim: null, gtcr_eps: 1, eps: 0.1, use_gating: true,
 gates_hidden_dim: 784, encdec: [512, 512, 2048, &bn_layer 10, 2048, 512, 512],
 clustering_head: [*bn_layer, 2048], tau: 100, aux_classifier: [2048], local_gates_lambda: 1,
 global_gates_lambda: 0.0001, gtcr_lambda: 0.01,
 lr: {pretrain: 1e-3, clustering: 1e-2, aux_classifier: 1e-2},
 sched: {pretrain_min_lr: 1e-6, clustering_min_lr: 1e-6}, save_seed_checkpoints: false,
 validate: true}
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


def everything(model):
    """All results of a fit, to compare."""
    weights = {name: tensor.tolist() for name, tensor in model.model_.state_dict().items()}
    return weights, model.labels_.tolist(), model.kept_epoch_, model.history_.rows


@cache
def plain():
    """The usual fit, which no test changes."""
    return idc().fit(X)


@contextmanager
def before_steps(call=lambda *_: None):
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


@contextmanager
def refused_before_training(says, kind=InputError):
    with before_steps() as counted, pytest.raises(kind, match=says):
        yield
    assert counted[0] == 0


@pytest.mark.parametrize(("options", "stages"), [
    ({}, "reconstruction gated gated clustering global global"),
    ({"ae_non_gated_epochs": 0}, "gated gated gated clustering global global"),
    ({"ae_non_gated_epochs": 3}, "reconstruction " * 3 + "clustering global global"),
    ({"start_global_gates_training_on_epoch": 0}, "reconstruction gated gated" + " global" * 3),
    ({"start_global_gates_training_on_epoch": 9}, "reconstruction gated gated" + " clustering" * 3),
    ({"use_gating": False}, "reconstruction " * 3 + "clustering global global"),
    ({"epochs": 3}, "reconstruction gated gated"),
    ({"epochs": 0, "ae_pretrain_epochs": 0, "ae_non_gated_epochs": 0}, ""),
])
def test_stages_follow_from_the_settings(options, stages):
    published = {"reconstruction": 10, "gated": 290, "clustering": 100, "global": 300}
    assert IDC()._stage_epochs() == published
    model = idc(**options).fit(X)
    assert [row["stage"] for row in model.history_.rows] == stages.split()
    assert model.labels_.shape == (60,) and np.array_equal(model.predict(X), model.labels_)


def test_history_has_the_terms_of_each_stage():
    rows = idc(evaluate_every=100, batch_norm="gated").fit(X, Y).history_.rows
    errors = ["clean", "gated", "masked", "latent"]
    seen = {row["stage"]: list(row)[2:] for row in rows}
    assert seen["reconstruction"] == errors
    assert set(seen["gated"]) == {*errors, "regularizer", "coding_rate", "overall", "local_gates",
                                  "open_local_gates"}
    assert seen["clustering"] == ["compression"]
    assert {"compression", "cross_entropy", "global_regularizer", "overall", "occupied",
            "local_gates", "open_local_gates", "global_gates", "open_global_gates", "silhouette",
            "davies_bouldin", "acc", "acc_greedy", "nmi", "ari"} <= set(seen["global"])


def test_history_agrees_with_the_fitted_model():
    model = idc(batch_norm="gated", **EVERY).fit(X, Y)
    last, z = model.history_.rows[-1], model.transform(X)
    gates = model.local_gates(X)
    assert last["overall"] == 6 and last["occupied"] == len(set(model.labels_)) > 1
    assert last["local_gates"] == open_features(gates, original=True, batch_size=20)
    assert last["open_local_gates"] == open_features(gates)
    assert last["global_gates"] == pytest.approx(model.global_gates_.sum(1).mean(), abs=1e-5)
    assert last["open_global_gates"] == (model.global_gates_ > 0).sum(1).mean()
    assert last["acc"] == metrics.accuracy(Y, model.labels_)
    assert last["acc_greedy"] == greedy_accuracy(Y, model.labels_)
    assert last["silhouette"] == pytest.approx(metrics.silhouette(z, model.labels_), abs=1e-6)
    assert last["davies_bouldin"] == pytest.approx(metrics.davies_bouldin(z, model.labels_))
    assert model.compression_ == last["compression"] and model.kept_epoch_ == 6


def test_evaluations_follow_the_epochs_over_all_stages_and_change_nothing():
    model = idc(evaluate_every=2, epochs=7).fit(X)
    assert [row["overall"] for row in model.history_.rows if "overall" in row] == [2, 3, 4, 6, 7]
    assert same(model, idc(evaluate_every=1000, epochs=7).fit(X))


def test_learning_rates_fall_along_a_cosine_over_the_stages_that_share_an_optimizer():
    rates = {}

    def note(_number, optimizer):
        rates.setdefault(optimizer, []).append(optimizer.param_groups[0]["lr"])

    with before_steps(note):
        idc(lr_pretrain=0.3, lr_clustering=0.2, lr_aux_classifier=0.1).fit(X)
    pretraining, head, auxiliary = rates.values()
    for found, high in ((pretraining, 0.3), (head, 0.2)):
        expected = [1e-6 + (high - 1e-6) * (1 + math.cos(math.pi * t / 9)) / 2 for t in range(9)]
        assert found == pytest.approx(expected, abs=1e-9)   # three epochs of three batches
    assert auxiliary == [0.1] * 6


def test_the_weight_of_sparsity_rises_with_the_gated_epochs(monkeypatch):
    asked, sparse = [], IDC._sparse_loss

    def noting(model, networks, batch, weight):
        asked.append(weight)
        return sparse(model, networks, batch, weight)

    monkeypatch.setattr(IDC, "_sparse_loss", noting)
    idc(local_gates_lambda=8.0, ae_pretrain_epochs=5, epochs=5).fit(X)
    expected = [8 * 0.5 * (1 - math.cos(math.pi * t / 4)) for t in (1, 2, 3, 4)]
    assert asked == pytest.approx(np.repeat(expected, 3)) and asked[0] < asked[-1] == 8


@pytest.mark.parametrize(("batch_norm", "drift"), [
    ("gated", set()), ("mixed", set()),
    ("drifting", {"running_mean", "running_var", "num_batches_tracked"})])
def test_encoder_and_local_gates_are_frozen_in_the_second_training(batch_norm, drift):
    before, head, after = (idc(batch_norm=batch_norm, **more).fit(X) for more in (
        {"epochs": 3}, {"start_global_gates_training_on_epoch": 6}, {}))
    a, b = weights(before), weights(after)
    assert {name.rpartition(".")[2] for name in a if name.startswith(("autoencoder", "gating"))
            and not torch.equal(a[name], b[name])} == drift
    assert same(before, head, "gating", "auxiliary", "global_gates")
    assert not same(before, head, "head")
    assert not any(same(before, after, part) for part in ("head", "global_gates", "auxiliary"))


def test_calibration_makes_the_encoder_see_gated_samples_as_one_batch():
    model = idc()._new_model(13)
    with torch.no_grad(), training.seeded(0):
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    gated = torch.as_tensor(X) * 0.5
    for layer in model.modules():                           # averages of an earlier training
        if isinstance(layer, BatchNorm1d):
            layer.running_mean.fill_(3)
            layer.num_batches_tracked.fill_(7)
    mixed = model.eval().embed(gated)
    model.calibrate(gated)
    assert not any(part.training for part in model.modules())
    by_itself = copy.deepcopy(model.autoencoder).train().encoder(gated)
    # A running variance divides by n - 1, a batch's own by n.
    torch.testing.assert_close(model.embed(gated), by_itself.detach(), rtol=0.05, atol=0.05)
    assert not torch.allclose(mixed, by_itself, rtol=0.05, atol=0.05)
    assert {layer.momentum for layer in model.modules() if isinstance(layer, BatchNorm1d)} == {0.1}


def test_the_classifier_learns_from_gated_samples(monkeypatch):
    taught, whole = [], IDC._global_loss

    def noting(settings, model, gated, labels):
        taught.append(gated)
        assert not gated.requires_grad and not labels.is_floating_point()
        return whole(settings, model, gated, labels)

    monkeypatch.setattr(IDC, "_global_loss", noting)
    expected = torch.as_tensor(X * idc().fit(X).local_gates(X))
    assert torch.equal(torch.cat(taught[:3]).unique(dim=0), expected.unique(dim=0))


@pytest.mark.parametrize(("options", "gone"), [
    ({"use_gating": False}, {"regularizer", "coding_rate"}),
    ({"gtcr_loss": False}, {"coding_rate"}), ({"mask_percentage": 0.0}, {"masked"}),
    ({"latent_noise_std": 0}, {"latent"})], ids=lambda value: "-".join(sorted(map(str, value))))
def test_a_switch_removes_its_term_from_the_loss(options, gone):
    model = idc(**options).fit(X)
    columns = [{name for row in one.history_.rows for name in row} for one in (plain(), model)]
    assert columns[0] - columns[1] - {"silhouette", "davies_bouldin"} == gone
    if "use_gating" in options:
        assert np.array_equal(model.local_gates(X), np.ones_like(X))
        assert model.history_.rows[-1]["local_gates"] == 13
        assert not any(name.startswith("gating") for name in weights(model))
    if "gtcr_loss" in options:              # the coding rate draws no random numbers
        assert same(model, idc(gtcr_lambda=0.0).fit(X))


@pytest.mark.parametrize("options", [
    {"form": "paper"}, {"batch_norm": "mixed"}, {"batch_norm": "gated"}, {"tau": 1.0},
    {"gtcr_projection_dim": 5}, {"gtcr_eps": 0.5}, {"eps": 0.5}, {"gtcr_lambda": 1.0},
    {"local_gates_lambda": 9.0}, {"global_gates_lambda": 9.0}, {"mask_percentage": 0.5},
    {"latent_noise_std": 0.5}, {"lr_pretrain": 0.02}, {"lr_clustering": 0.1},
    {"lr_aux_classifier": 0.1}, {"random_state": 1}], ids=str)
def test_every_setting_changes_the_result(options):
    assert not same(plain(), idc(**options).fit(X))


@pytest.mark.parametrize(("select", "column", "best", "begins", "seed"), [
    ("silhouette", "silhouette", max, 4, 0), ("loss", "compression", min, 4, 0),
    # Here the best epoch of all lies in the clustering stage.
    ("loss", "compression", min, 9, 2)])
def test_the_kept_epoch_is_the_best_of_the_last_stage(select, column, best, begins, seed):
    options = {"epochs": 12, "lr_clustering": 0.5, "batch_norm": "gated", "random_state": seed,
               "start_global_gates_training_on_epoch": begins, **EVERY}
    model, last = idc(select=select, **options).fit(X, Y), idc(**options).fit(X, Y)
    rows = [row for row in model.history_.rows if column in row]
    assert best(rows, key=lambda row: row[column])["stage"] == (
        "clustering" if begins == 9 else "global")
    kept = next(row for row in rows if row["overall"] == model.kept_epoch_)
    assert kept[column] == best(row[column] for row in rows if row["stage"] == "global")
    assert metrics.accuracy(Y, model.labels_) == kept["acc"]
    assert np.array_equal(model.predict(X), model.labels_)
    assert model.history_.rows == last.history_.rows and last.kept_epoch_ == 12
    assert begins == 9 or model.kept_epoch_ != 12 and not same(model, last)


@pytest.mark.parametrize("select", ["loss", "silhouette"])
def test_classes_never_decide_anything(select):
    options = {"select": select, "epochs": 9, **EVERY}
    without = idc(**options).fit(X)
    scored = idc(**options).fit(X, Y)
    assert same(without, scored) and without.kept_epoch_ == scored.kept_epoch_
    assert np.array_equal(without.labels_, scored.labels_)
    assert not any("acc" in row for row in without.history_.rows)
    assert any("acc" in row for row in scored.history_.rows)


def test_the_seed_decides_everything_and_global_generators_are_left_alone():
    options = {"select": "silhouette", "gtcr_projection_dim": 4, **EVERY}
    torch.manual_seed(1), np.random.seed(1), random.seed(1)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    model = idc(random_state=3, **options).fit(X)
    model.predict(X), model.local_gates(X)
    assert torch.equal(torch.get_rng_state(), before[0]) and random.getstate() == before[2]
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    torch.manual_seed(2)
    again, other = (idc(random_state=seed, **options).fit(X) for seed in (3, 4))
    assert everything(model) == everything(again)
    for part in ("autoencoder", "gating", "head", "auxiliary", "global_gates", "projection"):
        assert not same(model, other, part)


class Killed(Exception):
    """Ends a training between two steps, without a last save."""


@pytest.mark.parametrize(("options", "deaths"), [
    # Steps of the stages' epochs: 3; 3, 3; 3; 6, 6.
    ({}, [2, 5, 11, 20]),
    ({"select": "silhouette", "epochs": 8, **EVERY}, [32]),
    ({"batch_norm": "gated", "select": "loss", **EVERY}, [11, 20]),
    ({"gtcr_projection_dim": 4}, [8]), ({"use_gating": False}, [5]),
], ids=["usual", "silhouette", "frozen", "projected", "without gates"])
def test_a_killed_run_resumes_in_any_stage(options, deaths, tmp_path, monkeypatch):
    """It ends like one that was never stopped, and repeats no finished epoch."""
    def kill(number, _optimizer):
        if finished + number == death:
            raise Killed

    monkeypatch.setattr(Checkpoint, "due", True)
    epochs, finished = idc(**options)._stage_epochs(), 0
    ends = np.cumsum([steps for stage, steps in zip(epochs, (3, 3, 3, 6), strict=True)
                      for _ in range(epochs[stage])])
    for death in deaths:
        with before_steps(kill), pytest.raises(Killed):
            idc(**options, checkpoint=tmp_path / "run.pt").fit(X, Y)
        finished = int(max(ends[ends < death], default=0))
    for left in (ends[-1] - finished, 0):                   # a finished run is only loaded
        with before_steps() as counted:
            model = idc(**options, checkpoint=tmp_path / "run.pt").fit(X, Y)
        assert counted[0] == left
        assert everything(model) == everything(idc(**options).fit(X, Y))


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


def test_shapes_and_ranges():
    model = plain()
    assert model.labels_.dtype == np.int64 and set(model.labels_) <= set(range(4))
    assert np.array_equal(idc().fit_predict(X), model.labels_)
    assert model.transform(X[:7]).shape == (7, 4)
    assert list(model.get_feature_names_out()) == ["idc0", "idc1", "idc2", "idc3"]
    assert model.reconstruct(X[:7]).shape == (7, 13)
    gates = model.local_gates(X)
    assert gates.shape == X.shape and 0 <= gates.min() < gates.max() <= 1
    assert model.global_gates_.shape == (4, 13)
    one = np.concatenate([model.predict(X[i:i + 1]) for i in range(60)])
    assert np.array_equal(one, model.labels_)
    with torch.no_grad():                                   # the embedding is of gated samples
        expected, ungated = (model.model_.autoencoder.encoder(torch.as_tensor(data)).numpy()
                             for data in (X * gates, X))
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-6)
    assert np.abs(ungated - expected).max() > 1e-3


def test_selected_features_have_an_open_global_gate_widest_first():
    model = idc().fit(X)
    with torch.no_grad():
        weight = torch.full((4, 13), -2.0)
        weight[1, [7, 2, 5]] = torch.tensor([0.3, 2.0, -0.2])
        model.model_.global_gates.weight.copy_(weight)
    assert model.selected_features(1).tolist() == [2, 7, 5]
    assert model.selected_features(1, threshold=0.4).tolist() == [2, 7]
    assert model.selected_features(0).tolist() == []
    for cluster in (4, -1):
        with pytest.raises(InputError, match=f"no cluster {cluster}; they are 0 to 3"):
            model.selected_features(cluster)
    with pytest.raises(NotFittedError):
        idc().selected_features(0)
    with pytest.raises(AttributeError, match="only after fit"):
        _ = idc().global_gates_


def settings_of(model):
    return {name: list(value) if isinstance(value, tuple) else value
            for name, value in model.get_params().items() if name != "random_state"}


@pytest.mark.filterwarnings("ignore:.*constant")
def test_a_saved_model_is_the_same_model(tmp_path):
    model = idc(select="silhouette", gtcr_projection_dim=4, **EVERY).fit(FLAT)
    model.save(tmp_path / "model.pt")
    before = torch.get_rng_state()
    loaded = IDC.load(tmp_path / "model.pt", device="cpu")
    assert torch.equal(torch.get_rng_state(), before)
    assert same(model, loaded) and settings_of(model) == settings_of(loaded)
    for one in (loaded, pickle.loads(pickle.dumps(model))):
        assert np.array_equal(one.predict(FLAT), model.labels_)
        assert np.array_equal(one.local_gates(FLAT), model.local_gates(FLAT))
        assert np.array_equal(one.global_gates_, model.global_gates_)
        assert np.array_equal(one.used_features_, model.used_features_)
    assert (loaded.kept_epoch_, loaded.compression_) == (model.kept_epoch_, model.compression_)


def test_removed_settings_of_saved_models_load_at_their_default_only(tmp_path):
    stored = torch.load(evidence.model_file("idc-synthetic-seed0"), weights_only=True)
    settings = json.loads(stored["settings"])
    assert settings["gate_noise"] == 0.25 and settings["seeds"] == 1        # saved before
    assert IDC.load(evidence.model_file("idc-synthetic-seed0"), device="cpu").form == "released"
    for name, other in (("gate_noise", 0.5), ("regularizer", "paper"), ("reconstruction", "l1"),
                        ("compression", "paper"), ("precision", "bfloat16"), ("seeds", 2),
                        ("validate", False), ("sched_pretrain_min_lr", 0.1),
                        ("sched_clustering_min_lr", 0.1)):
        stored["settings"] = json.dumps({**settings, name: other})
        torch.save(stored, tmp_path / "model.pt")
        with pytest.raises(InputError, match=f"only {name}=.* is still supported"):
            IDC.load(tmp_path / "model.pt", device="cpu")


@pytest.fixture
def config(tmp_path):
    def write(text):
        (tmp_path / "cfg.yaml").write_text(text)
        return tmp_path / "cfg.yaml"

    return write


def test_the_published_configuration_gives_the_defaults_and_names_the_ignored_keys(config):
    with pytest.warns(UserWarning) as caught:
        model = IDC.from_config(config(MNIST))
    assert settings_of(model) == settings_of(IDC(constant_columns="keep"))
    ignored = str(caught[0].message).partition("ignored: ")[2].split(", ")
    assert ignored == ["dataset", "data_dir", "scaler", "seeds", "trainer", "sched",
                       "save_seed_checkpoints", "validate"]


def test_values_of_a_configuration_reach_the_estimator(config):
    text = "lr: {pretrain: 2e-4}\nnum_clusters: 3\nuse_gating: false\nencdec: [9, 5, 9]\ntau: 2"
    with warnings.catch_warnings(action="error"):
        model = IDC.from_config(config(text), random_state=4, tau=3.0)
    expected = {"n_clusters": 3, "use_gating": False, "lr_pretrain": 2e-4, "lr_clustering": 1e-2,
                "encdec": [9, 5, 9], "tau": 3.0, "constant_columns": "keep", "epochs": 700}
    assert {name: settings_of(model)[name] for name in expected} == expected
    assert model.random_state == 4
    model.set_params(epochs=3, ae_pretrain_epochs=2, ae_non_gated_epochs=1, batch_size=20,
                     clustering_head=7)
    assert model.fit(X).labels_.shape == (60,)


def test_a_bad_configuration_is_refused(config, tmp_path):
    for content, says in (
            ("gtcr_los: true", "key in the configuration .*'gtcr_los'; did you mean 'gtcr_loss'"),
            ("lr: {pretrain: 1e-3, gates: 1}", r"'lr\.gates'"),
            ("lr_pretrain: 0.1", "'lr_pretrain'"), ("batch_norm: gated", "'batch_norm'"),
            *((bad, "can't be read as YAML with keys and values")
              for bad in ("lr: 0.1", "lr: {pretrain: fast}", "- 1\n- 2", "{a: [", ""))):
        with pytest.raises(InputError, match=says):
            IDC.from_config(config(content))
    with pytest.raises(InputError, match="can't be read .*No such file"):
        IDC.from_config(tmp_path / "none.yaml")


@pytest.mark.parametrize(("options", "says"), [
    ({"n_clusters": 61}, "n_clusters=61 exceeds n_samples=60; ask for fewer"),
    ({"batch_size": 1}, "batch_size must be a whole number of at least 2, not 1"),
    ({"epochs": 2}, "=1, ae_pretrain_epochs=3 and epochs=2 must not decrease"),
    ({"ae_non_gated_epochs": 4}, "gated_epochs=4, ae_pretrain_epochs=3 and epochs=6 must not"),
    ({"mask_percentage": 1.0}, "mask_percentage is a fraction from 0 to below 1, not 1.0"),
    ({"latent_noise_std": -0.1}, "latent_noise_std must be a number at least 0"),
    ({"tau": 0.0}, "tau must be a number above 0, not 0.0"),
    ({"gtcr_projection_dim": 0}, "gtcr_projection_dim must be a whole number of at least 1"),
    *(({"encdec": widths}, "a width in encdec must be a whole number of at least 1")
      for widths in ([], (8, 0, 8), "512", None)),
    ({"clustering_head": (10, 8)}, r"clustering_head must be \[4, hidden\]"),
    ({"clustering_head": (4, 8, 8)}, r"clustering_head must be \[4, hidden\]"),
    ({"aux_classifier": (8, 8)}, r"aux_classifier \[hidden\], not \[4, 8\] and \[8, 8\]"),
    ({"select": "best"}, "no select 'best'.*Known: last, loss, silhouette"),
    ({"device": "abacus"}, "can't use the device 'abacus'"), ({"random_state": -1}, "random_state"),
], ids=str)
def test_a_setting_out_of_range_is_refused_before_training(options, says):
    with refused_before_training(says):
        idc(**options).fit(X)


def test_bad_samples_and_classes_are_refused_before_training():
    for samples, classes, says in (
            (X[:1], None, "1 sample"), (X[:3], None, "n_clusters=4 exceeds n_samples=3"),
            (X, Y[:-1], "60|one label per sample|length"), (X, np.full(60, np.nan), "NaN|nan"),
            (np.ones((60, 13)), None, "all columns of X are constant")):
        with refused_before_training(says, ValueError):
            idc().fit(samples, classes)


def test_missing_values_and_text_are_named_by_column():
    holes = X.copy()
    holes[3:5, 2], holes[7, 11] = np.nan, np.inf
    table = pd.DataFrame(X).add_prefix("gene ")
    model = idc().fit(table)
    assert same(model, plain()) and list(model.feature_names_in_) == list(table.columns)
    for method in (idc().fit, plain().predict, plain().reconstruct):
        with pytest.raises(InputError, match="3 missing or infinite values: 2 in column 2, "
                                             "1 in column 11; fill them"):
            method(holes)
    unknown = table.astype("Float64")
    unknown.iloc[4, 2] = pd.NA                              # missing, not infinite
    with pytest.raises(InputError, match="^X holds 1 missing .* 1 in column gene 2"):
        idc().fit(unknown)
    with pytest.raises(InputError, match="the columns species hold text"):
        model.predict(table.assign(species="cat"))


def test_constant_columns_are_left_out_with_a_warning_and_keep_their_places():
    with pytest.warns(UserWarning, match="2 of 13 columns are constant and left out, so that their "
                                         "gates are 0: 4, 9; constant_columns='keep'") as caught:
        model = idc(**EVERY).fit(FLAT, Y)
    assert len(caught) == 1 and caught[0].filename == __file__
    used = np.delete(np.arange(13), [4, 9])
    assert np.flatnonzero(model.used_features_).tolist() == used.tolist()
    alone = idc(**EVERY).fit(X[:, used], Y)
    assert everything(model) == everything(alone)
    for wide, narrow in ((model.local_gates(FLAT), alone.local_gates(X[:, used])),
                         (model.reconstruct(FLAT), alone.reconstruct(X[:, used])),
                         (model.global_gates_, alone.global_gates_)):
        assert np.array_equal(wide[:, used], narrow) and not wide[:, [4, 9]].any()
    assert set(model.selected_features(0)) <= set(used.tolist())
    with pytest.warns(UserWarning, match=": gene 4, gene 9;"):
        idc().fit(pd.DataFrame(FLAT).add_prefix("gene "))
    with pytest.raises(ValueError, match="13 features"):
        model.predict(X[:, used])
    with warnings.catch_warnings(action="error"):
        kept = idc(constant_columns="keep").fit(FLAT)
    assert kept.used_features_.all() and (kept.local_gates(FLAT)[:, 4] > 0).any()


def test_a_batch_larger_than_the_data_is_clipped_with_one_warning():
    with pytest.warns(UserWarning, match="larger than the data; all 60") as caught:
        large = idc(batch_size=1000).fit(X)
    assert len(caught) == 1 and same(large, idc(batch_size=60).fit(X))


SMALL = idc(n_clusters=3, encdec=(16, 3, 16), clustering_head=16, ae_pretrain_epochs=20, epochs=40,
            start_global_gates_training_on_epoch=30, batch_size=20, lr_pretrain=1e-2, tau=1.0,
            evaluate_every=20)


@parametrize_with_checks([SMALL], expected_failed_checks=lambda _model: EXPECTED_FAILURES)
@pytest.mark.filterwarnings("ignore:batch_size")
def test_scikit_learns_checks(estimator, check):
    check(estimator)
