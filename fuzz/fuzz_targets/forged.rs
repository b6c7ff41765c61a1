//! Builds well-formed packets of any opcode, with a PSN near a given one, from the fuzzer's bytes.

use verbena_wire::aeth::{Aeth, Syndrome};
use verbena_wire::atomic::{AtomicAckEth, AtomicEth};
use verbena_wire::bth::Bth;
use verbena_wire::deth::Deth;
use verbena_wire::feth::{Feth, Placement, Selectivity};
use verbena_wire::immediate::{Ieth, Immediate};
use verbena_wire::opcode::{Header, Opcode, Payload, Service};
use verbena_wire::packet::{Extensions, Headers, Packet};
use verbena_wire::reth::Reth;
use verbena_wire::xrceth::Xrceth;
use verbena_wire::{PKey, Psn, QKey, Qpn, RKey, SrqNumber};

use crate::adapter::{BASE, KEY, SRQ, WINDOW};

/// FETH of every FLUSH packet.
pub const FETH: Feth = Feth {
    placement: Placement::Visible,
    selectivity: Selectivity::Range,
};
const LENGTHS: [u32; 8] = [0, 1, 8, 255, 256, 257, 700, 2000];

/// Source of choices, one per byte; zeros at the end of the input.
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    pub fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    pub fn length(&mut self) -> u32 {
        LENGTHS[usize::from(self.next()) % LENGTHS.len()]
    }

    pub fn address(&mut self) -> u64 {
        match self.next() % 8 {
            0 => u64::MAX - u64::from(self.next()),
            1 => BASE - 1,
            2 => BASE + u64::from(self.next()),
            _ => BASE + u64::from(self.next()) * 8,
        }
    }

    pub fn key(&mut self) -> RKey {
        match self.next() % 8 {
            0 => RKey(0),
            1 => WINDOW,
            _ => KEY,
        }
    }
}

/// Returns a packet of any opcode with a PSN near `near`; empty if the input selects none.
pub fn forged(choices: &mut Choices<'_>, service: Service, near: Psn) -> Vec<u8> {
    let code = service as u8 | (choices.next() % 32);
    let code = if choices.next().is_multiple_of(16) {
        choices.next()
    } else {
        code
    };
    let Some(opcode) = Opcode::from_code(code) else {
        return Vec::new();
    };
    let mut extensions = Extensions::NONE;
    for header in opcode.headers() {
        let (address, key) = (choices.address(), choices.key());
        match header {
            Header::Xrceth => {
                let srq = if choices.next().is_multiple_of(8) {
                    SrqNumber::new(1)
                } else {
                    SRQ
                };
                extensions.xrceth = Some(Xrceth { srq });
            }
            Header::Deth => {
                let queue_key = QKey(u32::from(choices.next() % 8));
                extensions.deth = Some(Deth {
                    queue_key,
                    source: Qpn::new(7),
                });
            }
            Header::Feth => extensions.feth = Some(FETH),
            Header::Reth => {
                let length = match choices.next() % 16 {
                    0 => u32::MAX,
                    _ => choices.length(),
                };
                extensions.reth = Some(Reth {
                    address,
                    key,
                    length,
                });
            }
            Header::AtomicEth => {
                extensions.atomic_eth = Some(AtomicEth {
                    address,
                    key,
                    swap_or_add: 1,
                    compare: 0,
                });
            }
            Header::Aeth => {
                let Some(syndrome) = Syndrome::from_bits(choices.next() & 0x7f) else {
                    return Vec::new();
                };
                extensions.aeth = Some(Aeth { syndrome, msn: 0 });
            }
            Header::AtomicAckEth => extensions.atomic_ack_eth = Some(AtomicAckEth { original: 9 }),
            Header::Immediate => extensions.immediate = Some(Immediate([3; 4])),
            Header::Ieth => extensions.ieth = Some(Ieth { key }),
        }
    }
    let mut bth = Bth::new(
        opcode,
        Qpn::new(1),
        near.plus((choices.next() as i8) as u32),
    );
    bth.ack_request = choices.next().is_multiple_of(2);
    if choices.next().is_multiple_of(64) {
        bth.partition_key = PKey(1);
    }
    let length = match opcode.operation().payload() {
        Payload::Message => choices.length(),
        Payload::Nothing => 0,
        Payload::Exactly(length) => length as u32,
    };
    let data = vec![0x5a; length as usize];
    let packet = Packet {
        headers: Headers { bth, extensions },
        payload: &data,
    };
    let mut bytes = vec![0; packet.length()];
    packet
        .emit(&mut bytes)
        .expect("headers are those of the opcode");
    bytes
}
