//! Options of an identifier: rdma_set_option(3).

use super::written::Command;
use crate::abi::SetOption;
use crate::connection_state::ConnectionState;
use crate::state::State;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;

const LEVEL_IDENTIFIER: u32 = 0;
const TYPE_OF_SERVICE: u32 = 0;
const REUSE_ADDRESS: u32 = 1;
const ADDRESS_FAMILY_ONLY: u32 = 2;
const ACK_TIMEOUT: u32 = 3;

/// Sets an option.
///
/// # Errors
/// ENOSYS for an unknown option, EINVAL for a value of the wrong length or an identifier in a later
/// state, EADDRNOTAVAIL if the port is taken in the other family, which the option claims too.
///
/// # Safety
/// That of [`super::execute`].
pub unsafe fn set(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: SetOption = command.read()?;
    let identifier = state.identifier(command.channel, wanted.id)?;
    if wanted.level != LEVEL_IDENTIFIER {
        // Such as user-chosen paths: there is only one path.
        return Err(Errno(libc::ENOSYS));
    }
    match wanted.optname {
        // SAFETY: the caller promises that `optval` is valid for reads of `optlen` bytes.
        TYPE_OF_SERVICE => drop(unsafe { value::<1>(&wanted)? }),
        REUSE_ADDRESS => {
            // SAFETY: the caller promises that `optval` is valid for reads of `optlen` bytes.
            let value = i32::from_ne_bytes(unsafe { value::<4>(&wanted)? });
            identifier.options.reuse_address = value != 0;
        }
        ADDRESS_FAMILY_ONLY => {
            // SAFETY: the caller promises that `optval` is valid for reads of `optlen` bytes.
            let only = i32::from_ne_bytes(unsafe { value::<4>(&wanted)? }) != 0;
            if !matches!(
                identifier.state,
                ConnectionState::Idle | ConnectionState::Bound
            ) {
                return Err(refused!(
                    EINVAL,
                    "the identifier listens or has a destination: set RDMA_OPTION_ID_AFONLY before"
                ));
            }
            if let Some(port) = &mut identifier.port {
                port.set_family_only(only)?;
            }
            identifier.options.family_only = Some(only);
        }
        ACK_TIMEOUT => {
            // SAFETY: the caller promises that `optval` is valid for reads of `optlen` bytes.
            let [timeout] = unsafe { value::<1>(&wanted)? };
            if timeout > 31 {
                return Err(Errno::EINVAL);
            }
            identifier.options.ack_timeout = Some(timeout);
        }
        _ => return Err(Errno(libc::ENOSYS)),
    }
    Ok(())
}

/// Reads the value of an option.
///
/// # Safety
/// `optval` must be null or valid for reads of `optlen` bytes.
unsafe fn value<const N: usize>(option: &SetOption) -> Result<[u8; N]> {
    if option.optlen as usize != N || option.optval == 0 {
        return Err(Errno::EINVAL);
    }
    // SAFETY: `optval` is not null and the caller promises `optlen` = N bytes there; bytes need no
    // alignment.
    Ok(unsafe { (option.optval as *const [u8; N]).read() })
}
