//! A session with a service: greeting, then requests and replies.
//!
//! Requests may be sent ahead: [`Session::send`] puts one on its way and [`Session::receive`] takes the reply to the oldest
//! that has none yet. A server of version 3 answers each request when it is done; replies that come before their turn are kept
//! until then. After an error that is not a refusal the session is broken and says so to every later call.
//!
//! Here one caller has the session at a time. Many that share one are [`super::exchange`]'s.

use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::time::Duration;

use verbena_rfio_protocol::frame::{HEADER, Kind, Limits, MOST_BODY, MOST_PAYLOAD, TAG};
use verbena_rfio_protocol::handshake::{Methods, Purpose};
use verbena_rfio_protocol::reply::{self, Accepted, Welcome};
use verbena_rfio_protocol::request::{Hello, Present, Prove, Redeem};
use verbena_rfio_protocol::types::Text;
use verbena_rfio_protocol::{ANY_ORDER, Header, IN_ORDER, NEWEST, Reply, Request};

use super::address::Address;
use super::bounds;
use super::data::DataPath;
use super::error::Error;
use super::lineage;
use super::options::{Checksums, Fabric, Options};
use super::stream::Stream;
use crate::auth::proof::{Handshake, random};
use crate::auth::tags::Tagger;

/// Bytes of requests that are collected before they leave.
const COLLECTED: usize = 32 << 10;

/// Bytes of a request that a server must allow: with fewer, what is asked of it falls into too many pieces to be kept.
const LEAST_PAYLOAD: u32 = 4096;

/// A session.
#[derive(Debug)]
pub struct Session {
    stream: Stream,
    address: Address,
    accepted: Accepted,
    checksums: Checksums,
    patience: Duration,
    incoming_tags: Option<Tagger>,
    outgoing_tags: Option<Tagger>,
    version: u16,
    pending: VecDeque<Pending>,
    /// Frames that leave when there are enough of them, or a reply is waited for.
    collected: Vec<u8>,
    /// Replies that came before their turn, by number.
    early: HashMap<u64, (Outcome, Vec<u8>)>,
    next: u64,
    broken: bool,
    route: Route,
    /// The process that opened it.
    process: u64,
}

/// What a reply says.
type Outcome = Result<Reply, reply::Refusal>;

/// A request whose reply was not taken yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    /// Its number.
    pub id: u64,
    /// What was asked for.
    pub operation: u16,
    /// The most data that may come with the reply, in bytes.
    pub most: usize,
}

impl Pending {
    /// Whether a frame is the reply to this.
    pub fn is_answered_by(&self, header: &Header) -> bool {
        header.id == self.id && header.kind == Kind::reply(self.operation)
    }
}

/// How data travel.
#[derive(Debug)]
enum Route {
    /// Not needed yet; this is what is wished, and how long to wait for it.
    Undecided(Fabric, Duration),
    /// With requests and replies.
    Stream,
    /// By RDMA.
    Data(Box<DataPath>),
}

impl Session {
    /// Connects and proves who the user is; demands the same of the server.
    pub fn connect(address: &Address, options: &Options) -> Result<Self, Error> {
        Self::connect_within(address, options, options.patience)
    }

    /// The same, but nothing until the session stands may take longer than `patience`; zero is for ever.
    pub fn connect_within(
        address: &Address,
        options: &Options,
        patience: Duration,
    ) -> Result<Self, Error> {
        let stream = Stream::connect(address, options.tls.as_ref(), patience)?;
        let nobody = Accepted {
            proof: [0; 32],
            user: Text::default(),
            most_payload: 0,
            most_ranges: 0,
            block: 0,
            most_requests: 1,
            fabric: false,
            writable: false,
        };
        let mut session = Self {
            stream,
            address: address.clone(),
            accepted: nobody,
            checksums: options.checksums,
            patience: options.patience,
            incoming_tags: None,
            outgoing_tags: None,
            version: IN_ORDER,
            pending: VecDeque::new(),
            collected: Vec::new(),
            early: HashMap::new(),
            next: 1,
            broken: false,
            route: Route::Undecided(options.fabric, options.patience),
            process: lineage::mark(),
        };
        session.greet(options).map_err(Error::of_greeting)?;
        session.stream.set_patience(options.patience)?;
        Ok(session)
    }

