"""The live figures, in headless Chromium from files: their answers are the library's."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from _browser import opened, violations
from _support import CHECKOUT, module_of
from sklearn.preprocessing import scale
from torch.nn import functional

from bookledger import load_records
from clusterbook import IDC, TELL, DeepCluster, datasets, figures, metrics
from clusterbook.deepcluster import clustering, split_empty
from clusterbook.tell import ConvAutoencoder
from clusterbook.weights import WeightCoclustering, normalized_cut, shuffle

LIVE = CHECKOUT / "book" / "assets" / "live"
SCRIPTS = sorted(path for path in LIVE.glob("*.js") if "weights" not in path.name)
export = module_of(CHECKOUT / ".github" / "scripts" / "live.py")
#: Draws a stroke of points from 0 to 1 on the square, as a pointer does.
DRAW = """points => {
  const pad = document.querySelector(".cb-live-pad"), box = pad.getBoundingClientRect();
  pad.setPointerCapture = () => {};
  const tell = (kind, [x, y]) => pad.dispatchEvent(new PointerEvent(kind, {
    clientX: box.left + x * box.width, clientY: box.top + y * box.height, button: 0}));
  tell("pointerdown", points[0]);
  points.slice(1).forEach(point => tell("pointermove", point));
  tell("pointerup", points.at(-1));
  return document.querySelector(".cb-live-says").textContent.replaceAll("\u00a0", " ");
}"""
SEVEN = [[0.3, 0.2], [0.5, 0.2], [0.7, 0.2], [0.6, 0.5], [0.45, 0.85]]
#: What TELL answers to images, after a change of its network.
ANSWERS = """([text, change]) => {
  const tell = new live.Tell(live.networks.tell), bytes = live.unpack(text, Uint8Array);
  new Function("tell", change)(tell);
  return Array.from({length: bytes.length / 784}, (_, i) => [...tell.encode(
    Float32Array.from(bytes.slice(784 * i, 784 * (i + 1)), value => value / 255))]);
}"""


def page_with(part: str) -> str:
    """A page like the book's with a picture and what follows it."""
    styles = (CHECKOUT / "book/assets/clusterbook.css").as_uri()
    return ("<!doctype html><html lang=en data-theme=light><meta charset=utf-8><title>Live</title>"
            "<meta name=viewport content='width=device-width'>"
            f"<link rel=stylesheet href='{styles}'>"
            "<body><main><h1>Live</h1><img class=picture alt='A picture of digits' src='"
            f"data:image/gif;base64,R0lGODlhAQABAAAAACw='>{part}</main>")


THEMED = """theme => {
  document.documentElement.dataset.theme = theme;
  document.body.style.cssText = "color: var(--cb-ink); background: var(--cb-ground)";
}"""
#: Random numbers that are the same in each run of the tests.
SEEDED = """let seed = 1;
Math.random = () => (seed = seed * 48271 % 2147483647) / 2147483647;"""


def said(page) -> str:
    """What a figure says, with ordinary spaces."""
    return page.locator(".cb-live-says").text_content().replace("\u00a0", " ")


@contextmanager
def running(chromium, folder, name: str):
    """The page of a figure, which is running."""
    file = folder / f"{name}.html"
    file.write_text(page_with(figures.live.html(name, LIVE.as_uri())), encoding="utf-8")
    with opened(chromium, file.as_uri(), first=SEEDED) as page:
        page.wait_for_selector(".cb-live-runs")
        yield page
        assert not page.faults, page.faults


@pytest.fixture(scope="module")
def shuffles(chromium, tmp_path_factory):
    with running(chromium, tmp_path_factory.mktemp("weights"), "weights") as page:
        yield page


