//! What PostgreSQL sends, and what it means; the bytes are those of its `..._send` functions.

use proptest::prelude::*;

use super::*;

fn text_of(type_oid: u32, value: &[u8]) -> Option<String> {
    let mut out = Vec::new();
    text(type_oid, value, &mut out).map(|()| String::from_utf8(out).unwrap())
}

fn bytes(digits: &str) -> Vec<u8> {
    let digits: String = digits.split_whitespace().collect();
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[test]
fn plain_values() {
    for (type_oid, digits, expected) in [
        (oid::INT2, "fff9", "-7"),
        (oid::INT4, "00001267", "4711"),
        (oid::INT8, "7fffffffffffffff", "9223372036854775807"),
        (oid::OID, "ffffffff", "4294967295"),
        (oid::BOOL, "01", "t"),
        (oid::BOOL, "00", "f"),
        (oid::FLOAT8, "3fb999999999999a", "0.1"),
        (oid::FLOAT4, "3dcccccd", "0.1"),
        (oid::FLOAT8, "fff0000000000000", "-Infinity"),
        (oid::FLOAT8, "7ff8000000000000", "NaN"),
        (oid::TEXT, "c3a42227", "ä\"'"),
        (oid::BYTEA, "00ff", "\\x00ff"),
        (oid::JSONB, "017b7d", "{}"),
        (oid::UUID, "a0eebc999c0b4ef8bb6d6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ] {
        assert_eq!(text_of(type_oid, &bytes(digits)).as_deref(), Some(expected), "{type_oid}");
    }
}

#[test]
fn numbers_of_any_length() {
    for (digits, expected) in [
        ("0002 0000 0000 0002 0003 1194", "3.45"),
        ("0001 0000 4000 0000 0007", "-7"),
        ("0000 0000 0000 0000", "0"),
        ("0000 0000 0000 0003", "0.000"),
        ("0001 0002 0000 0000 0001", "100000000"),
        ("0002 0001 0000 0000 000c 0d80", "123456"),
        ("0001 fffe 0000 0008 0001", "0.00000001"),
        ("0001 ffff 0000 0004 0001", "0.0001"),
        ("0000 0000 c000 0000", "NaN"),
        ("0000 0000 d000 0020", "Infinity"),
    ] {
        assert_eq!(text_of(oid::NUMERIC, &bytes(digits)).as_deref(), Some(expected), "{digits}");
    }
    assert_eq!(text_of(oid::NUMERIC, &bytes("0002 0000 0000 0002 0003")), None);
}

#[test]
fn times() {
    let us = |value: i64| value.to_be_bytes().to_vec();
    for (type_oid, value, expected) in [
        (oid::DATE, 0i32.to_be_bytes().to_vec(), "2000-01-01"),
        (oid::DATE, 59i32.to_be_bytes().to_vec(), "2000-02-29"),
        (oid::DATE, (-1i32).to_be_bytes().to_vec(), "1999-12-31"),
        (oid::DATE, (-730_119i32).to_be_bytes().to_vec(), "0001-01-01"),
        (oid::DATE, (-730_120i32).to_be_bytes().to_vec(), "0001-12-31 BC"),
        (oid::DATE, i32::MAX.to_be_bytes().to_vec(), "infinity"),
        (oid::TIME, us(86_399_000_001), "23:59:59.000001"),
        (oid::TIMESTAMP, us(0), "2000-01-01 00:00:00"),
        (oid::TIMESTAMP, us(-1), "1999-12-31 23:59:59.999999"),
        (oid::TIMESTAMPTZ, us(848_534_400_000_000), "2026-11-21 00:00:00+00"),
        (oid::TIMESTAMPTZ, us(i64::MIN), "-infinity"),
    ] {
        assert_eq!(text_of(type_oid, &value).as_deref(), Some(expected));
    }
    let interval = [&us(-5)[..], &3i32.to_be_bytes(), &14i32.to_be_bytes()].concat();
    let expected = "14 mons 3 days -5 microseconds";
    assert_eq!(text_of(oid::TIMESPAN, &interval).as_deref(), Some(expected));
}

#[test]
fn arrays() {
    let int4 = "00000001 00000001 00000017 00000003 00000001 00000004 00000001 ffffffff \
                00000004 fffffffe";
    assert_eq!(text_of(1007, &bytes(int4)).as_deref(), Some("{1,NULL,-2}"));
    let texts = "00000001 00000000 00000019 00000003 00000001 00000003 612c22 00000000 \
                 00000004 4e554c4c";
    assert_eq!(text_of(1009, &bytes(texts)).as_deref(), Some(r#"{"a,\"","","NULL"}"#));
    let square = "00000002 00000000 00000015 00000002 00000001 00000001 00000001 00000002 0001 \
                  00000002 0002";
    assert_eq!(text_of(1005, &bytes(square)).as_deref(), Some("{{1},{2}}"));
    assert_eq!(text_of(1007, &bytes("00000000 00000000 00000017")).as_deref(), Some("{}"));
    let elsewhere = "00000001 00000000 00000017 00000001 00000000 00000004 00000001";
    assert_eq!(text_of(1007, &bytes(elsewhere)), None, "its first element is number 0");
}

#[test]
fn unknown_types_are_not_converted() {
    assert_eq!(text_of(16_384, b"happy"), None);
    assert_eq!(text_of(oid::INT4, b"123"), None);
    assert_eq!(text_of(oid::UUID, b"short"), None);
    assert_eq!(text_of(oid::JSONB, b"\x02{}"), None);
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(
        place in 0usize..46,
        value in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let plain = [16, 17, 18, 19, 20, 21, 23, 25, 26, 114, 142, 700, 701, 705, 1042, 1043, 1082,
            1083, 1114, 1184, 1186, 1700, 2950, 3802];
        let type_oid = plain.iter().chain(&ARRAYS).nth(place).copied().unwrap_or(1007);
        let _ = text(type_oid, &value, &mut Vec::new());
    }

    #[test]
    fn arrays_of_any_shape_do_not_panic(
        head in proptest::collection::vec(0i32..4, 3..12),
        value in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut sent: Vec<u8> = head.iter().flat_map(|number| number.to_be_bytes()).collect();
        sent.extend(value);
        let _ = text(1007, &sent, &mut Vec::new());
    }
}
