//! Tests of the mask: the same length, kind and fingerprint; equal values stay equal.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use seatrial_sqltext::lexer::fingerprint;
use seatrial_sqltext::lexer::form::Parts;

use super::cipher::Purpose;
use super::*;
use crate::sql_like::sql_like;

fn parameter(mask: &Mask, text: &str) -> String {
    let mut out = Vec::new();
    mask.parameter(text.as_bytes(), &mut out);
    String::from_utf8(out).unwrap()
}

fn statement(mask: &Mask, sql: &str) -> String {
    String::from_utf8(mask.statement(sql.as_bytes())).unwrap()
}

fn form(sql: &[u8]) -> Vec<u8> {
    let mut parts = Parts::default();
    parts.take_apart(sql);
    parts.form().to_vec()
}

proptest! {
    #[test]
    fn fingerprints_and_lengths_stay(sql in sql_like()) {
        let masked = Mask::new().statement(&sql);
        prop_assert_eq!(masked.len(), sql.len());
        prop_assert_eq!(form(&masked), form(&sql), "{}", String::from_utf8_lossy(&masked));
        prop_assert_eq!(fingerprint(&masked).0, fingerprint(&sql).0);
    }

    #[test]
    fn any_parameter_keeps_its_length(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let (mask, mut out) = (Mask::new(), Vec::new());
        mask.parameter(&bytes, &mut out);
        prop_assert_eq!(out.len(), bytes.len());
    }

    #[test]
    fn texts_keep_length_and_structure(text in "~[ -\\[\\]-~äßÖжЖ漢字가😀%_]{0,30}") {
        let mask = Mask::new();
        let masked = parameter(&mask, &text);
        prop_assert_eq!(masked.len(), text.len());
        prop_assert_eq!(&masked, &parameter(&mask, &text));
        for (one, other) in text.chars().zip(masked.chars()) {
            if !one.is_alphanumeric() {
                prop_assert_eq!(one, other);
            }
            prop_assert_eq!(one.len_utf8(), other.len_utf8());
            prop_assert_eq!(one.is_alphabetic(), other.is_alphabetic());
        }
    }

    #[test]
    fn integers_keep_digits_sign_and_width(value in any::<i64>(), shift in 0u32..63) {
        let value = value >> shift;
        let masked: i64 = parameter(&Mask::new(), &value.to_string()).parse().unwrap();
        prop_assert_eq!(value.to_string().len(), masked.to_string().len());
        prop_assert_eq!(value.signum(), masked.signum());
        let width = |value: i64| {
            (value.unsigned_abs() <= 0x7fff, value.unsigned_abs() <= 0x7fff_ffff)
        };
        prop_assert_eq!(width(value), width(masked));
    }

    #[test]
    fn a_permutation_is_one(count in 1u64..600) {
        let mask = Mask::new();
        let seen: BTreeSet<u64> =
            (0..count).map(|value| mask.cipher.permute(Purpose::Number, count, value)).collect();
        prop_assert_eq!(seen.len() as u64, count);
        prop_assert!(seen.iter().all(|&value| value < count));
    }

    #[test]
    fn large_ranges_are_respected(count in 1u64..=(1 << 63), value in any::<u64>()) {
        let cipher = Mask::new().cipher;
        prop_assert!(cipher.permute(Purpose::Number, count, value % count) < count);
    }

    #[test]
    fn dates_stay_valid(day in 1u64..=28, month in 1u64..=12, second in 0u64..86_400) {
        let text = format!(
            "2024-{month:02}-{day:02} {:02}:{:02}:{:02}.125+02",
            second / 3_600, second / 60 % 60, second % 60
        );
        let masked = parameter(&Mask::new(), &text);
        let figure = |at: usize| masked[at..at + 2].parse::<u64>().unwrap();
        prop_assert!(masked.starts_with("2024-") && masked.ends_with("+02"), "{}", masked);
        prop_assert!((1..=12).contains(&figure(5)) && (1..=31).contains(&figure(8)));
        prop_assert!(figure(11) < 24 && figure(14) < 60 && figure(17) < 60);
        prop_assert_eq!(masked.len(), text.len());
    }
}

