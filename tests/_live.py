"""What the tests of the live figures share: pages like the book's, and what each must do."""

import json
import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from _browser import opened, violations
from _support import CHECKOUT

LIVE = CHECKOUT / "book" / "assets" / "live"
ASKS = Path(__file__).with_name("live.js").read_text(encoding="utf-8")


def address(folder: Path, name: str, scripts: str = LIVE.as_uri()) -> str:
    """A page like the book's with a picture and the live part that follows it."""
    from clusterbook import figures

    styles = (CHECKOUT / "book/assets/clusterbook.css").as_uri()
    file = folder / f"{name}.html"
    file.write_text(
        "<!doctype html><html lang=en data-theme=light><meta charset=utf-8><title>Live</title>"
        "<meta name=viewport content='width=device-width'>"
        f"<link rel=stylesheet href='{styles}'>"
        "<body><main><h1>Live</h1><img class=picture alt='A picture of digits' src='"
        f"data:image/gif;base64,R0lGODlhAQABAAAAACw='>{figures.live.html(name, scripts)}</main>",
        encoding="utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def live(chromium, tmp_path_factory):
    """The page of the figure of a name, which is running; it is opened once."""
    folder, pages = tmp_path_factory.mktemp("live"), {}
    with ExitStack() as stack:

        def running(name: str):
            if name not in pages:
                pages[name] = stack.enter_context(
                    opened(chromium, address(folder, name), first=ASKS))
                pages[name].wait_for_selector(".cb-live-runs")
            return pages[name]

        yield running
        for page in pages.values():
            assert not page.faults, page.faults


def content(name: str) -> dict:
    """What NAME-weights.js holds."""
    text = (LIVE / f"{name}-weights.js").read_text(encoding="utf-8")
    body = text[text.index("{"):text.rindex("}") + 1]
    return json.loads(re.sub(r"(?m)^  (\w+): ", r'  "\1": ', body))


def said(page) -> str:
    """What a figure says, with ordinary spaces."""
    return page.evaluate("ask.said")


def everybody_can_use(page, network: dict, *presses: str) -> None:
    """A figure names its network, fits every screen after each press, and is a picture in print."""
    assert page.locator(".cb-live-from").inner_text() == (
        f"live in your browser · network of {network['profile']}, seed {network['seed']}")
    assert page.locator(".cb-live-says").get_attribute("aria-live") == "polite"
    for width, theme in ((1280, "light"), (390, "dark"), (320, "light")):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("ask.themed", theme)
        for press in presses:
            page.locator(press).first.click(force=True)
            assert not violations(page), (page.url, width, theme, press)
        assert page.evaluate("() => document.scrollingElement.scrollWidth") <= width
    shown = page.locator(".picture"), page.locator(".cb-live")
    assert [part.is_visible() for part in shown] == [False, True]
    page.emulate_media(media="print")
    assert [part.is_visible() for part in shown] == [True, False]
    page.emulate_media(media="screen")
