"""What one takes away from the page of one's own table: rules, a model, prepared columns."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bookledger import cli
from clusterbook import IDC, datasets, labeling, rules, table
from clusterbook.checks import InputError

GROUPS = np.arange(90) % 3
NAMES = [f"g{i}" for i in range(1000)]


def planted(seed=0, shift=6.0):
    """Three groups of which each is high in a column of its own, of a thousand."""
    values = np.random.default_rng(seed).normal(10, 1, (90, len(NAMES)))
    values[:, :3] += shift * np.eye(3)[GROUPS]
    return values


def test_a_rule_names_what_sets_a_cluster_apart_in_the_tables_units():
    for seed in range(10):
        found = rules.describe(planted(seed), GROUPS, NAMES)
        assert found["rule"].str.match(r"g[012] > 1\d(\.\d+)?$").all(), "of a thousand columns"
        assert found["describes"].all() and (found["held-out rows"] >= 28).all()
    found = rules.describe(planted(3, shift=3.5), GROUPS, NAMES)
    assert not found["rule"].str.contains(" and ").any(), "no condition is idle"
    found = rules.describe(planted(), np.random.default_rng(1).permutation(GROUPS), NAMES)
    assert not found["describes"].any()
    assert (found["held-out rows"] < found["rows"]).all(), "not those that it was made with"
    assert all("no rule of at most 3 conditions" in rules.sentence(row)
               for _, row in found.iterrows())
    few = rules.describe(planted(), np.r_[np.zeros(87, int), 1, 1, 1], NAMES)
    assert rules.sentence(few.iloc[1]) == "cluster 1: no rule, because it has 3 rows"
    assert "fewer than 5 rows lie outside it" in rules.sentence(few.iloc[0])


def test_a_rule_may_split_what_is_equal_in_double_precision():
    X = np.where(np.arange(60) < 30, 2.0**24 + 2, 2.0**24 + 3)[:, None]     # 2**24 + 4 for a tree
    assert rules.describe(X, np.arange(60) // 30, ["id"])["describes"].tolist() == [False, False]


def test_a_rule_has_two_sides_and_its_short_threshold_covers_the_same_rows():
    X = np.linspace(0, 1, 90)[:, None] + 1000
    own = (X[:, 0] > 1000.4) & (X[:, 0] < 1000.6)
    (_, inner) = (row for _, row in rules.describe(X, own.astype(int), ["x"]).iterrows())
    low, high = X[own].min(), X[own].max()
    above, below = (float(part.split()[-1]) for part in sorted(
        inner["rule"].split(" and "), key=lambda part: "≤" in part))
    assert X[X < low].max() <= above < low and high <= below < X[X > high].min()
    assert inner["rows"] == own.sum() and inner["others"] == 0 and len(inner["rule"]) < 32
    assert rules.sentence(inner).startswith(f"cluster 1: {inner['rule']}: {own.sum()} of "
                                            f"{own.sum()} rows, 0 others (held out: ")


def test_columns_are_prepared_in_order_and_new_rows_like_the_first_ones():
    units = np.random.default_rng(0).lognormal(3, 1, (30, 50)) * np.arange(1, 51)
    one = labeling.prepare(units, log2=True, quantile=True, most_variable=7)
    X, logs = one(units), np.log2(units + 1)
    ranks = logs.argsort(1).argsort(1)
    same = np.sort(logs, axis=1).mean(0)[ranks]
    assert one.kept.tolist() == sorted(np.argsort(same.var(0))[-7:])
    expected = same[:, one.kept]
    assert X == pytest.approx((expected - expected.mean(0)) / expected.std(0), abs=1e-5)
    assert one(units[4:6]) == pytest.approx(X[4:6]), "by what was learned from all rows"
    boxed = labeling.prepare(units, scaler="minmax")(units)
    assert boxed.min() == 0 and boxed.max() == 1 and boxed.shape == units.shape
    with pytest.raises(InputError, match="smallest is -3; leave log2 out"):
        labeling.prepare(units - units.min() - 3, log2=True)
    with pytest.raises(InputError, match="smallest is -1.5; leave log2 out"):
        one(np.full((1, 50), -1.5))         # not a cluster for what has no logarithm
    tiny = labeling.prepare(units * 1e-18)
    assert tiny(units * 1e-18) == pytest.approx(labeling.prepare(units)(units), abs=1e-5)


UNITS = planted().astype(np.float32)[:, :6].astype(float)


@pytest.mark.parametrize("method", labeling.HOW)
def test_a_saved_model_labels_new_rows(method, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    prepare = labeling.prepare(UNITS, log2=True)
    X, idc = prepare(UNITS), None
    if method == "IDC":
        idc = IDC(3, encdec=[16, 4, 16], clustering_head=[4, 16], epochs=30, ae_pretrain_epochs=15,
                  ae_non_gated_epochs=5, batch_size=30, random_state=0, progress=False,
                  start_global_gates_training_on_epoch=20).fit(X)
    fitted = labeling.fit(method, X, 3, 0, np.arange(90), idc)
    model = labeling.Model(method, NAMES[:6], prepare, fitted, {"id_column": "who"})
    model.save(tmp_path / "m.npz")
    labels, margin = model.label(X)
    expected = idc.labels_ if method == "IDC" else table.METHODS[method](X, 3, 0)
    agree = (labels == expected).mean()
    assert agree > 0.9 if method == "Ward" else agree == 1      # Ward's centroids are near it
    assert ((margin >= 0) & (margin <= 1)).all()
    if method in ("k-means", "Ward"):
        assert model.label(fitted)[1] == pytest.approx(1)
        assert model.label(fitted[:2].mean(0, keepdims=True))[1] == pytest.approx(0, abs=1e-6)
    new = pd.DataFrame(UNITS[::-1], columns=NAMES[:6]).assign(who=[f"p{i}" for i in range(90)])
    new[[*new][::-1]].to_csv("new.csv", index=False)        # columns in another order
    assert cli.main(["apply", "m.npz", "new.csv"]) == 0
    assert labeling.HOW[method] in capsys.readouterr().out
    found = pd.read_csv("new-labels.csv")
    assert found["row"][0] == "p0" and found["cluster"].tolist() == labels[::-1].tolist()
    assert found["margin"].to_numpy() == pytest.approx(margin[::-1], abs=1e-3)
    new[:1].to_csv("new.csv", index=False)
    assert cli.main(["apply", "m.npz", "new.csv"]) == 0, "a single row"
    assert pd.read_csv("new-labels.csv")["cluster"].tolist() == [labels[-1]]


def test_what_new_rows_lack_or_have_otherwise_is_told_or_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    prepare = labeling.prepare(UNITS, log2=True)
    fitted = labeling.fit("k-means", prepare(UNITS), 3, 0, np.arange(90), None)
    labeling.Model("k-means", NAMES[:6], prepare, fitted).save(tmp_path / "bare.npz")
    named = pd.DataFrame(UNITS[:3], columns=NAMES[:6]).assign(age=[1, 2, 3], tube=list("zyx"))
    for factor, doubted in ((1, False), (1000, True)):
        named.assign(g0=factor * named["g0"]).to_csv("new.csv", index=False)
        assert cli.main(["apply", "bare.npz", "new.csv"]) == 0
        out = capsys.readouterr().out
        assert "Columns that are not used: 'age'." in out, "the other one names the rows"
        assert ("Are the units the same?" in out and "in 1 of 6 columns: 'g0'." in out) == doubted
        assert pd.read_csv("new-labels.csv")["row"].tolist() == list("zyx")
    (0.6 * named[NAMES[:6]]).to_csv("new.csv", index=False)         # other logarithms, say
    assert cli.main(["apply", "bare.npz", "new.csv"]) == 0
    assert re.search(r"same\? \d\d% of the values lie outside", capsys.readouterr().out)
    at_centers = np.exp2(fitted[:2] * prepare.scale + prepare.shift) - 1
    pd.DataFrame(at_centers, columns=NAMES[:6]).to_csv("new.csv", index=False)
    assert cli.main(["apply", "bare.npz", "new.csv"]) == 0
    out = capsys.readouterr().out
    assert "All margins are 1, so they do not say" in out and "Are the units" not in out
    with pytest.raises(InputError, match=r"frame\[list\(model.names\)\]"):
        prepare(named[NAMES[:6]])
    named.drop(columns="g3").to_csv("new.csv", index=False)
    assert cli.main(["apply", "bare.npz", "new.csv"]) == 2
    assert "lacks 1 of the 6 columns that the model needs: 'g3'" in capsys.readouterr().err
    named.assign(y=range(3), label=1).to_csv("new.csv", index=False)    # nothing asks for classes
    assert cli.main(["apply", "bare.npz", "new.csv"]) == 0
    out, err = capsys.readouterr()
    assert "not used: 'age', 'y', 'label'." in out and "class" not in out and not err
    dummies = labeling.Model("k-means", (*NAMES[:5], "g5=a"), prepare, fitted,
                             {"text": "one-hot", "texts": ["g5"]})
    dummies.save(tmp_path / "dummies.npz")
    named.assign(g5=list("abb")).to_csv("new.csv", index=False)
    assert cli.main(["apply", "dummies.npz", "new.csv"]) == 0
    assert "did not have count as none of its own: 'g5=b'." in capsys.readouterr().out
    named.assign(g5=[1, 2, 2]).to_csv("new.csv", index=False)       # "a" and "1" are texts alike
    assert cli.main(["apply", "dummies.npz", "new.csv"]) == 0
    out, err = capsys.readouterr()
    assert "of its own: 'g5=1', 'g5=2'." in out and "0 and 1: 'g5 (2)'." in out and not err
    named.assign(g0=list("abc")).to_csv("new.csv", index=False)
    assert cli.main(["apply", "dummies.npz", "new.csv"]) == 2
    assert "had numbers in the table of the model: 'g0 (such as a)'" in capsys.readouterr().err
    equals = labeling.Model("k-means", (*NAMES[:5], "g5=mg"), prepare, fitted, {})
    equals.save(tmp_path / "equals.npz")
    named.rename(columns={"g5": "g5=mg"}).to_csv("new.csv", index=False)
    assert cli.main(["apply", "equals.npz", "new.csv"]) == 0
    named.assign(g0=[1, np.nan, 2]).to_csv("new.csv", index=False)
    assert cli.main(["apply", "bare.npz", "new.csv"]) == 2
    assert "g0 (1)'; remove or fill in these rows" in capsys.readouterr().err
    named.drop(columns="g4").to_csv("new.csv", index=False)
    assert cli.main(["apply", "bare.npz", "new.csv"]) == 2 and "'g4'" in capsys.readouterr().err
    for wrong, says in (("new.csv", "is no model that"), ("none.npz", "is no model that")):
        assert cli.main(["apply", wrong, "new.csv"]) == 2 and says in capsys.readouterr().err
    (tmp_path / "new-labels.csv").write_text("mine")
    assert cli.main(["apply", "bare.npz", "new.csv"]) == 2 and "move it" in capsys.readouterr().err


def test_what_is_beside_the_features_is_joined_by_identifiers_or_else_by_order(tmp_path):
    path, ids = tmp_path / "meta.csv", tuple(f"p{i}" for i in range(20))
    second = pd.DataFrame({"batch": ["a", "b"] * 10, "age": np.arange(20) + 0.5, "who": ids,
                           "same": "x", "dose": [1, 2, None, 2] * 5})
    second[::-1].to_csv(path, index=False, sep=";")
    own = datasets.Dataset(np.zeros((20, 1), np.float32), np.arange(20) % 2, ("u", "v"),
                           datasets.load("wine").source, ids=ids,
                           beside=pd.DataFrame({"site": ["north", "south"] * 10}))
    found, how = labeling.beside(own, path)
    assert how == "by the column 'who'"
    assert list(found) == ["class", "site", "batch", "age", "dose"]
    assert found["batch"].tolist() == ["a", "b"] * 10 and len({*found["age"]}) == 4
    assert found["dose"].tolist()[:3] == ["1.0", "2.0", "missing"]
    assert found["class"].tolist()[:2] == ["u", "v"] and found["site"][0] == "north"
    assert labeling.beside(own)[1] == ""
    second.rename(columns={"batch": "class", "dose": "site"}).to_csv(path, index=False)
    assert [*labeling.beside(own, path)[0]] == [
        "class", "site", "class (meta.csv)", "age", "site (meta.csv)"]
    second[::-1].to_csv(path, index=False, sep=";")
    bare = replace(own, ids=None, y=None, beside=None)
    found, how = labeling.beside(bare, path)
    assert how == "by the order of the rows, because the table does not name its rows"
    assert found["batch"].tolist() == ["b", "a"] * 10
    (tmp_path / "none.csv").write_text("who,batch\n")
    with pytest.raises(InputError, match="none.csv has no rows"):
        labeling.beside(own, tmp_path / "none.csv")
    for given, says in ((replace(own, ids=("q",) * 20), "of the table once; none has 'q'"),
                        (replace(own, ids=("p20", *ids[1:])), "'who' lacks 1 of 20: 'p20'"),
                        (replace(bare, X=bare.X[1:]), "20 rows, the table 19"),
                        (bare, "can't be read")):
        if given is bare:
            path.write_bytes(b"\x1f\x8b cut")
        with pytest.raises(InputError, match=says):
            labeling.beside(given, path)
