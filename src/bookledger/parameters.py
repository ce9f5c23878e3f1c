"""A chapter's parameters and profiles, read from its notebook and checked before anything runs.

The cell tagged ``parameters`` holds one literal a line::

    epochs: int = 40  # passes over the data | paper: 5 | more: higher accuracy, slower | try: 50

The last part, a value that shows what changes, may be missing; ``try: 0.9 with regimes dropout``
sets another parameter too. A long comment continues in lines that begin with ``#`` and two spaces.
One that begins with ``@param`` makes the line a field of Colab's form: ``# @param
{"type":"integer"}``, or a list of choices. What a list of texts may hold follows a colon in its
meaning: ``curves to draw: loss, accuracy``. Papermill reads the lines and executes none. It ignores
a line that it can't read, only logs an unknown name and takes a value of any type; here each of
these is an error before the first cell runs.
"""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import nbformat
from markupsafe import Markup
from pydantic import ConfigDict, Field, Strict, TypeAdapter
from pydantic.dataclasses import dataclass as model

from clusterbook.checks import InputError, one_of

from . import config, slices
from .records import profile_of
from .verdicts import count
from .views import Table, View, status

MOST_VALUES = 10_000    # of a range
_LARGEST = 2**63 - 1    # the largest integer of numpy and torch
_SEEDS = 2**32          # as many seeds has numpy
SCALARS = {"int": Annotated[int, Field(ge=-_LARGEST, le=_LARGEST)],
           "float": Annotated[float, Field(allow_inf_nan=False)], "str": str, "bool": bool}
TYPES = {name: TypeAdapter(kind) for name, kind in SCALARS.items()} | {
    f"list[{name}]": TypeAdapter(list[kind]) for name, kind in SCALARS.items()}
_READS = {"int": int, "float": float, "str": str,
          "bool": lambda text: {"true": True, "false": False}[text.lower()]}
_COMMENT = re.compile(r"""(?:@param\ (\[.*?\])?\ ?(\{.*?\})?)?        # Colab's form
    ([^|]*[^|\s])\s* \|\s*paper:([^|]*) \|([^|]*[^|\s])\s* (?:\|\s*try:([^|]*))?""", re.X)


@dataclass(frozen=True)
class Parameter:
    """One line of a parameters cell."""

    name: str
    type: str              # a key of `TYPES`
    default: Any
    meaning: str
    paper: str             # the value in the paper, in words; "—" where it has none
    effect: str            # of changing it
    other: Any = None      # a value to try, if the comment has one
    beside: tuple[str, ...] = ()    # of another parameter, which has to be given too: name, value
    choices: tuple[Any, ...] = ()   # all that it takes, or that a list of texts may hold


