"""The built book, read as files and opened in a browser with the network off.

The book is built once, from the committed outputs; a warning in any page fails that build.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import matplotlib.image
import pytest
import yaml
from _support import CHECKOUT, tree
from bs4 import BeautifulSoup

from clusterbook import paths
from clusterbook.book.build import build, pages
from clusterbook.evidence import scorecard

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome",
                                               "google-chrome-stable"))), None)
browser = pytest.mark.browser
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
TOC = sorted(page.with_suffix(".html").as_posix() for page in pages(CHECKOUT))
CHAPTERS = [f"notebooks/{name}.html" for name in paths.chapters()]
# What the theme says of itself; anything else on the console is taken for a fault.
HARMLESS = ("[PST]: ", "[togglebutton]: ")
PHONE = 390  # pixels wide
WORD = "shuffles"  # of the first chapter


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site, and whether the build left the checkout as it was."""
    output = tmp_path_factory.mktemp("site")
    watched = [CHECKOUT / name for name in ("book", "notebooks", "data/claims")]
    before = [tree(folder, ["__pycache__"]) for folder in watched]
    index = build(run=False, output=output)
    after = [tree(folder, ["__pycache__"]) for folder in watched]
    return index.parent, before == after


@pytest.fixture(scope="module")
def site(built) -> Path:
    return built[0]


@pytest.fixture(scope="module")
def parsed(site) -> dict[str, BeautifulSoup]:
    """Every page by its path in the site."""
    return {path.relative_to(site).as_posix():
            BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
            for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}


# --- read as files ---------------------------------------------------------------------------


def test_the_checkout_is_not_written(built):
    assert built[1]


def test_every_page_of_the_contents_is_there(site, parsed):
    for page in TOC:
        assert page in parsed
        assert parsed[page].find("h1").get_text(strip=True)
    assert set(CHAPTERS) <= set(TOC), "a chapter is not in the table of contents"
    assert 'url=book/intro.html' in (site / "index.html").read_text()


def test_the_notebooks_of_the_pages_can_be_taken_along(site, parsed):
    links = [a["href"] for a in parsed["book/rerun.html"].find_all("a", download=True)]
    assert "../notebooks.zip" in links
    with zipfile.ZipFile(site / "notebooks.zip") as archive:
        packed = {name.replace(".ipynb", ".html") for name in archive.namelist()}
    assert set(CHAPTERS) < packed < set(TOC)


def places(soup: BeautifulSoup) -> set[str]:
    """The fragments that a link to a page may name."""
    return {element[key] for key in ("id", "name") for element in soup.find_all(**{"attrs": {
        key: True}})}


def broken(page: str, soup: BeautifulSoup, known: dict[str, set[str]], site: Path):
    """Every address in a page that leads nowhere inside the site."""
    for tag, attribute in (("a", "href"), ("link", "href"), ("script", "src"), ("img", "src"),
                           ("source", "src"), ("iframe", "src")):
        for element in soup.find_all(tag, **{attribute: True}):
            address = element[attribute]
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or address in ("", "#"):
                continue
            target = page
            if parts.path:
                path = ((site / page).parent / unquote(parts.path)).resolve()
                if not path.is_file() or not path.is_relative_to(site.resolve()):
                    yield f"{page}: {address}: no such file"
                    continue
                target = path.relative_to(site.resolve()).as_posix()
            if parts.fragment and target in known and unquote(parts.fragment) not in known[target]:
                yield f"{page}: {address}: no such place in {target}"


def test_every_internal_link_leads_somewhere(site, parsed):
    known = {page: places(soup) for page, soup in parsed.items()}
    found = [line for page, soup in parsed.items() for line in broken(page, soup, known, site)]
    assert not found, "\n".join(found)


def test_a_link_that_leads_nowhere_would_be_seen(tmp_path):
    page = ("<a href='#here'>1</a><a href='other.html#there'>2</a><a href='#'>3</a>"
            "<a href='https://example.org/x'>4</a><p id='here'>"
            "<a href='gone.html'>5</a><a href='other.html#gone'>6</a><img src='gone.png'>")
    (tmp_path / "a page.html").write_text(page)
    (tmp_path / "other.html").write_text("<a name='there'></a><a href='a%20page.html#here'>1</a>")
    soups = {path.name: BeautifulSoup(path.read_text(), "html.parser")
             for path in tmp_path.iterdir()}
    known = {name: places(soup) for name, soup in soups.items()}
    found = [line for name, soup in soups.items() for line in broken(name, soup, known, tmp_path)]
    assert found == ["a page.html: gone.html: no such file",
                     "a page.html: other.html#gone: no such place in other.html",
                     "a page.html: gone.png: no such file"]


