"""The rules of a chapter's notebook, and each of them broken; pages keep most of them too.

A rule takes a notebook and what the book knows of its chapter, and yields what is wrong.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import yaml
from _support import CHECKOUT
from nbformat import NotebookNode
from nbformat.v4 import new_output

from bookledger import load_claims, load_expectations

NOTEBOOKS = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))
AUDITS = sorted((CHECKOUT / "book" / "audit").glob("*.ipynb"))
PAGES = [*sorted((CHECKOUT / "book").glob("*.ipynb")), *AUDITS]
#: A parameter's line with a field of Colab's form that fits its type.
FIELD = re.compile(r"""\w+:\ (
    int\ =\ .*\ \ \#\ @param\ {"type":"integer"} | float\ =\ .*\ \ \#\ @param\ {"type":"number"}
    | bool\ =\ .*\ \ \#\ @param\ {"type":"boolean"} | list.*\ \ \#\ @param\ {"type":"raw"}
    | str\ =\ (".*")\ \ \#\ @param\ ({"type":"string"} | \[.*\2.*\](\ {"allow-input":true})?)
    )""", re.X)
SCREEN, WIDTH = 45, 100         # lines of a cell, characters of a line of code

#: Numbers that look like results and may stand in a chapter's prose.
ALLOWED: dict[str, set[str]] = {
    "tell": {"95.16%", "10%", "0.01", "0.02", "0.2"},   # the paper's result; settings
    # settings: sigma in the released code and in the paper; noise, weights, delta, lambda
    "idc": {"0.25", "0.5", "0.01", "0.1"},
    "deepcluster": {"0.8"},             # the bound of the paper's Figure 2b, as quoted
    "measuring": {"0.22"},              # a version of scikit-learn
}

TOOLS = {"idc_table", "tell_released"}      # for data of one's own: without a chapter's sections
SYNTHESES = {"comparison"}      # a chapter that reruns no paper has all sections, and no verdicts
#: Calls that train, so that what follows from them depends on the processor.
TRAINS = {"fit", "fit_predict", "fit_transform", "partial_fit", "train", "train_classifier"}
#: Texts of figures that follow from such a call and still are the same everywhere.
STEADY = {"center-contents"}    # no digit's share of a recorded cluster lies near the quarter
#: Figures in which nothing is measured: drawings, and tables that the text gives.
BY_HAND = {"architecture", "greedy-and-best", "shifted"}
#: Roles, directives, targets, substitutions.
MYST = re.compile(r"\{[A-Za-z][\w:+-]*\}`|^\s*(`{3,}|~{3,})\s*\{|^\s*:{3,}|^\s*\([\w -]+\)=\s*$"
                  r"|\{\{.*?\}\}", re.M)
#: A view that the book shows when it is built; elsewhere a reader sees where it is.
VIEW = re.compile(r"^:::\{view\} (?P<view>[\w -]+)\n\n"
                  r"[^\n]*\]\((?P<link>[^)#]*)\)[^\n]*\n:::$", re.M)
NOT_PROSE = re.compile(r"`[^`]*`|\]\([^)]*\)|<[^>]+>|https?://\S+|(arXiv|doi):\s?\S+"
                       r"|\b(Theorem|Section|Table|Figure|Eq\.)\s\(?\d+(\.\d+)+(?!\s?(%|per))")
RESULT = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*\s?(?:%|percent\b|per cent\b)"
                    r"|(?<![\w.])\d+\.\d+|±\s?\d+")
FLOAT = re.compile(r"(?<![\w.])\d+\.\d+|\b(?:nan|inf)\b")
CLOCK = re.compile(r"seconds|spent|clock|(?<!Run)times?\b", re.IGNORECASE)
HOME = re.compile(r"/(?:home|root|tmp|Users|kaggle|content)/|[A-Z]:\\")
#: Level-2 headings in their order, by their first words; a chapter may lack those in `OPTIONAL`.
SECTIONS = ["why", "the architecture", "the method", "training", "reading", "does it work",
            "when it misleads", "questions", "limits", "key takeaways", "references"]
OPTIONAL = {"the architecture", "training"}


def code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook: NotebookNode) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def tagged(notebook: NotebookNode, tag: str) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if tag in cell.get("metadata", {}).get("tags", [])]


def texts(cell: NotebookNode) -> Iterator[str]:
    """Every text that a cell displays, except a figure's alternative text and caption."""
    for output in cell.outputs:
        if "clusterbook" not in output.get("metadata", {}):
            yield from (str(value) for kind, value in output.get("data", {}).items()
                        if not kind.startswith("image/"))
            yield output.get("text", "")


