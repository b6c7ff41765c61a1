//! Reads of the adapter over PCI Express, request by request.
//!
//! A request takes one of the adapter's reads, crosses the bus, takes a slot of the chipset, waits
//! for memory and returns as a completion. Requests that start together are one record that
//! advances from event to event; those that reach a stage at the same instant share its event. A
//! record is equivalent to one task per request, in the same order, with fewer events.

use super::load::Flow;
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

/// The end of a stage that ends at no known instant.
const UNKNOWN: Time = Time(u64::MAX);

struct Request {
    step: Step,
    bytes: u32,
    /// End of its stage, or [`UNKNOWN`].
    due: Time,
    /// Ticket in the queue where it waits.
    ticket: u64,
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
    /// Prefetches the state that its next event needs.
    fn prefetch(&self) {
        prefetch::of(&*self.bus);
        prefetch::of(&*self.total);
        self.part.iter().for_each(Part::prefetch);
    }

    /// Creates a record without requests. `total` limits the adapter's reads.
    #[inline]
    pub fn new(bus: &Rc<PcieModel>, total: &Rc<Space>, part: Option<Part>) -> Reads<N> {
        Reads {
            bus: bus.clone(),
            total: total.clone(),
            requests: [const {
                Request {
                    step: Step::Starts,
                    bytes: 0,
                    due: UNKNOWN,
                    ticket: 0,
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
    #[inline(always)]
    fn comes(&mut self) -> bool {
        let (bus, total) = (&*self.bus, &*self.total);
        let now = bus.sim.now();
        let last = self.number - 1;
        let left = &mut self.requests[self.ended..=last];
        let timer = left.iter().any(|request| request.due <= now);
        // Ends at one instant are one event.
        let mut scheduled = now;
        // Requests wait in order: behind one that waits on, others of its stage do so too.
        let mut waits = Step::Ended;
        let (mut number, mut ended) = (self.ended, self.ended);
        for request in left {
            let may_advance = match timer {
                true => request.due <= now,
                false => request.due == UNKNOWN && request.step != waits,
            };
            if may_advance {
                let stage = request.step;
                request.advance((bus, total), now, number == last);
                // An event at which the data return would do nothing but wake the task that waits.
                if request.step == Step::Returns
                    && request.permit.is_none()
                    && ended == last
                    && let Some(part) = &self.part
                    && part.end_last_at(request.due)
                {
                    return true;
                }
                if request.due != UNKNOWN && request.due != scheduled {
                    scheduled = request.due;
                    bus.sim.wake_at(scheduled);
                }
                waits = match stage {
                    Step::InLine if !total.has_some() => stage,
                    Step::AtChipset if !bus.slots.has_some() => stage,
                    _ => request.step,
                };
                ended += usize::from(request.step == Step::Ended && number == ended);
            }
            number += 1;
        }
        self.ended = ended;
        let has_ended = ended > last;
        if has_ended && let Some(part) = self.part.take() {
            part.end(Flow::at(now));
        }
        has_ended
    }
}

impl Request {
    /// Advances as far as it gets now.
    #[inline(always)]
    fn advance(&mut self, (bus, total): (&PcieModel, &Space), now: Time, is_last: bool) {
        loop {
            match self.step {
                Step::Starts => match total.enter(&bus.sim, 1) {
                    None => self.ask(bus, now),
                    Some(ticket) => return self.waits(Step::InLine, ticket),
                },
                Step::InLine => match total.come(&bus.sim, self.ticket, 1) {
                    true => self.ask(bus, now),
                    false => return,
                },
                Step::OnBus => {
                    bus.on_bus.set(bus.on_bus.get() - 1);
                    match bus.slots.enter(&bus.sim, 1) {
                        None => self.read(bus, now),
                        Some(ticket) => return self.waits(Step::AtChipset, ticket),
                    }
                }
                Step::AtChipset => match bus.slots.come(&bus.sim, self.ticket, 1) {
                    true => self.read(bus, now),
                    false => return,
                },
                Step::Reads if bus.sockets.is_some() => {
                    let crossed = bus.crossed(now, u64::from(self.bytes));
                    self.until(Step::Crosses, crossed);
                }
                Step::Reads | Step::Crosses => {
                    let there = self.answer(bus, total, now);
                    // The data of a request arrive after those of earlier ones: only its permit, or
                    // the end of all, need an event.
                    match is_last || self.permit.is_some() {
                        true => self.until(Step::Returns, there),
                        false => self.until(Step::Ended, UNKNOWN),
                    }
                }
                Step::Returns => {
                    self.permit = None;
                    self.until(Step::Ended, UNKNOWN);
                }
                Step::Ended => return,
            }
            if self.due > now {
                return;
            }
        }
    }

    /// Begins a stage that ends at `due`.
    fn until(&mut self, step: Step, due: Time) {
        (self.step, self.due) = (step, due);
    }

    /// Begins to wait in a queue.
    fn waits(&mut self, step: Step, ticket: u64) {
        self.ticket = ticket;
        self.until(step, UNKNOWN);
    }

    /// Leaves the adapter.
    fn ask(&mut self, bus: &PcieModel, now: Time) {
        bus.up.reserve(now, bus.asks);
        bus.down.reserve(now, bus.answers);
        // A request goes between the packets of a write in progress: it costs link time but does
        // not wait for the whole write.
        let way = bus.asks + bus.profile.propagation;
        // If more requests wait than there are slots, some still wait when this one arrives,
        // because each slot is held for longer than the transfer takes. So the arrival needs no
        // event. With a single slot, this may change the order of events at the same time.
        let sees_queue = bus.on_bus.get() == 0 && bus.latency > way;
        let slots = &bus.slots;
        let early = sees_queue.then(|| slots.enter_before_coming(&bus.sim, slots.size()));
        match early.flatten() {
            Some(ticket) => self.waits(Step::AtChipset, ticket),
            None => {
                bus.on_bus.set(bus.on_bus.get() + 1);
                self.until(Step::OnBus, now + way);
            }
        }
    }

    /// Reads memory, in its slot.
    fn read(&mut self, bus: &PcieModel, now: Time) {
        self.taken = now;
        self.memory = bus.memory.carry(now, u64::from(self.bytes));
        self.until(Step::Reads, now + bus.latency);
    }

    /// Returns when its data reach the adapter.
    fn answer(&mut self, bus: &PcieModel, total: &Space, now: Time) -> Time {
        let p = &bus.profile;
        let (span, cost) = bus.completed(u64::from(self.bytes));
        let answer = bus.down.reserve(now, span);
        bus.up.reserve(now, cost);
        // The release times are known now, so no event is needed to release them.
        let left = answer.end.max(self.memory);
        let released = left.max(self.taken + p.read_occupancy.unwrap_or_default());
        bus.slots.give_back(&bus.sim, released, 1);
        let there = left + p.propagation;
        total.give_back(&bus.sim, there, 1);
        there
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
            (_, Some(reads)) => reads.prefetch(),
            (_, None) => (),
        }
    }

    fn clear(&self) {
        self.records.take();
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::Load;
    use super::super::memory::MemoryModel;
    use super::super::transfer::Window;
    use super::*;
    use crate::profile::{Bus, Library, Overrides};

    /// Reads so many packets at once; returns when their data arrive. Reads are records or tasks.
    fn burst(packets: usize, by_records: bool) -> Vec<Time> {
        const BYTES: u64 = 2048;
        let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
        let system = library.system("connectx-ddr").expect("a shipped system");
        let Bus::Pcie(profile) = &system.host.bus else {
            panic!("the system has PCI Express");
        };
        let sim = Sim::new();
        let memory = Rc::new(MemoryModel::new(&system.host.memory));
        let records = by_records.then(|| ReadRecords::new(&sim));
        let bus = Rc::new(PcieModel::new(&sim, (profile, None), memory, records));
        let total = Rc::new(Space::new(16));
        let arrivals = Rc::new(RefCell::new(Vec::new()));
        for _ in 0..packets {
            let (own, bus, total) = (sim.clone(), bus.clone(), total.clone());
            let arrivals = arrivals.clone();
            sim.start(async move {
                let window = Window::new(&own, 16, (BYTES, 1));
                let reading = bus.begin(Load::single(BYTES), &window, &total);
                let flow = reading.expect("fits into the window").done().await;
                assert_eq!(flow, Flow::at(own.now()));
                arrivals.borrow_mut().push(own.now());
            });
        }
        sim.run();
        sim.clear();
        let left = [&bus.slots, &*total].map(|space| (space.taken(), space.waiting()));
        assert_eq!((left, bus.on_bus.get()), ([(0, 0); 2], 0));
        arrivals.take()
    }

    #[test]
    fn queued_reads_wait_for_free_slots() {
        // 2 slots of at least 712 ns each, and 4 requests a packet.
        for packets in [8, 20] {
            let arrivals = burst(packets, true);
            assert_eq!(arrivals, burst(packets, false));
            let rounds = 2 * packets as u64 - 1;
            let last = arrivals.last().copied();
            assert!(last > Some(Time(712_000 * rounds)), "{last:?}");
        }
    }
}
