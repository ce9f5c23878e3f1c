"""Arrays in, matplotlib figures out: one style, one way to show a figure, no computation.

Every figure of the book goes through `show`, which gives it a name, a text for those who can't see
it, and a caption. Colors are Okabe and Ito's, which stay apart for color-blind readers; a
sequential map (cividis) serves amounts, a diverging one (RdBu) signed values.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping, Sequence
from functools import wraps

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from . import paths
from .errors import InputError

#: Okabe–Ito: blue, vermilion, green, orange, sky blue, purple, yellow, black.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#F0E442", "#000000")
NEUTRAL = "#8A8F98"

_STYLE = {
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "font.family": "DejaVu Sans",           # ships with matplotlib: the same on every machine
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": "#333333",
    "axes.edgecolor": "#999999",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": mpl.cycler(color=COLORS),
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.8,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "image.cmap": "cividis",
    "svg.hashsalt": "clusterbook",          # the same figure gives the same file
}
_SCREEN_DPI = 144                           # twice the size shown: sharp on a phone
_WIDTH = 7.2                                # inches; the book's text column


class Shown:
    """A figure as a notebook displays it: a PNG with its alternative text, then its caption."""

    def __init__(self, png: bytes, width: int, name: str, alt: str, caption: str):
        self.png, self.width = png, width
        self.name, self.alt, self.caption = name, alt, caption

    def __repr__(self) -> str:
        return f"Figure {self.name}: {self.alt}"

    def _repr_mimebundle_(self, include=None, exclude=None):
        # Where the book is built, alt and caption become the page's own figure (clusterbook.book).
        about = {"name": self.name, "alt": self.alt, "caption": self.caption}
        return (
            {"image/png": base64.b64encode(self.png).decode(), "text/plain": repr(self)},
            {"image/png": {"width": self.width, "alt": self.alt}, "clusterbook": about},
        )


def show(figure: Figure, name: str, alt: str, caption: str) -> None:
    """Display a figure with its alternative text and caption; write its files if the run asks.

    With ``clusterbook run CHAPTER --figures DIR`` (or the variable ``CLUSTERBOOK_FIGURES``) the
    figure is also written as ``DIR/name.png`` and ``DIR/name.svg``.

    Parameters
    ----------
    figure : matplotlib Figure
        From one of the functions below, or any other.
    name : str
        Lower-case words joined by hyphens, unique in the chapter.
    alt : str
        What the figure shows, for those who can't see it. No measured number: it is compared
        between runs.
    caption : str
        What to look at, and what the figure does not show. Markdown, no measured number.

    Raises
    ------
    InputError
        If name, alt or caption is missing, or the folder for the files can't be written.
    """
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name or ""):
        raise InputError(f"a figure's name is lower-case words joined by hyphens, not {name!r}")
    for what, text in (("alt", alt), ("caption", caption)):
        if not text or not text.strip():
            raise InputError(f"figure {name!r} has no {what} text")
    if folder := paths.asked("figures"):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _book_style():
                figure.savefig(folder / f"{name}.png", dpi=200, metadata={"Description": alt})
                figure.savefig(folder / f"{name}.svg", metadata={"Title": name, "Date": None,
                                                                 "Description": alt})
        except OSError as error:
            raise InputError(f"figures can't be written to {folder}: {error.strerror}") from None
    buffer = io.BytesIO()
    with _book_style():
        figure.savefig(buffer, format="png", dpi=_SCREEN_DPI)
    width = round(figure.get_size_inches()[0] * _SCREEN_DPI / 2)
    from IPython.display import Markdown, display

    display(Shown(buffer.getvalue(), width, name, alt, caption))
    display(Markdown(f"*{caption}*"), metadata={"clusterbook": {"caption_of": name}})


def _book_style():
    # From matplotlib's defaults on: nothing of the caller's own style shows through.
    return mpl.style.context(["default", _STYLE])


def _figure(height: float, columns: int = 1, rows: int = 1, width: float = _WIDTH, **options):
    # Figure, not pyplot: no global state, nothing left open, nothing displayed twice.
    figure = Figure(figsize=(width, height))
    return figure, figure.subplots(rows, columns, **options)


def _styled(function):
    """Draw with the book's style, whatever the caller's own settings are."""
    @wraps(function)
    def draw(*args, **options):
        with _book_style():
            return function(*args, **options)

    return draw


@_styled
def training_curves(curves: Sequence[Mapping], *, x: str = "epoch") -> Figure:
    """One panel a quantity, against the epoch.

    Parameters
    ----------
    curves : sequence of mappings
        Each with ``label`` (the y axis, with its unit) and ``runs``: a mapping from a run's name to
        its pair (epochs, values).
    x : str
        The x axis.

    Returns
    -------
    Figure
    """
    figure, axes = _figure(2.7, len(curves), squeeze=False)
    for panel, axis in zip(curves, axes[0], strict=True):
        for i, (name, (epochs, values)) in enumerate(panel["runs"].items()):
            axis.plot(epochs, values, color=COLORS[i % len(COLORS)], label=name,
                      marker="." if len(epochs) < 20 else None)
        axis.set(xlabel=x, ylabel=panel["label"])
        axis.xaxis.get_major_locator().set_params(integer=True)
        if len(panel["runs"]) > 1:
            axis.legend()
    return figure


@_styled
def matrix_blocks(matrices: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]],
                  *, rows: str, columns: str, values: str) -> Figure:
    """Matrices with rows and columns ordered by cluster, blocks outlined, on one color scale.

    Parameters
    ----------
    matrices : mapping
        Title → (matrix of shape (n_rows, n_columns), row labels, column labels).
    rows, columns, values : str
        What rows, columns and entries are.

    Returns
    -------
    Figure
    """
    figure, axes = _figure(3.3, len(matrices), squeeze=False)
    top = max(np.quantile(np.abs(m), 0.99) for m, _, _ in matrices.values())
    image = None
    for axis, (title, (matrix, row_labels, column_labels)) in zip(axes[0], matrices.items(),
                                                                  strict=True):
        matrix = np.asarray(matrix)
        row_labels, column_labels = np.asarray(row_labels), np.asarray(column_labels)
        order_rows = np.argsort(row_labels, kind="stable")
        order_columns = np.argsort(column_labels, kind="stable")
        image = axis.imshow(matrix[np.ix_(order_rows, order_columns)], vmin=0, vmax=top,
                            interpolation="nearest", rasterized=True)
        for c in np.intersect1d(row_labels, column_labels):
            if c < 0:
                continue
            y, height = (row_labels < c).sum(), (row_labels == c).sum()
            x, width = (column_labels < c).sum(), (column_labels == c).sum()
            axis.add_patch(mpl.patches.Rectangle((x - 0.5, y - 0.5), width, height, fill=False,
                                                 edgecolor="white", linewidth=1.6))
        axis.set(title=title, xlabel=columns, ylabel=rows)
        axis.grid(False)
        for side in axis.spines.values():
            side.set_visible(False)
    figure.colorbar(image, ax=axes[0].tolist(), label=values, extend="max")
    return figure


@_styled
def null_distribution(null: ArrayLike, value: float, *, quantity: str,
                      meaningless: float | None = None) -> Figure:
    """A histogram of a null model with the network's own value in it.

    Parameters
    ----------
    null : array-like of shape (n_shuffles,)
    value : float
        Of the network.
    quantity : str
        What is measured: the x axis.
    meaningless : float, optional
        The value that a partition unrelated to the weights would have.

    Returns
    -------
    Figure
    """
    null = np.asarray(null)
    figure, axis = _figure(2.9)
    axis.hist(null, bins=min(20, max(5, len(null) // 3)), color=NEUTRAL, edgecolor="white",
              label=f"{len(null)} shuffles of the same weights")
    axis.axvline(value, color=COLORS[1], linewidth=2.5, label="the trained network")
    if meaningless is not None:
        axis.axvline(meaningless, color=COLORS[0], linestyle="--", label="a meaningless partition")
    axis.set(xlabel=quantity, ylabel="number of shuffles")
    axis.margins(x=0.15)
    figure.legend(loc="outside upper left", ncols=3)
    return figure


@_styled
def seed_strip(groups: Mapping[str, ArrayLike], *, quantity: str,
               references: Mapping[str, float] | None = None, log: bool = False) -> Figure:
    """One dot a seed, one row a group, reference values as lines.

    Parameters
    ----------
    groups : mapping
        Name → values, one per seed.
    quantity : str
        The x axis, with its unit.
    references : mapping, optional
        Name → value: what a source states, or chance.
    log : bool
        Whether the x axis is logarithmic.

    Returns
    -------
    Figure
    """
    figure, axis = _figure(1.3 + 0.45 * len(groups))
    for row, (_name, values) in enumerate(groups.items()):
        values = np.asarray(values, dtype=float)
        spread = np.linspace(-0.12, 0.12, len(values)) if len(values) > 1 else np.zeros(len(values))
        axis.scatter(values, row + spread, color=COLORS[0], s=42, alpha=0.85,
                     edgecolor="white", linewidth=0.8, zorder=3)
    for i, (name, value) in enumerate((references or {}).items()):
        axis.axvline(value, color="#333333", linestyle=("--", ":", "-.")[i % 3], linewidth=1.3,
                     label=name)
    axis.set(xlabel=quantity, yticks=range(len(groups)), yticklabels=list(groups),
             ylim=(-0.6, len(groups) - 0.4), xscale="log" if log else "linear")
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    if references:
        figure.legend(loc="outside upper left", ncols=3)
    return figure


@_styled
def heatmap(tables: Mapping[str, ArrayLike], *, rows: Sequence[str], columns: Sequence[str],
            row_label: str, column_label: str, values: str, diverging: bool = False,
            digits: int = 2) -> Figure:
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

    Returns
    -------
    Figure
    """
    tables = {title: np.asarray(table, dtype=float) for title, table in tables.items()}
    known = np.concatenate([table[~np.isnan(table)] for table in tables.values()] + [np.zeros(1)])
    top = np.abs(known).max()
    low = -top if diverging else known.min()
    height = 0.9 + len(tables) * (0.55 + 0.36 * len(rows))
    figure, axes = _figure(height, 1, len(tables), squeeze=False)
    image = None
    for axis, (title, table) in zip(axes[:, 0], tables.items(), strict=True):
        image = axis.imshow(table, vmin=low, vmax=top, aspect="auto",
                            cmap="RdBu_r" if diverging else "cividis")
        for (i, j), value in np.ndenumerate(table):
            if np.isnan(value):
                axis.text(j, i, "–", ha="center", va="center", color="black", fontsize=8)
                continue
            strength = abs(value) / (top or 1) if diverging else (value - low) / (top - low or 1)
            dark = strength > 0.6 if diverging else strength < 0.55
            axis.text(j, i, f"{value:.{digits}f}".replace("-", "−"), ha="center", va="center",
                      color="white" if dark else "black", fontsize=8)
        axis.set(title=title, xlabel=column_label, ylabel=row_label, xticks=range(len(columns)),
                 xticklabels=columns, yticks=range(len(rows)), yticklabels=rows)
        axis.tick_params(length=0)
        axis.grid(False)
        axis.label_outer()
        for side in axis.spines.values():
            side.set_visible(False)
    figure.colorbar(image, ax=axes[:, 0].tolist(), label=values)
    return figure


