"""Rules of at most three conditions that describe clusters, read from shallow decision trees.

A rule is a path in a CART tree (Breiman et al., Classification and Regression Trees, 1984) that
tells the rows of one cluster from all others. It describes clusters that were found before, and is
no evidence that these are real.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

MOST = 3            # conditions of a rule
FEWEST = 5          # rows of a cluster, at least, to hold some out
DESCRIBES = 0.8     # share of held-out rows: of the cluster's covered, and of the covered its own
SHORTER = 0.02      # F1 on held-out rows that a further condition has to add

#: Conditions that all hold, each a feature's number, whether it is above the threshold, and that.
Conditions = tuple[tuple[int, bool, float], ...]


def paths(tree: Any, node: int = 0, path: Conditions = ()) -> Iterator[tuple[int, Conditions]]:
    """Each node below one of a fitted ``tree_`` of scikit-learn, with the conditions on its way."""
    yield node, path
    if tree.feature[node] >= 0:
        where = int(tree.feature[node]), float(tree.threshold[node])
        for above, child in enumerate((tree.children_left[node], tree.children_right[node])):
            yield from paths(tree, child, (*path, (where[0], bool(above), where[1])))


def covered(X: np.ndarray, conditions: Conditions) -> np.ndarray:
    """Which rows of *X*, shape (n_rows, n_features), fulfill all conditions, shape (n_rows,)."""
    kept = np.ones(len(X), dtype=bool)
    for feature, above, threshold in conditions:
        kept &= (X[:, feature] > threshold) == above
    return kept


def describe(X: ArrayLike, labels: ArrayLike, names: Sequence[str]) -> pd.DataFrame:
    """For each cluster a rule of at most `MOST` conditions that covers its rows, by F1.

    Of the best rules with one condition, two, and so on, the shortest within `SHORTER` of the best
    on held-out rows.

    *X* has the features that rules may name, shape (n_rows, n_features), in the table's own units,
    *labels* the clusters, (n_rows,), *names* those of the features. Columns: ``cluster``, ``rule``,
    the ``rows`` that it covers ``of`` the cluster's, ``others`` that it covers too; the same of
    five other rules, each made anew from four fifths of the rows and counted on the rest
    (``held-out rows``, ``held-out others``); ``fidelity``, the share of held-out rows on which rule
    and cluster agree; and ``describes``, by `DESCRIBES` on the held-out rows. A cluster
    of fewer than `FEWEST` rows, or with fewer others, has no rule.
    """
    X, labels, found = np.asarray(X, dtype=np.float64), np.asarray(labels), []
    for cluster in np.unique(labels):
        own = labels == cluster
        one = {"cluster": cluster, "rule": "", "rows": 0, "of": own.sum(), "others": 0,
               "held-out rows": 0, "held-out others": 0, "fidelity": np.nan, "describes": False}
        found.append(one)
        if min(own.sum(), (~own).sum()) < FEWEST or not X.shape[1]:
            continue
        held = np.zeros((MOST, len(X)), dtype=bool)
        for kept, out in StratifiedKFold(5, shuffle=True, random_state=0).split(X, own):
            for row, rule in zip(held, _best(X[kept], own[kept]), strict=True):
                row[out] = covered(X[out], rule)
        scores = np.array([_f1(row, own) for row in held])
        length = int(np.argmax(scores >= scores.max() - SHORTER))
        rule = _rounded(X, _best(X, own)[length])
        whole, held = covered(X, rule), held[length]
        inside = (held & own).sum()
        one |= {"rule": _said(rule, names), "rows": (whole & own).sum(),
                "others": (whole & ~own).sum(), "held-out rows": inside,
                "held-out others": (held & ~own).sum(), "fidelity": (held == own).mean(),
                "describes": bool(inside >= DESCRIBES * max(own.sum(), held.sum()))}
    return pd.DataFrame(found)


def sentence(row: pd.Series) -> str:
    """A row of `describe` in words."""
    if not row["rule"]:
        why = (f"no feature stands out, or fewer than {FEWEST} rows lie outside it"
               if row["of"] >= FEWEST else f"it has {row['of']} rows")
        return f"cluster {row['cluster']}: no rule, because {why}"
    counts = (f"{row['rows']} of {row['of']} rows, {_others(row['others'])} (held out: "
              f"{row['held-out rows']} and {_others(row['held-out others'])})")
    if row["describes"]:
        return f"cluster {row['cluster']}: {row['rule']}: {counts}"
    return (f"cluster {row['cluster']}: no rule of at most {MOST} conditions describes it; the "
            f"best one is {row['rule']}: {counts}")


def _others(count: int) -> str:
    return f"{count} other{'s' * (count != 1)}"


def _best(X: np.ndarray, own: np.ndarray) -> list[Conditions]:
    """The best path by F1 of at most 1, 2, … `MOST` conditions."""
    tree = DecisionTreeClassifier(max_depth=MOST, class_weight="balanced", random_state=0)
    nodes = [path for _, path in paths(tree.fit(X, own).tree_) if path] or [()]
    scores = np.array([_f1(covered(X, path), own) for path in nodes])
    lengths = np.array([len(path) for path in nodes])
    return [nodes[int(np.argmax(np.where(lengths <= most, scores, -1)))]
            for most in range(1, MOST + 1)]


def _f1(covers: np.ndarray, own: np.ndarray) -> float:
    return 2 * (covers & own).sum() / max(1, covers.sum() + own.sum())


def _rounded(X: np.ndarray, conditions: Conditions) -> Conditions:
    """The conditions in two directions at most for a feature, and with few digits.

    Each covers the same rows of *X* as before.
    """
    tightest = {(feature, above): threshold for feature, above, threshold in conditions}
    short = []
    for (feature, above), threshold in tightest.items():
        # A tree sees single precision: in double, all rows may lie on one side of its threshold.
        low = X[X[:, feature] <= threshold, feature].max(initial=-np.inf)
        high = X[X[:, feature] > threshold, feature].min(initial=np.inf)
        digits = (float(f"{threshold:.{n}g}") for n in range(1, 18))
        short.append((feature, above, next(t for t in (*digits, low) if low <= t < high)))
    return tuple(short)


def _said(conditions: Conditions, names: Sequence[str]) -> str:
    return " and ".join(f"{names[feature]} {'>' if above else '≤'} {threshold:.15g}"
                        for feature, above, threshold in conditions)
