"""One run from its plan to its end: fingerprint, stage, rounds, fingerprint again."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from seatrial import _core
from seatrial.errors import ResultsFileError, SeatrialError, UsageError
from seatrial.machine import fingerprint as context
from seatrial.machine.run_lock import RunLock
from seatrial.machine.undo import UndoJournal
from seatrial.measure.descriptors import require_descriptors
from seatrial.measure.neighbours import Neighbours
from seatrial.measure.progress import Watcher
from seatrial.measure.recorder import INTERRUPTED, Interrupted, Recorder, RoundsEnd, Strategy
from seatrial.measure.same_targets import require_same_targets, storage_paths
from seatrial.measure.stage import AnyStage, Stage, StageRequest, TargetState
from seatrial.results.model import Run
from seatrial.results.store import ResultsFile
from seatrial.study.load import study_to_mapping
from seatrial.study.model import Plan
from seatrial.topic import topics


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a command asks for.

    Attributes:
        plan: What to measure.
        command: The command line, to be kept with the run.
        label: What the user calls the run.
        destroy: Serial number or exact path of what may be overwritten; of several, with commas.
        resume: A stored run of the same plan to go on with.
        waits: Whether to wait for another run on the same storage to end.
    """

    plan: Plan
    command: str
    label: str = ""
    destroy: str | None = None
    resume: Run | None = None
    waits: bool = False


class _Moment(msgspec.Struct, frozen=True, kw_only=True):
    """A moment by two clocks: of the day, which may be stepped, and the one that only goes on."""

    unix_s: float
    monotonic_s: float

    def now_unix_s(self) -> float:
        """Return the time of day now, as the clock of the day would have it without a step."""
        return self.unix_s + time.monotonic() - self.monotonic_s


def execute(
    request: RunRequest, store: ResultsFile, *, watcher: Watcher, strategy: Strategy
) -> tuple[Run, RoundsEnd]:
    """Measure a plan and store it; whatever happens, what was made is undone or in the journal.

    Args:
        request: What to measure.
        store: Where the run goes.
        watcher: Told of the progress.
        strategy: The order in which the plan is measured.

    Returns:
        The run as stored at its end, and how its rounds ended.

    Raises:
        SeatrialError: when the target is refused, cannot be used or fails; samples measured before
            are stored, and the run is marked as failed, or taken out again where nothing could be
            measured because of what was asked for. When a target is not what it was in the run
            that is gone on with, or another run measures it; nothing is touched then.
    """
    require_descriptors(request.plan)
    places = list(storage_paths(request.plan).values())
    servers = [target.url for target in request.plan.targets if target.url]
    with RunLock(places, servers=servers, waits=request.waits, report=watcher.stage) as lock:
        return _executed(request, store, watcher, strategy, Neighbours(lock))


def _executed(
    request: RunRequest,
    store: ResultsFile,
    watcher: Watcher,
    strategy: Strategy,
    neighbours: Neighbours,
) -> tuple[Run, RoundsEnd]:
    """Measure a plan whose storage this run has for itself; arguments are those of ``execute``."""
    if request.resume is not None:
        require_same_targets(request.resume, request.plan)
    began = _Moment(unix_s=time.time(), monotonic_s=time.monotonic())
    run = request.resume or _new_run(request, began.unix_s)
    place = _place(request.plan)
    with UndoJournal(run.id) as journal:
        stage = _stage(request, run, journal, store)
        # Whatever is wrong with the target is said before a run is stored.
        with stage:
            if request.resume is None:
                store.start_run(run)
            else:
                store.resume_run(run.id)
            recorder = Recorder(request.plan, stage, store, run, watcher, neighbours)
            end = _measured(stage, store, recorder, strategy, began)
            with suppress(KeyboardInterrupt):
                # What is not taken apart now is in the journal, which is undone below.
                stage.take_down()
            after = context.after(run.fingerprint_before, place) | neighbours.found()
            # Before anything is put away, for that may fail where the target did.
            store.finish_run(run.id, end.status, began.now_unix_s(), after)
    return store.run(run.id), end


def _stage(request: RunRequest, run: Run, journal: UndoJournal, store: ResultsFile) -> AnyStage:
    """Return where the cells of a plan go: what is there already, or what is built for them."""
    target_state: TargetState = "new" if request.resume is None else "resumed"
    wanted = StageRequest(
        plan=request.plan,
        run_id=run.id,
        journal=journal,
        destroy=request.destroy,
        target_state=target_state,
        report_target=lambda label, facts: store.note_target(run.id, label, facts),
    )
    own = (stage for topic in topics() if (stage := topic.stage(wanted)))
    ordinary = Stage(
        request.plan, run.id, journal, destroy=request.destroy, target_state=target_state
    )
    return next(own, ordinary)


def _measured(
    stage: AnyStage,
    store: ResultsFile,
    recorder: Recorder,
    strategy: Strategy,
    began: _Moment,
) -> RoundsEnd:
    try:
        stage.prepare(recorder.watcher)
        recorder.plan = stage.plan
        end = strategy(recorder)
    except (KeyboardInterrupt, Interrupted):
        return RoundsEnd(status=INTERRUPTED, reason="It was interrupted.")
    except SeatrialError as error:
        # Where the results file itself is what failed, the first error is the one to tell.
        with suppress(ResultsFileError):
            if isinstance(error, UsageError) and not recorder.earlier():
                # What was asked for cannot be had: there was no run.
                store.drop_run(recorder.run.id)
            else:
                store.finish_run(recorder.run.id, "failed", began.now_unix_s(), {})
        raise
    reported = [end.reason, *(f"{note.rstrip('.')}." for note in recorder.plan.left_out)]
    return RoundsEnd(status=end.status, reason=" ".join(reported))


def _new_run(request: RunRequest, now_s: float) -> Run:
    plan = request.plan
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_s))
    return Run(
        id=f"{stamp}-{secrets.token_hex(2)}",
        command=request.command,
        label=request.label,
        study_name=plan.study.name,
        study=study_to_mapping(plan.study),
        plan_hash=plan.plan_hash,
        seed=plan.study.seed,
        status="running",
        started_at=now_s,
        fingerprint_before=_fingerprint(plan),
        seatrial_version=_core.__version__,
    )


def _fingerprint(plan: Plan) -> dict[str, Any]:
    """Return the fingerprint of the first target, with those of the others beside it.

    Layouts do not exist yet: their drives are there, or the folder of loop devices' files.
    """
    found = context.fingerprint(_place(plan))
    others = list(storage_paths(plan).items())[1:]
    if others:
        found["other_targets"] = {label: context.target_fingerprint(path) for label, path in others}
    return found


def _place(plan: Plan) -> Path | None:
    """Return where the first target that lies on storage is: the fingerprint is of that one."""
    return next(iter(storage_paths(plan).values()), None)
