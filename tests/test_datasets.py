"""Data sets: what is loaded is right, and what goes wrong is said and leaves nothing behind."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets

from clusterbook import datasets, downloads, paths
from clusterbook.errors import InputError

EMBEDDED = ("digits", "breast_cancer", "wine", "photographs")
MNIST_IS_HERE = datasets.status("mnist").state == "here"


# --- what is loaded --------------------------------------------------------------------------


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_data_keep_the_promises_of_the_table(name, monkeypatch, tmp_path):
    monkeypatch.setenv("CLUSTERBOOK_DATA", str(tmp_path / "absent"))
    data = datasets.load(name, download=False)
    source = data.source
    assert source.name == name and source.embedded_in == "scikit-learn"
    assert data.X.shape == (source.n_samples, source.n_features)
    assert data.X.dtype == np.float32 and data.X.flags.c_contiguous
    assert data.y.shape == (source.n_samples,) and data.y.dtype == np.int64
    assert set(data.y.tolist()) == set(range(source.n_classes))
    assert len(data.classes) == source.n_classes
    assert all(type(label) is str for label in data.classes)
    assert data.train_size is None
    assert (data.image_shape is None) != (data.feature_names is None)
    if data.image_shape:
        assert np.prod(data.image_shape) == source.n_features
        assert (data.X.min(), data.X.max()) == (0.0, 1.0)
    else:
        assert len(data.feature_names) == source.n_features
    assert datasets.status(name) == datasets.Status("embedded")
    assert datasets.fetch(name) == datasets.Status("embedded")
    assert not (tmp_path / "absent").exists()


def test_class_counts():
    def counts(name):
        return np.bincount(datasets.load(name).y).tolist()

    assert counts("digits") == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert counts("breast_cancer") == [212, 357]
    assert counts("wine") == [59, 71, 48]
    assert counts("photographs") == [1, 1]
    assert datasets.load("breast_cancer").classes == ("malignant", "benign")


def test_tables_equal_scikit_learn():
    for name in ("breast_cancer", "wine"):
        data = datasets.load(name)
        X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
        np.testing.assert_array_equal(data.X, X.astype(np.float32))
        np.testing.assert_array_equal(data.y, y)
    assert datasets.load("wine").feature_names[:2] == ("alcohol", "malic_acid")


def test_digits_are_the_pixels_of_scikit_learn_over_16():
    data = datasets.load("digits")
    X, y = sklearn.datasets.load_digits(return_X_y=True)
    np.testing.assert_array_equal(data.X * 16, X)
    np.testing.assert_array_equal(data.y, y)
    assert data.image_shape == (1, 8, 8) and data.classes == tuple("0123456789")


def test_photographs_are_channels_first():
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
    heavy = ("torch", "torchvision", "sklearn", "scipy", "matplotlib")
    code = f"import sys, clusterbook.datasets; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_readme_says_what_the_table_says():
    text = (Path(__file__).parents[1] / "data" / "README.md").read_text(encoding="utf-8")
    flat = " ".join(text.split())
    sections = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", text, flags=re.M | re.S))
    assert list(sections) == [source.name for source in datasets.catalog()]
    for source in datasets.catalog():
        section = " ".join(sections[source.name].split())
        assert source.title in section
        numbers = (source.n_samples, source.n_features, source.n_classes)
        assert "{:,} samples, {:,} features, {:,} classes".format(*numbers) in section
        where = flat if source.name == "mnist10k" else section  # shares everything with mnist
        for fact in (source.license, source.citation, f"<{source.address}>"):
            assert fact in where
        for file, sha256 in source.files.items():
            assert f"| `{sha256}` | `{file}` |" in where
        assert f"{source.size:,} bytes" in where or not source.files
    known = {sha256 for source in datasets.catalog() for sha256 in source.files.values()}
    assert set(re.findall(r"\b[0-9a-f]{64}\b", text)) == known


def test_the_table_is_complete():
    for source in datasets.catalog():
        assert bool(source.files) == bool(source.download) == (source.embedded_in is None)
        assert (source.size > 0) == bool(source.files)


# --- splits ----------------------------------------------------------------------------------


def test_split_is_stratified_disjoint_and_complete():
    data = datasets.load("wine")
    numbered = replace(data, X=np.arange(len(data.y), dtype=np.float32)[:, np.newaxis])
    X_train, X_test, y_train, y_test = numbered.split(random_state=3, test_share=0.25)
    rows = np.concatenate([X_train, X_test]).ravel().astype(int)
    assert sorted(rows.tolist()) == list(range(178))
    np.testing.assert_array_equal(np.concatenate([y_train, y_test]), data.y[rows])
    assert len(y_test) == 45  # 178 / 4, rounded up
    # a quarter of 59, 71 and 48 is 14.75, 17.75 and 12
    assert np.abs(np.bincount(y_test) - [14.75, 17.75, 12]).max() < 1


def test_split_depends_on_its_seed_alone():
    data = datasets.load("wine")
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (data.split(random_state=seed) for seed in (0, 0, 1))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first[0], other[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize("share", [0, 1, 40, -0.2, 1.5, 0.001, 0.999])
def test_a_share_that_cannot_be_is_refused(share):
    with pytest.raises(InputError, match=rf"'wine'.*test_share={share} .*such as 0\.2"):
        datasets.load("wine").split(test_share=share)


def test_one_photograph_of_each_cannot_be_split():
    with pytest.raises(InputError, match="'photographs'.*can't be split"):
        datasets.load("photographs").split()


# --- the real MNIST --------------------------------------------------------------------------

needs_mnist = pytest.mark.skipif(
    not MNIST_IS_HERE,
    reason=f"MNIST is not in {paths.data_home()}: fetch it with `clusterbook data mnist`",
)


@needs_mnist
def test_mnist_equals_torchvision_training_digits_first():
    from torchvision.datasets import MNIST

    data = datasets.load("mnist", download=False)
    assert data.X.shape == (70_000, 784) and data.X.dtype == np.float32
    assert data.X.flags.c_contiguous and data.y.dtype == np.int64
    assert data.image_shape == (1, 28, 28) and data.train_size == 60_000
    X_train, X_test, y_train, y_test = data.split(random_state=5, test_share=0.5)
    for train, X, y in ((True, X_train, y_train), (False, X_test, y_test)):
        oracle = MNIST(paths.data_home(), train=train)
        np.testing.assert_array_equal(y, oracle.targets.numpy())
        np.testing.assert_array_equal(X, oracle.data.reshape(-1, 784).div(255).numpy())


@needs_mnist
def test_mnist10k_is_the_start_of_the_training_digits():
    data = datasets.load("mnist10k", download=False)
    assert data.X.shape == (10_000, 784) and data.train_size is None
    assert data.y[:5].tolist() == [5, 0, 4, 1, 9]
    assert np.bincount(data.y)[1] == 1127
    assert len(data.split()[1]) == 2000


@needs_mnist
def test_the_size_in_the_table_is_the_size_on_disk():
    for name in ("mnist", "mnist10k"):
        source = next(source for source in datasets.catalog() if source.name == name)
        assert source.size == sum((paths.data_home() / f).stat().st_size for f in source.files)


# --- downloads, from a server on this machine --------------------------------------------------

IMAGES = np.random.default_rng(0).integers(0, 256, size=(8, 2, 3), dtype=np.uint8)
LABELS = np.arange(8, dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    """The IDX format, written from its description: magic, big-endian lengths, bytes."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


