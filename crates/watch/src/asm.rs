//! Instructions of BPF (Linux, Documentation/bpf/standardization/instruction-set.rst), with labels.

use std::collections::HashMap;

/// A register: [`R0`] is a result, [`R1`] to [`R5`] are arguments and lost by a call, [`R6`] to
/// [`R9`] are kept, [`FP`] is the end of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reg(u8);

/// The result of a call, and of the program.
pub const R0: Reg = Reg(0);
/// First argument; the context at the start.
pub const R1: Reg = Reg(1);
/// Second argument.
pub const R2: Reg = Reg(2);
/// Third argument.
pub const R3: Reg = Reg(3);
/// Fourth argument.
pub const R4: Reg = Reg(4);
/// Fifth argument.
pub const R5: Reg = Reg(5);
/// Kept across calls.
pub const R6: Reg = Reg(6);
/// Kept across calls.
pub const R7: Reg = Reg(7);
/// Kept across calls.
pub const R8: Reg = Reg(8);
/// Kept across calls.
pub const R9: Reg = Reg(9);
/// The end of the stack, which grows down from it.
pub const FP: Reg = Reg(10);

/// Width of a load or store.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub enum Width {
    /// 4 bytes.
    Word = 0x00,
    /// 1 byte.
    Byte = 0x10,
    /// 8 bytes.
    Double = 0x18,
}

/// An arithmetic operation on 64 bits.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub enum Alu {
    /// Addition.
    Add = 0x00,
    /// Subtraction.
    Sub = 0x10,
    /// Multiplication.
    Mul = 0x20,
    /// Bitwise or.
    Or = 0x40,
    /// Bitwise and.
    And = 0x50,
    /// Shift left.
    Shl = 0x60,
    /// Shift right, filling with zeros.
    Shr = 0x70,
    /// Copy.
    Mov = 0xb0,
}

/// A condition of a jump; comparisons are unsigned unless they say otherwise.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub enum Cond {
    /// Equal.
    Eq = 0x10,
    /// Greater or equal.
    Ge = 0x30,
    /// Not equal.
    Ne = 0x50,
    /// Greater or equal, with signs.
    SignedGe = 0x70,
    /// Less.
    Lt = 0xa0,
}

/// A function of the kernel, by its number in `include/uapi/linux/bpf.h`.
#[derive(Debug, Clone, Copy)]
#[repr(i32)]
pub enum Helper {
    /// `bpf_map_lookup_elem`.
    MapLookup = 1,
    /// `bpf_map_update_elem`.
    MapUpdate = 2,
    /// `bpf_map_delete_elem`.
    MapDelete = 3,
    /// `bpf_ktime_get_ns`.
    NowNs = 5,
    /// `bpf_get_current_pid_tgid`.
    CurrentPid = 14,
    /// `bpf_get_current_comm`.
    CurrentCommand = 16,
    /// `bpf_ringbuf_output`.
    RingOutput = 130,
}

/// A jump target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label(u32);

/// One encoded instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    code: u8,
    registers: u8,
    offset_bytes: i16,
    immediate: i32,
}

const LOAD: u8 = 0x61;
const STORE: u8 = 0x63;
const STORE_IMMEDIATE: u8 = 0x62;
const ATOMIC: u8 = 0xc3;
const COMPARE_EXCHANGE: i32 = 0xf1;
const ALU64: u8 = 0x07;
const JUMP: u8 = 0x05;
const FROM_REGISTER: u8 = 0x08;
const LOAD_IMMEDIATE_64: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const PSEUDO_MAP_FD: Reg = Reg(1);

/// A program under construction.
#[derive(Debug, Default)]
pub struct Assembler {
    instructions: Vec<Instruction>,
    labels: u32,
    targets: HashMap<Label, usize>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn push(&mut self, code: u8, to: Reg, from: Reg, offset_bytes: i16, immediate: i32) {
        let registers = from.0 << 4 | to.0;
        self.instructions.push(Instruction { code, registers, offset_bytes, immediate });
    }

