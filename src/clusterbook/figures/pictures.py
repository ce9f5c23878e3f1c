"""Images of samples, and samples as points of a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch
from numpy.typing import ArrayLike

from .showing import COLORS, NEUTRAL, WIDTH, bare, blank, styled


def _picture(axis, image: np.ndarray, title: str, cmap: str = "gray"):
    """An image (height, width), or with channels as a third axis, in [0, 1]; NaN: none."""
    axis.set(xticks=[], yticks=[])
    bare(axis)
    axis.set_title(title, fontsize=9, fontweight="normal", loc="center")
    if np.isfinite(image).all():
        image = image[..., 0] if image.shape[2:] == (1,) else image
        return axis.imshow(image, vmin=0, vmax=1, cmap=cmap, interpolation="nearest")


@styled
def image_grid(images: ArrayLike, image_shape: Sequence[int], *, rows: Sequence[str],
               columns: Sequence[str]) -> Figure:
    """Small images in rows and columns, each row and column with its name.

    *images* has shape (n_rows, n_columns, n_features), flattened, in [0, 1], with NaN where there
    is none; *image_shape* is (channels, height, width).
    """
    images = np.asarray(images, dtype=float)
    n_rows, n_columns, _ = images.shape
    left = 0.16 + 0.075 * max((len(name) for name in rows), default=0)
    side = (WIDTH - left) / n_columns
    figure, axes = blank(0.35 + n_rows * side * image_shape[1] / image_shape[2], n_columns,
                         n_rows, squeeze=False)
    for (i, j), axis in np.ndenumerate(axes):
        image = images[i, j].reshape(image_shape).transpose(1, 2, 0)
        _picture(axis, image, columns[j] if i == 0 else "")
        if j == 0:
            axis.set_ylabel(rows[i], rotation=0, ha="right", va="center", fontsize=9)
    figure.get_layout_engine().set(w_pad=0.01, h_pad=0.01, wspace=0.0, hspace=0.0)
    return figure


@styled
def explained_cluster(members: ArrayLike, image_shape: Sequence[int], *,
                      images: Mapping[str, ArrayLike], masks: Mapping[str, ArrayLike],
                      values: str) -> Figure:
    """One cluster as several methods explain it: its members, images, masks.

    Parameters
    ----------
    members : array-like of shape (n_members, n_features)
        Flattened images of the cluster, in [0, 1].
    image_shape : tuple of int
        (channels, height, width).
    images : mapping of str to array-like
        Title → image of shape (height, width) or (height, width, 3), in [0, 1].
    masks : mapping of str to array-like
        Title → numbers in [0, 1] by place, of shape (rows, columns), as fine as the image or
        coarser.
    values : str
        What the numbers of the masks are.
    """
    members = np.asarray(members, dtype=float).reshape(-1, *image_shape).transpose(0, 2, 3, 1)
    side = min(1.3, WIDTH / max(len(images), len(masks), 1))
    heights = WIDTH / len(members), 0.45 + side, 0.95 + side
    figure = Figure(figsize=(WIDTH, 0.2 + sum(heights)))
    figure.suptitle("members", fontsize=9)
    grid = figure.add_gridspec(3, 1, height_ratios=heights)
    untitled = [("", image) for image in members]
    for i, row in enumerate([untitled, list(images.items()), list(masks.items())]):
        if not row:
            continue
        axes = grid[i].subgridspec(1, len(row)).subplots(squeeze=False)[0]
        for axis, (title, picture) in zip(axes, row, strict=True):
            shown = _picture(axis, np.asarray(picture, dtype=float), title,
                             "cividis" if i == 2 else "gray")
        if i == 2:
            figure.colorbar(shown, ax=axes.tolist(), label=values, location="bottom", shrink=0.5,
                            aspect=35)
    return figure


@styled
def pipeline(stages: Mapping[str, ArrayLike], *, back: str) -> Figure:
    """The stages of a data flow, each as a small picture, joined by arrows in a circle.

    The first half runs from left to right, the second below it from right to left, and an arrow
    with the text *back* leads from the last stage to the first. *stages* maps a title to a color
    image (height, width, 3), a matrix or gray image (height, width), or a curve (n,).
    """
    columns = (len(stages) + 1) // 2
    figure, axes = blank(4.3, columns, 2, squeeze=False)
    # Room for the arrows: shares of a picture, between two of a row and between the rows.
    figure.get_layout_engine().set(wspace=0.14, hspace=0.16)
    way = [*axes[0], *axes[1, ::-1]]
    for axis in way[len(stages):]:
        axis.remove()
    way = way[:len(stages)]
    for axis, (title, values) in zip(way, stages.items(), strict=True):
        values = np.asarray(values, dtype=float)
        if values.ndim == 1:
            axis.plot(values, color=COLORS[0])
        else:
            axis.imshow(values, cmap="gray" if "gray" in title else None, interpolation="nearest")
        axis.set_box_aspect(1)
        axis.set(xticks=[], yticks=[], xlabel=title)
        axis.grid(False)
        axis.spines[:].set(visible=True, color="#CCCCCC")
    right, left = ((1.02, 0.5), (-0.02, 0.5)), ((-0.02, 0.5), (1.02, 0.5))
    down, up = ((0.5, -0.16), (0.5, 1.02)), ((0.5, 1.02), (0.5, -0.16))
    turns = [right] * (columns - 1) + [down] + [left] * (len(stages) - columns - 1) + [up]
    for turn, axis, following in zip(turns, way, [*way[1:], way[0]], strict=True):
        figure.add_artist(ConnectionPatch(
            *turn, axis.transAxes, following.transAxes, arrowstyle="-|>", mutation_scale=14,
            color=COLORS[1] if turn is up else NEUTRAL, linewidth=2))
    text = way[-1].text(0.58, 1.1, back, transform=way[-1].transAxes, color="#333333", fontsize=9,
                        va="center")
    text.set_in_layout(False)       # it has the whole gap between the rows
    return figure


@styled
def maps(panels: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]], *,
         classes: Sequence[str], stars: str, axes: str) -> Figure:
    """Points in the plane, colored by class, with special ones as stars: one panel a moment.

    *panels* maps a title to (points of shape (n, 2), class of each as an index, stars of shape (m,
    2)); *classes* are the classes' names, *stars* says what the stars are, and *axes* names the
    plane's axes.
    """
    figure, grid = blank(2.9, len(panels), squeeze=False)
    palette = (*COLORS[:6], "#8A5A00", "#7A7F87", COLORS[6], COLORS[7])
    for axis, (title, panel) in zip(grid[0], panels.items(), strict=True):
        points, labels, special = map(np.asarray, panel)
        for c, name in enumerate(classes):
            axis.scatter(*points[labels == c].T, s=5, linewidth=0, alpha=0.75, rasterized=True,
                         color=palette[c % len(palette)], label=name)
        axis.scatter(*special.T, marker="*", s=130, color="white", edgecolor="black",
                     linewidth=1.1, zorder=4, label=stars)
        axis.set(title=title, xticks=[], yticks=[], xlabel=f"{axes} 1", ylabel=f"{axes} 2")
        axis.label_outer()
        axis.grid(False)
        axis.spines[:].set(visible=True, color="#DDDDDD")
    legend = figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center",
                           ncols=min(11, len(classes) + 1), handletextpad=0.1, columnspacing=0.8)
    for handle in legend.legend_handles[:-1]:
        handle.set_sizes([40])
    return figure
