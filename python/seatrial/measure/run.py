"""One run from plan to end: fingerprint, stage, rounds, fingerprint again."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from seatrial import _core
from seatrial.errors import ResultsFileError, SeatrialError, TargetError, UsageError
from seatrial.fingerprint import Filesystem, Fingerprint, FingerprintAfter, Target
from seatrial.machine.fingerprint import fingerprint_after, take_fingerprint, target_fingerprint
from seatrial.machine.run_lock import RunLock
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.descriptors import require_descriptors
from seatrial.measure.progress import Watcher
from seatrial.measure.recorder import (
    INTERRUPTED,
    Interrupted,
    OtherProcessIo,
    Recorder,
    RoundsResult,
    Strategy,
)
from seatrial.measure.stage import AnyStage, Stage, StageRequest, TargetState
from seatrial.results.model import Run
from seatrial.results.store import ResultsFile
from seatrial.study.load import study_to_mapping
from seatrial.study.model import Plan
from seatrial.study.units import format_size
from seatrial.topic import topics


def require_same_targets(run: Run, plan: Plan) -> None:
    """Check that each target of a stored run is on the same devices as before.

    A path is only a name: after an unmount, the directory below the mount point still accepts
    files, and samples of another drive would join the run.

    Raises:
        TargetError: when one is on other devices or another file system, as far as both are known.
    """
    for label, path in storage_paths(plan).items():
        then = run.fingerprint_before.target_of(label)
        now = target_fingerprint(path)
        if then and now and _differ(then, now):
            raise TargetError(
                seen=f"{path} was on {_reported(then)} when run {run.id} was measured, and is "
                f"now on {_reported(now)}",
                cause="The storage that was measured is no longer mounted or attached there; "
                "samples of different storage cannot be combined in one run",
                next_step="Mount or attach it again, or start a new run",
            )


def storage_paths(plan: Plan) -> dict[str, Path]:
    """Return the path of each target on storage, by label, in the order of the plan.

    A layout does not exist before it is built; its drives represent it by their paths, or the
    folder of the files of its loop devices.
    """
    targets = {
        target.label: Path(target.path)
        for target in plan.targets
        if target.is_storage and target.path
    }
    drives = plan.study.drives
    if not plan.study.layouts:
        return targets
    if drives.loop:
        return targets | {"drives": Path(drives.folder or ".").resolve()}
    return targets | {path: Path(path) for path in drives.devices}


def _differ(then: Target, now: Target) -> bool:
    system_then, system_now = then.filesystem, now.filesystem
    if (
        system_then
        and system_now
        and _filesystem_identity(system_then) != _filesystem_identity(system_now)
    ):
        return True
    devices_then, devices_now = _devices(then), _devices(now)
    if not devices_then or not devices_now:
        return False
    media = then.stack[0].medium_hash, now.stack[0].medium_hash
    return devices_then != devices_now or (all(media) and media[0] != media[1])


def _filesystem_identity(system: Filesystem) -> tuple[str | None, str | None]:
    return system.type, system.mount_point


def _devices(target: Target) -> list[str]:
    """Return identifiers of the devices; their names may change at a restart."""
    return sorted(
        repr((device.kind, device.model, device.size_bytes, device.serial_hash))
        for device in target.stack
    )


def _reported(target: Target) -> str:
    """Return a description such as ``loop0 (400 MiB, loop) with xfs on /mnt/ssd``."""
    text = "no visible device"
    if target.stack:
        top = target.stack[0]
        size = f"{format_size(top.size_bytes)}, " if top.size_bytes else ""
        text = f"{top.name} ({size}{top.model or top.kind})"
    system = target.filesystem
    where = f" with {system.type} on {system.mount_point}" if system else ""
    return text + where


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A command's request.

    Attributes:
        plan: What to measure.
        command: The command line, stored with the run.
        label: The user's name for the run.
        destroy: Serial numbers or exact paths of what may be overwritten, comma-separated.
        resume: A stored run of the same plan to continue.
        waits: Whether to wait for another run on the same storage to end.
        ray: Where the head of a cluster answers, for a study with hosts; else empty.
    """

    plan: Plan
    command: str
    label: str = ""
    destroy: str | None = None
    resume: Run | None = None
    waits: bool = False
    ray: str = ""


class _StartTime(msgspec.Struct, frozen=True, kw_only=True):
    """A moment by the clock of the day, which may be stepped, and the monotonic clock."""

    unix_s: float
    monotonic_s: float

    def now_unix_s(self) -> float:
        """Return the current time of day, unaffected by steps of the clock since this moment."""
        return self.unix_s + time.monotonic() - self.monotonic_s


