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
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import nbformat
import yaml
from jinja2 import Environment
from markupsafe import Markup, escape
from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as model

from .. import paths
from ..errors import InputError, unknown

MOST_VALUES = 10_000    # of a range, and runs of a command
_LARGEST = 2**63 - 1    # the largest integer of numpy and torch
_SCALARS = {
    "int": Annotated[int, Field(ge=-_LARGEST, le=_LARGEST)],
    # YAML 1.1 reads 1e-3 as a text.
    "float": Annotated[float, Field(allow_inf_nan=False),
                       BeforeValidator(lambda x: float(x) if isinstance(x, str | int) and
                                       not isinstance(x, bool) else x)],
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
    says: Annotated[str, Field(min_length=1)]                           # one sentence
    parameters: dict[str, Any]
    assumed: dict[str, Any] = field(default_factory=dict)               # published by no source

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
        files = sorted(_profiles().glob(f"{self.name}-*.yaml"))
        return {path.stem: _profile(path, self) for path in files}

    def values(self, profile: Profile | None = None, typed: Mapping[str, str] | None = None
               ) -> dict[str, Any]:
        """All parameters of a run: the defaults, then the profile's, then the typed ones.

        Raises
        ------
        InputError
            For an unknown parameter or a value of the wrong type.
        """
        values = {name: parameter.default for name, parameter in self.parameters.items()}
        values |= profile.values if profile else {}
        for name, text in (typed or {}).items():
            if name not in self.parameters:
                raise unknown(f"parameter of {self.name}", name, self.parameters)
            values[name] = from_text(self.parameters[name], text)
        return values

    def changed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values that differ from their defaults; only they are injected into the notebook."""
        return {name: value for name, value in values.items()
                if value != self.parameters[name].default}


# --- the notebook ------------------------------------------------------------------------------


def read(name: str) -> Chapter:
    """Read a chapter, or an executable page such as the scorecard, which has no parameters.

    Raises
    ------
    InputError
        For an unknown chapter, a damaged notebook, or a mistake in the parameters cell.
    """
    path = notebook_path(name)
    notebook = read_notebook(path)
    try:
        source = parameters_cell(notebook)
        if source is None and path.parent.name != "book":
            raise InputError("no cell is tagged 'parameters'")
        return Chapter(name, path, notebook, parse(source or ""))
    except InputError as error:
        raise InputError(f"{path.name}, parameters cell: {error}") from None


def notebook_path(name: str) -> Path:
    """The notebook of a chapter or page; InputError with the nearest name if there is none."""
    for folder in ("book", "notebooks"):
        found = {path.stem: path for path in (paths.root() / folder).glob("*.ipynb")}
        if name in found:
            return found[name]
    raise unknown("chapter", name, paths.chapters())


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """Read a notebook that has cells; InputError if the file is anything else."""
    invalid: dict[str, Exception] = {}
    try:
        notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4,
                                  capture_validation_error=invalid)
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a notebook: it is not UTF-8 text") from None
    except (nbformat.reader.NotJSONError, RecursionError):
        raise InputError(f"{path} is not a notebook: it is empty or not JSON") from None
    except (AttributeError, KeyError, TypeError):
        raise InputError(f"{path} is not a notebook: it is JSON of another form") from None
    except (nbformat.ValidationError, ValueError) as error:
        invalid["reading"] = error
    if invalid:
        reason = str(next(iter(invalid.values()))).partition("\n")[0]
        raise InputError(f"{path} is not a notebook: {reason[:100]}")
    if not notebook.cells:
        raise InputError(f"{path} is not a notebook of the book: it has no cells")
    return notebook


def parameters_cell(notebook: nbformat.NotebookNode) -> str | None:
    """The source of the cell tagged ``parameters``, or None; InputError if there are several."""
    tagged = [c.source for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    if len(tagged) > 1:
        raise InputError(f"{len(tagged)} cells are tagged 'parameters'; leave the tag on one")
    return tagged[0] if tagged else None


def parse(source: str) -> dict[str, Parameter]:
    """Parse a parameters cell without running it.

    Raises
    ------
    InputError
        For a line that is no such literal, with the line's number.

    Examples
    --------
    >>> parse("epochs: int = 5  # passes over the data | paper: 5 | slower")["epochs"].meaning
    'passes over the data'
    """
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        raise InputError(f"line {error.lineno}: not Python ({error.msg})") from None
    except (ValueError, RecursionError, MemoryError):
        raise InputError("not Python that can be read: it is nested too deep or has a null "
                         "byte") from None
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}
    found: dict[str, Parameter] = {}
    for node in statements:
        try:
            parameter = _parameter(node, _comment(comments, node.end_lineno))
            if parameter.name in found:
                raise InputError(f"{parameter.name} stands twice")
        except InputError as error:
            raise InputError(f"line {node.lineno}: {error}") from None
        found[parameter.name] = parameter
    return found


def _comment(comments: Mapping[int, str], line: int) -> str:
    """The comment of a line, with the lines below it that begin with # and spaces."""
    parts = [comments.get(line, "")]
    while comments.get(line := line + 1, "").startswith("#  "):
        parts.append(comments[line])
    return " ".join(part.lstrip("# ").strip() for part in parts)


def _parameter(node: ast.stmt, comment: str) -> Parameter:
    if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value):
        raise InputError("expected 'name: type = literal  # meaning | paper: value | effect'")
    name, kind = node.target.id, ast.unparse(node.annotation)
    parts = [part.strip() for part in comment.split("|")]
    if len(parts) != 3 or not all(parts) or not parts[1].startswith("paper:"):
        raise InputError(f"{name} needs a comment '# meaning | paper: value | effect when changed'")
    try:
        default = ast.literal_eval(node.value)
    except (ValueError, TypeError):
        raise InputError(f"{name} must be a literal, not something derived") from None
    if kind not in _TYPES:
        raise InputError(f"the type {kind!r} is not one of {', '.join(_TYPES)}")
    try:
        converted = _TYPES[kind].validate_python(default)
        if converted != default:        # a text such as "1e-3", which the notebook would run with
            raise ValueError
    except (ValueError, OverflowError):
        raise InputError(f"{name} is to be {kind}, but its default {_shown(default)} is "
                         f"{_a(default)}") from None
    return Parameter(name, kind, converted, parts[0], parts[1].removeprefix("paper:").strip(),
                     parts[2])


