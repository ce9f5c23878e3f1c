"""A chapter's parameters: what is written is read, what is wrong is refused before a run."""

from __future__ import annotations

import nbformat
import pytest
import yaml

from clusterbook import paths
from clusterbook.book import parameters
from clusterbook.book.parameters import Parameter, convert, from_text, parse
from clusterbook.errors import InputError

CELL = '''\
# A comment of its own says nothing about a parameter.
epochs: int = 40  # passes over the data | paper: 5 | more: slower
learning_rate: float = 1e-1  # step length | paper: 1e-3 | too large: diverges

method: str = "joint"  # which decomposition | paper: — | another clustering
ablate: bool = False  # also run the ablations | paper: yes | minutes longer
seeds: list[int] = [0, 1, 2]  # one run each | paper: none | a wider spread
rates: list[float] = [0.5, 1]  # compared | paper: 0.5 | more lines
names: list[str] = []  # shown | paper: all | —
limit: int | None = None  # samples | paper: None | fewer: quicker
note: str | None = "a # | b"  # free text | paper: — | nothing
many: list[int] = [
    1,
    2,
]  # over several lines | paper: 3 | nothing
'''
TYPES = {"epochs": "int", "learning_rate": "float", "method": "str", "ablate": "bool",
         "seeds": "list[int]", "rates": "list[float]", "names": "list[str]",
         "limit": "int | None", "note": "str | None", "many": "list[int]"}


def line(kind: str, default: str) -> str:
    return f"x: {kind} = {default}  # meaning | paper: 1 | effect"


def parameter(kind: str, default: str) -> Parameter:
    return parse(line(kind, default))["x"]


