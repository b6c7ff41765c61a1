//! Finite space: buffers, credits, the head of a queue.
//!
//! Amounts are taken in first-come-first-served order and returned at known instants, announced in
//! advance by the task that holds them. An amount that becomes free causes an event only if a task
//! waits for it, so a space that never runs out costs no events. A space belongs to one partition
//! of the simulation: only tasks of that partition take from it, and an amount returned by another
//! partition becomes free at least a lookahead later.

use super::executor::Sim;
use super::records::TaskId;
use super::time::Time;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

struct Waiting {
    ticket: u64,
    task: TaskId,
    /// Amount wanted, capped at `u32::MAX`.
    wants: u32,
}

/// The state of a space that has been crowded.
struct Crowd {
    /// Amounts that become free, by instant, after the first. Most are added at the end.
    returns: VecDeque<(Time, u64)>,
    queue: VecDeque<Waiting>,
    next_ticket: u64,
    /// The partition of the waiting tasks.
    place: u32,
    /// The instant of the next scheduled check for free space, or that of [`NEVER`], and its task.
    look: Time,
    looks: TaskId,
}

/// Finite space. A large system has many, of which few are ever crowded: these need no more memory
/// than a cache line.
pub struct Space {
    size: u64,
    free: Cell<u64>,
    /// The first amount that becomes free; [`NEVER`] if none does.
    first: Cell<(Time, u64)>,
    /// Ticket of the first waiting task, or [`NO_TICKET`].
    turn: Cell<u64>,
    crowd: RefCell<Option<Box<Crowd>>>,
}

/// No amount becomes free.
const NEVER: (Time, u64) = (Time(u64::MAX), 0);

/// No task waits.
const NO_TICKET: u64 = u64::MAX;

impl Space {
    /// Creates a space that is entirely free.
    pub fn new(size: u64) -> Space {
        Space {
            size,
            free: Cell::new(size),
            first: Cell::new(NEVER),
            turn: Cell::new(NO_TICKET),
            crowd: RefCell::new(None),
        }
    }

    /// Returns whether a task waits.
    fn is_crowded(&self) -> bool {
        self.turn.get() != NO_TICKET
    }

    /// Caps an amount at the size of the space.
    fn of(&self, amount: u64) -> u64 {
        amount.min(self.size)
    }

    /// Waits behind all earlier waiters until `amount` is free, and takes it. An amount above the
    /// size takes the whole space.
    pub fn take<'a>(&'a self, sim: &'a Sim, amount: u64) -> Take<'a> {
        Take {
            space: self,
            sim,
            amount: self.of(amount),
            ticket: None,
        }
    }

    /// Adds all amounts returned by `now` to the free space.
    #[inline(never)]
    fn take_back(&self, now: Time) {
        self.take_back_from(&mut self.crowd.borrow_mut(), now);
    }

    fn take_back_from(&self, crowd: &mut Option<Box<Crowd>>, now: Time) {
        let mut first = self.first.get();
        while first.0 <= now {
            self.free.set(self.free.get() + first.1);
            let next = crowd.as_mut().and_then(|crowd| crowd.returns.pop_front());
            first = next.unwrap_or(NEVER);
        }
        self.first.set(first);
    }

    /// Takes `amount` if it is free.
    fn try_take(&self, amount: u64) -> bool {
        let free = self.free.get();
        let enough = free >= amount;
        if enough {
            self.free.set(free - amount);
        }
        enough
    }

    /// Takes `amount` and returns `None`, or appends the current task to the queue and returns its
    /// ticket. A task may hold several tickets.
    #[inline]
    pub fn enter(&self, sim: &Sim, amount: u64) -> Option<u64> {
        let amount = self.of(amount);
        if !self.is_crowded() {
            let now = sim.now();
            if self.first.get().0 <= now {
                self.take_back(now);
            }
            if self.try_take(amount) {
                return None;
            }
        }
        Some(self.queue(sim, amount))
    }

