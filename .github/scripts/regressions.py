"""Claims whose verdict is worse than at the last tag, one a line; with any, the exit status is 1.

``python .github/scripts/regressions.py`` in a checkout with its history. The book is read as it
stood at the tag and judged by today's rules. Worse is a step down: from reproduced,
confirmed or refuted to indicative, from there to inconclusive, not reproduced or cannot compare,
and from anything to not attempted or to no claim at all.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from bookledger import config, scorecard
from bookledger.machine import git

LEVELS = {"reproduced": 3, "confirmed": 3, "refuted": 3, "indicative": 2, "not attempted": 0}
"""Of the other words: 1."""


def words(folder: Path) -> dict[str, str]:
    """Claim → verdict word, of the book in a folder."""
    with patch.dict(os.environ, CLUSTERBOOK_BOOK=str(folder)):
        return {claim.id: verdict.word for claim, verdict in scorecard().rows}


def worse(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """A line for each claim that stands worse than before, or is gone."""
    return [f"{claim}: {word} → {now.get(claim, 'no longer a claim')}"
            for claim, word in before.items()
            if LEVELS.get(now.get(claim), 1 if claim in now else -1) < LEVELS.get(word, 1)]


def main() -> int:
    """Compare with the last tag before this commit."""
    root = config.root()
    tag = git(root, "describe", "--tags", "--abbrev=0", "HEAD^")
    if not tag:
        print("no earlier tag to compare with")
        return 0
    with TemporaryDirectory() as folder:
        archive = f"{folder}/tag.zip"
        git(root, "archive", f"--output={archive}", tag, str(config.FILE), "data", "notebooks")
        shutil.unpack_archive(archive, folder)
        fallen = worse(words(Path(folder)), words(root))
    print("\n".join(fallen) or f"no claim stands worse than at {tag}")
    return bool(fallen)


if __name__ == "__main__":
    sys.exit(main())
