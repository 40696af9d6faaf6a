"""The model of a simulated device, as a study declares it.

The same keys as ``DeviceModel`` of crates/load/src/sim/model.rs, which reads them; here they are
checked while the study is read, so that a mistake is told with its line and before a run is made.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, field

from seatrial.study.values import Share

Amount = Annotated[float, Meta(ge=0, le=1e15)]
Rate = Annotated[float, Meta(gt=0, le=1e15)]
Bytes = Annotated[int, Meta(ge=0, le=2**62)]


class ServiceTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service time: a fixed part and one for each KiB.

    Attributes:
        base_us: The fixed part.
        per_kib_us: For each KiB.
    """

    base_us: Amount
    per_kib_us: Amount = 0.0


class WriteCache(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cache that takes writes fast until it is full.

    Attributes:
        size_bytes: What it holds.
        hit_us: What a write into it takes.
        drain_bytes_per_s: How fast it empties.
    """

    size_bytes: Bytes
    hit_us: Amount
    drain_bytes_per_s: Rate


class BurstCredit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rate above which the device goes only while its credit lasts: one token a request.

    Attributes:
        credit_operations: Tokens at the start, and at most.
        refill_per_s: Tokens that come back.
    """

    credit_operations: Amount
    refill_per_s: Rate


class FlashTranslation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A flash translation layer: pages written out of place, garbage collected greedily.

    Attributes:
        over_provisioning_share: Flash beyond the target's size, as a share of that size.
        page_bytes: The unit of its map.
        pages_per_block: Pages that are erased together.
        read_us: What reading a page takes, on top of the read's own time.
        program_us: What programming a page takes, on top of the write's own time.
        erase_us: What erasing a block takes.
    """

    over_provisioning_share: Annotated[float, Meta(gt=0, le=10)] = 0.07
    page_bytes: Annotated[int, Meta(ge=512, le=1 << 24, multiple_of=512)] = 4096
    pages_per_block: Annotated[int, Meta(ge=2, le=65_536)] = 256
    read_us: Amount = 10.0
    program_us: Amount = 20.0
    erase_us: Amount = 3000.0


class Span(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A span of virtual time from the sample's start.

    Attributes:
        start_s: When it begins.
        length_s: How long it lasts.
    """

    start_s: Amount
    length_s: Amount


class Gap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Block sizes that are served slower than the rest.

    Attributes:
        from_bytes: Smallest of them.
        to_bytes: Largest of them.
        slowdown_factor: How many times slower.
    """

    from_bytes: Bytes
    to_bytes: Bytes
    slowdown_factor: Amount


class DeviceModel(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What a simulated device is like; all times are virtual.

    Attributes:
        channels: Requests that it serves at the same time.
        read: What a read takes.
        write: What a write takes.
        sync_us: What a sync takes.
        noise_share: Scatter: each service time is multiplied by 1 plus an exponential of this mean.
        write_cache: A cache that takes writes fast until it is full.
        burst: A rate above which it goes only while its credit lasts.
        freezes: Times in which nothing completes.
        generator_pauses: Times in which the generator, not the device, stands still.
        gaps: Block sizes that are served slower.
        error_share: Share of the requests that fail.
        errno: Error number of those.
        vanishes_at_s: From then on every request fails with ENODEV; None is never.
        lasting: Whether each sample of a run finds cache, credit and flash as the one before left
            them; else each finds a fresh device.
        ftl: The flash below, whose collection of garbage slows writes.
    """

    channels: Annotated[int, Meta(ge=1, le=65_536)] = 1
    read: ServiceTime = ServiceTime(base_us=100.0, per_kib_us=0.5)
    write: ServiceTime = ServiceTime(base_us=100.0, per_kib_us=0.5)
    sync_us: Amount = 500.0
    noise_share: Amount = 0.0
    write_cache: WriteCache | None = None
    burst: BurstCredit | None = None
    freezes: list[Span] = field(default_factory=list)
    generator_pauses: list[Span] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    error_share: Share = 0.0
    errno: Annotated[int, Meta(ge=1, le=4095)] = 5
    vanishes_at_s: Amount | None = None
    lasting: bool = False
    ftl: FlashTranslation | None = None

    def as_mapping(self) -> dict[str, Any]:
        """Return what differs from the plain device, as the engine reads it."""
        mapping: dict[str, Any] = msgspec.to_builtins(self)
        return mapping