    /// Returns a label that is not bound yet.
    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }

    /// Binds a label to the next instruction.
    pub fn bind(&mut self, label: Label) {
        self.targets.insert(label, self.instructions.len());
    }

    /// `to = *(from + offset_bytes)`, with zeros above.
    pub fn load(&mut self, width: Width, to: Reg, from: Reg, offset_bytes: i16) {
        self.push(LOAD | width as u8, to, from, offset_bytes, 0);
    }

    /// `*(to + offset_bytes) = from`.
    pub fn store(&mut self, width: Width, to: Reg, offset_bytes: i16, from: Reg) {
        self.push(STORE | width as u8, to, from, offset_bytes, 0);
    }

    /// `*(to + offset_bytes) = value`.
    pub fn store_value(&mut self, width: Width, to: Reg, offset_bytes: i16, value: i32) {
        self.push(STORE_IMMEDIATE | width as u8, to, R0, offset_bytes, value);
    }

    /// Adds a register to `*(to + offset_bytes)`, atomically.
    pub fn atomic_add(&mut self, width: Width, to: Reg, offset_bytes: i16, from: Reg) {
        self.push(ATOMIC | width as u8, to, from, offset_bytes, 0);
    }

    /// Adds a register to `*(to + offset_bytes)` through another one, not atomically.
    pub fn add(&mut self, width: Width, (to, offset_bytes): (Reg, i16), from: Reg, through: Reg) {
        self.load(width, through, to, offset_bytes);
        self.alu_register(Alu::Add, through, from);
        self.store(width, to, offset_bytes, through);
    }

    /// Stores a register at `*(to + offset_bytes)` if `R0` is there, atomically (Linux 5.12);
    /// `R0` is the previous value.
    pub fn compare_exchange(&mut self, to: Reg, offset_bytes: i16, from: Reg) {
        self.push(ATOMIC | Width::Double as u8, to, from, offset_bytes, COMPARE_EXCHANGE);
    }

    /// `to = to <operation> value`.
    pub fn alu(&mut self, operation: Alu, to: Reg, value: i32) {
        self.push(ALU64 | operation as u8, to, R0, 0, value);
    }

    /// `to = to <operation> from`.
    pub fn alu_register(&mut self, operation: Alu, to: Reg, from: Reg) {
        self.push(ALU64 | FROM_REGISTER | operation as u8, to, from, 0, 0);
    }

    /// `to = to - from`, and 0 if that is negative.
    pub fn subtract_to_zero(&mut self, to: Reg, from: Reg) {
        let positive = self.label();
        self.alu_register(Alu::Sub, to, from);
        self.jump_if(Cond::SignedGe, to, 0, positive);
        self.alu(Alu::Mov, to, 0);
        self.bind(positive);
    }

    /// `to = base + offset`: an address.
    pub fn address(&mut self, to: Reg, base: Reg, offset_bytes: i16) {
        self.alu_register(Alu::Mov, to, base);
        self.alu(Alu::Add, to, i32::from(offset_bytes));
    }

    /// Jumps where a register fulfils a condition; the value is extended by its sign.
    pub fn jump_if(&mut self, condition: Cond, left: Reg, right: i32, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(JUMP | condition as u8, left, R0, 0, right);
    }

    /// Jumps where two registers fulfil a condition.
    pub fn jump_if_registers(&mut self, condition: Cond, left: Reg, right: Reg, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(JUMP | FROM_REGISTER | condition as u8, left, right, 0, 0);
    }

    /// Jumps.
    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(JUMP, R0, R0, 0, 0);
    }

    /// `to = ` a map, by its descriptor.
    pub fn load_map(&mut self, to: Reg, map_fd: i32) {
        self.push(LOAD_IMMEDIATE_64, to, PSEUDO_MAP_FD, 0, map_fd);
        self.push(0, R0, R0, 0, 0);
    }

    /// `to = value`, of 64 bits.
    pub fn load_value(&mut self, to: Reg, value: u64) {
        self.push(LOAD_IMMEDIATE_64, to, R0, 0, value as i32);
        self.push(0, R0, R0, 0, (value >> 32) as i32);
    }

    /// Calls a function of the kernel.
    pub fn call(&mut self, helper: Helper) {
        self.push(CALL, R0, R0, 0, helper as i32);
    }

    /// Ends the program with result 0.
    pub fn exit(&mut self) {
        self.alu(Alu::Mov, R0, 0);
        self.push(EXIT, R0, R0, 0, 0);
    }

    /// Returns the program; jumps to labels that were never bound go to its start, which the
    /// verifier rejects.
    pub fn finish(mut self) -> Vec<Instruction> {
        for (from, label) in self.jumps {
            let to = self.targets.get(&label).copied().unwrap_or_default();
            self.instructions[from].offset_bytes = (to as i64 - from as i64 - 1) as i16;
        }
        self.instructions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(program: &[Instruction]) -> Vec<[u8; 8]> {
        program
            .iter()
            .map(|each| {
                let offset = each.offset_bytes.to_le_bytes();
                let value = each.immediate.to_le_bytes();
                [
                    each.code,
                    each.registers,
                    offset[0],
                    offset[1],
                    value[0],
                    value[1],
                    value[2],
                    value[3],
                ]
            })
            .collect()
    }

    /// As `llvm-mc -triple bpfel` encodes them.
    #[test]
    fn instructions_are_encoded_as_the_kernel_reads_them() {
        let mut asm = Assembler::default();
        let end = asm.label();
        asm.load(Width::Double, R2, R6, 16); // r2 = *(u64 *)(r6 + 16)
        asm.store(Width::Word, FP, -8, R1); // *(u32 *)(r10 - 8) = r1
        asm.jump_if(Cond::Eq, R0, 0, end); // if r0 == 0 goto +2
        asm.alu(Alu::Add, R3, 1); // r3 += 1
        asm.call(Helper::NowNs); // call 5
        asm.bind(end);
        asm.exit();
        assert_eq!(
            bytes(&asm.finish()),
            [
                [0x79, 0x62, 16, 0, 0, 0, 0, 0],
                [0x63, 0x1a, 0xf8, 0xff, 0, 0, 0, 0],
                [0x15, 0x00, 2, 0, 0, 0, 0, 0],
                [0x07, 0x03, 0, 0, 1, 0, 0, 0],
                [0x85, 0x00, 0, 0, 5, 0, 0, 0],
                [0xb7, 0x00, 0, 0, 0, 0, 0, 0],
                [0x95, 0x00, 0, 0, 0, 0, 0, 0],
            ]
        );
    }

    /// As `llvm-mc -triple bpfel` encodes them.
    #[test]
    fn a_negative_difference_is_none() {
        let mut asm = Assembler::default();
        asm.subtract_to_zero(R1, R2);
        assert_eq!(
            bytes(&asm.finish()),
            [
                [0x1f, 0x21, 0, 0, 0, 0, 0, 0], // r1 -= r2
                [0x75, 0x01, 1, 0, 0, 0, 0, 0], // if r1 s>= 0 goto +1
                [0xb7, 0x01, 0, 0, 0, 0, 0, 0], // r1 = 0
            ]
        );
    }

    #[test]
    fn a_map_takes_two_instructions() {
        let mut asm = Assembler::default();
        asm.load_map(R1, 7);
        assert_eq!(bytes(&asm.finish())[0], [0x18, 0x11, 0, 0, 7, 0, 0, 0]);
    }
}
