//! The rate and the MTU that InfiniBand ports within a host report, and their codes.

use std::sync::atomic::{AtomicU8, Ordering};
use verbena_abi::IBV_MTU_4096;
use verbena_fabric_protocol::rate::Rate;

/// `active_width` and `active_speed` of the ports. There is no wire, but some programs use the
/// rate: UCX copies messages into its own buffers where that seems no slower than the wire. With
/// EDR reported it copied up to 256 KiB, at 4 GB/s where the adapter moves 15 (Open MPI's bandwidth
/// with 64 KiB). Between two processes large writes run at 20 to 45 GB/s: HDR is the next lower
/// rate that all of these programs know.
static WIDTH: AtomicU8 = AtomicU8::new(2);
static SPEED: AtomicU8 = AtomicU8::new(64);
static MTU: AtomicU8 = AtomicU8::new(IBV_MTU_4096 as u8);

/// Sets the codes of rate and MTU to those of another adapter (`verbena run --as`), before a device
/// is opened.
pub fn stand_for(speed: u8, width: u8, mtu: u8) {
    SPEED.store(speed, Ordering::Relaxed);
    WIDTH.store(width, Ordering::Relaxed);
    MTU.store(mtu, Ordering::Relaxed);
}

/// Returns the rate.
pub(crate) fn rate() -> Rate {
    Rate {
        speed: SPEED.load(Ordering::Relaxed).into(),
        width: WIDTH.load(Ordering::Relaxed),
    }
}

/// Returns the code of the MTU.
#[inline]
pub(crate) fn mtu() -> u8 {
    MTU.load(Ordering::Relaxed)
}
