"""The notebook on a person's own table: numbers, ranks, answers, result files."""

from __future__ import annotations

import ast
import os
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from _support import without_settings
from scipy.spatial.distance import pdist

from bookledger import cli
from bookledger.parameters import read_notebook
from clusterbook import datasets, labeling, metrics, paths, table
from clusterbook.checks import InputError
from clusterbook.table import Judged

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


PAGE = read_notebook(paths.root() / "notebooks" / "idc_table.ipynb")
CODE = [one.source for one in PAGE.cells if one.cell_type == "code"]


def cell(text):
    """The first code cell of the notebook with this text."""
    return next(source for source in CODE if text in source)


def of_the_page(name):
    """A function of the notebook."""
    names = {"np": np, "pd": pd, "table": table, "re": re, "BATCH": "(?i)plate"}
    for needed in ("word", name):
        body = ast.parse(cell(f"def {needed}(")).body
        exec(ast.unparse([node for node in body if isinstance(node, ast.FunctionDef)]), names)
    return names[name]


def judged_of(X, k, *labelings, points=()):
    """What the page answers if IDC had found these labels with different seeds.

    On shuffled tables, one cloud, seeds, same, better, k.
    """
    idc = Judged(labelings[0], table.silhouette(table.reduced(X), labelings[0]),
                 seeds=table.agreement(labelings))
    judged = table.compare(X, k, n_null=6)
    return of_the_page("verdict")(idc, judged, dict(points), *X.shape, k)["answer"].tolist()


@pytest.mark.parametrize("X", [
    noise(60, 800), scaled((np.random.default_rng(1).random((90, 9)) < 0.3).astype(float))],
    ids=["wide", "binary"])
def test_noise_has_no_structure(X):
    assert judged_of(X, 3, np.arange(len(X)) % 3, np.arange(len(X)) % 2) == [
        "no", "no", "no", "no", "no", "not checked"]


def test_fewer_dimensions_keep_distances_and_what_is_undefined_counts_as_nothing():
    X = noise(20, 50)
    assert table.reduced(X).shape == (20, 20) and pdist(table.reduced(X)) == pytest.approx(pdist(X))
    assert table.agreement([ONE, ONE]) == [0]
    assert table.silhouette(X[:6], ONE) == 0 == table.silhouette(X[:6], np.arange(6))
    kinds = [table.fitted_mixture(noise(n, d), 2, 0).covariance_type
             for n, d in ((60, 6), (59, 6), (6, 6))]
    assert kinds == ["full", "diag", "spherical"]


@pytest.mark.parametrize(("shape", "asked", "expected"), [
    ((149, 10), {}, {"batch_size": 25, "epochs": 300, "local_gates_lambda": 3.0, "hidden": 64}),
    ((10_001, 400), {}, {"batch_size": 400, "epochs": 80, "local_gates_lambda": 6.0}),
    ((20, 10), {"epochs": 7, "batch_size": 0, "hidden": 8},
     {"batch_size": 20, "epochs": 7, "ae_pretrain_epochs": 4, "hidden": 8})])
def test_settings_follow_from_the_size_of_the_table(shape, asked, expected):
    assert expected.items() <= table.training_settings(*shape, **asked).items()


@pytest.mark.parametrize("call", [table.compare, lambda X, k, **n: table.scan(X, [k], **n)])
def test_one_table_without_groups_has_no_spread(call):
    with pytest.raises(InputError, match="n_null must be a whole number of at least 2, not 1"):
        call(noise(20, 5), 2, n_null=1)


def test_planted_clusters_are_found_and_counted():
    X, y = planted()
    points = table.scan(X, [2, 3, 4], n_null=4)
    assert judged_of(X, 3, y, y, y, points=points) == ["yes", "yes", "yes", "yes", "no", "yes"]
    assert table.preferred(points) == 3
    assert table.preferred(table.scan(noise(80, 6), [2, 3], n_null=4)) is None
    # Two runs in which IDC moves four rows in ten
    bad = [np.where(np.random.default_rng(s).random(len(y)) < 0.4, (y + 1) % 3, y) for s in (0, 1)]
    assert judged_of(X, 3, *bad, points=points) == ["yes", "yes", "no", "no", "yes", "yes"]


