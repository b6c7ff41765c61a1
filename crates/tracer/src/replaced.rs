//! The functions that the tracer has replaced, by the object in whose table they were.

use std::collections::BTreeMap;

use verbena_abi::*;

/// Copies of the structures that held them.
pub struct Replaced {
    contexts: BTreeMap<usize, Box<verbs_context>>,
    builders: BTreeMap<usize, Box<ibv_qp_ex>>,
    readers: BTreeMap<usize, Box<ibv_cq_ex>>,
}

// SAFETY: the pointers in the copies are never dereferenced; only the functions are used.
unsafe impl Send for Replaced {}

impl Replaced {
    pub const fn new() -> Self {
        Replaced {
            contexts: BTreeMap::new(),
            builders: BTreeMap::new(),
            readers: BTreeMap::new(),
        }
    }

    /// Stores a context's table. Returns false if it is stored already: replacing it twice would
    /// make the tracer call itself.
    pub fn add_context(&mut self, context: *mut ibv_context, slots: verbs_context) -> bool {
        add(&mut self.contexts, context.addr(), slots)
    }

    /// Returns a context's table.
    pub fn context(&self, context: *mut ibv_context) -> Option<&verbs_context> {
        self.contexts.get(&context.addr()).map(|copy| &**copy)
    }

    /// Removes the table of a closed context.
    pub fn remove_context(&mut self, context: *mut ibv_context) {
        self.contexts.remove(&context.addr());
    }

    /// Stores a queue pair's table; returns false if it is stored already.
    pub fn add_builder(&mut self, qp: *mut ibv_qp_ex, slots: ibv_qp_ex) -> bool {
        add(&mut self.builders, qp.addr(), slots)
    }

    /// Returns a queue pair's table.
    pub fn builder(&self, qp: *mut ibv_qp_ex) -> Option<&ibv_qp_ex> {
        self.builders.get(&qp.addr()).map(|copy| &**copy)
    }

    /// Removes the table of a destroyed queue pair, whose extended form has the same address.
    pub fn remove_builder(&mut self, qp: *mut ibv_qp) {
        self.builders.remove(&qp.addr());
    }

    /// Stores a completion queue's table; returns false if it is stored already.
    pub fn add_reader(&mut self, cq: *mut ibv_cq_ex, slots: ibv_cq_ex) -> bool {
        add(&mut self.readers, cq.addr(), slots)
    }

    /// Returns a completion queue's table.
    pub fn reader(&self, cq: *mut ibv_cq_ex) -> Option<&ibv_cq_ex> {
        self.readers.get(&cq.addr()).map(|copy| &**copy)
    }

    /// Removes the table of a destroyed completion queue, whose extended form has the same address.
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
