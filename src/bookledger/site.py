"""The book's public address, which ``_config.yml`` holds, and the links that follow from it.

``.github/scripts/site.py`` writes the address to every place that names it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from clusterbook import __version__
from clusterbook.errors import InputError

from . import config
from .claims import read_yaml


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


def current(source: Path | None = None) -> Address:
    """The address in ``_config.yml``; InputError if the file is damaged."""
    content = read_yaml((source or config.root()) / "_config.yml")
    try:
        said = content["repository"]
        return Address(said["url"] or "", str(said["branch"]), said["released"] is True)
    except (KeyError, TypeError):
        raise InputError("_config.yml: the keys url, branch and released under repository are "
                         "missing; restore it with git") from None