@pytest.fixture(scope="module")
def steps(chromium, tmp_path_factory):
    with running(chromium, tmp_path_factory.mktemp("steps"), "deepcluster") as page:
        yield page


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    file = tmp_path_factory.mktemp("live") / "page.html"
    file.write_text(page_with(figures.live.html("tell", LIVE.as_uri())), encoding="utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def page(chromium, address):
    """The page of TELL's figure, which is running."""
    with opened(chromium, address) as page:
        page.wait_for_selector(".cb-live-runs")
        yield page
        assert not page.faults, page.faults


@pytest.fixture(scope="module")
def trained():
    record = min((one for one in load_records() if one.profile == "tell-mnist-30"),
                 key=lambda one: one.metrics["loss"])
    return TELL.load(CHECKOUT / "data/records" / f"{record.name}.pt", device="cpu"), record


def content(name: str = "tell") -> dict:
    """What NAME-weights.js holds."""
    text = (LIVE / f"{name}-weights.js").read_text(encoding="utf-8")
    body = text[text.index("{"):text.rindex("}") + 1]
    return json.loads(re.sub(r"(?m)^  (\w+): ", r'  "\1": ', body))


def wrong(answers: list, z: np.ndarray, centers: np.ndarray) -> list[str]:
    """How the page's embeddings differ from the library's by more than they may."""
    own, found = np.array(answers), []
    share = np.mean((own @ centers.T).argmax(1) == (z @ centers.T).argmax(1))
    if share < 0.995:
        found.append(f"{share:.1%} of the labels are equal")
    if np.abs(own - z).max() > 0.01:
        found.append(f"an embedding is off by {np.abs(own - z).max():.3f}")
    return found


def test_the_page_answers_as_the_library_and_a_fault_would_be_found(page, trained):
    model, X = trained[0], datasets.load("mnist-small").X[:1000]
    z, centers = model.transform(X), np.array(content()["centers"])
    cosines = centers @ model.cluster_centers_.T
    assert cosines.max(0) == pytest.approx(np.ones(10)) == cosines.max(1)

    def answers(images: np.ndarray, change: str = "") -> list:
        packed = export.packed((images * 255).round(), "u1")
        return page.evaluate(ANSWERS, [packed, change])

    assert not wrong(answers(X), z, centers)
    for change, complaints in (
            ("const w = tell.encoder[1].weight; tell.encoder[1].weight = w.map("
             "(_, i) => w[Math.floor(i / 9) * 9 + i % 3 * 3 + Math.floor(i % 9 / 3)])", 2),
            ("tell.encoder.forEach(layer => layer.bias.fill(0))", 2),
            ("tell.encoder.at(-1).bias.fill(0)", 1)):
        found = wrong(answers(X[:50], change), z[:50], centers)
        assert len(found) == complaints, (change, found)


def test_the_page_decodes_as_the_library(page, trained):
    decoded = np.array(page.evaluate("""() => {
      const tell = new live.Tell(live.networks.tell);
      return tell.centers.map(center => [...tell.decode(center)]);
    }"""))
    centers = torch.tensor(content()["centers"])
    with torch.no_grad():
        expected = trained[0].network_.decode(centers).numpy()
    assert np.abs(decoded - expected).max() < 0.05
    assert np.abs(decoded.reshape(10, 28, 28).transpose(0, 2, 1).reshape(10, -1)
                  - expected).max() > 0.5


def test_what_is_written_is_the_recorded_network(trained):
    model, record = trained
    written = content()
    assert (written["profile"], written["seed"]) == (record.profile, record.seed)
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


def test_each_figure_names_its_network(page, shuffles, steps, row_page):
    for one, name in ((page, "tell"), (shuffles, "weights"), (steps, "deepcluster"),
                      (row_page, "idc")):
        written = content(name)
        for choice, network in written.items() if name == "idc" else [("", written)]:
            if choice:
                one.locator("select").first.select_option(choice)
            assert one.locator(".cb-live-from").inner_text() == (
                f"live in your browser · network of {network['profile']}, seed {network['seed']}")
    one.locator("select").first.select_option("breast_cancer")


def test_the_layers_compute_what_torch_does():
    torch.manual_seed(0)
    network = ConvAutoencoder((1, 8, 8)).eval()
    for part in network.modules():      # as after a training
        if hasattr(part, "running_var"):
            for values in (part.running_mean, part.running_var, part.weight.data, part.bias.data):
                values.uniform_(0.5, 1.5)

    def forward(layers: list[dict], x: torch.Tensor) -> torch.Tensor:
        def numbers(text: str, kind: str = "<f4") -> torch.Tensor:
            return torch.tensor(np.frombuffer(base64.b64decode(text), kind).astype("f4"))

        for layer in layers:
            shape, scale = layer["shape"], numbers(layer["scale"])
            weight = numbers(layer["weight"], "i1").reshape(len(scale), -1) * scale[:, None]
            if len(shape) == 2:
                x = functional.linear(x.flatten(1), weight, numbers(layer["bias"]))
            else:
                x = x.reshape(len(x), shape[1], *[int((x[0].numel() / shape[1]) ** 0.5)] * 2)
                wide = torch.zeros(*x.shape[:2], *[side * layer["stretch"] for side in x.shape[2:]])
                wide[:, :, ::layer["stretch"], ::layer["stretch"]] = x
                x = functional.conv2d(wide, weight.reshape(shape), numbers(layer["bias"]),
                                      stride=layer["stride"], padding=1)
            x = {"none": torch.nn.Identity(), "relu": torch.relu,
                 "sigmoid": torch.sigmoid}[layer["activation"]](x)
        return x.flatten(1)

    with torch.no_grad():
        for part, x in ((network.encoder, torch.rand(20, 64)),
                        (network.decoder, functional.normalize(torch.randn(20, 10)))):
            expected, layers = part(x), export.layers(part)
            spread = expected.std()
            assert (forward(layers, x) - expected).abs().max() < 0.1 * spread
            layers[2]["bias"] = export.packed(np.zeros(layers[2]["shape"][0]))
            assert (forward(layers, x) - expected).abs().max() > 0.1 * spread


def test_a_bad_drawing_gets_a_sentence_and_a_digit_a_cluster(page):
    page.evaluate("() => document.querySelector('.cb-live-clear').click()")
    assert said(page) == "Nothing is drawn yet."
    assert "a dot" in page.evaluate(DRAW, [[0.5, 0.5]])
    assert not page.locator(".cb-live-nearest").count()
    page.evaluate("() => document.querySelector('.cb-live-clear').click()")
    everywhere = [[x, y / 20] for y in range(21) for x in (0, 1)]
    assert "more ink" in page.evaluate(DRAW, everywhere)
    page.evaluate("() => document.querySelector('.cb-live-clear').click()")
    assert "cluster of 7, cosine 0." in page.evaluate(DRAW, SEVEN)
    assert page.locator(".cb-live-nearest").count() == 1
    assert "cosine\u00a00." in page.locator(".cb-live-says").text_content()  # no line ends there
    # As MNIST has it, wherever and however large it was drawn.
    mass = page.evaluate("""stroke => {
      const x = live.digit([stroke.map(([x, y]) => [x / 2, y / 2 + 0.4])]);
      const of = weight => x.reduce((sum, value, i) => sum + value * weight(i), 0);
      const rows = [...x.keys()].filter(i => x[i] > 0.3).map(i => Math.floor(i / 28));
      return [of(i => i % 28 + 0.5) / of(i => 1), of(i => Math.floor(i / 28) + 0.5) / of(i => 1),
              Math.max(...rows) - Math.min(...rows) + 1];
    }""", SEVEN)
    assert mass == pytest.approx([14, 14, 20], abs=1)


def test_keys_reach_everything_and_the_sentence_is_read_aloud(page):
    says = page.locator(".cb-live-says")
    assert says.get_attribute("aria-live") == "polite"
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
    pixels = ("() => [...document.querySelectorAll('.cb-live-walk canvas')]"
              ".map(canvas => canvas.toDataURL())")
    begins, between, ends = page.evaluate(pixels)
    assert len({begins, between, ends}) == 3
    way.focus()
    page.keyboard.press("End")
    assert way.get_attribute("aria-valuetext").startswith("100% of the way to the cluster of\u00a0")
    assert page.evaluate(pixels) == [begins, ends, ends]
    page.keyboard.press("Home")
    assert page.evaluate(pixels) == [begins, begins, ends]
    # A press on the drawing area takes the digit and its mark away.
    page.evaluate(DRAW, SEVEN)
    assert page.locator(".cb-live-digits [aria-pressed=true]").count() == 0


def test_everybody_can_use_it_on_every_screen(page):
    for width, theme in ((1280, "light"), (390, "dark"), (320, "light")):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(THEMED, theme)
        for button in (".cb-live-clear", ".cb-live-digits button"):  # no answer, an answer
            page.locator(button).first.click()
            assert not violations(page), (width, theme, button)
        assert page.evaluate("() => document.scrollingElement.scrollWidth") <= width


def test_the_picture_stays_in_print_without_scripts_and_without_the_network(
        chromium, address, page, tmp_path):
    assert not page.locator(".picture").is_visible()
    page.emulate_media(media="print")
    assert page.locator(".picture").is_visible() and not page.locator(".cb-live").is_visible()
    page.emulate_media(media="screen")
    with opened(chromium, address, scripts=False) as without:
        assert without.locator(".picture").is_visible()
    shutil.copytree(LIVE, tmp_path / "live", ignore=shutil.ignore_patterns("*weights*"))
    (tmp_path / "page.html").write_text(page_with(figures.live.html("tell", "live")), "utf-8")
    with opened(chromium, (tmp_path / "page.html").as_uri()) as poor:
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
        assert "cluster of" in page.locator(".cb-live-says").text_content()
        # As JupyterLab does it, and when the cell is run again.
        page.evaluate("""html => {
          document.body.innerHTML = html;
          for (const script of document.querySelectorAll("script")) {
            const again = document.createElement("script");
            again.textContent = script.textContent;
            script.replaceWith(again);
          }
        }""", data["text/html"])
        page.wait_for_selector(".cb-live-runs .cb-live-says:text('cluster of')")
        assert page.locator(".cb-live-pad").count() == 1
        assert page.loaded == {file.as_uri()} | {one for one in page.loaded if "data:" in one}
        assert not page.faults
    monkeypatch.setenv("CLUSTERBOOK_RUN", '{"chapter": "tell"}')
    assert "text/html" not in output()[0]


# ---- weights

#: Cuts of matrices with given labels, or the page's own search, after a change of the class.
CUTS = """([text, size, labels, change]) => {
  const given = live.unpack(text, Float32Array), own = class extends live.Coclustering {};
  new Function("own", change)(own.prototype);
  return Array.from({length: given.length / size ** 2}, (_, i) => {
    const one = new own(given.slice(size ** 2 * i, size ** 2 * (i + 1)), size);
    return labels ? one.cut(labels[i], 1 + Math.max(...labels[i].flat())) : one.search(2);
  });
}"""


@pytest.fixture(scope="module")
def mixed():
    """The recorded layer and 50 shuffles of it, and the library's clusters of each."""
    A = np.frombuffer(base64.b64decode(content("weights")["weights"]), "<f4").reshape(128, 128)
    matrices = [A, *(shuffle(A, random_state=i) for i in range(50))]
    return np.array(matrices, dtype="<f4"), [WeightCoclustering(2, random_state=0).fit(W)
                                             for W in matrices]


def test_the_cuts_of_shuffles_are_the_librarys_and_a_fault_would_be_found(shuffles, mixed):
    matrices, found = mixed
    labels = [[one.row_labels_.tolist(), one.column_labels_.tolist()] for one in found]
    for k, (rows, columns) in content("weights")["labels"].items():
        labels[int(k)] = rows, columns         # some with more clusters, which need not fit
    expected = np.array([normalized_cut(W, *each)
                         for W, each in zip(matrices, labels, strict=True)])

    def off(change: str = "") -> float:
        cuts = shuffles.evaluate(CUTS, [export.packed(matrices), 128, labels, change])
        return np.abs(np.array(cuts) - expected).max()

    assert off() < 1e-6
    for change in ("const each = own.each; own.each = function(what) {"
                   "  each.call(this, (a, i, j) => what(a, j, i)); }",
                   "const volumes = own.volumes; own.volumes = function([rows], k) {"
                   "  return volumes.call(this, [rows, rows], k); }"):
        assert off(change) > 1e-4, change


def test_with_two_clusters_the_pages_search_ends_where_the_librarys_does(shuffles, mixed):
    matrices, found = mixed

    def agreement(change: str = "") -> tuple[np.ndarray, np.ndarray]:
        own = shuffles.evaluate(CUTS, [export.packed(matrices), 128, None, change])
        return (np.array([one["cut"] for one in own]) - [one.normalized_cut_ for one in found],
                np.array([metrics.ari(np.concatenate(one["labels"]), np.concatenate(
                    [each.row_labels_, each.column_labels_]))
                    for one, each in zip(own, found, strict=True)]))

    cuts, aris = agreement()
    assert (np.abs(cuts) < 1e-6).mean() >= 0.95 and np.abs(cuts).max() < 0.002
    assert np.median(aris) == 1
    matrices, found = matrices[:5], found[:5]
    cuts, aris = agreement("own.moved = labels => labels")
    assert np.abs(cuts).max() > 1e-4


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
    assert shuffles.evaluate("""() => {
      const marks = [...document.querySelectorAll(".cb-live-bricks > *")].map(brick =>
        brick.getBoundingClientRect());
      const chart = document.querySelector(".cb-live-chart").getBoundingClientRect();
      return marks.every(mark => mark.bottom <= chart.bottom && mark.height < chart.height / 9);
    }""")
    again.click()
    shuffles.locator("select").select_option("8")
    assert bricks.count() == 0 and "8 clusters" in said(shuffles)
    assert shuffles.locator(".cb-live-lines .cb-live-library").text_content() == (
        f"{library['8']:.4f}")
    assert shuffles.locator(".cb-live-matrix").first.locator("span").count() == 8
    play.click()
    shuffles.wait_for_function(
        "() => document.querySelectorAll('.cb-live-chart .cb-live-brick').length >= 3")
    assert says.get_attribute("aria-live") == "off" and play.text_content() == "Stop"
    heard = shuffles.evaluate_handle("""() => {
      const says = document.querySelector(".cb-live-says"), heard = [];
      new MutationObserver(() => {
        if (says.getAttribute("aria-live") === "polite") heard.push(says.textContent);
      }).observe(says, {childList: true});
      return heard;
    }""")
    play.click()
    assert play.text_content() == "Play 30" and says.get_attribute("aria-live") == "polite"
    drawn = bricks.count()
    assert heard.json_value() == [says.text_content()] and f"Shuffle {drawn}:" in said(shuffles)
    again.click()
    play.click()
    shuffles.wait_for_function(
        "() => document.querySelector('.cb-live-act button:nth-of-type(2)').textContent !== 'Stop'")
    assert bricks.count() == 30 and "Shuffle 30:" in said(shuffles)
    assert heard.json_value()[-1] == says.text_content() and len(heard.json_value()) < 6


# ---- DeepCluster

#: A step of k-means: labels, then with empty clusters refilled, then the means.
STEP = """([points, centers, draws, change]) => {
  const own = {...live};
  new Function("own", "live", change)(own, live);
  const labels = own.assign(points, centers);
  const full = own.splitEmpty(points, labels, centers, () => draws.shift() ?? 0);
  return [labels, full, own.means(points, full, centers)];
}"""


SWAPPED = "own.assign = (points, C) => live.assign(points, C.map(([x, y]) => [y, x]))"
SHIFTED = """own.means = (points, labels, C) =>
  live.means(points, labels.map((c, i) => labels[i + 1] ?? c), C)"""


def test_a_step_of_k_means_is_the_librarys_and_a_fault_would_be_found(steps, monkeypatch):
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
            given = [features, centers.tolist(), draws]
            own = steps.evaluate(STEP, [*given, ""])
            assert own[0] == labels.tolist() and own[1] == full.tolist()
            assert np.abs(np.array(own[2]) - means.numpy()).max() < 1e-5
            faults = [SWAPPED, SHIFTED] if centers is starts else ["own.splitEmpty = (_, c) => c"]
            for change in faults:
                wrong = steps.evaluate(STEP, [*given, change])
                assert np.abs(np.array(wrong[2]) - means.numpy()).max() > 1e-3, change
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
    refill, plane = steps.locator("input"), "[...document.querySelectorAll('.cb-live-plane b')]"
    step, to_the_end, again = (steps.locator(".cb-live-act button").nth(i) for i in range(3))
    places = f"() => {plane}.map(mark => mark.style.cssText)"
    steps.locator("select").nth(1).select_option("0")
    first = steps.evaluate(places)
    again.click()
    start = steps.evaluate(places)
    assert start != first           # other centers
    to_the_end.click()
    assert to_the_end.text_content() == "Stop"
    assert steps.locator(".cb-live-says").get_attribute("aria-live") == "off"
    steps.wait_for_function("() => document.querySelector('.cb-live-act button').textContent "
                            "=== 'Relabel'")
    to_the_end.click()
    assert to_the_end.text_content() == "To the end" and not step.is_disabled()
    assert steps.evaluate(places) != start
    refill.click()
    assert steps.evaluate(places) == start and step.text_content() == "Assign"
    assert "The same start again" in said(steps)
    left = []
    steps.locator("select").nth(1).select_option("1")
    for _ in range(2):
        to_the_end.click()
        steps.wait_for_function("() => document.querySelector('.cb-live-act button').disabled")
        assert steps.locator(".cb-live-says").get_attribute("aria-live") == "polite"
        left.append(int(re.search(r"(\d) of 8", said(steps))[1]))
        refill.click()
    assert left[0] < 8 == left[1]


def test_everybody_can_use_these_on_every_screen(shuffles, steps):
    for page in (shuffles, steps):
        for width, theme in ((1280, "light"), (390, "dark"), (320, "light")):
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate(THEMED, theme)
            page.locator(".cb-live-act button").first.click(force=True)
            assert not violations(page), (page.url, width, theme)
            assert page.evaluate("() => document.scrollingElement.scrollWidth") <= width
        page.emulate_media(media="print")
        assert page.locator(".picture").is_visible() and not page.locator(".cb-live").is_visible()
        page.emulate_media(media="screen")


def test_the_scripts_are_short_and_their_syntax_is_right():
    lengths = {path.name: len(path.read_text("utf-8").splitlines()) for path in SCRIPTS}
    assert sum(lengths.values()) <= 700, lengths
    assert max(len(line) for path in SCRIPTS for line in path.read_text("utf-8").split("\n")) <= 105
    for path in LIVE.glob("*.js"):
        if shutil.which("node"):
            subprocess.run(["node", "--check", path], check=True)


# --- IDC: change a row, or a digit's pixels

#: What IDC answers to rows in their own units, after a change of its network.
ROWS = """([data, rows, change]) => {
  const idc = new live.Idc(live.networks.idc[data]);
  new Function("idc", change)(idc);
  return rows.map(row => { const {gates, cluster, margin} = idc.answer(row);
                           return [cluster, margin, ...gates]; });
}"""
RECORDS = {"breast_cancer": "idc-breast_cancer", "digits": "idc-digits-network"}


@pytest.fixture(scope="module")
def row_page(chromium, tmp_path_factory):
    """The page of IDC's figure, which is running."""
    with running(chromium, tmp_path_factory.mktemp("live"), "idc") as page:
        yield page


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


def wrong_rows(answers: list, gates: np.ndarray, labels: np.ndarray, margins: np.ndarray
               ) -> list[str]:
    """How the page's answers to rows differ from the library's by more than they may."""
    own, found = np.array(answers), []
    same = np.mean((own[:, 2:] > 0) == (gates > 0))
    if same < 0.995:
        found.append(f"{same:.2%} of the gates are open or closed as in the library")
    if (own[:, 0] != labels).any():
        found.append(f"margins where clusters differ: {margins[own[:, 0] != labels]}")
    if np.abs(own[:, 2:] - gates).max() > 0.01:
        found.append(f"a gate is off by {np.abs(own[:, 2:] - gates).max():.3f}")
    return found


TRANSPOSED = ("const w = idc.gating[1].weight, [m, n] = idc.gating[1].shape; "
              "idc.gating[1].weight = w.map((_, i) => w[Math.floor(i / n) + i % n * m])")
UNGATED = ("idc.memberships = (x, _) => Object.getPrototypeOf(idc).memberships.call("
           "idc, x, x.map(() => 1))")


FAULTS = {TRANSPOSED: 3, UNGATED: 1, "idc.encoder[0].bias.fill(0)": 1,
          "idc.head.forEach(layer => layer.bias.fill(0))": 1}
OWN_FAULTS = {"breast_cancer": {"idc.deviations = idc.deviations.map(() => 1)": 3},
              "digits": {"idc.gating[1].bias.fill(0)": 2}}


@pytest.mark.parametrize("name", RECORDS)
def test_the_page_opens_the_gates_and_finds_the_clusters_of_the_library(row_page, tables, name):
    X, _, _, gates, labels, margins = tables[name]
    some = np.sort(np.random.default_rng(0).choice(len(X), 200, replace=False))

    def found(change: str = "") -> list[str]:
        answers = row_page.evaluate(ROWS, [name, X[some].tolist(), change])
        return wrong_rows(answers, gates[some], labels[some], margins[some])

    assert not found()
    for change, complaints in {**FAULTS, **OWN_FAULTS[name]}.items():
        assert len(found(change)) == complaints, (change, found(change))


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


CHANGE = """([name, most]) => {
  const says = document.querySelector(".cb-live-says");
  const order = [...document.querySelectorAll(".cb-live-features input")];
  const slider = order.find(input => input.ariaLabel === name);
  const own = slider.value, move = value => {
    slider.value = value;
    slider.dispatchEvent(new Event("input"));
  };
  move(most ? slider.max : slider.min);
  const told = says.textContent;
  const gates = Object.fromEntries(order.map(input => [input.ariaLabel,
    [input.parentNode.dataset.gate, input.parentNode.querySelector("b").textContent]]));
  move(own);
  return [told.replaceAll("\u00a0", " "), gates];
}"""


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
            told, gates = row_page.evaluate(CHANGE, [names[j], j % 4])
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
    hold, pixels = row_page.locator("input[type=checkbox]"), row_page.locator(
        ".cb-live-features button")
    shares = row_page.locator(".cb-live-clusters")
    hold.check()
    told = {True: set(), False: set()}
    for choice, row in enumerate(content("idc")["digits"]["rows"][:6]):
        row_page.locator("select").nth(1).select_option(str(choice))
        i = int(row["name"].split()[0]) - 1
        for j in range(64):
            before = shares.inner_html()
            pixels.nth(j).evaluate("pixel => pixel.click()")
            told[gates[i, j] > 0].add(re.sub(r".*?(?=its gate)", "", said(row_page)))
            assert gates[i, j] > 0 or shares.inner_html() == before
        row_page.locator(".cb-live-act button").click()
    assert all("does not see the value. Nothing changes. The cluster is still" in one
               for one in told[False])
    assert not any("Nothing changes" in one for one in told[True])
    hold.uncheck()
    assert "gates are open. The digit is in cluster" in said(row_page)
    row_page.locator("select").first.select_option("breast_cancer")


def test_a_row_can_be_changed_with_keys_and_on_every_screen(row_page):
    says = row_page.locator(".cb-live-says")
    assert says.get_attribute("aria-live") == "polite"
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
    assert re.fullmatch(r"[\d.]+ \([+−][\d.]+ SD\), gate (closed|[\d.]+)",
                        first.get_attribute("aria-valuetext"))
    for data in ("digits", "breast_cancer"):
        row_page.locator("select").first.select_option(data)
        for width, theme in ((1280, "light"), (390, "dark"), (320, "light")):
            row_page.set_viewport_size({"width": width, "height": 900})
            row_page.evaluate(THEMED, theme)
            assert not violations(row_page), (data, width, theme)
            assert row_page.evaluate("() => document.scrollingElement.scrollWidth") <= width
    row_page.emulate_media(media="print")
    assert row_page.locator(".picture").is_visible() and not says.is_visible()
    row_page.emulate_media(media="screen")
