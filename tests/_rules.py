"""The rules of a chapter's notebook; pages keep most of them too.

A rule takes a notebook and what the book knows of its chapter, and yields what is wrong.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from types import SimpleNamespace

from _support import CHECKOUT
from nbformat import NotebookNode

#: A parameter's line with a field of Colab's form that fits its type.
FIELD = re.compile(r"""\w+:\ (
    int\ =\ .*\ \ \#\ @param\ {"type":"integer"} | float\ =\ .*\ \ \#\ @param\ {"type":"number"}
    | bool\ =\ .*\ \ \#\ @param\ {"type":"boolean"} | list.*\ \ \#\ @param\ {"type":"raw"}
    | str\ =\ (".*")\ \ \#\ @param\ ({"type":"string"} | \[.*\2.*\](\ {"allow-input":true})?)
    )""", re.X)
SCREEN, WIDTH = 45, 100         # lines of a cell, characters of a line of code

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
