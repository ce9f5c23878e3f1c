"""One's own table, read with pandas, and one's own folder of images, listed by torchvision."""

from __future__ import annotations

import codecs
import io
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageOps
from scipy.io import loadmat
from torchvision.datasets.folder import IMG_EXTENSIONS, ImageFolder

from ..checks import InputError, one_of, said, unknown, whole
from .dataset import PREFIX, Dataset, Source, absolute, as_classes, listed, of_images

_KINDS = (".csv", ".tsv", ".xlsx", ".parquet", ".npz", ".mat")
_MISSING = ["", "?", "NA", "N/A", "na", "n/a", "NaN", "nan", "NULL", "null", "#N/A", "<NA>"]
_LABELS = ("label", "class", "target", "y")
_IDENTIFIER = re.compile(r"(?i)index|unnamed: \d+|(.*[\W_])?(id|sample|patient|subject)([\W_]*id)?")


def read_table(
    path: str | os.PathLike[str], *, labels: str | None = None,
    features: Sequence[str] | None = None, id_column: str | None = None, text: str = "refuse",
    impute: str | None = None,
) -> Dataset:
    """One's own table; `clusterbook.datasets.read` has the parameters."""
    one_of("setting of text", text, ("refuse", "one-hot"))
    one_of("setting of impute", impute or "none", ("none", "median"))
    file, notes = absolute(path), []
    if not os.path.isfile(file):        # a pipe would be waited for
        near = listed(sorted(one.name for one in file.parent.glob("*") if one.suffix in _KINDS))
        raise InputError(f"there is no file {file}; tables in its folder: {near or 'none'}")
    y, classes, ids = None, (), None
    try:
        frame = _frame(file, (labels, id_column), notes)
        frame.columns = frame.columns.astype(str).str.strip()
        _refuse("columns of the same name", frame.columns.value_counts() - 1, "rename them")
        for name in _texts(frame):
            frame[name] = frame[name].astype("string").str.strip().replace(_MISSING, pd.NA)
        for name in filter(None, [labels, id_column, *(features or ())]):
            if name not in frame:
                raise unknown("column", name, get_close_matches(name, frame) or list(frame)[:5])
        if id_column:
            column = frame.pop(id_column)
            if (wrong := column.isna() | column.duplicated()).any():
                raise InputError(f"row {wrong.argmax() + 1:,}: identifier missing or repeated")
            ids = tuple(map(str, column))
        found = [labels] if labels else [name for name in frame if name.casefold() in _LABELS
                                         and name not in (features or ())]
        if len(found) > 1:
            raise InputError(f"several columns could be labels ({listed(found)}): name one")
        _refuse("missing labels", frame[found].isna().sum(), "label or remove these rows")
        if found:
            y, classes = as_classes(frame.pop(found[0]).to_numpy())
        for name in frame.columns.difference(_texts(frame)) if features is None else ():
            if _IDENTIFIER.fullmatch(name) and frame[name].is_unique and not any(frame[name] % 1):
                raise InputError(f"identifiers in {name!r}: name it as id_column, or in features")
        chosen = frame if features is None else frame[list(features)]
        table = _features(chosen, text, impute, notes)
    except Exception as error:  # a damaged file can break its reader anywhere
        reason = "".join(one if one.isprintable() else " " for one in said(error))
        raise InputError(f"the table {file} can't be read: {reason}") from error
    for note in notes:
        warnings.warn(note, stacklevel=3)
    source = Source(file.name, f"a table of one's own, {file.name}")
    return Dataset(np.ascontiguousarray(table, dtype=np.float32), y, classes, source,
                   feature_names=tuple(table), ids=ids, notes=tuple(notes))


def _frame(file: Path, named: Sequence[str | None], notes: list[str]) -> pd.DataFrame:
    """The columns of a file; *named* are those of labels and identifiers, if they were given."""
    kind = file.suffix.casefold()
    if kind in (".csv", ".tsv"):
        return _parsed(_decoded(file, notes), named[1], notes)
    if kind == ".xlsx":
        cells = pd.read_excel(file, header=None, dtype=object, engine="openpyxl")
        cells = cells.dropna(how="all").dropna(how="all", axis=1)
        return _parsed(cells.to_csv(header=False, index=False), named[1], notes)
    if kind == ".parquet":
        frame = pd.read_parquet(file)
        return frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()
    if kind == ".npz":
        with np.load(file, allow_pickle=False) as arrays:
            return _from_arrays(dict(arrays), named)
    if kind == ".mat":
        return _from_arrays(loadmat(file), named)
    raise InputError("save it as .csv, .tsv, .xlsx, .parquet, .npz or .mat; datasets.load reads "
                     "the book's data sets and images")


def _decoded(file: Path, notes: list[str]) -> str:
    data = file.read_bytes()
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # as Excel saves it
        return data.decode("utf-16")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        notes.append(f"{file.name} is not UTF-8 and was read as Windows-1252")
        return data.decode("cp1252")


