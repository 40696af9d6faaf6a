"""The fingerprint of machine and target before a run, and its changes after it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from seatrial.fingerprint import (
    Device,
    Fingerprint,
    FingerprintAfter,
    Machine,
    Target,
    TimeOfFingerprint,
)
from seatrial.machine.fingerprint import kernel_log
from seatrial.machine.fingerprint.health import health
from seatrial.machine.fingerprint.machine import (
    load,
    machine,
    memory_copy_bytes_per_s,
    seatrial_version,
)
from seatrial.machine.fingerprint.privacy import short_hash
from seatrial.machine.fingerprint.target import real_path, target
from seatrial.machine.fingerprint.tree import LIVE, SystemTree

VOLATILE: Final = frozenset(
    {
        "taken",
        "health",
        "kernel_log",
        "memory_available_bytes",
        "memory_copy_bytes_per_s",
        "load_average_1m",
        "pressure",
        "free_bytes",
        "error_counts",
        "errors",
    }
)
"""Keys, at any depth, whose values change by themselves and are not compared."""

_NAMING_KEYS: Final = ("name", "address")


def differences(
    a: Mapping[str, object], b: Mapping[str, object]
) -> list[tuple[str, object, object]]:
    """Return key path, value in ``a`` and value in ``b`` of every difference but volatile keys.

    Items of a list are paired by their name or address, as in ``target.stack[sda].scheduler``;
    missing items count as None.
    """
    found: list[tuple[str, object, object]] = []
    _compare("", a, b, found)
    return found


def _compare(path: str, a: object, b: object, found: list[tuple[str, object, object]]) -> None:
    """Append to ``found`` the differences between two values at a key path."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in {**a, **b}:
            if key not in VOLATILE:
                _compare(f"{path}.{key}" if path else key, a.get(key), b.get(key), found)
        return
    named_a, named_b = _named(a), _named(b)
    if named_a is not None and named_b is not None:
        for name in {**named_a, **named_b}:
            _compare(f"{path}[{name}]", named_a.get(name), named_b.get(name), found)
    elif a != b:
        found.append((path, a, b))


def _named(value: object) -> dict[str, object] | None:
    """Return a list of named mappings as a mapping by name; None for anything else."""
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        return None
    for key in _NAMING_KEYS:
        names = [part.get(key) for part in value]
        if None not in names and len(set(names)) == len(names):
            return dict(zip(map(str, names), value, strict=True))
    return None


FINGERPRINT_VERSION: Final = 1
"""Raised when a key changes its meaning; new keys alone do not raise it."""


def take_fingerprint(path: Path | None, *, tree: SystemTree = LIVE) -> Fingerprint:
    """Return the current facts of machine and target, without interpretation.

    What cannot be read is None; nothing here raises. It contains no host name, serial number or
    credential.
    """
    found = None if path is None else target_fingerprint(path, tree=tree)
    # The memory speed is measured on this machine only, not for a simulated tree.
    copied = memory_copy_bytes_per_s() if tree is LIVE else None
    return Fingerprint(
        fingerprint_version=FINGERPRINT_VERSION,
        taken=TimeOfFingerprint(unix_s=time.time(), boot_hash=_boot_hash(tree)),
        machine=replace(machine(tree), memory_copy_bytes_per_s=copied),
        target=found,
        health=health(_stack(found), tree=tree),
        kernel_log=kernel_log.mark(tree),
        seatrial=seatrial_version(tree),
    )


def target_fingerprint(path: Path, *, tree: SystemTree = LIVE) -> Target:
    """Return a target's part of a fingerprint, without running other programs."""
    return target(tree, real_path(tree, path))


def fingerprint_after(
    before: Fingerprint, path: Path | None, *, tree: SystemTree = LIVE
) -> FingerprintAfter:
    """Return what changed in machine and target since the fingerprint ``before`` a run."""
    now = None if path is None else target(tree, real_path(tree, path))
    then = before.target
    # A vanished device keeps its earlier name: the kernel's last messages are about it.
    stack = _stack(then) or _stack(now)
    boot_hash = _boot_hash(tree)
    restarted = before.taken.boot_hash != boot_hash
    changes = differences(_compared(before.machine, then), _compared(machine(tree), now))
    average, pressure = load(tree)
    return FingerprintAfter(
        fingerprint_version=FINGERPRINT_VERSION,
        taken=TimeOfFingerprint(unix_s=time.time(), boot_hash=boot_hash),
        restarted=restarted,
        health=health(_stack(now), tree=tree),
        kernel_log=kernel_log.since(
            tree,
            stack,
            start=kernel_log.FROM_THE_START if restarted else before.kernel_log,
            unix_s=before.taken.unix_s or 0.0,
        ),
        error_counts=_device_errors(now),
        filesystem_error_counts=_filesystem_errors(now),
        error_counts_before=_device_errors(then),
        filesystem_error_counts_before=_filesystem_errors(then),
        free_bytes=now.filesystem.free_bytes if now and now.filesystem else None,
        load_average_1m=average,
        pressure=pressure,
        changed=[key_path for key_path, _, _ in changes],
        changed_values={key_path: (was, is_now) for key_path, was, is_now in changes},
    )


def _compared(of_machine: Machine, of_target: Target | None) -> dict[str, object]:
    """Return the parts that are compared before and after a run."""
    return {
        "machine": of_machine.facts(),
        "target": of_target.facts() if of_target else None,
    }


def _stack(found: Target | None) -> list[Device]:
    """Return the stack of a target, empty without a target."""
    return found.stack if found else []


def _boot_hash(tree: SystemTree) -> str | None:
    """Return an identifier of the current boot."""
    identity = tree.word("/proc/sys/kernel/random/boot_id")
    return None if identity is None else short_hash(identity)


def _device_errors(found: Target | None) -> dict[str, Mapping[str, int]]:
    return {device.name: device.error_counts for device in _stack(found)}


def _filesystem_errors(found: Target | None) -> Mapping[str, int]:
    return found.filesystem.error_counts if found and found.filesystem else {}
