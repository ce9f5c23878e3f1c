"""Figures: labeled axes, alternative texts, files when asked, and no side effects."""

import base64
import copy
import html
import io
import json
import re
import warnings
import xml.etree.ElementTree as ET
import zlib

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from matplotlib import colors as mpl_colors
from matplotlib.figure import Figure
from PIL import Image

from clusterbook import figures
from clusterbook.checks import InputError
from clusterbook.figures.fitting import SMALLEST, faults, smallest
from clusterbook.figures.showing import for_paper, listed

RNG = np.random.default_rng(0)
EPOCHS = np.arange(1, 6)
MATRIX = RNG.random((6, 4))
ROWS, COLUMNS = np.array([1, 0, 1, -1, 0, 1]), np.array([1, 0, 0, 1])


def draw(name: str, *arguments, **options) -> Figure:
    """The chart with its usual arguments, but for those that are given."""
    usual, named = ARGUMENTS[name]
    return getattr(figures, name)(*(arguments or usual), **named | options)


TABLE = np.array([[0.5, -0.25], [0.0, 0.1], [1.0, 0.2]])
MAP = RNG.random((20, 2)), np.arange(20) % 3, RNG.random((2, 2))
ARGUMENTS = {
    "training_curves": (
        [[{"label": "loss (nats)", "runs": {"seed 0": (EPOCHS, EPOCHS / 2),
                                            "seed 1": (EPOCHS, EPOCHS / 3)}},
          {"label": "accuracy", "runs": {"seed 0": (EPOCHS, EPOCHS / 9)}}]], {}),
    "matrix_blocks": (
        [{"trained": (MATRIX, ROWS, COLUMNS), "shuffled": (MATRIX[::-1], ROWS, COLUMNS)}],
        {"rows": "output neuron", "columns": "input neuron", "values": "absolute weight"}),
    "seed_strip": (
        [{"joint": [0.5, 0.6, 0.7], "dhillon": np.array([0.4])}],
        {"quantity": "accuracy", "references": {"paper": 0.9, "chance": 0.1}}),
    "heatmap": (
        [{"loss of accuracy": TABLE}],
        {"rows": ["a", "b", "c"], "columns": ["0", "1"], "row_label": "cluster",
         "column_label": "digit", "values": "absolute weight", "diverging": True}),
    "scatter": (
        [{"plain": ([0.9, 0.8], [1.0, 2.0]), "pruned": (np.array([0.7]), np.array([3.0]))}],
        {"x": "accuracy", "y": "effect size z"}),
    "image_grid": (
        [RNG.random((2, 3, 12))],
        {"image_shape": (1, 3, 4), "rows": ["epoch 1", "epoch 2"], "columns": ["a", "b", "c"]}),
    "maps": ([{"epoch 1": MAP, "epoch 2": MAP}],
             {"classes": ["0", "1", "2"], "stars": "centers", "axes": "t-SNE"}),
    "schematic": (
        [{"image": (0, 0), "encoder": (1, 0), "cluster\nlayer": (1, 1)}, [
            ("image", "encoder", ""), ("encoder", "cluster\nlayer", "~a center"),
            ("cluster\nlayer", "image", "loss")]], {}),
}
every = pytest.mark.parametrize("name", ARGUMENTS)


@pytest.fixture(autouse=True)
def in_a_notebook(monkeypatch):
    monkeypatch.delenv("CLUSTERBOOK_FIGURES", raising=False)
    InteractiveShell.instance()
    yield
    InteractiveShell.clear_instance()


ABOUT = {"name": "a-figure", "alt": "Two lines fall.", "caption": "What to *see*."}


def shown(figure: Figure | dict[str, Figure], **about):
    """What a notebook gets from `show`: the outputs, with data and metadata."""
    with capture_output() as captured:
        figures.show(figure, **ABOUT | about)
    return captured.outputs


def luminance(color) -> float:
    """Of WCAG 2; on white, 0.183 and below is contrast of 4.5."""
    channels = np.array(mpl_colors.to_rgb(color))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ (0.2126, 0.7152, 0.0722)


