//! Random texts for tests, of this crate and of those above it.

use proptest::prelude::*;

/// What SQL is made of, so that random texts reach the rules.
pub fn sql_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => "[a-z_]{1,6}".prop_map(String::into_bytes),
        3 => "(0x[0-9a-f]{0,3}|[0-9]{1,12}|[0-9]*\\.[0-9]*)(e[-+]?[0-9]{0,2})?"
            .prop_map(String::into_bytes),
        3 => "(|E|e|B|x|N|U&|u&)'([a-z0-9%_éß]|''|\\\\.|[- :.]){0,12}'?"
            .prop_map(String::into_bytes),
        2 => "(|U&)\"[a-zA-Z \"]{0,5}\"?".prop_map(String::into_bytes),
        2 => "\\$(|a|b_1)\\$[a-z$']{0,6}(\\$(|a|b_1)\\$)?".prop_map(String::into_bytes),
        2 => "(--[a-z']{0,5}\n|/\\*[+a-z'*/]{0,6}(\\*/)?)".prop_map(String::into_bytes),
        2 => "\\$[0-9]{1,2}".prop_map(String::into_bytes),
        4 => "[-+*/<>=~!@#%^&|`?]{1,3}".prop_map(String::into_bytes),
        6 => "(\\(|\\)|\\[|\\]|,|;|:|::|:=|\\.|\\$)".prop_map(String::into_bytes),
        6 => "[ \t\r\n]{1,2}".prop_map(String::into_bytes),
        4 => "(?i)(in \\(|values \\(|array\\[|null|true|is|not|uescape|with|begin atomic|select)"
            .prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 1..4),
    ];
    proptest::collection::vec(piece, 0..25).prop_map(|pieces| pieces.concat())
}
