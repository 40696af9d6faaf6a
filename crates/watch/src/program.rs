//! The programs: a request arrives in the block layer, is issued to the device, is completed.
//!
//! Where its fields come from the tracepoints, a request is known by device and first sector only:
//! of two alike at the same time one is not counted, and its completion is an unmatched one.

// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

use std::mem::offset_of;

use crate::asm::{
    Alu, Assembler, Cond, FP, Helper, Instruction, Label, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9,
    Reg, Width,
};
use crate::error::WatchError;
use crate::layout::{
    BUCKETS, FLAG_SYNC, GroupKey, HIGH_BITS, LOW_BITS, Losses, Record, Request, SLOT_BITS,
    SUB_BITS, TableSlot, UNKNOWN_NS, counts_at,
};
use crate::source::{Event, Source, StructureOffsets};
use crate::tracefs::Tracepoint;

/// Descriptors of the maps that the programs use.
#[derive(Debug, Clone, Copy)]
pub struct Maps {
    /// [`TableSlot`]s, by a hash of the address: for reads and writes whose slot is free.
    pub slots: i32,
    /// One number a processor.
    pub scratch: i32,
    /// [`crate::layout::RequestKey`] to [`Request`]: for all others.
    pub requests: i32,
    /// [`GroupKey`] to [`crate::layout::Counts`].
    pub groups: i32,
    /// The same, for keys without a process, where `groups` has no room.
    pub unnamed: i32,
    /// One empty [`crate::layout::Counts`].
    pub empty: i32,
    /// One [`Losses`].
    pub losses: i32,
    /// The ring buffer, if requests are recorded one by one.
    pub ring: Option<i32>,
}

/// Offsets on the stack, from its end.
mod stack {
    /// A [`crate::layout::RequestKey`]: 16 bytes.
    pub const KEY: i16 = -16;
    /// A [`super::Request`]: 40 bytes.
    pub const REQUEST: i16 = KEY - 40;
    /// A [`super::Record`]: 64 bytes.
    pub const RECORD: i16 = REQUEST - 64;
    /// The number of an array's entry: 4 bytes.
    pub const INDEX: i16 = RECORD - 8;
    /// The error of a completion: 8 bytes.
    pub const ERROR: i16 = INDEX - 8;
}

/// The most characters of `rwbs` that are looked at; the kernel writes fewer.
const RWBS_MAX: i16 = 7;
const UPDATE_ANY: i32 = 0;
const UPDATE_IF_ABSENT: i32 = 1;
/// The reader looks at the ring on its own time: no request has to wake it.
const RING_NO_WAKEUP: i32 = 1;
const OPERATION_BITS: i32 = 0xff;
const WRITE: i32 = 1;
const FLUSH: i32 = 2;
const OTHER: i32 = 4;
const MINOR_BITS: i32 = 20;

const fn at(base: i16, field: usize) -> i16 {
    base + field as i16
}

/// Returns the program for an event.
///
/// # Errors
///
/// If a tracepoint lacks a field.
pub fn assemble(
    event: Event,
    source: &Source,
    maps: Maps,
    devices: &[u32],
) -> Result<Vec<Instruction>, WatchError> {
    let mut program = Program::begin(source, maps, devices, event == Event::IsCompleted)?;
    match event {
        Event::Arrives => program.arrives()?,
        Event::IsIssued => program.is_issued()?,
        Event::IsCompleted => program.is_completed()?,
    }
    Ok(program.finish())
}

/// A program under construction: `R6` is the request or the context, `R7` the device.
struct Program<'a> {
    asm: Assembler,
    source: &'a Source,
    maps: Maps,
    end: Label,
}