    /// Appends the current task to the queue and returns its ticket.
    #[inline(never)]
    fn queue(&self, sim: &Sim, amount: u64) -> u64 {
        let mut crowd = self.crowd.borrow_mut();
        let crowd = crowd.get_or_insert_default();
        crowd.forget_past_look(sim.now());
        crowd.place = sim.place();
        let ticket = crowd.append(sim.current(), u32::try_from(amount).unwrap_or(u32::MAX));
        if !self.is_crowded() {
            self.turn.set(ticket);
            crowd.look_again(sim, self.first.get().0);
        }
        ticket
    }

    /// Appends the current task to the queue before it comes, if more tasks than `others` wait
    /// there. Returns its ticket. Its turn must not be before it comes.
    pub(crate) fn enter_before_coming(&self, sim: &Sim, others: u64) -> Option<u64> {
        if !self.is_crowded() {
            return None;
        }
        let mut crowd = self.crowd.borrow_mut();
        let crowd = crowd.as_mut()?;
        (crowd.queue.len() as u64 > others).then(|| crowd.append(sim.current(), 1))
    }

    /// Takes `amount` if it is the turn of `ticket`, of the current task, and enough is free. The
    /// task then has to try its next ticket, unless nothing is left (`has_some`).
    #[inline]
    pub fn come(&self, sim: &Sim, ticket: u64, amount: u64) -> bool {
        self.turn.get() == ticket && self.come_first(sim, amount)
    }

    /// Takes `amount` for the first waiting task, the current one, if enough is free.
    #[inline(never)]
    fn come_first(&self, sim: &Sim, amount: u64) -> bool {
        let now = sim.now();
        let mut state = self.crowd.borrow_mut();
        let Some(crowd) = &mut *state else {
            return false;
        };
        crowd.forget_past_look(now);
        if self.first.get().0 <= now {
            self.take_back_from(&mut state, now);
        }
        let crowd = state.as_mut().expect("a ticket is of a crowd");
        if !self.try_take(self.of(amount)) {
            crowd.look_again(sim, self.first.get().0);
            return false;
        }
        crowd.queue.pop_front();
        let next = crowd.queue.front();
        self.turn.set(next.map_or(NO_TICKET, |next| next.ticket));
        match next {
            Some(next) if self.free.get() < u64::from(next.wants) => {
                crowd.look_again(sim, self.first.get().0);
            }
            Some(next) if next.task == sim.current() => (),
            Some(next) => sim.wake(next.task),
            None => (),
        }
        true
    }

    /// Returns its size.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns whether something is free, without the amounts returned since the last taking.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.free.get() > 0
    }

    /// Returns a taken amount; it is free from `instant` on, which must not be in the past.
    #[inline]
    pub fn give_back(&self, sim: &Sim, instant: Time, amount: u64) {
        let returned = (instant, self.of(amount));
        match self.first.get().0 == NEVER.0 && !self.is_crowded() {
            true => self.first.set(returned),
            false => self.give_back_to_crowd(sim, returned),
        }
    }

    #[inline(never)]
    fn give_back_to_crowd(&self, sim: &Sim, returned: (Time, u64)) {
        let first = self.first.get();
        let mut crowd = self.crowd.borrow_mut();
        let crowd = crowd.get_or_insert_default();
        if returned.0 < first.0 {
            self.first.set(returned);
            if first.0 != NEVER.0 {
                crowd.returns.push_front(first);
            }
        } else {
            crowd.returns(returned);
        }
        if self.is_crowded() {
            crowd.wake_first(sim, returned.0);
        }
    }

    /// Returns the number of waiting tasks.
    pub fn waiting(&self) -> usize {
        let crowd = self.crowd.borrow();
        crowd.as_ref().map_or(0, |crowd| crowd.queue.len())
    }

    /// Returns the sum of all waiting tasks' amounts.
    pub fn wanted(&self) -> u64 {
        let crowd = self.crowd.borrow();
        let queue = crowd.iter().flat_map(|crowd| &crowd.queue);
        queue.map(|waiting| u64::from(waiting.wants)).sum()
    }

    /// Returns the amount that is not free at `now`, which must be the present of this partition.
    pub fn held(&self, now: Time) -> u64 {
        self.take_back(now);
        self.size - self.free.get()
    }

    /// Returns the amount held without a known instant of return.
    pub fn taken(&self) -> u64 {
        let crowd = self.crowd.borrow();
        let others = crowd.iter().flat_map(|crowd| &crowd.returns);
        let returned = self.first.get().1 + others.map(|(_, amount)| amount).sum::<u64>();
        self.size - self.free.get() - returned
    }
}