def test_no_page_holds_a_traceback_or_an_empty_output(parsed):
    for page, soup in parsed.items():
        assert not soup.select(".traceback"), f"{page} shows a traceback"
        if page in TOC and page != "book/api.html":  # the docstring of an error shows one
            assert "Traceback (most recent call last)" not in soup.get_text(), page
        for output in soup.select(".cell_output"):
            assert output.get_text(strip=True) or output.find(["img", "svg"]), \
                f"{page}: a cell shows an empty output"


def test_chapters_show_outputs(parsed):
    for page in CHAPTERS:
        assert len(parsed[page].select(".cell_output")) >= 3, page
        assert parsed[page].select("figure img"), f"{page} shows no figure"


def test_every_image_has_a_text_that_is_no_file_name(parsed):
    for page, soup in parsed.items():
        for image in soup.find_all("img"):
            text = image.get("alt", "").strip()
            if "logo__image" in image.get("class", ()):
                continue  # the theme shows the title beside it; twice would be read aloud twice
            assert text, f"{page}: {image.get('src')} has no alternative text"
            assert not re.search(r"\.(png|svg|jpe?g|gif|webp)$|^[0-9a-f]{16,}|_images/", text), \
                f"{page}: the alternative text {text!r} is a file name"


def test_every_figure_has_a_caption(parsed):
    for page in TOC:
        for image in parsed[page].select(".cell_output img"):
            figure = image.find_parent("figure")
            assert figure and figure.find("figcaption").get_text(strip=True), \
                f"{page}: {image['alt']} has no caption"


def test_nothing_that_a_page_needs_comes_from_the_network(site, parsed):
    for page, soup in parsed.items():
        needed = [*soup.find_all("script", src=True), *soup.find_all("img", src=True),
                  *soup.find_all("iframe", src=True),
                  *(link for link in soup.find_all("link", href=True)
                    if {"stylesheet", "icon", "preload"} & set(link.get("rel", [])))]
        for element in needed:
            address = element.get("src") or element["href"]
            assert not re.match(r"(https?:)?//", address), f"{page} loads {address}"
    for style in site.rglob("*.css"):
        address = r"(?:url\(|@import\s+)['\"]?((?:https?:)?//[^'\")]+)"
        loaded = re.findall(address, style.read_text(encoding="utf-8"))
        assert not loaded, f"{style.name} loads {loaded}"


def test_the_search_index_knows_every_page_and_a_word_of_the_chapter(site):
    from sphinx.search.en import SearchEnglish

    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    assert {f"{name}.html" for name in index["docnames"]} >= set(TOC)
    found = index["terms"][SearchEnglish({}).stem(WORD)]
    found = found if isinstance(found, list) else [found]
    assert "notebooks/weights" in [index["docnames"][i] for i in found]


def test_buttons_that_need_an_address_are_absent_without_one(parsed):
    config = yaml.safe_load((CHECKOUT / "_config.yml").read_text(encoding="utf-8"))
    address = config["repository"]["url"]
    for page in CHAPTERS:
        links = [a["href"] for a in parsed[page].find_all("a", href=True)]
        for host in ("colab.research.google.com", "mybinder.org", "kaggle.com"):
            there = [link for link in links if urlsplit(link).netloc.endswith(host)]
            assert bool(there) == bool(address), f"{page}: {host}"


# --- opened in a browser ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """Run headless Chromium with the network off; what it prints and what its console said."""
    profile = tmp_path_factory.mktemp("profile")

    def run(address: str, *options: str) -> tuple[str, list[str]]:
        done = subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
             "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--disable-dev-shm-usage", f"--user-data-dir={profile}",
             "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
             "--enable-logging=stderr", "--virtual-time-budget=10000", *options, address],
            capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        said = re.findall(r":CONSOLE[:(]\d+\)?\] \"(.*)\", source: ", done.stderr)
        return done.stdout, [line for line in said if not line.startswith(HARMLESS)]

    return run


@browser
@needs_browser
def test_a_fault_on_the_console_would_be_seen(chromium, tmp_path):
    page = tmp_path / "faulty.html"
    page.write_text("<title>t</title>"
                    "<script>console.error('a fault'); nothing()</script>"
                    "<script type=module>await fetch('https://example.invalid/')</script>")
    _, said = chromium(page.as_uri(), "--dump-dom")
    for fault in ("a fault", "nothing is not defined", "Failed to fetch"):
        assert any(fault in line for line in said), (fault, said)


