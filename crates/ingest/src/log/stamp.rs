//! Time stamps of a log, and the zones that they are in.
//!
//! A zone is what PostgreSQL prints for `log_timezone`: UTC, an abbreviation such as CET, or an
//! offset such as +0530 where the zone has none. Abbreviations are resolved as PostgreSQL does by
//! default, from its `timezonesets/Default`, less those whose offset differed by year.

use serde::{Deserialize, Serialize};

/// (abbreviation, minutes east of UTC). Source: PostgreSQL 15, `src/timezone/tznames/Default`,
/// completed from `Africa.txt`, `Asia.txt` and the other continents.
const ZONES: [(&[u8], i32); 66] = [
    (b"UTC", 0),
    (b"GMT", 0),
    (b"Z", 0),
    (b"UCT", 0),
    (b"WET", 0),
    (b"WEST", 60),
    (b"BST", 60),
    (b"CET", 60),
    (b"CEST", 120),
    (b"MET", 60),
    (b"MEST", 120),
    (b"EET", 120),
    (b"EEST", 180),
    (b"MSK", 180),
    (b"MSD", 240),
    (b"SAST", 120),
    (b"CAT", 120),
    (b"EAT", 180),
    (b"WAT", 60),
    (b"IST", 120),
    (b"IDT", 180),
    (b"PKT", 300),
    (b"UZT", 300),
    (b"NPT", 345),
    (b"ICT", 420),
    (b"WIB", 420),
    (b"WITA", 480),
    (b"WIT", 540),
    (b"HKT", 480),
    (b"SGT", 480),
    (b"PHT", 480),
    (b"AWST", 480),
    (b"JST", 540),
    (b"KST", 540),
    (b"ACST", 570),
    (b"ACDT", 630),
    (b"AEST", 600),
    (b"AEDT", 660),
    (b"ChST", 600),
    (b"SST", -660),
    (b"NZST", 720),
    (b"NZDT", 780),
    (b"NST", -210),
    (b"NDT", -150),
    (b"AST", -240),
    (b"ADT", -180),
    (b"EST", -300),
    (b"EDT", -240),
    (b"CST", -360),
    (b"CDT", -300),
    (b"MST", -420),
    (b"MDT", -360),
    (b"PST", -480),
    (b"PDT", -420),
    (b"AKST", -540),
    (b"AKDT", -480),
    (b"HST", -600),
    (b"HDT", -540),
    (b"ART", -180),
    (b"BRT", -180),
    (b"BRST", -120),
    (b"BOT", -240),
    (b"COT", -300),
    (b"PET", -300),
    (b"UYT", -180),
    (b"GYT", -240),
];

/// Abbreviations that other parts of the world use for other offsets.
const AMBIGUOUS: [&[u8]; 8] = [b"IST", b"CST", b"CDT", b"BST", b"AST", b"SST", b"EST", b"EDT"];

/// Limit of zones that a message names.
const NAMED_MAX: usize = 16;

/// Why a zone's offset is uncertain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ZoneUncertainty {
    Unknown,
    Ambiguous,
}

/// Years of logs: other stamps are data or damage, and not all can be shown as dates.
const YEARS: std::ops::RangeInclusive<i64> = 1970..=2200;

/// Offsets are whole quarters of an hour, and at most this far from UTC.
const QUARTER_US: i64 = 900_000_000;
const OFFSET_US_MAX: i64 = 15 * 3_600_000_000;

/// Resolves zones, and collects those that are unknown or ambiguous.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zones {
    #[serde(skip)]
    last: Vec<u8>,
    #[serde(skip)]
    last_offset_s: i64,
    #[serde(skip)]
    uncertainty: Option<ZoneUncertainty>,
    #[serde(skip)]
    is_reported: bool,
    /// Unknown zones, whose times were taken to be in UTC.
    pub unknown: Vec<String>,
    /// Zones with another offset elsewhere, taken as PostgreSQL does by default.
    pub ambiguous: Vec<String>,
}

