"""A chapter's parameters and profiles, read from its notebook and checked before anything runs.

The cell tagged ``parameters`` holds one literal a line::

    epochs: int = 40  # passes over the training data | paper: 5 | more: higher accuracy, slower

A long comment continues in lines that begin with ``#`` and two spaces. One that begins with
``@param`` makes the line a field of Colab's form: ``# @param {"type":"integer"}``, or a list of
choices. The cell is parsed by `ast` and never executed. Papermill only logs an unknown name and
takes a value of any type; here a wrong name or type is an error before the first cell runs.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import nbformat
from markupsafe import Markup, escape
from pydantic import ConfigDict, Field, Strict
from pydantic.dataclasses import dataclass as model

from clusterbook.checks import one_of
from clusterbook.errors import InputError

from . import config, slices
from .claims import mistake
from .formats import count
from .provenance import status
from .settings import SCALARS, TYPES, as_type, read_yaml
from .views import Table, View, html

_FIELD = re.compile(r"""# @param (\[.*?\])?\ ?(\{.*?\})?""")


@dataclass(frozen=True)
class Parameter:
    """One line of a parameters cell."""

    name: str
    type: str              # int, float, str, bool or a list of one of them: "list[int]"
    default: Any
    meaning: str
    paper: str             # the value in the paper, in words; "—" where it has none
    effect: str            # of changing it
    choices: tuple[str, ...] = ()   # that Colab's form offers


@model(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class Profile:
    """A named parameter set: ``notebooks/profiles/<name>.yaml``."""

    name: str
    chapter: str
    says: Annotated[str, Field(min_length=1)]                       # one sentence
    parameters: dict[str, Any]
    assumed: dict[str, Any] = field(default_factory=dict)           # published by no source
    seeds: Annotated[tuple[Annotated[int, Strict(False)], ...], Strict(False)] = ()     # of records

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
        return slices.figures(self.notebook, self.parameters)

    def command(self, figure: slices.Drawn, values: Mapping[str, Any] | None = None) -> str:
        """What draws a figure alone, with these values, or another value of one parameter."""
        if values is None:
            values = self.worth_trying(figure)
        changed = "".join(f" -p {name} {typed(value)}" for name, value in values.items())
        return f"clusterbook run {self.name} --only {figure.name}{changed} --figures out"

    def worth_trying(self, figure: slices.Drawn) -> dict[str, Any]:
        """A value for the parameter of a figure that has its name or reaches fewest others."""
        reached = Counter(name for one in self.figures().values() for name in one.parameters)
        name = min(figure.parameters, default=None, key=lambda name: (
            self.parameters[name].effect.startswith("must"),    # alone, another value may not fit
            name != figure.name, reached[name],
            self.parameters[name].type not in ("float", "int"), name == "dataset"))
        return {name: worth_trying(self.parameters[name])} if name else {}

    def parameter(self, name: str) -> Parameter:
        """The parameter of that name; InputError if the chapter has none."""
        one_of(f"parameter of {self.name}", name, self.parameters)
        return self.parameters[name]

    def profile(self, name: str | None) -> Profile | None:
        """The profile of that name; InputError if the chapter has none."""
        if name is None:
            return None
        known = self.profiles()
        one_of(f"profile of {self.name}", name, known)
        return known[name]

    def profiles(self) -> dict[str, Profile]:
        """The chapter's profiles by name, in the types of its parameters."""
        folder = config.root() / "notebooks" / "profiles"
        found = {}
        for path in sorted(folder.glob(f"{self.name}-*.yaml")):
            content = read_yaml(path)
            try:
                profile = found[path.stem] = Profile(**{"name": path.stem, **content})
                if profile.chapter != self.name:
                    raise InputError(f"its chapter is {profile.chapter!r}, but its name begins "
                                     f"with {self.name}-")
                if both := profile.parameters.keys() & profile.assumed.keys():
                    raise InputError(f"{min(both)} stands under both parameters and assumed")
                for part in (profile.parameters, profile.assumed):
                    for name, text in part.items():
                        part[name] = from_text(self.parameter(name), text)
            except (TypeError, ValueError) as error:
                raise InputError(f"profiles/{path.name}: {mistake(error)[0]}") from None
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
    """Read a chapter, or an executable page such as the scorecard, which has no parameters.

    Raises InputError for an unknown chapter, a damaged notebook, or a mistake in the parameters
    cell.
    """
    known = {path.stem: path for folder in ("notebooks", "book")
             for path in (config.root() / folder).glob("*.ipynb")}
    if name not in known:           # pages are not offered
        one_of("chapter", name, config.chapters())
    path = known[name]
    notebook = read_notebook(path)
    tagged = [cell.source for cell in notebook.cells
              if "parameters" in cell.metadata.get("tags", [])]
    try:
        if len(tagged) > 1 or not tagged and path.parent.name == "notebooks":
            raise InputError(f"{len(tagged)} cells are tagged 'parameters'; tag exactly one")
        return Chapter(name, notebook, parse("".join(tagged)))
    except InputError as error:
        raise InputError(f"{path.name}, parameters cell: {error}") from None


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
    """Parse a parameters cell without running it.

    Raises InputError, with the line's number, for a line that is no such literal.

    Examples
    --------
    >>> parse("epochs: int = 5  # passes over the data | paper: 5 | slower")["epochs"].meaning
    'passes over the data'
    """
    try:
        statements = ast.parse(source, "the cell").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"not Python: {error}") from None
    lines = source.split("\n")
    found: dict[str, Parameter] = {}
    for node in statements:
        comment = lines[node.end_lineno - 1].encode()[node.end_col_offset:].decode()
        for below in takewhile(lambda line: line.startswith("#  "), lines[node.end_lineno:]):
            comment = f"{comment} {below.lstrip('# ')}"
        try:
            name, kind = node.target.id, ast.unparse(node.annotation)
            default = TYPES[kind].validate_python(ast.literal_eval(node.value), strict=True)
            choices = ()
            if shown := _FIELD.match(comment.lstrip()):
                comment = comment.lstrip()[shown.end():]
                choices = tuple(json.loads(shown[1] or "[]"))
            meaning, paper, effect = [part.strip() for part in comment.lstrip("# ").split("|")]
            if name in found or not (meaning and effect and paper.startswith("paper:")):
                raise ValueError
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise InputError(f"line {node.lineno}: expected {_LINE}") from None
        found[name] = Parameter(name, kind, default, meaning,
                                paper.removeprefix("paper:").strip(), effect, choices)
    return found


