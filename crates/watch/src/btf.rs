//! Offsets in the kernel's structures, from its BTF (Documentation/bpf/btf.rst).

use std::path::Path;
use std::{fs, io};

const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: usize = 24;

/// Kinds of types.
mod kind {
    pub const INT: u32 = 1;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const TYPEDEF: u32 = 8;
    pub const FUNCTION_PROTOTYPE: u32 = 13;
    pub const VARIABLE: u32 = 14;
    pub const DATA_SECTION: u32 = 15;
    pub const DECLARATION_TAG: u32 = 17;
    pub const ENUM64: u32 = 19;
}

/// A type: its number, kind, name and the data after its header.
#[derive(Debug, Clone, Copy)]
struct Type<'a> {
    id: u32,
    kind: u32,
    name: &'a [u8],
    /// Whether members have the width of their bits in their offset.
    has_bit_fields: bool,
    entries: &'a [u8],
}

/// The types of the running kernel.
#[derive(Debug)]
pub struct Btf {
    bytes: Vec<u8>,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Bytes of a type behind its head of 12 bytes.
fn entries_bytes(kind: u32, count: usize) -> usize {
    match kind {
        kind::INT | kind::VARIABLE | kind::DECLARATION_TAG => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION | kind::DATA_SECTION | kind::ENUM64 => 12 * count,
        kind::ENUM | kind::FUNCTION_PROTOTYPE => 8 * count,
        _ => 0,
    }
}

impl Btf {
    /// Reads the running kernel's types.
    ///
    /// # Errors
    ///
    /// If the kernel has none, or they are of another format.
    pub fn of_kernel() -> io::Result<Btf> {
        Btf::read(Path::new(VMLINUX))
    }

    fn read(path: &Path) -> io::Result<Btf> {
        let bytes = fs::read(path)?;
        let is_known = bytes.len() > HEADER_BYTES && bytes[..2] == MAGIC.to_le_bytes();
        if is_known { Ok(Btf { bytes }) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    /// Returns the number of a typedef.
    pub fn typedef(&self, name: &str) -> Option<u32> {
        self.find(name, &[kind::TYPEDEF]).map(|found| found.id)
    }

    /// Returns the offset of a structure's member in bytes; None for bit fields, too.
    pub fn offset_bytes(&self, structure: &str, member: &str) -> Option<i16> {
        let found = self.find(structure, &[kind::STRUCT])?;
        let names = self.names()?;
        let bits = found.entries.chunks_exact(12).find_map(|each| {
            let is_it = name_at(names, word(each, 0)?)? == member.as_bytes();
            is_it.then(|| word(each, 8)).flatten()
        })?;
        let is_bit_field = found.has_bit_fields && bits >> 24 != 0 || bits & 7 != 0;
        (!is_bit_field).then(|| i16::try_from((bits & 0xff_ffff) / 8).ok()).flatten()
    }

    /// Returns the value of a constant of an enumeration.
    pub fn constant(&self, enumeration: &str, constant: &str) -> Option<u32> {
        let found = self.find(enumeration, &[kind::ENUM])?;
        let names = self.names()?;
        found.entries.chunks_exact(8).find_map(|each| {
            let is_it = name_at(names, word(each, 0)?)? == constant.as_bytes();
            is_it.then(|| word(each, 4)).flatten()
        })
    }

    fn find(&self, name: &str, kinds: &[u32]) -> Option<Type<'_>> {
        self.types()?.find(|each| kinds.contains(&each.kind) && each.name == name.as_bytes())
    }

    /// Returns the part of the file that the words from ``at`` in its header name.
    fn part(&self, at: usize) -> Option<&[u8]> {
        let header = word(&self.bytes, 4)? as usize;
        let from = header + word(&self.bytes, at)? as usize;
        self.bytes.get(from..from + word(&self.bytes, at + 4)? as usize)
    }

    fn names(&self) -> Option<&[u8]> {
        self.part(16)
    }

    fn types(&self) -> Option<impl Iterator<Item = Type<'_>>> {
        let (mut rest, names) = (self.part(8)?, self.names()?);
        let mut id = 0;
        Some(std::iter::from_fn(move || {
            let info = word(rest, 4)?;
            let kind = info >> 24 & 0x1f;
            let end = 12 + entries_bytes(kind, (info & 0xffff) as usize);
            let name = name_at(names, word(rest, 0)?)?;
            let entries = rest.get(12..end)?;
            rest = &rest[end..];
            id += 1;
            Some(Type { id, kind, name, has_bit_fields: info >> 31 == 1, entries })
        }))
    }
}

fn name_at(names: &[u8], offset_bytes: u32) -> Option<&[u8]> {
    let rest = names.get(offset_bytes as usize..)?;
    rest.get(..rest.iter().position(|&byte| byte == 0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with `struct s { u32 a; u32 b; }`, `typedef ... t` and `enum e { A = 7 }`.
    fn sample() -> Btf {
        let names = b"\0s\0a\0b\0t\0e\0A\0";
        let types: Vec<u32> = [
            &[1, kind::STRUCT << 24 | 2, 8][..],
            &[3, 0, 0, 5, 0, 32],
            &[7, kind::TYPEDEF << 24, 1],
            &[9, kind::ENUM << 24 | 1, 4],
            &[11, 7],
        ]
        .concat();
        let types: Vec<u8> = types.iter().flat_map(|word| word.to_le_bytes()).collect();
        let header = [24, 0, types.len() as u32, types.len() as u32, names.len() as u32];
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend([1, 0]);
        bytes.extend(header.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(types);
        bytes.extend(names);
        Btf { bytes }
    }

    #[test]
    fn members_typedefs_and_constants_are_found() {
        let btf = sample();
        assert_eq!((btf.offset_bytes("s", "a"), btf.offset_bytes("s", "b")), (Some(0), Some(4)));
        assert_eq!((btf.typedef("t"), btf.constant("e", "A")), (Some(2), Some(7)));
    }

    #[test]
    fn what_is_absent_is_none() {
        let btf = sample();
        assert_eq!((btf.offset_bytes("s", "c"), btf.offset_bytes("t", "a")), (None, None));
        assert_eq!((btf.typedef("s"), btf.constant("e", "B")), (None, None));
    }

    #[test]
    fn files_that_end_early_find_nothing() {
        let whole = sample().bytes;
        for length in 0..whole.len() {
            let btf = Btf { bytes: whole[..length].to_vec() };
            let _ = (btf.offset_bytes("s", "b"), btf.typedef("t"), btf.constant("e", "A"));
        }
    }
}
