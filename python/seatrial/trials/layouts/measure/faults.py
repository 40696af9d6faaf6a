"""What is done to an array that stands: drives fail and are replaced, sectors go bad, data rot."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Final

from seatrial.errors import SeatrialError, TargetError
from seatrial.machine.undo import UndoJournal
from seatrial.study.layouts.failure import Failure
from seatrial.trials.layouts.build.backend import Backend, Built
from seatrial.trials.layouts.build.wrapping import make_bad, make_flaky, mark_bad
from seatrial.trials.layouts.measure import corruption
from seatrial.trials.layouts.measure.watch import Happened, Watch

ON_SECTORS: Final = ("bad_sectors", "rot")


class ArrayFaults:
    """What can be done to one array.

    Args:
        backend: That built it.
        built: The array.
        draw: Chooses the sectors that are corrupted.
        verifiable: Whether the trial's data bear the mark of verifiable data.
        journal: Where it is recorded which drives are flaky.
    """

    def __init__(
        self,
        backend: Backend,
        built: Built,
        draw: random.Random,
        *,
        verifiable: bool,
        journal: UndoJournal,
    ) -> None:
        self.scrubbed: list[int] = []
        self.notes: list[str] = []
        self._backend = backend
        self._built = built
        self._draw = draw
        self._verifiable = verifiable
        self._journal = journal
        self._flaky: list[int] = []
        self._failed: dict[tuple[int, int], str] = {}
        self._blocks_bytes: dict[Failure, list[int]] = {}

    def prepare(self, failures: Sequence[Failure]) -> None:
        """Choose what is corrupted before the load begins: that takes reads, and commands.

        All bad sectors of a drive show with the first of its fault that makes any.
        """
        for failure in failures:
            if failure.fault not in ON_SECTORS:
                continue
            try:
                self._blocks_bytes[failure] = corruption.choose_blocks(
                    self._drive(failure),
                    failure.sectors,
                    self._draw,
                    verifiable=self._verifiable,
                )
                if failure.fault == "bad_sectors":
                    mark_bad(self._drive(failure), self._blocks_bytes[failure])
            except SeatrialError as error:
                self.notes.append(f"{failure.fault}: {error}")

    def do(self, failure: Failure, watch: Watch) -> None:
        """Do one, and note when it was done and to what.

        Raises:
            SeatrialError: when it cannot be done.
            OSError: when the system refuses.
        """
        at_s = time.monotonic()
        match failure.fault:
            case "fail":
                what, drive, detail = "failed", self._fail(failure), ""
            case "replace":
                what, (drive, detail) = "replaced", self._replace(failure)
            case "bad_sectors":
                what, (drive, detail) = "bad_sectors", self._make_bad(failure)
            case "rot":
                what, (drive, detail) = "rotten", self._rot(failure)
            case "falter":
                what, drive, detail = "faltering", self._drive(failure), ""
                self._flaky.append(make_flaky(drive, "falter", self._journal))
            case "drop_writes":
                what, drive, detail = "dropping_writes", self._drive(failure), ""
                self._flaky.append(make_flaky(drive, "drop_writes", self._journal))
            case "scrub":
                self._backend.start_scrub(self._built, failure.leg)
                self.scrubbed.append(failure.leg)
                return
        watch.happened.append(
            Happened(at_s=at_s, what=what, leg=failure.leg, member=drive, detail=detail)
        )

    def end(self) -> None:
        """Have flaky drives work again: what they hold is read, and they are taken apart."""
        while self._flaky:
            self._journal.undo(self._flaky.pop())

    def mismatch_blocks(self) -> int | None:
        """Return what the scrubs found not to agree, in blocks of 512 bytes; None without."""
        found = [
            self._backend.mismatch_blocks(self._built, leg) for leg in dict.fromkeys(self.scrubbed)
        ]
        known = [blocks for blocks in found if blocks is not None]
        return sum(known) if known else None

    def _drive(self, failure: Failure) -> str:
        return self._built.assigned.legs[failure.leg - 1][failure.member - 1]

    def _fail(self, failure: Failure) -> str:
        drive = self._backend.fail(self._built, failure.leg, failure.member)
        self._failed[failure.leg, failure.member] = drive
        return drive

    def _replace(self, failure: Failure) -> tuple[str, str]:
        """Give an unused drive to the array, else the failed one as if it were new."""
        old = self._failed.get((failure.leg, failure.member)) or self._drive(failure)
        unused = list(self._built.assigned.unused)
        new, detail = (unused[0], f"in place of {old}") if unused else (old, "wiped, as a new one")
        if not unused:
            corruption.wipe(old)
        self._backend.replace(self._built, failure.leg, failure.member, new)
        return new, detail

    def _make_bad(self, failure: Failure) -> tuple[str, str]:
        drive, blocks_bytes = self._drive(failure), self._chosen(failure)
        make_bad(drive)
        return drive, _reported(blocks_bytes)

    def _rot(self, failure: Failure) -> tuple[str, str]:
        drive, blocks_bytes = self._drive(failure), self._chosen(failure)
        corruption.rot(drive, blocks_bytes)
        return drive, _reported(blocks_bytes)

    def _chosen(self, failure: Failure) -> list[int]:
        blocks_bytes = self._blocks_bytes.get(failure, [])
        if not blocks_bytes:
            raise TargetError(
                seen=f"No data of the trial were found on {self._drive(failure)}",
                cause="The trial file takes a small part of the drive, or its data were not there",
                next_step="Give the layout a larger size, or smaller drives",
            )
        return blocks_bytes


def _reported(blocks_bytes: Sequence[int]) -> str:
    count = "1 block" if len(blocks_bytes) == 1 else f"{len(blocks_bytes)} blocks"
    return f"{count} of 4 KiB, the first at byte {blocks_bytes[0]}"
