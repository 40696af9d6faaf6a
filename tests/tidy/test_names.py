"""A plain number that is a duration, a size or a rate says its unit at the end of its name.

The rule looks at plain numbers only: a Rust ``Duration`` or an ``Estimate`` carries its own unit.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tidy import rust
from tidy.sources import Source, assert_kept, breach, ours

MEASURED = re.compile(
    "duration|timeout|latency|latencies|delay|elapsed|interval|size|length|offset|rate|bandwidth"
    "|age|capacity|capacities"
)
UNITS = (
    "ns|us|ms|s|min|h|days"
    "|bytes|kib|mib|gib|kb|mb|gb|blocks|sectors|pages|lines|columns|characters|px"
    "|hz|khz|mhz|ghz|iops|share|percent|ratio"
)
QUALIFIERS = "min|max|total|mean|median|sum|low|high|before|after|first|last|default|p[0-9]+"
NAME_WITH_UNIT = re.compile(
    rf"(?:^|.*_)(?:(?:{UNITS})(?:_per_(?:{UNITS}))?|per_(?:{UNITS}))"
    rf"(?:_by_\w+|(?:_(?:{QUALIFIERS}))*)"
)

# What breaks the rule and may, by file and name, each with its reason.
EXCEPTIONS = {
    ("python/seatrial/stats/wording.py", "DIGITS_WITHOUT_INTERVAL"): "a number of digits",
    ("tests/cli/preloaded.py", "timeout"): "the argument of subprocess.Popen",
}

PLAIN = {"int", "float"}
CONTAINERS = {"list", "tuple", "dict", "set", "frozenset", "str", "Sequence", "Iterable"}
CONTAINERS |= {"Iterator", "Mapping", "Collection", "ndarray", "NDArray", "np", "numpy", "float64"}
RUST_NUMBER = r"(?:[ui](?:8|16|32|64|128|size)|f32|f64|Atomic[UI](?:8|16|32|64|size))\b(?!\s*::)"
RUST_WRAPPERS = (
    r"(?:&\s*(?:'\w+\s+)?(?:mut\s+)?|(?:Option|Vec|Box|Arc|Cell|VecDeque)\s*<\s*|\[\s*)*"
)
RUST_TYPED = re.compile(rf"\b(?P<name>[A-Za-z]\w*)\s*:\s*{RUST_WRAPPERS}{RUST_NUMBER}")
RUST_LITERAL = re.compile(r"\blet\s+(?:mut\s+)?(?P<name>\w+)\s*=\s*[0-9]")
RUST_RETURN = re.compile(rf"->\s*(?:(?:Option|Result)\s*<\s*)?{RUST_NUMBER}[^(]*$")


def lacks_unit(name: str) -> bool:
    """Whether a name speaks of a duration, size or rate and does not end in its unit."""
    words = name.lower().strip("_").split("_")
    measured = any(MEASURED.fullmatch(word.removesuffix("s")) for word in words) or any(
        MEASURED.fullmatch(word) for word in words
    )
    return measured and not NAME_WITH_UNIT.fullmatch("_".join(words))


def python_names(source: Source) -> Iterator[tuple[str, int]]:
    """Names of plain numbers and their lines: parameters, fields, results, literals."""
    for node in ast.walk(source.tree()):
        if isinstance(node, ast.arg) and is_number(node.annotation):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_number(node.returns):
            yield node.name, node.lineno
        elif isinstance(node, ast.AnnAssign) and is_number(node.annotation):
            yield from names_of(node.target)
        elif isinstance(node, ast.Assign) and is_number_literal(node.value):
            for target in node.targets:
                yield from names_of(target)


def is_number(annotation: ast.expr | None) -> bool:
    """Whether a type is int or float, alone, optional or in a container."""
    if annotation is None:
        return False
    names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
    return bool(names & PLAIN) and names <= PLAIN | CONTAINERS


def is_number_literal(value: ast.expr) -> bool:
    """Whether an expression is made of number literals alone, such as ``4 * 1024``."""
    if isinstance(value, ast.BinOp):
        return is_number_literal(value.left) and is_number_literal(value.right)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def names_of(target: ast.expr) -> Iterator[tuple[str, int]]:
    """The name that an assignment gives, of a variable or an attribute."""
    if isinstance(target, ast.Name):
        yield target.id, target.lineno
    elif isinstance(target, ast.Attribute):
        yield target.attr, target.lineno


def rust_names(source: Source) -> Iterator[tuple[str, int]]:
    """Names of plain numbers and their lines: fields, parameters, lets, constants, results."""
    masked = rust.code(source.text)
    for pattern in (RUST_TYPED, RUST_LITERAL):
        for match in pattern.finditer(masked):
            yield match["name"], source.line_at(match.start())
    for function in rust.functions(source):
        if RUST_RETURN.search(function.signature):
            yield function.name, function.first_line


def nameless_units(sources: list[Source]) -> Iterator[tuple[Source, str, int]]:
    for source in sources:
        names = rust_names(source) if source.suffix == ".rs" else python_names(source)
        for name, line in sorted(set(names), key=lambda pair: pair[1]):
            if lacks_unit(name):
                yield source, name, line


def breaches(sources: list[Source]) -> Iterator[str]:
    for source, name, line in nameless_units(sources):
        if (source.path, name) not in EXCEPTIONS:
            yield breach(source, line, f"{name} ends in no unit (such as _ns, _bytes, _per_s)")


def test_names_end_in_their_unit_but_exceptions_that_are_still_needed() -> None:
    sources = ours(".rs", ".py", ".pyi")
    found = {source.path: source for source, _, _ in nameless_units(sources)}
    assert_kept(breaches(list(found.values())))
    assert set(EXCEPTIONS) <= {(s.path, name) for s, name, _ in nameless_units([*found.values()])}
    assert all(EXCEPTIONS.values())


@pytest.mark.parametrize(
    "text",
    [
        "def wait(timeout: float) -> None: ...",
        "def wait(*, delays: list[int] | None = None) -> None: ...",
        "class Part:\n    size: int",
        "class Part:\n    def __init__(self):\n        self.offset = 4 * 1024",
        "STALL_TIMEOUT = 0.05",
        "class Part:\n    @property\n    def elapsed(self) -> float: ...",
        "def read(bytes_rate: float) -> None: ...",
    ],
)
def test_python_name_without_unit_is_seen(text: str) -> None:
    assert list(breaches([Source("a.py", text)]))


@pytest.mark.parametrize(
    "text",
    [
        "def wait(timeout_s: float, latency_ns_max: int) -> None: ...",
        "class Part:\n    size_bytes: int\n    latency: Estimate\n    page: int",
        "self.offset_blocks = 0",
        "RATE_BYTES_PER_S = 1",
        "latency_ns_by_kind: dict[str, int] = {}",
        "arrival_rate_per_s_p99: float = 1.0",
    ],
)
def test_python_name_with_unit_is_left_alone(text: str) -> None:
    assert not list(breaches([Source("a.py", text)]))


@pytest.mark.parametrize(
    "text",
    [
        "struct Part { size: u64 }",
        "fn wait(timeout: Option<u64>) {}",
        "fn f() { let mut offset = 0; }",
        "fn f() { let ages: Vec<u64> = now(); }",
        "const STALL_INTERVAL: u32 = 5;",
        "fn latency(&self) -> u64 { 1 }",
        "fn rate(&self) -> Option<f64> { None }",
    ],
)
def test_rust_name_without_unit_is_seen(text: str) -> None:
    assert list(breaches([Source("a.rs", text)]))


@pytest.mark.parametrize(
    "text",
    [
        "struct Part { size_bytes: u64, timeout: Duration, pages: u64 }",
        "fn f() { let mut offset_bytes = 0; let size = part.size(); }",
        "fn f() { g(Part { latency: u64::MAX }); } // size: u64",
        "fn latency_ns(&self) -> u64 { 1 }",
        "fn latency(&self) -> Histogram { x }",
    ],
)
def test_rust_name_with_unit_is_left_alone(text: str) -> None:
    assert not list(breaches([Source("a.rs", text)]))
