//! A target with its library, device and ports.

use crate::Failure;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use verbena_fabric::FabricKind;
use verbena_fabric::verbs::Rail;
use verbena_verbs::Library;

/// A port of an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Name of its device.
    pub device: String,
    /// Its number, from 1.
    pub number: u8,
}

impl Port {
    /// Returns the port as a rail of a fabric.
    pub fn rail(&self) -> Rail {
        Rail {
            device: Some(self.device.clone()),
            port: self.number,
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.device, self.number)
    }
}

/// A target with its library and device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    /// `software` or `hardware`; `tcp` or `shm` without an adapter.
    pub kind: String,
    /// The library to load; empty without an adapter.
    pub library: PathBuf,
    /// The ports, which pairs use in rotation; usually one.
    pub ports: Vec<Port>,
}

impl Resolved {
    /// Returns the first device; empty without an adapter.
    pub fn device(&self) -> &str {
        self.ports.first().map_or("", |port| &port.device)
    }

    /// Returns the first port.
    pub fn port(&self) -> u8 {
        self.ports.first().map_or(0, |port| port.number)
    }

    /// Returns whether the target is an adapter, not only a transport of an MPI library.
    pub fn is_adapter(&self) -> bool {
        !matches!(self.kind.as_str(), "tcp" | "shm")
    }

    /// Returns the kind of fabric named in results.
    pub fn fabric_kind(&self) -> FabricKind {
        match self.kind.as_str() {
            "hardware" => FabricKind::Hardware,
            _ => FabricKind::Software,
        }
    }

    /// Checks that all ports have a GID at this index.
    ///
    /// # Errors
    ///
    /// Fails if one has none, or cannot be queried.
    pub fn check_gid(&self, index: u8) -> Result<(), Failure> {
        let none = |error: &dyn fmt::Display| {
            Failure::Input(format!("cannot use --gid-index {index}: {error}"))
        };
        for port in &self.ports {
            let ask = || {
                let device = Library::open(&self.library)?.device(Some(&port.device))?;
                device.open()?.gid(port.number, index)
            };
            let gid = ask().map_err(|error| none(&error))?;
            if gid.0 == [0; 16] {
                return Err(none(&format!("{port} has no GID at this index")));
            }
        }
        Ok(())
    }

    /// Returns the name of the target in reports.
    pub fn label(&self) -> String {
        match self.kind.as_str() {
            "hardware" => self.device().to_owned(),
            other => other.to_owned(),
        }
    }
}
