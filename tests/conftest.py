"""For every test beside this file: the small checkout. What holds everywhere is one folder up."""

from _support import book  # noqa: F401
