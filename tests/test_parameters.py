"""Parameters and profiles: valid input is read, invalid input is refused before a run."""

from __future__ import annotations

import re
import shlex

import pytest
import yaml
from _support import Book

from bookledger import config, parameters
from bookledger.parameters import Parameter, from_text, parse
from clusterbook import paths
from clusterbook.errors import InputError

CHAPTERS = config.chapters()
CELL = '''\
# A comment of its own says nothing about a parameter.
epochs: int = 40  # passes over
#   the data | paper: 5
#   | more: slower
learning_rate: float = 1e-1  # step length | paper: 1e-3 | too large: diverges

method: str = "jöint #1"  # which decomposition | paper: — | another clustering
ablate: bool = False  # also run the ablations | paper: yes | minutes longer
seeds: list[int] = [0, 1, 2]  # one run each | paper: none | a wider spread
rates: list[float] = [0.5, 1]  # compared | paper: 0.5 | more lines
names: list[str] = []  # shown | paper: all | —
many: list[int] = [
    1,
    2,
]  # over several lines | paper: 3 | nothing
rate: float = 1.0  # @param {"type":"number"}
#   how fast | paper: 2 | faster
kind: str = "a"  # @param ["b", "a"] {"allow-input":true}
#   of it | paper: b | other
'''
DEFAULTS = {"epochs": 40, "learning_rate": 0.1, "method": "jöint #1", "ablate": False,
            "seeds": [0, 1, 2], "rates": [0.5, 1.0], "names": [], "many": [1, 2],
            "rate": 1.0, "kind": "a"}
EPOCHS = "epochs: int = 40  # passes over the data | paper: 5 | slower"
PROFILE = {"chapter": "weights", "says": "reruns the original", "parameters": {"epochs": 5}}


def line(kind: str, default: str) -> str:
    return f"x: {kind} = {default}  # meaning | paper: 1 | effect"


def test_a_cell_is_read_in_its_order_types_and_words():
    found = parse(CELL)
    # The texts tell 1 from 1.0 and True, also inside lists.
    assert repr({name: one.default for name, one in found.items()}) == repr(DEFAULTS)
    assert found["learning_rate"] == Parameter(
        "learning_rate", "float", 0.1, "step length", "1e-3", "too large: diverges")
    assert (found["epochs"].meaning, found["epochs"].effect) == (
        "passes over the data", "more: slower")
    assert found["method"].meaning == "which decomposition"
    assert found["many"].meaning == "over several lines"
    assert found["kind"] == Parameter("kind", "str", "a", "of it", "b", "other", ("b", "a"))


@pytest.mark.parametrize("source", [
    "x = 1  # meaning | paper: 1 | effect", "x: int  # meaning | paper: 1 | effect",
    "x.y: int = 1  # meaning | paper: 1 | effect", line("int", "open('made', 'w').write('1')"),
    "x: int = 1", "x: int = 1  # meaning | 5 | effect", "x: int = 1  # meaning | paper: 5 |",
    "x: int = 1  # meaning | paper: 5 | effect | more", line("complex", "1j"), line("list", "[]"),
    line("int", "1.5"), line("int", "True"), line("int", str(2**63)), line("bool", "1"),
    'x: str = "c"  # @param ["c" "d"] m | paper: 1 | e',
    line("float", "'1e-3'"), line("float", "1e999"), line("list[int]", "[1, 2.5]"), EPOCHS])
