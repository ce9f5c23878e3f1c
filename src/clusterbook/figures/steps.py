"""The steps of a figure, as HTML and as numbers: pictures drawn beforehand, one for each position.

A short script adds sliders to the HTML, in the book, in Jupyter, on Colab and from a file, without
network and widgets. Without scripts the position to start with is shown. A position that was not
run says so: nothing is interpolated. The numbers are compared with expected ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, StrictUndefined
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from ..paths import as_csv

Key = str | tuple[str, ...]
#: One picture: the sliders' values as a title, their indices, and a note.
Place = tuple[str, tuple[int, ...], str]
#: Series → number of points, mean and standard deviation along x and y, correlation of both.
Numbers = dict[str, list[float]]
#: Makes HTML of every template: it escapes texts, and refuses a name that it was not given.
ENVIRONMENT = Environment(undefined=StrictUndefined, autoescape=True, trim_blocks=True,
                          lstrip_blocks=True)


def titled(figure: Figure | Mapping[Key, Figure]) -> dict[str, Figure]:
    """A figure's pictures by the titles of their positions; a figure without sliders by ``""``."""
    if not isinstance(figure, Mapping):
        return {"": figure}
    return {", ".join(_values(key)): picture for key, picture in figure.items()}


def _values(key: Key) -> tuple[str, ...]:
    return key if isinstance(key, tuple) else (key,)


def positions(notes: Mapping[Key, str]) -> tuple[list[list[str]], list[Place]]:
    """Each slider's values, in order of appearance; the place of each key, with its note."""
    values = [list(dict.fromkeys(each)) for each in zip(*map(_values, notes), strict=True)]
    return values, [(", ".join(row), tuple(map(list.index, values, row)), note)
                    for row, note in zip(map(_values, notes), notes.values(), strict=True)]


def html(pictures: Sequence[str], **explorable: Any) -> str:
    """The pictures, HTML each, with a slider for each of ``names``, the first of which can play.

    ``values`` and ``places`` are those of `positions`, ``start`` is the place that is shown first,
    ``pause`` the seconds from one step to the next.
    """
    style, script = (Path(__file__).with_suffix(ending).read_text(encoding="utf-8")
                     for ending in (".css", ".js"))
    return ENVIRONMENT.from_string(_TEMPLATE).render(
        pictures=pictures, style=style, script=script, **explorable)


_TEMPLATE = """\
<div class="cb-steps" data-names="{{ names|tojson|forceescape }}" \
data-values="{{ values|tojson|forceescape }}" data-pause="{{ pause }}">
<style>
{{ style|safe }}</style>
{% for title, at, note in places %}
<div class="cb-step" data-at="{{ at|join(" ") }}" data-title="{{ title }}" data-note="{{ note }}"\
{{ " hidden" if loop.index0 != start }}>{{ pictures[loop.index0]|safe }}</div>
{% endfor %}
<script>
{{ script|safe }}</script>
</div>"""


# --- numbers -----------------------------------------------------------------------------------


def numbers(figure: Figure | Mapping[Key, Figure]) -> Numbers:
    """The numbers of every series of a figure, or of all its steps, by step, panel and label.

    A picture counts as points: its columns and rows against its values; the name says its colors.
    """
    found = {}
    for title, step in titled(figure).items():
        for i, axis in enumerate(step.axes):
            panel = ": ".join(filter(None, (title, axis.get_title(), axis.get_ylabel(), f"{i}")))
            for name, data in _of_axis(axis):
                found |= {f"{panel}: {name}{of}": _moments(data[x], data[y])
                          for of, x, y in _COMPARED[len(data)]}
    return found


