"""The workload ``filebench``: a workload file of Filebench, with its variables as factors."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, field

from seatrial import _core
from seatrial.study.sampled import SampledWorkload
from seatrial.study.values import ONE, Flags, Size

FILEBENCH: Final = "filebench"

Personality = Annotated[str, Meta(min_length=1, max_length=4096)]
VariableValue = bool | int | float | str
SecondsOrFile = Annotated[float, Meta(ge=0, le=_core.DURATION_S_MAX)]


class Filebench(SampledWorkload, frozen=True, kw_only=True, tag="filebench"):
    """A workload of files, as a personality or a workload file of Filebench describes it.

    Attributes:
        duration_s: Duration of a sample (``seconds``); 0 for what the file's ``run`` says, or 60.
        personality: ``oltp``, ``fileserver``, ``varmail``, ``webserver``, ``randomread``, or the
            path of a workload file; a factor.
        variables: Values that override those of the file, by name without the ``$``
            (``set``); each is a factor.
        cold: Drop the files from the page cache before each sample; a factor.
        growth_bytes: Growth of a set of files (``growth``), beyond which a file is truncated to
            its first size.
        limit_bytes: Written bytes after which a sample ends.
    """

    duration_s: SecondsOrFile = field(default=0.0, name="seconds")
    personality: Personality | Annotated[list[Personality], ONE] = "oltp"
    variables: dict[str, VariableValue | list[VariableValue]] = field(
        default_factory=dict, name="set"
    )
    cold: Flags = False
    growth_bytes: Size = field(default=Size(1 << 30), name="growth")
    limit_bytes: Size = Size(16 << 30)
