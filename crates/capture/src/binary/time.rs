//! Dates and times, which PostgreSQL counts from 2000-01-01.

use std::io::Write;

const DAY_US: i64 = 86_400_000_000;
/// Days from 0000-03-01 to 2000-01-01, so that a leap day is the last of its year.
const DAYS_TO_2000: i64 = 730_425;
const DAYS_OF_400_YEARS: i64 = 146_097;

pub fn date(days: i32, out: &mut Vec<u8>) {
    match days {
        i32::MAX => out.extend_from_slice(b"infinity"),
        i32::MIN => out.extend_from_slice(b"-infinity"),
        days => day(i64::from(days), b"", b"", out),
    }
}

pub fn time(us: i64, out: &mut Vec<u8>) {
    let seconds = us.div_euclid(1_000_000);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{hours:02}:{minutes:02}:{:02}", seconds % 60);
    let fraction = us.rem_euclid(1_000_000);
    if fraction > 0 {
        let _ = write!(out, ".{fraction:06}");
    }
}

/// Appends a timestamp, from microseconds, followed by its time zone.
pub fn timestamp(us: i64, zone: &[u8], out: &mut Vec<u8>) {
    match us {
        i64::MAX => out.extend_from_slice(b"infinity"),
        i64::MIN => out.extend_from_slice(b"-infinity"),
        us => {
            let mut of_day = vec![b' '];
            time(us.rem_euclid(DAY_US), &mut of_day);
            day(us.div_euclid(DAY_US), &of_day, zone, out);
        }
    }
}

/// Appends an interval; months, days and microseconds are separate.
pub fn interval(value: &[u8; 16], out: &mut Vec<u8>) {
    let number =
        |at: usize| i32::from_be_bytes([value[at], value[at + 1], value[at + 2], value[at + 3]]);
    let us = i64::from(number(0)) << 32 | i64::from(number(4) as u32);
    let _ = write!(out, "{} mons {} days {us} microseconds", number(12), number(8));
}

/// Appends the date of a day that is so long after 2000-01-01 (Howard Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms", `civil_from_days`), and what follows it.
fn day(days: i64, of_day: &[u8], zone: &[u8], out: &mut Vec<u8>) {
    let days = days + DAYS_TO_2000;
    let era = days.div_euclid(DAYS_OF_400_YEARS);
    let of_era = days.rem_euclid(DAYS_OF_400_YEARS);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    // There is no year 0: the one before 1 is 1 BC.
    let (year, age) = if year > 0 { (year, &b""[..]) } else { (1 - year, &b" BC"[..]) };
    let _ = write!(out, "{year:04}-{month:02}-{day:02}");
    out.extend_from_slice(of_day);
    out.extend_from_slice(zone);
    out.extend_from_slice(age);
}
