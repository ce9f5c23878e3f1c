"""Draft letters to the authors of each work, from the entries of the errata.

``python tests/letters`` writes a file for each group of authors into book/letters. The book's owner
sends them, and enters the day as ``sent`` in data/sources.
"""

import textwrap
from pathlib import Path

from bookledger import load_errata, load_sources
from bookledger.sources import GRADES, Source

FOLDER = Path(__file__).resolve().parents[2] / "book" / "letters"
LETTER = Path(__file__).with_name("letter.txt").read_text(encoding="utf-8")


def letters() -> dict[str, str]:
    """The letters, by the name of their file."""
    sources = load_sources()
    groups: dict[str, list[Source]] = {}
    for source in sources.values():
        if source.kind in ("paper", "code"):    # code without authors of its own: the paper's
            key = source.id if source.kind == "code" and source.authors else source.work
            groups.setdefault(key, []).append(source)
    written = {}
    for key, group in groups.items():
        named = {source.id for source in group}
        errata = [one for one in load_errata() if one.source in named and not one.reported]
        if not errata:
            continue
        errata.sort(key=lambda one: list(GRADES).index(one.grade))
        entries = "\n\n".join("\n".join([
            f"{number}. {one.title} ({GRADES[one.grade]})",
            *(_indented(f"{name}: {text}") for name, text in {
                "Where": f"{sources[one.source].name}, {one.where}", "In the source": one.stands,
                "We suggest": one.right, "Effect": one.changes}.items())])
            for number, one in enumerate(errata, 1))
        rerun = (f"{next(one.rerun for one in group if one.rerun)} Your numbers and ours, with "
                 "seeds and settings, are on the scorecard: [address]/book/scorecard.html")
        points = ("While reading we noted the points below. None of them says that the method does "
                  "not work. Most are shown with a few lines of code on the pages linked from "
                  "[address]/book/errata.html." if any(one.checks for one in errata) else
                  "While reading the code, without running it, we noted what is below.")
        points += " We may have misread something and would like to know."
        versions = "We have read " + "; ".join(f"{one.name} ({one.version})" for one in group) + "."
        written[f"{key}.md"] = LETTER.format(
            n=f"{len(errata)} note{'' if len(errata) == 1 else 's'}",
            rerun=textwrap.fill(rerun, 100), points=textwrap.fill(points, 100),
            names=" and ".join(one.name for one in group), entries=entries,
            authors=next(one.authors for one in group if one.authors),
            versions=textwrap.fill(versions, 100))
    return written


def _indented(text: str) -> str:
    return textwrap.fill(text, 100, initial_indent="   ", subsequent_indent="   ")


if __name__ == "__main__":
    for name, text in letters().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"book/letters/{name}")
