"""A playback that sends nothing: it answers every statement of a trace at once, and adds up."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import msgspec

from results.replay_records import make_replay_record
from seatrial import _core
from seatrial.results.replay import ReplayAccount

WITHIN_NS = 50_000


class FakePlayback:
    """Stands in for ``_core.SqlPlayback``.

    Attributes:
        spec: The engine's specification.
        waits: How often it is waited for before it has ended; endless if None.
    """

    def __init__(
        self, spec_json: str, waits: int | None = 1, end: str = "complete", words: str = ""
    ) -> None:
        self.spec = json.loads(spec_json)
        self.waits = waits
        self.end = end
        self.words = words
        self.stopped = 0
        self._looks = 0

    def wait(self, timeout_s: float) -> bool:
        self._looks += 1
        if self.stopped:
            self.end = "interrupted"
            return True
        if self.waits is not None and self._looks > self.waits:
            return True
        time.sleep(min(timeout_s, 0.01))
        return False

    def live(self) -> SimpleNamespace:
        return SimpleNamespace(
            elapsed_s=self._looks * 0.1,
            answered=self._looks * 10,
            failed=0,
            skipped=1,
            captured_total=40,
            lag_ns=7_000,
            open=2,
        )

    def stop(self) -> None:
        self.stopped += 1

    def result(self) -> SimpleNamespace:
        mix = json.loads(_core.show_trace(self.spec["trace"], 0))["mix"]
        by_class = {each["class"]: each["calls"] for each in mix["classes"]}
        count_of_all = sum(by_class.values())
        record = make_replay_record(
            classes={
                name: ReplayAccount(captured=count, ok=count, failed=0)
                for name, count in by_class.items()
            }
        )
        reported = msgspec.to_builtins(record)
        for name in ("end", "words", "trace"):
            del reported[name]
        response = _core.Histogram.of([WITHIN_NS] * count_of_all).encode()
        parts = {
            "outcome": {
                "offered": count_of_all,
                "completed": count_of_all,
                "failed": 0,
                "late_skipped": 0,
                "in_flight_at_end": 0,
            },
            "operations": {
                name: {
                    "completed": count,
                    "failed": 0,
                    "transferred_bytes": 0,
                    "response": _core.Histogram.of([WITHIN_NS] * count).encode(),
                }
                for name, count in by_class.items()
            },
            "timeline": {
                "slice_ns": 100_000_000,
                "slices": [(0, "select", count_of_all, 0, response)],
            },
            "stalls": [],
            "stalls_dropped": 0,
            "errors_count": 0,
            "errors": [],
            "started_unix_s": 1_795_247_101.0,
            "duration_s": 0.1,
            "counters": {"notices": 3.0},
        }
        return SimpleNamespace(
            parts=parts, record_json=json.dumps(reported), end=self.end, words=self.words
        )
