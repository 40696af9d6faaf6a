"""A rented machine and its disks."""

from __future__ import annotations

import msgspec

from seatrial.published import Count


class RentedDisk(msgspec.Struct, frozen=True, kw_only=True):
    """A disk of a rented machine.

    Attributes:
        name: In the kernel.
        kind: ``volume`` over the network, ``local``, or empty where its model does not say.
        model: As it says.
        size_bytes: Its size.
    """

    name: str
    kind: str
    model: str
    size_bytes: Count


class RentedMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A rented machine; fields are empty where unknown.

    Attributes:
        provider: Such as ``aws``.
        instance: Such as ``r7i.2xlarge``.
        region: Such as ``us-east-1``.
        said_by: Files that these are from.
        disks: All block devices with a model.
    """

    provider: str = ""
    instance: str = ""
    region: str = ""
    said_by: list[str] = []
    disks: list[RentedDisk] = []
