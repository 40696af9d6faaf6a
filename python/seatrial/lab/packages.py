"""Debian's packages that the lab is made of, fetched without root into a cache folder.

They are only unpacked: none of their scripts runs. A set lies in a folder of its own, which
appears under its name when it is whole, so that half a download is never taken for a set.

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

from seatrial.errors import TargetError
from seatrial.machine.fingerprint.tree import (
    CommandMissingError,
    CommandTimeoutError,
    program_path,
    run_command,
)

SetName = Literal["uml", "qemu"]

_TOOLS: Final = ("busybox-static", "mdadm", "lvm2", "dmsetup", "dmeventd")
_KERNELS: Final[dict[SetName, str]] = {"uml": "user-mode-linux", "qemu": "linux-image-amd64"}
_MAKERS: Final = {"mkfs.xfs": "xfsprogs", "mkfs.btrfs": "btrfs-progs", "mkfs.ext4": "e2fsprogs"}
"""Programs that make file systems, and their packages: fetched where the host has none."""
_ALWAYS_OWN: Final = ("libaio", "libdevmapper", "liblvm2cmd")
"""Libraries that must be of the version of the tools, whatever the host has."""
_MERGED: Final = ("bin", "sbin", "lib", "lib64")
_ASK_S: Final = 60.0
_DOWNLOAD_S: Final = 900.0
_UNPACK_S: Final = 300.0
_RECORD: Final = "packages.json"
_LOCK: Final = "lock"
_NEW: Final = "new-"

Tell = Callable[[str], None]
"""Told each step as a sentence."""


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """A set of packages in the cache.

    Attributes:
        name: Which set.
        folder: Where it lies.
        versions: Version by package.
    """

    name: SetName
    folder: Path
    versions: dict[str, str]

    @property
    def root(self) -> Path:
        """Where its files lie as they would below ``/``."""
        return self.folder / "root"

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep a newer set-up from removing it meanwhile."""
        descriptor = os.open(self.folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield
        finally:
            os.close(descriptor)


class _Record(msgspec.Struct, frozen=True):
    versions: dict[str, str]


def cache_folder() -> Path:
    """Return where the sets lie: ``$SEATRIAL_CACHE_DIR/lab``, else in the user's cache folder.

    Source: the XDG Base Directory Specification, ``XDG_CACHE_HOME``.
    """
    own = os.environ.get("SEATRIAL_CACHE_DIR")
    if own:
        return Path(own) / "lab"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "seatrial/lab"


def installed(name: SetName) -> Installed | None:
    """Return a set that is in the cache; None where it was never fetched."""
    folder = cache_folder() / name
    try:
        record = msgspec.json.decode((folder / _RECORD).read_bytes(), type=_Record)
    except (OSError, msgspec.DecodeError):
        return None
    # The name leads to the folder of one version; a newer set-up may turn it to another.
    return Installed(name=name, folder=folder.resolve(), versions=record.versions)


def set_up(name: SetName, report: Tell) -> Installed:
    """Fetch a set of packages, unless the newest is in the cache already.

    Raises:
        TargetError: when apt is missing, knows no such package or cannot fetch it, or the cache
            folder cannot be written.
    """
    _require_apt()
    versions = _wanted(name)
    there = installed(name)
    if there is not None and there.versions == versions:
        report(f"{there.folder} holds the newest packages already.")
        return there
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=_NEW, dir=cache))
    except OSError as error:
        raise _not_writable(cache, error) from None
    try:
        _fill(new, name, versions, report)
        folder = _put_in_place(new, name, versions)
    except OSError as error:
        raise _not_writable(cache, error) from None
    finally:
        shutil.rmtree(new, ignore_errors=True)
    _remove_others(name, folder)
    return Installed(name=name, folder=folder, versions=versions)


def _wanted(name: SetName) -> dict[str, str]:
    """Return version by package of all that a set needs and the host lacks."""
    there = _installed_on_host()
    kernel = _KERNELS[name]
    if name == "qemu":
        named = _depends([kernel])[kernel]
        kernel = next(each for each in named if each.startswith("linux-image-"))
    makers = [package for program, package in _MAKERS.items() if program_path(program) is None]
    packages = {kernel}
    ahead = {*_TOOLS, *makers}
    while ahead:
        packages |= ahead
        found = {each for named in _depends(sorted(ahead)).values() for each in named}
        ahead = {each for each in found if _is_needed(each, there)} - packages
    return _versions(sorted(packages))


def _is_needed(package: str, there: frozenset[str]) -> bool:
    """Tell whether a dependency must be fetched: nothing but a library serves unconfigured."""
    if package.startswith(_ALWAYS_OWN):
        return True
    return package.startswith("lib") and package not in there


def _depends(packages: Sequence[str]) -> dict[str, list[str]]:
    """Return what each package depends on."""
    options = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
    text = _ask("apt-cache", "depends", *(f"--no-{each}" for each in options), *packages)
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line.startswith((" ", "|")):
            named = found.setdefault(line.strip(), [])
        # Of alternatives, which begin with a bar, the last is named without one: any serves.
        elif match := re.fullmatch(r"  (?:Pre)?Depends: ([\w.+-]+)", line):
            named.append(match[1])
    return found