_LINE = ("'name: type = literal  # meaning | paper: value | effect when changed', each name once, "
         f"with the type {', '.join(SCALARS)} or a list of one of them, such as list[int], and a "
         "literal of it")


def from_text(parameter: Parameter, text: str | list[str]) -> Any:
    """Convert what was typed after ``-p NAME``, or stands in a profile, to the parameter's type.

    As `as_type` does; raises InputError for a value of another type.
    """
    try:
        return as_type(parameter.type, text)
    except TypeError:
        said = repr(text)
        raise InputError(f"{parameter.name} takes {parameter.type}, for example "
                         f"{parameter.default!r}, not {said[:59]}{said[59:] and '…'}") from None


# --- tables ------------------------------------------------------------------------------------

def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]],
          code: Collection[str] = (), *, folded: bool = False) -> View:
    """Rows under heads as a `View`; the cells of the columns that *code* names are set as code."""
    def cell(head: str, text: str) -> str:
        text = _unbroken(text) if head == "Command" else text
        return Markup("<code>{}</code>").format(text) if text and head in code else text

    cells = [[*map(cell, heads, row)] for row in rows]
    shown = Table(caption, heads, {"": cells}, css="cb-options", scrolls=False,
                  classes={"Command": "cb-command"}, folded=caption if folded else "",
                  attributes={"class": "cb-fold"})
    return View(tuple(rows), html("table", shown), [shown])


def _unbroken(command: str) -> Markup:
    """A command as HTML in which no line ends inside an option."""
    return Markup(re.sub(r"(?<= )--?\w+", r"<span>\g<0></span>", str(escape(command))))


def parameter_table(name: str) -> View:
    """Every parameter of a chapter: default, a command with another value, meaning, and so on.

    Raises InputError if there is no such chapter.
    """
    rows = []
    for p in read(name).parameters.values():
        command = f"clusterbook run {name} -p {p.name} {typed(worth_trying(p))} --figures out"
        rows.append((p.name, repr(p.default), command, p.meaning, p.paper, p.effect, p.type))
    heads = ("Parameter", "Default", "Command", "Meaning", "In the paper", "If changed", "Type")
    return table(f"{name}: {len(rows)} parameters", heads, rows,
                 ("Parameter", "Default", "Type", "Command"), folded=True)


