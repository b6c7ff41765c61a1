//! The way in: packets of requests at the responder, acknowledgements and read responses at the requester.

use super::pair::{Message, Pair};
use super::request::{Kind, MemoryHome, Transport};
use super::send::{Chunk, FIRST_OF_ENTRY, Held, Work};
use crate::component::{Flow, Load, Reading};
use crate::kernel::Time;
use crate::stage;
use std::rc::Rc;

/// Bytes of a completion queue entry.
const COMPLETION: u64 = 32;
/// Bytes fetched of a receive queue entry.
const RECEIVE_ENTRY: u64 = 64;

impl Pair {
    /// A time at the receiving engines, for a packet or a train of them that is here.
    async fn book_engine(&self, load: Load, flow: Flow) -> Flow {
        let adapter = &self.adapter;
        let packet = adapter.profile.engines.packet;
        adapter.load_context(self.id).await;
        let end = adapter
            .receive_engines
            .reserve(adapter.sim.now(), packet * load.packets);
        Flow {
            head: end.since(packet * (load.packets - 1)),
            tail: end.max(flow.tail + packet),
        }
    }

    /// The same; continues at its head.
    async fn enter_engine(&self, load: Load, flow: Flow) -> Flow {
        let flow = self.book_engine(load, flow).await;
        self.adapter.sim.sleep_until(flow.head).await;
        flow
    }

    /// A chunk of `source`'s message has arrived at this pair's adapter; `number` is its place in `source`'s order.
    pub(super) async fn arrive(
        self: Rc<Self>,
        source: Rc<Pair>,
        message: Rc<Message>,
        chunk: Chunk,
        number: u64,
        (flow, held): (Flow, Held),
    ) {
        let adapter = &self.adapter;
        let sim = &adapter.sim;
        let (engines, receive) = (&adapter.profile.engines, &adapter.profile.receive);
        let flow = self.book_engine(chunk.load, flow).await;
        let takes_receive = chunk.first && message.kind.is_received();
        let mut held =
            if !message.kind.is_answered() && !takes_receive && source.delivered.is_open(number) {
                // Nothing is looked at between engine and pipeline.
                sim.sleep_until(flow.head + engines.pipeline).await;
                Some(held)
            } else {
                sim.sleep_until(flow.head).await;
                let mut held = self.wait_for_turn(&source, number, held).await;
                if message.kind.is_answered() {
                    source.delivered.pass();
                    self.let_go(held.take(), sim.now());
                    Box::pin(self.respond(source, message)).await;
                    return;
                }
                if takes_receive {
                    let ready = Box::pin(self.take_receive(&mut held)).await;
                    if !ready {
                        adapter.count(|c| c.dropped += 1);
                        adapter.count(|c| c.bytes_placed += chunk.load.bytes);
                        self.let_go(held.take(), flow.tail);
                        source.delivered.pass();
                        return;
                    }
                }
                sim.sleep(engines.pipeline).await;
                held
            };
        let mut place = message.remote;
        place.address += chunk.offset;
        adapter
            .translate(place, chunk.load.bytes, chunk.first)
            .await;
        let delay = sim.now().since(flow.head);
        let global = match self.transport {
            Transport::Datagram => adapter.network.link().global_header.0,
            _ => 0,
        };
        let mut load = chunk.load;
        load.bytes += global;
        load.first += global;
        let written = adapter.store(place.home, load, flow.later(delay));
        adapter.count(|c| c.bytes_placed += chunk.load.bytes);
        self.let_go(held.take(), written.gone);
        source.delivered.pass();
        if !chunk.last {
            return;
        }
        let mut visible = written.visible;
        message.visible.set(Some(visible.tail));
        if self.transport == Transport::Reliable {
            // Not before the bus has taken the last byte.
            let (own, source, message) = (self.clone(), source, message.clone());
            let gone = written.gone;
            sim.start_at(gone, async move {
                own.acknowledge(source, message, gone).await;
            });
        }
        if message.kind.is_received() {
            sim.sleep_until(flow.tail + delay).await;
            visible = adapter
                .bus
                .write(Load::single(COMPLETION), Flow::at(sim.now()))
                .visible;
            adapter.span(stage::COMPLETION, sim.now(), visible.tail + receive.request);
            sim.sleep_until(visible.tail + receive.request).await;
        }
        sim.sleep_until(visible.tail).await;
        if let Some(placed) = message.placed.borrow_mut().take() {
            placed();
        }
    }

