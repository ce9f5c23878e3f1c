r"""Three things that Sphinx's napoleon can't read in numpydoc docstrings.

``[1]_`` and ``.. [1]`` are footnotes in reStructuredText, and each footnote number may stand only
once on a page; the API page shows many docstrings that all start at 1. Several attributes on one
line (``low, high : float``) are taken for one attribute and its type. And the default that a
dataclass makes anew for each object, ``<factory>``, is not Python, nor is a function, ``<function
mean>``; a signature with one of them would be shown unformatted.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_MARK = re.compile(r"\[(\d+)\]_")
_FOOTNOTE = re.compile(r"^(\s*)\.\. \[(\d+)\] ")
_FUNCTION = re.compile(r"<function (\w+)>")
_NAMELESS = re.compile(r"<factory>|<function <lambda>>")
_SEVERAL = re.compile(r"^(\s*)(\w+(?:, \w+)+)(?= : )")


def readable(lines: list[str]) -> list[str]:
    r"""Turn footnotes into a numbered list, and join the names of attributes that share a line.

    Examples
    --------
    >>> readable(["Munkres' algorithm [1]_.", "", ".. [1] J. Munkres,", "   1957."])
    ["Munkres' algorithm [1].", '', '1. J. Munkres,', '   1957.']
    >>> readable(["Attributes", "----------", "low, high : float", "    Bounds, both included."])[2]
    'low,high : float'
    """
    new = [_MARK.sub(r"[\1]", _FOOTNOTE.sub(r"\1\2. ", line)) for line in lines]
    section = ""
    for number, line in enumerate(new[:-1]):
        if new[number + 1].strip().startswith("---"):
            section = line.strip()
        elif section == "Attributes":
            new[number] = _SEVERAL.sub(lambda found: found[0].replace(", ", ","), line)
    return new


def python(signature: str) -> str:
    """Write the defaults of a signature so that Sphinx can read them.

    Examples
    --------
    >>> python("(rows=<factory>, error=<function mean>, say=<function <lambda>>)")
    '(rows=..., error=mean, say=...)'
    """
    return _FUNCTION.sub(r"\1", _NAMELESS.sub("...", signature))


def _docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = readable(lines)


def _signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str, returns: str
) -> tuple[str, str] | None:
    return (python(signature), returns) if signature else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the rewriting, before napoleon reads the sections."""
    app.connect("autodoc-process-docstring", _docstring, priority=400)
    app.connect("autodoc-process-signature", _signature)
    return {"version": "1.0", "parallel_read_safe": True, "parallel_write_safe": True}
