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
use verbena_rfio_protocol::request::OpenFlags;
use verbena_rfio_protocol::types::{Handle, Path, Range};
use verbena_rfio_protocol::{Reply, Request, Status};

use super::accounting::{Flow, SessionAccount};
use super::audit::Who;
use super::cache::Pinned;
use super::export::{Permit, Told};
use super::identity::{self, Identity, Mapping};
use super::log::{object, put_name};
use super::metrics::Carrier;
use super::rights::{Need, Subject};
use super::service::Service;
use super::session::scopes::Existing;
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
    subject: Subject,
    local: Mutex<Option<Local>>,
    handles: Handles,
    account: SessionAccount,
}

impl Engine {
    /// An engine with no file open, for a session of `subject`; `who` is for logs and shares.
    pub fn new(service: Arc<Service>, who: Who, subject: Subject) -> Self {
        let handles = Handles::new(service.limits.handles);
        let account = SessionAccount::begin(service.users.of(&who.user));
        Self {
            service,
            who,
            subject,
            local: Mutex::default(),
            handles,
            account,
        }
    }

    /// Says why the session ends, for its record; the first reason counts.
    pub fn ends(&self, why: &'static str) {
        self.account.ends(why);
    }

    /// Counts file data that a request moved: for the service, the session, its user and the file.
    pub fn moved(&self, request: &Request, flow: Flow, carrier: Carrier, bytes: u64) {
        self.service.metrics.moved(flow, carrier, bytes);
        self.account.add(flow, carrier, bytes);
        if let Some(file) = handle_of(request).and_then(|on| self.handles.find(on).ok()) {
            file.account.add(flow, carrier, bytes);
        }
    }

    /// What a request may do by path that needs this.
    fn permit(&self, need: Need) -> Permit<'_> {
        Permit::new(self.service.rights(), &self.subject, need)
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
            let identity = identity::as_daemon(|| mapping.identity(&self.subject.user));
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
            other => Some(self.conclude(request, 0, other)),
        }
    }

    /// Carries a request out. `incoming` is the data that came with it. May wait for storage.
    pub fn execute(&self, request: &Request, incoming: &[u8]) -> Answer {
        self.as_local_user(request, incoming, || self.dispatch(request, incoming))
    }

    /// The same without the right to replace an existing name: that is refused with EEXIST.
    pub fn execute_on_new(&self, request: &Request, incoming: &[u8]) -> Answer {
        self.as_local_user(request, incoming, || match request {
            Request::Rename(two) => self
                .rename_to_new(two)
                .and_then(|()| plain(Reply::Renamed(Done {}))),
            Request::Replace(two) => self
                .rename_to_new(two)
                .and_then(|()| plain(Reply::Replaced(Done {}))),
            Request::Store(store) => self.store(store, incoming, Existing::Kept),
            other => self.dispatch(other, incoming),
        })
    }

    /// Carries a request out with the permissions of the session's local user.
    fn as_local_user(
        &self,
        request: &Request,
        incoming: &[u8],
        carry_out: impl FnOnce() -> Outcome,
    ) -> Answer {
        let length = incoming.len();
        if let Err(refusal) = self.act_as_local_user() {
            let answer = Answer {
                outcome: Err(refusal),
                data: Vec::new(),
            };
            return self.record(request, length, answer);
        }
        self.conclude(request, length, carry_out())
    }

    /// Whether a file is open for writing.
    pub fn is_writable(&self, handle: Handle) -> bool {
        let file = self.handles.find(handle);
        file.is_ok_and(|file| file.flags.has(OpenFlags::WRITE))
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
            | Request::Present(_)
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
            Request::Store(store) => self.store(store, incoming, Existing::Replaced),
            Request::Extents(extents) => self.extents(extents),
            Request::SynchroniseDirectory(on) => self.synchronise_directory(&on.path),
            Request::ChangeTimes(times) => self.change_times(times),
            Request::MakeHardLink(two) => self.make_hard_link(two),
            Request::Replace(two) => self.replace(two),
            Request::Extended(on) => self.extended(&on.path),
            Request::SetExtended(set) => self.set_extended(set),
        }
    }

    fn conclude(&self, request: &Request, incoming: usize, outcome: Outcome) -> Answer {
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
        self.record(request, incoming, answer)
    }

    /// Counts and writes down what became of a request.
    fn record(&self, request: &Request, incoming: usize, answer: Answer) -> Answer {
        let status = answer
            .outcome
            .as_ref()
            .err()
            .map_or(Status::OK, |refusal| refusal.status);
        self.service
            .metrics
            .request(request.operation(), !status.is_ok());
        self.account.request(status);
        if !status.is_ok()
            && let Some(file) = handle_of(request).and_then(|on| self.handles.find(on).ok())
        {
            file.account.fail();
        }
        if let Some((path, moved)) = small_file(request, incoming, &answer) {
            let log = &self.service.accounting;
            self.account
                .end_small_file(log, &self.who, path, moved, status);
        }
        if self.service.audit.is_kept() && is_audited(request) {
            let mut details = object(json!({ "status": status.0 }));
            let (path, to) = names_of(request);
            for (key, name) in [("path", path), ("to", to)] {
                if let Some(name) = name {
                    put_name(&mut details, key, name.as_bytes());
                }
            }
            self.service
                .audit
                .record(&self.who, request.name(), details.into());
        }
        answer
    }
}

