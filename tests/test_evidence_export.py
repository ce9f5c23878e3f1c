"""The evidence as data: verdicts in JSON, and what a release has: an RO-Crate, model cards."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import replace
from datetime import date

import pytest
import yaml
from _support import CHECKOUT, module_of

import bookledger as evidence
from bookledger import sources

release = module_of(CHECKOUT / ".github" / "scripts" / "release.py")


@pytest.mark.slow
def test_the_verdicts_and_the_crate_around_them(tmp_path, monkeypatch):
    site, crate = tmp_path / "html", tmp_path / "crate"
    (site / "records").mkdir(parents=True)
    (site / "records" / "one.json").write_text("{}")
    (site / "notebooks.zip").write_bytes(b"")
    (site / "index.html").write_text("a page")
    read = evidence.load_sources()
    read["tell-paper"] = replace(read["tell-paper"], sent=date(2026, 12, 1))
    monkeypatch.setattr(sources, "load_sources", lambda: read)
    text = sources.as_json().decode()
    assert "core-hours" in text and "epochs of tell-" not in text       # costs are computed
    assert "NaN" not in text and "Infinity" not in text     # which no other JSON reader takes
    said = json.loads(text)
    assert {one["id"]: one["verdict"]["word"] for one in said["claims"]} == {
        claim.id: verdict.word for claim, verdict in evidence.scorecard().rows}
    assert len(said["errata"]) == len(evidence.load_errata())
    assert '"sent":"2026-12-01"' in text

    (site / "claims.json").write_text(text, encoding="utf-8")
    monkeypatch.setattr(release, "write_models", lambda folder: folder.mkdir())
    release.main(site, tmp_path / "release")
    with zipfile.ZipFile(tmp_path / "release" / "ro-crate.zip") as archive:
        archive.extractall(crate)
    assert {file.name for file in crate.iterdir()} == {
        "claims.json", "notebooks.zip", "records", "ro-crate-metadata.json"}

    # The library that writes it makes a valid crate of what it is given.
    graph = json.loads((crate / "ro-crate-metadata.json").read_text(encoding="utf-8"))["@graph"]
    known = {entity["@id"]: entity for entity in graph}
    named = {part["@id"] for entity in graph for part in entity.get("hasPart", [])}
    assert {"claims.json", "notebooks.zip", "records/one.json"} <= named <= known.keys()
    assert "ro/crate" in known["ro-crate-metadata.json"]["conformsTo"]["@id"]
    assert {"name", "description", "license", "datePublished"} <= known["./"].keys()


def test_each_trained_network_has_a_card_made_from_its_record(tmp_path, monkeypatch):
    release.write_models(tmp_path)
    records = {record.name: record for record in evidence.load_records()}
    kept = {name for name, record in records.items() if record.path.with_suffix(".pt").is_file()}
    assert kept == {folder.name for folder in tmp_path.iterdir()} and len(kept) >= 5
    for name in kept:
        record, folder = records[name], tmp_path / name
        assert {file.name for file in folder.iterdir()} == {"README.md", f"{name}.pt"}
        _, front, text = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
        about = yaml.safe_load(front)
        (result,) = about["model-index"][0]["results"]
        assert about["license"] == "mit" and result["dataset"]["type"] == record.data["name"]
        scores = {score["type"]: score["value"] for score in result["metrics"]}
        assert scores and scores.items() <= record.metrics.items()
        for name_of, value in record.parameters.items():
            assumed = ", assumed" if name_of in record.assumed else "\n"
            assert f"\n- `{name_of}`: {value}{assumed}" in text
        monkeypatch.chdir(folder)
        loaded = {}
        exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], loaded)
        assert {"model", "weights"} & set(loaded)
