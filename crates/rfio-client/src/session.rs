//! A session with a service: connects and authenticates in both directions.
//!
//! Afterwards [`super::connection`] takes over and uses the framing functions of this module.
//! Before that, and to set up a data queue pair, [`Session::call`] sends one request and waits for
//! its reply, with nothing else in flight.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use verbena_rfio_auth::proof::Handshake;
use verbena_rfio_auth::tags::Tagger;
use verbena_rfio_common::random::random;
use verbena_rfio_protocol::frame::{HEADER, Kind, TAG};
use verbena_rfio_protocol::handshake::{Methods, Purpose};
use verbena_rfio_protocol::reply::{self, Accepted, Welcome};
use verbena_rfio_protocol::request::{Hello, Present, Prove, Redeem};
use verbena_rfio_protocol::types::Text;
use verbena_rfio_protocol::{Header, IN_ORDER, NEWEST, Reply, Request, Status};

use super::address::Address;
use super::bounds::{self, ReplyDeadline};
use super::data::DataPath;
use super::error::{Error, too_much};
use super::fork_guard;
use super::input::{FrameHead, Input};
use super::options::{Checksums, Fabric, Options};
use super::stream::Stream;

/// Minimum payload of a request that a server must allow, in bytes. With less, an operation would
/// be split into too many subrequests.
const LEAST_PAYLOAD: u32 = 4096;

/// A session.
#[derive(Debug)]
pub struct Session {
    stream: Stream,
    address: Address,
    accepted: Accepted,
    checksums: Checksums,
    timeout: Duration,
    incoming_tags: Option<Tagger>,
    outgoing_tags: Option<Tagger>,
    version: u16,
    input: Input,
    next: u64,
    broken: bool,
    route: DataRoute,
    /// The process that opened it.
    process: u64,
}

/// The data path.
#[derive(Debug)]
enum DataRoute {
    /// Not needed yet, with the user's preference.
    Undecided(Fabric),
    /// In frames, with requests and replies.
    Stream,
    /// By RDMA.
    Data(Box<DataPath>),
}

impl Session {
    /// Connects and authenticates in both directions.
    ///
    /// # Errors
    /// Failures to connect or to authenticate; [`Error::Impostor`] if the server's proof is wrong.
    pub fn connect(address: &Address, options: &Options) -> Result<Self, Error> {
        Self::connect_within(address, options, options.timeout)
    }

