"""Say the book's public address, or write it to every place that names one.

    python .github/scripts/site.py                                   the address as it is
    python .github/scripts/site.py --repository https://github.com/OWNER/NAME [--ref v1.0]
    python .github/scripts/site.py --repository ""                   take the address out again

``_config.yml`` holds it for the built pages. Notebooks, README and the package's metadata name it
too, because they are read without that file: on Colab, in a registry, in a citation.
"""

from __future__ import annotations

import argparse
import re
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat

from bookledger.claims import read_yaml
from bookledger.parameters import read_notebook
from clusterbook import __version__
from clusterbook.checks import InputError
from clusterbook.paths import write_atomically

ROOT = Path(__file__).resolve().parents[2]
_OPENS = "**Run this chapter**: "     # begins the line of links under a chapter's title
_FIRST = "notebooks/tell.ipynb"       # the chapter that a button of the front page opens

_SENTENCES = (
    "Read it at <{pages}>. Each chapter opens on Colab, Kaggle and Binder from its page, or by the "
    "links under its title. On your machine: `git clone --branch {ref} {repository}`.",
    "The repository has no public address yet. Links to Colab, Kaggle and Binder appear on the "
    "chapters once its owner has set one (`python .github/scripts/site.py --help`).")
#: File → what stands between its two marks with an address, and without one.
_BLOCKS = {
    "_config.yml": (
        'repository:\n  url: "{repository}"\n  branch: {ref}\n  path_to_book: ""\n'
        "  released: {released}\n"
        "launch_buttons:\n  notebook_interface: jupyterlab\n"
        "  colab_url: https://colab.research.google.com\n  binderhub_url: https://mybinder.org\n"
        "html:\n  use_repository_button: true\n  use_issues_button: true",
        'repository:\n  url: ""\n  branch: {ref}\n  path_to_book: ""\n  released: {released}\n'
        "launch_buttons: {{}}\nhtml:"),
    "pyproject.toml": (
        '[project.urls]\nRepository = "{repository}"\nDocumentation = "{pages}"', ""),
    "CITATION.cff": ('repository-code: "{repository}"\nurl: "{pages}"', ""),
    "README.md": _SENTENCES,
    "book/rerun.md": _SENTENCES,
}


@dataclass(frozen=True)
class Address:
    """A public repository, and the tag that readers are led to."""

    repository: str         # https://github.com/OWNER/NAME; empty while there is none
    ref: str = f"v{__version__}"
    released: bool = False  # the tag's version is on the package index too

    def __post_init__(self) -> None:
        """Refuse an address that no link can be made of."""
        if not re.fullmatch(r"(https://github\.com/[\w.-]+/[\w.-]+)?", self.repository):
            raise InputError("a repository's address has the form https://github.com/OWNER/NAME "
                             f"(Colab, Kaggle and Binder open no other), not {self.repository!r}")
        if (not re.fullmatch(r"(?![-/.])[\w./-]+(?<![/.])", self.ref) or ".." in self.ref
                or self.ref in ("main", "master")):
            raise InputError("--ref names a tag, such as v1.0, whose library stays the same, not "
                             f"{self.ref!r}")
        if self.released and not re.fullmatch(r"v\d[\w.]*", self.ref):
            raise InputError(f"a release has a tag such as v1.0, not {self.ref!r}")

    @property
    def library(self) -> str:
        """What pip installs: a release where there is one, otherwise the tag."""
        if not self.repository:
            return ""
        return (f"clusterbook=={self.ref[1:]}" if self.released else
                f"clusterbook @ git+{self.repository}@{self.ref}")

    @property
    def pages(self) -> str:
        """The book on GitHub Pages."""
        owner, name = self.repository.split("/")[3:]
        home = f"https://{owner}.github.io".lower()
        return home if home.endswith(f"/{name}".lower()) else f"{home}/{name}"

    def launchers(self, notebook: str) -> dict[str, str]:
        """The links that open a notebook of the repository, by service."""
        place = self.repository.removeprefix("https://github.com/")
        file = f"{place}/blob/{self.ref}/{notebook}"
        return {
            "Colab": f"https://colab.research.google.com/github/{file}",
            "Kaggle": f"https://kaggle.com/kernels/welcome?src=https://github.com/{file}",
            "Binder": f"https://mybinder.org/v2/gh/{place}/{self.ref}?urlpath=lab/tree/{notebook}",
        }


def current(source: Path = ROOT) -> Address:
    """The address in ``_config.yml``; InputError if the file is damaged."""
    content = read_yaml(source / "_config.yml")
    try:
        said = content["repository"]
        return Address(said["url"] or "", str(said["branch"]), said["released"] is True)
    except (KeyError, TypeError):
        raise InputError("_config.yml: the keys url, branch and released under repository are "
                         "missing; restore it with git") from None


