"""The page of the bench of watching."""

from __future__ import annotations

import watch


def test_the_page_has_ratios_in_time_per_read_and_the_verdict():
    reads_per_s = {name: [100.0] * 12 for name in watch.CONTENDERS}
    reads_per_s[watch.COUNTED] = [97.9 + 0.2 * (n % 2) for n in range(12)]
    reads_per_s[watch.RECORDED] = [80.0] * 12
    text = watch.page(reads_per_s, {watch.RECORDED: 12} | dict.fromkeys(watch.CONTENDERS[:3], 0))
    assert "| level 3 | 80 (80 to 80) | 1.250 (1.250 to 1.250) | 12 |" in text
    assert "12 rounds" in text
    assert "bar 1.02: missed by the median; the interval reaches across" in text


def test_the_page_of_runs_that_are_shown_has_their_time_per_read():
    reads_per_s = {name: [100.0] * 12 for name in watch.LIVE_CONTENDERS}
    reads_per_s[watch.LIVE] = [80.0] * 12
    text = watch.live_page(reads_per_s)
    assert "| --live | 80 (80 to 80) | 1.250 (1.250 to 1.250) |" in text
    assert "time per request, --live: 1.250 (1.250 to 1.250), bar 1.02: missed" in text
