"""Parameters and profiles: valid input is read, invalid input is refused before a run."""

from __future__ import annotations

import re
import shlex

import pytest
from _support import Book

from bookledger import cli, config, parameters, runs
from bookledger.parameters import Parameter, from_text, parse
from bookledger.views import plain
from clusterbook import paths
from clusterbook.checks import InputError

CHAPTERS = config.chapters()
CELL = '''\
# A comment of its own says nothing about a parameter.
epochs: int = 40  # passes over
#   the data | paper: 5
#   | more: slower | try: 50
learning_rate: float = 1e-1  # step length | paper: 1e-3 | too large: diverges

method: str = "jöint"  # which decomposition | paper: — | another clustering
ablate: bool = False  # also run the ablations | paper: yes | minutes longer
seeds: list[int] = [0, 1, 2]  # one run each | paper: none | a wider spread | try: []
rates: list[float] = [0.5, 1]  # compared | paper: 0.5 | more lines
names: list[str] = []  # shown | paper: all | —
rate: float = 1.0  # @param {"type":"number"}
#   how fast, rate = 1 | paper: 2 | faster
kind: str = "a"  # @param ["b", "a"] {"allow-input":true}
#   of it | paper: b | other
'''
DEFAULTS = {"epochs": 40, "learning_rate": 0.1, "method": "jöint", "ablate": False,
            "seeds": [0, 1, 2], "rates": [0.5, 1.0], "names": [], "rate": 1.0, "kind": "a"}
EPOCHS = "epochs: int = 40  # passes over the data | paper: 5 | slower"
MEANS = "  # meaning | paper: 1 | effect"


def test_a_cell_is_read_in_its_order_types_and_words():
    found = parse(CELL)
    # The texts tell 1 from 1.0 and True, also inside lists.
    assert repr({name: one.default for name, one in found.items()}) == repr(DEFAULTS)
    assert found["epochs"] == Parameter(
        "epochs", "int", 40, "passes over the data", "5", "more: slower", 50)
    assert found["learning_rate"] == Parameter(
        "learning_rate", "float", 0.1, "step length", "1e-3", "too large: diverges")
    assert found["rate"].meaning == "how fast, rate = 1" and found["seeds"].other == []
    assert found["kind"] == Parameter("kind", "str", "a", "of it", "b", "other")
    (one,) = parse('x: str = "a"  # @param ["b", "a"]\n#   of it | paper: b | other').values()
    assert one.choices == ("b", "a") and from_text(one, "b") == "b"
    with pytest.raises(InputError, match="unknown x: 'c'"):
        from_text(one, "c")
    (one,) = parse('xs: list[str] = []  # of it: also: one, two_b | paper: b | other').values()
    assert one.choices == ("one", "two_b") and from_text(one, "two_b,one") == ["two_b", "one"]
    with pytest.raises(InputError, match="unknown x: 'two'; did you mean 'two_b'"):
        from_text(one, "one,two")


MISTAKES = [
    f"x = 1{MEANS}", f"x: int{MEANS}", f"x.y: int = 1{MEANS}", f" x: int = 1{MEANS}",
    f"x: int = open('made', 'w').write('1'){MEANS}", f"x: int = 1; open('made', 'w'){MEANS}",
    "import os", "%time x = 1", "x: int = 1", "x: int = 1  # meaning | 5 | effect",
    "x: int = 1  # meaning | paper: 5 |", "x: int = 1  # meaning | paper: 5 | effect | more",
    f"x: complex = 1j{MEANS}", f"x: list = []{MEANS}", f"x: int = 1.5{MEANS}",
    f"x: int = True{MEANS}", f"x: int = {2**63}{MEANS}", f"x: float = 1e999{MEANS}",
    f"x: list[int] = [\n    1]{MEANS}", f"x: int = {'-' * 10_000}1{MEANS}", EPOCHS,
    f"x: int = 1{MEANS} | try: 1", f"x: int = 1{MEANS} | try: one", f"x: int = 1{MEANS} | try:"]


def test_a_mistake_in_the_cell_is_refused_with_its_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for source in MISTAKES:
        with pytest.raises(InputError, match=r"^line 3: expected 'name: type = literal"):
            parse(f"{EPOCHS}\n\n{source}")
    assert not list(tmp_path.iterdir()), "the cell was executed"


#: The type, what is typed, and its value; None where it is refused.
TYPED = [
    ("int", "-3", -3), ("int", "010", 10), ("float", "1e-3", 0.001), ("float", "2", 2.0),
    ("bool", "true", True), ("bool", "False", False), ("str", "12", "12"), ("str", "0-4", "0-4"),
    ("list[int]", "[1, 2]", [1, 2]), ("list[int]", "", []), ("list[int]", "[]", []),
    ("list[int]", "[0-2, 7,9-10]", [0, 1, 2, 7, 9, 10]), ("list[int]", "-1,-2", [-1, -2]),
    ("list[float]", "0.1,1e-3,2", [0.1, 0.001, 2.0]), ("list[str]", "1, b", ["1", "b"]),
    ("list[str]", "['a', 'b']", ["a", "b"]),
    *[("int", text, None) for text in ("1e3", "1.5", "true", "0-4", "", str(2**63),
                                       "__import__('os').getpid()")],
    *[("float", text, None) for text in ("0,1", "nan", "1e999")],
    ("bool", "yes", None), ("list[int]", "1,two", None)]


