"""The Debian packages of the lab, downloaded without root into a cache folder.

They are only unpacked; none of their scripts run. Each set has its own folder, which gets its name
only when it is complete, so that a partial download is never used.

Source: apt-get(8) ``download``, apt-cache(8) ``depends``, dpkg-deb(1) ``--fsys-tarfile``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from seatrial.descriptor import closing
from seatrial.errors import TargetError
from seatrial.machine.fingerprint.tree import (
    CommandMissingError,
    CommandTimeoutError,
    program_path,
    run_command,
)

SetName = Literal["uml", "qemu"]

TOOLS: Final = (
    *("busybox-static", "mdadm", "lvm2", "dmsetup", "dmeventd"),
    *("bcache-tools", "nfs-kernel-server", "nfs-common"),
)
"""Packages that each set holds."""
_KERNELS: Final[dict[SetName, str]] = {"uml": "user-mode-linux", "qemu": "linux-image-amd64"}
_MAKERS: Final = {"mkfs.xfs": "xfsprogs", "mkfs.btrfs": "btrfs-progs", "mkfs.ext4": "e2fsprogs"}
"""Programs that create file systems, and their packages: downloaded if the host lacks them."""
_ALWAYS_OWN: Final = ("libaio", "libdevmapper", "liblvm2cmd")
"""Libraries that must match the version of the tools, whatever the host has."""
_MERGED: Final = ("bin", "sbin", "lib", "lib64")
_QUERY_S: Final = 60.0
_DOWNLOAD_S: Final = 900.0
_UNPACK_S: Final = 300.0
_RECORD: Final = "packages.json"
_LOCK: Final = "lock"
_NEW: Final = "new-"

Report = Callable[[str], None]
"""Called with a sentence for each step."""


class PackageSet(msgspec.Struct, frozen=True, kw_only=True):
    """A set of packages in the cache.

    Attributes:
        name: The set.
        folder: Its folder.
        versions: Version by package.
    """

    name: SetName
    folder: Path
    versions: dict[str, str]

    @property
    def root(self) -> Path:
        """The folder of its files, arranged as below ``/``."""
        return self.folder / "root"

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Prevent a newer setup from removing it meanwhile."""
        with closing(os.open(self.folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield


class _Record(msgspec.Struct, frozen=True):
    versions: dict[str, str]


def cache_folder() -> Path:
    """Return the folder of the sets: ``$SEATRIAL_CACHE_DIR/lab``, else in the user's cache folder.

    Source: the XDG Base Directory Specification, ``XDG_CACHE_HOME``.
    """
    own = os.environ.get("SEATRIAL_CACHE_DIR")
    if own:
        return Path(own) / "lab"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "seatrial/lab"


def installed(name: SetName) -> PackageSet | None:
    """Return a set from the cache; None if it was never downloaded, or lacks a tool of today."""
    folder = cache_folder() / name
    try:
        record = msgspec.json.decode((folder / _RECORD).read_bytes(), type=_Record)
    except (OSError, msgspec.DecodeError):
        return None
    if not record.versions.keys() >= set(TOOLS):
        return None
    # The name is a link to the folder of one version; a newer setup may change it.
    return PackageSet(name=name, folder=folder.resolve(), versions=record.versions)


def set_up(name: SetName, report: Report) -> PackageSet:
    """Download a set of packages, unless the newest is already in the cache.

    Raises:
        TargetError: if apt is missing, does not know a package or cannot download it, or the cache
            folder cannot be written.
    """
    _require_apt()
    versions = _wanted(name)
    present = installed(name)
    if present is not None and present.versions == versions:
        report(f"{present.folder} already has the newest packages.")
        return present
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=_NEW, dir=cache))
    except OSError as error:
        raise _not_writable(cache, error) from None
    try:
        _fill(new, name, versions, report)
        folder = _publish(new, name, versions)
    except OSError as error:
        raise _not_writable(cache, error) from None
    finally:
        shutil.rmtree(new, ignore_errors=True)
    _remove_others(name, folder)
    return PackageSet(name=name, folder=folder, versions=versions)


