# ruff: noqa: F403
"""Arrays in, matplotlib figures out: one style, one way to show a figure, no computation.

Every figure of the book goes through `show`, or through `show_steps` if it has several states, with
a name, an alternative text and a caption.
"""

from .charts import *
from .pictures import *
from .showing import *