impl<'a> Program<'a> {
    /// Begins a program that ends at once for other devices.
    fn begin(
        source: &'a Source,
        maps: Maps,
        devices: &[u32],
        completes: bool,
    ) -> Result<Program<'a>, WatchError> {
        let mut asm = Assembler::default();
        let (end, watched) = (asm.label(), asm.label());
        match source {
            Source::Structure(structures, _) => {
                begin_by_structure(&mut asm, structures, end, completes)
            }
            Source::Fields(fields) => begin_by_fields(&mut asm, fields, completes)?,
        }
        for &device in devices {
            // The immediate is extended by its sign, and major numbers stay below 2^11.
            asm.jump_if(Cond::Eq, R7, device as i32, watched);
        }
        if !devices.is_empty() {
            asm.jump(end);
        }
        asm.bind(watched);
        Ok(Program { asm, source, maps, end })
    }

    fn finish(mut self) -> Vec<Instruction> {
        self.asm.bind(self.end);
        self.asm.exit();
        self.asm.finish()
    }

    fn arrives(&mut self) -> Result<(), WatchError> {
        self.key()?;
        self.asm.call(Helper::NowNs);
        self.asm.store(Width::Double, FP, at(stack::REQUEST, offset_of!(Request, arrived_ns)), R0);
        self.asm.store_value(
            Width::Double,
            FP,
            at(stack::REQUEST, offset_of!(Request, issued_ns)),
            0,
        );
        self.current();
        let (taken, kept) = (self.asm.label(), self.asm.label());
        if let Source::Structure(structures, _) = self.source {
            self.take_slot(structures, taken, kept);
        }
        self.asm.bind(taken);
        self.update(self.maps.requests, stack::KEY, stack::REQUEST);
        self.asm.bind(kept);
        if let Source::Structure(structures, _) = self.source {
            self.asm.load(Width::Word, R1, R6, structures.flags);
            self.asm.alu(Alu::Shr, R1, structures.preflush_bit as i32);
            self.asm.alu(Alu::And, R1, 1);
            self.asm.jump_if(Cond::Eq, R1, 0, self.end);
            self.flush_key();
            self.update(self.maps.requests, stack::KEY, stack::REQUEST);
        }
        Ok(())
    }

    fn is_issued(&mut self) -> Result<(), WatchError> {
        let (unseen, sender_known) = (self.asm.label(), self.asm.label());
        let issued_ns = at(stack::REQUEST, offset_of!(Request, issued_ns));
        self.key()?;
        self.asm.call(Helper::NowNs);
        self.asm.store(Width::Double, FP, issued_ns, R0);
        self.find_request(unseen);
        self.asm.load(Width::Double, R1, FP, issued_ns);
        self.asm.store(Width::Double, R0, at(0, offset_of!(Request, issued_ns)), R1);
        self.asm.jump(self.end);
        self.asm.bind(unseen);
        if let Source::Structure(structures, _) = *self.source {
            self.sender_of_flush(&structures, sender_known);
        }
        self.asm.store_value(
            Width::Double,
            FP,
            at(stack::REQUEST, offset_of!(Request, arrived_ns)),
            0,
        );
        self.current();
        self.asm.bind(sender_known);
        self.update(self.maps.requests, stack::KEY, stack::REQUEST);
        self.asm.jump_if(Cond::Eq, R0, 0, self.end);
        self.lose(offset_of!(Losses, uncounted));
        Ok(())
    }

    /// Takes as sender of a flush who requested one last: the kernel makes the request itself.
    fn sender_of_flush(&mut self, structures: &StructureOffsets, known: Label) {
        let (no_flush, nobody) = (self.asm.label(), self.asm.label());
        self.asm.load(Width::Word, R1, R6, structures.flags);
        self.asm.alu(Alu::And, R1, OPERATION_BITS);
        self.asm.jump_if(Cond::Ne, R1, FLUSH, no_flush);
        self.flush_key();
        self.call_map(Helper::MapLookup, self.maps.requests, stack::KEY);
        self.asm.jump_if(Cond::Eq, R0, 0, nobody);
        self.asm.load(Width::Double, R9, FP, at(stack::REQUEST, offset_of!(Request, issued_ns)));
        self.copy(R0, stack::REQUEST, size_of::<Request>());
        self.asm.store(Width::Double, FP, at(stack::REQUEST, offset_of!(Request, issued_ns)), R9);
        self.address_key();
        self.asm.jump(known);
        self.asm.bind(nobody);
        self.address_key();
        self.asm.bind(no_flush);
    }

    fn is_completed(&mut self) -> Result<(), WatchError> {
        let (found, in_slot) = (self.asm.label(), self.asm.label());
        let (taken, counted) = (self.asm.label(), self.asm.label());
        self.key()?;
        self.bytes(R1)?;
        self.asm.store(Width::Word, FP, at(stack::RECORD, offset_of!(Record, bytes)), R1);
        self.sector(R1)?;
        self.asm.store(Width::Double, FP, at(stack::RECORD, offset_of!(Record, sector)), R1);
        if let Source::Structure(structures, _) = self.source {
            self.own_slot(structures, in_slot);
        }
        self.call_map(Helper::MapLookup, self.maps.requests, stack::KEY);
        self.asm.jump_if(Cond::Ne, R0, 0, found);
        // Without data and unknown: it requested a flush, which was counted.
        self.end_without_data();
        self.lose(offset_of!(Losses, unmatched));
        self.asm.bind(found);
        self.copy(R0, stack::REQUEST, size_of::<Request>());
        self.call_map(Helper::MapDelete, self.maps.requests, stack::KEY);
        if let Source::Structure(..) = self.source {
            self.asm.jump(taken);
            self.asm.bind(in_slot);
            // A slot outlives its request: without data, it was counted before, or is a flush's.
            self.end_without_data();
            self.copy(R0, stack::REQUEST, size_of::<Request>());
        }
        self.asm.bind(taken);
        // What was never issued, without data, was served by a flush.
        self.asm.load(Width::Double, R1, FP, at(stack::REQUEST, offset_of!(Request, issued_ns)));
        self.asm.jump_if(Cond::Ne, R1, 0, counted);
        self.end_without_data();
        self.lose(offset_of!(Losses, unmatched));
        self.asm.bind(counted);
        self.times();
        self.group()?;
        if let Some(ring) = self.maps.ring {
            self.record(ring);
        }
        self.count();
        Ok(())
    }

    fn end_without_data(&mut self) {
        self.asm.load(Width::Word, R1, FP, at(stack::RECORD, offset_of!(Record, bytes)));
        self.asm.jump_if(Cond::Eq, R1, 0, self.end);
    }

    /// `R8 = ` the slot of a read or write. Others have none: not all of them arrive, so that what
    /// their slot has could be of another life of theirs.
    fn slot(&mut self, structures: &StructureOffsets, none: Label) {
        self.asm.load(Width::Word, R1, R6, structures.flags);
        self.asm.alu(Alu::And, R1, OPERATION_BITS);
        self.asm.jump_if(Cond::Ge, R1, FLUSH, none);
        // The verifier does not let programs calculate with addresses; read from a map, an address
        // is a number to it.
        self.asm.store_value(Width::Word, FP, stack::INDEX, 0);
        self.call_map(Helper::MapLookup, self.maps.scratch, stack::INDEX);
        self.asm.jump_if(Cond::Eq, R0, 0, none);
        let asm = &mut self.asm;
        asm.store(Width::Double, R0, 0, R6);
        asm.load(Width::Double, R2, R0, 0);
        // The upper bits of a product with 2^64 / golden ratio (Knuth, volume 3, section 6.4).
        asm.load_value(R1, 0x9e37_79b9_7f4a_7c15);
        asm.alu_register(Alu::Mul, R1, R2);
        asm.alu(Alu::Shr, R1, 64 - SLOT_BITS as i32);
        asm.store(Width::Word, FP, stack::INDEX, R1);
        self.call_map(Helper::MapLookup, self.maps.slots, stack::INDEX);
        self.asm.jump_if(Cond::Eq, R0, 0, none);
        self.asm.alu_register(Alu::Mov, R8, R0);
    }

    /// Puts the request on the stack into its slot, and goes on at `kept`; at `taken` if another
    /// request has it.
    fn take_slot(&mut self, structures: &StructureOffsets, taken: Label, kept: Label) {
        let own = self.asm.label();
        self.slot(structures, taken);
        let asm = &mut self.asm;
        asm.load(Width::Double, R0, R8, at(0, offset_of!(TableSlot, owner)));
        asm.jump_if_registers(Cond::Eq, R0, R6, own);
        asm.jump_if(Cond::Ne, R0, 0, taken);
        asm.compare_exchange(R8, at(0, offset_of!(TableSlot, owner)), R6);
        asm.jump_if(Cond::Ne, R0, 0, taken);
        asm.bind(own);
        for offset in (0..size_of::<Request>() as i16).step_by(8) {
            asm.load(Width::Double, R1, FP, stack::REQUEST + offset);
            asm.store(Width::Double, R8, at(offset, offset_of!(TableSlot, request)), R1);
        }
        asm.jump(kept);
    }

    /// Goes to `found` with `R0` = the request in its slot, if it is there. The slot stays as it
    /// is: memory that only one processor writes is fast.
    fn own_slot(&mut self, structures: &StructureOffsets, found: Label) {
        let other = self.asm.label();
        self.slot(structures, other);
        let asm = &mut self.asm;
        asm.load(Width::Double, R1, R8, at(0, offset_of!(TableSlot, owner)));
        asm.jump_if_registers(Cond::Ne, R1, R6, other);
        asm.address(R0, R8, at(0, offset_of!(TableSlot, request)));
        asm.jump(found);
        asm.bind(other);
    }

    /// `R0 = ` the request that was seen to arrive; goes to `unseen` if none was.
    fn find_request(&mut self, unseen: Label) {
        let found = self.asm.label();
        if let Source::Structure(structures, _) = self.source {
            self.own_slot(structures, found);
        }
        self.call_map(Helper::MapLookup, self.maps.requests, stack::KEY);
        self.asm.jump_if(Cond::Eq, R0, 0, unseen);
        self.asm.bind(found);
    }

    /// Writes the key of the request.
    ///
    /// By its fields, a flush has no sector: the kernel names 0 when it begins, and all bits set
    /// when it ends.
    fn key(&mut self) -> Result<(), WatchError> {
        let Source::Fields(fields) = self.source else {
            self.address_key();
            return Ok(());
        };
        let has_data = self.asm.label();
        self.asm.store(Width::Double, FP, stack::KEY, R7);
        self.asm.load(Width::Double, R1, R6, fields.offset_bytes("sector")?);
        self.asm.load(Width::Word, R2, R6, fields.offset_bytes("nr_sector")?);
        self.asm.jump_if(Cond::Ne, R2, 0, has_data);
        self.asm.alu(Alu::Mov, R1, -1);
        self.asm.bind(has_data);
        self.asm.store(Width::Double, FP, stack::KEY + 8, R1);
        Ok(())
    }

    fn address_key(&mut self) {
        self.asm.store(Width::Double, FP, stack::KEY, R6);
        self.asm.store_value(Width::Double, FP, stack::KEY + 8, 0);
    }

    /// Writes the key of who last requested a flush of the device.
    fn flush_key(&mut self) {
        self.asm.store(Width::Double, FP, stack::KEY, R7);
        self.asm.store_value(Width::Double, FP, stack::KEY + 8, -1);
    }

    fn sector(&mut self, to: Reg) -> Result<(), WatchError> {
        let offset = match self.source {
            Source::Structure(structures, _) => structures.sector,
            Source::Fields(fields) => fields.offset_bytes("sector")?,
        };
        self.asm.load(Width::Double, to, R6, offset);
        Ok(())
    }

    fn bytes(&mut self, to: Reg) -> Result<(), WatchError> {
        match self.source {
            Source::Structure(structures, _) => {
                self.asm.load(Width::Word, to, R6, structures.bytes);
            }
            Source::Fields(fields) => {
                self.asm.load(Width::Word, to, R6, fields.offset_bytes("nr_sector")?);
                self.asm.alu(Alu::Shl, to, 9);
            }
        }
        Ok(())
    }

    /// Calls a function with a map and the address of its key.
    fn call_map(&mut self, helper: Helper, map_fd: i32, key: i16) {
        self.asm.load_map(R1, map_fd);
        self.asm.address(R2, FP, key);
        self.asm.call(helper);
    }

    fn update(&mut self, map_fd: i32, key: i16, value: i16) {
        self.asm.address(R3, FP, value);
        self.asm.alu(Alu::Mov, R4, UPDATE_ANY);
        self.call_map(Helper::MapUpdate, map_fd, key);
    }

    /// Writes which process runs.
    fn current(&mut self) {
        let field = |offset| at(stack::REQUEST, offset);
        self.asm.call(Helper::CurrentPid);
        self.asm.alu(Alu::Shr, R0, 32);
        self.asm.store(Width::Word, FP, field(offset_of!(Request, pid)), R0);
        self.asm.store_value(Width::Word, FP, field(offset_of!(Request, padding)), 0);
        self.asm.address(R1, FP, field(offset_of!(Request, command)));
        self.asm.alu(Alu::Mov, R2, 16);
        self.asm.call(Helper::CurrentCommand);
    }

    fn copy(&mut self, from: Reg, to: i16, bytes: usize) {
        for offset in (0..bytes as i16).step_by(8) {
            self.asm.load(Width::Double, R1, from, offset);
            self.asm.store(Width::Double, FP, to + offset, R1);
        }
    }

    /// Adds 1 to a field of [`Losses`], and ends.
    fn lose(&mut self, field: usize) {
        self.add_loss(field);
        self.asm.jump(self.end);
    }

    fn add_loss(&mut self, field: usize) {
        self.asm.store_value(Width::Word, FP, stack::INDEX, 0);
        self.call_map(Helper::MapLookup, self.maps.losses, stack::INDEX);
        self.asm.jump_if(Cond::Eq, R0, 0, self.end);
        self.asm.alu(Alu::Mov, R1, 1);
        self.asm.atomic_add(Width::Double, R0, at(0, field), R1);
    }

    /// Writes when the request completed, and how long it took: 0 where a later reading is the
    /// smaller one, as another process may ask for a flush while it is issued.
    fn times(&mut self) {
        let field = |offset| at(stack::RECORD, offset);
        let asm = &mut self.asm;
        let known = asm.label();
        asm.call(Helper::NowNs);
        asm.store(Width::Double, FP, field(offset_of!(Record, completed_ns)), R0);
        asm.load(Width::Double, R1, FP, at(stack::REQUEST, offset_of!(Request, issued_ns)));
        asm.subtract_to_zero(R0, R1);
        asm.store(Width::Double, FP, field(offset_of!(Record, device_ns)), R0);
        asm.load(Width::Double, R2, FP, at(stack::REQUEST, offset_of!(Request, arrived_ns)));
        asm.subtract_to_zero(R1, R2);
        asm.jump_if(Cond::Ne, R2, 0, known);
        asm.load_value(R1, UNKNOWN_NS);
        asm.bind(known);
        asm.store(Width::Double, FP, field(offset_of!(Record, queue_ns)), R1);
    }

    /// Writes the group of the request.
    fn group(&mut self) -> Result<(), WatchError> {
        let field = |offset| at(stack::RECORD, offset);
        self.asm.store(Width::Word, FP, field(offset_of!(GroupKey, device)), R7);
        self.asm.store_value(Width::Byte, FP, field(offset_of!(GroupKey, failed)), 0);
        match self.source {
            Source::Structure(structures, _) => self.operation_by_structure(structures),
            Source::Fields(fields) => self.operation_by_fields(fields.offset_bytes("rwbs")?),
        }
        self.octave();
        self.asm.load(Width::Word, R1, FP, at(stack::REQUEST, offset_of!(Request, pid)));
        self.asm.store(Width::Word, FP, field(offset_of!(GroupKey, pid)), R1);
        for offset in (0..16).step_by(4) {
            let from = at(stack::REQUEST, offset_of!(Request, command) + offset);
            self.asm.load(Width::Word, R1, FP, from);
            self.asm.store(Width::Word, FP, field(offset_of!(GroupKey, command) + offset), R1);
        }
        Ok(())
    }

    fn operation_by_structure(&mut self, structures: &StructureOffsets) {
        let asm = &mut self.asm;
        let known = asm.label();
        let (is_sync, is_background) = (asm.label(), asm.label());
        asm.load(Width::Word, R1, R6, structures.flags);
        asm.alu_register(Alu::Mov, R2, R1);
        asm.alu(Alu::And, R2, OPERATION_BITS);
        asm.jump_if(Cond::Lt, R2, OTHER, known);
        asm.alu(Alu::Mov, R2, OTHER);
        asm.bind(known);
        asm.store(Width::Byte, FP, at(stack::RECORD, offset_of!(GroupKey, operation)), R2);
        asm.jump_if(Cond::Ne, R2, WRITE, is_sync);
        asm.alu(Alu::Shr, R1, structures.sync_bit as i32);
        asm.alu(Alu::And, R1, 1);
        asm.jump_if(Cond::Ne, R1, 0, is_sync);
        store_flags(asm, is_sync, is_background);
    }

    /// Reads `rwbs`, such as `WFS`: an operation, perhaps behind an F (flush first), and flags.
    fn operation_by_fields(&mut self, rwbs: i16) {
        let asm = &mut self.asm;
        let decoded = asm.label();
        let (is_sync, is_background) = (asm.label(), asm.label());
        asm.load(Width::Byte, R1, R6, rwbs);
        asm.load(Width::Byte, R2, R6, rwbs + 1);
        asm.jump_if(Cond::Ne, R1, i32::from(b'F'), decoded);
        for operation in b"RWDF" {
            replace_if(asm, (R2, *operation), R1, i32::from(*operation));
        }
        asm.bind(decoded);
        asm.alu(Alu::Mov, R3, OTHER);
        for (number, operation) in b"RWFD".iter().enumerate() {
            replace_if(asm, (R1, *operation), R3, number as i32);
        }
        asm.store(Width::Byte, FP, at(stack::RECORD, offset_of!(GroupKey, operation)), R3);
        // A process waits for what is not a write; the kernel marks reads as readahead even where
        // it waits for a part of them.
        asm.jump_if(Cond::Ne, R1, i32::from(b'W'), is_sync);
        for index in 1..RWBS_MAX {
            let next = asm.label();
            asm.load(Width::Byte, R2, R6, rwbs + index);
            asm.jump_if(Cond::Eq, R2, i32::from(b'S'), is_sync);
            asm.jump_if(Cond::Ne, R2, 0, next);
            asm.jump(is_background);
            asm.bind(next);
        }
        store_flags(asm, is_sync, is_background);
    }

    /// Writes the octave of the length.
    fn octave(&mut self) {
        let asm = &mut self.asm;
        let done = asm.label();
        asm.load(Width::Word, R1, FP, at(stack::RECORD, offset_of!(Record, bytes)));
        asm.alu(Alu::Mov, R2, 0);
        asm.alu(Alu::Shr, R1, 9);
        asm.jump_if(Cond::Eq, R1, 0, done);
        logarithm(asm, R1, R2);
        asm.alu(Alu::Add, R2, 1);
        asm.bind(done);
        asm.store(Width::Byte, FP, at(stack::RECORD, offset_of!(GroupKey, octave)), R2);
    }

    /// Counts the request in its group, or where there is no room, in that of no process.
    fn count(&mut self) {
        let found = self.asm.label();
        self.find_group(self.maps.groups, found);
        let process = offset_of!(GroupKey, pid)..size_of::<GroupKey>();
        for offset in process.step_by(4) {
            self.asm.store_value(Width::Word, FP, at(stack::RECORD, offset), 0);
        }
        self.find_group(self.maps.unnamed, found);
        self.lose(offset_of!(Losses, uncounted));
        self.asm.bind(found);
        self.asm.alu_register(Alu::Mov, R8, R0);
        self.sums();
    }

    /// Jumps with `R0` at the counts of the request's group, which is made if there is none.
    fn find_group(&mut self, map_fd: i32, found: Label) {
        self.call_map(Helper::MapLookup, map_fd, stack::RECORD);
        self.asm.jump_if(Cond::Ne, R0, 0, found);
        self.asm.store_value(Width::Word, FP, stack::INDEX, 0);
        self.call_map(Helper::MapLookup, self.maps.empty, stack::INDEX);
        self.asm.jump_if(Cond::Eq, R0, 0, self.end);
        self.asm.alu_register(Alu::Mov, R3, R0);
        self.asm.alu(Alu::Mov, R4, UPDATE_IF_ABSENT);
        self.call_map(Helper::MapUpdate, map_fd, stack::RECORD);
        self.call_map(Helper::MapLookup, map_fd, stack::RECORD);
        self.asm.jump_if(Cond::Ne, R0, 0, found);
    }

    /// Adds to the counts of this processor at `R8`: while this program runs, none of its kind
    /// runs on the same processor.
    fn sums(&mut self) {
        let asm = &mut self.asm;
        let (succeeded, unknown) = (asm.label(), asm.label());
        asm.alu(Alu::Mov, R9, 1);
        asm.add(Width::Double, (R8, counts_at::REQUESTS), R9, R5);
        asm.load(Width::Word, R1, FP, at(stack::RECORD, offset_of!(Record, bytes)));
        asm.add(Width::Double, (R8, counts_at::BYTES), R1, R5);
        asm.load(Width::Double, R1, FP, stack::ERROR);
        asm.jump_if(Cond::Eq, R1, 0, succeeded);
        asm.add(Width::Double, (R8, counts_at::FAILED), R9, R5);
        asm.bind(succeeded);
        asm.load(Width::Double, R1, FP, at(stack::RECORD, offset_of!(Record, device_ns)));
        asm.add(Width::Double, (R8, counts_at::DEVICE_NS), R1, R5);
        count_latency(asm, counts_at::DEVICE_BUCKETS);
        asm.load(Width::Double, R1, FP, at(stack::REQUEST, offset_of!(Request, arrived_ns)));
        asm.jump_if(Cond::Eq, R1, 0, unknown);
        asm.load(Width::Double, R1, FP, at(stack::RECORD, offset_of!(Record, queue_ns)));
        asm.add(Width::Double, (R8, counts_at::QUEUED), R9, R5);
        asm.add(Width::Double, (R8, counts_at::QUEUE_NS), R1, R5);
        count_latency(asm, counts_at::QUEUE_BUCKETS);
        asm.bind(unknown);
    }

    /// Sends the record to the reader.
    fn record(&mut self, ring: i32) {
        let (succeeded, sent) = (self.asm.label(), self.asm.label());
        self.asm.load(Width::Double, R1, FP, stack::ERROR);
        self.asm.jump_if(Cond::Eq, R1, 0, succeeded);
        let failed = at(stack::RECORD, offset_of!(GroupKey, failed));
        self.asm.store_value(Width::Byte, FP, failed, 1);
        self.asm.bind(succeeded);
        self.asm.load_map(R1, ring);
        self.asm.address(R2, FP, stack::RECORD);
        self.asm.alu(Alu::Mov, R3, size_of::<Record>() as i32);
        self.asm.alu(Alu::Mov, R4, RING_NO_WAKEUP);
        self.asm.call(Helper::RingOutput);
        self.asm.jump_if(Cond::Eq, R0, 0, sent);
        self.add_loss(offset_of!(Losses, unrecorded));
        self.asm.bind(sent);
        self.asm.store_value(Width::Byte, FP, failed, 0);
    }
}

