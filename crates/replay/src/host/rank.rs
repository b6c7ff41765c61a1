//! A rank: its program, and the operations it has begun.
//!
//! A library makes progress only in calls. Begun operations therefore advance while the rank waits
//! for anything, but not while it computes; only messages that can be sent at once are sent when
//! they are begun.

use super::costs::Costs;
use super::mail::{Mail, Message};
use super::operation::{Operation, Sending};
use crate::player::{Player, play};
use crate::program::{Act, Program};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use verbena_model::kernel::Time;

/// Effect of the work on an end of a message, once the work is done.
#[derive(Debug, Clone, Copy)]
enum Effect {
    /// The message is sent.
    Sent {
        to: usize,
        mark: u32,
        message: Message,
    },
    /// The message is received.
    Received { from: usize, message: Message },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It needs the processor for this time.
    Work(Time),
    /// It polls for progress of others.
    Waits,
    /// It has ended.
    Ended,
}

/// A rank during the run.
pub(super) struct Rank<'a> {
    state: Rc<State<'a>>,
    /// The rest of its program.
    program: Option<Pin<Box<dyn Future<Output = ()> + 'a>>>,
    /// The time when its last step was over.
    pub end: Option<Time>,
}

/// The state of a rank that its program changes.
struct State<'a> {
    number: usize,
    scale: f64,
    costs: &'a Costs,
    mail: &'a RefCell<Mail>,
    /// Begun operations, in the order of their numbers.
    operations: RefCell<Vec<Operation>>,
    /// Number of operations that it has begun.
    begun: Cell<usize>,
    /// The remaining work, and its effect.
    left: Cell<Time>,
    effect: Cell<Option<Effect>>,
    /// Number of message ends since it computed.
    ends: Cell<usize>,
    /// The call that it waits in.
    call: Cell<usize>,
    /// Its computing time so far.
    computing: Cell<Time>,
}

impl<'a> Rank<'a> {
    pub fn new(
        number: usize,
        program: Program,
        scale: f64,
        costs: &'a Costs,
        mail: &'a RefCell<Mail>,
    ) -> Rank<'a> {
        let state = Rc::new(State {
            number,
            scale,
            costs,
            mail,
            operations: RefCell::default(),
            begun: Cell::default(),
            left: Cell::default(),
            effect: Cell::default(),
            ends: Cell::default(),
            call: Cell::default(),
            computing: Cell::default(),
        });
        let own = state.clone();
        Rank {
            state,
            program: Some(Box::pin(async move { play(&*own, program).await })),
            end: None,
        }
    }

    /// Returns the call that it waits in.
    pub fn call(&self) -> usize {
        self.state.call.get()
    }

    /// Returns its computing time so far.
    pub fn computing(&self) -> Time {
        self.state.computing.get()
    }

    /// Accounts for work of this duration. Returns the rank that can go on because of it, if any.
    pub fn worked(&mut self, span: Time) -> Option<usize> {
        let state = &self.state;
        state.left.set(state.left.get().since(span));
        if state.left.get() > Time::ZERO {
            return None;
        }
        let mut mail = state.mail.borrow_mut();
        match state.effect.take()? {
            Effect::Sent { to, mark, message } => {
                mail.send(to, state.number, mark, message);
                Some(to)
            }
            Effect::Received { from, message } => mail.take(message).then_some(from),
        }
    }

    /// Returns the rank's next state.
    pub fn next(&mut self, now: Time) -> Next {
        loop {
            let left = self.state.left.get();
            if left > Time::ZERO {
                return Next::Work(left);
            }
            if let Some(program) = &mut self.program {
                // The program pauses for work and while it waits.
                let mut context = Context::from_waker(Waker::noop());
                match program.as_mut().poll(&mut context) {
                    Poll::Ready(()) => self.program = None,
                    Poll::Pending if self.state.left.get() == Time::ZERO => return Next::Waits,
                    Poll::Pending => (),
                }
                continue;
            }
            self.end.get_or_insert(now);
            if !self.state.advance() {
                return match self.state.operations.borrow().is_empty() {
                    true => Next::Ended,
                    false => Next::Waits,
                };
            }
        }
    }
}

