//! Threads for blocking storage access, so that event loops never block; shared fairly among users.
//!
//! # Rules
//!
//! - The next task belongs to the user that has used the least worker time so far. The cost of a
//!   task is its measured time, not an estimate. A user that was idle starts at the level of the
//!   others: idleness earns no credit.
//! - All but one of the workers may be busy for one user. The last one is reserved for other users,
//!   so a user whose every task waits for a slow disk blocks no other.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

type Task = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct UserQueue {
    tasks: VecDeque<Task>,
    running: usize,
    /// Worker time used, counted from the others' level when this user arrived.
    spent: Duration,
}

#[derive(Default)]
struct Queue {
    users: HashMap<String, UserQueue>,
    /// Worker time used by the user whose turn was last.
    clock: Duration,
    /// Number of idle workers.
    asleep: usize,
    /// Whether a worker was woken and has not checked the queue yet: it wakes the next one if there
    /// is more to do.
    waking: bool,
    closed: bool,
}

impl Queue {
    /// Returns the next runnable task and its user.
    fn next(&mut self, most: usize) -> Option<(String, Task)> {
        let name = self
            .users
            .iter()
            .filter(|(_, user)| !user.tasks.is_empty() && user.running < most)
            .min_by_key(|(_, user)| user.spent)
            .map(|(name, _)| name.clone())?;
        let user = self.users.get_mut(&name)?;
        let task = user.tasks.pop_front()?;
        user.running += 1;
        self.clock = self.clock.max(user.spent);
        Some((name, task))
    }

    fn add(&mut self, name: &str, task: Task) {
        let clock = self.clock;
        let user = self
            .users
            .entry(name.to_owned())
            .or_insert_with(|| UserQueue {
                spent: clock,
                ..UserQueue::default()
            });
        user.tasks.push_back(task);
    }

    fn done(&mut self, name: &str, took: Duration) {
        if let Some(user) = self.users.get_mut(name) {
            user.running -= 1;
            user.spent += took;
            if user.running == 0 && user.tasks.is_empty() {
                self.users.remove(name);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.users.values().all(|user| user.tasks.is_empty())
    }

    /// Returns whether a worker has to be woken and none is being woken, and marks one as woken. A
    /// wake-up costs more than most tasks, so tasks that arrive together cause one.
    fn is_to_wake(&mut self) -> bool {
        let wakes = !self.waking && self.asleep > 0 && !self.is_empty();
        self.waking |= wakes;
        wakes
    }
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Number of workers that may be busy for one user.
    most_per_user: usize,
}

/// The workers.
pub struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `count` threads for each user, and one more.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(count: usize) -> std::io::Result<Self> {
        let most_per_user = count.max(1);
        let shared = Arc::new(Shared {
            most_per_user,
            ..Shared::default()
        });
        let threads = (0..=most_per_user)
            .map(|number| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("rfio-work-{number}"))
                    .spawn(move || shared.work())
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { shared, threads })
    }

    /// Hands a user's task to the workers. A session has at most 64 requests in progress, so the
    /// queue is bounded by the number of sessions.
    pub fn run(&self, user: &str, task: impl FnOnce() + Send + 'static) {
        let mut queue = self.shared.lock();
        queue.add(user, Box::new(task));
        self.shared.wake_one(queue);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Releases the queue and wakes a worker if there is a task for one more.
    fn wake_one(&self, mut queue: MutexGuard<'_, Queue>) {
        let wakes = queue.is_to_wake();
        drop(queue);
        if wakes {
            self.changed.notify_one();
        }
    }

    fn work(&self) {
        let mut queue = self.lock();
        loop {
            let Some((user, task)) = queue.next(self.most_per_user) else {
                if queue.closed && queue.is_empty() {
                    return;
                }
                queue.asleep += 1;
                queue = self
                    .changed
                    .wait(queue)
                    .unwrap_or_else(|poison| poison.into_inner());
                queue.asleep -= 1;
                queue.waking = false;
                continue;
            };
            self.wake_one(queue);
            let begun = Instant::now();
            task();
            queue = self.lock();
            queue.done(&user, begun.elapsed());
            // A task that was held back by this user's limit can run now, on this worker or on the
            // one that it wakes. Workers that may not end before the last task has begun check
            // again.
            if queue.closed {
                self.changed.notify_all();
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn nothing() -> Task {
        Box::new(|| {})
    }

    #[test]
    fn the_user_with_least_time_is_next_without_saved_credit() {
        let mut queue = Queue::default();
        for _ in 0..4 {
            queue.add("hog", nothing());
        }
        for _ in 0..3 {
            let (user, _) = queue.next(8).unwrap();
            assert_eq!(user, "hog");
            queue.done("hog", Duration::from_secs(10));
        }
        queue.add("light", nothing());
        queue.add("light", nothing());
        let order: Vec<String> = (0..3)
            .map(|_| {
                let (user, _) = queue.next(8).unwrap();
                queue.done(&user, Duration::from_millis(1));
                user
            })
            .collect();
        assert_eq!(order, ["light", "light", "hog"]);
        assert!(queue.users.is_empty() && queue.next(8).is_none());
        // A user that was idle for long has no credit: its turns alternate with those of the busy
        // one.
        queue.add("late", nothing());
        assert!(queue.users["late"].spent >= Duration::from_secs(20));
    }

    /// When the pool closes, a worker may find only tasks that the user's limit holds back. It must
    /// not sleep forever.
    #[test]
    fn workers_end_when_the_last_task_of_a_capped_user_ends() {
        let (done, finished) = channel();
        std::thread::spawn(move || {
            let ran = Arc::new(Mutex::new(0));
            let workers = Workers::start(1).unwrap();
            for _ in 0..20 {
                let ran = Arc::clone(&ran);
                workers.run("hog", move || {
                    std::thread::sleep(Duration::from_millis(5));
                    *ran.lock().unwrap() += 1;
                });
            }
            drop(workers);
            let ran = *ran.lock().unwrap();
            done.send(ran).unwrap();
        });
        let ran = finished.recv_timeout(Duration::from_secs(20));
        assert_eq!(ran.expect("the workers end"), 20);
    }

    #[test]
    fn one_worker_is_reserved_for_other_users() {
        let workers = Workers::start(2).unwrap();
        let (release, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for _ in 0..5 {
            let gate = Arc::clone(&gate);
            // As on a disk that does not respond.
            workers.run("hog", move || {
                let _ = gate.lock().unwrap().recv();
            });
        }
        let (done, finished) = channel();
        workers.run("light", move || done.send(()).unwrap());
        finished
            .recv_timeout(Duration::from_secs(20))
            .expect("the other user's task runs while all of the hog's wait");
        drop(release);
    }
}