def _wanted(name: SetName) -> dict[str, str]:
    """Return version by package for all packages that a set needs and the host lacks."""
    on_host = _installed_on_host()
    kernel = _KERNELS[name]
    if name == "qemu":
        named = _depends([kernel])[kernel]
        kernel = next(each for each in named if each.startswith("linux-image-"))
    makers = [package for program, package in _MAKERS.items() if program_path(program) is None]
    packages = {kernel}
    pending = {*TOOLS, *makers}
    while pending:
        packages |= pending
        found = {each for named in _depends(sorted(pending)).values() for each in named}
        pending = {each for each in found if _is_needed(each, on_host)} - packages
    return _versions(sorted(packages))


def _is_needed(package: str, on_host: frozenset[str]) -> bool:
    """Return whether a dependency is needed: only libraries work without being configured."""
    if package.startswith(_ALWAYS_OWN):
        return True
    return package.startswith("lib") and package not in on_host


def _depends(packages: Sequence[str]) -> dict[str, list[str]]:
    """Return what each package depends on."""
    options = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
    text = _query("apt-cache", "depends", *(f"--no-{each}" for each in options), *packages)
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line.startswith((" ", "|")):
            named = found.setdefault(line.strip(), [])
        # Alternatives begin with a bar except for the last one; any of them is sufficient.
        elif match := re.fullmatch(r"  (?:Pre)?Depends: ([\w.+-]+)", line):
            named.append(match[1])
    return found


def _versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the newest version of each package that apt knows."""
    text = _query("apt-cache", "show", "--no-all-versions", *packages)
    pairs = re.findall(r"^Package: (\S+)$.*?^Version: (\S+)$", text, re.MULTILINE | re.DOTALL)
    versions = dict(pairs)
    missing = [package for package in packages if package not in versions]
    if missing:
        raise _unknown(missing[0], "apt reported no version")
    return {package: versions[package] for package in packages}


def _installed_on_host() -> frozenset[str]:
    text = _query("dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Package}\\n")
    pairs = (line.partition(" ") for line in text.splitlines())
    return frozenset(package for status, _, package in pairs if status == "installed")


def _query(*argv: str) -> str:
    named = ", ".join(word for word in argv[1:] if not word.startswith(("-", "$"))) or "packages"
    try:
        ended = run_command(argv, _QUERY_S)
    except (CommandMissingError, CommandTimeoutError) as error:
        raise _unknown(named, f"`{argv[0]}` cannot be used: {error}") from None
    if ended.status != 0:
        raise _unknown(named, f"Output: {ended.error_output.strip() or 'none'}")
    return ended.output


def _fill(new: Path, name: SetName, versions: dict[str, str], report: Report) -> None:
    """Complete a set in a folder."""
    debs = new / "debs"
    debs.mkdir()
    report(f"Downloading {len(versions)} packages: {', '.join(versions)}")
    # Run by root, apt would download as its own user, which cannot write to this folder.
    options = ("--quiet", "--option", "APT::Sandbox::User=root")
    named = [f"{package}={version}" for package, version in versions.items()]
    _do(["apt-get", "download", *options, *named], _DOWNLOAD_S, folder=debs)
    new.chmod(0o755)
    root = new / "root"
    for each in _MERGED:
        (root / "usr" / each).mkdir(parents=True)
        # As on the host, since these files are overlaid on its root.
        if Path("/", each).is_symlink():
            (root / each).symlink_to(f"usr/{each}")
    report("Unpacking the packages")
    for deb in sorted(debs.glob("*.deb")):
        _unpack(deb, root)
    if name == "qemu":
        _index_modules(root)
    shutil.rmtree(debs)
    (new / _LOCK).touch()
    (new / _RECORD).write_bytes(msgspec.json.encode(_Record(versions)))


def _unpack(deb: Path, root: Path) -> None:
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE) as tar:
        options = ("--no-same-owner", "--keep-directory-symlink", "--directory", str(root))
        try:
            _do(["tar", "--extract", *options], _UNPACK_S, folder=root, stdin=tar.stdout)
        finally:
            tar.kill()


def _index_modules(root: Path) -> None:
    """Write the dependencies of a kernel's modules, as the script of its package would."""
    # With a merged /usr, the package has installed them below usr/lib.
    release = next((root / "lib/modules").iterdir()).name
    busybox = next(
        path for path in (root / "bin/busybox", root / "usr/bin/busybox") if path.exists()
    )
    _do([str(busybox), "depmod", "-b", str(root), release], _UNPACK_S, folder=root)


