"""Data sets: what is loaded is right, and what goes wrong is said and leaves nothing behind."""

import gzip
import hashlib
import io
import re
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from _support import CHECKOUT, module_of
from PIL import Image
from scipy.io import savemat

from clusterbook import datasets, paths
from clusterbook.checks import InputError
from clusterbook.datasets import _SOURCES as SOURCES


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] * ("jpeg" in name)) for name in SOURCES])
def test_what_is_loaded_is_what_the_catalog_says(name):
    if datasets.status(name) not in ("embedded", "here"):
        pytest.skip(f"{name} is not in {paths.data_home()}; data/README.md says how to get it")
    data = datasets.load(name)
    (rows, width), source = data.X.shape, SOURCES[name]
    assert data.source is source
    assert source.size.startswith(f"{rows:,} × {width:,}, {len(data.classes)} classes · ")
    assert data.X.flags.c_contiguous and set(data.y.tolist()) == set(range(len(data.classes)))
    assert np.prod(data.image_shape or len(data.feature_names)) == width
    assert data.image_shape is None or (data.X.min(), data.X.max()) == (0.0, 1.0)
    files = [paths.data_home() / file for file in source.files]
    if files and all(file.exists() for file in files):  # otherwise folders are in their place
        size = sum(file.stat().st_size for file in files)
        assert source.size.endswith(f" · {size / 1e6:.1f} MB")
    # nobody here has had cifar10
    assert source.content is None or datasets.content(data) == source.content


def test_embedded_data_need_no_folder_and_an_unknown_name_is_no_download(home):
    datasets.fetch("digits")
    assert datasets.status("digits") == "embedded" and datasets.load("digits").X.size
    with pytest.raises(InputError, match="unknown data set: 'folder:PATH'"):
        datasets.status("folder:PATH")
    assert not home.exists()
    for call in (datasets.load, datasets.status, datasets.fetch):
        with pytest.raises(InputError, match="unknown data set: 'mnits'; did you mean 'mnist'"):
            call("mnits")


def test_loading_a_path_says_how_it_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "my.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="'photos' is no data set .* images: folder:photos"):
        datasets.load("photos")
    with pytest.raises(InputError, match=r"'my.csv' is no .* by datasets.read and in chapter idc"):
        datasets.load("my.csv")
    for name in ("photos/other", "a" * 1000, "a\0b"):
        with pytest.raises(InputError, match="unknown data set"):
            datasets.load(name)


def test_content_tells_values_types_shapes_and_labels_apart():
    data = datasets.load("wine")
    known = datasets.content(data)
    assert known == datasets.content(replace(data, X=np.asfortranarray(data.X), classes=()))
    others = [{"y": None}, {"y": data.y[::-1]}, {"X": np.nextafter(data.X, 0)},
              {"X": data.X.astype(float)}, {"X": data.X.reshape(13, 178)}]
    assert len({known, *(datasets.content(replace(data, **other)) for other in others)}) == 6


def test_the_catalog_is_complete_and_the_readme_says_the_same():
    text = (Path(__file__).parents[1] / "data" / "README.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### `([\w-]+)`\n(.*?)(?=^##|\Z)", text, flags=re.M | re.S))
    assert list(sections) == list(SOURCES), (
        "write a section in data/README.md, in the catalog's order")
    for source in SOURCES.values():
        assert source.label and bool(source.files) == bool(source.url or source.by_hand)
        assert (source.content is None) == (source.name == "cifar10")  # nobody here has had it
        section = " ".join(sections[source.name].split())
        counts = re.match(r"(.*) × (.*), (.*) classes · ", source.size).groups()
        assert source.title in section
        assert "{} samples, {} features, {} classes".format(*counts) in section
        assert source.license in (text if source.name == "mnist10k" else section)   # is of mnist
        for file, sha256 in source.files.items():
            assert f"| `{sha256}` | `{file}` |" in text
    small = CHECKOUT / "data" / "mnist-small.npz"
    assert hashlib.sha256(small.read_bytes()).hexdigest() in text


