//! Targets of benchmarks: `software`, `hardware[:DEVICE[:PORT]]`, `model:PROFILE[:message]`; and
//! `tcp` and `shm`, the transports of MPI libraries that need no adapter.

use super::ports::Port;
use super::virtual_session::ModelTarget;
use crate::failure::Failure;
use crate::launch::libraries::Libraries;
use crate::profiles::ProfileOptions;
use crate::suggestion::did_you_mean;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::str::FromStr;
use verbena_fabric::FabricKind;
use verbena_fabric::model::{Fidelity, Machine};
use verbena_hca::describe;
use verbena_hca_shm::registry::{self, Registry};
use verbena_verbs::Library;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Verbena's adapter.
    Software,
    /// A real adapter through the system's libibverbs.
    Hardware {
        /// The device; the first one if `None`.
        device: Option<String>,
        port: u8,
    },
    /// TCP over loopback, through an MPI library.
    Tcp,
    /// Shared memory of an MPI library.
    SharedMemory,
    Model {
        profile: String,
        /// Whether packets or whole messages are simulated.
        fidelity: Fidelity,
    },
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let mut parts = text.split(':');
        let kind = parts.next().unwrap_or_default();
        let (device, port) = (parts.next(), parts.next());
        if parts.next().is_some() {
            return Err(format!(
                "{text:?} has too many parts; use hardware:DEVICE:PORT"
            ));
        }
        match (kind, device) {
            ("software", None) => Ok(Target::Software),
            ("tcp", None) => Ok(Target::Tcp),
            ("shm", None) => Ok(Target::SharedMemory),
            ("software" | "tcp" | "shm", Some(_)) => Err(format!("`{kind}` takes no device")),
            ("hardware", _) => {
                let port = port
                    .unwrap_or("1")
                    .parse()
                    .map_err(|_| format!("the port in {text:?} is not a number from 1 to 255"))?;
                let device = device
                    .filter(|device| !device.is_empty())
                    .map(str::to_owned);
                Ok(Target::Hardware { device, port })
            }
            ("model", Some(profile)) if !profile.is_empty() => {
                let fidelity = match port {
                    None | Some("packet") => Fidelity::Packet,
                    Some("message") => Fidelity::Message,
                    Some(other) => {
                        return Err(format!("{other:?} is neither `packet` nor `message`"));
                    }
                };
                let profile = profile.to_owned();
                Ok(Target::Model { profile, fidelity })
            }
            ("model", _) => Err(
                "no model given; `verbena list` names the profiles, e.g. model:connectx-ddr"
                    .to_owned(),
            ),
            _ => Err(format!(
                "{kind:?} is not a target; use `software`, `hardware[:DEVICE[:PORT]]`, \
                 `model:PROFILE`, or `tcp` or `shm` for mpi.*"
            )),
        }
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
    /// Returns a target that needs no adapter.
    fn without_adapter(kind: &str, device: &str) -> Found {
        Found::Adapter(Resolved {
            kind: kind.to_owned(),
            library: PathBuf::new(),
            ports: vec![Port {
                device: device.to_owned(),
                number: 0,
            }],
        })
    }

    pub fn device(&self) -> &str {
        self.ports.first().map_or("", |port| &port.device)
    }

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
        let none = |error: &dyn std::fmt::Display| {
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

    pub fn label(&self) -> String {
        match self.kind.as_str() {
            "hardware" => self.device().to_owned(),
            other => other.to_owned(),
        }
    }
}

/// A target ready to use.
#[derive(Debug, Clone)]
pub enum Found {
    /// An adapter behind the C ABI.
    Adapter(Resolved),
    Model(Box<ModelTarget>),
}

impl Found {
    pub fn directory(&self) -> String {
        match self {
            Found::Adapter(resolved) => resolved.label(),
            Found::Model(model) => model.directory(),
        }
    }
}

impl Target {
    /// Finds library and device, or the profile.
    ///
    /// # Errors
    ///
    /// Fails if they do not exist, suggesting alternatives.
    pub fn find(&self, profiles: &ProfileOptions) -> Result<Found, Failure> {
        let (kind, library, wanted, port) = match self {
            Target::Software => {
                let libraries = Libraries::beside_this_executable()?;
                registry_is_usable()?;
                ("software", libraries.ibverbs(), None, 1)
            }
            Target::Hardware { device, port } => {
                let system = PathBuf::from(verbena_verbs::library::SYSTEM_LIBRARY);
                ("hardware", system, device.as_deref(), *port)
            }
            Target::Tcp => return Ok(Resolved::without_adapter("tcp", "lo")),
            Target::SharedMemory => return Ok(Resolved::without_adapter("shm", "memory")),
            Target::Model { profile, fidelity } => {
                let library = profiles.library()?;
                let machine = Machine::of(&library, profile).map_err(|error| {
                    if Machine::names(&library).any(|name| name == profile.as_str()) {
                        return Failure::Input(error.to_string());
                    }
                    let meant = did_you_mean(profile, Machine::names(&library));
                    let reason = error.reason;
                    Failure::Input(format!("no model {profile:?}{meant}: {reason}"))
                })?;
                let fidelity = *fidelity;
                return Ok(Found::Model(Box::new(ModelTarget { machine, fidelity })));
            }
        };
        let loaded = Library::open(&library).map_err(|e| Failure::Suite(e.to_string()))?;
        let device = loaded.device(wanted).map_err(|error| {
            let name = wanted.unwrap_or("hardware");
            Failure::Input(format!(
                "cannot measure {name}: {error}; `--on software` and `--on model:PROFILE` need no adapter"
            ))
        })?;
        let device = device.name().to_owned();
        Ok(Found::Adapter(Resolved {
            kind: kind.to_owned(),
            library,
            ports: vec![Port {
                device,
                number: port,
            }],
        }))
    }
}

/// Checks that processes can join the registry; they themselves could only report that a call was
/// not permitted.
fn registry_is_usable() -> Result<(), Failure> {
    let path = registry::directory();
    match Registry::open(&path) {
        Ok(_) => {
            describe::sweep(&path);
            Ok(())
        }
        Err(source) => Err(Failure::Registry { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_parsed() {
        let hardware = |device: Option<&str>, port| {
            Ok(Target::Hardware {
                device: device.map(str::to_owned),
                port,
            })
        };
        assert_eq!("software".parse(), Ok(Target::Software));
        assert_eq!("hardware".parse::<Target>(), hardware(None, 1));
        assert_eq!(
            "hardware:mlx5_0:2".parse::<Target>(),
            hardware(Some("mlx5_0"), 2)
        );
        let model = |fidelity| {
            Ok(Target::Model {
                profile: "connectx-ddr".to_owned(),
                fidelity,
            })
        };
        assert_eq!("model:connectx-ddr".parse(), model(Fidelity::Packet));
        assert_eq!(
            "model:connectx-ddr:message".parse(),
            model(Fidelity::Message)
        );
        assert_eq!("tcp".parse(), Ok(Target::Tcp));
        assert_eq!("shm".parse(), Ok(Target::SharedMemory));
        for wrong in [
            "",
            "tcp:lo",
            "shm:x",
            "modell",
            "model",
            "model:",
            "model:connectx-ddr:coarse",
            "software:x",
            "hardware:a:b",
            "hardware:a:1:2",
            "hardware:a:999",
        ] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }
}
