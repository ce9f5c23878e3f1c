"""Arrays in, matplotlib figures out: one style, one way to show a figure, no computation.

Every figure of the book goes through `show`, or through `show_steps` where it has several states.
It gets a name, a text for those who can't see it, and a caption. Colors are Okabe and Ito's, which
stay apart for color-blind readers; a sequential map (cividis) serves amounts, a diverging one
(RdBu) signed values.

Lines, dots, bars and cells are in ``charts.py``, images and maps of samples in ``pictures.py``.
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
from .showing import Shown, show, show_steps
from .style import COLORS, NEUTRAL

__all__ = [
    "COLORS", "NEUTRAL", "Shown", "explained_cluster", "heatmap", "image_grid", "maps",
    "matrix_blocks", "null_distribution", "pipeline", "response", "scatter", "seed_strip",
    "show", "show_steps", "stacked_bars", "training_curves",
]  # fmt: skip
