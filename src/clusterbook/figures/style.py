"""The book's one style: its colors, its type, the width of its column."""

from __future__ import annotations

from functools import wraps

import matplotlib as mpl
import matplotlib.style
from matplotlib.figure import Figure

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
SCREEN_DPI = 144                            # twice the size shown: sharp on a phone
WIDTH = 7.2                                 # inches; the book's text column


def book_style():
    """A context in which figures are drawn and saved."""
    # From matplotlib's defaults on: nothing of the caller's own style shows through.
    return mpl.style.context(["default", _STYLE])


def blank(height: float, columns: int = 1, rows: int = 1, width: float = WIDTH, **options):
    """An empty figure of that height in inches, and its axes."""
    # Figure, not pyplot: no global state, nothing left open, nothing displayed twice.
    figure = Figure(figsize=(width, height))
    return figure, figure.subplots(rows, columns, **options)


def styled(function):
    """Draw with the book's style, whatever the caller's own settings are."""

    @wraps(function)
    def draw(*args, **options):
        with book_style():
            return function(*args, **options)

    return draw
