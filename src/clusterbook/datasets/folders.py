"""A folder of one's own images, as a `Dataset`, and the list of images in it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..checks import one_of, whole
from ..errors import InputError
from .dataset import Dataset, Source
from .tables import SHOWN, absolute, listed, nearest

if TYPE_CHECKING:
    from PIL import Image

PREFIX = "folder:"
ENDINGS = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Endings of image files in any case, the same as torchvision's."""
GRAY = ("1", "L", "LA", "La")
_DEEP = ("I", "F")  # also I;16, I;16B …: the file does not say which value is white


@dataclass(frozen=True)
class Images:
    """The images of a folder, not opened yet."""

    folder: Path  #: absolute
    names: tuple[str, ...]  #: such as ``cat/1.jpg``, sorted by class, then by name
    left_out: tuple[str, ...] = ()  #: other files and empty subfolders, without hidden ones

    @property
    def files(self) -> tuple[Path, ...]:
        """The images' paths."""
        return tuple(self.folder / name for name in self.names)

    def labels(self) -> tuple[np.ndarray | None, tuple[str, ...]]:
        """The class of each image, and the classes' names; None and () if the folder is flat."""
        return _labels(self.names, self.names)


def read_folder(
    path: str | os.PathLike[str], *, image_size: int | None = None, resize: int | None = None,
    color: str = "refuse", unreadable: str = "refuse", most: int | None = None,
) -> Dataset:
    """The images of a folder, each as a square; `clusterbook.datasets.load` has the parameters.

    Holds the samples in memory, 4 bytes a value (49 kB for a color image of 64 × 64 pixels), and
    one image at a time.

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
    size = 64 if image_size is None else image_size
    whole("image_size", size, 1)
    short = size if resize is None else resize
    whole("resize", short, size)  # the middle is cropped from what is resized
    one_of("setting of color", color, ("refuse", "convert"))
    one_of("setting of unreadable", unreadable, ("refuse", "skip"))
    images = find_images(path)
    folder, names = images.folder, images.names
    rows = range(len(names))
    if most is not None:
        whole("most", most, 2)
        rows = np.sort(np.random.default_rng(0).permutation(len(names))[:most])
    modes, broken, used = {}, {}, []
    for row in rows:
        try:
            with opened(folder / names[row]) as image:
                modes[row] = "L" if image.mode in GRAY else "RGB"
        except Exception as error:  # a damaged file can break its reader anywhere
            broken[names[row]] = _reason(error)
    mode = "RGB" if color == "convert" else _common_mode(folder, names, modes)
    try:
        X = np.empty((len(modes), len(mode) * size**2), dtype=np.float32)
    except MemoryError as error:
        raise InputError(f"{len(modes):,} images of {size} × {size} pixels exceed the memory: take "
                         "a smaller image_size, or fewer by most=…") from error
    for row in modes:
        try:
            square = _square(folder / names[row], mode, size, short)
        except Exception as error:
            broken[names[row]] = _reason(error)
        else:
            np.divide(square.ravel(), np.float32(255), out=X[len(used)])
            used.append(row)
    if broken:
        _report(folder, broken, refuse=unreadable == "refuse")
    if images.left_out:
        warnings.warn(f"{folder} has more than images; left out: {listed(images.left_out)}",
                      stacklevel=3)
    _check_number(folder, len(used))
    found = [names[row] for row in used]
    y, classes = _labels(found, found if most is None else names)
    source = Source(PREFIX + folder.name, f"images of one's own, {folder.name}", len(used),
                    X.shape[1], len(classes), "your own", "your own", str(folder))
    return Dataset(X[:len(used)], y, classes, source, image_shape=(len(mode), size, size),
                   rows=None if most is None else np.array(used))


def find_images(path: str | os.PathLike[str]) -> Images:
    """The images of a folder, in it or in one subfolder per class; opens none of them.

    A relative path begins where ``clusterbook run`` was typed, otherwise in the current folder.
    Hidden files are skipped. Raises InputError for a folder that is missing, can't be listed or has
    fewer than two images, and for images that lie deeper or at several depths.
    """
    folder = absolute(path)
    if not str(path) or not os.path.isdir(folder):
        beside = sorted(one.name for one in folder.parent.glob("*") if one.is_dir())
        raise InputError(f"there is no folder {folder if str(path) else repr(PREFIX)}; folders in "
                         f"{folder.parent}: {listed(nearest(folder.name, beside)) or 'none'}")
    names, left_out = [], []
    for place, below, files in os.walk(folder, onerror=_unlistable, followlinks=True):
        inside = "" if place == str(folder) else f"{os.path.relpath(place, folder)}/"
        deep = inside.count("/") > 1  # far enough: links may lead in a circle
        below[:] = [one for one in below if not (deep or one.startswith("."))]
        for file in sorted(files):
            if not file.startswith("."):
                (names if file.lower().endswith(ENDINGS) else left_out).append(inside + file)
    names.sort(key=lambda name: name.rpartition("/"))
    depths = {name.count("/"): name for name in reversed(names)}
    if len(depths) > 1 or max(depths, default=0) > 1:
        raise InputError(f"{folder} has images beside images in subfolders, or deeper ones (such "
                         f"as {listed(depths.values())}): expected all in the folder or all in one "
                         "subfolder per class")
    _check_number(folder, len(names), left_out)
    return Images(folder, tuple(names), tuple(left_out))


def _unlistable(error: OSError) -> None:
    raise InputError(f"the folder {error.filename} can't be listed ({error.strerror}): make it "
                     "readable") from error


def _labels(
    names: Sequence[str], all_names: Sequence[str]
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    classes = sorted({name.rpartition("/")[0] for name in all_names})
    if classes == [""]:
        return None, ()
    place = {name: i for i, name in enumerate(classes)}
    y = np.array([place[name.rpartition("/")[0]] for name in names], dtype=np.int64)
    return y, tuple(classes)


def _common_mode(folder: Path, names: Sequence[str], modes: Mapping[int, str]) -> str:
    """Pillow's mode for all images: L or RGB."""
    gray, colored = ([names[row] for row in modes if modes[row] == kind] for kind in ("L", "RGB"))
    if gray and colored:
        raise InputError(f"{folder} has {len(gray):,} gray images (such as {gray[0]!r}) beside "
                         f"{len(colored):,} in color (such as {colored[0]!r}): color='convert' "
                         "gives the gray ones three equal channels")
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
    """Raise ValueError for an image whose values have no known range."""
    if image.mode.partition(";")[0] in _DEEP:
        raise ValueError(f"more than 8 bits a channel, mode {image.mode}; save it with 8")


