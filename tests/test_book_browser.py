"""The built book in headless Chromium with the network off: what a reader sees, hears and types.

Every page is opened once, on a wide screen in light colors, and checked by axe-core; six of all
kinds also in dark and on a phone. Colors inside pictures are not seen by axe-core;
tests/test_figures.py compares those.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import matplotlib.image
import pytest
from _pages import CHAPTERS, INDEXES, TOC
from bs4 import BeautifulSoup

from clusterbook.evidence import scorecard

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome",
                                               "google-chrome-stable"))), None)
pytestmark = [pytest.mark.browser,
              pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")]
# What the theme says of itself; anything else on the console is taken for a fault.
HARMLESS = ("[PST]: ", "[togglebutton]: ")
WIDE, PHONE = 1280, 412  # pixels
WORD = "shuffles"  # of the first chapter
STEPS = "notebooks/deepcluster.html"  # has figures in steps
SIX = ["book/intro.html", "book/scorecard.html", "book/errata.html", "book/parameters.html",
       "book/rerun.html", STEPS]


# --- the browser -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium():
    """One browser for all tests of a worker."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=BROWSER, args=[
            "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage",
            "--disable-background-networking", "--disable-component-update",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"])
        yield running
        running.close()


@contextmanager
def opened(chromium, address: str, width: int = WIDE, scheme: str = "light") -> Iterator:
    """A page after everything on it is rendered; ``page.said`` is what its console says."""
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.said = []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("response", lambda answer: answer.ok or answer.status < 400 or page.said.append(
        f"{answer.status}: {answer.url}"))
    page.on("requestfailed", lambda request: page.said.append(f"{request.url}: {request.failure}"))
    page.goto(address)
    page.evaluate("() => window.MathJax?.startup?.promise?.then(() => null)")
    try:
        yield page
    finally:
        context.close()


def faults(page) -> list[str]:
    return [line for line in page.said if not line.startswith(HARMLESS)]


def switch(page, scheme: str) -> None:
    """Show the page as a reader sees it whose system is light or dark."""
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme",
                           arg=scheme)
    # Colors change gradually; half-way they are nobody's.
    page.evaluate("() => Promise.all(document.getAnimations().map(a => a.finished))"
                  ".then(() => null)")


# --- what would be seen ----------------------------------------------------------------------


def test_a_fault_on_the_console_would_be_seen(chromium, tmp_path):
    path = tmp_path / "faulty.html"
    path.write_text("<title>t</title>"
                    "<script>console.error('a fault'); nothing()</script>"
                    "<script type=module>await fetch('https://example.invalid/')</script>")
    with opened(chromium, path.as_uri()) as page:
        page.wait_for_timeout(200)
        for fault in ("a fault", "nothing is not defined", "Failed to fetch"):
            assert any(fault in line for line in faults(page)), (fault, page.said)


# --- for everybody's eyes: axe-core ----------------------------------------------------------

# Contrast is compared once for each combination of a text's color, size and weight and of the
# grounds below it: on a page with thousands of alike elements axe would need minutes. The others
# are not displayed meanwhile, so that no time goes into where they lie.
CHECK = """
async everything => {
  const options = {elementRef: false, resultTypes: ["violations"], preload: false};
  const found = [];
  // First: the theme takes what is not displayed for something that nobody has to scroll.
  if (everything)
    found.push(...(await axe.run(document, {...options, rules: {"color-contrast": {enabled: false}}}
    )).violations);
  const grounds = new Map();
  const below = element => {
    if (!element) return "";
    if (!grounds.has(element)) {
      const style = getComputedStyle(element);
      const own = [style.backgroundColor, style.backgroundImage, style.opacity].join();
      const above = below(element.parentElement);
      grounds.set(element, own === "rgba(0, 0, 0, 0),none,1" ? above : own + "/" + above);
    }
    return grounds.get(element);
  };
  const kinds = {}, chosen = [], kept = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const holds = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!(holds || element.matches("input, select, textarea")) || !element.checkVisibility())
      continue;
    const style = getComputedStyle(element);
    const kind = [element.tagName, style.color, style.fontSize, style.fontWeight, below(element)]
      .join();
    kinds[kind] = (kinds[kind] || 0) + 1;
    if (kinds[kind] <= 2) chosen.push(element);
  }
  for (const element of chosen)
    for (let above = element; above; above = above.parentElement) kept.add(above);
  const inside = element => { kept.add(element); [...element.children].forEach(inside); };
  chosen.forEach(inside);
  const hidden = [];
  const hide = element => {
    if (kept.has(element)) [...element.children].forEach(hide);
    else if (element.style) { hidden.push([element, element.style.cssText]);
                              element.style.setProperty("display", "none", "important"); }
  };
  hide(document.body);
  found.push(...(await axe.run({include: chosen}, {...options, runOnly: ["color-contrast"]}))
    .violations);
  hidden.forEach(([element, style]) => element.style.cssText = style);
  return {contrasts: chosen.length, found: found.flatMap(rule => rule.nodes.map(
    node => [rule.id, node.target.flat().join(" "), node.html, node.failureSummary]))};
}
"""


