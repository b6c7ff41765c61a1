//! Writes into a peer's registered buffer, and reads the data back; no request of the peer is
//! involved:
//!
//! ```text
//! verbena run -- target/debug/examples/write_read
//! ```

mod loopback;

use std::error::Error;
use verbena_verbs::{AccessFlags, Opcode, Scratch, SendFlags, SendTarget};

const TEXT: &[u8] = b"one-sided";
/// Offset of the local buffer's second half, into which the data are read.
const BACK: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let access = AccessFlags::LOCAL.remote_write().remote_read();
    let [local, peer] = loopback::sides(2 * BACK, access)?;
    let mut scratch = Scratch::new();
    local.region.write(0, TEXT)?;

    // The peer has told its address and remote key.
    let (address, key) = (peer.region.address(), peer.region.remote_key());
    let requests = [
        (Opcode::Write(address, key), 0),
        (Opcode::Read(address, key), BACK),
    ];
    for (id, (opcode, offset)) in (0..).zip(requests) {
        local.pair.post_one(
            &mut scratch,
            (id, opcode, SendFlags::SIGNALED),
            local.region.segment(offset, TEXT.len())?,
            SendTarget::Connected,
        )?;
        assert_eq!(local.completion()?.id, id);
    }

    for (region, offset) in [(&peer.region, 0), (&local.region, BACK)] {
        let mut bytes = [0; TEXT.len()];
        region.read(offset, &mut bytes)?;
        assert_eq!(bytes, TEXT);
    }
    println!("{} bytes written and read", TEXT.len());
    Ok(())
}
