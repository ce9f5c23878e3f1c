"""A folder of one's own images: read as it is, or refused with one clear sentence."""

from __future__ import annotations

import os
import re
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clusterbook import cli, datasets
from clusterbook.datasets import folders
from clusterbook.errors import InputError

RNG = np.random.default_rng(0)
Pixels = np.ndarray


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.delenv("CLUSTERBOOK_RUN", raising=False)


@pytest.fixture
def photos(tmp_path) -> Path:
    folder = tmp_path / "my photos"
    folder.mkdir()
    return folder


@pytest.fixture
def put(photos) -> Callable[..., Pixels]:
    """Writes images below the folder, random unless given, and returns the last one's pixels."""

    def write(*names: str, width: int = 8, height: int = 8, mode: str = "RGB",
              pixels: Pixels | None = None, **settings: object) -> Pixels:
        for name in names:
            image = RNG.integers(0, 256, (height, width, 3), dtype=np.uint8) \
                if pixels is None else pixels
            (photos / name).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).convert(mode).save(photos / name, **settings)
        return image

    return write


def load(path: object, **settings: object) -> datasets.Dataset:
    """Loaded without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return datasets.load(f"folder:{path}", **settings)


def refused(path: object, *words: str, **settings: object) -> str:
    """The message of the error, which is one sentence with these words in it."""
    with pytest.raises(InputError) as caught:
        load(path, **settings)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message
    return message


def shown(data: datasets.Dataset, place: int) -> Pixels:
    """An image of a data set as bytes, (height, width, channels)."""
    pixels = data.X[place].reshape(data.image_shape).transpose(1, 2, 0) * 255
    return np.round(pixels).astype(np.uint8)


# --- what is loaded ----------------------------------------------------------------------------


def test_a_flat_folder_has_no_labels_and_the_order_of_its_names(put, photos):
    images = {name: put(name) for name in ("b.png", "a.BMP", "c.tif", "9.ppm")}
    images["10.webp"] = put("10.webp", lossless=True)
    data = load(photos, image_size=8)
    assert data.X.dtype == np.float32 and data.X.flags.c_contiguous
    assert data.image_shape == (3, 8, 8) and data.feature_names is None
    assert data.y is None and data.classes == () and data.train_size is data.rows is None
    order = ["10.webp", "9.ppm", "a.BMP", "b.png", "c.tif"]
    for row, name in zip(data.X, order, strict=True):
        expected = images[name].transpose(2, 0, 1).ravel() / np.float32(255)
        np.testing.assert_array_equal(row, expected)
    source = data.source
    assert source.name == "folder:my photos" and "my photos" in source.title
    assert (source.n_samples, source.n_features, source.n_classes) == (5, 192, 0)
    assert source.license == "your own" and source.content is None and not source.files


def test_subfolders_are_classes_sorted_as_their_images_are(put, photos, monkeypatch):
    names = ["Bee/1.JPG", "ant/a.png", "ant/x.jpeg", "ant-eater/1.png", "zebra/10.png",
             "zebra/2.png"]
    put(*reversed(names))
    (photos / ".hidden").mkdir()
    (photos / "ant" / "._a.png").write_bytes(b"of another system")
    data = load(photos, image_size=8)
    assert data.classes == ("Bee", "ant", "ant-eater", "zebra") and data.source.n_classes == 4
    assert data.y.tolist() == [0, 1, 1, 2, 3, 3] and data.y.dtype == np.int64
    for i, name in enumerate(names):
        with Image.open(photos / name) as image:
            np.testing.assert_array_equal(shown(data, i), np.asarray(image))
    monkeypatch.setattr(Image, "open", None)  # finding images opens none
    found = folders.find_images(photos)
    assert found.names == tuple(names) and found.files == tuple(photos / name for name in names)
    assert found.labels()[0].tolist() == data.y.tolist() and found.labels()[1] == data.classes


@pytest.mark.parametrize(("width", "height", "left", "top"), [
    (12, 8, 2, 0), (8, 13, 0, 2), (8, 8, 0, 0), (11, 8, 1, 0),
])
def test_an_image_is_its_middle_square_and_otherwise_untouched(put, photos, width, height, left,
                                                               top):
    pixels = put("1.png", width=width, height=height)
    put("2.png")
    found = shown(load(photos, image_size=8), 0)
    np.testing.assert_array_equal(found, pixels[top : top + 8, left : left + 8])


def test_resized_and_cropped(put, photos):
    smooth = np.indices((90, 130)).sum(0)
    pixels = np.stack([smooth, smooth[::-1], smooth[:, ::-1]], -1).astype(np.uint8)
    put("1.png", "2.png", pixels=pixels)
    resized = Image.fromarray(pixels).resize((46, 32), Image.Resampling.BILINEAR)
    expected = np.asarray(resized.crop((9, 2, 37, 30))).astype(int)
    ours, uncropped = (shown(load(photos, image_size=28, resize=resize), 0).astype(int)
                       for resize in (32, None))
    assert np.abs(ours - expected).max() <= 3 < np.abs(uncropped - expected).max()


def test_a_photograph_is_turned_as_its_camera_noted(put, photos):
    note = Image.Exif()
    note[0x0112] = 6  # the camera was held on its side: turn it a quarter to the right
    pixels = put("1.png", "2.png", width=12, exif=note)
    np.testing.assert_array_equal(shown(load(photos, image_size=8), 1), np.rot90(pixels, -1)[2:10])


def test_gray_images_have_one_channel_unless_color_is_asked_for(put, photos):
    for i, mode in enumerate(("L", "1", "LA")):
        put(f"{i}.png", mode=mode)
    data = load(photos, image_size=8)
    assert data.image_shape == (1, 8, 8) and data.source.n_features == 64
    np.testing.assert_array_equal(shown(data, 0)[..., 0], np.asarray(Image.open(photos / "0.png")))
    assert set(np.unique(data.X[1]).tolist()) == {0.0, 1.0}


def test_images_in_color_of_each_kind_are_rgb(put, photos):
    pixels = put("0.png")
    put("1.png", pixels=pixels, mode="RGBA")
    put("2.tif", pixels=pixels, mode="CMYK")
    few = np.asarray(Image.fromarray(pixels).convert("P").convert("RGB"))
    indexed = Image.fromarray(pixels).convert("P")
    indexed.save(photos / "3.png", transparency=b"\x00\x80")
    data = load(photos, image_size=8)
    for i, expected in enumerate((pixels, pixels, pixels, few)):
        np.testing.assert_array_equal(shown(data, i), expected)


def test_a_mixture_is_converted_only_as_asked(put, photos):
    gray = put("a/1.png", mode="L")
    put("a/2.png", "b/1.png", "b/2.png")
    refused(photos, str(photos), "gray images (such as 'a/1.png') beside images in color (such as "
            "'a/2.png')", "color='convert'")
    data = load(photos, image_size=8, color="convert")
    expected = np.asarray(Image.fromarray(gray).convert("L"))
    np.testing.assert_array_equal(shown(data, 0), np.stack([expected] * 3, axis=-1))
    assert data.y.tolist() == [0, 0, 1, 1]


def test_a_sample_knows_its_places_and_all_classes(put, photos):
    put("a/0.png", "a/1.png", "a/2.png", "a/3.png", "b/0.png", "c/0.png", "c/1.png", "c/2.png",
        "c/3.png")
    every = load(photos)
    for most in (2, 100):
        some = load(photos, most=most)
        assert len(some.X) == min(most, 9) and (np.diff(some.rows) > 0).all()
        np.testing.assert_array_equal(some.X, every.X[some.rows])
        np.testing.assert_array_equal(some.y, every.y[some.rows])
        np.testing.assert_array_equal(load(photos, most=most).rows, some.rows)
        assert some.classes == every.classes == ("a", "b", "c")
    assert set(load(photos, most=2).y.tolist()) != {0, 1, 2}
    (photos / "a" / "0.png").write_bytes(b"torn")
    with pytest.warns(UserWarning, match="left out"):
        left = datasets.load(f"folder:{photos}", most=9, unreadable="skip")
    np.testing.assert_array_equal(left.X, every.X[left.rows])


# --- what can't be read ------------------------------------------------------------------------


def test_unreadable_images_are_named_and_left_out_only_as_asked(put, photos):
    put("ant/1.png", "ant/3.png", "bee/1.png")
    put("ant/2.jpg", width=64, height=64, quality=95)
    (photos / "ant/2.jpg").write_bytes((photos / "ant/2.jpg").read_bytes()[:1500])
    (photos / "bee/0.png").write_bytes(b"")
    (photos / "cat").mkdir()
    (photos / "cat/1.png").symlink_to(photos / "nowhere.png")
    Image.fromarray(np.zeros((8, 8), np.uint16)).save(photos / "bee/deep.png")
    named = ("ant/2.jpg (image file is truncated", "bee/0.png (cannot identify image",
             "bee/deep.png (more than 8 bits a channel, mode I;16; save it with 8)",
             "cat/1.png ([Errno 2] No such file")
    refused(photos, "has 4 images that can't be read: ", *named, "unreadable='skip'")
    with pytest.warns(UserWarning) as caught:
        data = datasets.load(f"folder:{photos}", image_size=8, unreadable="skip")
    assert len(caught) == 1 and caught[0].filename == __file__
    for words in ("left out: ", str(photos), *named):
        assert words in str(caught[0].message)
    assert data.X.shape == (3, 192) and data.X.flags.c_contiguous
    assert data.y.tolist() == [0, 0, 1] and data.classes == ("ant", "bee", "cat")
    for i, name in enumerate(("ant/1.png", "ant/3.png", "bee/1.png")):
        np.testing.assert_array_equal(shown(data, i), np.asarray(Image.open(photos / name)))


def test_of_many_unreadable_images_five_are_named(photos):
    for i in range(12):
        (photos / f"{i:02}.png").write_bytes(b"text")
    message = refused(photos, "has 12 images that", "04.png (", " and 7 more", unreadable="skip")
    assert "05.png" not in message


def test_what_was_left_out_is_said(put, photos):
    put("cat/1.png", "dog/1.png", "dog/more/2.png")
    (photos / "notes.txt").write_text("notes")
    (photos / ".DS_Store").write_bytes(b"")
    (photos / "cat" / "IMG_1.HEIC").write_bytes(b"of a telephone")
    (photos / "empty").mkdir()
    with pytest.warns(UserWarning) as caught:
        data = datasets.load(f"folder:{photos}")
    assert data.classes == ("cat", "dog")
    assert len(caught) == 1 and caught[0].filename == __file__
    assert str(caught[0].message).endswith(": 'cat/IMG_1.HEIC', 'dog/more', 'notes.txt'")


@pytest.mark.parametrize(("names", "words"), [
    (["x.png", "cat/1.png"], "images beside folders with images"),
    (["train/cat/1.png", "test/cat/1.png"], "fewer than two images, which end in .bmp, .jpeg"),
    (["train/cat/1.png", "test/cat/1.png"], "other files: 'test/cat', 'train/cat'"),
    ([], "fewer than two images"), (["1.png"], "fewer than two images")])
def test_a_folder_without_images_or_at_several_depths(put, photos, names, words):
    for name in names:
        put(name)
    refused(photos, str(photos), words)


def test_links_count_as_what_they_lead_to(put, photos, tmp_path):
    put("cat/1.png", "cat/2.png")
    links = tmp_path / "links"
    (links / "dog").mkdir(parents=True)
    (links / "cats").symlink_to(photos / "cat")
    (links / "dog" / "1.png").symlink_to(photos / "cat" / "1.png")
    assert load(links, image_size=8).y.tolist() == [0, 0, 1]


def test_a_folder_that_is_not_there(put, photos, tmp_path, monkeypatch):
    put("1.png")
    monkeypatch.chdir(tmp_path)
    for path in ("my fotos", "no/where", "my photos/1.png"):
        refused(path, f"there is no folder {tmp_path / path}")


def test_a_folder_or_file_without_permission_is_named(put, photos, monkeypatch):
    put("cat/1.png", "cat/2.png")
    listdir, opened = os.listdir, Image.open

    def denied(path, *args, **settings):
        if Path(path).name in ("cat", "2.png"):
            raise PermissionError(13, "Permission denied", str(path))
        return listdir(path) if Path(path).is_dir() else opened(path, *args, **settings)

    monkeypatch.setattr(Image, "open", denied)
    refused(photos, "has 1 images that can't be read: ", "cat/2.png", "Permission denied")
    monkeypatch.setattr(os, "listdir", denied)
    refused(photos, str(photos / "cat"), "can't be listed (Permission denied): make it readable")


@pytest.mark.parametrize(("settings", "words"), [
    *[({"image_size": size}, "image_size must be a whole number of at least 1")
      for size in (0, 32.0, (64, 64))],
    *[({"most": most}, "most must be a whole number of at least 2") for most in (1, True)],
    ({"image_size": 28, "resize": 20}, "resize must be a whole number of at least 28, not 20"),
    ({"resize": 0}, "resize must be a whole number of at least 64"),
    ({"color": "RGB"}, "no setting of color 'RGB'"),
    ({"unreadable": "skipp"}, "no setting of unreadable 'skipp'; did you mean 'skip'"),
])
def test_settings_that_cannot_be_are_refused(put, photos, settings, words):
    put("1.png", "2.png")
    refused(photos, words, **settings)
    assert load(photos, image_size=np.int64(4)).image_shape == (3, 4, 4)


def test_settings_are_for_folders():
    for name, settings in (("digits", {"image_size": 64}), ("wine", {"most": 100})):
        with pytest.raises(InputError, match=f"'{name}' can't be loaded with .*'folder:PATH'"):
            datasets.load(name, **settings)


def test_the_samples_are_held_once(put, photos):
    put(*(f"{i:02}.png" for i in range(60)), width=40, height=40)
    load(photos)  # what Pillow and the parser keep for good is there now
    tracemalloc.start()
    try:
        data = load(photos, image_size=96)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert data.X.nbytes == 60 * 3 * 96**2 * 4
    assert peak < 1.1 * data.X.nbytes


def test_the_command_shows_the_folder_and_refuses_to_fetch_it(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CLUSTERBOOK_DATA", str(tmp_path))
    assert cli.main(["data"]) == 0
    assert re.search(r"^folder:PATH +your own +A folder", capsys.readouterr().out, flags=re.M)
    assert cli.main(["data", "wine"]) == 0
    assert "folder:PATH" not in capsys.readouterr().out
    for name, words in (("folder:x", "no data set 'folder:x'"), ("wnie", "did you mean 'wine'")):
        assert cli.main(["data", "mnist", name]) == 2
        out, err = capsys.readouterr()
        assert out == "" and words in err and err.count("\n") == 1
