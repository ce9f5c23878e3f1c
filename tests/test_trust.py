"""Nothing that is loaded can execute, and no name becomes a part of a page: hostile files."""

import io
import json
import os
import tarfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from _support import put
from bs4 import BeautifulSoup
from markdown_it import MarkdownIt
from matplotlib.figure import Figure

import bookledger as evidence
from bookledger import claims, parameters, records, views
from clusterbook import TELL, datasets, figures
from clusterbook.checkpoints import Checkpoint
from clusterbook.checks import InputError
from clusterbook.datasets import loaders

TAG = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'>"


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, struck: Path):
        self.struck = struck

    def __reduce__(self):
        return os.mkdir, (str(self.struck),)


@pytest.fixture
def trap(tmp_path):
    """A trap; it must not have been struck when the test ends."""
    made = Trap(tmp_path / "struck")
    yield made
    assert not made.struck.exists(), "what was loaded ran"


def test_arrays_with_pickled_objects_are_not_loaded(tmp_path, trap):
    table, recorded = tmp_path / "table.npz", tmp_path / "one-seed0.npz"
    for file in (table, recorded):
        np.savez(file, X=np.array([[trap], [trap]]))
    with pytest.raises(InputError, match="allow_pickle=False"):
        datasets.read(table)
    packed = records.sha256(recorded.read_bytes())
    with pytest.raises(ValueError, match="allow_pickle=False"):
        evidence.arrays(SimpleNamespace(path=recorded.with_suffix(".json"), arrays=packed))
    assert not trap.struck.exists()
    with np.load(table, allow_pickle=True) as loaded:
        loaded["X"]
    trap.struck.rmdir()     # the trap works


@pytest.mark.parametrize("load", [TELL.load, TELL.from_released,
                                  lambda path: Checkpoint(path, data="", code="",
                                                          parameters={}).load()])
def test_models_and_checkpoints_with_pickled_objects_are_not_loaded(tmp_path, trap, load):
    path = tmp_path / "model.pt"
    torch.save({"clusterbook": "TELL", "settings": "{}", "net": trap, "weights": trap}, path)
    content = path.read_bytes()
    for whole in (content, bytes.fromhex(records.sha256(content)) + content):
        path.write_bytes(whole)
        with pytest.raises(InputError, match="model.pt"):
            load(path)


def test_yaml_makes_no_object(tmp_path, trap):
    path = tmp_path / "hostile.yaml"
    path.write_text(f"a: !!python/object/apply:os.mkdir ['{trap.struck}']\n", encoding="utf-8")
    with pytest.raises(Exception, match="python/object/apply:os.mkdir"):
        claims.load_claims(path.parent)


@pytest.mark.parametrize(("mode", "wrong"), [
    ("w:gz", (KeyError, "passwd' not found")), ("w:xz", (InputError, "not those"))])
def test_archives_write_nothing_where_their_members_say(tmp_path, mode, wrong):
    """Not even if their checksum were right, which is compared before."""
    home = tmp_path / "data"
    home.mkdir()
    path, content = home / "archive.tar", b"no image"
    with tarfile.open(path, mode) as archive:
        for name in ("../outside.jpg", str(tmp_path / "outside.jpg"), "train/../../outside.jpg"):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "../../../etc/passwd"
        archive.addfile(link)
    named = {source.name: source for source in datasets.catalog()}
    load, name = ((loaders.cifar10, "cifar10") if mode == "w:gz" else
                  (loaders.cifar10_jpeg, "cifar10-jpeg"))
    with pytest.raises(wrong[0], match=wrong[1]):
        load(named[name], path)
    assert sorted(tmp_path.rglob("*")) == [home, path]


def harmless(html: str) -> bool:
    """Whether nothing of `TAG` is an element or an attribute of the page, and it is shown."""
    soup = BeautifulSoup(html, "html.parser")
    assert "alert(1)" in soup.get_text() or "alert(1)" in str(soup), "it is shown nowhere"
    return not (soup.select("[onerror], [src=x]") or
                any("alert" in script.get_text() for script in soup.find_all("script")))


def test_a_name_is_text_in_every_view(tmp_path, monkeypatch):
    put(tmp_path, {"data/records/under-way/x-seed0.json": json.dumps(
        {"started": TAG, "trainings": {"main": {
            "stage": TAG, "epoch": 1, "epochs": 2, "seconds_an_epoch": 1.0, "rows": []}}})})
    monkeypatch.setattr("bookledger.config.root", lambda: tmp_path)
    row = SimpleNamespace(id=TAG, replaces=[TAG], title=TAG, where=TAG, stands=TAG, right=TAG,
                          changes=TAG, not_demonstrated=TAG, reported=TAG)
    shown = [
        views.under_way().html, evidence.table({TAG: {TAG: 0.5}}, TAG).html,
        views.View((), [TAG, views.Table(TAG, [TAG], [[TAG]], TAG, folded=True)]).html,
        views.html("erratum", row, SimpleNamespace(name=TAG, version=TAG), TAG, []),
        parameters.table(TAG, [TAG], [(TAG,)]).html,
        figures.steps.html(["<b></b>"], values=[[TAG], [TAG]], places=[(TAG, (0, 0), TAG)],
                           start=0, names=[TAG, TAG], pause=1),
    ]
    assert all(map(harmless, shown))


def test_a_name_is_text_in_a_caption(monkeypatch):
    displayed = []
    monkeypatch.setattr("IPython.display.display", lambda data, **more: displayed.append(data))
    figures.show(Figure(figsize=(1, 1)), name="a-line", alt=TAG, caption=f"Rows of {TAG}")
    caption = displayed[-1].data
    assert harmless(MarkdownIt().render(caption))       # a page of the book renders HTML in it