@every
def test_every_axis_says_what_it_shows_and_can_be_read(name):
    before = copy.deepcopy(ARGUMENTS[name])
    figure = draw(name)
    np.testing.assert_equal(ARGUMENTS[name], before)
    for axis in figure.axes:
        if axis.get_label() == "<colorbar>":
            assert axis.get_ylabel() == "absolute weight"
        elif name not in ("image_grid", "schematic"):                       # they have no axes
            ticks = "".join(tick.get_text() for tick in axis.get_yticklabels())
            assert axis.get_xlabel()        # panels side by side share the other one
            assert (axis.get_ylabel() or re.search("[a-z]", ticks)
                    or name == "maps" and axis is not figure.axes[0])
    inside = {text for axis in figure.axes for text in axis.texts if text.get_in_layout()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.draw_without_rendering()
    for text in figure.findobj(mpl.text.Text):
        if text.get_text().strip() and text.get_visible() and text not in inside:
            assert luminance(text.get_color()) < 0.183, (text.get_text(), text.get_color())
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert box.x0 > -0.01 and box.y0 > -0.01 and box.x1 < width + 0.01 and box.y1 < height + 0.01


def test_neither_the_callers_style_nor_pyplot_are_touched():
    plain, open_before = shown(draw("matrix_blocks"))[0].data["image/png"], plt.get_fignums()
    with mpl.rc_context({"font.size": 23, "axes.facecolor": "red", "lines.linewidth": 9}):
        style = dict(mpl.rcParams)
        assert shown(draw("matrix_blocks"))[0].data["image/png"] == plain
        assert dict(mpl.rcParams) == style
    assert plt.get_fignums() == open_before


def texts(legend) -> list[str]:
    return [text.get_text() for text in legend.get_texts()]


def test_curves_have_a_band_a_title_and_a_logarithmic_axis_where_asked():
    runs = {"mean": (EPOCHS, EPOCHS / 2, EPOCHS / 10), "plain": (EPOCHS, EPOCHS / 3)}
    figure = figures.training_curves([{"label": "score", "title": "random", "runs": runs,
                                       "references": [0.5], "ylim": (0, 4)},
                                      {"label": "loss", "runs": runs}], log=True, ticks=[1, 4])
    left, right = figure.axes
    assert {*left.lines[2].get_ydata()} == {0.5} and left.get_ylim() == (0, 4)
    assert [*right.get_xticks()] == [1, 4] and not [*right.get_xticks(minor=True)]
    np.testing.assert_array_equal(left.lines[1].get_xydata(), np.c_[EPOCHS, EPOCHS / 3])
    (band,) = left.collections                               # one run has a spread
    edges = band.get_paths()[0].vertices
    last = edges[edges[:, 0] == EPOCHS[-1], 1]
    assert (last.min(), last.max()) == (2.0, 3.0)
    assert (left.get_title("left"), left.get_xscale()) == ("random", "log")
    assert texts(figure.legends[0]) == ["mean", "plain"]        # panels of other runs: their own
    assert texts(draw("training_curves").axes[0].get_legend()) == ["seed 0", "seed 1"]


def test_panels_of_one_training_share_its_epochs_and_show_its_stages():
    figure = figures.training_curves([{"label": "loss", "runs": {"early": ([5, 9], [2, 1])}},
                                      {"label": "score", "runs": {"late": ([20, 30], [0, 1])}}],
                                     stages=[4, 10])
    early, late = figure.axes
    assert early.get_xlim() == late.get_xlim() and early.get_xlim()[0] == 0
    assert early.get_xlim()[1] >= 30
    for axis in (early, late):
        assert [line.get_xdata()[0] for line in axis.lines[1:]] == [4, 10]


def test_matrices_are_ordered_by_cluster_and_their_blocks_outlined():
    trained, shuffled = draw("matrix_blocks").axes[:2]
    assert (trained.get_title("left"), shuffled.get_title("left")) == ("trained", "shuffled")
    rows, columns = [3, 1, 4, 0, 2, 5], [1, 2, 0, 3]         # by label, then as they stood
    np.testing.assert_array_equal(trained.images[0].get_array(), MATRIX[np.ix_(rows, columns)])
    outlines = [(*p.get_xy(), p.get_width(), p.get_height()) for p in trained.patches]
    # Row 0 is the dead neuron: no block holds it.
    assert outlines == [(-0.5, 0.5, 2, 2), (1.5, 2.5, 2, 3)]
    assert trained.images[0].get_clim() == shuffled.images[0].get_clim()


def test_a_scatter_a_schematic_and_a_heatmap_show_what_they_were_given():
    rows = figures.plotted(draw("scatter")).split("\n")
    assert rows[:3] == ["series,accuracy,effect size z", "plain,0.9,1", "plain,0.8,2"]
    (axis,) = draw("schematic").axes
    assert [text.get_text() for text in axis.texts if text.get_text()] == [
        "image", "encoder", "cluster\nlayer", "a center", "loss"]
    arrows = [text.arrow_patch for text in axis.texts if getattr(text, "arrow_patch", None)]
    assert [arrow.get_linestyle() for arrow in arrows] == ["-", "--", "-"]
    assert draw("heatmap", digits=1).axes[0].texts[0].get_text() == "0.5"


def test_a_seed_strip_has_one_dot_a_seed_in_the_row_of_its_group():
    axis = draw("seed_strip").axes[0]
    assert [t.get_text() for t in axis.get_yticklabels()] == ["joint", "dhillon"]
    first, second = (np.asarray(c.get_offsets()) for c in axis.collections)
    np.testing.assert_allclose(first[:, 0], [0.5, 0.6, 0.7])
    np.testing.assert_allclose(second, [[0.4, 1]])
    assert axis.yaxis_inverted()                             # the first group on top
    assert [*axis.get_yticks(minor=True)] == [0.5]           # a line between the rows
    assert texts(axis.figure.legends[0]) == ["paper", "chance"]


def test_the_kinds_of_a_row_have_lanes_and_colors_of_their_own():
    figure = figures.seed_strip(
        {"MNIST": {"TELL": [0.7, 0.8, 0.75, 0.95], "IDC": [0.6]},
         "digits": {"IDC": [0.5], "x": []}},
        hollow={"this run": {"TELL": [0.9]}}, colors={"IDC": "#112233"}, quantity="accuracy")
    axis, (tick,) = figure.axes[0], figure.axes[0].lines
    dots = {c.get_label(): c for c in axis.collections if len(c.get_offsets())}
    assert {name: round(float(c.get_offsets()[:, 1].mean()), 6) for name, c in dots.items()} == {
        "MNIST, TELL": 0, "MNIST, IDC": 1, "digits, IDC": 2.3, "this run, TELL, hollow": 3.6}
    np.testing.assert_allclose(axis.get_yticks(), [0.5, 2.3, 3.6])
    assert [*tick.get_xdata()] == [0.8, 0.8] and [*tick.get_ydata()] == [-0.4, 0.4]
    inks = {name: mpl_colors.to_hex(c.get_facecolor()[0]) for name, c in dots.items()
            if len(c.get_facecolor())}
    assert inks == {"MNIST, TELL": figures.COLORS[0].lower(), "MNIST, IDC": "#112233",
                    "digits, IDC": "#112233"}           # a hollow one has none
    assert texts(figure.legends[0]) == ["TELL", "IDC"]
    plain = figures.seed_strip({"IDC": {"IDC": [1, 2]}}, quantity="q", means=False)
    assert not plain.axes[0].lines and not plain.legends    # the row says it


def test_a_heatmap_says_its_numbers_and_parts_its_colors_at_0():
    axis, bar = draw("heatmap").axes
    assert axis.images[0].get_clim() == bar.get_ylim() == (-1, 1)       # large values on top
    for value, parts in ((1, "red"), (-1, "blue")):
        red, _, blue, _ = axis.images[0].to_rgba(value)
        assert (red > blue) == (parts == "red")
    assert " ".join(text.get_text() for text in axis.texts) == "0.50 −0.25 0.00 0.10 1.00 0.20"
    partly = np.where(TABLE == 0.5, np.nan, TABLE)
    first, second, _ = draw("heatmap", {"one": partly, "two": 3 * partly}, diverging=False,
                            outlined={"two": [(2, 0), (0, 1)]}).axes
    assert first.images[0].get_clim() == second.images[0].get_clim() == (-0.75, 3)
    assert first.texts[0].get_text() == "–" and not first.patches       # there is no value
    assert [tuple(np.round(p.get_center())) for p in second.patches] == [(0, 2), (1, 0)]


def test_an_image_grid_needs_a_name_for_each_row_and_column():
    images, shape = np.zeros((2, 3, 4)), (1, 2, 2)
    with pytest.raises(InputError, match=r"shape \(2, 3, 4\), but there are names of 1 rows and 3"):
        figures.image_grid(images, shape, rows=["a"], columns=["b", "c", "d"])


def test_an_image_grid_has_each_image_in_its_place():
    images = ARGUMENTS["image_grid"][0][0].copy()
    images[1, 2] = np.nan
    (axis,) = draw("image_grid", images).axes
    figures.picture(own := Figure().add_subplot(), images[0, 0].reshape(3, 4) / 9, "a mask")
    assert own.images[0].get_clim() == axis.images[0].get_clim() == (0, 1)
    assert len(axis.images) == 5, "one is missing"
    rows = {label.get_text(): label.get_position()[1] for label in axis.get_yticklabels()}
    columns = {text.get_text(): text.get_position()[0] for text in axis.texts}
    assert [*rows] == ["epoch 1", "epoch 2"] and [*columns] == ["a", "b", "c"]
    for image in axis.images:
        left, right, bottom, top = image.get_extent()
        i = [top < y < bottom for y in rows.values()].index(True)
        j = [left < x < right for x in columns.values()].index(True)
        np.testing.assert_array_equal(image.get_array(), images[i, j].reshape(3, 4))


def test_a_map_has_the_dots_of_each_class_and_the_stars():
    points, labels, stars = MAP
    *classes, special = (dots.get_offsets() for dots in draw("maps").axes[0].collections)
    np.testing.assert_array_equal(classes[1], points[labels == 1])
    np.testing.assert_array_equal(special, stars)


def test_a_figure_is_shown_with_its_text_and_its_caption(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    image, caption = shown(draw("scatter"))
    assert not list(tmp_path.iterdir()), "no file unless asked"
    figures.shown().clear()             # a copy
    assert figures.shown()["a-figure"] == figures.numbers(draw("scatter"))
    picture = Image.open(io.BytesIO(base64.b64decode(image.data["image/png"])))
    assert picture.size[0] == pytest.approx(1.5 * 784, abs=1)
    assert image.data["text/plain"] == "Figure a-figure: Two lines fall."
    about = image.metadata["clusterbook"]
    [[title, wide, narrow]] = json.loads(zlib.decompress(base64.b64decode(about.pop("drawn"))))
    assert figures.unpacked(about.pop("csv")) == figures.plotted(draw("scatter"))
    assert image.metadata == {"image/png": {"alt": ABOUT["alt"], "width": 784},
                              "clusterbook": ABOUT} and title == ""
    assert re.match('<svg .*width="784" ', wide) and re.match('<svg .*width="346" ', narrow)
    assert caption.data["text/markdown"] == "*What to *see*.*"
    assert caption.metadata["clusterbook"] == {"caption_of": "a-figure"}
    image, _ = shown(draw("scatter"), origin="live · seed 0")
    assert image.metadata["clusterbook"]["origin"] == "live · seed 0"


def test_a_figure_with_a_slider_holds_all_pictures_and_shows_the_middle_one():
    steps = {"epoch <1>": draw("scatter"), "epoch 2": draw("image_grid"), "3": draw("scatter")}
    picture, _ = shown(steps, pause=0.5)
    page = picture.data["text/html"]
    told = re.findall(r'data-title="([^"]*)" data-note=""( hidden)?><img alt="([^"]*)" width="784" '
                      r'height="\d+" src="data:image/png;base64,([^"]*)">', page)
    assert [each[:3] for each in told] == [
        ("epoch &lt;1&gt;", " hidden", "Two lines fall. Step 1 of 3: epoch &lt;1&gt;."),
        ("epoch 2", "", "Two lines fall. Step 2 of 3: epoch 2."),
        ("3", " hidden", "Two lines fall. Step 3 of 3: 3.")]
    assert Image.open(io.BytesIO(base64.b64decode(told[1][3]))).size[0] in (1176, 1177)
    assert told[0][3] == told[2][3] != told[1][3] == picture.data["image/png"]
    assert 'data-pause="0.5"' in page and "http" not in page        # it plays without the network
    assert shown(steps, start="3")[0].data["image/png"] == told[2][3]
    steps = {"1": draw("image_grid"), "2": draw("image_grid")}
    steps["2"].as_it_is()               # changed after drawing
    begins, later = figures.on_a_page(shown(steps)[0].metadata["clusterbook"], "page")
    kinds = [re.findall('<svg class="cb-([a-z]+)"', part) for part in (begins, *later)]
    assert kinds == [["only"], ["wide", "narrow"], []]


def test_two_sliders_have_a_picture_and_a_note_for_every_position_that_was_run():
    grid = {("epoch 1", "k = 2"): draw("scatter"), ("epoch 9", "k = 2"): draw("image_grid"),
            ("epoch 9", "k = 3"): draw("scatter")}
    notes = {key: f"live · {key[1]}" for key in grid}
    picture, _ = shown(grid, sliders=("Epoch", "Clusters"), origin=notes)
    about = picture.metadata["clusterbook"]
    assert "origin" not in about and about["explorable"]["start"] == 2      # the middle of both
    for page in picture.data["text/html"], figures.on_a_page(about, "page")[0]:
        assert re.findall(r'data-at="([^"]*)" data-title="([^"]*)" data-note="([^"]*)"( hidden)?',
                          page) == [("0 0", "epoch 1, k = 2", "live · k = 2", " hidden"),
                                    ("1 0", "epoch 9, k = 2", "live · k = 2", " hidden"),
                                    ("1 1", "epoch 9, k = 3", "live · k = 3", "")]
        said = [json.loads(html.unescape(text)) for text in re.findall(
            r'data-(?:names|values)="([^"]*)"', page)]
        assert said == [["Epoch", "Clusters"], [["epoch 1", "epoch 9"], ["k = 2", "k = 3"]]]


@every
def test_on_a_page_a_figure_is_drawn_for_two_widths_in_the_pages_colors(name):
    about = shown(draw(name))[0].metadata["clusterbook"]
    begins, (later,) = figures.on_a_page(about, "page")
    page = figures.glyphs_once(begins + later)
    wide, narrow = (ET.fromstring(svg) for svg in re.findall("<svg .*?</svg>", page, re.DOTALL))
    for svg, kind, width in (wide, "wide", "784"), (narrow, "narrow", "346"):
        assert (svg.get("class"), svg.get("width")) == (f"cb-{kind}", width)
        assert (svg.get("role"), svg.get("aria-label")) == ("img", ABOUT["alt"])
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(set(ids)) == len(ids) and set(re.findall(r'(?:"|\()#([^")]*)', page)) <= set(ids)
    assert not re.search(r'<g( id="[^"]*")?>|xlink:href|<style', page), "draws nothing"
    # What is on the page's own ground has the page's color; nothing has a white ground.
    bare = re.sub(r"var\(--cb-\w+, #\w+\)|data:[^\"]*", "", page)
    assert "var(--cb-ink" in page and not re.search("#333333|#555555|#ffffff", bare)
    if name in ("training_curves", "maps"):     # panels stand below each other on a phone
        assert float(narrow.get("height")) > 1.5 * float(wide.get("height"))


def test_files_are_written_where_the_run_asks(tmp_path, monkeypatch):
    folder = tmp_path / "new" / "figures"
    monkeypatch.setenv("CLUSTERBOOK_FIGURES", str(folder))
    assert listed(folder) == []
    figure = draw("scatter")            # has what an SVG names by a salted hash
    about = {"alt": "Dots & <lines> – one", "caption": "Again."}
    shown({"a": figure, "b": figure}, name="two")
    shown(figure, name="one")
    shown(figure, name="one", **about)
    steps = [f"two-{i}.{kind}" for i in (1, 2) for kind in ("png", "svg")]
    assert sorted(path.name for path in folder.iterdir()) == [
        "figures.json", "one.csv", "one.png", "one.svg", *steps, "two.csv"]
    assert listed(folder) == [
        {**ABOUT, "name": "two", "steps": ["a", "b"], "formats": ["png", "svg"],
         "numbers": figures.numbers({"a": figure, "b": figure})},
        {"name": "one", **about, "formats": ["png", "svg"], "numbers": figures.numbers(figure)}]
    for first, second in zip(steps[:2], steps[2:], strict=True):
        same = (folder / second).read_bytes().replace(b"two-2", b"two-1")
        assert (folder / first).read_bytes() == same, "the same figure is the same file"
    assert Image.open(folder / "one.png").info["Description"] == about["alt"]
    text = (folder / "one.svg").read_text(encoding="utf-8")
    assert "Dots &amp; &lt;lines&gt; – one" in text and "<dc:date>" not in text
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CLUSTERBOOK_FIGURES", str(tmp_path / "file"))
    with pytest.raises(InputError, match="the figure .*file/a-figure.png can't be written"):
        shown(figure)
    for about, says in (
            *(({"name": name}, f"lower-case words joined by hyphens, not {name!r}")
              for name in ("", "a strip", "../strip", "strip-")),
            ({"alt": "  "}, "needs an alternative text"), ({"caption": ""}, "and a caption")):
        with pytest.raises(InputError, match=re.escape(says)):
            shown(Figure(), **about)


# --- in a paper's column ---------------------------------------------------------------------


LONG = {
    "training_curves": ([[{"label": f"agreement with the labels ({unit})", "runs": {
        name: (EPOCHS, EPOCHS / k) for k, name in enumerate(
            ("whole samples", "gated samples", "recorded, same seed")[i:], 2)}}
        for i, unit in enumerate(("NMI", "ARI", "ACC"))]], {}),
    "seed_strip": ([{f"scikit-learn's digits, {n} epochs, 5 recorded seeds": [n, n + 1]
                     for n in range(60, 67)}],
                   {"quantity": "mean cut of the shuffles, minus the network's (positive: better) "
                    "weight co-clustering on MNIST, 20 epochs", "log": True,
                    "references": {"mean of the paper's five runs": 61, "the paper's": 62}}),
    "heatmap": ([{"5,000 MNIST digits: ARI": RNG.random((4, 8)) - 0.5}],
                {"rows": [f"worst fractal dimension {i}" for i in range(4)],
                 "columns": ["autoencoder +\nk-means", *(f"Cluster {i}" for i in range(7))]}),
    "scatter": ([{f"the paper's network, pruned to {n}%": ([n], [n]) for n in range(90, 98)}], {}),
}
wide = pytest.mark.parametrize("width", [3.5, *(
    pytest.param(width, marks=pytest.mark.slow) for width in (4.5, 5.5, 7.2))])


@wide
@pytest.mark.parametrize("name", ARGUMENTS)
def test_at_every_width_and_in_every_style_all_can_be_read(name, width):
    long, options = LONG.get(name, ([], {}))
    for style in ("plain", "paper"):        # dark differs in colors alone
        drawn = for_paper(draw(name, *long, **options), width, style)
        assert faults(drawn) == [] and smallest(drawn) >= 0.92 * SMALLEST
        assert drawn.get_figwidth() == width and drawn.get_figheight() <= 9
    panels = [axis for axis in drawn.axes if axis.get_label() != "<colorbar>"]
    bold = {text.get_text()[:1] for text in drawn.findobj(mpl.text.Text)
            if text.get_weight() == "bold"}
    assert len(panels) == 1 or {*"abc"[:len(panels)]} <= bold


def test_what_can_not_be_read_is_found():
    figure = Figure(figsize=(4, 2))
    left, right = figure.subplots(1, 2)
    assert faults(figure) == []
    left.text(0.2, 0.5, "one text"), left.text(0.3, 0.5, "another one")
    left.text(0.2, 0.8, "ends", ha="right"), left.text(0.21, 0.8, "begins")
    left.text(0.2, 0.2, "upper"), left.text(0.2, 0.19, "lower", va="top")
    right.set_ylabel("much too long for so low a figure", fontsize=14)
    right.plot([0, 1], label="a name that is much wider than the panel")
    right.legend(loc="center right")
    found = faults(figure)
    for one, other in (("one text", "another one"), ("ends", "begins"), ("upper", "lower")):
        assert f"{one} overlaps {other}" in found
    assert "cut: much too long for so low a figure" in found
    assert "a legend is wider than the panel " in found
    right.legend(loc="center left")
    assert "a legend is wider than the panel " in faults(figure), "on the other side"


def test_on_a_dark_ground_what_was_drawn_for_white_paper_is_light():
    drawn = for_paper(draw("schematic"), 7.2, "dark")
    boxes = [patch.get_facecolor() for patch in drawn.axes[0].patches]
    assert max(map(luminance, boxes)) < 0.05 < 0.3 < min(
        luminance(text.get_color()) for text in drawn.axes[0].texts if text.get_text())
    plain = Figure()
    plain.subplots().set_xlabel("epoch")
    drawn = for_paper(plain, 7.2, "dark")           # one that is not drawn anew
    label = drawn.axes[0].xaxis.label
    assert luminance(drawn.get_facecolor()) < 0.05 < 0.3 < luminance(label.get_color())
    assert plain.get_facecolor() == (1, 1, 1, 1)


def test_the_numbers_have_the_names_of_rows_columns_series_and_axes():
    text = figures.plotted(draw("heatmap"), notes={"origin": "live", "parameters": '{"k": 2}'})
    assert text.split("\n")[:4] == ["# origin: live", '# parameters: {"k": 2}',
                                    "digit,cluster,absolute weight", "0,a,0.5"]
    assert figures.plotted(draw("training_curves")).split("\n")[:2] == [
        "panel,series,epoch,loss (nats),accuracy", "loss (nats),seed 0,1,0.5,"]
    assert figures.plotted(draw("seed_strip")).split("\n")[:3] == [
        "series,accuracy,row", "\"joint, mean\",0.6,joint", "\"joint, mean\",0.6,joint"]
    assert figures.plotted(draw("image_grid")).split("\n")[1].startswith("epoch 1 a,0,0,")
