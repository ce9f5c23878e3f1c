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


def test_ruff_finds_nothing():
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=concise", "."]
    found = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


# --- the workflow files ----------------------------------------------------------------------


def told(command: list) -> Iterator[str]:
    """What a program says that fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        yield done.stdout + done.stderr


def by_schema(*files: Path) -> Iterator[str]:
    """What check-jsonschema says; the schemas are its own, so that it needs no network."""
    for schema in ("vendor.github-workflows", "custom.github-workflows-require-timeout"):
        yield from told([sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema,
                         *files])


def by_zizmor(*files: Path) -> Iterator[str]:
    """What zizmor finds: rights that are too wide, texts of strangers in commands, and more."""
    program = shutil.which("zizmor", path=sysconfig.get_path("scripts")) or "zizmor"
    yield from told([program, "--offline", "--no-progress", "--color=never",
                     "--config", CHECKOUT / ".github" / "zizmor.yml", *files])


def by_hand(file: Path) -> Iterator[str]:
    """What neither knows: actions by major version, jobs and files that are there, no address."""
    text = file.read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    for name, job in jobs.items():
        needs = job.get("needs", [])
        for other in [needs] if isinstance(needs, str) else needs:
            if other not in jobs:
                yield f"{name} needs {other}, which is no job"
        used = [step["uses"] for step in job.get("steps", []) if "uses" in step]
        yield from (f"{name} uses {action}: not by its major version" for action in used
                    if not re.fullmatch(r"[\w-]+/[\w-]+@v\d+", action))
        if "uses" in job and not (CHECKOUT / job["uses"]).is_file():
            yield f"{name} uses {job['uses']}, which is not there"
    for path in re.findall(r"(?<![\w./])(?:\.github|tests|book|notebooks)/[\w./-]+\.\w+", text):
        if not (CHECKOUT / path).exists():
            yield f"{file.name} names {path}, which is not there"
    if address := re.search(r"\bhttps?://\S+", text):
        yield f"{file.name} names an address: {address[0]}"


def test_nothing_is_wrong_with_the_workflows():
    assert len(WORKFLOWS) >= 3
    assert not [*by_schema(*WORKFLOWS), *by_zizmor(*WORKFLOWS),
                *(line for file in WORKFLOWS for line in by_hand(file))]


@pytest.mark.parametrize(("checker", "what", "instead", "says"), [
    (by_schema, "    runs-on: ubuntu-latest\n", "", "'runs-on' is a required property"),
    (by_schema, "    timeout-minutes: 60\n", "", "timeout-minutes"),
    (by_zizmor, "  pull_request:\n", "  pull_request_target:\n", "dangerous-triggers"),
    (by_zizmor, "permissions:\n      contents: read\n", "permissions: write-all\n",
     "excessive-permissions"),
    (by_zizmor, "make test", "echo ${{ github.event.pull_request.title }}; make test",
     "template-injection"),
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
