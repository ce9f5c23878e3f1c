"""Write what follows from CITATION.cff: codemeta.json, .zenodo.json and the page on how to cite.

    python .github/scripts/citation.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


def derived(root: Path) -> dict[str, str]:
    """Each file that follows from CITATION.cff → its content."""
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    names = [author["name"] for author in cited["authors"]]
    both = {"description": cited["abstract"], "keywords": cited["keywords"],
            "version": cited["version"]}
    codemeta = both | {
        "@context": "https://w3id.org/codemeta/3.0", "@type": "SoftwareSourceCode",
        "name": cited["title"], "license": f"https://spdx.org/licenses/{cited['license']}",
        "author": [{"@type": "Organization", "name": name} for name in names],
        "programmingLanguage": "Python", "codeRepository": cited.get("repository-code"),
        "url": cited.get("url"), "datePublished": cited.get("date-released")}
    zenodo = both | {
        "title": cited["title"], "upload_type": "software", "license": cited["license"],
        "creators": [{"name": name} for name in names]}
    files = {"codemeta.json": codemeta, ".zenodo.json": zenodo}
    return {name: json.dumps({key: value for key, value in content.items() if value is not None},
                             indent=2, sort_keys=True, ensure_ascii=False, default=str) + "\n"
            for name, content in files.items()} | {
                "book/cite.md": _page(root, cited, " and ".join(f"{{{n}}}" for n in names))}


def _page(root: Path, cited: dict[str, Any], authors: str) -> str:
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
    for name, text in derived(ROOT).items():
        (ROOT / name).write_text(text, encoding="utf-8")
