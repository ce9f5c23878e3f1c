"""The built book: its pages read as files, and opened in headless Chromium with the network off.

It is built once, from the committed outputs; a warning in any page fails that build. Every page,
but of the recorded runs one, is opened on a wide screen in light colors and checked by axe-core
(most with SLOW=1 only, see `QUICK`); six of all kinds also in dark and on a phone. Colors inside
pictures are not seen by axe-core; tests/test_figures.py compares those. What is asked of a page
that is open stands in browser.js.
"""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from _browser import PHONE, opened, violations
from _support import CHECKOUT, tree
from bs4 import BeautifulSoup

from bookledger import config
from bookledger.build import build
from bookledger.views import scorecard

TOC = sorted(f"{name}.html" for name in re.findall(
    r"(?m)^[\s-]*(?:root|file): (\S+)", (CHECKOUT / "book/_toc.yml").read_text(encoding="utf-8")))
CHAPTERS = [f"notebooks/{name}.html" for name in config.chapters()]
OPENED = ["genindex.html", "search.html",       # Sphinx's own pages
          *(page for page in TOC if not re.search(r"runs/(?!idc-mnist10k)", page))]
STEPS = "book/audit/deepcluster.html"       # has a figure in steps
SIX = ["book/intro.html", "book/scorecard.html", "book/errata.html", "book/parameters.html",
       "book/rerun.html", STEPS]
QUICK = [*SIX[:2], "notebooks/tell.html", "notebooks/idc_table.html", STEPS]     # without SLOW=1
DRAWN = "svg:is(.cb-wide, .cb-narrow, .cb-only)"


