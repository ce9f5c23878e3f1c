"""The files of a release that follow from a built book: an RO-Crate, and the trained networks.

    python .github/scripts/release.py _build/html release

writes ``release/ro-crate.zip``, the verdicts, records, figures and notebooks (without outputs) of
the built pages; and ``release/models.zip``, each network with a card made from its record.
"""

from __future__ import annotations

import mimetypes
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from rocrate.model.contextentity import ContextEntity
from rocrate.rocrate import ROCrate

from bookledger import config, load_records, load_sources, scorecard
from bookledger.records import Runs, profile_of
from bookledger.views import described
from clusterbook.figures.steps import ENVIRONMENT

CONTENT = ("claims.json", "notebooks.zip", "records", "figures")
"""What the crate has of the built pages; a book without figures has none."""
_CARD = """\
---
{{ front }}---

# {{ record.name }}

{{ runs.title }}: the network of seed {{ record.seed }}. {{ says }}
It was trained to check published numbers for the book *{{ title }}*.

## Load it

```python
{{ load }}
```

## Data

{% if data %}{{ data.title }}: {{ data.size }}. License: {{ data.license }}.{% endif %}{#
#}{% if record.data %} The SHA-256 of what was loaded is `{{ record.data.sha256 }}`.{% endif %}


## Parameters

{% for name, value in record.parameters.items() %}
- `{{ name }}`: {{ value }}{#
#}{{ ", assumed: the source does not state it" if name in record.assumed }}
{% endfor %}

## Scores

| Score | This network | Mean over seeds ({{ runs|length }}) | Smallest | Largest |
|---|---|---|---|---|
{% for name, value in record.metrics.items() %}
{% set all = runs.values(name) %}
| {{ name }} | {{ "%.4g"|format(value) }} | {{ "%.4g"|format(all|sum / all|length) }} | {#
#}{{ "%.4g"|format(all|min) }} | {{ "%.4g"|format(all|max) }} |
{% endfor %}

## Limits

The scores are of the data that the network was trained on, or of their test part where there is
one. Nothing is known of other data.
{% if claims %}Of the published claims that its profile was run for:

{% for claim, verdict in claims %}
- {{ verdict.label }}: {{ claim.says }}
{% endfor %}
{% else %}No published claim depends on its profile.
{% endif %}

## The run

{% for name, value in run.items() %}
- {{ name }}: {{ value }}
{% endfor %}

## License

The network is under the MIT license, like the code that trained it. The data have their own.
"""


def write_crate(folder: Path) -> None:
    """Describe all files of a folder as an RO-Crate, in its ``ro-crate-metadata.json``.

    https://w3id.org/ro/crate/1.3 has the form.
    """
    crate = ROCrate()
    crate.name, crate.license = config.book().title, "MIT"
    crate.description = ("Published works on neural clustering, rerun: each claim of their authors "
                         "with its verdict, and the records of the runs that decide it.")
    if days := [record.started[:10] for record in load_records()]:
        crate.datePublished = max(days)
    for source in load_sources().values():
        if source.kind == "paper":
            crate.root_dataset.append_to("citation", crate.add(ContextEntity(
                crate, source.url, {"@type": "ScholarlyArticle", "name": source.name})))
    for file in sorted(folder.rglob("*")):
        place = file.relative_to(folder).as_posix()
        if file.is_file() and place != crate.metadata.id:
            crate.add_file(file, place, properties={
                "name": place, "encodingFormat": mimetypes.guess_type(place)[0],
                "contentSize": str(file.stat().st_size)})
    crate.metadata.write(folder)


def write_models(folder: Path) -> None:
    """Write each trained network to a folder of its own, with a card made from its record.

    A model hub takes such a folder as it is: ``README.md``, which begins with metadata, beside the
    weights.
    """
    card = ENVIRONMENT.overlay(autoescape=False, keep_trailing_newline=True).from_string(_CARD)
    book, records = config.book(), load_records()
    sources = book.catalog()
    rows = scorecard().rows
    for record in records:
        if record.path is None or not (file := record.path.with_suffix(".pt")).is_file():
            continue
        method, data = book.method(record.chapter), (record.data or {}).get("name", "not recorded")
        load = (f"import torch\n\nweights = torch.load(\"{file.name}\", weights_only=True)"
                if record.chapter == "weights" else
                f"from clusterbook import {method}\n\nmodel = {method}.load(\"{file.name}\")")
        scores = [{"type": name, "value": record.metrics[name]}
                  for name in ("acc", "nmi", "ari", "test_accuracy") if name in record.metrics]
        front = {
            "license": "mit", "library_name": "clusterbook", "tags": ["clustering", record.chapter],
            "model-index": [{"name": record.name, "results": [{
                "task": {"type": "clustering"}, "dataset": {"name": data, "type": data},
                "metrics": scores}]}]}
        text = card.render(
            front=yaml.safe_dump(front, sort_keys=False), record=record, load=load,
            title=book.title, runs=Runs(one for one in records if one.profile == record.profile),
            says=profile_of(record.profile).get("says", ""), data=sources.get(data),
            run=described([record]),
            claims=[(claim, verdict) for claim, verdict in rows
                    if any(one.profile == record.profile for one in claim.compares)])
        target = folder / record.name
        target.mkdir(parents=True)
        shutil.copy2(file, target)
        (target / "README.md").write_text(text, encoding="utf-8")


def main(site: Path, target: Path) -> None:
    """Write both archives for the book that was built to *site*."""
    target.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as temporary:
        crate, models = Path(temporary) / "crate", Path(temporary) / "models"
        crate.mkdir()
        for name in CONTENT:
            if (site / name).is_dir():
                shutil.copytree(site / name, crate / name)
            elif name != "figures":
                shutil.copy2(site / name, crate)
        write_crate(crate)
        shutil.make_archive(str(target / "ro-crate"), "zip", crate)
        write_models(models)
        shutil.make_archive(str(target / "models"), "zip", temporary, "models")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
