//! Requests one by one, from the kernel's ring buffer (Documentation/bpf/ringbuf.rst).

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::bpf::{Map, MapKind};
use crate::error::WatchError;
use crate::layout::Record;

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEAD_BYTES: usize = 8;

/// The reader's end of a ring buffer.
#[derive(Debug)]
pub struct Ring {
    map: Map<(), ()>,
    /// One page that we write: how far we have read.
    consumer: NonNull<u8>,
    /// One page that the kernel writes, and the data, twice in a row.
    producer: NonNull<u8>,
    data_bytes: usize,
    page_bytes: usize,
}

// SAFETY: the mappings belong to this value alone.
unsafe impl Send for Ring {}

impl Ring {
    /// Creates a ring buffer.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it.
    ///
    /// # Arguments
    ///
    /// * `data_bytes` - its size, a power of two and at least a page
    pub fn create(data_bytes: u32) -> Result<Ring, WatchError> {
        let map = Map::create(MapKind::RingBuffer, data_bytes, 0)?;
        // SAFETY: a question about a constant of the system.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let data_bytes = data_bytes as usize;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let consumer = mapped(map.fd(), page_bytes, both, 0)?;
        let producer_bytes = page_bytes + 2 * data_bytes;
        let producer = mapped(map.fd(), producer_bytes, libc::PROT_READ, page_bytes)
            .inspect_err(|_| unmap(consumer, page_bytes))?;
        Ok(Ring { map, consumer, producer, data_bytes, page_bytes })
    }

    /// The descriptor.
    pub fn fd(&self) -> i32 {
        self.map.fd()
    }

    /// Takes all records that are complete, in the order of their completion.
    pub fn take(&mut self, mut each: impl FnMut(&Record)) {
        let mut read = self.consumed().load(Ordering::Acquire);
        while read < self.produced().load(Ordering::Acquire) {
            let head = self.head(read).load(Ordering::Acquire);
            if head & BUSY != 0 {
                break;
            }
            let bytes = (head & !DISCARDED) as usize;
            if head & DISCARDED == 0 && bytes == size_of::<Record>() {
                each(&self.record(read));
            }
            read += (HEAD_BYTES + bytes).next_multiple_of(8) as u64;
            self.consumed().store(read, Ordering::Release);
        }
    }

    fn consumed(&self) -> &AtomicU64 {
        // SAFETY: the first word of the consumer's page, which lives as long as this value.
        unsafe { AtomicU64::from_ptr(self.consumer.as_ptr().cast()) }
    }

    fn produced(&self) -> &AtomicU64 {
        // SAFETY: the first word of the producer's page; it is only read.
        unsafe { AtomicU64::from_ptr(self.producer.as_ptr().cast()) }
    }

    /// Returns the address of the data at a position, which goes on without a break behind the end.
    fn data(&self, position: u64) -> *mut u8 {
        let offset_bytes = position as usize & (self.data_bytes - 1);
        // SAFETY: the data lie behind the producer's page, and the offset is within them.
        unsafe { self.producer.as_ptr().add(self.page_bytes + offset_bytes) }
    }

    fn head(&self, position: u64) -> &AtomicU32 {
        // SAFETY: a record begins here with 8 bytes, aligned to 8; it is only read.
        unsafe { AtomicU32::from_ptr(self.data(position).cast()) }
    }

    fn record(&self, position: u64) -> Record {
        // SAFETY: the kernel has completed a record of this length here, and any bytes are valid.
        unsafe { self.data(position).add(HEAD_BYTES).cast::<Record>().read() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        unmap(self.consumer, self.page_bytes);
        unmap(self.producer, self.page_bytes + 2 * self.data_bytes);
    }
}

fn mapped(
    fd: i32,
    bytes: usize,
    protection: i32,
    offset_bytes: usize,
) -> Result<NonNull<u8>, WatchError> {
    let refused = |error| WatchError::Refused { call: "mmap of the ring buffer", error };
    // SAFETY: a new mapping; nothing of ours is replaced.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            protection,
            libc::MAP_SHARED,
            fd,
            offset_bytes as i64,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(refused(io::Error::last_os_error()));
    }
    NonNull::new(address.cast()).ok_or_else(|| refused(io::ErrorKind::InvalidData.into()))
}

fn unmap(address: NonNull<u8>, bytes: usize) {
    // SAFETY: this mapping was made by us and is used by nobody any more.
    unsafe { libc::munmap(address.as_ptr().cast(), bytes) };
}