def figures(*cells: NotebookNode) -> list[NotebookNode]:
    return [output for cell in cells for output in cell.outputs
            if any(kind.startswith("image/") for kind in output.get("data", {}))]


def headings(notebook: NotebookNode, level: str = "#{1,6}") -> list[str]:
    pattern = re.compile(rf"^{level} +(.+?)\s*#*$", re.M)
    return [found for text in prose(notebook) for found in pattern.findall(text)]


def parsed(cell: NotebookNode) -> ast.Module:
    try:
        return ast.parse(cell.source)
    except SyntaxError:         # is_plain_python says so
        return ast.Module([], [])


def nodes(cell: NotebookNode, *kinds: type) -> list:
    """A cell's syntax nodes of some kinds, in the order of the source."""
    found = [node for node in ast.walk(parsed(cell)) if isinstance(node, kinds)]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def calls(cell: NotebookNode, *names: str) -> list[ast.Call]:
    """The calls of ``name(…)`` and ``anything.name(…)``."""
    return [node for node in nodes(cell, ast.Call)
            if {getattr(node.func, "attr", None), getattr(node.func, "id", None)} & set(names)]


def checks(*cells: NotebookNode) -> list[str | None]:
    """The names of the cells' checks; None for one whose name is not written out."""
    names = (call.args[0] if call.args else None for cell in cells for call in calls(cell, "check"))
    return [name.value if isinstance(name, ast.Constant) else None for name in names]


def ignored(cell: NotebookNode) -> bool:
    return any("nbval" in tag for tag in cell.metadata.get("tags", [])) or "NBVAL" in cell.source


def opens_with_title(notebook, chapter):
    if not notebook.cells[0].source.startswith("# ") or len(headings(notebook, "#")) != 1:
        yield f"the first cell is not the title, or there are others: {headings(notebook, '#')}"


def prepares_itself(notebook, chapter):
    parameters = tagged(notebook, "parameters")
    if tagged(notebook, "bootstrap") != code(notebook)[:1]:
        yield "the first executable cell, and only that, must be tagged 'bootstrap'"
    if len(parameters) != 1:
        yield "one executable cell must be tagged 'parameters'"
    for tag, hides in (("bootstrap", "remove-input"), ("parameters", "hide-input")):
        if any(hides not in cell.metadata.tags for cell in tagged(notebook, tag)):
            yield f"on the page what is tagged {tag!r} is in a reader's way: tag it {hides!r} too"
    for cell in parameters:
        for line in cell.source.splitlines():
            if not (line.startswith("#") or FIELD.fullmatch(line)):
                yield f"no field of Colab's form, or not one that fits: {line}"
    imported = {alias.name.partition(".")[0] for node in nodes(code(notebook)[0], ast.Import)
                for alias in node.names}
    if others := imported - sys.stdlib_module_names:
        yield f"the bootstrap cell imports {sorted(others)}"


def results(*texts: str) -> set[str]:
    """Numbers that look like results."""
    return {match for text in texts for match in RESULT.findall(NOT_PROSE.sub(" ", text))}


def is_plain_markdown(notebook, chapter):
    for match in filter(None, (MYST.search(VIEW.sub("", text)) for text in prose(notebook))):
        yield f"MyST in Markdown: {match[0].strip()!r}"


def types_no_result(notebook, chapter):
    captions = [figure.metadata.get("clusterbook", {}).get(key, "")
                for figure in figures(*code(notebook)) for key in ("alt", "caption")]
    found = results(*prose(notebook), *captions)
    yield from (f"a typed result: {text!r}" for text in found - chapter.allowed)
    yield from (f"nothing needs the allowed number {text!r}"
                for text in chapter.allowed - found - results(*prose(chapter.pair)))


