"""For every test: one torch thread, no stderr in nbval's comparison, the small checkout."""

from __future__ import annotations

import os

# Set before torch is imported here or in a kernel: workers with several threads each are slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from _support import book  # noqa: F401


def pytest_collectstart(collector) -> None:
    """Warnings of packages go to stderr and differ between their versions: nbval skips them."""
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += ("stderr",)
