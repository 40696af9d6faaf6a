"""HTTP requests as a topic of Seatrial: timed GETs in a closed loop.

docs/how-to-add-a-topic.md walks through this file. It is complete: once it is installed next to
Seatrial, studies can use the workload kind ``http``, and its figures appear in tables, comparisons,
the page, exports and ``--json``.
"""

from __future__ import annotations

import statistics
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, cast

from msgspec import Meta

from seatrial.study.cell import Cell
from seatrial.study.problems import ConstraintError
from seatrial.study.sampled import SampledWorkload
from seatrial.study.values import ManyThreads, many
from seatrial.topic import Command, Topic

if TYPE_CHECKING:
    from seatrial.findings.model import Summary
    from seatrial.measure.engine import SampleContext
    from seatrial.measure.requests import Request
    from seatrial.report.part import Detail, PagePart
    from seatrial.results.model import Sample
    from seatrial.stats.model import CellSummary
    from seatrial.study.model import PlannedTarget
    from seatrial.study.schema import Study
    from seatrial.topic import AnalysisInput

TIMEOUT_S = 5.0


class Http(SampledWorkload, frozen=True, kw_only=True, tag="http"):
    """GET one address again and again.

    Attributes:
        url: The address to request.
        clients: Requests at once, a factor.
    """

    url: Annotated[str, Meta(min_length=1)]
    clients: ManyThreads = 1


class HttpTopic(Topic):
    """HTTP requests."""

    name = "http"
    rate_unit = "requests/s"
    titles = MappingProxyType({"http": "HTTP requests"})
    commands = MappingProxyType(
        {"http": Command("Timed GETs of one address.", "seatrial_http_command:command")}
    )

    def workloads(self) -> tuple[type[SampledWorkload], ...]:
        """Return ``http``."""
        return (Http,)

    def check(self, study: Study) -> Iterator[ConstraintError]:
        """Yield addresses that are none."""
        for index, workload in enumerate(study.workloads):
            if isinstance(workload, Http) and not workload.url.startswith(("http://", "https://")):
                expected = "Expected an address such as http://localhost:8080/"
                yield ConstraintError(f"is {workload.url!r}", expected, "workload", index, "url")

    def obstacle(self, workload: SampledWorkload, target: PlannedTarget) -> str:
        """Return why a target does not fit: nothing is stored, so only ``null`` fits."""
        return "" if target.kind == "null" else "its requests go to an address, not to storage"

    def cells(
        self, workload: SampledWorkload, target: PlannedTarget, study: Study, *, prefix: str
    ) -> Iterator[Cell]:
        """Yield a cell for each number of clients."""
        own = cast(Http, workload)
        for clients in many(own.clients):
            yield Cell(
                key=f"{prefix}{workload.label}/get/{clients}t",
                target=target.label,
                workload=workload.label,
                kind="http",
                operation="get",
                block_size_bytes=0,
                threads=clients,
                spec={
                    "target": {"kind": "null", "file": "", "direct": False, "copy_to": None},
                    "accesses": [],
                    "verify": False,
                    "url": own.url,
                    "limit": {"duration_s": workload.duration_s, "bytes": None},
                    "slice_ms": workload.slice_ms,
                    "stall_threshold_ms": workload.stall_threshold_ms,
                },
            )

    def measure(self, cell: Cell, spec: Mapping[str, Any], sample_context: SampleContext) -> Sample:
        """Have each client send its next request when the one before has ended."""
        from seatrial.measure.requests import sample_of_requests

        began_ns, started_at = time.monotonic_ns(), time.time()
        until_ns = began_ns + int(spec["limit"]["duration_s"] * 1e9)
        ended: list[Request] = []

        def client() -> None:
            while time.monotonic_ns() < until_ns:
                ended.append(_get(spec["url"], began_ns))

        threads = [threading.Thread(target=client) for _ in range(cell.threads)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return sample_of_requests(
            cell,
            sample_context,
            ended,
            started_at=started_at,
            duration_s=(time.monotonic_ns() - began_ns) / 1e9,
            in_flight_at_end=0,
            engine="urllib",
        )

    def analyse(self, measured: AnalysisInput) -> object:
        """Return the mean size of an answer of each cell, in bytes."""
        return {
            c.cell.key: _answer_bytes(c) for c in measured.cells if c.cell.kind == "http"
        } or None

    def part(self, summary: Summary, detail: Detail) -> PagePart | None:
        """Return a section that says how large the answers were."""
        from markupsafe import Markup

        from seatrial.report.part import PagePart

        own = summary.analyses.get(self.name, {})
        line = Markup("<li>{}: {:,.0f} bytes an answer</li>")
        lines = Markup().join(line.format(key, size) for key, size in own.items())
        if not lines:
            return None
        page = Markup('<section id="http"><h2>HTTP answers</h2><ul>{}</ul></section>')
        return PagePart("http", "HTTP answers", page.format(lines), [])


def _get(url: str, origin_ns: int) -> Request:
    from seatrial.measure.requests import Request

    began_ns = time.monotonic_ns() - origin_ns
    size_bytes, error = 0, ""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            size_bytes = len(answer.read())
    except (urllib.error.URLError, OSError) as failure:
        error = type(failure).__name__
    return Request("get", began_ns, time.monotonic_ns() - origin_ns, size_bytes, error)


def _answer_bytes(summary: CellSummary) -> float:
    sizes = [
        part.transferred_bytes / part.completed
        for sample in summary.samples
        for part in sample.operations.values()
        if part.completed
    ]
    return statistics.fmean(sizes) if sizes else 0.0


TOPIC = HttpTopic()