@pytest.mark.parametrize(("size", "answer"), [
    ({}, "no"), ({"n": 40, "d": 150}, "too few rows to tell")])
def test_a_continuum_is_no_set_of_groups(size, answer):
    X = continuum(**size)
    labels = table.kmeans(table.reduced(X), 2, 0)
    assert judged_of(X, 2, labels, labels)[:3] == ["yes", answer, "yes"]


def test_answers_follow_from_their_rules():
    flat = [0.1, 0.2, 0.3]                              # mean 0.2, standard deviation 0.1
    assert [table.beyond(v, flat) for v in (0.49, 0.51)] == [False, True]
    assert not table.beyond(0.9, [0.0] * 99 + [1.0]), "the largest is one of them"
    for far in (1, 2):                                  # methods of three
        judged = {i: Judged(TWO, 0.6 if i < far else 0.4, flat, cloud=FLAT) for i in range(3)}
        assert table.has_structure(judged) == (far == 2) and table.has_structure(judged, "cloud")
    idc = Judged(np.arange(6) // 3, 0.2)

    for seeds, holds in ([], None), ([0.79, 0.8], False), ([0.79, 0.82], True):
        assert table.agrees(replace(idc, seeds=seeds)) is holds
    # Of three standard deviations of 0.1, two are enough here: from 0.2 to above 0.4
    other = Judged(TWO, 0.41, flat, subsamples=[0.9])
    assert table.better(other, idc) and not table.better(replace(other, silhouette=0.39), idc)
    assert not table.better(replace(other, subsamples=[0.7]), idc), "not stable"
    assert not table.better(replace(other, labels=1 - idc.labels), idc), "the same clusters"
    for seeds, holds in ([0.84], True), ([0.86], False):
        assert table.better(other, replace(idc, seeds=seeds)) == holds
    points = {4: Judged(TWO, 0.6, cloud=FLAT, subsamples=[0.9] * 5)}
    judged = dict.fromkeys(table.METHODS, Judged(TWO, 0.5, FLAT, FLAT, subsamples=FLAT))
    found = of_the_page("verdict")(replace(idc, labels=TWO, seeds=[0.9]), judged, points, 99, 6, 4)
    assert found["this table"].tolist() == [
        *["silhouette 0.5 of k-means; 3 of 3 exceed"] * 2, "ARI 0.9",
        "k-means, Ward, Gaussian mixture", "none", "4 of [4]"]
    assert found["answer"].tolist() == ["yes", "yes", "yes", "yes", "no", "yes"]


def test_stability_is_the_lower_mean_and_the_preferred_number_is_stable():
    one = Judged(TWO, 0.1, seeds=[0.9, 0.7], subsamples=[0.5, 0.7])
    assert one.stability == pytest.approx(0.6)
    assert Judged(TWO, 0.1, seeds=[0.9, 0.7]).stability == pytest.approx(0.8)
    points = {k: Judged(TWO, value, cloud=FLAT, subsamples=[stable])
              for k, value, stable in ((2, 0.5, 0.9), (3, 0.6, 0.9), (4, 0.9, 0.7))}
    assert table.preferred(points) == 3 and table.preferred({4: points[4]}) is None


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
    assert table.effects(X * 1e-12, y, 1)[0] == pytest.approx(g), "it has no unit"
    for own in (np.arange(10) > 4, np.arange(10) > 6):      # 3: means that differ by rounding
        g, *_ = table.effects(np.stack([own * 0.1 + 0.3, np.full(10, 0.1)], axis=1), own, 1)
        assert g.tolist() == [np.inf, 0]


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


@pytest.mark.parametrize(("labels", "gates", "broken"), [
    (np.r_[[0] * 97, 2, 2, 2], np.ones((100, 20)), {
        "clusters in use": "another seed, or fewer clusters",
        "rows of cluster 2, the smallest": "treat them as outliers, not as a group",
        "open gates, of all features": "-p local_gates_lambda 9"}),
    (np.arange(99) % 3, np.zeros((99, 20)), {
        "rows without an open gate": "-p local_gates_lambda 1"}),
    (np.arange(42) % 3, np.eye(42, 400), {
        "features divided by rows": "confirm the clusters on new rows"}),
    (np.arange(99) % 3, np.eye(20)[np.arange(99) % 20], {})])
def test_cautions_name_what_to_try(labels, gates, broken):
    found = of_the_page("cautions")(labels, gates, n_clusters=3, weight=3.0)
    assert len(found) == 5
    assert found.loc[found["met"] == "no", "try"].to_dict() == broken
    assert (found.loc[found["met"] == "yes", "try"] == "").all()


def prepared(**settings):
    """The names of the notebook before its training."""
    names: dict = {}
    exec(cell("@param"), names)
    names |= settings
    exec("\n".join(map(cell, ("import IDC", "datasets.read(", "heads =", ".prepare("))), names)
    return names


def test_result_tables_replace_only_tables_of_their_kind(tmp_path, monkeypatch):
    (data := tmp_path / "my.csv").write_text("a,b\n" + "1,2\n3,4\n" * 9)
    ask = partial(prepared, n_clusters=2, write_to=str(tmp_path))
    names = ask(dataset=str(data))                                  # nothing there
    for kind, path in names["files"].items():
        path.write_bytes(names["heads"][kind] + b"x\n" + b"1,2,3\n3,4,5\n" * 9)
    ask(dataset=str(data))                                          # an earlier run's
    names["files"]["gates.csv"].write_text("patient,age\n")
    with pytest.raises(InputError, match="my-2-seed0-gates.csv exists and was not written"):
        ask(dataset=str(data))
    monkeypatch.setenv("CLUSTERBOOK_RUN", '{"output": "my-2-seed0"}')
    with pytest.raises(InputError, match="my-2-seed0-clusters.csv exists"):     # the data
        ask(dataset=str(names["files"]["clusters.csv"]))


def test_the_notebook_refuses_what_it_cannot_use(tmp_path):
    data, (few, rows) = tmp_path / "my.csv", ("1,2\n" * 30, "1,2\n3,4\n" * 9)
    for content, settings, says in (
            (few, {}, "no column has more than one value"),
            (rows, {"constant": "drp"}, "unknown constant: 'drp'; did you mean 'drop'"),
            (rows, {"n_clusters": 10}, "n_clusters is 10; for 18 rows"),
            (rows, {"n_clusters": 2, "hidden": -3}, "^hidden must be a number at least 0"),
            (rows, {"n_clusters": 2, "embedding": 0}, "^embedding must be a whole number"),
            (rows, {"n_clusters": 2, "write_to": "/proc"}, "a result file such as /proc/.my-2"),
            (rows, {"dataset": "wine", "impute": "median"}, "impute can be set for a file of")):
        data.write_text("a,b\n" + content)
        with pytest.raises(InputError, match=says):
            prepared(**{"dataset": str(data), **settings})


@pytest.mark.slow
def test_the_commands_of_the_page_run_on_a_file_and_write_its_results(tmp_path, monkeypatch):
    groups = np.random.default_rng(1).permutation(np.repeat([0, 1, 2], 30))
    made = pd.DataFrame(np.random.default_rng(0).normal(8 * np.eye(3, 5)[groups], 1, (90, 5)),
                        columns=["height (cm)", "weight (kg)", "age", "noise", "more noise"])
    made.insert(2, "who", [f"p{i:02}" for i in range(90)])
    made.to_csv(tmp_path / "planted.csv", index=False)
    monkeypatch.chdir(tmp_path)
    for name in set(os.environ) - set(without_settings()):
        monkeypatch.delenv(name)
    asked = ["idc_table", "-p", "dataset", "planted.csv", "-p", "id_column", "who", "-p",
             "k_values", "[]", "-p", "seeds", "[]", "-p", "epochs", "20"]
    assert cli.main(["run", *asked, "--output", "out.ipynb"]) == 0
    rows, gates = (pd.read_csv(f"out-{kind}.csv", index_col=0) for kind in ("clusters", "gates"))
    assert rows.index.tolist() == gates.index.tolist() == made["who"].tolist()
    assert [*gates] == [*made.drop(columns="who")]
    assert metrics.ari(groups, rows["k-means"]) == 1
    assert cli.main(["sweep", *asked, "-p", "n_clusters", "2,3", "--output", "swept"]) == 0
    swept = pd.read_csv("swept/sweep.csv").set_index("n_clusters")
    assert swept["kmeans_silhouette_above_cloud"].idxmax() == 3


def test_a_planted_table_comes_out_as_it_was_made(tmp_path, monkeypatch):
    """The whole notebook, on three groups with features of their own, in units of their own."""
    rng, sizes = np.random.default_rng(0), {"a": 22, "b": 20, "c": 18}
    group = rng.permutation(np.repeat([*sizes], [*sizes.values()]))
    own = {"a": ["a high", "a low"], "b": ["b high"], "c": ["c high", "c low", "c also"]}
    made = pd.DataFrame({name: 250 * j + rng.normal(size=60) + np.where(
        group == g, -9 if "low" in name else 9, 0)
        for j, (g, name) in enumerate([*((g, n) for g in own for n in own[g]),
                                       *((None, f"noise {i}") for i in range(3))], 1)})
    made = made[rng.permutation(made.columns)].set_index(
        pd.Index(rng.permutation([f"P{i}" for i in range(60)]), name="patient"))
    made.assign(label=group).to_csv(tmp_path / "my.csv")
    monkeypatch.setenv("CLUSTERBOOK_TABLES", str(tmp_path))     # as `clusterbook run` asks for them
    monkeypatch.setenv("CLUSTERBOOK_RUN", '{"output": "my-3-seed0"}')
    tables: list[pd.DataFrame] = []
    monkeypatch.setattr("IPython.display.display", lambda *shown, **more: tables.extend(
        one for one in shown if isinstance(one, pd.DataFrame)))
    names = {}
    for source in CODE:
        exec(source, names)
        if "@param" in source:
            names |= {"dataset": str(tmp_path / "my.csv"), "id_column": "patient", "seeds": [1],
                      "k_values": [2, 3], "epochs": 60}
    rows, features, gates = (pd.read_csv(tmp_path / f"my-3-seed0-{kind}.csv", index_col=0)
                             for kind in ("clusters", "features", "gates"))

    # Rows: each has its own class, and the cluster and margin that the saved model gives it.
    assert rows["class"].tolist() == group.tolist() and rows.index.tolist() == made.index.tolist()
    X = (made - made.mean()) / made.std(ddof=0)
    means = X.groupby(rows["cluster"]).mean()
    model = labeling.load(tmp_path / "my-3-seed0-model.npz")
    again = model.label(model.preparation(made[[*model.names]].to_numpy()))
    assert rows["cluster"].tolist() == again[0].tolist() and model.names == tuple(made)
    assert rows["margin"].to_numpy() == pytest.approx(again[1], abs=1e-3)
    assert rows[model.method].tolist() == rows["cluster"].tolist()
    alike = rows[[*table.METHODS]].eq(rows["cluster"], axis=0).mean()
    assert alike.min() > 0.9, "all methods find these groups, and number them alike"

    # Gates: those of the row alone.
    alone = [names["model"].local_gates(X.loc[[name]].to_numpy(np.float32))[0] for name in X.index]
    assert len(np.unique(np.round(alone, 3), axis=0)) > 9, "rows could be confused unseen"
    assert gates.index.tolist() == made.index.tolist() and gates.columns.tolist() == [*made]
    assert gates.to_numpy() == pytest.approx(np.stack(alone), abs=1e-4)

    # Features: of each cluster, by name, in the order of their effects; the page has the same.
    shown = {one.columns.name: one for one in tables if "Hedges' g" in one}
    for c in means.index:
        ranked, inside = features.loc[c].set_index("feature"), rows["cluster"] == c
        n, m = inside.sum(), (~inside).sum()
        pooled = ((n - 1) * X[inside].var() + (m - 1) * X[~inside].var()) / (n + m - 2)
        g = (means.loc[c] - X[~inside].mean()) / pooled ** 0.5 * (1 - 3 / (4 * (n + m) - 9))
        assert ranked.index[:3].tolist() == g.abs().nlargest(3).index.tolist()
        assert not ranked.index[0].startswith("noise")
        for column, expected in {
                "level": made[inside].mean(), "rest": made[~inside].mean(), "Hedges' g": g,
                "scaled level": means.loc[c], "scaled rest": X[~inside].mean(),
                "gates open": (gates[inside] > 0).mean()}.items():
            assert ranked[column].to_dict() == pytest.approx(expected.to_dict(), rel=1e-3, abs=1e-4)
        page = shown[f"cluster {c}: rank"].set_index("feature")
        assert page.index.tolist() == ranked.index.tolist()

    assert tables[0]["answer"].iloc[[0, 1, 5]].tolist() == ["yes"] * 3
    assert tables[1].index.tolist()[0] == "features divided by rows"
    assert names["scores"]["kmeans_silhouette_above_cloud"] > 0 and names["scores"].keys() >= {
        "kmeans_stability", "mixture_silhouette"}

    # Rules: of each cluster one, that names what is its own and holds; the verdict above them.
    described = pd.read_csv(tmp_path / "my-3-seed0-rules.csv")
    assert described["describes"].all() and not described["rule"].str.contains("noise").any()
    text = (tmp_path / "my-3-seed0-rules.txt").read_text("utf-8")
    assert "more clearly than rows of one cloud" in text and described["rule"][0] in text


@pytest.mark.parametrize(("X", "level"), [
    (noise(100, 20), "none"), (continuum(), "shuffled"), (planted()[0], "cloud")],
    ids=["noise", "continuum", "planted"])
def test_the_strongest_null_decides_what_is_said_and_which_features_stand_out(X, level):
    judged = table.compare(X, 3)
    assert table.strongest(judged) == level
    largest = max(np.abs(table.effects(X, judged["k-means"].labels, c)[0]).max() for c in range(3))
    assert (largest > judged["k-means"].largest) == (level == "cloud")
    ward = Judged(TWO, 0.5, subsamples=[0.9], by_chance=[0.4], seeds=[0.8])
    say = of_the_page("verdict_in_words")
    said = say(level, "Ward", ward, 3, 3, X.shape, True)
    assert {"none": "no more distinct than those of noise", "shuffled": "no evidence of 3 groups "
            "of rows", "cloud": "more clearly than rows of one cloud"}[level] in said.split("**")[1]
    assert ("0.90 between subsamples, 0.40 between subsamples of one cloud, 0.80 "
            "between seeds") in said
    assert ("Use the clusters of Ward" in said) == (level == "cloud")
    assert "-p n_clusters" not in said and "skewed" not in said
    by_chance = replace(ward, by_chance=[0.9])
    assert ("no more stable" in say(level, "Ward", by_chance, 3, 3, X.shape, True)
            ) == (level == "cloud")
    other = say(level, "Ward", ward, 2, 3, (60, 20_000), True, skewed=True)
    assert ("run `-p n_clusters 2` before you conclude" in other) == (level != "cloud")
    assert ("try `-p n_clusters 2` first" in other and "**Most columns are skewed" in other
            ) == (level == "cloud")
    assert ("groups would be hard to see" in say(level, "Ward", ward, 3, 3, (60, 20_000), True)
            ) == (level != "cloud")


@pytest.mark.parametrize("shape", [(40, 100), (90, 10)])
def test_one_cloud_has_the_tables_covariances_and_no_clearer_clusters(shape):
    rng = np.random.default_rng(2)
    spread = 1 / np.arange(1, shape[1] + 1)
    X, seeds = rng.standard_normal(shape) * spread, range(20)
    clouds = [table.cloud(X, seed) for seed in seeds]
    for one in clouds[:2]:
        assert one.mean(0) == pytest.approx(0, abs=1e-12)
        assert np.cov(one.T) == pytest.approx(np.cov(X.T), abs=1e-12)
    assert np.abs(clouds[0] - clouds[1]).max() > 1
    fresh = [rng.standard_normal(shape) * spread for _ in seeds]    # of one normal distribution
    found, known = ([table.silhouette(Z, table.kmeans(Z, 3, 0)) for Z in tables]
                    for tables in (clouds, fresh))
    assert abs(np.mean(found) - np.mean(known)) < np.std(known)


def test_a_column_of_text_alone_is_no_structure():
    text = np.random.default_rng(3).integers(0, 3, 150)
    X, block = scaled(np.hstack([noise(150, 10), np.eye(3)[text]])), np.arange(10, 13)
    assert table.strongest(table.compare(X, 3)) == "cloud", "nulls that cut texts in parts"
    assert table.strongest(table.compare(X, 3, blocks=[block])) == "none"
    for null in table.cloud, table.shuffled:
        one = null(X, 0, [block])
        kinds = [np.unique(Z[:, block].round(4), axis=0, return_counts=True)[1] for Z in (X, one)]
        assert (kinds[0] == kinds[1]).all() and len(kinds[0]) == 3
        assert (one[:, :10] == null(X, 0)[:, :10]).all() or null is table.shuffled
    tied = scaled(np.hstack([X[:, :1] + 3 * np.eye(3)[text][:, :1], np.eye(3)[text]]))
    drawn = table.cloud(tied, 0, [np.arange(1, 4)])
    related, before = np.corrcoef(drawn.T)[0, 1:], np.corrcoef(tied.T)[0, 1:]
    assert np.sign(related).tolist() == np.sign(before).tolist() and (related / before > 0.4).all()


@pytest.mark.parametrize(("seeds", "stabilities", "silhouette", "method", "stable"), [
    ([0.9], (0.9, 0.9, 0.9), 0.2, "IDC", True),             # none is better
    ([], (0.9, 0.9, 0.9), 0.2, "k-means", True),            # nothing of IDC was checked
    ([], (0.7, 0.6, 0.2), 0.2, "k-means", False),
    ([0.5], (0.84, 0.9, 0.9), 0.2, "Ward", True),           # no gap, but IDC is not stable
    ([0.9], (0.7, 0.97, 0.99), 0.9, "Ward", True),          # the first that is about as stable
    ([0.5], (0.7, 0.6, 0.2), 0.9, "k-means", False)])       # none is stable
def test_the_recommended_method_follows_from_its_rule(seeds, stabilities, silhouette, method,
                                                      stable):
    idc = Judged(np.arange(6) // 3, 0.2, seeds=seeds)
    judged = {name: Judged(TWO, silhouette, [0.1, 0.2, 0.3], subsamples=[one])
              for name, one in zip(table.METHODS, stabilities, strict=True)}
    assert table.recommended(idc, judged) == (method, stable)
    three = {name: replace(one, labels=np.arange(6) // 2) for name, one in judged.items()}
    for of_seeds in (seeds, [0.95]):
        found = table.recommended(replace(idc, seeds=of_seeds), three)[0]
        assert found != "IDC", "it uses two of three clusters"


def test_a_column_named_class_beside_the_features_does_not_replace_the_classes(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.arange(24).reshape(12, 2) ** 2, y=np.arange(12) % 2,
             **{"class": np.repeat([0, 1], 6)})
    found, _ = labeling.beside(datasets.read(tmp_path / "a.npz", labels="y"))
    assert found["class"].tolist() == ["0", "1"] * 6
    assert found["class (beside)"].tolist() == ["0"] * 6 + ["1"] * 6


def test_metadata_is_associated_by_permutation_and_a_batch_is_named():
    y, rng = np.arange(60) % 3, np.random.default_rng(1)
    batch = np.array(["b0", "b1", "b2"])[y]
    ami, p = table.association(y, batch)
    assert (ami, p) == (pytest.approx(1), 0.001)
    found = [table.association(y, rng.permutation(batch), seed=i)[1] for i in range(40)]
    assert 0.02 < np.mean(np.array(found) < 0.2) < 0.45, "p is uniform where there is nothing"
    assert table.coincide(y, batch) == [(0, "b0"), (1, "b1"), (2, "b2")]
    batch[:9] = "b3"
    assert table.coincide(y, batch) == []
    halves = np.arange(60) // 30
    assert table.nested(np.arange(60) // 15, halves), "two clusters in each batch"
    assert not table.nested(y, halves) and not table.nested(y, np.zeros(60))
    assert not table.nested(halves, np.repeat(["b0", "missing"], 30))
    units = np.vstack([np.eye(59), np.eye(59)[:1]])
    labels, beside = np.r_[np.zeros(59, int), 1], {
        "class": list("u" * 59 + "v"), "Plate 1": list("x" * 59 + "y"), "sex": list("m" * 60)}
    warn, ids = of_the_page("warnings_of"), list("abc") * 20
    said = "\n".join(warn(labels, np.linspace(0, 1, 60), ids, units, beside))
    assert "All margins" not in said
    assert "All margins are 1, " in "\n".join(warn(labels, np.ones(60), ids, units, beside))
    assert "Cluster 1 is one row, c: an outlier" in said and "1 row repeats another" in said
    assert "Cluster 0 is Plate 1 = x: they share 59 of 59 rows. It may be" in said
    assert "class = u" not in said
