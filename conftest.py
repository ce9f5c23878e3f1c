"""For every test, those of the notebooks too: one torch thread, no stderr in nbval's comparison.

It lies above the notebooks because pytest asks only the conftest files above what it collects.
"""

from __future__ import annotations

import os

import pytest

#: Pages beside the four chapters, whose outputs make test compares with SLOW=1 only.
SLOW = ("book/audit/", "book/measuring.ipynb", "notebooks/comparison.ipynb",
        "notebooks/idc_table.ipynb", "notebooks/tell_released.ipynb")

# Set before torch is imported here or in a kernel: workers with several threads each are slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collectstart(collector) -> None:
    """Warnings of packages go to stderr and differ between their versions: nbval skips them."""
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += ("stderr",)


def pytest_collection_modifyitems(items) -> None:
    """Mark the cells of `SLOW` pages."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
