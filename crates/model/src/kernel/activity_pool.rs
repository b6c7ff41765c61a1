//! Reuses the memory of finished activities for new ones of the same type. Every message starts a
//! handful of activities of some hundred bytes each; allocating and freeing them in different
//! orders took a fifth of the time of a large simulation.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A task's future, or nothing once it has ended.
pub(super) trait Activity {
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()>;

    /// Drops the activity and returns its memory to the pool.
    fn end(self: Pin<Box<Self>>, pool: &ActivityPool);
}

impl<F: Future<Output = ()> + 'static> Activity for Option<F> {
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let activity = self.as_pin_mut();
        activity.expect("an ended box is in the pool").poll(context)
    }

    fn end(mut self: Pin<Box<Self>>, pool: &ActivityPool) {
        self.set(None);
        pool.give_back(self);
    }
}

/// Free boxes for activities of one type.
type Boxes<F> = Vec<Pin<Box<Option<F>>>>;

/// Identity hasher: a type ID is already well distributed.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// Boxes of finished activities, by type.
#[derive(Default)]
pub(super) struct ActivityPool(RefCell<HashMap<TypeId, Box<dyn Any>, BuildHasherDefault<AsItIs>>>);

impl ActivityPool {
    /// Boxes `future`, reusing memory if possible.
    pub fn boxed<F: Future<Output = ()> + 'static>(&self, future: F) -> Pin<Box<dyn Activity>> {
        match self.with(|boxes: &mut Boxes<F>| boxes.pop()) {
            Some(mut used) => {
                used.set(Some(future));
                used
            }
            None => Box::pin(Some(future)),
        }
    }

    fn give_back<F: Future<Output = ()> + 'static>(&self, empty: Pin<Box<Option<F>>>) {
        self.with(|boxes: &mut Boxes<F>| boxes.push(empty));
    }

    fn with<F: 'static, T>(&self, ask: impl FnOnce(&mut Boxes<F>) -> T) -> T {
        let mut all = self.0.borrow_mut();
        let made = || Box::new(Boxes::<F>::new());
        let boxes = all.entry(TypeId::of::<F>()).or_insert_with(|| made());
        ask(boxes.downcast_mut().expect("boxes are kept by their type"))
    }

    /// Frees all memory.
    pub fn clear(&self) {
        self.0.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use std::task::Waker;

    /// An activity that holds a value and ends at its first poll.
    fn holding(held: &Rc<()>) -> impl Future<Output = ()> + 'static {
        let held = held.clone();
        async move { drop(held) }
    }

    #[test]
    fn memory_of_ended_tasks_is_reused_only_by_their_kind() {
        let (pool, held) = (ActivityPool::default(), Rc::new(()));
        let address = |task: &Pin<Box<dyn Activity>>| std::ptr::from_ref(&**task).cast::<u8>();
        let one = pool.boxed(holding(&held));
        let first = address(&one);
        assert_eq!(Rc::strong_count(&held), 2);
        // Not polled; its value is dropped all the same.
        one.end(&pool);
        assert_eq!(Rc::strong_count(&held), 1);
        let other = pool.boxed(async { std::future::pending().await });
        assert_ne!(address(&other), first);
        let mut again = pool.boxed(holding(&held));
        assert_eq!(address(&again), first);
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(again.as_mut().poll(&mut context), Poll::Ready(()));
        assert_eq!(Rc::strong_count(&held), 1);
    }
}
