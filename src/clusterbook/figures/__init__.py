"""Arrays in, matplotlib figures out: one style, one way to show a figure, no computation.

Every figure of the book goes through `show`, or through `show_steps` if it has several states, with
a name, an alternative text and a caption.

Lines, dots, bars and cells are in ``charts.py``, images and maps of samples in ``pictures.py``; the
style and the display are in ``showing.py``.
"""

from .charts import (
    heatmap,
    matrix_blocks,
    null_distribution,
    response,
    scatter,
    seed_strip,
    stacked_bars,
    training_curves,
)
from .pictures import explained_cluster, image_grid, maps, pipeline
from .showing import COLORS, NEUTRAL, show, show_steps

__all__ = [
    "COLORS", "NEUTRAL", "explained_cluster", "heatmap", "image_grid", "maps",
    "matrix_blocks", "null_distribution", "pipeline", "response", "scatter", "seed_strip",
    "show", "show_steps", "stacked_bars", "training_curves",
]  # fmt: skip
