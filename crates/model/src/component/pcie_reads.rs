//! Reads of the adapter over PCI Express, request by request.
//!
//! A request takes one of the adapter's reads, crosses the bus, takes a slot of the chipset, waits
//! for memory and returns as a completion. Requests that start together are one record that
//! advances from event to event; those that reach a stage at the same instant share its event. A
//! record is equivalent to one task per request, in the same order, with fewer events.

use super::load::{Flow, Load};
use super::pcie::PcieModel;
use super::transfer::Part;
use crate::kernel::{Machine, MachineNumber, Permit, RecordId, Sim, Slab, Space, Time, prefetch};
use std::cell::{OnceCell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The stage of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Starts,
    /// Waits for one of the adapter's reads.
    InLine,
    /// On its way to the chipset.
    OnBus,
    /// Waits for a slot.
    AtChipset,
    /// Waits for memory.
    Reads,
    /// Its data cross the socket interconnect.
    Crosses,
    /// Its data are on their way to the adapter.
    Returns,
    Ended,
}

impl Step {
    /// Returns whether it ends at a known instant.
    fn is_timed(self) -> bool {
        matches!(
            self,
            Step::OnBus | Step::Reads | Step::Crosses | Step::Returns
        )
    }
}

struct Request {
    step: Step,
    bytes: u32,
    /// End of a timed stage, or the ticket of a queue.
    at: u64,
    /// When it took its slot, and when memory has carried its bytes.
    taken: Time,
    memory: Time,
    /// Its share of its message's window.
    permit: Option<Permit>,
}

/// Up to `N` requests that start together. The future ends when the data of the last have arrived.
pub(super) struct Reads<const N: usize> {
    bus: Rc<PcieModel>,
    total: Rc<Space>,
    requests: [Request; N],
    number: usize,
    /// Requests that have ended; they end in order.
    ended: usize,
    /// Partition of its bus, where all its events are.
    place: u32,
    /// Ended with them, if they belong to a reading.
    part: Option<Part>,
}

impl<const N: usize> Reads<N> {
    /// Prefetches the state that its next event needs: its own pointers' targets (`depth` 1), then
    /// those of their pointers (2).
    fn prefetch(&self, depth: usize) {
        let part = self.part.as_ref();
        if depth == 1 {
            prefetch::of(&*self.bus);
            prefetch::of(&*self.total);
            part.inspect(|part| part.prefetch());
            return;
        }
        self.total.prefetch();
        self.bus.slots.prefetch();
        prefetch::of(&*self.bus.memory);
        if let Some(task) = part.and_then(Part::waiting) {
            self.bus.sim.prefetch(task);
        }
    }

    /// Creates a record without requests. `total` limits the adapter's reads.
    pub fn new(bus: &Rc<PcieModel>, total: &Rc<Space>, part: Option<Part>) -> Reads<N> {
        Reads {
            bus: bus.clone(),
            total: total.clone(),
            requests: [const {
                Request {
                    step: Step::Starts,
                    bytes: 0,
                    at: 0,
                    taken: Time::ZERO,
                    memory: Time::ZERO,
                    permit: None,
                }
            }; N],
            number: 0,
            ended: 0,
            place: bus.sim.place(),
            part,
        }
    }

    /// Adds a request, before the start.
    pub fn add(&mut self, bytes: u64, permit: Option<Permit>) {
        let request = &mut self.requests[self.number];
        request.bytes = u32::try_from(bytes).expect("a request is shorter than a packet");
        request.permit = permit;
        self.number += 1;
    }

    /// Advances all requests for which the current event may have come; ends the part of a reading
    /// and returns true if all have ended.
    fn comes(&mut self) -> bool {
        let has_ended = self.advance();
        if has_ended && let Some(part) = self.part.take() {
            part.end(Flow::at(self.bus.sim.now()));
        }
        has_ended
    }

    /// Advances all requests for which the current event may have come; returns whether all have
    /// ended.
    fn advance(&mut self) -> bool {
        let now = self.bus.sim.now();
        let is_due = |request: &Request| request.step.is_timed() && request.at <= now.0;
        let timer = self.requests[self.ended..self.number].iter().any(is_due);
        // Entries of one record for the same instant are one event.
        let mut last = None;
        // Requests wait in order: behind one that waits on, others of its stage do so too.
        let mut waits = Step::Ended;
        for number in self.ended..self.number {
            let request = &self.requests[number];
            let skipped = match timer {
                true => !is_due(request),
                false => request.step.is_timed() || request.step == waits,
            };
            if skipped {
                continue;
            }
            if let Some(instant) = self.advance_one(number, now)
                && last.replace(instant) != Some(instant)
            {
                self.bus.sim.wake_at(instant);
            }
            waits = self.requests[number].step;
            if waits == Step::Ended && number == self.ended {
                self.ended += 1;
            }
        }
        self.ended == self.number
    }

