"""The version of the code that a run was made with: a record of another one is stale.

A method is a package of the book's library with the line ``VERSION = 1`` in its ``__init__``. The
number is raised with every change of the numbers that the method gives, those of the training loop
and the scores included: the golden numbers in ``tests/golden`` fail until it is. It is read as
text, because importing a method takes seconds.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from . import config


def library() -> Path | None:
    """The folder of the book's library; None for a book without one."""
    name = config.book().library
    return Path(find_spec(name).origin).parent if name else None


def version_of(chapter: str) -> str:
    """The present version of a chapter's code, as a new record has it: ``"demo 1"``.

    A chapter without a method of its own, such as a comparison, has the versions of all methods.
    """
    numbers, folder = {}, library()
    for path in sorted(folder.glob("*/__init__.py")) if folder else ():
        if line := re.search(r"(?m)^VERSION = (\d+)$", path.read_text(encoding="utf-8")):
            numbers[path.parent.name] = line[1]
    methods = [chapter] if chapter in numbers else numbers
    return ", ".join(f"{method} {numbers[method]}" for method in methods)


def hashes() -> dict[str, str]:
    """Hash of code → its version, for records from before methods had one.

    ``data/versions.json`` lists the hashes of each version. Which code computed the same was shown
    when they were made; the list does not grow.
    """
    listed = config.load_json(config.root() / "data" / "versions.json")
    return {code: version for version, codes in listed.items() for code in codes}