def _square(file: Path, mode: str, size: int, short: int) -> np.ndarray:
    """The middle of an image, turned as its camera noted: bytes, shape (channels, size, size).

    It is cropped to *size* pixels after the short side was resized to *short*; transparency is
    ignored.
    """
    from PIL import Image, ImageOps

    with opened(file) as image:
        # Indexed colors by way of RGBA, where Pillow knows which are transparent.
        shown = image.convert("RGBA") if image.mode in ("P", "PA") else image
        shown = ImageOps.exif_transpose(shown).convert(mode)
    width, height = shown.size
    side = round(min(width, height) * size / short)
    # Whole pixels: nothing is blurred where the size stays.
    left, top = (width - side) // 2, (height - side) // 2
    box = (left, top, left + side, top + side)
    square = np.asarray(shown.resize((size, size), Image.Resampling.BILINEAR, box=box))
    return square.reshape(size, size, len(mode)).transpose(2, 0, 1)


def _check_number(folder: Path, number: int, left_out: Sequence[str] = ()) -> None:
    if number < 2:
        beside = f" beside {listed(left_out)}" if left_out else ""
        raise InputError(f"{folder} has {'one image' if number else 'no images'} to be read"
                         f"{beside}; expected two or more that end in {', '.join(ENDINGS)}")


def _report(folder: Path, broken: Mapping[str, str], *, refuse: bool) -> None:
    """Refuse images that can't be read, or warn that they were left out, by name."""
    shown = ", ".join(f"{name!r} ({broken[name]})" for name in sorted(broken)[:SHOWN])
    shown += f" and {len(broken) - SHOWN:,} more" if len(broken) > SHOWN else ""
    images = f"{len(broken):,} image{'s' if len(broken) > 1 else ''}"
    if refuse:
        raise InputError(f"{folder} has {images} that can't be read: {shown}; repair or remove "
                         "them, or leave them out with unreadable='skip'")
    warnings.warn(f"{images} of {folder} that can't be read left out: {shown}", stacklevel=4)


def _reason(error: Exception) -> str:
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):  # its own message repeats the path
        return "not an image of a kind that is known"
    return " ".join(str(getattr(error, "strerror", None) or error).split())
