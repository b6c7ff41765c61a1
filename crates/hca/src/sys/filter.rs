//! Programs that the kernel runs over datagrams: classic BPF (packet(7)), as far as choosing a socket needs it.

/// An instruction of a program that the kernel runs over a datagram's data, with one register. A jump passes over so many
/// of the instructions that follow it. What loads beyond the data's end ends the program with 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Loads 32 bits in network order, from there on.
    LoadWord(u32),
    /// Loads 16.
    LoadHalf(u32),
    /// Leaves these bits.
    And(u32),
    /// Shifts to the right.
    ShiftRight(u32),
    /// Jumps if this is in the register.
    IfEqual(u32, u8),
    /// Jumps.
    Goto(u32),
    /// Ends with what is in the register.
    GiveLoaded,
    /// Ends with this.
    Give(u32),
}

impl Instruction {
    /// As the kernel has it.
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
