"""Quality of a clustering of a table, in numbers and sentences that need no classes.

The notebook ``idc_table`` shows them; nothing here trains IDC. Its clusters are compared with those
of k-means, Ward's method and a Gaussian mixture, and these with their own on two kinds of tables
without groups: one whose columns are shuffled independently, and one drawn from a single normal
distribution with the table's covariances. Stability is the adjusted Rand index (ARI) of pairs of
runs: of two seeds, or of two random subsamples on the rows that both contain. Features are ranked
by Hedges' g, the standardized difference of means between a cluster and all other rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from .. import metrics
from ..errors import InputError

SAMPLE = 2000       # other methods, silhouettes and the scan use at most this many rows
STABLE = 0.8        # mean ARI from which clusterings count as stable
SAME = 0.9          # ARI from which two methods find the same clusters
HEADS = {"clusters": "row,cluster,", "features": "cluster,rank,feature,", "gates": "gates of row,"}
_EMPTY = np.zeros(0)


def settings(n_rows: int, n_features: int, **asked: float) -> dict[str, Any]:
    """Training settings of `IDC` by the size of the table; a value asked for, other than 0, stays.

    Few rows need more epochs, since a batch is a step; many features need a larger weight of
    sparsity, without which gates stay open.

    Examples
    --------
    >>> settings(178, 13)["epochs"], settings(178, 13, epochs=50)["epochs"]
    (300, 50)
    """
    by_rows = next(size for most, size in ((150, 25), (2000, 50), (10_000, 100), (np.inf, 400))
                   if n_rows <= most)
    batch = min(asked.get("batch_size") or by_rows, n_rows)
    steps = 2000 if n_features <= 1000 else 1000 if n_features <= 10_000 else 750
    epochs = asked.get("epochs") or int(np.clip(steps // (n_rows // batch), 40, 300))
    weight = 3 * max(1.0, (n_features / 100) ** 0.5)
    usual = {"batch_size": batch, "epochs": epochs, "ae_pretrain_epochs": max(1, 3 * epochs // 5),
             "hidden": 64, "local_gates_lambda": float(f"{weight:.2g}")}
    return {**usual, **{name: value for name, value in asked.items() if value}, "batch_size": batch}


# ------------------------------------------------------------------- other methods, other tables


@threadpool_limits.wrap(limits=1)
def kmeans(X: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Clusters of k-means, the best of ten starts, shape (n_rows,)."""
    return KMeans(k, n_init=10, random_state=seed).fit_predict(X)


def ward(X: np.ndarray, k: int, seed: int = 0) -> np.ndarray:
    """Clusters of Ward's method, which is deterministic, shape (n_rows,)."""
    return AgglomerativeClustering(k).fit_predict(X)


