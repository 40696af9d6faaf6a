"""The clients of a pool, in a process of their own: ``python -m seatrial...client TOKEN``.

It prints ``ready`` when all is loaded, so that it can be moved to a control group before it uses
memory that counts; then it reads a cell and its specification, reports its progress on
stderr and the sample on stdout. An interrupt ends the sample.
"""

from __future__ import annotations

import base64
import ctypes
import signal
import sys

import msgspec

from seatrial.measure.engine import SampleContext
from seatrial.measure.progress import LiveReading, SilentWatcher
from seatrial.study.cell import Cell, SpecDocument
from seatrial.trials.io.measure.io import measure_cell

READY = "ready"
_PR_SET_PDEATHSIG = 1


class MeasurementRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement to make.

    Attributes:
        cell: The cell.
        spec: The engine's whole specification.
        round_number: The round, from 0.
        position: Position in the round, from 0.
    """

    cell: Cell
    spec: SpecDocument
    round_number: int
    position: int


class _ProgressLines(SilentWatcher):
    """Writes each reading as a line on stderr."""

    def live(self, reading: LiveReading) -> None:
        """Report a reading."""
        sys.stderr.write(msgspec.json.encode(reading).decode() + "\n")
        sys.stderr.flush()


def main() -> None:
    """Measure one request.

    Raises:
        SeatrialError: when the file cannot be read.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    request = msgspec.json.decode(sys.stdin.readline(), type=MeasurementRequest)
    sample_context = SampleContext(request.round_number, request.position, _ProgressLines())
    sample = measure_cell(request.cell, request.spec, sample_context)
    sys.stdout.write(base64.b64encode(msgspec.msgpack.encode(sample)).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
