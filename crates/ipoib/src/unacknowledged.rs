//! TCP connections that programs have closed and whose peers have not acknowledged the end:
//! `/proc/net/tcp` and `/proc/net/tcp6`, opened in the namespace.

use std::fs::File;

use crate::proc_file;

/// States of `include/net/tcp_states.h` in which the peer has not acknowledged the end.
const FIN_WAIT1: u8 = 4;
const LAST_ACK: u8 = 9;
const CLOSING: u8 = 11;

/// Closed connections whose ends are not acknowledged.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unacknowledged {
    /// Number of the connections.
    pub connections: u64,
    /// Bytes that the peers have not acknowledged.
    pub bytes: u64,
}

/// Reads the connections of a namespace.
pub fn read(files: &[File]) -> Unacknowledged {
    let mut all = Unacknowledged::default();
    for text in files.iter().filter_map(|file| proc_file::text(file).ok()) {
        all.add(&text);
    }
    all
}

impl Unacknowledged {
    /// Adds the connections in the text of either file.
    fn add(&mut self, text: &str) {
        for bytes in text.lines().filter_map(connection) {
            self.connections += 1;
            self.bytes += bytes;
        }
    }
}

/// Returns the bytes without acknowledgement of a closed connection; `None` for other lines.
fn connection(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace().skip(3);
    let state = u8::from_str_radix(words.next()?, 16).ok()?;
    let (queue, _) = words.next()?.split_once(':')?;
    // The end takes a sequence number, too.
    let bytes = u64::from_str_radix(queue, 16).ok()?.saturating_sub(1);
    matches!(state, FIN_WAIT1 | LAST_ACK | CLOSING).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when \
                          retrnsmt   uid  timeout inode\n";

    fn line(state: &str, queue: &str) -> String {
        format!(
            "   1: 0200000A:D2F0 0100000A:1388 {state} {queue}:00000000 01:00000014 00000000     0 \
             0 0 3 0000000000000000 20 4 30 10 -1\n"
        )
    }

    #[test]
    fn closed_connections_count_until_the_peer_has_acknowledged_their_end() {
        let mut all = Unacknowledged::default();
        // ESTABLISHED, FIN_WAIT2, TIME_WAIT, CLOSE_WAIT, LISTEN.
        let others = ["01", "05", "06", "08", "0A"].map(|state| line(state, "00000100"));
        all.add(&[HEADER, &others.concat()].concat());
        assert_eq!(all, Unacknowledged::default());
        let closed = ["04", "09", "0B"].map(|state| line(state, "00000101"));
        all.add(&[HEADER, &closed.concat()].concat());
        let (connections, bytes) = (3, 0x300);
        assert_eq!(all, Unacknowledged { connections, bytes });
        all.add(&line("04", "00000001"));
        let connections = 4;
        assert_eq!(all, Unacknowledged { connections, bytes });
    }

    #[test]
    fn the_kernels_file_is_read() {
        let file = proc_file::open("tcp").unwrap();
        assert!(proc_file::text(&file).unwrap().contains("tx_queue"));
        let missing = proc_file::open("no-such-file").unwrap();
        assert_eq!(read(&[missing]), Unacknowledged::default());
    }

    proptest! {
        #[test]
        fn any_text_is_read(text: String) {
            Unacknowledged::default().add(&text);
        }
    }
}
