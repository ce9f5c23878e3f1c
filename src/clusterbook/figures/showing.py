"""The one way to show a figure: with a name, a text for those who can't see it, and a caption."""

from __future__ import annotations

import base64
import html
import io
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from .. import paths
from ..errors import InputError
from .style import SCREEN_DPI, book_style

LIST = "figures.json"
"""Lies beside the files of a run's figures: each one's name, text, caption and, if any, steps."""


class Shown:
    """A figure as a notebook displays it: a PNG with its alternative text, then its caption.

    Of a figure in steps the PNG is the first one, and *page* has all of them, as HTML.
    """

    def __init__(self, png: bytes, width: int, name: str, alt: str, caption: str, page: str = ""):
        self.png, self.width, self.page = png, width, page
        self.name, self.alt, self.caption = name, alt, caption

    def __repr__(self) -> str:
        return f"Figure {self.name}: {self.alt}"

    def _repr_mimebundle_(self, include=None, exclude=None):
        # Where the book is built, alt and caption become the page's own figure (clusterbook.book).
        about = {"name": self.name, "alt": self.alt, "caption": self.caption}
        return (
            {"image/png": base64.b64encode(self.png).decode(), "text/plain": repr(self)}
            | ({"text/html": self.page} if self.page else {}),
            {"image/png": {"width": self.width, "alt": self.alt}, "clusterbook": about},
        )


def show(figure: Figure, name: str, alt: str, caption: str) -> None:
    """Display a figure with its alternative text and caption; write its files if the run asks.

    With ``clusterbook run CHAPTER --figures DIR`` (or the variable ``CLUSTERBOOK_FIGURES``) the
    figure is also written as ``DIR/name.png`` and ``DIR/name.svg``, and ``DIR/figures.json`` lists
    it with its texts. Where the run has other parameters than the notebook's, the texts say so.

    Parameters
    ----------
    figure : matplotlib Figure
        From one of the functions below, or any other.
    name : str
        Lower-case words joined by hyphens, unique in the chapter.
    alt : str
        What the figure shows, for those who can't see it. No measured number: it is compared
        between runs.
    caption : str
        What to look at, and what the figure does not show. Markdown, no measured number.

    Raises
    ------
    InputError
        If name, alt or caption is missing, or the folder for the files can't be written.
    """
    _refuse_nameless(name, alt, caption)
    alt, caption = _of_this_run(alt, caption)
    if folder := paths.asked("figures"):
        save(figure, folder, name, alt, caption)
    _display(Shown(_png(figure), _width(figure), name, alt, caption))


def show_steps(steps: Mapping[str, Figure], name: str, alt: str, caption: str, *,
               pause: float = 0.6) -> None:
    """Display figures one at a time: to step through, to move a slider over, or to play.

    It needs no network and no widgets: the pictures and a few lines of script are in the output, so
    it works in the book, in Jupyter and on Colab. Where scripts are not run, the first step stands.

    Parameters
    ----------
    steps : mapping of str to matplotlib Figure
        The title of each step and its figure, all of one size.
    name, alt, caption : str
        As for `show`, of all steps together. Files are ``DIR/name-1.png``, and so on.
    pause : float
        Seconds from one step to the next when it plays.

    Raises
    ------
    InputError
        As for `show`; there is no step, or the figures differ in size.
    """
    _refuse_nameless(name, alt, caption)
    sizes = {tuple(figure.get_size_inches()) for figure in steps.values()}
    if len(sizes) != 1:
        raise InputError(f"figure {name!r} needs at least one step, and all of one size, not "
                         f"{len(steps)} steps of {len(sizes)} sizes")
    alt, caption = _of_this_run(alt, caption)
    if folder := paths.asked("figures"):
        files = {f"{name}-{i}": figure for i, figure in enumerate(steps.values(), start=1)}
        _write_files(folder, files, name=name, alt=alt, caption=caption, steps=list(steps))
    pictures = {title: _smaller(_png(figure)) for title, figure in steps.items()}
    first = next(iter(steps.values()))
    _display(Shown(next(iter(pictures.values())), _width(first), name, alt, caption,
                   page=_stepper(pictures, _width(first), alt, pause)))


def _refuse_nameless(name: str, alt: str, caption: str) -> None:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name or ""):
        raise InputError(f"a figure's name is lower-case words joined by hyphens, not {name!r}")
    for what, text in (("alt", alt), ("caption", caption)):
        if not text or not text.strip():
            raise InputError(f"figure {name!r} has no {what} text")


def _of_this_run(alt: str, caption: str) -> tuple[str, str]:
    """The texts of a figure; those of a run with other parameters say for which they were written.

    The code spans in the caption keep Markdown's signs in a value from being read as such.
    """
    changed = paths.run_context().get("changed") or {}
    if not changed:
        return alt, caption
    values = [f"`{name} = {_cut(repr(value))}`" for name, value in changed.items()]
    if len(values) > _MOST_NAMED:
        values[_MOST_NAMED:] = [f"and {len(values) - _MOST_NAMED} more"]
    return (f"{alt} (Written for the default run.)",
            f"{caption} (Written for the default run; this one has {', '.join(values)}.)")


_MOST_NAMED = 4     # changed parameters, in a caption


def _cut(text: str) -> str:
    text = text.replace("`", "'")
    return text if len(text) <= 40 else f"{text[:39]}…"