def has_clean_outputs(notebook, chapter):
    if len({cell.get("id") for cell in notebook.cells} - {None}) < len(notebook.cells):
        yield "cell ids are missing or come twice"      # nbformat would repair them in silence
    counts = [cell.execution_count for cell in code(notebook)]
    if counts != list(range(1, len(counts) + 1)):
        yield f"the cells were not executed once, from top to bottom: {counts}"
    for part in (notebook, *notebook.cells):
        if noise := {"papermill", "execution"} & set(part.get("metadata", {})):
            yield f"metadata of a run: {sorted(noise)}"
    for cell in code(notebook):
        yield from (f"stored trouble: {output.get('ename') or output.get('text')}"
                    for output in cell.outputs
                    if output.output_type == "error" or output.get("name") == "stderr")
        yield from (f"a path of a machine: {text}" for text in filter(HOME.search, texts(cell)))


def checks_what_it_shows(notebook, chapter):
    shown = None
    for number, cell in enumerate([*code(notebook), None], start=1):
        if cell and "remove-cell" in cell.metadata.get("tags", []) and figures(cell):
            continue        # kept for those who run the notebook; a page does not show it
        if cell is None or ignored(cell) or figures(cell) or any(
                FLOAT.search(text) and not text.startswith("✓ ") for text in texts(cell)):
            if shown:
                yield f"no check after cell {shown}, which shows something, before cell {number}"
            shown = number
        elif next(texts(cell), "").startswith("✓ "):
            shown = None


def shows_every_check(notebook, chapter):
    used = set(checks(*code(notebook)))
    for number, cell in enumerate(code(notebook), start=1):
        wanted = [f"✓ {chapter.says.get(name)}" for name in checks(cell)]
        lines = [line for text in texts(cell) for line in text.splitlines()
                 if line[:2] in ("✓ ", "✗ ")]
        if not calls(cell, "drawn") and (lines != wanted or wanted and ignored(cell)):
            yield f"cell {number} shows {lines} instead of {wanted}, or is not compared"
    yield from (f"the check {name} is expected nowhere" for name in used - set(chapter.says))
    yield from (f"the expectation {name} is not checked"
                for name in set(chapter.says) - used - set(checks(*code(chapter.pair))))


def compares_what_it_draws(notebook, chapter):
    """That each figure is expected, and with which numbers, is in the line that is compared."""
    compared = [cell for cell in code(notebook) for _ in calls(cell, "drawn")]
    if compared and not (CHECKOUT / "data/expectations/drawn" / f"{chapter.page}.json").is_file():
        yield f"nothing says what its figures draw: run python tests/drawn {chapter.page}"
    if len(compared) != bool(figures(*code(notebook))):
        yield f"it compares what its figures draw {len(compared)} times"
    if any(ignored(cell) or not next(texts(cell), "").startswith("✓ ") for cell in compared):
        yield "its figures draw other numbers than expected, or nothing compares them"


def says_nothing_live(notebook, chapter):
    """No caption, alternative text or title of a table follows from a training of this run."""
    live: set[str] = set()

    def names(node: ast.AST, context: type) -> set[str]:
        inner = {id(part) for loop in ast.walk(node) if isinstance(loop, ast.comprehension)
                 for part in ast.walk(loop.target)}
        return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)
                and isinstance(part.ctx, context) and id(part) not in inner}

    def follows(node: ast.AST) -> set[str]:
        own = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
        called = {getattr(part.func, "attr", getattr(part.func, "id", None))
                  for part in ast.walk(node) if isinstance(part, ast.Call)}
        if isinstance(node, ast.FunctionDef):
            own |= names(node, ast.Store)
        return names(node, ast.Load) & live - own | called & TRAINS

    for number, cell in enumerate(code(notebook), start=1):
        for node in parsed(cell).body:
            if follows(node):
                live |= names(node, ast.Store) | {getattr(node, "name", "")}
            elif isinstance(node, ast.Assign):
                live -= names(node, ast.Store)
        for call in calls(cell, "show", "table"):
            named = {key.arg: key.value for key in call.keywords}
            told = [named[key] for key in ("alt", "caption") if key in named] + (
                call.args[1:2] if call.func.attr == "table" else [])
            name = ast.unparse(named["name"]).strip("'") if "name" in named else "of a table"
            if name not in STEADY and (found := set().union(*map(follows, told))):
                yield f"cell {number}: a text {name} follows from {', '.join(sorted(found))}"


