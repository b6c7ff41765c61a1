//! The software adapter: what its code and the host's caches take.

use super::{Bytes, Count, Error, Field, Rate, Section, Time};

section! {
    /// The processors of its host.
    Cores {
        /// How many; a process has one for itself.
        number: Count,
        /// From a store on one core until another that waits for it goes on.
        line: Time,
    }
}

section! {
    /// What the requester's processor does for a request that it executes itself, beside moving the bytes.
    OwnWork {
        /// Checking and executing a request, its completion included.
        post: Time,
        /// Taking a completion.
        poll: Time,
        /// What an atomic takes longer.
        atomic: Time,
    }
}

section! {
    /// Messages, which the receiver's processor serves when it looks for completions.
    ChannelWork {
        /// The sender's: a short message put into the channel.
        send: Time,
        /// The receiver's: a short message taken from the channel, a receive request taken and completed.
        serve: Time,
        /// What either side takes longer for what is not short: it is described in the channel, and fetched from where it is.
        longer: Time,
        /// Sends up to so many bytes are short, and those whose bytes are inline.
        short: Bytes,
        /// Posting a receive request.
        receive: Time,
    }
}

section! {
    /// Where the bytes are that a processor moves.
    Caches {
        /// Bytes that a core has for itself.
        near: Bytes,
        /// Copying what is there: bytes read, as many written.
        near_rate: Rate,
        /// Bytes of the cache that all cores share.
        far: Bytes,
        /// Copying what is there.
        far_rate: Rate,
        /// Copying what is in memory, all cores together.
        memory_rate: Rate,
        /// Until the first byte of a copy comes that begins in memory.
        memory_latency: Time,
    }
}

/// The software adapter on a host.
#[derive(Debug, Clone)]
pub struct Software {
    /// In words.
    pub about: String,
    /// Processors.
    pub cores: Cores,
    /// Requests that the requester executes.
    pub request: OwnWork,
    /// Requests that the receiver serves.
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