def save(figure: Figure, folder: Path, name: str, alt: str, caption: str) -> None:
    """Write a figure as ``name.png`` and ``name.svg``, and enter it into the folder's list.

    Parameters
    ----------
    figure, name, alt, caption
        As for `show`.
    folder : Path
        Is made if it is not there.

    Raises
    ------
    InputError
        If the folder can't be written.
    """
    _write_files(folder, {name: figure}, name=name, alt=alt, caption=caption)


def _write_files(folder: Path, figures: Mapping[str, Figure], **about: Any) -> None:
    alt = about["alt"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with book_style():
            for name, figure in figures.items():
                figure.savefig(folder / f"{name}.png", dpi=200, metadata={"Description": alt})
                figure.savefig(folder / f"{name}.svg", metadata={"Title": name, "Date": None,
                                                                 "Description": alt})
        _enter(folder / LIST, about)
    except OSError as error:
        raise InputError(f"figures can't be written to {folder}: {error.strerror}") from None


def _enter(path: Path, about: dict[str, Any]) -> None:
    """Put a figure into the list: behind the others, or in its place if it is there already."""
    entries = {entry["name"]: entry for entry in listed(path.parent)}
    entries[about["name"]] = about
    draft = path.with_name(f".{path.name}")
    draft.write_text(json.dumps(list(entries.values()), ensure_ascii=False, indent=1) + "\n",
                     encoding="utf-8")
    os.replace(draft, path)


def listed(folder: Path) -> list[dict]:
    """The figures whose files a run left in a folder, in the order in which it drew them.

    Returns
    -------
    list of dict
        Each with ``name``, ``alt``, ``caption`` and, of a figure in steps, the titles of its
        ``steps``; empty where no run left any.
    """
    path = folder / LIST
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    with book_style():
        figure.savefig(buffer, format="png", dpi=SCREEN_DPI)
    return buffer.getvalue()


def _width(figure: Figure) -> int:
    return round(figure.get_size_inches()[0] * SCREEN_DPI / 2)


def _display(shown: Shown) -> None:
    from IPython.display import Markdown, display

    display(shown)
    display(Markdown(f"*{shown.caption}*"), metadata={"clusterbook": {"caption_of": shown.name}})


def _smaller(png: bytes) -> bytes:
    """The picture with 256 colors: dozens of them go into one page."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256).save(buffer, "PNG", optimize=True)
    return min(png, buffer.getvalue(), key=len)


_STEPPER = """<figure class="cb-steps" data-pause="{pause}">
<style>
.cb-steps {{ margin: 0; }}
.cb-steps img {{ max-width: 100%; height: auto; }}
.cb-steps img[hidden] {{ display: none !important; }}
.cb-steps-bar {{ display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; }}
.cb-steps-bar button {{ min-width: 2.75rem; min-height: 2.75rem; font: inherit; cursor: pointer; }}
.cb-steps-bar input {{ flex: 1 1 8rem; min-height: 2.75rem; }}
.cb-steps-bar output {{ flex: 1 1 100%; min-height: 3em; }}
</style>
{pictures}
<div class="cb-steps-bar" role="group" aria-label="Steps of the figure">
<button type="button" aria-label="Previous step">&#8249;</button>
<input type="range" min="1" max="{n}" value="1" step="1" aria-label="Step">
<button type="button" aria-label="Next step">&#8250;</button>
<button type="button" aria-label="Play">&#9654;</button>
<output aria-live="polite">1 of {n}: {first}</output>
</div>
<script>
for (const figure of document.querySelectorAll("figure.cb-steps:not([data-ready])")) {{
  figure.dataset.ready = "yes";
  const pictures = [...figure.querySelectorAll("img")], slider = figure.querySelector("input");
  const [back, next, play] = figure.querySelectorAll("button");
  const words = figure.querySelector("output");
  let at = 0, timer = null;
  const go = to => {{
    at = Math.min(Math.max(to, 0), pictures.length - 1);
    pictures.forEach((picture, i) => picture.hidden = i !== at);
    slider.value = at + 1;
    words.textContent = `${{at + 1}} of ${{pictures.length}}: ${{pictures[at].dataset.title}}`;
  }};
  const stop = () => {{
    clearInterval(timer); timer = null;
    play.innerHTML = "&#9654;"; play.setAttribute("aria-label", "Play");
  }};
  back.onclick = () => {{ stop(); go(at - 1); }};
  next.onclick = () => {{ stop(); go(at + 1); }};
  slider.oninput = () => {{ stop(); go(slider.value - 1); }};
  play.onclick = () => {{
    if (timer) {{ stop(); return; }}
    if (at === pictures.length - 1) go(0);
    play.innerHTML = "&#10073;&#10073;"; play.setAttribute("aria-label", "Pause");
    timer = setInterval(() => {{
      go(at + 1);
      if (at === pictures.length - 1) stop();
    }}, 1000 * figure.dataset.pause);
  }};
}}
</script>
</figure>"""


def _stepper(pictures: Mapping[str, bytes], width: int, alt: str, pause: float) -> str:
    """The pictures as a figure with a slider and buttons, all in one piece of HTML."""
    images = []
    for i, (title, png) in enumerate(pictures.items(), start=1):
        told = f"{alt} Step {i} of {len(pictures)}: {title}."
        images.append(f'<img width="{width}" alt="{html.escape(told)}" '
                      f'data-title="{html.escape(title)}"{"" if i == 1 else " hidden"} '
                      f'src="data:image/png;base64,{base64.b64encode(png).decode()}">')
    return _STEPPER.format(pause=pause, pictures="\n".join(images), n=len(pictures),
                           first=html.escape(next(iter(pictures))))
