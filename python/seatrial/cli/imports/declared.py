"""Options that tell of hardware which a result does not show: ``--drives 4 --link sata2``."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from seatrial.errors import UsageError
from seatrial.study.units import SIZE_EXPECTED, parse_size_bytes

if TYPE_CHECKING:
    from seatrial.trials.io.bounds.declared import Declared

DRIVES_MAX: Final = 4096
LANES_MAX: Final = 32
BYTES_PER_MB: Final = 1_000_000

SATA_GB_S: Final = {"sata1": 1.5, "sata2": 3.0, "sata3": 6.0}
SAS_GB_S: Final = {"sas-3g": 3.0, "sas-6": 6.0, "sas-12": 12.0, "sas-24": 22.5}
PCIE_GT_S: Final = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}

_SERIAL: Final = re.compile(r"(1\.5|3|6) ?gb/s", re.IGNORECASE)
_PCIE: Final = re.compile(r"pcie ?([1-6])(?:\.0)? ?x ?([0-9]{1,2})", re.IGNORECASE)
_PLAIN: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?(MB|GB)/s")

LINKS_EXPECTED: Final = (
    "sata2, sata3, 3Gb/s, sas-12, pcie3x4 (generation and lanes), or a rate such as 400MB/s"
)
BUSES_EXPECTED: Final = "such as pcie1x8 (generation and lanes)"


def parse_link(written: str) -> dict[str, Any] | None:
    """Return a link by the keys of a device of the fingerprint; None where it is not one."""
    text = written.strip()
    serial = _SERIAL.fullmatch(text)
    sata_gb_s = float(serial[1]) if serial else SATA_GB_S.get(text.lower())
    if sata_gb_s:
        return {"transport": "sata", "sata_link_gb_s": sata_gb_s}
    if text.lower() in SAS_GB_S:
        return {"transport": "sas", "sas_link_gb_s": SAS_GB_S[text.lower()], "sas_lanes": 1}
    bus = parse_bus(text)
    if bus:
        words = f"PCIe {bus['speed_now_gt_s']:g} GT/s x{bus['width_now']}"
        return {"transport": words, "link_bytes_per_s": bus["bandwidth_now_bytes_per_s"]}
    plain = _PLAIN.fullmatch(text)
    if plain and float(plain[1]) > 0:
        scale = BYTES_PER_MB * (1000 if plain[2] == "GB" else 1)
        return {"transport": text, "link_bytes_per_s": float(plain[1]) * scale}
    return None


def parse_bus(written: str) -> dict[str, Any] | None:
    """Return a PCIe slot by the keys of ``pcie.narrowest``; None where it is not one."""
    from seatrial.machine.fingerprint.pcie import (  # noqa: PLC0415 - not for --help
        bandwidth_bytes_per_s,
    )

    slot = _PCIE.fullmatch(written.strip())
    if slot is None or not 0 < int(slot[2]) <= LANES_MAX:
        return None
    speed_gt_s, width = PCIE_GT_S[int(slot[1])], int(slot[2])
    return {
        "speed_now_gt_s": speed_gt_s,
        "width_now": width,
        "bandwidth_now_bytes_per_s": bandwidth_bytes_per_s(speed_gt_s, width),
    }


def _parsed(
    parse: Callable[[str], Any], expected: str
) -> Callable[[click.Context, click.Parameter, Any], object]:
    """Return what reads an option, given once or several times, and refuses what is none."""

    def read_one(written: str) -> object:
        try:
            found = parse(written)
        except ValueError as error:
            raise click.BadParameter(f"{error}; give {expected}") from None
        if found is None:
            raise click.BadParameter(f"{written!r} is none; give {expected}")
        return found

    def read(
        _context: click.Context, _parameter: click.Parameter, value: str | tuple[str, ...] | None
    ) -> object:
        if isinstance(value, tuple):
            return tuple(map(read_one, value))
        return None if value is None else read_one(value)

    return read


def _size_option(
    name: str, parameter: str, what: str
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    callback = _parsed(parse_size_bytes, SIZE_EXPECTED)
    return click.option(name, parameter, metavar="SIZE", callback=callback, help=what)


_OPTIONS: Final = (
    click.option(
        "--drives",
        type=click.IntRange(1, DRIVES_MAX),
        help="How many drives there are, with --link.",
    ),
    click.option(
        "--link",
        metavar="LINK",
        callback=_parsed(parse_link, LINKS_EXPECTED),
        help=f"Link of each drive: {LINKS_EXPECTED}.",
    ),
    click.option(
        "--bus",
        "buses",
        metavar="SLOT",
        multiple=True,
        callback=_parsed(parse_bus, BUSES_EXPECTED),
        help=f"Slot of the controller, {BUSES_EXPECTED}; once for each controller.",
    ),
    _size_option("--controller-cache", "controller_cache_bytes", "Memory of the controller."),
    _size_option("--memory", "memory_bytes", "Memory of the machine that measured."),
    _size_option("--file-size", "file_bytes", "Size of the file or range under test."),
)


def declaring_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options that tell of hardware; they arrive as one ``declared``.

    Raises:
        UsageError: when drives are told without their link, or a link without drives.
    """

    @functools.wraps(function)
    def bundled(
        *,
        drives: int | None,
        link: dict[str, Any] | None,
        buses: tuple[dict[str, Any], ...],
        controller_cache_bytes: int | None,
        memory_bytes: int | None,
        file_bytes: int | None,
        **own: object,
    ) -> int:
        from seatrial.trials.io.bounds.declared import Declared  # noqa: PLC0415 - not for --help

        if (drives is None) != (link is None):
            raise _incomplete(drives)
        declared: Declared = Declared(
            drives=drives,
            link=link or {},
            buses=buses,
            controller_cache_bytes=controller_cache_bytes,
            memory_bytes=memory_bytes,
            file_bytes=file_bytes,
        )
        return function(declared=declared, **own)

    command = bundled
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _incomplete(drives: int | None) -> UsageError:
    """Return the error for drives without a link, or a link without drives."""
    given, missing = ("--drives", "--link") if drives else ("--link", "--drives")
    return UsageError(
        seen=f"{given} is given without {missing}",
        cause="What the drives' links carry together takes their number and the link of each",
        next_step="Give both, such as --drives 4 --link sata2",
    )
