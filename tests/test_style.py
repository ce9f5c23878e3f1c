"""Ruff over everything that git would hold; the workflow files, whose only trial is elsewhere."""

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import yaml
from _support import CHECKOUT

WORKFLOWS = sorted((CHECKOUT / ".github" / "workflows").glob("*.yml"))
FORMS = CHECKOUT / ".github" / "ISSUE_TEMPLATE"


def told(*command: object) -> Iterator[str]:
    """What a program says that fails."""
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if done.returncode:
        yield done.stdout + done.stderr


def test_ruff_finds_nothing():
    assert not list(told(sys.executable, "-m", "ruff", "check", "--no-cache",
                         "--output-format=concise", "."))


def idle(faults: list[dict]) -> Iterator[str]:
    """Faults that could not be injected, or name a test that is not there; see make faults."""
    for fault in faults:
        if (CHECKOUT / fault["file"]).read_text(encoding="utf-8").count(fault["old"]) != 1:
            yield f"{fault['id']}: its text is not there once"
        for file, _, name in (test.partition("::") for test in fault.get("tests", ())):
            name = name.rpartition("::")[2].partition("[")[0]
            if name and f"def {name}(" not in (CHECKOUT / file).read_text(encoding="utf-8"):
                yield f"{fault['id']}: no test {name}"


def test_every_fault_can_be_injected_and_names_tests_that_are_there():
    faults = [fault for path in (CHECKOUT / "tests" / "faults").rglob("*.yaml")
              for fault in yaml.safe_load(path.read_text(encoding="utf-8"))]
    assert len({fault["id"] for fault in faults}) == len(faults) > 500
    assert not list(idle(faults))
    one = {"id": "a", "file": "README.md", "old": "no such text"}
    assert list(idle([one | {"tests": ["tests/test_style.py::test_that_is_not_there"]}])) == [
        "a: its text is not there once", "a: no test test_that_is_not_there"]


def by_hand(*files: Path) -> Iterator[str]:
    """What no linter knows: jobs and files that are there, no address."""
    for file in files:
        text = file.read_text(encoding="utf-8")
        jobs = yaml.safe_load(text)["jobs"]
        for job in jobs.values():
            needs = job.get("needs", [])
            others = set([needs] if isinstance(needs, str) else needs) - set(jobs)
            yield from (f"needs {other}, which is no job" for other in others)
        yield from (f"{file.name} names {path}, which is not there" for path in re.findall(
            r"(?<![\w/])(?:\.github|tests|book|notebooks)/[\w./-]+\.\w+", text)
            if not (CHECKOUT / path).exists())
        yield from (f"{file.name} names an address: {address}"
                    for address in re.findall(r"\bhttps?://\S+", text))


def test_nothing_is_wrong_with_the_workflows_and_the_issue_forms():
    forms = sorted(set(FORMS.glob("*.yml")) - {FORMS / "config.yml"})
    assert len(WORKFLOWS) >= 3 and len(forms) == 2
    for schema, files in (("github-workflows", WORKFLOWS), ("github-issue-forms", forms),
                          ("github-issue-config", [FORMS / "config.yml"]),
                          ("dependabot", [FORMS.parent / "dependabot.yml"])):
        # The schemas are its own, so that it needs no network.
        assert not list(told(sys.executable, "-m", "check_jsonschema", "--builtin-schema",
                             f"vendor.{schema}", *files))
    assert not list(told(sys.executable, "-m", "check_jsonschema", "--builtin-schema",
                         "custom.github-workflows-require-timeout", *WORKFLOWS))
    # Rights that are too wide, texts of strangers in commands, and more.
    program = shutil.which("zizmor", path=sysconfig.get_path("scripts")) or "zizmor"
    assert not list(told(program, "--offline", "--no-progress", "--color=never",
                         "--config", CHECKOUT / ".github" / "zizmor.yml", *WORKFLOWS,
                         FORMS.parent / "dependabot.yml"))
    assert not list(by_hand(*WORKFLOWS))
