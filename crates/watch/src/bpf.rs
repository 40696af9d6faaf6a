//! The system calls of BPF: maps, programs and their attachment to tracepoints.

use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::asm::Instruction;
use crate::error::WatchError;
use crate::source::{Event, Source};

const MAP_CREATE: i32 = 0;
const MAP_LOOKUP: i32 = 1;
const MAP_DELETE: i32 = 3;
const MAP_NEXT_KEY: i32 = 4;
const PROGRAM_LOAD: i32 = 5;
const INFO_BY_FD: i32 = 15;
const RAW_TRACEPOINT_OPEN: i32 = 17;

const PROGRAM_TRACEPOINT: u32 = 5;
const PROGRAM_TRACING: u32 = 26;
const ATTACH_RAW_TRACEPOINT: u32 = 23;
const PERF_TRACEPOINT: u32 = 2;
const PERF_FORGET_ON_EXEC: u64 = 8;
const PERF_SET_PROGRAM: u64 = 0x4004_2408;
const PERF_ENABLE: u64 = 0x2400;

/// The kernel lets only programs under the GPL read its structures: `program.rs` is under both.
const LICENSE: &std::ffi::CStr = c"GPL";
const LOG_BYTES: usize = 1 << 20;
const LOG_SHOWN_BYTES: usize = 400;

/// Kinds of maps.
#[derive(Debug, Clone, Copy)]
#[repr(u32)]
pub enum MapKind {
    /// A hash table.
    Hash = 1,
    /// An array.
    Array = 2,
    /// A hash table whose entries have a value for each processor.
    HashPerProcessor = 5,
    /// An array whose entries have a value for each processor.
    ArrayPerProcessor = 6,
    /// A hash table that gives up its oldest entries.
    LruHash = 9,
    /// A ring buffer, whose size is its number of entries.
    RingBuffer = 27,
}

/// Entries are allocated when they are made.
pub const ALLOCATE_LATE: u32 = 1;

#[repr(C)]
#[derive(Default)]
struct MapAttributes {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
}

