//! A keyed permutation of whatever can be counted.
//!
//! Up to 2^62 values are permuted by a Feistel network of as many bits as needed, gone through
//! again until the outcome is one of them ("cycle walking": Black and Rogaway, "Ciphers with
//! Arbitrary Finite Domains", 2002). Of more values each digit is drawn from a hash of all of them;
//! two that collide are not to be expected.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Rounds of the Feistel network; its paper proves four to be secure for values that an attacker
/// cannot choose.
const ROUNDS: u8 = 6;

/// Maximum size of a set that is permuted bijectively.
const PERMUTED_MAX: u64 = 1 << 62;

/// The purpose of a permutation: equal digits of another kind are replaced differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Integers of one width.
    Number,
    /// Days within a year.
    Day,
    /// Parts of a time.
    Time,
    /// Letters and digits.
    Letters,
}

/// A digit of a value in a mixed-radix number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digit {
    /// Its value, from 0.
    pub rank: u32,
    pub radix: u32,
}

/// SipHash with a key from the system's randomness.
#[derive(Debug, Clone, Default)]
pub struct Cipher {
    key: RandomState,
}

impl Cipher {
    /// The replacement of one of `count` values, from 0; `count` is at most 2^63.
    pub fn permute(&self, purpose: Purpose, count: u64, value: u64) -> u64 {
        if count < 2 {
            return value;
        }
        let half_bits = (u64::BITS - (count - 1).leading_zeros()).div_ceil(2);
        let mut walked = value;
        loop {
            walked = self.shuffle(purpose, count, half_bits, walked);
            if walked < count {
                return walked;
            }
        }
    }

    /// Permutes the values of twice `half_bits` bits.
    fn shuffle(&self, purpose: Purpose, count: u64, half_bits: u32, value: u64) -> u64 {
        let low = (1u64 << half_bits) - 1;
        let (mut left, mut right) = (value >> half_bits, value & low);
        for round in 0..ROUNDS {
            let mixed = self.key.hash_one((purpose, count, round, right)) & low;
            (left, right) = (right, left ^ mixed);
        }
        (left << half_bits) | right
    }

    /// Replaces the digits of one value.
    pub fn permute_digits(&self, purpose: Purpose, digits: &mut [Digit]) {
        let count = digits.iter().try_fold(1u64, |count, digit| {
            count.checked_mul(u64::from(digit.radix)).filter(|&count| count <= PERMUTED_MAX)
        });
        let Some(count) = count else { return self.draw_digits(purpose, digits) };
        let value = digits
            .iter()
            .fold(0, |value, digit| value * u64::from(digit.radix) + u64::from(digit.rank));
        let mut rest = self.permute(purpose, count, value);
        for digit in digits.iter_mut().rev() {
            digit.rank = (rest % u64::from(digit.radix)) as u32;
            rest /= u64::from(digit.radix);
        }
    }

    fn draw_digits(&self, purpose: Purpose, digits: &mut [Digit]) {
        let seed = [0u8, 1].map(|half| self.key.hash_one((purpose, half, &*digits)));
        for (index, digit) in digits.iter_mut().enumerate() {
            digit.rank = (self.key.hash_one((seed, index)) % u64::from(digit.radix)) as u32;
        }
    }
}
