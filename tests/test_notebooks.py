"""The contract of a chapter's notebook, and each of its rules broken; pages keep most of it too.

A rule takes a notebook and what the book knows of its chapter, and yields a sentence for each thing
that is wrong.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import yaml
from _support import CHECKOUT
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from clusterbook.book import parameters
from clusterbook.errors import InputError
from clusterbook.evidence import load_claims, load_expectations

NOTEBOOKS = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))
PAGES = sorted((CHECKOUT / "book").glob("*.ipynb"))
SCREEN, FUNCTION, WIDTH, BYTES = 45, 30, 100, 4_000_000  # lines, lines, of code, of one notebook

#: Numbers that look like results and may stand in a chapter's prose.
ALLOWED: dict[str, set[str]] = {
    # What the paper reports (the claim tell-mnist has its verdict); its settings: a normalized
    # gradient's share of a center's length, the weight of the clustering loss, twice that weight in
    # the formula of the printed loss; the released code's: 0.2 alpha is a tenth of that length.
    "tell": {"95.16 %", "10 %", "0.01", "0.02", "0.2"},
    # What the original notebook prints (claims idc-notebook-dbi and idc-notebook) and the paper
    # reports of k-means; arithmetic: 1 - 10/90 of ten clusters that share nothing, also in per
    # cent, and a quarter of four equal clusters.
    "idc": {"0.129", "393.89", "25.72 %", "0.889", "88.9", "25 %"},
    "deepcluster": {"1.3", "0.22"},     # ImageNet's millions of photographs; a scikit-learn version
    "intro": {"95 %"}, "scorecard": {"95 %"},       # the coverage of an interval, by convention
    "measuring": {"0.22"},              # a version of scikit-learn
}

#: Notebooks that rerun no paper: a tool for one's own data has no sections of a chapter.
TOOLS = {"idc_table"}

#: Notebooks that rerun no paper and still are chapters: they have all sections, and no verdicts.
SYNTHESES = {"comparison"}

#: What is drawn from files, such as claims and records, not from this run.
FROM_FILES = ("say", "scorecard", "status", "amendments", "errata", "erratum", "sources",
              "parameter_table", "profile_table")

IGNORED = {"nbval-ignore-output", "nbval-skip"}
IGNORED_COMMENT = re.compile(r"#\s*(NBVAL_IGNORE_OUTPUT|NBVAL_SKIP)")
MYST = {
    "role": re.compile(r"\{[A-Za-z][\w:+-]*\}`"),
    "directive": re.compile(r"^\s*(`{3,}|~{3,}|:{3,})\s*\{", re.M),
    "colon fence": re.compile(r"^\s*:{3,}", re.M),
    "target": re.compile(r"^\s*\([\w -]+\)=\s*$", re.M),
    "substitution": re.compile(r"\{\{.*?\}\}"),
}
NOT_PROSE = re.compile(r"`[^`]*`|\]\([^)]*\)|<[^>]+>|https?://\S+|(arXiv|doi):\s?\S+")
RESULT = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*\s?(?:%|percent\b|per cent\b)"
                    r"|(?<![\w.])\d+\.\d+|±\s?\d+")
FLOAT = re.compile(r"(?<![\w.])\d+\.\d+|\b(?:nan|inf)\b")
CLOCK = re.compile(r"seconds|spent|clock|(?<!Run)times?\b", re.IGNORECASE)
HOME = re.compile(r"/(?:home|root|tmp|Users|kaggle|content)/|[A-Z]:\\")
#: Level-2 headings in their order, by their first words; True for those that every chapter has.
SECTIONS = {
    "the idea": True, "the mathematics": True, "the network": False, "training": False,
    "results": False, "what is interpretable": False, "ablations": False, "at paper scale": False,
    "what differs": True, "what to change": True, "limits": True, "references": True,
}


@dataclass(frozen=True)
class Chapter:
    """What the book knows of a notebook beside the notebook."""

    name: str
    says: Mapping[str, str] = field(default_factory=dict)       # check -> its sentence
    claims: Sequence = ()
    allowed: frozenset[str] | set[str] = frozenset()
    reruns: bool = True                                         # a work, whose claims it answers


def code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook: NotebookNode) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def tagged(notebook: NotebookNode, tag: str) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if tag in cell.get("metadata", {}).get("tags", [])]


def texts(cell: NotebookNode) -> Iterator[str]:
    """Every text that a cell displays, except a figure's alternative text and caption."""
    for output in cell.get("outputs", []):
        if "clusterbook" not in output.get("metadata", {}):
            yield from (str(value) for kind, value in output.get("data", {}).items()
                        if not kind.startswith("image/"))
            yield output.get("text", "")


