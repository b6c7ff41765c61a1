//! Sends a message back and forth between two queue pairs of this process:
//!
//! ```text
//! verbena run -- target/debug/examples/ping_pong
//! ```

mod loopback;

use std::error::Error;
use std::time::Instant;
use verbena_verbs::{AccessFlags, Opcode, Scratch, SendFlags, SendTarget};

const ROUNDS: u32 = 1_000;
const MESSAGE: &[u8] = b"ping-pong";

fn main() -> Result<(), Box<dyn Error>> {
    let [mut from, mut to] = loopback::sides(MESSAGE.len(), AccessFlags::LOCAL)?;
    let mut scratch = Scratch::new();
    from.region.write(0, MESSAGE)?;
    let start = Instant::now();
    for round in 0..ROUNDS {
        // A receive must be posted before the message arrives.
        let id = u64::from(round);
        to.pair
            .post_receive_one(id, to.region.segment(0, MESSAGE.len())?)?;
        from.pair.post_one(
            &mut scratch,
            (id, Opcode::Send, SendFlags::SIGNALED),
            from.region.segment(0, MESSAGE.len())?,
            SendTarget::Connected,
        )?;
        let received = to.completion()?;
        assert_eq!((received.id, received.length), (id, MESSAGE.len() as u32));
        // The buffer may be reused after the completion of the send.
        assert_eq!(from.completion()?.id, id);
        std::mem::swap(&mut from, &mut to);
    }
    let mut message = [0; MESSAGE.len()];
    from.region.read(0, &mut message)?;
    assert_eq!(message, MESSAGE);
    let nanoseconds = start.elapsed().as_nanos() / u128::from(ROUNDS);
    println!(
        "{ROUNDS} messages of {} bytes, {nanoseconds} ns each",
        MESSAGE.len()
    );
    Ok(())
}
