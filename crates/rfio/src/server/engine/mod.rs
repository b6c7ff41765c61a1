//! The request engine: a request and perhaps data in, an outcome and perhaps data out.
//!
//! It knows files and no network. Data leave as [`Segment`]s, which a transport sends without copying: pinned blocks of
//! the cache or small buffers. Every transport uses this engine, so they cannot differ in what a request means.
//!
//! An engine belongs to one session. It may carry out several requests at once, on several threads; which ones, and in
//! which order, is the session's to say ([`verbena_rfio_protocol::order`]).

mod arriving;
mod attributes;
mod bulk;
mod copy;
mod handles;
mod metadata;
mod names;
mod read;
mod source;
mod write;

use std::io;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use serde_json::json;
use verbena_rfio_protocol::reply::{Done, Refusal};
use verbena_rfio_protocol::types::Range;
use verbena_rfio_protocol::{Reply, Request, Status};

use super::audit::Who;
use super::cache::Pinned;
use super::export::{Permit, Told};
use super::identity::{self, Identity, Mapping};
use super::rights::Need;
use super::service::Service;
use crate::checksum;
use handles::Handles;

pub use attributes::attributes;

/// Largest buffer that small pieces are packed into.
const JOINED: usize = 1 << 20;

/// Data that leave.
#[derive(Debug)]
pub enum Segment {
    /// Part of a cached block: registered memory.
    Block(Pinned, std::ops::Range<usize>),
    /// A small buffer.
    Owned(Vec<u8>),
}

impl Segment {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Block(pinned, range) => &pinned.bytes()[range.clone()],
            Self::Owned(bytes) => bytes,
        }
    }

    /// The bytes for the adapter, where they are registered.
    pub fn registered(&self) -> Option<verbena_verbs::Result<verbena_verbs::Segment<'_>>> {
        match self {
            Self::Block(pinned, range) => pinned.segment(range.clone()),
            Self::Owned(_) => None,
        }
    }

    /// Joins what follows to this one, if that makes one piece of memory or saves a small one; gives it back if not.
    pub(crate) fn join(&mut self, next: Segment) -> Option<Segment> {
        match (self, next) {
            (Self::Block(mine, range), Self::Block(other, behind))
                if mine.is_same_block(&other) && range.end == behind.start =>
            {
                range.end = behind.end;
                None
            }
            (Self::Owned(bytes), Self::Owned(more)) if bytes.len() + more.len() <= JOINED => {
                bytes.extend_from_slice(&more);
                None
            }
            (_, next) => Some(next),
        }
    }

    /// CRC32C of the bytes; that of a whole block is computed once for all its readers.
    pub fn checksum(&self) -> u32 {
        match self {
            Self::Block(pinned, range) if *range == (0..pinned.bytes().len()) => pinned.checksum(),
            other => checksum::crc32c(other.bytes()),
        }
    }
}

/// What a request led to.
#[derive(Debug)]
pub struct Answer {
    /// The reply or why not.
    pub outcome: Result<Reply, Refusal>,
    /// The data that go with it.
    pub data: Vec<Segment>,
}

impl Answer {
    /// An answer without data.
    pub fn refusal(status: Status, reason: impl Into<String>) -> Self {
        Self {
            outcome: Err(Refusal::new(status, reason)),
            data: Vec::new(),
        }
    }

    /// The same, not keeping blocks if there are at most so many bytes.
    pub fn released(mut self, most: usize) -> Self {
        if self.length() <= most {
            for segment in &mut self.data {
                if let Segment::Block(pinned, range) = segment {
                    *segment = Segment::Owned(pinned.bytes()[range.clone()].to_vec());
                }
            }
        }
        self
    }

    /// Bytes of data.
    pub fn length(&self) -> usize {
        self.data.iter().map(|segment| segment.bytes().len()).sum()
    }
}

/// Whether the caller can wait for storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// On an event loop: only what is in memory.
    None,
    /// On a worker.
    Unlimited,
}

