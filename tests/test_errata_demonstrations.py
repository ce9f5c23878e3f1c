"""Every demonstration of an erratum fails once the defect in it is repaired.

All repairs are made at once, in one run of each audit page's last section: a check that holds then
would hold whatever the source says, and demonstrates nothing.
"""

import ast
import re
from pathlib import Path

import nbformat
import yaml

from bookledger import load_expectations, page

PAGES = sorted((Path(__file__).resolve().parents[1] / "book" / "audit").glob("*.ipynb"))
#: Of each check: a text in its demonstration, or in one that it uses, and the repair.
REPAIRS = yaml.safe_load(Path(__file__).with_name("repairs.yaml").read_text(encoding="utf-8"))


def run(sources: list[str]) -> dict[str, str]:
    """The line of each check of the cells; nothing else is shown."""
    names, held = {"__name__": "errata", "evidence": page("errata")}, {}
    for source in sources:
        tree = ast.parse(source)
        shown = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<cell>", "exec"), names)
        call = ast.unparse(shown) if shown else ""
        if found := re.match(r"evidence\.check\('([^']+)'", call):
            held[found[1]] = eval(call, names)
    return held


def demonstrations(path: Path) -> list[str]:
    """The code cells below the heading Errata."""
    cells = nbformat.read(path, as_version=4).cells
    start = next(i for i, cell in enumerate(cells) if cell.source.startswith("## Errata"))
    return [cell.source for cell in cells[start:] if cell.cell_type == "code"]


def test_every_demonstration_fails_once_its_defect_is_repaired():
    held: dict[str, str] = {}
    for path in PAGES:
        cells = demonstrations(path)
        for name, repair in REPAIRS.items():
            if repair is None or not name.startswith(f"{path.stem}-"):
                continue
            there = [i for i, source in enumerate(cells) if repair[0] in source]
            assert len(there) == 1 and cells[there[0]].count(repair[0]) == 1, f"{name}: {there}"
            cells[there[0]] = cells[there[0]].replace(*repair)
        held |= run(cells)
    assert set(held) == {f"errata-{name}" for name in REPAIRS}
    assert set(held) == {e.id for e in load_expectations() if e.chapter == "errata"}
    assert not {name: line for name, line in held.items() if not line.startswith("✗ ")}
