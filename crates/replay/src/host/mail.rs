//! Messages between the ranks of a host.

use std::collections::{HashMap, VecDeque};

/// A message: either sent completely, or its sender waits for the receiver.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    pub bytes: u64,
    /// Number of the sender's announcement, if it waits.
    pub waits: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Mail {
    /// Messages in order, by receiver, sender and mark.
    messages: HashMap<(usize, usize, u32), VecDeque<Message>>,
    /// For each announcement, whether the receiver has taken the message.
    taken: Vec<bool>,
}

impl Mail {
    /// Announces a message that the receiver has to take; returns the announcement's number.
    pub fn announce(&mut self) -> usize {
        self.taken.push(false);
        self.taken.len() - 1
    }

    pub fn send(&mut self, to: usize, from: usize, mark: u32, message: Message) {
        let messages = self.messages.entry((to, from, mark)).or_default();
        messages.push_back(message);
    }

    pub fn receive(&mut self, to: usize, from: usize, mark: u32) -> Option<Message> {
        self.messages.get_mut(&(to, from, mark))?.pop_front()
    }

    /// Marks a received message as taken; returns whether its sender waited for it.
    pub fn take(&mut self, message: Message) -> bool {
        if let Some(announcement) = message.waits {
            self.taken[announcement] = true;
        }
        message.waits.is_some()
    }

    /// Returns whether an announced message was taken.
    pub fn is_taken(&self, announcement: usize) -> bool {
        self.taken[announcement]
    }
}