impl Player for State<'_> {
    /// The number of the operation.
    type Begun = usize;

    async fn compute(&self, nanos: u64) {
        let span = Time::from_nanos(nanos as f64 * self.scale);
        self.computing.set(self.computing.get() + span);
        if nanos >= LONG {
            self.ends.set(0);
        }
        self.work(span).await;
    }

    async fn begin(&self, act: Act) -> usize {
        let number = self.begun.replace(self.begun.get() + 1);
        let mut operation = Operation::new(number, act, self.costs);
        let span = self.send(&mut operation);
        self.operations.borrow_mut().push(operation);
        self.work(span).await;
        number
    }

    async fn wait(&self, mut begun: Vec<usize>, call: usize) {
        self.call.set(call);
        self.settle();
        loop {
            self.retain_unfinished(&mut begun);
            if begun.is_empty() {
                return;
            }
            self.left.set(self.first_work());
            pause().await;
            self.settle();
        }
    }
}

impl State<'_> {
    /// Works for this time.
    async fn work(&self, span: Time) {
        if span > Time::ZERO {
            self.left.set(span);
            pause().await;
        }
    }

    fn retain_unfinished(&self, begun: &mut Vec<usize>) {
        let operations = self.operations.borrow();
        begun.retain(|number| {
            let found = operations.binary_search_by_key(number, |operation| operation.number);
            found.is_ok()
        });
    }

    /// Takes up the first possible work for any begun operation; returns whether there is any.
    fn advance(&self) -> bool {
        self.settle();
        self.left.set(self.first_work());
        self.left.get() > Time::ZERO
    }

    fn settle(&self) {
        let (mail, mut operations) = (self.mail.borrow(), self.operations.borrow_mut());
        operations.iter_mut().for_each(|one| one.settle(&mail));
        operations.retain(|one| !one.is_done());
    }

    /// Returns the duration of the first possible work for any begun operation.
    fn first_work(&self) -> Time {
        let mut operations = self.operations.borrow_mut();
        let mut spans = operations.iter_mut().map(|one| self.some(one));
        spans.find(|span| *span > Time::ZERO).unwrap_or_default()
    }

    fn some(&self, operation: &mut Operation) -> Time {
        if let Some(span) = operation.reaching.take() {
            return span;
        }
        let sent = self.send(operation);
        if sent > Time::ZERO {
            return sent;
        }
        let Some(from) = operation.receiving else {
            return Time::ZERO;
        };
        let came = self
            .mail
            .borrow_mut()
            .receive(self.number, from, operation.mark);
        let Some(message) = came else {
            return Time::ZERO;
        };
        operation.receiving = None;
        self.effect.set(Some(Effect::Received { from, message }));
        let before = self.one_more_end();
        match message.waits {
            None => self.costs.end(message.bytes, before),
            Some(_) => self.costs.transfer(message.bytes, before),
        }
    }

    /// Counts an end of a message; returns the number before it.
    fn one_more_end(&self) -> usize {
        self.ends.replace(self.ends.get() + 1)
    }

    fn send(&self, operation: &mut Operation) -> Time {
        let Sending::Unsent { to, bytes } = operation.sending else {
            return Time::ZERO;
        };
        let is_eager = bytes <= self.costs.eager;
        let waits = (!is_eager).then(|| self.mail.borrow_mut().announce());
        operation.sending = waits.map_or(Sending::Nothing, Sending::Announced);
        let (mark, message) = (operation.mark, Message { bytes, waits });
        self.effect.set(Some(Effect::Sent { to, mark, message }));
        // A sender that waits for the receiver has only announced the message so far.
        self.costs
            .end(if is_eager { bytes } else { 0 }, self.one_more_end())
    }
}

/// Suspends a program once.
async fn pause() {
    let mut paused = false;
    poll_fn(|_| match std::mem::replace(&mut paused, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// Computing of at least this many nanoseconds displaces a message's cache lines.
const LONG: u64 = 20_000;