    /// Waits until everything that `source` sent before number `number` has been dealt with. Gives what the load still
    /// occupies: nothing, if it had to leave because the receiver was not ready for an earlier one, or has overtaken others on an
    /// adaptive network, where those could need its room: such an adapter has room elsewhere for what comes before its turn.
    async fn wait_for_turn(&self, source: &Pair, number: u64, held: Held) -> Option<Held> {
        if source.delivered.is_open(number) {
            return Some(held);
        }
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

    fn let_go(&self, held: Option<Held>, instant: Time) {
        if let Some(held) = held {
            self.adapter.let_go(held, instant);
        }
    }

    /// Takes a receive request and gets its entry; false if a message must be dropped for want of one. If a reliable
    /// message finds none, it and what came behind it leave the port's buffer: the receiver is not ready, and the
    /// requester repeats until it is. The repetition takes no time of the link.
    async fn take_receive(self: &Rc<Self>, held: &mut Option<Held>) -> bool {
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

    /// Returns an acknowledgement for a message whose last packet has come, and been placed now.
    async fn acknowledge(self: Rc<Self>, source: Rc<Pair>, message: Rc<Message>, tail: Time) {
        let link = self.adapter.network.link();
        let header = link.packet_overhead.0 + link.acknowledgement_header.0;
        let left = self
            .leave(&source, Load::single(0), header, Flow::at(tail))
            .await;
        let (_, held) = self.come(&source, left).await;
        let adapter = &source.adapter;
        let sim = &adapter.sim;
        let packet = adapter.profile.engines.packet;
        if adapter.serial() {
            Box::pin(source.take_acknowledgement(held)).await;
        } else {
            let done = adapter.receive_engines.reserve(sim.now(), packet);
            adapter.let_go(held, done);
            sim.sleep_until(done).await;
        }
        source.complete(&message).await;
    }

    /// Serial scheduling: an acknowledgement comes in like a packet; taking the request off the send queue is the sending
    /// side's work.
    async fn take_acknowledgement(&self, held: Held) {
        let adapter = &self.adapter;
        let sim = &adapter.sim;
        self.enter_engine(Load::single(0), Flow::at(sim.now()))
            .await;
        // It is known by now which request is done. Were it to stay in the port's buffer until the sending side has
        // time, two adapters could wait for each other for ever.
        adapter.let_go(held, sim.now());
        let turn = self.take_turn(Work::Arrived).await;
        if turn.as_ref().is_some_and(|turn| turn.changed) {
            // What the request was is in its entry, which went with the change of the queue pair.
            self.fetch_entry(FIRST_OF_ENTRY).await;
        }
        sim.sleep(adapter.profile.engines.packet).await;
        drop(turn);
    }

    /// Reports a message's end to the requester's program.
    pub(super) async fn complete(&self, message: &Message) {
        let Some(completed) = message.completed.borrow_mut().take() else {
            return;
        };
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
        adapter.sim.sleep_until(visible.tail).await;
        completed();
    }

    /// Answers a read or an atomic of `source`.
    async fn respond(self: Rc<Self>, source: Rc<Pair>, message: Rc<Message>) {
        let adapter = &self.adapter;
        let sim = &adapter.sim;
        let turn = self.responder().acquire().await;
        let turnaround = adapter.profile.receive.read_turnaround;
        sim.sleep(turnaround.unwrap_or(adapter.profile.engines.request()))
            .await;
        adapter.translate(message.remote, message.bytes, true).await;
        let window = adapter.window();
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
            sim.start(async move {
                let sim = &own.adapter.sim;
                let start = sim.now();
                let flow = match reading {
                    Some(reading) => reading.done().await,
                    None => Flow::at(start),
                };
                if flow.tail > start {
                    own.adapter.span(stage::PAYLOAD, start, flow.tail);
                }
                source.responded.enter(number).await;
                if chunk.last
                    && message.kind == Kind::Atomic
                    && let Some(placed) = message.placed.borrow_mut().take()
                {
                    placed();
                }
                let flow = own.pass_engine(chunk.load, flow).await;
                source.responded.pass();
                let pipeline = own.adapter.profile.engines.pipeline;
                sim.sleep(pipeline).await;
                let link = own.adapter.network.link();
                let edge = match chunk.first || chunk.last {
                    true => link.acknowledgement_header.0,
                    false => 0,
                };
                let header = link.packet_overhead.0 + edge;
                let left = own
                    .leave(&source, chunk.load, header, flow.later(pipeline))
                    .await;
                let there = own.come(&source, left).await;
                source.take_response(message, chunk, number, there).await;
            });
            if let Some(issued) = issued {
                let last = issued.receive().await;
                adapter.sim.sleep_until(last).await;
            }
        }
        drop(turn);
    }

    /// A read response has come, the one of that number of this pair's.
    async fn take_response(
        &self,
        message: Rc<Message>,
        chunk: Chunk,
        number: u64,
        (flow, held): (Flow, Held),
    ) {
        let adapter = &self.adapter;
        let sim = &adapter.sim;
        let engines = &adapter.profile.engines;
        let mut held = Some(held);
        let flow = if adapter.network.reorders() {
            let flow = self.enter_engine(chunk.load, flow).await;
            if !self.answered.is_open(number) {
                self.let_go(held.take(), sim.now());
                self.answered.enter(number).await;
            }
            self.answered.pass();
            sim.sleep(engines.pipeline).await;
            flow
        } else {
            let flow = self.book_engine(chunk.load, flow).await;
            sim.sleep_until(flow.head + engines.pipeline).await;
            flow
        };
        let delay = sim.now().since(flow.head);
        let stored = adapter.store(MemoryHome::Host, chunk.load, flow.later(delay));
        adapter.count(|c| c.bytes_placed += chunk.load.bytes);
        self.let_go(held, stored.gone);
        if !chunk.last {
            return;
        }
        message.visible.set(Some(stored.visible.tail));
        // The completion's entry goes behind the data, and so does the news.
        sim.sleep_until(stored.gone).await;
        if let Some(placed) = message.placed.borrow_mut().take() {
            placed();
        }
        self.complete(&message).await;
    }
}
