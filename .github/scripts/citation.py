"""Write the page on how to cite the book, book/cite.md, from CITATION.cff.

    python .github/scripts/citation.py
"""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = """\
# Cite this

Cite the book if you use its results or its library, a chapter if you use only that one, and always
the paper whose method you use. This page is generated from `CITATION.cff`, which citation tools
read.

## The book

{book}

{doi}

## A chapter

Replace TITLE OF THE CHAPTER with the chapter's title, and NAME with the last part of its URL
without `.html`, such as `idc_table`.

{chapter}

## The papers

To cite a method, use the first references at the end of its chapter. They are also the first
entries of {{download}}`the book's bibliography in BibTeX <references.bib>`.
"""


def page(root: Path) -> str:
    """The page on how to cite, in Markdown, from ``CITATION.cff`` in *root*."""
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    authors = " and ".join(f"{{{author['name']}}}" for author in cited["authors"])
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    year = str(cited.get("date-released", config["copyright"]))[:4]
    note = f"Version {cited['version']}"
    book = _entry("misc", "clusterbook", title=cited["title"], author=authors, year=year, note=note,
                  doi=cited.get("doi"), url=cited.get("url"))
    url = cited.get("url") and f"{cited['url']}/notebooks/NAME.html"
    chapter = _entry("incollection", "clusterbook-NAME", title="TITLE OF THE CHAPTER",
                     author=authors, booktitle=cited["title"], year=year, note=note, url=url)
    doi = f"DOI: <https://doi.org/{cited['doi']}>" if "doi" in cited else (
        "This version has no DOI.")
    return PAGE.format(book=book, doi=doi, chapter=chapter)


def _entry(kind: str, key: str, **fields: str | None) -> str:
    """A BibTeX entry as Markdown; the titles keep their capitals."""
    lines = [f"  {name:9} = {{{f'{{{value}}}' if 'title' in name else value}}}"
             for name, value in fields.items() if value is not None]
    return f"```bibtex\n@{kind}{{{key},\n" + ",\n".join(lines) + "\n}\n```"


if __name__ == "__main__":
    (ROOT / "book" / "cite.md").write_text(page(ROOT), encoding="utf-8")