/// Why a request was not carried out, before it has words.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The system said no.
    System(io::Error),
    /// The request itself is wrong.
    Refused(Status, &'static str),
    /// It would have to wait, and may not.
    WouldBlock,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(Told { errno, words }) => {
                Self::Refused(Status::errno(errno.raw_os_error()), words)
            }
            None => Self::System(error),
        }
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::System(errno.into())
    }
}

pub(crate) type Outcome = Result<(Reply, Vec<Segment>), Failure>;

fn plain(reply: Reply) -> Outcome {
    Ok((reply, Vec::new()))
}

/// Bytes of a read that is answered when no memory is left.
pub(super) const FRUGAL: usize = 4096;

/// Bytes of a read past a full cache.
pub(super) const MEAGRE: usize = 64 << 10;

/// Ranges of a vector that an event loop reads while others wait; a longer one is a worker's.
const QUICK_RANGES: usize = 1024;

/// Whom a session acts as, and the mapping that says so.
type Local = (Arc<Mapping>, Result<Arc<Identity>, String>);

/// One session's engine.
#[derive(Debug)]
pub struct Engine {
    service: Arc<Service>,
    who: Who,
    /// Whose rights the session has: without the address that tells anonymous sessions apart.
    user: String,
    local: Mutex<Option<Local>>,
    handles: Handles,
}

impl Engine {
    /// An engine with no file open, for a session of `user`; `who` is for logs and shares.
    pub fn new(service: Arc<Service>, who: Who, user: String) -> Self {
        let handles = Handles::new(service.limits.handles);
        Self {
            service,
            who,
            user,
            local: Mutex::default(),
            handles,
        }
    }