def each(pages: Iterable[str]) -> pytest.MarkDecorator:
    """A test of each page; but of those in `QUICK` a slow one."""
    return pytest.mark.parametrize("name", [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in pages])


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the built pages; building them leaves the checkout as it was."""
    watched = [CHECKOUT / name for name in ("book", "notebooks", "data/claims")]
    before = [tree(path, ["__pycache__"]) for path in watched]
    folder = build(run=False, output=tmp_path_factory.mktemp("book")).parent
    assert before == [tree(path, ["__pycache__"]) for path in watched]
    return folder


@pytest.fixture(scope="session")
def parsed(site):
    """Every built page, parsed, by its path in the site."""
    return {path.relative_to(site).as_posix():
            BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
            for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}


def test_every_page_of_the_contents_is_there(site, parsed):
    assert set(CHAPTERS) <= set(TOC) <= set(parsed), "a chapter is not in the table of contents"
    assert "url=book/intro.html" in (site / "index.html").read_text()
    assert (site / "claims.json").is_file() and list((site / "records").glob("tell-*.json"))
    badges = parsed["book/scorecard.html"].select(".cb-verdict")
    assert len(badges) > 100 and parsed["notebooks/tell.html"].select(".cb-result .cb-verdict")
    # But for the wheel and the sdist, which nobody reads.
    assert sum(path.stat().st_size for path in site.rglob("*")
               if path.is_file() and "packages" not in path.parts) <= 45e6
    intro = parsed["book/intro.html"]
    own = {site / "book" / image["src"] for image in intro.select("img")
           if not image["src"].startswith("data:")} | {site / "book" / "intro.html"}
    assert sum(path.stat().st_size for path in own) <= 0.5e6, own
    assert not [page for page, soup in parsed.items() if "requestKernel" in soup.text]
    with zipfile.ZipFile(site / "notebooks.zip") as archive:
        packed = {name.replace(".ipynb", ".html") for name in archive.namelist()}
    assert set(CHAPTERS) < packed < set(TOC)
    assert not any("runs/" in name for name in packed), "a recorded run is twice in the book"
    rerun = parsed["book/rerun.html"]
    assert rerun.find("a", download=True, href="../notebooks.zip")
    assert "neither a wheel nor an sdist" in rerun.text or rerun.select("a[href$='.whl'][download]")


def test_signatures_are_python(parsed):
    found = [entry.text for entry in parsed["book/api.html"].select("dt.sig")]
    assert len(found) > 500
    assert not [text for text in found if re.search(r"FieldInfo|Annotated|<factory>|~", text)]


def broken(parsed: dict[str, BeautifulSoup], site: Path) -> Iterator[str]:
    """Every address in the pages that leads nowhere inside the site."""
    known = {(site / page).resolve(): {element[key] for key in ("id", "name") for element in
                                       soup.find_all(attrs={key: True})}
             for page, soup in parsed.items()}
    for page, soup in parsed.items():
        for element in soup.select("[href], [src]"):
            address = element.get("href") or element.get("src")
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or address in ("", "#"):
                continue
            path = (site / page).resolve()
            if parts.path:
                path = (path.parent / unquote(parts.path)).resolve()
            place = unquote(parts.fragment)
            if not path.is_file() or not path.is_relative_to(site.resolve()):
                yield f"{page}: {address}: no such file"
            elif place and place not in known.get(path, {place}):
                yield f"{page}: {address}: no such place"


def test_every_internal_link_leads_to_one_place(site, parsed):
    assert not list(broken(parsed, site))
    for page, soup in parsed.items():
        times = Counter(element["id"] for element in soup.select("[id]"))
        assert not [id for id, n in times.items() if n > 1], page


def poor(text: str, caption: str) -> str | None:
    """What is wrong with an alternative text."""
    if re.search(r"\.(png|svg|jpe?g|gif|webp)\b|\b[0-9a-f]{16,}|_images/", text):
        return "is a file name"
    if len(text) < 40:
        return "is too short to say what the image shows"
    return "repeats the caption" if " ".join(text.split()) in " ".join(caption.split()) else None


def test_outputs_are_shown_with_captions_and_alternative_texts(parsed):
    count = 0
    for page, soup in parsed.items():
        assert not soup.select(".traceback"), f"{page} shows a traceback"
        for output in soup.select(".cell_output"):
            assert output.get_text(strip=True) or output.select("svg, img"), page
        # The theme shows the book's title beside its logo, and Sphinx draws a minus sign: a word
        # for either would be read aloud twice.
        for image in soup.select(f"img:not(.logo__image, .toggler, .cb-cards img), {DRAWN}"):
            text = (image.get("alt") or image.get("aria-label", "")).strip()
            caption = getattr(image.find_parent("figure"), "figcaption", None)
            assert caption or not image.find_parent(class_="cell_output"), f"{page}: {text}"
            wrong = poor(text, caption.get_text(" ", strip=True) if caption else "")
            assert not wrong, f"{page}: {text!r} {wrong}"
            count += 1
    assert count > 100
    for page in CHAPTERS:
        assert parsed[page].select("figure svg.cb-wide"), f"{page} shows no figure"
        assert {line.text[0] for line in parsed[page].select(".cb-check")} == {"✓"}, page


def test_the_row_below_a_figure_has_its_files_and_its_command(site, parsed):
    figures = [figure for page in parsed if page.startswith(("notebooks/", "book/audit/"))
               for figure in parsed[page].select("figure[id]")]
    assert len(figures) > 50 and all(figure.select(".cb-row a") for figure in figures)
    assert all(re.match("clusterbook run .* --only ", row.select_one("pre").get_text())
               for page in CHAPTERS for row in parsed[page].select(".cb-row"))
    kinds = {path.suffix for path in (site / "figures/tell/turning").iterdir()}
    assert kinds == {".png", ".svg", ".csv"}


def unfold(page) -> None:
    """Open the folded answers, whose figures are drawn when they are seen."""
    page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")


def settle(page) -> None:
    """Wait for what changes gradually; half-way a color or a place is nobody's.

    The states are asked for, because on a busy machine Chromium at times never keeps the promise
    `finished` of a transition that has ended.
    """
    page.wait_for_function("() => document.getAnimations().every(a => a.playState === 'finished')",
                           polling=50)


def switch(page, scheme: str) -> None:
    """Show the page as a reader sees it whose system is light or dark."""
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme",
                           arg=scheme)
    settle(page)
    ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert luminance(ground) > 0.75 if scheme == "light" else luminance(ground) < 0.2


def luminance(color: str) -> float:
    """Of WCAG 2, from what the browser computes: ``rgb(r, g, b)``."""
    channels = [int(number) / 255 for number in re.findall(r"\d+", color)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def poor_rings(page) -> list[dict]:
    """The rings around what has the focus that are thin, or close in color to their ground."""
    page.keyboard.press("Tab")
    rings, found = page.evaluate("rings()"), []
    assert len(rings) > 20
    for ring in rings:
        low, high = sorted(luminance(ring.get(key, "0, 0, 0")) for key in ("color", "ground"))
        if int(ring["width"]) < 2 or (high + 0.05) / (low + 0.05) < 3:
            found.append(ring)
    return found


TOO_WIDE = "() => document.scrollingElement.scrollWidth - document.documentElement.clientWidth"


def test_what_these_tests_look_for_would_be_found(chromium, tmp_path):
    path = tmp_path / "poor.html"
    path.write_text("""<!doctype html><html lang=en><title>poor</title><style>
      div {overflow: auto; width: 9em; height: 2em; white-space: nowrap} table {width: 900px}
      @media (prefers-color-scheme: dark) {em {color: #333} body {background: #111; color: #eee}}
      </style><meta name=viewport content='width=device-width'><main><h1>Poor</h1>
      <p>one <b>two</b> three</p><p>four <span style="color: #aaa">light gray</span></p>
      <p>five <em>dark</em></p><img src=x.png><input><div>a long line that has to be scrolled</div>
      <article><table><tr><td>wide</td></tr></table></article>
      </main><script>console.error('a fault'); nothing()</script>
      <script type=module>await fetch('https://example.invalid/')</script>""" + "<p>six</p>" * 50)
    with opened(chromium, path.as_uri(), PHONE) as page:
        rules = {line.split(":")[0] for line in violations(page)}
        assert rules >= {"color-contrast", "image-alt", "label", "region",
                         "scrollable-region-focusable"}
        for scheme, element in (("light", "light gray"), ("dark", "<em>")):
            page.emulate_media(color_scheme=scheme)
            (one,) = violations(page, everything=False)
            assert element in one
        assert page.evaluate(TOO_WIDE) == 900 + 8 - PHONE and not page.evaluate("reachable()")
        for fault in ("a fault", "nothing is not defined", "Failed to fetch"):
            assert any(fault in line for line in page.faults), (fault, page.faults)


def test_what_sphinx_and_the_theme_leave_undone_is_mended(chromium, tmp_path):
    math, pre = '<span class="math">x</span>', '<span class="pre">'
    path = tmp_path / "page.html"
    path.write_text(f"""<!doctype html><nav class=bd-links><li><a href=x>Runs</a>
      <details><summary></summary></details></li></nav>
      <div class=pst-scrollable-table-container></div>
      <div class=text_html><div><table class=dataframe><th></th></table></div></div>
      <p>of {math}, (where {math}) or {math} {pre}--no</span>{pre}idc</span></p>
      <script src={(CHECKOUT / 'book/assets/access.js').as_uri()}></script>""")
    with opened(chromium, path.as_uri()) as page:
        made = BeautifulSoup(page.content(), "html.parser")
    assert [box["tabindex"] for box in made.select("[role=group][aria-label=Table]")] == ["0"] * 2
    assert made.find("td") and not made.find("th"), "an empty head is read aloud"
    assert made.summary["aria-label"] == "Pages under Runs"
    kept = [part.text for part in made.select(".cb-keep")]
    assert kept == ["x,", "x)", "--no"]


@each(OPENED)
def test_a_page_renders_and_everybody_can_read_it(site, chromium, name):
    with opened(chromium, (site / name).as_uri()) as page:
        assert not page.faults, "on the console"
        assert page.locator(".math").count() == page.locator(".math > math").count()
        assert not violations(page), "on a wide screen"
        if name in (*SIX, "book/api.html"):     # whose signatures have colors of their own
            assert not poor_rings(page), "by keys"
            switch(page, "dark")
            assert not violations(page, everything=False), "in the dark"
            assert not poor_rings(page), "by keys in the dark"
            switch(page, "light")
        for width in (320, PHONE):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(TOO_WIDE) <= 0, f"scrolls sideways in {width} pixels"
        page.wait_for_function("reachable()")      # keys scroll what is wide
        if name in SIX:
            assert not violations(page), "on a phone"


# What has figures. The library's page has more elements, those of its signatures.
FIGURES = sorted({*CHAPTERS, "book/intro.html", "book/measuring.html",
                  *(page for page in TOC if "/audit/" in page or "/runs/" in page)})


@each(FIGURES)
def test_a_page_loads_little_and_draws_what_is_in_sight(site, chromium, name):
    with opened(chromium, (site / name).as_uri(), width=1400) as page:
        files = {Path(unquote(urlsplit(address).path)) for address in page.loaded
                 if not address.startswith("data:")}
        sizes = {file.relative_to(site).as_posix(): file.stat().st_size for file in files}
        assert sum(sizes.values()) <= 1.6e6, sizes
        assert not [file for file in sizes if re.search(r"drawn/.*js|search|fontawesome", file)]
        assert page.evaluate("document.getElementsByTagName('*').length") <= 9_000
        for one in page.locator(".cb-drawn").element_handles():     # the room that it will need
            later = site / "drawn" / one.get_attribute("data-later").rpartition("/")[2]
            narrow = re.findall(r'<svg class=\\"cb-narrow\\"[^>]*?height=\\"(\d+)',
                                later.read_text(encoding="utf-8"))
            kept = re.search(r"--cb-narrow: (\d+)px", one.get_attribute("style"))[1]
            assert kept in narrow or not narrow, f"{later.name} keeps {kept} pixels free"
        drawn = page.locator(".cb-drawn").evaluate_all(
            "all => all.map(one => getComputedStyle(one)).map(style => "
            "[style.contentVisibility, parseInt(style.containIntrinsicHeight.split(' ')[1])])")
        assert {how for how, _ in drawn} <= {"auto"} and all(high > 50 for _, high in drawn)
        assert len(drawn) >= page.locator("figure svg:is(.cb-wide, .cb-only)").count()


DRAWN_ON = [page for page in FIGURES if "/runs/" not in page and page != "book/intro.html"]


@each(DRAWN_ON)
def test_on_a_phone_a_figure_is_drawn_again_before_it_is_in_sight(site, parsed, chromium, name):
    still = ".cb-drawn:not(:has(+ .cb-live))"       # that no live part takes the place of
    figures = len(parsed[name].select(f"{still} svg.cb-wide"))
    with opened(chromium, (site / name).as_uri(), width=390) as page:
        unfold(page)
        for drawn in page.locator(still).all():
            drawn.scroll_into_view_if_needed()
        page.wait_for_function(
            f"() => !document.querySelector('{still}:is([data-later], :has([data-later]))')")
        narrow = page.locator(f"{still} svg.cb-narrow").evaluate_all(
            "all => all.filter(one => one.checkVisibility()).length")
        assert figures == narrow > 0
        assert not page.locator(f"{still} svg.cb-wide:visible").count()
        assert not page.evaluate("cut()"), "a text is cut"
        letters = page.locator("path[id^=DejaVu]").evaluate_all("all => all.map(one => one.id)")
        assert len(letters) == len(set(letters)) > 15, "a letter is there twice"
        assert not page.faults


LIVE = ["book/intro.html", *(f"notebooks/{work}.html" for work in (
    "tell", "idc", "deepcluster", "weights"))]


@each(LIVE)
def test_a_live_figure_takes_its_pictures_place_where_scripts_run(site, chromium, name):
    picture = ".cb-drawn:has(+ .cb-live)"
    with opened(chromium, (site / name).as_uri()) as page:
        if name != LIVE[0]:         # the front page begins with it
            assert not [file for file in page.loaded if "weights.js" in file], "before it is near"
            page.locator(picture).scroll_into_view_if_needed()
        page.wait_for_selector(".cb-live-runs")
        assert not page.locator(picture).is_visible() and not page.faults
        assert not violations(page)
        page.emulate_media(media="print")
        assert page.locator(picture).is_visible() and not page.locator(".cb-live").is_visible()
    with opened(chromium, (site / name).as_uri(), scripts=False) as page:
        assert page.locator(picture).is_visible()


@pytest.mark.parametrize("query, found", [
    ("95.16", "notebooks/tell.html"), ("95.17", None), ("softmax", "book/api.html")])
def test_the_search_finds_words_and_numbers(site, chromium, query, found):
    with opened(chromium, f"{(site / 'search.html').as_uri()}?q={query}") as page:
        page.wait_for_function("() => /finished|did not match/.test("
                               "document.getElementById('search-results').textContent)")
        links = page.locator("#search-results li a").evaluate_all("all => all.map(a => a.href)")
        assert any(found in link for link in links) if found else not links


def test_a_table_that_stacks_while_it_is_read_has_all_its_heads(site, chromium):
    early = """new MutationObserver(() => dispatchEvent(new Event("toggle")))
                 .observe(document, {childList: true, subtree: true});"""
    with opened(chromium, (site / "book/status.html").as_uri(), 390, first=early) as page:
        page.wait_for_selector("table.cb-status.cb-stacked")
        rows = page.locator("table.cb-status > tbody > tr:has(td)").evaluate_all(
            "rows => rows.map(row => row.querySelectorAll('td[data-head]').length)")
        heads = page.locator("table.cb-status > thead th").count()
        assert len(rows) > 20 and set(rows) == {heads - 1}


def explorables(parsed: dict[str, BeautifulSoup]) -> list[str]:
    """The pages with figures that have sliders."""
    found = [page for page, soup in parsed.items() if soup.select("figure .cb-steps")]
    assert len(found) > 4 and STEPS in found
    return found


def read(figure) -> str:
    """The words of a figure with sliders, whose one picture is in sight and is what they say."""
    said, title, pictures = figure.evaluate("stands").values()
    assert len(pictures) == (not said.endswith(": not run")), said
    for height, alt in pictures:
        assert height > 50 and title in said and title in alt, (said, title, height, alt)
    return said


@pytest.mark.slow
def test_every_position_of_every_explorable_is_reached_by_keys(site, parsed, chromium):
    for page in explorables(parsed):
        with opened(chromium, (site / page).as_uri(), width=390) as shown:
            unfold(shown)
            figures = shown.locator("figure:has(.cb-steps)")
            for figure in figures.all():
                first, *others = figure.get_by_role("slider").all()
                first.focus()               # what it steps through is loaded now
                shown.wait_for_function("one => !one.querySelector('[data-later]')",
                                        arg=figure.element_handle())
                last, *most = (int(each.get_attribute("max")) for each in (first, *others))
                for other in others:
                    other.press("Home")
                turns, seen = [other for other, n in zip(others, most, strict=True)
                               for _ in range(n)], set()
                for turn in (None, *turns):
                    turn and turn.press("ArrowRight")
                    first.press("Home")
                    seen.add(read(figure))
                    for _ in range(last):
                        shown.keyboard.press("ArrowRight")
                        seen.add(read(figure))
                assert len(seen) >= figure.locator(".cb-step").count(), "two positions say the same"
            switch(shown, "dark")
            for figure, key in product(figures.all(), ("Home", "End")):
                for slider in figure.get_by_role("slider").all():
                    slider.press(key)
                read(figure)
            assert not shown.faults


def test_without_scripts_an_explorable_shows_one_picture_and_no_bar(site, chromium):
    with opened(chromium, (site / STEPS).as_uri(), scripts=False) as page:
        figure = page.locator("figure:has(.cb-steps)").first
        assert figure.locator(".cb-step:visible, figcaption:visible").count() == 2
        assert not figure.locator(".cb-steps-bar:visible").count()


def test_an_explorable_plays_and_stops(site, chromium):
    with opened(chromium, (site / STEPS).as_uri()) as page:
        figure = page.locator("figure div.cb-steps").first
        words = figure.locator("output")
        assert words.inner_text().startswith("1 of ")
        for name, key, step in (("Next step", "Enter", 2), ("Next step", "Space", 3),
                                ("Previous step", "Enter", 2)):
            figure.get_by_role("button", name=name).press(key)
            assert words.inner_text().startswith(f"{step} of "), name
        figure.get_by_role("button", name="Play").press("Enter")
        page.wait_for_function("words => words.textContent.startsWith('4 of')",
                               arg=words.element_handle())
        figure.get_by_role("button", name="Pause").press("Enter")
        stopped = words.inner_text()
        page.wait_for_timeout(1000)  # twice what a picture stays
        assert words.inner_text() == stopped
        assert not page.faults


def test_the_scorecard_shows_headline_claims_and_unfolds_the_others(site, chromium):
    ids = {tier: {claim.id for claim, _ in scorecard().rows if claim.tier == tier}
           for tier in ("headline", "supporting", "minor")}
    with opened(chromium, (site / "book/scorecard.html").as_uri(), width=390) as page:
        def shown() -> set[str]:
            return set(page.locator("table.cb-claims .cb-says[id]:visible").evaluate_all(
                "rows => rows.map(row => row.id)"))

        assert shown() == ids["headline"]
        assert page.evaluate("document.documentElement.scrollHeight") <= 12_000
        for summary in page.locator(".cb-say > details > summary").all():
            summary.focus()
            page.keyboard.press("Enter")
        assert shown() == set.union(*ids.values())
        assert not page.faults
    # The address of a claim that was merged into another leads to a place that is in sight.
    address = (site / "book/scorecard.html").as_uri()
    with opened(chromium, f"{address}#tell-mnist-v-measure") as page:
        assert page.locator("#tell-mnist-v-measure").is_visible()