    fn greet(&mut self, options: &Options) -> Result<(), Error> {
        let secret = match &options.ticket {
            Some(ticket) => Some(&ticket.key[..]),
            None => options.secrets.of(&options.user),
        };
        let hello = Hello {
            lowest: IN_ORDER,
            highest: NEWEST,
            methods: self.methods(options),
            user: match options.ticket {
                Some(_) => Text::default(),
                None => Text::new(options.user.clone()),
            },
            nonce: random(),
        };
        let welcome = match self.call(&Request::Hello(hello.clone()))? {
            Reply::Welcome(welcome) => welcome,
            other => return Err(unexpected(&other)),
        };
        let Welcome {
            version,
            method,
            nonce,
        } = welcome;
        if !(IN_ORDER..=NEWEST).contains(&version)
            || hello.methods & method == 0
            || !method.is_power_of_two()
        {
            return Err(Error::Protocol(format!(
                "it chose version {version} and method {method:#x}"
            )));
        }
        self.version = version;
        let channel = self.stream.key()?;
        let handshake = match (method, secret) {
            (Methods::SECRET | Methods::TICKET, Some(secret)) => Some(Handshake {
                secret,
                hello: &hello,
                server_nonce: &nonce,
                version,
                channel: &channel,
            }),
            _ => None,
        };
        let proof = handshake
            .as_ref()
            .map_or([0; 32], |handshake| handshake.proof(Purpose::Client));
        let proved = match &options.ticket {
            None if method == Methods::TOKEN => Request::Present(Present {
                token: options.token.clone().unwrap_or_default(),
            }),
            Some(ticket) => Request::Redeem(Redeem {
                claims: ticket.claims.clone(),
                proof,
            }),
            None => Request::Prove(Prove { proof }),
        };
        let accepted = match self.call(&proved)? {
            Reply::Accepted(accepted) | Reply::Redeemed(accepted) | Reply::Presented(accepted) => {
                accepted
            }
            other => return Err(unexpected(&other)),
        };
        if let Some(handshake) = handshake {
            if !handshake.verify(Purpose::Server, &accepted.proof) {
                self.broken = true;
                return Err(Error::Impostor);
            }
            if channel.is_empty() {
                self.outgoing_tags = Some(handshake.tagger(Purpose::ClientFrames));
                self.incoming_tags = Some(handshake.tagger(Purpose::ServerFrames));
            }
        }
        if accepted.block == 0 || accepted.most_requests == 0 {
            return Err(Error::Protocol("it allows no data at all".into()));
        }
        if accepted.most_payload < LEAST_PAYLOAD {
            return Err(Error::Protocol(format!(
                "it allows {} bytes a request, and a reader of large files needs {LEAST_PAYLOAD} at least",
                accepted.most_payload
            )));
        }
        self.accepted = bounds::terms(accepted)?;
        Ok(())
    }

    /// How the client can say who it is. Who has a ticket wants nothing but what it is for.
    fn methods(&self, options: &Options) -> u32 {
        if options.ticket.is_some() {
            return Methods::TICKET;
        }
        let mut methods = Methods::ANONYMOUS;
        if matches!(self.address, Address::Socket(_)) {
            methods |= Methods::PEER;
        }
        let tls = options.tls.as_ref().filter(|_| self.stream.is_encrypted());
        if tls.is_some_and(|tls| tls.client_auth_cert_resolver.has_certs()) {
            methods |= Methods::CERTIFICATE;
        }
        if options.token.is_some() && self.stream.is_encrypted() {
            methods |= Methods::TOKEN;
        }
        if options.secrets.of(&options.user).is_some() {
            methods |= Methods::SECRET;
        }
        methods
    }

    /// The version of the protocol that both speak.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// What the server allows.
    pub fn terms(&self) -> &Accepted {
        &self.accepted
    }

    /// Whether data carry checksums.
    pub fn checksums(&self) -> Checksums {
        self.checksums
    }

    /// How long an answer may take; zero is for ever.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Whom the session is with.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Whether the session can still be used.
    pub fn is_broken(&self) -> bool {
        self.broken || self.is_inherited()
    }

    /// Whether this process was forked from the one that opened it. Nothing is sent or received then.
    pub(super) fn is_inherited(&self) -> bool {
        self.process != lineage::mark()
    }

    /// Whether nothing is under way and the server has not gone, as far as is known here.
    pub fn is_idle(&self) -> bool {
        !self.is_broken() && self.pending.is_empty() && !self.stream.is_left()
    }

    /// Requests that are on their way.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// A request without data and its reply.
    pub fn call(&mut self, request: &Request) -> Result<Reply, Error> {
        self.send(request, &[])?;
        self.receive(&mut []).map(|(reply, _)| reply)
    }