def says_where_from(notebook, chapter):
    """Below each figure: live or recorded, the seeds, the time."""
    for number, cell in enumerate(code(notebook), start=1):
        for call in calls(cell, "show"):
            name = next(key.value.value for key in call.keywords if key.arg == "name")
            told = [one["origin"] if "origin" in one else all(
                note for *_, note in one.get("explorable", {"places": [[""]]})["places"])
                    for one in (figure.metadata["clusterbook"] for figure in figures(cell))]
            if name not in BY_HAND and not all(told):
                yield f"cell {number} does not say where figure {name} comes from"


def checks_something(notebook, chapter):
    """No check passes because there was nothing to compare, or because a machine was fast."""
    for number, cell in enumerate(code(notebook), start=1):
        for part in chain.from_iterable(map(ast.walk, calls(cell, "check"))):
            ends = getattr(part, "values", []) if isinstance(part, ast.BoolOp) else (
                [part.body, part.orelse] if isinstance(part, ast.IfExp) else [])
            if any(isinstance(end, ast.List | ast.Constant) and ast.unparse(end) != "None"
                   for end in ends) or isinstance(part, ast.keyword) and part.arg == "default":
                yield f"cell {number} checks a constant: {ast.unparse(part)}"
            if isinstance(part, ast.Call) and ast.unparse(part.func) in ("all", "np.nan_to_num"):
                yield f"cell {number} checks {ast.unparse(part)}, true of nothing"
            if isinstance(part, ast.Name) and CLOCK.search(part.id):
                yield f"cell {number} checks a time of this machine: {part.id}"


def answers_its_claims(notebook, chapter):
    used = {None, *checks(*code(notebook), *code(chapter.pair))}
    for claim in chapter.claims:
        yield from (f"the claim {claim.id} needs the check {name}"
                    for name in {number.check for number in claim.compares} - used)
        page, _, place = (claim.section or "").rpartition("#")
        anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
                   for heading in headings(chapter.pair if page else notebook)}
        if place and place not in anchors:
            yield f"the claim {claim.id} points to #{claim.section}, which is no heading"


def fits_a_screen(notebook, chapter):
    for cell in notebook.cells:
        lines = cell.source.splitlines()
        if len(lines) > SCREEN and cell not in tagged(notebook, "parameters"):
            yield f"a cell of {len(lines)} lines: {lines[0]}"
        yield from (f"a line of {len(line)} characters: {line}" for line in lines
                    if cell.cell_type == "code" and len(line) > WIDTH)


def is_plain_python(notebook, chapter):
    for number, cell in enumerate(code(notebook), start=1):
        try:
            ast.parse(cell.source)
        except SyntaxError as error:
            yield f"cell {number} is not plain Python: {error.text}"
        if calls(cell, "load_records"):
            yield f"cell {number} reads records itself; evidence.recorded knows whose they are"
        for choice in nodes(cell, ast.If, ast.IfExp):
            names = {part.id for part in ast.walk(choice.test) if isinstance(part, ast.Name)}
            if names & {"quick", "QUICK", "fast", "smoke", "demo"}:
                yield f"a shortened path of its own: if {ast.unparse(choice.test)}"


def follows_the_order(notebook, chapter):
    first, last = sections(notebook)[""], sections(notebook).get("key takeaways", [])
    said = [[found["view"] for cell in part for found in VIEW.finditer(cell.source)]
            for part in (first, last)]
    if said != [[f"{view} {chapter.name}"] * chapter.reruns for view in ("in-brief", "result")]:
        yield "it begins with its work in brief, if it reruns one, and shows the result at the end"
    found = [name for heading in headings(notebook, "##") for name in SECTIONS
             if heading.lower().startswith(name)]
    if found != sorted(found, key=SECTIONS.index):
        yield f"the sections stand in the order {found}"
    yield from (f"there is no section '{name}'" for name in {*SECTIONS} - OPTIONAL - {*found})
    if not any("how to cite" in text.lower() for text in prose(notebook)):
        yield "nothing says how to cite"


