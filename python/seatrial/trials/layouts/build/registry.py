"""All backends, and checks whether a variant can be built: in principle, and on this machine.

Each module of ``backends`` is a backend. They are loaded on first use, so that other commands need
not load them.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import os
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

from seatrial.errors import StudyError, TargetError
from seatrial.machine.fingerprint.tree import program_path
from seatrial.machine.undo_result import Undoer
from seatrial.program import with_root
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.trials.layouts.build import backends as _folder
from seatrial.trials.layouts.build.backend import Backend
from seatrial.trials.layouts.build.caching import cache_devices, cache_of, obstacle_of
from seatrial.trials.layouts.build.nfs import NFS_UNDOERS, nfs_obstacle
from seatrial.trials.layouts.build.nfs import PROGRAMS as NFS_PROGRAMS
from seatrial.trials.layouts.build.wrapping import wrapping_obstacle


@functools.cache
def backends() -> Mapping[str, Backend]:
    """Return every backend by name, in alphabetical order.

    Raises:
        ValueError: when two have one name.
    """
    found: dict[str, Backend] = {}
    for module in pkgutil.iter_modules(_folder.__path__, f"{_folder.__name__}."):
        content = vars(importlib.import_module(module.name))
        single = [content["BACKEND"]] if "BACKEND" in content else []
        for each in (*single, *content.get("BACKENDS", ())):
            if each.name in found:
                raise ValueError(f"two backends are named {each.name}")
            found[each.name] = each
    return MappingProxyType(dict(sorted(found.items())))


def backend(name: str) -> Backend:
    """Return a backend by name.

    Raises:
        StudyError: when it does not exist; the message names the nearest and all others.
    """
    known = backends()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    raise StudyError(
        seen=f"There is no backend {name!r}",
        cause=f"The backends are {', '.join(known)}",
        next_step=f"Did you mean {near[0]!r}?" if near else "Use one of these",
    )


@functools.cache
def undoers() -> Mapping[str, Undoer]:
    """Return how the changes made by backends and cache devices are undone, by kind."""
    known = [each.undoers for each in backends().values()]
    known.append(NFS_UNDOERS)
    known += [each.undoers for each in cache_devices().values()]
    return MappingProxyType({kind: undoer for each in known for kind, undoer in each.items()})


def check(spec: LayoutSpec) -> None:
    """Check a variant without regard to this machine.

    Raises:
        StudyError: when its backend is unknown or cannot build it on any machine.
    """
    builder = backend(spec.backend)
    if spec.level not in builder.levels:
        raise StudyError(
            seen=f"Layout {spec.label!r} has level {spec.level}, which {spec.backend} does not "
            "support",
            cause=f"The levels of {spec.backend} are {', '.join(builder.levels)}",
            next_step="Use one of these, or another backend",
        )
    problem = _wrong_drives(spec) or _wrong_parts(spec, builder) or builder.check(spec)
    if problem:
        raise StudyError(
            seen=f"Layout {spec.label!r} cannot be built",
            cause=problem,
            next_step="Change the layout; `seatrial study --plan` shows its variants",
        )


def require(spec: LayoutSpec) -> None:
    """Check that a variant can be built on this machine.

    Raises:
        StudyError: when it is not supported by its backend.
        TargetError: when permissions, a program or a kernel feature is missing.
    """
    check(spec)
    builder = backend(spec.backend)
    if os.geteuid() != 0:
        raise TargetError(
            seen=f"Layout {spec.label!r} cannot be built here: this process is not root",
            cause="Creating arrays, loop devices and mounts requires root",
            next_step=f"Run it {with_root()}, or use virtual disks with `seatrial lab`, "
            "which needs no root",
        )
    # The kernel first: installing programs would not help without it.
    wraps = spec.flaky or any(spec.delay_ms)
    obstacle = (
        builder.obstacle()
        or obstacle_of(spec)
        or (nfs_obstacle() if spec.nfs else "")
        or (wrapping_obstacle(spec) if wraps else "")
    )
    if obstacle:
        raise TargetError(
            seen=f"Layout {spec.label!r} cannot be built on this machine",
            cause=obstacle,
            next_step="Load or install what is missing, or run the study in a kernel that has it"
            " with `seatrial lab`",
        )
    cache = cache_of(spec)
    programs = [*builder.programs, *(cache.programs if cache else ())]
    programs += NFS_PROGRAMS if spec.nfs else ()
    missing = [each for each in programs if program_path(each.name) is None]
    if missing:
        packages = sorted({each.package for each in missing})
        raise TargetError(
            seen=f"Layout {spec.label!r} needs {', '.join(each.name for each in missing)},"
            " not found here",
            cause=f"{cache.name if cache else f'The backend {spec.backend}'} uses these programs, "
            "but their package is not installed",
            next_step=f"Install it with `apt-get install {' '.join(packages)}` and try again",
        )


def _wrong_drives(spec: LayoutSpec) -> str:
    """Return what is wrong with the number of drives, as a sentence."""
    facts = spec.facts
    if spec.drives < facts.members_min:
        return f"{spec.level} needs at least {facts.members_min} drives, but it has {spec.drives}"
    if facts.even and spec.drives % 2:
        return f"{spec.level} needs an even number of drives, but it has {spec.drives}"
    if spec.spares and not facts.losses_survived(spec.drives):
        return f"A spare is useless in {spec.level}, which loses its data with the first drive"
    return ""


def _wrong_parts(spec: LayoutSpec, builder: Backend) -> str:
    """Return incompatible parts, as a sentence."""
    if spec.is_striped and spec.legs < 2:
        return f"{spec.backend} stripes over legs and needs at least 2"
    if spec.legs > 1 and not spec.is_striped and spec.expose != "legs":
        return f"{spec.backend} does not stripe over {spec.legs} legs (md+lvm and md+md do)"
    for part in ("spares", "logs", "caches"):
        is_cache_device = part == "caches" and spec.has_cache_device
        if getattr(spec, part) and part not in builder.parts and not is_cache_device:
            return f"{spec.backend} has no {part}"
    if builder.is_filesystem and spec.filesystem != builder.name:
        return f"{spec.backend} is itself a file system, so `filesystem` must be {builder.name}"
    if not builder.is_filesystem and spec.filesystem == "zfs":
        return f"ZFS needs the backend zfs; it cannot be on an array of {spec.backend}"
    return ""