#[test]
fn stand_ins_are_equal_iff_values_are_equal() {
    let mask = Mask::new();
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    let words = (0..20_000).map(|number| match number % 4 {
        0 => format!("{}", 10_000 + number),
        1 => format!("user{number}@example.org"),
        2 => format!("2024-01-{:02} 00:00:{:02}.{number:05}", number % 28 + 1, number % 60),
        _ => format!("{number:032x}: a text that is longer than what 62 bits hold"),
    });
    for word in words {
        let masked = parameter(&mask, &word);
        assert_eq!(masked, parameter(&mask, &word));
        assert_eq!(owners.insert(masked, word.clone()), None, "{word}");
    }
    assert_ne!(parameter(&mask, "a secret"), parameter(&Mask::new(), "a secret"), "keys differ");
}

#[test]
fn equal_values_have_equal_stand_ins_in_every_spelling() {
    let mask = Mask::new();
    let sql =
        "select 'Bobby', E'Bobby', $$Bobby$$, '{\"name\": \"Bobby\", \"ok\": true}', 'Bobby'::text";
    let name = parameter(&mask, "Bobby");
    assert_eq!(statement(&mask, sql).matches(&name).count(), 5);
    let numbers = statement(&mask, "select 4711, '4711', -4711");
    assert_eq!(numbers.matches(&parameter(&mask, "4711")).count(), 3);
}

#[test]
fn literals_that_are_not_data_are_kept() {
    for sql in [
        "SELECT nextval('public.ids'), 'public.t'::regclass, now() AT TIME ZONE 'Asia/Tokyo'",
        "select to_char(a, 'YYYY-MM-DD'), date_trunc('month', b), encode(c, 'hex') from t",
        "select a from t order by 1, 2 desc limit 10 offset 20",
        "select a from t group by 1 limit null; set work_mem = '4MB'; fetch first 5 rows only",
        "select a::varchar(20), b::numeric(10, 2), c[1], \"c\"[2][3], $1[4], (c)[5] from t",
        "select decode(a, 'hex'), decode(a, 'hex'::text), (array[a, b])[6] from t",
        "set search_path to 'a', b; set work_mem = '64MB'",
        "copy t from 'a.csv' with (format csv, delimiter ';', null 'n/a')",
        "insert into t values (null, true, FALSE, 'true', 'now', 'infinity', DEFAULT)",
        "select 'day'::interval * 0, '%_%', '', '{}', '{t,f}', /*+ SeqScan(a) */ 'f'",
    ] {
        assert_eq!(statement(&Mask::new(), sql), sql);
    }
}

#[test]
fn data_are_masked() {
    let mask = Mask::new();
    for (sql, secrets) in [
        ("select * from t where a = 'Geheim' /* for bob */", &["Geheim", "bob"][..]),
        ("set app.user = 'carla'", &["carla"]),
        ("create user joe password 'hunter'", &["hunter"]),
        ("do $body$ begin perform f('secret'); end $body$", &["secret"]),
        ("select to_char('secret', 'YYYY'), substr('secret', 1)", &["secret"]),
        ("insert into t values ('a''secret', E'se\\'cret', U&'secret')", &["secret", "cret"]),
        ("select X'DEADBEEF', '\\xdeadbeef', E'\\\\xdeadbeef'", &["DEADBEEF", "deadbeef"]),
        ("select E'\\x73\\x65\\u0063\\162'", &["73", "65", "0063", "162"]),
        ("copy (select * from t where a = 'secret') to stdout", &["secret"]),
        ("set statement_timeout = 5; select 'secret', 4711", &["secret", "4711"]),
        ("show x; select 'secret'; set a.b = 'public'", &["secret", "public"]),
        ("do $$ set work_mem = 5; select 'secret' $$", &["secret"]),
        ("set \"request.claim\" = 'secret'; set local \"a.b\" to 'public'", &["secret", "public"]),
        ("select a from t order by a; select 1, 'secret', 4711", &["secret", "4711"]),
        ("create function f() begin atomic select a order by a; select 1, 4711; end", &["4711"]),
        ("select timestamp with time zone '1984-03-02 10:11:12'", &["03-02 10:11:12"]),
        ("select array[['alice'], ['carla', 'x'], [4711]]", &["alice", "carla", "4711"]),
        ("select a['secret'], varchar('public')", &["secret", "public"]),
        ("select 'secret'::region_name, 'public'::reg", &["secret", "public"]),
        ("copy (select 1 from t where a is distinct from 'secret') to stdout", &["secret"]),
        ("copy t from stdin where a is distinct from 'secret'", &["secret"]),
        ("select a from t group by 1, 'secret' limit 'public'", &["secret", "public"]),
        ("select a order by a returning a, 'secret', 4711", &["secret", "4711"]),
        ("select decode(a, 'secret', 1, f('x'), 'public')", &["secret", "public"]),
        ("do language plpython3u $$ a = \"secret\" $$", &["secret", "a = "]),
        ("create function f() returns int language plperl as $$ \"secret\" $$", &["secret"]),
    ] {
        let masked = statement(&mask, sql);
        assert_eq!(masked.len(), sql.len());
        assert!(secrets.iter().all(|secret| !masked.contains(secret)), "{masked}");
    }
    assert!(
        statement(&mask, "do $$ begin perform f('x1'); end $$").starts_with("do $$ begin perf")
    );
}

