"""Every figure drawn alone, against the whole run: ``python tests/alone [CHAPTER…]``.

A chapter is executed whole, then once for each of its figures with ``--only``. The numbers that
both draw must be equal to the last digit, and those that the page's command draws, with another
value of a parameter, must not. The seconds that a figure takes alone go into
data/expectations/alone.json, which ``clusterbook figures`` shows.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from bookledger import config, parameters, runs

KEPT = Path(__file__).resolve().parents[2] / "data" / "expectations" / "alone.json"


def drawn(chapter: str, only: list[str], **overrides: str) -> tuple[dict[str, dict], float]:
    """The numbers of the figures that a run leaves, and its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        runs.run(chapter, only=only, figures=Path(folder), overrides=overrides)
        seconds = time.perf_counter() - begun
        listed = json.loads(Path(folder, "figures.json").read_text(encoding="utf-8"))
    return {figure["name"]: figure["numbers"] for figure in listed}, seconds


def main(chapters: list[str]) -> int:
    wrong = 0
    for chapter in chapters or config.chapters():
        whole, whole_seconds = drawn(chapter, [])
        known = parameters.read(chapter)
        names, found = known.figures(), {}
        print(f"{chapter}: {whole_seconds:.0f} s whole, {len(whole)} figures", flush=True)
        wrong += names.keys() != whole.keys()
        for name, figure in names.items():
            numbers, seconds = drawn(chapter, [name])
            said = ["equal" if numbers == {name: whole.get(name)} else "NOT EQUAL"]
            for parameter, value in known.to_try(figure).items():
                other, _ = drawn(chapter, [name], **{parameter: parameters.typed(value).strip('"')})
                said.append(f"{'CHANGED NOT' if other == numbers else 'changed'} by {parameter}")
            wrong += any("NOT" in one for one in said)
            found[name] = round(seconds)
            print(f"  {name:<32}{seconds:6.0f} s  {', '.join(said)}", flush=True)
        kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}
        kept[chapter] = found
        KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