def figures(cell: NotebookNode) -> list[NotebookNode]:
    return [output for output in cell.get("outputs", [])
            if any(kind.startswith("image/") for kind in output.get("data", {}))]


def check_lines(cell: NotebookNode) -> list[str]:
    """The stored lines of a cell's checks."""
    return [line for text in texts(cell) for line in text.splitlines() if line[:2] in ("✓ ", "✗ ")]


def headings(notebook: NotebookNode, level: int | None = None) -> list[str]:
    pattern = re.compile(rf"^{'#' * level if level else '#{1,6}'} +(.+?)\s*#*$", re.M)
    return [found for text in prose(notebook) for found in pattern.findall(text)]


def anchor(heading: str) -> str:
    """A heading's anchor, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def nodes(cell: NotebookNode, *kinds: type) -> list:
    """A cell's syntax nodes of some kinds, in the order of the source."""
    try:
        tree = ast.parse(cell.source)
    except SyntaxError:         # is_plain_python says so
        return []
    found = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def calls(cell: NotebookNode, name: str) -> list[ast.Call]:
    """The calls of ``name(…)`` and ``anything.name(…)``."""
    return [node for node in nodes(cell, ast.Call)
            if name in (getattr(node.func, "attr", None), getattr(node.func, "id", None))]


def checks(cell: NotebookNode) -> list[str | None]:
    """The names of a cell's checks; None for one whose name is not written out."""
    names = (call.args[0] if call.args else None for call in calls(cell, "check"))
    return [name.value if isinstance(name, ast.Constant) else None for name in names]


def ignored(cell: NotebookNode) -> bool:
    tags = set(cell.metadata.get("tags", []))
    return bool(tags & IGNORED or IGNORED_COMMENT.search(cell.source))


# --------------------------------------------------------------------------------------- the rules


def opens_with_title(notebook, chapter):
    first = notebook.cells[0]
    if first.cell_type != "markdown" or not first.source.startswith("# "):
        yield "the first cell is not the title"
    if len(headings(notebook, 1)) != 1:
        yield f"there is not one title but {len(headings(notebook, 1))}"


