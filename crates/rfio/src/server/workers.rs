//! Threads that may wait for storage, so that event loops do not.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

type Task = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// The workers.
pub struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `count` threads.
    pub fn start(count: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let threads = (0..count.max(1))
            .map(|number| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("rfio-work-{number}"))
                    .spawn(move || shared.work())
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { shared, threads })
    }

    /// Hands a task to the next free thread. The queue holds at most one task per session, so it is bounded by them.
    pub fn run(&self, task: impl FnOnce() + Send + 'static) {
        let mut queue = self
            .shared
            .queue
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        queue.tasks.push_back(Box::new(task));
        drop(queue);
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn work(&self) {
        loop {
            let mut queue = self
                .queue
                .lock()
                .unwrap_or_else(|poison| poison.into_inner());
            let task = loop {
                if let Some(task) = queue.tasks.pop_front() {
                    break task;
                }
                if queue.closed {
                    return;
                }
                queue = self
                    .changed
                    .wait(queue)
                    .unwrap_or_else(|poison| poison.into_inner());
            };
            drop(queue);
            task();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared
            .queue
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
            .closed = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} workers", self.threads.len())
    }
}
