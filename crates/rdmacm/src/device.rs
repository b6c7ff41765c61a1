//! Properties of devices that the connection manager reports.

use verbena_abi::{IBV_RATE_100_GBPS, IBV_RATE_200_GBPS};
use verbena_hca_net::device;

/// The library's "no index": it then finds the device by its GUID.
pub const NO_INDEX: u32 = u32::MAX;

/// Returns the rate of a port's paths (`enum ibv_rate`).
pub fn rate(port: u8) -> u8 {
    match device::rate(port).units() {
        2000.. => IBV_RATE_200_GBPS as u8,
        _ => IBV_RATE_100_GBPS as u8,
    }
}

/// 4.096 us * 2^14 = 67 ms: long for a path within a host, short enough to notice a dead peer
/// within a second.
pub const PACKET_LIFE_TIME: u8 = 14;
/// The queue pair's timeout: one more than the packet life time, as a packet travels both ways.
pub const ACK_TIMEOUT: u8 = PACKET_LIFE_TIME + 1;

/// Duration of a time wait, in nanoseconds: twice the packet life time (12.9.8.4), in the
/// architecture's unit of 4.096 us; so 134 ms. The queue pair's number is reused later than that
/// ([`verbena_hca::process::numbers::REST`]).
pub const TIME_WAIT: u64 = 4096 << (PACKET_LIFE_TIME + 1);
const _: () = assert!(TIME_WAIT < verbena_hca::process::numbers::REST);
