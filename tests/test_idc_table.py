"""The notebook on a person's own table: numbers, ranks, sentences, result files."""

from __future__ import annotations

import os
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist

from clusterbook import paths
from clusterbook.book.parameters import read_notebook
from clusterbook.errors import InputError
from clusterbook.idc import table
from clusterbook.idc.table import Judged

FLAT = (np.full(10, 0.1) + np.eye(10)[0] / 99).tolist()
TWO = np.arange(6) % 2
ONE = np.zeros(6, dtype=int)


def scaled(X):
    return (X - X.mean(0)) / X.std(0)


def noise(n, d, seed=0):
    return scaled(np.random.default_rng(seed).standard_normal((n, d)))


def planted(n=90, d=6, k=3, useful=4):
    """Rows in *k* groups that differ in the first *useful* columns."""
    y = np.arange(n) % k
    X = np.random.default_rng(0).standard_normal((n, d))
    X[:, :useful] += 6 * np.eye(k, useful)[y]
    return scaled(X), y


def continuum(n=100, d=6):
    """One factor behind all columns: no groups."""
    rng = np.random.default_rng(0)
    return scaled(rng.standard_normal((n, 1)) + 0.4 * rng.standard_normal((n, d)))


def said(X, k, *labelings, points=()):
    """The findings, in one text, if IDC had found these labels with different seeds."""
    idc = Judged(labelings[0], table.silhouette(table.reduced(X), labelings[0]),
                 seeds=table.agreement(labelings))
    judged, _ = table.compare(X, k, n_null=6)
    return "\n".join(table.findings(idc, judged, dict(points), n_rows=len(X),
                                    n_features=X.shape[1], n_clusters=k))


def rivals(silhouette, **more):
    return {name: Judged(TWO, silhouette, FLAT, FLAT, **more) for name in table.METHODS}


def between_seeds(*seeds, by_chance=(), labels=TWO):
    return table._between_seeds(Judged(labels, 0.1, seeds=list(seeds), by_chance=list(by_chance)))


