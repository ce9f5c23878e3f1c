"""The book's one style, and the one way to show a figure: with a name, an alt text, a caption."""

from __future__ import annotations

import base64
import io
import json
import re
import reprlib
from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import matplotlib.style
from jinja2 import Environment
from matplotlib.figure import Figure
from PIL import Image

from .. import paths
from ..errors import InputError

#: Okabe–Ito, for color-blind readers: blue, vermilion, green, orange, sky blue, purple, yellow,
#: black.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#F0E442", "#000000")
NEUTRAL = "#8A8F98"

_STYLE = {
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",           # ships with matplotlib: the same on every machine
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": "#333333",
    "axes.edgecolor": "#999999",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": mpl.cycler(color=COLORS),
    "grid.color": "#E6E6E6",
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "image.cmap": "cividis",
    "svg.hashsalt": "clusterbook",          # the same figure gives the same file
}
SCREEN_DPI = 144                            # twice the size shown: sharp on a phone
WIDTH = 7.2                                 # inches; the book's text column


# A decorator: draw or save in the book's style, whatever the caller's own is.
styled = mpl.style.context(["default", _STYLE])


def blank(height: float, columns: int = 1, rows: int = 1, **options):
    """An empty figure of that height in inches, and its axes."""
    # Figure, not pyplot: no global state, nothing left open, nothing displayed twice.
    figure = Figure(figsize=(WIDTH, height))
    return figure, figure.subplots(rows, columns, **options)


def bare(axis: mpl.axes.Axes) -> None:
    """Hide an axis's grid and spines, around cells and images."""
    axis.grid(False)
    axis.spines[:].set_visible(False)


LIST = "figures.json"
"""Lies beside the files of a run's figures: each one's name, text, caption and, if any, steps."""


def show(figure: Figure, name: str, alt: str, caption: str) -> None:
    """Display a figure with its alternative text and caption; write its files if the run asks.

    With ``clusterbook run CHAPTER --figures DIR`` (or the variable ``CLUSTERBOOK_FIGURES``) the
    figure is also written as ``DIR/name.png`` and ``DIR/name.svg``, and listed with its texts in
    ``DIR/figures.json``. In a run with other parameters than the notebook's, the texts say so.

    Raises InputError if name, alt or caption is missing, or the files can't be written.

    Parameters
    ----------
    figure : matplotlib Figure
    name : str
        Lower-case words joined by hyphens, unique in the chapter.
    alt : str
        Alternative text. No measured number: it is compared between runs.
    caption : str
        What to look at, and what the figure does not show. Markdown, no measured number.
    """
    _show(figure, figure, _checked(name, alt, caption))


def show_steps(steps: Mapping[str, Figure], name: str, alt: str, caption: str, *,
               pause: float = 0.6) -> None:
    """Display figures one at a time, with buttons and a slider to step through them or play them.

    The pictures and a short script are in the output, so it works in the book, in Jupyter and on
    Colab, without network and widgets. Without scripts, the first step is shown.

    *steps* maps titles to figures of one size; files are ``DIR/name-1.png``, and so on. The texts
    are of all steps together; *pause* is the seconds from one step to the next. Raises InputError
    as `show`, and if there is no step or the figures differ in size.
    """
    sizes = {tuple(figure.get_size_inches()) for figure in steps.values()}
    if len(sizes) != 1:
        raise InputError(f"figure {name!r} needs at least one step, and all of one size, not "
                         f"{len(steps)} steps of {len(sizes)} sizes")
    about = _checked(name, alt, caption)
    pictures = [(title, _png(figure, colors=256)) for title, figure in steps.items()]
    # Escaped, because titles and texts become attributes.
    template = Environment(trim_blocks=True, autoescape=True).from_string(_STEPPER)
    first, *_ = steps.values()
    page = template.render(images=pictures, width=_width(first), alt=about["alt"], pause=pause)
    _show(first, steps, about, {"image/png": pictures[0][1], "text/html": page})


def _show(figure: Figure, drawn: Figure | Mapping[str, Figure], about: Mapping[str, str],
          pictures: Mapping[str, str] | None = None) -> None:
    from IPython.display import Markdown, display

    if folder := paths.asked("figures"):
        save(drawn, folder, **about)
    # The book's build makes figures of the page from alt and caption (clusterbook.book).
    data = {"text/plain": f"Figure {about['name']}: {about['alt']}",
            **(pictures or {"image/png": _png(figure)})}
    image = {"width": _width(figure), "alt": about["alt"]}
    display(data, metadata={"image/png": image, "clusterbook": about}, raw=True)
    display(Markdown(f"*{about['caption']}*"), metadata={
        "clusterbook": {"caption_of": about["name"]}})


