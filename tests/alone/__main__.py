"""What changes each figure, found by drawing it: ``python tests/alone [--check] [CHAPTER…]``.

A chapter is executed whole, and once for each of its figures alone, whose picture and numbers must
be the same; at a paper's widths, in every style, none of its texts may be cut or overlap another
(`startup.py`). Then its figures are drawn with the value to try of each parameter that their cells
read, one parameter at a time. What left a figure the same is written to ``book/figures.csv``;
``--check`` compares instead. Drawings are kept in ``_build/alone``: a stopped run resumes, and only
figures whose cells changed are drawn again. After a change of the library, remove that folder.
``WORKERS=4`` draws four at a time.
"""

import csv
import hashlib
import io
import os
import re
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from PIL import Image

from bookledger import config, execution, parameters, runs, slices
from clusterbook.checks import InputError
from clusterbook.paths import write_atomically

KEPT = config.root() / "_build" / "alone"
UNFIT: list[str] = []       # figures that can't be read at a paper's width
ASIDE = {**execution.ONE_THREAD, "CLUSTERBOOK_FORMAT": "png", "CUDA_VISIBLE_DEVICES": ""}


def drawn(chapter: parameters.Chapter, only: list[str], whole: bool = False, **typed: str
          ) -> dict[str, str]:
    """Figure → a digest of its picture and its numbers; "" if these values are refused."""
    figures = {name: one for name, one in chapter.figures().items() if name in only}
    words = "-".join(part for pair in typed.items() for part in pair) or "whole" * whole or "alone"
    kept = {name: KEPT / chapter.name / f"{name}-{code(chapter, one)}-{words}"
            for name, one in figures.items()}
    missing = [one for name, one in figures.items() if not kept[name].is_file()]
    if missing:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as profile:
            starts = Path(profile, "profile_default", "startup")
            if whole:
                shutil.copytree(Path(__file__).parent, starts, ignore=shutil.ignore_patterns("__*"))
            try:
                runs.make(runs.Run(
                    chapter, None, chapter.values(None, typed), figures=Path(folder),
                    only=() if whole else missing, variables=ASIDE | {"IPYTHONDIR": profile}))
            except InputError as error:
                print(f"{chapter.name} {typed}: {error}", flush=True)
            for one in missing:
                for file in Path(folder).glob(f"{one.name}.faults"):
                    UNFIT.extend(f"{chapter.name} {one.name}, {line}" for line
                                 in file.read_text(encoding="utf-8").splitlines())
                write_atomically(kept[one.name], digest(Path(folder), one.name).encode())
    return {name: path.read_text(encoding="utf-8") for name, path in kept.items()}


def code(chapter: parameters.Chapter, figure: slices.Drawn) -> str:
    """A digest of the cells that draw a figure, and of the chapter's parameters."""
    cells = chapter.notebook.cells
    told = [*(cells[place].source for place in figure.cells),
            *(cell.source for cell in cells if slices.tagged(cell))]
    return config.sha256("\n".join(told).encode())[:12]


def digest(folder: Path, name: str) -> str:
    """Of a figure's numbers and of the pixels of its picture, or of each step's."""
    numbers = folder / f"{name}.csv"
    if not numbers.is_file():
        return ""
    told = [line for line in numbers.read_bytes().splitlines() if not line.startswith(b"#")]
    for path in sorted(folder.glob(f"{name}*.png")):
        if re.fullmatch(r"(-\d+)?", path.stem.removeprefix(name)):
            told.append(Image.open(path).convert("RGB").tobytes())
    return hashlib.sha256(b"".join(told)).hexdigest()[:16]


def table(chapter: parameters.Chapter, pool: ThreadPoolExecutor) -> tuple[list[list[str]], int]:
    """The rows of a chapter, and how many figures alone differ from those of the whole run."""
    known = chapter.figures()
    # Without the table: whatever the cells of a figure read.
    bare = slices.figures(chapter.notebook, chapter.parameters)
    reach = {name: [one for one in bare if name in bare[one].parameters]
             for name, p in chapter.parameters.items() if p.other is not None}
    usual, wrong = pool.submit(drawn, chapter, [*known], whole=True), 0
    alone = {name: pool.submit(drawn, chapter, [name]) for name in known}
    tries, sides = {}, {}
    for name, only in reach.items():
        p = chapter.parameters[name]
        value = {name: parameters.typed(p.other).strip('"')}
        tries[name] = pool.submit(drawn, chapter, only, **value)
        if p.beside:
            side = dict([p.beside])
            sides[name] = [pool.submit(drawn, chapter, only, **more) for more in (
                side, side | value)]
    usual, rows = usual.result(), []
    for name, future in alone.items():
        if future.result() != {name: usual[name]}:
            wrong += 1
            print(f"{chapter.name} {name} alone differs from the whole run's", flush=True)
    for name in known:
        same = []
        for one in (each for each, only in reach.items() if name in only):
            other, sided = tries[one].result()[name], {
                each.result()[name] for each in sides.get(one, [])}
            if other in ("", usual[name]) and len(sided) < 2 and (other or sided):
                same.append(one)
        if same:
            rows.append([chapter.name, name, " ".join(same)])
            print(f"{chapter.name} {name}: the same with {' '.join(same)}", flush=True)
    return rows, wrong


def main(arguments: list[str]) -> int:
    path, wrong = config.root() / slices.TABLE, 0
    names = [name for name in arguments if name != "--check"] or config.chapters()
    for name in names:
        with ThreadPoolExecutor(int(os.environ.get("WORKERS", 1))) as pool:
            rows, differing = table(parameters.read(name), pool)
        wrong += differing
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
        others = [row for row in csv.reader(before.splitlines()) if row[0] in config.chapters()]
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([slices.COLUMNS, *sorted(
            [*(row for row in others if row[0] != name), *rows],
            key=lambda row: config.chapters().index(row[0]))])
        if "--check" not in arguments:
            write_atomically(path, out.getvalue().encode())
        elif out.getvalue() != before:
            wrong += 1
            print(f"{path} has other rows of {name}; python tests/alone {name} writes them")
    print(*UNFIT, sep="\n", flush=True)
    return wrong + len(UNFIT)


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
