//! Synchronisation between tasks: permits, changes, ends. All are first come, first served.

use super::executor::Sim;
use super::records::TaskId;
use super::time::Time;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

struct Permits {
    sim: Sim,
    size: usize,
    free: Cell<usize>,
    next_ticket: Cell<u64>,
    /// Waiters that precede all others, and the other waiters.
    urgent: RefCell<VecDeque<(u64, TaskId)>>,
    waiting: RefCell<VecDeque<(u64, TaskId)>>,
    /// Tickets that have been granted but not yet collected.
    granted: RefCell<Vec<u64>>,
}

/// A number of permits, granted in the order of requests.
#[derive(Clone)]
pub struct Semaphore(Rc<Permits>);

/// A permit; released when dropped.
pub struct Permit(Rc<Permits>);

impl Semaphore {
    /// Creates a semaphore with `permits` permits.
    pub fn new(sim: &Sim, permits: usize) -> Semaphore {
        Semaphore(Rc::new(Permits {
            sim: sim.clone(),
            size: permits,
            free: Cell::new(permits),
            next_ticket: Cell::new(0),
            urgent: RefCell::new(VecDeque::new()),
            waiting: RefCell::new(VecDeque::new()),
            granted: RefCell::new(Vec::new()),
        }))
    }

    /// Waits for a permit.
    pub async fn acquire(&self) -> Permit {
        self.acquire_in(&self.0.waiting).await
    }

    /// Waits for a permit, ahead of all waiters of [`Semaphore::acquire`].
    pub async fn acquire_first(&self) -> Permit {
        self.acquire_in(&self.0.urgent).await
    }

    async fn acquire_in(&self, queue: &RefCell<VecDeque<(u64, TaskId)>>) -> Permit {
        let inner = &self.0;
        if inner.free.get() > 0 {
            inner.free.set(inner.free.get() - 1);
            return Permit(inner.clone());
        }
        let ticket = inner.next_ticket.get();
        inner.next_ticket.set(ticket + 1);
        queue.borrow_mut().push_back((ticket, inner.sim.current()));
        poll_fn(|_| {
            let mut granted = inner.granted.borrow_mut();
            match granted.iter().position(|&g| g == ticket) {
                Some(place) => {
                    granted.swap_remove(place);
                    Poll::Ready(())
                }
                None => Poll::Pending,
            }
        })
        .await;
        Permit(inner.clone())
    }

    /// Returns the total number of permits.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Returns the number of free permits.
    pub fn free(&self) -> usize {
        self.0.free.get()
    }

    /// Returns the number of tasks that wait for a permit.
    pub fn queue(&self) -> usize {
        self.0.urgent.borrow().len() + self.0.waiting.borrow().len()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let inner = &self.0;
        // The permit passes directly to the longest waiter, so that no task overtakes it.
        let urgent = inner.urgent.borrow_mut().pop_front();
        match urgent.or_else(|| inner.waiting.borrow_mut().pop_front()) {
            Some((ticket, task)) => {
                inner.granted.borrow_mut().push(ticket);
                inner.sim.wake(task);
            }
            None => inner.free.set(inner.free.get() + 1),
        }
    }
}

struct Watched {
    sim: Sim,
    version: Cell<u64>,
    waiting: RefCell<Vec<TaskId>>,
}

/// A change notification: waiting tasks re-check their condition after each change.
#[derive(Clone)]
pub struct Watch(Rc<Watched>);

impl Watch {
    /// Creates one without changes.
    pub fn new(sim: &Sim) -> Watch {
        Watch(Rc::new(Watched {
            sim: sim.clone(),
            version: Cell::new(0),
            waiting: RefCell::new(Vec::new()),
        }))
    }

    /// Signals a change.
    pub fn changed(&self) {
        self.0.version.set(self.0.version.get() + 1);
        for task in self.0.waiting.borrow_mut().drain(..) {
            self.0.sim.wake(task);
        }
    }

    /// Returns the number of changes so far.
    pub fn version(&self) -> u64 {
        self.0.version.get()
    }

    /// Waits until `condition` holds; checks at once and after every change.
    pub async fn until(&self, mut condition: impl FnMut() -> bool) {
        poll_fn(|_| {
            if condition() {
                return Poll::Ready(());
            }
            self.notify_current();
            Poll::Pending
        })
        .await;
    }

    /// Wakes the current task at the next change.
    pub(crate) fn notify_current(&self) {
        let task = self.0.sim.current();
        let mut waiting = self.0.waiting.borrow_mut();
        if !waiting.contains(&task) {
            waiting.push(task);
        }
    }
}

/// Counts operations in progress; one task waits until there are none.
pub struct Latch {
    sim: Sim,
    left: Cell<usize>,
    /// End of the last operation, if it was given in advance.
    over: Cell<Time>,
    waiting: Cell<Option<TaskId>>,
}

impl Latch {
    /// Creates a latch with no operation in progress.
    pub fn new(sim: &Sim) -> Latch {
        Latch {
            sim: sim.clone(),
            left: Cell::new(0),
            over: Cell::new(Time::ZERO),
            waiting: Cell::new(None),
        }
    }

    fn is_over(&self) -> bool {
        self.left.get() == 0 && self.over.get() <= self.sim.now()
    }

    /// Counts the start of an operation.
    pub fn begin(&self) {
        self.left.set(self.left.get() + 1);
    }

    /// Counts the end of an operation.
    pub fn end(&self) {
        let left = self.left.get() - 1;
        self.left.set(left);
        if left == 0
            && let Some(task) = self.waiting.take()
        {
            self.sim.wake(task);
        }
    }

