//! The inbound path: packets of requests at the responder, acknowledgements and read responses at
//! the requester.

use super::load::{COMPLETION, Chunk, FIRST_OF_ENTRY, Held, Left, Work};
use super::operation::{Kind, MemoryHome, Transport};
use super::pair::{Message, Pair};
use super::request::Action;
use crate::component::{Flow, Load, Reading};
use crate::kernel::Time;
use crate::stage;
use std::rc::Rc;

/// Bytes fetched per receive queue entry.
const RECEIVE_ENTRY: u64 = 64;

impl Pair {
    /// Reserves the receiving engines for an arrived packet or batch whose context is cached.
    pub(super) fn book_engine(&self, load: Load, flow: Flow) -> Flow {
        let adapter = &self.adapter;
        let packet = adapter.profile.engines.packet;
        let end = adapter
            .receive_engines
            .reserve(adapter.sim.now(), packet * load.packets);
        Flow {
            head: end.since(packet * (load.packets - 1)),
            tail: end.max(flow.tail + packet),
        }
    }

    /// Waits until all earlier packets of `source` before `number` have been processed. Returns the
    /// buffer space that the load still occupies, or `None` if it had to release it: because the
    /// receiver was not ready for an earlier message, or because it overtook others on an adaptive
    /// network, where those could need its space. An adapter for such a network has other buffers
    /// for early packets.
    pub(super) async fn wait_for_turn(
        &self,
        source: &Pair,
        number: u64,
        held: Held,
    ) -> Option<Held> {
        if self.adapter.network.reorders() {
            self.adapter.let_go(held, self.adapter.sim.now());
            source.delivered.enter(number).await;
            return None;
        }
        self.early.borrow_mut().push((number, held));
        source.delivered.enter(number).await;
        let mut early = self.early.borrow_mut();
        let place = early.iter().position(|(waiting, _)| *waiting == number);
        place.map(|place| early.swap_remove(place).1)
    }

    pub(super) fn let_go(&self, held: Option<Held>, instant: Time) {
        if let Some(held) = held {
            self.adapter.let_go(held, instant);
        }
    }

    /// Takes a receive request and fetches its entry; returns false if an unacknowledged message
    /// must be dropped because there is none. If a reliable message finds none, it and its
    /// successors release the port's buffer: the receiver is not ready (RNR), and the requester
    /// retries until it is. The retries take no link time.
    pub(super) async fn take_receive(self: &Rc<Self>, held: &mut Option<Held>) -> bool {
        if !self.receives.take() {
            if self.transport != Transport::Reliable {
                return false;
            }
            let now = self.adapter.sim.now();
            self.let_go(held.take(), now);
            let early = self.early.take();
            early
                .into_iter()
                .for_each(|(_, held)| self.adapter.let_go(held, now));
            self.receives.take_next().await;
        }
        let adapter = &self.adapter;
        match self.receives.ahead() {
            None => adapter.bus.fetch(RECEIVE_ENTRY, &adapter.reads).await,
            Some(ahead) => {
                let permit = ahead.acquire().await;
                let own = self.clone();
                adapter.sim.start(async move {
                    let adapter = &own.adapter;
                    adapter.bus.fetch(RECEIVE_ENTRY, &adapter.reads).await;
                    drop(permit);
                });
            }
        }
        true
    }

    /// Returns the header bytes of an acknowledgement.
    pub(super) fn acknowledgement(&self) -> u64 {
        let link = self.adapter.network.link();
        link.packet_overhead.0 + link.acknowledgement_header.0
    }

    /// Returns an acknowledgement for a message whose last packet has just been placed.
    pub(super) async fn acknowledge(
        self: &Rc<Self>,
        source: &Rc<Pair>,
        message: &Message,
        tail: Time,
    ) {
        let mut left = self.towards(source, Load::single(0), self.acknowledgement());
        self.leave(&mut left, Flow::at(tail)).await;
        let (_, held) = self.come(source, &mut left).await;
        let adapter = &source.adapter;
        let sim = &adapter.sim;
        let packet = adapter.profile.engines.packet;
        if adapter.serial() {
            Box::pin(source.take_acknowledgement(held)).await;
        } else {
            let done = adapter.receive_engines.reserve(sim.now(), packet);
            adapter.let_go(held, done);
            if message.completed.borrow().is_none() {
                return;
            }
            sim.sleep_until(done).await;
        }
        source.complete(message).await;
    }

    /// Serial scheduling: an acknowledgement arrives like a packet; retiring the request from the
    /// send queue is work of the sending side.
    pub(super) async fn take_acknowledgement(&self, held: Held) {
        let adapter = &self.adapter;
        let sim = &adapter.sim;
        adapter.load_context(self).await;
        let flow = self.book_engine(Load::single(0), Flow::at(sim.now()));
        sim.sleep_until(flow.head).await;
        // The completed request is known by now. Keeping the packet in the port's buffer until the
        // sending side has time could deadlock two adapters.
        adapter.let_go(held, sim.now());
        let turn = self.take_turn(Work::Arrived).await;
        if turn.as_ref().is_some_and(|turn| turn.changed) {
            // The request's entry is needed again; it was dropped at the switch of queue pairs.
            self.fetch_entry(FIRST_OF_ENTRY, Time::ZERO).await;
        }
        sim.sleep(adapter.profile.engines.packet).await;
        drop(turn);
    }

    /// Reports a message's completion to the requester's program.
    pub(super) async fn complete(&self, message: &Message) {
        if let Some((instant, completed)) = self.begin_to_complete(message) {
            self.adapter.sim.sleep_until(instant).await;
            completed();
        }
    }

