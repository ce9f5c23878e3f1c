"""Every figure drawn alone, against the whole run: ``python tests/alone [CHAPTER…]``.

A chapter is executed whole, then once for each of its figures with ``--only``. The numbers that
both draw must be equal to the last digit, and those that the page's command draws, with another
value of a parameter, must not.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from bookledger import config, parameters, runs


def drawn(chapter: str, only: list[str], **overrides: str) -> dict[str, dict]:
    """The numbers of the figures that a run leaves."""
    with tempfile.TemporaryDirectory() as folder:
        runs.run(chapter, only=only, figures=Path(folder), overrides=overrides)
        listed = json.loads(Path(folder, "figures.json").read_text(encoding="utf-8"))
    return {figure["name"]: figure["numbers"] for figure in listed}


def main(chapters: list[str]) -> int:
    wrong = 0
    for chapter in chapters or config.chapters():
        whole, known = drawn(chapter, []), parameters.read(chapter)
        print(f"{chapter}: {len(whole)} figures", flush=True)
        wrong += known.figures().keys() != whole.keys()
        for name, figure in known.figures().items():
            numbers = drawn(chapter, [name])
            said = ["equal" if numbers == {name: whole.get(name)} else "NOT EQUAL"]
            for parameter, value in known.to_try(figure).items():
                other = drawn(chapter, [name], **{parameter: parameters.typed(value).strip('"')})
                said.append(f"{'CHANGED NOT' if other == numbers else 'changed'} by {parameter}")
            wrong += any("NOT" in one for one in said)
            print(f"  {name:<32}{', '.join(said)}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