def test_mnist_small_is_what_its_script_draws():
    if datasets.status("mnist") != "here":
        pytest.skip("needs MNIST in CLUSTERBOOK_DATA")
    drawn = module_of(CHECKOUT / "tests" / "mnist_small" / "__main__.py").draw()
    with np.load(CHECKOUT / "data" / "mnist-small.npz") as stored:
        for name in drawn:
            np.testing.assert_array_equal(stored[name], drawn[name])


def test_two_features_separate_each_synthetic_cluster():
    X, y, informative = datasets.make_synthetic(random_state=3)
    assert informative.astype(int)[:, :3].tolist() == [[1, 1, 0]] * 2 + [[1, 0, 1]] * 2
    np.testing.assert_allclose(X[:, :3].std(0), 1, atol=1e-5)
    np.testing.assert_allclose(X[:, 3:].std(0), 0.01, rtol=0.1)
    noisy, _, _ = datasets.make_synthetic(random_state=3, nuisance=0.1)
    np.testing.assert_allclose(noisy[:, 3:], 10 * X[:, 3:], rtol=1e-5)
    np.testing.assert_array_equal(noisy[:, :3], X[:, :3])
    assert np.bincount(y).tolist() == [800] * 4
    assert np.bincount(datasets.make_synthetic(10)[1]).tolist() == [3, 2, 3, 2]
    assert np.isfinite(datasets.make_synthetic(4)[0]).all()
    with pytest.raises(InputError, match="n_samples must be a whole number of at least 4"):
        datasets.make_synthetic(3)
    means = np.array([X[y == cluster].mean(0) for cluster in range(4)])
    assert means[:2, 0].min() - means[2:, 0].max() > 1.5
    assert means[0, 1] - means[1, 1] > 1 and means[3, 2] - means[2, 2] > 1


def test_a_random_split_is_scikit_learns():
    """No record's hash covers `split`, so what it gives must stay."""
    from sklearn.model_selection import train_test_split

    data = datasets.load("wine")
    expected = train_test_split(data.X, data.y, test_size=0.2, random_state=7, stratify=data.y)
    for one, part in zip(data.split(random_state=7), expected, strict=True):
        np.testing.assert_array_equal(one, part)
    unlabeled = replace(data, y=None).split(random_state=7)
    assert [part if part is None else len(part) for part in unlabeled] == [142, 36, None, None]


IMAGES = np.random.default_rng(0).integers(0, 256, size=(8, 28, 28), dtype=np.uint8)
LABELS = np.arange(8, dtype=np.uint8)
# The IDX format has a header of 16 bytes before images, of 8 before labels.
TINY = {"train-images-idx3-ubyte": bytes(16) + IMAGES[:5].tobytes(),
        "train-labels-idx1-ubyte": bytes(8) + LABELS[:5].tobytes(),
        "t10k-images-idx3-ubyte": bytes(16) + IMAGES[5:].tobytes(),
        "t10k-labels-idx1-ubyte": bytes(8) + LABELS[5:].tobytes()}