@_styled
def scatter(groups: Mapping[str, tuple[ArrayLike, ArrayLike]], *, x: str, y: str) -> Figure:
    """One dot a run, one color and one marker a group.

    Parameters
    ----------
    groups : mapping
        Name → (x values, y values), one per run.
    x, y : str
        The axes, with their units.

    Returns
    -------
    Figure
    """
    figure, axis = _figure(3.6)
    for i, (name, (xs, ys)) in enumerate(groups.items()):
        axis.scatter(xs, ys, label=name, color=COLORS[i % len(COLORS)], marker="osD^vP*X"[i % 8],
                     s=52, edgecolor="white", linewidth=0.8, zorder=3)
    axis.set(xlabel=x, ylabel=y)
    if groups:
        figure.legend(loc="outside right upper")
    return figure


@_styled
def image_grid(images: ArrayLike, image_shape: Sequence[int], *, rows: Sequence[str],
               columns: Sequence[str]) -> Figure:
    """Small images in rows and columns, each row and column with its name.

    Parameters
    ----------
    images : array-like of shape (n_rows, n_columns, n_features)
        Flattened, in [0, 1]; NaN where there is none.
    image_shape : tuple of int
        (channels, height, width).
    rows, columns : sequence of str

    Returns
    -------
    Figure
    """
    images = np.asarray(images, dtype=float)
    n_rows, n_columns, _ = images.shape
    left = 0.16 + 0.075 * max((len(name) for name in rows), default=0)
    side = (_WIDTH - left) / n_columns
    figure, axes = _figure(0.35 + n_rows * side * image_shape[1] / image_shape[2], n_columns,
                           n_rows, squeeze=False)
    for (i, j), axis in np.ndenumerate(axes):
        image = images[i, j].reshape(image_shape).transpose(1, 2, 0)
        if np.isfinite(image).all():
            axis.imshow(image[..., 0] if image_shape[0] == 1 else image, vmin=0, vmax=1,
                        cmap="gray", interpolation="nearest")
        axis.set(xticks=[], yticks=[])
        axis.grid(False)
        for edge in axis.spines.values():
            edge.set_visible(False)
        if i == 0:
            axis.set_title(columns[j], fontsize=9, fontweight="normal", loc="center")
        if j == 0:
            axis.set_ylabel(rows[i], rotation=0, ha="right", va="center", fontsize=9)
    figure.get_layout_engine().set(w_pad=0.01, h_pad=0.01, wspace=0.0, hspace=0.0)
    return figure


