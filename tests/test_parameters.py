"""Parameters and profiles: valid input is read, invalid input is refused before a run."""

from __future__ import annotations

import shlex

import nbformat
import pytest
import yaml
from _support import Book

from clusterbook import paths
from clusterbook.book import parameters
from clusterbook.book.parameters import Parameter, convert, from_text, parse
from clusterbook.errors import InputError

CHAPTERS = paths.chapters()
CELL = '''\
# A comment of its own says nothing about a parameter.
epochs: int = 40  # passes over
#   the data | paper: 5
#   | more: slower
learning_rate: float = 1e-1  # step length | paper: 1e-3 | too large: diverges

method: str = "joint"  # which decomposition | paper: — | another clustering
ablate: bool = False  # also run the ablations | paper: yes | minutes longer
seeds: list[int] = [0, 1, 2]  # one run each | paper: none | a wider spread
rates: list[float] = [0.5, 1]  # compared | paper: 0.5 | more lines
names: list[str] = []  # shown | paper: all | —
many: list[int] = [
    1,
    2,
]  # over several lines | paper: 3 | nothing
'''
DEFAULTS = {"epochs": 40, "learning_rate": 0.1, "method": "joint", "ablate": False,
            "seeds": [0, 1, 2], "rates": [0.5, 1.0], "names": [], "many": [1, 2]}
EPOCHS = "epochs: int = 40  # passes over the data | paper: 5 | slower"
PROFILE = {"chapter": "weights", "says": "reruns the original", "parameters": {"epochs": 5}}


def every_profile() -> dict[str, parameters.Profile]:
    return {name: profile for chapter in paths.chapters()
            for name, profile in parameters.read(chapter).profiles().items()}


def line(kind: str, default: str) -> str:
    return f"x: {kind} = {default}  # meaning | paper: 1 | effect"


def parameter(kind: str, default: str) -> Parameter:
    return parse(line(kind, default))["x"]


