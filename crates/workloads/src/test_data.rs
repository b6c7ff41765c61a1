//! Recognizable data: written before an untimed pass, verified after it (rule 18).

use crate::agreement::{Outcome, agree};
use crate::context::Context;
use crate::wiring::{LinkKind, Wired};
use verbena_fabric::*;

/// Verified bytes of a message: all up to this size; of larger ones, the first and last half of
/// this.
const VERIFIED: usize = 1 << 20;
/// Header space before a datagram, in bytes.
pub const DATAGRAM_HEADER: usize = 40;

/// Returns the byte at `index` of the pattern of `seed`; neighbouring seeds and shifted data
/// differ.
fn byte(seed: u64, index: usize) -> u8 {
    let x = (index as u64).wrapping_add(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    (x.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 56) as u8
}

/// Fills `length` bytes of a region with the pattern of `seed`.
///
/// # Errors
///
/// The range exceeds the region.
pub fn fill<R: Region>(region: &R, offset: usize, length: usize, seed: u64) -> Result<()> {
    let bytes: Vec<u8> = (0..length).map(|i| byte(seed, i)).collect();
    region.write(offset, &bytes)
}

/// Compares a region's bytes with the pattern of `seed`.
///
/// # Errors
///
/// A byte differs, or the range exceeds the region.
pub fn verify<R: Region>(region: &R, offset: usize, length: usize, seed: u64) -> Result<()> {
    let check = |from: usize, count: usize| {
        let mut found = vec![0; count];
        region.read(offset + from, &mut found)?;
        let wrong = found
            .iter()
            .enumerate()
            .find(|(i, b)| **b != byte(seed, from + i));
        wrong.map_or(Ok(()), |(i, found)| {
            let expected = byte(seed, from + i);
            let reason = format!(
                "byte {} of {length} is {found:#04x}, expected {expected:#04x}: wrong data arrived",
                from + i
            );
            Err(Error::adapter("verification", reason))
        })
    };
    if length <= VERIFIED {
        return check(0, length);
    }
    check(0, VERIFIED / 2)?;
    check(length - VERIFIED / 2, VERIFIED / 2)
}

/// The operation of the checking pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    Write,
    WriteImmediate,
    Read,
    Send,
}

/// Sends pattern data once over `link` in both directions and verifies it: this process's data is
/// at offset 0, the peer's arrives at `arrival` (with header space before datagrams). Every process
/// of the job calls it; those without a link only vote.
pub async fn checking_pass<F: Fabric>(
    context: &Context<'_, F>,
    wired: &Wired<F>,
    link: Option<usize>,
    checked: Checked,
    size: usize,
    arrival: usize,
    placement: Placement,
) -> Outcome<()> {
    let seed = |rank: usize| context.options.seed ^ (rank as u64 + 1) ^ ((size as u64) << 20);
    let header = if wired.setup.kind == LinkKind::Ud {
        DATAGRAM_HEADER
    } else {
        0
    };
    if let Some(link) = link {
        fill(&wired.region, 0, size, seed(context.rank()))?;
        // Differs from the byte that will arrive.
        let last = byte(seed(wired.links[link].peer), size - 1);
        wired.region.store_byte(arrival + header + size - 1, !last);
        if matches!(checked, Checked::Send | Checked::WriteImmediate) {
            wired
                .post_receives(link, (arrival, size + header), 1)
                .await?;
        }
    }
    agree(context, &[]).await?;
    if let Some(link) = link {
        let peer = wired.links[link].peer;
        let to = wired.remotes[peer].at(arrival);
        let (operation, local) = match checked {
            Checked::Write => (Operation::Write { to }, 0),
            Checked::WriteImmediate => (
                Operation::WriteImmediate {
                    to,
                    immediate: 0x5EED,
                },
                0,
            ),
            Checked::Send => (Operation::Send, 0),
            Checked::Read => (
                Operation::Read {
                    from: wired.remotes[peer].at(0),
                },
                arrival,
            ),
        };
        wired
            .post(link, operation, (local, size), Signal::Signalled, placement)
            .await?;
        wired.sends.done(wired.setup.wait).await?;
        if matches!(checked, Checked::Send | Checked::WriteImmediate) {
            wired.receives.done(wired.setup.wait).await?;
        }
        // Without acknowledgement, a completed message has been sent but may not have arrived.
        if wired.setup.kind == LinkKind::Uc && checked == Checked::Write {
            let last = byte(seed(peer), size - 1);
            wired.region.until_byte(arrival + size - 1, last).await?;
        }
    }
    agree(context, &[]).await?;
    if let Some(link) = link {
        verify(
            &wired.region,
            arrival + header,
            size,
            seed(wired.links[link].peer),
        )?;
    }
    agree(context, &[]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_seeds_and_shifts_differ() {
        let run = |seed, from: usize| (from..from + 64).map(|i| byte(seed, i)).collect::<Vec<_>>();
        assert_ne!(run(1, 0), run(2, 0));
        assert_ne!(run(1, 0), run(1, 1));
        assert!(run(3, 0).iter().any(|&b| b != run(3, 0)[0]));
    }
}
