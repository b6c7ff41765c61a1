//! Programs that the kernel runs over datagrams: classic BPF (packet(7)), as far as choosing a
//! socket needs it.

/// An instruction of a program that the kernel runs over a datagram's data, with one register. A
/// jump skips so many of the following instructions. A load beyond the data's end ends the program
/// with 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Loads 32 bits in network order from this offset.
    LoadWord(u32),
    /// Loads 16 bits in network order from this offset.
    LoadHalf(u32),
    /// Masks the register with these bits.
    And(u32),
    /// Shifts the register to the right.
    ShiftRight(u32),
    /// Jumps if the register has this value.
    IfEqual(u32, u8),
    /// Jumps.
    Goto(u32),
    /// Returns the register.
    GiveLoaded,
    /// Returns this value.
    Give(u32),
}

impl Instruction {
    /// Returns the instruction in the kernel's form.
    pub(super) fn of_the_kernel(&self) -> libc::sock_filter {
        use libc::{BPF_A, BPF_ABS, BPF_ALU, BPF_AND, BPF_H, BPF_JA, BPF_JEQ, BPF_JMP, BPF_K};
        use libc::{BPF_LD, BPF_RET, BPF_RSH, BPF_W};
        let (code, k, jt) = match *self {
            Instruction::LoadWord(at) => (BPF_LD | BPF_W | BPF_ABS, at, 0),
            Instruction::LoadHalf(at) => (BPF_LD | BPF_H | BPF_ABS, at, 0),
            Instruction::And(bits) => (BPF_ALU | BPF_AND | BPF_K, bits, 0),
            Instruction::ShiftRight(bits) => (BPF_ALU | BPF_RSH | BPF_K, bits, 0),
            Instruction::IfEqual(value, over) => (BPF_JMP | BPF_JEQ | BPF_K, value, over),
            Instruction::Goto(over) => (BPF_JMP | BPF_JA, over, 0),
            Instruction::GiveLoaded => (BPF_RET | BPF_A, 0, 0),
            Instruction::Give(value) => (BPF_RET | BPF_K, value, 0),
        };
        libc::sock_filter {
            code: code as u16,
            jt,
            jf: 0,
            k,
        }
    }
}
