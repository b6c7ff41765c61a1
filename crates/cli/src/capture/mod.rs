//! Capturing: from what processes tell to a file that packet analysers open.

mod order;
mod pcapng;
mod writer;

pub use writer::{Destination, Writer};

use std::io;
use std::path::PathBuf;
use verbena_hca::errno::Errno;

/// Why packets cannot be captured.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Another capturer is at it.
    #[error(
        "the processes of {0} are captured already; end that `verbena capture` first, or capture \
         one program: `verbena capture -- CMD`"
    )]
    Busy(PathBuf),

    /// Nobody can be asked.
    #[error("cannot be called by the processes of {path}: {source}")]
    Call {
        /// The runtime directory, or a socket.
        path: PathBuf,
        /// What the system said.
        source: Errno,
    },

    /// The file cannot be written.
    #[error("cannot write {path}: {source}")]
    File {
        /// As typed.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
