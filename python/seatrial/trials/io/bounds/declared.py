"""Hardware that the user tells of, put where the fingerprint would have it.

An imported table comes without a fingerprint, and a RAID controller shows an array as one disk.
What is declared takes the fingerprint's own shape, so that every finding judges it as it judges
what was read from the machine; ``declared: true`` marks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from seatrial.results.model import Run, Sample
from seatrial.results.origin import origin_of
from seatrial.study.cell import Cell


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What a user tells of the hardware under a result; None or empty where they tell nothing.

    Attributes:
        drives: How many drives there are.
        link: The link of each drive, by the keys of a device of the fingerprint
            (``sata_link_gb_s``, ``sas_link_gb_s`` with ``sas_lanes``, or ``link_bytes_per_s``).
        buses: What the drives hang from, each by the keys of ``pcie.narrowest``.
        controller_cache_bytes: Memory of the controller.
        memory_bytes: Memory of the machine.
        file_bytes: Size of the file or range under test, where the result does not say.
    """

    drives: int | None = None
    link: Mapping[str, Any] = {}
    buses: Sequence[Mapping[str, Any]] = ()
    controller_cache_bytes: int | None = None
    memory_bytes: int | None = None
    file_bytes: int | None = None

    @property
    def of_the_stack(self) -> bool:
        """Whether anything is told of drives, buses or controllers."""
        return bool(self.drives or self.buses or self.controller_cache_bytes)


def with_declared(
    run: Run, samples: Sequence[Sample], declared: Declared
) -> tuple[Run, list[Sample]]:
    """Return a run and its samples as if the fingerprint had told what the user does.

    Nothing is stored: the same run without the declaration is as it was.
    """
    before = dict(run.fingerprint_before)
    if declared.memory_bytes:
        before["machine"] = (before.get("machine") or {}) | {"memory_bytes": declared.memory_bytes}
    if declared.of_the_stack:
        before["target"] = _target(before.get("target") or {}, declared)
    origin = origin_of(run)
    file_bytes = declared.file_bytes or (origin.file_bytes if origin else None)
    reported = [_with_size(sample, file_bytes) if file_bytes else sample for sample in samples]
    return msgspec.structs.replace(run, fingerprint_before=before), reported


def _target(target: dict[str, Any], declared: Declared) -> dict[str, Any]:
    """Return a target whose physical devices are laid on the declared ones."""
    stack = [dict(node) for node in target.get("stack") or []]
    ends = [node for node in stack if not node.get("children")]
    drives = [_drive(number, declared) for number in range(declared.drives or 1)]
    for node in ends:
        node["children"] = [drive["name"] for drive in drives]
    for drive in drives:
        drive["parents"] = [node["name"] for node in ends]
    return target | {"stack": [*stack, *drives]}


def _drive(number: int, declared: Declared) -> dict[str, Any]:
    """Return one declared drive; the buses have the drives in turn."""
    drive: dict[str, Any] = {
        "name": f"declared drive {number + 1}",
        "kind": "disk",
        "declared": True,
        "children": [],
        **declared.link,
    }
    if declared.buses:
        place = number % len(declared.buses)
        narrowest = {"address": f"declared bus {place + 1}", **declared.buses[place]}
        drive["pcie"] = {"narrowest": narrowest, "declared": True}
    if declared.controller_cache_bytes:
        drive["controller"] = {
            "name": "declared controller",
            "cache_bytes": declared.controller_cache_bytes,
            "declared": True,
        }
    return drive


def _with_size(sample: Sample, file_bytes: int) -> Sample:
    """Return a sample whose cell says how large its file is, if it did not."""
    target = sample.cell.spec.get("target") or {}
    if target.get("size_bytes"):
        return sample
    spec = sample.cell.spec | {"target": target | {"size_bytes": file_bytes}}
    cell: Cell = msgspec.structs.replace(sample.cell, spec=spec)
    return msgspec.structs.replace(sample, cell=cell)