    /// Puts a request on its way, with its data. Gives its number.
    pub fn send(&mut self, request: &Request, data: &[u8]) -> Result<u64, Error> {
        let (number, front) = self.frame(request, data.len())?;
        self.collected.extend_from_slice(&front);
        let sent = self.flush(data);
        self.note(sent)?;
        Ok(number)
    }

    /// The same, but it may leave together with those that follow: when there are enough, when another is sent, or before a
    /// reply is waited for.
    pub fn send_with_others(&mut self, request: &Request, data: &[u8]) -> Result<u64, Error> {
        if self.collected.len() + data.len() > COLLECTED {
            return self.send(request, data);
        }
        let (number, front) = self.frame(request, data.len())?;
        self.collected.extend_from_slice(&front);
        self.collected.extend_from_slice(data);
        Ok(number)
    }

    /// The frame of a request up to its data, which is under way from now on.
    fn frame(&mut self, request: &Request, data: usize) -> Result<(u64, Vec<u8>), Error> {
        self.whole()?;
        let body = request.encode();
        let header = Header {
            kind: Kind::request(request.operation()),
            body: u32::try_from(body.len()).map_err(|_| Error::Setup("request too long".into()))?,
            payload: u32::try_from(data)
                .map_err(|_| Error::Setup("data too long for one request".into()))?,
            id: self.next,
        };
        let raw = header.emit();
        let tag = self
            .outgoing_tags
            .as_mut()
            .map(|tagger| tagger.tag(&raw, &body));
        let mut front = Vec::with_capacity(HEADER + body.len() + TAG);
        front.extend_from_slice(&raw);
        front.extend_from_slice(&body);
        front.extend_from_slice(tag.as_ref().map_or(&[], |tag| &tag[..]));
        self.pending.push_back(Pending {
            id: self.next,
            operation: request.operation(),
            most: request.most_data(),
        });
        self.next += 1;
        Ok((header.id, front))
    }

    /// Sends what was collected, and data behind it.
    fn flush(&mut self, data: &[u8]) -> Result<(), Error> {
        let front = std::mem::take(&mut self.collected);
        self.stream.begin_wait();
        self.stream
            .send(&mut [IoSlice::new(&front), IoSlice::new(data)])
    }

    /// The reply to the oldest request that has none yet; its data go to the front of `into`. How many there were.
    pub fn receive(&mut self, into: &mut [u8]) -> Result<(Reply, usize), Error> {
        self.whole()?;
        if !self.collected.is_empty() && !self.stream.has_staged() {
            let sent = self.flush(&[]);
            self.note(sent)?;
        }
        let received = self.receive_outcome(into);
        match self.note(received)? {
            (Ok(reply), length) => Ok((reply, length)),
            (Err(refusal), _) => Err(Error::Refused(refusal)),
        }
    }

    fn receive_outcome(&mut self, into: &mut [u8]) -> Result<(Outcome, usize), Error> {
        let due = self
            .pending
            .pop_front()
            .ok_or_else(|| Error::Setup("no request is waiting for a reply".into()))?;
        if let Some((outcome, data)) = self.early.remove(&due.id) {
            room_for(data.len(), into)?.copy_from_slice(&data);
            return Ok((outcome, data.len()));
        }
        loop {
            let (header, body) = self.receive_front()?;
            let outcome = reply::decode(header.kind.operation(), &body);
            let length = header.payload as usize;
            if due.is_answered_by(&header) {
                let into = room_for(length, into)?;
                let outcome = outcome?;
                self.stream.receive(into)?;
                return Ok((outcome, length));
            }
            let later = self.pending.iter().find(|later| {
                let first = !self.early.contains_key(&later.id);
                self.version >= ANY_ORDER && first && later.is_answered_by(&header)
            });
            let Some(later) = later else {
                return Err(Error::Protocol(format!(
                    "reply {} where {} is due",
                    header.id, due.id
                )));
            };
            if length > later.most {
                return Err(too_much());
            }
            let mut data = vec![0; length];
            self.stream.receive(&mut data)?;
            self.early.insert(header.id, (outcome?, data));
        }
    }

