//! A packet of a request in flight, or at message fidelity a batch of packets, from the request for
//! its payload until it has been processed at the receiver.
//!
//! A large system has many of them, each accessed rarely; so the state is one record that the
//! stages borrow instead of copying parts of it.

use super::corrections::Plan;
use super::load::{COMPLETION, Chunk, Held, Left};
use super::operation::Transport;
use super::pair::{Message, Pair};
use crate::component::{Flow, Load, Reading};
use crate::stage;
use std::rc::Rc;

pub(super) struct Flight {
    source: Rc<Pair>,
    target: Rc<Pair>,
    message: Rc<Message>,
    chunk: Chunk,
    /// Sequence number in `source`'s order.
    number: u64,
    /// Time of its packets at the current stage.
    flow: Flow,
    left: Left,
}

impl Flight {
    /// Creates the flight of a message's chunk, the next in its queue pair's order.
    pub fn new(
        source: &Rc<Pair>,
        target: &Rc<Pair>,
        message: &Rc<Message>,
        chunk: Chunk,
    ) -> Flight {
        let number = source.next_packet.replace(source.next_packet.get() + 1);
        let header = source.header(message.kind, chunk.first);
        Flight {
            flow: Flow::at(source.adapter.sim.now()),
            left: source.towards(target, chunk.load, header),
            source: source.clone(),
            target: target.clone(),
            message: message.clone(),
            chunk,
            number,
        }
    }

    /// Returns how its message is corrected.
    fn plan(&self) -> &Plan {
        let source = &self.source;
        source.adapter.plan(self.message.kind, source.transport)
    }

    /// Waits for its payload, and until all earlier chunks of the queue pair have been sent.
    pub async fn gather(&mut self, reading: Option<Reading>) {
        if let Some(reading) = reading {
            let start = self.flow.head;
            self.flow = reading.done().await;
            if self.flow.tail > start {
                self.source
                    .adapter
                    .span(stage::PAYLOAD, start, self.flow.tail);
            }
        }
        let side = self.source.adapter.side(self.source.port);
        side.gathering.set(side.gathering.get() - 1);
        if side.gathering.get() == 0 {
            side.gathered.changed();
        }
        self.source.sent.enter(self.number).await;
    }

    /// Passes the sending adapter and leaves as soon as possible.
    pub async fn leave(&mut self) {
        let adapter = &self.source.adapter;
        let pipeline = adapter.profile.engines.pipeline.since(self.plan().sending);
        self.flow = self.source.book_sending(self.chunk.load, self.flow);
        self.source.sent.pass_at(self.flow.head);
        adapter.sim.sleep_until(self.flow.head + pipeline).await;
        self.flow = self.flow.later(pipeline);
        self.source.leave(&mut self.left, self.flow).await;
        if self.source.transport != Transport::Reliable && self.chunk.last {
            // There is no acknowledgement: complete when all of it has left.
            let (own, message) = (self.source.clone(), self.message.clone());
            adapter.sim.start_at(self.left.end(), async move {
                own.complete(&message).await;
            });
        }
    }

    /// Travels to its destination and is processed there.
    pub async fn arrive(&mut self) {
        let (flow, held) = self.source.come(&self.target, &mut self.left).await;
        self.flow = flow;
        let target = &self.target;
        target.adapter.load_context(target.id).await;
        self.flow = target.book_engine(self.chunk.load, flow);
        let Some(held) = self.take_turn(held).await else {
            return;
        };
        self.place(held).await;
    }

    /// Waits for its turn and until it has passed the adapter. Returns the buffer space that it
    /// still occupies, or `None` if it has been processed.
    async fn take_turn(&self, held: Held) -> Option<Option<Held>> {
        let Flight {
            source,
            target,
            message,
            chunk,
            number,
            flow,
            ..
        } = self;
        let sim = &target.adapter.sim;
        let engines = &target.adapter.profile.engines;
        let pipeline = engines.pipeline.since(self.plan().receiving);
        let is_answered = message.kind.is_answered();
        let takes_receive = chunk.first && message.kind.is_received();
        if !is_answered && !takes_receive && source.delivered.is_open(*number) {
            // No decision is made between engine and pipeline.
            sim.sleep_until(flow.head + pipeline).await;
            return Some(Some(held));
        }
        sim.sleep_until(flow.head).await;
        let mut held = match source.delivered.is_open(*number) {
            true => Some(held),
            false => Box::pin(target.wait_for_turn(source, *number, held)).await,
        };
        if is_answered {
            source.delivered.pass();
            target.let_go(held.take(), sim.now());
            Box::pin(target.clone().respond(source.clone(), message.clone())).await;
            return None;
        }
        if takes_receive {
            let ready = Box::pin(target.take_receive(&mut held)).await;
            if !ready {
                self.is_dropped(held);
                return None;
            }
        }
        sim.sleep(pipeline).await;
        Some(held)
    }

    /// Drops a datagram that found no receive request.
    fn is_dropped(&self, held: Option<Held>) {
        let bytes = self.chunk.load.bytes;
        self.target.adapter.count(|c| c.dropped += 1);
        self.target.adapter.count(|c| c.bytes_placed += bytes);
        self.target.let_go(held, self.flow.tail);
        self.source.delivered.pass();
    }

    /// Places its payload in memory; the last chunk of a message also triggers acknowledgement,
    /// completion and callbacks.
    async fn place(&mut self, held: Option<Held>) {
        let (target, message) = (&self.target, &self.message);
        let adapter = &target.adapter;
        let sim = &adapter.sim;
        let mut place = message.remote;
        place.address += self.chunk.offset;
        if let Some(translated) = adapter.translate(place, self.chunk.load.bytes, self.chunk.first)
        {
            translated.await;
        }
        let delay = sim.now().since(self.flow.head);
        let global = match target.transport {
            Transport::Datagram => adapter.network.link().global_header.0,
            _ => 0,
        };
        let mut load = self.chunk.load;
        load.bytes += global;
        load.first += global;
        let written = adapter.store(place.home, load, self.flow.later(delay));
        adapter.count(|c| c.bytes_placed += self.chunk.load.bytes);
        target.let_go(held, written.gone);
        self.source.delivered.pass();
        if !self.chunk.last {
            return;
        }
        let sooner = self.plan().placement;
        let mut visible = written.visible.tail;
        message.visible.set(Some(visible));
        if target.transport == Transport::Reliable {
            // Not before the bus has taken the last byte.
            let (own, source, message) = (target.clone(), self.source.clone(), message.clone());
            let gone = written.gone;
            sim.start_at(gone, async move {
                own.acknowledge(&source, &message, gone).await;
            });
        }
        if message.kind.is_received() {
            let request = adapter.profile.receive.request;
            sim.sleep_until(self.flow.tail + delay).await;
            visible = adapter
                .bus
                .write(Load::single(COMPLETION), Flow::at(sim.now()))
                .visible
                .tail;
            adapter.span(stage::COMPLETION, sim.now(), visible + request);
            visible += request;
        }
        sim.sleep_until(visible.since(sooner)).await;
        if let Some(placed) = message.placed.borrow_mut().take() {
            placed();
        }
    }
}