    /// Counts the end, at `instant`, of the only operation in progress, if a task waits for it: the
    /// task's event at that instant then needs no other before it. Returns whether it did.
    pub(crate) fn end_last_at(&self, instant: Time) -> bool {
        if self.left.get() != 1 {
            return false;
        }
        let waiting = self.waiting.take();
        if let Some(task) = waiting {
            self.left.set(0);
            self.over.set(instant);
            self.sim.wake_in(self.sim.place(), instant, task);
        }
        waiting.is_some()
    }

    /// Starts a task that first runs when no operation is in progress: cheaper than one that begins
    /// with a wait. No other task may wait.
    pub fn start_then(&self, task: impl Future<Output = ()> + 'static) {
        match self.left.get() {
            0 => self.sim.start(task),
            _ => self.waiting.set(Some(self.sim.hold(task))),
        }
    }

    /// Returns whether no operation is in progress; if there are some, wakes `task` at their end.
    /// No other task may wait.
    pub(crate) fn is_over_or_wakes(&self, task: TaskId) -> bool {
        if self.left.get() > 0 {
            self.waiting.set(Some(task));
        }
        self.is_over()
    }

    /// Waits until no operation is in progress.
    pub async fn wait(&self) {
        poll_fn(|_| match self.is_over_or_wakes(self.sim.current()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

/// A reusable rendezvous of a fixed number of tasks.
#[derive(Clone)]
pub struct Barrier {
    watch: Watch,
    size: usize,
    arrived: Rc<Cell<usize>>,
    round: Rc<Cell<u64>>,
}

impl Barrier {
    /// Creates a barrier for `size` tasks.
    pub fn new(sim: &Sim, size: usize) -> Barrier {
        Barrier {
            watch: Watch::new(sim),
            size,
            arrived: Rc::new(Cell::new(0)),
            round: Rc::new(Cell::new(0)),
        }
    }

    /// Waits until all tasks have arrived; takes no virtual time.
    pub async fn wait(&self) {
        let round = self.round.get();
        self.arrived.set(self.arrived.get() + 1);
        if self.arrived.get() == self.size {
            self.arrived.set(0);
            self.round.set(round + 1);
            self.watch.changed();
        } else {
            self.watch.until(|| self.round.get() != round).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::time::Time;
    use super::*;

    #[test]
    fn permits_are_granted_in_request_order() {
        let sim = Sim::new();
        let semaphore = Semaphore::new(&sim, 2);
        let log = Rc::new(RefCell::new(Vec::new()));
        for name in 0..6u64 {
            let (own, semaphore, log) = (sim.clone(), semaphore.clone(), log.clone());
            sim.start(async move {
                let permit = semaphore.acquire().await;
                log.borrow_mut().push((name, own.now()));
                own.sleep(Time(10)).await;
                drop(permit);
            });
        }
        sim.run();
        let expected: Vec<_> = (0..6).map(|n| (n, Time(10 * (n / 2)))).collect();
        assert_eq!(*log.borrow(), expected);
    }

    #[test]
    fn a_barrier_releases_all_tasks_with_the_last() {
        let sim = Sim::new();
        let barrier = Barrier::new(&sim, 3);
        let passed = Rc::new(RefCell::new(Vec::new()));
        for name in 1..=3 {
            let (own, barrier, passed) = (sim.clone(), barrier.clone(), passed.clone());
            sim.start(async move {
                for _ in 0..2 {
                    own.sleep(Time(name * 100)).await;
                    barrier.wait().await;
                    passed.borrow_mut().push(own.now());
                }
            });
        }
        sim.run();
        let passed = passed.borrow();
        assert_eq!(passed[..3], [Time(300); 3]);
        assert_eq!(passed[3..], [Time(600); 3]);
    }

    #[test]
    fn an_end_given_in_advance_wakes_the_waiting_task_then() {
        let sim = Sim::new();
        let (latch, ended) = (Rc::new(Latch::new(&sim)), Rc::new(Cell::new(Time::ZERO)));
        latch.begin();
        assert!(!latch.end_last_at(Time(50)), "no task waits");
        let waiting = Rc::new(Cell::new(TaskId::default()));
        let (own, waits) = (sim.clone(), latch.clone());
        let (at, task) = (ended.clone(), waiting.clone());
        sim.start(async move {
            task.set(own.current());
            waits.wait().await;
            at.set(own.now());
        });
        let (own, ends) = (sim.clone(), latch.clone());
        sim.start_at(Time(20), async move {
            ends.begin();
            assert!(
                !ends.end_last_at(Time(50)),
                "another operation is in progress"
            );
            ends.end();
            assert!(ends.end_last_at(Time(50)));
            // An event that the task does not wait for does not end its wait.
            own.wake_in(own.place(), Time(30), waiting.get());
        });
        sim.run();
        assert_eq!((ended.get(), sim.events()), (Time(50), 4));
    }

    #[test]
    fn a_task_that_follows_a_latch_runs_once_at_its_end() {
        let sim = Sim::new();
        let (latch, ran) = (Rc::new(Latch::new(&sim)), Rc::new(Cell::new(Time::ZERO)));
        (0..3).for_each(|_| latch.begin());
        let (own, at) = (sim.clone(), ran.clone());
        latch.start_then(async move { at.set(own.now()) });
        for ends in [30, 70, 50] {
            let (own, latch) = (sim.clone(), latch.clone());
            sim.start_at(Time(ends), async move {
                latch.end();
                assert!(own.now() <= Time(70));
            });
        }
        sim.run();
        assert_eq!((ran.get(), sim.events()), (Time(70), 4));
    }
}