def _parsed(text: str, id_column: str | None, notes: list[str]) -> pd.DataFrame:
    """A table with names from its first row, or with numbers if that is a sample."""
    # What cuts the first two rows into equally many cells; a comma may also be a decimal mark.
    rows = [row for row in re.sub(r'"[^"]*"', "", text).split("\n") if row.strip()][:2] or [""]
    fits = [one for one in "\t;," if rows[0].count(one) == rows[-1].count(one) > 0]
    separator, decimal = fits[0] if fits else max("\t;,", key=rows[0].count), "."
    number = rf'(^|{separator})\s*"?[-+]?\d*,\d+(e[-+]?\d+)?"?\s*($|{separator})'
    if separator != "," and re.search(number, text, re.MULTILINE | re.IGNORECASE):
        decimal = ","
        notes.append("numbers were read with decimal commas: 1,5 is one and a half")
    settings = {"sep": separator, "decimal": decimal, "index_col": False, "low_memory": False,
                "skipinitialspace": True, "keep_default_na": False, "na_values": _MISSING,
                "dtype": {id_column or "": str}}  # 007 stays 007
    # pandas only warns where rows have more values than the first.
    with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
        frame = pd.read_csv(io.StringIO(text), **settings)
        names = pd.to_numeric([name.replace(",", ".") for name in frame], errors="coerce")
        if np.isnan(names).any() or list(names) == list(range(len(names))):
            return frame
        frame = pd.read_csv(io.StringIO(text), header=None, **settings)
    return frame.rename(columns=lambda i: f"column {i + 1}")


def _from_arrays(arrays: Mapping[str, np.ndarray], named: Sequence[str | None]) -> pd.DataFrame:
    """The samples, with the arrays of labels and identifiers as further columns."""
    if "X" not in arrays:
        raise InputError(f"call the samples X, shape (rows, features), among {listed(arrays)}")
    X = arrays["X"]
    frame = pd.DataFrame(X.toarray() if hasattr(X, "toarray") else X)
    names = arrays.get("feature_names", [f"column {i + 1}" for i in frame])
    frame.columns = [str(np.squeeze(name)) for name in np.ravel(names)]
    for name, array in arrays.items():
        if name in named or name.casefold() in _LABELS:
            # A text in a cell of MATLAB is an array.
            frame[name] = [np.squeeze(cell).item() for cell in array.ravel()]
    return frame


def _features(frame: pd.DataFrame, text: str, impute: str | None, notes: list[str]) -> pd.DataFrame:
    """The features, float32: columns of numbers, then those made of text."""
    rows, width = frame.shape
    if rows < 2 or width < 1:
        raise InputError(f"rows: {rows:,}, features: {width:,}; expected at least 2 and 1")
    texts = _texts(frame)
    if texts and text == "refuse":
        shown = [f"{name} (such as {''.join(frame[name].dropna()[:1])[:40]})" for name in texts]
        raise InputError(f"text in {len(texts):,} of {width:,} columns: {listed(shown)}; "
                         "name labels, id_column or features, or use text='one-hot'")
    missing = frame.isna().sum()
    if impute is None:
        _refuse("missing values", missing, "remove them, or fill them with impute='median'")
    elif missing.any():
        notes.append(f"missing values filled in: {missing.sum():,}, in columns "
                     f"{listed(missing[missing > 0].index)}, with medians or 'missing'")
    with np.errstate(over="ignore"):                      # beyond 3.4e38 becomes infinite
        table = frame.drop(columns=texts).astype(np.float32)
    table = table.fillna(table.median())
    _refuse("infinite or no values", (~np.isfinite(table)).sum(), "correct or remove them")
    if texts:
        notes.append(f"text became features of 0 and 1: {listed(texts)}")
        words = frame[texts].fillna("missing")
        table = table.join(pd.get_dummies(words, prefix_sep="=", dtype=np.float32))
    return table


def _texts(frame: pd.DataFrame) -> list[str]:
    """The columns that have anything but numbers, or numbers as text."""
    return [name for name, column in frame.items() if column.dtype.kind not in "biuf"]


def _refuse(what: str, counts: pd.Series, todo: str) -> None:
    """Raise InputError if a column has a count above 0; those with the highest are named."""
    if counts.any():
        worst = counts[counts > 0].sort_values(ascending=False, kind="stable")
        columns = listed(f"{name} ({count:,})" for name, count in worst.items())
        raise InputError(f"{what}, counted by column: {columns}; {todo}")


# ----------------------------------------------------------------------------- folders of images


