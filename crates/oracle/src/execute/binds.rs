//! The keys that posted binds give their windows: each is the window's from the bind's success on, so a bind that fails
//! leaves the key that was there before it.

use super::message::Fact;
use super::objects::Objects;
use crate::program::MwId;
use std::collections::HashMap;

/// A bind that was posted.
struct Posted {
    window: MwId,
    before: u32,
    key: u32,
}

/// Binds that have not failed yet, by `wr_id`.
#[derive(Default)]
pub struct Binds(HashMap<u64, Posted>);

impl Objects {
    /// The next key of a window, whose low byte is the program's (10.6.7.2.5), for a bind that is posted now.
    pub fn next_key(&mut self, id: u64, window: MwId) -> u32 {
        let before = self.fact(Fact::MwKey, window.0);
        let key = before & !0xff | before.wrapping_add(1) & 0xff;
        self.posted_bind(id, window, key);
        key
    }

    /// A bind was posted that gives a window this key.
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

    /// A request has failed, or was not taken: if it was a bind, its window has the key of before, and so would a bind that
    /// was posted behind it find it.
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
