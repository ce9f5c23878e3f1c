"""The live figures that go on in steps: shuffles of weights, and k-means of DeepCluster."""

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from _live import content, everybody_can_use, said
from _support import CHECKOUT, module_of

from bookledger import load_records
from clusterbook import DeepCluster, datasets, metrics
from clusterbook.deepcluster import clustering, split_empty
from clusterbook.weights import WeightCoclustering, normalized_cut, shuffle

pytestmark = pytest.mark.slow

export = module_of(CHECKOUT / ".github" / "scripts" / "live.py")


@contextmanager
def timed(page) -> Iterator:
    """The page, on which time passes only in ``clock.run_for``."""
    page.clock.install(time=0)
    page.clock.pause_at(1)
    yield page
    page.clock.resume()


@pytest.fixture
def shuffles(live):
    with timed(live("weights")) as page:
        yield page


@pytest.fixture
def steps(live):
    with timed(live("deepcluster")) as page:
        yield page


def test_the_cuts_and_the_search_of_shuffles_are_the_librarys(shuffles):
    A = np.frombuffer(base64.b64decode(content("weights")["weights"]), "<f4").reshape(128, 128)
    matrices = np.array([A, *(shuffle(A, random_state=i) for i in range(20))], dtype="<f4")
    found = [WeightCoclustering(2, random_state=0).fit(W) for W in matrices]
    labels = [[one.row_labels_.tolist(), one.column_labels_.tolist()] for one in found]
    for k, (rows, columns) in content("weights")["labels"].items():
        labels[int(k)] = rows, columns         # some with more clusters, which need not fit
    cuts, searched = shuffles.evaluate("ask.cuts", [export.packed(matrices), 128, labels])
    assert cuts == pytest.approx([normalized_cut(W, *each)
                                  for W, each in zip(matrices, labels, strict=True)], abs=1e-6)
    off = np.array([one["cut"] for one in searched]) - [one.normalized_cut_ for one in found]
    assert (np.abs(off) < 1e-6).mean() >= 0.95 and np.abs(off).max() < 0.002
    assert np.median([metrics.ari(np.concatenate(one["labels"]), np.concatenate(
        [each.row_labels_, each.column_labels_])) for one, each in zip(
            searched, found, strict=True)]) == 1


def test_what_is_written_of_the_layer_is_recorded():
    written = content("weights")
    record = next(one for one in load_records() if one.name == "weights-mnist-seed0")
    weights = torch.load(CHECKOUT / f"data/records/{record.name}.pt")["3.weight"]
    assert written["weights"] == export.packed(weights.abs())
    assert written["cuts"]["2"] == pytest.approx(record.metrics["layer_cut"], abs=1e-9)
    for k, labels in written["labels"].items():
        assert written["cuts"][k] == pytest.approx(normalized_cut(weights, *labels), abs=1e-9)
        low, high = written["ranges"][k]
        assert low < written["cuts"][k] < high
        assert len(written["ticks"][k]) > 2 and low < min(written["ticks"][k])
        assert max(written["ticks"][k]) < high


def test_shuffles_become_a_histogram_by_mouse_and_by_keys(shuffles):
    says, bricks = shuffles.locator(".cb-live-says"), shuffles.locator(
        ".cb-live-chart .cb-live-brick")
    library = content("weights")["cuts"]
    assert shuffles.locator(".cb-live-tick").all_text_contents() == ["0.93", "0.94", "0.95"]
    assert shuffles.locator(".cb-live-lines .cb-live-value").text_content() == f"{library['2']:.4f}"
    assert says.get_attribute("aria-live") == "polite" and bricks.count() == 0
    shuffle, play, again = (shuffles.locator(".cb-live-act button").nth(i) for i in range(3))
    shuffle.click()
    shuffle.focus()
    shuffles.keyboard.press("Enter")
    assert bricks.count() == 2
    assert re.search(r"Shuffle 2: 0\.9\d+\. \d of 2 .* z = −?\d+\.\d, p = [01]\.\d\d\.",
                     said(shuffles))
    assert re.search("p\u00a0=\u00a0[01]", says.text_content())
    assert shuffles.evaluate("ask.stacked")
    again.click()
    shuffles.locator("select").select_option("8")
    assert bricks.count() == 0 and "8 clusters" in said(shuffles)
    assert shuffles.locator(".cb-live-lines .cb-live-library").text_content() == (
        f"{library['8']:.4f}")
    assert shuffles.locator(".cb-live-matrix").first.locator("span").count() == 8
    play.click()
    shuffles.clock.run_for(40)      # two more, each after 20 ms
    assert says.get_attribute("aria-live") == "off" and play.text_content() == "Stop"
    heard = shuffles.evaluate_handle("ask.heard")
    play.click()
    assert play.text_content() == "Play 30" and says.get_attribute("aria-live") == "polite"
    assert heard.json_value() == [says.text_content()] and "Shuffle 3:" in said(shuffles)
    shuffles.locator("select").select_option("2")
    play.click()
    shuffles.clock.run_for(1000)
    assert play.text_content() == "Play 30"
    assert bricks.count() == 30 and "Shuffle 30:" in said(shuffles)
    assert heard.json_value()[-1] == says.text_content() and len(heard.json_value()) < 6


