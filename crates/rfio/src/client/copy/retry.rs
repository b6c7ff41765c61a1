//! Going on after a lost connection.
//!
//! What was asked for is asked for again over a new connection, after pauses that grow. All that a
//! copy does by name may be done twice; a file goes on where its partial file is, as with
//! `--continue`. Time without any progress is bounded.
//!
//! Only losses are tried again: a server that cannot be reached, ends the connection, is silent, or
//! says that it is about to stop; and only of servers that this copy has had a session with, so a
//! name that is wrong ends it at once, as do refusals.

use std::time::{Duration, Instant};

use verbena_rfio_protocol::Status;

use super::failure::CopyError;
use super::progress::Progress;
use super::{Earlier, Manner};
use crate::auth::proof::random;
use crate::client::error::Error;

/// The first pause, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Whether and how long a copy tries again.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// How long without progress; zero is not at all.
    pub patience: Duration,
    /// Called with a loss that is tried again.
    pub tell: fn(&CopyError),
}

/// A time in which nothing succeeds.
#[derive(Debug, Default)]
pub struct Trouble {
    /// Its start, the next pause, and the bytes and files that were done at the last failure.
    state: Option<(Instant, Duration, u64)>,
}

impl Trouble {
    /// Waits after a failure; gives it back if it is not worth trying again, or has been tried for
    /// too long.
    pub fn after(
        &mut self,
        error: CopyError,
        manner: &Manner,
        progress: &Progress,
    ) -> Result<(), CopyError> {
        match self.is_waited(&error, manner, progress) {
            true => Ok(()),
            false => Err(error),
        }
    }

    /// Waits after a failure, unless it is not worth trying again, or has been tried for too long.
    fn is_waited(&mut self, error: &CopyError, manner: &Manner, progress: &Progress) -> bool {
        let done = progress.done();
        let is_again = self.state.is_some();
        // What succeeded in between ends the trouble, and this is another one.
        let state = self.state.take().filter(|&(_, _, before)| before == done);
        let is_new = state.is_none();
        if !is_worth_it(error, is_again, progress) {
            return false;
        }
        let (since, pause, _) = state.unwrap_or((Instant::now(), PAUSES.0, done));
        let left = manner.retry.patience.saturating_sub(since.elapsed());
        if left.is_zero() {
            return false;
        }
        if is_new {
            (manner.retry.tell)(error);
        }
        // Many clients of one server do not all come back at once.
        let [share] = random::<1>();
        let part = pause.mul_f64(0.5 + f64::from(share) / 512.0);
        std::thread::sleep(part.min(left));
        progress.tried_again();
        self.state = Some((since, (2 * pause).min(PAUSES.1), done));
        true
    }
}

/// Whether a refusal is temporary: the server is busy (EAGAIN), or it stops (ESHUTDOWN) and may be
/// replaced by another one.
pub fn is_later(status: Status) -> bool {
    matches!(
        status.as_errno(),
        Some(libc::EAGAIN) | Some(libc::ESHUTDOWN)
    )
}

/// Whether another attempt may succeed where this one failed.
fn is_worth_it(error: &CopyError, is_again: bool, progress: &Progress) -> bool {
    let has_reached = progress.has_reached(None);
    match &error.error {
        Error::Unreachable(address, _) => progress.has_reached(Some(address)),
        Error::Connection(_) | Error::Dropped(_) | Error::TimedOut => has_reached,
        // With the server's end of a queue pair, or because of it; where none was ever made, none
        // will be.
        Error::Fabric(_) => has_reached && progress.has_gone_by_rdma(),
        Error::Refused(refusal) => match (refusal.status, refusal.status.as_errno()) {
            (Status::CONNECTION_DROPPED, _) => has_reached,
            (status, _) if is_later(status) => has_reached,
            (Status::COMMUNICATION, _) => has_reached && progress.has_gone_by_rdma(),
            // The server may not know yet that the lost connection, which writes the file, is lost.
            (_, Some(libc::EBUSY)) => is_again,
            _ => false,
        },
        _ => false,
    }
}

/// Does something that may be done twice until it succeeds, or is not worth trying again.
pub fn persist<T>(
    manner: &Manner,
    progress: &Progress,
    mut act: impl FnMut() -> Result<T, CopyError>,
) -> Result<T, CopyError> {
    let mut trouble = Trouble::default();
    loop {
        match act() {
            Ok(done) => return Ok(done),
            Err(error) => trouble.after(error, manner, progress)?,
        }
    }
}

