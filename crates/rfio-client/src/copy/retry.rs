//! Continues copies after lost connections.
//!
//! Requests are sent again over a new connection, after growing pauses. All operations of a copy on
//! names may be repeated; a file continues from its partial file, as with `--continue`. The time
//! without progress is bounded.
//!
//! Only losses are retried: the server cannot be reached, closes the connection, does not respond,
//! or announces that it is stopping. The server must have had a session with this copy before, so a
//! wrong name ends the copy at once, as do refusals.

use verbena_rfio_protocol::Status;

use super::failure::CopyError;
use super::progress::Progress;
use super::settings::{ConnectionStart, CopySettings, EarlierAttempt};
use crate::backoff::Backoff;
use crate::error::{Error, is_temporary};

/// A series of failures without progress in between.
#[derive(Debug, Default)]
pub struct FailureSeries {
    /// The backoff, and the count of finished bytes and files at the last failure.
    state: Option<(Backoff, u64)>,
}

impl FailureSeries {
    /// Waits after a failure.
    ///
    /// # Errors
    /// Returns the failure if it is not worth a retry, or if the time limit has passed.
    pub fn after(
        &mut self,
        error: CopyError,
        settings: &CopySettings,
        progress: &Progress,
    ) -> Result<(), CopyError> {
        match self.is_waited(&error, settings, progress) {
            true => Ok(()),
            false => Err(error),
        }
    }

    /// Waits after a failure; returns false if it is not worth a retry, or if the time limit has
    /// passed.
    fn is_waited(
        &mut self,
        error: &CopyError,
        settings: &CopySettings,
        progress: &Progress,
    ) -> bool {
        let done = progress.done();
        let is_again = self.state.is_some();
        // Progress since the last failure begins a new series.
        let state = self.state.take().filter(|&(_, before)| before == done);
        let is_new = state.is_none();
        if !is_worth_it(error, is_again, progress) {
            return false;
        }
        let mut backoff = state.map_or_else(Backoff::default, |(backoff, _)| backoff);
        if !backoff.has_time(settings.retry.timeout) {
            return false;
        }
        if is_new {
            (settings.retry.tell)(error);
        }
        backoff.wait(settings.retry.timeout);
        progress.count_retry();
        self.state = Some((backoff, done));
        true
    }
}

/// Returns whether another attempt may succeed.
fn is_worth_it(error: &CopyError, is_again: bool, progress: &Progress) -> bool {
    let has_reached = progress.has_reached(None);
    match &error.error {
        Error::Unreachable(address, _) => progress.has_reached(Some(address)),
        Error::Connection(_) | Error::Dropped(_) | Error::TimedOut => has_reached,
        // Caused by the server's queue pair, or its loss. If no queue pair ever worked, a retry
        // will not help.
        Error::Fabric(_) => has_reached && progress.has_gone_by_rdma(),
        Error::Refused(refusal) => match (refusal.status, refusal.status.as_errno()) {
            (Status::CONNECTION_DROPPED, _) => has_reached,
            (status, _) if is_temporary(status) => has_reached,
            (Status::COMMUNICATION, _) => has_reached && progress.has_gone_by_rdma(),
            // The server may not have noticed yet that the previous connection, which writes the
            // file, is lost.
            (_, Some(libc::EBUSY)) => is_again,
            _ => false,
        },
        _ => false,
    }
}

/// Repeats an idempotent operation until it succeeds or is not worth a retry.
///
/// # Errors
/// Returns the last error of `act`.
pub fn retry<T>(
    settings: &CopySettings,
    progress: &Progress,
    mut act: impl FnMut() -> Result<T, CopyError>,
) -> Result<T, CopyError> {
    let mut failures = FailureSeries::default();
    loop {
        match act() {
            Ok(done) => return Ok(done),
            Err(error) => failures.after(error, settings, progress)?,
        }
    }
}

