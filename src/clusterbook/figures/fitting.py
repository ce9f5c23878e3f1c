"""A figure for a paper or a slide: texts shrink until none is cut and none overlaps another."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from string import ascii_lowercase

import numpy as np
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import to_hex, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.patches import FancyBboxPatch
from matplotlib.text import Text
from matplotlib.transforms import Bbox

#: Inches: a page of a journal has no more.
MOST_HEIGHT = 9.0
#: Points; journals ask for 5 at least.
SMALLEST = 5.0
_MOST_LETTERS = 9       # more panels than that are a grid of pictures
_NARROWEST = 0.12       # of a panel, as a share of the figure
_SLACK = 1.5            # pixels by which boxes may meet
_APART = 0.35           # of a line's height, between texts beside each other
#: What charts draw in fixed colors, for white paper, and what a page shows instead at night.
_DARK = {"#333333": "#e1e5ea", "#000000": "#ffffff", "#555555": "#a9b2be", "#999999": "#6b7684",
         "#e6e6e6": "#2c333b", "#ffffff": "#121212"}


def fitted(draw: Callable[[bool], Figure], narrow_first: bool) -> Figure:
    """The figure in the layout in which its texts stay larger, with letters for its panels.

    *draw* makes it, in a narrow or in a wide layout.
    """
    tried = []
    for narrow in (narrow_first, not narrow_first):
        figure = draw(narrow)
        height = min(figure.get_figheight(), MOST_HEIGHT)
        figure.set_figheight(height)
        _letter(figure)
        while (found := faults(figure)) and smallest(figure) > SMALLEST:
            _shrink(figure)
            if figure.get_layout_engine():      # without it, places are fixed
                height = min(1.05 * height, MOST_HEIGHT)
                figure.set_figheight(height)
        tried.append((not found, smallest(figure), figure))
        if not found and smallest(figure) > 1.4 * SMALLEST:
            break
    return max(tried, key=lambda one: one[:2])[2]


def faults(figure: Figure) -> list[str]:
    """The texts of a figure that are cut, overlap another one, or are wider than their box."""
    renderer = _Listening(*figure.bbox.size, figure.dpi)
    figure.draw(renderer)
    whole, lines = figure.bbox, renderer.lines
    found = [f"cut: {text}" for text, box, _ in lines
             if not (whole.contains(*box.min) and whole.contains(*box.max))]
    found += [f"{one} overlaps {other}" for (one, a, own), (other, b, its)
              in combinations(lines, 2) if own is not its and _meet(
                  a.padded(_APART * min(*a.size, *b.size), _SLACK + 1), b)]
    framed = [(text.get_text(), text.get_bbox_patch().get_window_extent(renderer))
              for text in figure.findobj(Text) if text.get_bbox_patch()]
    found += [f"the box of {one} overlaps {other}'s" for (one, a), (other, b)
              in combinations(framed, 2) if _meet(a, b)]
    panels = [(axis, axis.get_window_extent(renderer)) for axis in figure.axes]
    for legend in figure.findobj(Legend):
        box = legend.get_window_extent(renderer)
        found += [f"a legend overlaps the panel {axis.get_title('left')}" for axis, panel in panels
                  if axis is not legend.axes and _meet(box, panel)]
        found += [f"a legend is wider than the panel {axis.get_title('left')}"
                  for axis, panel in panels if axis is legend.axes and _meet(box, panel)
                  and not all(map(panel.padded(_SLACK).containsx, (box.x0, box.x1)))]
    found += [f"narrow: the panel {axis.get_title('left')}" for axis, panel in panels
              if axis.axison and not axis.images and axis.get_label() != "<colorbar>"
              and panel.width < _NARROWEST * whole.width]
    for patch in figure.findobj(lambda one: isinstance(one, FancyBboxPatch) and one.axes):
        box = patch.get_window_extent(renderer)
        found += [f"{text} is larger than its box" for text, line, _ in lines
                  if box.contains(*(line.min + line.max) / 2)
                  and not (box.contains(*line.min) and box.contains(*line.max))]
    return found


class _Listening(RendererAgg):
    """Notes each line of text that is drawn, with its box in pixels."""

    def __init__(self, width: float, height: float, dpi: float):
        super().__init__(width, height, dpi)
        self.lines: list[tuple[str, Bbox, Text]] = []

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None):
        """Note the line instead of drawing it."""
        width, height, descent = self.get_text_width_height_descent(s, prop, ismath)
        corners = np.array([[0, -descent], [width, -descent], [0, height - descent],
                            [width, height - descent]])
        turn = np.deg2rad(angle)
        turned = corners @ [[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]
        at = turned + [x, self.height - y]
        if s.strip():
            self.lines.append((s, Bbox([at.min(0), at.max(0)]), mtext))


def _meet(a: Bbox, b: Bbox) -> bool:
    both = Bbox.intersection(a, b)
    return both is not None and both.width > _SLACK and both.height > _SLACK


def smallest(figure: Figure) -> float:
    """The size in points of its smallest text."""
    return min((text.get_fontsize() for text in figure.findobj(Text) if text.get_text().strip()),
               default=np.inf)


def _shrink(figure: Figure) -> None:
    for text in figure.findobj(Text):
        text.set_fontsize(0.92 * text.get_fontsize())
    for panel in figure.axes:
        for name in ("x", "y"):
            ticks = getattr(panel, f"{name}axis").get_major_ticks()
            if ticks:       # the size of those that are added later too
                panel.tick_params(name, which="both", labelsize=ticks[0].label1.get_fontsize())


def _letter(figure: Figure) -> None:
    """Give each of several panels its letter, before its title or the legend above it."""
    panels = [one for one in figure.axes if one.axison and one.get_label() != "<colorbar>"]
    figure.draw_without_rendering()
    if 1 < len(panels) <= _MOST_LETTERS:
        for letter, axis in zip(ascii_lowercase, panels, strict=False):
            legend, title = axis.get_legend(), axis.get_title("left")
            if legend and legend.get_window_extent().y0 >= axis.get_window_extent().y1:
                legend.set_title(letter, {"weight": "bold"})
                legend.set_alignment("left")
            else:
                axis.set_title(f"{letter}  {title}".strip(), loc="left")


def darken(figure: Figure) -> Figure:
    """Adapt to a dark background what was drawn in fixed colors, for white paper."""
    boxes = [text.get_bbox_patch() for text in figure.findobj(Text) if text.get_bbox_patch()]
    for artist in [*figure.findobj(), *boxes]:
        for part in ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor"):
            colored = getattr(artist, "get_array", lambda: None)() is None and hasattr(
                artist, f"get_{part}") and hasattr(artist, f"set_{part}")
            colors = to_rgba_array(getattr(artist, f"get_{part}")()) if colored else np.empty(0)
            new = [(*to_rgba_array(_DARK.get(to_hex(one), to_hex(one)))[0, :3], one[3])
                   for one in colors]
            if new and not np.allclose(colors, new):
                getattr(artist, f"set_{part}")(new if len(new) > 1 else new[0])
    return figure