    /// Writes the completion of a message, if a program waits for it; returns when the program sees
    /// it, and the callback.
    pub(super) fn begin_to_complete(&self, message: &Message) -> Option<(Time, Action)> {
        let completed = message.completed.borrow_mut().take()?;
        let adapter = &self.adapter;
        let visible = adapter
            .bus
            .write(Load::single(COMPLETION), Flow::at(adapter.sim.now()))
            .visible;
        let early = |placed: Time| placed > visible.tail;
        if self.transport == Transport::Reliable && message.visible.get().is_none_or(early) {
            adapter.count(|c| c.early += 1);
        }
        adapter.span(stage::COMPLETION, adapter.sim.now(), visible.tail);
        // The end of a read; a write or send has taken effect before.
        let sooner = match message.kind.is_answered() {
            true => adapter.plan(message.kind, self.transport).placement,
            false => Time::ZERO,
        };
        Some((visible.tail.since(sooner), completed))
    }

    /// Responds to a read or an atomic of `source`.
    pub(super) async fn respond(self: Rc<Self>, source: Rc<Pair>, message: Rc<Message>) {
        let adapter = &self.adapter;
        let sim = &adapter.sim;
        let turn = self.responder().acquire().await;
        let turnaround = adapter.profile.receive.read_turnaround;
        sim.sleep(turnaround.unwrap_or(adapter.profile.engines.request()))
            .await;
        if let Some(translated) = adapter.translate(message.remote, message.bytes, true) {
            translated.await;
        }
        let window = adapter.window(message.bytes);
        for chunk in adapter.chunks(message.bytes) {
            if let Some(paced) = &self.paced {
                Box::pin(paced.pass(adapter, chunk.load)).await;
            }
            adapter.make_room(self.outgoing(chunk.load)).await;
            let mut reading = match message.remote.home {
                MemoryHome::Host if chunk.load.bytes > 0 => {
                    Some(adapter.bus.issue(chunk.load, &window, &adapter.reads).await)
                }
                MemoryHome::Host => None,
                MemoryHome::Adapter => {
                    adapter.read_own(chunk.load.bytes).await;
                    None
                }
            };
            let issued = reading.as_mut().and_then(Reading::issued);
            let number = source.next_response.get();
            source.next_response.set(number + 1);
            let (own, source, message) = (self.clone(), source.clone(), message.clone());
            let start = sim.now();
            let task = move |reading: Option<Reading>| async move {
                let sim = &own.adapter.sim;
                let flow = match reading {
                    Some(reading) => reading.done().await,
                    None => Flow::at(start),
                };
                if flow.tail > start {
                    own.adapter.span(stage::PAYLOAD, start, flow.tail);
                }
                source.responded.enter(number).await;
                if chunk.last && message.kind == Kind::Atomic {
                    own.report_placed(&message);
                }
                let flow = own.book_sending(chunk.load, flow);
                source.responded.pass_at(flow.head);
                let pipeline = own.adapter.profile.engines.pipeline;
                sim.sleep_until(flow.head + pipeline).await;
                let link = own.adapter.network.link();
                let edge = match chunk.first || chunk.last {
                    true => link.acknowledgement_header.0,
                    false => 0,
                };
                let header = link.packet_overhead.0 + edge;
                let mut left = own.towards(&source, chunk.load, header);
                own.leave(&mut left, flow.later(pipeline)).await;
                let left = match (&own.adapter.flights, left) {
                    (Some(flights), Left::Over(in_flight)) => {
                        return flights.carry_response(
                            (&own, &source),
                            (message, chunk, number),
                            in_flight,
                        );
                    }
                    (_, left) => left,
                };
                let mut left = left;
                let there = own.come(&source, &mut left).await;
                source.take_response(message, chunk, number, there).await;
            };
            match reading {
                Some(reading) => reading.start(task),
                None => sim.start(task(None)),
            }
            if let Some(issued) = issued {
                let last = issued.receive().await;
                adapter.sim.sleep_until(last).await;
            }
        }
        drop(turn);
    }

    /// Processes an arrived read response, number `number` of this pair's.
    pub(super) async fn take_response(
        &self,
        message: Rc<Message>,
        chunk: Chunk,
        number: u64,
        (flow, held): (Flow, Held),
    ) {
        let adapter = &self.adapter;
        let sim = &adapter.sim;
        let engines = &adapter.profile.engines;
        let sooner = adapter.plan(message.kind, self.transport).receiving;
        let pipeline = engines.pipeline.since(sooner);
        let mut held = Some(held);
        adapter.load_context(self).await;
        let flow = self.book_engine(chunk.load, flow);
        if adapter.network.reorders() {
            sim.sleep_until(flow.head).await;
            if !self.answered.is_open(number) {
                self.let_go(held.take(), sim.now());
                self.answered.enter(number).await;
            }
            self.answered.pass();
            sim.sleep(pipeline).await;
        } else {
            sim.sleep_until(flow.head + pipeline).await;
        }
        let delay = sim.now().since(flow.head);
        let stored = adapter.store(MemoryHome::Host, chunk.load, flow.later(delay));
        adapter.count(|c| c.bytes_placed += chunk.load.bytes);
        self.let_go(held, stored.gone);
        if !chunk.last {
            return;
        }
        message.visible.set(Some(stored.visible.tail));
        // The completion entry follows the data, and so does the notification.
        sim.sleep_until(stored.gone).await;
        self.report_placed(&message);
        self.complete(&message).await;
    }
}
