//! A packet of a request in flight, or at message fidelity a batch of packets, from the request for
//! its payload until it has been processed at the receiver.
//!
//! A large system has many of them, each accessed rarely; so the state is one record that the
//! stages borrow instead of copying parts of it. The futures here are the readable reference; by
//! default `flights` runs the same stages as a state machine.

use super::corrections::Plan;
use super::load::{COMPLETION, Chunk, Held, Left};
use super::model::Translation;
use super::operation::Transport;
use super::pair::{Message, Pair};
use crate::component::{Flow, Load, Reading};
use crate::kernel::Time;
use crate::stage;
use std::rc::Rc;

pub(super) struct Flight {
    pub source: Rc<Pair>,
    pub target: Rc<Pair>,
    pub message: Rc<Message>,
    pub chunk: Chunk,
    /// Sequence number in `source`'s order.
    pub number: u64,
    /// Time of its packets at the current stage.
    pub flow: Flow,
    pub left: Left,
}

/// A payload that has been placed.
pub(super) struct Placed {
    /// When the bus has taken its last byte.
    pub gone: Time,
    /// When a processor sees it.
    pub visible: Time,
    /// For the last of a message that takes a receive request: when its completion may be written.
    pub reported: Option<Time>,
}

impl Flight {
    /// Creates the flight of a message's chunk, the next in its queue pair's order.
    #[inline]
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
        let data = match reading {
            Some(reading) => Some(reading.done().await),
            None => None,
        };
        self.is_gathered(data);
        self.source.sent.enter(self.number).await;
    }

    /// Takes over the payload, which has arrived as `data` if it was read.
    pub fn is_gathered(&mut self, data: Option<Flow>) {
        if let Some(data) = data {
            let start = self.flow.head;
            self.flow = data;
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
    }

    /// Passes the sending adapter and leaves as soon as possible.
    pub async fn leave(&mut self) {
        self.pass_sender();
        self.source.adapter.sim.sleep_until(self.flow.head).await;
        self.source.leave(&mut self.left, self.flow).await;
        self.has_left();
    }

    /// Passes the sending adapter: it may leave when its flow begins.
    pub fn pass_sender(&mut self) {
        let adapter = &self.source.adapter;
        let pipeline = adapter.profile.engines.pipeline.since(self.plan().sending);
        let flow = self.source.book_sending(self.chunk.load, self.flow);
        self.source.sent.pass_at(flow.head);
        self.flow = flow.later(pipeline);
    }

    /// Completes a message without acknowledgement whose last packet has left.
    pub fn has_left(&self) {
        let adapter = &self.source.adapter;
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
        if let Some(missing) = target.adapter.touch_context(target) {
            target.adapter.fetch_context(missing).await;
        }
        self.process(held).await;
    }

    /// Is processed at the receiver, which has its context.
    pub async fn process(&mut self, held: Held) {
        self.flow = self.target.book_engine(self.chunk.load, self.flow);
        self.take_turn_and_place(held).await;
    }

    pub async fn take_turn_and_place(&mut self, held: Held) {
        if let Some(held) = self.take_turn(held).await {
            if self.message.dropped.get() {
                return self.is_dropped(held);
            }
            if let Some(translated) = self.translate() {
                translated.await;
            }
            self.place(held).await;
        }
    }

    /// Returns whether no decision is made between engine and pipeline of the receiver. If so, it
    /// is placed when its flow has passed the pipeline.
    pub fn is_in_turn(&self) -> bool {
        let kind = self.message.kind;
        let takes_receive = self.chunk.first && kind.is_received();
        !kind.is_answered() && !takes_receive && self.source.delivered.is_open(self.number)
    }

    /// Returns how long it takes to pass the receiver's pipeline.
    pub fn pipeline(&self) -> Time {
        let engines = &self.target.adapter.profile.engines;
        engines.pipeline.since(self.plan().receiving)
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
        let pipeline = self.pipeline();
        let is_answered = message.kind.is_answered();
        let takes_receive = chunk.first && message.kind.is_received();
        if self.is_in_turn() {
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
                self.message.dropped.set(true);
                target.adapter.count(|c| c.dropped += 1);
                self.is_dropped(held);
                return None;
            }
        }
        sim.sleep(pipeline).await;
        Some(held)
    }

    /// Drops a packet of a message without acknowledgement that found no receive request.
    pub fn is_dropped(&self, held: Option<Held>) {
        let bytes = self.chunk.load.bytes;
        self.target.adapter.count(|c| c.bytes_placed += bytes);
        self.target.let_go(held, self.flow.tail);
        self.source.delivered.pass();
    }

    /// Translates the address of its payload; returns a wait if the translation is missing.
    pub fn translate(&self) -> Option<Translation> {
        let mut place = self.message.remote;
        place.address += self.chunk.offset;
        let adapter = &self.target.adapter;
        adapter.translate(place, self.chunk.load.bytes, self.chunk.first)
    }

    /// Places its payload in memory; the last chunk of a message also triggers acknowledgement,
    /// completion and callbacks.
    pub async fn place(&mut self, held: Option<Held>) {
        let placed = self.put_down(held);
        if !self.chunk.last {
            return;
        }
        if self.target.transport == Transport::Reliable {
            self.start_acknowledgement(placed.gone);
        }
        let sim = &self.target.adapter.sim;
        let mut visible = placed.visible;
        if let Some(instant) = placed.reported {
            sim.sleep_until(instant).await;
            visible = self.report();
        }
        sim.sleep_until(visible).await;
        self.target.report_placed(&self.message);
    }

    /// Writes its payload to memory.
    pub fn put_down(&self, held: Option<Held>) -> Placed {
        let (target, message) = (&self.target, &self.message);
        let adapter = &target.adapter;
        let sim = &adapter.sim;
        let delay = sim.now().since(self.flow.head);
        let global = match target.transport {
            Transport::Datagram => adapter.network.link().global_header.0,
            _ => 0,
        };
        let mut load = self.chunk.load;
        load.bytes += global;
        load.first += global;
        let written = adapter.store(message.remote.home, load, self.flow.later(delay));
        adapter.count(|c| c.bytes_placed += self.chunk.load.bytes);
        target.let_go(held, written.gone);
        self.source.delivered.pass();
        let visible = written.visible.tail;
        if self.chunk.last {
            message.visible.set(Some(visible));
        }
        Placed {
            gone: written.gone,
            visible: visible.since(self.plan().placement),
            reported: message.kind.is_received().then(|| self.flow.tail + delay),
        }
    }

    /// Starts the acknowledgement of its message, not before the bus has taken the last byte.
    fn start_acknowledgement(&self, gone: Time) {
        let (own, source, message) = (&self.target, &self.source, &self.message);
        let adapter = &own.adapter;
        if let Some(flights) = &adapter.flights {
            return flights.acknowledge(self, gone);
        }
        let (own, source, message) = (own.clone(), source.clone(), message.clone());
        adapter.sim.start_at(gone, async move {
            own.acknowledge(&source, &message, gone).await;
        });
    }

    /// Writes the completion of a received message; returns when a processor sees it.
    pub fn report(&self) -> Time {
        let adapter = &self.target.adapter;
        let now = adapter.sim.now();
        let written = adapter.bus.write(Load::single(COMPLETION), Flow::at(now));
        let visible = written.visible.tail + adapter.profile.receive.request;
        adapter.span(stage::COMPLETION, now, visible);
        visible.since(self.plan().placement)
    }
}
