//! Packets from the kernel, by a ring in shared memory (packet(7), TPACKET_V3).
//!
//! The kernel fills blocks and hands over each when it is full or a moment old: one wake for
//! hundreds of packets, without another copy. A block is larger than any packet (64 KiB on loopback
//! or with segmentation offload), so that none is truncated.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::netdevice::name_to_index;

use super::filter;

/// Bytes of a block.
const BLOCK_BYTES: usize = 256 << 10;

/// Number of blocks: 64 MiB, some seconds of a busy server.
const BLOCKS: usize = 256;

/// Age in ms at which the kernel hands over a block that is not full.
const RETIRE_MS: u32 = 20;

/// The kernel requires a frame size that divides blocks, and does not use it.
const FRAME_BYTES: usize = 2 << 10;

/// The name that stands for all interfaces.
pub const ANY: &str = "any";

/// A ring of the packets of an interface.
#[derive(Debug)]
pub struct Ring {
    socket: OwnedFd,
    base: NonNull<u8>,
    /// The block that comes next.
    next: usize,
    taken: u64,
    counts: RingCounts,
}

// SAFETY: the mapping is memory that only this value points to.
unsafe impl Send for Ring {}

/// Counters of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// Packets that were meant for the ring.
    pub packets: u64,
    /// Of these, dropped because it was full.
    pub dropped: u64,
}

impl RingCounts {
    /// Packets that came into the ring.
    pub fn received(&self) -> u64 {
        self.packets.saturating_sub(self.dropped)
    }
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// When it was received or sent, in microseconds since 1970.
    pub at_us: i64,
    /// The packet from its IP header on; of a file, from the header of its link on.
    pub bytes: &'a [u8],
    /// Whether it is truncated.
    pub is_cut: bool,
}

/// A block owned by the reader; dropping it returns it to the kernel.
#[derive(Debug)]
pub struct Block<'a> {
    base: NonNull<u8>,
    /// Offset of the next packet's header.
    at: usize,
    left: u32,
    taken: &'a mut u64,
}

impl Ring {
    /// Packets of TCP of a port, on an interface or [`ANY`].
    ///
    /// # Errors
    ///
    /// When there is no such interface, this user may not, or there is no memory.
    pub fn open(interface: &str, port: u16) -> io::Result<Ring> {
        // SAFETY: makes a descriptor, or says why not. Nothing comes before it is bound.
        let made =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just created and has no other owner.
        let socket = unsafe { OwnedFd::from_raw_fd(made) };
        let index = if interface == ANY { 0 } else { name_to_index(&socket, interface)? };
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let mut program = filter::program(port);
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        set(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)?;
        let wanted = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: (BLOCK_BYTES / FRAME_BYTES * BLOCKS) as u32,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &wanted)?;
        if is_loopback(interface) {
            // It spares the kernel the filter; kernels before 4.20 do not know it.
            let _ = set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32);
        }
        let base = map(&socket)?;
        let ring = Ring { socket, base, next: 0, taken: 0, counts: RingCounts::default() };
        bind(&ring.socket, index)?;
        Ok(ring)
    }

    /// Packets that were taken out of it.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// What the kernel has counted so far.
    ///
    /// # Errors
    ///
    /// When it refuses.
    pub fn counts(&mut self) -> io::Result<RingCounts> {
        let mut since = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        let mut length = size_of_val(&since) as libc::socklen_t;
        // SAFETY: both point to what is of the size that is given.
        let done = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut since).cast(),
                &raw mut length,
            )
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        // Each request resets it.
        self.counts.packets += u64::from(since.tp_packets);
        self.counts.dropped += u64::from(since.tp_drops);
        Ok(self.counts)
    }

    /// The next block, if it has been handed over.
    pub fn block(&mut self) -> Option<Block<'_>> {
        let base = {
            // SAFETY: `next` is below the number of blocks in the mapping.
            unsafe { self.base.add(self.next * BLOCK_BYTES) }
        };
        if status(base).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        self.next = (self.next + 1) % BLOCKS;
        // SAFETY: a block that was handed over begins with its description, and the kernel leaves
        // it alone until it gets it back.
        let about = unsafe { base.cast::<libc::tpacket_block_desc>().as_ref().hdr.bh1 };
        let at = about.offset_to_first_pkt as usize;
        Some(Block { base, at, left: about.num_pkts, taken: &mut self.taken })
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly this mapping was made by `map`, and nothing borrows from it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), BLOCK_BYTES * BLOCKS) };
    }
}

impl Block<'_> {
    /// The next packet, valid until the next call.
    #[inline]
    pub fn packet(&mut self) -> Option<Packet<'_>> {
        self.left = self.left.checked_sub(1)?;
        if self.at + size_of::<libc::tpacket3_hdr>() > BLOCK_BYTES {
            return None;
        }
        // SAFETY: a header lies there, as the block's description or the header before it says,
        // and inside of the block.
        let header = unsafe { self.base.add(self.at).cast::<libc::tpacket3_hdr>().as_ref() };
        let begin = self.at + usize::from(header.tp_net);
        let bytes = (header.tp_snaplen as usize).min(BLOCK_BYTES.saturating_sub(begin));
        // SAFETY: these bytes lie inside of the block, which the kernel leaves alone until `self`
        // has gone, and they are borrowed from it.
        let bytes = unsafe { std::slice::from_raw_parts(self.base.add(begin).as_ptr(), bytes) };
        self.at += header.tp_next_offset as usize;
        *self.taken += 1;
        let at_us = i64::from(header.tp_sec) * 1_000_000 + i64::from(header.tp_nsec / 1_000);
        Some(Packet { at_us, bytes, is_cut: header.tp_snaplen < header.tp_len })
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        status(self.base).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

/// The status word of a block, which tells whether the kernel or the reader owns it.
fn status<'a>(block: NonNull<u8>) -> &'a AtomicU32 {
    let hdr = std::mem::offset_of!(libc::tpacket_block_desc, hdr);
    let offset = hdr + std::mem::offset_of!(libc::tpacket_hdr_v1, block_status);
    // SAFETY: the word lies in the block's description, and is aligned as the kernel's is. Both
    // sides read and write it as one.
    unsafe { AtomicU32::from_ptr(block.add(offset).cast().as_ptr()) }
}

fn set<T>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let (value, bytes) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the value is of the size that is given.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, bytes) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn map(socket: &OwnedFd) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let bytes = BLOCK_BYTES * BLOCKS;
    // SAFETY: a mapping at an address of the kernel's choice overlaps nothing else.
    let base = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, socket.as_raw_fd(), 0)
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("a mapping at no address"))
}

/// Starts to receive packets.
fn bind(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let bytes = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is of the size that is given.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn is_loopback(interface: &str) -> bool {
    let kind = std::fs::read_to_string(format!("/sys/class/net/{interface}/type"));
    kind.is_ok_and(|kind| kind.trim() == libc::ARPHRD_LOOPBACK.to_string())
}
