//! Management datagrams (MADs) to other hosts.

use verbena_hca::process::Process;
use verbena_hca_net::roce::management::CmMad;

/// Sends a MAD.
pub fn send(cm_mad: &CmMad) {
    if let Ok(process) = Process::current() {
        // A failure counts as a lost datagram.
        let _ = process.send_management(cm_mad);
    }
}