def beside(silhouette, *seeds):
    """What is said of rivals that find other, only half as stable clusters."""
    return table._beside(Judged(np.arange(6) // 3, silhouette, seeds=list(seeds)),
                         rivals(0.3, subsamples=[0.4] * 5))[-1]


@pytest.mark.parametrize("X", [
    noise(60, 800), noise(100, 8, 1), scaled(np.random.default_rng(0).lognormal(size=(90, 6))),
    scaled((np.random.default_rng(1).random((90, 9)) < 0.3).astype(float)),
], ids=["wide", "normal", "skewed", "binary"])
def test_noise_has_no_structure(X):
    lines = said(X, 3, np.arange(len(X)) % 3, np.arange(len(X)) % 2)
    assert lines.startswith("No structure found that shuffled data do not show.")
    assert "use it" not in lines and "same clusters" not in lines


def test_planted_clusters_are_found_and_counted():
    X, y = planted()
    points = table.scan(X, [2, 3, 4], n_null=4)
    lines = said(X, 3, y, y, y, points=points)
    for part in ("There is structure", "Correlated features alone do not explain it",
                 "agree between seeds: mean ARI 1.00 (1.00 to 1.00, 3 pairs)",
                 "same clusters as IDC: k-means (ARI 1.00)",
                 "separates the table best with 3 (as asked for)."):
        assert part in lines
    assert "(2 were asked for)." in table._how_many(points, 2)
    del points[4]
    assert "; try more." in table._how_many(points, 3)
    none = table.scan(noise(80, 6), [2, 3], n_null=4)
    assert "No number of clusters from 2 to 3" in table._how_many(none, 3)
    # Two runs in which IDC moves four rows in ten
    bad = [np.where(np.random.default_rng(s).random(len(y)) < 0.4, (y + 1) % 3, y) for s in (0, 1)]
    lines = said(X, 3, *bad)
    for part in ("IDC change with the seed", "Do not rely on a single run", "more stable",
                 "better separated", "use it"):
        assert part in lines


@pytest.mark.parametrize(("size", "says"), [
    ({}, "it may be a continuum"), ({"n": 40, "d": 150}, "So few rows cannot tell")])
def test_a_continuum_is_no_set_of_groups(size, says):
    X = continuum(**size)
    labels = table.kmeans(table.reduced(X), 2, 0)
    lines = said(X, 2, labels, labels)
    assert lines.startswith("There is structure") and says in lines


def test_sentences_say_what_the_numbers_mean():
    better = table.findings(
        Judged(TWO, 0.2), rivals(0.05, subsamples=FLAT), n_rows=9, n_features=3, n_clusters=2,
        points={4: Judged(TWO, 0.6, FLAT, subsamples=[0.9] * 5)})[0]
    for line, words in (
            (between_seeds(), "Not checked"),
            (between_seeds(labels=ONE), "all rows into one cluster"),
            (between_seeds(0.9, 0.8), "agree between seeds: mean ARI 0.85 (0.80 to 0.90, 2 pairs)"),
            (between_seeds(0.6), "only partly between seeds: mean ARI 0.60 (0.60 to 0.60, 1 pa"),
            (between_seeds(0.9, 0.0, 0.1), "change with the seed"),
            (between_seeds(0.9, by_chance=[0.95]), "no more than on shuffled data"),
            (between_seeds(0.9, by_chance=[0.1]), "on shuffled data 0.10."),
            (beside(0.2, 0.9), "none of them is both"), (beside(0.4, 0.9), "none of them is both"),
            (beside(0.2), "is better separated"),
            (beside(0.2, 0.1), "more stable (ARI 0.40 against 0.10) and better separated "
                               "(silhouette 0.3 against 0.2, a score that favors it): but it is "
                               "not stable either."),
            (better, "No structure found with 2 clusters that shuffled data do not show; try 4.")):
        assert words in line
    shown = table.Verdict(["One.", "a_b is *2*"])
    assert repr(shown) == "One.\na_b is *2*"
    assert shown._repr_markdown_() == "**One.**\n\n- a\\_b is \\*2\\*"


def test_tables_without_groups_keep_what_they_should():
    assert table.agreement([ONE, ONE, TWO]) == [0, 0, 0]        # one cluster agrees with nothing
    assert table.silhouette(np.eye(6), ONE) == 0
    X = noise(20, 300)
    assert table.reduced(X).shape == (20, 20)
    assert pdist(table.reduced(X)) == pytest.approx(pdist(X))
    X = continuum(n=2000)
    Z = table.shuffled(X, 0)
    assert np.array_equal(np.sort(Z, axis=0), np.sort(X, axis=0))
    assert np.abs(np.corrcoef(Z.T) - np.eye(6)).max() < 0.3 < np.corrcoef(X.T).min()
    assert np.cov(table.cloud(X, 0).T) == pytest.approx(np.cov(X.T), abs=0.12)


def test_structure_is_three_standard_deviations_beyond_chance_for_two_methods():
    null = [-1.0, 1.0] * 5                  # mean 0, deviation √(10 / 9): three are 3.162
    assert table.beyond(3.17, null) and not table.beyond(3.15, null)
    assert not table.beyond(5.0, [0.0] * 99 + [10.0]), "a shuffled table reached more"
    for far, expected in ((1, False), (2, True)):
        judged = {i: Judged(TWO, 4.0 if i < far else 2.0, null, cloud=FLAT) for i in range(3)}
        assert table.has_structure(judged) == expected
        assert table.has_structure(judged, "cloud")


def test_stability_is_the_lower_mean_and_the_preferred_number_is_stable():
    one = Judged(TWO, 0.1, seeds=[0.9, 0.7], subsamples=[0.5, 0.7])
    assert one.stability == pytest.approx(0.6)
    assert Judged(TWO, 0.1, seeds=[0.9, 0.7]).stability == pytest.approx(0.8)
    points = {k: Judged(TWO, value, FLAT, subsamples=[stable])
              for k, value, stable in ((2, 0.5, 0.9), (3, 0.6, 0.9), (4, 0.9, 0.7))}
    assert table.preferred(points) == 3 and table.preferred({4: points[4]}) is None
    sizes = []
    assert table.subsample_agreement(lambda X, k, seed: sizes.append(len(X)) or X[:, 0] % k,
                                     np.arange(20)[:, None], 3, 2, 0) == [1, 1]
    assert sizes == [16] * 4
    assert table.spread([1.0, 2.0, 3.0]) == "2 ± 1" and table.spread([2.0]) == "2"


def test_the_largest_effect_by_chance_is_that_of_shuffled_tables():
    X, largest = noise(40, 5), []
    for i in range(2):
        labels = table.kmeans(table.reduced(table.shuffled(X, i)), 3, i)
        g = [table.effects(table.shuffled(X, i), labels, c)[0] for c in range(3)]
        largest.append(np.abs(g).max())
    assert table.compare(X, 3, n_null=2)[1] == pytest.approx(np.mean(largest))


def test_a_feature_is_ranked_under_its_own_number():
    y = np.arange(12) % 2
    X = np.random.default_rng(0).standard_normal((12, 4)) + y[:, None] * [2, 0, -9, 4]
    gates = np.stack([y == 0, y == 1, np.arange(12) < 4, np.zeros(12)], axis=1)
    ranking = table.ranking(X, y, gates, 1)
    assert ranking.index.tolist() == [2, 3, 0, 1] and ranking["rank"].tolist() == [1, 2, 3, 4]
    assert ranking["share"].tolist() == [1 / 3, 0, 0, 1]
    for j, row in ranking.iterrows():
        assert row["level"] == pytest.approx(X[y == 1, j].mean())
        assert row["rest"] == pytest.approx(X[y == 0, j].mean())


def test_hedges_g_agrees_with_its_formula():
    X, y = planted(n=30)
    a, b = X[y == 1], X[y != 1]
    pooled = np.sqrt((9 * a.var(0, ddof=1) + 19 * b.var(0, ddof=1)) / 28)
    g, level, rest = table.effects(X, y, 1)
    assert g == pytest.approx((a.mean(0) - b.mean(0)) / pooled * (1 - 3 / (4 * 28 - 1)))
    assert level == pytest.approx(a.mean(0)) and rest == pytest.approx(b.mean(0))
    for own in (np.arange(10) > 4, np.arange(10) > 6):      # 3: means that differ by rounding
        g, *_ = table.effects(np.stack([own * 0.1 + 0.3, np.full(10, 0.1)], axis=1), own, 1)
        assert g.tolist() == [np.inf, 0]
    for few in ([0] * 8 + [1] * 2, [1] * 10):
        ranking = table.ranking(noise(10, 2), few, np.ones((10, 2)), 1)
        assert "No effect sizes" in table.about(ranking, 1, 10, 1.0)[1]


def test_ties_are_never_listed_in_part():
    X, y = planted(n=60, d=1, useful=1, k=2)
    X = np.hstack([noise(60, 3), np.repeat(X, 412, axis=1)])        # 412 equal columns
    gates = np.ones_like(X)
    gates[:, 3] = 0
    ranking = table.ranking(X, y, gates, 0)
    assert ranking["rank"].tolist() == [1] * 412 + [413, 414, 415]
    assert ranking["tied"].tolist() == [True] * 412 + [False] * 3
    assert ranking.index[411] == 3 and ranking["share"].iloc[411] == 0      # by gates in a tie
    assert ranking["g"].abs().round(2).is_monotonic_decreasing and ranking["g"].iloc[0] > 1
    assert table.top(ranking) == 0 and table.top(ranking, most=412) == 412
    lines = table.about(ranking, 0, 30, chance=1.0)
    for line, start in zip(lines, ("Cluster 0: 30 rows", "412 features tie at rank 1 ",
                                   "412 of 415 features have |g| above 1.00",
                                   "414 of all 415 features have an open gate in"), strict=True):
        assert line.startswith(start)
    beyond = pd.DataFrame({"rank": [*range(1, 11), 11, 11], "g": 1.0, "share": 0.5})
    assert not any("tie" in line for line in table.about(beyond, 0, 30, chance=2.0)), "it is full"


def test_rows_have_their_own_features_and_distances():
    x, gates = np.array([5.0, -2.0, 0.5, 9.0]), np.array([0, 0.5, 1, 0.3])     # 0, 1, 0.5, 2.7
    assert table.own_features(x, gates).tolist() == [3, 1, 2]
    assert table.own_features(x, gates, most=1).tolist() == [3]
    X = np.array([[0.0], [2.0], [10.0], [30.0]])
    assert table.distances(X, [3, 3, 5, 7]).tolist() == [[1, 10], [1, 8], [0, 9], [0, 20]]
    assert np.isnan(table.distances(X, [1, 1, 1, 1])[:, 1]).all()


def test_settings_fit_the_table():
    asked = {"batch_size": 2, "epochs": 7, "ae_pretrain_epochs": 3, "hidden": 5,
             "local_gates_lambda": 0.5}
    for n, d in ((4, 2), (60, 2000), (100, 20_000), (50_000, 30)):
        found = table.settings(n, d)
        assert 2 <= found["batch_size"] <= n and 40 <= found["epochs"] <= 300
        assert 0 < found["ae_pretrain_epochs"] < found["epochs"]
        assert found["epochs"] * (n // found["batch_size"]) <= 7000
        assert table.settings(n, d, **asked) == asked
        assert table.settings(n, d, **dict.fromkeys(asked, 0)) == found
        assert table.settings(n, d, batch_size=10**6)["batch_size"] == n
    assert table.settings(4, 2500)["local_gates_lambda"] == 15      # wide tables: more sparsity


@pytest.mark.parametrize(("labels", "gates", "starts"), [
    (np.r_[[0] * 97, 2, 2, 2], np.ones((100, 20)), [
        "IDC uses 2 of 3 clusters.", "Cluster 2 has 3 rows: outliers", "Gates stay open: 20 "]),
    (np.arange(99) % 3, np.zeros((99, 20)), ["No gate is open for 99 of 99 rows."]),
    (np.arange(42) % 3, np.eye(42, 400), ["Features far outnumber rows (400 and 42)"]),
    (np.arange(99) % 3, np.eye(20)[np.arange(99) % 20], [])])
def test_warnings_name_the_problem(labels, gates, starts):
    lines = table.warnings(labels, gates, n_clusters=3, weight=3.0)
    assert len(lines) == len(starts)
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True))


