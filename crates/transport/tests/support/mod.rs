//! An implementation of the transport's traits, a network that misbehaves by a seed, and a virtual
//! clock.

#![allow(dead_code)] // Each test program uses a part.

pub mod adapter;
pub mod network;
pub mod packets;
pub mod program;
pub mod random;
pub mod world;

use verbena_transport::reliable::{self, Reliable};
use verbena_transport::retry::{RetryCount, RnrRetry};
use verbena_wire::{AckTimeout, Mtu, PKey, Psn, Qpn, RnrTimer};

/// Returns a typical requester configuration.
pub fn requester(service: Reliable, mtu: Mtu, psn: Psn) -> reliable::requester::Configuration {
    reliable::requester::Configuration {
        service,
        destination: Qpn::new(0x22),
        partition_key: PKey::DEFAULT,
        mtu,
        initial_psn: psn,
        ack_timeout: AckTimeout::from_code(10).unwrap(),
        retry_count: RetryCount::new(7).unwrap(),
        rnr_retry: RnrRetry::Infinite,
        window: 128,
        acknowledge_every: 64,
    }
}

/// Returns the matching responder configuration.
pub fn responder(service: Reliable, mtu: Mtu, psn: Psn) -> reliable::responder::Configuration {
    reliable::responder::Configuration {
        service,
        destination: Qpn::new(0x11),
        partition_key: PKey::DEFAULT,
        mtu,
        initial_psn: psn,
        min_rnr_timer: RnrTimer::from_code(1).unwrap(),
        max_dest_rd_atomic: 4,
        early: 128,
    }
}