@browser
@needs_browser
@pytest.mark.parametrize("page", TOC)
def test_a_page_opens_without_the_network(site, parsed, chromium, page):
    dom, said = chromium((site / page).as_uri(), "--dump-dom")
    assert not said, f"{page}: the console says {said}"
    written = len(parsed[page].select(".math"))
    opened = BeautifulSoup(dom, "html.parser")
    assert len(opened.select("mjx-container")) >= written, f"{page}: mathematics is not rendered"
    assert not opened.select("mjx-merror, [data-mjx-error]"), f"{page}: an equation has an error"


@browser
@needs_browser
def test_mathematics_is_there_to_be_rendered(parsed):
    # A notebook for one's own table has no formulas.
    with_formulas = [page for page in CHAPTERS if not page.endswith("_table.html")]
    assert all(parsed[page].select(".math") for page in [*with_formulas, "book/notation.html"])


@browser
@needs_browser
def test_the_search_finds_a_word_of_the_chapter(site, chromium):
    # By http: from a file, a browser does not let the search read the pages for their excerpts.
    handler = partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/search.html?q="
        dom, said = chromium(address + WORD, "--dump-dom")
        nothing, _ = chromium(address + "xyzzyplugh", "--dump-dom")
        server.shutdown()
    assert not said, said

    def results(page: str) -> list[str]:
        links = BeautifulSoup(page, "html.parser").select("ul.search a")
        return [link["href"].partition("#")[0].partition("?")[0] for link in links]

    assert "notebooks/weights.html" in results(dom)
    assert not results(nothing)


@browser
@needs_browser
def test_the_scorecards_rows_can_be_chosen(site, chromium):
    page = site / "book" / "scorecard.html"
    card = scorecard()
    wanted = card.by_chapter()["tell"]
    few = [claim.id for claim, verdict in wanted if verdict.label == wanted[0][1].label]
    tried = page.with_name("tried.html")
    tried.write_text(page.read_text(encoding="utf-8").replace("</body>", f"""<script>
      addEventListener("load", () => {{
        const [work, verdict] = document.querySelectorAll(".cb-filter select");
        work.value = "tell"; verdict.value = "{wanted[0][1].label}";
        work.dispatchEvent(new Event("input", {{bubbles: true}}));
      }});
    </script></body>"""), encoding="utf-8")
    try:
        dom, said = chromium(tried.as_uri(), "--dump-dom")
    finally:
        tried.unlink()
    assert not said, said
    parsed = BeautifulSoup(dom, "html.parser")
    assert not parsed.select_one(".cb-filter").has_attr("hidden")
    assert [row["id"] for row in parsed.select("tr[data-work]:not([hidden])")] == few
    assert parsed.select_one(".cb-filter output").get_text() == (
        f"{len(few)} of {len(card.rows)} claims")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments) -> None:
        """Say nothing."""


@browser
@needs_browser
@pytest.mark.parametrize("page", ["book/intro.html", CHAPTERS[0]])
def test_light_is_light_and_dark_is_dark(site, chromium, tmp_path, page):
    brightness = {}
    for name, number in (("dark", 0), ("light", 1)):
        shot = tmp_path / f"{name}.png"
        chromium((site / page).as_uri(), f"--screenshot={shot}", "--window-size=1200,1600",
                 "--hide-scrollbars", f"--blink-settings=preferredColorScheme={number}")
        brightness[name] = matplotlib.image.imread(shot)[..., :3].mean()
    assert brightness["light"] > 0.75, brightness
    assert brightness["dark"] < 0.5, brightness


@browser
@needs_browser
def test_no_page_scrolls_sideways_on_a_phone(site, chromium, tmp_path):
    wide = tmp_path / "wide.html"
    wide.write_text("<!doctype html><div style='width: 900px'>a page that is too wide</div>")
    addresses = {page: (site / page).as_uri() for page in TOC} | {"wide": wide.as_uri()}
    frames = "".join(f"<iframe name='{name}' src='{address}' width={PHONE} height=800></iframe>"
                     for name, address in addresses.items())
    everything = tmp_path / "phones.html"
    everything.write_text(f"""<!doctype html><title>phones</title>{frames}<pre></pre><script>
      addEventListener("load", () => setTimeout(() => {{
        const widths = {{}};
        for (const frame of document.querySelectorAll("iframe"))
          widths[frame.name] = frame.contentDocument.documentElement.scrollWidth;
        document.querySelector("pre").textContent = JSON.stringify(widths);
      }}, 6000));
    </script>""")
    dom, _ = chromium(everything.as_uri(), "--dump-dom", "--allow-file-access-from-files",
                      "--window-size=1200,900")
    widths = json.loads(BeautifulSoup(dom, "html.parser").find("pre").get_text() or "{}")
    assert widths.pop("wide", 0) >= 900, "this test could not see a page that is too wide"
    assert set(widths) == set(TOC)
    assert not {page: width for page, width in widths.items() if width > PHONE}
