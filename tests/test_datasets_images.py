"""A folder of one's own images: read as it is, or refused with one clear sentence."""

from __future__ import annotations

import json
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
    assert source.address == str(photos) and source.license == "your own"
    assert source.content is None and not source.files


def test_subfolders_are_classes_as_torchvision_has_them(put, photos, monkeypatch):
    from torchvision.datasets import ImageFolder
    from torchvision.datasets.folder import IMG_EXTENSIONS

    put("zebra/2.png", "ant/x.jpeg", "Bee/1.JPG", "ant/a.png", "zebra/10.png", "ant-eater/1.png")
    (photos / ".hidden").mkdir()
    (photos / "ant" / "._a.png").write_bytes(b"of another system")
    oracle = ImageFolder(photos, is_valid_file=lambda path: not Path(path).name.startswith("."),
                         allow_empty=True)
    data = load(photos, image_size=8)
    kept = [name for name in oracle.classes if not name.startswith(".")]
    assert list(data.classes) == kept == ["Bee", "ant", "ant-eater", "zebra"]
    assert [data.classes[y] for y in data.y] == [oracle.classes[y] for y in oracle.targets]
    assert data.y.dtype == np.int64 and data.source.n_classes == 4
    for i, (image, _) in enumerate(oracle):
        np.testing.assert_array_equal(shown(data, i), np.asarray(image))
    assert sorted(folders.ENDINGS) == sorted(IMG_EXTENSIONS)
    monkeypatch.setattr(Image, "open", None)  # finding images opens none
    found = folders.find_images(photos)
    assert [str(path) for path in found.files] == [path for path, _ in oracle.samples]
    np.testing.assert_array_equal(found.labels()[0], data.y)
    assert found.labels()[1] == data.classes


def test_the_endings_are_documented():
    for text in (datasets.load.__doc__, (Path(__file__).parents[1] / "data/README.md").read_text()):
        flat = " ".join(text.split()).replace(" or ", " ").replace(" and ", " ").replace(",", "")
        assert " ".join(folders.ENDINGS) in flat


@pytest.mark.parametrize(("width", "height", "left", "top"), [
    (12, 8, 2, 0), (8, 13, 0, 2), (8, 8, 0, 0), (11, 8, 1, 0),
])
def test_an_image_is_its_middle_square_and_otherwise_untouched(put, photos, width, height, left,
                                                               top):
    pixels = put("1.png", width=width, height=height)
    put("2.png")
    found = shown(load(photos, image_size=8), 0)
    np.testing.assert_array_equal(found, pixels[top : top + 8, left : left + 8])


@pytest.mark.parametrize("size", [None, 16, 100])
def test_resized_as_torchvision_does_it(put, photos, size):
    from torchvision.transforms import CenterCrop, Compose, Resize

    few = Image.fromarray(RNG.integers(0, 256, (5, 8, 3), dtype=np.uint8))
    put("1.png", pixels=np.asarray(few.resize((160, 80), Image.Resampling.BICUBIC)))
    put("2.png", pixels=np.asarray(few.resize((50, 150), Image.Resampling.BICUBIC)))
    data = load(photos, image_size=size)
    wanted = size or 64
    assert data.image_shape == (3, wanted, wanted)
    for i, name in enumerate(("1.png", "2.png")):
        oracle = Compose([Resize(wanted), CenterCrop(wanted)])(Image.open(photos / name))
        # It resizes first and crops then, so the outermost pixels have neighbors there.
        difference = np.abs(shown(data, i).astype(int) - np.asarray(oracle))
        assert difference[1:-1, 1:-1].max() <= 1


def test_resized_and_cropped_as_torchvision_does(put, photos):
    from torchvision.transforms import v2

    smooth = np.indices((90, 130)).sum(0)
    pixels = np.stack([smooth, smooth[::-1], smooth[:, ::-1]], -1).astype(np.uint8)
    put("1.png", "2.png", pixels=pixels)
    theirs = v2.Compose([v2.Resize(32), v2.CenterCrop(28)])(Image.fromarray(pixels))
    ours, uncropped = (shown(load(photos, image_size=28, resize=resize), 0).astype(int)
                       for resize in (32, None))
    assert np.abs(ours - np.asarray(theirs).astype(int)).max() <= 3
    assert np.abs(uncropped - np.asarray(theirs).astype(int)).max() > 3


def test_a_photograph_is_turned_as_its_camera_noted(put, photos):
    pixels = RNG.integers(0, 256, (8, 12, 3), dtype=np.uint8)
    note = Image.Exif()
    note[0x0112] = 6  # the camera was held on its side: turn it a quarter to the right
    put("1.png", pixels=pixels, exif=note)
    put("2.png")
    turned = np.rot90(pixels, -1)
    np.testing.assert_array_equal(shown(load(photos, image_size=8), 0), turned[2:10])


