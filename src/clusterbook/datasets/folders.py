"""A folder of a person's own images, in the form that every data set has, or refused.

`find_images` tells which images there are and what their classes are without opening any, for
whoever reads them one by one.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..checks import one_of, whole
from ..errors import InputError
from .dataset import Dataset, own_source
from .readers import SHOWN, listed
from .tables import absolute, similar

if TYPE_CHECKING:
    from PIL import Image

PREFIX = "folder:"
ENDINGS = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""What the names of images end in, in capitals or not; torchvision reads the same ones."""
_ENDINGS = ", ".join(ENDINGS)
_SIZE = 64  # pixels on each side, unless another size is asked for

GRAY = ("1", "L", "LA", "La")
_DEEP = ("I", "F")  # and I;16, I;16B …: what is white in them, the file does not say


@dataclass(frozen=True)
class Images:
    """The images of a folder, none of them opened yet."""

    #: Absolute.
    folder: Path
    #: ``cat/1.jpg`` below the folder, sorted by class, then by name, letter by letter.
    names: tuple[str, ...]
    #: Other files, and subfolders without an image; hidden ones are not counted.
    left_out: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The images' paths."""
        return tuple(self.folder / name for name in self.names)

    def labels(self) -> tuple[np.ndarray | None, tuple[str, ...]]:
        """The class of each image, and the classes' names; None and () if the folder is flat."""
        return _labels(self.names)


def read_folder(
    path: str | os.PathLike[str],
    *,
    image_size: int | None = None,
    resize: int | None = None,
    color: str = "refuse",
    unreadable: str = "refuse",
    most: int | None = None,
) -> Dataset:
    """The images of a folder, each as a square; `clusterbook.datasets.load` has the settings.

    What is asked for is held in memory, 4 bytes a value (49 kB for an image in color of 64 × 64
    pixels, so 2 GB hold some 40,000) and nothing beside it but one image at a time.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("sky/1.png", "sky/2.png", "grass/1.png"):
    ...         file = Path(folder) / name
    ...         file.parent.mkdir(exist_ok=True)
    ...         Image.new("RGB", (40, 30), "blue" if "sky" in name else "green").save(file)
    ...     found = read_folder(folder, image_size=8)
    >>> found.X.shape, found.image_shape, found.y.tolist(), found.classes
    ((3, 192), (3, 8, 8), [0, 1, 1], ('grass', 'sky'))
    """
    for name, value in (("image_size", image_size), ("resize", resize)):
        if value is not None:
            whole(name, value, 1)
    size = image_size or _SIZE
    short = resize or size
    if short < size:
        raise InputError(
            f"resize={resize} is smaller than image_size, {size}: the middle is cropped from what "
            "is resized"
        )
    one_of("setting of color", color, ("refuse", "convert"))
    one_of("setting of unreadable", unreadable, ("refuse", "skip"))
    images = chosen = find_images(path)
    rows, broken = None, {}
    if most is not None:
        whole("most", most, 2)
        rows = np.sort(np.random.default_rng(0).permutation(len(images.names))[:most])
        chosen = replace(images, names=tuple(images.names[row] for row in rows))
    mode = _common_mode(chosen, color, broken)
    X, names = _pixels(chosen, mode, size, short, broken)
    if rows is not None:
        there = set(names)
        rows = rows[[name in there for name in chosen.names]]
    if broken:
        _report_unreadable(images.folder, broken, unreadable)
    if images.left_out:
        warnings.warn(
            f"{images.folder} has more than images; left out: {listed(images.left_out)}; files "
            f"that end in {_ENDINGS} are read",
            stacklevel=3,
        )
    _check_number(images.folder, len(names))
    y, classes = _labels(names, None if rows is None else images.names)
    again = partial(read_folder, images.folder, image_size=size, resize=resize, color=color,
                    unreadable=unreadable, most=most)  # fmt: skip
    name, address = PREFIX + images.folder.name, str(images.folder)
    source = own_source("images", name, address, X, classes, again)
    return Dataset(X, y, classes, source, image_shape=(len(mode), size, size), rows=rows)


# --- which images there are --------------------------------------------------------------------