/// Begins with the arguments of the tracepoint: the request; of a completion also error and bytes.
fn begin_by_structure(
    asm: &mut Assembler,
    structures: &StructureOffsets,
    end: Label,
    completes: bool,
) {
    asm.load(Width::Double, R6, R1, 0);
    if completes {
        asm.load(Width::Double, R2, R1, 8);
        asm.alu(Alu::And, R2, 0xff);
        asm.store(Width::Double, FP, stack::ERROR, R2);
        // The rest of a request that completes in parts is yet to come.
        asm.load(Width::Double, R2, R1, 16);
        asm.alu(Alu::Shl, R2, 32);
        asm.alu(Alu::Shr, R2, 32);
        asm.load(Width::Word, R3, R6, structures.bytes);
        asm.jump_if_registers(Cond::Lt, R2, R3, end);
    }
    asm.load(Width::Double, R1, R6, structures.queue);
    asm.load(Width::Double, R1, R1, structures.disk);
    asm.jump_if(Cond::Eq, R1, 0, end);
    asm.load(Width::Word, R7, R1, structures.major);
    asm.load(Width::Word, R2, R1, structures.first_minor);
    asm.alu(Alu::Shl, R7, MINOR_BITS);
    asm.alu_register(Alu::Or, R7, R2);
}

