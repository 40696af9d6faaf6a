"""The fingerprint of machine and target before a run, and what became of them after it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from seatrial.machine.fingerprint import kernel_log
from seatrial.machine.fingerprint.difference import differences
from seatrial.machine.fingerprint.health import health
from seatrial.machine.fingerprint.machine import load, machine
from seatrial.machine.fingerprint.memory_copy import memory_copy_bytes_per_s
from seatrial.machine.fingerprint.privacy import short_hash
from seatrial.machine.fingerprint.target import real_path, target
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.machine.fingerprint.version import seatrial_version

FINGERPRINT_VERSION: Final = 1
"""Goes up when a key changes its meaning; new keys alone do not raise it."""


def fingerprint(path: Path | None, *, tree: SystemTree = LIVE) -> dict[str, Any]:
    """Return machine and target as they are now, ready for JSON. Nothing is interpreted.

    What cannot be read is None or absent; nothing here raises. No host name, serial number or
    credential is in it.

    Keys: ``fingerprint_version``; ``taken`` (``unix_s``, ``boot_hash``); ``machine``
    (``machine.machine``, and ``memory_copy_bytes_per_s`` of one thread); ``target``
    (``target.target``; None without a path); ``health`` (``health.health``); ``kernel_log``
    (``kernel_log.mark``); ``seatrial`` (``version``, ``commit``).
    """
    found = None if path is None else target_fingerprint(path, tree=tree)
    return {
        "fingerprint_version": FINGERPRINT_VERSION,
        "taken": {"unix_s": time.time(), "boot_hash": _boot_hash(tree)},
        "machine": {
            **machine(tree),
            # Of a machine that is made up of files only this one's speed could be measured.
            "memory_copy_bytes_per_s": memory_copy_bytes_per_s() if tree is LIVE else None,
        },
        "target": found,
        "health": health(_stack(found), tree=tree),
        "kernel_log": kernel_log.mark(tree),
        "seatrial": seatrial_version(tree),
    }


def target_fingerprint(path: Path, *, tree: SystemTree = LIVE) -> dict[str, Any]:
    """Return the key ``target`` of a fingerprint alone, which asks no other program."""
    return target(tree, real_path(tree, path))


def after(before: dict[str, Any], path: Path | None, *, tree: SystemTree = LIVE) -> dict[str, Any]:
    """Return what a run did to machine and target, given the fingerprint from before it.

    Keys: ``fingerprint_version``; ``taken``; ``restarted``, whether the machine was started again
    since (then the kernel log is that of this start only); ``health``; ``kernel_log``
    (``kernel_log.since``); ``error_counts`` and ``error_counts_before`` by device, and
    ``filesystem_error_counts`` and ``filesystem_error_counts_before``; ``free_bytes``;
    ``load_average_1m`` and ``pressure``; ``changed``, the key paths of the fingerprint that differ
    now; ``changed_values``, of each of these what it was and what it is.
    """
    now = None if path is None else target(tree, real_path(tree, path))
    then = before.get("target")
    # A device that vanished is named as it was: the kernel's last words are about it.
    stack = _stack(then) or _stack(now)
    boot_hash = _boot_hash(tree)
    restarted = before["taken"]["boot_hash"] != boot_hash
    changes = differences(
        {"machine": before["machine"], "target": then},
        {"machine": machine(tree), "target": now},
    )
    return {
        "fingerprint_version": FINGERPRINT_VERSION,
        "taken": {"unix_s": time.time(), "boot_hash": boot_hash},
        "restarted": restarted,
        "health": health(_stack(now), tree=tree),
        "kernel_log": kernel_log.since(
            tree,
            stack,
            start=kernel_log.FROM_THE_START if restarted else before["kernel_log"],
            unix_s=before["taken"]["unix_s"],
        ),
        **_errors(then, now),
        "free_bytes": ((now or {}).get("filesystem") or {}).get("free_bytes"),
        **load(tree),
        "changed": [key_path for key_path, _, _ in changes],
        "changed_values": {key_path: [was, is_now] for key_path, was, is_now in changes},
    }


def _stack(found: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the stack of a target, empty where there is none."""
    return found["stack"] if found else []


def _boot_hash(tree: SystemTree) -> str | None:
    """Return what tells one start of the machine from another."""
    identity = tree.word("/proc/sys/kernel/random/boot_id")
    return None if identity is None else short_hash(identity)


def _errors(then: dict[str, Any] | None, now: dict[str, Any] | None) -> dict[str, Any]:
    """Return the error counters of devices and file system, now and before."""
    parts: dict[str, Any] = {}
    for suffix, found in (("", now), ("_before", then)):
        counts = {node["name"]: node["error_counts"] for node in _stack(found)}
        mounted = (found or {}).get("filesystem") or {}
        parts[f"error_counts{suffix}"] = counts
        parts[f"filesystem_error_counts{suffix}"] = mounted.get("error_counts", {})
    return parts
