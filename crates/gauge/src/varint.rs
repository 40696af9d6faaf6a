//! LEB128 variable-length integers: seven bits a byte, least significant first.

/// Appends `value`.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes one value off the front of `bytes`; `None` when they end early or hold over 64 bits.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_is_taken(values in proptest::collection::vec(any::<u64>(), 0..20)) {
            let mut bytes = Vec::new();
            values.iter().for_each(|&value| put(&mut bytes, value));
            let mut rest = &bytes[..];
            for value in values {
                prop_assert_eq!(take(&mut rest), Some(value));
            }
            prop_assert_eq!(take(&mut rest), None);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let mut rest = &bytes[..];
            while take(&mut rest).is_some() {}
        }
    }

    #[test]
    fn more_than_64_bits_are_refused() {
        let mut rest: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(take(&mut rest), None);
    }
}
