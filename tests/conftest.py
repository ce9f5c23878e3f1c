"""For every test beside this file: the small book. What holds everywhere is one up."""

import os

os.environ.pop("CLUSTERBOOK_BOOK", None)        # of a terminal: tests are of this book

from _browser import chromium  # noqa: F401
from _live import live  # noqa: F401
from _support import book  # noqa: F401
from hypothesis import settings

settings.register_profile("same examples each time", derandomize=True)
settings.load_profile("same examples each time")