def _do(argv: Sequence[str], patience_s: float, *, folder: Path, stdin: object = None) -> None:
    """Run a command in a folder.

    Raises:
        TargetError: if it fails; the message contains its output.
    """
    environment = os.environ | {"LC_ALL": "C"}
    try:
        ended = subprocess.run(
            argv,
            cwd=folder,
            env=environment,
            stdin=stdin if stdin is not None else subprocess.DEVNULL,  # type: ignore[call-overload]
            capture_output=True,
            text=True,
            timeout=patience_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _not_fetched(argv[0], f"it did not finish within {patience_s:g} s") from None
    if ended.returncode != 0:
        words = (ended.stderr.strip() or ended.stdout.strip() or "none").splitlines()
        raise _not_fetched(" ".join(argv[:2]), f"output: {words[-1]}")


def _publish(new: Path, name: SetName, versions: dict[str, str]) -> Path:
    """Give a complete set its name atomically; return its folder."""
    digest = hashlib.sha256(msgspec.json.encode(versions, order="sorted")).hexdigest()[:12]
    folder = new.with_name(f"{name}-{digest}")
    with suppress(OSError):
        # Another process may have downloaded the same set meanwhile; then that one is used.
        new.rename(folder)
    link = folder.with_name(f"{_NEW}link-{os.getpid()}")
    link.unlink(missing_ok=True)
    link.symlink_to(folder.name)
    link.replace(folder.with_name(name))
    return folder


def _remove_others(name: SetName, kept: Path) -> None:
    """Remove older versions of a set that no lab is using."""
    for other in kept.parent.glob(f"{name}-*"):
        if other == kept:
            continue
        flags = os.O_RDONLY | os.O_CLOEXEC
        with suppress(OSError), closing(os.open(other / _LOCK, flags)) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(other)


def _require_apt() -> None:
    missing = [
        each for each in ("apt-get", "apt-cache", "dpkg-deb", "tar") if not program_path(each)
    ]
    if missing:
        raise TargetError(
            seen=f"The commands {', '.join(missing)} were not found",
            cause="The lab consists of Debian packages, and downloading them needs Debian's tools",
            next_step="Run it on Debian or Ubuntu, or in a container of one of them",
        )


def _unknown(requested: str, words: str) -> TargetError:
    return TargetError(
        seen=f"apt has no information on {requested}, which the lab needs",
        cause=f"Its package lists are missing or outdated. {words}",
        next_step="Run `apt-get update` as root, then `seatrial lab --setup` again",
    )


def _not_fetched(command: str, words: str) -> TargetError:
    return TargetError(
        seen=f"The packages of the lab could not be downloaded: `{command}` failed, {words}",
        cause="There is no network connection, or apt's package lists are outdated",
        next_step="Run `apt-get update` as root, then `seatrial lab --setup` again",
    )


def _not_writable(cache: Path, error: OSError) -> TargetError:
    return TargetError(
        seen=f"The cache folder {cache} cannot be used: {error.strerror or error}",
        cause="It belongs to another user, or its file system is full or read-only",
        next_step="Set SEATRIAL_CACHE_DIR to a folder that you can write, and try again",
    )
