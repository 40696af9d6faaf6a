"""What the rules read: the files of the source tree; and how a breach is said."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = "python/seatrial/"


@dataclass(frozen=True)
class Source:
    """One text file: its path from the root, with forward slashes, and what it holds."""

    path: str
    text: str

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def suffix(self) -> str:
        """The file's suffix; ``.sh`` for a shell script that bears none."""
        named = Path(self.path).suffix
        first_line = self.text.partition("\n")[0]
        scripted = first_line.startswith("#!") and first_line.endswith("sh")
        return named or (".sh" if scripted else "")

    def tree(self) -> ast.Module:
        """The syntax tree of a Python file, parsed once for all rules; none may change it."""
        return self._tree

    @cached_property
    def _tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    def line_at(self, position: int) -> int:
        """The number, from 1, of the line that holds the character at a position."""
        return self.text.count("\n", 0, position) + 1


def breach(source: Source, line: int, sentence: str) -> str:
    """One breach of a rule, as an editor can jump to it."""
    return f"{source.path}:{line}: {sentence}"


def assert_kept(breaches: Iterable[str]) -> None:
    """Fail with every breach on a line of its own."""
    if found := list(breaches):
        pytest.fail("\n".join([f"{len(found)} breaches:", *found]), pytrace=False)


@cache
def paths() -> tuple[str, ...]:
    """All files that are tracked or about to be: git's list, less what .gitignore names."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    names = sorted(set(listed.stdout.split("\0")) - {""})
    return tuple(name for name in names if (ROOT / name).is_file())


@cache
def texts() -> tuple[Source, ...]:
    """Every text file of the tree."""
    return tuple(
        Source(path, data.decode())
        for path in paths()
        if is_text(data := (ROOT / path).read_bytes())
    )


def is_text(data: bytes) -> bool:
    """Whether the bytes are UTF-8 without NUL."""
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def ours(*suffixes: str, under: str = "") -> list[Source]:
    """The files that we wrote ourselves (not vendored) with one of the suffixes, in a folder."""
    return [
        source
        for source in texts()
        if source.suffix in suffixes
        and source.path.startswith(under)
        and "vendor" not in Path(source.path).parts
    ]