def execute(
    request: RunRequest, store: ResultsFile, *, watcher: Watcher, strategy: Strategy
) -> tuple[Run, RoundsResult]:
    """Measure a plan and store it; every change to the system is undone or in the journal.

    Args:
        request: What to measure.
        store: Where the run is stored.
        watcher: Receives the progress.
        strategy: How the plan is measured.

    Returns:
        The run as stored at its end, and how its rounds ended.

    Raises:
        SeatrialError: when the target is refused, cannot be used or fails: samples measured before
            are stored, and the run is marked as failed, or removed where the request itself made
            measuring impossible. When a target differs from that of the resumed run, or another run
            measures it: nothing is changed.
    """
    require_descriptors(request.plan)
    paths = list(storage_paths(request.plan).values())
    servers = [target.url for target in request.plan.targets if target.url]
    with RunLock(paths, servers=servers, waits=request.waits, report=watcher.step) as lock:
        return _executed(request, store, watcher, strategy, OtherProcessIo(lock))


def _executed(
    request: RunRequest,
    store: ResultsFile,
    watcher: Watcher,
    strategy: Strategy,
    neighbours: OtherProcessIo,
) -> tuple[Run, RoundsResult]:
    """Measure a plan while holding the lock; arguments are those of ``execute``."""
    if request.resume is not None:
        require_same_targets(request.resume, request.plan)
    began = _StartTime(unix_s=time.time(), monotonic_s=time.monotonic())
    run = request.resume or _new_run(request, began.unix_s)
    path = _path(request.plan)
    with UndoJournal(run.id) as journal:
        stage = _stage(request, run, journal, store)
        # Problems with the target are reported before a run is stored.
        with stage:
            if request.resume is None:
                store.start_run(run)
            else:
                store.resume_run(run.id)
            recorder = Recorder(request.plan, stage, store, run, watcher, neighbours)
            end = _measured(stage, store, recorder, strategy, began)
            with suppress(KeyboardInterrupt):
                # What cannot be taken down now is in the journal, which is undone below.
                stage.take_down()
            after = neighbours.noted(fingerprint_after(run.fingerprint_before, path))
            # Before anything is cleaned up, which may fail where the target did.
            store.finish_run(run.id, end.status, began.now_unix_s(), after)
    return store.run(run.id), end


def _stage(request: RunRequest, run: Run, journal: UndoJournal, store: ResultsFile) -> AnyStage:
    """Return the stage of a plan: existing targets, or layouts to be built."""
    target_state: TargetState = "new" if request.resume is None else "resumed"
    wanted = StageRequest(
        plan=request.plan,
        run_id=run.id,
        journal=journal,
        destroy=request.destroy,
        target_state=target_state,
        report_target=lambda label, found: store.note_target(run.id, label, found),
        ray=request.ray,
    )
    own = (stage for topic in topics() if (stage := topic.stage(wanted)))
    return next(own, None) or Stage(wanted)


def _measured(
    stage: AnyStage,
    store: ResultsFile,
    recorder: Recorder,
    strategy: Strategy,
    began: _StartTime,
) -> RoundsResult:
    try:
        stage.prepare(recorder.watcher)
        recorder.plan = stage.plan
        end = strategy(recorder)
    except (KeyboardInterrupt, Interrupted):
        return RoundsResult(status=INTERRUPTED, reason="The run was interrupted.")
    except SeatrialError as error:
        # If the results file itself failed, report the first error.
        with suppress(ResultsFileError):
            if isinstance(error, UsageError) and not recorder.earlier():
                # The request cannot be fulfilled: there was no run.
                store.drop_run(recorder.run.id)
            else:
                store.finish_run(recorder.run.id, "failed", began.now_unix_s(), FingerprintAfter())
        raise
    sentences = [end.reason, *(f"{note.rstrip('.')}." for note in recorder.plan.left_out)]
    return RoundsResult(status=end.status, reason=" ".join(sentences))


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


def _fingerprint(plan: Plan) -> Fingerprint:
    """Return the fingerprint of the first target, with those of the others added.

    Layouts do not exist yet: their drives are used, or the folder of the loop devices' files.
    """
    found = take_fingerprint(_path(plan))
    others = list(storage_paths(plan).items())[1:]
    targets = {label: target_fingerprint(path) for label, path in others}
    return msgspec.structs.replace(found, other_targets=targets)


def _path(plan: Plan) -> Path | None:
    """Return the path of the first target on storage, which the fingerprint describes."""
    return next(iter(storage_paths(plan).values()), None)
