"""A name to the data behind it, always in the same form; nothing else is ever loaded instead.

Small data sets are embedded in scikit-learn and need neither network nor disk. Larger ones live in
the folder that ``CLUSTERBOOK_DATA`` names (`clusterbook.paths.data_home`): they are downloaded
once, and their SHA-256 is checked before they are used. Images lie in [0, 1], one flattened image
per row; tables stay in their own units.

A person's own table is read by `read`, and a folder of their own images by `load("folder:PATH")`;
both look at what is there before it becomes a data set.

The data sets of the book stand in ``catalog.yaml``, and how each is read in ``loaders.py``: a new
one is an entry there and, unless it is read like another one, a loader. The entry keeps the SHA-256
of what the loader returns (`content`). So no record depends on this code: a record is stale when
its data have another content than the catalog's, and a test loads every data set and compares. A
person's table is read in ``tables.py``, from the kinds of files in ``readers.py``.
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

    ``folder:PATH`` is a folder of images of one's own: .bmp, .jpeg, .jpg, .pgm, .png, .ppm, .tif,
    .tiff or .webp files with 8 bits a channel, either all in that folder, without labels, or all
    in one subfolder per class. A relative path begins where the person stands who typed
    ``clusterbook run``, otherwise in the current folder. Each image becomes the square in its
    middle, resized; turned as its camera noted, its transparency ignored. All of them are held in
    memory, 4 bytes a value: this is for modest folders, some ten thousand images at the default
    size. Of larger ones ``most`` takes a sample, and the estimator DeepCluster takes the folder
    itself, and reads a batch at a time.

    Parameters
    ----------
    name : str
        A name from `catalog`, or ``folder:PATH``.
    download : bool
        Whether missing files may be downloaded; nothing is written if none is missing.
    image_size : int, optional
        Width and height of the images of a folder, in pixels; 64 by default. Smaller images are
        enlarged. The catalog's images have a size of their own, and no other can be asked for.
    resize : int, optional
        For a folder: pixels of an image's short side, from which the middle ``image_size`` are
        cropped, 256 for 224 in many papers; by default as many, so that nothing more is lost.
    color : {"refuse", "convert"}
        For a folder: keep images that are all gray (one channel) or all in color (RGB) as they
        are, and refuse a mixture; or give every image three channels. A palette counts as color.
    unreadable : {"refuse", "skip"}
        For a folder: what to do with images that can't be read; leaving them out comes with a
        warning that names them.
    most : int, optional
        For a folder: at most so many of its images, drawn at random, the same each time; their
        places among all are the data set's ``rows``.

    Returns
    -------
    Dataset
        That of a folder is sorted by class and name. Its source's name is ``folder:`` and the
        folder's name without the path, and its content is not known beforehand.

    Raises
    ------
    InputError
        There is no such data set, its files are missing and can't be downloaded, or one of them
        is damaged (it is removed then, if it can be downloaded again). Of a folder: it is missing,
        it has fewer than two images, or they lie at several depths or deeper than one subfolder
        per class; an image can't be read, or gray and color are mixed, and nobody asked for what
        to do then; they don't fit into the memory. Or a setting does not fit the data set.

    Warns
    -----
    UserWarning
        Something of a folder was left out: images as asked, files that are none, or subfolders
        without any.

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.X.shape, digits.image_shape
    ((1797, 64), (1, 8, 8))
    """
    if _is_folder(name):
        path = name.removeprefix(PREFIX)
        return read_folder(
            path, image_size=image_size, resize=resize, color=color, unreadable=unreadable,
            most=most,
        )  # fmt: skip
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


def fetch(name: str, *, progress: bool | None = None) -> Status:
    """Verify the data set, download what is missing or damaged, and say how things stand then.

    Parameters
    ----------
    name : str
        A name from `catalog`.
    progress : bool, optional
        Whether to show progress bars on stderr; by default where a person watches, as for training.

    Raises
    ------
    InputError
        There is no such data set, it has no download, the network can't be reached, what arrived
        is damaged (nothing of it is kept), or the data folder can't be written.
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