impl Zones {
    /// Seconds east of UTC.
    #[inline]
    fn offset_s(&mut self, zone: &[u8]) -> i64 {
        if zone != self.last.as_slice() {
            self.resolve(zone);
        }
        self.last_offset_s
    }

    #[cold]
    fn resolve(&mut self, zone: &[u8]) {
        let known = ZONES.iter().find(|(name, _)| *name == zone);
        let offset_s = match known {
            Some(&(_, minutes)) => Some(i64::from(minutes) * 60),
            None => numeric_offset_s(zone),
        };
        self.uncertainty = match offset_s {
            None => Some(ZoneUncertainty::Unknown),
            Some(_) if AMBIGUOUS.contains(&zone) => Some(ZoneUncertainty::Ambiguous),
            Some(_) => None,
        };
        self.is_reported = false;
        zone.clone_into(&mut self.last);
        self.last_offset_s = offset_s.unwrap_or(0);
    }

    /// Notes that the offset of the last zone is uncertain.
    #[inline]
    fn report_uncertainty(&mut self) {
        if let (Some(uncertainty), false) = (self.uncertainty, self.is_reported) {
            self.is_reported = true;
            let zone = std::mem::take(&mut self.last);
            note(
                match uncertainty {
                    ZoneUncertainty::Unknown => &mut self.unknown,
                    ZoneUncertainty::Ambiguous => &mut self.ambiguous,
                },
                &zone,
            );
            self.last = zone;
        }
    }

    /// Adds the zones of another reader.
    pub fn merge(&mut self, other: &Zones) {
        for zone in &other.unknown {
            note(&mut self.unknown, zone.as_bytes());
        }
        for zone in &other.ambiguous {
            note(&mut self.ambiguous, zone.as_bytes());
        }
    }
}

fn note(zones: &mut Vec<String>, zone: &[u8]) {
    let zone = String::from_utf8_lossy(zone).into_owned();
    // Which ones are left out does not depend on the order in which they occurred.
    if !zones.contains(&zone) {
        zones.push(zone);
        zones.sort();
        zones.truncate(NAMED_MAX);
    }
}

/// An offset such as +03 or -0330, in seconds east of UTC.
fn numeric_offset_s(zone: &[u8]) -> Option<i64> {
    let (sign, digits) = match zone.split_first()? {
        (b'+', digits) => (1, digits),
        (b'-', digits) => (-1, digits),
        _ => return None,
    };
    let pair = |at: usize| -> Option<i64> {
        let pair = digits.get(at..at + 2)?;
        pair.iter().all(u8::is_ascii_digit).then(|| number(pair))
    };
    let hours = pair(0)?;
    let minutes = match digits.len() {
        2 => 0,
        4 => pair(2)?,
        _ => return None,
    };
    Some(sign * (hours * 3_600 + minutes * 60))
}

fn number(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |number, &digit| number * 10 + i64::from(digit - b'0'))
}

/// Reads a stamp such as `2026-11-21 19:51:22.127 CET` at the beginning of bytes: its time in us
/// since 1970, and its length.
#[inline]
pub fn read_stamp(bytes: &[u8], zones: &mut Zones) -> Option<(i64, usize)> {
    let stamp = read_unreported(bytes, zones)?;
    zones.report_uncertainty();
    Some(stamp)
}

/// Reads a timestamp of a record that also has the start of its session, as text and in s since
/// 1970. Both together give the offset of a zone that is unknown or ambiguous.
#[inline]
pub fn read_stamp_in_session(
    bytes: &[u8],
    (start, started_s): (&[u8], u32),
    zones: &mut Zones,
) -> Option<i64> {
    let (time_us, length) = read_unreported(bytes, zones)?;
    if zones.uncertainty.is_none() {
        return Some(time_us);
    }
    let late_us = late_by_start_us(&bytes[..length], start, started_s, zones);
    if late_us.is_none() {
        zones.report_uncertainty();
    }
    Some(time_us - late_us.unwrap_or(0))
}

