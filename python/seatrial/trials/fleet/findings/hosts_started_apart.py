"""Finding ``hosts_started_apart``: hosts did not start a sample together."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_duration_ns

SKEW_NS_MAX: Final = 5_000_000


class HostsStartedApartFigures(Figures, frozen=True, kw_only=True, tag="hosts_started_apart"):
    skew_ns_max: int
    skew_bound_ns: int
    last_host: str
    samples_count: int
    of_samples_count: int
    concerned: Annotated[AffectedCells, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=f"In {self.samples_count} of {self.of_samples_count} samples the hosts "
            f"started up to {format_duration_ns(self.skew_ns_max)} apart (± "
            f"{format_duration_ns(self.skew_bound_ns)}); {self.last_host} started last.",
            cause="The last host was busy when its threads were to start, its pgbench needed more "
            "than the second before to connect its clients, or Ray delivered the call too late.",
            next="Keep a processor free on each host (`seatrial fleet check` shows where none is); "
            "figures cover the common window and remain valid.",
        )


@from_samples(rank=655, section="Hosts of a cluster", sees_replays=True)
def hosts_started_apart(context: Context) -> list[Finding]:
    """Find samples in which the hosts started more than 5 ms apart.

    Means:
        Each host starts at an instant of its own monotonic clock. pgbench is started up to a second
        before, connects its clients, loads the server, and counts from that instant on. Some hosts
        were late. Only the common window of all hosts counts, so totals remain valid.

    Decided:
        More than 5 ms from the first start to the last one. Warning.

    Do:
        Keep a processor free on each host.
    """
    several = [
        (summary, sample, sample.fleet)
        for summary in context.cells
        for sample in summary.samples
        if sample.fleet and len(sample.fleet.hosts) > 1
    ]
    apart = [each for each in several if each[2].skew_ns > SKEW_NS_MAX]
    if not apart:
        return []
    worst = max((record for _, _, record in apart), key=lambda record: record.skew_ns)
    keys = {summary.cell.key for summary, _, _ in apart}
    cells = [summary for summary in context.cells if summary.cell.key in keys]
    figures = HostsStartedApartFigures(
        skew_ns_max=worst.skew_ns,
        skew_bound_ns=worst.skew_bound_ns,
        last_host=max(worst.hosts, key=lambda host: host.started_ns).name,
        samples_count=len(apart),
        of_samples_count=len(several),
        concerned=context.affected_cells(cells),
    )
    return [Finding(severity="warning", cells=identities(cells), figures=figures)]
