//! Keys of posted binds: a key is the window's from the bind's success on, so a failed bind leaves
//! the previous key valid.

use super::message::Fact;
use super::objects::Objects;
use crate::program::MwId;
use std::collections::HashMap;

struct Posted {
    window: MwId,
    before: u32,
    key: u32,
}

/// Binds that have not failed yet, by `wr_id`.
#[derive(Default)]
pub struct Binds(HashMap<u64, Posted>);

impl Objects {
    /// Returns the next key of a window, whose low byte belongs to the program (10.6.7.2.5), and
    /// records a bind with it.
    pub fn next_key(&mut self, id: u64, window: MwId) -> u32 {
        let before = self.fact(Fact::MwKey, window.0);
        let key = before & !0xff | before.wrapping_add(1) & 0xff;
        self.posted_bind(id, window, key);
        key
    }

    /// Records a posted bind that gives the window this key.
    pub fn posted_bind(&mut self, id: u64, window: MwId, key: u32) {
        let before = self.fact(Fact::MwKey, window.0);
        self.facts.insert((Fact::MwKey, window.0), key.into());
        let posted = Posted {
            window,
            before,
            key,
        };
        self.binds.0.insert(id, posted);
    }

    /// Records a failed or refused request: if it was a bind, restores the window's previous key,
    /// also for binds posted behind it.
    pub fn take_key_back(&mut self, id: u64) {
        let Some(failed) = self.binds.0.remove(&id) else {
            return;
        };
        for later in self.binds.0.values_mut() {
            if later.window == failed.window && later.before == failed.key {
                later.before = failed.before;
            }
        }
        if self.fact(Fact::MwKey, failed.window.0) == failed.key {
            self.facts
                .insert((Fact::MwKey, failed.window.0), failed.before.into());
        }
    }
}
