"""The reader of Rust is itself careful: braces in strings, comments and characters are none."""

from __future__ import annotations

from tidy import rust
from tidy.sources import Source

TRICKY = r"""
fn one<'a>(text: &'a str) -> [u8; 2] {
    let brace = '}'; // a } in a comment
    let quote = '\''; let hex = '\x7d'; let wide = '\u{7d}'; let byte = b'}';
    let plain = "} \" }"; let raw = r#"}" } "#; let bytes = br"}";
    /* } /* nested } */ } */
    [b'{', 0]
}
trait Shape { fn area(&self) -> f64; fn name(&self) -> String { String::new() } }
#[cfg(test)]
mod tests {
    #[test]
    fn two() { one("x").first().unwrap(); }
}
fn three() {}
"""


def test_functions_end_where_they_end() -> None:
    found = {each.name: (each.first_line, each.last_line) for each in functions(TRICKY)}
    assert found == {"one": (2, 8), "name": (9, 9), "two": (13, 13), "three": (15, 15)}


def test_masking_moves_nothing() -> None:
    masked = rust.code(TRICKY)
    assert len(masked) == len(TRICKY)
    assert masked.count("\n") == TRICKY.count("\n")
    assert "nested" not in masked
    assert "'a" in masked


def test_code_for_tests_is_set_aside() -> None:
    kept = rust.without_tests(Source("crates/x/src/lib.rs", TRICKY))
    assert "unwrap" not in kept
    assert "fn three" in kept
    assert "fn one" in kept


def test_files_for_tests_are_set_aside() -> None:
    parent = Source("crates/x/src/disk.rs", "#[cfg(test)]\npub(crate) mod faults;\nmod cache;\n")
    faults = Source("crates/x/src/disk/faults.rs", "")
    cache = Source("crates/x/src/disk/cache.rs", "")
    outer = Source("crates/x/tests/all.rs", "")
    assert rust.outside_tests([parent, faults, cache, outer]) == [parent, cache]


def functions(text: str) -> list[rust.Function]:
    return list(rust.functions(Source("crates/x/src/lib.rs", text)))