@_styled
def maps(panels: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]], *,
         classes: Sequence[str], stars: str, axes: str) -> Figure:
    """Points in the plane, colored by class, with special ones as stars: one panel a moment.

    Parameters
    ----------
    panels : mapping
        Title → (points of shape (n, 2), class of each as an index, stars of shape (m, 2)).
    classes : sequence of str
        The names of the classes; up to ten have colors of their own.
    stars, axes : str
        What the stars are, and what made the plane.

    Returns
    -------
    Figure
    """
    figure, grid = _figure(2.9, len(panels), squeeze=False)
    palette = (*COLORS[:6], "#8A5A00", "#7A7F87", COLORS[6], COLORS[7])
    for axis, (title, (points, labels, special)) in zip(grid[0], panels.items(), strict=True):
        points, labels, special = np.asarray(points), np.asarray(labels), np.asarray(special)
        for c, name in enumerate(classes):
            axis.scatter(*points[labels == c].T, s=5, linewidth=0, alpha=0.75, rasterized=True,
                         color=palette[c % len(palette)], label=name)
        axis.scatter(*special.T, marker="*", s=130, color="white", edgecolor="black",
                     linewidth=1.1, zorder=4, label=stars)
        axis.set(title=title, xticks=[], yticks=[], xlabel=f"{axes} 1", ylabel=f"{axes} 2")
        axis.label_outer()
        axis.grid(False)
        for edge in axis.spines.values():
            edge.set_color("#DDDDDD")
            edge.set_visible(True)
    handles, names = grid[0, 0].get_legend_handles_labels()
    legend = figure.legend(handles, names, loc="outside lower center", ncols=min(11, len(names)),
                           handletextpad=0.1, columnspacing=0.8)
    for handle in legend.legend_handles[:-1]:
        handle.set_sizes([40])
    return figure
