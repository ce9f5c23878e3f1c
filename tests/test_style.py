"""Ruff over everything that git would hold; the workflow files, whose only trial is elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from _support import CHECKOUT

WORKFLOWS = sorted((CHECKOUT / ".github" / "workflows").glob("*.yml"))


def told(*command: object) -> Iterator[str]:
    """What a program says that fails."""
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if done.returncode:
        yield done.stdout + done.stderr


def test_ruff_finds_nothing():
    assert not list(told(sys.executable, "-m", "ruff", "check", "--no-cache",
                         "--output-format=concise", "."))


def by_schema(*files: Path) -> Iterator[str]:
    """What check-jsonschema says; the schemas are its own, so that it needs no network."""
    for schema in ("vendor.github-workflows", "custom.github-workflows-require-timeout"):
        yield from told(sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema,
                        *files)


def by_zizmor(*files: Path) -> Iterator[str]:
    """What zizmor finds: rights that are too wide, texts of strangers in commands, and more."""
    program = shutil.which("zizmor", path=sysconfig.get_path("scripts")) or "zizmor"
    yield from told(program, "--offline", "--no-progress", "--color=never",
                    "--config", CHECKOUT / ".github" / "zizmor.yml", *files)


def by_hand(*files: Path) -> Iterator[str]:
    """What neither knows: actions by major version, jobs and files that are there, no address."""
    for file in files:
        text = file.read_text(encoding="utf-8")
        jobs = yaml.safe_load(text)["jobs"]
        for job in jobs.values():
            needs = job.get("needs", [])
            others = set([needs] if isinstance(needs, str) else needs) - set(jobs)
            yield from (f"needs {other}, which is no job" for other in others)
        yield from (f"{action}: not by its major version"
                    for action in re.findall(r"uses: (\S+)", text)
                    if not re.fullmatch(r"\./\S+|[\w-]+/[\w-]+@v\d+", action))
        for path in re.findall(r"(?<![\w/])(?:\.github|tests|book|notebooks)/[\w./-]+\.\w+", text):
            if not (CHECKOUT / path).exists():
                yield f"{file.name} names {path}, which is not there"
        if address := re.search(r"\bhttps?://\S+", text):
            yield f"{file.name} names an address: {address[0]}"


def test_nothing_is_wrong_with_the_workflows():
    assert len(WORKFLOWS) >= 3
    assert not [*by_schema(*WORKFLOWS), *by_zizmor(*WORKFLOWS), *by_hand(*WORKFLOWS)]


@pytest.mark.parametrize(("checker", "what", "instead", "says"), [
    (by_schema, "    timeout-minutes: 60\n", "", "timeout-minutes"),
    (by_zizmor, "permissions:\n      contents: read\n", "permissions: write-all\n",
     "excessive-permissions"),
    (by_hand, "actions/checkout@v7", "actions/checkout@main", "not by its major version"),
    (by_hand, "    name: Python", "    needs: nothing\n    name: Python",
     "needs nothing, which is no job"),
    (by_hand, ".github/scripts/changed_pages.py", ".github/scripts/none.py",
     "none.py, which is not there"),
    (by_hand, "make test", "curl https://example.org/x; make test", "names an address"),
])
def test_what_is_wrong_with_a_workflow_is_found(tmp_path, checker, what, instead, says):
    text = (CHECKOUT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert what in text, "test.yml has changed: break something else"
    broken = tmp_path / ".github" / "workflows" / "test.yml"
    broken.parent.mkdir(parents=True)
    broken.write_text(text.replace(what, instead), encoding="utf-8")
    assert says in "\n".join(checker(broken))