TINY = {
    "train-images-idx3-ubyte": idx(IMAGES[:5]),
    "train-labels-idx1-ubyte": idx(LABELS[:5]),
    "t10k-images-idx3-ubyte": idx(IMAGES[5:]),
    "t10k-labels-idx1-ubyte": idx(LABELS[5:]),
}
ARCHIVES = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in TINY.items()}


class Server(ThreadingHTTPServer):
    """Serves `archives`; what is in `cut` ends after that many bytes, `silent` never answers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.archives = dict(ARCHIVES)
        self.cut: dict[str, int] = {}
        self.silent = threading.Event()
        self.requests: list[str] = []
        self.done = threading.Event()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path.rsplit("/", 1)[-1]
        self.server.requests.append(name)
        if self.server.silent.is_set():
            self.server.done.wait(20)
            return
        content = self.server.archives[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: self.server.cut.get(name)])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "data home"
    monkeypatch.setenv("CLUSTERBOOK_DATA", str(folder))
    return folder


@pytest.fixture
def tiny_mnist(monkeypatch, home) -> Path:
    """The rows of the table for a tiny MNIST; the folder in which its files belong."""
    files = {f"MNIST/raw/{f}": hashlib.sha256(content).hexdigest() for f, content in TINY.items()}
    for name in ("mnist", "mnist10k"):
        row = replace(datasets._SOURCES[name], files=files)
        monkeypatch.setitem(datasets._SOURCES, name, row)
    return home / "MNIST" / "raw"


@pytest.fixture
def server(monkeypatch, tiny_mnist) -> Iterator[Server]:
    from torchvision.datasets import MNIST

    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(variable, "127.0.0.1")
    with Server() as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        md5 = {name: hashlib.md5(content).hexdigest() for name, content in ARCHIVES.items()}
        monkeypatch.setattr(MNIST, "mirrors", [f"http://127.0.0.1:{http.server_port}/mnist/"])
        monkeypatch.setattr(MNIST, "resources", list(md5.items()))
        yield http
        http.done.set()
        http.shutdown()
        thread.join()


def put_tiny_files(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, content in TINY.items():
        (folder / name).write_bytes(content)


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Every path below the folder (and itself), with size and time of change."""
    found = [folder, *folder.rglob("*")]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