def _checked(name: str, alt: str, caption: str) -> dict[str, str]:
    """The name and both texts; in a run with other parameters these say so."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name or ""):
        raise InputError(f"a figure's name is lower-case words joined by hyphens, not {name!r}")
    for kind, text in (("alt", alt), ("caption", caption)):
        if not text or not text.strip():
            raise InputError(f"figure {name!r} has no {kind} text")
    if changed := paths.run_context().get("changed"):
        # In a code span Markdown's signs mean nothing, and a backtick would end it.
        short = {key: reprlib.repr(value).replace("`", "'") for key, value in changed.items()}
        values = [f"`{key} = {value}`" for key, value in short.items()]
        if len(values) > 4:
            values[4:] = [f"and {len(values) - 4} more"]
        alt += " (Written for the default run.)"
        caption += f" (Written for the default run; this one has {', '.join(values)}.)"
    return {"name": name, "alt": alt, "caption": caption}


@styled
def save(figure: Figure | Mapping[str, Figure], folder: Path, name: str, alt: str,
         caption: str) -> None:
    """Write a figure, or several as steps, as PNG and SVG, and enter it into the folder's list.

    For the names of the files see `show` and `show_steps`. Makes the folder if needed; raises
    InputError if it can't be written.
    """
    about, files = {"name": name, "alt": alt, "caption": caption}, {name: figure}
    if not isinstance(figure, Figure):
        about["steps"] = list(figure)
        files = {f"{name}-{i}": step for i, step in enumerate(figure.values(), start=1)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, drawn in files.items():
            drawn.savefig(folder / f"{file}.png", dpi=200, metadata={"Description": alt})
            drawn.savefig(folder / f"{file}.svg",
                          metadata={"Title": file, "Date": None, "Description": alt})
    except OSError as error:
        raise InputError(f"figures can't be written to {folder}: {error.strerror}") from None
    entries = {entry["name"]: entry for entry in listed(folder)} | {name: about}
    content = json.dumps(list(entries.values()), ensure_ascii=False, indent=1) + "\n"
    paths.write_atomically(folder / LIST, content.encode(), noun="the list of figures")


def listed(folder: Path) -> list[dict]:
    """The ``name``, ``alt``, ``caption`` and titles of ``steps`` of the figures that a run left."""
    path = folder / LIST
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


@styled
def _png(figure: Figure, colors: int | None = None) -> str:
    """The picture in base64; with few *colors*, dozens of them go into one page."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=SCREEN_DPI)
    if colors:
        image = Image.open(buffer).convert("RGB").quantize(colors)
        buffer = io.BytesIO()
        image.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def _width(figure: Figure) -> int:
    return round(figure.get_size_inches()[0] * SCREEN_DPI / 2)


_STEPPER = """\
<figure class="cb-steps" data-pause="{{ pause }}">
<style>
.cb-steps { margin: 0; }
.cb-steps img { max-width: 100%; height: auto; }
.cb-steps img[hidden] { display: none !important; }
.cb-steps-bar { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; }
.cb-steps-bar button { min-width: 2.75rem; min-height: 2.75rem; font: inherit; cursor: pointer; }
.cb-steps-bar input { flex: 1 1 8rem; min-height: 2.75rem; }
.cb-steps-bar output { flex: 1 1 100%; min-height: 3em; }
</style>
{% for title, png in images %}
<img width="{{ width }}" {#
#}alt="{{ alt }} Step {{ loop.index }} of {{ loop.length }}: {{ title }}." {#
#}data-title="{{ title }}"{{ "" if loop.first else " hidden" }} {#
#}src="data:image/png;base64,{{ png }}">
{% endfor %}
<div class="cb-steps-bar" role="group" aria-label="Steps of the figure">
<button type="button" aria-label="Previous step">&#8249;</button>
<input type="range" min="1" max="{{ images|length }}" value="1" step="1" aria-label="Step">
<button type="button" aria-label="Next step">&#8250;</button>
<button type="button" aria-label="Play">&#9654;</button>
<output aria-live="polite">1 of {{ images|length }}: {{ images[0][0] }}</output>
</div>
<script>
for (const figure of document.querySelectorAll("figure.cb-steps:not([data-ready])")) {
  figure.dataset.ready = "yes";
  const pictures = [...figure.querySelectorAll("img")], slider = figure.querySelector("input");
  const [back, next, play] = figure.querySelectorAll("button");
  const words = figure.querySelector("output");
  let timer = null;
  const at = () => Number(slider.value);
  const go = to => {
    slider.value = to;                          // stays between its ends
    pictures.forEach((picture, i) => picture.hidden = i + 1 !== at());
    words.textContent = `${at()} of ${pictures.length}: ${pictures[at() - 1].dataset.title}`;
  };
  const turn = (sign, label) => { play.innerHTML = sign; play.setAttribute("aria-label", label); };
  const stop = () => { clearInterval(timer); timer = null; turn("&#9654;", "Play"); };
  back.onclick = () => { stop(); go(at() - 1); };
  next.onclick = () => { stop(); go(at() + 1); };
  slider.oninput = () => { stop(); go(at()); };
  play.onclick = () => {
    if (timer) { stop(); return; }
    if (at() === pictures.length) go(1);
    turn("&#10073;&#10073;", "Pause");
    timer = setInterval(() => {
      go(at() + 1);
      if (at() === pictures.length) stop();
    }, 1000 * figure.dataset.pause);
  };
}
</script>
</figure>"""
