"""Every chapter on machines like Colab's: ``python tests/environments [oldest] [newest]``.

Each environment is a fresh one with what such a machine has, in the oldest or the newest versions
that pyproject.toml allows, and without papermill, Jupyter Book, nbval, munkres or pooch. In it
every chapter runs from top to bottom in an empty folder. Its bootstrap cell installs the library
as it does from the public address; that address is a clone of this checkout's last commit here, so
pip fetches the tag and builds the wheel. Gigabytes are installed, so `make test` leaves this out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import nbformat
from packaging.requirements import Requirement

from clusterbook import paths
from clusterbook.book.runs import failed_checks

CHECKOUT = paths.checkout()
HOSTED = ("ipykernel", "nbclient")              # what runs a notebook there, in any version
LEFT_OUT = ("clusterbook", "jupyter_book", "munkres", "nbval", "papermill", "pooch")
VERSIONS = """
import importlib.metadata as m, json
names = {d.metadata["Name"].lower().replace("-", "_"): d.version for d in m.distributions()}
print(json.dumps(names))
"""


def requirements(kind: str) -> list[str]:
    """What the environment has of the library's own list: lower bounds, or whatever is newest."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [Requirement(text) for text in project["dependencies"]]
    wanted = [one for one in wanted if one.name not in LEFT_OUT]
    if kind == "newest":
        return [str(one) for one in wanted]
    lowest = {one.name: next(s.version for s in one.specifier if s.operator == ">=")
              for one in wanted}
    return [f"{name}=={version}.*" for name, version in lowest.items()]


class Machine:
    """A clean environment, and a folder in which nothing but a notebook lies."""

    def __init__(self, kind: str, folder: Path, address: str, commit: str) -> None:
        self.kind, self.folder = kind, folder
        self.address, self.commit = address, commit
        self.python = folder / "environment" / ("Scripts" if os.name == "nt" else "bin") / "python"

    def install(self) -> None:
        """Make the environment; say what is in it."""
        subprocess.run([sys.executable, "-m", "venv", self.folder / "environment"], check=True)
        self._pip("--upgrade", "pip")
        self._pip(*requirements(self.kind), *HOSTED)
        found = self.versions()
        there = sorted(set(LEFT_OUT) & set(found))
        assert not there, f"{', '.join(there)} came with the rest; this is no clean environment"
        self.before = found
        named = [Requirement(text).name.lower() for text in requirements(self.kind)]
        print(f"{self.kind}: Python {sys.version_info[0]}.{sys.version_info[1]}, "
              + ", ".join(f"{name} {found[name.replace('-', '_')]}" for name in named), flush=True)

    def _pip(self, *arguments: str) -> None:
        subprocess.run([self.python, "-m", "pip", "install", "--quiet", *arguments], check=True)

    def versions(self) -> dict[str, str]:
        """The version of every installed package."""
        done = subprocess.run([self.python, "-c", VERSIONS], check=True, capture_output=True,
                              text=True)
        return json.loads(done.stdout)

    def run(self, chapter: str) -> list[str]:
        """Run a chapter from top to bottom; what went wrong."""
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="empty-") as empty:
            notebook = nbformat.read(CHECKOUT / "notebooks" / f"{chapter}.ipynb", as_version=4)
            for cell in notebook.cells:
                cell.pop("outputs", None)
                if "bootstrap" in cell.metadata.get("tags", []):
                    cell.source = re.sub(
                        r'(?m)^REPOSITORY, REF = .*$',
                        f'REPOSITORY, REF = "{self.address}", "{self.commit}"', cell.source)
                if cell.cell_type == "code":
                    cell.outputs, cell.execution_count = [], None
            file = Path(empty, f"{chapter}.ipynb")
            nbformat.write(notebook, file)
            environment = {name: value for name, value in os.environ.items()
                           if not name.startswith(("CLUSTERBOOK_", "PYTHON", "VIRTUAL_ENV"))}
            environment |= {"COLAB_RELEASE_TAG": "like-colab", "MPLBACKEND": "Agg",
                            "XDG_CACHE_HOME": str(self.folder / "cache"),
                            "PATH": f"{self.python.parent}{os.pathsep}{environment['PATH']}"}
            done = subprocess.run(
                [self.python, "-m", "jupyter", "execute", "--inplace", "--kernel_name=python3",
                 file.name], cwd=empty, env=environment, capture_output=True, text=True,
                check=False)
            if done.returncode:
                return [line for line in done.stderr.strip().splitlines() if line.strip()][-12:]
            return failed_checks(nbformat.read(file, as_version=4))

    def changed(self) -> list[str]:
        """What the bootstrap cells did to the environment, other than what they are for."""
        after = self.versions()
        allowed = {"clusterbook", "munkres", "pooch"}
        return [f"{name} {self.before.get(name, 'absent')} became {after.get(name, 'absent')}"
                for name in sorted(set(after) | set(self.before))
                if after.get(name) != self.before.get(name) and name not in allowed]


def main(kinds: list[str]) -> int:
    """Run every chapter in each kind of environment; 1 if anything went wrong."""
    kinds = kinds or ["oldest", "newest"]
    if not set(kinds) <= {"oldest", "newest"}:
        print(__doc__, file=sys.stderr)
        return 2
    git = {"cwd": CHECKOUT, "check": True, "capture_output": True, "text": True}
    commit = subprocess.run(["git", "rev-parse", "HEAD"], **git).stdout.strip()
    if subprocess.run(["git", "status", "--porcelain"], **git).stdout.strip():
        print("what is not committed is not tested: the library comes from the last commit",
              file=sys.stderr)
    wrong = 0
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix="clusterbook-") as folder:
            source = Path(folder, "address")
            subprocess.run(["git", "clone", "--quiet", "--bare", str(CHECKOUT), str(source)],
                           check=True)
            machine = Machine(kind, Path(folder), source.as_uri(), commit)
            machine.install()
            for chapter in paths.chapters():
                start = time.perf_counter()
                faults = machine.run(chapter)
                wrong += bool(faults)
                print(f"    {chapter}: {'failed' if faults else 'every check holds'} "
                      f"({time.perf_counter() - start:.0f} s)", flush=True)
                for line in faults:
                    print(f"        {line}")
            for line in machine.changed():
                wrong += 1
                print(f"    a bootstrap cell changed the environment: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
