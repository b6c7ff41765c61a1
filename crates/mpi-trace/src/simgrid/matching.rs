//! Matches messages with receives as MPI does: in order per sender and tag, and a receive from any
//! rank or with any tag takes the first message that arrived.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// A message on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub from: usize,
    pub tag: u32,
    pub bytes: u64,
    /// Index of the step that sent it, on the sender.
    pub step: usize,
}

/// Source and tag of a receive; `None` for any.
pub(super) type Pattern = (Option<usize>, Option<u32>);

/// The messages to a rank and its receives.
#[derive(Debug)]
pub(super) struct Mailbox<T> {
    /// Messages without a receive, by order of arrival.
    messages: BTreeMap<u64, Message>,
    /// Numbers of these messages by the patterns that match them; some have been taken since.
    waiting: HashMap<Pattern, VecDeque<u64>>,
    /// Receives without a message, in order.
    posted: HashMap<Pattern, VecDeque<(u64, T)>>,
    /// Whether the rank receives from any rank, with any tag.
    wildcards: (bool, bool),
    next: u64,
}

impl<T> Mailbox<T> {
    /// Creates a mailbox of a rank that receives from any rank, or with any tag, or both.
    pub fn new(wildcards: (bool, bool)) -> Mailbox<T> {
        Mailbox {
            messages: BTreeMap::new(),
            waiting: HashMap::new(),
            posted: HashMap::new(),
            wildcards,
            next: 0,
        }
    }

    fn patterns(&self, message: &Message) -> impl Iterator<Item = Pattern> + use<T> {
        let (source, tag) = (Some(message.from), Some(message.tag));
        let (any_source, any_tag) = self.wildcards;
        [
            (true, (source, tag)),
            (any_tag, (source, None)),
            (any_source, (None, tag)),
            (any_source && any_tag, (None, None)),
        ]
        .into_iter()
        .filter_map(|(is_used, pattern)| is_used.then_some(pattern))
    }

    /// Delivers a message; returns the receive that takes it.
    pub fn deliver(&mut self, message: Message) -> Option<T> {
        let first = |pattern: &Pattern| {
            let queue = self.posted.get(pattern)?;
            queue.front().map(|&(number, _)| number)
        };
        let matching = self
            .patterns(&message)
            .filter_map(|pattern| first(&pattern).map(|number| (number, pattern)));
        if let Some((_, pattern)) = matching.min_by_key(|&(number, _)| number) {
            let queue = self.posted.get_mut(&pattern)?;
            return queue.pop_front().map(|(_, receive)| receive);
        }
        let number = self.next;
        self.next += 1;
        self.messages.insert(number, message);
        for pattern in self.patterns(&message) {
            self.waiting.entry(pattern).or_default().push_back(number);
        }
        None
    }

    /// Posts a receive; returns its message if it has arrived.
    pub fn post(&mut self, pattern: Pattern, receive: T) -> Option<Message> {
        if let Some(queue) = self.waiting.get_mut(&pattern) {
            while let Some(number) = queue.pop_front() {
                if let Some(message) = self.messages.remove(&number) {
                    return Some(message);
                }
            }
        }
        let number = self.next;
        self.next += 1;
        let queue = self.posted.entry(pattern).or_default();
        queue.push_back((number, receive));
        None
    }

    /// Returns the first message without a receive.
    pub fn unreceived(&self) -> Option<&Message> {
        self.messages.values().next()
    }
}