def same(a, b) -> bool:
    """Equal and of one type, also inside lists: 1 is not 1.0 and not True."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


# --- the cell ---------------------------------------------------------------------------------


def test_every_type_is_read():
    found = parse(CELL)
    assert {name: parameters.type_name(p.type) for name, p in found.items()} == TYPES
    assert list(found) == list(TYPES)                                     # in the cell's order
    expected = {"epochs": 40, "learning_rate": 0.1, "method": "joint", "ablate": False,
                "seeds": [0, 1, 2], "rates": [0.5, 1.0], "names": [], "limit": None,
                "note": "a # | b", "many": [1, 2]}
    for name, value in expected.items():
        assert same(found[name].default, value), name


def test_a_comment_has_three_parts():
    found = parse(CELL)["learning_rate"]
    assert (found.meaning, found.paper, found.effect) == ("step length", "1e-3",
                                                          "too large: diverges")
    assert parse(CELL)["many"].meaning == "over several lines"
    assert parse(CELL)["note"].meaning == "free text"


def test_nothing_in_the_cell_is_executed(tmp_path):
    target = tmp_path / "made"
    with pytest.raises(InputError, match="must be a literal"):
        parse(line("int", f"open({str(target)!r}, 'w').write('1')"))
    assert not target.exists()


@pytest.mark.parametrize(("source", "says"), [
    ("x = 1  # meaning | paper: 1 | effect", "expected 'name: type = literal"),
    ("import os", "expected 'name: type = literal"),
    ("x: int  # meaning | paper: 1 | effect", "expected 'name: type = literal"),
    ("x.y: int = 1  # meaning | paper: 1 | effect", "expected 'name: type = literal"),
    (line("int", "2 * 3"), "x must be a literal, not something derived"),
    (line("int", "epochs"), "x must be a literal"),
    (line("list[int]", "{[]: 1}"), "x must be a literal"),
    ("x: int = 1", "x needs a comment"),
    ("x: int = 1  # meaning", "x needs a comment"),
    ("x: int = 1  # meaning | 5 | effect", "x needs a comment"),
    ("x: int = 1  # meaning | paper: 5 |", "x needs a comment"),
    ("x: int = 1  # meaning | paper: 5 | effect | more", "x needs a comment"),
    ("epochs: int = 1  # meaning | paper: 5 | effect", "epochs stands twice"),
    (line("complex", "1j"), "'complex' is not one of int, float"),
    (line("list", "[]"), "'list' is not one of"),
    (line("dict[str, int]", "{}"), "is not one of"),
    (line("'int'", "1"), "is not one of"),
    (line("int", "1.5"), "x is to be int, but its default 1.5 is a number"),
    (line("int", "True"), "its default True is a truth value"),
    (line("int", "None"), "its default None is None"),
    (line("bool", "1"), "its default 1 is a whole number"),
    (line("str", "1"), "its default 1 is a whole number"),
    (line("float", "'1e-3'"), "its default '1e-3' is a text"),           # the notebook would run so
    (line("float", "1e999"), "its default inf is a number"),
    (line("list[int]", "(1, 2)"), r"its default \(1, 2\) is tuple"),
    (line("list[int]", "[1, 2.5]"), r"its default \[1, 2.5\] is a list"),
    ("x: int = = 1", "not Python"),
    ("x: int = (1", "not Python"),
    ("  x: int = 1", "not Python"),
])
def test_what_is_wrong_in_the_cell_is_said_with_its_line(source, says):
    epochs = "epochs: int = 40  # passes over the data | paper: 5 | slower\n\n"
    with pytest.raises(InputError, match=rf"^line 3: .*{says}"):
        parse(epochs + source)


# --- a value's type ---------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "default", "value", "expected"), [
    ("float", "0.1", "1e-3", 0.001),             # YAML 1.1 has it as a text
    ("float", "0.1", 1, 1.0),
    ("float", "0.1", 0.5, 0.5),
    ("int", "1", 7, 7),
    ("bool", "False", True, True),
    ("str", "''", "1e-3", "1e-3"),
    ("list[float]", "[]", ["1e-3", 2], [0.001, 2.0]),
    ("list[int]", "[]", (1, 2), [1, 2]),
    ("int | None", "None", None, None),
    ("int | None", "None", 3, 3),
    ("float | None", "None", "1e-3", 0.001),
    ("list[int] | None", "None", [1], [1]),
])
def test_a_value_becomes_its_parameters_type(kind, default, value, expected):
    assert same(convert(parameter(kind, default), value), expected)


@pytest.mark.parametrize(("kind", "default", "value", "says"), [
    ("int", "3", 1.5, "x takes int, for example 3; 1.5 is a number"),
    ("int", "3", 2.0, "2.0 is a number"),
    ("int", "3", True, "True is a truth value"),
    ("int", "3", "3", "'3' is a text"),
    ("int", "3", None, "None is None"),
    ("float", "0.1", True, "True is a truth value"),
    ("float", "0.1", "fast", "x takes float, for example 0.1; 'fast' is a text"),
    ("float", "0.1", "nan", "'nan' is a text"),
    ("float", "0.1", float("nan"), "nan is a number"),
    ("float", "0.1", float("inf"), "inf is a number"),
    ("float", "0.1", [0.1], "is a list"),
    ("bool", "True", 1, "1 is a whole number"),
    ("bool", "True", "yes", "'yes' is a text"),
    ("str", "'a'", 1, "1 is a whole number"),
    ("list[int]", "[0]", 3, r"x takes list\[int\], for example \[0\]; 3 is a whole number"),
    ("list[int]", "[0]", [1, 2.5], "is a list"),
    ("list[int]", "[0]", "0", "is a text"),
    ("int | None", "None", 2.5, r"x takes int \| None"),
])
def test_nothing_else_is_bent(kind, default, value, says):
    with pytest.raises(InputError, match=says):
        convert(parameter(kind, default), value)


# --- what somebody types ----------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "default", "text", "expected"), [
    ("int", "1", "12", 12),
    ("int", "1", "-3", -3),
    ("float", "0.1", "1e-3", 0.001),
    ("float", "0.1", "2", 2.0),
    ("bool", "False", "true", True),
    ("bool", "True", "False", False),
    ("str", "''", "joint", "joint"),
    ("str", "''", "12", "12"),
    ("str", "''", "true", "true"),
    ("str", "''", "none", "none"),
    ("str", "''", "'quoted'", "quoted"),
    ("str", "''", "0-4", "0-4"),
    ("list[int]", "[]", "[1, 2]", [1, 2]),
    ("list[int]", "[]", "1,2", [1, 2]),
    ("list[int]", "[]", "5", [5]),
    ("list[int]", "[]", "[]", []),
    ("list[int]", "[]", "", []),
    ("list[int]", "[]", "0-4", [0, 1, 2, 3, 4]),
    ("list[int]", "[]", "3-3", [3]),
    ("list[int]", "[]", "0-2, 7,9-10", [0, 1, 2, 7, 9, 10]),
    ("list[int]", "[]", "[0-2, 7]", [0, 1, 2, 7]),
    ("list[int]", "[]", "-1,-2", [-1, -2]),
    ("list[float]", "[]", "0.1,1e-3,2", [0.1, 0.001, 2.0]),
    ("list[str]", "[]", "a, b", ["a", "b"]),
    ("list[str]", "[]", "1,2", ["1", "2"]),
    ("list[str]", "[]", "['a', 'b,c']", ["a", "b,c"]),
    ("list[str]", "[]", "0-2", ["0-2"]),
    ("int | None", "None", "none", None),
    ("int | None", "None", "null", None),
    ("int | None", "1", "None", None),
    ("int | None", "None", "4", 4),
    ("str | None", "None", "none", None),
    ("str | None", "None", "12", "12"),
    ("list[int] | None", "None", "0-2", [0, 1, 2]),
    ("list[int] | None", "None", "none", None),
])
def test_a_typed_text_becomes_its_parameters_type(kind, default, text, expected):
    assert same(from_text(parameter(kind, default), text), expected)


@pytest.mark.parametrize(("kind", "default", "text", "says"), [
    ("int", "3", "1.5", "x takes int, for example 3; 1.5 is a number"),
    ("int", "3", "1e3", "is a number"),
    ("int", "3", "ten", "'ten' is a text"),
    ("int", "3", "true", "True is a truth value"),
    ("int", "3", "0-4", "'0-4' is a text"),
    ("int", "3", "", "'' is a text"),
    ("float", "0.1", "0,1", "x takes float"),
    ("float", "0.1", "nan", "'nan' is a text"),
    ("bool", "True", "1", "1 is a whole number"),
    ("bool", "True", "yes", "'yes' is a text"),
    ("list[int]", "[0]", "1,two", r"x takes list\[int\]"),
    ("list[int]", "[0]", "1.5", "1.5 is a number"),
    ("list[int]", "[0]", "4-0", "the range '4-0' runs backwards"),
    ("list[int] | None", "None", "4-0", "the range '4-0' runs backwards"),
    ("int | None", "None", "often", r"x takes int \| None"),
    ("int", "3", "__import__('os').getpid()", "is a text"),
])
def test_a_typed_text_of_another_type_is_refused(kind, default, text, says):
    with pytest.raises(InputError, match=says):
        from_text(parameter(kind, default), text)


@pytest.mark.parametrize(("text", "expected"), [
    ("2-4", ["2", "3", "4"]), ("7", ["7"]), ("-3", ["-3"]), ("a-b", ["a-b"]), ("1-", ["1-"]),
])
def test_a_range_of_seeds(text, expected):
    assert parameters.seed_range(text) == expected


# --- chapters and profiles, on a small book of their own ----------------------------------------


class Book:
    """A root folder with chapters and profiles."""

    def __init__(self, folder):
        self.notebooks = folder / "notebooks"
        (self.notebooks / "profiles").mkdir(parents=True)

    def chapter(self, name: str, source: str = CELL, tags=("parameters",)) -> None:
        cells = [nbformat.v4.new_markdown_cell("# Title"),
                 nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)}),
                 nbformat.v4.new_code_cell("epochs = 'no parameter'")]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), self.notebooks / f"{name}.ipynb")

    def profile(self, name: str, content) -> None:
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        (self.notebooks / "profiles" / f"{name}.yaml").write_text(text, encoding="utf-8")


@pytest.fixture
def book(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    parameters.cached_read.cache_clear()                  # it remembers the chapters of other roots
    made = Book(tmp_path)
    made.chapter("weights")
    yield made
    parameters.cached_read.cache_clear()


PROFILE = {"chapter": "weights", "says": "reruns the original", "parameters": {"epochs": 5}}


def test_a_chapter_is_read(book):
    assert list(parameters.read("weights")) == list(TYPES)
    assert parameters.notebook_path("weights").is_file()


@pytest.mark.parametrize("chapter", ["weigths", "../weights", ""])
def test_an_unknown_chapter_is_refused(book, chapter):
    for ask in (parameters.read, parameters.notebook_path, parameters.resolve):
        with pytest.raises(InputError, match="there is no chapter .*Known: weights"):
            ask(chapter)
    with pytest.raises(InputError, match="did you mean 'weights'"):
        parameters.read("weigths")


def test_an_error_in_a_cell_names_the_notebook(book):
    book.chapter("idc", "x: int = 1.5  # meaning | paper: 1 | effect")
    with pytest.raises(InputError, match=r"^idc\.ipynb, parameters cell: line 1: x is to be int"):
        parameters.read("idc")
    book.chapter("tell", tags=())
    with pytest.raises(InputError, match=r"^tell\.ipynb, parameters cell: no cell is tagged"):
        parameters.read("tell")


def test_a_profile_is_read_in_its_parameters_types(book):
    book.profile("weights-paper", "chapter: weights\nsays: reruns the original\n"
                                  "parameters: {epochs: 5, learning_rate: 1e-3, limit: null}\n"
                                  "assumed: {rates: [1e-3, 1], ablate: true}\n")
    book.profile("weights-empty", {**PROFILE, "parameters": None})
    book.chapter("idc")
    book.profile("idc-paper", {**PROFILE, "chapter": "idc"})
    assert list(parameters.profiles()) == ["idc-paper", "weights-empty", "weights-paper"]
    assert list(parameters.profiles("weights")) == ["weights-empty", "weights-paper"]
    found = parameters.profiles()["weights-paper"]
    assert (found.name, found.chapter, found.says) == ("weights-paper", "weights",
                                                       "reruns the original")
    assert same(list(found.parameters.values()), [5, 0.001, None])
    assert same(list(found.assumed.values()), [[0.001, 1.0], True])
    assert found.values == {**found.parameters, **found.assumed}


@pytest.mark.parametrize(("name", "change", "says"), [
    ("weights-x", {"parameters": {"epoch": 5}}, "no parameter 'epoch'; did you mean 'epochs'"),
    ("weights-x", {"assumed": {"metod": "a"}}, "no parameter 'metod'; did you mean 'method'"),
    ("weights-x", {"parameters": {1: 5}}, "no parameter '1'"),
    ("weights-x", {"parameters": {"epochs": 1.5}}, "epochs takes int.*1.5 is a number"),
    ("weights-x", {"parameters": {"epochs": True}}, "epochs takes int.*a truth value"),
    ("weights-x", {"parameters": {"epochs": "1e3"}}, "epochs takes int.*'1e3' is a text"),
    ("weights-x", {"assumed": {"epochs": 5}}, "epochs stands under both"),
    ("weights-x", {"paramters": {}}, "no key 'paramters'; did you mean 'parameters'"),
    ("weights-x", {"says": None}, "'says' is empty"),
    ("weights-x", {"says": ["a"]}, "'says' must be one sentence"),
    ("weights-x", {"parameters": ["epochs"]}, "'parameters' must be a mapping"),
    ("weights-x", {"assumed": "epochs"}, "'assumed' must be a mapping"),
    ("weights-x", {"chapter": "wieghts"}, "is named wieghts-"),
    ("wieghts-x", {"chapter": "wieghts"}, "no chapter 'wieghts'; did you mean 'weights'"),
    ("paper", {}, "is named weights-"),
])
def test_a_profile_that_does_not_fit_its_chapter_is_refused(book, name, change, says):
    book.profile(name, {**PROFILE, **change})
    with pytest.raises(InputError, match=rf"^profiles/{name}\.yaml: .*{says}"):
        parameters.profiles()


@pytest.mark.parametrize(("text", "says"), [
    ("chapter: [weights", "not YAML"),
    ("", "expected the keys"),
    ("- weights", "expected the keys"),
    ("chapter: weights\nsays: a", "the key 'parameters' is missing"),
    ("chapter: weights\nparameters: {}", "the key 'says' is missing"),
])
def test_a_file_that_is_no_profile_is_refused(book, text, says):
    book.profile("weights-x", text)
    with pytest.raises(InputError, match=rf"^profiles/weights-x\.yaml: .*{says}"):
        parameters.profiles()


def test_what_was_typed_wins_over_the_profile_and_the_profile_over_the_default(book):
    book.profile("weights-paper", {**PROFILE, "parameters": {"epochs": 5, "method": "dhillon"},
                                   "assumed": {"limit": 100}})
    defaults = parameters.resolve("weights")
    assert defaults == {name: p.default for name, p in parameters.read("weights").items()}
    with_profile = parameters.resolve("weights", "weights-paper")
    assert with_profile == {**defaults, "epochs": 5, "method": "dhillon", "limit": 100}
    typed = parameters.resolve("weights", "weights-paper", {"epochs": "7", "seeds": "0-1",
                                                            "limit": "none"})
    assert typed == {**with_profile, "epochs": 7, "seeds": [0, 1], "limit": None}
    assert list(typed) == list(TYPES)
    assert parameters.resolve("weights") == defaults


def test_a_wrong_profile_or_override_is_refused(book):
    book.profile("weights-mnist", PROFILE)
    book.chapter("idc")
    book.profile("idc-mnist", {**PROFILE, "chapter": "idc"})
    with pytest.raises(InputError, match="no profile of weights 'weights-mnits'; did you mean "
                                         "'weights-mnist'"):
        parameters.resolve("weights", "weights-mnits")
    with pytest.raises(InputError, match="no profile of weights 'idc-mnist'"):
        parameters.resolve("weights", "idc-mnist")
    with pytest.raises(InputError, match="no parameter of weights 'epoch'; did you mean 'epochs'"):
        parameters.resolve("weights", overrides={"epoch": "3"})
    with pytest.raises(InputError, match="epochs takes int"):
        parameters.resolve("weights", "weights-mnist", {"epochs": "1.5"})


def test_the_real_books_chapters_and_profiles_are_valid():
    # Every profile is checked against its chapter when it is read.
    assert set(p.chapter for p in parameters.profiles().values()) <= set(paths.chapters())
    for chapter in paths.chapters():
        assert parameters.resolve(chapter).keys() == parameters.read(chapter).keys()
