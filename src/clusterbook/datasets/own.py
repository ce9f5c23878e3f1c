"""One's own table, questioned; and one's own folder of images, listed by torchvision."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageOps
from torchvision.datasets.folder import IMG_EXTENSIONS, ImageFolder

from ..checks import InputError, one_of, said, unknown, whole
from . import doubts, formats
from .dataset import PREFIX, Dataset, Source, absolute, as_classes, listed, of_images, option

_IDENTIFIER = re.compile(r"(?i)index|unnamed: \d+|(.*[\W_])?(id|sample|patient|subject)([\W_]*id)?")
_FEW = 10           # with so few rows, texts that all differ may be values
_AMOUNT = re.compile(r"[-+]?\d[\d.,]*\s*[A-Za-z%µ/]+")       # 10 mg
_THOUSANDS = re.compile(r"[-+]?\d{1,3}([.,' \xa0\u202f’]\d{3})+([.,]\d+)?")


def read_table(
    path: str | os.PathLike[str], *, labels: str | None = None,
    features: Sequence[str] | None = None, id_column: str | None = None, text: str = "refuse",
    impute: str | None = None, missing: Sequence[str] | None = None, sheet: str | None = None,
    transpose: bool = False, texts: Sequence[str] | None = None,
) -> Dataset:
    """One's own table of at least two rows; `clusterbook.datasets.read` has the rest.

    *texts*: the columns of text of a saved model, for which this table has rows; all others had
    numbers. One row is enough, and ``beside`` has all columns that are not used.
    """
    is_new = texts is not None
    one_of("setting of text", text, ("refuse", "one-hot"))
    if impute:
        one_of("setting of impute", impute, ("median",))
    features, missing = (one if one is None else [*map(str, np.atleast_1d(one))]
                         for one in (features, missing))
    named = [*filter(None, (id_column, labels)), *(features or ())]
    if len({*named}) < len(named):
        raise InputError("labels, id_column and features name a column twice: "
                         f"{listed(sorted({one for one in named if named.count(one) > 1}))}")
    file, codes = absolute(path), missing or ()
    if not os.path.isfile(file):        # a pipe would be waited for
        near = [one.name for one in file.parent.glob("*") if one.suffix in formats.KINDS]
        raise InputError(f"there is no file {file}; tables in its folder: "
                         f"{listed(sorted(near)) or 'none'}")
    try:
        cells = formats.read(file, sheet)
        cells.frame.columns = cells.frame.columns.astype(str).str.strip()
        _refuse("columns of the same name", cells.frame.columns.value_counts() - 1, "rename them")
        cells.frame = formats.cleaned(cells.frame, {*formats.MISSING, *codes})
        _check_known(cells.frame, [id_column])
        if not (id_column or is_new) and (id_column := _names(cells, {labels, *(features or ())})):
            cells.notes.append(f"{id_column!r} has a different text in each row and names the rows")
        if transpose:
            formats.turn(cells, id_column)
        elif id_column and id_column != cells.frame.index.name:
            # Faster than set_index(id_column), which cuts a wide table into its columns.
            cells.frame = cells.frame.drop(columns=id_column).set_index(cells.frame[id_column])
        if is_new and (lost := [name for name in features if name not in cells.frame]):
            raise InputError(f"it lacks {len(lost):,} of the {len(features):,} columns that the "
                             f"model needs: {listed(lost)}")
        _check_known(cells.frame, [labels, *(features or ())])
        ids, named_by = formats.identifiers(cells.frame), cells.frame.index.name
        frame = cells.frame.reset_index(drop=True)
        y, classes = (None, ()) if is_new else _labels(frame, labels, features or (), cells)
        beside = (frame.drop(columns=features) if is_new else
                  frame[[name for name in cells.beside if name in frame]])
        frame = frame[[*features]] if features else frame.drop(columns=beside.columns)
        values, table, texts = _features(frame, features, codes, text, impute, texts, cells)
    except Exception as error:  # a damaged file can break its reader anywhere
        reason = "".join(one if one.isprintable() else " " for one in said(error))
        raise InputError(f"the table {file} can't be read: {reason}") from error
    cells.notes += doubts.of(values, table, ids, named_by, cells.is_turned)
    for note in cells.notes:
        warnings.warn(note, stacklevel=3)
    cells.facts |= {"rows are named by": repr(named_by)} if named_by else {}
    cells.facts |= {"offered as labels": listed(beside)} if len(beside.columns) else {}
    if not cells.is_turned:
        is_doubted = any("are rows samples?" in note for note in cells.notes)
        cells.facts["a row is"] += ("; a note doubts it" if is_doubted else
                                    ": no name speaks against it")
    source = Source(file.name, f"a table of one's own, {file.name}")
    return Dataset(np.ascontiguousarray(table, dtype=np.float32), y, classes, source,
                   feature_names=tuple(table), ids=ids, beside=beside, texts=tuple(texts),
                   notes=tuple(cells.notes), understood=cells.facts)


def _names(cells: formats.Cells, used: Collection[str | None]) -> str | None:
    """The first column, if it is not used otherwise and has a different text in each row."""
    first = cells.frame.columns[:1]
    if (not isinstance(cells.frame.index, pd.RangeIndex) or first.empty or first[0] in used
            or first[0].casefold() in formats.LABELS):
        return None
    column = cells.frame[first[0]]
    texts = [cell for cell in column if isinstance(cell, str) and re.search(r"[^\W\d_]", cell)]
    if (len(column) <= _FEW or len(texts) < len(column) or not column.is_unique
            or all(map(_AMOUNT.fullmatch, texts))):
        return None
    numbers = formats.as_numbers(cells.frame[first], cells.decimal)
    return first[0] if numbers[first[0]].isna().all() else None


def _check_known(frame: pd.DataFrame, asked: Sequence[str | None]) -> None:
    for name in filter(None, asked):
        if name not in frame and name != frame.index.name:
            raise unknown("column", name, get_close_matches(name, frame) or frame)


def _labels(frame: pd.DataFrame, named: str | None, features: Sequence[str], cells: formats.Cells
            ) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """The labels, taken out of a table, and the names of the classes."""
    found = [named] if named else [name for name in frame if name.casefold() in formats.LABELS
                                   and name not in features]
    numbers = formats.as_numbers(frame[found], cells.decimal)
    for name, column in () if named else numbers.items():
        distinct = column.nunique()
        if distinct > 10 and (distinct > len(column) / 2 or (column % 1).any()):
            found.remove(name)
            cells.notes.append(f"{name!r} has {distinct:,} different numbers and was taken for a "
                               f"feature; {option('labels', name)} takes it for classes")
    if len(found) > 1:
        raise InputError(f"several columns could be labels ({listed(found)}): name one")
    _refuse("missing labels", frame[found].isna().sum(), "label or remove these rows")
    if not found:
        return None, ()
    column, values = frame.pop(found[0]), numbers[found[0]]
    is_number = values.notna().all() and values.abs().max() < 2**53
    y, classes = as_classes(values if is_number else column.astype(str))
    cells.facts["labels"] = f"{found[0]!r}: {len(classes):,} classes"
    if is_number and not named and len(classes) > 10:
        cells.notes.append(f"{found[0]!r} was taken for classes because of its name; if it is a "
                           f"feature, name all of them with {option('features', 'NAMES')}")
    if len(classes) > max(10, len(y) / 2):
        cells.notes.append(f"the labels {found[0]!r} have {len(classes):,} classes in {len(y):,} "
                           f"rows; {option('labels', 'NAME')} takes another column")
    return y, classes


def _features(frame: pd.DataFrame, chosen: Sequence[str] | None, codes: Sequence[str], text: str,
              impute: str | None, texts: Sequence[str] | None, cells: formats.Cells
              ) -> tuple[pd.DataFrame, pd.DataFrame, Sequence[str]]:
    """The numbers as read; the features, float32, those made of text last; the columns of text.

    Some *codes* stand for missing values. *texts* are known for rows of a saved model.
    """
    is_new = texts is not None
    if not chosen and len(frame) and (empty := [*frame.columns[frame.isna().all()]]):
        cells.notes.append(f"columns without a value were left out: {listed(empty)}")
        frame = frame.drop(columns=empty)
    (rows, width), fewest = frame.shape, 1 if is_new else 2
    if rows < fewest or width < 1:
        raise InputError(f"rows: {rows:,}, features: {width:,}; expected at least {fewest} and 1")
    numbers = formats.as_numbers(frame, cells.decimal)
    odd = numbers.isna() & frame.notna()
    found = [name for name in frame.columns[odd.any()] if name not in (texts or ())]
    texts = [*texts] if is_new else found
    numbers = numbers.drop(columns=texts)
    numbers = numbers.mask(numbers.isin([*map(float, filter(formats.number, codes))]))
    for name in filter(_IDENTIFIER.fullmatch, () if chosen else numbers):
        if numbers[name].is_unique and not any(numbers[name] % 1):
            raise InputError(f"identifiers in {name!r}: name it as id_column, or in features")
    wrong = {name: frame.loc[odd[name], name].astype(str) for name in found}
    _refuse_cells(wrong, frame)
    if found and is_new:
        shown = [f"{name} (such as {cells.iloc[0][:40]})" for name, cells in wrong.items()]
        raise InputError("text in columns that had numbers in the table of the model: "
                         f"{listed(shown)}")
    if found and text == "refuse":
        shown = [f"{name} ({cells.nunique():,} different, such as {cells.iloc[0][:40]})"
                 for name, cells in wrong.items()]
        raise InputError(f"text in {len(texts):,} of {width:,} columns: {listed(shown)}; name "
                         f"labels, id_column or features, or use {option('text', 'one-hot')}")
    missing = pd.concat([numbers, frame[texts]], axis=1)[[*frame]].isna().sum()
    cells.facts["missing values"] = f"{missing.sum():,}"
    if not impute:
        _refuse("missing values", missing, "remove or fill in these rows" if is_new else
                f"remove them, or fill them with {option('impute', 'median')}")
    elif missing.any():
        shares = (missing / rows)[missing > 0].sort_values(ascending=False, kind="stable")
        shares = listed(f"{name} ({share:.0%})" for name, share in shares.items())
        cells.notes.append(f"missing values filled in: {missing.sum():,}, in columns {shares}, "
                           "with medians or 'missing'")
        numbers = numbers.fillna(numbers.median())
    with np.errstate(over="ignore"):                      # beyond 3.4e38 becomes infinite
        table = numbers.astype(np.float32)
    _refuse("infinite or no values", (~np.isfinite(table)).sum(), "correct or remove them")
    if texts:
        words = frame[texts].fillna("missing").astype(str)
        counts = words.nunique()
        if not chosen and (names := [*counts.index[counts > max(10, rows / 2)]]):
            raise InputError(f"different texts in most rows, as in a column of names: "
                             f"{listed(names)}; name id_column, or the features to use")
        listing = [f"{name} ({n:,})" for name, n in counts.items()]
        cells.notes.append(f"text became features of 0 and 1: {listed(listing)}")
        table = table.join(pd.get_dummies(words, prefix_sep="=", dtype=np.float32))
    return numbers, table, texts


def _refuse_cells(wrong: Mapping[str, pd.Series], frame: pd.DataFrame) -> None:
    """Raise InputError for a column in which most cells are numbers; the *wrong* ones are named."""
    amiss = {}
    for name, cells in wrong.items():
        near = cells[[bool(_THOUSANDS.fullmatch(one)) or formats.number(one) for one in cells]]
        if 2 * (len(cells) - len(near)) > frame[name].count():
            continue
        for row, cell in near[:1].items():
            what = "a thousands separator" if _THOUSANDS.fullmatch(cell) else "another decimal mark"
            raise InputError(f"row {row + 1:,} of {name!r} is {cell!r}, with {what}; write all "
                             "numbers alike, with a decimal mark only")
        amiss[name] = cells
    if amiss:
        name = max(amiss, key=lambda one: len(amiss[one]))
        codes = [*pd.concat([*amiss.values()]).unique()][:5]
        raise InputError(
            f"cells of {name!r} that are no numbers: {len(amiss[name]):,}, "
            f"{listed(amiss[name].unique())}, the first in row {amiss[name].index[0] + 1:,}; "
            f"correct them or, if they stand for missing values, declare "
            f"{option('missing', codes)} with {option('impute', 'median')}"
            + ("; a value below a limit of detection is not missing: write, for example, half of "
               "the limit" if any(code[:1] in "<>" for code in codes) else ""))


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
    files in subfolders of a class's folder. Hidden ones are skipped; links are followed, with a
    warning if they lead out of the folder.
    Raises InputError for a folder that is missing, has fewer than *least* images, a class without
    any, or images beside classes.
    """

    def __init__(self, path: str | os.PathLike[str], *, least: int = 2) -> None:
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
        if len(self.samples) < least or empty:
            many = "two images" if least > 1 else "an image"
            raise InputError(f"expected at least {many} in {folder}, or some in each of its "
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
