"""The live figure of IDC: a row or a digit is changed, and its gates are the library's."""

import re

import numpy as np
import pytest
import torch
from _live import content, everybody_can_use, said
from _support import CHECKOUT, module_of
from sklearn.preprocessing import scale

from clusterbook import IDC, datasets

pytestmark = pytest.mark.slow

export = module_of(CHECKOUT / ".github" / "scripts" / "live.py")
RECORDS = {"breast_cancer": "idc-breast_cancer", "digits": "idc-digits-network"}


@pytest.fixture
def row_page(live):
    return live("idc")


@pytest.fixture(scope="module")
def tables():
    """Of both data sets: rows, the recorded network, its input, gates, clusters, margins."""
    found = {}
    for name, record in RECORDS.items():
        X = datasets.load(name).X
        model = IDC.load(CHECKOUT / f"data/records/{record}-seed0.pt", device="cpu")
        rows = scale(X.astype(np.float64)).astype("f4") if name == "breast_cancer" else X
        with torch.no_grad():
            shares = model.model_.head(torch.tensor(model.transform(rows))).softmax(1).numpy()
        first, second = np.sort(shares)[:, :-3:-1].T
        found[name] = X, model, rows, model.local_gates(rows), model.predict(rows), first - second
    return found


@pytest.mark.parametrize("name", RECORDS)
def test_the_page_opens_the_gates_and_finds_the_clusters_of_the_library(row_page, tables, name):
    X, _, _, gates, labels, margins = tables[name]
    some = np.sort(np.random.default_rng(0).choice(len(X), 200, replace=False))
    own = np.array(row_page.evaluate("ask.rows", [name, X[some].tolist()]))
    assert np.mean((own[:, 2:] > 0) == (gates[some] > 0)) >= 0.995
    assert np.abs(own[:, 2:] - gates[some]).max() <= 0.01
    assert not (other := own[:, 0] != labels[some]).any(), margins[some][other]


@pytest.mark.parametrize("name", RECORDS)
def test_the_network_and_the_rows_that_are_written_are_the_recorded_ones(tables, name):
    X, model, _, _, labels, margins = tables[name]
    written, data = content("idc")[name], datasets.load(name)
    assert (written["profile"], written["seed"]) == (RECORDS[name], 0)
    parts = {"gating": model.model_.gating.layers, "encoder": model.model_.autoencoder.encoder,
             "head": model.model_.head}
    assert {part: written[part] for part in parts} == {
        part: export.layers(layers) for part, layers in parts.items()}
    chosen = []
    for row in written["rows"]:
        number, own, near = re.fullmatch(r"(\d+) \((\w+)(, small margin)?\)", row["name"]).groups()
        i = int(number) - 1
        chosen.append(i)
        assert row["values"] == pytest.approx(X[i], rel=1e-6)
        assert (own, near is not None) == (data.classes[data.y[i]], margins[i] < 0.9)
    many = len(written["holds"])
    assert np.bincount(labels[chosen]).tolist() == [5 if many == 2 else 3] * many
    assert (margins[chosen] < 0.9).sum() >= 4
    for c, holds in enumerate(written["holds"]):
        share, own = re.fullmatch(r"(\d+)%\u00a0(\w+?)s?", holds).groups()
        assert (data.y[labels == c] == data.classes.index(own)).mean() == pytest.approx(
            int(share) / 100, abs=0.005)


