"""The browser, once for each module of tests that looks at pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from report.browsing import Visit, chromium_path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install 'seatrial[test]'"
    )
    path = chromium_path()
    if path is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        # Chromium's own sandbox does not start for root, as in a container.
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def desktop(browser: Any, report: Path) -> Iterator[Visit]:
    """One visit to the module's own ``report``, for all tests that leave the page as it was.

    A test that resizes the window opens its own: under load, a page was seen that drew no frame
    after it was resized, so that no later click came to an end.
    """
    opened = Visit(browser, report)
    yield opened
    opened.context.close()
