"""Files of data sets: compared with their SHA-256 before they are used, downloaded with pooch."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..progress import bar
from .dataset import Source

_TIMEOUT = (10, 30)  # seconds to connect, and without a byte
_UNREADABLE = "unreadable"


def wrong_files(source: Source, home: Path) -> dict[str, str | None]:
    """The files that can't be used: the SHA-256 of what is there instead, None if nothing is.

    No file is wrong where the data set's folders stand in their place.
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
    """Remove a damaged file if it can be downloaded again; the error that says so."""
    path, fetch = home / file, f"fetch it again with `clusterbook data {source.name}`"
    wrong = f"its SHA-256 is {found}, expected {source.files[file]}"
    if found.startswith(_UNREADABLE):  # it may be good: keep it
        return InputError(f"the file {path} is {found}: make it readable, or set CLUSTERBOOK_DATA "
                          f"to another folder and {fetch}")  # fmt: skip
    if not source.urls:  # somebody put it there by hand: keep it
        return InputError(f"the file {path} is not the expected one: {wrong}; move it away, then "
                          f"get the data from {source.address} and put {source.by_hand} in "
                          f"{home}")  # fmt: skip
    try:
        path.unlink()
        outcome = "it was removed:"
    except OSError as error:
        outcome = (f"it could not be removed ({error.strerror}): remove it, or set "
                   "CLUSTERBOOK_DATA to another folder, and")  # fmt: skip
    return InputError(f"the file {path} is damaged: {wrong}; {outcome} {fetch}")


def download(source: Source, home: Path, files: Iterable[str], progress: bool | None) -> None:
    """Download files into *home*, each from the first of its URLs that serves it undamaged.

    A file is written beside its place, and moved there once its SHA-256 is right. *progress* is
    that of `clusterbook.progress.bar`.

    Raises
    ------
    InputError
        There is no URL, pooch is missing, every URL failed, or *home* can't be written.
    """
    if not source.urls:
        raise InputError(
            f"data set {source.name!r} has no download and is not in {home}: get it from "
            f"{source.address} and put {source.by_hand} there, or set CLUSTERBOOK_DATA to a "
            "folder that has it; 'digits' is embedded and works without"
        )
    try:
        import pooch
        from requests.exceptions import RequestException
    except ImportError as error:
        raise InputError(
            f"downloading data set {source.name!r} needs pooch, which can't be imported ({error}): "
            "install it with `pip install pooch`"
        ) from error
    pooch.get_logger().setLevel("WARNING")  # it announces each download on stderr
    for file in files:
        failures = []
        for url in source.urls:
            mirror = pooch.Pooch(home, "", source.files, {file: url.format(Path(file).name)},
                                 retry_if_failed=1)  # fmt: skip
            try:
                mirror.fetch(file, downloader=partial(
                    _retrieve, packed=url.endswith("{}.gz"), progress=progress))
                break
            except (RequestException, ValueError) as error:  # ValueError: a wrong SHA-256
                failures.append(_reason(error))
            except OSError as error:
                raise InputError(
                    f"data set {source.name!r} can't be stored in {home} "
                    f"({error.strerror or error}): set CLUSTERBOOK_DATA to a folder that has its "
                    "files or can be written; 'digits' is embedded and needs neither"
                ) from error
        else:
            raise InputError(
                f"data set {source.name!r} is not in {home}, and {file} could not be downloaded "
                f"({'; '.join(failures)}): try again, with another network if it fails again, or "
                f"put {', '.join(source.files)} there, or set CLUSTERBOOK_DATA to a folder that "
                "has them; 'digits' is embedded and works without"
            )


def _retrieve(url: str, output: str, pooch_: Any, *, packed: bool, progress: bool | None) -> None:
    """Download to the file *output* and unpack it there, for pooch to compare its checksum."""
    import pooch

    os.remove(output)  # pooch made it readable for this person alone
    name = url.rpartition("/")[2]
    with bar(1, name, progress=progress, leave=True, unit="B", unit_scale=True) as shown:
        pooch.HTTPDownloader(shown, chunk_size=2**16, timeout=_TIMEOUT)(url, output, pooch_)
    if packed:
        # What is no gzip file, or a damaged one, fails the comparison as it is.
        with suppress(gzip.BadGzipFile, EOFError, zlib.error):
            Path(output).write_bytes(gzip.decompress(Path(output).read_bytes()))


def _reason(error: Exception) -> str:
    """The cause of a failed download in one line, without the layers of HTTP around it."""
    cause = error.args[0] if error.args else error
    return " ".join(str(getattr(cause, "reason", cause)).split()).partition(". ")[0]
