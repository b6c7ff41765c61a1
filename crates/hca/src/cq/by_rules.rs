//! Completion queues with rules ([`crate::causes::queues`]).

use super::{Adapter, Arm, Completion, Cq, OnOverrun};
use crate::causes::delay_line;
use crate::causes::queues::QueueRules;
use crate::event::CompletionChannel;
use std::sync::Arc;
use verbena_abi::ibv_wc;
use verbena_faults::queue::QueueFault;
use verbena_hca_os::clock;

impl<A: Adapter> Cq<A> {
    /// Returns whether rules are about the queue.
    pub fn has_rules(&self) -> bool {
        self.rules.is_some()
    }

    /// As [`Cq::poll`], by the rules.
    pub fn poll_by_rules(&self, target: &mut [ibv_wc]) -> usize {
        match self.next_poll() {
            None if !self.has_some() => 0,
            None => self.poll(target),
            Some(QueueFault::Empty) => 0,
            Some(_) => {
                let most = target.len().min(1);
                let polled = self.poll(&mut target[..most]);
                self.show_rest();
                polled
            }
        }
    }

    /// As [`Cq::take`], for the first completion of a batch.
    pub fn take_first_by_rules(&self) -> Option<Completion<'static>> {
        match self.next_poll() {
            Some(QueueFault::Empty) => None,
            _ => self.take(),
        }
    }

    /// As [`Cq::take`], for the next completion of a batch.
    pub fn take_next_by_rules(&self) -> Option<Completion<'static>> {
        match &self.rules {
            Some(rules) if rules.is_single() => {
                self.show_rest();
                None
            }
            _ => self.take(),
        }
    }

    /// Returns the fault of a poll, if it finds a completion.
    fn next_poll(&self) -> Option<QueueFault> {
        let rules = self.rules.as_ref()?;
        if !self.has_some() {
            return None;
        }
        let fault = rules.next_poll();
        if fault == Some(QueueFault::Empty) {
            self.show_rest();
        }
        fault
    }

    /// Raises an event if the queue is armed and not empty: to the program, which has polled fewer
    /// completions than there are, the others are added only now.
    fn show_rest(&self) {
        let filling = self.push.lock();
        if filling.arm != Arm::No && !self.is_empty() {
            self.raise(filling);
        }
    }

    /// Returns whether a rule has the completion overrun the queue that is added.
    #[cold]
    pub(super) fn overruns_by_rule(&self) -> bool {
        let may_fail = self.on_overrun == OnOverrun::Fail;
        let rules = self.rules.as_ref().filter(|_| may_fail);
        rules.is_some_and(|rules| rules.overruns())
    }

    /// Raises an event by the rules.
    #[cold]
    pub(super) fn raise_by_rules(
        &self,
        rules: &Arc<QueueRules>,
        channel: &Arc<CompletionChannel>,
        cookie: usize,
    ) {
        let fault = rules.next_event();
        if let Some(QueueFault::Delay(time)) = fault {
            let (late_rules, late_channel) = (rules.clone(), channel.clone());
            let at = clock::now() + time.as_nanos() as u64;
            let raise = move || late_rules.raise(|| late_channel.push(cookie));
            if delay_line::send_at(at, raise) {
                return;
            }
            // It cannot be late, and must not be lost.
        }
        channel.push(cookie);
        if fault == Some(QueueFault::Spurious) {
            channel.push(cookie);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::cq::{CqInit, CqPush};
    use crate::device::Device;

    #[test]
    fn a_queue_without_rules_polls_as_usual() {
        let context = Context::open(Device::FIRST).unwrap();
        let init = CqInit {
            entries: 4,
            ..CqInit::default()
        };
        let cq = Cq::create_with(&context.process, &context.events, init).unwrap();
        assert!(!cq.has_rules());
        let mut target = [ibv_wc::default(); 4];
        assert_eq!(cq.poll_by_rules(&mut target), 0);
        for _ in 0..3 {
            let pushed = cq.push(Completion::received(ibv_wc::default()), false);
            assert_eq!(pushed, CqPush::Stored);
        }
        assert_eq!(cq.poll_by_rules(&mut target[..2]), 2);
        assert!(cq.take_first_by_rules().is_some());
        assert!(cq.take_next_by_rules().is_none());
    }
}
