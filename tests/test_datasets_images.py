"""A person's own images: a folder as it is, or refused with what it takes to go on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clusterbook import cli, datasets, evidence
from clusterbook.datasets import folders
from clusterbook.errors import InputError
from clusterbook.evidence.verdicts import present_data

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
    """Writes an image below the folder, random unless its pixels are given, and returns them."""

    def write(name: str, width: int = 8, height: int = 8, mode: str = "RGB",
              pixels: Pixels | None = None, **settings: object) -> Pixels:  # fmt: skip
        if pixels is None:
            pixels = RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)
        (photos / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).convert(mode).save(photos / name, **settings)
        return pixels

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
    assert "\n" not in message and re.search("[:;] |expected|must be", message)
    for word in words:
        assert word in message, message
    return message


def shown(data: datasets.Dataset, place: int) -> Pixels:
    """An image of a data set as bytes, (height, width, channels)."""
    pixels = data.X[place].reshape(data.image_shape).transpose(1, 2, 0) * 255
    return np.round(pixels).astype(np.uint8)


# --- what is loaded ----------------------------------------------------------------------------


def test_a_flat_folder_has_no_labels_and_the_order_of_its_names(put, photos):
    images = {name: put(name) for name in ("b.png", "a.BMP", "c.tif", "10.webp", "9.ppm")
              if not name.endswith("webp")}  # fmt: skip
    images["10.webp"] = put("10.webp", lossless=True)
    data = load(photos, image_size=8)
    assert data.X.dtype == np.float32 and data.X.flags.c_contiguous
    assert data.image_shape == (3, 8, 8) and data.feature_names is None
    assert data.y is None and data.classes == () and data.train_size is None
    order = ["10.webp", "9.ppm", "a.BMP", "b.png", "c.tif"]
    for row, name in zip(data.X, order, strict=True):
        expected = images[name].transpose(2, 0, 1).ravel() / np.float32(255)
        np.testing.assert_array_equal(row, expected)
    source = data.source
    assert source.name == "folder:my photos" and "my photos" in source.title
    assert (source.n_samples, source.n_features, source.n_classes) == (5, 192, 0)
    assert source.address == str(photos) and source.license == "your own"
    assert source.content is None and not source.files
    again = source.loader(source, photos.parent)
    assert datasets.content(again) == datasets.content(data)


def test_subfolders_are_classes_as_torchvision_has_them(put, photos):
    from torchvision.datasets import ImageFolder

    for name in ("zebra/2.png", "ant/x.jpeg", "Bee/1.JPG", "ant/a.png", "zebra/10.png"):
        put(name)
    (photos / ".hidden").mkdir()
    (photos / "ant" / "._a.png").write_bytes(b"of another system")
    oracle = ImageFolder(photos, is_valid_file=lambda path: not Path(path).name.startswith("."),
                         allow_empty=True)  # fmt: skip
    data = load(photos, image_size=8)
    kept = [name for name in oracle.classes if not name.startswith(".")]
    assert list(data.classes) == kept == ["Bee", "ant", "zebra"]
    assert [data.classes[y] for y in data.y] == [oracle.classes[y] for y in oracle.targets]
    assert data.y.dtype == np.int64 and data.source.n_classes == 3
    for i, (image, _) in enumerate(oracle):
        np.testing.assert_array_equal(shown(data, i), np.asarray(image))
    found = folders.find_images(photos)
    assert [str(path) for path in found.files] == [path for path, _ in oracle.samples]
    np.testing.assert_array_equal(found.labels()[0], data.y)
    assert found.labels()[1] == data.classes


def test_the_endings_are_torchvisions():
    from torchvision.datasets.folder import IMG_EXTENSIONS

    assert sorted(folders.ENDINGS) == sorted(IMG_EXTENSIONS)
    for text in (datasets.load.__doc__, (Path(__file__).parents[1] / "data/README.md").read_text()):
        flat = " ".join(text.split()).replace(" or ", " ").replace(" and ", " ").replace(",", "")
        assert " ".join(folders.ENDINGS) in flat


@pytest.mark.parametrize(("width", "height", "left", "top"), [
    (12, 8, 2, 0), (8, 13, 0, 2), (8, 8, 0, 0), (11, 8, 1, 0),
])  # fmt: skip
def test_an_image_is_its_middle_square_and_otherwise_untouched(put, photos, width, height, left,
                                                               top):  # fmt: skip
    pixels = put("1.png", width, height)
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


def test_a_photograph_is_turned_as_its_camera_noted(put, photos):
    pixels = RNG.integers(0, 256, (8, 12, 3), dtype=np.uint8)
    note = Image.Exif()
    note[0x0112] = 6  # the camera was held on its side: turn it a quarter to the right
    put("1.png", pixels=pixels, exif=note)
    put("2.png")
    turned = np.rot90(pixels, -1)
    np.testing.assert_array_equal(shown(load(photos, image_size=8), 0), turned[2:10])


# --- gray and color ----------------------------------------------------------------------------


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
    again = in_color.source.loader(in_color.source, photos)
    assert datasets.content(again) == datasets.content(in_color)


def test_images_in_color_of_each_kind_are_rgb(put, photos):
    pixels = put("0.png")
    put("1.png", pixels=pixels, mode="RGBA")
    put("2.tif", pixels=pixels, mode="CMYK")
    few = np.asarray(Image.fromarray(pixels).convert("P").convert("RGB"))
    indexed = Image.fromarray(pixels).convert("P")
    indexed.save(photos / "3.png", transparency=b"\x00\x80")
    data = load(photos, image_size=8)
    assert data.image_shape == (3, 8, 8)
    for i, expected in enumerate((pixels, pixels, pixels, few)):
        np.testing.assert_array_equal(shown(data, i), expected)


def test_a_mixture_is_counted_and_converted_only_as_asked(put, photos):
    gray = put("a/1.png", mode="L")
    for name in ("a/2.png", "b/1.png", "b/2.png"):
        put(name)
    refused(photos, str(photos), "1 gray images (such as 'a/1.png') beside 3 in color (such as "
            "'a/2.png')", "color='convert'")  # fmt: skip
    data = load(photos, image_size=8, color="convert")
    expected = np.asarray(Image.fromarray(gray).convert("L"))
    np.testing.assert_array_equal(shown(data, 0), np.stack([expected] * 3, axis=-1))
    assert data.y.tolist() == [0, 0, 1, 1]


# --- what can't be read ------------------------------------------------------------------------


def test_unreadable_images_are_named_and_left_out_only_as_asked(put, photos):
    for name in ("ant/1.png", "ant/3.png", "bee/1.png"):
        put(name)
    put("ant/2.jpg", 64, 64, quality=95)
    cut = (photos / "ant/2.jpg").read_bytes()[:1500]
    (photos / "ant/2.jpg").write_bytes(cut)
    (photos / "bee/0.png").write_bytes(b"")
    (photos / "cat").mkdir()
    (photos / "cat/1.png").symlink_to(photos / "nowhere.png")
    Image.fromarray(np.zeros((8, 8), np.uint16)).save(photos / "bee/deep.png")
    named = ("'ant/2.jpg' (image file is truncated", "'bee/0.png' (not an image of a kind",
             "'bee/deep.png' (more than 8 bits a channel, mode I;16; save it with 8)",
             "'cat/1.png' (No such file or directory)")  # fmt: skip
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
        with pytest.raises(InputError, match=r"too few images that can be read \(0\)"):
            datasets.load(f"folder:{photos}", unreadable="skip")


def test_a_file_that_may_not_be_read_is_named(put, photos, monkeypatch):
    put("1.png")
    put("2.png")
    original = Image.open

    def denied(file, *args, **settings):
        if Path(file).name == "2.png":
            raise PermissionError(13, "Permission denied", str(file))
        return original(file, *args, **settings)

    monkeypatch.setattr(Image, "open", denied)
    refused(photos, "has 1 image that can't be read: '2.png' (Permission denied)")


# --- where images may lie ----------------------------------------------------------------------


def test_images_in_the_folder_and_in_subfolders_are_refused(put, photos):
    for name in ("x.png", "cat/1.png", "dog/1.png"):
        put(name)
    refused(photos, str(photos), "of its own (1, such as 'x.png')", "(2, such as 'cat/1.png')",
            "move the ones or the others")  # fmt: skip


def test_deeper_images_are_refused_with_the_folder_to_name(put, photos, monkeypatch):
    for name in ("train/cat/1.png", "train/dog/1.png", "test/cat/1.png"):
        put(name)
    monkeypatch.chdir(photos.parent)
    refused("my photos", "two folders down (such as 'test/cat/1.png')", "'folder:my photos/test'")
    assert load("my photos/train", image_size=8).classes == ("cat", "dog")


def test_a_folder_without_images_names_what_it_has_and_the_endings(photos):
    refused(photos, "has no images; expected files that end in .bmp, ", ".webp")
    (photos / "cat").mkdir()
    (photos / "cat" / "IMG_1.HEIC").write_bytes(b"of a telephone")
    refused(photos, "has no images, but has 'cat/IMG_1.HEIC'; expected files")


def test_one_image_is_too_few(put, photos):
    put("1.png")
    refused(photos, "too few images that can be read (1)", "two or more")
    with pytest.raises(InputError, match="too few images"):
        folders.find_images(photos)  # without opening it, for whoever reads them one by one


def test_what_was_left_out_is_said(put, photos):
    for name in ("cat/1.png", "dog/1.png"):
        put(name)
    (photos / "notes.txt").write_text("notes")
    (photos / ".DS_Store").write_bytes(b"")
    (photos / "cat" / "IMG_1.HEIC").write_bytes(b"of a telephone")
    (photos / "empty").mkdir()
    (photos / "dog" / "old").mkdir()
    with pytest.warns(UserWarning) as caught:
        data = datasets.load(f"folder:{photos}")
    assert data.classes == ("cat", "dog")
    assert len(caught) == 1 and caught[0].filename == __file__
    left = "left out: 'notes.txt', 'cat/IMG_1.HEIC', 'dog/old/', 'empty/';"
    assert left in str(caught[0].message)


def test_links_count_as_what_they_lead_to(put, photos, tmp_path):
    put("cat/1.png")
    put("cat/2.png")
    links = tmp_path / "links"
    (links / "dog").mkdir(parents=True)
    (links / "cats").symlink_to(photos / "cat")
    (links / "dog" / "1.png").symlink_to(photos / "cat" / "1.png")
    assert load(links, image_size=8).y.tolist() == [0, 0, 1]
    (links / "dog" / "all").symlink_to(links)  # a circle, which is not gone round
    refused(tmp_path, "two folders down")
    found = folders.find_images(links)
    assert len(found.names) == 3 and found.left_out == ("dog/all/",)


def test_finding_images_opens_none(put, photos, monkeypatch):
    put("1.png")
    (photos / "2.png").write_bytes(b"no image")
    monkeypatch.setattr(Image, "open", None)
    assert folders.find_images(photos).names == ("1.png", "2.png")
    assert folders.find_images(photos).labels() == (None, ())


@pytest.mark.parametrize(("path", "words"), [
    ("", ("'folder:' names no folder", "'folder:photos'")),
    ("my fotos", ("did you mean 'my photos'?",)),
    ("elsewhere", ("; check the path",)),
    ("no/where", ("the one above can't be listed (No such file", "check the path")),
    ("my photos/1.png", ("is a file; a folder of images was expected",)),
])  # fmt: skip
def test_a_folder_that_is_not_there(put, photos, tmp_path, monkeypatch, path, words):
    put("1.png")
    (tmp_path / "my fotos.txt").write_text("a file of a similar name")
    monkeypatch.chdir(tmp_path)
    message = refused(path, *words)
    assert not path or str(tmp_path / path) in message


def test_a_folder_that_may_not_be_listed(put, photos, monkeypatch):
    put("cat/1.png")
    original = os.scandir

    def denied(folder):
        if Path(folder).name == "cat":
            raise PermissionError(13, "Permission denied")
        return original(folder)

    monkeypatch.setattr(os, "scandir", denied)
    refused(photos, str(photos / "cat"), "can't be listed (Permission denied): make it readable")


def test_a_relative_path_begins_where_the_run_was_started(put, photos, tmp_path, monkeypatch):
    put("1.png")
    put("2.png")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    refused("my photos", f"there is no folder {elsewhere / 'my photos'}")
    monkeypatch.setenv("CLUSTERBOOK_RUN", json.dumps({"chapter": "x", "folder": str(tmp_path)}))
    assert len(load("my photos").X) == len(load("elsewhere/../my photos").X) == 2
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(load("~/my photos").X) == 2


# --- settings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, -64, 32.0, True, "64", (64, 64)])
def test_a_size_that_cannot_be_is_refused(put, photos, size):
    put("1.png")
    put("2.png")
    refused(photos, "image_size must be a whole number of at least 1", repr(size), image_size=size)
    assert load(photos, image_size=np.int64(4)).image_shape == (3, 4, 4)


def test_a_sample_knows_its_places_and_all_classes(put, photos):
    for name in "abc":
        for i in range(4 if name != "b" else 1):
            put(f"{name}/{i}.png")
    every = load(photos)
    assert every.rows is None
    some = load(photos, most=5)
    assert len(some.X) == 5 and (np.diff(some.rows) > 0).all()
    np.testing.assert_array_equal(some.X, every.X[some.rows])
    np.testing.assert_array_equal(some.y, every.y[some.rows])
    assert some.classes == every.classes == ("a", "b", "c")
    np.testing.assert_array_equal(load(photos, most=5).rows, some.rows)
    few = load(photos, most=2)
    np.testing.assert_array_equal(few.y, every.y[few.rows])
    assert set(few.y.tolist()) != {0, 1, 2} and few.classes == every.classes
    np.testing.assert_array_equal(load(photos, most=100).X, every.X)
    again = some.source.loader(some.source, photos)
    assert datasets.content(again) == datasets.content(some)
    (photos / "a" / "0.png").write_bytes(b"torn")
    with pytest.warns(UserWarning, match="left out"):
        left = datasets.load(f"folder:{photos}", most=9, unreadable="skip")
    np.testing.assert_array_equal(left.X, every.X[left.rows])
    for most in (0, 1, 2.0, True, "5"):
        refused(photos, "most must be a whole number of at least 2", repr(most), most=most)


def test_resized_and_cropped_as_torchvision_does(put, photos):
    from torchvision.transforms import v2

    smooth = np.indices((90, 130)).sum(0)
    pixels = np.stack([smooth, smooth[::-1], smooth[:, ::-1]], -1).astype(np.uint8)
    for name in ("1.png", "2.png"):
        put(name, pixels=pixels)
    theirs = v2.Compose([v2.Resize(32), v2.CenterCrop(28)])(Image.fromarray(pixels))
    ours = shown(load(photos, image_size=28, resize=32), 0)
    assert np.abs(ours.astype(int) - np.asarray(theirs).astype(int)).max() <= 3
    whole = shown(load(photos, image_size=28), 0)
    assert np.abs(whole.astype(int) - np.asarray(theirs).astype(int)).max() > 3
    refused(photos, "resize=20 is smaller than image_size, 28", image_size=28, resize=20)
    refused(photos, "resize must be a whole number", resize=0)


def test_unknown_settings_name_the_nearest(photos):
    with pytest.raises(InputError, match="no setting of color 'RGB'.*Known: convert, refuse"):
        load(photos, color="RGB")
    with pytest.raises(InputError, match="no setting of unreadable 'skipp'; did you mean 'skip'"):
        load(photos, unreadable="skipp")


def test_the_catalog_has_no_other_form():
    assert load_named("digits", image_size=8).image_shape == (1, 8, 8)
    for name, settings, words in (
        ("digits", {"image_size": 64}, "has images of 8 × 8 pixels; image_size=64 is for 'folder:"),
        ("photographs", {"image_size": 427}, "has images of 640 × 427 pixels"),
        ("wine", {"image_size": 64}, "'wine' has no images"),
        ("digits", {"color": "convert"}, "color='convert' is for 'folder:PATH'"),
        ("digits", {"most": 100}, "most=100 is for 'folder:PATH'"),
        ("digits", {"resize": 9}, "resize=9 is for 'folder:PATH'"),
    ):
        with pytest.raises(InputError, match=re.escape(words)):
            load_named(name, **settings)


def load_named(name: str, **settings: object) -> datasets.Dataset:
    return datasets.load(name, download=False, **settings)


# --- memory ------------------------------------------------------------------------------------


def test_the_samples_are_held_once(put, photos):
    for i in range(60):
        put(f"{i:02}.png", 40, 40)
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
    put("1.png")
    put("2.png")

    def full(*args, **settings):
        raise MemoryError

    monkeypatch.setattr(np, "empty", full)
    refused(photos, "the 2 images of", "at 10000 × 10000 pixels take 2 GB", "a smaller image_size",
            image_size=10_000)  # fmt: skip


# --- beside the catalog ------------------------------------------------------------------------


def test_a_folder_is_nothing_to_fetch(photos):
    for call in (datasets.status, datasets.fetch):
        with pytest.raises(InputError, match="'folder:mnist' is a folder of your own .*load"):
            call("folder:mnist")


def test_a_typo_lists_the_folder_too():
    for name in ("floder:photos", "folder", "my photos"):
        with pytest.raises(InputError, match="no data set .*Known: .*digits, .*folder:PATH, mnist"):
            datasets.load(name)
    with pytest.raises(InputError, match="did you mean 'folder:PATH'"):
        datasets.load("folder")


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


def test_a_table_that_is_a_folder_says_how_images_are_loaded(photos):
    with pytest.raises(InputError, match=r"is a folder; .*load\('folder:PATH'\)"):
        datasets.read(photos)


def test_a_record_has_the_name_of_the_folder_and_not_its_path(put, photos, tmp_path, monkeypatch):
    put("1.png")
    put("2.png")
    data = load(photos)
    context = {"chapter": "weights", "profile": "weights-mine", "seed": 0, "parameters": {}}
    monkeypatch.setenv("CLUSTERBOOK_RUN", json.dumps(context))
    monkeypatch.setenv("CLUSTERBOOK_RECORDS", str(tmp_path / "records"))
    evidence.record({"acc": 0.5}, data=data)
    (found,) = evidence.load_records(tmp_path / "records")
    assert found.data == {"name": "folder:my photos", "sha256": datasets.content(data)}
    assert str(tmp_path) not in found.path.read_text()
    assert data.source.name not in present_data()


def test_images_are_read_without_torch(put, photos):
    put("1.png")
    put("2.png")
    code = ("import sys\nfrom clusterbook import datasets\n"
            "data = datasets.load(f'folder:{sys.argv[1]}')\n"
            "print(len(data.X), [m for m in ('torch', 'torchvision') if m in sys.modules])")
    found = subprocess.run([sys.executable, "-c", code, str(photos)], capture_output=True,
                           text=True, check=True)  # fmt: skip
    assert found.stdout.strip() == "2 []"
