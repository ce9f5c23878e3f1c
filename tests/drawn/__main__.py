"""What the figures of a page draw, into data/expectations/drawn: a file for each page.

``python tests/drawn PAGE…`` (``tell``, ``audit/tell``) executes these pages as they are, as on
other processors, and with more threads (`tests/_processors.py`). The first gives the numbers, the
largest difference the tolerance: three times the deviation, at least a quarter of a standard
deviation; 0.01 where all are equal, as for figures that are drawn from records. Look at the figures
before the result is committed: it says what they draw, not that they are right.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from bookledger.checks import differences
from bookledger.execution import execute

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from _processors import kinds  # noqa: E402

TARGET = ROOT / "data" / "expectations" / "drawn"
CHAOTIC = 1     # standard deviations: so far apart, processors train different networks


def shown(notebook: Path, **environment: str) -> dict[str, dict]:
    """The numbers of a page's figures, by name."""
    with tempfile.TemporaryDirectory() as folder:
        execute(notebook, Path(folder, "out.ipynb"), environment={
            "CLUSTERBOOK_FIGURES": folder, "OMP_NUM_THREADS": "1", **environment})
        listed = json.loads(Path(folder, "figures.json").read_text(encoding="utf-8"))
    return {figure["name"]: figure["numbers"] for figure in listed}


def tolerance(series: dict, other: dict) -> float:
    """The smallest of some that leaves three times the deviation."""
    if series.keys() != other.keys():
        raise SystemExit(f"names depend on the machine: {sorted(series.keys() ^ other.keys())}")
    if not differences({"series": series, "within": 0.01}, other):
        return 0.01
    tripled = {name: list(3 * np.array(other[name]) - 2 * np.array(values))
               for name, values in series.items()}
    return next(within for within in (0.25, 0.5, 1, 2, 4, 9) if within == 9
                or not differences({"series": series, "within": within}, tripled))


def main(pages: list[str]) -> None:
    for page in pages:
        notebook = next(ROOT / folder / f"{page}.ipynb" for folder in ("book", "notebooks")
                        if (ROOT / folder / f"{page}.ipynb").is_file())
        target = TARGET / f"{page}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.is_file():
            target.write_text("{}")         # the page's last cell reads it
        numbers = shown(notebook)
        others = [shown(notebook, **given) for given in kinds().values()]
        figures = {}
        for name, series in numbers.items():
            within = max(tolerance(series, other[name]) for other in others)
            why = f"three times what {', '.join(kinds())} differ by" if within > 0.01 else (
                "the same on every processor tried")
            if within >= CHAOTIC:
                why += (": a live training ends elsewhere on each processor, so this guards "
                        "series, counts and ranges; the page's checks guard what is said of it")
            figures[name] = {"why": why, "within": within, "series": series}
        # A line for each series.
        text = json.dumps(figures, ensure_ascii=False).replace('": {"', '": {\n"').replace(
            '], "', '],\n"').replace("}}, ", "}},\n")
        target.write_text(f"{text}\n", encoding="utf-8")
        print(page, {name: figure["within"] for name, figure in figures.items()}, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
