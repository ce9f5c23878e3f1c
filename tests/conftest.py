"""For every test beside this file: two books, small and built. What holds everywhere is one up."""

from __future__ import annotations

import os

import pytest
from _support import book  # noqa: F401


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The book's site, built once for all workers, and whether that left the checkout as it was."""
    from _pages import built_once

    folder = tmp_path_factory.getbasetemp()
    return built_once((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "site")


@pytest.fixture(scope="session")
def site(built):
    """The folder of the built pages."""
    return built[0]


@pytest.fixture(scope="session")
def parsed(site):
    """Every built page, parsed, by its path in the site."""
    from _pages import parse

    return parse(site)