def test_gray_images_have_one_channel_unless_color_is_asked_for(put, photos):
    for i, mode in enumerate(("L", "1", "LA")):
        put(f"{i}.png", mode=mode)
    data = load(photos, image_size=8)
    assert data.image_shape == (1, 8, 8) and data.source.n_features == 64
    np.testing.assert_array_equal(shown(data, 0)[..., 0], np.asarray(Image.open(photos / "0.png")))
    assert set(np.unique(data.X[1]).tolist()) == {0.0, 1.0}
    in_color = load(photos, image_size=8, color="convert")
    assert in_color.image_shape == (3, 8, 8)
    np.testing.assert_array_equal(in_color.X.reshape(3, 3, 64), data.X[:, None].repeat(3, axis=1))


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


def test_a_mixture_is_counted_and_converted_only_as_asked(put, photos):
    gray = put("a/1.png", mode="L")
    put("a/2.png", "b/1.png", "b/2.png")
    refused(photos, str(photos), "1 gray images (such as 'a/1.png') beside 3 in color (such as "
            "'a/2.png')", "color='convert'")
    data = load(photos, image_size=8, color="convert")
    expected = np.asarray(Image.fromarray(gray).convert("L"))
    np.testing.assert_array_equal(shown(data, 0), np.stack([expected] * 3, axis=-1))
    assert data.y.tolist() == [0, 0, 1, 1]


def test_a_sample_knows_its_places_and_all_classes(put, photos):
    put("a/0.png", "a/1.png", "a/2.png", "a/3.png", "b/0.png", "c/0.png", "c/1.png", "c/2.png",
        "c/3.png")
    every = load(photos)
    for most in (2, 5, 100):
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
    named = ("'ant/2.jpg' (image file is truncated", "'bee/0.png' (not an image of a kind",
             "'bee/deep.png' (more than 8 bits a channel, mode I;16; save it with 8)",
             "'cat/1.png' (No such file or directory)")
    message = refused(photos, "has 4 images that can't be read: ", *named, "unreadable='skip'")
    assert message.count(str(photos)) == 1
    with pytest.warns(UserWarning) as caught:
        data = datasets.load(f"folder:{photos}", image_size=8, unreadable="skip")
    assert len(caught) == 1 and caught[0].filename == __file__
    for words in ("4 images of ", str(photos), *named):
        assert words in str(caught[0].message)
    assert data.X.shape == (3, 192) and data.X.flags.c_contiguous
    assert data.y.tolist() == [0, 0, 1] and data.classes == ("ant", "bee")  # no cat is left
    for i, name in enumerate(("ant/1.png", "ant/3.png", "bee/1.png")):
        np.testing.assert_array_equal(shown(data, i), np.asarray(Image.open(photos / name)))


def test_of_many_unreadable_images_five_are_named(photos):
    for i in range(12):
        (photos / f"{i:02}.png").write_bytes(b"text")
    message = refused(photos, "has 12 images that", "'04.png' (not", ") and 7 more; repair")
    assert "05.png" not in message
    with pytest.warns(UserWarning, match="12 images of .* and 7 more$"):
        with pytest.raises(InputError, match="has no images to be read"):
            datasets.load(f"folder:{photos}", unreadable="skip")


def test_what_was_left_out_is_said(put, photos):
    put("cat/1.png", "dog/1.png")
    (photos / "notes.txt").write_text("notes")
    (photos / ".DS_Store").write_bytes(b"")
    (photos / "cat" / "IMG_1.HEIC").write_bytes(b"of a telephone")
    (photos / "empty").mkdir()
    with pytest.warns(UserWarning) as caught:
        data = datasets.load(f"folder:{photos}")
    assert data.classes == ("cat", "dog")
    assert len(caught) == 1 and caught[0].filename == __file__
    assert str(caught[0].message).endswith("left out: 'notes.txt', 'cat/IMG_1.HEIC'")


@pytest.mark.parametrize(("names", "others", "words"), [
    (["x.png", "cat/1.png", "dog/1.png"], [], "such as 'cat/1.png', 'x.png'"),
    (["train/cat/1.png", "train/dog/1.png", "test/cat/1.png"], [], "such as 'test/cat/1.png'"),
    ([], [], "has no images to be read; expected two or more that end in .bmp, .jpeg"),
    ([], ["cat/IMG_1.HEIC"], "has no images to be read beside 'cat/IMG_1.HEIC'"),
    (["1.png"], [], "has one image to be read"),
])
def test_a_folder_without_images_or_at_several_depths(put, photos, names, others, words):
    for name in names:
        put(name)
    for name in others:
        (photos / name).parent.mkdir()
        (photos / name).write_bytes(b"of a telephone")
    refused(photos, str(photos), words)
    with pytest.raises(InputError, match=re.escape(words)):
        folders.find_images(photos)


def test_links_count_as_what_they_lead_to(put, photos, tmp_path):
    put("cat/1.png", "cat/2.png")
    links = tmp_path / "links"
    (links / "dog").mkdir(parents=True)
    (links / "cats").symlink_to(photos / "cat")
    (links / "dog" / "1.png").symlink_to(photos / "cat" / "1.png")
    (links / "dog" / "all").symlink_to(links)  # a circle, which is not gone round
    assert load(links, image_size=8).y.tolist() == [0, 0, 1]
    refused(tmp_path, "in the folder or all in one subfolder per class")