fn begin_by_fields(
    asm: &mut Assembler,
    fields: &Tracepoint,
    completes: bool,
) -> Result<(), WatchError> {
    asm.alu_register(Alu::Mov, R6, R1);
    asm.load(Width::Word, R7, R6, fields.offset_bytes("dev")?);
    if completes {
        asm.load(Width::Word, R1, R6, fields.offset_bytes("error")?);
        asm.store(Width::Double, FP, stack::ERROR, R1);
    }
    Ok(())
}

/// Writes the flags of a request: that of one that a process waits for, or none.
fn store_flags(asm: &mut Assembler, is_sync: Label, is_background: Label) {
    let done = asm.label();
    asm.bind(is_background);
    asm.alu(Alu::Mov, R3, 0);
    asm.jump(done);
    asm.bind(is_sync);
    asm.alu(Alu::Mov, R3, i32::from(FLAG_SYNC));
    asm.bind(done);
    asm.store(Width::Byte, FP, at(stack::RECORD, offset_of!(GroupKey, flags)), R3);
}

/// Sets a register to a value where another one holds a character.
fn replace_if(asm: &mut Assembler, (register, character): (Reg, u8), to: Reg, value: i32) {
    let other = asm.label();
    asm.jump_if(Cond::Ne, register, i32::from(character), other);
    asm.alu(Alu::Mov, to, value);
    asm.bind(other);
}