def test_result_tables_replace_only_tables_of_their_kind(tmp_path):
    files = {kind: tmp_path / f"my-{kind}.csv" for kind in table.HEADS}
    data = tmp_path / "my.csv"
    table.refuse_others(files, data)                                # nothing there
    for kind, path in files.items():
        path.write_text(table.HEADS[kind] + "x\n")
    table.refuse_others(files, data)                                # an earlier run's
    with pytest.raises(InputError, match="my-clusters.csv"):
        table.refuse_others(files, files["clusters"])               # the data themselves
    files["gates"].write_text("patient,age\n")
    with pytest.raises(InputError, match="my-gates.csv exists and was not written"):
        table.refuse_others(files, data)


def cell(text):
    """The first code cell of the notebook with this text."""
    page = read_notebook(paths.root() / "notebooks" / "idc_table.ipynb")
    return next(one.source for one in page.cells if one.cell_type == "code" and text in one.source)


def prepared(**settings):
    """The names of the notebook before its training."""
    names: dict = {}
    exec(cell("@param"), names)
    names |= settings
    exec("\n".join(map(cell, ("import IDC", "datasets.read("))), names)
    return names


def test_the_notebook_refuses_what_it_cannot_use(tmp_path):
    data, (few, rows) = tmp_path / "my.csv", ("1,2\n" * 30, "1,2\n3,4\n" * 9)
    for content, settings, says in (
            (few, {}, "no column has more than one value"),
            (rows, {"constant": "drp"}, "no constant 'drp'; did you mean 'drop'"),
            (rows, {"scaler": "minmx"}, "no scaler 'minmx'; did you mean 'minmax'"),
            (rows, {"n_clusters": 10}, "n_clusters is 10; for 18 rows"),
            (rows, {"dataset": "wine", "impute": "median"}, "impute can be set for a file of your"),
            (rows, {"dataset": "wine", "features": ["alcohol"]}, "features can be set for a file"),
    ):
        data.write_text("a,b\n" + content)
        with pytest.raises(InputError, match=says):
            prepared(**{"dataset": str(data), **settings})


