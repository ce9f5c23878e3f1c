"""What makes the pages light: formulas and icons are drawn when the book is built.

Browsers show MathML and inline SVG by themselves, and screen readers read the one and skip the
other. The scripts and fonts that would draw them in the browser, 4 MB, are left out of the site.
"""

from __future__ import annotations

import re
import shutil
from functools import cache
from html import escape
from pathlib import Path

from docutils import nodes
from fontTools.pens.svgPathPen import SVGPathPen
from fontTools.ttLib import TTFont
from math_core import LatexError, LatexToMathML
from sphinx.util.logging import getLogger
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

#: What the theme would load for each page; only the page of results searches.
_FILES = r'(?s)\s*<(?:link|(script))\b[^>]*"[^"]*(?:{})[^"]*"[^>]*>(?(1).*?</script>)'
_UNUSED = re.compile(_FILES.format("fontawesome|thebe"))
_SEARCH = re.compile(_FILES.format("searchtools|language_data|searchindex"))
_ICON = re.compile(r'<(i|span) class="([^"]*\bfa[sb]?[ -][^"]*)"([^>]*)></\1>')
#: Of code, tags without a color of their own: names, signs and spaces.
_PLAIN = re.compile(r'<span class="(?:n|nn|nx|p|pm|w)">([^<]*)</span>')
_ALIKE = re.compile(r'<span class="(\w{1,2})">([^<]*)</span>(?:<span class="\1">[^<]*</span>)+')


def formula(translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML; one that has none is a warning with its place: the build fails."""
    block, text = isinstance(node, nodes.math_block), node.astext()
    if block and r"\\" in text and r"\begin" not in text:
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    try:
        made = LatexToMathML().convert_with_local_state(text, displaystyle=block)
    except LatexError as error:
        getLogger(__name__).warning("no MathML for %r: %s", text, error, location=node)
        made = escape(text)
    kind = "div" if block else "span"
    translator.body.append(translator.starttag(node, kind, "", CLASS="math"))
    if block and node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    translator.body.append(f"{made}</{kind}>")
    raise nodes.SkipNode


def page(html: str, static: Path, searches: bool = False) -> str:
    """A page of the theme, with its icons drawn, fewer tags around code, and no unused files."""
    def joined(found: re.Match) -> str:
        text = "".join(re.findall(">([^<]*)</span>", found[0]))
        return f'<span class="{found[1]}">{text}</span>'

    def drawn(found: re.Match) -> str:
        named = re.sub(' title="[^"]*"', "", found[3])
        return f'<svg class="cb-icon {found[2]}"{named} {icon(static, found[2])}</svg>'

    html = _ICON.sub(drawn, _ALIKE.sub(joined, _PLAIN.sub(r"\1", _UNUSED.sub("", html))))
    return html if searches else _SEARCH.sub("", html)


@cache
def icon(static: Path, classes: str) -> str:
    """An icon of the theme's fonts, by its classes: the rest of an SVG, hidden from readers."""
    css = (static / "styles" / "pydata-sphinx-theme.css").read_text(encoding="utf-8")
    names = "|".join(re.findall(r"fa-([\w-]+)", classes))
    code = int(re.search(rf'\.fa-(?:{names}):before[^{{]*{{content:"\\(\w+)"', css)[1], 16)
    style = "brands" if re.search(r"\bfab|brands", classes) else "solid"
    (file,) = (static / "vendor" / "fontawesome" / "webfonts").glob(f"fa-{style}-*.ttf")
    font = TTFont(file)
    glyphs = font.getGlyphSet()
    glyph, pen = glyphs[font.getBestCmap()[code]], SVGPathPen(glyphs)
    glyph.draw(pen)
    return (f'aria-hidden="true" height="1em" viewBox="0 -448 {glyph.width} 512"><path '
            f'fill="currentColor" transform="scale(1 -1)" d="{pen.getCommands()}"/>')


def trim(static: Path) -> None:
    """Remove what no page loads: maps, fonts, their rules, and what was read during the build."""
    sheet = static / "styles" / "pydata-sphinx-theme.css"
    css = re.sub(r'@font-face{[^}]*webfonts[^}]*}|(?:\.fa-[\w-]+:before,?)+{content:"[^"]*"}', "",
                 sheet.read_text(encoding="utf-8"))
    sheet.write_text(css, encoding="utf-8")
    shutil.rmtree(static / "vendor")
    shutil.rmtree(static / "locales", ignore_errors=True)
    for file in static.rglob("*.*"):
        if file.suffix == ".map" or re.match("fontawesome|sphinx-thebe", file.name):
            file.unlink()
