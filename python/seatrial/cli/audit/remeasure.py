"""``seatrial audit RUN --remeasure``: the gaps of a stored run measured again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seatrial.cli import terminal
from seatrial.cli.outcome import reported_if_it_fails
from seatrial.cli.sources import Source, load_source
from seatrial.cli.study_command import plan_for
from seatrial.errors import UsageError
from seatrial.findings.summary import summarise
from seatrial.measure.remeasure import remeasuring
from seatrial.measure.run import RunRequest, execute
from seatrial.results.model import Run, Sample
from seatrial.results.origin import origin_of
from seatrial.results.store import ResultsFile
from seatrial.study.load import study_from_mapping
from seatrial.study.model import Plan
from seatrial.trials.audit.analysis import audit_tables


def measure_gaps_again(
    reference: str,
    results: Path,
    *,
    destroy: str | None = None,
    quiet: bool = False,
    waits: bool = False,
) -> tuple[Source, str]:
    """Measure the cells of a stored run's gaps for two further rounds, on the targets of its study.

    Args:
        reference: A run of the results file.
        results: The results file; the new samples join the run there.
        destroy: Serial number or path of what may be overwritten.
        quiet: Show no progress.
        waits: Whether to wait for another run on the same storage to end.

    Returns:
        The run with all of its samples, and how it ended, as a sentence.

    Raises:
        UsageError: when the run is imported, lies in another file, or its plan is not what it was.
        SeatrialError: when a target is refused, cannot be used or fails.
    """
    source = load_source(reference, results)
    plan = _plan_of(source)
    request = RunRequest(
        plan=plan, command=source.run.command, destroy=destroy, resume=source.run, waits=waits
    )
    with ResultsFile.open(results) as store:
        _require_own(store, source, results)
        telling = reported_if_it_fails(request, store, as_json=quiet)
        with telling, terminal.watcher(quiet=quiet) as watcher:
            run, end = execute(request, store, watcher=watcher, strategy=remeasuring(gap_keys))
        return Source(name=reference, run=run, samples=store.samples(run.id)), end.reason


def gap_keys(run: Run, samples: Sequence[Sample]) -> list[str]:
    """Return the keys of all cells of gaps, however often they were seen.

    Cells above a bound are left out: a cache stays as fast in every round.
    """
    audits = audit_tables(run, summarise(run, samples).cells)
    gaps = [gap for audit in audits for gap in audit.gaps if gap.kind != "bound_broken"]
    return [key for gap in gaps for key in gap.keys]


def _plan_of(source: Source) -> Plan:
    """Return the plan of a run's study, if it still makes the cells that the run has.

    Raises:
        UsageError: when the run is imported, or its targets are not as they were.
    """
    run = source.run
    if origin_of(run) is not None:
        raise UsageError(
            seen=f"{source.name} is an imported result, which cannot be measured again here",
            cause="Only a run that Seatrial measured knows its targets",
            next_step="Leave out --remeasure; a gap of an imported table stays 'seen once'",
        )
    plan = plan_for(study_from_mapping(run.study, run.study_name))
    if plan.plan_hash != run.plan_hash:
        raise UsageError(
            seen=f"The study of run {run.id} makes other cells on its target than it did",
            cause="The target's size or blocks changed, or another version of Seatrial measured",
            next_step="Measure anew: seatrial study FILE",
        )
    return plan


def _require_own(store: ResultsFile, source: Source, results: Path) -> None:
    """Check that the run lies in the results file that the new samples go to.

    Raises:
        UsageError: when it lies in another one.
    """
    if all(run.id != source.run.id for run in store.runs()):
        raise UsageError(
            seen=f"Run {source.run.id} is not in {results}",
            cause="New samples join their run, in its own results file",
            next_step="Name that file with --results, and the run alone as RESULT",
        )