#[repr(C)]
struct ElementAttributes {
    map_fd: u32,
    padding: u32,
    key: u64,
    value_or_next: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramAttributes {
    kind: u32,
    instructions_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
    btf_fd: u32,
    function_info_bytes: u32,
    function_info: u64,
    function_info_count: u32,
    line_info_bytes: u32,
    line_info: u64,
    line_info_count: u32,
    attach_btf_id: u32,
}

#[repr(C)]
struct OpenAttributes {
    name: u64,
    program_fd: u32,
    padding: u32,
}

#[repr(C)]
struct InfoAttributes {
    fd: u32,
    bytes: u32,
    info: u64,
}

fn bpf<T>(command: i32, attributes: &mut T) -> io::Result<i32> {
    let bytes = size_of::<T>();
    // SAFETY: the attributes are a structure of bpf(2) for this command, with pointers to memory
    // that outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *mut T, bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us, and nobody else has it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A map with keys and values of fixed types, which must be plain numbers without hidden padding.
#[derive(Debug)]
pub struct Map<K, V> {
    fd: OwnedFd,
    kinds: std::marker::PhantomData<(K, V)>,
}

impl<K: Copy, V: Copy> Map<K, V> {
    /// Creates a map.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it.
    pub fn create(kind: MapKind, entries_max: u32, flags: u32) -> Result<Map<K, V>, WatchError> {
        let mut attributes = MapAttributes {
            kind: kind as u32,
            key_bytes: size_of::<K>() as u32,
            value_bytes: size_of::<V>() as u32,
            entries_max,
            flags,
        };
        let fd = bpf(MAP_CREATE, &mut attributes)
            .map_err(|error| WatchError::Refused { call: "bpf(BPF_MAP_CREATE)", error })?;
        Ok(Map { fd: owned(fd), kinds: std::marker::PhantomData })
    }

    /// The descriptor.
    pub fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Returns the value of a key, if there is one.
    pub fn get(&self, key: &K) -> Option<V> {
        let mut value = std::mem::MaybeUninit::<V>::zeroed();
        self.element(MAP_LOOKUP, Some(key), value.as_mut_ptr() as u64).ok()?;
        // SAFETY: the kernel has filled it, and any bytes are a valid V.
        Some(unsafe { value.assume_init() })
    }

    /// Returns the values of a key of all processors, if it is there.
    ///
    /// The map has a value for each processor, and `V` is a multiple of 8 bytes long.
    pub fn get_all(&self, key: &K, processors: usize) -> Option<Vec<V>> {
        const { assert!(size_of::<V>() % 8 == 0) };
        let mut values = Vec::<V>::with_capacity(processors);
        self.element(MAP_LOOKUP, Some(key), values.as_mut_ptr() as u64).ok()?;
        // SAFETY: the kernel has filled a value for each processor, and any bytes are a valid V.
        unsafe { values.set_len(processors) };
        Some(values)
    }

    /// Returns all keys; those that come meanwhile may be missing.
    pub fn keys(&self) -> Vec<K> {
        let mut keys: Vec<K> = Vec::new();
        loop {
            let mut next = std::mem::MaybeUninit::<K>::zeroed();
            let found = self.element(MAP_NEXT_KEY, keys.last(), next.as_mut_ptr() as u64);
            if found.is_err() {
                return keys;
            }
            // SAFETY: the kernel has filled it, and any bytes are a valid K.
            keys.push(unsafe { next.assume_init() });
        }
    }

    /// Removes a key, if it is there.
    pub fn remove(&self, key: &K) {
        // Absent is as good.
        let _ = self.element(MAP_DELETE, Some(key), 0);
    }

    fn element(&self, command: i32, key: Option<&K>, value_or_next: u64) -> io::Result<i32> {
        let key = key.map_or(0, |key| std::ptr::from_ref(key) as u64);
        let map_fd = self.fd() as u32;
        bpf(command, &mut ElementAttributes { map_fd, padding: 0, key, value_or_next, flags: 0 })
    }
}

/// Returns for how many processors a map per processor has values: all that may ever be online.
///
/// # Errors
///
/// If the kernel does not say it.
pub fn processors() -> Result<usize, WatchError> {
    const POSSIBLE: &str = "/sys/devices/system/cpu/possible";
    let refused = |error| WatchError::Refused { call: "read of /sys/devices/system/cpu", error };
    let listed = std::fs::read_to_string(POSSIBLE).map_err(refused)?;
    count_of(listed.trim()).ok_or_else(|| refused(io::ErrorKind::InvalidData.into()))
}

/// Returns how many numbers a list such as `0-3,8` has.
fn count_of(listed: &str) -> Option<usize> {
    let counts = listed.split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first).map(|more| more + 1)
    });
    counts.sum()
}

/// A program that runs at a tracepoint until this is dropped.
#[derive(Debug)]
pub struct AttachedProgram {
    program: OwnedFd,
    _event: OwnedFd,
}

impl AttachedProgram {
    /// Loads a program and attaches it to the tracepoint of an event, on all processors.
    ///
    /// # Errors
    ///
    /// If the verifier rejects it, or the kernel refuses.
    pub fn attach(
        event: Event,
        source: &Source,
        program: &[Instruction],
    ) -> Result<AttachedProgram, WatchError> {
        match source {
            Source::Structure(_, btf_id) => {
                let program = load(event.tracepoint(), PROGRAM_TRACING, *btf_id, program)?;
                let program_fd = program.as_raw_fd() as u32;
                let mut attributes = OpenAttributes { name: 0, program_fd, padding: 0 };
                let event = bpf(RAW_TRACEPOINT_OPEN, &mut attributes).map_err(|error| {
                    WatchError::Refused { call: "bpf(BPF_RAW_TRACEPOINT_OPEN)", error }
                })?;
                Ok(AttachedProgram { program, _event: owned(event) })
            }
            Source::Fields(tracepoint) => {
                let program = load(event.tracepoint(), PROGRAM_TRACEPOINT, 0, program)?;
                let event = open_event(tracepoint.id)
                    .map_err(|error| WatchError::Refused { call: "perf_event_open", error })?;
                let refused =
                    |error| WatchError::Refused { call: "ioctl(PERF_EVENT_IOC_SET_BPF)", error };
                control(&event, PERF_SET_PROGRAM, program.as_raw_fd()).map_err(refused)?;
                control(&event, PERF_ENABLE, 0).map_err(refused)?;
                Ok(AttachedProgram { program, _event: event })
            }
        }
    }