/// `to += ` the logarithm to base 2 of a register of at most 32 bits, which is lost.
fn logarithm(asm: &mut Assembler, of: Reg, to: Reg) {
    for shift in [16, 8, 4, 2, 1] {
        let below = asm.label();
        asm.jump_if(Cond::Lt, of, 1 << shift, below);
        asm.alu(Alu::Shr, of, shift);
        asm.alu(Alu::Add, to, shift);
        asm.bind(below);
    }
}

/// Counts the latency in `R1` in the buckets at `R8`, as [`crate::layout::bucket_of`] does.
fn count_latency(asm: &mut Assembler, buckets: i16) {
    let (short, known, beyond) = (asm.label(), asm.label(), asm.label());
    asm.load_value(R3, (1 << HIGH_BITS) - 1);
    asm.jump_if_registers(Cond::Lt, R1, R3, short);
    asm.alu_register(Alu::Mov, R1, R3);
    asm.bind(short);
    asm.alu(Alu::Mov, R2, 0);
    asm.alu_register(Alu::Mov, R3, R1);
    asm.alu(Alu::Shr, R3, LOW_BITS as i32);
    asm.jump_if(Cond::Eq, R3, 0, known);
    logarithm(asm, R3, R2);
    asm.alu_register(Alu::Mov, R3, R2);
    asm.alu(Alu::Add, R3, (LOW_BITS - SUB_BITS) as i32);
    asm.alu_register(Alu::Shr, R1, R3);
    asm.alu(Alu::And, R1, (1 << SUB_BITS) - 1);
    asm.alu(Alu::Shl, R2, SUB_BITS as i32);
    asm.alu_register(Alu::Add, R2, R1);
    asm.alu(Alu::Add, R2, 1);
    asm.bind(known);
    asm.jump_if(Cond::Ge, R2, BUCKETS as i32, beyond);
    asm.alu(Alu::Shl, R2, 2);
    asm.alu_register(Alu::Add, R2, R8);
    asm.add(Width::Word, (R2, buckets), R9, R5);
    asm.bind(beyond);
}
