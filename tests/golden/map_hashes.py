"""The versions of all hashes of code that records held: ``python tests/golden/map_hashes.py``.

Run once, at the commit before hashes went. A hash that leads to the present one by the lineage was
shown to compute the same, so it is of version 1; any other would be of version 0.
"""

from __future__ import annotations

import json

from clusterbook import paths
from clusterbook.evidence import fingerprint
from clusterbook.evidence.verdicts import load_lineage, successors

METHODS = ("deepcluster", "idc", "tell", "weights")

root, lineage = paths.root(), load_lineage()
held = {(chapter, code) for (chapter, old), new in lineage.items() for code in (old, new)}
for path in [*(root / "data/records").glob("*-seed*.json"),
             *(root / "data/records/under-way").glob("*.json")]:
    record = json.loads(path.read_text(encoding="utf-8"))
    held.add((record["chapter"], record["code"]))
present = {chapter: fingerprint(chapter) for chapter in ("comparison", *METHODS)}
held |= set(present.items())
versions: dict[str, list[str]] = {}
for chapter, code in sorted(held):
    number = int(present[chapter] in successors(lineage, chapter, code))
    used = [chapter] if chapter in METHODS else METHODS
    versions.setdefault(", ".join(f"{name} {number}" for name in used), []).append(code)
text = json.dumps(versions, indent=1, sort_keys=True)
(root / "data" / "versions.json").write_text(text + "\n", encoding="utf-8")
