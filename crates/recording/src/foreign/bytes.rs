//! Numbers in binary records, all of which are little-endian.

/// Returns the number at an offset; 0 beyond the end, where no reader looks.
pub fn u16_at(record: &[u8], offset_bytes: usize) -> u16 {
    u16::from_le_bytes(array_at(record, offset_bytes))
}

/// Returns the number at an offset; 0 beyond the end, where no reader looks.
pub fn u32_at(record: &[u8], offset_bytes: usize) -> u32 {
    u32::from_le_bytes(array_at(record, offset_bytes))
}

/// Returns the number at an offset; 0 beyond the end, where no reader looks.
pub fn u64_at(record: &[u8], offset_bytes: usize) -> u64 {
    u64::from_le_bytes(array_at(record, offset_bytes))
}

fn array_at<const N: usize>(record: &[u8], offset_bytes: usize) -> [u8; N] {
    let mut found = [0; N];
    if let Some(bytes) = record.get(offset_bytes..offset_bytes + N) {
        found.copy_from_slice(bytes);
    }
    found
}
