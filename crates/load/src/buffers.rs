//! Page-aligned I/O buffers, mapped and populated before the clock starts.

use std::io;
use std::ptr::NonNull;

use seatrial_gauge::Operation;

/// The buffers of one worker: one for each slot, or one for writes and one for reads.
#[derive(Debug)]
pub struct Buffers {
    base: NonNull<u8>,
    slot_bytes: usize,
    slots: usize,
    /// Distance from a slot's write buffer to its read buffer; 0 if they are the same.
    apart: usize,
}

// SAFETY: the mapping is private memory that only this value points to.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Maps `slots` buffers of at least `slot_bytes` each.
    ///
    /// # Errors
    ///
    /// When the kernel has no such memory.
    pub fn map(slots: usize, slot_bytes: usize) -> io::Result<Buffers> {
        let slot_bytes = slot_bytes.max(1).next_multiple_of(4096);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice affects nothing else.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), slots * slot_bytes, access, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Buffers { base, slot_bytes, slots, apart: 0 })
    }

    /// Maps two buffers for each of `slots`, so that nothing that was read is ever written again:
    /// it would compress as well as what happens to be on the target.
    ///
    /// # Errors
    ///
    /// When the kernel has no such memory.
    pub fn map_apart(slots: usize, slot_bytes: usize) -> io::Result<Buffers> {
        let mut buffers = Buffers::map(2 * slots, slot_bytes)?;
        buffers.apart = slots;
        Ok(buffers)
    }

    /// The number of the buffer that a request of a slot reads into or writes from.
    #[inline]
    pub fn number(&self, slot: usize, operation: Operation) -> usize {
        match operation {
            Operation::Read | Operation::Copy => slot + self.apart,
            _ => slot,
        }
    }

    /// A buffer by its number; write buffers are numbered as the slots are.
    #[inline]
    pub fn slot(&mut self, slot: usize) -> &mut [u8] {
        assert!(slot < self.slots);
        // SAFETY: the slot is inside of the mapping, which lives as long as self and is borrowed
        // mutably with it.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.base.as_ptr().add(slot * self.slot_bytes),
                self.slot_bytes,
            )
        }
    }

    /// Address of a buffer, for the kernel.
    #[inline]
    pub fn address(&self, slot: usize) -> *mut u8 {
        assert!(slot < self.slots);
        // SAFETY: the slot is inside of the mapping.
        unsafe { self.base.as_ptr().add(slot * self.slot_bytes) }
    }

    /// All buffers, for registration with the kernel.
    pub fn iovecs(&self) -> Vec<libc::iovec> {
        let iovec =
            |slot| libc::iovec { iov_base: self.address(slot).cast(), iov_len: self.slot_bytes };
        (0..self.slots).map(iovec).collect()
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: exactly this mapping was made by `map`, and nothing borrows from it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.slots * self.slot_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_and_apart() {
        let mut buffers = Buffers::map(3, 5000).unwrap();
        buffers.slot(1).fill(7);
        assert_eq!(buffers.slot(1).len(), 8192);
        assert!([0, 2].iter().all(|&slot| buffers.slot(slot).iter().all(|&byte| byte == 0)));
        assert_eq!(buffers.address(2) as usize % 4096, 0);
        assert_eq!(buffers.iovecs().len(), 3);
    }

    #[test]
    fn what_is_read_lies_apart_only_where_requested() {
        let one = Buffers::map(2, 4096).unwrap();
        let mut two = Buffers::map_apart(2, 4096).unwrap();
        assert_eq!(one.number(1, Operation::Read), one.number(1, Operation::Write));
        assert_eq!((two.number(1, Operation::Read), two.number(1, Operation::Write)), (3, 1));
        two.slot(3).fill(3);
        assert_eq!(two.iovecs().len(), 4);
    }
}
