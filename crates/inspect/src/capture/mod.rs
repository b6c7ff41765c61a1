//! Packet capture: collects packets from processes and writes a file for packet analysers.

mod order;
mod pcapng;
mod writer;

pub use writer::{Destination, Writer};

use std::io;
use std::path::PathBuf;
use verbena_hca_os::errno::Errno;

/// The reason why packets cannot be captured or written.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The runtime directory's processes have a capturer.
    #[error(
        "another `verbena capture` captures the processes of {0}; end it first, or capture one \
         program: `verbena capture -- CMD`"
    )]
    Busy(PathBuf),

    /// The processes cannot connect to this capture.
    #[error("cannot listen for the processes of {path}: {source}")]
    Call {
        /// The runtime directory, or a socket.
        path: PathBuf,
        /// The system's error.
        source: Errno,
    },

    /// The file cannot be written.
    #[error("cannot write {path}: {source}")]
    File {
        /// The path as typed.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}