def violations(page, everything: bool = True) -> list[str]:
    """What axe-core finds on a page: with its rules of WCAG 2.2, A and AA, and of good practice."""
    if not page.evaluate("'axe' in window"):
        script = Path(find_spec("axe_playwright_python").origin).parent / "axe.min.js"
        page.evaluate(script.read_text(encoding="utf-8"))
    result = page.evaluate(CHECK, everything)
    assert result["contrasts"] >= 1
    return [f"{rule}: {target}: {html[:160]}: {' '.join(why.split())[:300]}"
            for rule, target, html, why in result["found"]]


def test_what_axe_looks_for_would_be_found(chromium, tmp_path):
    path = tmp_path / "poor.html"
    path.write_text("""<!doctype html><html lang=en><title>poor</title><style>
      div {overflow: auto; width: 9em; height: 2em; white-space: nowrap}
      @media (prefers-color-scheme: dark) {em {color: #333} body {background: #111; color: #eee}}
      </style><main><h1>Poor</h1>
      <p>one <b>two</b> three</p><p>four <span style="color: #aaa">light gray</span></p>
      <p>five <em>dark</em></p><img src=x.png><input><div>a long line that has to be scrolled</div>
      </main>""" + "<p>six</p>" * 50)
    with opened(chromium, path.as_uri(), PHONE) as page:
        rules = {line.split(":")[0] for line in violations(page)}
        assert rules >= {"color-contrast", "image-alt", "label", "region",
                         "scrollable-region-focusable"}
        gray = [line for line in violations(page, everything=False)]
        assert len(gray) == 1 and "light gray" in gray[0]
        page.emulate_media(color_scheme="dark")
        there = violations(page, everything=False)
        assert len(there) == 1 and "<em>" in there[0]


TOO_WIDE = "() => document.scrollingElement.scrollWidth - document.documentElement.clientWidth"


# The theme lets keys reach a box only while it scrolls, and looks a moment after a resize.
REACHABLE = """() => [...document.querySelectorAll("article :is(table, pre)")].every(wide => {
  const box = wide.closest("[role=region]") || wide;
  const fits = wide.getBoundingClientRect().right <= innerWidth
    && (wide.scrollWidth <= wide.clientWidth || !wide.matches("pre"));
  return fits || box.tabIndex === 0 && (wide.matches("pre") ||
    box.getAttribute("aria-label")?.trim() && getComputedStyle(box).overflowX === "auto");
})"""


def test_a_page_or_a_table_that_is_too_wide_would_be_seen(chromium, tmp_path):
    path = tmp_path / "wide.html"
    path.write_text("<!doctype html><meta name=viewport content='width=device-width'><article>"
                    "<table style='width: 900px'><tr><td>too wide</td></tr></table></article>")
    with opened(chromium, path.as_uri(), PHONE) as page:
        assert page.evaluate(TOO_WIDE) == 900 + 8 - PHONE
        assert not page.evaluate(REACHABLE)


# --- every page ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*TOC, *INDEXES])
def test_a_page_renders_and_everybody_can_read_it(site, chromium, name):
    with opened(chromium, (site / name).as_uri()) as page:
        assert not faults(page), "on the console"
        assert page.locator("mjx-container svg").count() >= page.locator(".math").count()
        assert not page.locator("mjx-merror, [data-mjx-error]").count(), "an equation has an error"
        assert not violations(page), "on a wide screen"
        if name in (*SIX, "book/api.html"):     # whose signatures have colors of their own
            switch(page, "dark")
            assert not violations(page, everything=False), "in the dark"
            switch(page, "light")
        for width in (320, PHONE):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(TOO_WIDE) <= 0, f"scrolls sideways in {width} pixels"
        page.wait_for_function(REACHABLE)      # keys scroll what is wide
        if name in SIX:
            assert not violations(page), "on a phone"