    /// Returns how often the program did not run, as another one ran on this processor.
    pub fn missed(&self) -> u64 {
        // struct bpf_prog_info: recursion_misses is its 27th 8-byte word (Linux 5.12 and later).
        const MISSES_WORD: usize = 26;
        let mut info = [0u64; 32];
        let mut attributes = InfoAttributes {
            fd: self.program.as_raw_fd() as u32,
            bytes: size_of_val(&info) as u32,
            info: info.as_mut_ptr() as u64,
        };
        bpf(INFO_BY_FD, &mut attributes).map_or(0, |_| info[MISSES_WORD])
    }
}

fn load(
    name: &str,
    kind: u32,
    attach_btf_id: u32,
    program: &[Instruction],
) -> Result<OwnedFd, WatchError> {
    let mut attributes = ProgramAttributes {
        kind,
        instructions_count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: [0; 16],
        interface: 0,
        attach_type: if kind == PROGRAM_TRACING { ATTACH_RAW_TRACEPOINT } else { 0 },
        btf_fd: 0,
        function_info_bytes: 0,
        function_info: 0,
        function_info_count: 0,
        line_info_bytes: 0,
        line_info: 0,
        line_info_count: 0,
        attach_btf_id,
    };
    let error = match bpf(PROGRAM_LOAD, &mut attributes) {
        Ok(fd) => return Ok(owned(fd)),
        Err(error) => error,
    };
    let mut log = vec![0u8; LOG_BYTES];
    attributes.log_level = 1;
    attributes.log_bytes = log.len() as u32;
    attributes.log = log.as_mut_ptr() as u64;
    match bpf(PROGRAM_LOAD, &mut attributes) {
        Ok(fd) => Ok(owned(fd)),
        Err(_) if log[0] == 0 => Err(WatchError::Refused { call: "bpf(BPF_PROG_LOAD)", error }),
        Err(_) => Err(WatchError::Rejected { name: name.into(), log: end_of(&log) }),
    }
}

/// Returns the last lines of the verifier's log.
fn end_of(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log);
    let text = text.trim_end_matches('\0').trim_end();
    let from = text.len().saturating_sub(LOG_SHOWN_BYTES);
    text.get(from..).unwrap_or(text).to_string()
}

/// Opens the event of a tracepoint: on one processor, as its program runs on all of them.
fn open_event(id: u64) -> io::Result<OwnedFd> {
    // struct perf_event_attr: type, size, config, sample_period, sample_type ...
    let mut attributes = [0u64; 16];
    attributes[0] = u64::from(PERF_TRACEPOINT) | (size_of_val(&attributes) as u64) << 32;
    attributes[1] = id;
    attributes[2] = 1;
    let (all_processes, first_processor, no_group) = (-1, 0, -1);
    // SAFETY: the attributes outlive the call and are as long as they say.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            all_processes,
            first_processor,
            no_group,
            PERF_FORGET_ON_EXEC,
        )
    };
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(owned(fd as i32)) }
}

fn control(event: &OwnedFd, request: u64, argument: i32) -> io::Result<()> {
    // SAFETY: both requests take a number, no pointer.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), request as _, argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_of_a_list_are_counted() {
        let cases =
            [("0", Some(1)), ("0-1", Some(2)), ("0-3,8", Some(5)), ("", None), ("3-0", None)];
        for (listed, expected) in cases {
            assert_eq!(count_of(listed), expected, "{listed}");
        }
    }
}