def _versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the newest version of each package that apt knows."""
    text = _ask("apt-cache", "show", "--no-all-versions", *packages)
    pairs = re.findall(r"^Package: (\S+)$.*?^Version: (\S+)$", text, re.MULTILINE | re.DOTALL)
    versions = dict(pairs)
    missing = [package for package in packages if package not in versions]
    if missing:
        raise _unknown(missing[0], "It told no version")
    return {package: versions[package] for package in packages}


def _installed_on_host() -> frozenset[str]:
    text = _ask("dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Package}\\n")
    reported = (line.partition(" ") for line in text.splitlines())
    return frozenset(package for status, _, package in reported if status == "installed")


def _ask(*argv: str) -> str:
    try:
        ended = run_command(argv, _ASK_S)
    except (CommandMissingError, CommandTimeoutError) as error:
        raise _unknown(_asked(argv), f"`{argv[0]}` cannot be used: {error}") from None
    if ended.status != 0:
        raise _unknown(_asked(argv), f"It said: {ended.complaint.strip() or 'nothing'}")
    return ended.output


def _asked(argv: Sequence[str]) -> str:
    return ", ".join(word for word in argv[1:] if not word.startswith(("-", "$"))) or "packages"


def _fill(new: Path, name: SetName, versions: dict[str, str], report: Tell) -> None:
    """Make a folder a whole set."""
    debs = new / "debs"
    debs.mkdir()
    report(f"Fetching {len(versions)} packages: {', '.join(versions)}")
    # As root apt would fetch as a user of its own, who cannot write to this folder.
    options = ("--quiet", "--option", "APT::Sandbox::User=root")
    named = [f"{package}={version}" for package, version in versions.items()]
    _do(["apt-get", "download", *options, *named], _DOWNLOAD_S, folder=debs)
    new.chmod(0o755)
    root = new / "root"
    for place in _MERGED:
        (root / "usr" / place).mkdir(parents=True)
        # As on the host, above whose root these files are laid.
        if Path("/", place).is_symlink():
            (root / place).symlink_to(f"usr/{place}")
    report("Unpacking them")
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
    """Write what depends on what among a kernel's modules, as its package's script would."""
    # Where the host's tree is merged, the package has put them below usr/lib.
    release = next((root / "lib/modules").iterdir()).name
    busybox = next(
        path for path in (root / "bin/busybox", root / "usr/bin/busybox") if path.exists()
    )
    _do([str(busybox), "depmod", "-b", str(root), release], _UNPACK_S, folder=root)


def _do(argv: Sequence[str], patience_s: float, *, folder: Path, stdin: object = None) -> None:
    """Run a command in a folder.

    Raises:
        TargetError: when it fails; the message carries its own words.
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
        raise _not_fetched(argv[0], f"it did not end within {patience_s:g} s") from None
    if ended.returncode != 0:
        words = (ended.stderr.strip() or ended.stdout.strip() or "nothing").splitlines()
        raise _not_fetched(" ".join(argv[:2]), f"it said: {words[-1]}")


def _put_in_place(new: Path, name: SetName, versions: dict[str, str]) -> Path:
    """Give a whole set its name, in one step; return where it lies now."""
    digest = hashlib.sha256(msgspec.json.encode(versions, order="sorted")).hexdigest()[:12]
    folder = new.with_name(f"{name}-{digest}")
    with suppress(OSError):
        # Somebody else may have fetched the very same meanwhile: then theirs is as good.
        new.rename(folder)
    link = folder.with_name(f"{_NEW}link-{os.getpid()}")
    link.unlink(missing_ok=True)
    link.symlink_to(folder.name)
    link.replace(folder.with_name(name))
    return folder


def _remove_others(name: SetName, kept: Path) -> None:
    """Remove older versions of a set that no lab uses now."""
    for other in kept.parent.glob(f"{name}-*"):
        if other == kept:
            continue
        with suppress(OSError):
            descriptor = os.open(other / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(other)
            finally:
                os.close(descriptor)


def _require_apt() -> None:
    missing = [
        each for each in ("apt-get", "apt-cache", "dpkg-deb", "tar") if not program_path(each)
    ]
    if missing:
        raise TargetError(
            seen=f"The commands {', '.join(missing)} were not found",
            cause="The lab is made of Debian's packages, which only Debian's tools can fetch",
            next_step="Run it on Debian or Ubuntu, or in a container of one of them",
        )


def _unknown(asked: str, words: str) -> TargetError:
    return TargetError(
        seen=f"apt does not tell what the lab needs to know of {asked}",
        cause=f"Its lists are absent or old. {words}",
        next_step="Run `apt-get update` as root, then `seatrial lab --setup` again",
    )


def _not_fetched(command: str, words: str) -> TargetError:
    return TargetError(
        seen=f"The packages of the lab could not be fetched: `{command}` failed, {words}",
        cause="The network is absent, or apt's lists are older than what its servers hold",
        next_step="Run `apt-get update` as root, then `seatrial lab --setup` again",
    )


def _not_writable(cache: Path, error: OSError) -> TargetError:
    return TargetError(
        seen=f"The cache folder {cache} cannot be used: {error.strerror or error}",
        cause="It belongs to another user, or its file system is full or read-only",
        next_step="Set SEATRIAL_CACHE_DIR to a folder that you can write, and try again",
    )
