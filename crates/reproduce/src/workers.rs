//! Distributes independent computations over threads and returns their results in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use verbena_model::threads::{limit_threads, register};

/// Computes `compute(0)` to `compute(count - 1)` on `threads` threads, of which those that are free
/// help with large models. The result does not depend on their number.
///
/// # Panics
///
/// If a computation panics.
pub fn in_order<T: Send>(
    threads: usize,
    count: usize,
    compute: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    limit_threads(threads);
    let workers = threads.clamp(1, count.max(1));
    let mut busy: Vec<_> = (0..workers).map(|_| register()).collect();
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<T>>> = (0..count).map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for busy in busy.drain(..) {
            let (next, results, compute) = (&next, &results, &compute);
            scope.spawn(move || {
                let _busy = busy;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = results.get(number) else {
                        return;
                    };
                    let result = compute(number);
                    *cell.lock().expect("no computation panicked") = Some(result);
                }
            });
        }
    });
    results
        .into_iter()
        .map(|cell| {
            cell.into_inner()
                .expect("no computation panicked")
                .expect("each was taken")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::in_order;

    #[test]
    fn results_are_in_order_for_any_number_of_threads() {
        for threads in [0, 1, 3, 100] {
            assert_eq!(in_order(threads, 5, |n| n * n), [0, 1, 4, 9, 16]);
        }
        assert!(in_order(2, 0, |n| n).is_empty());
    }
}
