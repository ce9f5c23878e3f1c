"""Every notebook keeps the rules, and each of them is broken once."""

import ast
import json
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from _rules import LESSONS, PAGE_RULES, RULES, VIEW, code, figures, nodes, prose, tagged
from _support import CHECKOUT
from nbformat import NotebookNode
from nbformat.v4 import new_output

from bookledger import load_claims, load_expectations

NOTEBOOKS = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))
AUDITS = sorted((CHECKOUT / "book" / "audit").glob("*.ipynb"))
PAGES = [*sorted((CHECKOUT / "book").glob("*.ipynb")), *AUDITS]
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
BROKEN: dict[str, list[tuple]] = {
    "opens_with_title": [(lambda nb: nb.cells.pop(0), "not the title")],
    "prepares_itself": [
        (tags(BOOTSTRAP), "'bootstrap'"), (tags(IMPORTS, "parameters"), "'parameters'"),
        (tags(BOOTSTRAP, "bootstrap"), "tag it 'remove-input'"),
        (tags(PARAMETERS, "parameters"), "tag it 'hide-input'"),
        ((PARAMETERS, "  # @param ", "  # "), "no field of Colab's form"),
        ((PARAMETERS, '{"type":"integer"}', '{"type":"number"}'), "layer: int"),
        ((PARAMETERS, '{"type":"raw"}', '{"type":"integer"}'), "hidden: list"),
        ((PARAMETERS, NAMES, '["glorot"]'), "init: str"),
        ((PARAMETERS, '{"type":"boolean"}', "[false]"), "bias: bool"),
        ((BOOTSTRAP, "import ", "import numpy, "), "imports ['numpy']")],
    "is_plain_markdown": [
        ((PROSE, TITLE, "# {cite}`dhillon`"), "'{cite}`'"),
        ((PROSE, TITLE, "```{note}\nSo.\n```\n# "), "'```{'"),
        ((PROSE, "](../book/scorecard.md)", ""), "':::'")],
    "types_no_result": [
        ({"allowed": {"0.3"}}, "nothing needs"),
        ((PROSE, TITLE, "# 95 percent"), "'95 percent'"),
        ((PROSE, TITLE, "# Section 4.1, Eq. (4.2.1), Theorem 2.3 and"), None),
        ((PROSE, TITLE, "# Table 4.1%"), "'4.1%'"),
        (lambda nb: figures(*code(nb))[0].metadata.clusterbook.update(alt="0.1"), "'0.1'")],
    "has_clean_outputs": [
        (shows(IMPORTS, "a warning", "stderr"), "a warning"),
        (shows(IMPORTS, "saved in /home/me/x"), "/home/me/x"),
        (lambda nb: nb.metadata.update(papermill={}), "['papermill']"),
        (lambda nb: code(nb)[CHECK].update(execution_count=99), "not executed once"),
        (lambda nb: nb.cells[0].pop("id"), "cell ids are missing")],
    "checks_what_it_shows": [
        (lambda nb: nb.cells.append(deepcopy(code(nb)[CHECK - 1])), None),
        (shows(-1, "0.95"), "no check after cell"),
        (lambda nb: [tags(i, "nbval-skip")(nb) for i in range(2)], "no check after cell 1")],
    "shows_every_check": [
        (shows(CHECK, "✗ at least 90% are right (measured 0)"), "shows ['✗ at"),
        (tags(CHECK, "nbval-ignore-output"), "is not compared"),
        ((CHECK, CALL, f"{CALL}name, "), "None is expected nowhere"),
        (lambda nb: nb.cells.remove(code(nb)[CHECK]), "is not checked")],
    "compares_what_it_draws": [
        ((LAST, ".drawn()", ".drawing()"), "0 times"), (shows(LAST, "✗"), "other numbers"),
        ({"page": "new"}, "run python tests/drawn new")],
    "says_nothing_live": [
        ((LAST, None, "up = m.fit(X).l > 0\nfigures.show(f, name='a', caption=f'{up}')"), "m up"),
        ((LAST, None, "n = [m.fit(X) for m in ms]\nevidence.table(rows, f'{len(n)}')"), "from n"),
        ((LAST, None, "n = m.fit(X)\nn = 3\nfigures.show(f, name='a', caption=f'{n}')"), None)],
    "says_where_from": [
        (lambda nb: figures(*code(nb))[0].metadata.clusterbook.pop("origin"), "not say where")],
    "checks_something": [
        ((CHECK, CALL, f"{CALL}max(found, default=1.0), "), "a constant: default=1.0"),
        ((CHECK, CALL, f"{CALL}found[0] if found else 1.0, "), "found else 1.0"),
        ((CHECK, CALL, f"{CALL}found[0] if found else None, "), None),
        ((CHECK, CALL, f"{CALL}bool(all(x > 0 for x in found)), "), "true of nothing"),
        ((CHECK, CALL, f"{CALL}spent['k-means'], "), "a time of this machine")],
    "answers_its_claims": [(EMPTY, "needs the check"), (EMPTY, "is no heading")],
    "fits_a_screen": [
        ((PROSE, TITLE, "\n" * 45), "a cell of"),
        ((IMPORTS, "import", f"x = {'1' * 100}\nimport"), "of 104 characters")],
    "is_plain_python": [
        ((IMPORTS, "import", "if quick:\n    1\nimport"), "if quick"),
        ((IMPORTS, "import", "%matplotlib\nimport"), "not plain Python"),
        ((CHECK, "check(", "load_records("), "reads records itself")],
    "follows_the_order": [
        ((PROSE, "result weights", "result tell"), "in brief"), (EMPTY, "how to cite"),
        ((PROSE, "in-brief weights", "result weights"), "in brief"),
        ({"reruns": False}, "in brief"),
        (lambda nb: nb.cells.reverse(), "stand in the order")],
    "shows_the_method": [
        (tags(1, "hide-input"), "offers code"),
        (lambda nb: nb.cells.insert(1, nb.cells.pop(nb.cells.index(code(nb)[PARAMETERS]))),
         "the parameters stand"),
        (lambda nb: [tags(i, "hide-input")(nb) for i in range(5, len(code(nb)))], "visible")],
    "asks_and_answers": [
        (lambda nb: tagged(nb, "hide-cell")[-1].outputs.clear(), "2 questions"),
        (lambda nb: nb.cells.remove(tagged(nb, "hide-cell")[-1]), "2 questions")],
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_refuses_a_notebook_that_breaks_it(rule):
    good, chapter = committed(CHECKOUT / "notebooks" / "weights.ipynb")
    for change, complaint in BROKEN[rule.__name__]:
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