def test_a_measurement_is_shown_with_its_own_name():
    written, data = content("idc")["breast_cancer"], datasets.load("breast_cancer")
    assert written["names"] == list(data.feature_names)
    for j, name in enumerate(written["names"]):
        kind, group = written["kinds"][j // 10], written["groups"][j % 10]
        assert name in (f"{kind} {group}", f"{group} {kind}")


def test_a_change_is_told_and_shown_as_it_happened(row_page, tables):
    X, model, *_ = tables["breast_cancer"]
    written = content("idc")["breast_cancer"]
    names, mean, deviation = written["names"], X.mean(0, dtype=float), X.std(0, dtype=float)
    kinds = dict.fromkeys(("stayed closed", "stayed open", "its gate opened", "its gate closed",
                           "through the other gates", "is still", "changed"), 0)
    fates = {(False, False): "stayed closed", (False, True): "opened", (True, False): "closed",
             (True, True): "stayed open"}
    for choice, row in enumerate(written["rows"]):
        row_page.locator("select").nth(1).select_option(str(choice))
        before = (np.array(row["values"]) - mean) / deviation
        for j in range(0, 30, 2):
            told, gates = row_page.evaluate("ask.change", [names[j], j % 4])
            after = before.copy()
            after[j] = ((X[:, j].max() if j % 4 else X[:, j].min()) - mean[j]) / deviation[j]
            rows = np.float32([before, after])
            (was, now), clusters = model.local_gates(rows), model.predict(rows)
            with torch.no_grad():
                unclipped = model.model_.gating.layers(torch.tensor(rows)).numpy() + 0.5
            clear = (np.abs(unclipped) > 0.02).all(0)       # for the rounded weights, too
            closed = not (was[j] or now[j])
            assert told.startswith(f"{names[j]}: its gate {fates[was[j] > 0, now[j] > 0]}"), (
                row["name"], told)
            for k in np.flatnonzero(clear):
                fate, text = gates[names[k]]
                assert fate == fates[was[k] > 0, now[k] > 0], (row["name"], names[j], names[k])
                assert ("closed" in text) == (not (was[k] and now[k]))
                assert " → " in text or abs(was[k] - now[k]) < 0.02
                assert fate.startswith("stayed") or names[k] in told
            assert ("does not see the value" in told) == closed
            assert ("is still" in told) == (clusters[0] == clusters[1]), (row["name"], told)
            assert ("through the other gates" in told) == (closed and clusters[0] != clusters[1])
            kinds = {kind: count + (kind in told) for kind, count in kinds.items()}
    assert all(kinds.values()), kinds
    row_page.locator("button").click()
    assert "gates are open. The row is in cluster" in said(row_page)
    assert not row_page.locator(".cb-live-changed").count()


def test_a_pixel_is_changed_by_press_and_by_keys(row_page, tables):
    _, model, _, gates, labels, _ = tables["digits"]
    row_page.locator("select").first.select_option("digits")
    pixels = row_page.locator(".cb-live-features button")
    assert pixels.count() == 64 and row_page.locator(".cb-live-clusters li").count() == 10
    shown = [pixel.get_attribute("data-gate") for pixel in pixels.all()]
    row = content("idc")["digits"]["rows"][0]
    i = int(row["name"].split()[0]) - 1
    assert [fate == "stayed open" for fate in shown] == (gates[i] > 0).tolist()
    assert f"{(gates[i] > 0).sum()} of 64 gates are open. The digit is in cluster {labels[i]}" in (
        said(row_page))
    # One stop for the tab key, arrows between the pixels, and Enter to change one.
    assert row_page.locator(".cb-live-features [tabindex='0']").count() == 1
    row_page.locator(".cb-live-features [tabindex='0']").focus()
    for key in ("ArrowUp", "ArrowLeft", "ArrowDown", "ArrowRight", "ArrowRight"):
        row_page.keyboard.press(key)
    own = pixels.nth(10)
    assert own.evaluate("pixel => pixel === document.activeElement && pixel.tabIndex === 0")
    value = row["values"][10]
    for _ in range(2):
        row_page.keyboard.press("Enter")
        value = min(value + 0.25, 1) if value < 1 else 0
        assert said(row_page).startswith("row 2, column 3: its gate ")
        assert re.match(rf"row 2, column 3 {value:.4g} ", own.inner_text().replace("\n", " "))
    changed = np.float32([row["values"]])
    changed[0, 10] = value
    now = model.local_gates(changed)[0]
    assert [fate in ("opened", "stayed open") for fate in (
        pixel.get_attribute("data-gate") for pixel in pixels.all())] == (now > 0).tolist()
    assert f"luster is still {model.predict(changed)[0]}" in said(row_page)


def test_a_closed_pixel_changes_nothing_where_the_gates_are_held(row_page, tables):
    *_, gates, labels, _ = tables["digits"]
    row_page.locator("select").first.select_option("digits")
    row_page.locator("input[type=checkbox]").check()
    told = {True: set(), False: set()}
    for choice, row in enumerate(content("idc")["digits"]["rows"][:6]):
        row_page.locator("select").nth(1).select_option(str(choice))
        i = int(row["name"].split()[0]) - 1
        for gate, (same, text) in zip(gates[i], row_page.evaluate("ask.pressed"), strict=True):
            told[gate > 0].add(text)
            assert gate > 0 or same
        row_page.locator(".cb-live-act button").click()
    assert all("does not see the value. Nothing changes. The cluster is still" in one
               for one in told[False])
    assert not any("Nothing changes" in one for one in told[True])
    row_page.locator("input[type=checkbox]").uncheck()
    assert "gates are open. The digit is in cluster" in said(row_page)
    row_page.locator("select").first.select_option("breast_cancer")


def test_a_row_can_be_changed_with_keys(row_page):
    says = row_page.locator(".cb-live-says")
    row_page.locator("select").nth(1).focus()
    row_page.keyboard.press("End")
    row_page.keyboard.press("Tab")
    row_page.keyboard.press("Enter")        # puts the values back
    row_page.keyboard.press("Tab")
    row_page.keyboard.press("Tab")          # past what holds the gates
    first = row_page.locator(".cb-live-features input").first
    assert first.evaluate("slider => slider === document.activeElement")
    heard = says.text_content()
    row_page.keyboard.press("ArrowRight")
    assert says.text_content() != heard and row_page.locator(".cb-live-changed").count() == 1
    assert re.fullmatch(r"[\d.]+ \([+−][\d.]+\sSD\), gate (closed|[\d.]+)",
                        first.get_attribute("aria-valuetext"))


@pytest.mark.parametrize("name", RECORDS)
def test_everybody_can_use_it_on_every_screen_and_print_it(row_page, name):
    row_page.locator("select").first.select_option(name)
    everybody_can_use(row_page, content("idc")[name], ".cb-live-features :is(input, button)")