def test_a_mistake_in_the_cell_is_refused_with_its_line(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^line 3: expected 'name: type = literal"):
        parse(f"{EPOCHS}\n\n{source}")
    assert not list(tmp_path.iterdir()), "the cell was executed"


@pytest.mark.parametrize(("kind", "text", "expected"), [
    ("int", "-3", -3), ("float", "1e-3", 0.001), ("float", "2", 2.0), ("bool", "true", True),
    ("bool", "False", False), ("str", "12", "12"), ("str", "0-4", "0-4"),
    ("list[int]", "[1, 2]", [1, 2]), ("list[int]", "", []), ("list[int]", "[]", []),
    ("list[int]", "[0-2, 7,9-10]", [0, 1, 2, 7, 9, 10]), ("list[int]", "-1,-2", [-1, -2]),
    ("list[int]", ["0-1", "5"], [0, 1, 5]), ("list[float]", "0.1,1e-3,2", [0.1, 0.001, 2.0]),
    ("list[str]", "1, b", ["1", "b"]), ("list[str]", "['a', 'b']", ["a", "b"]),
    ("list[str]", ["a,b", "0-2"], ["a,b", "0-2"])])
def test_a_typed_text_is_converted(kind, text, expected):
    assert repr(from_text(Parameter("x", kind, None, "", "", ""), text)) == repr(expected)


@pytest.mark.parametrize(("kind", "text"), [
    ("int", "1e3"), ("int", "1.5"), ("int", "true"), ("int", "0-4"), ("int", ""), ("int", ["1"]),
    ("int", str(2**63)), ("int", "__import__('os').getpid()"), ("float", "0,1"), ("float", "nan"),
    ("float", "1e999"), ("bool", "yes"), ("str", ["a"]), ("list[int]", "1,two"),
    ("list[int]", [["1"]])])
def test_a_typed_text_of_another_type_is_refused(kind, text):
    with pytest.raises(InputError) as error:
        from_text(Parameter("x", kind, 7, "", "", ""), text)
    assert str(error.value) == f"x takes {kind}, for example 7, not {text!r}"


@pytest.fixture
def weights(book: Book) -> Book:
    book.notebook("weights", parameters=CELL)
    return book


def write(book: Book, name: str, content) -> None:
    text = content if isinstance(content, str) else yaml.safe_dump(content)
    book.write(f"notebooks/profiles/{name}.yaml", text)


def test_typed_values_win_over_the_profile_and_the_profile_over_defaults(weights: Book):
    write(weights, "weights-paper", "chapter: weights\nsays: reruns the original\n"
          "parameters: {epochs: 5, learning_rate: 1e-3}\nassumed: {rates: [1e-3, 1]}\n")
    weights.notebook("idc", parameters=CELL)
    write(weights, "idc-paper", {**PROFILE, "chapter": "idc"})
    chapter = parameters.read("weights")
    assert chapter.values() == DEFAULTS and list(chapter.profiles()) == ["weights-paper"]
    profile = chapter.profile("weights-paper")
    wanted = {**DEFAULTS, "epochs": 5, "learning_rate": 0.001, "rates": [0.001, 1.0]}
    assert repr(chapter.values(profile)) == repr(wanted)
    typed = chapter.values(profile, {"epochs": "7", "seeds": "0-1"})
    assert repr(typed) == repr({**wanted, "epochs": 7, "seeds": [0, 1]})
    with pytest.raises(InputError, match="no profile of weights 'idc-paper'"):
        chapter.profile("idc-paper")


@pytest.mark.parametrize(("change", "says"), [
    ({"assumed": {"metod": "a"}}, "no parameter .*'metod'; did you mean 'method'"),
    ({"parameters": {"epochs": 1.5}}, "epochs takes int.*not '1.5'"),
    ({"parameters": {"epochs": {"a": 1}}}, "epochs takes int.*not {'a': '1'}"),
    ({"assumed": {"epochs": 5}}, "epochs stands under both"),
    ({"paramters": {}}, "paramters: "), ({"says": ""}, "says: "),
    ({"parameters": ["epochs"]}, "parameters: "),
    ({"chapter": "idc"}, "its chapter is 'idc', but its name begins with weights-"),
    ("- weights", "'list' object is not a mapping"),
    ("chapter: weights\nsays: a", "parameters: .*required")])
def test_an_invalid_profile_is_refused(weights: Book, change, says):
    write(weights, "weights-x", change if isinstance(change, str) else {**PROFILE, **change})
    with pytest.raises(InputError, match=rf"^profiles/weights-x\.yaml: .*{says}"):
        parameters.read("weights").profiles()


@pytest.mark.parametrize("name", CHAPTERS)
def test_each_command_sets_its_parameter_to_another_value(name):
    known, table = parameters.read(name).parameters, parameters.parameter_table(name)
    assert [row[0] for row in table.rows] == list(known)
    for row in table.rows:
        *command, one, text, figures, out = shlex.split(row[2])
        assert [*command, one, figures, out] == ["clusterbook", "run", name, "-p", row[0],
                                                 "--figures", "out"]
        assert from_text(known[one], text) != known[one].default
        # bash, zsh and PowerShell read it alike: quoted unless it is a plain word.
        assert row[2].split(" -p ")[1].split(" ", 1)[1].removesuffix(" --figures out") == (
            text if re.fullmatch(r"[\w./+-]+", text) else f'"{text}"')
        assert not set(text) & set("'\"$`!")


@pytest.mark.parametrize(("source", "value"), [
    ("x: bool = True  # m | paper: 1 | less", "False"), ("x: int = 8  # m | paper: 1 | fewer", "4"),
    ("x: float = 0.8  # m | paper: 1 | more", "0.9"), ("x: float = 0.9  # m | paper: 1 | 0 leaves "
     "it out", "0.0"), ("epochs: int = 40  # m | paper: 5 | more: slower", "50"),
    ("x: int = 0  # m | paper: its code 30 | 0: by size", "30"),
    ("seeds: list[int] = []  # m | paper: 1 | e", "1"),
    ("x: list[int] = [8, 8, 2]  # m | paper: 1 | e", '"4,4,2"'),
    ("x: list[float] = [0.8, 1]  # m | paper: 1 | e", '"0.4,1.0"'),
    ("x: list[str] = ['a']  # m | paper: 1 | e", '"[]"'),
    ("x: list[str] = []  # what: plain, l1 | paper: 1 | e", "plain"),
    ('x: str = "cnn"  # @param ["cnn", "fcn", "none"] kind | paper: 1 | e', "fcn"),
    ("x: str = ''  # m | paper: none | empty: none", "my_x")])
def test_the_value_that_is_worth_trying(source, value):
    assert parameters.typed(parameters.worth_trying(*parse(source).values())) == value


def test_the_page_shows_every_chapter():
    page = (paths.root() / "book" / "parameters.md").read_text(encoding="utf-8")
    profiles = set()
    for name in CHAPTERS:
        assert f"{{view}} parameters {name}\n" in page
        assert (f"{{view}} profiles {name}\n" in page) == bool(parameters.read(name).profiles())
        profiles |= parameters.read(name).profiles().keys()
    files = (paths.root() / "notebooks" / "profiles").glob("*.yaml")
    assert {path.stem for path in files} == profiles, "each belongs to a chapter"
    assert "MiB" in {row[0]: row for row in parameters.profile_table("weights").rows}[
        "weights-mnist"][2], "the cost in its records"


def test_a_table_is_escaped(book: Book):
    book.notebook("tiny", parameters='name: str = "<a> b"  # what & why | paper: <none> | nothing')
    table = parameters.parameter_table("tiny")
    page = table._repr_html_()
    assert "&lt;none&gt;" in page and "<none>" not in page and "<span>--figures</span>" in page
    assert table.rows[0][2] == "clusterbook run tiny -p name my_name --figures out"
    assert str(table).startswith("name\n    Default: '<a> b'\n")


def test_the_command_of_a_figure_changes_what_may_change_alone():
    chapter = parameters.read("weights")
    assert chapter.parameter("layer").effect.startswith("must lie between")
    commands = [chapter.command(figure) for figure in chapter.figures().values()]
    assert not any(" -p layer " in one for one in commands)
    assert sum(" -p " in one for one in commands) >= 4
    tell = parameters.read("tell")      # online_start reaches no other figure, and changes nothing
    assert " -p ablations " in tell.command(tell.figures()["ablations"])
