//! The executor: tasks, the calendar of sleeping tasks, and virtual time.
//!
//! Contract: among events of one instant the one scheduled first runs first; a woken task runs
//! before any later calendar event of the same instant; time never goes backwards within a
//! partition. A simulation has one partition, or several that affect each other only through
//! travelling tasks, at least a lookahead later; they must not share state in any other way. A task
//! may be polled spuriously, so every future of this kernel re-checks its condition. Wakers are not
//! used: the kernel knows which task it polls, and the awaited object stores that number. A future
//! of this kernel works only inside a task of its [`Sim`].

use super::activity_pool::{Activity, ActivityPool};
use super::calendar::{Calendar, PartitionNumber};
use super::prefetch;
use super::records::{Machine, MachineNumber, RecordId, Slab, TaskId};
use super::time::Time;
use super::trace::Trace;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

thread_local! {
    /// Events of finished simulations.
    static ENDED: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of events of the simulations that have ended on this thread, for speed
/// measurements.
pub fn events_of_this_thread() -> u64 {
    ENDED.get()
}

/// Adds events of simulations that have ended on another thread for this one.
pub(crate) fn add_events(events: u64) {
    ENDED.set(ENDED.get() + events);
}

/// Events of all simulations of this process, counted in portions.
static EVENTS: AtomicU64 = AtomicU64::new(0);
/// Events of a portion: a power of two.
const PORTION: u64 = 1 << 16;

/// Returns the number of events so far of all simulations of this process, rounded down to portions
/// of each: for a display of progress.
pub fn events_so_far() -> u64 {
    EVENTS.load(Ordering::Relaxed)
}

/// Tasks from which on the kernel prefetches: fewer stay in the caches.
const FETCHED_FROM: usize = 4096;

type Task = Pin<Box<dyn Activity>>;

/// A task that is a future.
struct Asleep {
    /// `None` while it runs.
    task: Option<Task>,
    /// Its partition: where it started, or has travelled to. An event of another one is stale.
    waits_in: PartitionNumber,
}

struct Inner {
    now: Cell<Time>,
    /// The latest time of any partition.
    latest: Cell<Time>,
    events: Cell<u64>,
    current: Cell<TaskId>,
    place: Cell<PartitionNumber>,
    /// Whether there are partitions besides 0.
    several: bool,
    calendar: RefCell<Calendar>,
    /// Tasks that run next: the first of them, and the others.
    ready: Cell<Option<TaskId>>,
    others_ready: RefCell<VecDeque<TaskId>>,
    tasks: RefCell<Slab<Asleep>>,
    pool: ActivityPool,
    /// The machines of the tasks that are records.
    machines: [OnceCell<Rc<dyn Machine>>; MachineNumber::MOST],
    /// Whether upcoming tasks are prefetched.
    prefetches: Cell<bool>,
    /// State that is notified of the ends of windows, until the end of the simulation.
    at_window_end: RefCell<Option<Rc<dyn AtWindowEnd>>>,
    trace: Trace,
}

/// State that partitions change in each other: the changes of a window take effect at its end.
pub trait AtWindowEnd {
    /// Lets the changes of the window that has just ended take effect, in the order of the
    /// partitions that made them.
    fn window_ended(&self);
}

/// A simulation: virtual time and its tasks. Clones share the same simulation.
#[derive(Clone)]
pub struct Sim(Rc<Inner>);

/// Error of an activity that waits forever: no event is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("deadlock: the simulation stopped at {0} while an activity waits forever")]
pub struct Deadlock(pub Time);

impl Default for Sim {
    fn default() -> Self {
        Self::new()
    }
}

impl Sim {
    /// Creates an empty simulation with one partition at time zero.
    pub fn new() -> Sim {
        Sim::with(Calendar::of_one_place(), false)
    }

    /// Creates an empty simulation of partitions that affect each other at least `lookahead` later.
    ///
    /// # Panics
    ///
    /// If `lookahead` is zero.
    pub fn of_places(lookahead: Time) -> Sim {
        Sim::with(Calendar::of_places(lookahead), true)
    }

    fn with(calendar: Calendar, several: bool) -> Sim {
        Sim(Rc::new(Inner {
            now: Cell::new(Time::ZERO),
            latest: Cell::new(Time::ZERO),
            events: Cell::new(0),
            current: Cell::default(),
            place: Cell::new(0),
            several,
            calendar: RefCell::new(calendar),
            ready: Cell::new(None),
            others_ready: RefCell::default(),
            tasks: RefCell::default(),
            pool: ActivityPool::default(),
            machines: [const { OnceCell::new() }; MachineNumber::MOST],
            prefetches: Cell::new(false),
            at_window_end: RefCell::default(),
            trace: Trace::default(),
        }))
    }

    /// Returns the current virtual time.
    pub fn now(&self) -> Time {
        self.0.now.get()
    }

    /// Returns the latest time of any partition so far: within a window, their times differ.
    pub fn latest(&self) -> Time {
        self.0.latest.get()
    }

    /// Returns the number of events so far: polls of tasks.
    pub fn events(&self) -> u64 {
        self.0.events.get()
    }

    /// Sleeps for `span`.
    pub fn sleep(&self, span: Time) -> Sleep<'_> {
        self.sleep_until(self.now() + span)
    }

    /// Sleeps until `instant`; ready at once if that is not in the future.
    pub fn sleep_until(&self, instant: Time) -> Sleep<'_> {
        self.sleep_in(self.0.place.get(), instant)
    }

    /// Continues in another partition at `instant`, which must be at least a lookahead from now.
    /// With a single partition it sleeps until then.
    pub fn travel(&self, place: usize, instant: Time) -> Sleep<'_> {
        self.sleep_in(self.place_of(place), instant)
    }

    fn sleep_in(&self, place: PartitionNumber, instant: Time) -> Sleep<'_> {
        Sleep {
            sim: self,
            instant,
            place,
            scheduled: false,
        }
    }

    pub(crate) fn place_of(&self, place: usize) -> PartitionNumber {
        match self.0.several {
            true => PartitionNumber::try_from(place).expect("places are numbered by 32 bits"),
            false => 0,
        }
    }

    /// Starts a task; it first runs after all tasks that are ready.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        let shared = Rc::new(RefCell::new(Joined {
            value: None,
            waiting: None,
        }));
        let handle = JoinHandle {
            sim: self.clone(),
            shared: shared.clone(),
        };
        let sim = self.clone();
        self.start(Joining {
            future,
            sim,
            shared,
        });
        handle
    }

    /// Starts a detached task: cheaper than [`Sim::spawn`].
    pub fn start(&self, future: impl Future<Output = ()> + 'static) {
        let id = self.add(self.0.pool.boxed(future));
        self.wake(id);
    }

    /// Adds a machine.
    ///
    /// # Panics
    ///
    /// If the simulation already has the most that it can have.
    pub fn add_machine(&self, machine: Rc<dyn Machine>) -> MachineNumber {
        let machines = &self.0.machines;
        let index = machines.iter().position(|cell| cell.get().is_none());
        let number = MachineNumber::at(index.unwrap_or(MachineNumber::MOST));
        let _ = machines[index.unwrap_or_default()].set(machine);
        number
    }

    /// Tells `state` of the end of each window.
    pub fn tell_of_window_ends(&self, state: Rc<dyn AtWindowEnd>) {
        self.0.at_window_end.replace(Some(state));
    }

    /// Notes that a table has this many records. If they do not stay in the caches, upcoming tasks
    /// are prefetched from now on.
    pub fn note_records(&self, records: usize) {
        if records > FETCHED_FROM {
            self.0.prefetches.set(true);
        }
    }

    /// Adds a task that first runs when it is woken.
    pub(super) fn hold(&self, future: impl Future<Output = ()> + 'static) -> TaskId {
        self.add(self.0.pool.boxed(future))
    }

    /// Starts a task that first runs at `instant`, which must not be in the past: cheaper than a
    /// task that begins with a sleep.
    pub fn start_at(&self, instant: Time, future: impl Future<Output = ()> + 'static) {
        let id = self.add(self.0.pool.boxed(future));
        self.wake_in(self.place(), instant, id);
    }

    /// Starts a task in a partition, before the simulation runs; with a single partition, like
    /// [`Sim::start`].
    pub fn start_in(&self, place: usize, future: impl Future<Output = ()> + 'static) {
        if !self.0.several {
            return self.start(future);
        }
        let place = self.place_of(place);
        let id = self.add_in(place, self.0.pool.boxed(future));
        let mut calendar = self.0.calendar.borrow_mut();
        calendar.schedule(place, self.now(), id);
    }

    fn add(&self, task: Task) -> TaskId {
        self.add_in(self.place(), task)
    }

    fn add_in(&self, waits_in: PartitionNumber, task: Task) -> TaskId {
        let mut tasks = self.0.tasks.borrow_mut();
        let id = tasks.add(Asleep {
            task: Some(task),
            waits_in,
        });
        self.note_records(tasks.room());
        TaskId::of_future(id)
    }

    /// Runs until `future` has finished and returns its value. Other tasks stay suspended where
    /// they are.
    ///
    /// # Errors
    ///
    /// Returns [`Deadlock`] if no event is left before `future` has finished.
    pub fn block_on<T: 'static>(
        &self,
        future: impl Future<Output = T> + 'static,
    ) -> Result<T, Deadlock> {
        let handle = self.spawn(future);
        loop {
            if let Some(value) = handle.shared.borrow_mut().value.take() {
                return Ok(value);
            }
            if !self.step() && !self.next_window() {
                return Err(Deadlock(self.now()));
            }
        }
    }

    /// Runs until no event is left.
    pub fn run(&self) {
        loop {
            self.run_window();
            if !self.next_window() {
                break;
            }
        }
    }

    /// Returns whether it has one partition, of which all time is one window.
    pub(crate) fn is_one_place(&self) -> bool {
        !self.0.several
    }

    /// Runs all events of the current window.
    pub(crate) fn run_window(&self) {
        while self.step() {}
    }

    /// Ends the window, of which no event is left.
    pub(crate) fn end_window(&self) {
        self.0.calendar.borrow_mut().settle();
        if let Some(state) = &*self.0.at_window_end.borrow() {
            state.window_ended();
        }
    }

    /// Returns the number of the next window that has events, if there is one.
    pub(crate) fn coming_window(&self) -> Option<u64> {
        self.0.calendar.borrow().next_window()
    }

    /// Returns when the first task continues that crosses to another partition in this window.
    pub(crate) fn first_crossing(&self) -> Option<Time> {
        self.0.calendar.borrow().first_crossing()
    }

    /// Returns the number of the window of an instant after the current one.
    pub(crate) fn window_of(&self, instant: Time) -> u64 {
        self.0.calendar.borrow().number_of(instant)
    }

    /// Starts a window after the current one, no later than the next that has events.
    pub(crate) fn begin_window(&self, number: u64) {
        self.0.calendar.borrow_mut().begin_window(number);
    }

    /// Ends the window and starts the next one that has events; returns false if there is none.
    fn next_window(&self) -> bool {
        self.end_window();
        let next = self.coming_window();
        next.into_iter().for_each(|next| self.begin_window(next));
        next.is_some()
    }

    /// Drops all tasks and events. Without this, tasks that hold the simulation would keep each
    /// other alive.
    pub fn clear(&self) {
        ENDED.set(ENDED.get() + self.0.events.take());
        let tasks = self.0.tasks.borrow_mut().take();
        self.0.calendar.borrow_mut().clear();
        self.clear_ready();
        // Dropping a task may release a permit, which wakes another task: harmless, as nothing runs
        // any more.
        drop(tasks);
        self.0.pool.clear();
        self.0.at_window_end.take();
        let machines = self.0.machines.iter().filter_map(OnceCell::get);
        machines.for_each(|machine| machine.clear());
        self.clear_ready();
    }

    fn clear_ready(&self) {
        self.0.ready.set(None);
        self.0.others_ready.borrow_mut().clear();
    }

    /// Runs one event of the window; returns false if there is none.
    #[inline]
    pub(crate) fn step(&self) -> bool {
        let inner = &*self.0;
        let ready = inner.ready.get();
        let is_timed = ready.is_none();
        let id = match ready {
            Some(id) => {
                inner.ready.set(inner.others_ready.borrow_mut().pop_front());
                id
            }
            None => {
                let mut calendar = inner.calendar.borrow_mut();
                let next = match inner.prefetches.get() {
                    true => calendar.next(Some(|depth, id| inner.prefetch(depth, id))),
                    false => calendar.next(None::<fn(usize, TaskId)>),
                };
                let Some((instant, id)) = next else {
                    return false;
                };
                inner.now.set(instant);
                inner.latest.set(inner.latest.get().max(instant));
                inner.place.set(calendar.place());
                id
            }
        };
        let events = inner.events.get() + 1;
        inner.events.set(events);
        if events.is_multiple_of(PORTION) {
            EVENTS.fetch_add(PORTION, Ordering::Relaxed);
        }
        inner.current.set(id);
        let (machine, number) = id.parts();
        match machine {
            Some(machine) => {
                if let Some(machine) = inner.machines[machine].get() {
                    machine.advance(self, number);
                }
            }
            None => inner.poll(number, is_timed),
        }
        true
    }

    pub(super) fn trace(&self) -> &Trace {
        &self.0.trace
    }

    pub(crate) fn current(&self) -> TaskId {
        self.0.current.get()
    }

    pub(crate) fn wake(&self, task: TaskId) {
        match self.0.ready.get() {
            None => self.0.ready.set(Some(task)),
            Some(_) => self.0.others_ready.borrow_mut().push_back(task),
        }
    }

    pub(crate) fn place(&self) -> PartitionNumber {
        self.0.place.get()
    }

    /// Wakes a task of `place` at `instant`.
    pub(crate) fn wake_in(&self, place: PartitionNumber, instant: Time, task: TaskId) {
        if place == self.place() && instant <= self.now() {
            return self.wake(task);
        }
        let mut calendar = self.0.calendar.borrow_mut();
        calendar.schedule(place, instant, task);
    }

    /// Has the current task, a record, continue in another partition at `instant`.
    pub(crate) fn cross(&self, place: PartitionNumber, instant: Time) {
        self.cross_from(self.place(), place, instant, self.current());
    }

    /// Has a task continue in another partition at `instant`; it comes from partition `from`.
    pub(crate) fn cross_from(
        &self,
        from: PartitionNumber,
        place: PartitionNumber,
        instant: Time,
        task: TaskId,
    ) {
        let mut calendar = self.0.calendar.borrow_mut();
        calendar.cross(from, place, instant, task);
    }

    /// Wakes the current task at `instant`, which must be in the future.
    pub(crate) fn wake_at(&self, instant: Time) {
        let mut calendar = self.0.calendar.borrow_mut();
        calendar.schedule(self.place(), instant, self.current());
    }

    /// Has the current task, a future, continue in `place` at `instant`.
    fn move_to(&self, place: PartitionNumber, instant: Time) {
        let (_, number) = self.current().parts();
        if let Some(asleep) = self.0.tasks.borrow_mut().get(number) {
            asleep.waits_in = place;
        }
        self.cross(place, instant);
    }
}

