//! Running the futures of the seam on one thread.
//!
//! [`block_on`] is for fabrics whose futures are ready when polled (verbs): it is the loop and nothing else.
//! [`drive`] is for the in-process fabrics: it polls all processes in turn and lets the world move on when none of them
//! did anything.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// Runs one future to its end, polling it again and again.
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

/// Polls all tasks in the order given until each is done. After each round, `advance` moves the world on; it is told
/// whether any task finished in the round.
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
    results
        .into_iter()
        .map(|result| result.expect("loop ends when all are done"))
        .collect()
}

/// A future that is pending until `condition` gives a value.
pub async fn until<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    std::future::poll_fn(|_| condition().map_or(Poll::Pending, Poll::Ready)).await
}
