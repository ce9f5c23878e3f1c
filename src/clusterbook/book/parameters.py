"""A chapter's parameters and profiles, read from its notebook and checked before anything runs.

The cell tagged ``parameters`` holds one literal a line::

    epochs: int = 40  # passes over the training data | paper: 5 | more: higher accuracy, slower

A long comment continues in lines that begin with ``#`` and two spaces. The cell is parsed by
`ast` and never executed. Papermill only logs an unknown name and takes a value of any type; here a
wrong name or type is an error before the first cell runs.
"""

from __future__ import annotations

import ast
import io
import re
import shlex
import tokenize
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import nbformat
import yaml
from jinja2 import Environment
from markupsafe import Markup, escape
from pydantic import ConfigDict, Field, Strict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as model

from .. import paths
from ..errors import InputError, unknown

MOST_VALUES = 10_000    # of a range, and runs of a command
_LARGEST = 2**63 - 1    # the largest integer of numpy and torch
_LONGEST = 2_000        # characters of a typed Python literal; a longer text is just a text
_SCALARS = {
    "int": Annotated[int, Field(ge=-_LARGEST, le=_LARGEST)],
    "float": Annotated[float, Field(allow_inf_nan=False)],
    "str": str,
    "bool": bool,
}
_STRICT = ConfigDict(strict=True)
_TYPES = {name: TypeAdapter(kind, config=_STRICT) for name, kind in _SCALARS.items()} | {
    f"list[{name}]": TypeAdapter(list[kind], config=_STRICT) for name, kind in _SCALARS.items()}


@dataclass(frozen=True)
class Parameter:
    """One line of a parameters cell."""

    name: str
    type: str              # int, float, str, bool or a list of one of them: "list[int]"
    default: Any
    meaning: str
    paper: str             # the value in the paper, in words; "—" where it has none
    effect: str            # of changing it


