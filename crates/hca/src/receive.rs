//! Receive work requests (ibv_post_recv(3)).

use verbena_abi::ibv_sge;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;
use verbena_hca_os::slots::{Slot, Slots};

/// A receive work request taken from its queue.
#[derive(Clone, Debug, Default)]
pub struct Receive {
    /// The application's identifier.
    pub wr_id: u64,
    /// Buffers, in order.
    pub sges: SgeList,
}

impl Slot for Receive {
    fn release(&mut self) {}
}

/// A gather or scatter list. Up to four entries need no allocation.
#[derive(Clone, Debug)]
pub struct SgeList {
    count: u32,
    few: [ibv_sge; 4],
    many: Vec<ibv_sge>,
}

impl Default for SgeList {
    fn default() -> SgeList {
        SgeList {
            count: 0,
            few: [ibv_sge {
                addr: 0,
                length: 0,
                lkey: 0,
            }; 4],
            many: Vec::new(),
        }
    }
}

impl SgeList {
    /// Replaces the list by a copy of the application's.
    #[inline]
    pub fn set(&mut self, sges: &[ibv_sge]) {
        self.count = sges.len() as u32;
        match (sges, self.few.get_mut(..sges.len())) {
            ([one], _) => {
                self.few[0] = *one;
                self.many.clear();
            }
            (_, Some(few)) => {
                few.copy_from_slice(sges);
                self.many.clear();
            }
            (_, None) => {
                self.many.clear();
                self.many.extend_from_slice(sges);
            }
        }
    }

    /// Returns the entries.
    #[inline]
    pub fn as_slice(&self) -> &[ibv_sge] {
        if self.many.is_empty() {
            &self.few[..self.count as usize]
        } else {
            &self.many
        }
    }

    /// Returns the entry, if there is only one.
    #[inline]
    pub fn sole(&self) -> Option<&ibv_sge> {
        let [one, ..] = &self.few;
        (self.count == 1).then_some(one)
    }

    /// Returns the total length in bytes.
    #[inline]
    pub fn length(&self) -> u64 {
        match self.sole() {
            Some(one) => one.length.into(),
            None => self
                .as_slice()
                .iter()
                .map(|sge| u64::from(sge.length))
                .sum(),
        }
    }
}

/// A bounded queue of receive work requests.
#[derive(Debug)]
pub struct ReceiveRing {
    entries: Slots<Receive>,
    capacity: usize,
    max_sge: usize,
}

impl ReceiveRing {
    /// Returns an empty ring.
    pub fn new(capacity: u32, max_sge: u32) -> ReceiveRing {
        ReceiveRing {
            entries: Slots::default(),
            capacity: capacity as usize,
            max_sge: max_sge as usize,
        }
    }

    /// Adds a request.
    ///
    /// # Errors
    /// ENOMEM when full; EINVAL for too many buffers.
    #[inline(always)]
    pub fn post(&mut self, wr_id: u64, sges: &[ibv_sge]) -> Result<()> {
        if self.entries.len() >= self.capacity || sges.len() > self.max_sge {
            return Err(self.refusal_of(sges.len()));
        }
        let entry = self.entries.append();
        entry.wr_id = wr_id;
        entry.sges.set(sges);
        Ok(())
    }

    /// Returns the refusal of a request by [`ReceiveRing::post`].
    #[cold]
    #[inline(never)]
    fn refusal_of(&self, buffers: usize) -> Errno {
        let (capacity, most) = (self.capacity, self.max_sge);
        match self.entries.len() >= capacity {
            true => refused!(
                ENOMEM,
                "{capacity} receive requests are posted, the queue's limit (max_recv_wr, or \
                 max_wr if it is shared): post fewer, or create a larger queue"
            ),
            false => refused!(
                EINVAL,
                "num_sge is {buffers}, and the queue was created for {most} (max_recv_sge, or \
                 max_sge if it is shared)"
            ),
        }
    }

    /// Returns the oldest request.
    #[inline]
    pub fn front(&self) -> Option<&Receive> {
        self.entries.front()
    }

    /// Removes the oldest request, which has been used.
    #[inline]
    pub fn remove_front(&mut self) {
        self.entries.remove_front();
    }

    /// Takes the oldest request.
    #[inline]
    pub fn take(&mut self) -> Option<Receive> {
        self.entries.take_front()
    }

    /// Returns the length of the oldest request's buffers in bytes.
    #[inline]
    pub fn next_length(&self) -> Option<u64> {
        self.entries.front().map(|next| next.sges.length())
    }

    /// Puts a request back to the front that was taken for a message that never arrived. It always
    /// fits: until it is taken again, the ring may hold one more than its capacity.
    pub fn put_back(&mut self, receive: Receive) {
        *self.entries.prepend() = receive;
    }

    /// Removes all requests.
    pub fn clear(&mut self) {
        self.entries.take_all();
    }

    /// Returns the number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.entries.len()
    }

    /// Returns the largest number of requests.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the largest number of requests, which is not below the number of waiting ones.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Returns the largest number of buffers of a request.
    pub fn max_sge(&self) -> usize {
        self.max_sge
    }
}
