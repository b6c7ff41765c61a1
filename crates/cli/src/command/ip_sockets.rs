//! `verbena __ip-sockets`: makes sockets in the namespace of a `verbena ipoib`, for `bench ip.*`.

use std::io;

use verbena_bench::ip;
use verbena_hca_os::interfaces;

use crate::exit::Exit;
use crate::failure::Failure;

/// Makes sockets until the process that asks for them ends.
///
/// # Errors
///
/// Fails if standard input is not its socket.
pub fn run() -> Result<Exit, Failure> {
    let mtu = |name: &str| {
        let all = interfaces::all().map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        Ok(all.iter().find(|one| one.name == name).map(|one| one.mtu))
    };
    ip::answer(mtu).map_err(Failure::system("make sockets for `bench`"))?;
    Ok(Exit::Success)
}
