//! The request engine: takes a request, possibly with data, and returns an outcome, possibly with
//! data.
//!
//! It accesses files and knows no network. Data leave as [`Segment`]s, which a transport sends
//! without copying: pinned blocks of the cache, or small buffers. Every transport uses this engine,
//! so that requests mean the same on all of them.
//!
//! An engine belongs to one session. It may carry out several requests concurrently, on several
//! threads; the session decides which ones, and in which order ([`verbena_rfio_protocol::order`]).

mod attributes;
mod bulk;
mod copy;
mod handles;
mod metadata;
mod names;
mod read;
mod source;
mod upload;
mod write;

use std::io;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use serde_json::json;
use verbena_rfio_protocol::checksum;
use verbena_rfio_protocol::reply::{Done, Refusal};
use verbena_rfio_protocol::request::OpenFlags;
use verbena_rfio_protocol::types::{Handle, Path, Range};
use verbena_rfio_protocol::{Reply, Request, Status};

use handles::Handles;

use super::accounting::SessionAccount;
use super::audit::ClientIdentity;
use super::cache::Pinned;
use super::export::{ClientMessage, Permit};
use super::local_user::{self, LocalUser, Mapping};
use super::log::{object, put_name};
use super::metrics::{Carrier, Flow};
use super::rights::{Need, Subject};
use super::service::Service;

/// Maximum size of a buffer that joins small segments, in bytes.
const JOINED: usize = 1 << 20;

/// Whether a request may replace an existing name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingName {
    /// It may.
    Replaced,
    /// An existing file is kept, and the request is refused.
    Kept,
}

/// Data to be sent.
#[derive(Debug)]
pub enum Segment {
    /// Part of a cached block: registered memory.
    Block(Pinned, std::ops::Range<usize>),
    /// A small buffer.
    Owned(Vec<u8>),
}

impl Segment {
    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Block(pinned, range) => &pinned.bytes()[range.clone()],
            Self::Owned(bytes) => bytes,
        }
    }

    /// Returns the bytes as a segment for the adapter, if they are registered.
    pub fn registered(&self) -> Option<verbena_verbs::Result<verbena_verbs::Segment<'_>>> {
        match self {
            Self::Block(pinned, range) => pinned.segment(range.clone()),
            Self::Owned(_) => None,
        }
    }

    /// Joins `next` to this segment if both are contiguous in one block, or small buffers; returns
    /// it otherwise.
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

    /// Returns the CRC32C of the bytes. That of a whole block is computed once for all its readers.
    pub fn checksum(&self) -> u32 {
        match self {
            Self::Block(pinned, range) if *range == (0..pinned.bytes().len()) => pinned.checksum(),
            other => checksum::crc32c(other.bytes()),
        }
    }
}

/// The result of a request.
#[derive(Debug)]
pub struct Answer {
    /// The reply, or the refusal.
    pub outcome: Result<Reply, Refusal>,
    /// The data of the reply.
    pub data: Vec<Segment>,
}

impl Answer {
    /// Returns a refusal, which has no data.
    pub fn refusal(status: Status, reason: impl Into<String>) -> Self {
        Self {
            outcome: Err(Refusal::new(status, reason)),
            data: Vec::new(),
        }
    }

    /// Copies data out of cache blocks, releasing these, if there are at most `most` bytes of data.
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

    /// Returns the length of the data in bytes.
    pub fn length(&self) -> usize {
        self.data.iter().map(|segment| segment.bytes().len()).sum()
    }
}

/// Whether the caller may block on storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IoMode {
    /// No, it is an event loop: only data in memory are available.
    CacheOnly,
    /// Yes, it is a worker.
    MayBlock,
}

