"""For every test beside this file: the small book. What holds everywhere is one up."""

from _support import book  # noqa: F401
