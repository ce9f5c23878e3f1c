"""The built book, read as files: what every page holds, and what it needs."""

from __future__ import annotations

import importlib.util
import json
import re
import zipfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from _pages import CHAPTERS, TOC
from _support import CHECKOUT
from bs4 import BeautifulSoup

WORD = "shuffles"  # of the first chapter
spec = importlib.util.spec_from_file_location("pages", CHECKOUT / "book" / "_ext" / "pages.py")
extension = importlib.util.module_from_spec(spec)
spec.loader.exec_module(extension)


# --- the extensions ------------------------------------------------------------------------------


def test_regions_of_a_page_have_distinct_names():
    table = '<div class="pst-scrollable-table-container">'
    made = BeautifulSoup(extension.reachable(
        f'<h2>Data<a class="headerlink"></a></h2>{table}</div>{table}</div>'), "html.parser")
    assert [(box["role"], box["tabindex"], box["aria-label"]) for box in made.find_all("div")] == [
        ("region", "0", "Table: Data"), ("region", "0", "Table: Data (2)")]
    contents = '<a href="runs.html">Runs</a><details><summary><i></i></summary>'
    assert '<summary aria-label="Pages under Runs">' in extension.named(contents)


def test_columns_in_print_have_bounded_shares():
    assert extension.shares([[10, 40, 0], [12, 20, 4]]) == [22, 67, 11]


def test_kaggle_opens_the_notebook_of_the_page():
    assert extension.kaggle_url("https://github.com/o/r/", "v1", "notebooks/x") == (
        "https://kaggle.com/kernels/welcome?src=https://github.com/o/r/blob/v1/notebooks/x.ipynb")


# --- the pages -----------------------------------------------------------------------------------


def test_every_page_of_the_contents_is_there(built, site, parsed):
    assert built[1], "the build wrote into the checkout"
    for page in TOC:
        assert parsed[page].find("h1").get_text(strip=True)
    assert set(CHAPTERS) <= set(TOC), "a chapter is not in the table of contents"
    assert 'url=book/intro.html' in (site / "index.html").read_text()
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < 60e6


def test_mathematics_is_there_to_be_rendered(parsed):
    # A notebook for one's own table has no formulas.
    with_formulas = [page for page in CHAPTERS if not page.endswith("_table.html")]
    assert all(parsed[page].select(".math") for page in [*with_formulas, "book/notation.html"])


def test_the_notebooks_of_the_pages_can_be_taken_along(site, parsed):
    links = [a["href"] for a in parsed["book/rerun.html"].find_all("a", download=True)]
    assert "../notebooks.zip" in links
    with zipfile.ZipFile(site / "notebooks.zip") as archive:
        packed = {name.replace(".ipynb", ".html") for name in archive.namelist()}
    assert set(CHAPTERS) < packed < set(TOC)
    assert not any("runs/" in name for name in packed), "a recorded run is twice in the book"


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


def test_outputs_are_shown_with_captions_and_without_tracebacks(parsed):
    for page, soup in parsed.items():
        assert not soup.select(".traceback"), f"{page} shows a traceback"
        if page in TOC and page != "book/api.html":  # the docstring of an error shows one
            assert "Traceback (most recent call last)" not in soup.get_text(), page
        for output in soup.select(".cell_output"):
            pictures = output.find_all("img")
            assert output.get_text(strip=True) or pictures or output.find("svg"), \
                f"{page}: a cell shows an empty output"
            for image in pictures:
                figure = image.find_parent("figure")
                assert figure and figure.find("figcaption").get_text(strip=True), \
                    f"{page}: {image['alt']} has no caption"
    for page in CHAPTERS:
        assert len(parsed[page].select(".cell_output")) >= 3, page
        assert parsed[page].select("figure img"), f"{page} shows no figure"


def poor(text: str, caption: str | None) -> str | None:
    """What is wrong with an alternative text."""
    if re.search(r"\.(png|svg|jpe?g|gif|webp)\b|\b[0-9a-f]{16,}|_images/", text):
        return "is a file name"
    if len(text) < 40:
        return "is too short to say what the image shows"
    if caption and " ".join(text.split()) in " ".join(caption.split()):
        return "repeats the caption"
    return None


def test_every_image_has_a_text_that_says_what_it_shows(parsed):
    found, count = [], 0
    for page, soup in parsed.items():
        for image in soup.find_all("img"):
            # The theme shows the book's title beside its logo, and Sphinx draws a minus sign: a
            # word for either would be read aloud twice.
            if {"logo__image", "toggler"} & set(image.get("class", ())):
                continue
            figure, text = image.find_parent("figure"), image.get("alt", "").strip()
            caption = figure.find("figcaption") if figure else None
            wrong = poor(text, caption and caption.get_text(" ", strip=True))
            count += 1
            if wrong:
                found.append(f"{page}: {image.get('src')[:60]}: {text!r} {wrong}")
    assert count > 100
    assert not found, "\n".join(found)


def test_a_poor_text_of_an_image_would_be_seen():
    caption = "Fig. 1 Two curves fall: the loss of training and  that of testing. More words. #"
    for text in ("", "a figure", "0f13999d6b63c475b1f4ee1a721d694a2628ee0583.png",
                 "../_images/the-curves-of-two-runs-of-a-method",
                 "Two curves fall: the loss of training and that of testing."):
        assert poor(text, caption), text
    good = "Two curves against the epoch fall and level off, the upper one of testing."
    assert poor(good, caption) is None


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


def test_every_signature_could_be_read_by_sphinx(parsed):
    signatures = [" ".join(line.get_text().split()) for line in
                  parsed["book/api.html"].select("dl:is(.function, .method, .class) > dt.sig")]
    assert len(signatures) > 50
    quoted = re.compile(r"'[^']*'")     # a sign that is a value, such as '<'
    assert not [line for line in signatures if set("~<") & set(quoted.sub("", line))]


def test_an_equation_leads_to_its_function_in_a_table(parsed):
    section = parsed["book/api.html"].find(id="from-an-equation-to-its-code")
    cells = [[cell.get_text() for cell in row.find_all("td")] for row in section.find_all("tr")]
    found = {(row[0], row[1]) for row in cells if row}
    assert ("4, 5, 6", "ClusterLayer.logits") in found
    assert ("15", "TELL._joint_step") in found and len(section.find_all("table")) == 3


def test_the_opening_page_loads_little_of_its_own(site, parsed):
    page = site / "book" / "intro.html"
    pictures = [page.parent / image["src"] for image in parsed["book/intro.html"].select("img")]
    own = {page, site / "_static" / "clusterbook.css", *(path.resolve() for path in pictures)}
    assert len(own) > 3 and sum(path.stat().st_size for path in own) <= 0.5e6, own