impl Crowd {
    /// Appends a task to the queue and returns its ticket.
    fn append(&mut self, task: TaskId, wants: u32) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.queue.push_back(Waiting {
            ticket,
            task,
            wants,
        });
        ticket
    }

    /// Adds an amount that becomes free after the first.
    fn returns(&mut self, later: (Time, u64)) {
        let is_last = self.returns.back().is_none_or(|last| last.0 <= later.0);
        match is_last {
            true => self.returns.push_back(later),
            false => {
                let before = self.returns.partition_point(|other| other.0 <= later.0);
                self.returns.insert(before, later);
            }
        }
    }

    /// Clears a check that is due. Called only in the waiters' partition: the time of another
    /// partition does not tell whether the check has happened.
    fn forget_past_look(&mut self, now: Time) {
        if self.look <= now {
            self.look = NEVER.0;
        }
    }

    /// Schedules the first waiter's next check at the next known return, if there is one.
    fn look_again(&mut self, sim: &Sim, next: Time) {
        if next != NEVER.0 {
            self.wake_first(sim, next.max(sim.now()));
        }
    }

    /// Has the first waiter check at `instant`, or earlier if such a check is already scheduled.
    /// One check at a time is enough, as each schedules the next; one per returned amount would
    /// make a long queue's checks grow with the square of its length.
    fn wake_first(&mut self, sim: &Sim, instant: Time) {
        let Some(first) = self.queue.front() else {
            return;
        };
        if self.look > instant || self.looks != first.task {
            (self.look, self.looks) = (instant, first.task);
            sim.wake_in(self.place, instant, first.task);
        }
    }
}

impl Default for Crowd {
    fn default() -> Crowd {
        Crowd {
            returns: VecDeque::new(),
            queue: VecDeque::new(),
            next_ticket: 0,
            place: 0,
            look: NEVER.0,
            looks: TaskId::default(),
        }
    }
}

/// Future that waits for part of a space. Written by hand instead of `async` to be smaller: every
/// packet in flight holds several.
#[must_use = "it takes nothing until it is awaited"]
pub struct Take<'a> {
    space: &'a Space,
    sim: &'a Sim,
    amount: u64,
    /// Ticket in the queue, once queued.
    ticket: Option<u64>,
}