    /// What a request may do by path that needs this.
    fn permit(&self, need: Need) -> Permit<'_> {
        Permit::new(self.service.rights(), &self.user, need)
    }

    /// Makes this thread act as the session's local user, if users are mapped to such.
    fn act_as_local_user(&self) -> Result<(), Refusal> {
        let Some(identities) = &self.service.identities else {
            return Ok(());
        };
        let refusal = |why| Refusal::new(Status::errno(libc::EACCES), why);
        let mapping = identities.now();
        let mut local = self
            .local
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        let is_of_now = |(known, _): &Local| Arc::ptr_eq(known, &mapping);
        if !local.as_ref().is_some_and(is_of_now) {
            let identity = identity::as_daemon(|| mapping.identity(&self.user));
            *local = Some((mapping, identity));
        }
        let identity = match local.as_ref() {
            Some((_, Ok(identity))) => Arc::clone(identity),
            Some((_, Err(why))) => return Err(refusal(why.clone())),
            None => return Err(refusal("no local user was looked for".into())),
        };
        drop(local);
        identity::assume(&identity).map_err(|error| refusal(format!("act as local user: {error}")))
    }

    /// Whether no file is open.
    pub fn holds_nothing(&self) -> bool {
        self.handles.is_empty()
    }

    /// Who is served.
    pub fn who(&self) -> &Who {
        &self.who
    }

    /// Answers if that needs nothing but memory; `None` asks for [`Engine::execute`] on a thread that may wait.
    pub fn execute_quickly(&self, request: &Request) -> Option<Answer> {
        let by_path = self.service.identities.is_none();
        let outcome = match request {
            Request::Ping(_) => plain(Reply::Pong(Done {})),
            Request::Read(read) => self.read(read, Patience::None),
            Request::ReadVector(vector) if vector.ranges.len() <= QUICK_RANGES => {
                self.read_vector(vector, Patience::None)
            }
            Request::Examine(on) => self.examine(on.handle),
            // What is looked up by path as a local user is a worker's, which can act as one.
            Request::Status(on) if by_path => self.status(&on.path, Patience::None),
            Request::LinkStatus(on) if by_path => self.link_status(&on.path, Patience::None),
            Request::Access(access) if by_path => self.access(access, Patience::None),
            Request::Fetch(fetch) if by_path => self.fetch(fetch, Patience::None),
            _ => return None,
        };
        match outcome {
            Err(Failure::WouldBlock) => None,
            other => Some(self.conclude(request, other)),
        }
    }

    /// Carries a request out. `incoming` is the data that came with it. May wait for storage.
    pub fn execute(&self, request: &Request, incoming: &[u8]) -> Answer {
        if let Err(refusal) = self.act_as_local_user() {
            let outcome = Answer {
                outcome: Err(refusal),
                data: Vec::new(),
            };
            return self.record(request, outcome);
        }
        let outcome = self.dispatch(request, incoming);
        self.conclude(request, outcome)
    }

    /// The most memory outside the cache that carrying a request out can need. Zero for what needs next to nothing.
    pub fn demand(&self, request: &Request) -> usize {
        let limits = &self.service.limits;
        match request {
            Request::Read(read) if read.range.length as usize <= FRUGAL => 0,
            Request::Read(_) => MEAGRE,
            Request::ReadVector(vector) => {
                let add = |sum: usize, range: &Range| sum.saturating_add(range.length as usize);
                // The reply has a length and a checksum for each.
                vector.ranges.iter().fold(0, add).min(limits.payload) + 8 * vector.ranges.len()
            }
            Request::Fetch(fetch) => (fetch.most as usize).min(limits.payload),
            Request::List(list) => names::page(list.count) * names::MOST_ENTRY_BYTES,
            Request::Checksum(_) | Request::Copy(_) => limits.block,
            Request::Extended(_) => metadata::MOST_EXTENDED,
            _ => 0,
        }
    }

    /// The most data that the answer to a request can have.
    pub fn promise(&self, request: &Request) -> usize {
        request.most_data().min(self.service.limits.payload)
    }

    /// The same request for less, where that is allowed: what can be answered when no memory is left. A read may always
    /// be answered short, so readers go on, slowly, whatever others hold.
    pub fn frugal(request: &Request) -> Option<Request> {
        shortened(request, FRUGAL)
    }

    /// The same request for as much as is copied rather than pinned, where that is allowed.
    pub fn meagre(request: &Request) -> Option<Request> {
        shortened(request, MEAGRE)
    }

    fn dispatch(&self, request: &Request, incoming: &[u8]) -> Outcome {
        match request {
            Request::Hello(_)
            | Request::Prove(_)
            | Request::Redeem(_)
            | Request::Connect(_)
            | Request::Cancel(_) => Err(Failure::Refused(
                Status::COMMUNICATION,
                "not for the engine of a session that stands",
            )),
            Request::Ping(_) => plain(Reply::Pong(Done {})),
            Request::Open(open) => self.open(open),
            Request::Close(on) => self.close(on.handle),
            Request::Read(read) => self.read(read, Patience::Unlimited),
            Request::ReadVector(vector) => self.read_vector(vector, Patience::Unlimited),
            Request::Write(write) => self.write(write, incoming),
            Request::Copy(copy) => self.copy(copy),
            Request::Examine(on) => self.examine(on.handle),
            Request::ChangeModeOf(change) => self.change_mode_of(change),
            Request::ChangeOwnerOf(change) => self.change_owner_of(change),
            Request::Truncate(truncate) => self.truncate(truncate),
            Request::Synchronise(on) => self.synchronise(on.handle),
            Request::Lock(lock) => self.lock(lock),
            Request::SetTimes(times) => self.set_times(times),
            Request::Checksum(checksum) => self.checksum(checksum),
            Request::Status(on) => self.status(&on.path, Patience::Unlimited),
            Request::LinkStatus(on) => self.link_status(&on.path, Patience::Unlimited),
            Request::Access(access) => self.access(access, Patience::Unlimited),
            Request::MakeDirectory(make) => self.make_directory(make),
            Request::RemoveDirectory(on) => self.remove_directory(&on.path),
            Request::Unlink(on) => self.unlink(&on.path),
            Request::Rename(two) => self.rename(two),
            Request::MakeLink(two) => self.make_link(two),
            Request::ReadLink(on) => self.read_link(&on.path),
            Request::ChangeMode(change) => self.change_mode(change),
            Request::ChangeOwner(change) => self.change_owner(change),
            Request::Space(on) => self.space(&on.path),
            Request::List(list) => self.list(list),
            Request::Fetch(fetch) => self.fetch(fetch, Patience::Unlimited),
            Request::Store(store) => self.store(store, incoming),
            Request::Extents(extents) => self.extents(extents),
            Request::SynchroniseDirectory(on) => self.synchronise_directory(&on.path),
            Request::ChangeTimes(times) => self.change_times(times),
            Request::MakeHardLink(two) => self.make_hard_link(two),
            Request::Replace(two) => self.replace(two),
            Request::Extended(on) => self.extended(&on.path),
            Request::SetExtended(set) => self.set_extended(set),
        }
    }

    fn conclude(&self, request: &Request, outcome: Outcome) -> Answer {
        let answer = match outcome {
            Ok((reply, data)) => Answer {
                outcome: Ok(reply),
                data,
            },
            Err(failure) => {
                let (status, what) = match failure {
                    Failure::System(error) => (
                        error.raw_os_error().map_or(Status::INTERNAL, Status::errno),
                        String::new(),
                    ),
                    Failure::Refused(status, what) => (status, format!(": {what}")),
                    Failure::WouldBlock => (
                        Status::INTERNAL,
                        ": the engine waited where it must not".into(),
                    ),
                };
                let subject = subject(request);
                Answer::refusal(status, format!("{}{subject}{what}", request.name()))
            }
        };
        self.record(request, answer)
    }

    /// Counts and writes down what became of a request.
    fn record(&self, request: &Request, answer: Answer) -> Answer {
        let status = answer
            .outcome
            .as_ref()
            .err()
            .map_or(Status::OK, |refusal| refusal.status);
        self.service
            .metrics
            .request(request.operation(), !status.is_ok());
        if self.service.audit.is_kept() && is_audited(request) {
            let details = json!({"subject": subject(request).trim_start(), "status": status.0});
            self.service
                .audit
                .record(&self.who, request.name(), details);
        }
        answer
    }
}

