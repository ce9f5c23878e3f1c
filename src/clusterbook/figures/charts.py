"""Arrays as lines, dots, cells and images; every axis has its name and unit."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.patches import FancyBboxPatch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.ticker import LogFormatter
from numpy.typing import ArrayLike

from ..checks import InputError
from .showing import COLORS, NEUTRAL, WHITE, Chart, bare, blank, inches, is_narrow, styled

__all__ = ["heatmap", "image_grid", "logarithmic", "maps", "matrix_blocks", "picture", "sampling",
           "scatter", "schematic", "seed_rows", "seed_strip", "training_curves"]

_ABOVE = "outside upper left"       # place of a legend
_MARKERS = "osD^vP*X"               # as many as colors

Dots = ArrayLike | Mapping[str, ArrayLike]
"""Values, one per seed, or several kinds of them by name."""


@styled
def training_curves(curves: Sequence[Mapping], *, x: str = "epoch", log: bool = False,
                    ticks: Sequence[float] = (), stages: Sequence[float] = ()) -> Chart:
    """One panel per quantity, against the epoch, or whatever *x* names.

    Each of *curves* has ``label`` (the y axis, with its unit), ``runs``, which maps a run's name to
    (epochs, values) or to (epochs, values, spread), drawn as a band of one spread to both sides,
    and, if wanted, ``title``, an ``x`` of its own, ``colors``, in the order of the runs,
    ``references``, values with a dotted line, and ``ylim``. *log* makes the x axis logarithmic,
    with *ticks* at these values. Where one of *stages* ends, all panels have a dotted line, and the
    same x axis, from 0.
    """
    figure, axes = blank(2.7, len(curves))
    for panel, axis in zip(curves, axes[0], strict=True):
        runs = panel["runs"].items()
        for (name, (epochs, values, *spread)), color in zip(
                runs, panel.get("colors", [None] * len(runs)), strict=True):
            (line,) = axis.plot(epochs, values, label=name, color=color,
                                marker="." if len(epochs) < 20 else None)
            for width in map(np.asarray, spread):
                axis.fill_between(epochs, values - width, values + width, linewidth=0, alpha=0.2,
                                  color=line.get_color())
        for value in panel.get("references", ()):
            axis.axhline(value, color="#333333", linestyle=":", linewidth=1)
        axis.set(xlabel=_broken(panel.get("x", x), 72 // len(curves)), ylabel=panel["label"],
                 title=panel.get("title", ""), ylim=panel.get("ylim"))
        if log:
            logarithmic(axis, ticks)
        else:
            axis.xaxis.get_major_locator().set_params(integer=True)
    if len(stages):
        last = max(axis.get_xlim()[1] for axis in axes[0])
        for axis in axes[0]:
            axis.set_xlim(0, last)
            for end in stages:
                axis.axvline(end, color="#333333", linestyle=":", linewidth=1)
    if len({tuple(panel["runs"]) for panel in curves}) > 1:
        for panel, axis in zip(curves, axes[0], strict=True):
            if len(panel["runs"]) > 1:
                axis.legend(loc="lower left", bbox_to_anchor=(-0.04, 1.0), borderaxespad=0.2)
    elif len(curves[0]["runs"]) > 1:
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc=_ABOVE,
                      ncols=_columns(curves[0]["runs"]))
    return figure


def logarithmic(axis: Axes, ticks: Sequence[float] = ()) -> None:
    """Make the x axis logarithmic, its numbers plain text, at *ticks* if there are any."""
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(LogFormatter())
    if len(ticks):
        axis.minorticks_off()
        axis.set_xticks(ticks)


def _columns(names: Collection[str]) -> int:
    """Columns of a legend: short names fit side by side."""
    return (4 if max(map(len, names)) <= 16 else 2) // (2 if is_narrow() else 1)


def _broken(text: str, width: int) -> str:
    """A long name in several lines, which are shorter on a phone; its own line breaks stay."""
    width = width // 2 if is_narrow() else width
    return "\n".join(
        textwrap.fill(line.replace("_", "_ "), width, break_long_words=False).replace("_ ", "_")
        if len(line) > width else line for line in text.split("\n"))


@styled
def matrix_blocks(matrices: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]],
                  *, rows: str, columns: str, values: str) -> Chart:
    """Matrices with rows and columns ordered by cluster, blocks outlined, on one color scale.

    *matrices* maps a title to (matrix of shape (n_rows, n_columns), row labels, column labels);
    *rows*, *columns* and *values* name rows, columns and entries.
    """
    figure, axes = blank(3.3, len(matrices))
    top = max(np.quantile(np.abs(matrix), 0.99) for matrix, _, _ in matrices.values())
    for axis, (title, parts) in zip(axes[0], matrices.items(), strict=True):
        matrix, row_labels, column_labels = map(np.asarray, parts)
        order_rows = np.argsort(row_labels, kind="stable")
        order_columns = np.argsort(column_labels, kind="stable")
        image = axis.imshow(matrix[np.ix_(order_rows, order_columns)], vmin=0, vmax=top,
                            interpolation="none", rasterized=True)
        for c in np.intersect1d(row_labels, column_labels):
            if c >= 0:
                corner = (column_labels < c).sum() - 0.5, (row_labels < c).sum() - 0.5
                axis.add_patch(Rectangle(corner, (column_labels == c).sum(),
                                         (row_labels == c).sum(), fill=False, edgecolor=WHITE,
                                         linewidth=1.6))
        axis.set(title=title, xlabel=columns, ylabel=rows)
        bare(axis)
    figure.colorbar(image, ax=axes.ravel().tolist(), label=values, extend="max",
                    location="bottom" if is_narrow() else "right", aspect=30)
    return figure


@styled
def seed_strip(rows: Mapping[str, Dots], *, quantity: str, hollow: Mapping[str, Dots] | None = None,
               colors: Mapping[str, str] | None = None, means: bool = True,
               references: Mapping[str, float] | None = None, log: bool = False) -> Chart:
    """One dot per seed, one row per name, a tick at each mean, reference values as lines.

    *rows*, *hollow*, *colors* and *means* are those of `seed_rows`; *quantity* is the x axis, with
    its unit, and *log* makes it logarithmic; *references* maps names to values: a source's, or
    chance. The legend has the kinds that no row is named after.
    """
    names, lanes = [*{**rows, **(hollow or {})}], _lanes(rows, hollow)
    lines = 1 + max(_row_name(name).count("\n") for name in names)
    height = max(0.42 if is_narrow() else 0.34, 0.1 + 0.17 * lines)         # of a row
    figure, [[axis]] = blank(1.3 + max(height * len(names), 0.2 * len(lanes) + 0.06 * len(names)))
    kinds = seed_rows(axis, rows, hollow=hollow, colors=colors, means=means)
    keys = [axis.scatter([], [], s=40, color=color, label=kind) for kind, color in kinds.items()
            if kind and kind not in names]
    keys += [axis.axvline(value, color="#333333", linestyle=style, linewidth=1.3, label=name)
             for (name, value), style in zip((references or {}).items(), cycle(("--", ":", "-.")))]
    axis.set(xlabel=_broken(quantity, 66))
    if log:
        logarithmic(axis)
    elif all((np.mod(values, 1) == 0).all() for *_, values in lanes):       # counts
        axis.xaxis.get_major_locator().set_params(integer=True)
    if keys:
        figure.legend(handles=keys, loc=_ABOVE, ncols=1 if is_narrow() else 3)
    return figure


def seed_rows(axis: Axes, rows: Mapping[str, Dots], *, hollow: Mapping[str, Dots] | None = None,
              colors: Mapping[str, str] | None = None, means: bool = True) -> dict[str, str]:
    """Draw rows of dots, one dot per seed, with a tick at each mean; returns each kind's color.

    *rows* maps names to values, or to kinds of values, each with a lane of its row and a color: of
    *colors*, by default those of a figure in the order of the kinds. *hollow* has more of them,
    whose dots are hollow.
    """
    lanes, at, middles = _lanes(rows, hollow), 0.0, {}
    kinds = [*dict.fromkeys(kind for _, kind, *_ in lanes)]
    colors = {kind: (colors or {}).get(kind, color) for kind, color in zip(kinds, cycle(COLORS))}
    gap = 0.3 * (len(lanes) > len({row for row, *_ in lanes}))
    for i, (row, kind, is_hollow, values) in enumerate(lanes):
        at += 0.0 if i == 0 else 1.0 if row == lanes[i - 1][0] else 1.0 + gap
        middles.setdefault(row, []).append(at)
        label = " ".join(row.replace(":", "").split()) + f", {kind}" * (kind not in ("", row)) + (
            ", hollow" * is_hollow)
        if means and len(values) > 1:
            axis.plot([np.mean(values)] * 2, [at - 0.4, at + 0.4], color=colors[kind],
                      linewidth=2.4, solid_capstyle="butt", zorder=2, label=f"{label}, mean")
        spread = np.linspace(-0.24, 0.24, len(values)) * (len(values) > 1)
        axis.scatter(values, at + spread, s=40, zorder=3, linewidth=1.3 if is_hollow else 0.8,
                     color="none" if is_hollow else colors[kind], label=label,
                     edgecolor=colors[kind] if is_hollow else "white")
    axis.set(yticks=[np.mean(lane) for lane in middles.values()], ylim=(at + 0.6, -0.6),
             yticklabels=[_row_name(row) for row in middles])
    axis.tick_params("y", labelsize=8 if is_narrow() else None)
    _lines_between(axis, [lane[0] - 0.5 - gap / 2 for lane in [*middles.values()][1:]])
    return colors


def _lanes(rows: Mapping[str, Dots], hollow: Mapping[str, Dots] | None
           ) -> list[tuple[str, str, bool, np.ndarray]]:
    """Row, kind, whether its dots are hollow, and the values of each lane, from the top."""
    found = []
    for row in {**rows, **(hollow or {})}:
        for of, is_hollow in ((rows, False), (hollow or {}, True)):
            kinds = of.get(row, {})
            kinds = {kind: values for kind, values in kinds.items() if len(values)} if isinstance(
                kinds, Mapping) else {"": kinds}
            found += [(row, kind, is_hollow, np.asarray(values, dtype=float))
                      for kind, values in kinds.items()]
    return found


def _row_name(name: str) -> str:
    return _broken(name, 38 if is_narrow() else 30)


def _lines_between(axis: Axes, places: ArrayLike) -> None:
    """Replace the horizontal grid by lines that part the rows, at these *places*."""
    axis.grid(axis="y", visible=False)
    axis.set_yticks(places, minor=True)
    axis.tick_params("y", which="minor", length=0)
    axis.grid(axis="y", which="minor")


@styled
def heatmap(tables: Mapping[str, ArrayLike], *, rows: Sequence[str], columns: Sequence[str],
            row_label: str, column_label: str, values: str, diverging: bool = False,
            digits: int = 2,
            outlined: Mapping[str, Sequence[tuple[int, int]]] | None = None) -> Chart:
    """Small tables as colored cells with their numbers in them, on one color scale.

    *tables* maps a title to an array of shape (n_rows, n_columns), with NaN where there is no
    value; *rows* and *columns* are the names of these, and the labels and *values* say what they
    and the entries are. *diverging* colors part at 0; *digits* are decimals. *outlined* maps a
    title to cells (row, column) with a frame, such as matched ones.
    """
    tables = {title: np.asarray(table, dtype=float) for title, table in tables.items()}
    known = np.nan_to_num(np.concatenate([[0.0], *map(np.ravel, tables.values())]))
    top = np.abs(known).max()
    low = -top if diverging else known.min()
    figure, axes = blank(0.9 + len(tables) * (0.55 + 0.32 * len(rows)), 1, len(tables))
    for axis, (title, table) in zip(axes[:, 0], tables.items(), strict=True):
        image = axis.imshow(table, vmin=low, vmax=top, aspect="auto",
                            cmap="RdBu_r" if diverging else "cividis")
        for (i, j), value in np.ndenumerate(table):
            strength = abs(value) / (top or 1) if diverging else (value - low) / (top - low or 1)
            dark = strength > 0.6 if diverging else strength < 0.55     # False for NaN
            number = "–" if np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")
            if is_narrow() and len(columns) > 7:        # no room for the 0 of 0.5
                number = re.sub(r"\b0(?=\.)", "", number)
            ink = "#333333" if np.isnan(value) else WHITE if dark else "#111111"
            axis.text(j, i, number, ha="center", va="center", color=ink,
                      fontsize=7 if is_narrow() else 9)
        for i, j in (outlined or {}).get(title, ()):
            axis.add_patch(Rectangle((j - 0.46, i - 0.44), 0.92, 0.88, fill=False,
                                     edgecolor=COLORS[1], linewidth=3))
        axis.set(title=_broken(title, 64), xlabel=column_label, ylabel=row_label,
                 xticks=range(len(columns)), xticklabels=columns, yticks=range(len(rows)),
                 yticklabels=[_broken(row, 30) for row in rows])
        axis.tick_params(length=0, labelsize=7 if is_narrow() else None)
        if is_narrow() and len("".join(columns)) > 60:
            axis.tick_params("x", rotation=90)
        axis.label_outer()
        bare(axis)
    if not is_narrow():         # the numbers stand in the cells
        figure.colorbar(image, ax=axes[:, 0].tolist(), label=values)
    return figure


@styled
def scatter(groups: Mapping[str, tuple[ArrayLike, ArrayLike]], *, x: str, y: str) -> Chart:
    """One dot a run or sample, one color and one marker a group.

    *groups* maps a name to (x values, y values); *x* and *y* are the axes, with their units.
    """
    columns = _columns(groups or "-") if is_narrow() else 1
    figure, [[axis]] = blank(3.6 + is_narrow() * 0.2 * -(-len(groups) // columns))
    for (name, points), color, marker in zip(groups.items(), cycle(COLORS), cycle(_MARKERS)):
        axis.scatter(*points, label=_broken(name, 80 if is_narrow() else 22), color=color,
                     marker=marker, s=52, edgecolor="white", zorder=3, linewidth=0.8)
    axis.set(xlabel=_broken(x, 66), ylabel=y)
    if groups:
        figure.legend(loc=_ABOVE if is_narrow() else "outside right upper", ncols=columns)
    return figure


def picture(axis: Axes, image: np.ndarray, title: str, cmap: str = "gray") -> AxesImage | None:
    """An image (height, width), or with channels as a third axis, in [0, 1]; NaN is left out."""
    axis.set(xticks=[], yticks=[])
    bare(axis)
    axis.set_title(title, fontsize=9, fontweight="normal", loc="center")
    if np.isfinite(image).any():
        axis.patch.set(edgecolor=NEUTRAL, linewidth=1)      # for black pictures on a black page
        return axis.imshow(image, vmin=0, vmax=1, cmap=cmap, interpolation=sampling(image))


def sampling(image: ArrayLike) -> str:
    """How to draw an image: a small one keeps its pixels, also in an SVG, a large one is smooth."""
    return "none" if max(np.shape(image)[:2]) <= 128 else "antialiased"


@styled
def image_grid(images: ArrayLike, image_shape: Sequence[int], *, rows: Sequence[str],
               columns: Sequence[str]) -> Chart:
    """Small images in rows and columns, each row and column with its name.

    *images* has shape (n_rows, n_columns, n_features), flattened, in [0, 1], with NaN where there
    is none; *image_shape* is (channels, height, width). On a phone many columns make two blocks.
    """
    images, block = np.asarray(images, dtype=float), len(rows)
    if images.shape[:2] != (block, len(columns)):
        raise InputError(f"images have the shape {images.shape}, but there are names of {block} "
                         f"rows and {len(columns)} columns")
    if is_narrow() and len({name.rpartition(" ")[0] for name in columns}) == 1:
        columns = [name.rpartition(" ")[2] for name in columns]     # 3, not cluster 3
    if is_narrow() and len(columns) > 6:
        half, odd = -(-len(columns) // 2), len(columns) % 2
        images = np.pad(images, ((0, 0), (0, odd), (0, 0)), constant_values=np.nan)
        images = np.concatenate([images[:, :half], images[:, half:]])
        rows, columns = [*rows, *rows], [*columns, *[""] * odd]
    across, small = images.shape[1], 7 if is_narrow() else 9
    left = 0.1 * any(rows) + 0.0085 * small * max(map(len, rows))      # for their names
    side = (inches() - left) / across
    height = side * image_shape[1] / image_shape[2]
    # One axis for all, in inches: an axis for each image takes most of the time.
    room = 0.25 if any(columns) else 0.05      # for titles
    tops = [room * (1 + i // block) + i * height for i in range(len(rows))]
    figure, [[axis]] = blank(tops[-1] + height + 0.05, stacks=False)
    figure.set_layout_engine("none")
    axis.set_position((left / inches(), 0, 1 - left / inches(), 1))
    corners = np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]) * 0.94 * (side, height)
    frames = []
    for (i, j), top in np.ndenumerate(np.repeat(tops, across).reshape(-1, across)):
        image = images[i, j].reshape(image_shape).transpose(1, 2, 0)
        x, y = (j + 0.03) * side, top + 0.03 * height
        if np.isfinite(image).any():
            axis.imshow(image, vmin=0, vmax=1, cmap="gray", interpolation=sampling(image),
                        extent=(x, x + 0.94 * side, y + 0.94 * height, y),
                        label=f"{rows[i]} {columns[i // block * across + j]}".strip())
            frames.append(Path(corners + (x, y), closed=True))
        if i % block == 0:
            name = columns[i // block * across + j]     # it may be wider than its column
            axis.text((j + 0.5) * side, top - 0.05, name, fontsize=small, ha="center",
                      in_layout=False)
    if frames:      # of black images on a black page; one path, because a page has hundreds
        axis.add_patch(PathPatch(Path.make_compound_path(*frames), fill=False, edgecolor=NEUTRAL,
                                 linewidth=0.8))
    axis.set(xlim=(0, across * side), ylim=(tops[-1] + height + 0.05, 0), xticks=[])
    axis.set_yticks([top + height / 2 for top in tops], rows, fontsize=small)
    axis.tick_params(length=0, labelcolor="#333333")
    bare(axis)
    return figure


@styled
def schematic(boxes: Mapping[str, tuple[float, float]],
              arrows: Sequence[tuple[str, str, str]]) -> Chart:
    """An architecture: boxes with their names, and arrows between them with a text, if any.

    *boxes* maps a name to its column and row; on a phone these change places, so that the flow
    runs downward. *arrows* are (from, to, text); a text that begins with ``~`` makes it dashed.
    """
    places = {name: (place[::-1] if is_narrow() else place) for name, place in boxes.items()}
    across, down = (1 + max(place[i] for place in places.values()) for i in (0, 1))
    figure, [[axis]] = blank(0.85 * down)
    axis.set(xlim=(-0.5, across - 0.5), ylim=(down - 0.5, -0.5), xticks=[], yticks=[])
    bare(axis)
    small = 8 if is_narrow() else 9
    drawn = {}
    for name, (x, y) in places.items():
        drawn[name] = axis.add_patch(FancyBboxPatch(
            (x - 0.34, y - 0.26), 0.68, 0.52, boxstyle="round,pad=0,rounding_size=0.06",
            facecolor="#FFFFFF", edgecolor=COLORS[0], linewidth=1.5))
        axis.text(x, y, name, ha="center", va="center", fontsize=small, linespacing=1.15)
    for start, end, text in arrows:
        (x0, y0), (x1, y1) = places[start], places[end]
        axis.annotate("", (x1, y1), (x0, y0), arrowprops={
            "arrowstyle": "-|>", "color": NEUTRAL, "linewidth": 1.6, "patchA": drawn[start],
            "patchB": drawn[end], "shrinkA": 1, "shrinkB": 2,
            "linestyle": "--" if text.startswith("~") else "-"})
        level = y0 == y1
        axis.text((x0 + x1) / 2 + (0 if level else 0.05), (y0 + y1) / 2 - (0.06 if level else 0),
                  text.strip("~"), fontsize=small - 1, color="#555555",
                  ha="center" if level else "left", va="bottom" if level else "center")
    return figure


@styled
def maps(panels: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]], *,
         classes: Sequence[str], stars: str, axes: str) -> Chart:
    """Points in the plane, colored by class, with special ones as stars: one panel a moment.

    *panels* maps a title to (points of shape (n, 2), class of each as an index, stars of shape (m,
    2)); *classes* are the classes' names, *stars* says what the stars are, and *axes* names the
    plane's axes.
    """
    figure, grid = blank(2.9, len(panels))
    palette = (*COLORS[:6], "#8A5A00", "#7A7F87", COLORS[6], "#9A6FD0")       # seen on any page
    for axis, (title, given) in zip(grid[0], panels.items(), strict=True):
        points, labels, special = map(np.asarray, given)
        for (c, name), color in zip(enumerate(classes), cycle(palette)):
            axis.scatter(*points[labels == c].T, s=5, linewidth=0, rasterized=True,
                         color=color, label=name)
        axis.scatter(*special.T, marker="*", s=130, color="white", edgecolor="black",
                     linewidth=1.1, zorder=4, label=stars)
        axis.set(title=title, xticks=[], yticks=[], xlabel=f"{axes} 1", ylabel=f"{axes} 2")
        axis.label_outer()
        axis.grid(False)
        axis.spines[:].set(visible=True, color="#999999")
    legend = figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center",
                           ncols=min(6 if is_narrow() else 11, len(classes) + 1),
                           handletextpad=0.1, columnspacing=0.8)
    for handle in legend.legend_handles[:-1]:
        handle.set_sizes([40])
    return figure
