//! A gate that lets tasks pass in the order of their numbers.

use super::executor::Sim;
use super::records::TaskId;
use super::time::Time;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::Poll;

/// Lets tasks pass in the order of their numbers: 0, 1, 2 and so on. A gate belongs to one
/// partition of the simulation.
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

    /// Returns whether `number` may pass now; if not, the current task, a record, is woken when it
    /// may.
    pub fn is_open_or_waits(&self, number: u64) -> bool {
        if self.next.get() != number {
            self.waiting.borrow_mut().push((number, self.sim.current()));
            return false;
        }
        let from = self.from.get();
        let is_open = from <= self.sim.now();
        if !is_open {
            self.sim.wake_at(from);
        }
        is_open
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn a_gate_admits_the_next_at_the_instant_that_was_given() {
        let sim = Sim::new();
        let gate = Rc::new(Gate::new(&sim));
        let passed = Rc::new(RefCell::new(Vec::new()));
        // 2 waits since before 1 passes, 1 comes after 0 has passed and before it may, 3 later.
        for (number, comes) in [(2, 0), (0, 5), (1, 20), (3, 900)] {
            let (own, gate, passed) = (sim.clone(), gate.clone(), passed.clone());
            sim.start(async move {
                own.sleep(Time(comes)).await;
                gate.enter(number).await;
                passed.borrow_mut().push((number, own.now()));
                gate.pass_at(own.now() + Time(100));
                assert!(!gate.is_open(number + 1));
            });
        }
        sim.run();
        let expected = [(0, 5), (1, 105), (2, 205), (3, 900)];
        assert_eq!(*passed.borrow(), expected.map(|(n, t)| (n, Time(t))));
    }
}