impl Inner {
    /// Polls a task that is a future.
    fn poll(&self, number: RecordId, is_timed: bool) {
        let taken = match self.tasks.borrow_mut().get(number) {
            Some(asleep) if is_timed && asleep.waits_in != self.place.get() => None,
            Some(asleep) => asleep.task.take(),
            // A task may have been woken twice and have ended meanwhile.
            None => None,
        };
        let Some(mut task) = taken else { return };
        let has_ended = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if has_ended.is_ready() {
            task.end(&self.pool);
            self.tasks.borrow_mut().remove(number);
        } else if let Some(asleep) = self.tasks.borrow_mut().get(number) {
            asleep.task = Some(task);
        }
    }

    /// Prefetches the state of an upcoming task: tasks of other partitions were last used a window
    /// ago.
    fn prefetch(&self, depth: usize, id: TaskId) {
        let (machine, number) = id.parts();
        if let Some(machine) = machine {
            if let Some(machine) = self.machines[machine].get() {
                machine.prefetch(number, depth);
            }
            return;
        }
        let tasks = self.tasks.borrow();
        let slot = tasks.slot(number);
        match (depth, slot.record()) {
            (0, _) => prefetch::of(slot),
            (
                _,
                Some(Asleep {
                    task: Some(task), ..
                }),
            ) => prefetch::of(&**task),
            _ => (),
        }
    }
}

