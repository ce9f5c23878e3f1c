"""Change a chapter's figures in a live notebook: ipywidgets over its parameters."""

from __future__ import annotations

import tempfile
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ..checks import one_of
from ..errors import InputError
from ..figures.showing import listed, stems
from .parameters import Parameter, measured, read

if TYPE_CHECKING:
    from ipywidgets import ValueWidget, VBox

QUICK = 20      # seconds that drawing a figure alone takes at most, to be offered


def explore(chapter: str, figure: str | None = None) -> VBox:
    """Widgets for the parameters of a chapter's quick figures; *Draw* runs the command shown.

    Parameters
    ----------
    chapter : str
        A chapter: ``"tell"``, ``"idc"``, ``"deepcluster"``, ``"weights"`` or ``"comparison"``.
    figure : str, optional
        Any of its figures that a parameter changes, shown first. Without one, those are offered
        that took at most 20 seconds alone where they were measured.

    Returns
    -------
    ipywidgets.VBox
        Jupyter shows it when it is the last expression of a cell.

    Raises
    ------
    InputError
        For an unknown chapter or figure, and where ipywidgets or papermill is missing.

    Examples
    --------
    >>> clusterbook.explore("tell")     # doctest: +SKIP
    """
    try:
        import ipywidgets
        import papermill  # noqa: F401
    except ImportError as error:
        raise InputError(f"explore needs {error.name}: pip install ipywidgets papermill (the extra "
                         "clusterbook[widgets])") from None
    known = read(chapter)
    changeable = {name: one for name, one in known.figures().items() if one.parameters}
    seconds = measured(chapter)
    offered = [name for name in changeable if seconds.get(name, QUICK + 1) <= QUICK]
    if figure:
        one_of(f"figure of {chapter} that a parameter changes", figure, changeable)
        offered = list(dict.fromkeys([figure, *offered]))
    if not offered:
        raise InputError(f"no figure of {chapter} is quick: name one of {', '.join(changeable)}")

    chosen = ipywidgets.Dropdown(options=offered, description="Figure")
    fields, button = ipywidgets.VBox(), ipywidgets.Button(description="Draw")
    command, says = ipywidgets.HTML(), ipywidgets.HTML()
    position = ipywidgets.SelectionSlider(options=[""], layout={"display": "none", "width": "100%"})
    picture = ipywidgets.Image(layout={"max_width": "100%", "display": "none"})
    drawn: dict[str, bytes] = {}

    def values() -> dict[str, str]:
        """What was changed, as it would be typed."""
        given = {field.description: str(field.value) for field in fields.children[::2]}
        return {name: text for name, text in given.items()
                if text != _text(known.parameters[name].default)}

    def changed(_: object = None) -> None:
        command.value = f"<code>{escape(known.command(changeable[chosen.value], values()))}</code>"

    def another(_: object = None) -> None:
        fields.children = [part for name in changeable[chosen.value].parameters
                           for part in _field(known.parameters[name])]
        for field in fields.children[::2]:
            field.observe(changed, "value")
        changed()

    def turned(_: object = None) -> None:
        picture.value = drawn[position.value]

    def draw(_: object) -> None:
        button.disabled, says.value = True, "Drawing …"
        try:
            caption, pictures = _drawn(chapter, chosen.value, values())
            drawn.update(pictures)
            position.options = [*pictures]
            position.layout.display = None if len(pictures) > 1 else "none"
            picture.layout.display, says.value = None, escape(caption)
            turned()
        except Exception as error:      # a callback's error is shown nowhere
            says.value = f"<strong>{escape(str(error))}</strong>"
        finally:
            button.disabled = False

    chosen.observe(another, "value")
    position.observe(turned, "value")
    button.on_click(draw)
    another()
    return ipywidgets.VBox([chosen, fields, command, button, position, picture, says])


def _field(parameter: Parameter) -> tuple[ValueWidget, ValueWidget]:
    """A widget for a parameter, and what the chapter says about it."""
    import ipywidgets

    if parameter.type == "bool":
        field = ipywidgets.Checkbox(value=parameter.default)
    elif parameter.choices:
        field = ipywidgets.Combobox(value=parameter.default, options=parameter.choices)
    else:
        field = ipywidgets.Text(value=_text(parameter.default))
    field.description = parameter.name
    field.style = {"description_width": "12em"}
    return field, ipywidgets.HTML(escape(
        f"{parameter.meaning} · in the paper: {parameter.paper} · if changed: {parameter.effect}"))


def _text(value: object) -> str:
    """A value as a field shows it."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _drawn(chapter: str, figure: str, changed: dict[str, str]) -> tuple[str, dict[str, bytes]]:
    """A figure's caption, and its PNG, or that of each position, drawn in a kernel of its own."""
    from .runs import run

    with tempfile.TemporaryDirectory(prefix="clusterbook-") as folder:
        run(chapter, overrides=changed, only=[figure], figures=Path(folder), formats="png")
        about, = listed(Path(folder))
        return about["caption"], {title: Path(folder, f"{file}.png").read_bytes()
                                  for title, file in stems(about).items()}