@pytest.mark.parametrize(("path", "words"), [
    ("", ("there is no folder 'folder:'",)),
    ("my fotos", ("folders in ", ": 'my photos'")),
    ("elsewhere", (": 'my photos'",)),
    ("no/where", (": none",)),
    ("my photos/1.png", ("there is no folder ", ": none")),
])
def test_a_folder_that_is_not_there(put, photos, tmp_path, monkeypatch, path, words):
    put("1.png")
    (tmp_path / "my fotos.txt").write_text("a file of a similar name")
    monkeypatch.chdir(tmp_path)
    message = refused(path, *words)
    assert not path or str(tmp_path / path) in message


def test_a_folder_or_file_without_permission_is_named(put, photos, monkeypatch):
    put("cat/1.png", "cat/2.png")
    scan, opened = os.scandir, Image.open

    def denied(path, *args, **settings):
        if Path(path).name in ("cat", "2.png"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path) if Path(path).is_dir() else opened(path, *args, **settings)

    monkeypatch.setattr(Image, "open", denied)
    refused(photos, "has 1 image that can't be read: 'cat/2.png' (Permission denied)")
    monkeypatch.setattr(os, "scandir", denied)
    refused(photos, str(photos / "cat"), "can't be listed (Permission denied): make it readable")


def test_a_relative_path_begins_where_the_run_was_started(put, photos, tmp_path, monkeypatch):
    put("1.png", "2.png")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    refused("my photos", f"there is no folder {elsewhere / 'my photos'}")
    monkeypatch.setenv("CLUSTERBOOK_RUN", json.dumps({"chapter": "x", "folder": str(tmp_path)}))
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in ("my photos", "elsewhere/../my photos", "~/my photos"):
        assert len(load(path).X) == 2


# --- settings and memory -----------------------------------------------------------------------


@pytest.mark.parametrize(("settings", "words"), [
    *[({"image_size": size}, "image_size must be a whole number of at least 1")
      for size in (0, -64, 32.0, True, "64", (64, 64))],
    *[({"most": most}, "most must be a whole number of at least 2")
      for most in (0, 1, 2.0, True, "5")],
    ({"image_size": 28, "resize": 20}, "resize must be a whole number of at least 28, not 20"),
    ({"resize": 0}, "resize must be a whole number of at least 64"),
    ({"color": "RGB"}, "no setting of color 'RGB'"),
    ({"unreadable": "skipp"}, "no setting of unreadable 'skipp'; did you mean 'skip'"),
])
def test_settings_that_cannot_be_are_refused(put, photos, settings, words):
    put("1.png", "2.png")
    refused(photos, words, **settings)
    assert load(photos, image_size=np.int64(4)).image_shape == (3, 4, 4)


def test_the_catalog_has_no_other_form():
    assert datasets.load("digits", image_size=8).image_shape == (1, 8, 8)
    for name, setting, value in (("digits", "image_size", 64), ("photographs", "image_size", 427),
                                 ("wine", "image_size", 64), ("digits", "color", "convert"),
                                 ("digits", "most", 100), ("digits", "resize", 9)):
        with pytest.raises(InputError, match=f"'{name}' .*'{setting}': {value!r}.*'folder:PATH'"):
            datasets.load(name, **{setting: value})


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


def test_too_many_for_the_memory_is_no_traceback(put, photos, monkeypatch):
    put("1.png", "2.png")

    def full(*args, **settings):
        raise MemoryError

    monkeypatch.setattr(np, "empty", full)
    refused(photos, "2 images of 10000 × 10000 pixels exceed the memory", image_size=10_000)


# --- beside the catalog ------------------------------------------------------------------------


def test_a_folder_is_nothing_to_fetch_and_a_typo_lists_it():
    for call in (datasets.status, datasets.fetch):
        with pytest.raises(InputError, match="'folder:mnist' is a folder of your own .*load"):
            call("folder:mnist")
    for name in ("floder:photos", "folder", "my photos"):
        with pytest.raises(InputError, match="no data set .*Known: .*digits, .*folder:PATH, mnist"):
            datasets.load(name)


def test_the_command_shows_the_folder_and_refuses_to_fetch_it(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CLUSTERBOOK_DATA", str(tmp_path))
    assert cli.main(["data"]) == 0
    assert re.search(r"^folder:PATH +your own +A folder", capsys.readouterr().out, flags=re.M)
    assert cli.main(["data", "wine"]) == 0
    assert "folder:PATH" not in capsys.readouterr().out
    for name, words in (("folder:x", "is a folder of your own"), ("wnie", "did you mean 'wine'")):
        assert cli.main(["data", "mnist", name]) == 2
        out, err = capsys.readouterr()
        assert out == "" and words in err and err.count("\n") == 1