    /// A frame up to its payload: the header and the body, whose tag is right.
    fn receive_front(&mut self) -> Result<(Header, Vec<u8>), Error> {
        let mut raw = [0; HEADER];
        self.stream.begin_wait();
        self.stream.receive(&mut raw)?;
        let header =
            Header::parse(&raw, REPLIES).map_err(|bad| Error::Protocol(bad.to_string()))?;
        let mut body = vec![0; header.body as usize];
        self.stream.receive(&mut body)?;
        if let Some(tagger) = &mut self.incoming_tags {
            let mut tag = [0; TAG];
            self.stream.receive(&mut tag)?;
            if !tagger.verify(&raw, &body, &tag) {
                return Err(Error::Protocol(
                    "a frame's tag is wrong: it was changed on the way".into(),
                ));
            }
        }
        Ok((header, body))
    }

    /// The data path, if data travel by RDMA. Decided when it is first needed: a session that only asks for names never
    /// pays for a queue pair.
    pub(crate) fn data_path(&mut self) -> Result<Option<&mut DataPath>, Error> {
        if let Route::Undecided(wish, patience) = self.route {
            // Requests that are under way were sent without windows; their replies come first.
            if self.pending.is_empty() {
                self.route = Route::Stream;
                self.route = match wish {
                    Fabric::Tcp => Route::Stream,
                    Fabric::Auto if !self.accepted.fabric => Route::Stream,
                    Fabric::Verbs if !self.accepted.fabric => {
                        return Err(Error::Fabric("the server has no adapter".into()));
                    }
                    Fabric::Verbs => Route::Data(Box::new(DataPath::connect(self, patience)?)),
                    Fabric::Auto => match DataPath::connect(self, patience) {
                        Ok(data) => Route::Data(Box::new(data)),
                        Err(_) if !self.broken => Route::Stream,
                        Err(error) => return Err(error),
                    },
                };
            }
        }
        match &mut self.route {
            Route::Data(data) => Ok(Some(data)),
            _ => Ok(None),
        }
    }

    /// Whether data travel by RDMA, as far as that is decided.
    pub fn uses_fabric(&self) -> bool {
        matches!(self.route, Route::Data(_))
    }

    /// The stream, for [`super::exchange`], which frames for itself.
    pub(super) fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// The stream and the tags of what comes.
    pub(super) fn incoming(&mut self) -> (&mut Stream, &mut Option<Tagger>) {
        (&mut self.stream, &mut self.incoming_tags)
    }

    /// The tag of a frame that leaves, where frames have tags.
    pub(super) fn tag(&mut self, raw: &[u8; HEADER], body: &[u8]) -> Option<[u8; TAG]> {
        let tagger = self.outgoing_tags.as_mut()?;
        Some(tagger.tag(raw, body))
    }

    /// The number of the next request.
    pub(super) fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// The session cannot be used any more; the server learns of it at once.
    pub(super) fn give_up(&mut self) {
        self.broken = true;
        self.stream.close();
    }

    fn whole(&self) -> Result<(), Error> {
        if self.is_inherited() {
            Err(Error::Forked)
        } else if self.broken {
            Err(Error::Dropped("earlier"))
        } else {
            Ok(())
        }
    }

    fn note<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        self.broken |= result.is_err();
        result
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_inherited() {
            // The parent goes on with both: nothing is said on the stream, and its adapter's objects stay.
            std::mem::forget(std::mem::replace(&mut self.route, Route::Stream));
            return;
        }
        self.stream.close();
    }
}

/// What a client accepts of any server.
pub(super) const REPLIES: Limits = Limits {
    body: MOST_BODY,
    payload: MOST_PAYLOAD,
};

/// The error for data that nobody asked for.
pub(super) fn too_much() -> Error {
    Error::Protocol("more data than were asked for".into())
}

fn room_for(length: usize, into: &mut [u8]) -> Result<&mut [u8], Error> {
    into.get_mut(..length).ok_or_else(too_much)
}

/// The error for a reply of another operation, which `receive` excludes.
pub(crate) fn unexpected(reply: &Reply) -> Error {
    Error::Protocol(format!("unexpected reply {}", reply.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::time::Instant;

    /// The kernel takes the connection, and nobody ever answers.
    #[test]
    fn a_server_that_says_nothing_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Host("127.0.0.1".into(), listener.local_addr().unwrap().port());
        let options = Options {
            patience: Duration::from_secs(600),
            ..Options::plain("nobody")
        };
        let begun = Instant::now();
        let given_up = Session::connect_within(&address, &options, Duration::from_millis(50));
        assert!(matches!(given_up, Err(Error::TimedOut)), "{given_up:?}");
        assert!(begun.elapsed() < options.patience);
    }
}