def find_images(path: str | os.PathLike[str]) -> Images:
    """The images of a folder, in it or in one subfolder per class; opens none of them.

    A relative path begins where ``clusterbook run`` was typed, otherwise in the current folder.
    What begins with a dot is not looked at. Raises InputError for a folder that is missing, can't
    be listed or has fewer than two images, and for images that lie deeper or at both depths.
    """
    folder = _located(path)
    own, others, subfolders = _listing(folder)
    names, left_out = list(own), list(others)
    for sub in subfolders:
        inside, beside, deeper = _listing(folder / sub)
        names += [f"{sub}/{name}" for name in inside]
        beside += [f"{one}/" for one in deeper]
        left_out += [f"{sub}/{name}" for name in beside or ([] if inside else [""])]
        for one in deeper:
            if found := _listing(folder / sub / one)[0]:
                raise InputError(
                    f"{folder} has images two folders down (such as '{sub}/{one}/{found[0]}'); "
                    "expected them in the folder or in one subfolder per class: name one of its "
                    f"subfolders, as in {PREFIX + str(Path(path) / sub)!r}, or move the images"
                )
    if own and len(names) > len(own):
        raise InputError(
            f"{folder} has images of its own ({len(own):,}, such as {own[0]!r}) beside images in "
            f"subfolders ({len(names) - len(own):,}, such as {names[len(own)]!r}); expected all "
            "in the folder, without labels, or all in one subfolder per class: move the ones or "
            "the others"
        )
    if not names:
        other = f", but has {listed(left_out)}" if left_out else ""
        raise InputError(
            f"{folder} has no images{other}; expected files that end in {_ENDINGS}, in the "
            "folder or in one subfolder per class"
        )
    _check_number(folder, len(names))
    return Images(folder, tuple(names), tuple(left_out))


def _located(path: str | os.PathLike[str]) -> Path:
    """The folder that was meant; it is there."""
    if not str(path):
        raise InputError(f"{PREFIX!r} names no folder; expected its path, as in 'folder:photos'")
    folder = absolute(path)
    if os.path.isdir(folder):
        return folder
    if os.path.exists(folder):
        raise InputError(f"{folder} is a file; a folder of images was expected")
    try:
        beside = [one.name for one in folder.parent.iterdir() if one.is_dir()]
    except OSError as error:
        why = f", and the one above can't be listed ({error.strerror}); check the path"
    else:
        near = similar(folder.name, beside)
        why = f"; did you mean {near}?" if near else "; check the path"
    raise InputError(f"there is no folder {folder}{why}")


