"""The part of ``seatrial lab`` that runs inside: it measures and stores, and tells nothing else.

What it is to do, and how it ended, are files in the folder that guest and host share; the samples
are in a results file there, each committed as it ends.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from seatrial import errors
from seatrial.errors import SeatrialError

RESULTS: Final = "results.seatrial"
_ORDER: Final = "order.json"
_END: Final = "end.json"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be measured.

    Attributes:
        study: The study, as ``study_to_mapping`` gives it.
        devices: Its drives.
        destroy: Their serial numbers, with commas between.
        command: The command line outside.
        label: What the user calls the run.
        is_quiet: Whether nothing is told of the progress.
        resume: The run in the results file there that is gone on with; empty for a new one.
    """

    study: dict[str, Any]
    devices: list[str]
    destroy: str
    command: str
    label: str
    is_quiet: bool
    resume: str = ""

    def write(self, folder: Path) -> None:
        """Lay it into the shared folder."""
        (folder / _ORDER).write_bytes(msgspec.json.encode(self))


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended.

    Attributes:
        reason: Why the rounds ended, as a sentence; empty where an error ended them.
        error: Name of the error's class, what was seen, the cause, the next step; else None.
    """

    reason: str = ""
    error: tuple[str, str, str, str] | None = None

    @classmethod
    def read(cls, folder: Path) -> End | None:
        """Return what was laid into the shared folder; None when it never got so far."""
        try:
            return msgspec.json.decode((folder / _END).read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError):
            return None

    def raise_error(self) -> None:
        """Raise the error that ended it, if one did, as it was raised inside."""
        if self.error is not None:
            kind, seen, cause, next_step = self.error
            raise getattr(errors, kind, SeatrialError)(seen=seen, cause=cause, next_step=next_step)


def measure(folder: Path) -> End:
    """Measure what the shared folder's order asks for; return how it ended."""
    from seatrial.cli import terminal  # noqa: PLC0415 - the side outside needs none of it
    from seatrial.cli.outcome import strategy_of  # noqa: PLC0415
    from seatrial.cli.study_command import plan_for  # noqa: PLC0415
    from seatrial.measure.run import RunRequest, execute  # noqa: PLC0415
    from seatrial.results.store import ResultsFile  # noqa: PLC0415
    from seatrial.study.layouts.layout import Drives  # noqa: PLC0415
    from seatrial.study.load import recheck, study_from_mapping  # noqa: PLC0415

    order = msgspec.json.decode((folder / _ORDER).read_bytes(), type=Order)
    study = study_from_mapping(order.study, "the study")
    plan = plan_for(recheck(msgspec.structs.replace(study, drives=Drives(devices=order.devices))))
    with (
        ResultsFile.open(folder / RESULTS, create=True) as store,
        terminal.watcher(quiet=order.is_quiet) as watcher,
    ):
        request = RunRequest(
            plan=plan,
            command=order.command,
            label=order.label,
            destroy=order.destroy,
            resume=store.run(order.resume) if order.resume else None,
        )
        _run, end = execute(request, store, watcher=watcher, strategy=strategy_of(plan))
    return End(reason=end.reason)


def main() -> NoReturn:
    """Measure what the folder that is named asks for, and leave there how it ended."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(sys.argv[1])
    try:
        end = measure(folder)
    except SeatrialError as error:
        end = End(error=(type(error).__name__, error.seen, error.cause, error.next_step))
    (folder / _END).write_bytes(msgspec.json.encode(end))
    sys.exit(0)


if __name__ == "__main__":
    main()