def mixture(X: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Clusters of a Gaussian mixture, its covariances as rich as the rows allow, (n_rows,)."""
    n, d = X.shape
    kind = "full" if n >= 5 * k * d else "diag" if n > d else "spherical"
    return GaussianMixture(k, covariance_type=kind, reg_covar=1e-3,
                           random_state=seed).fit_predict(X)


METHODS = {"k-means": kmeans, "Ward": ward, "Gaussian mixture": mixture}


def reduced(X: ArrayLike) -> np.ndarray:
    """The centered rows in at most *n_rows* dimensions; all distances stay the same.

    Examples
    --------
    >>> reduced(np.eye(3, 100)).shape
    (3, 3)
    """
    X = np.asarray(X, dtype=np.float64)
    X = X - X.mean(0)
    if X.shape[1] <= len(X):
        return X
    values, vectors = np.linalg.eigh(X @ X.T)
    return vectors * np.sqrt(values.clip(0))


def shuffled(X: ArrayLike, seed: int) -> np.ndarray:
    """The table with each column shuffled independently."""
    return _rng(seed).permuted(np.asarray(X), axis=0)


def cloud(X: ArrayLike, seed: int) -> np.ndarray:
    """Rows drawn from one normal distribution with the covariances of *X*, of the same shape."""
    X = np.asarray(X, dtype=np.float64)
    X = X - X.mean(0)
    # Rows of X, mixed with normal weights, have the sample's covariance even where it is singular.
    return _rng(seed).standard_normal((len(X), len(X))) @ X / len(X) ** 0.5


def _rng(seed: int) -> np.random.Generator:
    """A stream other than ``default_rng(seed)``, which may have simulated the table."""
    return np.random.default_rng([seed, *b"table"])


# -------------------------------------------------------------------------- structure, stability


def agreement(labelings: Sequence[ArrayLike]) -> np.ndarray:
    """ARI of all pairs of clusterings of the same rows; 0 where one has a single cluster."""
    return np.array([metrics.ari(a, b) if min(len(np.unique(a)), len(np.unique(b))) > 1 else 0.0
                     for a, b in combinations(labelings, 2)])


def subsample_agreement(method: Callable, X: np.ndarray, k: int, n_pairs: int, seed: int
                        ) -> np.ndarray:
    """ARI of pairs of random samples of 80 % of the rows, on the rows that both contain."""
    rng, found = _rng(seed), []
    for i in range(n_pairs):
        labels = np.full((2, len(X)), -1)
        for row in labels:
            kept = rng.choice(len(X), max(k, round(0.8 * len(X))), replace=False)
            row[kept] = method(X[kept], k, seed + i)
        found.append(agreement(labels[:, (labels >= 0).all(0)])[0])
    return np.array(found)


def silhouette(X: np.ndarray, labels: ArrayLike) -> float:
    """The mean silhouette; 0 where it is undefined, with one cluster or one per row."""
    n_found = len(np.unique(labels))
    return float(metrics.silhouette(X, labels)) if 1 < n_found < len(X) else 0.0


def beyond(value: float, null: np.ndarray) -> bool:
    """Whether a value exceeds all null values, and their mean by three standard deviations."""
    return bool(value > null.max() and value > null.mean() + 3 * null.std(ddof=1))


class Judged(NamedTuple):
    """A clustering and its quality; an empty array where something was not computed.

    ``silhouette`` is of the scaled features; ``null`` has silhouettes on shuffled tables, ``cloud``
    on tables of one normal distribution; ``seeds``, ``subsamples`` and ``by_chance`` have the ARI
    of pairs of seeds, of subsamples, and of runs on shuffled tables.
    """

    labels: np.ndarray
    silhouette: float
    null: np.ndarray = _EMPTY
    cloud: np.ndarray = _EMPTY
    seeds: np.ndarray = _EMPTY
    subsamples: np.ndarray = _EMPTY
    by_chance: np.ndarray = _EMPTY

    @property
    def stability(self) -> float:
        """The lower of the mean ARI between seeds and between subsamples; NaN without either."""
        return min((float(a.mean()) for a in (self.seeds, self.subsamples) if a.size),
                   default=np.nan)


@threadpool_limits.wrap(limits=1)       # small work: with more threads a busy machine stalls it
def compare(X: np.ndarray, k: int, *, seed: int = 0, n_null: int = 10, n_pairs: int = 5,
            tick: Callable[[], Any] = lambda: None) -> tuple[dict[str, Judged], float]:
    """Every method of `METHODS` on the table and on *n_null* tables of each kind without groups.

    *tick* is called ``2 * n_null + 3`` times. The second value is the largest absolute Hedges' g of
    any feature in a cluster that k-means finds in a shuffled table, on average over those tables.
    """
    R, g, judged = reduced(X), [], {}
    nulls = {name: {"null": [], "cloud": [], "by_chance": []} for name in METHODS}
    for i in range(n_null):
        for kind, draw in (("null", shuffled), ("cloud", cloud)):
            other = draw(X, seed + i)
            Z = reduced(other)
            for name, method in METHODS.items():
                labels = method(Z, k, seed + i)
                nulls[name][kind].append(silhouette(Z, labels))
                if kind == "null":
                    nulls[name]["by_chance"] += [*subsample_agreement(method, Z, k, 1, seed + i)]
                if kind == "null" and name == "k-means":
                    g.append(max(np.abs(effects(other, labels, c)[0]).max() for c in range(k)))
            tick()
    for name, method in METHODS.items():
        runs = [method(R, k, seed + i) for i in range(1 if method is ward else n_pairs)]
        judged[name] = Judged(
            runs[0], silhouette(R, runs[0]), seeds=agreement(runs),
            subsamples=subsample_agreement(method, R, k, n_pairs, seed),
            **{key: np.array(values) for key, values in nulls[name].items()})
        tick()
    return judged, float(np.mean(g))


def has_structure(judged: Mapping[str, Judged]) -> bool:
    """Whether most methods separate clusters further on the table than on shuffled ones."""
    return sum(beyond(one.silhouette, one.null) for one in judged.values()) >= 2


class Point(NamedTuple):
    """One number of clusters in the scan: silhouettes and ARI of subsamples, with their nulls."""

    k: int
    silhouette: float
    null: np.ndarray
    stability: np.ndarray
    by_chance: np.ndarray


@threadpool_limits.wrap(limits=1)
def scan(X: np.ndarray, ks: Sequence[int], *, seed: int = 0, n_null: int = 10,
         tick: Callable[[], Any] = lambda: None) -> list[Point]:
    """k-means for several numbers of clusters; *tick* is called after each."""
    R, Zs, points = reduced(X), [reduced(shuffled(X, seed + i)) for i in range(n_null)], []
    for k in ks:
        points.append(Point(
            k, silhouette(R, kmeans(R, k, seed)),
            np.array([silhouette(Z, kmeans(Z, k, seed)) for Z in Zs]),
            subsample_agreement(kmeans, R, k, 5, seed),
            np.concatenate([subsample_agreement(kmeans, Z, k, 1, seed) for Z in Zs])))
        tick()
    return points


def preferred(points: Sequence[Point]) -> int | None:
    """The stable k furthest above shuffled tables; None if none is stable and beyond them."""
    held = [p for p in points if beyond(p.silhouette, p.null) and p.stability.mean() >= STABLE]
    return max(held, key=lambda p: p.silhouette - p.null.mean()).k if held else None


# -------------------------------------------------------------------------------------- features


def effects(X: ArrayLike, labels: ArrayLike, cluster: int
            ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hedges' g of each feature, and its means in the cluster and in all other rows.

    Three arrays of shape (n_features,). g is in pooled standard deviations; infinite where the two
    means differ and nothing varies, 0 where there are fewer than three rows or no others.
    """
    X, own = np.asarray(X, dtype=np.float64), np.asarray(labels) == cluster
    inside, outside = X[own], X[~own]
    n, m = len(inside), len(outside)
    level, rest = (part.mean(0) if len(part) else np.full(X.shape[1], np.nan)
                   for part in (inside, outside))
    if n < 3 or m < 3:
        return np.zeros(X.shape[1]), level, rest
    pooled = np.sqrt((n * inside.var(0) + m * outside.var(0)) / (n + m - 2))
    apart = level - rest
    # Rounding leaves means that are equal, and columns that are constant, a little apart.
    tiny = 1e-9 * (np.abs(level) + np.abs(rest) + 1)
    apart[np.abs(apart) < tiny], pooled[pooled < tiny] = 0, 0
    with np.errstate(divide="ignore", invalid="ignore"):
        g = np.where(apart == 0, 0.0, apart / pooled) * (1 - 3 / (4 * (n + m) - 9))
    return g, level, rest


class Ranking(NamedTuple):
    """The features of one cluster: ``order`` has their indices, and the rest is in that order.

    ``rank`` counts the features with a larger absolute g, plus 1; those that share a rank tie.
    """

    cluster: int
    order: np.ndarray
    rank: np.ndarray
    tied: np.ndarray
    g: np.ndarray
    level: np.ndarray
    rest: np.ndarray
    share: np.ndarray

    def top(self, most: int = 10) -> int:
        """How many features to list: at most *most*, and no part of a tie."""
        return len(self.rank) if len(self.rank) <= most else int(self.rank[most]) - 1


def ranking(X: ArrayLike, labels: ArrayLike, gates: ArrayLike, cluster: int) -> Ranking:
    """Features of a cluster by the size of their effect, which ties where it rounds to the same.

    The share of the cluster's rows whose gate is open orders features within a rank only.
    """
    g, level, rest = effects(X, labels, cluster)
    share = (np.asarray(gates)[np.asarray(labels) == cluster] > 0).mean(0)
    size = np.round(np.abs(g), 2)
    order = np.lexsort((-share, -size))
    rank = 1 + np.searchsorted(-size[order], -size[order])
    tied = np.bincount(rank)[rank] > 1
    return Ranking(cluster, order, rank, tied, g[order], level[order], rest[order], share[order])


def own_features(x: np.ndarray, gates: np.ndarray, most: int = 5) -> np.ndarray:
    """The features of one row, by how much of the scaled value its gate lets through."""
    through = np.round(np.abs(x * gates), 2)
    order = np.argsort(-through, kind="stable")[:most]
    return order[through[order] > 0]


def distances(X: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """Distance of each row to the mean of its own cluster and of the nearest other, (n_rows, 2).

    The second is NaN where there is one cluster.
    """
    X, (found, own) = np.asarray(X), np.unique(labels, return_inverse=True)
    far = cdist(X, np.stack([X[own == c].mean(0) for c in range(len(found))]))
    mine = far[np.arange(len(X)), own]
    far[np.arange(len(X)), own] = np.inf
    return np.stack([mine, far.min(1) if len(found) > 1 else np.full(len(X), np.nan)], axis=1)


def refuse_others(files: Mapping[str, Path], source: Path) -> None:
    """Raise InputError if one of the files to write is the data, or no earlier table of that kind.

    *files* has a path for each key of `HEADS`, which has the beginning of each table.
    """
    for kind, path in files.items():
        if not path.exists():
            continue
        begins = "" if path.is_dir() else path.open(encoding="utf-8", errors="replace").readline()
        if not begins.startswith(HEADS[kind]) or (source.exists() and path.samefile(source)):
            raise InputError(f"{path.name} exists and was not written by this notebook; move it, "
                             "or give another folder or another name for the notebook")


# --------------------------------------------------------------------------------------- verdict


class Verdict(tuple):
    """Sentences, the first one the most important; shows as a list, or as plain lines."""

    def __repr__(self) -> str:
        return "\n".join(self)

    def _repr_markdown_(self) -> str:
        first, *more = (re.sub(r"([\\`*_{}\[\]<>|$#])", r"\\\1", line) for line in self)
        return "\n".join([f"**{first}**", "", *(f"- {line}" for line in more)])


def findings(idc: Judged, judged: Mapping[str, Judged], points: Sequence[Point], *,
             n_rows: int, n_features: int, n_clusters: int) -> list[str]:
    """Sentences about structure, stability, rivals and number of clusters, the first one first."""
    first, *more = _structure(judged, n_rows, n_features)
    best = preferred(points)
    if not has_structure(judged) and best is not None:
        first = (f"No structure found with {n_clusters} clusters that shuffled data do not show; "
                 f"try {best}.")
    return [first, *more, _between_seeds(idc), *_beside(idc, judged), _how_many(points, n_clusters)]


def _structure(judged: Mapping[str, Judged], n: int, d: int) -> list[str]:
    km = judged["k-means"]
    line = (f"The silhouette of k-means is {km.silhouette:.2g}, that of shuffled tables "
            f"{spread(km.null)}.")
    if not has_structure(judged):
        return ["No structure found that shuffled data do not show.",
                f"{line} Do not interpret the clusters below."]
    found, reaches = ["There is structure that shuffled data do not show.", line], (
        f"one normal distribution with the same covariances reaches {spread(km.cloud)}.")
    if sum(beyond(one.silhouette, one.cloud) for one in judged.values()) >= 2:
        return [*found, f"Correlated features alone do not explain it: {reaches}"]
    if n < 2 * d:
        return [*found, f"So few rows cannot tell whether these are separate groups: {reaches}"]
    return [*found, f"But it may be a continuum, cut where there is no gap: {reaches}"]


def _between_seeds(idc: Judged) -> str:
    if len(np.unique(idc.labels)) < 2:
        return "IDC puts all rows into one cluster, so it shows no groups; try another seed."
    if not idc.seeds.size:
        return "Not checked: whether IDC agrees between seeds; give seeds, such as [1, 2]."
    mean = float(idc.seeds.mean())
    how = (f"mean ARI {mean:.2f} ({idc.seeds.min():.2f} to {idc.seeds.max():.2f}, "
           f"{_count(len(idc.seeds), 'pair')})")
    if idc.by_chance.size:
        how += f"; on shuffled data {idc.by_chance.mean():.2f}"
        if mean < idc.by_chance.mean() + 0.1:
            return f"The clusters of IDC agree no more than on shuffled data: {how}."
    if mean < 0.5:
        return f"The clusters of IDC change with the seed: {how}. Do not rely on a single run."
    part = "" if mean >= STABLE else " only in part"
    return f"The clusters of IDC agree{part} between seeds: {how}."


def _beside(idc: Judged, judged: Mapping[str, Judged]) -> list[str]:
    if not has_structure(judged):
        return []
    ari = {name: agreement([idc.labels, one.labels])[0] for name, one in judged.items()}
    listed = {name: f"{name} (ARI {value:.2f})" for name, value in ari.items()}
    same = [name for name in judged if ari[name] >= SAME]
    better = {name: one for name, one in judged.items() if name not in same
              and one.silhouette > idc.silhouette + 2 * one.null.std(ddof=1)
              and (np.isnan(idc.stability) or one.stability > idc.stability + 0.05)}
    said = [f"The same clusters as IDC: {', '.join(listed[name] for name in same)}."] * bool(same)
    if better:
        name, best = max(better.items(), key=lambda item: item[1].silhouette)
        stable = ("" if np.isnan(idc.stability) else
                  f"more stable (ARI {best.stability:.2f} against {idc.stability:.2f}) and ")
        where = " (its clusters are in the result table)" if name == "k-means" else ""
        advice = "but it is not stable either" if best.stability < 0.5 else f"use it{where}"
        said.append(f"{name}, which agrees with IDC at ARI {ari[name]:.2f}, is {stable}better "
                    f"separated (silhouette {best.silhouette:.2g} against {idc.silhouette:.2g}): "
                    f"{advice}.")
    return said or [f"Other methods find other clusters than IDC: {', '.join(listed.values())}; "
                    "none of them is both more stable and better separated."]


def _how_many(points: Sequence[Point], n_clusters: int) -> str:
    if not points:
        return "Not checked: how many clusters there are; give k_values, such as [2, 3, 4]."
    best, tried = preferred(points), f"{points[0].k} to {points[-1].k}"
    if best is None:
        return (f"No number of clusters from {tried} is both stable and better separated than "
                "shuffled data.")
    asked = "as asked for" if best == n_clusters else f"{n_clusters} were asked for"
    edge = "; it is the largest tried, so try more" if best == points[-1].k else ""
    return f"Of {tried} clusters, k-means separates {best} best ({asked}){edge}."


def warnings(labels: ArrayLike, gates: ArrayLike, *, n_clusters: int, weight: float) -> list[str]:
    """Warnings of few rows, of empty or tiny clusters, and of gates that stay open or closed.

    *weight* is the ``local_gates_lambda`` of the run; the one to try instead is named.
    """
    labels, is_open = np.asarray(labels), np.asarray(gates) > 0
    n, d = is_open.shape
    sizes, said = np.bincount(labels, minlength=n_clusters), []
    if d > 5 * n:
        said.append(f"Features far outnumber rows ({d:,} and {n:,}): some will separate any "
                    "clusters by chance. Confirm them on new rows.")
    if (sizes == 0).any():
        said.append(f"IDC uses {(sizes > 0).sum()} of {n_clusters} clusters.")
    said += [f"Cluster {c} has {_count(size, 'row')}: outliers rather than a group."
             for c, size in enumerate(sizes) if 0 < size < max(5, round(0.02 * n))]
    if is_open.mean() > 0.5:
        said.append(f"Gates stay open: {is_open.sum(1).mean():,.0f} of {d:,} features a row, so "
                    f"they select little. Try -p local_gates_lambda {3 * weight:.2g}.")
    closed = (~is_open).all(1)
    if closed.mean() > 0.1:
        said.append(f"No gate is open for {closed.sum():,} of {n:,} rows. Try "
                    f"-p local_gates_lambda {weight / 3:.2g}.")
    return said


def about(ranking: Ranking, n_rows: int, chance: float) -> list[str]:
    """Sentences about a cluster's list: its size, ties, and how large effects are by chance.

    *chance* is the largest effect in clusters of shuffled tables, from `compare`.
    """
    shown, d = ranking.top(), len(ranking.g)
    said = [f"Cluster {ranking.cluster}: {_count(n_rows, 'row')}"]
    if not ranking.g.any():
        return [*said, "No effect sizes: fewer than three rows here or elsewhere."]
    if shown < d and (tied := int((ranking.rank == ranking.rank[shown]).sum())) > 1:
        said.append(f"{tied:,} features tie at rank {shown + 1:,} and are not listed.")
    said.append(f"{(np.abs(ranking.g) > chance).sum():,} of {d:,} features have a larger effect "
                f"than any in clusters of shuffled tables (|g| above {chance:.2f}).")
    if (always := int((ranking.share == 1).sum())) > 1:
        said.append(f"By their gates {always:,} features tie: they are open in every row.")
    return said


def spread(values: np.ndarray) -> str:
    """Mean and standard deviation of several values as text; a dash without any."""
    if not values.size:
        return "–"
    deviation = f" ± {values.std(ddof=1):.1g}" if values.size > 1 else ""
    return f"{values.mean():.2g}{deviation}".replace("-", "−")


def number(value: float) -> str:
    """A value in its own unit, to three digits or to the unit: '0.123', '123,457'."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
