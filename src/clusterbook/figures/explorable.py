"""A figure with sliders: pictures that were drawn beforehand, one for each position.

The pictures and a short script are in the HTML, so it works in the book, in Jupyter, on Colab and
from a file, without network and widgets. Without scripts, and in print, the middle position stands
there. A position that was not run says so: nothing is interpolated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jinja2 import Environment
from markupsafe import Markup
from matplotlib.figure import Figure

Key = str | tuple[str, ...]


class Position(NamedTuple):
    """One picture: the sliders' values as a title, their indices, and what its title adds."""

    title: str
    at: tuple[int, ...]
    note: str = ""


def positions(keys: Iterable[Key], notes: Mapping[Key, str] | None = None
              ) -> tuple[list[list[str]], list[Position]]:
    """The values of each slider, in order of appearance, and the position of each key.

    Examples
    --------
    >>> values, at = positions([("epoch 1", "k = 2"), ("epoch 9", "k = 2"), ("epoch 1", "k = 3")])
    >>> values
    [['epoch 1', 'epoch 9'], ['k = 2', 'k = 3']]
    >>> at[2]
    Position(title='epoch 1, k = 3', at=(0, 1), note='')
    """
    rows = [(key, key if isinstance(key, tuple) else (key,)) for key in keys]
    values = [list(dict.fromkeys(column)) for column in zip(*(row for _, row in rows), strict=True)]
    return values, [
        Position(", ".join(row), tuple(map(list.index, values, row)), (notes or {}).get(key, ""))
        for key, row in rows]


def titled(figure: Figure | Mapping[Key, Figure]) -> dict[str, Figure]:
    """A figure's pictures by the titles of their positions; a figure without sliders by ``""``."""
    if not isinstance(figure, Mapping):
        return {"": figure}
    return {place.title: picture
            for place, picture in zip(positions(figure)[1], figure.values(), strict=True)}


def middle(values: Sequence[Sequence[str]], places: Sequence[Position]) -> int:
    """The number of the position in the middle of every slider, or of the first one."""
    center = tuple(len(each) // 2 for each in values)
    return next((i for i, place in enumerate(places) if place.at == center), 0)


def html(values: Sequence[Sequence[str]], places: Sequence[Position], pictures: Sequence[str], *,
         start: int, names: Sequence[str] = ("Step",), pause: float = 0.6) -> str:
    """The pictures, HTML each, with a slider for each name, of which the first can be played."""
    template = Environment(trim_blocks=True, autoescape=True).from_string(_TEMPLATE)
    shown = [{"title": place.title, "note": place.note, "html": Markup(picture),
              "at": " ".join(map(str, place.at)), "hidden": i != start,
              "count": f"{i + 1} of {len(places)}: " if len(values) == 1 else ""}
             for i, (place, picture) in enumerate(zip(places, pictures, strict=True))]
    sliders: list[dict[str, Any]] = [
        {"name": name, "values": each, "at": places[start].at[i]}
        for i, (name, each) in enumerate(zip(names, values, strict=True))]
    return template.render(pause=pause, shown=shown, sliders=sliders, start=shown[start])


_TEMPLATE = """\
<div class="cb-steps" data-pause="{{ pause }}">
<style>
.cb-steps { margin: 0; }
.cb-steps img { max-width: 100%; height: auto; }
.cb-steps:not([data-ready]) .cb-steps-bar { display: none; }
.cb-steps-bar { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; }
.cb-steps-bar button { min-width: 2.75rem; min-height: 2.75rem; font: inherit; cursor: pointer; }
.cb-steps-bar label { display: flex; flex: 1 1 9rem; gap: .5rem; align-items: center; margin: 0; }
.cb-steps-bar input { flex: 1 1 4rem; min-width: 4rem; min-height: 2.75rem; }
.cb-steps-bar output { flex: 1 1 100%; min-height: 1.6em; }
</style>
{% for step in shown %}
<div class="cb-step" data-at="{{ step.at }}" data-title="{{ step.count }}{{ step.title }}" \
data-note="{{ step.note }}"{{ " hidden" if step.hidden }}>{{ step.html }}</div>
{% endfor %}
<div class="cb-steps-bar" role="group" aria-label="Positions of the figure">
<button type="button" aria-label="Previous step">&#8249;</button>
{% for slider in sliders %}
<label>{% if sliders|length > 1 %}<span>{{ slider.name }}</span>{% endif %}
<input type="range" min="0" max="{{ slider["values"]|length - 1 }}" value="{{ slider.at }}" \
step="1" aria-label="{{ slider.name }}" aria-valuetext="{{ slider["values"][slider.at] }}" \
data-values="{{ slider["values"]|tojson|forceescape }}"></label>
{% if loop.first %}
<button type="button" aria-label="Next step">&#8250;</button>
<button type="button" aria-label="Play">&#9654;</button>
{% endif %}
{% endfor %}
<output aria-live="polite">{{ start.count }}{{ start.title }}\
{{ " · " if start.note }}{{ start.note }}</output>
</div>
<script>
for (const figure of document.querySelectorAll("div.cb-steps:not([data-ready])")) {
  figure.dataset.ready = "yes";
  const steps = [...figure.querySelectorAll(".cb-step")];
  const sliders = [...figure.querySelectorAll("input")], [first] = sliders;
  const [back, next, play] = figure.querySelectorAll("button");
  const words = figure.querySelector("output");
  const value = slider => JSON.parse(slider.dataset.values)[slider.value];
  let timer = null;
  const show = () => {
    const at = sliders.map(slider => slider.value).join(" ");
    const step = steps.find(each => each.dataset.at === at);
    steps.forEach(each => each.hidden = each !== step);
    words.textContent = step ? [step.dataset.title, step.dataset.note].filter(Boolean).join(" · ")
                             : `${sliders.map(value).join(", ")}: not run`;
    sliders.forEach(slider => slider.setAttribute("aria-valuetext", value(slider)));
  };
  const go = to => { first.value = to; show(); };     // a slider's value stays between its ends
  const by = change => go(Number(first.value) + change);
  const turn = (sign, label) => { play.innerHTML = sign; play.setAttribute("aria-label", label); };
  const stop = () => { clearInterval(timer); timer = null; turn("&#9654;", "Play"); };
  back.onclick = () => { stop(); by(-1); };
  next.onclick = () => { stop(); by(1); };
  sliders.forEach(slider => slider.oninput = () => { stop(); show(); });
  play.onclick = () => {
    if (timer) { stop(); return; }
    if (first.value === first.max) go(0);
    turn("&#10073;&#10073;", "Pause");
    timer = setInterval(() => {
      by(1);
      if (first.value === first.max) stop();
    }, 1000 * figure.dataset.pause);
  };
}
</script>
</div>"""
