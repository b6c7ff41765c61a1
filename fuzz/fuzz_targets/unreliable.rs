//! Fuzzes the UC and UD responders in any state with forged packets: nothing panics, no memory
//! outside the granted range is accessed, and no receive is lost or completed twice.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/transport/tests/support/adapter.rs"]
mod adapter;
#[allow(dead_code)]
mod forged;

use adapter::Adapter;
use forged::{Choices, forged};
use libfuzzer_sys::fuzz_target;
use verbena_transport::unreliable::{
    ConnectedConfiguration, ConnectedResponder, DatagramConfiguration, DatagramResponder,
    ReceiveQueue,
};
use verbena_wire::opcode::Service;
use verbena_wire::packet::Packet;
use verbena_wire::{Mtu, PKey, Psn, QKey};

const PSN: Psn = Psn::new(0x00ff_fff8);

fuzz_target!(|input: &[u8]| {
    let mut choices = Choices(input);
    let receive_queue = if choices.next() % 2 == 0 {
        ReceiveQueue::Own
    } else {
        ReceiveQueue::Shared
    };
    let mut connected = ConnectedResponder::new(ConnectedConfiguration {
        partition_key: PKey::DEFAULT,
        mtu: Mtu::B256,
        initial_psn: PSN,
        receive_queue,
    });
    let mut datagram = DatagramResponder::new(DatagramConfiguration {
        partition_key: PKey::DEFAULT,
        queue_key: QKey(1),
        mtu: Mtu::B1024,
    });
    let mut adapters = [Adapter::new(4096), Adapter::new(0)];
    let mut receives = [0; 2];
    let mut psn = PSN;
    while !choices.0.is_empty() {
        let which = usize::from(choices.next() % 2);
        let adapter = &mut adapters[which];
        match choices.next() % 8 {
            0 => {
                adapter.post_receive(receives[which], choices.length());
                receives[which] += 1;
            }
            1 => {
                let _ = adapter.protected.insert(u64::from(choices.next()));
            }
            _ => {
                let service = if which == 0 { Service::Uc } else { Service::Ud };
                let bytes = forged(&mut choices, service, psn);
                let Ok(packet) = Packet::parse(&bytes) else {
                    continue;
                };
                // Mostly in order, since otherwise no message would ever complete.
                let mut packet = packet;
                if choices.next() % 4 != 0 {
                    packet.headers.bth.psn = psn;
                }
                psn = packet.headers.bth.psn.next();
                let _ = match which {
                    0 => connected.handle(&packet, adapter),
                    _ => datagram.handle(&packet, &[0; 40], adapter),
                };
            }
        }
        let taken = receives[which] as usize - adapter.receives.len();
        let ended = adapter.received.len();
        assert!(
            ended <= taken && taken <= ended + 1,
            "{taken} receives taken, {ended} ended"
        );
        assert!(
            adapter
                .received
                .windows(2)
                .all(|pair| pair[0].id < pair[1].id)
        );
    }
    connected.flush(&mut adapters[0]);
    datagram.flush(&mut adapters[1]);
    for (adapter, receives) in adapters.iter().zip(receives) {
        assert_eq!(
            adapter.received.len() + adapter.receives.len(),
            receives as usize
        );
    }
});