def test_a_download_is_loaded_quietly_and_once(server, tiny_mnist, home, capfd):
    assert datasets.status("mnist").state == "missing"
    data = datasets.load("mnist")
    np.testing.assert_array_equal(data.X, IMAGES.reshape(8, 6).astype(np.float32) / 255)
    np.testing.assert_array_equal(data.y, LABELS)
    assert data.image_shape == (1, 2, 3) and data.train_size == 5
    assert capfd.readouterr() == ("", "")
    assert sorted(p.name for p in home.rglob("*") if p.is_file()) == sorted(TINY)
    assert sorted(p.name for p in home.iterdir()) == ["MNIST"]  # nothing aside is left

    assert datasets.status("mnist") == datasets.Status("here", home)
    asked = len(server.requests)
    assert datasets.load("mnist10k").y.tolist() == [0, 1, 2, 3, 4]  # shares the files
    assert datasets.fetch("mnist10k").state == "here"
    assert len(server.requests) == asked


def test_progress_is_shown_when_asked_for(server, tiny_mnist, capfd):
    assert datasets.fetch("mnist", progress=True).state == "here"
    assert "100%" in capfd.readouterr().err


def test_only_what_is_missing_is_replaced(server, tiny_mnist):
    put_tiny_files(tiny_mnist)
    (tiny_mnist / "t10k-labels-idx1-ubyte").unlink()
    kept = {name: (tiny_mnist / name).stat().st_mtime_ns for name in list(TINY)[:3]}
    assert datasets.status("mnist").files == ("MNIST/raw/t10k-labels-idx1-ubyte",)
    assert len(datasets.load("mnist").y) == 8
    assert kept == {name: (tiny_mnist / name).stat().st_mtime_ns for name in kept}


def test_a_truncated_download_leaves_nothing(server, tiny_mnist, home):
    name = "t10k-images-idx3-ubyte.gz"
    server.cut[name] = 10
    with pytest.raises(InputError, match="damaged or cut short") as caught:
        datasets.load("mnist")
    message = str(caught.value)
    assert name in message and "'digits'" in message
    assert hashlib.md5(ARCHIVES[name][:10]).hexdigest() in message
    assert hashlib.md5(ARCHIVES[name]).hexdigest() in message
    assert list(home.iterdir()) == []

    server.cut.clear()
    assert datasets.fetch("mnist").state == "here"


