//! Packets from a file, as tcpdump (pcap) and Wireshark (pcapng) write them.

use std::fs::File;
use std::path::{Path, PathBuf};

use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

use super::ring::Packet;
use super::segment::Segment;

/// Bytes read at once; no packet is longer.
const READ_BYTES: usize = 1 << 20;

/// Header length of `tcpdump -i any` (Linux cooked capture).
const COOKED_BYTES: usize = 16;
const COOKED_2_BYTES: usize = 20;

/// Header of the loopback interface on BSD and macOS.
const LOOP_BYTES: usize = 4;

/// Fractions of a second in a file that names none: microseconds.
const RESOLUTION: u64 = 1_000_000;

/// Why a file of packets cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{} cannot be read: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{} is not a file of packets: {reason}", path.display())]
    NotPackets { path: PathBuf, reason: String },
    #[error("the packets of {} are of the link type {kind}", path.display())]
    Link { path: PathBuf, kind: i32 },
}

#[derive(Clone, Copy, Debug)]
struct Link {
    kind: Linktype,
    /// Fractions of a second.
    resolution: u64,
    offset_s: i64,
}

pub struct PacketFile {
    path: PathBuf,
    reader: Box<dyn PcapReaderIterator + Send>,
    links: Vec<Link>,
    /// Whether a pcap file counts in nanoseconds.
    is_nano: bool,
}

impl PacketFile {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is none of packets.
    pub fn open(path: &Path) -> Result<PacketFile, FileError> {
        let path = path.to_path_buf();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(source) => return Err(FileError::Io { path, source }),
        };
        match create_reader(READ_BYTES, file) {
            Ok(reader) => Ok(PacketFile { path, reader, links: Vec::new(), is_nano: false }),
            Err(error) => {
                let reason = match error {
                    PcapError::Eof => "it is empty".to_owned(),
                    PcapError::ReadError => "it cannot be read".to_owned(),
                    _ => "it begins as neither pcap nor pcapng does".to_owned(),
                };
                Err(FileError::NotPackets { path, reason })
            }
        }
    }

    /// Hands out packet by packet, until `take` is false; whether the file ends in the midst of
    /// one.
    ///
    /// # Errors
    ///
    /// When its packets are none of IP, or it is damaged.
    pub fn for_each(
        mut self,
        mut take: impl FnMut(Packet<'_>, Option<Segment<'_>>) -> bool,
    ) -> Result<bool, FileError> {
        loop {
            let (offset, goes_on) = match self.reader.next() {
                Ok((offset, block)) => {
                    let (links, is_nano) = (&mut self.links, &mut self.is_nano);
                    let taken = match packet_of(&block, links, is_nano) {
                        Some((packet, kind)) => match segment_of(kind, packet.bytes) {
                            Ok(segment) => take(packet, segment),
                            Err(kind) => return Err(FileError::Link { path: self.path, kind }),
                        },
                        None => true,
                    };
                    (offset, taken)
                }
                Err(PcapError::Eof) => return Ok(false),
                Err(PcapError::UnexpectedEof) => return Ok(true),
                Err(PcapError::Incomplete(_)) => {
                    if self.reader.refill().is_err() {
                        return Err(damaged(self.path, "it cannot be read to its end"));
                    }
                    continue;
                }
                Err(_) => return Err(damaged(self.path, "what follows a packet is none")),
            };
            self.reader.consume(offset);
            if !goes_on {
                return Ok(false);
            }
        }
    }
}

fn damaged(path: PathBuf, reason: &str) -> FileError {
    FileError::NotPackets { path, reason: reason.to_owned() }
}

/// The packet in a block of a file, with its link type; None for a block without a packet.
fn packet_of<'a>(
    block: &'a PcapBlockOwned<'_>,
    links: &mut Vec<Link>,
    is_nano: &mut bool,
) -> Option<(Packet<'a>, Linktype)> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            *is_nano = header.is_nanosecond_precision();
            let resolution = if *is_nano { 1_000_000_000 } else { RESOLUTION };
            links.push(Link { kind: header.network, resolution, offset_s: 0 });
            None
        }
        PcapBlockOwned::Legacy(packet) => {
            let link = links.first()?;
            let part_us = i64::from(packet.ts_usec) / if *is_nano { 1_000 } else { 1 };
            let at_us = i64::from(packet.ts_sec) * 1_000_000 + part_us;
            let bytes = packet.data.get(..packet.caplen as usize).unwrap_or(packet.data);
            Some((Packet { at_us, bytes, is_cut: packet.caplen < packet.origlen }, link.kind))
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => {
            links.clear();
            None
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(about)) => {
            let resolution = about.ts_resolution().unwrap_or(RESOLUTION);
            links.push(Link { kind: about.linktype, resolution, offset_s: about.if_tsoffset });
            None
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            let link = links.get(packet.if_id as usize)?;
            let ticks = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
            let since_us = (ticks * 1_000_000 / u128::from(link.resolution.max(1))) as i64;
            let at_us = since_us + link.offset_s * 1_000_000;
            let is_cut = packet.truncated();
            Some((Packet { at_us, bytes: packet.packet_data(), is_cut }, link.kind))
        }
        PcapBlockOwned::NG(_) => None,
    }
}