def _listing(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """Images, other files and subfolders, each sorted by name; links count as what they are to."""
    images, others, subfolders = [], [], []
    try:
        with os.scandir(folder) as found:
            for one in found:
                if one.name.startswith("."):
                    continue
                if one.is_dir():
                    subfolders.append(one.name)
                # A link that leads nowhere is an image that can't be read, not one less.
                elif one.name.lower().endswith(ENDINGS) and (one.is_file() or one.is_symlink()):
                    images.append(one.name)
                else:
                    others.append(one.name)
    except OSError as error:
        raise InputError(
            f"the folder {folder} can't be listed ({error.strerror}): make it readable"
        ) from error
    return sorted(images), sorted(others), sorted(subfolders)


def _labels(
    names: Sequence[str], all_names: Sequence[str] | None = None
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    of_each = [name.rpartition("/")[0] for name in names]
    if not any(of_each):
        return None, ()
    classes = sorted({name.rpartition("/")[0] for name in all_names or names})
    place = {name: i for i, name in enumerate(classes)}
    return np.array([place[name] for name in of_each], dtype=np.int64), tuple(classes)


# --- what is in them ---------------------------------------------------------------------------


def _common_mode(images: Images, color: str, broken: dict[str, str]) -> str:
    """Pillow's mode for all images, L or RGB, from their headers; broken ones are added."""
    kinds: dict[str, list[str]] = {"L": [], "RGB": []}
    for name, file in zip(images.names, images.files, strict=True):
        try:
            with opened(file) as image:
                kinds["L" if image.mode in GRAY else "RGB"].append(name)
        except Exception as error:  # a damaged file can break its reader anywhere
            broken[name] = _reason(error)
    gray, colored = kinds["L"], kinds["RGB"]
    if color == "convert":
        return "RGB"
    if gray and colored:
        raise InputError(
            f"{images.folder} has {len(gray):,} gray images (such as {gray[0]!r}) beside "
            f"{len(colored):,} in color (such as {colored[0]!r}); expected one kind: "
            "color='convert' gives the gray ones three equal channels, or sort them into two "
            "folders"
        )
    return "L" if gray else "RGB"


def opened(file: Path) -> Image.Image:
    """An image whose header was read; ValueError if its values have no known range."""
    from PIL import Image

    image = Image.open(file)
    try:
        refuse_deep(image)
    except ValueError:
        image.close()
        raise
    return image


def refuse_deep(image: Image.Image) -> None:
    """Raise ValueError for a picture whose values have no known range."""
    if image.mode.partition(";")[0] in _DEEP:
        raise ValueError(f"more than 8 bits a channel, mode {image.mode}; save it with 8")


def _pixels(
    images: Images, mode: str, size: int, short: int, broken: dict[str, str]
) -> tuple[np.ndarray, list[str]]:
    """The samples of all that can be read, and their names; the others are added as broken."""
    readable = [name for name in images.names if name not in broken]
    shape = (len(readable), len(mode) * size**2)
    try:
        X = np.empty(shape, dtype=np.float32)
    except MemoryError as error:
        raise InputError(
            f"the {len(readable):,} images of {images.folder} at {size} × {size} pixels take "
            f"{4 * np.prod(shape, dtype=float) / 1e9:,.0f} GB, which is more than there is: take "
            "a smaller image_size, or fewer images by most=…"
        ) from error
    names = []
    for name in readable:
        try:
            square = _square(images.folder / name, mode, size, short)
        except Exception as error:  # a damaged file can break its reader anywhere
            broken[name] = _reason(error)
            continue
        np.divide(square.reshape(-1), np.float32(255), out=X[len(names)])
        names.append(name)
    return X[: len(names)], names


def _square(file: Path, mode: str, size: int, short: int) -> np.ndarray:
    """The middle of an image as bytes, shape (channels, size, size), turned as it is shown.

    It is what *size* pixels take of an image whose short side has *short*. Transparency is ignored.
    """
    from PIL import Image, ImageOps

    with opened(file) as image:
        # Indexed colors first by way of RGBA, where Pillow knows all that can be transparent.
        shown = image.convert("RGBA") if image.mode in ("P", "PA") else image
        shown = ImageOps.exif_transpose(shown).convert(mode)
    width, height = shown.size
    side = round(min(width, height) * size / short)
    # Whole pixels, so that nothing is blurred where no other size is asked for.
    left, top = (width - side) // 2, (height - side) // 2
    box = (left, top, left + side, top + side)
    square = np.asarray(shown.resize((size, size), Image.Resampling.BILINEAR, box=box))
    return square.reshape(size, size, len(mode)).transpose(2, 0, 1)


# --- what can't be clustered -------------------------------------------------------------------


def _check_number(folder: Path, number: int) -> None:
    if number < 2:
        raise InputError(
            f"{folder} has too few images that can be read ({number}); expected two or more"
        )


def _report_unreadable(folder: Path, broken: dict[str, str], unreadable: str) -> None:
    """Refuse images that can't be read, or warn that they were left out, by name."""
    shown = ", ".join(f"{name!r} ({broken[name]})" for name in sorted(broken)[:SHOWN])
    shown += f" and {len(broken) - SHOWN:,} more" if len(broken) > SHOWN else ""
    images = f"{len(broken):,} image{'s' if len(broken) > 1 else ''}"
    if unreadable == "refuse":
        raise InputError(
            f"{folder} has {images} that can't be read: {shown}; repair or remove what is named, "
            "or leave it out with unreadable='skip'"
        )
    warnings.warn(f"{images} of {folder} that can't be read left out: {shown}", stacklevel=4)


def _reason(error: Exception) -> str:
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):  # its own words repeat the path
        return "not an image of a kind that is known"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__
