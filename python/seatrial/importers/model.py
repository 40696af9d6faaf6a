"""What an importer gives."""

from __future__ import annotations

import msgspec

from seatrial.results.model import Run, Sample


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """A foreign result as the results file would give it back.

    Attributes:
        run: ``study["imported"]`` is a ``results.origin.Origin`` in built-in types.
        samples: In the order in which the source has them.
    """

    run: Run
    samples: list[Sample]
