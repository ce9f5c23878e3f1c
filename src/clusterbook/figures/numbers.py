"""What a figure draws, as numbers: a few for each of its series, to compare with expected ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from .explorable import Key, titled

Numbers = dict[str, list[float]]
"""Series → number of points, mean and standard deviation along x and y, correlation of both."""


def numbers(figure: Figure | Mapping[Key, Figure]) -> Numbers:
    """The numbers of every series of a figure, or of all its steps.

    A picture counts as points: its columns and rows against its values, and the name says its
    colors. A series is named by its step, panel and label, or by its place among them.
    """
    return {": ".join(filter(None, (title, axis.get_title(), axis.get_ylabel(), f"{i}", name))):
            _moments(x, y)
            for title, step in titled(figure).items() for i, axis in enumerate(step.axes)
            for name, x, y in _series(axis)}


def _series(axis: Axes) -> Iterator[tuple[str, ArrayLike, ArrayLike]]:
    rows = [label.get_text() for label in axis.get_yticklabels()]

    def named(artist: object, i: int, points: np.ndarray) -> str:
        label, row = str(artist.get_label()), round(points[0, 1])
        if label.startswith("_") and 0 <= row < len(rows) and (points[:, 1].round() == row).all():
            label = rows[row] if re.search("[a-z]", rows[row]) else label   # a named row of dots
        return f"{i}" if label.startswith("_") else f"{i} {label}"

    for i, artist in enumerate([*axis.lines, *axis.collections]):
        points = np.asarray(artist.get_xydata() if hasattr(artist, "get_xydata")
                            else artist.get_offsets(), dtype=float).reshape(-1, 2)
        points = points[np.isfinite(points).all(1)]
        if len(points) and axis.get_label() != "<colorbar>":
            yield named(artist, i, points), points[:, 0], points[:, 1]
    for image in axis.images:
        values = np.ma.filled(np.ma.asarray(image.get_array(), dtype=float), np.nan)
        values = values.mean(2) if values.ndim == 3 else values
        down, across = np.indices(values.shape)
        colors = image.get_cmap().name
        yield f"{colors}, across", across, values
        yield f"{colors}, down", down, values
    if boxes := [patch for patch in axis.patches if hasattr(patch, "get_height")]:
        yield "boxes, across", *zip(*((b.get_x(), b.get_width()) for b in boxes), strict=True)
        yield "boxes, down", *zip(*((b.get_y(), b.get_height()) for b in boxes), strict=True)
        yield "boxes", *zip(*((b.get_x(), b.get_height()) for b in boxes), strict=True)


def _moments(x: ArrayLike, y: ArrayLike) -> list[float]:
    x, y = (np.asarray(part, dtype=float).ravel() for part in (x, y))
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if not len(x):
        return [0, 0, 0, 0, 0, 0]
    spreads = x.std(), y.std()
    related = np.mean((x - x.mean()) * (y - y.mean())) / np.prod(spreads) if all(spreads) else 0
    return [len(x), *(float(f"{value:.4g}") for value in (
        x.mean(), spreads[0], y.mean(), spreads[1], related))]
