//! Several ports of one or more adapters: pairs use them in rotation, as processes of a node with
//! several adapters do.

use crate::Failure;
use crate::resolved::{Port, Resolved};
use std::fmt;
use std::str::FromStr;
use verbena_verbs::Library;

/// A port as typed: `2`, `mlx5_1` or `mlx5_1:2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortName {
    /// Without a device, that of the target.
    device: Option<String>,
    number: u8,
}

impl FromStr for PortName {
    type Err = String;

    fn from_str(text: &str) -> Result<PortName, String> {
        let wrong = || format!("{text:?} is not a port; write e.g. 2, mlx5_1 or mlx5_1:2");
        let number = |digits: &str| digits.parse().ok().filter(|number: &u8| *number > 0);
        let (device, port) = match text.split_once(':') {
            Some((device, digits)) => (Some(device), number(digits).ok_or_else(wrong)?),
            None if text.starts_with(|c: char| c.is_ascii_digit()) => {
                (None, number(text).ok_or_else(wrong)?)
            }
            None => (Some(text), 1),
        };
        match device {
            Some("") => Err(wrong()),
            device => Ok(PortName {
                device: device.map(str::to_owned),
                number: port,
            }),
        }
    }
}

/// Replaces the target's ports by the given ones.
///
/// # Errors
///
/// Fails if a port does not exist, is not active, or is given twice.
pub(crate) fn choose(target: &mut Resolved, names: &[PortName]) -> Result<(), Failure> {
    let mut ports: Vec<Port> = Vec::new();
    for name in names {
        let device = name.device.as_deref().unwrap_or(target.device());
        let port = Port {
            device: device.to_owned(),
            number: name.number,
        };
        let refused = |reason: &dyn fmt::Display| {
            Failure::Input(format!("--ports: cannot use {port}: {reason}"))
        };
        if ports.contains(&port) {
            return Err(refused(&"it is given twice"));
        }
        let ask = || {
            Library::open(&target.library)?
                .device(Some(device))?
                .open()?
                .port(port.number)
        };
        match ask() {
            Ok(known) if known.active => ports.push(port),
            Ok(_) => return Err(refused(&"it is not active")),
            Err(error) => return Err(refused(&error)),
        }
    }
    target.ports = ports;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_names_are_parsed() {
        let name = |device: Option<&str>, number| {
            let device = device.map(str::to_owned);
            Ok(PortName { device, number })
        };
        assert_eq!("2".parse(), name(None, 2));
        assert_eq!("mlx5_1".parse(), name(Some("mlx5_1"), 1));
        assert_eq!("mlx5_1:2".parse(), name(Some("mlx5_1"), 2));
        for wrong in [
            "", "0", "256", ":1", "mlx5_1:", "mlx5_1:0", "mlx5_1:x", "1:2:3", "2x",
        ] {
            let error = wrong.parse::<PortName>().unwrap_err();
            assert!(error.contains(wrong), "{wrong}");
        }
    }
}
