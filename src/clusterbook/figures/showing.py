"""The book's one style, and the one way to show a figure: with a name, an alt text, a caption."""

from __future__ import annotations

import base64
import copy
import io
import json
import re
import reprlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
from markupsafe import escape
from matplotlib.figure import Figure
from PIL import Image

from .. import paths
from ..checks import InputError, one_of
from . import fitting, steps
from . import live as live_part
from .steps import Key, Numbers, numbers, plotted, titled

__all__ = ["COLORS", "NEUTRAL", "WHITE", "Chart", "bare", "blank", "few_colors", "flat",
           "glyphs_once", "inches", "in_a_view", "is_narrow", "on_a_page", "show", "shown",
           "styled", "unpacked"]

#: Okabe–Ito, for color-blind readers; blue, vermilion, green, orange, sky blue, purple, yellow,
#: black.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#F0E442", "#000000")
NEUTRAL = "#8A8F98"

_SHEETS = Path(__file__).parent
_BOOK = mpl.rc_params_from_file(_SHEETS / "book.mplstyle", use_default_template=False)
_BOOK["axes.prop_cycle"] = mpl.cycler(color=COLORS)
#: What a style of a run's files changes in the book's.
STYLES: dict[str, Mapping[str, Any]] = {
    "plain": {}, "dark": {},        # `fitting.darken` has its colors
    "paper": mpl.rc_params_from_file(_SHEETS / "paper.mplstyle", use_default_template=False)}
#: Inches of a paper's columns.
WIDTHS = {"single": "3.5", "double": "7.2"}
#: svg-text: its texts stay text.
FORMATS = ("pdf", "svg", "svg-text", "png")
#: Of the pictures that Jupyter shows: sharp on a dense screen, in a narrower column.
SCREEN_DPI = 144
#: Inches of 96 pixels: a phone's screen. The text column's width is in ``book.mplstyle``.
NARROW = 3.6
#: Characters of a figure's numbers in the book; many pictures have more, pixel by pixel.
MOST_CSV = 200_000
#: Of marks on a colored ground; what is `#FFFFFF` follows the page, light or dark.
WHITE = "#FEFEFE"
#: Lies beside the files of a run's figures: each one's name, texts, numbers and, if any, steps.
LIST = "figures.json"
#: The page's colors (clusterbook.css) in an SVG, which are drawn as on white paper.
_THEMED = {"#333333": "ink", "#000000": "ink", "#555555": "muted", "#999999": "rule",
           "#e6e6e6": "grid", "#ffffff": "ground"}
_shown: dict[str, Numbers] = {}


class Chart(Figure):
    """A figure of a `styled` function, which can be drawn again in another width or style."""

    redraw: Callable[..., Chart] | None = None

    def as_it_is(self) -> Chart:
        """Keep what was changed after drawing: the figure is scaled, and not drawn again."""
        self.redraw = None
        return self


def styled(function: Callable[..., Chart]) -> Callable[..., Chart]:
    """Let a function draw in the book's style, whatever the caller's own is, and draw again.

    It makes its figure by `blank`, or by ``Chart`` and `inches`.
    """
    @wraps(function)
    def drawn(*args, **options) -> Chart:
        def redraw(width: float, style: str, layout: float | None = None) -> Chart:
            # The height stands for the width that the layout is made for, until `blank`.
            with mpl.style.context(["default", _BOOK, STYLES[style],
                                    {"figure.figsize": (width, layout or width)}]):
                figure = function(*args, **options)
            figure.redraw = redraw
            return figure
        return redraw(_BOOK["figure.figsize"][0], "plain")
    return drawn


def inches() -> float:
    """The width in inches of the figure that is being drawn."""
    return mpl.rcParams["figure.figsize"][0]


def is_narrow() -> bool:
    """Whether the figure is being drawn for a phone, or for a narrow column."""
    return mpl.rcParams["figure.figsize"][1] <= NARROW


