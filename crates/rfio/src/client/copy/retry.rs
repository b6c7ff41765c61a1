//! Going on after a lost connection.
//!
//! What was asked for is asked for again over a new connection, after pauses that grow. All that a
//! copy does by name may be done twice; a file goes on where its partial file is, as with
//! `--continue`. Time without any progress is bounded.
//!
//! Only losses are tried again: a server that cannot be reached, ends the connection, is silent, or
//! says that it is about to stop; and only of servers that this copy has had a session with, so a
//! name that is wrong ends it at once, as do refusals.

use std::time::Duration;

use verbena_rfio_protocol::Status;

use super::failure::CopyError;
use super::progress::Progress;
use super::{Earlier, Manner, Start};
use crate::client::backoff::Backoff;
use crate::client::error::{Error, is_later};

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
    /// Its pauses, and the bytes and files that were done at the last failure.
    state: Option<(Backoff, u64)>,
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
        let state = self.state.take().filter(|&(_, before)| before == done);
        let is_new = state.is_none();
        if !is_worth_it(error, is_again, progress) {
            return false;
        }
        let mut backoff = state.map_or_else(Backoff::default, |(backoff, _)| backoff);
        if !backoff.has_time(manner.retry.patience) {
            return false;
        }
        if is_new {
            (manner.retry.tell)(error);
        }
        backoff.wait(manner.retry.patience);
        progress.tried_again();
        self.state = Some((backoff, done));
        true
    }
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
/// other outcome ends the trouble. Fails if nothing can be done to any of them. After a loss one
/// is done alone, then twice as many at a time: what is under way at the end of a connection counts
/// for nothing.
pub fn persist_with_each<I: Clone, T>(
    manner: &Manner,
    progress: &Progress,
    things: &[I],
    mut act: impl FnMut(&[I]) -> Result<Vec<Result<T, CopyError>>, CopyError>,
) -> Result<Vec<Result<T, CopyError>>, CopyError> {
    let mut trouble = Trouble::default();
    let mut outcomes: Vec<_> = things.iter().map(|_| None).collect();
    let mut left: Vec<usize> = (0..things.len()).collect();
    let mut most = usize::MAX;
    while !left.is_empty() {
        let later = left.split_off(most.min(left.len()));
        let some: Vec<I> = left.iter().map(|&index| things[index].clone()).collect();
        most = most.saturating_mul(2);
        let done = match act(&some) {
            Ok(done) => done,
            Err(loss) => {
                trouble.after(loss, manner, progress)?;
                most = 1;
                left.extend(later);
                continue;
            }
        };
        assert_eq!(done.len(), some.len(), "each has an outcome");
        for (&index, outcome) in left.iter().zip(done) {
            outcomes[index] = Some(outcome);
        }
        let is_again = trouble.state.is_some();
        left.retain(|&index| match &outcomes[index] {
            Some(Err(error)) => is_worth_it(error, is_again, progress),
            _ => false,
        });
        if left.len() < some.len() {
            trouble = Trouble::default();
        }
        if let Some(Some(Err(loss))) = left.first().map(|&first| &outcomes[first]) {
            if !trouble.is_waited(loss, manner, progress) {
                let lost = || CopyError {
                    subject: loss.subject.clone(),
                    error: loss.error.again(),
                };
                let untried: Vec<_> = later.iter().map(|&index| (index, lost())).collect();
                for (index, lost) in untried {
                    outcomes[index].get_or_insert(Err(lost));
                }
                break;
            }
            most = 1;
        }
        left.extend(later);
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
        start: Start::Slow,
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
    use super::super::{Extras, Lanes, Stable, Verification};
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
            lanes: Lanes::Exactly(1),
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
            start: Start::Full,
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
        assert_eq!(asked, [vec![1, 2, 3, 4], vec![3], vec![3], vec![4]]);
        assert!(matches!(&outcomes[..], [Ok(1), Err(error), Ok(3), Ok(4)]
            if matches!(error.error, Error::Changed)));
    }

    /// Each connection carries one outcome, and what else is under way with it is lost.
    #[test]
    fn connections_that_carry_one_outcome_get_many_things_done() {
        let (manner, progress) = (manner(Duration::from_secs(60)), reached());
        let mut done = Vec::new();
        let outcomes = persist_with_each(&manner, &progress, &[1, 2, 3, 4], |some| {
            if some.len() > 1 {
                let lost = || failed(Error::Dropped("without an answer"));
                return Ok(some.iter().map(|_| Err(lost())).collect());
            }
            done.extend_from_slice(some);
            Ok(vec![Ok(some[0])])
        });
        let outcomes: Vec<i32> = outcomes
            .unwrap()
            .into_iter()
            .map(|one| one.unwrap())
            .collect();
        assert_eq!((done, outcomes), (vec![1, 2, 3, 4], vec![1, 2, 3, 4]));
    }

    #[test]
    fn things_that_were_not_tried_have_an_outcome() {
        let (manner, progress) = (manner(Duration::from_millis(50)), reached());
        let lose = |some: &[i32]| {
            let lost = some.iter().map(|_| Err(failed(Error::TimedOut)));
            Ok::<Vec<Result<(), _>>, _>(lost.collect())
        };
        let outcomes = persist_with_each(&manner, &progress, &[1, 2, 3], lose).unwrap();
        assert!(outcomes.len() == 3 && outcomes.iter().all(Result::is_err));
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
