"""Numbers as lines, dots, bars and cells; every axis has its name and unit."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from .showing import COLORS, NEUTRAL, bare, blank, styled

_ABOVE = "outside upper left"       # place of a legend
_MARKERS = "osD^vP*X"


@styled
def training_curves(curves: Sequence[Mapping], *, x: str = "epoch", log: bool = False) -> Figure:
    """One panel a quantity, against the epoch, or whatever *x* names; *log* is for the x axis.

    Each of *curves* has ``label`` (the y axis, with its unit), ``runs``, which maps a run's name to
    (epochs, values) or to (epochs, values, spread), drawn as a band of one spread to both sides,
    and, if wanted, ``title``. Panels of the same runs have one legend above them.
    """
    figure, axes = blank(2.7, len(curves), squeeze=False)
    for panel, axis in zip(curves, axes[0], strict=True):
        for i, (name, (epochs, values, *spread)) in enumerate(panel["runs"].items()):
            color = COLORS[i % len(COLORS)]
            axis.plot(epochs, values, color=color, label=name,
                      marker="." if len(epochs) < 20 else None)
            for width in map(np.asarray, spread):
                axis.fill_between(epochs, values - width, values + width, linewidth=0, color=color,
                                  alpha=0.2)
        axis.set(xlabel=_broken(x, 72 // len(curves)), ylabel=panel["label"],
                 title=panel.get("title", ""))
        if log:
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter("{x:g}")
        else:
            axis.xaxis.get_major_locator().set_params(integer=True)
    if len({tuple(panel["runs"]) for panel in curves}) > 1:
        for axis in axes[0]:
            if len(axis.lines) > 1:
                axis.legend(loc="lower left", bbox_to_anchor=(-0.04, 1.0), borderaxespad=0.2)
    elif len(axes[0, 0].lines) > 1:
        handles, names = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc=_ABOVE, ncols=_columns(names))
    return figure


def _columns(names: Collection[str]) -> int:
    """Columns of a legend: short names fit side by side."""
    return 4 if max(map(len, names)) <= 16 else 2


def _broken(text: str, width: int) -> str:
    """A long name in several lines; its own line breaks stay."""
    return "\n".join(textwrap.fill(line, width) for line in text.split("\n"))


@styled
def matrix_blocks(matrices: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]],
                  *, rows: str, columns: str, values: str) -> Figure:
    """Matrices with rows and columns ordered by cluster, blocks outlined, on one color scale.

    *matrices* maps a title to (matrix of shape (n_rows, n_columns), row labels, column labels);
    *rows*, *columns* and *values* name rows, columns and entries.
    """
    figure, axes = blank(3.3, len(matrices), squeeze=False)
    top = max(np.quantile(np.abs(matrix), 0.99) for matrix, _, _ in matrices.values())
    for axis, (title, parts) in zip(axes[0], matrices.items(), strict=True):
        matrix, row_labels, column_labels = map(np.asarray, parts)
        order_rows = np.argsort(row_labels, kind="stable")
        order_columns = np.argsort(column_labels, kind="stable")
        image = axis.imshow(matrix[np.ix_(order_rows, order_columns)], vmin=0, vmax=top,
                            interpolation="nearest", rasterized=True)
        for c in np.intersect1d(row_labels, column_labels):
            if c >= 0:
                corner = (column_labels < c).sum() - 0.5, (row_labels < c).sum() - 0.5
                axis.add_patch(mpl.patches.Rectangle(
                    corner, (column_labels == c).sum(), (row_labels == c).sum(), fill=False,
                    edgecolor="white", linewidth=1.6))
        axis.set(title=title, xlabel=columns, ylabel=rows)
        bare(axis)
    figure.colorbar(image, ax=axes[0].tolist(), label=values, extend="max")
    return figure


@styled
def null_distribution(null: ArrayLike, value: float, *, quantity: str,
                      meaningless: float | None = None) -> Figure:
    """A histogram of a null model (n_shuffles,) with the network's own value in it.

    *quantity* is the x axis; *meaningless* the value of a partition unrelated to the weights.
    """
    null = np.asarray(null)
    figure, axis = blank(2.9)
    axis.hist(null, bins=min(20, max(5, len(null) // 3)), color=NEUTRAL, edgecolor="white",
              label=f"{len(null)} shuffles of the same weights")
    axis.axvline(value, color=COLORS[1], linewidth=2.5, label="the trained network")
    if meaningless is not None:
        axis.axvline(meaningless, color=COLORS[0], linestyle="--", label="a meaningless partition")
    axis.set(xlabel=quantity, ylabel="number of shuffles")
    axis.margins(x=0.15)
    figure.legend(loc=_ABOVE, ncols=3)
    return figure


@styled
def seed_strip(groups: Mapping[str, ArrayLike], *, quantity: str,
               references: Mapping[str, float] | None = None, log: bool = False) -> Figure:
    """One dot a seed, one row a group, reference values as lines.

    *groups* maps names to values, one per seed; *quantity* is the x axis, with its unit, and *log*
    makes it logarithmic; *references* maps names to values: a source's, or chance.
    """
    names = [_broken(name, 30) for name in groups]
    figure, axis = blank(1.3 + sum(max(0.45, 0.22 * (1 + name.count("\n"))) for name in names))
    for row, values in enumerate(groups.values()):
        values = np.asarray(values, dtype=float)
        spread = np.linspace(-0.12, 0.12, len(values)) if len(values) > 1 else np.zeros(len(values))
        axis.scatter(values, row + spread, color=COLORS[0], s=42, alpha=0.85,
                     edgecolor="white", linewidth=0.8, zorder=3)
    for i, (name, value) in enumerate((references or {}).items()):
        axis.axvline(value, color="#333333", linestyle=("--", ":", "-.")[i % 3], linewidth=1.3,
                     label=name)
    axis.set(xlabel=_broken(quantity, 66), yticks=range(len(groups)), yticklabels=names,
             xscale="log" if log else "linear", ylim=(-0.6, len(groups) - 0.4))
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    if references:
        figure.legend(loc=_ABOVE, ncols=3)
    return figure


@styled
def heatmap(tables: Mapping[str, ArrayLike], *, rows: Sequence[str], columns: Sequence[str],
            row_label: str, column_label: str, values: str, diverging: bool = False,
            digits: int = 2,
            outlined: Mapping[str, Sequence[tuple[int, int]]] | None = None) -> Figure:
    """Small tables as colored cells with their numbers in them, on one color scale.

    Parameters
    ----------
    tables : mapping
        Title → array of shape (n_rows, n_columns); NaN where there is no value.
    rows, columns : sequence of str
        Names of the rows and columns.
    row_label, column_label, values : str
        What rows, columns and entries are.
    diverging : bool
        Colors that part at 0, for signed values.
    digits : int
        Decimals of the numbers.
    outlined : mapping, optional
        Title → cells (row, column) with a frame, such as matched ones.
    """
    tables = {title: np.asarray(table, dtype=float) for title, table in tables.items()}
    known = np.nan_to_num(np.concatenate([[0.0], *map(np.ravel, tables.values())]))
    top = np.abs(known).max()
    low = -top if diverging else known.min()
    height = 0.9 + len(tables) * (0.55 + 0.36 * len(rows))
    figure, axes = blank(height, 1, len(tables), squeeze=False)
    for axis, (title, table) in zip(axes[:, 0], tables.items(), strict=True):
        image = axis.imshow(table, vmin=low, vmax=top, aspect="auto",
                            cmap="RdBu_r" if diverging else "cividis")
        for (i, j), value in np.ndenumerate(table):
            strength = abs(value) / (top or 1) if diverging else (value - low) / (top - low or 1)
            dark = strength > 0.6 if diverging else strength < 0.55     # False for NaN
            number = "–" if np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")
            axis.text(j, i, number, ha="center", va="center", color="white" if dark else "black",
                      fontsize=8)
        for i, j in (outlined or {}).get(title, ()):
            axis.add_patch(mpl.patches.Rectangle((j - 0.46, i - 0.44), 0.92, 0.88, fill=False,
                                                 edgecolor=COLORS[1], linewidth=3))
        axis.set(title=title, xlabel=column_label, ylabel=row_label, xticks=range(len(columns)),
                 xticklabels=columns, yticks=range(len(rows)), yticklabels=rows)
        axis.tick_params(length=0)
        axis.label_outer()
        bare(axis)
    figure.colorbar(image, ax=axes[:, 0].tolist(), label=values)
    return figure


@styled
def scatter(groups: Mapping[str, tuple[ArrayLike, ArrayLike]], *, x: str, y: str,
            size: float = 52) -> Figure:
    """One dot a run or sample, one color and one marker a group.

    *groups* maps a name to (x values, y values); *x* and *y* are the axes, with their units; *size*
    is that of a dot, in square points.
    """
    figure, axis = blank(3.6)
    for i, (name, (xs, ys)) in enumerate(groups.items()):
        axis.scatter(xs, ys, label=_broken(name, 22), color=COLORS[i % len(COLORS)],
                     marker=_MARKERS[i % 8], s=size, edgecolor="white",
                     linewidth=0.8 if size > 30 else 0.3, zorder=3)
    axis.set(xlabel=_broken(x, 66), ylabel=y)
    if groups:
        figure.legend(loc="outside right upper")
    return figure


@styled
def response(lines: Mapping[str, Sequence[tuple[object, ArrayLike, float, float | None]]], *,
             x: str, y: str, scale: str = "linear", seeds: str = "", lines_are: str = "") -> Figure:
    """A quantity against a parameter: every run a dot, the mean a line, the spread a bar.

    Parameters
    ----------
    lines : mapping
        Name → points, each (value of the parameter, the quantity in every run, its mean, its
        spread or None).
    x, y : str
        The axes, with their units.
    scale : {"linear", "log", "steps", "names"}
        The x axis: of numbers, or of values in equal steps; names are not joined by a line.
    seeds : str
        The number of runs per point, for the title: ``"5 seeds"``.
    lines_are : str
        What the names of several lines are.
    """
    columns = _columns(lines)
    figure, axis = blank(3.8 + 0.2 * -(-len(lines) // columns))
    values = list(dict.fromkeys(point[0] for points in lines.values() for point in points))
    evenly, joined = scale in ("steps", "names"), scale != "names" and len(values) > 1
    for i, (name, points) in enumerate(lines.items()):
        color = COLORS[i % len(COLORS)]
        at = [values.index(point[0]) if evenly else point[0] for point in points]
        for place, (_, runs, *_) in zip(at, points, strict=True):
            axis.scatter([place] * len(runs), runs, s=26, color=color, alpha=0.55, linewidth=0,
                         marker=_MARKERS[i % 8], zorder=3)
        # None becomes NaN, which is not drawn.
        mean, spread = np.array([point[2:] for point in points], dtype=float).T
        axis.errorbar(at, mean, spread, color=color, label=name, capsize=4, zorder=4,
                      marker="_", markersize=15, linestyle="-" if joined else "none")
    axis.set(xlabel=x, ylabel=y)
    if any(point[3] is not None for points in lines.values() for point in points):
        axis.set_title(f"mean ± 1 standard deviation ({seeds})", fontsize=9, fontweight="normal")
    if len(lines) > 1:
        figure.legend(loc=_ABOVE, title=lines_are, alignment="left", ncols=columns)
    if evenly:
        crowded = sum(len(str(value)) for value in values) > 80
        axis.set_xticks(range(len(values)), map(str, values), rotation=30 if crowded else 0,
                        ha="right" if crowded else "center")
        axis.set_xlim(-0.5, len(values) - 0.5)
        axis.grid(axis="x", visible=False)
        return figure
    axis.set_xscale(scale)
    places = np.sort(np.log(values) if scale == "log" else np.asarray(values, dtype=float))
    if np.diff(places).min(initial=np.inf) > np.ptp(places) / 14:           # room for all values
        axis.set_xticks(values, [f"{value:g}" for value in values])
        axis.set_xticks([], minor=True)
    return figure