#[test]
fn letters_behind_a_backslash_are_masked_unless_they_are_escapes() {
    let one =
        |_| parameter(&Mask::new(), "\\g\\Q\\ж\\n\\d\\8").chars().skip(1).step_by(2).collect();
    let masked: BTreeSet<Vec<char>> = (0..100).map(one).collect();
    for (at, range) in ['g'..='l', 'N'..='R', 'а'..='я'].into_iter().enumerate() {
        assert!(masked.iter().all(|chars| range.contains(&chars[at])), "{masked:?}");
        assert!(masked.iter().map(|chars| chars[at]).collect::<BTreeSet<_>>().len() > 2);
    }
    assert!(masked.iter().all(|chars| chars[3..] == ['n', 'd', '8']));
}

#[test]
fn texts_in_other_encodings_are_masked() {
    // Hiragana and a kanji that looks like UTF-8 (0xc2a4) in EUC-JP; Polish and Russian words.
    let euc = b"\xa4\xa2\xa4\xa4\xa4\xa6\xc2\xa4\xa4\xaa";
    for original in [&euc[..], b"\xa3\xf3d\xbc\xa3\xf3d\xbc", b"\xa8\xeb\xea\xe0\x8a\x9a\xff\xff"] {
        let mut masked = Vec::new();
        Mask::new().parameter(original, &mut masked);
        assert_eq!(masked.len(), original.len());
        let same = masked.iter().zip(original).filter(|(one, other)| one == other).count();
        assert!(same <= 3, "{masked:x?}");
        if original == euc {
            assert!(masked.iter().all(|byte| (0xa1..=0xfe).contains(byte)), "{masked:x?}");
        }
    }
}

#[test]
fn only_a_zone_may_follow_a_time() {
    let mask = Mask::new();
    for zone in ["+02", "Z", " UTC", " cest", " BC", " PM", " Europe/Berlin"] {
        let masked = parameter(&mask, &format!("2024-05-06 14:30:00{zone}"));
        assert!(masked.starts_with("2024-") && masked.ends_with(zone), "{masked}");
    }
    for name in ["Mueller", "Schmidt/Mueller", "Anna_Mueller"] {
        for text in [format!("14:30 {name}"), format!("{{\"a\": \"14:30 {name}\"}}")] {
            assert!(!parameter(&mask, &text).contains("Mueller"), "{text}");
        }
    }
}

#[test]
fn special_values_stay_valid() {
    let mask = Mask::new();
    let uuid = parameter(&mask, "6f9619ff-8b86-4011-b42d-00c04fc964ff");
    assert_eq!((&uuid[14..15], &uuid[19..20], uuid.len()), ("4", "b", 36));
    assert!(uuid.chars().all(|letter| letter == '-' || letter.is_ascii_hexdigit()));
    let address = parameter(&mask, "192.168.10.7/24");
    let octets: Vec<u8> = address
        .strip_suffix("/24")
        .unwrap()
        .split('.')
        .map(|octet| octet.parse().unwrap())
        .collect();
    assert_eq!(octets.len(), 4);
    let network = parameter(&mask, "fe80::1ff:fe23:4567:890a");
    assert!(network.parse::<std::net::Ipv6Addr>().is_ok(), "{network}");
    let interval = parameter(&mask, "3 days 04:05:06");
    assert!(interval.contains(" days ") && interval.len() == 15, "{interval}");
    let json = parameter(&mask, r#"{"a": [1.50, -2e10, null, "b\"c\u0041"], "d": false}"#);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(value.is_object() && json.contains("null") && json.contains("false"), "{json}");
    let leap = parameter(&mask, "2023-02-29");
    assert_eq!(leap.matches('-').count(), 2, "no date, so a text: {leap}");
    let numbers = parameter(&mask, "-007.250e-12");
    assert!(numbers.starts_with("-00") && numbers.ends_with("e-12"), "{numbers}");
    assert_eq!(parameter(&mask, "0"), "0");
}
