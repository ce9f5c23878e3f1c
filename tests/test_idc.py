"""IDC's estimator: stages and schedules, selection, configurations, constant columns."""

import numpy as np
import pytest
import torch
from _fits import everything, same

from clusterbook import IDC, metrics
from clusterbook.checks import InputError
from clusterbook.datasets import make_synthetic
from clusterbook.idc import estimator, greedy_accuracy, open_features

X, Y, _ = make_synthetic(60, random_state=0)      # three batches of 20
EVERY = {"evaluate_every": 1}
FLAT = X.copy()
FLAT[:, [4, 9]] = 7.0, 0.0


def idc(**options):
    settings = {"n_clusters": 4, "encdec": (12, 4, 12), "clustering_head": (4, 8),
                "aux_classifier": 8, "gates_hidden_dim": 10, "batch_size": 20,
                "ae_non_gated_epochs": 1, "ae_pretrain_epochs": 3,
                "start_global_gates_training_on_epoch": 4, "epochs": 6, "random_state": 0,
                # Large steps and a low temperature: in so few steps clusters would not part.
                "lr_pretrain": 0.01, "lr_clustering": 0.3, "tau": 0.5, "device": "cpu",
                "select": "last"}
    return IDC(**{**settings, **options})


def test_history_agrees_with_the_fitted_model():
    model = idc(batch_norm="gated", **EVERY).fit(X, Y)
    last, z = model.history_.rows[-1], model.transform(X)
    gates = model.local_gates(X)
    expected = {
        "overall": 6, "occupied": len(set(model.labels_)),
        "acc": metrics.accuracy(Y, model.labels_),
        "acc_greedy": greedy_accuracy(Y, model.labels_), "compression": model.compression_,
        "local_gates": open_features(gates, original=True, batch_size=20),
        "open_local_gates": open_features(gates), "global_gates": model.global_gates_.sum(1).mean(),
        "open_global_gates": (model.global_gates_ > 0).sum(1).mean(),
        "silhouette": metrics.silhouette(z, model.labels_),
        "davies_bouldin": metrics.davies_bouldin(z, model.labels_)}
    assert {name: last[name] for name in expected} == pytest.approx(expected, abs=1e-5)
    shares = model.predict_proba(X)
    assert shares.argmax(1).tolist() == model.predict(X).tolist() == model.labels_.tolist()
    assert shares.sum(1) == pytest.approx(1, abs=1e-5)
    seldom = idc(batch_norm="gated", evaluate_every=4).fit(X)
    assert [row["overall"] for row in seldom.history_.rows if "overall" in row] == [3, 4, 6]
    assert same(model, seldom)


@pytest.mark.parametrize(("select", "column", "best", "begins"), [
    ("silhouette", "silhouette", max, 4), ("loss", "compression", min, 4),
    ("loss", "compression", min, 9)])
def test_the_kept_epoch_is_the_best_of_the_last_stage_whatever_the_classes(
        select, column, best, begins):
    for seed in range(30):      # which one tells the epochs apart depends on the processor
        options = {"epochs": 12, "lr_clustering": 0.5, "batch_norm": "gated", "random_state": seed,
                   "start_global_gates_training_on_epoch": begins, **EVERY}
        model = idc(select=select, **options).fit(X, Y)
        rows = [row for row in model.history_.rows if column in row]
        top = best(rows, key=lambda row: row[column])
        # The best epoch of all lies in the clustering stage, or in the last one and not at its end.
        if top["stage"] == ("clustering" if begins == 9 else "global") and top["overall"] != 12:
            break
    else:
        pytest.fail("no seed tells the epochs apart")
    kept = best((row for row in rows if row["stage"] == "global"), key=lambda row: row[column])
    assert model.kept_epoch_ == kept["overall"]
    assert metrics.accuracy(Y, model.labels_) == kept["acc"]
    without = idc(select=select, **options).fit(X)
    assert same(without, model) and without.kept_epoch_ == model.kept_epoch_


def test_constant_columns_are_left_out_with_a_warning_and_keep_their_places():
    with pytest.warns(UserWarning, match="2 of 13 columns are constant and left out") as caught:
        model = idc(**EVERY).fit(FLAT, Y)
    assert len(caught) == 1 and caught[0].filename == __file__
    used = np.delete(np.arange(13), [4, 9])
    alone = idc(**EVERY).fit(X[:, used], Y)
    assert everything(model) == everything(alone)
    for wide, narrow in ((model.local_gates(FLAT), alone.local_gates(X[:, used])),
                         (model.global_gates_, alone.global_gates_)):
        assert np.array_equal(wide[:, used], narrow) and not wide[:, [4, 9]].any()
    with pytest.raises(InputError, match="all columns of X are constant"):
        idc().fit(np.ones((60, 13)))


@pytest.mark.parametrize(("options", "epochs"), [
    ({}, [10, 290, 100, 300]),                  # as published
    ({"ae_non_gated_epochs": 0}, [0, 300, 100, 300]),
    ({"start_global_gates_training_on_epoch": 0}, [10, 290, 0, 400]),
    ({"start_global_gates_training_on_epoch": 900}, [10, 290, 400, 0]),
    ({"use_gating": False}, [300, 0, 100, 300]), ({"epochs": 300}, [10, 290, 0, 0])])
def test_stages_follow_from_the_settings(options, epochs):
    stages = ["reconstruction", "gated", "clustering", "global"]
    assert IDC(**options)._stage_epochs() == dict(zip(stages, epochs, strict=True))


def test_internal_scores_are_those_of_a_random_part_of_many_rows(monkeypatch):
    monkeypatch.setattr(estimator, "SCORED_SAMPLES", 40)
    z, labels = torch.randn(60, 3), np.arange(60) % 4
    rows = np.random.default_rng(0).choice(60, 40, replace=False)
    found = estimator.internal_scores(z, labels)["silhouette"]
    assert found == metrics.silhouette(z[rows], labels[rows])


@pytest.mark.parametrize(("batch_norm", "drift"), [
    ("gated", set()), ("mixed", set()),
    ("drifting", {"running_mean", "running_var", "num_batches_tracked"})])
def test_encoder_and_local_gates_are_frozen_in_the_second_training(batch_norm, drift):
    with pytest.warns(UserWarning, match="^the clustering head and the global gates are not train"):
        before = idc(batch_norm=batch_norm, epochs=3).fit(X)
    with pytest.warns(UserWarning, match="^the global gates are not trained: with epochs=6"):
        head = idc(batch_norm=batch_norm, start_global_gates_training_on_epoch=6).fit(X)
    after = idc(batch_norm=batch_norm).fit(X)
    a, b = before.model_.state_dict(), after.model_.state_dict()
    assert {name.rpartition(".")[2] for name in a if name.startswith(("autoencoder", "gating"))
            and not torch.equal(a[name], b[name])} == drift
    assert same(before, head, "gating", "auxiliary", "global_gates")
    assert not any(same(before, after, part) for part in ("head", "global_gates", "auxiliary"))