def sections(notebook):
    """The cells of each section by its name in `SECTIONS`; those before the first as ``""``.

    A cell with several headings is in the section of the last.
    """
    found, name = {"": []}, ""
    for cell in notebook.cells:
        for heading in re.findall(r"^## +(.+)$", cell.source, re.M) * (
                cell.cell_type == "markdown"):
            name = next((one for one in SECTIONS if heading.lower().startswith(one)), name)
        found.setdefault(name, []).append(cell)
    return found


def shows_the_method(notebook, chapter):
    """The lesson first: nothing of a notebook's machinery before it, and code that teaches."""
    hidden = {"remove-input", "remove-cell"}
    first = [cell for cell in sections(notebook)[""] if cell.cell_type == "code"]
    if any(not hidden & {*cell.metadata.get("tags", [])} for cell in first):
        yield "before the first section no line offers code: tag its cells 'remove-input'"
    if any(cell in first for cell in tagged(notebook, "parameters")):
        yield "the parameters stand where one has seen what there is to change"
    seen = [cell for cell in code(notebook)
            if not (hidden | {"hide-input", "hide-cell"}) & {*cell.metadata.get("tags", [])}]
    if 3 * len(seen) < len(code(notebook)):
        yield f"{len(seen)} of {len(code(notebook))} code cells are visible, less than a third"


def asks_and_answers(notebook, chapter):
    """Three questions, each with an answer that was executed and is folded."""
    answers, cells = [], sections(notebook).get("questions", [])
    for question, answer in zip(cells, cells[1:], strict=False):
        if answer.get("metadata", {}).get("tags", []) == ["hide-cell"] and answer.outputs:
            answers.append(question.cell_type == "markdown" and "?" in question.source)
    if answers != [True] * 3:
        yield f"it asks and answers {len(answers)} questions instead of three"


RULES: tuple[Callable[[NotebookNode, SimpleNamespace], Iterator[str]], ...] = (
    opens_with_title, prepares_itself, is_plain_markdown, types_no_result, has_clean_outputs,
    checks_what_it_shows, shows_every_check, compares_what_it_draws, says_nothing_live,
    says_where_from, checks_something, answers_its_claims, fits_a_screen, is_plain_python,
    follows_the_order, shows_the_method, asks_and_answers)
LESSONS = (follows_the_order, shows_the_method, asks_and_answers)
#: Pages beside the chapters rerun no paper with other parameters, and are not read on Colab.
PAGE_RULES = tuple(rule for rule in RULES if rule not in (
    prepares_itself, is_plain_markdown, answers_its_claims, *LESSONS))


@cache
def committed(path: Path) -> tuple[NotebookNode, SimpleNamespace]:
    """A notebook, and what the book knows of it beside it."""
    # An audit page demonstrates the errata of its work too.
    says = {e.id: e.says for e in load_expectations() if e.chapter == path.stem != "errata"
            or path in AUDITS and e.id.startswith(f"errata-{path.stem}-")}
    other = CHECKOUT / ("notebooks" if path in AUDITS else "book/audit") / path.name
    pair = nbformat.read(other, as_version=4) if path.parent != CHECKOUT / "book" and (
        other.is_file()) else nbformat.v4.new_notebook()
    chapter = SimpleNamespace(
        name=path.stem, says=says,                                      # check → its sentence
        claims=[claim for claim in load_claims() if claim.chapter == path.stem],
        allowed=ALLOWED.get(path.stem, set()), reruns=path.stem not in SYNTHESES,
        pair=pair,                      # its audit page, or on that page the chapter
        page=f"audit/{path.stem}" if path in AUDITS else path.stem)
    return nbformat.v4.reads(path.read_text(encoding="utf-8")), chapter