def bootstraps_first(notebook, chapter):
    found = tagged(notebook, "bootstrap")
    if found != code(notebook)[:1]:
        yield "the first executable cell, and only that, must be tagged 'bootstrap'"
        return
    strings = [str(node.value) for node in nodes(found[0], ast.Constant)]
    if "--no-deps" not in strings:
        yield "the bootstrap cell installs without --no-deps"
    imported = {alias.name for node in nodes(found[0], ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in nodes(found[0], ast.ImportFrom)}
    if others := {name.partition(".")[0] for name in imported} - sys.stdlib_module_names:
        yield f"the bootstrap cell imports {sorted(others)}"
    if touched := [text for text in strings if re.match(r"(torch\w*|numpy)\b", text)]:
        yield f"the bootstrap cell touches {touched}"


def has_one_parameters_cell(notebook, chapter):
    found = tagged(notebook, "parameters")
    if found != code(notebook)[1:2]:
        yield "the second executable cell, and only that, must be tagged 'parameters'"
        return
    try:
        parameters.parse(found[0].source)
    except InputError as error:
        yield f"parameters cell: {error}"


def is_plain_markdown(notebook, chapter):
    for text in prose(notebook):
        for what, pattern in MYST.items():
            if match := pattern.search(text):
                yield f"a MyST {what} in Markdown: {match[0].strip()!r}"


def types_no_result(notebook, chapter):
    captions = [about.get(key, "") for cell in code(notebook) for figure in figures(cell)
                for about in [figure.metadata.get("clusterbook", {})] for key in ("alt", "caption")]
    found = {match for text in (*prose(notebook), *captions)
             for match in RESULT.findall(NOT_PROSE.sub(" ", text))}
    allowed = chapter.allowed
    yield from (f"a typed result: {text!r}" for text in sorted(found - allowed))
    yield from (f"nothing needs the allowed number {text!r}" for text in sorted(allowed - found))


def has_clean_outputs(notebook, chapter):
    ids = [cell.get("id") for cell in notebook.cells]
    if None in ids or len(set(ids)) < len(ids):
        yield "cell ids are missing or come twice"      # nbformat would repair them in silence
    else:
        try:
            nbformat.validate(notebook)
        except nbformat.ValidationError as error:
            yield f"not a valid notebook: {str(error).splitlines()[0]}"
    counts = [cell.execution_count for cell in code(notebook)]
    if counts != list(range(1, len(counts) + 1)):
        yield f"the cells were not executed once, from top to bottom: {counts}"
    if tagged(notebook, "injected-parameters"):
        yield "papermill's parameters were left in"
    for part in (notebook, *notebook.cells):
        if noise := {"papermill", "execution"} & set(part.get("metadata", {})):
            yield f"metadata of a run: {sorted(noise)}"
    for cell in code(notebook):
        for output in cell.outputs:
            if output.output_type == "error" or output.get("name") == "stderr":
                yield f"stored trouble: {output.get('ename') or output.get('text')}"
        yield from (f"a path of somebody's machine: {text}" for text in texts(cell)
                    if HOME.search(text))


def describes_its_figures(notebook, chapter):
    names = []
    for cell in code(notebook):
        for output in figures(cell):
            about = output.metadata.get("clusterbook", {})
            names.append(about.get("name"))
            if missing := [key for key in ("name", "alt", "caption") if not about.get(key)]:
                yield f"figure {names[-1]} did not go through figures.show: no {missing}"
    if repeated := {name for name in names if names.count(name) > 1}:
        yield f"two figures have one name: {sorted(map(str, repeated))}"
    if any(re.search(r"!\[\s*\]\(|<img(?![^>]*\balt=\"[^\"])", text) for text in prose(notebook)):
        yield "an image without alternative text"


def checks_what_it_shows(notebook, chapter):
    shown = None
    for number, cell in enumerate(code(notebook), start=1):
        from_files = any(calls(cell, name) for name in FROM_FILES)
        measured = [text for text in texts(cell) if FLOAT.search(text)
                    and not text.startswith("✓ ") and not from_files]
        if ignored(cell) or (figures(cell) and not from_files) or measured:
            if shown:
                yield f"no check between cell {shown}, which shows something, and cell {number}"
            shown = number
        elif next(texts(cell), "").startswith("✓ "):
            shown = None
    if shown:
        yield f"no check after cell {shown}, which shows something"


def shows_every_check(notebook, chapter):
    used = []
    for number, cell in enumerate(code(notebook), start=1):
        used += checks(cell)
        wanted = [f"✓ {chapter.says.get(name)}" for name in checks(cell)]
        if check_lines(cell) != wanted:
            yield f"cell {number} shows {check_lines(cell)} instead of {wanted}"
        if wanted and ignored(cell):
            yield f"the check of cell {number} is not compared"
    yield from (f"the check {name} is expected nowhere" for name in set(used) - set(chapter.says))
    yield from (f"the expectation {name} is not checked" for name in set(chapter.says) - set(used))


def names_whose_records(notebook, chapter):
    for number, cell in enumerate(code(notebook), start=1):
        if calls(cell, "load_records"):
            yield f"cell {number} reads records itself; evidence.recorded knows whose they are"


def checks_something(notebook, chapter):
    """No check passes because there was nothing to compare, or because a machine was fast."""
    for number, cell in enumerate(code(notebook), start=1):
        for call in calls(cell, "check"):
            for part in ast.walk(call):
                if isinstance(part, ast.keyword) and part.arg == "default":
                    yield f"cell {number} gives its check a default"
                if isinstance(part, ast.IfExp | ast.BoolOp):
                    ends = [part.orelse, part.body] if isinstance(part, ast.IfExp) else part.values
                    if any(isinstance(end, ast.List | ast.Constant) and ast.unparse(end) != "None"
                           for end in ends):
                        yield f"cell {number} checks a constant: {ast.unparse(part)}"
                called = ast.unparse(part.func) if isinstance(part, ast.Call) else None
                if called in ("all", "np.nan_to_num"):
                    yield f"cell {number} checks {called}(…), true of nothing"
                if isinstance(part, ast.Name) and CLOCK.search(part.id):
                    yield f"cell {number} checks a time of this machine: {part.id}"


def answers_its_claims(notebook, chapter):
    used = {name for cell in code(notebook) for name in checks(cell)}
    anchors = {anchor(heading) for heading in headings(notebook)}
    for claim in chapter.claims:
        for number in claim.compares:
            if number.check is not None and number.check not in used:
                yield f"the claim {claim.id} needs the check {number.check}"
        if claim.section is not None and claim.section not in anchors:
            yield f"the claim {claim.id} points to #{claim.section}, which is no heading"


def fits_a_screen(notebook, chapter):
    for cell in notebook.cells:
        is_list = "parameters" in cell.metadata.get("tags", [])  # two lines a parameter
        if (lines := cell.source.count("\n") + 1) > SCREEN and not is_list:
            yield f"a cell of {lines} lines: {cell.source.splitlines()[0]}"
        long = [line for line in cell.source.splitlines() if len(line) > WIDTH]
        if cell.cell_type == "code" and long:
            yield f"a line of {len(long[0])} characters: {long[0]}"
    for function in (node for cell in code(notebook) for node in nodes(cell, ast.FunctionDef)):
        if (lines := function.end_lineno - function.lineno + 1) > FUNCTION:
            yield f"{function.name} has {lines} lines"
    if (size := len(nbformat.writes(notebook).encode())) > BYTES:
        yield f"{size:,} bytes, more than {BYTES:,}"


def is_plain_python(notebook, chapter):
    for number, cell in enumerate(code(notebook), start=1):
        try:
            ast.parse(cell.source)
        except SyntaxError as error:
            yield f"cell {number} is not plain Python: {error.text}"
        for choice in nodes(cell, ast.If, ast.IfExp):
            names = {part.id for part in ast.walk(choice.test) if isinstance(part, ast.Name)}
            if names & {"quick", "QUICK", "fast", "smoke", "demo"}:
                yield f"a shortened path of its own: if {ast.unparse(choice.test)}"


def follows_the_order(notebook, chapter):
    said = [ast.literal_eval(call.args[0]) for cell in code(notebook)[2:3]
            for call in calls(cell, "say")]
    if chapter.reruns and said != [chapter.name]:
        yield f"the imports cell, third of the code, does not say the verdicts of {chapter.name}"
    if not chapter.reruns and (said or chapter.claims):
        yield f"{chapter.name} reruns no work, so it has no claims and says no verdicts"
    order = list(SECTIONS)
    found = [name for heading in headings(notebook, 2) for name in order
             if heading.lower().startswith(name)]
    if found != sorted(found, key=order.index):
        yield f"the sections stand in the order {found}"
    yield from (f"there is no section '{name}'" for name, needed in SECTIONS.items()
                if needed and name not in found)
    if not any("how to cite" in text.lower() for text in prose(notebook)):
        yield "nothing says how to cite"


RULES: tuple[Callable[[NotebookNode, Chapter], Iterator[str]], ...] = (
    opens_with_title, bootstraps_first, has_one_parameters_cell, is_plain_markdown, types_no_result,
    has_clean_outputs, describes_its_figures, checks_what_it_shows, shows_every_check,
    names_whose_records, checks_something, answers_its_claims, fits_a_screen, is_plain_python,
    follows_the_order,
)
#: The rules of a page beside the chapters: it reruns no paper with other parameters, and it is read
#: in the book, not on Colab.
PAGE_RULES = tuple(rule for rule in RULES if rule not in (
    bootstraps_first, has_one_parameters_cell, is_plain_markdown, answers_its_claims,
    follows_the_order))


@cache
def committed(path: Path) -> tuple[NotebookNode, Chapter]:
    says = {e.id: e.says for e in load_expectations() if e.chapter == path.stem}
    claims = [claim for claim in load_claims() if claim.chapter == path.stem]
    chapter = Chapter(path.stem, says, claims, ALLOWED.get(path.stem, set()),
                      path.stem not in SYNTHESES)
    return nbformat.v4.reads(path.read_text(encoding="utf-8")), chapter


@pytest.mark.parametrize("path", [*NOTEBOOKS, *PAGES], ids=lambda path: path.stem)
def test_a_notebook_keeps_the_rules(path):
    rules = RULES if path in NOTEBOOKS else PAGE_RULES
    if path.stem in TOOLS:
        rules = [rule for rule in rules if rule is not follows_the_order]
    wrong = [f"{rule.__name__}: {said}" for rule in rules for said in rule(*committed(path))]
    assert not wrong, "\n".join(wrong)


def test_every_expectation_belongs_to_a_notebook_and_every_function_to_one():
    assert {expectation.chapter for expectation in load_expectations()} <= {
        path.stem for path in (*NOTEBOOKS, *PAGES)}
    defined = Counter(name for path in (*NOTEBOOKS, *PAGES) for name in {
        node.name for cell in code(committed(path)[0])
        for node in nodes(cell, ast.FunctionDef, ast.ClassDef) if not node.col_offset})
    assert max(defined.values(), default=1) == 1, defined.most_common(3)


def test_every_fault_still_has_its_place():
    faults = [fault for path in sorted((CHECKOUT / "tests/faults").rglob("*.yaml"))
              for fault in yaml.safe_load(path.read_text(encoding="utf-8"))]
    assert len({fault["id"] for fault in faults}) == len(faults)
    for fault in faults:
        text = (CHECKOUT / fault["file"]).read_text(encoding="utf-8")
        assert text.count(fault["old"]) == 1, fault["id"]
        for test in fault.get("tests", ()):
            file, name = re.match(r"([^:]+)(?:::(\w+))?", test).groups()
            assert f"def {name or 'test_'}" in (CHECKOUT / file).read_text(encoding="utf-8"), test
        if "reaches" in fault:
            chapter = committed(CHECKOUT / f"notebooks/{fault['chapter']}.ipynb")[1]
            assert set(fault["reaches"]) <= set(chapter.says), fault["id"]


# ------------------------------------------------------------------------------ every rule, broken

DEMO = Chapter(
    "demo", {"demo-acc": "at least 90 % are right"},
    [SimpleNamespace(id="demo-claim", compares=[SimpleNamespace(check="demo-acc")],
                     section="what-differs-from-it")],
    {"0.3"})


def good() -> NotebookNode:
    """A small chapter that keeps every rule."""
    picture = {"image/png": "aGk=", "text/plain": "Figure curve: It falls."}
    about = {"name": "curve", "alt": "It falls.", "caption": "Watch it fall."}
    cells = [
        new_markdown_cell("# Demo\n\nA paper, arXiv:2103.03386."),
        new_code_cell("import subprocess\nwanted = ['pip', '--no-deps', 'munkres']  # no numpy",
                      metadata={"tags": ["bootstrap"]}),
        new_code_cell("seed: int = 0  # decides all | paper: not set | another network",
                      metadata={"tags": ["parameters"]}),
        new_code_cell("from clusterbook import evidence\nevidence.say('demo')",
                      outputs=[new_output("execute_result", {"text/plain": "ours: 0.95"})]),
        new_markdown_cell("## The idea\n\nA share of 0.3.\n\n## The mathematics\n\n"
                          "$\\mathrm{cut}$ with `0.5`, of 1,797 in ![A sketch](sketch.png)"),
        new_code_cell("figures.show(figure, name='curve')", outputs=[
            new_output("display_data", picture, metadata={"clusterbook": about})]),
        new_code_cell("evidence.check('demo-acc', accuracy)", outputs=[
            new_output("execute_result", {"text/plain": "✓ at least 90 % are right"})]),
        new_markdown_cell("## What differs from it\n\n## What to change\n\n## Limits\n\n"
                          "How to cite: so.\n\n## References"),
    ]
    notebook = new_notebook(cells=cells)
    for number, cell in enumerate(code(notebook), start=1):
        cell.execution_count = number
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = number
    return notebook


BOOTSTRAP, PARAMETERS, IMPORTS, FIGURE, CHECK = range(5)        # the code cells of the good one


def source(number: int, old: str, new: str) -> Callable[[NotebookNode], None]:
    """Replace text in a code cell."""
    def change(notebook):
        cell = code(notebook)[number]
        assert old in cell.source
        cell.source = cell.source.replace(old, new)
    return change


def says(text: str) -> Callable[[NotebookNode], None]:
    """Add a line to the prose."""
    return lambda notebook: notebook.cells[4].update(source=f"{notebook.cells[4].source}\n{text}")


def shows(number: int, **data: str) -> Callable[[NotebookNode], None]:
    """Let a code cell display something else."""
    data = {kind.replace("_", "/"): text for kind, text in data.items()}
    output = new_output("display_data", data)
    return lambda notebook: code(notebook)[number].update(outputs=[output])


def about(**values: str) -> Callable[[NotebookNode], None]:
    """Describe the figure otherwise."""
    return lambda notebook: code(notebook)[FIGURE].outputs[0].metadata.clusterbook.update(values)


def tags(number: int, *names: str) -> Callable[[NotebookNode], None]:
    return lambda notebook: code(notebook)[number].metadata.update(tags=list(names))


def drop(number: int) -> Callable[[NotebookNode], None]:
    return lambda notebook: notebook.cells.remove(code(notebook)[number])


def twice(number: int) -> Callable[[NotebookNode], None]:
    return lambda notebook: notebook.cells.append(deepcopy(code(notebook)[number]))


def stream(name: str, text: str) -> Callable[[NotebookNode], None]:
    output = new_output("stream", name=name, text=text)
    return lambda notebook: code(notebook)[IMPORTS].outputs.append(output)


OTHER_CLAIM = SimpleNamespace(id="demo-claim", compares=[SimpleNamespace(check="demo-other")],
                              section="no-such-heading")
BROKEN = [
    (opens_with_title, lambda nb: nb.cells.pop(0), "not the title"),
    (bootstraps_first, tags(BOOTSTRAP), "'bootstrap'"),
    (bootstraps_first, source(BOOTSTRAP, "'--no-deps'", "'-q'"), "--no-deps"),
    (bootstraps_first, source(BOOTSTRAP, "subprocess", "os, numpy.random"), "imports ['numpy']"),
    (has_one_parameters_cell, source(PARAMETERS, "= 0", "= 2 * 3"), "literal"),
    (is_plain_markdown, says("see {cite}`dhillon`"), "role"),
    (is_plain_markdown, says("```{note}\nSo.\n```"), "directive"),
    (types_no_result, says("It reaches 95 percent."), "'95 percent'"),
    (types_no_result, about(caption="It falls to 0.1."), "'0.1'"),
    (types_no_result, lambda nb: nb.cells.pop(4), "nothing needs the allowed number '0.3'"),
    (has_clean_outputs, stream("stderr", "a warning"), "a warning"),
    (has_clean_outputs, stream("stdout", "saved in /home/me/x"), "/home/me/x"),
    (has_clean_outputs, lambda nb: nb.metadata.update(papermill={}), "['papermill']"),
    (has_clean_outputs, lambda nb: code(nb)[CHECK].update(execution_count=9), "not executed once"),
    (has_clean_outputs, lambda nb: nb.cells[0].pop("metadata"), "not a valid notebook"),
    (describes_its_figures, shows(FIGURE, image_png="aGk="), "no ['name', 'alt', 'caption']"),
    (describes_its_figures, twice(FIGURE), "one name: ['curve']"),
    (checks_what_it_shows, drop(CHECK), "no check after cell 4"),
    (checks_what_it_shows, shows(IMPORTS, text_plain="0.95"), None),    # verdicts need no check
    (checks_what_it_shows, tags(PARAMETERS, "nbval-ignore-output"), "between cell 2"),
    (checks_what_it_shows, source(CHECK, ")", ")  # NBVAL_IGNORE_OUTPUT"), "between cell 4"),
    (shows_every_check, shows(CHECK, text_plain="✗ at least 90 % are right (measured 0)"), "✗"),
    (shows_every_check, source(CHECK, "demo-acc", "demo-typo"), "demo-typo is expected nowhere"),
    (shows_every_check, source(CHECK, "'demo-acc'", "name"), "None is expected nowhere"),
    (shows_every_check, drop(CHECK), "demo-acc is not checked"),
    (shows_every_check, tags(CHECK, "nbval-ignore-output"), "is not compared"),
    (names_whose_records, source(FIGURE, "figure,", "evidence.load_records(),"), "cell 4 reads"),
    (checks_something, source(CHECK, "accuracy", "max(found, default=1.0)"), "a default"),
    (checks_something, source(CHECK, "accuracy", "found[0] if found else 1.0"), "found else 1.0"),
    (checks_something, source(CHECK, "accuracy", "found[0] if found else None"), None),
    (checks_something, source(CHECK, "accuracy", "bool(all(x > 0 for x in found))"), "all(…)"),
    (checks_something, source(CHECK, "accuracy", "spent['k-means']"), "a time of this machine"),
    (answers_its_claims, drop(CHECK), "needs the check demo-acc"),
    (fits_a_screen, says("\n" * 45), "lines: ## The idea"),
    (fits_a_screen, source(FIGURE, "figures", f"x = {'1' * 100}\nfigures"), "of 104 characters"),
    (fits_a_screen, source(FIGURE, "figures", "def f():" + 30 * "\n 1" + "\nfigures"), "f has 31"),
    (is_plain_python, source(FIGURE, "figures", "if quick:\n    1\nfigures"), "if quick"),
    (is_plain_python, source(FIGURE, "figures.show", "%matplotlib"), "not plain Python"),
    (follows_the_order, source(IMPORTS, "'demo'", "'tell'"), "verdicts of demo"),
    (follows_the_order, lambda nb: nb.cells.pop(4), "no section 'the idea'"),
    (follows_the_order, lambda nb: nb.cells.append(nb.cells.pop(4)), "in the order"),
    (follows_the_order, lambda nb: nb.cells.pop(), "how to cite"),
]


def test_each_rule_keeps_a_good_notebook_and_refuses_a_broken_one():
    assert {rule for rule, _, _ in BROKEN} == set(RULES)
    for rule in RULES:
        assert list(rule(good(), DEMO)) == []
    for rule, change, complaint in BROKEN:
        notebook = good()
        change(notebook)
        found = "\n".join(rule(notebook, DEMO))
        assert complaint in found if complaint else not found, (rule, complaint)
    found = "\n".join(answers_its_claims(good(), replace(DEMO, claims=[OTHER_CLAIM])))
    assert "needs the check demo-other" in found and "#no-such-heading" in found
    assert "says no verdicts" in "".join(follows_the_order(good(), replace(DEMO, reruns=False)))
