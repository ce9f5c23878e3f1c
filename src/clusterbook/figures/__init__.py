# ruff: noqa: F401, F403
"""Arrays in, matplotlib figures out: one style, one way to show a figure, no computation.

Every figure of the book goes through `show`, with a name, an alternative text and a caption. The
charts draw for the book's text column, and again for a phone. A chart that only one page needs is
a function of that page: `styled`, with a figure from `blank` and the colors from here.
"""

from .charts import *
from .showing import *
from .steps import numbers, plotted