def blank(height: float, columns: int = 1, rows: int = 1, *, stacks: bool = True
          ) -> tuple[Chart, Any]:
    """An empty figure of that height in inches, and its axes (rows, columns).

    On a phone the columns are below each other, unless the picture does not stack.
    """
    # No pyplot: no global state, nothing left open, nothing displayed twice.
    below = columns if is_narrow() and stacks else 1
    flat = 0.75 if below > 1 and inches() != NARROW else 1      # in a paper's column
    figure = Chart(figsize=(inches(), height * below * flat))
    axes = figure.subplots(rows * below, columns // below, squeeze=False)
    return figure, axes.reshape(rows, columns)


def bare(axis: mpl.axes.Axes) -> None:
    """Hide an axis's grid and spines, around cells and images."""
    axis.grid(False)
    axis.spines[:].set_visible(False)


def show(figure: Figure | Mapping[Key, Figure], name: str, alt: str, caption: str, *,
         origin: str | Mapping[Key, str] = "", sliders: Sequence[str] = ("Step",),
         start: Key | None = None, pause: float = 0.6, live: str = "") -> None:
    """Display a figure with its alternative text and caption; write its files if the run asks.

    With ``clusterbook run CHAPTER --figures DIR`` the figure is also written as ``DIR/name.png``
    and ``DIR/name.svg``, its numbers as ``DIR/name.csv``, and it is listed with its texts in
    ``DIR/figures.json``. In a run with other parameters than the notebook's, the texts say so. A
    run for other figures alone shows nothing.

    Jupyter and Colab show a PNG. The book's pages show the SVGs of the output's metadata: they take
    the page's colors, and a `styled` figure is drawn again for a phone. Raises InputError if a text
    is missing, or the files can't be written.

    Parameters
    ----------
    figure : matplotlib Figure, or mapping of str or tuple of str to Figure
        Or several of one size by the value of a slider, or of each slider, to step through or play;
        their files are ``DIR/name-1.png``, and so on.
    name : str
        Lower-case words joined by hyphens, unique in the chapter.
    alt, caption : str
        Alternative text; what to look at, and what the figure does not show, in Markdown. No
        measured numbers: the texts are compared between runs.
    origin : str, or mapping of positions to str
        Live or recorded, the seeds, the time: shown below the caption, or beside each position.
    sliders, start, pause : sequence of str, str or tuple of str, float
        Their names; the position that is shown first, by default the middle one; seconds from one
        step to the next while it plays.
    live : str
        What answers in its place where scripts run: a name of ``book/assets/live``. A notebook has
        it inside only where somebody sees it run; the book's own have the picture.
    """
    from IPython.display import Markdown, display

    about = _checked(name, alt, caption)
    if (only := paths.look("only")) and name not in only.split(","):
        return
    _shown[name] = numbers(figure)
    if folder := paths.asked("figures"):
        save(figure, folder, **about)
        told = {"figure": name, "parameters": json.dumps(paths.run_context().get("parameters")),
                "origin": origin if isinstance(origin, str) else "; ".join(origin.values())}
        content = plotted(figure, told)
        paths.write_atomically(folder / f"{name}.csv", content.encode(), noun="the numbers")
    pictures = titled(figure)
    pngs = [few_colors(_drawn(picture, format="png", dpi=SCREEN_DPI))
            for picture in pictures.values()]
    across, down = 96 * next(iter(pictures.values())).get_size_inches()
    kept, first = dict(about), 0
    if isinstance(figure, Mapping):
        notes = {} if isinstance(origin, str) else origin
        values, places = steps.positions({key: notes.get(key, "") for key in figure})
        middle = tuple(len(each) // 2 for each in values)
        first = ([*figure].index(start) if start is not None else
                 next((i for i, place in enumerate(places) if place[1] == middle), 0))
        kept["explorable"] = {"values": values, "places": places, "start": first,
                              "names": list(sliders), "pause": pause}
    image = {"width": round(across), "alt": about["alt"]}
    data = {"text/plain": f"Figure {name}: {about['alt']}", "image/png": pngs[first]}
    # Escaped, because titles and texts become attributes.
    tags = [f'<img alt="{_described(about["alt"], title, i, len(pngs))}" width="{across:.0f}" '
            f'height="{down:.0f}" src="data:image/png;base64,{png}">'
            for i, (title, png) in enumerate(zip(pictures, pngs, strict=True), 1)]
    if "explorable" in kept:
        data["text/html"] = steps.html(tags, **kept["explorable"])
    if live:
        kept["live"] = live
        if paths.seen():
            data["text/html"] = tags[first] + live_part.html(live)
    if origin and isinstance(origin, str):
        kept["origin"] = origin
    if len(csv := plotted([*pictures.values()][first])) <= MOST_CSV:
        kept["csv"] = _packed(csv)
    kept["drawn"] = _packed([[title, *_svgs(picture)] for title, picture in pictures.items()])
    display(data, metadata={"image/png": image, "clusterbook": kept}, raw=True)
    display(Markdown(f"*{about['caption']}*"), metadata={"clusterbook": {"caption_of": name}})


def shown() -> dict[str, Numbers]:
    """The numbers of every figure that this process has shown, by name; a copy."""
    return dict(_shown)


def _packed(content: Any) -> str:
    return base64.b64encode(zlib.compress(json.dumps(content).encode(), 9)).decode()


def unpacked(text: str) -> Any:
    """What `show` packed into an output's metadata: the SVGs, or the numbers as CSV."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def on_a_page(about: Mapping[str, Any], page: str) -> tuple[str, list[str]]:
    """A shown figure as HTML, by its output's metadata: what a page begins with, and what follows.

    It begins with the wide SVG of the first position. What it needs later is listed by position:
    the narrow SVG, and of the other positions the wide one before it; the style sheet shows one of
    them, and has the style of all. Ids inside begin with the page's and the figure's name.
    """
    pictures, later, drawn = [], [], unpacked(about["drawn"])
    first = about.get("explorable", {}).get("start", 0)
    for i, (title, *svgs) in enumerate(drawn):
        text = _described(about["alt"], title, i + 1, len(drawn))
        parts, kinds = [], ("wide", "narrow") if len(svgs) == 2 else ("only",)
        for kind, svg in zip(kinds, svgs, strict=True):
            own = f"{page}-{about['name']}-{i + 1}{kind[0]}-"
            svg = re.sub("<style.*?</style>|xlink:(?=href)", "", flat(svg))
            svg = re.sub(r'(\bid="|href="#|url\(#)(?!DejaVu)', rf"\g<1>{own}", svg)
            parts.append(svg.replace(
                "<svg ", f'<svg class="cb-{kind}" role="img" aria-label="{text}" ', 1))
        begins = i == first
        pictures.append(parts[0] if begins else "")
        later.append("".join(parts[begins:]))
    if "explorable" in about:
        return steps.html(pictures, **about["explorable"]), later
    return pictures[0], later


def in_a_view(figure: Figure, name: str, alt: str, page: str) -> str:
    """A figure as HTML, wide and for a phone, for a page that is no notebook."""
    drawn = _packed([["", *_svgs(figure)]])
    first, later = on_a_page({"name": name, "alt": alt, "drawn": drawn}, page)
    return "".join([first, *later])


def flat(svg: str) -> str:
    """An SVG without groups that only give names and grounds without a color, in fewer words."""
    kept = []

    def tag(found: re.Match) -> str:
        if found[0] != "</g>":
            kept.append(re.search(r"\b(?!id\b)[\w-]+=", found[1]) is not None)
            return found[0] if kept[-1] else ""
        return found[0] if kept.pop() else ""

    svg = re.sub(r'<path d="[^"]*" style="fill: none"/>|<g\b[^>]*/>| id="image[0-9a-f]+"', "", svg)
    svg = re.sub(r' transform="translate\((\S+) (\S+)\)"/>', r' x="\1" y="\2"/>', svg)
    svg = re.sub(r"<g\b([^>]*)>|</g>", tag, svg)
    return re.sub(r'(?<=>)\s+(?=<)| y="0(?:\.0)?"(?=/>)', "", svg)


def glyphs_once(html: str) -> str:
    """Leave out every definition of a letter but the first, which all SVGs of a page can use."""
    known = set()

    def first(found: re.Match) -> str:
        new = found[1] not in known
        known.add(found[1])
        return found[0] if new else ""

    return re.sub(r'<path id="(DejaVu[^"]*)"[^>]*/>', first, html)


def _described(alt: str, title: str, i: int, number: int) -> str:
    """The alternative text of a picture, escaped; of a step, which has a title, with its place."""
    return escape(f"{alt} Step {i} of {number}: {title}." if title else alt)


def _checked(name: str, alt: str, caption: str) -> dict[str, str]:
    """The name and both texts; in a run with other parameters these say so."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise InputError(f"a figure's name is lower-case words joined by hyphens, not {name!r}")
    if not (alt.strip() and caption.strip()):
        raise InputError(f"figure {name!r} needs an alternative text and a caption")
    # A tag in a caption, of a table's name for example, is text.
    caption = re.sub(r"<(?=[a-z/!?])", "&lt;", caption, flags=re.IGNORECASE)
    if changed := paths.run_context().get("changed"):
        # In a code span Markdown's signs mean nothing, and a backtick would end it.
        short = {key: reprlib.repr(value).replace("`", "'") for key, value in changed.items()}
        values = [f"`{key} = {value}`" for key, value in short.items()]
        if len(values) > 4:
            values[4:] = [f"and {len(values) - 4} more"]
        alt += " (Written for the default run.)"
        caption += f" (Written for the default run; this one has {', '.join(values)}.)"
    return {"name": name, "alt": alt, "caption": caption}


def save(figure: Figure | Mapping[Key, Figure], folder: Path, name: str, alt: str,
         caption: str) -> None:
    """Write a figure, or several as steps, as the run asks, and list it in the folder; see `show`.

    Raises InputError if nothing can be written.
    """
    formats = paths.look("format", "png,svg").split(",")
    width, style = paths.look("width"), paths.look("style", "plain")
    about = {"name": name, "alt": alt, "caption": caption, "formats": formats,
             "numbers": numbers(figure)}
    if isinstance(figure, Mapping):
        about["steps"] = list(titled(figure))
    for i, drawn in enumerate(titled(figure).values(), start=1):
        file = f"{name}-{i}" if "steps" in about else name
        told = {"png": {"Description": alt}, "pdf": {"Subject": alt, "CreationDate": None},
                "svg": {"Title": file, "Date": None, "Description": alt}}
        if width or style != "plain":
            drawn = for_paper(drawn, float(width or drawn.get_figwidth()), style)
        for kind in formats:
            ending, _, text = kind.partition("-")
            content = _drawn(drawn, bool(text), format=ending, dpi=200, metadata=told[ending])
            paths.write_atomically(folder / f"{file}.{ending}", content, noun="the figure")
    entries = {entry["name"]: entry for entry in listed(folder)} | {name: about}
    content = json.dumps(list(entries.values()), ensure_ascii=False, indent=1) + "\n"
    paths.write_atomically(folder / LIST, content.encode(), noun="the list of figures")


def as_asked(formats: str | None, width: str | None, style: str | None) -> dict[str, str]:
    """The variables of a run whose files are to look like that; InputError if none can."""
    for kind in (formats or "png").split(","):
        one_of("format of figures", kind, FORMATS)
    one_of("style of figures", style or "plain", STYLES)
    across = WIDTHS.get(width, width)
    if width is not None and not re.fullmatch(r"[1-9]\d?(\.\d+)?", across):
        raise InputError(f"--width takes single, double or inches from 1 to 99, not {width!r}")
    wanted = {"FORMAT": formats, "WIDTH": across, "STYLE": style}
    return {f"CLUSTERBOOK_{kind}": value for kind, value in wanted.items() if value is not None}


def for_paper(figure: Figure, width: float, style: str) -> Figure:
    """A chart of that width and style, with letters for its panels, in which all can be read.

    A figure that no chart drew is only scaled.
    """
    if isinstance(figure, Chart) and figure.redraw:
        wide = _BOOK["figure.figsize"][0]
        with mpl.style.context(["default", _BOOK, STYLES[style]]):
            drawn = fitting.fitted(
                lambda narrow: figure.redraw(width, style, NARROW if narrow else wide),
                width <= NARROW)
    else:                               # a scaled copy
        drawn = copy.deepcopy(figure)
        drawn.set_size_inches(drawn.get_size_inches() * width / drawn.get_figwidth())
    return fitting.darken(drawn) if style == "dark" else drawn


def listed(folder: Path) -> list[dict[str, Any]]:
    """The ``name``, ``alt``, ``caption`` and titles of ``steps`` of the figures that a run left."""
    path = folder / LIST
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def files(entry: Mapping[str, Any]) -> list[str]:
    """The names of a listed figure's files."""
    stems = [f"{entry['name']}-{i}" for i in range(1, 1 + len(entry.get("steps", [])))]
    endings = [kind.partition("-")[0] for kind in entry["formats"]]
    return [f"{entry['name']}.csv", *(f"{stem}.{ending}" for stem in stems or [entry["name"]]
                                      for ending in endings)]


def _drawn(figure: Figure, text: bool = False, **options) -> bytes:
    buffer = io.BytesIO()
    with mpl.style.context(["default", _BOOK, {"svg.fonttype": "none" if text else "path"}]):
        figure.savefig(buffer, **options)
    return buffer.getvalue()


def _svgs(figure: Figure) -> list[str]:
    """The figure as SVG in the page's colors, wide and, if it can be drawn again, narrow."""
    redraws = isinstance(figure, Chart) and figure.redraw
    return [_svg(each) for each in [figure, *([redraws(NARROW, "plain")] if redraws else [])]]


def _svg(figure: Figure) -> str:
    text = _drawn(figure, format="svg", dpi=SCREEN_DPI, transparent=True,
                  metadata={"Date": None, "Creator": None}).decode()
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text[text.index("<svg"):],
                  flags=re.DOTALL)
    text = re.sub(r'<svg ([^>]*?)width="([\d.]+)pt" height="([\d.]+)pt"', lambda found: (
        f'<svg {found[1]}width="{float(found[2]) * 4 / 3:.0f}" '
        f'height="{float(found[3]) * 4 / 3:.0f}"'), text, count=1)
    text = re.sub("|".join(_THEMED), lambda found: f"var(--cb-{_THEMED[found[0]]}, {found[0]})",
                  text)
    text = re.sub(r'(?<="data:image/png;base64,)[^"]*',
                  lambda found: few_colors(base64.b64decode(found[0])), text)
    # A tenth of a point is less than a pixel.
    text = re.sub(r"((?:scale|matrix)\([^)]*\)|opacity: [\d.]+|base64,[^\"]*)|(\d\.\d)\d+",
                  lambda found: found[1] or found[2], text)
    return re.sub(r"\s*\n\s*", " ", text).strip()


def few_colors(png: bytes) -> str:
    """A picture in base64, in 256 colors unless parts are transparent: a notebook has dozens."""
    picture, buffer = Image.open(io.BytesIO(png)), io.BytesIO()
    if picture.mode == "RGBA" and picture.getextrema()[3][0] < 255:
        return base64.b64encode(png).decode()
    picture.convert("RGB").quantize(256).save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()
