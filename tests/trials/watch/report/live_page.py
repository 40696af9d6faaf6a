"""A page of a watch in a real Chromium, with all that it asked for and complained about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

WAIT_S = 20.0


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait for a condition; playwright's own waiting uses eval, which the page forbids."""
    give_up_s = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < give_up_s, what
        time.sleep(0.05)
    return found


class Page:
    """A page of a watch, with all that it asked for and complained about."""

    def __init__(self, context: Any, address: str) -> None:
        self.requests: list[str] = []
        self.errors_text: list[str] = []
        self.page = context.new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.errors_text.append(message.text))
        self.page.on("pageerror", lambda error: self.errors_text.append(str(error)))
        self.page.goto(address)
        if "?token=" in address:
            self.page.wait_for_url(address.partition("?")[0])

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def drawn(self) -> int:
        return int(self.page.evaluate("document.documentElement.dataset.drawn ?? 0"))

    def click_cell(self) -> None:
        """Click on a cell of the first heat map, at a place that is coloured."""
        plot = self.page.locator(".chart.heat .plot").first
        x, y = self.page.evaluate(
            """() => {
              const canvas = document.querySelector('.chart.heat .plot canvas');
              const { width, height } = canvas;
              const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
              const colour = (x, y) => data.slice(4 * (y * width + x), 4 * (y * width + x) + 3);
              let best = [0, 0, -1];
              for (let y = 20; y < height - 40; y += 2) {
                for (let x = 80; x < width - 20; x += 2) {
                  const [r, g, b] = colour(x, y);
                  const same = (dx, dy) => colour(x + dx, y + dy).every(
                    (part, index) => part === [r, g, b][index]);
                  if (![[2, 0], [-2, 0], [0, 2], [0, -2]].every((by) => same(...by))) continue;
                  const chroma = Math.max(r, g, b) - Math.min(r, g, b);
                  if (data[4 * (y * width + x) + 3] === 255 && chroma > best[2]) {
                    best = [x, y, chroma];
                  }
                }
              }
              const box = canvas.getBoundingClientRect();
              return [best[0] * box.width / width, best[1] * box.height / height];
            }"""
        )
        plot.click(position={"x": x, "y": y})