def same(a, b) -> bool:
    """Equal and of one type, also inside lists: 1 is not 1.0 and not True."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


# --- the cell ------------------------------------------------------------------------------------


def test_a_cell_is_read_in_its_order_types_and_words():
    found = parse(CELL)
    assert list(found) == list(DEFAULTS)
    for name, value in DEFAULTS.items():
        assert same(found[name].default, value), name
    rate = found["learning_rate"]
    assert (rate.type, rate.meaning, rate.paper, rate.effect) == (
        "float", "step length", "1e-3", "too large: diverges")
    assert found["many"].meaning == "over several lines"


@pytest.mark.parametrize("source", [
    "x = 1  # meaning | paper: 1 | effect", "x: int  # meaning | paper: 1 | effect",
    "x.y: int = 1  # meaning | paper: 1 | effect", line("int", "open('made', 'w').write('1')"),
    line("int", "2 * 3"), "x: int = 1", "x: int = 1  # meaning | 5 | effect",
    "x: int = 1  # meaning | paper: 5 |", "x: int = 1  # meaning | paper: 5 | effect | more",
    line("complex", "1j"), line("list", "[]"), line("int", "1.5"), line("int", "True"),
    line("int", "None"), line("bool", "1"), line("float", "'1e-3'"), line("float", "1e999"),
    line("list[int]", "[1, 2.5]"),
])
def test_a_mistake_in_the_cell_is_refused_with_its_line(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^line 3: expected 'name: type = literal"):
        parse(f"{EPOCHS}\n\n{source}")
    assert not list(tmp_path.iterdir()), "the cell was executed"


@pytest.mark.parametrize(("source", "says"), [
    (EPOCHS, "epochs stands twice"), ("x: int = = 1", "not Python: invalid syntax")])
def test_a_cell_that_is_not_python_or_repeats_a_name_is_refused(source, says):
    with pytest.raises(InputError, match=f"^line 2: {says}"):
        parse(f"{EPOCHS}\n{source}")


# --- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "value", "expected"), [
    ("float", 1, 1.0), ("int", 7, 7), ("bool", True, True), ("str", "1e-3", "1e-3"),
    ("list[float]", [0.5, 2], [0.5, 2.0])])
def test_a_value_is_converted_to_its_type(kind, value, expected):
    assert same(convert(Parameter("x", kind, None, "", "", ""), value), expected)


@pytest.mark.parametrize(("kind", "default", "value"), [
    ("int", "3", 1.5), ("int", "3", True), ("int", "3", "3"), ("int", "3", None),
    ("int", "3", 2**63), ("float", "0.1", True), ("float", "0.1", "fast"), ("float", "0.1", "nan"),
    ("float", "0.1", float("inf")), ("float", "0.1", 10**400), ("bool", "True", 1),
    ("str", "'a'", 1), ("list[int]", "[0]", 3), ("list[int]", "[0]", [1, 2.5]),
])
def test_a_value_of_another_type_is_refused(kind, default, value):
    with pytest.raises(InputError) as error:
        convert(parameter(kind, default), value)
    assert str(error.value).startswith(f"x takes {kind}, for example {default}, not ")
    assert repr(value)[:40] in str(error.value) and len(str(error.value)) < 120


@pytest.mark.parametrize(("kind", "text", "expected"), [
    ("int", "-3", -3), ("float", "1e-3", 0.001), ("float", "2", 2.0), ("bool", "true", True),
    ("bool", "False", False), ("str", "12", "12"), ("str", "'quoted'", "quoted"),
    ("str", "0-4", "0-4"), ("list[int]", "[1, 2]", [1, 2]), ("list[int]", "5", [5]),
    ("list[int]", "", []), ("list[int]", "0-2, 7,9-10", [0, 1, 2, 7, 9, 10]),
    ("list[int]", "[0-2, 7]", [0, 1, 2, 7]), ("list[int]", "-1,-2", [-1, -2]),
    ("list[float]", "0.1,1e-3,2", [0.1, 0.001, 2.0]), ("list[str]", "1, b", ["1", "b"]),
    ("list[str]", "['a', 'b,c']", ["a", "b,c"]), ("list[str]", "0-2", ["0-2"])])
def test_a_typed_text_is_converted(kind, text, expected):
    assert same(from_text(Parameter("x", kind, None, "", "", ""), text), expected)


@pytest.mark.parametrize(("kind", "default", "text", "says"), [
    ("int", "3", "1e3", "not 1000.0"), ("int", "3", "ten", "not 'ten'"),
    ("int", "3", "0-4", "not '0-4'"), ("int", "3", "", "not ''"),
    ("float", "0.1", "0,1", "x takes float"), ("bool", "True", "yes", "not 'yes'"),
    ("list[int]", "[0]", "1,two", r"not \[1, 'two'\]"),
    ("list[int]", "[0]", "4-0", "the range '4-0' runs backwards"),
    ("int", "3", "__import__('os').getpid()", "not .*getpid"),
])
def test_a_typed_text_of_another_type_is_refused(kind, default, text, says):
    with pytest.raises(InputError, match=says):
        from_text(parameter(kind, default), text)


# --- chapters and profiles -----------------------------------------------------------------------


@pytest.fixture
def weights(book: Book) -> Book:
    book.notebook("weights", parameters=CELL)
    return book


def write(book: Book, name: str, content) -> None:
    text = content if isinstance(content, str) else yaml.safe_dump(content)
    book.write(f"notebooks/profiles/{name}.yaml", text)


@pytest.mark.parametrize("name", ["weigths", "../weights", ""])
def test_an_unknown_chapter_is_refused(weights: Book, name):
    with pytest.raises(InputError, match="there is no chapter .*Known: weights"):
        parameters.read(name)


def test_a_mistake_in_a_notebook_names_it(book: Book):
    book.notebook("idc", parameters=line("int", "1.5"))
    with pytest.raises(InputError, match=r"^idc\.ipynb, parameters cell: line 1: expected 'name"):
        parameters.read("idc")
    book.notebook("tell", parameters=None)
    with pytest.raises(InputError, match=r"^tell\.ipynb, parameters cell: no cell is tagged"):
        parameters.read("tell")


def test_typed_values_win_over_the_profile_and_the_profile_over_defaults(weights: Book):
    write(weights, "weights-paper", "chapter: weights\nsays: reruns the original\n"
          "parameters: {epochs: 5, learning_rate: 1e-3}\nassumed: {rates: [1e-3, 1]}\n")
    weights.notebook("idc", parameters=CELL)
    write(weights, "idc-paper", {**PROFILE, "chapter": "idc"})
    chapter = parameters.read("weights")
    assert chapter.values() == DEFAULTS and list(chapter.profiles()) == ["weights-paper"]
    assert list(every_profile()) == ["idc-paper", "weights-paper"]
    profile = chapter.profile("weights-paper")
    assert same(list(profile.parameters.values()), [5, 0.001])
    wanted = {**DEFAULTS, "epochs": 5, "learning_rate": 0.001, "rates": [0.001, 1.0]}
    assert chapter.values(profile) == wanted
    typed = chapter.values(profile, {"epochs": "7", "seeds": "0-1"})
    assert typed == {**wanted, "epochs": 7, "seeds": [0, 1]} and list(typed) == list(DEFAULTS)
    assert chapter.changed(chapter.values(None, {"epochs": "40", "method": "b"})) == {"method": "b"}
    for ask, says in (
            (lambda: chapter.profile("weights-papre"), "did you mean 'weights-paper'"),
            (lambda: chapter.profile("idc-paper"), "no profile of weights 'idc-paper'"),
            (lambda: chapter.values(None, {"epoch": "3"}), "did you mean 'epochs'"),
            (lambda: chapter.values(profile, {"epochs": "1.5"}), "epochs takes int")):
        with pytest.raises(InputError, match=says):
            ask()


@pytest.mark.parametrize(("name", "change", "says"), [
    ("weights-x", {"parameters": {"epoch": 5}}, "no parameter .*'epoch'; did you mean 'epochs'"),
    ("weights-x", {"assumed": {"metod": "a"}}, "no parameter .*'metod'; did you mean 'method'"),
    ("weights-x", {"parameters": {"epochs": 1.5}}, "epochs takes int.*not 1.5"),
    ("weights-x", {"parameters": {"epochs": "1e3"}}, "epochs takes int.*not 1000.0"),
    ("weights-x", {"parameters": {"epochs": {"a": 1}}}, "epochs takes int.*not {'a': '1'}"),
    ("weights-x", {"assumed": {"epochs": 5}}, "epochs stands under both"),
    ("weights-x", {"paramters": {}}, "paramters: "),
    ("weights-x", {"says": ""}, "says: "),
    ("weights-x", {"parameters": ["epochs"]}, "parameters: "),
    ("weights-x", {"chapter": "idc"}, "its chapter is 'idc', but its name begins with weights-"),
    ("weights-x", "chapter: [weights", "not YAML"),
    ("weights-x", "- weights", "'list' object is not a mapping"),
    ("weights-x", "chapter: weights\nsays: a", "parameters: .*required"),
])
def test_an_invalid_profile_is_refused(weights: Book, name, change, says):
    write(weights, name, change if isinstance(change, str) else {**PROFILE, **change})
    with pytest.raises(InputError, match=rf"^profiles/{name}\.yaml: .*{says}"):
        every_profile()


def test_the_books_own_profiles_are_valid_and_each_belongs_to_a_chapter():
    files = (paths.root() / "notebooks" / "profiles").glob("*.yaml")
    assert set(every_profile()) == {path.stem for path in files}


# --- tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHAPTERS)
def test_each_command_sets_its_parameter_to_the_default_that_is_shown(name):
    known, table = parameters.read(name).parameters, parameters.parameter_table(name)
    assert [row[0] for row in table.rows] == list(known)
    for row in table.rows:
        *command, one, text, figures, out = shlex.split(row[table.heads.index("Command")])
        assert [*command, one, figures, out] == ["clusterbook", "run", name, "-p", row[0],
                                                 "--figures", "out"]
        assert from_text(known[one], text) == known[one].default


def test_profiles_show_the_cost_in_their_records():
    rows = {row[0]: row for name in ("weights", "deepcluster")
            for row in parameters.profile_table(name).rows}
    assert set(rows) == {name for name, profile in every_profile().items()
                         if profile.chapter in ("weights", "deepcluster")}
    assert "MiB" in rows["weights-mnist"][2]
    assert rows["deepcluster-imagenet"][2] == "not recorded"


def test_the_page_shows_every_chapter():
    page = nbformat.read(paths.root() / "book" / "parameters.ipynb", as_version=4)
    code = "\n".join(cell.source for cell in page.cells if cell.cell_type == "code")
    for name in CHAPTERS:
        assert f'parameter_table("{name}")' in code
        assert (f'profile_table("{name}")' in code) == bool(parameters.read(name).profiles())


def test_a_table_is_escaped(book: Book):
    book.notebook("tiny", parameters='name: str = "<a> b"  # what & why | paper: <none> | nothing')
    table = parameters.parameter_table("tiny")
    page = table._repr_html_()
    assert "&lt;none&gt;" in page and "<none>" not in page and "<span>--figures</span>" in page
    assert table.rows[0][2] == "clusterbook run tiny -p name '<a> b' --figures out"
    assert str(table).startswith("name\n    Default: '<a> b'\n")
