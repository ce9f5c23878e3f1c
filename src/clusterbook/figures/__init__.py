# ruff: noqa: F401, F403
"""Arrays in, matplotlib figures out: one style, one way to show a figure, no computation.

Every figure of the book goes through `show`, with a name, an alternative text and a caption.
"""

from .charts import *
from .showing import *
from .steps import numbers