# --- values ------------------------------------------------------------------------------------


def convert(parameter: Parameter, value: Any) -> Any:
    """Convert a value to the parameter's type, strictly: only int to float and text to float.

    Raises
    ------
    InputError
        If the value has another type.
    """
    try:
        return _TYPES[parameter.type].validate_python(value)
    except (ValidationError, OverflowError):
        raise InputError(f"{parameter.name} takes {parameter.type}, for example "
                         f"{parameter.default!r}; {_shown(value)} is {_a(value)}") from None


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
        item = parameter.type[5:-1]
        words = text.strip().removeprefix("[").removesuffix("]").split(",")
        words = [word.strip() for word in words if word.strip()]
        if item == "int":
            words = [one for word in words for one in number_range(word)]
        value = [word if item == "str" else _literal(word) for word in words]
    if parameter.type == "str" and not isinstance(value, str):
        value = text
    return convert(parameter, value)


def is_list(parameter: Parameter) -> bool:
    """Whether a parameter is a list."""
    return parameter.type.startswith("list")


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (TypeError, SyntaxError, ValueError, RecursionError, MemoryError):
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
    if len(digits) > len(str(_LARGEST)) or int(digits) > _LARGEST:
        raise InputError(f"{_shown(digits)} is too large: whole numbers end at 2**63 - 1")
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


def _shown(value: Any) -> str:
    """A value as an error quotes it, cut to a line."""
    try:
        text = repr(value)
    except ValueError:                  # Python prints no integer of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:59]}…"


def _a(value: Any) -> str:
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "too large: whole numbers end at 2**63 - 1"
    noun = type(value).__name__
    return {"NoneType": "None", "str": "a text", "int": "a whole number", "float": "a number",
            "bool": "a truth value", "list": "a list"}.get(noun, noun)


# --- profiles ----------------------------------------------------------------------------------


def profiles() -> dict[str, Profile]:
    """Every profile by name, in the types of its chapter's parameters."""
    chapter = cache(read)
    found = {}
    for path in sorted(_profiles().glob("*.yaml")):
        named = [name for name in paths.chapters() if path.stem.startswith(f"{name}-")]
        if not named:
            raise InputError(f"profiles/{path.name}: a profile is named CHAPTER-….yaml")
        found[path.stem] = _profile(path, chapter(named[0]))
    return found


def _profiles() -> Path:
    return paths.root() / "notebooks" / "profiles"


def _profile(path: Path, chapter: Chapter) -> Profile:
    content = read_yaml(path)
    try:
        if not isinstance(content, dict):
            raise InputError("expected the keys chapter, says, parameters and, if any, assumed")
        keys = ("chapter", "says", "parameters", "assumed")
        for key in content:
            if key not in keys:
                raise unknown("key", key, keys)
        profile = Profile(name=path.stem, **content)
        if profile.chapter != chapter.name:
            raise InputError(f"its chapter is {profile.chapter!r}, but its name begins with "
                             f"{chapter.name}-")
        if both := set(profile.parameters) & set(profile.assumed):
            raise InputError(f"{sorted(both)[0]} stands under both parameters and assumed")
        return replace(profile, parameters=_typed(chapter, profile.parameters),
                       assumed=_typed(chapter, profile.assumed))
    except ValidationError as error:
        mistake = error.errors()[0]
        raise InputError(f"profiles/{path.name}: {mistake['loc'][0]}: {mistake['msg']}") from None
    except InputError as error:
        raise InputError(f"profiles/{path.name}: {error}") from None