def test_other_content_behind_a_right_md5_is_refused(server, tiny_mnist, home, monkeypatch):
    file = "MNIST/raw/train-labels-idx1-ubyte"
    row = datasets._SOURCES["mnist"]
    changed = replace(row, files={**row.files, file: "0" * 64})
    monkeypatch.setitem(datasets._SOURCES, "mnist", changed)
    with pytest.raises(InputError, match=f"{file}.*SHA-256 is {row.files[file]}.*{'0' * 64}"):
        datasets.fetch("mnist")
    assert list(home.iterdir()) == []


def check_no_network(caught: pytest.ExceptionInfo, home: Path) -> None:
    message = str(caught.value)
    assert "network" in message and "\n" not in message
    assert str(home) in message and "MNIST/raw/train-images-idx3-ubyte" in message
    assert "CLUSTERBOOK_DATA" in message and "'digits' is embedded" in message
    assert list(home.iterdir()) == []


def test_no_network_says_what_to_do(tiny_mnist, home, monkeypatch):
    from torchvision.datasets import MNIST

    with contextlib.closing(socket.socket()) as bound:  # bound, not listening: refuses
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(MNIST, "mirrors", [f"http://127.0.0.1:{port}/"])
        with pytest.raises(InputError) as caught:
            datasets.load("mnist")
    check_no_network(caught, home)


def test_a_silent_server_is_given_up(server, tiny_mnist, home, monkeypatch):
    monkeypatch.setattr(downloads, "_NETWORK_PATIENCE", 0.2)
    server.silent.set()
    with pytest.raises(InputError, match="timed out") as caught:
        datasets.load("mnist")
    check_no_network(caught, home)
    assert socket.getdefaulttimeout() is None


def test_a_server_that_hangs_up_is_no_traceback(server, tiny_mnist, home):
    server.silent.set()
    server.done.set()
    with pytest.raises(InputError) as caught:
        datasets.load("mnist")
    check_no_network(caught, home)


def test_an_interrupted_download_leaves_nothing(tiny_mnist, home, monkeypatch):
    def interrupted(folder: Path) -> None:
        (folder / "half").write_bytes(b"half")
        raise KeyboardInterrupt

    row = replace(datasets._SOURCES["mnist"], download=interrupted)
    monkeypatch.setitem(datasets._SOURCES, "mnist", row)
    with pytest.raises(KeyboardInterrupt):
        datasets.load("mnist")
    assert list(home.iterdir()) == []


