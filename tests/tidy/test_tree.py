"""What may lie in the tree: finished text, of no particular machine, from no particular place."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tidy.sources import ROOT, Source, assert_kept, breach, is_text, paths, texts

# Put together from halves, so that neither this file nor a search of the tree trips over them.
OPEN_WORDS = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error")
OPEN_ENDS = re.compile("|".join(OPEN_WORDS))
MACHINE_FOLDERS = ("work", "root", "farm", "home", "tmp")
MACHINE_PATH = re.compile(rf"(?<![\w.~-])/(?:{'|'.join(MACHINE_FOLDERS)})/[a-z]")
INDEX_HOSTS = (
    "py" + "pi.org",
    "python" + "hosted.org",
    "registry.npm" + "js.org",
    "registry.yarn" + "pkg.com",
    "crates" + ".io",
    "deb.deb" + "ian.org",
    "proxy.go" + "lang.org",
)
INDEX_HOST = re.compile("|".join(rf"{re.escape(host)}(?!-index)" for host in INDEX_HOSTS))
LOCK_FILES = ("requirements.lock", "Cargo.lock", "package-lock.json")
CRATE_INDEX = 'source = "registry+https://github.com/rust-lang/crates.io-index"'
PACKAGE_ADDRESS = re.compile(r'"resolved"|\w+://')
RELATIVE_LINK = re.compile(r"\]\((?!\w+:)(?P<place>[^)#\s]+)(?:#[^)]*)?\)")
FUNDING = re.compile(r'^\s*"url": "https://')


def open_ends(sources: list[Source]) -> Iterator[str]:
    yield from matches(OPEN_ENDS, sources, "is left open; finish it or write an issue")


def machine_paths(sources: list[Source]) -> Iterator[str]:
    """Paths of somebody's machine, outside tests (where a path may be an example)."""
    outside_tests = [source for source in sources if not source.path.startswith("tests/")]
    yield from matches(MACHINE_PATH, outside_tests, "is a path of one machine")


def index_hosts(sources: list[Source]) -> Iterator[str]:
    yield from matches(INDEX_HOST, sources, "names the host of a package index")


def matches(pattern: re.Pattern[str], sources: list[Source], error_output: str) -> Iterator[str]:
    for source in sources:
        if "vendor" in Path(source.path).parts:
            continue
        for number, line in enumerate(source.lines, start=1):
            if match := pattern.search(line):
                yield breach(source, number, f"{match.group()} {error_output}")


def addresses_in_locks(sources: list[Source]) -> Iterator[str]:
    """Addresses in lock files: who installs decides where packages come from."""
    for source in sources:
        if Path(source.path).name not in LOCK_FILES:
            continue
        for number, line in enumerate(source.lines, start=1):
            harmless = line == CRATE_INDEX or FUNDING.match(line)
            if PACKAGE_ADDRESS.search(line) and not harmless:
                yield breach(source, number, "an address in a lock file")


def dead_links(sources: list[Source]) -> Iterator[str]:
    """Links of a Markdown file to places of the tree that are not there."""
    for source in sources:
        folder = (ROOT / source.path).parent
        for match in RELATIVE_LINK.finditer(source.text):
            if not (folder / match["place"]).exists():
                line = source.line_at(match.start())
                yield breach(source, line, f"{match['place']} is not there")


def dangling_links(folder: Path, names: Iterable[str]) -> Iterator[str]:
    """Symbolic links whose file is not there: `paths` leaves them out."""
    for name in names:
        link = folder / name
        if link.is_symlink() and not link.exists():
            yield f"{name}: a symbolic link to {link.readlink()}, which is not there"


def stray_binaries(files: list[tuple[str, bytes]]) -> Iterator[str]:
    for path, data in files:
        if not is_text(data):
            yield f"{path}: a binary file in the tree"