def plotted(figure: Figure | Mapping[Key, Figure],
            notes: Mapping[str, object] | None = None) -> str:
    """All that a figure, or its steps, draw, as CSV: a row for each point, cell or box.

    Columns are named by the axes' labels; a cell has the names of its row and its column, a box its
    corner, width and height. *notes* come first, as lines that begin with ``#``.
    """
    parts = []
    for title, step in titled(figure).items():
        panels = [axis for axis in step.axes if axis.get_label() != "<colorbar>"]
        bars = [axis.get_ylabel() for axis in step.axes if axis not in panels]
        for i, axis in enumerate(panels, 1):
            for at, (name, data) in enumerate(_of_axis(axis, bands=True), 1):
                panel = (axis.get_title("left") or axis.get_title() or axis.get_ylabel()
                         or f"panel {i}")
                cells, label = "value" in data, re.sub(r"^\d+( |$)", "", name)
                frame = _labeled(axis, pd.DataFrame({key: np.ravel(values) for key, values
                                                     in data.items()}), (*bars, "value")[0])
                for key, value in (("series", label or f"series {at}" * (not cells)),
                                   ("panel", panel if len(panels) > 1 else ""), ("step", title)):
                    if value:
                        frame.insert(0, key, " ".join(value.split()))
                parts.append(frame)
    lines = [f"# {key}: {value}\n" for key, value in (notes or {}).items() if value]
    return "".join(lines) + as_csv(pd.concat(parts or [pd.DataFrame(columns=["x", "y"])]),
                                   float_format="%.6g")


def _labeled(axis: Axes, frame: pd.DataFrame, value: str) -> pd.DataFrame:
    """A series with the axes' labels as heads, and the names of its rows and columns."""
    heads, cells = {"value": value}, "value" in frame
    for key, usual in (("x", "column"), ("y", "row")):
        side = getattr(axis, f"{key}axis")
        names = [" ".join(label.get_text().split()) for label in side.get_ticklabels()]
        if cells and len(names) == frame[key].nunique() or any(
                re.search("[a-z]", name) for name in names):
            named = dict(zip(side.get_ticklocs(), names, strict=False))
            frame[key] = [named.get(at, at) for at in frame[key].round()]
        label = " ".join(side.get_label_text().split()) if names or not cells else ""
        heads[key] = label or (usual if cells or any(names) else key)
    return frame if heads["x"] == heads["y"] else frame.rename(columns=heads)


_COMPARED = {   # by the number of columns that a series has
    2: [("", "x", "y")], 3: [(", across", "x", "value"), (", down", "y", "value")],
    4: [(", across", "x", "width"), (", down", "y", "height"), ("", "x", "height")]}


def _of_axis(axis: Axes, bands: bool = False) -> Iterator[tuple[str, dict[str, ArrayLike]]]:
    """The name and the columns of every series; of a band, if asked, what outlines it."""
    rows = [label.get_text() for label in axis.get_yticklabels()]

    def named(artist: object, i: int, points: np.ndarray) -> str:
        label, row = str(artist.get_label()), round(points[0, 1])
        if label.startswith("_") and 0 <= row < len(rows) and (points[:, 1].round() == row).all():
            label = rows[row] if re.search("[a-z]", rows[row]) else label   # a named row of dots
        return f"{i}" if label.startswith("_") else f"{i} {label}"

    for i, artist in enumerate([*axis.lines, *axis.collections]):
        points = artist.get_xydata() if hasattr(artist, "get_xydata") else artist.get_offsets()
        if bands and isinstance(artist, PolyCollection):
            points = np.concatenate([path.vertices for path in artist.get_paths()])
        points = np.asarray(points, dtype=float).reshape(-1, 2)
        points = points[np.isfinite(points).all(1)]
        if len(points) and axis.get_label() != "<colorbar>":
            name = named(artist, i, points)
            if bands and artist.get_transform() == axis.get_xaxis_transform("grid"):
                points = points[:1] * [1, np.nan]       # a line across the whole panel
            yield name, {"x": points[:, 0], "y": points[:, 1]}
    for i, image in enumerate(axis.images):
        values = np.ma.filled(np.ma.asarray(image.get_array(), dtype=float), np.nan)
        values = values.mean(2) if values.ndim == 3 else values
        down, across = np.indices(values.shape)
        name = image.get_cmap().name if len(axis.images) == 1 else f"{i} {image.get_cmap().name}"
        if bands:
            name = image.get_label() if not image.get_label().startswith("_") else ""
        yield name, {"x": across, "y": down, "value": values}
    if boxes := [patch for patch in axis.patches if hasattr(patch, "get_height")]:
        yield "boxes", {part: [getattr(box, f"get_{part}")() for box in boxes]
                        for part in ("x", "y", "width", "height")}


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
