"""Build the book with plain Sphinx: without Jupyter Book's extension, a warning counts as an error.

    python .github/scripts/plain_sphinx.py PYTHON

This Python has the package with its extra `book`, which writes the settings for Sphinx; PYTHON has
Sphinx, MyST-NB, the theme and the package itself, in whatever versions. The pages show the
committed outputs; they are left in _build/plain.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bookledger.build import copy_sources, executed_pages
from clusterbook import paths


def main(python: str) -> int:
    """Copy the book's sources, write their conf.py, and run Sphinx; Sphinx's exit status."""
    output = paths.root() / "_build" / "plain"
    sources = output / "stage"
    copy_sources(paths.root(), sources,
                 executed_pages(paths.root(), output, run=False, say=print))
    config = "from jupyter_book.cli.main import main; main(prog_name='jupyter-book')"
    subprocess.run([sys.executable, "-P", "-c", config, "config", "sphinx", sources,
                    "--toc", sources / "book" / "_toc.yml"], check=True)
    conf = sources / "conf.py"
    text = conf.read_text(encoding="utf-8")
    own = "'jupyter_book', "
    if text.count(own) != 1:
        raise SystemExit(f"{conf} does not list the extension that is to go")
    conf.write_text(text.replace(own, ""), encoding="utf-8")
    return subprocess.run([python, "-m", "sphinx", "-W", "-n", "--keep-going",
                           sources, output / "html"], check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1]))