/// Waits for an instant, in this or another partition.
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep<'a> {
    sim: &'a Sim,
    instant: Time,
    place: PartitionNumber,
    scheduled: bool,
}

impl Future for Sleep<'_> {
    type Output = ();
    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.sim.now() >= self.instant && self.sim.0.place.get() == self.place {
            return Poll::Ready(());
        }
        if !self.scheduled {
            self.scheduled = true;
            match self.place == self.sim.place() {
                true => self.sim.wake_at(self.instant),
                false => self.sim.move_to(self.place, self.instant),
            }
        }
        Poll::Pending
    }
}

struct Joined<T> {
    value: Option<T>,
    waiting: Option<TaskId>,
}

/// A spawned task. An async block that awaited its future would hold it twice.
struct Joining<F: Future> {
    future: F,
    sim: Sim,
    shared: Rc<RefCell<Joined<F::Output>>>,
}

impl<F: Future> Future for Joining<F> {
    type Output = ();
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut own = self;
        #[expect(unsafe_code, reason = "a pinned field has no safe projection")]
        // SAFETY: the future is never moved out of its pinned owner, which has no destructor of its
        // own and is unpinned only if the future is.
        let future = unsafe { own.as_mut().map_unchecked_mut(|own| &mut own.future) };
        future.poll(context).map(|value| {
            let mut joined = own.shared.borrow_mut();
            joined.value = Some(value);
            if let Some(task) = joined.waiting.take() {
                own.sim.wake(task);
            }
        })
    }
}