def _typed(chapter: Chapter, values: Mapping[str, Any]) -> dict[str, Any]:
    for name in values:
        if name not in chapter.parameters:
            raise unknown("parameter", name, chapter.parameters)
    return {name: convert(chapter.parameters[name], value) for name, value in values.items()}


# --- YAML --------------------------------------------------------------------------------------


def read_yaml(path: Path) -> Any:
    """Read a YAML file, strictly.

    Refused are duplicate keys, and the numbers ``010`` and ``1:30``, which YAML 1.1 reads as 8 and
    90.

    Raises
    ------
    InputError
        If the file can't be read or is not such YAML.
    """
    file = "/".join(path.parts[-2:])
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: not YAML: it is not UTF-8 text") from None
    except RecursionError:
        raise InputError(f"{file}: not YAML: it is nested too deep") from None
    except yaml.YAMLError as error:
        raise InputError(f"{file}: not YAML: {' '.join(str(error).split())}") from None
    except InputError as error:
        raise InputError(f"{file}, {error}") from None


class _Loader(yaml.SafeLoader):
    """YAML's safe loader that refuses what YAML 1.1 reads unlike a person."""

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Any, Any]:
        """A mapping without duplicate keys."""
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if (key.tag, str(key.value)) in seen:
                raise InputError(f"{_line(key)}: the key {key.value!r} stands twice; delete one")
            seen.add((key.tag, str(key.value)))
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        """An int or float that is written as a person reads it."""
        read_as = {"int": self.construct_yaml_int, "float": self.construct_yaml_float}
        number = read_as[node.tag.rpartition(":")[2]](node)
        if re.match(r"[-+]?(0[0-9_]+$|.*:)", node.value):
            raise InputError(f"{_line(node)}: YAML reads {node.value} as {number}; write the "
                             "number in full, or in quotes if it is a text")
        return number


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _Loader.construct_number)


def _line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}"


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
        rows = [[self._cell(*cell) for cell in zip(self.heads, row, strict=True)]
                for row in self.rows]
        return _template().render(caption=self.caption, heads=self.heads, also=" cb-options",
                                  rows=rows).strip()

    def _cell(self, head: str, text: str) -> str:
        cell = escape(text)
        if head == "Command":           # a line must not end inside an option
            cell = Markup(re.sub(r"(?<= )--?\w+", r"<span>\g<0></span>", str(cell)))
        if head in self.code and text:
            cell = Markup("<code>{}</code>").format(cell)
        if head == self.heads[0] and text in self.links:
            cell = Markup('<a href="{}">{}</a>').format(self.links[text], cell)
        return cell


@cache
def _template():
    from ..evidence.templates import MACROS  # heavy: evidence imports matplotlib

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(MACROS + _TABLE)


def parameter_table(name: str) -> Table:
    """Every parameter of a chapter: default, command, meaning, the paper's value, effect, type.

    Raises
    ------
    InputError
        If there is no such chapter.
    """
    def typed(value: Any) -> str:
        return shlex.quote(value if isinstance(value, str) else repr(value).replace(" ", ""))

    rows = [(p.name, repr(p.default),
             f"clusterbook run {name} -p {p.name} {typed(p.default)} --figures out",
             p.meaning, p.paper, p.effect, p.type) for p in read(name).parameters.values()]
    heads = ("Parameter", "Default", "Command", "Meaning", "In the paper", "If changed", "Type")
    return Table(f"{name}: {len(rows)} parameters", heads, rows,
                 ("Parameter", "Default", "Type", "Command"))


def profile_table(name: str) -> Table:
    """The profiles of a chapter: what each reruns, the cost of a seed, its command.

    Raises
    ------
    InputError
        If there is no such chapter.
    """
    from .. import evidence

    costs = {profile.name: "; ".join(profile.cells[head] for head in
                                     ("Time, a seed", "Peak memory", "Machine"))
             for profile in evidence.status().rows}
    rows = [(profile.name, profile.says, costs.get(profile.name, "not recorded"),
             ", ".join(profile.assumed) or "none",
             f"clusterbook run {name} --profile {profile.name} --seeds 0-4 --record out")
            for profile in read(name).profiles().values()]
    heads = ("Profile", "What it reruns", "Cost of a seed", "Settings that no source has",
             "Command")
    return Table(f"{name}: {len(rows)} profiles", heads, rows, ("Profile", "Command"))