def figure_table(name: str) -> View:
    """Every figure of a chapter: live or recorded, its cost alone, what it depends on, its command.

    Raises InputError if there is no such chapter.
    """
    chapter, seconds, rows = read(name), measured(name), []
    for one in chapter.figures().values():
        rows.append((one.name, "recorded" if one.recorded else "live",
                     f"{seconds[one.name]} s" if one.name in seconds else "not measured",
                     ", ".join(one.parameters) or "no parameter",
                     chapter.command(one)))
    heads = ("Figure", "Drawn from", "Alone", "Depends on", "Command")
    return table(f"{name}: {len(rows)} figures", heads, rows, ("Figure", "Command"))


def measured(name: str) -> dict[str, float]:
    """The seconds that each figure of a chapter took alone, where ``tests/alone`` measured them."""
    kept = config.root() / "data" / "expectations" / "alone.json"
    return json.loads(kept.read_text(encoding="utf-8")).get(name, {}) if kept.is_file() else {}


def worth_trying(parameter: Parameter) -> Any:
    """A value other than the default, from what the chapter says about the parameter.

    It is the value that the effect begins with (``0 leaves the term out``), the next choice of
    those listed, or a number twice or half as large, as the effect says (``fewer: …``). Of epochs
    it is a quarter more or a fifth less: stages of a training follow each other.
    """
    default, effect, kind = parameter.default, parameter.effect, parameter.type
    listed = [word for word in parameter.meaning.rpartition(": ")[2].split(", ")
              if re.fullmatch(r"\w+", word)]
    texts = re.findall(r"^(?!empty)([\w.-]+)(?:: | leaves )", effect)
    texts += [str(not default)] if kind == "bool" else []
    texts += [*parameter.choices, *re.findall(r"\S+/\S+", parameter.paper)] if kind == "str" else []
    texts += (["[]"] if default else listed) if kind == "list[str]" else []
    if kind == "list[int]" and "seeds" in parameter.name:
        texts.append(f"{[*default, max(default, default=0) + 1]}")
    elif kind == "list[int]":
        halved = [n // 2 if n == max(default) else n for n in default]
        texts.append(f"{halved if len({*default}) < len(default) else [*dict.fromkeys(halved)]}")
    elif kind == "list[float]":
        texts.append(f"{[default[0] / 2, *default[1:]] if default else [0.5]}")
    elif kind in ("int", "float") and default:
        way = re.search(r"\b(?:(more|larger|wider)|fewer|less|smaller|earlier)\b", effect)
        by = (1.25 if "epoch" in parameter.name else 2) ** (1 if way is None or way[1] else -1)
        value = default * by if not 0 < default < 1 <= default * by else (1 + default) / 2
        texts += [f"{round(value) if kind == 'int' else float(f'{value:.3g}')}", f"{default + 1}"]
    elif kind in ("int", "float"):
        texts += re.findall(r"\d[\d.]*", parameter.paper)
        texts.append("1" if re.search("seed|random", parameter.meaning) else "100")
    for text in [*texts, f"my_{parameter.name}", "5,10"]:
        with suppress(InputError):
            if (value := from_text(parameter, text)) != default:
                return value
    return default


def typed(value: Any) -> str:
    """A value as it is typed after ``-p NAME``, quoted for bash, zsh and PowerShell alike."""
    text = ",".join(map(str, value)) or "[]" if isinstance(value, list) else str(value)
    return text if re.fullmatch(r"[\w./+-]+", text) else f'"{text}"'


def profile_table(name: str) -> View:
    """The profiles of a chapter: what each reruns, the cost of a seed, its command.

    Raises InputError if there is no such chapter.
    """
    heads = ("Profile", "What it reruns", "Cost of a seed", "Settings that no source has",
             "Command")
    costs = {profile.name: "; ".join(profile.cells[head] for head in
                                     ("Time, a seed", "Peak memory"))
             for profile in status().rows}
    rows = []
    for profile in read(name).profiles().values():
        seeds = [*profile.seeds] or [*range(5)]
        ends = f"{seeds[0]}-{seeds[-1]}" if len(seeds) == seeds[-1] - seeds[0] + 1 > 1 else seeds
        rows.append((profile.name, profile.says, costs.get(profile.name, "not recorded"),
                     ", ".join(profile.assumed) or "none",
                     f"clusterbook run {name} --profile {profile.name} --seeds {typed(ends)} "
                     "--record out"))
    return table(f"{name}: {count(len(rows), 'profile')}", heads, rows, ("Profile", "Command"),
                 folded=True)