/// Yields the value of a spawned task once it has finished. Dropping it lets the task run on.
#[must_use = "await it, or use Sim::start for a task that is not awaited"]
pub struct JoinHandle<T> {
    sim: Sim,
    shared: Rc<RefCell<Joined<T>>>,
}

impl<T> Future for JoinHandle<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        let mut joined = self.shared.borrow_mut();
        match joined.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                joined.waiting = Some(self.sim.current());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_tasks_run_in_scheduling_order() {
        let sim = Sim::new();
        let log = Rc::new(RefCell::new(Vec::new()));
        for name in 0..50 {
            let (own, log) = (sim.clone(), log.clone());
            sim.start(async move {
                own.sleep(Time(if name % 2 == 0 { 70 } else { 30 })).await;
                log.borrow_mut().push((own.now(), name));
            });
        }
        sim.run();
        let log = log.borrow();
        let mut expected: Vec<_> = (0..50)
            .map(|name| (Time(if name % 2 == 0 { 70 } else { 30 }), name))
            .collect();
        expected.sort();
        assert_eq!(*log, expected);
    }

    #[test]
    fn join_returns_the_value_when_the_task_ends() {
        let sim = Sim::new();
        let own = sim.clone();
        let value = sim.block_on(async move {
            let inner = own.clone();
            let handle = own.spawn(async move {
                inner.sleep(Time(900)).await;
                7
            });
            (handle.await, own.now())
        });
        assert_eq!(value, Ok((7, Time(900))));
    }

    #[test]
    fn a_wait_that_never_ends_is_a_deadlock_error() {
        let sim = Sim::new();
        let result = sim.block_on(std::future::pending::<()>());
        assert_eq!(result, Err(Deadlock(Time::ZERO)));
    }
}
