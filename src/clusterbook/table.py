"""Whether the clusters of a table are real, and what sets them apart, without classes.

IDC is compared with three other methods, and these with themselves on tables without groups:
columns shuffled, and rows of one cloud, which has the table's covariances and so is the stronger
null. Stability is the adjusted Rand index (ARI) of pairs of runs; features are ranked by Hedges' g,
a standardized difference of means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.linalg import helmert
from scipy.optimize import linear_sum_assignment
from scipy.special import xlogy
from scipy.stats import random_table
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from . import checks, metrics
from .paths import bar

SAMPLE = 2000       # other methods, silhouettes and the scan use at most this many rows
BEYOND = 3          # standard deviations above the mean of tables without groups
STABLE = 0.8        # mean ARI from which clusterings count as stable
SAME = 0.9          # ARI from which two methods find the same clusters
STEADIER = 0.05     # mean ARI by which a better method is more stable,
APART = 2           # and standard deviations of shuffled tables by which its silhouette is higher
MOST_LISTED = 10    # features of a cluster

Blocks = Sequence[np.ndarray]       # numbers of the columns that stand for one column of text


def training_settings(n_rows: int, n_features: int, **asked: float) -> dict[str, Any]:
    """Settings of the chapter ``idc_table`` by the size of the table, other than those asked for.

    ``hidden`` is the width of all hidden layers; the others are settings of `IDC`. 0 asks for none.
    Few rows need more epochs; many features, a larger weight of sparsity to close their gates.
    Raises InputError for a negative setting.
    """
    for name, value in asked.items():
        checks.number(name, value, zero=True)
    by_rows = (25, 50, 100, 400)[np.searchsorted((150, 2000, 10_000), n_rows)]
    batch = min(asked.get("batch_size") or by_rows, n_rows)
    steps = (2000, 1000, 750)[np.searchsorted((1000, 10_000), n_features)]
    epochs = asked.get("epochs") or int(np.clip(steps // (n_rows // batch), 40, 300))
    weight = 3 * max(1.0, (n_features / 100) ** 0.5)
    usual = {"epochs": epochs, "ae_pretrain_epochs": max(1, 3 * epochs // 5), "hidden": 64,
             "local_gates_lambda": float(f"{weight:.2g}")}
    return {**usual, **{name: value for name, value in asked.items() if value}, "batch_size": batch}


@threadpool_limits.wrap(limits=1)       # small work: with more threads a busy machine stalls it
def kmeans(X: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Clusters of k-means, the best of ten starts, shape (n_rows,)."""
    return KMeans(k, n_init=10, random_state=seed).fit_predict(X)


