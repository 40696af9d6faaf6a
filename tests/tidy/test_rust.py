"""What the compiler and clippy do not keep, or not everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tidy import rust
from tidy.sources import Source, assert_kept, breach, ours

UNSAFE = re.compile(r"\bunsafe\b")
PYCLASS = re.compile(r"#\[pyclass(?P<options>\([^\]]*\))?\s*\]")
GIVES_UP = re.compile(
    r"\.(?:unwrap|expect)(?:_err)?\s*\(|\bprocess::exit\b"
    r"|\b(?:panic|todo|unimplemented)!"
)
CONDITION = re.compile(r"\b(?:if|while)\b")
IGNORED_TEST = re.compile(r"#\[ignore\s*\]")
TEST = re.compile(r"#\[test\]")
IN_A_LIBRARY = re.compile(r"crates/\w+/src/(?!main\.rs$|bin/)")
FENCE = re.compile(r"^\s*//[/!]\s*```(?P<language>\w*)")
OTHER_LANGUAGES = {"text", "json", "sql", "toml", "sh"}
STATEMENT_END = re.compile(r"[;{}]\s*$")


def unexplained_unsafe(sources: list[Source]) -> Iterator[str]:
    for source in sources:
        masked_lines = rust.code(source.text).splitlines()
        for index, line in enumerate(masked_lines):
            if UNSAFE.search(line) and not is_explained(source.lines, masked_lines, index):
                yield breach(source, index + 1, "unsafe without a SAFETY comment above it")


def is_explained(lines: list[str], masked_lines: list[str], index: int) -> bool:
    """Whether a SAFETY comment stands on the line, or above the statement that it belongs to."""
    if "SAFETY:" in lines[index]:
        return True
    for above in range(index - 1, -1, -1):
        text = lines[above].strip()
        if text.startswith("//"):
            if "SAFETY:" in text or "# Safety" in text:
                return True
        elif text.startswith("#["):
            continue
        elif not text or STATEMENT_END.search(masked_lines[above]):
            return False
    return False


def thawed_pyclasses(sources: list[Source]) -> Iterator[str]:
    for source in sources:
        masked = rust.code(source.text)
        for match in PYCLASS.finditer(masked):
            if not re.search(r"\bfrozen\b", match["options"] or ""):
                yield breach(source, source.line_at(match.start()), "#[pyclass] is not frozen")


def giving_up(sources: list[Source]) -> Iterator[str]:
    for source in rust.outside_tests(sources):
        for match in GIVES_UP.finditer(rust.without_tests(source)):
            call = match.group().strip(".( ")
            yield breach(source, source.line_at(match.start()), f"{call}: return an error instead")


def let_chains(sources: list[Source]) -> Iterator[str]:
    """Conditions that join ``let`` by ``&&``: Rust 1.88, and the manifest promises 1.85."""
    for source in sources:
        masked = rust.code(source.text)
        for match in CONDITION.finditer(masked):
            opening = rust.body_start(masked, match.end())
            condition = outermost(masked[match.end() : opening]) if opening else ""
            if re.search(r"\blet\b", condition) and "&&" in condition:
                yield breach(source, source.line_at(match.start()), "a let chain needs Rust 1.88")


def outermost(code: str) -> str:
    """The code less what stands in parentheses or brackets."""
    while code != (code := re.sub(r"[(\[][^()\[\]]*[)\]]", "", code)):
        pass
    return code


def silently_ignored(sources: list[Source]) -> Iterator[str]:
    for source in sources:
        for match in IGNORED_TEST.finditer(rust.code(source.text)):
            yield breach(source, source.line_at(match.start()), "#[ignore] without a reason")


def outside_libraries(sources: list[Source]) -> Iterator[str]:
    """Tests that ``make test-rust`` does not run: those of other targets, and those of pages."""
    for source in sources:
        if not IN_A_LIBRARY.match(source.path):
            for match in TEST.finditer(rust.code(source.text)):
                yield breach(source, source.line_at(match.start()), "a test outside of a library")
        is_open = False
        for number, line in enumerate(source.lines, start=1):
            if fence := FENCE.match(line):
                is_open = not is_open
                if is_open and fence["language"] not in OTHER_LANGUAGES:
                    yield breach(source, number, "would be a test: say ```text, or write a #[test]")


def test_every_unsafe_is_explained() -> None:
    assert_kept(unexplained_unsafe(ours(".rs")))


def test_every_pyclass_is_frozen() -> None:
    assert_kept(thawed_pyclasses(ours(".rs")))


def test_nothing_gives_up_outside_tests() -> None:
    assert_kept(giving_up(ours(".rs")))


def test_no_let_chains() -> None:
    assert_kept(let_chains(ours(".rs")))


def test_every_test_lies_in_a_library() -> None:
    assert_kept(outside_libraries(ours(".rs")))


@pytest.mark.parametrize(
    ("path", "text", "offences"),
    [
        ("crates/load/src/lib.rs", "#[test]\nfn f() {}", 0),
        ("crates/load/src/tests/bin.rs", "#[test]\nfn f() {}", 0),
        ("crates/load/tests/all.rs", "#[test]\nfn f() {}", 1),
        ("crates/load/examples/one.rs", "#[test]\nfn f() {}", 1),
        ("crates/load/src/main.rs", "#[test]\nfn f() {}", 1),
        ("crates/load/src/lib.rs", "//! ```text\n//! 1 2\n//! ```", 0),
        ("crates/load/src/lib.rs", "/// ```\n/// f();\n/// ```\nfn f() {}", 1),
        ("crates/load/src/lib.rs", "/// ```no_run\n/// f();\n/// ```\nfn f() {}", 1),
    ],
)
def test_a_test_outside_of_a_library_is_seen(path: str, text: str, offences: int) -> None:
    assert len(list(outside_libraries([Source(path, text)]))) == offences


def test_no_test_is_ignored_without_reason() -> None:
    assert_kept(silently_ignored(ours(".rs")))


@pytest.mark.parametrize(
    "text",
    [
        "fn f() {\n    unsafe { g() };\n}",
        "fn f() {\n    // SAFETY: g is fine.\n    g();\n    unsafe { g() };\n}",
        "unsafe impl Send for Part {}",
        'fn f() {\n    h("SAFETY:");\n    unsafe { g() };\n}',
    ],
)
def test_unexplained_unsafe_is_seen(text: str) -> None:
    assert list(unexplained_unsafe([Source("a.rs", text)]))


@pytest.mark.parametrize(
    "text",
    [
        "// SAFETY: Part owns its memory.\nunsafe impl Send for Part {}",
        "fn f() {\n    // SAFETY: it\n    // lives.\n    let x =\n        unsafe { g() };\n}",
        "/// Reads.\n///\n/// # Safety\n/// The pointer lives.\n#[inline]\npub unsafe fn g() {}",
        "// nothing unsafe here",
    ],
)
def test_explained_unsafe_is_left_alone(text: str) -> None:
    assert not list(unexplained_unsafe([Source("a.rs", text)]))


@pytest.mark.parametrize("attribute", ["#[pyclass]", '#[pyclass(name = "frozen")]'])
def test_thawed_pyclass_is_seen(attribute: str) -> None:
    assert list(thawed_pyclasses([Source("a.rs", f"{attribute}\nstruct A;")]))


def test_frozen_pyclass_is_left_alone() -> None:
    text = '#[pyclass(frozen, module = "seatrial._core")]\nstruct A;'
    assert not list(thawed_pyclasses([Source("a.rs", text)]))


@pytest.mark.parametrize(
    "call",
    [".unwrap()", '.expect("x")', "; std::process::exit(1)", "; todo!()", "; panic!()"],
)
def test_giving_up_is_seen(call: str) -> None:
    assert list(giving_up([Source("crates/a/src/lib.rs", f"fn f() {{ g(){call}; }}")]))


def test_giving_up_in_tests_is_left_alone() -> None:
    text = "fn f() { g().unwrap_or(1); }\n#[cfg(test)]\nmod tests { fn t() { g().unwrap(); } }"
    assert not list(giving_up([Source("crates/a/src/lib.rs", text)]))


@pytest.mark.parametrize(
    "condition",
    ["if let Some(x) = y\n    && x > 1 {", "while a(1) && let Some(x) = y() {"],
)
def test_let_chain_is_seen(condition: str) -> None:
    assert list(let_chains([Source("a.rs", f"fn f() {{ {condition} }} }}")]))


@pytest.mark.parametrize(
    "condition",
    ["if a && b {", "if let Some(x) = (a && b).then(|| [c && d]) {", "if a { let b = c && d;"],
)
def test_plain_condition_is_left_alone(condition: str) -> None:
    assert not list(let_chains([Source("a.rs", f"fn f() {{ {condition} }} }}")]))


def test_ignored_test_is_seen() -> None:
    assert list(silently_ignored([Source("a.rs", "#[test]\n#[ignore]\nfn f() {}")]))
    assert not list(silently_ignored([Source("a.rs", '#[test]\n#[ignore = "slow"]\nfn f() {}')]))
