"""Data sets by name, one's own tables and one's own folders of images, all as a `Dataset`.

``catalog.yaml`` has the SHA-256 of each file, checked before use, and of the loaded data
(`content`): a record is stale when its data differ.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import warnings
from contextvars import copy_context
from pathlib import Path
from typing import Any

import yaml

from .. import paths
from ..checks import InputError, one_of, said, unknown
from ..paths import bar
from . import dataset, loaders
from .dataset import PREFIX, Dataset, Source, content
from .loaders import make_synthetic

__all__ = ["OPTIONS", "Dataset", "Source", "catalog", "content", "described", "fetch",
           "find_images", "load", "make_synthetic", "read", "status"]
_ENTRIES = yaml.safe_load(Path(__file__).with_name("catalog.yaml").read_text(encoding="utf-8"))
#: The settings of `read` with values that change nothing, as a command or a form has them.
OPTIONS = {"labels": "", "features": [], "id_column": "", "text": "refuse", "impute": "",
           "missing": [], "sheet": "", "transpose": False}
_SOURCES = {name: Source(name=name, **entry) for name, entry in _ENTRIES.items()}


def catalog() -> tuple[Source, ...]:
    """Every data set that `load` knows, in the order of ``catalog.yaml``."""
    return tuple(_SOURCES.values())


def load(name: str, **settings: Any) -> Dataset:
    """Load a data set of the catalog, downloading missing files, or a folder of images.

    Raises InputError for an unknown name, files that are damaged, unavailable or unreadable, or
    wrong settings.

    Parameters
    ----------
    name : str
        A name from `catalog`, or ``folder:PATH``: a folder with images of 8 bits a channel, all in
        it (without labels) or all in one subfolder per class. A relative path begins where
        ``clusterbook run`` was typed, otherwise in the current folder. Images are sorted by class
        and name; gray ones beside others in color get three equal channels. DeepCluster reads a
        larger folder itself, batch by batch.
    image_size, resize : int
        For a folder: side in pixels of the square that is cropped from the middle of each image
        (64), and length of the image's short side before cropping (*image_size*).
    most : int, optional
        Of a folder: take a random sample of so many images; see ``Dataset.rows``.

    Examples
    --------
    >>> from clusterbook.datasets import load
    >>> digits = load("digits")
    >>> digits.X.shape, digits.image_shape
    ((1797, 64), (1, 8, 8))
    """
    if str(name).startswith(PREFIX):
        from .own import read_folder  # on first use, because it takes pandas and torchvision

        for setting in settings:
            one_of("setting of a folder", setting, ("image_size", "resize", "most"))
        return read_folder(name.removeprefix(PREFIX), **settings)
    source, home = _source(name), paths.data_home()
    if settings:
        raise InputError(f"{', '.join(settings)} can be set for 'folder:PATH' only, not {name!r}")
    wrong = _wrong_files(source)
    for file in filter(wrong.get, wrong):
        raise InputError(f"the file {home / file} is damaged: its SHA-256 is {wrong[file]}, "
                         f"expected {source.files[file]}; `clusterbook data {name}` replaces it")
    if wrong:
        fetch(name)
    return getattr(loaders, source.loader)(source, *[home / file for file in source.files])


def read(path: str | os.PathLike[str], **settings: Any) -> Dataset:
    """Read one's own table; warns of assumptions and changes, and keeps them in ``notes``.

    Raises InputError if the file can't be read or its data can't be clustered.

    Parameters
    ----------
    path : str or path
        A .csv, .tsv, .txt, .gct or GEO series matrix, also with .gz; .xlsx, .parquet, .npz, .mat
        or .h5ad; relative as for `load`. Text files have tabs, semicolons, commas, bars or spaces,
        and decimal points, or commas unless these separate the values. A first row of only
        numbers is a sample, unless it rises in equal steps or like years, or, unlike most rows
        below, is whole or rises. An .npz or MATLAB file has the samples as ``X``, and perhaps
        ``feature_names``. A series matrix, .gct and .h5ad have features in rows or say which these
        are; what they know of each sample can be labels or identifiers.
    labels : str, optional
        Column with the class of each row; by default ``label``, ``class``, ``target`` or ``y``, in
        any case, if there is one, unless it has many different numbers.
    features : list of str, optional
        Columns to use, in this order, those made of text last; by default all others that have a
        value.
    id_column : str, optional
        Column with a name for each row; kept as ``ids``, never a feature. By default a first column
        without a name, if it holds text or the integers of an index, without duplicates, or a
        first column with a different text in each of more than ten rows.
    text : {"refuse", "one-hot"}
        Refuse columns of text, or replace each by 0/1 features ``column=value``.
    impute : {None, "median"}
        Refuse missing values, or fill them with the column's median (text with ``missing``).
    missing : list of str
        What stands for a missing value besides empty cells, NA and the like: ``["-", "-999"]``.
    sheet : str, optional
        Of .xlsx, the sheet, by default the first with numbers in two rows; of .h5ad ``raw`` or a
        layer, by default ``X``.
    transpose : bool
        Make the table's columns its rows; ``id_column``, or else the first column of text, names
        the features.
    """
    from .own import read_table

    return read_table(path, **settings)


def described(path: str | os.PathLike[str], **settings: Any) -> dict[str, str]:
    """What `read` understands of a table, for a person at a terminal; trains nothing.

    Its sentences spell the settings as the command does. Raises InputError as `read` does.
    """
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        context = copy_context()
        context.run(dataset.TYPED.set, True)
        return context.run(read, path, **settings).summary()


def find_images(path: str | os.PathLike[str]) -> Any:
    """The images of a folder, not opened: an `own.Folder`."""
    from .own import Folder

    return Folder(path)


def status(name: str) -> str:
    """Whether a data set of the catalog is "embedded", "here", "missing" or "damaged"."""
    source = _source(name)
    if wrong := _wrong_files(source):
        return "damaged" if any(wrong.values()) else "missing"
    return "here" if source.files else "embedded"


def fetch(name: str) -> None:
    """Verify a data set, and download missing or damaged files; raises InputError if that fails."""
    import pooch

    source, home = _source(name), paths.data_home()
    wrong = _wrong_files(source)
    if wrong and source.by_hand:
        raise InputError(f"data set {name!r} has no download: put {source.by_hand} into "
                         f"{(home / next(iter(wrong))).parent}")
    pooch.get_logger().setLevel("WARNING")  # otherwise each download is logged to stderr
    urls = {file: source.url.format(Path(file).name) for file in source.files}
    registry = pooch.Pooch(home, "", source.files, urls, retry_if_failed=1)
    for file in wrong:
        try:
            registry.fetch(file, downloader=_retrieve)
        except Exception as error:  # no network or space, another SHA-256, a damaged archive
            reason = " ".join(said(error).split())
            raise InputError(f"data set {name!r} is not in {home}, and {file} could not be "
                             f"downloaded ({reason}): check the network, or set CLUSTERBOOK_DATA "
                             "to a folder that has it or can be written; 'digits' needs neither"
                             ) from error


def _retrieve(url: str, output: str, registry: Any) -> None:
    """Download to the file *output* and unpack it there; pooch compares its SHA-256 then."""
    import pooch

    os.remove(output)  # created by pooch with access for this user only
    with bar(1, Path(url).name, leave=True, unit="B", unit_scale=True) as shown:
        # 10 seconds to connect, 30 without a byte
        pooch.HTTPDownloader(shown, chunk_size=2**16, timeout=(10, 30))(url, output, registry)
    if url.endswith("-ubyte.gz"):
        Path(output).write_bytes(gzip.decompress(Path(output).read_bytes()))


def _wrong_files(source: Source) -> dict[str, str | None]:
    """Files that can't be used, with the SHA-256 of each; None if it is missing."""
    wrong: dict[str, str | None] = {}
    for file, expected in source.files.items():
        path = paths.data_home() / file
        checksum = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        is_by_hand = source.by_hand and (path.parent / "train").is_dir()
        if checksum != expected and (checksum or not is_by_hand):
            wrong[file] = checksum
    return wrong


def _source(name: str | Path) -> Source:
    name = str(name)
    if name not in _SOURCES:
        there = dataset.absolute(name)
        if os.path.isdir(there):
            raise InputError(f"{name!r} is no data set but a folder; with images: {PREFIX}{name}")
        if os.path.isfile(there):
            raise InputError(f"{name!r} is no data set but a file; your own table, with an ending "
                             "such as .csv, is read by datasets.read and in chapter idc_table")
        raise unknown("data set", name, [*_SOURCES, f"{PREFIX}PATH"])
    return _SOURCES[name]
