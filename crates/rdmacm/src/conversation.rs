//! The stream between two identifiers of a host: sends and receives whole messages, and detects the
//! peer's end.

use crate::message::{FRAME, Message};
use crate::relay;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use verbena_hca::roce::management::CmMad;
use verbena_hca_os::errno::{Errno, Result};

/// One side of a stream.
pub struct Conversation {
    stream: UnixStream,
    frame: [u8; FRAME],
    filled: usize,
}

/// Result of reading.
#[derive(Debug, PartialEq)]
pub enum Heard {
    /// A message.
    Message(Box<Message>),
    /// A MAD from another host, passed on by the process that received it.
    CmMad(Box<CmMad>),
    /// Nothing more for now.
    Nothing,
    /// The peer is dead, or has sent invalid data.
    End,
}

impl Conversation {
    /// Returns the side of a stream, which becomes non-blocking.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn new(stream: UnixStream) -> Result<Conversation> {
        stream.set_nonblocking(true)?;
        Ok(Conversation {
            stream,
            frame: [0; FRAME],
            filled: 0,
        })
    }

    /// Sends a message. The few messages of a connection always fit into the socket's buffer; a
    /// peer for which one does not fit counts as dead.
    ///
    /// # Errors
    /// EPIPE if the peer is dead.
    pub fn say(&mut self, message: &Message) -> Result<()> {
        match self.stream.write_all(&message.encode()) {
            Ok(()) => Ok(()),
            Err(_) => Err(Errno(libc::EPIPE)),
        }
    }

    /// Passes a MAD on.
    ///
    /// # Errors
    /// EPIPE if the peer is dead.
    pub fn hand_on(&mut self, cm_mad: &CmMad) -> Result<()> {
        let written = self.stream.write_all(&relay::encode(cm_mad));
        written.map_err(|_| Errno(libc::EPIPE))
    }

    fn decode(&self) -> Heard {
        if let Some(message) = Message::decode(&self.frame) {
            return Heard::Message(Box::new(message));
        }
        match relay::decode(&self.frame) {
            Some(cm_mad) => Heard::CmMad(Box::new(cm_mad)),
            None => Heard::End,
        }
    }

    /// Reads the next message.
    pub fn hear(&mut self) -> Heard {
        loop {
            match self.stream.read(&mut self.frame[self.filled..]) {
                Ok(0) => return Heard::End,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Heard::Nothing,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Heard::End,
            }
            if self.filled == FRAME {
                self.filled = 0;
                return self.decode();
            }
        }
    }
}

impl AsFd for Conversation {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Kind;

    #[test]
    fn messages_arrive_in_order_before_the_end_of_stream() {
        let (a, b) = UnixStream::pair().unwrap();
        let (mut a, mut b) = (Conversation::new(a).unwrap(), Conversation::new(b).unwrap());
        assert_eq!(b.hear(), Heard::Nothing);
        a.say(&Message::bare(Kind::Dreq)).unwrap();
        a.say(&Message::bare(Kind::Rtu)).unwrap();
        drop(a);
        assert_eq!(b.hear(), Heard::Message(Message::bare(Kind::Dreq).into()));
        assert_eq!(b.hear(), Heard::Message(Message::bare(Kind::Rtu).into()));
        assert_eq!(b.hear(), Heard::End);
        assert_eq!(b.say(&Message::bare(Kind::Drep)), Err(Errno(libc::EPIPE)));
    }

    #[test]
    fn split_messages_are_reassembled_and_garbage_ends_the_stream() {
        let (mut a, b) = UnixStream::pair().unwrap();
        let mut b = Conversation::new(b).unwrap();
        let bytes = Message::bare(Kind::Req).encode();
        a.write_all(&bytes[..100]).unwrap();
        assert_eq!(b.hear(), Heard::Nothing);
        a.write_all(&bytes[100..]).unwrap();
        assert_eq!(b.hear(), Heard::Message(Message::bare(Kind::Req).into()));
        a.write_all(&[7; FRAME]).unwrap();
        assert_eq!(b.hear(), Heard::End);
    }
}
