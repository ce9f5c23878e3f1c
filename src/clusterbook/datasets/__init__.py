"""A name to the data behind it, always in the same form; nothing else is ever loaded instead.

Small data sets are embedded in scikit-learn and need neither network nor disk. Larger ones live in
the folder that ``CLUSTERBOOK_DATA`` names (`clusterbook.paths.data_home`): they are downloaded
once, and their SHA-256 is checked before they are used. Images lie in [0, 1], one flattened image
per row; tables stay in their own units. `read` reads a person's own table, and
``load("folder:PATH")`` a folder of their own images.

The data sets of the book stand in ``catalog.yaml``, and how each is read in ``loaders.py``: a new
one is an entry there and, unless it is read like another one, a loader. The entry keeps the SHA-256
of what the loader returns (`content`). So no record depends on this code: a record is stale when
its data have another content than the catalog's, and a test loads every data set and compares.
"""

from __future__ import annotations

from pathlib import Path

from .. import paths
from ..errors import InputError, unknown
from . import downloads
from .dataset import Dataset, Source, Status, content
from .folders import PREFIX, find_images, read_folder
from .loaders import SOURCES
from .synthetic import make_synthetic
from .tables import read

__all__ = [
    "Dataset", "Source", "Status", "catalog", "content", "fetch", "find_images", "load",
    "make_synthetic", "read", "status",
]  # fmt: skip


def catalog() -> tuple[Source, ...]:
    """Every data set that `load` knows, in the order of ``catalog.yaml``."""
    return tuple(SOURCES.values())


def load(
    name: str,
    *,
    download: bool = True,
    image_size: int | None = None,
    resize: int | None = None,
    color: str = "refuse",
    unreadable: str = "refuse",
    most: int | None = None,
) -> Dataset:
    """The data set of that name, and never another one in its place.

    *name* is one from `catalog`, whose missing files are downloaded unless *download* is False. Or
    it is ``folder:PATH``, a folder of images of one's own: .bmp, .jpeg, .jpg, .pgm, .png, .ppm,
    .tif, .tiff or .webp files with 8 bits a channel, either all in that folder, without labels, or
    all in one subfolder per class. A relative path begins where ``clusterbook run`` was typed,
    otherwise in the current folder. Images are sorted by class and name and held in memory, 4 bytes
    a value; the estimator DeepCluster takes a larger folder itself, and reads a batch at a time.

    The other settings are for a folder. Each image, turned as its camera noted, becomes the square
    in its middle, *image_size* pixels wide and high (64 by default), cropped after the short side
    was resized to *resize* pixels (to *image_size* by default). *color* says what to do with a
    mixture of gray and color: "refuse" it, or "convert" every image to three channels (a palette
    counts as color). *unreadable* says whether to "refuse" the folder or to "skip" images that
    can't be read. *most* takes a random sample of so many images, the same each time; their places
    among all are the data set's ``rows``.

    Raises InputError for an unknown name, files that are missing and can't be downloaded, or a
    damaged file (removed if it can be downloaded again); for a folder that is missing, has fewer
    than two images or images at several depths; for images that can't be read, are gray beside
    color, or exceed the memory; and for settings that don't fit the data set. Warns of whatever
    was left out of a folder.

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.X.shape, digits.image_shape
    ((1797, 64), (1, 8, 8))
    """
    if _is_folder(name):
        return read_folder(name.removeprefix(PREFIX), image_size=image_size, resize=resize,
                           color=color, unreadable=unreadable, most=most)  # fmt: skip
    source, home = _source(name), _home()
    wrong = downloads.wrong_files(source, home)
    for file, found in wrong.items():
        if found is not None:
            raise downloads.remove_damaged(source, home, file, found)
    if wrong and not download and source.urls:
        raise InputError(
            f"data set {name!r} is not here: {home / next(iter(wrong))} was expected, and download "
            f"is off; fetch it with `clusterbook data {name}`, or set CLUSTERBOOK_DATA to a folder "
            "that has it"
        )
    if wrong:
        downloads.download(source, home, wrong, progress=None)
    return _as_asked(source.loader(source, home), image_size, resize=resize, most=most, color=color)


def status(name: str) -> Status:
    """Whether a data set of the catalog is embedded, here, missing or damaged; changes nothing."""
    source, home = _source(name), _home()
    if source.embedded_in:
        return Status("embedded")
    wrong = downloads.wrong_files(source, home)
    if damaged := tuple(file for file, found in wrong.items() if found is not None):
        return Status("damaged", home, damaged)
    return Status("missing" if wrong else "here", home, tuple(wrong))


def fetch(name: str, *, progress: bool | None = None) -> Status:
    """Verify a data set of the catalog, download what is missing or damaged, and say its status.

    *progress* shows bars on stderr; by default where a person watches. Raises InputError for an
    unknown name, a data set without a download, a download that fails or arrives damaged (the
    damaged file is not kept), and a data folder that can't be written.
    """
    source, home = _source(name), _home()
    if wrong := downloads.wrong_files(source, home):
        downloads.download(source, home, wrong, progress)
    return status(name)


def _as_asked(found: Dataset, image_size: int | None, **others: object) -> Dataset:
    """A data set of the catalog, unless it was asked for in a form that it does not have."""
    name, shape = found.source.name, found.image_shape
    if image_size is not None and (shape is None or shape[1:] != (image_size, image_size)):
        has = "has no images" if shape is None else f"has images of {shape[2]} × {shape[1]} pixels"
        raise InputError(
            f"data set {name!r} {has}; image_size={image_size!r} is for 'folder:PATH': leave it out"
        )
    for setting, value in others.items():
        if value not in (None, "refuse"):
            raise InputError(
                f"{setting}={value!r} is for 'folder:PATH', and data set {name!r} is as it is: "
                "leave it out"
            )
    return found


def _is_folder(name: object) -> bool:
    return isinstance(name, str) and name.startswith(PREFIX)


def _source(name: str) -> Source:
    if _is_folder(name):
        raise InputError(
            f"{name!r} is a folder of your own images, so there is nothing to fetch and no "
            f"checksum: load it with datasets.load({name!r})"
        )
    if name not in SOURCES:
        raise unknown("data set", name, [*SOURCES, f"{PREFIX}PATH"])
    return SOURCES[name]


def _home() -> Path:
    return paths.data_home().absolute()