def test_what_is_typed_is_converted_or_refused():
    for kind, text, value in TYPED:
        parameter = Parameter("x", kind, 7, "", "", "")
        if value is not None:
            assert repr(from_text(parameter, text)) == repr(value), (kind, text)
        else:
            with pytest.raises(InputError) as error:
                from_text(parameter, text)
            assert str(error.value) == f"x takes {kind}, for example 7, not {text!r}"


def test_typed_values_win_over_the_profile_and_the_profile_over_defaults(book: Book):
    book.notebook("weights", parameters=CELL)
    book.write("notebooks/profiles/weights-paper.toml", (
        "says = 'reruns the original'\nseeds = [0, 1]\n[parameters]\nepochs = 5\n"
        "learning_rate = 1e-3\n[assumed]\nrates = [1e-3, 1]\n"))
    book.notebook("idc", parameters=CELL)
    book.profile("idc-paper", epochs=5)
    chapter = parameters.read("weights")
    assert chapter.values() == DEFAULTS and list(chapter.profiles()) == ["weights-paper"]
    profile = chapter.profile("weights-paper")
    assert (profile.says, profile.seeds) == ("reruns the original", (0, 1))
    wanted = {**DEFAULTS, "epochs": 5, "learning_rate": 0.001, "rates": [0.001, 1.0]}
    assert repr(chapter.values(profile)) == repr(wanted)
    typed = chapter.values(profile, {"epochs": "7", "seeds": "0-1"})
    assert repr(typed) == repr({**wanted, "epochs": 7, "seeds": [0, 1]})
    with pytest.raises(InputError, match="unknown profile of weights: 'idc-paper'"):
        chapter.profile("idc-paper")


@pytest.mark.parametrize("name", CHAPTERS)
def test_what_to_type_is_shown_where_there_is_a_value_to_try(name, monkeypatch):
    chapter, table = parameters.read(name), parameters.parameter_table(name)
    drawn = chapter.figures()
    monkeypatch.setattr(parameters.Chapter, "figures", lambda _: drawn)     # once, not each time
    known = chapter.parameters
    assert [(row[0], bool(row[4])) for row in table.rows] == [
        (one.name, one.other is not None) for one in known.values()]
    commands = [f"clusterbook run {name} {row[4]} --figures out" for row in table.rows if row[4]]
    commands += [row[2] for row in parameters.figure_table(name).rows]
    for command in filter(None, commands):
        options = cli._parser().parse_args(shlex.split(command)[1:])
        chapter.values(None, dict(options.overrides))
        runs._alone(chapter, options.only, [one for one, _ in options.overrides])
    changes = [command.removesuffix(" --figures out").split(" -p ")[1:] for command in commands]
    assert len([*filter(None, changes)]) >= 2
    for one, *beside in (change for change in changes if change):
        (one, text), typed = shlex.split(one), one.split(" ", 1)[1]
        assert from_text(known[one], text) == known[one].other != known[one].default
        for other, value in map(shlex.split, beside):
            assert (other,) == known[one].beside[:1]
            assert from_text(known[other], value) != known[other].default
        # bash, zsh and PowerShell read it alike: quoted unless it is a plain word.
        assert typed == (text if re.fullmatch(r"[\w./+-]+", text) else f'"{text}"')
        assert not set(text) & set("'\"$`!")


def test_the_command_of_a_figure_changes_what_may_reach_it():
    weights = parameters.read("weights")
    commands = {name: weights.command(one) for name, one in weights.figures().items()}
    assert commands["effects"] == (
        'clusterbook run weights --only effects -p hidden "64,64" --figures out')
    assert " -p " not in commands["six-neurons"]
    assert weights.to_try("layer") == ' -p layer 2 -p hidden "64,64,64"', "alone, it does not fit"


def test_the_page_shows_every_chapter_in_the_order_of_the_book():
    found = re.findall(r"(?m)^## (.*)\n\n:::\{view\} parameters (\w+)$", parameters.shown())
    contents = (paths.root() / "book" / "_toc.yml").read_text(encoding="utf-8")
    assert [name for _, name in found] == re.findall(r"file: notebooks/(\w+)", contents), (
        "book/ledger.toml has another order than book/_toc.yml")
    released = ("TELL's released network (not run here)", "tell_released")
    assert {("IDC", "idc"), released} < set(found)
    tables = [part for name in CHAPTERS for part in parameters.shown(name).parts]
    profiles = [row[0] for table in tables if "profile" in table.caption for row in table.rows]
    files = (paths.root() / "notebooks" / "profiles").iterdir()
    assert len(parameters.shown("idc_table").parts) == 1, "it has no profiles"
    assert {path.name for path in files} == {f"{plain(name)}.toml" for name in profiles}
    assert "MiB" in {row[0]: row for row in parameters.profile_table("weights").rows}[
        "weights-mnist"][2], "the cost in its records"


def test_a_table_is_escaped(book: Book):
    book.notebook("tiny", parameters='name: str = "<a> b"  # what & why | paper: <none> | nothing '
                                     '| try: a b')
    table = parameters.parameter_table("tiny")
    page = table._repr_html_()
    assert "&lt;none&gt;" in page and "<none>" not in page
    assert table.rows[0][4] == '-p name "a b"'
    assert str(table).startswith("tiny: 1 parameter; to try one, add it to clusterbook run tiny "
                                 "--figures out\n\nParameter  Meaning     Default")
