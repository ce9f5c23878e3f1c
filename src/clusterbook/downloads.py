"""Files of data sets: verified before they are used, downloaded aside and moved into place whole.

What a data set's files are, and their SHA-256, stands in ``clusterbook/datasets/table.py``.
"""

from __future__ import annotations

import hashlib
import io
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

from tqdm import tqdm

from .errors import InputError

if TYPE_CHECKING:
    from .datasets import Source

_NETWORK_ERRORS = (URLError, HTTPException, ConnectionError, TimeoutError, RuntimeError)
_NETWORK_PATIENCE = 30  # seconds without a byte
_UNREADABLE = "unreadable"

# The address that torchvision and Keras have too.
CIFAR10_ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
# Of one commit, so that the files stay what they were when their SHA-256 was taken.
SCIKIT_FEATURE_ADDRESS = (
    "https://raw.githubusercontent.com/jundongl/scikit-feature/"
    "48cffad4e88ff4b9d2f1c7baffb314d1b3303792/skfeature/data/"
)


def wrong_files(source: Source, home: Path) -> dict[str, str | None]:
    """The files that can't be used: the SHA-256 of what is there instead, None if nothing is.

    None is wrong where a data set's folders stand in the place of its files.
    """
    found = {file: _checksum(home / file) for file in source.files}
    if source.folders and not any(found.values()):
        if all((home / folder).is_dir() for folder in source.folders):
            return {}
    return {file: checksum for file, checksum in found.items() if checksum != source.files[file]}


def _checksum(path: Path) -> str | None:
    try:
        now = path.stat()
        return _sha256(path, now.st_size, now.st_mtime_ns)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"{_UNREADABLE} ({error.strerror})"  # differs from every checksum, and says why


@cache
def _sha256(path: Path, size: int, mtime_ns: int) -> str:
    """Hash a file once per process, and again when its size or time of change differ."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def remove_damaged(source: Source, home: Path, file: str, found: str) -> InputError:
    """Remove a damaged file, if it can be downloaded again, and make the error that says so."""
    if found.startswith(_UNREADABLE):  # it may be good: keep it
        return InputError(
            f"the file {home / file} is {found}: make it readable, or set CLUSTERBOOK_DATA to "
            f"another folder and fetch it with `clusterbook data {source.name}`"
        )
    if source.download is None:  # somebody put it there by hand: keep it
        return InputError(
            f"the file {home / file} is not the expected one: its SHA-256 is {found}, expected "
            f"{source.files[file]}; move it away, then get the data from {source.address} and put "
            f"{source.by_hand} in {home}"
        )
    try:
        (home / file).unlink()
        outcome = "it was removed:"
    except OSError as error:
        outcome = (
            f"it could not be removed ({error.strerror}): remove it, or set CLUSTERBOOK_DATA to "
            "another folder, and"
        )
    return InputError(
        f"the file {home / file} is damaged: its SHA-256 is {found}, expected "
        f"{source.files[file]}; {outcome} fetch it again with `clusterbook data {source.name}`"
    )


def download_files(source: Source, home: Path, files: Iterable[str], *, progress: bool) -> None:
    """Download into a folder aside, verify there, and only then move the files into place."""
    if source.download is None:
        raise InputError(
            f"data set {source.name!r} has no download and is not in {home}: get it from "
            f"{source.address} and put {source.by_hand} there, or set CLUSTERBOOK_DATA to a "
            "folder that has it; 'digits' is embedded and works without"
        )
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=home) as folder:
            aside = Path(folder)
            with _patience(), _shown(progress):
                source.download(aside)
            for file in files:
                if (found := _checksum(aside / file)) != source.files[file]:
                    raise _arrived_damaged(file, "SHA-256", found, source.files[file])
            for file in files:
                (home / file).parent.mkdir(parents=True, exist_ok=True)
                (aside / file).replace(home / file)
    except _NETWORK_ERRORS as error:
        raise InputError(
            f"data set {source.name!r} is not in {home} and could not be downloaded, because the "
            f"network or the server could not be reached ({' '.join(str(error).split())}): try "
            f"again with a network, or put {', '.join(source.files)} there, or set "
            "CLUSTERBOOK_DATA to a folder that has them; 'digits' is embedded and works without"
        ) from error
    except OSError as error:
        raise InputError(
            f"data set {source.name!r} can't be stored in {home} ({error.strerror or error}): set "
            "CLUSTERBOOK_DATA to a folder that has its files or can be written; 'digits' is "
            "embedded and needs neither"
        ) from error


def _arrived_damaged(file: str, kind: str, found: str | None, expected: str) -> InputError:
    return InputError(
        f"the download of {file} arrived damaged or cut short: its {kind} is {found}, expected "
        f"{expected}; nothing of it was kept: try again, with another network if it stays so, or "
        "use 'digits', which is embedded and works without"
    )


@contextmanager
def _shown(progress: bool) -> Iterator[None]:
    """Let a downloader's bars and lines through, or keep them out of a notebook's outputs."""
    if progress:
        yield
    else:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield


@contextmanager
def _patience() -> Iterator[None]:
    """Give up on a silent server; torchvision itself would wait forever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_NETWORK_PATIENCE)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def download_idx(name: str, folder: Path) -> None:
    """Download the four files of torchvision's MNIST or FashionMNIST, which unpacks them."""
    try:
        import torchvision.datasets as available
    except (ImportError, RuntimeError) as error:  # RuntimeError: built for another torch
        raise InputError(
            f"downloading {name} needs torchvision, which can't be imported ({error}): install the "
            "one that matches the installed torch with `pip install torchvision`"
        ) from error
    known = getattr(available, name)
    try:
        known(folder, download=True)
    except _NETWORK_ERRORS:
        # torchvision reports a wrong MD5 like a missing network; what it left behind tells which.
        for archive, expected in known.resources:
            path = folder / name / "raw" / archive
            if path.is_file():
                found = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
                if found != expected:
                    raise _arrived_damaged(archive, "MD5", found, expected) from None
        raise


def download_cifar10(folder: Path) -> None:
    """Download the archive of CIFAR-10; it is read as it is, so nothing is unpacked."""
    _retrieve(CIFAR10_ADDRESS, folder / "cifar-10-python.tar.gz")


def download_scikit_feature(file: str, folder: Path) -> None:
    """Download one MATLAB file of the scikit-feature repository to that path in the folder."""
    _retrieve(SCIKIT_FEATURE_ADDRESS + Path(file).name, folder / file)


def _retrieve(address: str, path: Path) -> None:
    """Write what is behind an address to a file; whether it is all of it, its checksum will say."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with urlopen(address) as response, path.open("wb") as file:
        length = response.headers.get("Content-Length")
        bar = tqdm(total=int(length) if length else None, desc=path.name, unit="B", unit_scale=True)
        with bar:
            while block := response.read(2**16):
                file.write(block)
                bar.update(len(block))
