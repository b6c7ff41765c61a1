//! The queue pair by which an interface sends management datagrams to subnet administration.

use std::sync::Arc;

use verbena_verbs::qp::PairType;
use verbena_verbs::qp::attributes::Path;
use verbena_verbs::qp::builder::PairOptions;
use verbena_verbs::{
    AccessFlags, AddressHandle, Buffer, Channel, CompletionQueue, Context, Opcode,
    ProtectionDomain, QueuePair, Region, Scratch, SendFlags, SendTarget, WorkCompletion,
};

use crate::adapter::{BATCH, ROUTE};
use crate::administration::Administration;
use crate::administration::record::Datagram;

/// Queue pair of a port's management, and its queue key (InfiniBand 10.2.5).
const QUEUE_PAIR: u32 = 1;
pub const QUEUE_KEY: u32 = 0x8001_0000;
/// Requests in flight, and receives.
const SENDS: usize = 64;
const RECEIVES: usize = 256;
/// The bit of a request's id that marks a receive.
const RECEIVE: u64 = 1 << 63;
const LENGTH: usize = size_of::<Datagram>();

/// The queue pair and its memory.
pub struct Management {
    domain: Arc<ProtectionDomain>,
    pair: QueuePair,
    completions: Arc<CompletionQueue>,
    requests: Region,
    free: Vec<u64>,
    receives: Region,
    scratch: Scratch,
    address: Option<(Path, Arc<AddressHandle>)>,
}

impl Management {
    /// Makes the queue pair in RESET.
    ///
    /// # Errors
    ///
    /// A verbs call fails.
    pub fn new(
        context: &Arc<Context>,
        domain: &Arc<ProtectionDomain>,
        channel: &Arc<Channel>,
    ) -> verbena_verbs::Result<Management> {
        let completions = context.completion_queue((SENDS + RECEIVES) as u32, Some(channel))?;
        let options = PairOptions {
            send_depth: SENDS as u32,
            receive_depth: RECEIVES as u32,
            ..PairOptions::new(domain, PairType::Ud, &completions)
        };
        let memory = |count: usize, size: usize| {
            domain.register(Buffer::allocate(count * size)?, AccessFlags::LOCAL)
        };
        Ok(Management {
            domain: Arc::clone(domain),
            pair: options.create()?,
            requests: memory(SENDS, LENGTH)?,
            free: (0..SENDS as u64).collect(),
            receives: memory(RECEIVES, ROUTE + LENGTH)?,
            completions,
            scratch: Scratch::new(),
            address: None,
        })
    }

    /// Returns the queue pair, which has to be taken to RTS.
    pub fn pair(&self) -> &QueuePair {
        &self.pair
    }

    /// Posts the receives.
    pub fn start_receiving(&self) {
        (0..RECEIVES as u64).for_each(|index| self.post_receive(index));
    }

    fn post_receive(&self, index: u64) {
        let size = ROUTE + LENGTH;
        if let Some(segment) = self.receives.part(index as usize * size, size) {
            // Refused only if the queue pair has failed, and then nothing is received.
            let _ = self.pair.post_receive_one(RECEIVE | index, segment);
        }
    }

    /// Sends a datagram to the management of a port. Returns `false` if it can be sent later. One
    /// that the adapter refuses counts as lost.
    fn send(&mut self, to: &Path, datagram: &Datagram) -> bool {
        let Some(slot) = self.free.pop() else {
            return false;
        };
        if self.post(to, slot, datagram).is_none() {
            self.free.push(slot);
        }
        true
    }

    fn post(&mut self, to: &Path, slot: u64, datagram: &Datagram) -> Option<()> {
        let known = self.address.take_if(|(known, _)| known == to);
        let address = match known {
            Some((_, address)) => address,
            None => self.domain.address_handle(to).ok()?,
        };
        self.address = Some((*to, Arc::clone(&address)));
        let at = slot as usize * LENGTH;
        self.requests.write(at, datagram).ok()?;
        let segment = self.requests.part(at, LENGTH)?;
        let work = (slot, Opcode::Send, SendFlags::SIGNALED);
        let target = SendTarget::Datagram(&address, QUEUE_PAIR, QUEUE_KEY);
        let posted = self.pair.post_one(&mut self.scratch, work, segment, target);
        posted.ok()
    }

    /// Exchanges datagrams with the administration of a subnet.
    ///
    /// # Errors
    ///
    /// The adapter fails.
    pub fn exchange(
        &mut self,
        to: &Path,
        with: &mut Administration,
        now: u64,
    ) -> verbena_verbs::Result<()> {
        if with.is_asking() {
            self.receive(|datagram| with.receive(datagram, now))?;
        }
        while let Some(datagram) = with.next_datagram()
            && self.send(to, datagram)
        {
            with.note_sent();
        }
        Ok(())
    }

    /// Takes completions, at most as many as fit into the queue, and passes received datagrams on.
    fn receive(&mut self, mut each: impl FnMut(&Datagram)) -> verbena_verbs::Result<()> {
        let mut completions = [WorkCompletion::default(); BATCH];
        let mut datagram = [0; LENGTH];
        for _ in 0..(SENDS + RECEIVES).div_ceil(BATCH) {
            let count = self.completions.poll(&mut completions, |one| *one)?;
            for completion in &completions[..count] {
                if completion.id & RECEIVE == 0 {
                    self.free.push(completion.id);
                    continue;
                }
                let index = completion.id & !RECEIVE;
                let at = index as usize * (ROUTE + LENGTH) + ROUTE;
                let is_whole = completion.length as usize == ROUTE + LENGTH;
                if completion.status.is_success()
                    && is_whole
                    && self.receives.read(at, &mut datagram).is_ok()
                {
                    each(&datagram);
                }
                self.post_receive(index);
            }
            if count < BATCH {
                break;
            }
        }
        Ok(())
    }

    /// Requests an event for the next completion.
    ///
    /// # Errors
    ///
    /// The adapter fails.
    pub fn arm(&self) -> verbena_verbs::Result<()> {
        self.completions.arm()
    }
}