/// Why a request was not carried out.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Error of a system call.
    System(io::Error),
    /// The request is invalid or not permitted.
    Refused(Status, &'static str),
    /// The request would block, and must not.
    WouldBlock,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(ClientMessage { errno, words }) => {
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

/// Length of a read that is answered without free memory, in bytes.
pub(super) const READ_WITHOUT_MEMORY: usize = 4096;

/// Length of a read that bypasses a full cache, in bytes.
pub(super) const READ_PAST_CACHE: usize = 64 << 10;

/// Maximum number of ranges of a vector that an event loop reads itself; longer ones go to a
/// worker.
const QUICK_RANGES: usize = 1024;

/// The local user of a session, and the mapping that determined it.
type Local = (Arc<Mapping>, Result<Arc<LocalUser>, String>);

/// One session's engine.
#[derive(Debug)]
pub struct Engine {
    service: Arc<Service>,
    client: ClientIdentity,
    /// The user whose rights apply: without the address that distinguishes anonymous sessions.
    subject: Subject,
    local: Mutex<Option<Local>>,
    handles: Handles,
    account: SessionAccount,
}

impl Engine {
    /// Creates an engine without open files for a session with the rights of `subject`. The second
    /// argument is the identity for logs and quotas.
    pub fn new(service: Arc<Service>, client: ClientIdentity, subject: Subject) -> Self {
        let handles = Handles::new(service.limits.handles);
        let account = SessionAccount::begin(service.users.of(&client.user));
        Self {
            service,
            client,
            subject,
            local: Mutex::default(),
            handles,
            account,
        }
    }

    /// Records why the session ends; the first reason counts.
    pub fn ends(&self, why: &'static str) {
        self.account.ends(why);
    }

    /// Counts file data moved by a request: for the service, the session, its user and the file.
    pub fn moved(&self, request: &Request, flow: Flow, carrier: Carrier, bytes: u64) {
        self.service.metrics.moved(flow, carrier, bytes);
        self.account.add(flow, carrier, bytes);
        if let Some(file) = handle_of(request).and_then(|on| self.handles.find(on).ok()) {
            file.account.add(flow, carrier, bytes);
        }
    }

    /// Returns the permit of a request by path that needs these rights.
    fn permit(&self, need: Need) -> Permit<'_> {
        Permit::new(self.service.rights(), &self.subject, need)
    }

    /// Makes this thread act as the session's local user, if users are mapped.
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
            let identity = local_user::as_daemon(|| mapping.identity(&self.subject.user));
            *local = Some((mapping, identity));
        }
        let identity = match local.as_ref() {
            Some((_, Ok(identity))) => Arc::clone(identity),
            Some((_, Err(why))) => return Err(refusal(why.clone())),
            None => return Err(refusal("no local user was looked for".into())),
        };
        drop(local);
        local_user::assume(&identity)
            .map_err(|error| refusal(format!("act as local user: {error}")))
    }

    /// Returns whether no file is open.
    pub fn has_no_open_files(&self) -> bool {
        self.handles.is_empty()
    }

    /// Carries out a request that needs no storage access. Returns `None` if it must be passed to
    /// [`Engine::execute`] on a thread that may block.
    pub fn execute_quickly(&self, request: &Request) -> Option<Answer> {
        let by_path = self.service.identities.is_none();
        let outcome = match request {
            Request::Ping(_) => plain(Reply::Pong(Done {})),
            Request::Read(read) => self.read(read, IoMode::CacheOnly),
            Request::ReadVector(vector) if vector.ranges.len() <= QUICK_RANGES => {
                self.read_vector(vector, IoMode::CacheOnly)
            }
            Request::Examine(on) => self.examine(on.handle),
            // With mapped users, lookups by path must run on a worker, which can assume the user's
            // credentials.
            Request::Status(on) if by_path => self.status(&on.path, IoMode::CacheOnly),
            Request::LinkStatus(on) if by_path => self.link_status(&on.path, IoMode::CacheOnly),
            Request::Access(access) if by_path => self.access(access, IoMode::CacheOnly),
            Request::Fetch(fetch) if by_path => self.fetch(fetch, IoMode::CacheOnly),
            _ => return None,
        };
        match outcome {
            Err(Failure::WouldBlock) => None,
            other => Some(self.conclude(request, 0, other)),
        }
    }

    /// Carries out a request; `incoming` is the data that came with it. May block on storage.
    pub fn execute(&self, request: &Request, incoming: &[u8]) -> Answer {
        self.as_local_user(request, incoming, || self.dispatch(request, incoming))
    }

    /// Like [`Engine::execute`], but refuses with EEXIST to replace an existing name.
    pub fn execute_on_new(&self, request: &Request, incoming: &[u8]) -> Answer {
        self.as_local_user(request, incoming, || match request {
            Request::Rename(two) => self
                .rename_to_new(two)
                .and_then(|()| plain(Reply::Renamed(Done {}))),
            Request::Replace(two) => self
                .rename_to_new(two)
                .and_then(|()| plain(Reply::Replaced(Done {}))),
            Request::Store(store) => self.store(store, incoming, ExistingName::Kept),
            other => self.dispatch(other, incoming),
        })
    }

    /// Carries out a request with the permissions of the session's local user.
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

    /// Returns whether a file is open for writing.
    pub fn is_writable(&self, handle: Handle) -> bool {
        let file = self.handles.find(handle);
        file.is_ok_and(|file| file.flags.has(OpenFlags::WRITE))
    }

    /// Returns the maximum memory outside the cache that a request can need, in bytes; zero if it
    /// is negligible.
    pub fn memory_demand(&self, request: &Request) -> usize {
        let limits = &self.service.limits;
        match request {
            Request::Read(read) if read.range.length as usize <= READ_WITHOUT_MEMORY => 0,
            Request::Read(_) => READ_PAST_CACHE,
            Request::ReadVector(vector) => {
                let add = |sum: usize, range: &Range| sum.saturating_add(range.length as usize);
                // The reply has a length and a checksum for each range.
                vector.ranges.iter().fold(0, add).min(limits.payload) + 8 * vector.ranges.len()
            }
            Request::Fetch(fetch) => (fetch.most as usize).min(limits.payload),
            Request::List(list) => names::page(list.count) * names::MOST_ENTRY_BYTES,
            Request::Checksum(_) | Request::Copy(_) => limits.block,
            Request::Extended(_) => metadata::MOST_EXTENDED,
            _ => 0,
        }
    }

    /// Returns the maximum length of an answer's data, in bytes.
    pub fn max_answer_bytes(&self, request: &Request) -> usize {
        request.most_data().min(self.service.limits.payload)
    }

    /// Returns the request shortened to a length that can be answered without free memory, if that
    /// is allowed. A read may always be answered short, so readers always make progress,
    /// if slowly.
    pub fn shortened_without_memory(request: &Request) -> Option<Request> {
        shortened(request, READ_WITHOUT_MEMORY)
    }

    /// Returns the request shortened to a length that is copied rather than pinned, if that is
    /// allowed.
    pub fn shortened_past_cache(request: &Request) -> Option<Request> {
        shortened(request, READ_PAST_CACHE)
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
            Request::Read(read) => self.read(read, IoMode::MayBlock),
            Request::ReadVector(vector) => self.read_vector(vector, IoMode::MayBlock),
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
            Request::Status(on) => self.status(&on.path, IoMode::MayBlock),
            Request::LinkStatus(on) => self.link_status(&on.path, IoMode::MayBlock),
            Request::Access(access) => self.access(access, IoMode::MayBlock),
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
            Request::Fetch(fetch) => self.fetch(fetch, IoMode::MayBlock),
            Request::Store(store) => self.store(store, incoming, ExistingName::Replaced),
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
                Answer::refusal(
                    status,
                    format!("cannot {}{subject}{what}", request.action()),
                )
            }
        };
        self.record(request, incoming, answer)
    }

    /// Counts and logs the result of a request.
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
                .end_small_file(log, &self.client, path, moved, status);
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
                .record(&self.client, request.name(), details.into());
        }
        answer
    }
}

impl Drop for Engine {
    /// The session and the last of its requests have ended: files still open are logged as cut off.
    fn drop(&mut self) {
        let log = &self.service.accounting;
        for file in self.handles.take_all() {
            self.account
                .end_file(log, &self.client, &file.account, "cut");
        }
        self.account.end(log, &self.client);
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

/// Returns the names that a request acts on, for messages: begins with a space, or is empty.
pub(crate) fn subject(request: &Request) -> String {
    let before_second = match request {
        Request::MakeLink(_) | Request::MakeHardLink(_) => "at",
        _ => "to",
    };
    match names_of(request) {
        (Some(path), Some(to)) => format!(" {path} {before_second} {to}"),
        (Some(path), None) => format!(" {path}"),
        (None, _) => String::new(),
    }
}

/// Returns the names that a request acts on; for a rename the old name first, for a link its
/// target.
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

/// Returns the open file of a request, for its accounting.
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

/// Returns a file that one request transferred whole, or tried to: its name, direction and length
/// in bytes.
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

/// Returns whether a request opens a file or changes one by name.
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