    /// Like [`Session::connect`], but fails if the session is not established within `timeout`;
    /// zero means no limit.
    ///
    /// # Errors
    /// As [`Session::connect`], and [`Error::TimedOut`].
    pub fn connect_within(
        address: &Address,
        options: &Options,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let stream = Stream::connect(address, options.tls.as_ref(), timeout)?;
        stream.set_nonblocking()?;
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
            timeout,
            incoming_tags: None,
            outgoing_tags: None,
            version: IN_ORDER,
            input: Input::default(),
            next: 1,
            broken: false,
            route: DataRoute::Undecided(options.fabric),
            process: fork_guard::generation(),
        };
        session
            .handshake(options)
            .map_err(|error| match error.of_handshake() {
                Error::NotLetIn(refusal, _) if refusal.status != Status::BAD_VERSION => {
                    Error::NotLetIn(refusal, options.describe_credentials())
                }
                other => other,
            })?;
        session.timeout = options.timeout;
        Ok(session)
    }

    fn handshake(&mut self, options: &Options) -> Result<(), Error> {
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
            other => return Err(Error::unexpected(&other)),
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
                "it selected version {version} and method {method:#x}"
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
            other => return Err(Error::unexpected(&other)),
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
            return Err(Error::Protocol("it allows no data in requests".into()));
        }
        if accepted.most_payload < LEAST_PAYLOAD {
            return Err(Error::Protocol(format!(
                "it allows {} bytes per request; reading large files needs at least \
                 {LEAST_PAYLOAD}",
                accepted.most_payload
            )));
        }
        self.accepted = bounds::cap_limits(accepted)?;
        Ok(())
    }

    /// Returns the client's authentication methods. A client with a ticket offers only that.
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

    /// Returns the negotiated protocol version.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Returns the limits that the server announced.
    pub fn server_limits(&self) -> &Accepted {
        &self.accepted
    }

    /// Returns whether data carry checksums.
    pub fn checksums(&self) -> Checksums {
        self.checksums
    }

    /// Returns the time limit of an answer; zero means none.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns whether the session is unusable.
    pub fn is_broken(&self) -> bool {
        self.broken || self.is_inherited()
    }

    /// Returns whether this process was forked from the one that opened the session. Nothing is
    /// sent or received then.
    pub(super) fn is_inherited(&self) -> bool {
        self.process != fork_guard::generation()
    }

    /// Returns whether the server is known to have closed the connection.
    pub fn is_closed_by_peer(&self) -> bool {
        self.stream.is_closed_by_peer()
    }

    /// Sends one request without data and returns its reply. Nothing else may be in flight.
    ///
    /// # Errors
    /// [`Error::Refused`] if the server refuses the request; any other error breaks the session.
    pub fn call(&mut self, request: &Request) -> Result<Reply, Error> {
        self.check_usable()?;
        let called = self.exchange_frames(request);
        self.broken |= called.is_err();
        called?.map_err(Error::Refused)
    }

    fn exchange_frames(
        &mut self,
        request: &Request,
    ) -> Result<Result<Reply, reply::Refusal>, Error> {
        let (id, head) = self.frame(request, 0);
        let socket = self.descriptor()?;
        let (mut sent, deadline) = (0, ReplyDeadline::new(self.timeout));
        loop {
            while sent < head.len() {
                match self.stream.send_some(&[IoSlice::new(&head[sent..])])? {
                    Some(more) => sent += more,
                    None => break,
                }
            }
            let is_sent = self.stream.flush_some()? && sent == head.len();
            if is_sent && let Some(FrameHead { header, body }) = self.frame_head()? {
                let due = (id, Kind::reply(request.operation()));
                if (header.id, header.kind) != due {
                    return Err(Error::Protocol(format!(
                        "reply {} in place of {id}",
                        header.id
                    )));
                }
                return match header.payload {
                    0 => Ok(reply::decode(request.operation(), &body)?),
                    _ => Err(too_much()),
                };
            }
            if deadline.is_over() {
                return Err(Error::TimedOut);
            }
            let wanted = if is_sent {
                PollFlags::IN
            } else {
                PollFlags::OUT
            };
            let left = deadline
                .left()
                .and_then(|left| Timespec::try_from(left).ok());
            // A failed poll has reported nothing and is repeated.
            let _ = poll(&mut [PollFd::new(&socket, wanted)], left.as_ref());
        }
    }

    /// Returns a request's number and its frame up to the data, whose length is `data` bytes.
    pub(super) fn frame(&mut self, request: &Request, data: usize) -> (u64, Vec<u8>) {
        let id = self.next;
        self.next += 1;
        let body = request.encode();
        let header = Header {
            kind: Kind::request(request.operation()),
            body: body.len() as u32,
            payload: data as u32,
            id,
        };
        let raw = header.emit();
        let mut head = Vec::with_capacity(HEADER + body.len() + TAG);
        head.extend_from_slice(&raw);
        head.extend_from_slice(&body);
        if let Some(tagger) = &mut self.outgoing_tags {
            head.extend_from_slice(&tagger.tag(&raw, &body));
        }
        (id, head)
    }

    /// Returns the next frame up to its payload, once it has been received.
    pub(super) fn frame_head(&mut self) -> Result<Option<FrameHead>, Error> {
        self.input
            .frame_head(&mut self.stream, &mut self.incoming_tags)
    }

    /// Chooses the data path if it is undecided; nothing may be in flight. A session that transfers
    /// no data never pays for a queue pair.
    ///
    /// # Errors
    /// Fails if RDMA is required and unavailable, or if the session breaks.
    pub fn choose_data_path(&mut self) -> Result<(), Error> {
        let DataRoute::Undecided(wish) = self.route else {
            return Ok(());
        };
        self.route = DataRoute::Stream;
        let connect = |session: &mut Self| {
            let (payload, timeout) = (session.server_limits().most_payload, session.timeout);
            DataPath::connect(payload, timeout, |request| session.call(request))
        };
        let data = match (wish, self.accepted.fabric) {
            (Fabric::Tcp, _) | (Fabric::Auto, false) => return Ok(()),
            (Fabric::Verbs, false) => {
                return Err(Error::no_device_of_server());
            }
            (Fabric::Verbs, true) => connect(self)?,
            (Fabric::Auto, true) => match connect(self) {
                Ok(data) => data,
                Err(_) if !self.broken => return Ok(()),
                Err(error) => return Err(error),
            },
        };
        self.route = DataRoute::Data(Box::new(data));
        Ok(())
    }

    /// Returns whether the data path is undecided.
    pub fn is_data_path_undecided(&self) -> bool {
        matches!(self.route, DataRoute::Undecided(_))
    }

    /// Returns the data path, if data travel by RDMA.
    pub(super) fn data_path(&mut self) -> Option<&mut DataPath> {
        match &mut self.route {
            DataRoute::Data(data) => Some(data),
            _ => None,
        }
    }

    /// Returns whether data travel by RDMA, as far as that has been decided.
    pub fn uses_fabric(&self) -> bool {
        matches!(self.route, DataRoute::Data(_))
    }

    /// Returns the stream for [`super::connection`], which does its own framing.
    pub(super) fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// Returns the descriptor to poll.
    pub(super) fn descriptor(&self) -> Result<OwnedFd, Error> {
        self.stream.descriptor()
    }

    /// Marks the session as unusable and closes the stream, so that the server notices at once.
    pub(super) fn abort(&mut self) {
        self.broken = true;
        self.stream.close();
    }

    fn check_usable(&self) -> Result<(), Error> {
        if self.is_inherited() {
            Err(Error::Forked)
        } else if self.broken {
            Err(Error::Dropped("earlier"))
        } else {
            Ok(())
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_inherited() {
            // The parent keeps using both: nothing is sent on the stream, and its adapter's objects
            // stay.
            std::mem::forget(std::mem::replace(&mut self.route, DataRoute::Stream));
            return;
        }
        self.stream.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::time::Instant;

    /// The kernel accepts the connection, and no process ever answers.
    #[test]
    fn a_silent_server_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Host("127.0.0.1".into(), listener.local_addr().unwrap().port());
        let options = Options {
            timeout: Duration::from_secs(600),
            ..Options::plain("nobody")
        };
        let begun = Instant::now();
        let given_up = Session::connect_within(&address, &options, Duration::from_millis(50));
        assert!(matches!(given_up, Err(Error::TimedOut)), "{given_up:?}");
        assert!(begun.elapsed() < options.timeout);
    }
}