impl Drop for Engine {
    /// The session and the last of its requests have ended: files that are still open were cut.
    fn drop(&mut self) {
        let log = &self.service.accounting;
        for file in self.handles.take_all() {
            self.account.end_file(log, &self.who, &file.account, "cut");
        }
        self.account.end(log, &self.who);
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
    let (path, to) = names_of(request);
    [path, to]
        .into_iter()
        .flatten()
        .map(|name| format!(" {name}"))
        .collect()
}

/// The names that a request acts on; of a rename and of a link, the old one or the link's text
/// first.
fn names_of(request: &Request) -> (Option<&Path>, Option<&Path>) {
    let path = match request {
        Request::Open(open) => &open.path,
        Request::Status(on)
        | Request::LinkStatus(on)
        | Request::RemoveDirectory(on)
        | Request::Unlink(on)
        | Request::ReadLink(on)
        | Request::SynchroniseDirectory(on)
        | Request::Extended(on)
        | Request::Space(on) => &on.path,
        Request::Access(access) => &access.path,
        Request::MakeDirectory(change) | Request::ChangeMode(change) => &change.path,
        Request::ChangeOwner(change) => &change.path,
        Request::ChangeTimes(times) => &times.path,
        Request::SetExtended(set) => &set.path,
        Request::Rename(two)
        | Request::Replace(two)
        | Request::MakeLink(two)
        | Request::MakeHardLink(two) => return (Some(&two.from), Some(&two.to)),
        Request::List(list) => &list.path,
        Request::Fetch(fetch) => &fetch.path,
        Request::Store(store) => &store.path,
        _ => return (None, None),
    };
    (Some(path), None)
}

/// The open file that a request is about, for its account.
fn handle_of(request: &Request) -> Option<Handle> {
    Some(match request {
        Request::Read(read) => read.handle,
        Request::ReadVector(vector) => vector.handle,
        Request::Write(write) => write.handle,
        Request::Truncate(truncate) => truncate.handle,
        Request::Synchronise(on) => on.handle,
        Request::Checksum(checksum) => checksum.handle,
        Request::Copy(copy) => copy.to,
        _ => return None,
    })
}

/// A file that one request moved whole, or tried to: its name, which way, and its bytes.
fn small_file<'a>(
    request: &'a Request,
    incoming: usize,
    answer: &Answer,
) -> Option<(&'a Path, (Flow, u64))> {
    match (request, &answer.outcome) {
        (Request::Fetch(fetch), Ok(Reply::Fetched(fetched))) if fetched.whole => {
            Some((&fetch.path, (Flow::Sent, answer.length() as u64)))
        }
        (Request::Store(store), _) => Some((&store.path, (Flow::Received, incoming as u64))),
        _ => None,
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