def test_light_is_light_and_dark_is_dark(site, chromium, tmp_path):
    brightness = {}
    for scheme in ("light", "dark"):
        with opened(chromium, (site / "book/intro.html").as_uri(), scheme=scheme) as shown:
            shot = tmp_path / f"{scheme}.png"
            shown.screenshot(path=shot)
            brightness[scheme] = matplotlib.image.imread(shot)[..., :3].mean()
    assert brightness["light"] > 0.75 and brightness["dark"] < 0.5, brightness


# --- by keys ---------------------------------------------------------------------------------


def test_a_wide_table_scrolls_by_arrow_keys(site, chromium):
    with opened(chromium, (site / "book/parameters.html").as_uri(), PHONE) as page:
        box = page.locator("article [role=region]").first
        assert box.evaluate("box => box.scrollWidth > box.clientWidth")
        box.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("box => box.scrollLeft > 0", arg=box.element_handle(), timeout=5000)


def test_the_first_key_leads_past_the_navigation(site, chromium):
    with opened(chromium, (site / CHAPTERS[0]).as_uri()) as page:
        page.keyboard.press("Tab")
        skip = page.locator(":focus")
        assert skip.inner_text().strip() == "Skip to main content"
        page.wait_for_timeout(300)  # it moves into sight
        place = skip.bounding_box()
        assert place["y"] >= 0 and place["x"] >= 0 and place["height"] > 10
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


# The ring of the focused element: what is drawn, in which color, on which ground.
RING = """() => {
  const element = document.activeElement;
  if (element === document.body) return null;
  const card = element.matches(".sd-stretched-link");  // the link is the whole card
  const style = getComputedStyle(element, card ? "::after" : null);
  let ground = element.parentElement, color = "rgba(0, 0, 0, 0)";
  while (ground && color === "rgba(0, 0, 0, 0)") {
    color = getComputedStyle(ground).backgroundColor; ground = ground.parentElement;
  }
  return {html: element.outerHTML.slice(0, 150), style: style.outlineStyle,
          width: parseFloat(style.outlineWidth), color: style.outlineColor,
          ground: color === "rgba(0, 0, 0, 0)" ? "rgb(255, 255, 255)" : color};
}"""


def luminance(color: str) -> float:
    """Of WCAG 2, from what the browser computes: ``rgb(r, g, b)``."""
    channels = [int(number) / 255 for number in re.findall(r"\d+", color)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("name", "scheme"), [("book/scorecard.html", "dark"), (STEPS, "light")])
def test_what_has_the_focus_has_a_ring(site, chromium, name, scheme):
    with opened(chromium, (site / name).as_uri(), scheme=scheme) as page:
        seen = {}
        for _ in range(40):
            page.keyboard.press("Tab")
            ring = page.evaluate(RING)
            if ring:
                seen[ring["html"]] = ring
        # What lies far down the page: a table's region, the controls of a figure, the filter.
        for far in page.locator("article :is([role=region], .cb-steps-bar *, .cb-filter *)").all():
            if far.evaluate("far => far.matches('button, input, select, [tabindex]')"):
                far.focus()
                page.keyboard.press("Shift")  # the last thing used is the keyboard
                seen[far.evaluate("far => far.outerHTML.slice(0, 150)")] = page.evaluate(RING)
        assert len(seen) > 20
        for ring in seen.values():
            assert ring["style"] not in ("none", "auto") and ring["width"] >= 2, ring
            assert contrast(ring["color"], ring["ground"]) >= 3, ring


