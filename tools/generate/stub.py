"""Writes python/seatrial/_core.pyi: the types of the native module, as its Rust declares them.

    python tools/generate/stub.py [--check]

PyO3 puts them into the module, and maturin reads them from there; it builds nothing where the core
is up to date. Exceptions, which PyO3 leaves out, are those of the module that is installed. With
``--check`` nothing is written, and a difference is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from seatrial import _core

ROOT = Path(__file__).resolve().parents[2]
STUB = ROOT / "python" / "seatrial" / "_core.pyi"
INCOMPLETE = "def __getattr__(name: str) -> Incomplete: ..."
PARTS = ("seen", "cause", "next_step")


def main() -> int:
    """Write what differs, or say that it does; return the exit code."""
    wanted = laid_out(declared().replace(INCOMPLETE, exceptions()))
    if wanted == STUB.read_text():
        return 0
    if "--check" in sys.argv[1:]:
        sys.stderr.write("_core.pyi is not as crates/pyext declares it: run `make generate`\n")
        return 1
    STUB.write_text(wanted)
    return 0


def declared() -> str:
    """Return what PyO3 put into the module."""
    environment = os.environ | {"PYO3_PYTHON": sys.executable}
    with tempfile.TemporaryDirectory() as folder:
        command = (Path(sys.executable).with_name("maturin"), "generate-stubs", "--quiet")
        profile = ("--profile", os.environ.get("ENGINE_PROFILE", "release"), "--locked")
        subprocess.run(
            [*command, *profile, "--out", folder],
            check=True,
            cwd=ROOT,
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        return (Path(folder) / "seatrial" / "_core.pyi").read_text()


def exceptions() -> str:
    """Return the classes of the module's exceptions, bases first."""
    known = [each for each in vars(_core).values() if isinstance(each, type)]
    classes = [each for each in known if issubclass(each, Exception)]
    text = []
    for each in sorted(classes, key=lambda each: (len(each.__mro__), each.__name__)):
        (base,) = each.__bases__
        text.append(f'class {each.__name__}({base.__name__}):\n    """{each.__doc__}"""\n')
        text += [f"    {name}: str\n" for name in PARTS if base is Exception]
    return "\n".join(text)


def laid_out(text: str) -> str:
    """Return a stub as ruff wants it."""
    ruff = Path(sys.executable).with_name("ruff")
    for options in (("check", "--fix", "--exit-zero", "--quiet"), ("format", "--quiet")):
        command = [ruff, *options, "--stdin-filename", STUB, "-"]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=True, cwd=ROOT
        )
        text = done.stdout
    return text


if __name__ == "__main__":
    sys.exit(main())