class Handler(BaseHTTPRequestHandler):
    """Answers with the server's archives; one of them is cut short as often as it says."""

    def do_GET(self) -> None:
        name, server = self.path.rsplit("/", 1)[-1], self.server
        server.requests.append(name)
        if (content := server.archives.get(name)) is None:
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
def server(monkeypatch, home) -> Iterator[ThreadingHTTPServer]:
    """Serves a tiny MNIST; ``serve`` enters files into the catalog as those of a data set."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # pooch waits before it tries again
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(variable, "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:

        def serve(name: str, contents: dict[str, bytes], packed: str = "", **changes: int) -> None:
            for file, one in contents.items():
                archive = gzip.compress(one) if packed else one
                server.archives[f"{Path(file).name}{packed}"] = archive
            changes |= {"url": f"http://127.0.0.1:{server.server_port}/x/{{}}{packed}", "files": {
                file: hashlib.sha256(one).hexdigest() for file, one in contents.items()}}
            monkeypatch.setitem(SOURCES, name, replace(SOURCES[name], **changes))

        server.daemon_threads, server.serve = True, serve
        server.archives, server.requests, server.cut, server.cuts = {}, [], None, 1000
        files = {f"MNIST/raw/{file}": content for file, content in TINY.items()}
        serve("mnist", files, ".gz", train_size=5)
        serve("mnist10k", files, ".gz", n_samples=4)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_download_is_loaded_quietly_and_once(server, home, capfd):
    assert datasets.status("mnist") == "missing"
    server.cut, server.cuts = "t10k-images-idx3-ubyte.gz", 1        # it is tried again
    data = datasets.load("mnist")
    np.testing.assert_array_equal(data.X, IMAGES.reshape(8, 784).astype(np.float32) / 255)
    assert data.y.tolist() == LABELS.tolist() and data.classes == tuple("0123456789")
    X_train, _, _, y_test = data.split(random_state=5)  # the source's own split
    np.testing.assert_array_equal(X_train, data.X[:5])
    np.testing.assert_array_equal(y_test, LABELS[5:])
    assert capfd.readouterr() == ("", "")
    assert datasets.status("mnist") == "here" and files_in(home) == sorted(TINY)
    assert datasets.load("mnist10k").y.tolist() == [0, 1, 2, 3]  # the first ones, of these files
    datasets.fetch("mnist10k")
    assert len(server.requests) == 5


PACKED = gzip.compress(TINY["train-labels-idx1-ubyte"])


@pytest.mark.parametrize(("trouble", "words"), [
    (gzip.compress(bytes(13)), "hash of downloaded file"), (PACKED, "10 bytes"),
    (b"<html>Log in</html>", "Not a gzipped file"), (None, "404")],
    ids=["other", "cut", "page", "no file"])
def test_a_download_that_cannot_be_leaves_nothing(server, home, monkeypatch, trouble, words):
    name = "train-labels-idx1-ubyte.gz"
    server.archives[name], server.cut = trouble, name if trouble is PACKED else None
    with pytest.raises(InputError, match="^[^\n]*$") as caught:
        datasets.load("mnist")
    for word in ("could not be downloaded", "network", str(home), "CLUSTERBOOK_DATA", words):
        assert word in str(caught.value)
    assert files_in(home) == ["train-images-idx3-ubyte"]
    for stopped, expected in ((KeyboardInterrupt("No space left"), KeyboardInterrupt),
                              (OSError(28, "No space left"), InputError)):
        (home / "MNIST/raw/train-images-idx3-ubyte").unlink(missing_ok=True)
        monkeypatch.setattr(gzip, "decompress", Mock(side_effect=stopped))
        with pytest.raises(expected, match="No space left"):
            datasets.load("mnist")
        assert files_in(home) == []


def test_a_damaged_file_is_named_and_replaced_when_asked(server, home, monkeypatch, capfd):
    datasets.fetch("mnist")
    path = home / "MNIST" / "raw" / "train-labels-idx1-ubyte"
    path.write_bytes(TINY[path.name][:-1] + b"\x09")  # same size, another label
    assert datasets.status("mnist") == "damaged"
    with pytest.raises(InputError) as caught:
        datasets.load("mnist")
    for content in (path.read_bytes(), TINY[path.name]):
        assert hashlib.sha256(content).hexdigest() in str(caught.value)
    assert str(path) in str(caught.value) and "`clusterbook data mnist` " in str(caught.value)
    assert len(server.requests) == 4
    monkeypatch.setenv("CLUSTERBOOK_PROGRESS", "on")
    datasets.fetch("mnist")
    assert f"\r{path.name}.gz: 100%" in capfd.readouterr().err
    assert datasets.status("mnist") == "here" and path.read_bytes() == TINY[path.name]


def packed(files: dict[str, bytes], mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_tox171_is_read_from_its_matlab_file_and_cifar10_in_the_official_order(server, home):
    (file,), buffer, X = SOURCES["tox171"].files, io.BytesIO(), np.array([[1.5, -2.0], [0.1, 3.0]])
    savemat(buffer, {"X": X, "Y": np.array([[4], [2]], dtype=np.uint8)})
    server.serve("tox171", {file: buffer.getvalue()})
    data = datasets.load("tox171")
    np.testing.assert_array_equal(data.X, X.astype(np.float32))
    assert data.X.flags.c_contiguous and data.feature_names == ("gene 1", "gene 2")
    assert data.y.tolist() == [1, 0] and data.classes == ("2", "4")
    rows = np.random.default_rng(1).integers(0, 256, size=(12, 3073), dtype=np.uint8)
    rows[:, 0] = labels = [9, 0, 3, 3, 1, 2, 4, 5, 6, 7, 8, 9]
    batches = {}
    for place in (3, 5, 2, 1, 4, 0):  # two images each, in no useful order
        name = "test_batch" if place == 5 else f"data_batch_{place + 1}"
        batches[f"cifar-10-batches-bin/{name}.bin"] = rows[2 * place : 2 * place + 2].tobytes()
    server.serve("cifar10", {"cifar-10-binary.tar.gz": packed(batches, "w:gz")})
    data = datasets.load("cifar10")
    np.testing.assert_array_equal(data.X, rows[:, 1:].astype(np.float32) / 255)
    assert data.y.tolist() == labels and data.y.dtype == np.int64
    assert data.image_shape == (3, 32, 32) and data.classes[9] == "truck"
    assert files_in(home) == ["TOX-171.mat", "cifar-10-binary.tar.gz"]  # not unpacked


def test_jpeg_images_are_decoded_training_first_and_no_others_taken(home, monkeypatch):
    order = {"train/airplane/0000.jpg": (40, 40, 220), "train/bird/0000.jpg": (255, 255, 255),
             "train/bird/0001.jpg": (0, 0, 0), "test/airplane/0000.jpg": (250, 5, 9),
             "test/bird/0000.jpg": (10, 200, 30)}
    jpegs, folder = {}, home / "cifar10-jpeg"
    for name, color in order.items():
        Image.new("RGB", (32, 32), color).save(buffer := io.BytesIO(), "JPEG", quality=95)
        jpegs[name] = buffer.getvalue()
    archive = packed(dict(reversed(jpegs.items())), "w:xz")
    source = replace(SOURCES["cifar10-jpeg"], files={
        "cifar10-jpeg/cifar10-jpeg.tar.xz": hashlib.sha256(archive).hexdigest()})
    monkeypatch.setitem(SOURCES, source.name, source)

    def put(files: dict[str, bytes]) -> None:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)

    with pytest.raises(InputError, match="has no download: put the folders train and test of .* "
                                         "into .*cifar10-jpeg$"):
        datasets.load(source.name)
    for files in ({"cifar10-jpeg.tar.xz": archive}, jpegs):
        put(files)
        data = datasets.load(source.name)
        assert data.image_shape == (3, 32, 32) and data.y.tolist() == [0, 2, 2, 0, 2]
        for image, color in zip(data.X.reshape(5, 3, 1024) * 255, order.values(), strict=True):
            assert np.abs(image - np.array(color)[:, np.newaxis]).max() < 3  # JPEG rounds
        known = replace(source, content=datasets.content(data))
        monkeypatch.setitem(SOURCES, source.name, known)
        (folder / "cifar10-jpeg.tar.xz").unlink(missing_ok=True)
    for name, other in (("train/fish/0000.jpg", jpegs["train/bird/0001.jpg"]),
                        ("train/bird/0001.jpg", jpegs["train/bird/0000.jpg"])):
        put({**jpegs, name: other})
        with pytest.raises(InputError, match="are not those expected: put the folders"):
            datasets.load(source.name)
        (folder / name).unlink()
    put({"cifar10-jpeg.tar.xz": b"an archive of one's own"})
    with pytest.raises(InputError, match="has no download"):
        datasets.fetch(source.name)
    assert (folder / "cifar10-jpeg.tar.xz").read_bytes() == b"an archive of one's own"
