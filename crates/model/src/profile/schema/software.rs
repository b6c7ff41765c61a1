//! The software adapter: costs of its code and of the host's caches.

use crate::kernel::Time;
use crate::profile::error::Error;
use crate::profile::quantity::{Bytes, Count, Rate};
use crate::profile::reader::Section;

section! {
    /// The processors of the host.
    Cores {
        /// Number of cores; each process has a core to itself.
        number: Count,
        /// Time from a store on one core until another core that waits for it proceeds.
        line: Time,
    }
}

section! {
    /// Work of the requester's processor for a request that it executes itself, copying excluded.
    OwnWork {
        /// Time to check and execute a request, completion included.
        post: Time,
        /// Time to take a completion.
        poll: Time,
        /// Additional time of an atomic operation.
        atomic: Time,
    }
}

section! {
    /// Messages, which the receiver's processor serves when it polls for completions.
    ChannelWork {
        /// Sender: time to put a short message into the channel.
        send: Time,
        /// Receiver: time to take a short message from the channel and to take and complete a
        /// receive request.
        serve: Time,
        /// Additional time on either side for a long message: the channel holds its descriptor, and
        /// the receiver fetches the data from their location.
        longer: Time,
        /// Sends up to this size are short, and so are those with inline data.
        short: Bytes,
        /// Time to post a receive request.
        receive: Time,
    }
}

section! {
    /// Location of the bytes that a processor copies.
    Caches {
        /// Size of a core's private cache.
        near: Bytes,
        /// Copy rate within the private cache, in bytes read (as many are written).
        near_rate: Rate,
        /// Size of the cache shared by all cores.
        far: Bytes,
        /// Copy rate within the shared cache.
        far_rate: Rate,
        /// Copy rate from memory, of all cores together.
        memory_rate: Rate,
        /// Time until the first byte of a copy from memory arrives.
        memory_latency: Time,
    }
}

/// The software adapter on a host.
#[derive(Debug, Clone)]
pub struct Software {
    /// Description.
    pub about: String,
    /// Processors.
    pub cores: Cores,
    /// Requests executed by the requester.
    pub request: OwnWork,
    /// Requests served by the receiver.
    pub message: ChannelWork,
    /// Caches and memory.
    pub cache: Caches,
}

impl Software {
    pub(super) fn read(root: &Section<'_>) -> Result<Software, Error> {
        Ok(Software {
            about: root.word("about")?,
            cores: Cores::read(&root.expect("cores")?)?,
            request: OwnWork::read(&root.expect("request")?)?,
            message: ChannelWork::read(&root.expect("message")?)?,
            cache: Caches::read(&root.expect("cache")?)?,
        })
    }
}
