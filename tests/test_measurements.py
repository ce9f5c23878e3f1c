"""What records hold is computed by the library: by hand, and as in the records that are kept."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.cluster import KMeans

from bookledger import load_records
from bookledger.records import arrays
from clusterbook import IDC, TELL, comparison, datasets, deepcluster, idc, metrics, tell, weights
from clusterbook.checks import InputError
from clusterbook.training import History
from clusterbook.weights import NullTest

Y = np.repeat(np.arange(10), 6)
RNG = np.random.default_rng(0)


def test_of_tell_by_hand():
    labels = Y.copy()
    labels[Y == 9] = 4
    labels[Y == 7] = 8                      # not of the pair
    rows = [{"epoch": 1, "reconstruction": 0.5}, {"epoch": 2, "reconstruction": 0.25},
            {"epoch": 1, "clustering": 1.0}]
    model = SimpleNamespace(labels_=labels, loss_=1.8, n_clusters=10, history_=History(rows, 6.0))
    found = tell.measurements(model, Y, {"kmeans": Y, "ae_kmeans": np.zeros(60)},
                              {"adam": {"acc": 0.5, "loss": 3.0}})
    assert found["acc"] == 0.8 and found["occupied"] == 8
    assert found["ari_4_9"] == 0 and found["reconstruction"] == 0.25
    assert found["seconds_per_epoch"] == 2.0
    assert found["printed_loss"] == pytest.approx(0.01 * (2 - 0.2 / 10))
    assert (found["kmeans_acc"], found["ae_kmeans_acc"]) == (1.0, 0.1)
    assert (found["adam_acc"], found["adam_loss"]) == (0.5, 3.0)
    assert "reconstruction" not in tell.measurements(
        SimpleNamespace(**{**vars(model), "history_": History(rows[2:], 1.0)}), Y, {})


def test_the_baselines_of_tell_cluster_what_they_are_named_after():
    lengths = np.where(np.arange(60) % 2, 1.0, 9.0)[:, None]
    X = (lengths * (np.array([[1, 0.5], [0.5, 1]])[np.arange(60) // 30]
                    + 0.02 * RNG.random((60, 2)))).astype(np.float32)
    found = tell.baselines(X, 2, 0, SimpleNamespace(transform=lambda X: np.c_[np.arange(60) < 10]))
    groups = {"kmeans": np.arange(60) % 2, "kmeans_unit": np.arange(60) // 30,
              "ae_kmeans": np.arange(60) < 10}
    assert found.keys() == groups.keys()
    for name, expected in groups.items():
        assert metrics.ari(expected, found[name]) == 1, name


def test_online_scores_of_moving_and_frozen_centers():
    data = datasets.load("digits")
    X, y = data.X[:700], data.y[:700]
    first = TELL(10, network="none", epochs=5, batch_size=100, optimizer="adam", random_state=0)
    found, model, centers = tell.online(first, X, y, start=300, seed=0)
    again = clone(first).fit(X[-300:])
    frozen = again.predict(X)
    assert np.array_equal(again.cluster_centers_, centers)
    assert found["online_frozen"] == metrics.scores(y[:400], frozen[:400])
    moved = [again.partial_fit(batch).labels_ for batch in np.split(X[:400], 4)]
    assert found["online"] == metrics.scores(y[:400], np.concatenate(moved))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    kmeans = KMeans(10, n_init=10, random_state=0).fit(unit[-300:])
    assert found["online_kmeans"] == metrics.scores(y[:400], kmeans.predict(unit[:400]))
    assert not np.array_equal(model.cluster_centers_, centers)
    with_test_part = tell.online(first, X, y, start=300, train_size=200)[0]
    assert with_test_part["online_frozen"] == metrics.scores(y[:200], frozen[:200])
    with pytest.raises(InputError, match="must be from 1 to 699, for 700 samples, not 1,000"):
        tell.online(first, X, y)


@pytest.fixture(scope="module")
def small_idc():
    X, y, informative = datasets.make_synthetic(240, random_state=0)
    model = IDC(4, encdec=[16, 4, 16], clustering_head=[4, 16], aux_classifier=16, epochs=30,
                gates_hidden_dim=16, ae_pretrain_epochs=20, ae_non_gated_epochs=5, batch_size=40,
                start_global_gates_training_on_epoch=26, tau=1.0, evaluate_every=1,
                local_gates_lambda=0.1, random_state=0).fit(X, y)
    return model, X, y, informative


def test_of_idc_by_hand(small_idc):
    model, X, y, informative = small_idc
    gates, labels, rows = model.local_gates(X), model.labels_, model.history_.rows
    measure = idc.ExplanationMeasures(model, X)
    found = idc.measurements(model, X, y, baselines=idc.baselines(model, X, 0),
                             explanation=measure(gates), informative=informative[y],
                             variants={"no_gates": {"acc": 0.5}})
    scores = metrics.scores(y, labels)
    for name in ("acc", "nmi", "v_measure"):
        assert found[name] == scores[name], name
    accuracies = [row["acc"] for row in rows if "acc" in row]
    assert found["best_acc"] == max(accuracies)
    sums = [gates[i:i + 40].sum(1) for i in range(0, len(X), 40)]
    assert found["local_gates"] == pytest.approx(np.mean([np.sort(s)[19] for s in sums]))
    assert found["open_local_gates"] == pytest.approx((gates > 0).sum(1).mean())
    [kept] = [row for row in rows if row.get("overall") == model.kept_epoch_]
    assert kept is not rows[-1] and found["acc"] == kept["acc"]
    for name in ("global_gates", "open_global_gates", "silhouette", "davies_bouldin"):
        assert found[name] == kept[name], name
    assert found["seconds_per_epoch"] == model.history_.seconds / 30
    assert found["f1"] == idc.selection_f1(gates > 0, informative[y])
    kmeans = KMeans(4, n_init=10, random_state=0)
    assert found["kmeans_acc"] == metrics.accuracy(y, kmeans.fit_predict(X))
    assert found["features_kmeans_nmi"] == metrics.nmi(y, kmeans.fit_predict(X * gates))
    assert found["no_gates_acc"] == 0.5 and "kmeans_ami" not in found
    variant = idc.of_variant(model, X, y)
    assert variant == {**scores, "occupied": found["occupied"],
                       "open_local_gates": found["open_local_gates"]}
    thin = idc.thinned([{"epoch": i, **({"overall": i} if i % 7 == 0 else {})}
                        for i in range(2500)])
    assert [row["epoch"] for row in thin][:6] == [0, 3, 6, 7, 9, 12]
    assert idc.thinned(rows) == rows


def test_the_embedding_of_idcs_baseline_is_of_whole_samples(small_idc, monkeypatch):
    model, X, _, _ = small_idc
    spaces = []
    monkeypatch.setattr(KMeans, "fit_predict", lambda self, space: spaces.append(space))
    idc.baselines(model, X, 0)
    samples = torch.from_numpy(X)
    network = model.model_.autoencoder.encoder
    before = {name: value.clone() for name, value in network.state_dict().items()}
    whole, gated, embedded = spaces
    assert np.array_equal(whole, X) and np.array_equal(gated, X * model.local_gates(X))
    network.train()                         # by the statistics of all whole samples
    with torch.no_grad():
        expected = network(samples)
    network.load_state_dict(before)
    network.eval()
    assert np.allclose(embedded, expected, atol=0.01)      # running variances are unbiased
    assert not np.allclose(embedded, model.model_.embed(samples), atol=0.1)


def test_every_explanation_is_measured_on_the_same_samples(small_idc):
    model, X, _, _ = small_idc
    measure, gates = idc.ExplanationMeasures(model, X), RNG.random(X.shape) ** np.arange(1, 14)
    gates = np.where(gates > 0.2, gates, 0)
    rows = np.random.default_rng(2).permutation(len(X))[:2000]
    assert np.array_equal(measure.few, rows[:3076])
    measure.few = few = rows[:50]           # a part, as of a larger table
    found = measure(gates)
    assert found["uniqueness"] == idc.uniqueness(X[rows], gates[rows])
    assert found["faithfulness"] == idc.faithfulness(model.predict, X[few], gates[few])
    train, test = rows[:120], rows[120:]
    assert found["generalizability"] == idc.generalizability(
        X[train], gates[train], model.labels_[train], X[test], gates[test], model.labels_[test])
    assert found["diversity"] == idc.diversity(gates, model.labels_)
    predicted = model.predict
    model.predict = None                    # what was removed before is remembered
    try:
        assert "faithfulness" in measure(gates[:, ::-1])
    finally:
        model.predict = predicted
    assert "faithfulness" not in measure(np.ones_like(gates)), "all are as important"


def test_table_1_takes_a_data_frame_without_a_warning_and_enough_samples(small_idc):
    X, y = small_idc[1][:60], np.arange(60) % 2
    frame = pd.DataFrame(X).add_prefix("v")
    model = IDC(2, epochs=2, ae_non_gated_epochs=0, ae_pretrain_epochs=1, batch_size=30,
                encdec=[8, 3, 8], gates_hidden_dim=8, clustering_head=[3, 8], aux_classifier=8,
                start_global_gates_training_on_epoch=2, random_state=0).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = idc.as_in_table_1(model, frame, y, subsets=2, size=30)
    assert {"uniqueness_1k", "ungated_input_acc"} <= {*found} and len(model.feature_names_in_)
    found = idc.as_in_table_1(model, frame.iloc[[0, 0]], y[:2], subsets=1, size=2)
    assert "uniqueness_1k" not in found, "of equal rows it is not defined"
    with pytest.raises(ValueError, match="feature names"):
        idc.as_in_table_1(model, frame[frame.columns[::-1]], y, subsets=2, size=30)
    with pytest.raises(InputError, match="10 subsets of 1,000 samples need 10,000 samples, not 60"):
        idc.as_in_table_1(model, frame, y)


def test_of_deepcluster_by_hand():
    rows = [{"epoch": i, "loss": 1 / i, "churn": 0.4 / i, "active": 3, "nmi_previous": value,
             "feature_seconds": 1.0, "clustering_seconds": 2.0, "training_seconds": 5.0}
            for i, value in enumerate((0.2, 0.9, 0.6), start=1)]
    model = SimpleNamespace(history_=History(rows, 30.0), epochs=3)
    half = np.where(Y < 5, 0, 1)
    found = deepcluster.measurements(
        model, Y, Y, baselines={"kmeans": half, "ae_kmeans": Y, "untrained": np.zeros(60)},
        probes={"trained": {1: 0.5, "features": 0.7}, "untrained": {1: 0.6, "features": 0.2},
                "supervised": {1: 0.8, "features": 0.9}},
        neighbors={"untrained": 0.3, "trained": 0.4}, variants={"no_whitening": half},
        numbers={20: {"ami": 0.5}}, collapses={"bn_guarded_200": {"diverged": 1}})
    expected = {
        "acc": 1.0, "loss": 1 / 3, "churn_last": 0.4 / 3, "active": 3, "nmi_previous_first": 0.2,
        "nmi_previous_last": 0.6, "nmi_previous_best": 0.9, "share_of_time": 3 / 8,
        "seconds_per_epoch": 10.0, "probe_1": 0.5, "probe_features": 0.7, "probe_best": 0.7,
        "untrained_probe_best": 0.6, "supervised_probe_best": 0.9, "probe_gain": 0.1,
        "neighbors": 0.4, "untrained_neighbors": 0.3, "kmeans_nmi": metrics.nmi(Y, half),
        "kmeans_homogeneity": metrics.homogeneity(Y, half), "ae_kmeans_ami": 1.0,
        "untrained_nmi": 0.0, "no_whitening_nmi": metrics.nmi(Y, half), "k20_ami": 0.5,
        "collapse_bn_guarded_200_diverged": 1}
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert "untrained_ami" not in found


def test_what_a_collapse_leaves():
    assert deepcluster.effective_clusters([5, 5, 0, 5, 5]) == pytest.approx(4)
    assert deepcluster.effective_clusters([9, 1]) == pytest.approx(np.exp(
        -0.9 * np.log(0.9) - 0.1 * np.log(0.1)))
    rows = [{"sizes": [3, 3], "nmi_labels": 0.9}, {"sizes": [6, 0], "nmi_labels": 0.1}]
    assert deepcluster.of_collapse(History(rows)) == {"diverged": 0, "clusters": 1.0, "nmi": 0.1}
    assert deepcluster.of_collapse(None) == {"diverged": 1}


def test_neighbors_are_others_and_of_the_whole_data():
    z = np.zeros((600, 2), dtype=np.float32)
    z[:, 0], y = np.arange(600) // 2, np.arange(600) % 2
    z[:, 1] = np.arange(600) % 2 / 2
    y[:100] = 7                             # fifty pairs of one class, the others of two
    model = SimpleNamespace(transform=pd.DataFrame)     # of sklearn.set_config
    assert deepcluster.neighbors_of_a_class(model, z, y) == 0.2
    z[500:], y[500:] = z[:200:2], 9         # beyond the first 500, at the place of some of them
    assert deepcluster.neighbors_of_a_class(model, z, y) == 0.1


def test_of_the_comparison_by_hand():
    half, finer = np.where(Y < 5, 0, 1), np.arange(60)
    cut = NullTest(1.0, np.array([2.0, 4.0]))
    found = comparison.measurements(
        Y, {"kmeans": Y, "tell": half, "deepcluster_own": finer}, seconds={"tell": 3.0},
        memory={"kmeans": 5.0, "tell": np.nan}, cuts={"cut_tell_1": cut}, common_overlap=0.5)
    assert found == pytest.approx({
        **{f"kmeans_{score}": 1.0 for score in ("acc", "nmi", "ari", "ami")},
        **{f"tell_{score}": metrics.scores(Y, half)[score]
           for score in ("acc", "nmi", "ari", "ami")},
        **{f"deepcluster_own_{score}": metrics.scores(Y, finer)[score]
           for score in ("nmi", "ami")},
        "agree_tell_kmeans": metrics.ari(half, Y), "tell_seconds": 3.0, "kmeans_memory_mb": 5.0,
        "cut_tell_1_z": cut.z, "cut_tell_1_p": cut.p, "cut_tell_1_value": 1.0,
        "cut_tell_1_null_mean": 3.0, "common_overlap": 0.5})


def test_of_weights_by_hand(monkeypatch):
    found = SimpleNamespace(metrics=lambda: {"layer_cut": 1.0})
    history = History([{"accuracy": 0.5}, {"accuracy": 0.75}])
    assert weights.measurements(found, history, {"l1": {"accuracy": 0.25}}) == {
        "test_accuracy": 0.75, "layer_cut": 1.0, "l1_accuracy": 0.25}
    monkeypatch.setattr(weights.measures, "clusterability", lambda network, **said: said)
    assert weights.of_way(None, history, layer=2) == {"layer": 2, "accuracy": 0.75}


@pytest.mark.parametrize("name", ["digits", "mnist-small", "synthetic"])
def test_records_hold_the_scores_of_their_own_labels(name):
    y, checked = datasets.load(name).y, 0
    for record in load_records():
        if record.data is None or record.data["name"] != name or record.arrays is None:
            continue
        if (labels := arrays(record).get("labels")) is None:
            continue
        if record.chapter == "comparison":
            expected = {f"{method}_{score}": value
                        for method, own in zip(comparison.METHODS, labels, strict=True)
                        for score, value in comparison.of_method(method, own, y).items()}
        else:
            expected = metrics.scores(y, labels)
        kept = {score: record.metrics[score] for score in expected if score in record.metrics}
        assert kept == pytest.approx({score: expected[score] for score in kept}), record.name
        checked += len(kept) > 3
    assert checked > 5
