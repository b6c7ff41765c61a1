//! Descriptors that a process inherits or receives.
#![allow(unsafe_code, reason = "takes an inherited descriptor by its number")]

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, sendmsg, socketpair,
};

/// Takes a descriptor that the starter of this process left open for it, and closes it on exec.
///
/// # Errors
///
/// Fails if there is no such descriptor.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number <= 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number is checked by a system call before the descriptor is owned, which does
    // nothing but fail if it is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_getfd(borrowed)?;
    fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    // SAFETY: it is open, and this process, which has just started, has no other owner of it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Returns a pair of connected sockets, of which a process that is started inherits the second.
///
/// # Errors
///
/// The system's.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let (own, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    fcntl_setfd(&other, FdFlags::empty())?;
    Ok((own, other))
}

/// Most descriptors in a message.
const MOST: usize = 8;

/// Sends descriptors, and a number.
///
/// # Errors
///
/// The system's.
pub fn send(socket: impl AsFd, number: u32, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let number = number.to_ne_bytes();
    let data = [IoSlice::new(&number)];
    sendmsg(socket, &data, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives descriptors and their number; none if the peer has ended without sending any.
///
/// # Errors
///
/// The system's.
pub fn receive(socket: impl AsFd) -> io::Result<(u32, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut number = [0; 4];
    let mut data = [IoSliceMut::new(&mut number)];
    recvmsg(socket, &mut data, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(all) => Some(all),
        _ => None,
    });
    let descriptors = rights.flatten().collect();
    Ok((u32::from_ne_bytes(number), descriptors))
}

/// Waits for the peer's message. Returns `false` if the peer has ended instead.
///
/// # Errors
///
/// The system's.
pub fn wait(socket: impl AsFd) -> io::Result<bool> {
    let mut byte = [0];
    loop {
        match recv(&socket, &mut byte, RecvFlags::empty()) {
            Ok((length, _)) => return Ok(length > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends a message to the peer that waits.
///
/// # Errors
///
/// The system's.
pub fn notify(socket: impl AsFd) -> io::Result<()> {
    rustix::net::send(socket, &[1], SendFlags::NOSIGNAL)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsRawFd;

    #[test]
    fn descriptors_arrive_with_their_files() {
        let (one, other) = pair().unwrap();
        let file = File::open("/proc/self/comm").unwrap();
        send(&one, 7, &[file.as_fd(), file.as_fd()]).unwrap();
        let (number, received) = receive(&other).unwrap();
        assert_eq!((number, received.len()), (7, 2));
        let mut text = String::new();
        File::from(received.into_iter().next().unwrap())
            .read_to_string(&mut text)
            .unwrap();
        assert!(!text.is_empty());
    }

    #[test]
    fn the_end_of_the_peer_is_noticed() {
        let (one, other) = pair().unwrap();
        notify(&one).unwrap();
        drop(one);
        assert!(wait(&other).unwrap());
        assert!(!wait(&other).unwrap());
        assert!(receive(&other).unwrap().1.is_empty());
    }

    #[test]
    fn a_number_without_a_descriptor_is_refused() {
        let free = File::open("/dev/null").unwrap().as_raw_fd() + 1000;
        assert!(inherited(free).is_err() && inherited(1).is_err());
    }
}
