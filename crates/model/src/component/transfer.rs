//! Transfers between adapter and memory, as every kind of bus performs them.

use super::load::Flow;
use crate::kernel::prefetch;
use crate::kernel::{Latch, Mailbox, Semaphore, Server, Sim, TaskId, Time};
use crate::profile::Pcie;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// Result of a write to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Bus and memory have taken the last byte: the adapter may free its buffer.
    pub gone: Time,
    /// Time at which a processor sees its packets.
    pub visible: Flow,
}

/// Limit of the reads that one message may have in flight.
pub struct Window {
    sim: Sim,
    reads: usize,
    /// Bytes of the message, and the packets in which they are read.
    message: (u64, u64),
    permits: OnceCell<Semaphore>,
    stream: OnceCell<Rc<Server>>,
}

impl Window {
    /// Creates a window of `reads` reads of a message of so many bytes and packets.
    pub fn new(sim: &Sim, reads: usize, message: (u64, u64)) -> Window {
        Window {
            sim: sim.clone(),
            reads,
            message,
            permits: OnceCell::new(),
            stream: OnceCell::new(),
        }
    }

    pub(super) fn reads(&self) -> usize {
        self.reads
    }

    /// Returns whether all reads of its message fit in it.
    pub(super) fn is_wide(&self, bus: &Pcie) -> bool {
        let (bytes, packets) = self.message;
        bytes / bus.read_request.0 + packets <= self.reads as u64
    }

    /// Returns the permits, for reads that are simulated one by one.
    pub(super) fn permits(&self) -> &Semaphore {
        let made = || Semaphore::new(&self.sim, self.reads);
        self.permits.get_or_init(made)
    }

    /// Returns the server that batches of packets share, one after another, instead of permits.
    pub(super) fn stream(&self) -> Rc<Server> {
        self.stream.get_or_init(Rc::default).clone()
    }
}

/// The issued reads of one load.
pub struct Reading {
    parts: Rc<Parts>,
    issued: Option<Mailbox<Time>>,
}

/// The requests of a load.
struct Parts {
    latch: Latch,
    flow: Cell<Flow>,
}

/// One request.
pub(super) struct Part(Rc<Parts>);

impl Part {
    /// Prefetches the state of its reading.
    pub(super) fn prefetch(&self) {
        prefetch::of(&*self.0);
    }

    /// Ends the request: its data have arrived.
    pub(super) fn end(self, data: Flow) {
        self.has_data(data);
        self.0.latch.end();
    }

    /// Ends the request, whose data arrive at `instant`, if it is the last of its reading and a
    /// task waits for that. Returns whether it did.
    pub(super) fn end_last_at(&self, instant: Time) -> bool {
        let ends = self.0.latch.end_last_at(instant);
        if ends {
            self.has_data(Flow::at(instant));
        }
        ends
    }

    fn has_data(&self, data: Flow) {
        let flow = self.0.flow.get();
        self.0.flow.set(Flow {
            head: flow.head.max(data.head),
            tail: flow.tail.max(data.tail),
        });
    }
}

impl Reading {
    /// Creates a reading without requests.
    pub(super) fn new(sim: &Sim) -> Reading {
        Reading {
            parts: Rc::new(Parts {
                latch: Latch::new(sim),
                flow: Cell::new(Flow::at(Time::ZERO)),
            }),
            issued: None,
        }
    }

    /// Adds a mailbox that receives the time when the last request is in flight.
    pub(super) fn telling(self, issued: Mailbox<Time>) -> Reading {
        Reading {
            issued: Some(issued),
            ..self
        }
    }

    /// Adds a request in flight.
    pub(super) fn begin(&self) -> Part {
        self.parts.latch.begin();
        Part(self.parts.clone())
    }

    /// Takes the mailbox for the time when the last request is in flight, unless that has already
    /// happened.
    pub fn issued(&mut self) -> Option<Mailbox<Time>> {
        self.issued.take()
    }

    /// Starts a task of which the wait for this reading is the first; the task gets the reading.
    pub fn start<F>(self, task: impl FnOnce(Option<Reading>) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        let parts = self.parts.clone();
        parts.latch.start_then(task(Some(self)));
    }

    /// Returns the times of the load once its head has arrived; until then, wakes `task` at that
    /// instant. No other task may wait.
    pub(crate) fn done_or_wakes(&self, task: TaskId) -> Option<Flow> {
        let is_over = self.parts.latch.is_over_or_wakes(task);
        is_over.then(|| self.parts.flow.get())
    }

    /// Waits until the head of the load has arrived.
    pub async fn done(self) -> Flow {
        self.parts.latch.wait().await;
        self.parts.flow.get()
    }
}
