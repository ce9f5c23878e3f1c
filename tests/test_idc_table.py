"""The notebook on a person's own table: numbers, ranks, sentences, result files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist

from clusterbook import metrics, paths
from clusterbook.book.parameters import read_notebook
from clusterbook.errors import InputError
from clusterbook.fingerprint import modules_of
from clusterbook.idc import table
from clusterbook.idc.table import Judged

FLAT = (np.full(10, 0.1) + np.eye(10)[0] / 99).tolist()
TWO = np.arange(6) % 2


def scaled(X):
    return (X - X.mean(0)) / X.std(0)


def noise(n, d, seed=0):
    return scaled(np.random.default_rng(seed).standard_normal((n, d)))


def planted(n=90, d=6, k=3, useful=4, apart=6.0, seed=0):
    """Rows in *k* groups that differ in the first *useful* columns."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    X = rng.standard_normal((n, d))
    X[:, :useful] += apart * np.eye(k, useful)[y]
    return scaled(X), y


def continuum(n=100, d=6):
    """One factor behind all columns: no groups."""
    rng = np.random.default_rng(0)
    return scaled(rng.standard_normal((n, 1)) + 0.4 * rng.standard_normal((n, d)))


def said(X, k, *labelings, points=()):
    """The findings if IDC had found these labels with different seeds."""
    idc = Judged(labelings[0], table.silhouette(table.reduced(X), labelings[0]),
                 seeds=table.agreement(labelings))
    judged, _ = table.compare(X, k, n_null=6, n_pairs=3)
    return table.findings(idc, judged, dict(points), n_rows=len(X), n_features=X.shape[1],
                          n_clusters=k)


def rivals(silhouette, null=FLAT, **more):
    return {name: Judged(TWO, silhouette, null, null, **more) for name in table.METHODS}


@pytest.mark.parametrize("X", [
    noise(60, 800), noise(100, 8, 1), scaled(np.random.default_rng(0).lognormal(size=(90, 6))),
    scaled((np.random.default_rng(1).random((90, 9)) < 0.3).astype(float)),
], ids=["wide", "normal", "skewed", "binary"])
def test_noise_has_no_structure(X):
    lines = said(X, 3, np.arange(len(X)) % 3, np.arange(len(X)) % 2)
    assert lines[0] == "No structure found that shuffled data do not show."
    assert not any("use it" in line or "same clusters" in line for line in lines)


def test_noise_has_no_preferred_number_of_clusters():
    points = table.scan(noise(80, 6), [2, 3], n_null=6)
    assert table.preferred(points) is None
    assert "No number of clusters from 2 to 3" in table._how_many(points, 3)


def test_planted_clusters_are_found_and_counted():
    X, y = planted()
    points = table.scan(X, [2, 3, 4], n_null=4)
    lines = "\n".join(said(X, 3, y, y, y, points=points))
    for part in ("There is structure that shuffled data do not show.",
                 "Correlated features alone do not explain it",
                 "agree between seeds: mean ARI 1.00 (1.00 to 1.00, 3 pairs)",
                 "same clusters as IDC: k-means (ARI 1.00)",
                 "separates 3 best (as asked for)"):
        assert part in lines
    assert "(2 were asked for)." in table._how_many(points, 2)
    del points[4]
    assert "(as asked for); try more." in table._how_many(points, 3)
    # Two runs in which IDC moves four rows in ten
    bad = [np.where(np.random.default_rng(s).random(len(y)) < 0.4, (y + 1) % 3, y) for s in (0, 1)]
    lines = "\n".join(said(X, 3, *bad))
    assert "IDC change with the seed" in lines and "Do not rely on a single run" in lines
    assert "more stable" in lines and "better separated" in lines and "use it" in lines


@pytest.mark.parametrize(("size", "says"), [
    ({}, "it may be a continuum"), ({"n": 40, "d": 150}, "So few rows cannot tell")])
def test_a_continuum_is_no_set_of_groups(size, says):
    X = continuum(**size)
    labels = table.kmeans(table.reduced(X), 2, 0)
    lines = "\n".join(said(X, 2, labels, labels))
    assert lines.startswith("There is structure") and says in lines


def test_an_unstable_or_worse_method_is_not_recommended():
    judged, labels = rivals(0.3, subsamples=[0.4] * 5), np.arange(6) // 3
    for silhouette in (0.2, 0.4):
        [line] = table._beside(Judged(labels, silhouette, seeds=[0.9] * 3), judged)
        assert "none of them is both" in line
    line = table._beside(Judged(labels, 0.2, seeds=[0.1] * 3), judged)[-1]
    assert "more stable (ARI 0.40 against 0.10)" in line and "not stable either" in line
    assert "is better separated" in table._beside(Judged(labels, 0.2), judged)[-1]


