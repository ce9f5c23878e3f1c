"""The live figures, in headless Chromium from files: TELL's answers are the library's."""

import base64
import copy
import re
import shutil

import numpy as np
import pytest
import torch
from _browser import opened
from _live import LIVE, address, content, everybody_can_use, said
from _support import CHECKOUT, module_of
from torch import nn

from bookledger import load_records
from clusterbook import TELL, datasets, figures

SCRIPTS = sorted(path for path in LIVE.glob("*.js") if "weights" not in path.name)
export = module_of(CHECKOUT / ".github" / "scripts" / "live.py")
SEVEN = [[0.3, 0.2], [0.5, 0.2], [0.7, 0.2], [0.6, 0.5], [0.45, 0.85]]


@pytest.fixture
def page(live):
    return live("tell")


@pytest.fixture(scope="module")
def trained():
    record = next(one for one in load_records() if one.profile == "tell-mnist-800")
    return TELL.load(CHECKOUT / "data/records" / f"{record.name}.pt", device="cpu"), record


@torch.no_grad()
def rounded(model):
    """A copy of a model with the weights of the page, each one of 255 numbers."""
    model = copy.deepcopy(model)
    for network in (model.network_.encoder, model.network_.decoder):
        written = iter(export.layers(network))
        for part, following in zip(network, [*network[1:], None], strict=True):
            if not isinstance(part, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
                continue
            layer = next(written)
            scale, steps = (torch.tensor(np.frombuffer(base64.b64decode(layer[key]), kind))
                            for key, kind in (("scale", "<f4"), ("weight", "i1")))
            if isinstance(following, nn.BatchNorm1d | nn.BatchNorm2d):
                scale = scale * (following.running_var + following.eps).sqrt() / following.weight
            weight = (steps.reshape(len(scale), -1) * scale[:, None]).reshape(layer["shape"])
            if isinstance(part, nn.ConvTranspose2d):
                weight = weight.flip(2, 3).transpose(0, 1)
            part.weight.copy_(weight)
    return model


def test_the_page_answers_and_decodes_as_the_library(page, trained):
    model, X = trained[0], datasets.load("mnist-small").X[:200]
    packed = export.packed((X * 255).round(), "u1")
    embedded, decoded = (np.array(part) for part in page.evaluate("ask.answers", packed))
    centers = np.array(content("tell")["centers"])
    cosines = centers @ model.cluster_centers_.T
    assert cosines.max(0) == pytest.approx(np.ones(10)) == cosines.max(1)
    z, drawn = {}, {}
    for kind, one in (("exact", model), ("rounded", rounded(model))):
        z[kind] = one.transform(X)
        with torch.no_grad():
            drawn[kind] = one.network_.decode(torch.tensor(centers).float()).numpy()
    assert np.abs(embedded - z["rounded"]).max() < 1e-4 > np.abs(decoded - drawn["rounded"]).max()
    # What rounding the weights to a byte costs.
    assert np.abs(z["rounded"] - z["exact"]).max() <= 0.01
    assert np.mean((embedded @ centers.T).argmax(1) == (z["exact"] @ centers.T).argmax(1)) >= 0.995
    assert np.abs(drawn["rounded"] - drawn["exact"]).mean() < 0.002


def test_what_is_written_is_the_recorded_network(trained):
    model, record = trained
    written = content("tell")
    assert (written["profile"], written["seed"]) == (record.profile, record.seed)
    told = f"network of {record.profile}, seed {record.seed}<"
    assert told in (LIVE / "tell.html").read_text(encoding="utf-8")
    for part in ("encoder", "decoder"):
        assert written[part] == export.layers(getattr(model.network_, part))
    data = datasets.load("mnist-small")
    found = model.predict(data.X)
    for center, told in zip(written["centers"], written["holds"], strict=True):
        own = data.y[found == (model.cluster_centers_ @ center).argmax()]
        shares = {digit: int(share) / 100
                  for share, digit in re.findall(r"(\d+)%\u00a0(\d)s", told)}
        assert re.sub(r"\d+%\u00a0\ds(, )?", "", told) == "" and list(shares) == sorted(
            shares, key=shares.get, reverse=True)
        # The record has all 70,000 digits.
        assert {digit: (own == int(digit)).mean() for digit in shares} == pytest.approx(
            shares, abs=0.06)
    assert len(written["digits"]) == 20
    # Compressed by its server, or in a clone.
    assert len(export.script("tell", written)) < 0.7e6


def test_a_bad_drawing_gets_a_sentence_and_a_digit_a_cluster(page):
    page.locator(".cb-live-clear").click()
    assert said(page) == "Nothing is drawn yet."
    assert "a dot" in page.evaluate("ask.draw", [[0.5, 0.5]])
    assert not page.locator(".cb-live-nearest").count()
    everywhere = [[x, y / 20] for y in range(21) for x in (0, 1)]
    assert "more ink" in page.evaluate("ask.draw", everywhere)
    assert "cluster 7, cosine 0." in page.evaluate("ask.draw", SEVEN)
    assert page.locator(".cb-live-nearest").count() == 1
    assert "cosine\u00a00." in page.locator(".cb-live-says").text_content()  # no line ends there
    # As MNIST has it, wherever and however large it was drawn.
    low = [[x / 2, y / 2 + 0.4] for x, y in SEVEN]
    assert page.evaluate("ask.centered", low) == pytest.approx([14, 14, 20], abs=1)


def test_keys_reach_everything(page):
    digits = page.locator(".cb-live-digits button")
    assert digits.count() == 20
    heard = set()
    for button in (digits.nth(2), digits.nth(12)):
        button.focus()
        page.keyboard.press("Enter")
        heard.add(said(page))
        assert button.get_attribute("aria-pressed") == "true"
    assert len(heard) == 2 and "almost a tie" in said(page)
    assert page.locator(".cb-live-digits [aria-pressed=true]").count() == 1
    way = page.locator(".cb-live-walk input")
    begins, between, ends = page.evaluate("ask.walk")
    assert len({begins, between, ends}) == 3
    way.focus()
    page.keyboard.press("End")
    assert way.get_attribute("aria-valuetext").startswith("100% of the way to cluster\u00a0")
    assert page.evaluate("ask.walk") == [begins, ends, ends]
    page.keyboard.press("Home")
    assert page.evaluate("ask.walk") == [begins, begins, ends]
    # A press on the drawing area takes the digit and its mark away.
    page.evaluate("ask.draw", SEVEN)
    assert page.locator(".cb-live-digits [aria-pressed=true]").count() == 0


def test_everybody_can_use_it_on_every_screen_and_print_it(page):
    everybody_can_use(page, content("tell"), ".cb-live-clear", ".cb-live-digits button")


def test_the_picture_stays_without_scripts_and_without_the_network(chromium, tmp_path):
    with opened(chromium, address(tmp_path, "tell"), scripts=False) as without:
        assert without.locator(".picture").is_visible()
    shutil.copytree(LIVE, tmp_path / "live", ignore=shutil.ignore_patterns("*weights*"))
    with opened(chromium, address(tmp_path, "tell", "live")) as poor:
        poor.wait_for_function("() => live.figures.tell")
        assert poor.locator(".picture").is_visible() and poor.locator("button").count() == 0


def test_a_notebook_has_all_of_it_where_somebody_sees_it_run(chromium, tmp_path, monkeypatch):
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython.display, "display",
                        lambda data, metadata=None, **_: shown.append((data, metadata)))
    for name in ("JPY_SESSION_NAME", "COLAB_RELEASE_TAG", "CLUSTERBOOK_RUN"):
        monkeypatch.delenv(name, raising=False)

    def output() -> tuple[dict, dict]:
        figure = figures.image_grid(np.zeros((1, 1, 4)), (1, 2, 2), rows=[""], columns=[""])
        figures.show(figure, "a-figure", "An alternative text of a figure", "A caption.",
                     live="tell")
        return shown[-2]

    data, metadata = output()
    assert "text/html" not in data and metadata["clusterbook"]["live"] == "tell"
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    data, _ = output()
    file = tmp_path / "output.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + data["text/html"], encoding="utf-8")
    with opened(chromium, file.as_uri()) as page:
        page.wait_for_selector(".cb-live-runs")
        assert "center of cluster" in page.locator(".cb-live-says").text_content()
        # As JupyterLab does it, and when the cell is run again.
        page.evaluate("""html => {
          document.body.innerHTML = html;
          for (const script of document.querySelectorAll("script")) {
            const again = document.createElement("script");
            again.textContent = script.textContent;
            script.replaceWith(again);
          }
        }""", data["text/html"])
        page.wait_for_selector(".cb-live-runs .cb-live-says:text('center of cluster')")
        assert page.locator(".cb-live-pad").count() == 1
        assert page.loaded == {file.as_uri()} | {one for one in page.loaded if "data:" in one}
        assert not page.faults
    monkeypatch.setenv("CLUSTERBOOK_RUN", '{"chapter": "tell"}')
    assert "text/html" not in output()[0]


def test_the_scripts_are_short():
    lengths = {path.name: len(path.read_text("utf-8").splitlines()) for path in SCRIPTS}
    assert sum(lengths.values()) <= 700, lengths
    assert max(len(line) for path in SCRIPTS for line in path.read_text("utf-8").split("\n")) <= 105
