//! What the headers of a packet say.

use std::net::{IpAddr, SocketAddr};

use etherparse::{IpNumber, LaxIpPayloadSlice, LaxIpSlice, LaxNetSlice, LaxSlicedPacket, TcpSlice};

const TCP: u8 = IpNumber::TCP.0;

/// A TCP segment of one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// Sequence number of its first byte, or of SYN or FIN.
    pub sequence: u32,
    /// Sequence number expected next from the other direction.
    pub acknowledged: Option<u32>,
    pub is_syn: bool,
    pub is_fin: bool,
    pub is_rst: bool,
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Parses an IP packet; None if it is not TCP, or a fragment.
    #[inline]
    pub fn of_ip(packet: &'a [u8]) -> Option<Segment<'a>> {
        Segment::of_plain_ipv4(packet).or_else(|| Segment::of_any_ip(packet))
    }

    /// Parses the most common form: IPv4 without options, complete, no fragment. None for
    /// everything else.
    #[inline]
    fn of_plain_ipv4(packet: &'a [u8]) -> Option<Segment<'a>> {
        let (head, rest) = packet.split_first_chunk::<20>()?;
        let &[
            0x45,
            _,
            length @ ..,
            _,
            _,
            flags,
            fragment_offset,
            _,
            TCP,
            _,
            _,
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
        ] = head
        else {
            return None;
        };
        // Only "do not fragment" may be set.
        if flags & !0x40 | fragment_offset != 0 {
            return None;
        }
        let rest = rest.get(..usize::from(u16::from_be_bytes(length)).checked_sub(head.len())?)?;
        Segment::of_tcp(IpAddr::from([a, b, c, d]), IpAddr::from([e, f, g, h]), rest)
    }

    fn of_any_ip(packet: &'a [u8]) -> Option<Segment<'a>> {
        let (ip, _) = LaxIpSlice::from_slice(packet).ok()?;
        let (from, to): (IpAddr, IpAddr) = match &ip {
            LaxIpSlice::Ipv4(ip) => {
                (ip.header().source_addr().into(), ip.header().destination_addr().into())
            }
            LaxIpSlice::Ipv6(ip) => {
                (ip.header().source_addr().into(), ip.header().destination_addr().into())
            }
        };
        Segment::of(from, to, ip.payload())
    }

    /// Parses an Ethernet frame; None as for IP.
    pub fn of_ethernet(packet: &'a [u8]) -> Option<Segment<'a>> {
        match LaxSlicedPacket::from_ethernet(packet).ok()?.net? {
            LaxNetSlice::Ipv4(ip) => {
                let (from, to) = (ip.header().source_addr(), ip.header().destination_addr());
                Segment::of(from.into(), to.into(), ip.payload())
            }
            LaxNetSlice::Ipv6(ip) => {
                let (from, to) = (ip.header().source_addr(), ip.header().destination_addr());
                Segment::of(from.into(), to.into(), ip.payload())
            }
            LaxNetSlice::Arp(_) => None,
        }
    }

    #[inline]
    fn of(from: IpAddr, to: IpAddr, payload: &LaxIpPayloadSlice<'a>) -> Option<Segment<'a>> {
        if payload.fragmented || payload.ip_number != IpNumber::TCP {
            return None;
        }
        Segment::of_tcp(from, to, payload.payload)
    }

    #[inline]
    fn of_tcp(from: IpAddr, to: IpAddr, payload: &'a [u8]) -> Option<Segment<'a>> {
        let tcp = TcpSlice::from_slice(payload).ok()?;
        Some(Segment {
            from: SocketAddr::new(from, tcp.source_port()),
            to: SocketAddr::new(to, tcp.destination_port()),
            sequence: tcp.sequence_number(),
            acknowledged: tcp.ack().then(|| tcp.acknowledgment_number()),
            is_syn: tcp.syn(),
            is_fin: tcp.fin(),
            is_rst: tcp.rst(),
            payload: tcp.payload(),
        })
    }

    /// Sequence number of its first byte: a SYN counts as one.
    pub fn begin(&self) -> u32 {
        self.sequence.wrapping_add(u32::from(self.is_syn))
    }

    pub fn end(&self) -> u32 {
        self.begin().wrapping_add(self.payload.len() as u32)
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    use super::*;

    const PAYLOAD: &[u8] = b"select 1";

    fn written(builder: etherparse::PacketBuilderStep<etherparse::TcpHeader>) -> Vec<u8> {
        let mut packet = Vec::new();
        builder.write(&mut packet, PAYLOAD).unwrap();
        packet
    }

    fn seen(from: &str, to: &str) -> Segment<'static> {
        Segment {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            sequence: 7,
            acknowledged: Some(9),
            is_syn: false,
            is_fin: true,
            is_rst: false,
            payload: PAYLOAD,
        }
    }

    #[test]
    fn both_versions_of_ip() {
        let ipv4 = PacketBuilder::ipv4([127, 0, 0, 1], [127, 0, 5, 32], 64);
        let mut packet = written(ipv4.tcp(4_000, 5_432, 7, 99).ack(9).fin());
        let expected = seen("127.0.0.1:4000", "127.0.5.32:5432");
        assert_eq!(Segment::of_ip(&packet), Some(expected));
        // Ethernet fills a packet up that is too short.
        packet.extend_from_slice(&[0; 6]);
        assert_eq!(Segment::of_ip(&packet), Some(expected));
        assert_eq!((expected.begin(), expected.end()), (7, 15));
        let ipv6 = PacketBuilder::ipv6([1; 16], [2; 16], 64);
        let packet = written(ipv6.tcp(4_000, 5_432, 7, 99).ack(9).fin());
        let expected = seen(
            "[101:101:101:101:101:101:101:101]:4000",
            "[202:202:202:202:202:202:202:202]:5432",
        );
        assert_eq!(Segment::of_ip(&packet), Some(expected));
    }

    proptest! {
        /// What is read quickly is read as by the library, whatever the packet.
        #[test]
        fn fast_path_and_library_agree_on_ipv4(
            changes in prop::collection::vec((0_usize..44, any::<u8>()), 0..4),
            length in 0_usize..=60,
        ) {
            let ipv4 = PacketBuilder::ipv4([127, 0, 0, 1], [127, 0, 5, 32], 64);
            let mut packet = written(ipv4.tcp(4_000, 5_432, 7, 99).ack(9).fin());
            for (at, byte) in changes {
                packet[at] = byte;
            }
            packet.resize(length, 0);
            if let Some(segment) = Segment::of_plain_ipv4(&packet) {
                prop_assert_eq!(Segment::of_any_ip(&packet), Some(segment));
            }
        }
    }

    /// A length above 64 KiB does not fit the header, which then says 0.
    #[test]
    fn oversized_packet_with_zero_length_is_read() {
        let ipv4 = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let mut packet = written(ipv4.tcp(1, 2, 7, 99).ack(9).fin());
        packet[2..4].copy_from_slice(&[0, 0]);
        assert_eq!(Segment::of_ip(&packet), Some(seen("10.0.0.1:1", "10.0.0.2:2")));
    }

    #[test]
    fn ethernet_with_and_without_vlan_tag() {
        let expected = Some(seen("10.0.0.1:1", "10.0.0.2:2"));
        let ip = |builder: etherparse::PacketBuilderStep<etherparse::Ethernet2Header>| {
            written(builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(1, 2, 7, 99).ack(9).fin())
        };
        let packet = ip(PacketBuilder::ethernet2([1; 6], [2; 6]));
        assert_eq!(Segment::of_ethernet(&packet), expected);
        let id = etherparse::VlanId::try_new(5).unwrap();
        let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).single_vlan(id);
        let ipv4 = builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let packet = written(ipv4.tcp(1, 2, 7, 99).ack(9).fin());
        assert_eq!(Segment::of_ethernet(&packet), expected);
    }

    #[test]
    fn non_tcp_packets_are_rejected() {
        let ipv4 = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let packet = written(ipv4.tcp(1, 2, 7, 99));
        for length in 0..40 {
            assert_eq!(Segment::of_ip(&packet[..length]), None, "{length}");
        }
        assert_eq!(Segment::of_ip(&packet[..44]).unwrap().payload, &PAYLOAD[..4]);
        let mut fragment = packet.clone();
        fragment[7] = 1;
        assert_eq!(Segment::of_ip(&fragment), None);
        let mut of_udp = packet;
        of_udp[9] = 17;
        assert_eq!(Segment::of_ip(&of_udp), None);
    }
}