fn shortened(request: &Request, most: usize) -> Option<Request> {
    match request {
        Request::Read(read) => {
            let mut read = read.clone();
            read.range.length = read.range.length.min(most as u32);
            Some(Request::Read(read))
        }
        _ => None,
    }
}

/// What a request acts on, for messages: begins with a space, or is empty.
fn subject(request: &Request) -> String {
    match request {
        Request::Open(open) => format!(" {}", open.path),
        Request::Status(on)
        | Request::LinkStatus(on)
        | Request::RemoveDirectory(on)
        | Request::Unlink(on)
        | Request::ReadLink(on)
        | Request::SynchroniseDirectory(on)
        | Request::Extended(on)
        | Request::Space(on) => format!(" {}", on.path),
        Request::Access(access) => format!(" {}", access.path),
        Request::MakeDirectory(change) | Request::ChangeMode(change) => format!(" {}", change.path),
        Request::ChangeOwner(change) => format!(" {}", change.path),
        Request::ChangeTimes(times) => format!(" {}", times.path),
        Request::SetExtended(set) => format!(" {}", set.path),
        Request::Rename(two)
        | Request::Replace(two)
        | Request::MakeLink(two)
        | Request::MakeHardLink(two) => format!(" {} {}", two.from, two.to),
        Request::List(list) => format!(" {}", list.path),
        Request::Fetch(fetch) => format!(" {}", fetch.path),
        Request::Store(store) => format!(" {}", store.path),
        _ => String::new(),
    }
}

/// Whether a request opens something or changes something by name.
fn is_audited(request: &Request) -> bool {
    matches!(
        request,
        Request::Open(_)
            | Request::MakeDirectory(_)
            | Request::RemoveDirectory(_)
            | Request::Unlink(_)
            | Request::Rename(_)
            | Request::MakeLink(_)
            | Request::ChangeMode(_)
            | Request::ChangeOwner(_)
            | Request::ChangeTimes(_)
            | Request::MakeHardLink(_)
            | Request::Replace(_)
            | Request::SetExtended(_)
            | Request::Fetch(_)
            | Request::Store(_)
    )
}

#[cfg(test)]
mod tests;