/// The same with many things together, and again with those that were lost: what came of each. Any
/// other outcome ends the trouble. Fails if nothing can be done to any of them.
pub fn persist_with_each<I: Clone, T>(
    manner: &Manner,
    progress: &Progress,
    things: &[I],
    mut act: impl FnMut(&[I]) -> Result<Vec<Result<T, CopyError>>, CopyError>,
) -> Result<Vec<Result<T, CopyError>>, CopyError> {
    let mut trouble = Trouble::default();
    let mut outcomes: Vec<_> = things.iter().map(|_| None).collect();
    let mut left: Vec<usize> = (0..things.len()).collect();
    while !left.is_empty() {
        let some: Vec<I> = left.iter().map(|&index| things[index].clone()).collect();
        let done = match act(&some) {
            Ok(done) => done,
            Err(loss) => {
                trouble.after(loss, manner, progress)?;
                continue;
            }
        };
        assert_eq!(done.len(), some.len(), "each has an outcome");
        for (&index, outcome) in left.iter().zip(done) {
            outcomes[index] = Some(outcome);
        }
        let is_again = trouble.state.is_some();
        let mut again = left.clone();
        again.retain(|&index| match &outcomes[index] {
            Some(Err(error)) => is_worth_it(error, is_again, progress),
            _ => false,
        });
        if again.len() < left.len() {
            trouble = Trouble::default();
        }
        left = again;
        if let Some(Some(Err(loss))) = left.first().map(|&first| &outcomes[first])
            && !trouble.is_waited(loss, manner, progress)
        {
            break;
        }
    }
    Ok(outcomes.into_iter().flatten().collect())
}

/// Copies a file until that succeeds, or is not worth trying again. `act` gets the manner of the
/// attempt, and whether it is the first; what an attempt has moved is there for the next one.
pub fn persist_with_file(
    manner: &Manner,
    progress: &Progress,
    mut act: impl FnMut(&Manner, bool) -> Result<(), CopyError>,
) -> Result<(), CopyError> {
    let mut trouble = Trouble::default();
    let before = progress.report();
    let again = Manner {
        earlier: Earlier::Continue,
        ..manner.clone()
    };
    let mut moved = 0;
    loop {
        let is_first = trouble.state.is_none() && moved == 0;
        let done = act(if is_first { manner } else { &again }, is_first);
        let now = progress.report();
        match done {
            Ok(()) => {
                // What earlier attempts moved is no news of before the copy.
                progress.take_back(0, (now.kept - before.kept).min(moved));
                return Ok(());
            }
            Err(error) => {
                trouble.after(error, manner, progress)?;
                progress.take_back(now.expected - before.expected, now.kept - before.kept);
                moved = now.moved - before.moved;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::choice::{Choice, Existing};
    use super::super::{Extras, Stable, Verification};
    use super::*;
    use crate::client::address::Address;
    use crate::client::options::Options;
    use std::sync::Arc;

    fn manner(patience: Duration) -> Manner {
        Manner {
            options: Options::plain("nobody"),
            sessions: Arc::default(),
            earlier: Earlier::Discard,
            verification: Verification::Blocks,
            parallel: 1,
            most: None,
            stable: Stable::Later,
            extras: Extras::None,
            existing: Existing::Replace,
            choice: Choice::of(Vec::new()),
            pace: None,
            retry: Retry {
                patience,
                tell: |_| {},
            },
        }
    }

    fn failed(error: Error) -> CopyError {
        CopyError {
            subject: String::new(),
            error,
        }
    }

    fn reached() -> Progress {
        let progress = Progress::default();
        progress.reached(&Address::Host("127.0.0.1".into(), 1));
        progress
    }

    #[test]
    fn of_many_things_only_those_that_were_lost_are_done_again() {
        let (manner, progress) = (manner(Duration::from_secs(60)), reached());
        let mut asked = Vec::new();
        let outcomes = persist_with_each(&manner, &progress, &[1, 2, 3, 4], |some| {
            asked.push(some.to_vec());
            if asked.len() == 2 {
                return Err(failed(Error::TimedOut));
            }
            let outcome = |&number: &i32| match number {
                2 => Err(failed(Error::Changed)),
                3.. if asked.len() == 1 => Err(failed(Error::Dropped("earlier"))),
                _ => Ok(number),
            };
            Ok(some.iter().map(outcome).collect())
        });
        let outcomes = outcomes.unwrap();
        assert_eq!(asked, [vec![1, 2, 3, 4], vec![3, 4], vec![3, 4]]);
        assert!(matches!(&outcomes[..], [Ok(1), Err(error), Ok(3), Ok(4)]
            if matches!(error.error, Error::Changed)));
    }

    #[test]
    fn many_things_that_stay_lost_are_errors_of_each() {
        let (manner, progress) = (manner(Duration::ZERO), reached());
        let lose = |some: &[i32]| {
            let lost = some.iter().map(|_| Err(failed(Error::TimedOut)));
            Ok::<Vec<Result<(), _>>, _>(lost.collect())
        };
        let outcomes = persist_with_each(&manner, &progress, &[1, 2, 3], lose).unwrap();
        assert!(outcomes.len() == 3 && outcomes.iter().all(Result::is_err));
    }
}