def ward(X: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Clusters of Ward's method, which is deterministic, shape (n_rows,)."""
    return AgglomerativeClustering(k).fit_predict(X)


def mixture(X: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Clusters of a Gaussian mixture, its covariances as rich as the rows allow, (n_rows,)."""
    return fitted_mixture(X, k, seed).predict(X)


def fitted_mixture(X: np.ndarray, k: int, seed: int) -> GaussianMixture:
    """The mixture itself."""
    n, d = X.shape
    kind = "full" if n >= 5 * k * d else "diag" if n > d else "spherical"
    return GaussianMixture(k, covariance_type=kind, reg_covar=1e-3, random_state=seed).fit(X)


METHODS = {"k-means": kmeans, "Ward": ward, "Gaussian mixture": mixture}


def reduced(X: ArrayLike) -> np.ndarray:
    """The centered rows in at most *n_rows* dimensions; all distances stay the same."""
    X = np.asarray(X, dtype=np.float64)
    X = X - X.mean(axis=0)
    if X.shape[1] <= len(X):
        return X
    values, vectors = np.linalg.eigh(X @ X.T)
    return vectors * np.sqrt(values.clip(0))


def shuffled(X: ArrayLike, seed: int, blocks: Blocks = ()) -> np.ndarray:
    """The table with each column shuffled independently, the columns of a block together."""
    X, rng = np.asarray(X), _rng(seed)
    found = rng.permuted(X, axis=0)
    for block in blocks:
        found[:, block] = rng.permutation(X[:, block])
    return found


def cloud(X: ArrayLike, seed: int, blocks: Blocks = ()) -> np.ndarray:
    """Rows of one normal distribution, given that they have mean 0 and the covariances of *X*.

    That is a random rotation of its rows (Langsrud, Statistics and Computing 15, 2005). Rows drawn
    from a normal distribution with these covariances would have others, and with few rows far
    clearer clusters. A block of columns stands for one column of text. There the table's rows are
    put into the order that is most similar to the rotated ones, because no table has values between
    two texts; the covariances with these columns are smaller, then.
    """
    X = np.asarray(X, dtype=np.float64)
    X = X - X.mean(axis=0)
    n, d = X.shape
    core = np.linalg.qr(X, mode="r") if d < n else helmert(n) @ X       # X without its rows' places
    normal = _rng(seed).standard_normal((n, len(core)))
    basis, triangle = np.linalg.qr(normal - normal.mean(axis=0))
    found = basis * np.sign(np.diag(triangle)) @ core
    for block in blocks:
        order = linear_sum_assignment(found[:, block] @ X[:, block].T, maximize=True)[1]
        found[:, block] = X[order][:, block]
    return found


def _rng(seed: int) -> np.random.Generator:
    """A stream other than ``default_rng(seed)``, which may have simulated the table."""
    return np.random.default_rng([seed, *b"table"])


@dataclass
class Judged:
    """A clustering and its quality; a list is empty where nothing was computed."""

    labels: np.ndarray
    silhouette: float                       # of the scaled features
    null: Sequence[float] = ()              # silhouettes on shuffled tables
    cloud: Sequence[float] = ()             # silhouettes on tables of one cloud
    seeds: Sequence[float] = ()             # ARI of seeds
    subsamples: Sequence[float] = ()        # ARI of random 80% of the rows
    by_chance: Sequence[float] = ()         # ARI of subsamples of tables of one cloud
    parts: Sequence[np.ndarray] = ()        # clusters of tables of one cloud
    largest: float = np.nan                 # absolute Hedges' g of any feature in these clusters

    @property
    def stability(self) -> float:
        """The lower of the mean ARI between seeds and between subsamples; NaN without either."""
        return min((np.mean(ari) for ari in (self.seeds, self.subsamples) if ari), default=np.nan)


def agreement(labelings: Sequence[ArrayLike]) -> list[float]:
    """ARI of all pairs of clusterings of the same rows; 0 where one has a single cluster."""
    return [metrics.ari(a, b) if min(len(np.unique(a)), len(np.unique(b))) > 1 else 0.0
            for a, b in combinations(labelings, 2)]


def subsample_agreement(method: Callable, X: np.ndarray, k: int, n_pairs: int, seed: int
                        ) -> list[float]:
    """ARI of pairs of random samples of 80% of the rows, using the rows that both contain."""
    rng, found = _rng(seed), []
    for i in range(n_pairs):
        labels = np.full((2, len(X)), -1)
        for row in labels:
            kept = rng.choice(len(X), max(k, round(0.8 * len(X))), replace=False)
            row[kept] = method(X[kept], k, seed + i)
        found += agreement(labels[:, (labels >= 0).all(0)])
    return found


def silhouette(X: np.ndarray, labels: ArrayLike) -> float:
    """The mean silhouette; 0 where it is undefined, with one cluster or one per row."""
    n_found = len(np.unique(labels))
    return float(metrics.silhouette(X, labels)) if 1 < n_found < len(X) else 0.0


def beyond(value: float, null: Sequence[float]) -> bool:
    """Whether a value exceeds all null values, and their mean by `BEYOND` standard deviations."""
    return bool(value > max(null) and value > np.mean(null) + BEYOND * np.std(null, ddof=1))


def judge(method: Callable, X: np.ndarray, k: int, seed: int, *, n_runs: int = 1,
          null: Sequence[tuple[int, np.ndarray]] = (), cloud: Sequence[tuple[int, np.ndarray]]
          ) -> Judged:
    """Cluster a table, and tables without groups; each of these comes with the method's seed."""
    runs = [method(X, k, seed + i) for i in range(n_runs)]
    parts = [method(Z, k, i) for i, Z in cloud]
    return Judged(
        runs[0], silhouette(X, runs[0]), null=[silhouette(Z, method(Z, k, i)) for i, Z in null],
        cloud=[silhouette(Z, own) for own, (_, Z) in zip(parts, cloud, strict=True)],
        seeds=agreement(runs), subsamples=subsample_agreement(method, X, k, 5, seed),
        by_chance=[ari for i, Z in cloud for ari in subsample_agreement(method, Z, k, 1, i)],
        parts=parts)


@threadpool_limits.wrap(limits=1)
def compare(X: np.ndarray, k: int, *, seed: int = 0, n_null: int = 10, blocks: Blocks = ()
            ) -> dict[str, Judged]:
    """Every method of `METHODS` on the table, (n_rows, n_features), and on *n_null* of each null.

    *blocks* has the numbers of the columns that were made of one column of text. ``largest`` is the
    largest absolute Hedges' g of any feature in the clusters that the method finds in any table of
    one cloud. Raises InputError for fewer than 2 tables, which have no spread.
    """
    checks.whole("n_null", n_null, 2)
    tables = range(seed, seed + n_null)
    null = [(i, reduced(shuffled(X, i, blocks))) for i in tables]
    clouds = [(i, reduced(cloud(X, i, blocks))) for i in tables]
    judged = {name: judge(method, reduced(X), k, seed, n_runs=1 if method is ward else 5,
                          null=null, cloud=clouds)
              for name, method in bar(METHODS.items(), "methods")}
    for number, i in enumerate(bar(tables, "features by chance")):
        whole = cloud(X, i, blocks)     # made again: all of them may not fit into memory
        for one in judged.values():
            sizes = [np.abs(effects(whole, one.parts[number], c)[0]).max() for c in range(k)]
            one.largest = float(np.nanmax([one.largest, *sizes]))
    return judged


@threadpool_limits.wrap(limits=1)
def scan(X: np.ndarray, ks: Sequence[int], *, seed: int = 0, n_null: int = 10, blocks: Blocks = ()
         ) -> dict[int, Judged]:
    """k-means for several numbers of clusters, on the table and on tables of one cloud."""
    checks.whole("n_null", n_null, 2)
    R, clouds = reduced(X), [(seed, reduced(cloud(X, seed + i, blocks))) for i in range(n_null)]
    return {k: judge(kmeans, R, k, seed, cloud=clouds) for k in bar(ks, "numbers of clusters")}


def has_structure(judged: Mapping[str, Judged], tables: str = "null") -> bool:
    """Whether most methods separate clusters further than on those tables without groups."""
    return sum(beyond(one.silhouette, getattr(one, tables)) for one in judged.values()) >= 2


def strongest(judged: Mapping[str, Judged]) -> str:
    """The strongest null that the clusters are beyond: ``cloud``, ``shuffled`` or ``none``."""
    if not has_structure(judged):
        return "none"
    return "cloud" if has_structure(judged, "cloud") else "shuffled"


def preferred(points: Mapping[int, Judged]) -> int | None:
    """The stable k furthest above tables of one cloud; None if none is stable and beyond them."""
    held = {k: one.silhouette - np.mean(one.cloud) for k, one in points.items()
            if beyond(one.silhouette, one.cloud) and one.stability >= STABLE}
    return max(held, key=held.get, default=None)


def agrees(judged: Judged) -> bool | None:
    """Whether seeds agree by `STABLE` on average; None without further seeds."""
    return bool(np.mean(judged.seeds) >= STABLE) if judged.seeds else None


def recommended(idc: Judged, judged: Mapping[str, Judged]) -> tuple[str, bool]:
    """The method whose clusters to use, and whether they are stable.

    IDC, if its seeds agree, it uses as many clusters as the others, and none of these does better;
    else the first of `METHODS` that is about as stable as any. Without a stable method, the most
    stable one.
    """
    ahead = [name for name, one in judged.items() if better(one, idc)]
    uses_all = in_use(idc) >= max(map(in_use, judged.values()))
    if not ahead and agrees(idc) and uses_all:
        return "IDC", True
    stable = ahead or [name for name, one in judged.items() if one.stability >= STABLE]
    known = {name: one.stability for name, one in {**judged, "IDC": idc}.items()
             if not np.isnan(one.stability) and (one is not idc or uses_all)}
    if not stable:
        return max(known, key=known.get), False
    least = max(known[name] for name in stable) - STEADIER
    return next(name for name in stable if known[name] >= least), True


def in_use(judged: Judged) -> int:
    """The number of clusters that have rows."""
    return len(np.unique(judged.labels))


def same(one: Judged, other: Judged) -> bool:
    """Whether two clusterings are the same but for a few rows."""
    return agreement([one.labels, other.labels])[0] >= SAME


def better(one: Judged, other: Judged) -> bool:
    """Whether a stable clustering differs from another and is better by `STEADIER` and `APART`."""
    steadier = np.isnan(other.stability) or one.stability > other.stability + STEADIER
    apart = one.silhouette > other.silhouette + APART * np.std(one.null, ddof=1)
    return bool(one.stability >= STABLE and steadier and apart and not same(one, other))


def association(labels: ArrayLike, groups: ArrayLike, *, n_permutations: int = 999, seed: int = 0
                ) -> tuple[float, float]:
    """AMI of clusters and of groups that were not clustered, (n_rows,) each, and a p-value.

    The p-value is the share of permutations of the rows, this order among them, with as much mutual
    information; given the sizes of clusters and groups, AMI only grows with it.
    """
    counts = pd.crosstab(np.asarray(labels), np.asarray(groups)).to_numpy()
    sizes = counts.sum(axis=1), counts.sum(axis=0)      # all that a permutation keeps
    tables = [counts, *random_table(*sizes).rvs(n_permutations, random_state=_rng(seed))]
    information = xlogy(tables, tables).sum(axis=(1, 2))
    return metrics.ami(labels, groups), float(np.mean(information >= information[0] - 1e-9))


def coincide(labels: ArrayLike, groups: ArrayLike) -> list[tuple[Any, Any]]:
    """Clusters and groups, (n_rows,) each, that share `SAME` of the rows of either: pairs."""
    counts = pd.crosstab(np.asarray(labels), np.asarray(groups))
    either = np.add.outer(counts.sum(axis=1).to_numpy(), counts.sum().to_numpy()) - counts
    return [(counts.index[i], counts.columns[j])
            for i, j in np.argwhere((counts / either).to_numpy() >= SAME)]


def nested(labels: ArrayLike, groups: ArrayLike) -> bool:
    """Whether `SAME` of the rows of each cluster are of one group, and not all of the same group.

    Rows of the group ``missing`` do not count.
    """
    labels, groups = np.asarray(labels), np.asarray(groups)
    counts = pd.crosstab(labels[groups != "missing"], groups[groups != "missing"])
    pure = (counts.max(axis=1) >= SAME * counts.sum(axis=1)).all()
    return bool(pure and counts.idxmax(axis=1).nunique() > 1)


def effects(X: ArrayLike, labels: ArrayLike, cluster: int
            ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hedges' g of each feature, and its means in the cluster and in all other rows.

    Three arrays of shape (n_features,). g is in pooled standard deviations; infinite where nothing
    varies but the means differ, 0 where there are fewer than three rows here or elsewhere.
    """
    X, own = np.asarray(X, dtype=np.float64), np.asarray(labels) == cluster
    inside, outside = X[own], X[~own]
    n, m = len(inside), len(outside)
    with np.errstate(divide="ignore", invalid="ignore"):
        level, rest = inside.sum(0) / n, outside.sum(0) / m
        if n < 3 or m < 3:
            return np.zeros(X.shape[1]), level, rest
        pooled = np.sqrt((n * inside.var(0) + m * outside.var(0)) / (n + m - 2))
        rounding = 1e-9 * np.abs(X).max(0)      # in any unit
        g = (level - rest) / np.where(pooled <= rounding, 0, pooled) * (1 - 3 / (4 * (n + m) - 9))
    # Equal means may differ by rounding.
    return np.where(np.abs(level - rest) <= rounding, 0, g), level, rest


def ranking(X: ArrayLike, labels: ArrayLike, gates: ArrayLike, cluster: int) -> pd.DataFrame:
    """The features of a cluster by the size of their effect; the index has the feature's number.

    Columns: ``g``, ``level`` and ``rest`` of `effects`; ``share``, that of its rows whose gate is
    open; ``rank``; and ``tied``. Effects that round to the same tie, ordered by ``share``.
    """
    g, level, rest = effects(X, labels, cluster)
    share = (np.asarray(gates)[np.asarray(labels) == cluster] > 0).mean(0)
    found = pd.DataFrame({"g": g, "level": level, "rest": rest, "share": share})
    size = found["g"].abs().round(2)
    found["rank"] = size.rank(ascending=False, method="min").astype(int)
    found["tied"] = size.duplicated(keep=False)
    return found.sort_values(["rank", "share"], ascending=[True, False], kind="stable")


def top(ranking: pd.DataFrame, most: int = MOST_LISTED) -> int:
    """How many features to list: at most *most*, and no part of a tie."""
    return len(ranking) if len(ranking) <= most else int(ranking["rank"].iloc[most]) - 1
