"""The page of one's own table, run whole on a table whose answers are known."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from _support import without_settings

from bookledger import cli
from clusterbook import IDC, labeling, metrics, table

pytestmark = pytest.mark.slow

# Three groups, each with a measurement of its own; the last two say nothing. Rows in random order.
GROUPS = np.random.default_rng(1).permutation(np.repeat([0, 1, 2], 40))
NAMES = ["height (cm)", "weight (kg)", "age", "noise", "more noise"]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The result tables of a run, and the table."""
    folder, rng = tmp_path_factory.mktemp("own"), np.random.default_rng(0)
    values = rng.normal([[170, 60, 40, 5, 5]], [[8, 6, 9, 1, 2]], (120, 5))
    for group, shift in enumerate((50, 40, 60)):
        values[GROUPS == group, group] += shift
    planted = pd.DataFrame(values, columns=NAMES)
    planted.insert(2, "who", [f"p{i:03}" for i in range(120)])
    planted.to_csv(folder / "planted.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in set(os.environ) - set(without_settings()):
            patch.delenv(name)
        assert cli.main(["run", "idc_table", "-p", "dataset", "planted.csv", "-p", "id_column",
                         "who", "-p", "k_values", "[]", "-p", "seeds", "[]", "-p", "epochs", "60",
                         "--output", "out.ipynb"]) == 0
    return planted, {kind: pd.read_csv(folder / f"out-{kind}.csv")
                     for kind in ("clusters", "features", "gates")}


def test_rows_are_in_the_groups_that_were_planted_under_their_own_names(results):
    planted, found = results
    assert list(found["clusters"]["row"]) == list(planted["who"]) == list(
        found["gates"]["gates of row"])
    assert all(metrics.ari(GROUPS, found["clusters"][name]) == 1
               for name in ("cluster", *labeling.HOW))
    assert found["clusters"]["margin"].between(0, 1).all()


def test_each_cluster_has_its_own_ranking_levels_and_gates(results):
    planted, found = results
    labels, gates = found["clusters"]["cluster"].to_numpy(), found["gates"].set_index(
        "gates of row")
    assert list(gates) == NAMES
    for cluster, ranking in found["features"].groupby("cluster"):
        own = labels == cluster
        group = GROUPS[own][0]
        assert ranking["feature"].iloc[0] == NAMES[group], "what sets it apart comes first"
        assert ranking["Hedges' g"].iloc[0] > 3
        assert list(ranking["rank"]) == sorted(ranking["rank"])
        for row in ranking.itertuples():
            column = planted[row.feature]
            assert row.level == pytest.approx(column[own].mean(), rel=1e-4), row.feature
            assert row.rest == pytest.approx(column[~own].mean(), rel=1e-4), row.feature
            share = (gates[row.feature].to_numpy()[own] > 0).mean()
            assert ranking["gates open"][row.Index] == pytest.approx(share), row.feature


def test_the_gates_are_those_of_a_network_that_is_trained_alike(results):
    planted, found = results
    units = planted.drop(columns="who").to_numpy(np.float32).astype(np.float64)
    X = ((units - units.mean(0)) / units.std(0)).astype(np.float32)
    chosen = table.training_settings(*X.shape, epochs=60)
    width, pretraining = chosen["hidden"], chosen["ae_pretrain_epochs"]
    model = IDC(3, epochs=60, ae_pretrain_epochs=pretraining,
                ae_non_gated_epochs=min(20, pretraining // 5),
                start_global_gates_training_on_epoch=(60 + pretraining) // 2,
                batch_size=chosen["batch_size"], encdec=[width, width, 10, width, width],
                clustering_head=[10, 4 * width], aux_classifier=width, gates_hidden_dim=width,
                local_gates_lambda=chosen["local_gates_lambda"] * float(X.var()), tau=1.0,
                constant_columns="keep", random_state=0, progress=False).fit(X)
    gates = found["gates"].drop(columns="gates of row").to_numpy()
    ours = model.local_gates(X)
    varying = np.flatnonzero(np.ptp(ours, axis=0) > 0.01)
    assert len(varying) >= 2, "the rows differ, so that an exchange is seen"
    for j in varying:
        assert np.corrcoef(gates[:, j], ours[:, j])[0, 1] > 0.95, NAMES[j]


def test_a_sweep_finds_as_many_clusters_as_were_planted(results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results[0].to_csv("planted.csv", index=False)
    assert cli.main(["sweep", "idc_table", "-p", "dataset", "planted.csv", "-p", "id_column", "who",
                     "-p", "n_clusters", "2,3,4", "-p", "k_values", "[]", "-p", "seeds", "[]",
                     "-p", "epochs", "20", "--output", "swept"]) == 0
    found = pd.read_csv("swept/sweep.csv").set_index("n_clusters")
    assert found["kmeans_silhouette_above_cloud"].idxmax() == 3
    assert found["kmeans_stability"].idxmax() == 3
