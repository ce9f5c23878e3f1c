"""Data sets by name, one's own tables and one's own folders of images, all as a `Dataset`.

Small data sets are embedded in scikit-learn and need neither network nor disk. Larger ones live in
the folder that ``CLUSTERBOOK_DATA`` names (`clusterbook.paths.data_home`): they are downloaded
once, and their SHA-256 is checked before they are used. Images lie in [0, 1], one flattened image
per row; tables keep their own units.

The data sets of the book are in ``catalog.yaml``, and their readers in ``loaders.py``. An entry
has the SHA-256 of the loaded data (`content`), so no record depends on this code: a record is stale
when its data differ from the catalog's, and a test compares every data set with its entry.
"""

from __future__ import annotations

from typing import Any

from .. import paths
from ..errors import InputError, unknown
from . import loaders
from .dataset import Dataset, Source, Status, content
from .folders import PREFIX, find_images, read_folder
from .loaders import SOURCES, make_synthetic

__all__ = ["Dataset", "Source", "Status", "catalog", "content", "fetch", "find_images", "load",
           "make_synthetic", "read", "status"]


def __getattr__(name: str) -> Any:
    if name != "read":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .tables import read  # on first use, because it takes pandas

    return read


def catalog() -> tuple[Source, ...]:
    """Every data set that `load` knows, in the order of ``catalog.yaml``."""
    return tuple(SOURCES.values())


def load(name: str, **settings: Any) -> Dataset:
    """Load a data set of the catalog, downloading missing files, or a folder of images.

    Parameters
    ----------
    name : str
        A name from `catalog`, or ``folder:PATH``: a folder with .bmp, .jpeg, .jpg, .pgm, .png,
        .ppm, .tif, .tiff or .webp files of 8 bits a channel, all in it (without labels) or all in
        one subfolder per class. A relative path begins where ``clusterbook run`` was typed,
        otherwise in the current folder. Images are sorted by class and name and held in memory,
        4 bytes a value; the estimator DeepCluster reads a larger folder itself, batch by batch.
    image_size : int, optional
        Pixels of each side of a folder's images (64 by default), which are turned as the camera
        noted and cropped to the square in their middle. All settings are for folders.
    resize : int, optional
        Pixels of the short side before the crop (*image_size* by default).
    color : {"refuse", "convert"}
        Refuse a mixture of gray and color images, or give every image three channels.
    unreadable : {"refuse", "skip"}
        Refuse images that can't be read, or leave them out with a warning.
    most : int, optional
        Take a random sample of so many images, always the same; see ``Dataset.rows``.

    Raises
    ------
    InputError
        For an unknown name, files that can't be downloaded, a damaged file (removed if it can be
        downloaded again), a folder or images that can't be read, or settings that don't fit.

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.X.shape, digits.image_shape
    ((1797, 64), (1, 8, 8))
    """
    if str(name).startswith(PREFIX):
        return read_folder(name.removeprefix(PREFIX), **settings)
    source, home = _source(name), paths.data_home().absolute()
    if settings:
        raise InputError(f"data set {name!r} can't be loaded with {settings}: these settings are "
                         "for 'folder:PATH'")
    wrong = loaders.wrong_files(source, home)
    for file, checksum in wrong.items():
        if checksum is not None:
            todo = f"move it away and put {source.by_hand} there"
            if source.url:
                (home / file).unlink()
                todo = f"it was removed: fetch it again with `clusterbook data {name}`"
            raise InputError(f"the file {home / file} is damaged: its SHA-256 is {checksum}, "
                             f"expected {source.files[file]}; {todo}")
    if wrong:
        loaders.download(source, home, wrong)
    return source.loader(source, home)


def status(name: str) -> Status:
    """Whether a data set of the catalog is embedded, here, missing or damaged; changes nothing."""
    source = _source(name)
    wrong = loaders.wrong_files(source, paths.data_home().absolute())
    if not wrong:
        return Status("embedded" if source.embedded_in else "here")
    damaged = tuple(file for file, checksum in wrong.items() if checksum is not None)
    return Status("damaged", damaged) if damaged else Status("missing", tuple(wrong))


def fetch(name: str) -> Status:
    """Verify a data set of the catalog and download missing or damaged files; returns its status.

    Raises InputError for an unknown name, a data set without a download, a download that fails or
    has another checksum, and a data folder that can't be written.
    """
    source, home = _source(name), paths.data_home().absolute()
    if wrong := loaders.wrong_files(source, home):
        loaders.download(source, home, wrong)
    return status(name)


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise unknown("data set", name, [*SOURCES, f"{PREFIX}PATH"])
    return SOURCES[name]