@pytest.mark.parametrize(("seeds", "by_chance", "words"), [
    ([], [], "Not checked"),
    ([0.9, 0.8], [], "agree between seeds: mean ARI 0.85 (0.80 to 0.90, 2 pairs)"),
    ([0.6], [], "only in part between seeds: mean ARI 0.60 (0.60 to 0.60, 1 pair)"),
    ([0.9, 0.0, 0.1], [], "change with the seed"),
    ([0.9], [0.95], "no more than on shuffled data"), ([0.9], [0.1], "on shuffled data 0.10."),
])
def test_agreement_between_seeds_is_a_mean_over_all_pairs(seeds, by_chance, words):
    assert words in table._between_seeds(Judged(TWO, 0.1, seeds=seeds, by_chance=by_chance))


def test_no_structure_at_the_wrong_number_of_clusters_names_a_better_one():
    points = {4: Judged(TWO, 0.6, FLAT, subsamples=[0.9] * 5)}
    lines = table.findings(Judged(TWO, 0.2), rivals(0.05, subsamples=FLAT), points, n_rows=9,
                           n_features=3, n_clusters=2)
    assert lines[0].startswith("No structure found with 2 clusters") and "try 4" in lines[0]


def test_agreement_has_every_pair_and_one_cluster_agrees_with_nothing():
    runs = [np.random.default_rng(s).integers(0, 3, 50) for s in range(4)]
    literal = [metrics.ari(runs[i], runs[j]) for i in range(4) for j in range(i + 1, 4)]
    assert table.agreement(runs) == pytest.approx(literal)
    one = np.zeros(6, dtype=int)
    assert table.agreement([one, one, TWO]) == [0, 0, 0]
    assert "all rows into one cluster" in table._between_seeds(Judged(one, 0.0))
    assert table.silhouette(np.eye(6), one) == 0


def test_tables_without_groups_keep_what_they_should():
    X = noise(20, 300)
    assert table.reduced(X).shape == (20, 20)
    assert pdist(table.reduced(X)) == pytest.approx(pdist(X))
    X = continuum(n=2000)
    Z = table.shuffled(X, 0)
    assert np.array_equal(np.sort(Z, axis=0), np.sort(X, axis=0))
    assert np.abs(np.corrcoef(Z.T) - np.eye(6)).max() < 0.3 < np.corrcoef(X.T).min()
    assert np.cov(table.cloud(X, 0).T) == pytest.approx(np.cov(X.T), abs=0.12)


def test_subsamples_are_clustered_apart_and_compared_on_shared_rows():
    X, _ = planted(n=50)
    sizes = []

    def method(rows, k, seed):
        sizes.append(len(rows))
        return (rows[:, 0] > 0).astype(int)

    assert table.subsample_agreement(method, X, 2, 3, 0) == [1, 1, 1]
    assert sizes == [40] * 6


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
    assert not table.effects(noise(10, 2), [0] * 8 + [1] * 2, 1)[0].any()
    ranking = table.ranking(noise(10, 2), np.zeros(10, dtype=int), np.ones((10, 2)), 0)
    assert "No effect sizes" in "\n".join(table.about(ranking, 0, 10, 1.0))


def test_features_are_ranked_by_size_whatever_the_sign_and_by_gates_within_a_rank():
    y = np.arange(40) % 2
    X = np.stack([y, -3.0 * y, y], axis=1) + noise(40, 1)
    ranking = table.ranking(X, y, np.array([[0, 0, 1.0]]).repeat(40, axis=0), 1)
    assert ranking.index.tolist() == [1, 2, 0] and ranking["rank"].tolist() == [1, 2, 2]
    assert ranking["share"].tolist() == [0, 1, 0]
    assert ranking["g"][1] < -1 < 0 < ranking["g"][0]
    assert ranking["level"][1] < ranking["rest"][1]


def test_ties_are_never_listed_in_part():
    X, y = planted(n=60, d=1, useful=1, k=2)
    X = np.hstack([noise(60, 3), np.repeat(X, 412, axis=1)])        # 412 equal columns
    ranking = table.ranking(X, y, np.ones_like(X), 0)
    assert ranking["rank"].tolist() == [1] * 412 + [413, 414, 415]
    assert ranking["tied"].tolist() == [True] * 412 + [False] * 3
    assert table.top(ranking) == 0
    assert table.about(ranking, 0, 30, chance=1.0) == [
        "Cluster 0: 30 rows", "412 features tie at rank 1 and are not listed.",
        "412 of 415 features have a larger effect than any in clusters of shuffled tables (|g| "
        "above 1.00).", "By their gates 415 features tie: they are open in every row."]
    ranking = pd.DataFrame({"rank": np.r_[1:10, [10] * 4], "g": np.r_[9:0:-1, [0.5] * 4],
                            "share": 0})
    assert table.top(ranking) == 9
    assert table.about(ranking, 0, 5, 6.5)[1] == "4 features tie at rank 10 and are not listed."