def test_a_step_of_k_means_is_the_librarys(steps, monkeypatch):
    draws, randint = [], torch.randint

    def heard(*arguments, **options) -> torch.Tensor:
        drawn = randint(*arguments, **options)
        draws.extend(drawn.flatten().tolist())
        return drawn

    monkeypatch.setattr(torch, "randint", heard)
    written = content("deepcluster")
    for features, corner in zip(written["features"], written["corners"], strict=True):
        points = torch.tensor(features)
        starts = clustering.plus_plus(points, 8, torch.Generator().manual_seed(0))
        corner = torch.tensor(corner)
        for centers in (starts, corner):
            labels, _ = clustering.assign(points, centers)
            draws.clear()
            full = split_empty(points, labels, centers, torch.Generator().manual_seed(1))
            means = clustering._means(points, full, centers)
            own = steps.evaluate("ask.step", [features, centers.tolist(), draws])
            assert own[0] == labels.tolist() and own[1] == full.tolist()
            assert np.abs(np.array(own[2]) - means.numpy()).max() < 1e-5
        assert len(labels.unique()) < 8 == len(full.unique())       # from the corner


def test_what_is_written_of_the_features_is_recorded():
    written = content("deepcluster")
    model = DeepCluster.load(CHECKOUT / "data/records/deepcluster-mnist-seed0.pt", device="cpu")
    data = datasets.load("mnist-small")
    chosen = np.sort(np.concatenate([np.flatnonzero(data.y == d)[:50] for d in range(10)]))
    assert written["classes"] == data.y[chosen].tolist()
    features = torch.from_numpy(model.features(data.X[chosen]))
    plane = clustering.reduce(features, clustering.fit_reduction(features, 2, normalize=False))
    assert np.abs(np.array(written["features"][1]) - plane.numpy()).max() < 1e-3
    corner = [[0.6 + 0.13 * (c % 4), 0.9 + 0.13 * (c > 3)] for c in range(8)]
    for features, own in zip(written["features"], written["corners"], strict=True):
        assert np.abs(np.array(own) - np.abs(features).max() * np.array(corner)).max() < 1e-3
    assert np.std(written["features"], axis=1, ddof=1) == pytest.approx(np.ones((2, 2)), abs=1e-3)


def test_clusters_stay_empty_unless_they_are_refilled(steps):
    rings = steps.locator(".cb-live-plane .cb-live-new")
    step, again = (steps.locator(".cb-live-act button").nth(i) for i in (0, 2))
    groups = steps.locator(".cb-live-groups")
    words = []
    assert "empty" not in groups.inner_text() and "No image has a label yet." in said(steps)
    for _ in range(3):
        words.append(step.text_content())
        step.focus()
        steps.keyboard.press("Enter")
    assert words == ["Assign", "Move", "Relabel"] and "8 of 8" in said(steps)
    changed = int(re.search(r"nearest center: (\d+) changed", said(steps))[1])
    assert rings.count() == changed > 0
    steps.locator("select").nth(1).select_option("1")
    again.click()
    step.click()
    assert "empty" in groups.inner_text() and step.text_content() == "Refill"
    empty = 8 - int(re.search(r"(\d) of 8", said(steps))[1])
    assert empty > 0 == rings.count()
    step.click()
    assert "8 of 8" in said(steps) and step.text_content() == "Move"
    assert f" {rings.count()} images in all" in said(steps) and rings.count() >= empty


def test_the_end_is_reached_in_steps_and_both_rules_get_the_same_start(steps):
    refill = steps.locator("input")
    step, to_the_end, again = (steps.locator(".cb-live-act button").nth(i) for i in range(3))
    steps.locator("select").nth(1).select_option("0")
    first = steps.evaluate("ask.centers")
    again.click()
    start = steps.evaluate("ask.centers")
    assert start != first           # other centers
    to_the_end.click()
    assert to_the_end.text_content() == "Stop"
    assert steps.locator(".cb-live-says").get_attribute("aria-live") == "off"
    steps.clock.run_for(300)
    assert step.text_content() == "Relabel"
    to_the_end.click()
    assert to_the_end.text_content() == "To the end" and not step.is_disabled()
    assert steps.evaluate("ask.centers") != start
    refill.click()
    assert steps.evaluate("ask.centers") == start and step.text_content() == "Assign"
    assert "The same start again" in said(steps)
    left = []
    steps.locator("select").nth(1).select_option("1")
    for _ in range(2):
        to_the_end.click()
        steps.clock.run_for(100_000)
        assert step.is_disabled()
        assert steps.locator(".cb-live-says").get_attribute("aria-live") == "polite"
        left.append(int(re.search(r"(\d) of 8", said(steps))[1]))
        refill.click()
    assert left[0] < 8 == left[1]


@pytest.mark.parametrize("name", ["weights", "deepcluster"])
def test_everybody_can_use_these_on_every_screen_and_print_them(live, name):
    everybody_can_use(live(name), content(name), ".cb-live-act button")
