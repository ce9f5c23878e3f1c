"""Writing a file so that it is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from .errors import InputError


def write_atomically(path: Path, *parts: bytes, noun: str = "the file",
                     temporary: Path | None = None) -> None:
    """Write a file so that it is there whole or not at all, whatever interrupts; make its folder.

    Parameters
    ----------
    path : Path
    *parts : bytes
        Written one after the other.
    noun : str
        What an error calls the file.
    temporary : Path, optional
        What is written first and then renamed; by default a new file beside *path*. With a name of
        its own, what a killed process left is replaced by the next.

    Raises
    ------
    InputError
        When the file can't be written, or something else than a file is there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():       # never replace a folder or a device
            raise InputError(f"{noun} {path} can't be written (it is "
                             f"{'a folder' if path.is_dir() else 'not a file'}); name another path")
        if temporary is None:
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            temporary = Path(name)
            os.chmod(name, 0o644)                       # mkstemp makes it private
        else:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(parts)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise InputError(f"{noun} {path} can't be written ({error.strerror or error}); name a path "
                         "in a folder that you can write to, with space left") from error