/// By how much the start of the session is read too late, with the assumed offset of the zone.
#[cold]
fn late_by_start_us(stamp: &[u8], start: &[u8], started_s: u32, zones: &mut Zones) -> Option<i64> {
    let zone = |stamp: &[u8]| stamp.rsplit(|&byte| byte == b' ').next().map(<[u8]>::to_vec);
    if started_s == 0 || zone(stamp) != zone(start) {
        return None;
    }
    let late_us = read_unreported(start, zones)?.0 - i64::from(started_s) * 1_000_000;
    let is_offset = late_us % QUARTER_US == 0 && late_us.abs() <= 2 * OFFSET_US_MAX;
    is_offset.then_some(late_us)
}

#[inline]
fn read_unreported(bytes: &[u8], zones: &mut Zones) -> Option<(i64, usize)> {
    let fixed = bytes.first_chunk::<19>()?;
    if !has_form(fixed) {
        return None;
    }
    let two = |at: usize| i64::from(fixed[at] - b'0') * 10 + i64::from(fixed[at + 1] - b'0');
    let (year, month, day) = (two(0) * 100 + two(2), two(5), two(8));
    let (hour, minute, second) = (two(11), two(14), two(17));
    if !YEARS.contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    if hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let (part_us, fraction_length) = fraction_us(&bytes[19..]);
    let at = 19 + fraction_length;
    let zone = bytes.get(at + 1..).filter(|_| bytes[at] == b' ').map_or(0, zone_bytes);
    let days = days_since_1970(year, month, day);
    let local_s = days * 86_400 + hour * 3_600 + minute * 60 + second;
    if zone == 0 {
        return Some((local_s * 1_000_000 + part_us, at));
    }
    let offset_s = zones.offset_s(&bytes[at + 1..at + 1 + zone]);
    Some(((local_s - offset_s) * 1_000_000 + part_us, at + 1 + zone))
}

/// Reads `1700000000.123`, what `%n` prints.
#[inline]
pub fn read_epoch(bytes: &[u8]) -> Option<(i64, usize)> {
    let length = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=11).contains(&length) {
        return None;
    }
    let second = number(&bytes[..length]);
    if second > days_since_1970(*YEARS.end(), 12, 31) * 86_400 {
        return None;
    }
    let (part_us, fraction_length) = fraction_us(&bytes[length..]);
    Some((second * 1_000_000 + part_us, length + fraction_length))
}

/// Whether bytes begin like a stamp.
#[inline]
pub fn is_stamp(bytes: &[u8]) -> bool {
    bytes.first_chunk::<19>().is_some_and(has_form)
}

/// `dddd-dd-dd dd:dd:dd`.
#[inline]
fn has_form(bytes: &[u8; 19]) -> bool {
    const FORM: &[u8; 19] = b"dddd-dd-dd dd:dd:dd";
    FORM.iter().zip(bytes).all(|(&form, &byte)| match form {
        b'd' => byte.is_ascii_digit(),
        sign => byte == sign,
    })
}

/// A fraction of a second, if one follows, and its length with the point.
#[inline]
fn fraction_us(bytes: &[u8]) -> (i64, usize) {
    if bytes.first() != Some(&b'.') {
        return (0, 0);
    }
    let (mut us, mut digits) = (0, 0);
    for &byte in bytes[1..].iter().take(6).take_while(|byte| byte.is_ascii_digit()) {
        us = us * 10 + i64::from(byte - b'0');
        digits += 1;
    }
    for _ in digits..6 {
        us *= 10;
    }
    if digits == 0 { (0, 0) } else { (us, digits + 1) }
}

