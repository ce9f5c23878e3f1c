"""Chromium, for the tests of the built book and of the live figures: one for all of them."""

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

WIDE, PHONE = 1280, 412  # pixels


@pytest.fixture(scope="session")
def chromium():
    """One browser for all tests."""
    from playwright.sync_api import sync_playwright

    found = filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome",
                                            "google-chrome-stable")))
    browser = next(found, None) or pytest.skip("no Chromium on this machine")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=browser, args=[
            "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage",
            "--disable-background-networking", "--disable-component-update",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"])
        yield running
        running.close()


@contextmanager
def opened(chromium, address: str, width: int = WIDE, *,
           first: str = "", scripts: bool = True) -> Iterator:
    """A page after everything on it is rendered; ``page.faults`` is what its console says.

    *first* is a script that runs before those of the page.
    """
    context = chromium.new_context(viewport={"width": width, "height": 900},
                                   java_script_enabled=scripts)
    context.set_default_timeout(300_000)        # a busy machine is no fault
    context.add_init_script(Path(__file__).with_name("browser.js").read_text("utf-8") + first)
    page, page.faults = (page := context.new_page()), []

    def heard(text: str) -> None:
        if not text.startswith(("[PST]: ", "[togglebutton]: ")):     # the theme, of itself
            page.faults.append(text)

    page.on("console", lambda message: heard(message.text))
    page.on("pageerror", lambda error: heard(str(error)))
    page.loaded = set()
    page.on("request", lambda request: page.loaded.add(request.url))
    page.on("requestfailed", lambda request: heard(f"{request.url}: {request.failure}"))
    page.goto(address)
    if scripts:
        page.evaluate("() => document.fonts.ready.then(() => null)")
    try:
        yield page
    finally:
        context.close()


def violations(page, everything: bool = True) -> list[str]:
    """What axe-core finds on a page: with its rules of WCAG 2.2, A and AA, and of good practice."""
    if not page.evaluate("'axe' in window"):
        script = Path(importlib.util.find_spec("axe_playwright_python").origin).parent
        page.evaluate((script / "axe.min.js").read_text(encoding="utf-8"))
    return [f"{rule}: {target}: {html[:160]}: {' '.join(why.split())[:300]}"
            for rule, target, html, why in page.evaluate("all => violations(all)", everything)]