@pytest.mark.parametrize("path", [*NOTEBOOKS, *PAGES],
                         ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_notebook_keeps_the_rules(path):
    rules = RULES if path in NOTEBOOKS else PAGE_RULES
    notebook, chapter = committed(path)
    wrong = [f"{rule.__name__}: {said}" for rule in rules for said in rule(notebook, chapter)
             if not (path.stem in TOOLS and rule in LESSONS)]
    assert not wrong, "\n".join(wrong)
    # Verdicts are the build's; a view tells where they are.
    assert "cb-verdict" not in json.dumps([cell.outputs for cell in code(notebook)])
    views = [found for text in prose(notebook) for found in VIEW.finditer(text)]
    assert len(views) == sum(text.count(":::{view}") for text in prose(notebook))
    assert all((path.parent / found["link"]).is_file() for found in views)


def test_every_expectation_belongs_to_a_notebook_and_every_function_to_one():
    assert {expectation.chapter for expectation in load_expectations()} <= {
        "errata", *(path.stem for path in (*NOTEBOOKS, *PAGES))}     # shown by the audit pages
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


BOOTSTRAP, PARAMETERS, IMPORTS, CHECK, LAST = 0, 6, 7, 9, -2    # code cells of the weights' chapter
PROSE, TITLE, CALL, NAMES = None, "# Weight", "evidence.check(", '["torch", "glorot"]'
EMPTY = (PROSE, None, "")       # all text


def shows(number: int, text: str, name: str = "stdout") -> Callable[[NotebookNode], None]:
    output = new_output("stream", name=name, text=text)
    return lambda nb: code(nb)[number].update(outputs=[output])


def tags(number: int, *names: str) -> Callable[[NotebookNode], None]:
    return lambda nb: code(nb)[number].metadata.update(tags=list(names))


#: What changes: a cell (or the prose), its text and another in its place; or a function; or what is
#: known of the chapter. And what is complained of.
BROKEN: dict[Callable, list[tuple]] = {
    opens_with_title: [(lambda nb: nb.cells.pop(0), "not the title")],
    prepares_itself: [
        (tags(BOOTSTRAP), "'bootstrap'"), (tags(IMPORTS, "parameters"), "'parameters'"),
        (tags(BOOTSTRAP, "bootstrap"), "tag it 'remove-input'"),
        (tags(PARAMETERS, "parameters"), "tag it 'hide-input'"),
        ((PARAMETERS, "  # @param ", "  # "), "no field of Colab's form"),
        ((PARAMETERS, '{"type":"integer"}', '{"type":"number"}'), "layer: int"),
        ((PARAMETERS, '{"type":"raw"}', '{"type":"integer"}'), "hidden: list"),
        ((PARAMETERS, NAMES, '["glorot"]'), "init: str"),
        ((PARAMETERS, '{"type":"boolean"}', "[false]"), "bias: bool"),
        ((BOOTSTRAP, "import ", "import numpy, "), "imports ['numpy']")],
    is_plain_markdown: [
        ((PROSE, TITLE, "# {cite}`dhillon`"), "'{cite}`'"),
        ((PROSE, TITLE, "```{note}\nSo.\n```\n# "), "'```{'"),
        ((PROSE, "](../book/scorecard.md)", ""), "':::'")],
    types_no_result: [
        ({"allowed": {"0.3"}}, "nothing needs"),
        ((PROSE, TITLE, "# 95 percent"), "'95 percent'"),
        ((PROSE, TITLE, "# Section 4.1, Eq. (4.2.1), Theorem 2.3 and"), None),
        ((PROSE, TITLE, "# Table 4.1%"), "'4.1%'"),
        (lambda nb: figures(*code(nb))[0].metadata.clusterbook.update(alt="0.1"), "'0.1'")],
    has_clean_outputs: [
        (shows(IMPORTS, "a warning", "stderr"), "a warning"),
        (shows(IMPORTS, "saved in /home/me/x"), "/home/me/x"),
        (lambda nb: nb.metadata.update(papermill={}), "['papermill']"),
        (lambda nb: code(nb)[CHECK].update(execution_count=99), "not executed once"),
        (lambda nb: nb.cells[0].pop("id"), "cell ids are missing")],
    checks_what_it_shows: [
        (lambda nb: nb.cells.append(deepcopy(code(nb)[CHECK - 1])), None),
        (shows(-1, "0.95"), "no check after cell"),
        (lambda nb: [tags(i, "nbval-skip")(nb) for i in range(2)], "no check after cell 1")],
    shows_every_check: [
        (shows(CHECK, "✗ at least 90% are right (measured 0)"), "shows ['✗ at"),
        (tags(CHECK, "nbval-ignore-output"), "is not compared"),
        ((CHECK, CALL, f"{CALL}name, "), "None is expected nowhere"),
        (lambda nb: nb.cells.remove(code(nb)[CHECK]), "is not checked")],
    compares_what_it_draws: [
        ((LAST, ".drawn()", ".drawing()"), "0 times"), (shows(LAST, "✗"), "other numbers"),
        ({"page": "new"}, "run python tests/drawn new")],
    says_nothing_live: [
        ((LAST, None, "up = m.fit(X).l > 0\nfigures.show(f, name='a', caption=f'{up}')"), "m up"),
        ((LAST, None, "n = [m.fit(X) for m in ms]\nevidence.table(rows, f'{len(n)}')"), "from n"),
        ((LAST, None, "n = m.fit(X)\nn = 3\nfigures.show(f, name='a', caption=f'{n}')"), None)],
    says_where_from: [
        (lambda nb: figures(*code(nb))[0].metadata.clusterbook.pop("origin"), "not say where")],
    checks_something: [
        ((CHECK, CALL, f"{CALL}max(found, default=1.0), "), "a constant: default=1.0"),
        ((CHECK, CALL, f"{CALL}found[0] if found else 1.0, "), "found else 1.0"),
        ((CHECK, CALL, f"{CALL}found[0] if found else None, "), None),
        ((CHECK, CALL, f"{CALL}bool(all(x > 0 for x in found)), "), "true of nothing"),
        ((CHECK, CALL, f"{CALL}spent['k-means'], "), "a time of this machine")],
    answers_its_claims: [(EMPTY, "needs the check"), (EMPTY, "is no heading")],
    fits_a_screen: [
        ((PROSE, TITLE, "\n" * 45), "a cell of"),
        ((IMPORTS, "import", f"x = {'1' * 100}\nimport"), "of 104 characters")],
    is_plain_python: [
        ((IMPORTS, "import", "if quick:\n    1\nimport"), "if quick"),
        ((IMPORTS, "import", "%matplotlib\nimport"), "not plain Python"),
        ((CHECK, "check(", "load_records("), "reads records itself")],
    follows_the_order: [
        ((PROSE, "result weights", "result tell"), "in brief"), (EMPTY, "how to cite"),
        ((PROSE, "in-brief weights", "result weights"), "in brief"),
        ({"reruns": False}, "in brief"),
        (lambda nb: nb.cells.reverse(), "stand in the order")],
    shows_the_method: [
        (tags(1, "hide-input"), "offers code"),
        (lambda nb: nb.cells.insert(1, nb.cells.pop(nb.cells.index(code(nb)[PARAMETERS]))),
         "the parameters stand"),
        (lambda nb: [tags(i, "hide-input")(nb) for i in range(5, len(code(nb)))], "visible")],
    asks_and_answers: [
        (lambda nb: tagged(nb, "hide-cell")[-1].outputs.clear(), "2 questions"),
        (lambda nb: nb.cells.remove(tagged(nb, "hide-cell")[-1]), "2 questions")],
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_refuses_a_notebook_that_breaks_it(rule):
    good, chapter = committed(CHECKOUT / "notebooks" / "weights.ipynb")
    for change, complaint in BROKEN[rule]:
        notebook, about = deepcopy(good), chapter
        if isinstance(change, dict):
            about = SimpleNamespace(**vars(chapter) | change)
        elif callable(change):
            change(notebook)
        else:
            number, old, new = change
            cells = [code(notebook)[number]] if number is not None else notebook.cells
            assert old is None or any(old in cell.source for cell in cells), old
            for cell in cells:
                cell.source = new if old is None else cell.source.replace(old, new)
        found = "\n".join(rule(notebook, about))
        assert complaint in found if complaint else not found, (complaint, found)