/// Repeats an idempotent operation on a batch, each time with the elements that were lost; returns
/// the result of each. Any other result begins a new series of failures. After a loss one element
/// is tried alone, then twice as many each time, because the operations in flight when a connection
/// ends are lost.
///
/// # Errors
/// Returns the last error of `act` for a batch as a whole.
pub fn retry_batch<I: Clone, T>(
    settings: &CopySettings,
    progress: &Progress,
    things: &[I],
    mut act: impl FnMut(&[I]) -> Result<Vec<Result<T, CopyError>>, CopyError>,
) -> Result<Vec<Result<T, CopyError>>, CopyError> {
    let mut failures = FailureSeries::default();
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
                failures.after(loss, settings, progress)?;
                most = 1;
                left.extend(later);
                continue;
            }
        };
        assert_eq!(done.len(), some.len(), "each has an outcome");
        for (&index, outcome) in left.iter().zip(done) {
            outcomes[index] = Some(outcome);
        }
        let is_again = failures.state.is_some();
        left.retain(|&index| match &outcomes[index] {
            Some(Err(error)) => is_worth_it(error, is_again, progress),
            _ => false,
        });
        if left.len() < some.len() {
            failures = FailureSeries::default();
        }
        if let Some(Some(Err(loss))) = left.first().map(|&first| &outcomes[first]) {
            if !failures.is_waited(loss, settings, progress) {
                let lost = || CopyError {
                    subject: loss.subject.clone(),
                    error: loss.error.duplicate(),
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

/// Copies a file until that succeeds or is not worth a retry. `act` receives the settings of the
/// attempt and whether it is the first; data moved by an attempt is available to the next one.
///
/// # Errors
/// Returns the last error of `act`.
pub fn retry_file(
    settings: &CopySettings,
    progress: &Progress,
    mut act: impl FnMut(&CopySettings, bool) -> Result<(), CopyError>,
) -> Result<(), CopyError> {
    let mut failures = FailureSeries::default();
    let before = progress.report();
    let again = CopySettings {
        earlier: EarlierAttempt::Continue,
        start: ConnectionStart::Slow,
        ..settings.clone()
    };
    let mut moved = 0;
    loop {
        let is_first = failures.state.is_none() && moved == 0;
        let done = act(if is_first { settings } else { &again }, is_first);
        let now = progress.report();
        match done {
            Ok(()) => {
                // Data moved by earlier attempts of this copy does not count as found at its start.
                progress.subtract(0, (now.kept - before.kept).min(moved));
                return Ok(());
            }
            Err(error) => {
                failures.after(error, settings, progress)?;
                progress.subtract(now.expected - before.expected, now.kept - before.kept);
                moved = now.moved - before.moved;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::address::Address;

    fn settings(timeout: Duration) -> CopySettings {
        CopySettings::of_tests(1, timeout)
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
        let (settings, progress) = (settings(Duration::from_secs(60)), reached());
        let mut asked = Vec::new();
        let outcomes = retry_batch(&settings, &progress, &[1, 2, 3, 4], |some| {
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

    /// Each connection carries one result, and other operations in flight on it are lost.
    #[test]
    fn connections_that_carry_one_outcome_get_many_things_done() {
        let (settings, progress) = (settings(Duration::from_secs(60)), reached());
        let mut done = Vec::new();
        let outcomes = retry_batch(&settings, &progress, &[1, 2, 3, 4], |some| {
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
        let (settings, progress) = (settings(Duration::from_millis(50)), reached());
        let lose = |some: &[i32]| {
            let lost = some.iter().map(|_| Err(failed(Error::TimedOut)));
            Ok::<Vec<Result<(), _>>, _>(lost.collect())
        };
        let outcomes = retry_batch(&settings, &progress, &[1, 2, 3], lose).unwrap();
        assert!(outcomes.len() == 3 && outcomes.iter().all(Result::is_err));
    }

    #[test]
    fn many_things_that_stay_lost_are_errors_of_each() {
        let (settings, progress) = (settings(Duration::ZERO), reached());
        let lose = |some: &[i32]| {
            let lost = some.iter().map(|_| Err(failed(Error::TimedOut)));
            Ok::<Vec<Result<(), _>>, _>(lost.collect())
        };
        let outcomes = retry_batch(&settings, &progress, &[1, 2, 3], lose).unwrap();
        assert!(outcomes.len() == 3 && outcomes.iter().all(Result::is_err));
    }
}
