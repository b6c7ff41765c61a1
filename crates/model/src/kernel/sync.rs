//! Synchronisation between tasks: permits, messages, changes. All are first come, first served.

use super::calendar::TaskId;
use super::executor::Sim;
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

struct MessageQueue<T> {
    sim: Sim,
    letters: RefCell<Short<T>>,
    waiting: RefCell<Short<TaskId>>,
}

/// A queue that is empty or of one element most of the time: the first needs no memory of its queue.
struct Short<T> {
    first: Option<T>,
    /// Empty if there is no first.
    others: VecDeque<T>,
}

impl<T> Short<T> {
    const fn new() -> Short<T> {
        Short {
            first: None,
            others: VecDeque::new(),
        }
    }

    fn push(&mut self, element: T) {
        match self.first {
            None => self.first = Some(element),
            Some(_) => self.others.push_back(element),
        }
    }

    fn pop(&mut self) -> Option<T> {
        let first = self.first.take();
        if first.is_some() && !self.others.is_empty() {
            self.first = self.others.pop_front();
        }
        first
    }

    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }
}

/// An unbounded queue of messages.
pub struct Mailbox<T>(Rc<MessageQueue<T>>);

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Mailbox(self.0.clone())
    }
}

impl<T> Mailbox<T> {
    /// Creates an empty mailbox.
    pub fn new(sim: &Sim) -> Mailbox<T> {
        Mailbox(Rc::new(MessageQueue {
            sim: sim.clone(),
            letters: RefCell::new(Short::new()),
            waiting: RefCell::new(Short::new()),
        }))
    }

    /// Adds a message.
    pub fn send(&self, letter: T) {
        self.0.letters.borrow_mut().push(letter);
        if let Some(task) = self.0.waiting.borrow_mut().pop() {
            self.0.sim.wake(task);
        }
    }

    /// Takes the oldest message, if there is one.
    pub fn try_receive(&self) -> Option<T> {
        self.0.letters.borrow_mut().pop()
    }

    /// Waits for a message.
    pub async fn receive(&self) -> T {
        poll_fn(|_| match self.0.letters.borrow_mut().pop() {
            Some(letter) => Poll::Ready(letter),
            None => {
                let task = self.0.sim.current();
                let mut waiting = self.0.waiting.borrow_mut();
                if waiting.first != Some(task) && !waiting.others.contains(&task) {
                    waiting.push(task);
                }
                Poll::Pending
            }
        })
        .await
    }

    /// Returns the number of queued messages.
    pub fn len(&self) -> usize {
        self.0.letters.borrow().len()
    }

    /// Returns whether no message is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
            let task = self.0.sim.current();
            let mut waiting = self.0.waiting.borrow_mut();
            if !waiting.contains(&task) {
                waiting.push(task);
            }
            Poll::Pending
        })
        .await;
    }
}

/// Lets tasks pass in the order of their numbers: 0, 1, 2 and so on. A gate belongs to one partition
/// of the simulation.
pub struct Gate {
    sim: Sim,
    next: Cell<u64>,
    /// When the next may pass.
    from: Cell<Time>,
    waiting: RefCell<Vec<(u64, TaskId)>>,
}

impl Gate {
    /// Creates a gate that opens for number 0 first.
    pub fn new(sim: &Sim) -> Gate {
        Gate {
            sim: sim.clone(),
            next: Cell::new(0),
            from: Cell::new(Time::ZERO),
            waiting: RefCell::new(Vec::new()),
        }
    }

    /// Returns whether all lower numbers have passed.
    pub fn is_open(&self, number: u64) -> bool {
        self.next.get() == number && self.from.get() <= self.sim.now()
    }

    /// Waits until all lower numbers have passed.
    pub async fn enter(&self, number: u64) {
        if self.next.get() != number {
            self.waiting.borrow_mut().push((number, self.sim.current()));
            poll_fn(|_| match self.is_open(number) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
        }
        self.sim.sleep_until(self.from.get()).await;
    }

    /// Admits the next number.
    pub fn pass(&self) {
        self.pass_at(self.sim.now());
    }

    /// Admits the next number at `instant`, which must not be in the past.
    pub fn pass_at(&self, instant: Time) {
        let next = self.next.get() + 1;
        self.next.set(next);
        self.from.set(instant);
        let mut waiting = self.waiting.borrow_mut();
        if let Some(place) = waiting.iter().position(|&(number, _)| number == next) {
            let (_, task) = waiting.swap_remove(place);
            self.sim.wake_in(self.sim.place(), instant, task);
        }
    }
}

/// Counts operations in progress; one task waits until there are none.
pub struct Latch {
    sim: Sim,
    left: Cell<usize>,
    waiting: Cell<Option<TaskId>>,
}

impl Latch {
    /// Creates a latch with no operation in progress.
    pub fn new(sim: &Sim) -> Latch {
        Latch {
            sim: sim.clone(),
            left: Cell::new(0),
            waiting: Cell::new(None),
        }
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

    /// Starts a task that first runs when no operation is in progress: cheaper than one that begins
    /// with a wait. No other task may wait.
    pub fn start_then(&self, task: impl Future<Output = ()> + 'static) {
        match self.left.get() {
            0 => self.sim.start(task),
            _ => self.waiting.set(Some(self.sim.hold(task))),
        }
    }

    /// Waits until no operation is in progress.
    pub async fn wait(&self) {
        poll_fn(|_| match self.left.get() {
            0 => Poll::Ready(()),
            _ => {
                self.waiting.set(Some(self.sim.current()));
                Poll::Pending
            }
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
    fn a_mailbox_keeps_message_order() {
        let sim = Sim::new();
        let mailbox = Mailbox::new(&sim);
        let (own, sender) = (sim.clone(), mailbox.clone());
        sim.start(async move {
            for n in 0..4 {
                own.sleep(Time(5)).await;
                sender.send(n);
            }
        });
        let got = sim.block_on(async move {
            let mut got = Vec::new();
            for _ in 0..4 {
                got.push(mailbox.receive().await);
            }
            got
        });
        assert_eq!(got, Ok(vec![0, 1, 2, 3]));
    }
}