@model(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class Profile:
    """A named parameter set: ``notebooks/profiles/<name>.toml``; its name begins with its chapter.
    """

    name: str
    says: Annotated[str, Field(min_length=1)]                       # one sentence
    parameters: dict[str, Any]
    assumed: dict[str, Any] = field(default_factory=dict)           # published by no source
    seeds: Annotated[tuple[int, ...], Strict(False)] = ()           # of records

    @property
    def values(self) -> dict[str, Any]:
        """Published and assumed settings together."""
        return {**self.parameters, **self.assumed}


@dataclass(frozen=True)
class Chapter:
    """A chapter's notebook, read once, with its parameters."""

    name: str
    notebook: nbformat.NotebookNode
    parameters: Mapping[str, Parameter]

    @property
    def title(self) -> str:
        """The heading of the first cell, or the chapter's name."""
        heading = self.notebook.cells[0].source.partition("\n")[0]
        return heading.removeprefix("# ").strip() or self.name

    def figures(self) -> dict[str, slices.Drawn]:
        """What drawing each figure takes, in the chapter's order."""
        return slices.figures(self.notebook, self.parameters, slices.tried(self.name))

    def command(self, figure: slices.Drawn) -> str:
        """What draws a figure alone, with another value of a parameter where there is one."""
        tried = [name for name in figure.parameters if self.parameters[name].other is not None]
        # Last what needs another value too, and other data, which explain least.
        tried.sort(key=lambda name: (bool(self.parameters[name].beside), name == "dataset"))
        changed = self.to_try(tried[0]) if tried else ""
        return f"clusterbook run {self.name} --only {figure.name}{changed} --figures out"

    def to_try(self, name: str) -> str:
        """The options that set a parameter to its value to try, and what has to be given too."""
        one = self.parameters[name]
        given = [(name, one.other), *([one.beside] if one.beside else [])]
        return "".join(f" -p {each} {typed(value)}" for each, value in given)

    def parameter(self, name: str) -> Parameter:
        """The parameter of that name; InputError if the chapter has none."""
        return config.pick(f"parameter of {self.name}", name, self.parameters)

    def profile(self, name: str | None) -> Profile | None:
        """The profile of that name; InputError if the chapter has none."""
        return None if name is None else config.pick(
            f"profile of {self.name}", name, self.profiles())

    def profiles(self) -> dict[str, Profile]:
        """The chapter's profiles by name; InputError for a mistake in one of them."""
        folder = config.root() / "notebooks" / "profiles"
        found = {}
        for path in sorted(folder.glob(f"{self.name}-*.toml")):
            content = profile_of(path.stem)
            with config.mistakes_in(f"profiles/{path.name}"):
                profile = found[path.stem] = Profile(name=path.stem, **content)
                if both := profile.parameters.keys() & profile.assumed.keys():
                    raise InputError(f"{min(both)} is both in parameters and in assumed")
                for part in (profile.parameters, profile.assumed):
                    for name, value in part.items():
                        part[name] = of_type(self.parameter(name), value)
        return found

    def values(self, profile: Profile | None = None, typed: Mapping[str, str] | None = None
               ) -> dict[str, Any]:
        """All parameters of a run: the defaults, then the profile's, then the typed ones.

        Raises InputError for an unknown parameter or a value of the wrong type.
        """
        values = {name: parameter.default for name, parameter in self.parameters.items()}
        values |= profile.values if profile else {}
        return values | {name: from_text(self.parameter(name), text)
                         for name, text in (typed or {}).items()}


# --- the notebook ------------------------------------------------------------------------------


def read(name: str) -> Chapter:
    """Read a chapter.

    Raises InputError for an unknown chapter, a damaged notebook, or a mistake in the parameters
    cell.
    """
    one_of("chapter", name, config.chapters())
    notebook = read_notebook(config.root() / "notebooks" / f"{name}.ipynb")
    tagged = [cell.source for cell in notebook.cells if slices.tagged(cell)]
    with config.mistakes_in(f"{name}.ipynb, parameters cell"):
        if len(tagged) != 1:
            raise InputError(f"{len(tagged)} cells are tagged 'parameters'; tag exactly one")
        return Chapter(name, notebook, parse(tagged[0]))


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """Read a notebook that has cells; InputError if the file is anything else."""
    invalid: dict[str, Exception] = {}
    try:
        notebook = nbformat.read(path, as_version=4, capture_validation_error=invalid)
        if notebook.cells and not invalid:
            return notebook
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from None
    except Exception:       # nbformat raises many kinds for what is no notebook
        pass
    raise InputError(f"{path} is not a notebook: it is empty, damaged, or of another format")


def parse(source: str) -> dict[str, Parameter]:
    """Read a parameters cell without running it.

    Raises InputError, with the line's number, for a line that is no such literal.

    Examples
    --------
    >>> parse("epochs: int = 5  # passes over the data | paper: 5 | slower")["epochs"].meaning
    'passes over the data'
    """
    # Imported late: it takes half a second.
    from papermill.translators import PythonTranslator

    lines, found = source.split("\n"), {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            (given,) = PythonTranslator.inspect({"source": line})
            name, kind = given.name, given.inferred_type_name
            if name in found or not (name.isidentifier() and line.startswith(name)):
                raise ValueError
            default = TYPES[kind].validate_python(ast.literal_eval(given.default), strict=True)
            below = takewhile(lambda text: text.startswith("#  "), lines[number:])
            comment = " ".join([given.help, *(text.lstrip("# ") for text in below)])
            choices, form, *said, other = _COMMENT.fullmatch(comment).groups()
            chosen = () if not choices or "allow-input" in (form or "") else json.loads(choices)
            if kind == "list[str]" and ": " in said[0]:
                chosen = said[0].strip().rpartition(": ")[2].split(", ")
            one = found[name] = Parameter(name, kind, default, *map(str.strip, said),
                                          choices=tuple(chosen))
            if other is not None:
                value, _, beside = other.strip().partition(" with ")
                found[name] = replace(one, other=from_text(one, value),
                                      beside=tuple(beside.split(" ", 1)) if beside else ())
                if found[name].other == default:
                    raise ValueError
        except (AttributeError, KeyError, SyntaxError, TypeError, ValueError, RecursionError,
                MemoryError):
            raise InputError(f"line {number}: expected {_LINE}") from None
    return found


_LINE = ("'name: type = literal  # meaning | paper: value | effect when changed', or the same with "
         "'| try: another value' behind it, each name once, with the type "
         f"{', '.join(SCALARS)} or a list of one of them, such as list[int], and a literal of it")


# --- values ------------------------------------------------------------------------------------


def from_text(parameter: Parameter, text: str) -> Any:
    """Convert what was typed after ``-p NAME`` to the parameter's type.

    A list may stand in brackets or not, and its integers may be a range: ``0-4``. Raises InputError
    for a value of another type.

    Examples
    --------
    >>> from_text(Parameter("seeds", "list[int]", [], "", "", ""), "0-2,7")
    [0, 1, 2, 7]
    """
    scalar = parameter.type.removeprefix("list[").removesuffix("]")
    listed, words = scalar != parameter.type, [text]
    if listed:
        words = [word.strip(" '\"") for word in text.strip(" []").split(",") if word.strip()]
        if scalar == "int":
            words = [number for word in words for number in number_range(word)]
    try:        # pydantic alone would take 0-4 for -4
        values = [_READS[scalar](word) for word in words]
    except (KeyError, ValueError):
        raise _other_type(parameter, text) from None
    return of_type(parameter, values if listed else values[0], text)


def of_type(parameter: Parameter, value: Any, typed: str | None = None) -> Any:
    """The value, if it has the parameter's type and is, or holds, only its choices.

    Raises InputError if not, with what was *typed*.
    """
    try:
        given = TYPES[parameter.type].validate_python(value, strict=True)
    except ValueError:
        raise _other_type(parameter, value if typed is None else typed) from None
    if parameter.choices:
        listed = isinstance(given, list)
        for one in given if listed else [given]:
            one_of(parameter.name.removesuffix("s" * listed), one, parameter.choices)
    if parameter.name == "seed" and not 0 <= given < _SEEDS:
        raise InputError(f"seed takes whole numbers from 0 to {_SEEDS - 1:,}, not {given}")
    return given


def distinct_seeds(chapter: Chapter, seeds: Sequence[int] | None) -> list[int]:
    """The seeds, each once; InputError for one out of range, or for a chapter without seeds."""
    return [of_type(chapter.parameter("seed"), seed) for seed in dict.fromkeys(seeds or ())]


def _other_type(parameter: Parameter, said: Any) -> InputError:
    return InputError(f"{parameter.name} takes {parameter.type}, for example "
                      f"{parameter.default!r}, not {repr(said)[:60]}")


def number_range(text: str) -> list[str]:
    """Expand ``"2-4"`` to ``["2", "3", "4"]``; any other text stands for itself.

    Raises InputError for a range that runs backwards or has more than `MOST_VALUES`.
    """
    ends = re.fullmatch(r"(\d{1,19})-(\d{1,19})", text)
    if ends is None:
        return [text]
    first, last = map(int, ends.groups())
    if last < first:
        raise InputError(f"the range {text!r} runs backwards; write {last}-{first}")
    if last - first >= MOST_VALUES:
        raise InputError(f"the range {text!r} has more than {MOST_VALUES:,} values")
    return [str(i) for i in range(first, last + 1)]


def typed(value: Any) -> str:
    """A value as it is typed after ``-p NAME``, quoted for bash, zsh and PowerShell alike."""
    text = ",".join(map(str, value)) or "[]" if isinstance(value, list) else str(value)
    return text if re.fullmatch(r"[\w./+-]+", text) else f'"{text}"'


# --- tables ------------------------------------------------------------------------------------


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> View:
    """Rows under heads, folded on a page; commands and what is typed are code."""
    cells = [[Markup("<code>{}</code>").format(text) if text and head in _CODE else text
              for head, text in zip(heads, row, strict=True)] for row in rows]
    return View(tuple(rows), [Table(caption, heads, cells, "cb-options", folded=True)])


_CODE = {"Parameter", "Default", "Type", "To try", "Command", "Figure", "Profile"}


def shown(name: str | None = None) -> View | str:
    """A chapter's parameters and profiles; without a name all chapters, as Markdown of views."""
    if name is None:
        order = config.book().order     # a chapter without a method stands behind that of its work
        chapters = sorted(config.chapters(), key=lambda name: order(name.partition("_")[0]))
        return "\n\n".join(f"## {read(name).title.partition(':')[0]}\n\n:::{{view}} parameters "
                           f"{name}\n:::" for name in chapters)
    tables = [parameter_table(name), profile_table(name)]
    return View((), [part for table in tables if table.rows for part in table.parts])


def parameter_table(name: str) -> View:
    """Every parameter of a chapter: meaning, default, what to type for another value, and so on.

    Raises InputError if there is no such chapter.
    """
    chapter = read(name)
    rows = [(p.name, p.meaning, repr(p.default), p.paper,
             "" if p.other is None else chapter.to_try(p.name).strip(), p.effect, p.type)
            for p in chapter.parameters.values()]
    return table(f"{name}: {count(len(rows), 'parameter')}; to try one, add it to clusterbook run "
                 f"{name} --figures out", [
        "Parameter", "Meaning", "Default", "In the paper", "To try", "If changed", "Type"], rows)


def figure_table(name: str) -> View:
    """Every figure of a chapter: the parameters that change it, and its command."""
    chapter = read(name)
    rows = [(one.name, ", ".join(one.parameters) or "no parameter", chapter.command(one))
            for one in chapter.figures().values()]
    return table(f"{name}: {count(len(rows), 'figure')}", ["Figure", "Depends on", "Command"], rows)


def profile_table(name: str) -> View:
    """The profiles of a chapter: what each reruns, the cost of a seed, its command."""
    costs = {profile: f"{cells['Time per seed']}; {cells['Peak memory']}"
             for profile, cells in status().rows}
    rows = []
    for profile in read(name).profiles().values():
        seeds = [*profile.seeds] or [*range(5)]
        ends = f"{seeds[0]}-{seeds[-1]}" if len(seeds) == seeds[-1] - seeds[0] + 1 > 1 else seeds
        rows.append((profile.name, profile.says, costs.get(profile.name, "not recorded"),
                     ", ".join(profile.assumed) or "none",
                     f"clusterbook run {name} --profile {profile.name} --seeds {typed(ends)} "
                     "--record out"))
    return table(f"{name}: {count(len(rows), 'profile')}", [
        "Profile", "What it reruns", "Cost per seed", "Settings that no source has", "Command"],
        rows)