def test_rows_have_their_own_features_and_distances():
    x, gates = np.array([5.0, -2.0, 0.5, 1.0]), np.array([0, 1, 1, 0.1])
    assert table.own_features(x, gates).tolist() == [1, 2, 3]
    assert table.own_features(x, gates, most=1).tolist() == [1]
    X = np.array([[0.0], [2.0], [10.0], [30.0]])
    assert table.distances(X, [3, 3, 5, 7]).tolist() == [[1, 10], [1, 8], [0, 9], [0, 20]]
    assert np.isnan(table.distances(X, [1, 1, 1, 1])[:, 1]).all()


@pytest.mark.parametrize(("n", "d"), [(4, 2), (60, 2000), (100, 20_000), (178, 13), (50_000, 30)])
def test_settings_fit_the_table(n, d):
    found = table.settings(n, d)
    assert 2 <= found["batch_size"] <= n and 40 <= found["epochs"] <= 300
    assert 0 < found["ae_pretrain_epochs"] < found["epochs"]
    assert found["epochs"] * (n // found["batch_size"]) <= 7000
    asked = {"batch_size": 2, "epochs": 7, "ae_pretrain_epochs": 3, "hidden": 5,
             "local_gates_lambda": 0.5}
    assert table.settings(n, d, **asked) == asked
    assert table.settings(n, d, **dict.fromkeys(asked, 0)) == found
    assert table.settings(n, d, batch_size=10**6)["batch_size"] == n
    weights = [table.settings(100, d)["local_gates_lambda"] for d in (10, 100, 2500, 10_000)]
    assert weights == [3, 3, 15, 30]                        # wide tables get more sparsity


def test_warnings_name_the_problem_and_a_remedy():
    n, d = 100, 20
    labels = np.r_[np.zeros(97, dtype=int), 2, 2, 2]
    assert table.warnings(labels, np.ones((n, d)), n_clusters=3, weight=3.0) == [
        "IDC uses 2 of 3 clusters.", "Cluster 2 has 3 rows: outliers rather than a group.",
        "Gates stay open: 20 of 20 features a row, so they select little. "
        "Try -p local_gates_lambda 9."]
    halves = {"n_clusters": 2, "weight": 3.0}
    assert table.warnings(np.arange(n) % 2, np.zeros((n, d)), **halves) == [
        "No gate is open for 100 of 100 rows. Try -p local_gates_lambda 1."]
    wide = table.warnings(np.arange(40) % 2, np.eye(40, 400), **halves)
    assert wide[0].startswith("Features far outnumber rows (400 and 40)")
    assert table.warnings(np.arange(n) % 2, np.eye(d)[np.arange(n) % d], **halves) == []


def test_a_verdict_shows_as_lines_and_as_markdown():
    shown = table.Verdict(["One.", "a_b is *2*"])
    assert repr(shown) == "One.\na_b is *2*"
    assert shown._repr_markdown_() == "**One.**\n\n- a\\_b is \\*2\\*"


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


def test_the_chapter_on_idc_does_not_depend_on_it():
    modules = modules_of(["from clusterbook import IDC"])
    assert "idc.estimator" in modules and "idc.table" not in modules


@pytest.mark.parametrize(("content", "settings", "says"), [
    ("a,b\n" + "1,2\n" * 30, {}, "no column has more than one value"),
    ("a,b\n" + "1,2\n3,4\n" * 9, {"constant": "drp"}, "no constant 'drp'; did you mean 'drop'"),
    ("a,b\n" + "1,2\n3,4\n" * 9, {"scaler": "minmx"}, "no scaler 'minmx'; did you mean 'minmax'"),
    ("a,b\n" + "1,2\n3,4\n" * 9, {"n_clusters": 10}, "n_clusters is 10; for 18 rows"),
    (None, {"dataset": "wine", "impute": "median"}, "impute can be set for a file of your own"),
])
def test_the_notebook_refuses_what_it_cannot_use(tmp_path, content, settings, says):
    if content:
        (tmp_path / "my.csv").write_text(content)
    page = read_notebook(paths.root() / "notebooks" / "idc_table.ipynb")
    tagged, imports, prepare = [cell.source for cell in page.cells if cell.cell_type == "code"][1:4]
    names: dict = {}
    exec(tagged, names)
    names |= {"dataset": str(tmp_path / "my.csv"), **settings}
    with pytest.raises(InputError, match=says):
        exec(f"{imports}\n{prepare}", names)