/// Letters, or a sign and two or four digits: `-03:3/24` is a zone, a sign of the prefix and `%v`.
#[inline]
fn zone_bytes(bytes: &[u8]) -> usize {
    let count = |bytes: &[u8], is_part: fn(&u8) -> bool| {
        bytes.iter().take(8).take_while(|byte| is_part(byte)).count()
    };
    match bytes.first() {
        Some(b'+' | b'-') => match count(&bytes[1..], u8::is_ascii_digit) {
            digits @ (2 | 4) => 1 + digits,
            _ => 0,
        },
        _ => count(bytes, u8::is_ascii_alphabetic),
    }
}

/// Days since 1970-01-01 of a date in the Gregorian calendar.
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `days_from_civil`.
#[inline]
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(i64, usize)> {
        read_stamp(text.as_bytes(), &mut Zones::default())
    }

    #[test]
    fn stamps_are_read_in_their_zones() {
        let noon_us = 1_795_262_400_000_000; // date -d '2026-11-21 12:00 UTC' +%s
        assert_eq!(read("2026-11-21 12:00:00 UTC"), Some((noon_us, 23)));
        assert_eq!(read("2026-11-21 13:00:00.007 CET [12]"), Some((noon_us + 7_000, 27)));
        assert_eq!(read("2026-11-21 17:30:00 +0530"), Some((noon_us, 25)));
        assert_eq!(read("2026-11-21 17:45:00 +0545:"), Some((noon_us, 25)));
        assert_eq!(read("2026-11-21 09:00:00 -03:3/24:"), Some((noon_us, 23)));
        assert_eq!(read("2026-11-21 08:30:00.5 -0330"), Some((noon_us + 500_000, 27)));
        assert_eq!(read("2026-11-21 12:00:00,"), Some((noon_us, 19)));
        assert_eq!(read_epoch(b"1795262400.25 x"), Some((noon_us + 250_000, 13)));
    }

    #[test]
    fn what_is_no_stamp_is_refused() {
        for text in ["2026-13-01 00:00:00", "2026-11-21T00:00:00", "2026-11-21 00:61:00", "20"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read("9999-12-31 23:59:59 -08").or(read("0000-01-01 00:00:00")), None);
        assert_eq!(read_epoch(b"99999999999.5"), None);
    }

    #[test]
    fn unknown_and_ambiguous_zones_are_reported() {
        let mut zones = Zones::default();
        let unknown = read_stamp(b"2026-11-21 12:00:00 XYZT", &mut zones);
        assert_eq!(unknown, read("2026-11-21 12:00:00 UTC ").map(|(us, _)| (us, 24)));
        read_stamp(b"2026-11-21 12:00:00 IST", &mut zones);
        assert_eq!((zones.unknown, zones.ambiguous), (vec!["XYZT".into()], vec!["IST".into()]));
    }

    #[test]
    fn a_sessions_start_shows_the_zone() {
        let (noon_us, noon_s) = (1_795_262_400_000_000, 1_795_262_400);
        let mut zones = Zones::default();
        for (stamp, start) in [
            ("2026-11-21 17:30:01.5 IST", "2026-11-21 17:30:00 IST"), // of India
            ("2026-11-21 13:00:01.5 IST", "2026-11-21 13:00:00 IST"), // of Ireland
            ("2026-11-21 22:45:01.5 XYZT", "2026-11-21 22:45:00 XYZT"),
        ] {
            let session_start = (start.as_bytes(), noon_s);
            let time_us = read_stamp_in_session(stamp.as_bytes(), session_start, &mut zones);
            assert_eq!(time_us, Some(noon_us + 1_500_000), "{stamp}");
        }
        assert_eq!((&zones.unknown, &zones.ambiguous), (&vec![], &vec![]));
        // It began in winter, so its start says nothing about the summer's zone.
        let session_start = (b"2026-11-21 12:00:00 GMT".as_slice(), noon_s);
        let time_us = read_stamp_in_session(b"2026-11-21 14:00:00 IST", session_start, &mut zones);
        assert_eq!((time_us, zones.ambiguous), (Some(noon_us), vec!["IST".to_owned()]));
    }
}