/// What the headers of a packet say; None where it is none of TCP.
///
/// # Errors
///
/// The number of a link's type that is not known.
fn segment_of(kind: Linktype, packet: &[u8]) -> Result<Option<Segment<'_>>, i32> {
    let behind = |bytes: usize| packet.get(bytes..).and_then(Segment::of_ip);
    match kind {
        Linktype::ETHERNET => Ok(Segment::of_ethernet(packet)),
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => Ok(behind(0)),
        Linktype::LINUX_SLL => Ok(behind(COOKED_BYTES)),
        Linktype::LINUX_SLL2 => Ok(behind(COOKED_2_BYTES)),
        Linktype::NULL | Linktype::LOOP => Ok(behind(LOOP_BYTES)),
        Linktype(other) => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use etherparse::PacketBuilder;
    use tempfile::NamedTempFile;

    use super::*;

    const AT_US: i64 = 1_700_000_000_123_456;

    /// An IP packet with this payload.
    fn ip(payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        builder.tcp(1, 2, 7, 99).ack(9).write(&mut packet, payload).unwrap();
        packet
    }

    /// A file in the pcap format.
    fn pcap(magic: u32, link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
        let mut out = magic.to_le_bytes().to_vec();
        out.extend_from_slice(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        out.extend_from_slice(&262_144_u32.to_le_bytes());
        out.extend_from_slice(&link.to_le_bytes());
        let part = if magic == 0xa1b2_3c4d { 123_456_000 } else { 123_456 };
        for packet in packets {
            let length = packet.len() as u32;
            for number in [1_700_000_000, part, length, length] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(packet);
        }
        out
    }

    /// A file in the pcapng format, with nanoseconds.
    fn pcapng(packets: &[Vec<u8>]) -> Vec<u8> {
        let block = |kind: u32, body: &[u8]| {
            let filled = body.len().next_multiple_of(4);
            let length = (filled as u32 + 12).to_le_bytes();
            let filler = vec![0; filled - body.len()];
            [&kind.to_le_bytes()[..], &length, body, &filler, &length].concat()
        };
        let order = [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0];
        let mut out = block(0x0a0d_0d0a, &[&order[..], &[0xff; 8]].concat());
        // Bare IP; nanoseconds.
        out.extend_from_slice(&block(1, &[101, 0, 0, 0, 0, 0, 4, 0, 9, 0, 1, 0, 9, 0, 0, 0]));
        for packet in packets {
            let ticks = AT_US as u64 * 1_000;
            let length = packet.len() as u32;
            let mut body = Vec::new();
            for number in [0, (ticks >> 32) as u32, ticks as u32, length, length] {
                body.extend_from_slice(&number.to_le_bytes());
            }
            body.extend_from_slice(packet);
            out.extend_from_slice(&block(6, &body));
        }
        out
    }

    /// The payloads in a file, and whether it was torn.
    fn read(content: &[u8]) -> Result<(Vec<Vec<u8>>, bool), String> {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        let mut payloads = Vec::new();
        let opened = PacketFile::open(file.path()).map_err(|error| error.to_string())?;
        let torn = opened.for_each(|packet, segment| {
            assert_eq!((packet.at_us, packet.is_cut), (AT_US, false));
            payloads.push(segment.map_or(Vec::new(), |segment| segment.payload.to_vec()));
            true
        });
        Ok((payloads, torn.map_err(|error| error.to_string())?))
    }

    #[test]
    fn both_file_formats_and_all_link_types_are_read() {
        let sent = [b"a".to_vec(), vec![b'b'; 70_000 - 5_000], b"c".to_vec()];
        let with = |head: &[u8]| sent.each_ref().map(|payload| [head, &ip(payload)].concat());
        let ethernet = [&[0; 12][..], &[8, 0]].concat();
        for (link, head) in
            [(1, &ethernet[..]), (101, &[]), (113, &[0; 16]), (276, &[0; 20]), (0, &[2, 0, 0, 0])]
        {
            for magic in [0xa1b2_c3d4, 0xa1b2_3c4d] {
                let (payloads, is_torn) = read(&pcap(magic, link, &with(head))).unwrap();
                assert!(payloads == sent && !is_torn, "{link}");
            }
        }
        let content = pcapng(&with(&[]));
        let (payloads, is_torn) = read(&content).unwrap();
        assert!(payloads == sent && !is_torn);
        let (payloads, is_torn) = read(&content[..content.len() - 9]).unwrap();
        assert!(payloads == sent[..2] && is_torn);
    }

    #[test]
    fn files_of_other_formats_are_refused() {
        assert!(read(b"").unwrap_err().contains("it is empty"));
        assert!(read(b"LOG:  statement: select 1 and more of that").is_err());
        let error = read(&pcap(0xa1b2_c3d4, 105, &[ip(b"x")])).unwrap_err();
        assert!(error.contains("link type 105"), "{error}");
    }
}
