"""A page in a real Chromium with the network cut, and all its requests and errors."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import Any

VIOLATIONS = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


UNDRAWN = """
[...document.querySelectorAll('.plot')].some((plot) => plot.checkVisibility()
  && plot.clientWidth > 0 && !plot.querySelector(':scope > div'))
"""


def chromium_path() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None)


def brightness(page: Any) -> float:
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


def await_width(page: Any, figure: str, *, below: float = 1e9, above: float = 0.0) -> None:
    """Wait until a figure's chart is so wide, in pixels.

    Playwright's own waiting asks again by eval within the page, which its policy rightly forbids.
    """
    requested = (
        f"document.querySelector('#figure-{figure} .plot svg').getBoundingClientRect().width"
    )
    give_up_s = time.monotonic() + 15
    while not above < (width := page.evaluate(requested)) < below:
        assert time.monotonic() < give_up_s, f"the chart {figure} is {width} px wide"
        time.sleep(0.05)


class Visit:
    """A page opened with the network cut, and all its requests and errors."""

    def __init__(
        self, browser: Any, report: Path, *, unfolded: bool = True, **options: Any
    ) -> None:
        options = {"viewport": {"width": 1280, "height": 900}} | options
        self.scripted = options.get("java_script_enabled", True)
        self.context = browser.new_context(offline=True, accept_downloads=True, **options)
        self.requests: list[str] = []
        self.errors_text: list[str] = []
        self.page = self.context.new_page()
        self.page.add_init_script(VIOLATIONS)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.errors_text.append(message.text))
        self.page.on("pageerror", lambda error: self.errors_text.append(str(error)))
        self.page.route(re.compile("^(?!file:|blob:|data:)"), lambda route: route.abort())
        self.page.goto(report.as_uri())
        if self.scripted:
            self.page.wait_for_selector("html[data-drawn=all]", state="attached", timeout=20_000)
        if unfolded:
            self.unfold()

    def unfold(self) -> None:
        """Open every part of the page that is collapsed to one line, and await its charts."""
        self.page.evaluate(
            "document.querySelectorAll('details.chapter').forEach((part) => { part.open = true; })"
        )
        if not self.scripted:
            return
        give_up_s = time.monotonic() + 15
        while self.page.evaluate(UNDRAWN):
            assert time.monotonic() < give_up_s, "a chart is not drawn"
            time.sleep(0.05)

    def processor_s(self) -> float:
        """How long the page's main thread has been at work (s), whatever else the machine did."""
        session = self.context.new_cdp_session(self.page)
        session.send("Performance.enable")
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(each["value"] for each in metrics if each["name"] == "ThreadTime")

    def figure(self, name: str) -> Any:
        return self.page.locator(f"#figure-{name}")

    def saved(self, name: str, button: str) -> tuple[str, bytes]:
        with self.page.expect_download() as download:
            self.figure(name).get_by_role("button", name=f"as {button}").click()
        return download.value.suggested_filename, Path(download.value.path()).read_bytes()
