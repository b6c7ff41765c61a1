//! Executors for the futures of the fabric interface, on one thread.
//!
//! [`block_on`] is for fabrics whose futures are ready when polled (verbs): a bare loop. [`drive`]
//! is for the in-process fabrics: it polls all processes in turn and advances the simulation after
//! each round.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// Runs one future to completion by polling it repeatedly.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::hint::spin_loop();
    }
}

/// A process of an in-process job.
pub type Task<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Polls all tasks in the given order until each is done, calling `advance` after each round.
/// Returns the results in the order of tasks.
pub fn drive<T>(mut tasks: Vec<Task<'_, T>>, mut advance: impl FnMut()) -> Vec<T> {
    let mut results: Vec<Option<T>> = tasks.iter().map(|_| None).collect();
    let mut context = Context::from_waker(Waker::noop());
    while results.iter().any(Option::is_none) {
        for (task, result) in tasks.iter_mut().zip(&mut results) {
            if result.is_none()
                && let Poll::Ready(value) = task.as_mut().poll(&mut context)
            {
                *result = Some(value);
            }
        }
        advance();
    }
    results.into_iter().flatten().collect()
}

/// Returns the value of `condition` as soon as it has one; pending until then.
pub async fn until<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    std::future::poll_fn(|_| condition().map_or(Poll::Pending, Poll::Ready)).await
}
