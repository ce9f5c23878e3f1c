"""A folder of one's own images, as a `Dataset`, and the list of images in it."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from ..checks import one_of, whole
from ..errors import InputError
from .dataset import Dataset, Source, absolute, as_classes, listed, of_images

PREFIX = "folder:"
ENDINGS = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Endings of image files in any case, the same as torchvision's."""
GRAY = ("1", "L", "LA", "La")


@dataclass(frozen=True)
class Images:
    """The images of a folder, not opened yet."""

    names: tuple[str, ...]  #: such as ``cat/1.jpg``, sorted by class, then by name
    files: tuple[Path, ...]  #: their paths
    left_out: tuple[str, ...]  #: other files, and folders in the classes' folders

    def labels(self) -> tuple[np.ndarray | None, tuple[str, ...]]:
        """The class of each image, and the classes' names; None and () if the folder is flat."""
        folders = [os.path.dirname(name) for name in self.names]
        return as_classes(folders) if any(folders) else (None, ())


def find_images(path: str | os.PathLike[str]) -> Images:
    """The images of a folder, in it or in one subfolder per class; opens none of them.

    A relative path begins as for `load`. Hidden files are skipped. Raises InputError for a folder
    that is missing or has fewer than two images, and for images beside images in subfolders.
    """
    folder = absolute(path)
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}")
    found = []
    for name in _visible(folder):
        is_class = (folder / name).is_dir()
        found += [f"{name}/{one}" for one in _visible(folder / name)] if is_class else [name]
    names = [name for name in found if name.lower().endswith(ENDINGS)]
    left_out = [name for name in found if not name.lower().endswith(ENDINGS)]
    if len(names) < 2 or len({name.count("/") for name in names}) > 1:
        raise InputError(f"expected at least two images in {folder}, or in one subfolder per class "
                         f"and none beside these; they end in {', '.join(ENDINGS)}; images: "
                         f"{listed(names) or 'none'}; other files: {listed(left_out) or 'none'}")
    return Images(tuple(names), tuple(folder / name for name in names), tuple(left_out))


def _visible(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


def read_folder(
    path: str | os.PathLike[str], *, image_size: int = 64, resize: int | None = None,
    color: str = "refuse", unreadable: str = "refuse", most: int | None = None,
) -> Dataset:
    """The images of a folder, each as a square; `clusterbook.datasets.load` has the parameters.

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
    whole("image_size", image_size, 1)
    short = image_size if resize is None else resize
    whole("resize", short, image_size)  # the middle is cropped from what is resized
    one_of("setting of color", color, ("refuse", "convert"))
    one_of("setting of unreadable", unreadable, ("refuse", "skip"))
    folder, images = absolute(path), find_images(path)
    rows = np.arange(len(images.names))
    if most is not None:
        whole("most", most, 2)
        rows = np.sort(np.random.default_rng(0).permutation(len(rows))[:most])
    squares, broken = {}, []
    for row in rows:
        try:
            squares[row] = _square(images.files[row], image_size, short, color == "convert")
        except Exception as error:  # a damaged file can break its reader anywhere
            broken.append(f"{images.names[row]} ({error})")
    if len(squares) < 2 or (broken and unreadable == "refuse"):
        raise InputError(f"{folder} has {len(broken):,} images that can't be read: "
                         f"{listed(broken)}; repair or remove them, or leave them out with "
                         "unreadable='skip'")
    examples = {len(square): images.names[row] for row, square in squares.items()}
    if len(examples) > 1:
        raise InputError(f"{folder} has gray images (such as {examples[1]!r}) beside images in "
                         f"color (such as {examples[3]!r}): color='convert' gives the gray ones "
                         "three equal channels")
    if left_out := [*broken, *images.left_out]:
        warnings.warn(f"not all of {folder} was read; left out: {listed(left_out)}", stacklevel=3)
    y, classes = images.labels()
    rows = np.array(list(squares))
    return of_images(Source(PREFIX + folder.name, f"images of one's own, {folder.name}"),
                     np.stack(list(squares.values())), None if y is None else y[rows], classes,
                     rows)


def upright(image: Image.Image, mode: str | None = None) -> Image.Image:
    """An image turned as its camera noted, without transparency: in *mode*, or gray or in color.

    Raises ValueError if its values have no known range.
    """
    if image.mode.partition(";")[0] in ("I", "F"):  # also I;16, I;16B …
        raise ValueError(f"more than 8 bits a channel, mode {image.mode}; save it with 8")
    mode = mode or ("L" if image.mode in GRAY else "RGB")
    # Pillow knows transparent palette colors in RGBA only.
    shown = image.convert("RGBA") if image.mode in ("P", "PA") else image
    return ImageOps.exif_transpose(shown).convert(mode)


def _square(file: Path, size: int, short: int, in_color: bool) -> np.ndarray:
    """The middle of an image as bytes, shape (channels, size, size).

    It is cropped to *size* pixels after the short side was resized to *short*.
    """
    with Image.open(file) as image:
        shown = upright(image, "RGB" if in_color else None)
    width, height = shown.size
    side = round(min(width, height) * size / short)
    # Whole pixels: nothing is blurred where the size stays.
    left, top = (width - side) // 2, (height - side) // 2
    box = (left, top, left + side, top + side)
    square = np.asarray(shown.resize((size, size), Image.Resampling.BILINEAR, box=box))
    return square.reshape(size, size, -1).transpose(2, 0, 1)
