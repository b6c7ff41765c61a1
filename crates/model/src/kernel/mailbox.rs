//! Queues of messages between tasks.

use super::executor::Sim;
use super::records::TaskId;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

struct MessageQueue<T> {
    sim: Sim,
    letters: RefCell<Short<T>>,
    waiting: RefCell<Short<TaskId>>,
}

/// A queue that has no element or one most of the time: the first needs no allocation.
struct Short<T> {
    first: Option<T>,
    /// Empty if there is no first.
    others: VecDeque<T>,
}

impl<T> Short<T> {
    const fn new() -> Short<T> {
        Short {
            first: None,
            others: VecDeque::new(),
        }
    }

    fn push(&mut self, element: T) {
        match self.first {
            None => self.first = Some(element),
            Some(_) => self.others.push_back(element),
        }
    }

    fn pop(&mut self) -> Option<T> {
        let first = self.first.take();
        if first.is_some() && !self.others.is_empty() {
            self.first = self.others.pop_front();
        }
        first
    }

    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }
}

/// An unbounded queue of messages.
pub struct Mailbox<T>(Rc<MessageQueue<T>>);

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Mailbox(self.0.clone())
    }
}

impl<T> Mailbox<T> {
    /// Creates an empty mailbox.
    pub fn new(sim: &Sim) -> Mailbox<T> {
        Mailbox(Rc::new(MessageQueue {
            sim: sim.clone(),
            letters: RefCell::new(Short::new()),
            waiting: RefCell::new(Short::new()),
        }))
    }

    /// Adds a message.
    pub fn send(&self, letter: T) {
        self.0.letters.borrow_mut().push(letter);
        if let Some(task) = self.0.waiting.borrow_mut().pop() {
            self.0.sim.wake(task);
        }
    }

    /// Takes the oldest message, if there is one.
    pub fn try_receive(&self) -> Option<T> {
        self.0.letters.borrow_mut().pop()
    }

    /// Waits for a message.
    pub async fn receive(&self) -> T {
        poll_fn(|_| match self.0.letters.borrow_mut().pop() {
            Some(letter) => Poll::Ready(letter),
            None => {
                let task = self.0.sim.current();
                let mut waiting = self.0.waiting.borrow_mut();
                if waiting.first != Some(task) && !waiting.others.contains(&task) {
                    waiting.push(task);
                }
                Poll::Pending
            }
        })
        .await
    }

    /// Returns the number of queued messages.
    pub fn len(&self) -> usize {
        self.0.letters.borrow().len()
    }

    /// Returns whether no message is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::time::Time;
    use super::*;

    #[test]
    fn a_mailbox_keeps_message_order() {
        let sim = Sim::new();
        let mailbox = Mailbox::new(&sim);
        let (own, sender) = (sim.clone(), mailbox.clone());
        sim.start(async move {
            for n in 0..4 {
                own.sleep(Time(5)).await;
                sender.send(n);
            }
        });
        let got = sim.block_on(async move {
            let mut got = Vec::new();
            for _ in 0..4 {
                got.push(mailbox.receive().await);
            }
            got
        });
        assert_eq!(got, Ok(vec![0, 1, 2, 3]));
    }
}
