"""The lists of packages agree, the wheel is complete, an old Python is refused."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from _support import CHECKOUT, module_of, without_settings
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from pybtex.database import parse_string

import clusterbook

# conda-forge's names of what the package index calls otherwise.
CONDA = {"pytorch-cpu": "torch", "matplotlib-base": "matplotlib"}
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
LISTED = yaml.safe_load((CHECKOUT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]


def declared(*extras: str) -> dict[str, SpecifierSet]:
    """Package → range in pyproject.toml: the library's own, or those of extras."""
    project = PROJECT["project"]
    lists = [project["optional-dependencies"][name] for name in extras] or [project["dependencies"]]
    found = map(Requirement, sum(lists, []))
    return {canonicalize_name(requirement.name): requirement.specifier for requirement in found}


def test_conda_has_the_same_packages_and_ranges_and_binder_finds_them():
    *named, last = LISTED
    split = [line.partition(" ") for line in [*named, *last["pip"]] if not line.startswith("--")]
    listed = {canonicalize_name(CONDA.get(name, name)): SpecifierSet(bounds.replace(" ", ""))
              for name, _, bounds in split if name not in ("python", "pip", "make")}
    assert listed == {**declared(), **declared("book", "test")}
    # Binder's builder looks for "=" and a version, and in none of the folders.
    (found,) = filter(None, [re.fullmatch(r"python =(\d\.\d+)", line) for line in named])
    assert found[1] in SpecifierSet(PROJECT["project"]["requires-python"])
    assert {"pip", "make"} < set(named) and last["pip"][-1] == "--editable ."
    assert not (CHECKOUT / "binder").exists() and not (CHECKOUT / ".binder").exists()


def test_every_dependency_has_a_range_and_is_locked_inside_it():
    text = (CHECKOUT / "requirements.txt").read_text(encoding="utf-8")
    assert "//" not in text and "--" not in text.replace("    --hash=sha256:", ""), "no address"
    entry = r"(\S+)==(\S+)(?: ; [^\\\n]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)"
    assert re.fullmatch(rf"(#.*\n)*({entry})+", text), "an exact version and its hashes, no more"
    found = re.findall(entry, text)
    pins = {canonicalize_name(name): version for name, version, _ in found}
    assert len(pins) == len(found), "a package is locked in two versions"
    extras = PROJECT["project"]["optional-dependencies"]
    ranges = {**declared(*extras), **declared()}
    for name, bounds in ranges.items():
        assert pins[name] in bounds, f"{name}=={pins[name]} is outside {bounds}: make lock"
        assert {">="} <= {bound.operator for bound in bounds} <= {">=", "<"}, f"{name} {bounds}"
    # What the extras have in common is one range: the conda list has each package once.
    assert all(declared(extra).items() <= ranges.items() for extra in extras)
    assert not set(declared()) & set(declared("book", "test")), "the book's tools in the library"


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make on this machine")
@pytest.mark.parametrize("there", ["old", ""])
def test_a_python_that_does_not_fit_is_told_in_one_sentence(tmp_path, there):
    for name in ("Makefile", "pyproject.toml", "requirements.txt"):
        shutil.copy(CHECKOUT / name, tmp_path)
    old = tmp_path / "old python"
    old.write_text(f"#!/bin/sh\n'{sys.executable}' -c 'import sys\nsys.version_info = (3, 9, 1)\n"
                   "exec(sys.argv[2])' \"$@\"\n")
    old.chmod(0o755)
    says = (f"{old} is 3.9. Name another: make PYTHON=/path/to/python" if there else
            "none was found. Install one, or name it: make PYTHON=/path/to/python")
    kept = {name: value for name, value in os.environ.items()
            if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    done = subprocess.run(
        ["make", "--no-print-directory", "book", f"PYTHON={there and old}"], cwd=tmp_path, env=kept,
        capture_output=True, text=True, check=False)
    assert done.returncode == 2
    sentences = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert sentences == [f"clusterbook needs Python 3.11 or newer; {says}"]
    assert not (tmp_path / ".venv").exists()


READS = """
from pathlib import Path
import bookledger as evidence
from clusterbook import paths
from bookledger import config, parameters
print([sorted(config.chapters()), len(evidence.load_claims()), len(evidence.load_records()),
       len(evidence.load_expectations()), len(evidence.load_errata()),
       len(evidence.load_sources()),
       [list(parameters.read(name).profiles()) for name in config.chapters()],
       [path.name for path in config.notebooks(paths.root())],
       (paths.root() / "_config.yml").is_file()])
"""


def test_the_wheel_holds_what_the_library_reads(tmp_path, capsys):
    """The wheel's layout, made from pyproject.toml by hand: building one needs the network."""
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["src/bookledger", "src/clusterbook"]
    site, cache = tmp_path / "site-packages", tmp_path / "cache"
    for package in wheel["packages"]:
        shutil.copytree(CHECKOUT / package, site / Path(package).name,
                        ignore=shutil.ignore_patterns("__pycache__"))
    for source, target in wheel["force-include"].items():
        (site / target).parent.mkdir(parents=True, exist_ok=True)
        (site / target).symlink_to(CHECKOUT / source)
        assert (site / target).exists(), f"pyproject.toml ships {source}, which is not there"
    own = "assert paths.checkout() is None\nprint(paths.data_home())"
    done = subprocess.run(
        [sys.executable, "-c", READS + own], cwd=site, capture_output=True, text=True, check=False,
        env=without_settings() | {"PYTHONPATH": str(site), "XDG_CACHE_HOME": str(cache)})
    assert done.returncode == 0, done.stderr
    installed, home = done.stdout.splitlines()
    assert home == str(cache / "clusterbook")
    exec(READS, {})
    assert installed == capsys.readouterr().out.strip(), "it reads the same as in the checkout"


def test_the_citation_is_of_this_version_and_its_page_is_in_step():
    citation = yaml.safe_load((CHECKOUT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == clusterbook.__version__
    assert citation["license"] == PROJECT["project"]["license"]
    changes = (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## [{clusterbook.__version__}]" in changes, "the changelog lacks this version"
    subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema",
                    "vendor.citation-file-format", CHECKOUT / "CITATION.cff"], check=True)
    page = module_of(CHECKOUT / ".github" / "scripts" / "citation.py").page(CHECKOUT)
    assert (CHECKOUT / "book" / "cite.md").read_text(encoding="utf-8") == page, \
        "book/cite.md is not what CITATION.cff says: python .github/scripts/citation.py"


def test_the_page_on_how_to_cite_has_bibtex_of_the_book_and_of_a_chapter():
    page = (CHECKOUT / "book" / "cite.md").read_text(encoding="utf-8")
    cited = parse_string("".join(re.findall(r"```bibtex\n(.*?)```", page, re.DOTALL)), "bibtex")
    assert set(cited.entries) == {"clusterbook", "clusterbook-NAME"}
    for entry in cited.entries.values():
        assert entry.fields["title"] and entry.fields["year"] and entry.persons["author"]
