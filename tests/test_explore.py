"""Widgets for a chapter's figures: they draw what the command draws, and say what was wrong."""

from __future__ import annotations

import sys

import ipywidgets
import pytest
from _support import Book, inline

import clusterbook
from clusterbook.errors import InputError

PARAMETERS = """\
n: int = 3  # @param {"type":"integer"}
#   points | paper: 1 | more
shape: str = "o"  # @param ["o", "s"]
#   of the points | paper: o | other marks
filled: bool = True  # @param {"type":"boolean"}
#   whether they are filled | paper: yes | rings
rows: list[int] = [1, 2]  # @param {"type":"raw"}
#   not drawn | paper: 1 | nothing"""
DRAWS = """\
import matplotlib.pyplot as plt
from clusterbook import figures
fig, ax = plt.subplots()
ax.plot(range(n), shape if filled else shape + "-")
figures.show(fig, name="points", alt="points", caption="Points.")
figures.show({"a": fig, "b": plt.figure(figsize=(n, 1))}, name="two", alt="two", caption="Two.")
figures.show(plt.figure(), name="empty", alt="none", caption="None.")"""


@pytest.fixture
def tiny(book: Book, monkeypatch) -> Book:
    inline(monkeypatch)
    book.notebook("tiny", DRAWS, parameters=PARAMETERS)
    book.write("data/expectations/alone.json", '{"tiny": {"points": 20, "two": 2, "empty": 1}}')
    return book


def parts(box: ipywidgets.VBox) -> dict:
    chosen, fields, command, button, position, picture, says = box.children
    return {"chosen": chosen, "fields": {one.description: one for one in fields.children[::2]},
            "words": [one.value for one in fields.children[1::2]],
            "command": command, "button": button, "position": position,
            "picture": picture, "says": says}


def test_a_changed_figure_is_drawn(tiny: Book):
    found = parts(clusterbook.explore("tiny"))
    assert found["chosen"].options == ("points", "two"), "no parameter changes the third"
    assert list(found["fields"]) == ["n", "shape", "filled"]
    assert found["words"][0] == "points · in the paper: 1 · if changed: more"
    found["fields"]["n"].value = "5"
    found["fields"]["filled"].value = False
    assert found["command"].value == ("<code>clusterbook run tiny --only points -p n 5 "
                                      "-p filled False --figures out</code>")
    found["button"].click()
    assert found["says"].value.startswith("Points. (Written") and not found["button"].disabled
    first = bytes(found["picture"].value)
    assert first.startswith(b"\x89PNG")
    found["fields"]["n"].value = "50"
    found["button"].click()
    assert bytes(found["picture"].value) not in (b"", first)


def test_a_figure_with_positions_has_a_slider(tiny: Book):
    found = parts(clusterbook.explore("tiny", "two"))
    found["button"].click()
    assert found["position"].options == ("a", "b") and not found["position"].layout.display
    first = bytes(found["picture"].value)
    found["position"].value = "b"
    assert first.startswith(b"\x89PNG") and bytes(found["picture"].value) != first


def test_a_wrong_value_is_named_and_the_picture_stays(tiny: Book):
    found = parts(clusterbook.explore("tiny"))
    found["fields"]["n"].value = "<many>"
    found["button"].click()
    assert found["says"].value == ("<strong>n takes int, for example 3, not "
                                   "&#x27;&lt;many&gt;&#x27;</strong>")
    assert not found["button"].disabled and found["picture"].value == b""


def test_slow_figures_are_offered_by_name_only(tiny: Book):
    tiny.write("data/expectations/alone.json", '{"tiny": {"points": 21}}')
    with pytest.raises(InputError, match="no figure of tiny is quick: name one of points"):
        clusterbook.explore("tiny")
    assert parts(clusterbook.explore("tiny", "points"))["chosen"].value == "points"
    with pytest.raises(InputError, match="did you mean 'points'"):
        clusterbook.explore("tiny", "point")
    with pytest.raises(InputError, match="did you mean 'tiny'"):
        clusterbook.explore("tyni")


def test_what_is_missing_is_named(tiny: Book, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(InputError, match="needs ipywidgets: pip install ipywidgets papermill"):
        clusterbook.explore("tiny")
