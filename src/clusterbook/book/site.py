"""The book's public address, written to every place that names it.

``_config.yml`` holds it for the built pages. Notebooks, README and the package's metadata name it
too, because they are read without that file: on Colab, in a registry, in a citation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat

from .. import paths
from ..errors import InputError
from ..paths import write_atomically
from .parameters import read_yaml

_REPOSITORY = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+")
_REF = re.compile(r"(?![-/.])[\w./-]+(?<![/.])")
_OPENS = "**Run this chapter**: "     # begins the line of links under a chapter's title

Writer = Callable[[str, "Address", str], str]   # a file's text, the address, the file's name → text


@dataclass(frozen=True)
class Address:
    """A public repository and the tag or branch that readers are led to.

    Attributes
    ----------
    repository : str
        ``https://github.com/OWNER/NAME``; empty while there is none.
    ref : str
        The tag or branch.
    """

    repository: str
    ref: str = "main"

    def __post_init__(self) -> None:
        """Refuse an address that no link can be made of."""
        if self.repository and not _REPOSITORY.fullmatch(self.repository):
            raise InputError("a repository's address has the form https://github.com/OWNER/NAME "
                             f"(Colab, Kaggle and Binder open no other), not {self.repository!r}")
        if not _REF.fullmatch(self.ref) or ".." in self.ref:
            raise InputError(f"--ref names a tag or a branch, such as v1.0, not {self.ref!r}")

    @property
    def pages(self) -> str:
        """The book on GitHub Pages."""
        owner, name = self.repository.split("/")[3:5]
        home = f"{owner}.github.io".lower()
        return f"https://{home}" if name.lower() == home else f"https://{home}/{name}"

    def launchers(self, notebook: str) -> dict[str, str]:
        """The links that open a notebook of the repository, by service."""
        place = self.repository.removeprefix("https://github.com/")
        file = f"{place}/blob/{self.ref}/{notebook}"
        return {
            "Colab": f"https://colab.research.google.com/github/{file}",
            "Kaggle": f"https://kaggle.com/kernels/welcome?src=https://github.com/{file}",
            "Binder": f"https://mybinder.org/v2/gh/{place}/{self.ref}?urlpath=lab/tree/{notebook}",
        }


def current(source: Path | None = None) -> Address:
    """The address in ``_config.yml``; InputError if the file is damaged."""
    config = read_yaml((source or paths.root()) / "_config.yml")
    try:
        return Address(config["repository"]["url"] or "", str(config["repository"]["branch"]))
    except (KeyError, TypeError):
        raise InputError("_config.yml: the keys url and branch under repository are missing; "
                         "restore it with git") from None


def write(address: Address, source: Path | None = None) -> list[str]:
    """Write an address, or its absence, to every place that names one.

    Parameters
    ----------
    address : Address
        With an empty repository all links, badges and metadata are removed.
    source : Path, optional
        The checkout; by default this package's.

    Returns
    -------
    list of str
        The files that changed, relative to the checkout.

    Raises
    ------
    InputError
        Outside a checkout, or if a place has lost the line that holds the address: then no file is
        changed.
    """
    source = source or paths.checkout()
    if source is None:
        raise InputError("the address is written into a checkout; this package is an installed one")
    wanted = {}
    for name, writer in places(source).items():
        before = (source / name).read_text(encoding="utf-8")
        try:
            text = writer(before, address, name)
        except ValueError as error:
            raise InputError(f"{name}: {error}; restore it with git") from error
        if text != before:
            wanted[name] = text
    for name, text in wanted.items():
        write_atomically(source / name, text.encode())
    return list(wanted)


def places(source: Path) -> dict[str, Writer]:
    """Every file of a checkout that names the address, with the function that writes it."""
    return {file.relative_to(source).as_posix(): writer
            for pattern, writer in _WRITERS.items() for file in sorted(source.glob(pattern))}


def _config(text: str, address: Address, name: str) -> str:
    return _once(r'(?m)^(repository:\n  url: ).*(\n  branch: ).*$',
                 rf'\g<1>"{address.repository}"\g<2>{address.ref}', text)


def _pyproject(text: str, address: Address, name: str) -> str:
    text = re.sub(r"\[project\.urls\]\n(?:\w+ = .*\n)+\n", "", text)
    table = (f'[project.urls]\nRepository = "{address.repository}"\n'
             f'Documentation = "{address.pages}"\n\n') if address.repository else ""
    return _once(r"(?m)^(?=\[project\.optional-dependencies\]$)", table, text)


def _citation(text: str, address: Address, name: str) -> str:
    text = re.sub(r"(?m)^(repository-code|url): .*\n", "", text)
    links = (f'repository-code: "{address.repository}"\nurl: "{address.pages}"\n'
             if address.repository else "")
    return _once(r"(?m)^license: .*\n", rf"\g<0>{links}", text)


def _readme(text: str, address: Address, name: str) -> str:
    if not address.repository:
        return _marked(text, "The repository has no public address yet; "
                             "`clusterbook site --help` says how its owner sets one.")
    return _marked(text, f"Read it at <{address.pages}>. Each chapter opens on Colab, Kaggle and "
                         "Binder from its page, or by the links under its title. On your machine: "
                         f"`git clone --branch {address.ref} {address.repository}`.")


def _rerun(text: str, address: Address, name: str) -> str:
    if not address.repository:
        return _marked(text, "The repository has no public address yet. The buttons for Colab, "
                             "Kaggle, and Binder\nappear on the chapters once its owner has set "
                             "one (`clusterbook site --help`); until then,\nwork in the copy that "
                             "you have.")
    return _marked(text, "The rocket at the top of a chapter opens it on Colab, Kaggle, or Binder. "
                         "To work on your own\nmachine, clone the repository first:\n\n"
                         f"```console\n$ git clone --branch {address.ref} {address.repository}\n"
                         f"$ cd {address.repository.split('/')[4]}\n```")


def _notebook(text: str, address: Address, name: str) -> str:
    """The address in the bootstrap cell, and the links under a chapter's title."""
    notebook = nbformat.reads(text, as_version=4)
    bootstrap = next(c for c in notebook.cells if "bootstrap" in c.metadata.get("tags", []))
    bootstrap.source = _once(r'(?m)^REPOSITORY, REF = ".*", ".*"$',
                             f'REPOSITORY, REF = "{address.repository}", "{address.ref}"',
                             bootstrap.source)
    title = notebook.cells[0]
    heading, _, rest = title.source.partition("\n\n")
    if rest.startswith(_OPENS):
        rest = rest.partition("\n\n")[2]
    if address.repository and name.startswith("notebooks/"):
        links = " · ".join(f"[{where}]({link})" for where, link in address.launchers(name).items())
        rest = f"{_OPENS}{links}\n\n{rest}"
    title.source = f"{heading}\n\n{rest}" if rest else heading
    return nbformat.writes(notebook) + "\n"


def _marked(text: str, block: str) -> str:
    """The text with *block* between the two marks."""
    return _once(r"(?s)(<!-- address -->\n).*?(\n<!-- end of address -->)",
                 lambda found: f"{found[1]}{block}{found[2]}", text)


def _once(pattern: str, new: str | Callable[[re.Match], str], text: str) -> str:
    written, count = re.subn(pattern, new, text)
    if count != 1:
        raise ValueError("the place that holds the repository's address is not there, or twice")
    return written


_WRITERS: dict[str, Writer] = {
    "_config.yml": _config,
    "pyproject.toml": _pyproject,
    "CITATION.cff": _citation,
    "README.md": _readme,
    "book/rerun.md": _rerun,
    "notebooks/*.ipynb": _notebook,
    "book/runs/*.ipynb": _notebook,
}
