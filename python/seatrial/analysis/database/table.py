"""The table of the article of 2010 as data: target, scale, clients, processes, transactions.

Source: "SSD vs. HDD for PostgreSQL", 8 August 2010 (reference/pgbench-2010.csv): of two client
machines it tells the rate of the first alone. Here the sum stands beside each process's own.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from seatrial.analysis.database.samples import records_of, specification
from seatrial.analysis.estimate import Estimate
from seatrial.analysis.estimates import counted, estimate_of_rounds
from seatrial.analysis.model import CellSummary
from seatrial.study.cell import FactorValue

PGBENCH = "pgbench"


class ArticleRow(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of pgbench as the article tells it.

    Attributes:
        target: Label.
        scale: Of pgbench's tables.
        clients: Of each process.
        processes: Client processes, each with a database of its own.
        script: A builtin script's name, or a file.
        others: Factors that the article did not vary, such as settings of the server.
        tps: Transactions per second of all processes.
        tps_by_process: Of each process by itself, as its pgbench printed it; empty where not every
            round told it.
        blank: The sentence in place of a figure, where nothing completed.
    """

    target: str
    scale: int
    clients: int
    processes: int
    script: str
    others: dict[str, FactorValue]
    tps: Estimate
    tps_by_process: list[Estimate]
    blank: str = ""

    @property
    def tps_client_1(self) -> Estimate:
        """What the article tells: the first client process, which is all of it where there is one.

        Raises:
            LookupError: when there are several, and none was told apart.
        """
        if self.tps_by_process:
            return self.tps_by_process[0]
        if self.processes > 1:
            raise LookupError(f"{self.target}: the processes' own rates were not told")
        return self.tps


_COLUMNS = (
    *("target", "workload", "operation", "block_size_bytes", "threads", "depth"),
    *("scale", "processes", "script"),
)


def article_table(cells: Sequence[CellSummary]) -> list[ArticleRow]:
    """Return a row for each cell of pgbench, by scale, processes and clients, targets in turn.

    Args:
        cells: Of a run, in the order of the plan; others than pgbench's are left out.
    """
    rows = [row for summary in cells if (row := _row(summary)) is not None]
    # Python's sort keeps the order of targets, which is that of the study.
    return sorted(rows, key=lambda row: (row.script, row.scale, row.processes, row.clients))


def _row(summary: CellSummary) -> ArticleRow | None:
    spec = specification(summary.cell)
    if spec is None or summary.cell.kind != PGBENCH:
        return None
    others = {k: v for k, v in summary.cell.identity().items() if k not in _COLUMNS}
    return ArticleRow(
        target=summary.cell.target,
        scale=spec.load.scale,
        clients=spec.clients,
        processes=spec.processes,
        script=spec.script,
        others=others,
        tps=summary.iops,
        tps_by_process=_by_process(summary, spec.processes),
        blank=summary.blank,
    )


def _by_process(summary: CellSummary, processes: int) -> list[Estimate]:
    """Return the rate of each process over the rounds; empty where a round does not tell it."""
    samples = counted(summary.samples)
    told = [record.told for record in records_of(samples)]
    names = ["tps"] if processes == 1 else [f"tps_{1 + number}" for number in range(processes)]
    if len(told) < len(samples) or not all(name in each for each in told for name in names):
        return []
    return [estimate_of_rounds([each[name] for each in told], "tps") for name in names]