@model(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class Profile:
    """A named parameter set: ``notebooks/profiles/<name>.yaml``."""

    name: str
    chapter: str
    says: Annotated[str, Field(min_length=1)]                       # one sentence
    parameters: dict[str, Any]
    assumed: dict[str, Any] = field(default_factory=dict)           # published by no source
    seeds: Annotated[tuple[int, ...], Strict(False)] = ()           # of its records, set beforehand

    @property
    def values(self) -> dict[str, Any]:
        """Published and assumed settings together."""
        return {**self.parameters, **self.assumed}


@dataclass(frozen=True)
class Chapter:
    """A chapter's notebook, read once, with its parameters."""

    name: str
    path: Path
    notebook: nbformat.NotebookNode
    parameters: Mapping[str, Parameter]

    @property
    def title(self) -> str:
        """The heading of the first cell, or the chapter's name."""
        heading = self.notebook.cells[0].source.partition("\n")[0]
        return heading.removeprefix("# ").strip() or self.name

    @property
    def cell_ids(self) -> set[str]:
        """The ids of the cells, which a copy of the notebook keeps."""
        return {cell["id"] for cell in self.notebook.cells if "id" in cell}

    def parameter(self, name: str) -> Parameter:
        """The parameter of that name; InputError if the chapter has none."""
        if name not in self.parameters:
            raise unknown(f"parameter of {self.name}", name, self.parameters)
        return self.parameters[name]

    def profile(self, name: str | None) -> Profile | None:
        """The profile of that name; InputError if the chapter has none."""
        if name is None:
            return None
        known = self.profiles()
        if name not in known:
            raise unknown(f"profile of {self.name}", name, known)
        return known[name]

    def profiles(self) -> dict[str, Profile]:
        """The chapter's profiles by name, in the types of its parameters."""
        folder = paths.root() / "notebooks" / "profiles"
        return {path.stem: self._read_profile(path)
                for path in sorted(folder.glob(f"{self.name}-*.yaml"))}

    def _read_profile(self, path: Path) -> Profile:
        content = read_yaml(path)
        try:
            profile = Profile(**{"name": path.stem, **content})
            if profile.chapter != self.name:
                raise InputError(f"its chapter is {profile.chapter!r}, but its name begins with "
                                 f"{self.name}-")
            if both := set(profile.parameters) & set(profile.assumed):
                raise InputError(f"{sorted(both)[0]} stands under both parameters and assumed")
            typed = {part: {name: self._typed(name, value)
                            for name, value in getattr(profile, part).items()}
                     for part in ("parameters", "assumed")}
        except ValidationError as error:
            mistake = error.errors()[0]
            said = f"{mistake['loc'][0]}: {mistake['msg']}"
            raise InputError(f"profiles/{path.name}: {said}") from None
        except (InputError, TypeError) as error:
            raise InputError(f"profiles/{path.name}: {error}") from None
        return replace(profile, **typed)

    def _typed(self, name: str, value: Any) -> Any:
        if isinstance(value, list):
            return _from_words(self.parameter(name), list(map(str, value)))
        return from_text(self.parameter(name), str(value))

    def values(self, profile: Profile | None = None, typed: Mapping[str, str] | None = None
               ) -> dict[str, Any]:
        """All parameters of a run: the defaults, then the profile's, then the typed ones.

        Raises InputError for an unknown parameter or a value of the wrong type.
        """
        values = {name: parameter.default for name, parameter in self.parameters.items()}
        values |= profile.values if profile else {}
        for name, text in (typed or {}).items():
            values[name] = from_text(self.parameter(name), text)
        return values

    def changed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values that differ from their defaults; only they are injected into the notebook."""
        return {name: value for name, value in values.items()
                if value != self.parameters[name].default}


# --- the notebook ------------------------------------------------------------------------------


def read(name: str) -> Chapter:
    """Read a chapter, or an executable page such as the scorecard, which has no parameters.

    Raises InputError for an unknown chapter, a damaged notebook, or a mistake in the parameters
    cell.
    """
    known = {path.stem: path for folder in ("notebooks", "book")
             for path in (paths.root() / folder).glob("*.ipynb")}
    if name not in known:
        raise unknown("chapter", name, paths.chapters())
    path = known[name]
    notebook = read_notebook(path)
    try:
        source = parameters_cell(notebook)
        if source is None and path.parent.name != "book":
            raise InputError("no cell is tagged 'parameters'")
        return Chapter(name, path, notebook, parse(source or ""))
    except InputError as error:
        raise InputError(f"{path.name}, parameters cell: {error}") from None


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """Read a notebook that has cells; InputError if the file is anything else."""
    invalid: dict[str, Exception] = {}
    notebook = None
    try:
        notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4,
                                  capture_validation_error=invalid)
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from None
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError,
            nbformat.ValidationError) as error:
        invalid["reading"] = error
    if invalid or not notebook.cells:
        raise InputError(f"{path} is not a notebook: it is empty, damaged, or of another format")
    return notebook


def parameters_cell(notebook: nbformat.NotebookNode) -> str | None:
    """The source of the cell tagged ``parameters``, or None; InputError if there are several."""
    tagged = [c.source for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    if len(tagged) > 1:
        raise InputError(f"{len(tagged)} cells are tagged 'parameters'; leave the tag on one")
    return tagged[0] if tagged else None


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
        where = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        raise InputError(f"{where}not Python: {error}") from None
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}
    found: dict[str, Parameter] = {}
    for node in statements:
        line = node.end_lineno
        comment = comments.get(line, "")
        while comments.get(line := line + 1, "").startswith("#  "):     # it goes on below
            comment += " " + comments[line].lstrip("# ")
        try:
            parameter = _parameter(node, comment.lstrip("# "))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise InputError(f"line {node.lineno}: expected {_LINE}") from None
        if parameter.name in found:
            raise InputError(f"line {node.lineno}: {parameter.name} stands twice")
        found[parameter.name] = parameter
    return found


_LINE = ("'name: type = literal  # meaning | paper: value | effect when changed', with the type "
         f"{', '.join(_SCALARS)} or a list of one of them, such as list[int], and a literal of it")


def _parameter(node: ast.AnnAssign, comment: str) -> Parameter:
    name, kind = node.target.id, ast.unparse(node.annotation)
    meaning, paper, effect = [part.strip() for part in comment.split("|")]
    default = _TYPES[kind].validate_python(ast.literal_eval(node.value))
    if not (meaning and effect and paper.startswith("paper:")):
        raise ValueError
    return Parameter(name, kind, default, meaning, paper.removeprefix("paper:").strip(), effect)


# --- values ------------------------------------------------------------------------------------


def convert(parameter: Parameter, value: Any) -> Any:
    """Convert a value to the parameter's type, strictly: only an int may stand for a float.

    Raises InputError if the value has another type.
    """
    try:
        return _TYPES[parameter.type].validate_python(value)
    except (ValidationError, OverflowError):
        raise InputError(f"{parameter.name} takes {parameter.type}, for example "
                         f"{parameter.default!r}, not {_short(value)}") from None


def from_text(parameter: Parameter, text: str) -> Any:
    """Convert what was typed after ``-p NAME`` to the parameter's type.

    A list may stand in brackets or not, and integers may be a range: ``0-4``.

    Examples
    --------
    >>> seeds = Parameter("seeds", "list[int]", [], "", "", "")
    >>> from_text(seeds, "0-2,7")
    [0, 1, 2, 7]
    """
    value = _literal(text)
    if is_list(parameter) and not isinstance(value, list):
        words = text.strip().removeprefix("[").removesuffix("]").split(",")
        return _from_words(parameter, [word.strip() for word in words if word.strip()])
    if parameter.type == "str" and not isinstance(value, str):
        value = text
    return convert(parameter, value)


def _from_words(parameter: Parameter, words: list[str]) -> Any:
    if parameter.type == "list[int]":
        words = [one for word in words for one in number_range(word)]
    if parameter.type != "list[str]":
        words = [_literal(word) for word in words]
    return convert(parameter, words)


def is_list(parameter: Parameter) -> bool:
    """Whether a parameter is a list."""
    return parameter.type.startswith("list")


def _literal(text: str) -> Any:
    try:
        if len(text) <= _LONGEST:
            return ast.literal_eval(text)
    except (TypeError, SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    return {"true": True, "false": False}.get(text.lower(), text)


def number_range(text: str) -> list[str]:
    """Expand ``"2-4"`` to ``["2", "3", "4"]``; any other text stands for itself.

    Raises InputError for a range that runs backwards or has more than `MOST_VALUES`.
    """
    first, dash, last = text.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()):
        return [text]
    low, high = whole(first), whole(last)
    if low > high:
        raise InputError(f"the range {text!r} runs backwards; write {last}-{first}")
    if high - low >= MOST_VALUES:
        raise InputError(f"the range {text!r} has {high - low + 1:,} values; a range has at most "
                         f"{MOST_VALUES:,}")
    return [str(i) for i in range(low, high + 1)]


def whole(digits: str) -> int:
    """The integer that decimal digits mean; InputError if it is too large."""
    if len(digits) > 19 or int(digits) > _LARGEST:
        raise InputError(f"{digits[:20]}… is too large: whole numbers end at 2**63 - 1")
    return int(digits)


def own_file(value: Any) -> Path | None:
    """The person's own file or folder that a parameter's value names, if it does."""
    if not isinstance(value, str) or not value:
        return None
    try:
        path = Path(value.removeprefix("folder:")).expanduser()
        return path if value.startswith("folder:") or path.suffix and path.exists() else None
    except (OSError, RuntimeError):     # too long for a file's name, or ~ of an unknown user
        return None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


# --- YAML --------------------------------------------------------------------------------------


def read_yaml(path: Path) -> Any:
    """Read a YAML file: mappings and lists of texts, as they stand there.

    So 010 is not 8, nor 1:30 90, as in YAML 1.1; and no key may stand twice.

    Raises InputError if the file can't be read or is not such YAML.
    """
    file = "/".join(path.parts[-2:])
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror}") from None
    except InputError as error:
        raise InputError(f"{file}, {error}") from None
    except (UnicodeDecodeError, RecursionError, yaml.YAMLError) as error:
        raise InputError(f"{file}: not YAML: {' '.join(str(error).split())}") from None


class _Loader(yaml.BaseLoader):
    """Reads every scalar as a text, and refuses duplicate keys."""

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Any, Any]:
        """A mapping without duplicate keys."""
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if (key.tag, str(key.value)) in seen:
                raise InputError(f"line {key.start_mark.line + 1}: the key {key.value!r} stands "
                                 "twice; delete one")
            seen.add((key.tag, str(key.value)))
        return super().construct_mapping(node, deep)


# --- tables ------------------------------------------------------------------------------------

_TABLE = """\
{% call(n) table(caption, heads, also, scrolls=false) %}
<tbody>
{% for row in rows %}
<tr>{% for cell in row %}{% if loop.first %}<th scope="row">{{ cell }}</th>{% else %}{#
#}<td{% if heads[loop.index0] == "Command" %} class="cb-command"{% endif %}>{{ cell }}</td>{#
#}{% endif %}{% endfor %}</tr>
{% endfor %}
</tbody>
{% endcall %}
"""


@dataclass(frozen=True)
class Table:
    """Rows under heads; prints as text, displays as HTML that scrolls in a box of its own.

    The cells of the columns that *code* names are set as code; *links* has addresses for texts of
    the first column.
    """

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    code: Collection[str] = ()
    links: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """A paragraph a row: the first cell, and the others below it with their heads."""
        return "\n\n".join(
            "\n".join([row[0], *(f"    {head}: {cell}" for head, cell in
                                 zip(self.heads[1:], row[1:], strict=True) if cell)])
            for row in self.rows)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from ..evidence.templates import MACROS  # heavy: evidence imports matplotlib

        environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        rows = [[self._cell(*cell) for cell in zip(self.heads, row, strict=True)]
                for row in self.rows]
        return environment.from_string(MACROS + _TABLE).render(
            caption=self.caption, heads=self.heads, also=" cb-options", rows=rows).strip()

    def _cell(self, head: str, text: str) -> str:
        cell = escape(text)
        if head == "Command":           # a line must not end inside an option
            cell = Markup(re.sub(r"(?<= )--?\w+", r"<span>\g<0></span>", str(cell)))
        if head in self.code and text:
            cell = Markup("<code>{}</code>").format(cell)
        if head == self.heads[0] and text in self.links:
            cell = Markup('<a href="{}">{}</a>').format(self.links[text], cell)
        return cell


def parameter_table(name: str) -> Table:
    """Every parameter of a chapter: default, command, meaning, the paper's value, effect, type.

    Raises InputError if there is no such chapter.
    """
    rows = []
    for p in read(name).parameters.values():
        typed = p.default if isinstance(p.default, str) else repr(p.default).replace(" ", "")
        command = f"clusterbook run {name} -p {p.name} {shlex.quote(typed)} --figures out"
        rows.append((p.name, repr(p.default), command, p.meaning, p.paper, p.effect, p.type))
    heads = ("Parameter", "Default", "Command", "Meaning", "In the paper", "If changed", "Type")
    return Table(f"{name}: {len(rows)} parameters", heads, rows,
                 ("Parameter", "Default", "Type", "Command"))


def profile_table(name: str) -> Table:
    """The profiles of a chapter: what each reruns, the cost of a seed, its command.

    Raises InputError if there is no such chapter.
    """
    from .. import evidence

    heads = ("Profile", "What it reruns", "Cost of a seed", "Settings that no source has",
             "Command")
    costs = {profile.name: "; ".join(profile.cells[head] for head in
                                     ("Time, a seed", "Peak memory", "Machine"))
             for profile in evidence.status().rows}
    rows = [(profile.name, profile.says, costs.get(profile.name, "not recorded"),
             ", ".join(profile.assumed) or "none",
             f"clusterbook run {name} --profile {profile.name} --seeds 0-4 --record out")
            for profile in read(name).profiles().values()]
    return Table(f"{name}: {len(rows)} profiles", heads, rows, ("Profile", "Command"))
