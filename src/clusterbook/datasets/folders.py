"""A folder of one's own images: the list of them by torchvision, and as a `Dataset`."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from torchvision.datasets.folder import IMG_EXTENSIONS, ImageFolder

from ..checks import InputError, whole
from .dataset import PREFIX, Dataset, Source, absolute, listed, of_images


class Folder(ImageFolder):
    """torchvision's `ImageFolder`, also for a folder without classes; opens no image.

    ``names`` are those of the images, such as ``cat/1.jpg``; ``left_out`` are other files, and all
    in folders of a class's folder. Hidden ones are skipped. A relative path begins as for `load`.
    Raises InputError for a folder that is missing, has fewer than two images, has a class without
    any, or has images beside classes.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        folder, self.left_out = absolute(path), []
        if not folder.is_dir():
            raise InputError(f"there is no folder {folder}")
        super().__init__(folder, loader=read_image, is_valid_file=self._is_image, allow_empty=True)
        self.names = [os.path.relpath(file, folder) for file, _ in self.samples]
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
        is_image = name.lower().endswith(IMG_EXTENSIONS) and name.count(os.sep) < 2
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
    """The images of a folder, each as a square; `clusterbook.datasets.load` has the parameters.
    """
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
            broken.append(f"{folder.names[row]} ({error})")
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
    """The middle of an image as bytes, shape (channels, size, size).

    It is cropped to *size* pixels after the short side was resized to *short*.
    """
    width, height = image.size
    side = round(min(width, height) * size / short)
    # Whole pixels: nothing is blurred where the size stays.
    left, top = (width - side) // 2, (height - side) // 2
    box = (left, top, left + side, top + side)
    square = np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box=box))
    return square.reshape(size, size, -1).transpose(2, 0, 1)