def test_a_figure_in_steps_works_by_keys(site, chromium):
    with opened(chromium, (site / STEPS).as_uri()) as page:
        figure = page.locator("figure.cb-steps").first
        number = figure.locator("img").count()
        slider, words = figure.get_by_role("slider"), figure.locator("output")

        def at() -> int:
            shown = figure.locator("img:not([hidden])")
            assert shown.count() == 1 and shown.is_visible()
            told = re.match(rf"(\d+) of {number}: ", words.inner_text())
            assert f"Step {told[1]} of {number}" in shown.get_attribute("alt")
            assert slider.input_value() == told[1]
            return int(told[1])

        slider.focus()
        assert at() == 1
        for key, step in (("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("End", number),
                          ("Home", 1), ("ArrowLeft", 1)):
            page.keyboard.press(key)
            assert at() == step, key
        for name, key, step in (("Next step", "Enter", 2), ("Next step", "Space", 3),
                                ("Previous step", "Enter", 2)):
            figure.get_by_role("button", name=name).focus()
            page.keyboard.press(key)
            assert at() == step, name
        assert not faults(page)


def test_the_animation_plays(site, chromium):
    with opened(chromium, (site / STEPS).as_uri()) as page:
        figure = page.locator("figure.cb-steps").last
        pictures = []

        def picture() -> str:
            shown = figure.locator("img:not([hidden])")
            return shown.get_attribute("alt") + figure.screenshot().hex()[:4000]

        pictures.append(picture())
        figure.get_by_role("button", name="Play").press("Enter")
        for step in (2, 3, 4):
            page.wait_for_function("([figure, start]) => figure.querySelector('output')"
                                   ".textContent.startsWith(start)",
                                   arg=[figure.element_handle(), f"{step} of"], timeout=10_000)
            pictures.append(picture())
        figure.get_by_role("button", name="Pause").press("Enter")
        stopped = figure.locator("output").inner_text()
        page.wait_for_timeout(1000)  # twice what a picture stays
        assert figure.locator("output").inner_text() == stopped
        assert len(set(pictures)) == 4
        assert not faults(page)


def test_the_scorecards_rows_are_chosen_by_keys(site, chromium):
    card = scorecard()
    with opened(chromium, (site / "book/scorecard.html").as_uri()) as page:
        work, verdict = page.locator(".cb-filter select").all()
        wanted = [row for row in card.rows if row[0].chapter == "tell"]
        label = wanted[0][1].label

        def shown() -> list[str]:
            return page.locator("tr[data-work]:not([hidden])").evaluate_all(
                "rows => rows.map(row => row.id)")

        assert len(shown()) == len(card.rows)
        work.focus()
        page.keyboard.type("tell")
        assert shown() == [claim.id for claim, _ in wanted]
        page.keyboard.press("Tab")
        assert verdict.evaluate("box => box === document.activeElement")
        page.keyboard.type(label)
        few = [claim.id for claim, verdict in wanted if verdict.label == label]
        assert shown() == few
        assert page.locator(".cb-filter output").inner_text() == (
            f"{len(few)} of {len(card.rows)} claims")
        assert not faults(page)


# --- search ----------------------------------------------------------------------------------


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments) -> None:
        """Say nothing."""


@pytest.fixture
def address(site):
    """The site by http: from a file, a browser does not let the search read pages for excerpts."""
    handler = partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def results(page) -> list[str]:
    page.wait_for_function("/found|did not match|finished/i.test("
                           "document.querySelector('#search-results').textContent)")
    links = BeautifulSoup(page.content(), "html.parser").select("ul.search a")
    return [link["href"].partition("#")[0].partition("?")[0] for link in links]


def test_the_search_finds_a_word_of_the_chapter_by_keys_and_nothing_where_nothing_is(
        address, chromium):
    with opened(chromium, address + "book/intro.html") as page:
        page.keyboard.press("Control+k")
        assert page.locator(":focus").get_attribute("type") == "search"
        assert not violations(page), "with the search open"
        page.keyboard.type(WORD)
        page.keyboard.press("Enter")
        page.wait_for_url("**/search.html?q=" + WORD)
        assert "notebooks/weights.html" in results(page)
        page.goto(address + "search.html?q=xyzzyplugh")
        assert not results(page) and not faults(page)


def test_axe_finds_nothing_in_the_opened_menu_of_a_phone(site, chromium):
    with opened(chromium, (site / "book/status.html").as_uri(), PHONE, "dark") as page:
        page.locator("button.primary-toggle").first.click()
        page.wait_for_timeout(500)
        assert page.get_by_role("link", name="Scorecard").first.is_visible()
        assert not violations(page)