    /// Advances a request as far as it gets now; returns the end of its stage if that is known.
    fn advance_one(&mut self, number: usize, now: Time) -> Option<Time> {
        let is_last = number + 1 == self.number;
        let (bus, total) = (&*self.bus, &*self.total);
        let request = &mut self.requests[number];
        loop {
            request.step = match request.step {
                Step::Starts => match total.enter(&bus.sim, 1) {
                    None => request.ask(bus, now),
                    Some(ticket) => request.waits(Step::InLine, ticket),
                },
                Step::InLine => match total.come(&bus.sim, request.at, 1) {
                    true => request.ask(bus, now),
                    false => return None,
                },
                Step::OnBus => match bus.slots.enter(&bus.sim, 1) {
                    None => request.read(bus, now),
                    Some(ticket) => request.waits(Step::AtChipset, ticket),
                },
                Step::AtChipset => match bus.slots.come(&bus.sim, request.at, 1) {
                    true => request.read(bus, now),
                    false => return None,
                },
                Step::Reads if bus.sockets.is_some() => {
                    let load = Load::single(u64::from(request.bytes));
                    let crossed = bus.outwards(Flow::at(now), load).tail;
                    request.waits(Step::Crosses, crossed.0)
                }
                Step::Reads | Step::Crosses => {
                    let step = request.answer(bus, total, now);
                    // The data of a request arrive after those of earlier ones: only its permit, or
                    // the end of all, need an event.
                    match is_last || request.permit.is_some() {
                        true => step,
                        false => Step::Ended,
                    }
                }
                Step::Returns => {
                    request.permit = None;
                    Step::Ended
                }
                Step::Ended => return None,
            };
            match request.step {
                step if step.is_timed() && request.at > now.0 => return Some(Time(request.at)),
                Step::InLine | Step::AtChipset | Step::Ended => return None,
                _ => (),
            }
        }
    }
}

impl Request {
    fn waits(&mut self, step: Step, at: u64) -> Step {
        self.at = at;
        step
    }

    /// Leaves the adapter.
    fn ask(&mut self, bus: &PcieModel, now: Time) -> Step {
        bus.up.reserve(now, bus.asks);
        bus.down.reserve(now, bus.answers);
        // A request goes between the packets of a write in progress: it costs link time but does
        // not wait for the whole write.
        self.waits(Step::OnBus, (now + bus.asks + bus.profile.propagation).0)
    }

    /// Reads memory, in its slot.
    fn read(&mut self, bus: &PcieModel, now: Time) -> Step {
        self.taken = now;
        self.memory = bus.memory.carry(now, u64::from(self.bytes));
        let latency = bus.profile.read_latency + bus.crossing() * 2;
        self.waits(Step::Reads, (now + latency).0)
    }

    /// Returns to the adapter.
    fn answer(&mut self, bus: &PcieModel, total: &Space, now: Time) -> Step {
        let p = &bus.profile;
        let (packets, span) = bus.completions(u64::from(self.bytes));
        let answer = bus.down.reserve(now, span);
        bus.up.reserve(now, bus.answered(packets));
        // The release times are known now, so no event is needed to release them.
        let left = answer.end.max(self.memory);
        let released = left.max(self.taken + p.read_occupancy.unwrap_or_default());
        bus.slots.give_back(&bus.sim, released, 1);
        let there = left + p.propagation;
        total.give_back(&bus.sim, there, 1);
        self.waits(Step::Returns, there.0)
    }
}

impl<const N: usize> Future for Reads<N> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match self.comes() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// Most requests of one record: those of a packet of 2 KiB.
pub(super) const TOGETHER: usize = 4;

/// The reads of all buses.
#[derive(Default)]
pub struct ReadRecords {
    machine: OnceCell<MachineNumber>,
    records: RefCell<Slab<Reads<TOGETHER>>>,
}

impl ReadRecords {
    /// Creates the reads of a simulation.
    pub fn new(sim: &Sim) -> Rc<ReadRecords> {
        let records = Rc::new(ReadRecords::default());
        let number = sim.add_machine(records.clone());
        let _ = records.machine.set(number);
        records
    }

    /// Starts reads after all tasks that are ready.
    pub(super) fn start(&self, reads: Reads<TOGETHER>) {
        let sim = reads.bus.sim.clone();
        let mut records = self.records.borrow_mut();
        let record = records.add(reads);
        sim.note_records(records.room());
        if let Some(machine) = self.machine.get() {
            sim.wake(machine.task(record));
        }
    }
}

impl Machine for ReadRecords {
    fn advance(&self, sim: &Sim, record: RecordId) {
        let mut records = self.records.borrow_mut();
        if let Some(reads) = records.get(record)
            && reads.place == sim.place()
            && reads.comes()
        {
            records.remove(record);
        }
    }

    fn prefetch(&self, record: RecordId, depth: usize) {
        let records = self.records.borrow();
        let slot = records.slot(record);
        match (depth, slot.record()) {
            (0, _) => prefetch::of(slot),
            (_, Some(reads)) => reads.prefetch(depth),
            (_, None) => (),
        }
    }

    fn clear(&self) {
        self.records.take();
    }
}