def altered_vendored_files(folder: Path) -> Iterator[str]:
    """Scripts and styles of a vendor folder that its .sha256 files do not vouch for."""
    pins = {}
    for listing in folder.glob("*.sha256"):
        for line in listing.read_text().splitlines():
            checksum, name = line.split()
            pins[name] = checksum
    code = [path for path in folder.iterdir() if path.suffix in (".js", ".css", ".mjs")]
    for path in [*code, *(folder / name for name in pins if not (folder / name).exists())]:
        found = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "absent"
        if pins.get(path.name) != found:
            yield f"{path.name}: is not the pinned one (found {found})"


def test_nothing_is_left_open() -> None:
    assert_kept(open_ends(list(texts())))


def test_no_path_of_one_machine() -> None:
    assert_kept(machine_paths(list(texts())))


def test_no_host_of_a_package_index() -> None:
    assert_kept(index_hosts(list(texts())))


def test_locks_hold_no_addresses() -> None:
    assert_kept(addresses_in_locks(list(texts())))


def test_links_lead_somewhere() -> None:
    assert_kept(dead_links([source for source in texts() if source.suffix == ".md"]))


def test_symbolic_links_lead_somewhere() -> None:
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert_kept(dangling_links(ROOT, listed.stdout.split("\0")))


def test_no_binaries() -> None:
    assert_kept(stray_binaries([(path, (ROOT / path).read_bytes()) for path in paths()]))


def test_vendored_files_are_the_pinned_ones() -> None:
    folders = {(ROOT / path).parent for path in paths() if "vendor" in Path(path).parts}
    assert folders
    for folder in folders:
        assert_kept(altered_vendored_files(folder))


@pytest.mark.parametrize("word", OPEN_WORDS)
def test_open_end_is_seen(word: str) -> None:
    assert list(open_ends([Source("a.rs", f"// {word}: later")]))


@pytest.mark.parametrize("path", ["/" + "work/main", "/" + "home/ann/x", "'/" + "tmp/x'"])
def test_machine_path_is_seen(path: str) -> None:
    assert list(machine_paths([Source("a.py", f"path = {path}")]))
    assert not list(machine_paths([Source("tests/a.py", f"path = {path}")]))


def test_path_of_any_machine_is_left_alone() -> None:
    text = "/mnt/ssd, tests/work/x, ~/home/x, https://example.org/tmp/x"
    assert not list(machine_paths([Source("a.md", text)]))


@pytest.mark.parametrize("host", INDEX_HOSTS)
def test_index_host_is_seen(host: str) -> None:
    assert list(index_hosts([Source("README.md", f"https://{host}/x")]))


def test_address_in_lock_is_seen() -> None:
    address = '"resolved": "https://example.org/a.tgz"'
    assert list(addresses_in_locks([Source("tools/a/package-lock.json", address)]))
    assert list(addresses_in_locks([Source("requirements.lock", "a @ https://example.org/a")]))
    assert not list(addresses_in_locks([Source("Cargo.lock", CRATE_INDEX)]))


def test_dead_link_is_seen() -> None:
    text = "See [a](Makefile), [b](docs/attic.md#x), [c](https://example.org/x) and [d](#below)."
    found = list(dead_links([Source("README.md", text)]))
    assert len(found) == 1
    assert "docs/attic.md is not there" in found[0]


def test_dangling_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    for name, target in {"good": "there", "dangling": "gone"}.items():
        (tmp_path / name).symlink_to(target)
    (found,) = dangling_links(tmp_path, ["there", "good", "dangling"])
    assert found == "dangling: a symbolic link to gone, which is not there"


def test_binary_is_seen() -> None:
    assert list(stray_binaries([("a.bin", b"\xff\x00")]))
    assert not list(stray_binaries([("a.py", b"x = 1")]))


def test_altered_vendored_file_is_seen(tmp_path: Path) -> None:
    (tmp_path / "chart.js").write_text("draw()")
    assert list(altered_vendored_files(tmp_path))
    checksum = hashlib.sha256(b"draw()").hexdigest()
    (tmp_path / "chart.sha256").write_text(f"{checksum}  chart.js\n")
    assert not list(altered_vendored_files(tmp_path))
    (tmp_path / "chart.js").write_text("draw(); spy()")
    assert list(altered_vendored_files(tmp_path))
