//! The kernel's packet filter: TCP packets from or to a port that carry payload, or begin or end a
//! connection. Pure acknowledgements are dropped.
//!
//! On the loopback interface each packet occurs as outgoing and as incoming; only the latter is
//! kept.

use libc::sock_filter;

const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const LOAD_BYTE_BEHIND: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_IND;
const LOAD_HALF_BEHIND: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
/// Loads the length of the header: four times the low half of a byte.
const LOAD_HEADER: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
const IS: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IS_INDEX: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_X;
const HAS: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const SHIFT_RIGHT: u32 = libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K;
const ADD_INDEX: u32 = libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X;
const TO_INDEX: u32 = libc::BPF_MISC | libc::BPF_TAX;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

const ALL: u32 = u32::MAX;
const TCP: u32 = libc::IPPROTO_TCP as u32;
const HOP_BY_HOP: u32 = 0;
const FIN_SYN_RST: u32 = 0b111;
const FRAGMENT: u32 = 0x1fff;
const IPV6_HEADER_BYTES: u32 = 40;
const PORTS_OF_SERVER: u32 = 2;
const FLAGS: u32 = 13;
const HEADER_WORDS: u32 = 12;

/// Target of a jump.
#[derive(Clone, Copy)]
enum Jump {
    /// The next instruction.
    On,
    /// A later instruction, by its label.
    To(&'static str),
}

/// An instruction: label, code, value, jump if true, jump if false.
type Step = (&'static str, u32, u32, Jump, Jump);

/// The filter program for a port, for packets without link header.
pub fn program(port: u16) -> Vec<sock_filter> {
    use Jump::{On, To};
    let about = |what: i32| (libc::SKF_AD_OFF + what) as u32;
    let port = u32::from(port);
    let step = |code, value| ("", code, value, On, On);
    let steps: Vec<Step> = vec![
        step(LOAD_WORD, about(libc::SKF_AD_PKTTYPE)),
        ("", IS, u32::from(libc::PACKET_OUTGOING), On, To("version")),
        step(LOAD_WORD, about(libc::SKF_AD_HATYPE)),
        ("", IS, u32::from(libc::ARPHRD_LOOPBACK), To("none"), On),
        ("version", LOAD_BYTE, 0, On, On),
        step(AND, 0xf0),
        ("", IS, 0x60, To("ipv6"), On),
        ("", IS, 0x40, On, To("none")),
        // IPv4: what is not the first of several fragments has no ports.
        step(LOAD_BYTE, 9),
        ("", IS, TCP, On, To("none")),
        step(LOAD_HALF, 6),
        ("", HAS, FRAGMENT, To("none"), On),
        step(LOAD_HEADER, 0),
        step(LOAD_HALF_BEHIND, 0),
        ("", IS, port, To("ours"), On),
        step(LOAD_HALF_BEHIND, PORTS_OF_SERVER),
        ("", IS, port, On, To("none")),
        ("ours", LOAD_BYTE_BEHIND, FLAGS, On, On),
        ("", HAS, FIN_SYN_RST, To("all"), On),
        // Both headers are as long as all of it where it has no bytes.
        step(LOAD_BYTE_BEHIND, HEADER_WORDS),
        step(AND, 0xf0),
        step(SHIFT_RIGHT, 2),
        step(ADD_INDEX, 0),
        step(TO_INDEX, 0),
        step(LOAD_HALF, 2),
        ("", IS_INDEX, 0, To("none"), To("all")),
        // IPv6: what has other headers in between is so rare that it is examined later.
        ("ipv6", LOAD_BYTE, 6, On, On),
        ("", IS, HOP_BY_HOP, To("all"), On),
        ("", IS, TCP, On, To("none")),
        step(LOAD_HALF, IPV6_HEADER_BYTES),
        ("", IS, port, To("ours too"), On),
        step(LOAD_HALF, IPV6_HEADER_BYTES + PORTS_OF_SERVER),
        ("", IS, port, On, To("none")),
        ("ours too", LOAD_BYTE, IPV6_HEADER_BYTES + FLAGS, On, On),
        ("", HAS, FIN_SYN_RST, To("all"), On),
        step(LOAD_BYTE, IPV6_HEADER_BYTES + HEADER_WORDS),
        step(AND, 0xf0),
        step(SHIFT_RIGHT, 2),
        step(TO_INDEX, 0),
        step(LOAD_HALF, 4),
        ("", IS_INDEX, 0, To("none"), To("all")),
        ("all", RETURN, ALL, On, On),
        ("none", RETURN, 0, On, On),
    ];
    let jump = |next, from: usize| match next {
        On => 0,
        To(name) => {
            let found = steps.iter().position(|step| step.0 == name).unwrap_or(from + 1);
            (found - from - 1) as u8
        }
    };
    let compiled = steps.iter().enumerate().map(|(at, &(_, code, k, yes, no))| sock_filter {
        code: code as u16,
        jt: jump(yes, at),
        jf: jump(no, at),
        k,
    });
    compiled.collect()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixDatagram;

    use etherparse::{PacketBuilder, PacketBuilderStep, TcpHeader};

    use super::*;

    /// Runs a filter in the kernel, by a socket that needs no privileges.
    struct Kernel(UnixDatagram, UnixDatagram);

    impl Kernel {
        fn new(port: u16) -> Kernel {
            let (near, far) = UnixDatagram::pair().unwrap();
            let mut program = program(port);
            let filter =
                libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
            // SAFETY: the filter is of the size that is given, and the kernel copies it.
            let done = unsafe {
                libc::setsockopt(
                    far.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_ATTACH_FILTER,
                    (&raw const filter).cast(),
                    size_of_val(&filter) as u32,
                )
            };
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
            far.set_nonblocking(true).unwrap();
            Kernel(near, far)
        }

        fn takes(&self, packet: &[u8]) -> bool {
            self.0.send(packet).unwrap();
            let mut got = vec![0; packet.len() + 1];
            self.1.recv(&mut got).is_ok_and(|bytes| {
                assert_eq!(bytes, packet.len(), "it was cut");
                true
            })
        }
    }

    type Tcp = PacketBuilderStep<TcpHeader>;

    fn packets(from: u16, to: u16, make: fn(Tcp) -> Tcp, payload: &[u8]) -> [Vec<u8>; 2] {
        let ipv4 = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let ipv6 = PacketBuilder::ipv6([1; 16], [2; 16], 64);
        [ipv4.tcp(from, to, 7, 99), ipv6.tcp(from, to, 7, 99)].map(|builder| {
            let mut packet = Vec::new();
            make(builder).write(&mut packet, payload).unwrap();
            packet
        })
    }

    #[test]
    fn packets_of_the_port_with_payload_or_flags_pass() {
        let kernel = Kernel::new(5_432);
        let with_options = |builder: Tcp| {
            let clock = etherparse::TcpOptionElement::Timestamp(1, 2);
            builder.ack(9).options(&[clock]).unwrap()
        };
        let takes = |from, to, make: fn(Tcp) -> Tcp, payload: &[u8]| {
            packets(from, to, make, payload).map(|packet| kernel.takes(&packet))
        };
        for (from, to) in [(40_000, 5_432), (5_432, 40_000)] {
            assert_eq!(takes(from, to, |builder| builder.ack(9), b"x"), [true; 2]);
            assert_eq!(takes(from, to, with_options, b"x"), [true; 2]);
            assert_eq!(takes(from, to, |builder| builder.syn(), b""), [true; 2]);
            assert_eq!(takes(from, to, |builder| builder.ack(9).fin(), b""), [true; 2]);
            assert_eq!(takes(from, to, |builder| builder.rst(), b""), [true; 2]);
            assert_eq!(takes(from, to, |builder| builder.ack(9), b""), [false; 2]);
            assert_eq!(takes(from, to, with_options, b""), [false; 2]);
        }
        assert_eq!(takes(40_000, 5_433, |builder| builder.ack(9), b"x"), [false; 2]);
        assert_eq!(takes(40_000, 5_433, |builder| builder.syn(), b"x"), [false; 2]);
    }

    #[test]
    fn other_packets_are_filtered_out() {
        let kernel = Kernel::new(5_432);
        let [ipv4, ipv6] = packets(40_000, 5_432, |builder| builder.ack(9), b"x");
        let with = |packet: &[u8], at: usize, byte: u8| {
            let mut packet = packet.to_vec();
            packet[at] = byte;
            kernel.takes(&packet)
        };
        assert!(!with(&ipv4, 9, 17) && !with(&ipv6, 6, 17), "UDP");
        assert!(!with(&ipv4, 7, 1), "a later fragment");
        assert!(!with(&ipv4, 0, 0x55), "no version of IP");
        assert!(with(&ipv6, 6, 0), "headers in between are looked at later");
        // More than 64 KiB: the header says 0.
        let mut large = ipv4.clone();
        large[2..4].copy_from_slice(&[0, 0]);
        assert!(kernel.takes(&large));
        assert!(!kernel.takes(&ipv4[..30]));
    }
}
