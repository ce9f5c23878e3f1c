"""Sentences about the clusters of a table: what a careful reader would say of the numbers.

`table` computes the numbers; the notebook ``idc_table`` shows the sentences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from .table import STABLE, Judged, Point, Ranking, agreement, beyond, has_structure, preferred

SAME = 0.9
"""ARI from which two methods find the same clusters."""


class Verdict(tuple):
    """Sentences, the first one the most important; shows as a list, or as plain lines."""

    def __repr__(self) -> str:
        return "\n".join(self)

    def _repr_markdown_(self) -> str:
        first, *more = (re.sub(r"([\\`*_{}\[\]<>|$#])", r"\\\1", line) for line in self)
        return "\n".join([f"**{first}**", "", *(f"- {line}" for line in more)])


def findings(idc: Judged, judged: Mapping[str, Judged], points: Sequence[Point], *,
             n_rows: int, n_features: int, n_clusters: int) -> list[str]:
    """What a careful reader would say of these clusters, the most important first."""
    first, *more = _structure(judged, n_rows, n_features)
    best = preferred(points)
    if not has_structure(judged) and best is not None:
        first = (f"No structure found with {n_clusters} clusters that shuffled data do not show; "
                 f"try {best}.")
    return [first, *more, _between_seeds(idc), *_beside(idc, judged), _how_many(points, n_clusters)]


def _structure(judged: Mapping[str, Judged], n: int, d: int) -> list[str]:
    km = judged["k-means"]
    beside = (f"the silhouette of k-means is {km.silhouette:.2g}, that of shuffled tables "
              f"{spread(km.null)}")
    if not has_structure(judged):
        return ["No structure found that shuffled data do not show.",
                f"With every column shuffled on its own, clusters are as far apart: {beside}. "
                "Do not interpret the clusters below."]
    found = ["There is structure that shuffled data do not show.", f"T{beside[1:]}."]
    if sum(beyond(one.silhouette, one.cloud) for one in judged.values()) >= 2:
        return [*found, "Correlated features alone do not explain it: one normal distribution with "
                f"the same covariances reaches {spread(km.cloud)}."]
    if n < 2 * d:
        return [*found, "Whether these are separate groups can't be told from so few rows: one "
                "normal distribution with the same covariances reaches a silhouette of "
                f"{spread(km.cloud)}."]
    return [*found, "But it may be a continuum: one normal distribution with the same covariances "
            f"reaches {spread(km.cloud)}. The clusters may be cut where there is no gap."]


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
    if mean >= STABLE:
        return f"The clusters of IDC agree between seeds: {how}."
    if mean >= 0.5:
        return f"The clusters of IDC agree only in part between seeds: {how}."
    return f"The clusters of IDC change with the seed: {how}. Do not rely on a single run."


def _beside(idc: Judged, judged: Mapping[str, Judged]) -> list[str]:
    if not has_structure(judged):
        return []
    ari = {name: agreement([idc.labels, one.labels])[0] for name, one in judged.items()}
    same = [name for name in judged if ari[name] >= SAME]
    better = {name: one for name, one in judged.items() if name not in same
              and one.silhouette > idc.silhouette + 2 * one.null.std(ddof=1)
              and (np.isnan(idc.stability) or one.stability > idc.stability + 0.05)}
    said = []
    if same:
        find = "finds" if len(same) == 1 else "find"
        said.append(f"{_joined(same)} {find} the same clusters "
                    f"(ARI {', '.join(f'{ari[name]:.2f}' for name in same)}).")
    if better:
        name, best = max(better.items(), key=lambda item: item[1].silhouette)
        stable = ("" if np.isnan(idc.stability) else
                  f"more stable (ARI {best.stability:.2f} against {idc.stability:.2f}) and ")
        where = " (its clusters are in the result table)" if name == "k-means" else ""
        advice = "but it is not stable either" if best.stability < 0.5 else f"use it{where}"
        said.append(f"{name}, which agrees with IDC at ARI {ari[name]:.2f}, is {stable}better "
                    f"separated (silhouette {best.silhouette:.2g} against {idc.silhouette:.2g}): "
                    f"{advice}.")
    if not said:
        listed = ", ".join(f"{name} {ari[name]:.2f}" for name in judged)
        said.append(f"Other methods find other clusters (ARI with IDC: {listed}), and none of them "
                    "is both more stable and better separated.")
    return said


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
    """What to be careful with: few rows, empty or tiny clusters, gates that stay open or closed.

    *weight* is the ``local_gates_lambda`` of the run; the one to try instead is named.
    """
    labels, is_open = np.asarray(labels), np.asarray(gates) > 0
    n, d = is_open.shape
    sizes, said = np.bincount(labels, minlength=n_clusters), []
    if d > 5 * n:
        said.append(f"Features far outnumber rows ({d:,} and {n:,}): some features will part any "
                    "clusters well by chance. Confirm them on new rows.")
    if (sizes == 0).any():
        said.append(f"IDC uses {(sizes > 0).sum()} of {n_clusters} clusters.")
    least = max(5, round(0.02 * n))
    said += [f"Cluster {c} has {_count(size, 'row')}: outliers rather than a group."
             for c, size in enumerate(sizes) if 0 < size < least]
    if is_open.mean() > 0.5:
        said.append(f"Gates stay open: {is_open.sum(1).mean():,.0f} of {d:,} features a row, so "
                    f"they select little. Try -p local_gates_lambda {3 * weight:.2g}.")
    if (is_open.sum(1) == 0).mean() > 0.1:
        said.append(f"No gate is open for {(is_open.sum(1) == 0).sum():,} of {n:,} rows. Try "
                    f"-p local_gates_lambda {weight / 3:.2g}.")
    return said


def about(ranking: Ranking, n_rows: int, chance: float) -> list[str]:
    """What to know of a cluster's list: its size, ties, and how large effects are by chance.

    *chance* is the largest effect in clusters of shuffled tables, from `table.compare`.
    """
    shown, d = ranking.top(), len(ranking.g)
    said = [f"Cluster {ranking.cluster}: {_count(n_rows, 'row')}"]
    if not ranking.g.any():
        return [*said, "No effect sizes: fewer than three rows here or elsewhere."]
    if shown < d and (tied := int((ranking.rank == ranking.rank[shown]).sum())) > 1:
        said.append(f"{tied:,} features tie at rank {shown + 1:,} and are not listed.")
    said.append(f"{(np.abs(ranking.g) > chance).sum():,} of {d:,} features have a larger effect "
                f"than any in clusters of shuffled tables (|g| above {chance:.2f})."
                if np.isfinite(chance) else
                "Clusters of shuffled tables have features with effects as large as any.")
    if (always := int((ranking.share == 1).sum())) > 1:
        said.append(f"By their gates {always:,} features tie: they are open in every row.")
    return said


def spread(values: np.ndarray) -> str:
    """Mean and standard deviation of several values, in words; a dash without any."""
    if not values.size:
        return "–"
    deviation = f" ± {values.std(ddof=1):.1g}" if values.size > 1 else ""
    return f"{values.mean():.2g}{deviation}".replace("-", "−")


def number(value: float) -> str:
    """A value in its own unit, to three digits or to the unit.

    Examples
    --------
    >>> number(0.12345), number(123456.7)
    ('0.123', '123,457')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
