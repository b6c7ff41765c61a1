//! The functions that stood where the tracer's stand now, by the object in whose tables they stood.

use std::collections::BTreeMap;

use verbena_abi::*;

/// All of them, as copies of the structures that hold them.
pub struct Replaced {
    contexts: BTreeMap<usize, Box<verbs_context>>,
    builders: BTreeMap<usize, Box<ibv_qp_ex>>,
    readers: BTreeMap<usize, Box<ibv_cq_ex>>,
}

// SAFETY: the pointers in the copies are never followed; what is used of them are the functions.
unsafe impl Send for Replaced {}

impl Replaced {
    /// None.
    pub const fn new() -> Self {
        Replaced {
            contexts: BTreeMap::new(),
            builders: BTreeMap::new(),
            readers: BTreeMap::new(),
        }
    }

    /// Remembers a context's. Whether it was unknown: what is replaced once must not be replaced again, or the tracer
    /// would call itself.
    pub fn add_context(&mut self, context: *mut ibv_context, slots: verbs_context) -> bool {
        add(&mut self.contexts, context.addr(), slots)
    }

    /// A context's.
    pub fn context(&self, context: *mut ibv_context) -> Option<&verbs_context> {
        self.contexts.get(&context.addr()).map(|copy| &**copy)
    }

    /// The context is closed.
    pub fn remove_context(&mut self, context: *mut ibv_context) {
        self.contexts.remove(&context.addr());
    }

    /// Remembers a queue pair's.
    pub fn add_builder(&mut self, qp: *mut ibv_qp_ex, slots: ibv_qp_ex) -> bool {
        add(&mut self.builders, qp.addr(), slots)
    }

    /// A queue pair's.
    pub fn builder(&self, qp: *mut ibv_qp_ex) -> Option<&ibv_qp_ex> {
        self.builders.get(&qp.addr()).map(|copy| &**copy)
    }

    /// The queue pair is destroyed. It and its extended form have one address.
    pub fn remove_builder(&mut self, qp: *mut ibv_qp) {
        self.builders.remove(&qp.addr());
    }

    /// Remembers a completion queue's.
    pub fn add_reader(&mut self, cq: *mut ibv_cq_ex, slots: ibv_cq_ex) -> bool {
        add(&mut self.readers, cq.addr(), slots)
    }

    /// A completion queue's.
    pub fn reader(&self, cq: *mut ibv_cq_ex) -> Option<&ibv_cq_ex> {
        self.readers.get(&cq.addr()).map(|copy| &**copy)
    }

    /// The completion queue is destroyed. It and its extended form have one address.
    pub fn remove_reader(&mut self, cq: *mut ibv_cq) {
        self.readers.remove(&cq.addr());
    }
}

fn add<T>(table: &mut BTreeMap<usize, Box<T>>, address: usize, slots: T) -> bool {
    let unknown = !table.contains_key(&address);
    if unknown {
        table.insert(address, Box::new(slots));
    }
    unknown
}
