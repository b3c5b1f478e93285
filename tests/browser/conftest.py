"""Pages in a real browser. Skipped where Playwright, axe or Chromium is missing: group ``browser``.

Chromium is the system's; ``playwright install`` is not needed.
"""

import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM)
        yield running
        running.close()


@pytest.fixture
def visit(chromium):
    """Opens a page; whatever it says on the console, or throws, fails the test in the end."""
    opened, said = [], []

    def open_page(address, width=1280, scheme="light"):
        # axe is put into the page, which its own policy forbids
        page = chromium.new_page(
            viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
        )
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(address)
        opened.append(page)
        return page

    yield open_page
    for page in opened:
        page.close()
    assert said == []


@pytest.fixture
def sound():
    """Fits its window, shows no number that is none, and is accessible as far as axe can tell."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

    def check(page):
        wide = "[document.documentElement.scrollWidth, window.innerWidth]"
        width, window = page.evaluate(wide)
        assert width <= window
        assert not {"NaN", "undefined", "Infinity"} & set(page.inner_text("main").split())
        found = axe.run(page).response["violations"]
        assert [(v["id"], [n["target"] for n in v["nodes"]]) for v in found] == []

    return check
