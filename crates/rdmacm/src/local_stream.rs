//! The stream between two identifiers of a host: sends and receives whole messages, and detects the
//! peer's end.

use crate::message::{FRAME, Message};
use crate::relay;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use verbena_hca_net::roce::management::CmMad;
use verbena_hca_os::errno::{Errno, Result};

/// One side of a stream.
pub struct LocalStream {
    stream: UnixStream,
    frame: [u8; FRAME],
    filled: usize,
}

/// Result of reading.
#[derive(Debug, PartialEq)]
pub enum Received {
    /// A message.
    Message(Box<Message>),
    /// A MAD from another host, passed on by the process that received it.
    CmMad(Box<CmMad>),
    /// Nothing more for now.
    Nothing,
    /// The peer is dead, or has sent invalid data.
    End,
}

impl LocalStream {
    /// Returns the side of a stream, which becomes non-blocking.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn new(stream: UnixStream) -> Result<LocalStream> {
        stream.set_nonblocking(true)?;
        Ok(LocalStream {
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
    pub fn send(&mut self, message: &Message) -> Result<()> {
        match self.stream.write_all(&message.encode()) {
            Ok(()) => Ok(()),
            Err(_) => Err(Errno(libc::EPIPE)),
        }
    }

    /// Passes a MAD on.
    ///
    /// # Errors
    /// EPIPE if the peer is dead.
    pub fn forward(&mut self, cm_mad: &CmMad) -> Result<()> {
        let written = self.stream.write_all(&relay::encode(cm_mad));
        written.map_err(|_| Errno(libc::EPIPE))
    }

    fn decode(&self) -> Received {
        if let Some(message) = Message::decode(&self.frame) {
            return Received::Message(Box::new(message));
        }
        match relay::decode(&self.frame) {
            Some(cm_mad) => Received::CmMad(Box::new(cm_mad)),
            None => Received::End,
        }
    }

    /// Reads the next message.
    pub fn receive(&mut self) -> Received {
        loop {
            match self.stream.read(&mut self.frame[self.filled..]) {
                Ok(0) => return Received::End,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Received::Nothing,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Received::End,
            }
            if self.filled == FRAME {
                self.filled = 0;
                return self.decode();
            }
        }
    }
}

impl AsFd for LocalStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::MessageKind;

    #[test]
    fn messages_arrive_in_order_before_the_end_of_stream() {
        let (a, b) = UnixStream::pair().unwrap();
        let (mut a, mut b) = (LocalStream::new(a).unwrap(), LocalStream::new(b).unwrap());
        assert_eq!(b.receive(), Received::Nothing);
        a.send(&Message::bare(MessageKind::Dreq)).unwrap();
        a.send(&Message::bare(MessageKind::Rtu)).unwrap();
        drop(a);
        assert_eq!(
            b.receive(),
            Received::Message(Message::bare(MessageKind::Dreq).into())
        );
        assert_eq!(
            b.receive(),
            Received::Message(Message::bare(MessageKind::Rtu).into())
        );
        assert_eq!(b.receive(), Received::End);
        assert_eq!(
            b.send(&Message::bare(MessageKind::Drep)),
            Err(Errno(libc::EPIPE))
        );
    }

    #[test]
    fn split_messages_are_reassembled_and_garbage_ends_the_stream() {
        let (mut a, b) = UnixStream::pair().unwrap();
        let mut b = LocalStream::new(b).unwrap();
        let bytes = Message::bare(MessageKind::Req).encode();
        a.write_all(&bytes[..100]).unwrap();
        assert_eq!(b.receive(), Received::Nothing);
        a.write_all(&bytes[100..]).unwrap();
        assert_eq!(
            b.receive(),
            Received::Message(Message::bare(MessageKind::Req).into())
        );
        a.write_all(&[7; FRAME]).unwrap();
        assert_eq!(b.receive(), Received::End);
    }
}
