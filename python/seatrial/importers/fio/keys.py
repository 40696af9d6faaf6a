"""Cells of ours among fio's jobs: ``export --format fio-job`` names a job by its cell's key.

The description of such a job tells kind and target; the key tells the rest. A job whose block
size, threads or depth were changed afterwards is no longer that cell.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from seatrial.importers.building import factor_value
from seatrial.importers.fio.options import Access
from seatrial.study.cell import FactorValue

_DESCRIPTION: Final = re.compile(r"seatrial kind=(?P<kind>[a-z]+) target=(?P<target>.*)")
_KEY: Final = re.compile(
    r"(?:^|.*/)(?P<workload>[^/]+)/(?P<operation>read|write|mixed|commit|copy)"
    r"/(?P<size>\d{1,10}B|various)/(?P<threads>\d{1,5})t/(?P<depth>\d{1,5})d"
    r"(?P<factors>(?:/[^/=]+=[^/]*)*)"
)
_KINDS: Final = {"fill", "matrix", "sequential", "map", "commit", "four", "mix", "io"}
_IMPLIED: Final = {"matrix": "random", "io": "random", "sequential": "sequential"}
"""The pattern that the key of each kind does not say."""


class OwnCell(msgspec.Struct, frozen=True, kw_only=True):
    """What the name and the description of an exported job say; the attributes of a ``Cell``."""

    key: str
    kind: str
    target: str
    workload: str
    operation: str
    factors: dict[str, FactorValue]


def own_cell(jobname: str, description: str, access: Access) -> OwnCell | None:
    """Return the cell that a job was exported from; None for any other job."""
    reported, key = _DESCRIPTION.fullmatch(description), _KEY.fullmatch(jobname)
    if reported is None or key is None or reported["kind"] not in _KINDS:
        return None
    size_bytes = 0 if key["size"] == "various" else int(key["size"][:-1])
    asked = (size_bytes, int(key["threads"]), int(key["depth"]))
    if asked != (access.block_size_bytes, access.threads, access.depth):
        return None
    pairs = [part.split("=", 1) for part in key["factors"].split("/") if part]
    factors = {name: factor_value(value) for name, value in pairs}
    if reported["kind"] in _IMPLIED and "pattern" not in factors:
        factors = {"pattern": _IMPLIED[reported["kind"]], **factors}
    return OwnCell(
        key=jobname,
        kind=reported["kind"],
        target=reported["target"],
        workload=key["workload"],
        operation=key["operation"],
        factors=factors,
    )