class Folder(ImageFolder):
    """torchvision's `ImageFolder`, also for a folder without classes; opens no image.

    ``names`` are those of the images, such as ``cat/1.jpg``; ``left_out`` are other files, and all
    in folders of a class's folder. Hidden ones are skipped; links are followed, with a warning if
    they lead out of the folder.
    Raises InputError for a folder that is missing, has fewer than two images, a class without any,
    or images beside classes.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        folder, self.left_out = absolute(path), []
        if not folder.is_dir():
            raise InputError(f"there is no folder {folder}")
        super().__init__(folder, loader=read_image, is_valid_file=self._is_image, allow_empty=True)
        self.names = [os.path.relpath(file, folder) for file, _ in self.samples]
        inside = folder.resolve()
        links = [name for name in filter(None, [*self.classes, *self.names])
                 if os.path.islink(folder / name)
                 and not (folder / name).resolve().is_relative_to(inside)]
        if links:
            warnings.warn(f"links lead out of {folder}, and are followed: {listed(links)}",
                          stacklevel=3)
        used = set(self.targets)
        empty = [name for name, number in self.class_to_idx.items() if number not in used]
        if len(self.samples) < 2 or empty:
            raise InputError(f"expected at least two images in {folder}, or some in each of its "
                             f"subfolders, one per class; they end in {', '.join(IMG_EXTENSIONS)}; "
                             f"images: {listed(self.names) or 'none'}; subfolders without any: "
                             f"{listed(filter(None, empty)) or 'none'}; other files: "
                             f"{listed(self.left_out) or 'none'}")

    def find_classes(self, directory: str | Path) -> tuple[list[str], dict[str, int]]:
        """The names of the subfolders; one class "" if there are none."""
        names = sorted(name for name in os.listdir(directory) if not name.startswith("."))
        classes = [name for name in names if os.path.isdir(os.path.join(directory, name))]
        files = sorted({*names}.difference(classes)) if classes else []
        if beside := [name for name in files if self._is_image(os.path.join(directory, name))]:
            raise InputError(f"{directory} has images ({listed(beside)}) beside folders "
                             f"({listed(classes)}): move all into one folder per class, or all out "
                             "of these folders")
        classes = classes or [""]
        return classes, {name: number for number, name in enumerate(classes)}

    def _is_image(self, file: str) -> bool:
        name = os.path.relpath(file, self.root)
        if f"{os.sep}." in os.sep + name:
            return False
        is_image = (name.lower().endswith(IMG_EXTENSIONS) and name.count(os.sep) < 2
                    and (os.path.isfile(file) or not os.path.exists(file)))     # no pipe
        if not is_image:
            self.left_out.append(name)
        return is_image

    def labels(self) -> tuple[np.ndarray | None, tuple[str, ...]]:
        """The class of each image, and the classes' names; None and () if there are none."""
        return (None, ()) if self.classes == [""] else (np.array(self.targets), (*self.classes,))


def read_image(file: str | Path) -> Image.Image:
    """An image turned as its camera noted, without transparency, in gray or in color.

    Raises ValueError if its values have no known range.
    """
    with Image.open(file) as image:
        if image.mode.partition(";")[0] in ("I", "F"):  # also I;16, I;16B …
            raise ValueError(f"more than 8 bits a channel, mode {image.mode}; save it with 8")
        mode = "L" if image.mode in ("1", "L", "LA", "La") else "RGB"
        # Pillow knows transparent palette colors in RGBA only.
        shown = image.convert("RGBA") if image.mode in ("P", "PA") else image
        return ImageOps.exif_transpose(shown).convert(mode)


def read_folder(path: str | os.PathLike[str], *, image_size: int = 64, resize: int | None = None,
                most: int | None = None) -> Dataset:
    """The images of a folder, each as a square; `datasets.load` has the parameters."""
    whole("image_size", image_size, 1)
    short = image_size if resize is None else resize
    whole("resize", short, image_size)  # the middle is cropped from what is resized
    folder = Folder(path)
    rows = np.arange(len(folder))
    if most is not None:
        whole("most", most, 2)
        rows = np.sort(np.random.default_rng(0).permutation(len(rows))[:most])
    squares, broken = [], []
    for row in rows:
        try:
            squares.append(_square(folder[row][0], image_size, short))
        except Exception as error:  # a damaged file can break its reader anywhere
            broken.append(f"{folder.names[row]} ({said(error)})")
    if broken:
        raise InputError(f"{folder.root} has {len(broken):,} images that can't be read: "
                         f"{listed(broken)}; repair or remove them")
    channels = max(map(len, squares))  # beside images in color, gray ones get three equal ones
    pixels = np.stack([square.repeat(channels // len(square), axis=0) for square in squares])
    if folder.left_out:
        warnings.warn(f"not all of {folder.root} was read; left out: {listed(folder.left_out)}",
                      stacklevel=3)
    y, classes = folder.labels()
    name = Path(folder.root).name
    return of_images(Source(PREFIX + name, f"images of one's own, {name}"), pixels,
                     None if y is None else y[rows], classes, rows)


def _square(image: Image.Image, size: int, short: int) -> np.ndarray:
    """The middle of an image, its short side resized to *short*: bytes, (channels, size, size)."""
    width, height = image.size
    side = round(min(width, height) * size / short)
    # Whole pixels: nothing is blurred where the size stays.
    left, top = (width - side) // 2, (height - side) // 2
    box = (left, top, left + side, top + side)
    square = np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box=box))
    return square.reshape(size, size, -1).transpose(2, 0, 1)
