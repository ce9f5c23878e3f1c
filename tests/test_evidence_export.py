"""The evidence as data: the verdicts in JSON, and an RO-Crate that a validator accepts."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from importlib.resources import files
from types import SimpleNamespace

import requests
from rocrate_validator import services

from clusterbook import evidence
from clusterbook.evidence import export


def test_the_verdicts_and_the_crate_around_them(tmp_path, monkeypatch):
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "one.json").write_text("{}")
    sources = evidence.load_sources()
    sources["tell-paper"] = replace(sources["tell-paper"], sent=date(2026, 12, 1))
    monkeypatch.setattr(export, "load_sources", lambda: sources)
    export.write(tmp_path)
    text = (tmp_path / "claims.json").read_text(encoding="utf-8")
    assert "NaN" not in text and "Infinity" not in text     # which no other JSON reader takes
    said = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))
    card = evidence.scorecard()
    assert {one["id"]: one["verdict"]["word"] for one in said["claims"]} == card.words()
    assert len(said["errata"]) == len(evidence.load_errata())

    context = files("rocrate").joinpath("data/ro-crate.jsonld").read_text(encoding="utf-8")
    answer = SimpleNamespace(status_code=200, text=context, content=context.encode(), ok=True,
                             headers={"Content-Type": "application/ld+json"}, from_cache=True,
                             json=lambda: json.loads(context), raise_for_status=lambda: None)
    monkeypatch.setattr(requests.Session, "request", lambda *_arguments, **_options: answer)

    def problems() -> list[str]:
        return [issue.message for issue in services.validate(services.ValidationSettings(
            rocrate_uri=str(tmp_path), profile_identifier="ro-crate-1.3")).get_issues()]

    assert problems() == []
    (tmp_path / "records" / "one.json").unlink()
    assert any("one.json" in problem for problem in problems()), "a file that is gone"
