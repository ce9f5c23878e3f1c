"""A name to the data behind it, always in the same form; nothing else is ever loaded instead.

Small data sets are embedded in scikit-learn and need neither network nor disk. Larger ones live in
the folder that ``CLUSTERBOOK_DATA`` names (`clusterbook.paths.data_home`): they are downloaded
once, and their SHA-256 is checked before they are used. Images lie in [0, 1], one flattened image
per row; tables stay in their own units.

A person's own table is read by `read`, which looks at it before it becomes a data set.

What a data set is stands in ``dataset.py``, how each is read in ``loaders.py``, and which there
are in ``table.py``: a new data set is a row in the table and, unless it is read like another one, a
loader. The row keeps the SHA-256 of what the loader returns (`content`). So no record depends on
this code: a record is stale when its data have another content than the table's, and a test loads
every data set and compares.
"""

from __future__ import annotations

from pathlib import Path

from .. import downloads, paths
from ..errors import InputError, unknown
from .dataset import Dataset, Source, Status, content
from .files import read
from .synthetic import make_synthetic
from .table import SOURCES

__all__ = [
    "Dataset", "Source", "Status", "catalog", "content", "fetch", "load", "make_synthetic", "read",
    "status",
]  # fmt: skip


def catalog() -> tuple[Source, ...]:
    """Every data set that `load` knows, in the order of the table."""
    return tuple(SOURCES.values())


def load(name: str, *, download: bool = True) -> Dataset:
    """The data set of that name, and never another one in its place.

    Parameters
    ----------
    name : str
        A name from `catalog`.
    download : bool
        Whether missing files may be downloaded; nothing is written if none is missing.

    Raises
    ------
    InputError
        There is no such data set, its files are missing and can't be downloaded, or one of them
        is damaged (it is removed then, if it can be downloaded again).

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.X.shape, digits.image_shape
    ((1797, 64), (1, 8, 8))
    """
    source, home = _source(name), _home()
    wrong = downloads.wrong_files(source, home)
    for file, found in wrong.items():
        if found is not None:
            raise downloads.remove_damaged(source, home, file, found)
    if wrong and not download and source.download is not None:
        raise InputError(
            f"data set {name!r} is not here: {home / next(iter(wrong))} was expected, and download "
            f"is off; fetch it with `clusterbook data {name}`, or set CLUSTERBOOK_DATA to a folder "
            "that has it"
        )
    if wrong:
        downloads.download_files(source, home, wrong, progress=False)
    return source.loader(source, home)


def status(name: str) -> Status:
    """Whether the data set is embedded, here, missing or damaged; changes nothing.

    Raises
    ------
    InputError
        There is no such data set.
    """
    source, home = _source(name), _home()
    if source.embedded_in:
        return Status("embedded")
    wrong = downloads.wrong_files(source, home)
    if damaged := tuple(file for file, found in wrong.items() if found is not None):
        return Status("damaged", home, damaged)
    return Status("missing" if wrong else "here", home, tuple(wrong))


def fetch(name: str, *, progress: bool = False) -> Status:
    """Verify the data set, download what is missing or damaged, and say how things stand then.

    Parameters
    ----------
    name : str
        A name from `catalog`.
    progress : bool
        Whether to show the download's progress bars on the standard error stream.

    Raises
    ------
    InputError
        There is no such data set, it has no download, the network can't be reached, what arrived
        is damaged (nothing of it is kept), or the data folder can't be written.
    """
    source, home = _source(name), _home()
    if wrong := downloads.wrong_files(source, home):
        downloads.download_files(source, home, wrong, progress=progress)
    return status(name)


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise unknown("data set", name, SOURCES)
    return SOURCES[name]


def _home() -> Path:
    return paths.data_home().absolute()