def test_without_torchvision_the_error_names_it(tiny_mnist, home, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision.datasets", None)
    with pytest.raises(InputError, match="pip install torchvision"):
        datasets.load("mnist")
    put_tiny_files(tiny_mnist)
    assert len(datasets.load("mnist").y) == 8  # reading needs none


# --- files on disk -----------------------------------------------------------------------------


def test_missing_with_download_off_touches_no_network(server, tiny_mnist, home):
    with pytest.raises(InputError, match="clusterbook data mnist") as caught:
        datasets.load("mnist", download=False)
    assert str(tiny_mnist / "train-images-idx3-ubyte") in str(caught.value)
    assert server.requests == [] and not home.exists()


def test_a_damaged_file_is_named_and_removed(server, tiny_mnist):
    put_tiny_files(tiny_mnist)
    assert datasets.load("mnist").train_size == 5
    path = tiny_mnist / "train-labels-idx1-ubyte"
    path.write_bytes(TINY[path.name][:-1] + b"\x09")  # same size, another label
    os.utime(path, ns=(1, 1))
    assert datasets.status("mnist").state == "damaged"
    assert datasets.status("mnist").files == ("MNIST/raw/train-labels-idx1-ubyte",)
    assert path.exists()  # asking for the status changes nothing

    found, expected = (hashlib.sha256(c).hexdigest() for c in (path.read_bytes(), TINY[path.name]))
    with pytest.raises(InputError) as caught:
        datasets.load("mnist")
    message = str(caught.value)
    assert str(path) in message and found in message and expected in message
    assert "it was removed" in message and "`clusterbook data mnist`" in message
    assert not path.exists() and server.requests == []

    assert datasets.load("mnist").y.tolist() == LABELS.tolist()


def test_fetch_replaces_a_damaged_file(server, tiny_mnist):
    put_tiny_files(tiny_mnist)
    path = tiny_mnist / "t10k-images-idx3-ubyte"
    path.write_bytes(b"cut")
    assert datasets.fetch("mnist").state == "here"
    assert path.read_bytes() == TINY[path.name]


def test_a_damaged_file_that_cannot_be_removed(tiny_mnist, monkeypatch):
    put_tiny_files(tiny_mnist)
    path = tiny_mnist / "t10k-labels-idx1-ubyte"
    path.write_bytes(b"cut")

    def read_only(self, missing_ok=False):
        raise OSError(30, "Read-only file system", str(self))

    monkeypatch.setattr(Path, "unlink", read_only)
    with pytest.raises(InputError, match="could not be removed .Read-only file system.") as caught:
        datasets.load("mnist")
    assert "CLUSTERBOOK_DATA" in str(caught.value) and path.exists()


def test_a_folder_in_place_of_a_file_is_no_traceback(tiny_mnist):
    put_tiny_files(tiny_mnist)
    path = tiny_mnist / "t10k-labels-idx1-ubyte"
    path.unlink()
    path.mkdir()
    assert datasets.status("mnist").state == "damaged"
    with pytest.raises(InputError, match="unreadable .Is a directory.: make it readable"):
        datasets.load("mnist")


def test_a_file_that_cannot_be_read_is_not_removed(tiny_mnist, monkeypatch):
    put_tiny_files(tiny_mnist)

    def denied(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(downloads, "_sha256", denied)
    assert datasets.status("mnist").state == "damaged"
    with pytest.raises(InputError, match="unreadable .Permission denied.: make it readable"):
        datasets.load("mnist")
    assert sorted(path.name for path in tiny_mnist.iterdir()) == sorted(TINY)


def test_each_file_is_hashed_once(tiny_mnist, monkeypatch):
    put_tiny_files(tiny_mnist)
    hashed = []
    original = hashlib.file_digest

    def counted(stream, kind):
        hashed.append(stream.name)
        return original(stream, kind)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    for _ in range(3):
        datasets.load("mnist")
    assert len(hashed) == 4
    os.utime(tiny_mnist / "t10k-labels-idx1-ubyte", ns=(1, 1))
    datasets.load("mnist")
    assert len(hashed) == 5


def test_nothing_is_written_when_everything_is_here(tiny_mnist, home, monkeypatch):
    put_tiny_files(tiny_mnist)
    before = snapshot(home)

    def refused(*args, **kwargs):
        raise OSError(30, "Read-only file system")

    for change in ("mkdir", "unlink", "replace", "touch", "write_bytes"):
        monkeypatch.setattr(Path, change, refused)
    assert len(datasets.load("mnist").y) == 8
    assert datasets.fetch("mnist").state == datasets.status("mnist").state == "here"
    assert snapshot(home) == before


def test_a_data_folder_that_cannot_be_written(server, tiny_mnist, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CLUSTERBOOK_DATA", str(tmp_path / "file" / "data"))
    assert datasets.status("mnist").state == "missing"
    with pytest.raises(InputError, match="can't be stored in .*CLUSTERBOOK_DATA.*'digits'"):
        datasets.load("mnist")
    assert server.requests == []


def test_a_full_disk_is_not_called_a_network_failure(tiny_mnist, home, monkeypatch):
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    row = replace(datasets._SOURCES["mnist"], download=full)
    monkeypatch.setitem(datasets._SOURCES, "mnist", row)
    with pytest.raises(InputError, match="can't be stored in .*No space left on device"):
        datasets.load("mnist")
    assert list(home.iterdir()) == []