impl Future for Take<'_> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let (space, sim, amount) = (self.space, self.sim, self.amount);
        let is_ready = match self.ticket {
            Some(ticket) => space.come(sim, ticket, amount),
            None => {
                self.ticket = space.enter(sim, amount);
                self.ticket.is_none()
            }
        };
        match is_ready {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn taken_space_is_free_again_at_its_return_time() {
        let sim = Sim::new();
        let space = Rc::new(Space::new(10));
        let log = Rc::new(RefCell::new(Vec::new()));
        for (name, amount) in [(0, 6), (1, 6), (2, 3), (3, 40), (4, 1)] {
            let (own, space, log) = (sim.clone(), space.clone(), log.clone());
            sim.start(async move {
                space.take(&own, amount).await;
                log.borrow_mut().push((name, own.now()));
                space.give_back(&own, own.now() + Time(100), amount);
            });
        }
        sim.run();
        // 1 waits for 0; 2 fits beside 1 but may not overtake it; 3 takes all of it.
        let expected = [(0, 0), (1, 100), (2, 100), (3, 200), (4, 300)];
        assert_eq!(*log.borrow(), expected.map(|(n, t)| (n, Time(t))));
        assert_eq!(space.taken(), 0);
        assert_eq!((space.wanted(), space.held(sim.now())), (0, 1));
        assert_eq!(space.held(Time(500)), 0);
    }

    #[test]
    fn tickets_of_one_task_are_served_in_order_with_those_of_others() {
        let sim = Sim::new();
        let space = Rc::new(Space::new(1));
        let log = Rc::new(RefCell::new(Vec::new()));
        for name in [10, 20] {
            let (own, space, log) = (sim.clone(), space.clone(), log.clone());
            let mut tickets = VecDeque::new();
            let mut begun = false;
            sim.start(std::future::poll_fn(move |_| {
                let taken = |number| {
                    log.borrow_mut().push((name + number, own.now()));
                    space.give_back(&own, own.now() + Time(100), 1);
                };
                if !begun {
                    begun = true;
                    for number in 0..3 {
                        match space.enter(&own, 1) {
                            None => taken(number),
                            Some(ticket) => tickets.push_back((number, ticket)),
                        }
                    }
                }
                while let Some(&(number, ticket)) = tickets.front()
                    && space.come(&own, ticket, 1)
                {
                    taken(number);
                    tickets.pop_front();
                }
                match tickets.is_empty() {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            }));
        }
        sim.run();
        let expected = [10, 11, 12, 20, 21, 22].iter().zip(0..);
        let expected: Vec<_> = expected.map(|(n, t)| (*n, Time(t * 100))).collect();
        assert_eq!(*log.borrow(), expected);
        assert_eq!((space.taken(), space.waiting()), (0, 0));
    }

    #[test]
    fn a_task_that_enters_before_it_comes_keeps_its_place() {
        let sim = Sim::new();
        let space = Rc::new(Space::new(1));
        assert_eq!(space.enter_before_coming(&sim, 0), None);
        let log = Rc::new(RefCell::new(Vec::new()));
        let starts = [(0, 0), (1, 0), (2, 0), (3, 10), (4, 20)];
        for (name, start) in starts {
            let (own, space, log) = (sim.clone(), space.clone(), log.clone());
            sim.start_at(Time(start), async move {
                if name == 3 {
                    assert_eq!(space.enter_before_coming(&own, 2), None, "two wait");
                    let ticket = space.enter_before_coming(&own, 1).expect("two wait");
                    std::future::poll_fn(|_| match space.come(&own, ticket, 1) {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    })
                    .await;
                } else {
                    space.take(&own, 1).await;
                }
                log.borrow_mut().push((name, own.now()));
                space.give_back(&own, own.now() + Time(100), 1);
            });
        }
        sim.run();
        let expected = [(0, 0), (1, 100), (2, 200), (3, 300), (4, 400)];
        assert_eq!(*log.borrow(), expected.map(|(n, t)| (n, Time(t))));
        assert_eq!((space.taken(), space.waiting()), (0, 0));
    }

    #[test]
    fn a_waiter_resumes_at_a_return_time_given_later() {
        let sim = Sim::new();
        let space = Rc::new(Space::new(1));
        let (own, held) = (sim.clone(), space.clone());
        sim.start(async move {
            held.take(&own, 1).await;
            own.sleep(Time(70)).await;
            held.give_back(&own, Time(90), 1);
        });
        let (own, wanted) = (sim.clone(), space.clone());
        let got = sim.block_on(async move {
            own.sleep(Time(10)).await;
            wanted.take(&own, 1).await;
            own.now()
        });
        assert_eq!(got, Ok(Time(90)));
        assert_eq!(space.taken(), 1);
    }

    /// Returning an amount in parts wakes the first waiter for each part before enough is free;
    /// each wake-up must not multiply.
    #[test]
    fn events_grow_linearly_with_the_queue() {
        let events = |takes: u64| {
            let sim = Sim::new();
            let space = Rc::new(Space::new(64));
            let own = sim.clone();
            let taken = sim.block_on(async move {
                for _ in 0..takes {
                    space.take(&own, 16).await;
                    let (later, space) = (own.clone(), space.clone());
                    own.start(async move {
                        later.sleep(Time(50)).await;
                        for part in 0..16 {
                            space.give_back(&later, later.now() + Time(50 + part), 1);
                        }
                    });
                }
                own.now()
            });
            assert!(taken.unwrap() >= Time((takes / 4 - 1) * 100));
            sim.events()
        };
        let (short, long) = (events(1_000), events(2_000));
        assert!(
            long <= 2 * short + short / 10,
            "{short} events, then {long}"
        );
        assert!(short <= 1_000 * 32, "{short} events");
    }
}