def write(address: Address, source: Path = ROOT) -> list[str]:
    """Write an address, or its absence, to every place that names one; the files that changed.

    Raises InputError if a place has lost the line that holds the address: then no file is changed.
    """
    wanted = _changes(address, source)
    for name, text in wanted.items():
        write_atomically(source / name, text.encode())
    script, cite = source / ".github" / "scripts" / "citation.py", source / "book" / "cite.md"
    if script.is_file():            # it follows from CITATION.cff
        page = runpy.run_path(str(script))["page"](source)
        if page != cite.read_text(encoding="utf-8"):
            write_atomically(cite, page.encode())
            wanted["book/cite.md"] = page
    return list(wanted)


def _changes(address: Address, source: Path) -> dict[str, str]:
    """File → its text with the address, where that differs."""
    notebooks = sorted([source / "book" / "intro.ipynb", *source.glob("notebooks/*.ipynb"),
                        *source.glob("book/runs/*.ipynb")])
    wanted = {}
    for path in [*(source / name for name in _BLOCKS), *notebooks]:
        name = path.relative_to(source).as_posix()
        after = (_in_block if name in _BLOCKS else _in_notebook)(path, name, address)
        if after != path.read_text(encoding="utf-8"):
            wanted[name] = after
    return wanted


def _in_block(path: Path, name: str, address: Address) -> str:
    """A text file with the address between its two marks, comments that read ``address``."""
    block = _BLOCKS[name][not address.repository].format(
        repository=address.repository, ref=address.ref, released=str(address.released).lower(),
        pages=address.repository and address.pages)
    return _once(r"^(#|<!--) address( -->)?$.*?^\1 end of address",
                 rf"\1 address\2\n{block}\n\1 end of address",
                 path.read_text(encoding="utf-8"), name)


def _in_notebook(path: Path, name: str, address: Address) -> str:
    """A notebook with the address in its bootstrap cell, and the links under a chapter's title.

    The front page has neither, and a button that opens the first chapter on Colab.
    """
    notebook = read_notebook(path)
    if name == "book/intro.ipynb":
        link = f' <a href="{address.launchers(_FIRST)["Colab"]}">Open in Colab</a>'
        notebook.cells[0].source = _once(
            '( <a href="https://colab[^>]*>Open in Colab</a>)?(?<=</a>)</p>',
            f"{link if address.repository else ''}</p>", notebook.cells[0].source, name)
        return nbformat.writes(notebook) + "\n"
    bootstrap = next(c for c in notebook.cells if "bootstrap" in c.metadata.get("tags", []))
    bootstrap.source = _once('^LIBRARY = ".*?"$', f'LIBRARY = "{address.library}"',
                             bootstrap.source, name)
    title = notebook.cells[0]
    heading, _, rest = title.source.partition("\n\n")
    if rest.startswith(_OPENS):
        rest = rest.partition("\n\n")[2]
    if address.repository and name.startswith("notebooks/"):
        links = " · ".join(f"[{where}]({link})" for where, link in address.launchers(name).items())
        rest = f"{_OPENS}{links}\n\n{rest}"
    title.source = f"{heading}\n\n{rest}" if rest else heading
    return nbformat.writes(notebook) + "\n"


def _once(pattern: str, new: str, text: str, name: str) -> str:
    written, count = re.subn(pattern, new, text, flags=re.MULTILINE | re.DOTALL)
    if count != 1:
        raise InputError(f"{name}: the place that holds the repository's address is not there, or "
                         "twice; restore it with git")
    return written


def main(arguments: list[str] | None = None, source: Path = ROOT) -> int:
    """Write the address that is asked for, or say the present one; the status for the shell."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", metavar="URL", help="https://github.com/OWNER/NAME; '' "
                        "takes the address out again")
    parser.add_argument("--ref", metavar="TAG", help="the tag that the links lead to, and whose "
                        "library a notebook on Colab or Kaggle installs; by default this version's")
    parser.add_argument("--released", action="store_true", help="the tag's version is on the "
                        "package index: notebooks install that")
    asked = parser.parse_args(arguments)
    now = current(source)
    try:
        if asked.repository is None and asked.ref is None and not asked.released:
            print(f"{now.repository} at {now.ref}" if now.repository else "no address is set")
            return 0
        repository = now.repository if asked.repository is None else asked.repository
        wanted = Address(repository.rstrip("/").removesuffix(".git"), asked.ref or Address.ref,
                         asked.released)
        changed = write(wanted, source)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(changed) or "every place has this address already")
    if changed and wanted.repository:
        print(f"Commit these, then: git tag {wanted.ref} && git push origin {wanted.ref}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