def test_result_tables_name_the_rows_and_are_not_written_to_a_full_disk(tmp_path, monkeypatch):
    data, ids = tmp_path / "my.csv", [f"P{i}" for i in range(20)]
    data.write_text("plant,a,b\n" + "".join(f"P{i},{i},{i % 5}\n" for i in range(20)))
    names = prepared(dataset=str(data), id_column="plant", write_to=str(tmp_path / "out"))
    names |= {"model": SimpleNamespace(labels_=np.arange(20) % 3), "plain": np.arange(20) % 3,
              "gates": np.ones((20, 2)), "ranked": {0: pd.DataFrame({"cluster": [0]})}}
    with monkeypatch.context() as full, pytest.raises(
            InputError, match=r"^the result table .* can't be written \(No space left"):
        full.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
        exec(cell("noun="), names)
    assert not list((tmp_path / "out").iterdir())
    exec(cell("noun="), names)
    for kind, column in (("clusters", "row"), ("gates", "gates of row")):
        assert pd.read_csv(names["files"][kind])[column].tolist() == ids


@pytest.mark.parametrize("pretraining", [1, 20])
def test_a_short_pretraining_has_epochs_with_gates(pretraining):
    names = prepared(ae_pretrain_epochs=pretraining, epochs=pretraining + 1, hidden=8)
    exec(cell("model = fit("), names)
    epochs, _ = names["model"].history_.column("gated", "gated")
    assert len(epochs) == pretraining - pretraining // 5
