//! Targets of benchmarks: `software`, `hardware[:DEVICE[:PORT]]`, `model:PROFILE[:message]`,
//! `machine:NAME[:message]`; and `tcp` and `shm`, the transports of MPI libraries that need no
//! adapter.

use crate::Failure;
use crate::anchors;
use crate::host::Host;
use crate::machines;
use crate::model_target::ModelTarget;
use crate::profiles::Profiles;
use crate::resolved::{Port, Resolved};
use std::path::PathBuf;
use std::str::FromStr;
use verbena_fabric::model::Fidelity;
use verbena_verbs::Library;

/// A requested target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Verbena's adapter.
    Software,
    /// A real adapter through the system's libibverbs.
    Hardware {
        /// The device; the first one if `None`.
        device: Option<String>,
        /// Its port, from 1.
        port: u8,
    },
    /// TCP over loopback, through an MPI library.
    Tcp,
    /// Shared memory of an MPI library.
    SharedMemory,
    /// A timing model.
    Model {
        /// Name of its profile; of a saved machine `machine:NAME`.
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
            ("model" | "machine", Some(name)) if !name.is_empty() => {
                let fidelity = match port {
                    None | Some("packet") => Fidelity::Packet,
                    Some("message") => Fidelity::Message,
                    Some(other) => {
                        return Err(format!("{other:?} is neither `packet` nor `message`"));
                    }
                };
                let profile = match kind {
                    "machine" => format!("{}{name}", machines::PREFIX),
                    _ => name.to_owned(),
                };
                Ok(Target::Model { profile, fidelity })
            }
            ("model", _) => Err(
                "no model given; `verbena list` names the profiles, e.g. model:connectx-ddr"
                    .to_owned(),
            ),
            ("machine", _) => Err(
                "no machine given; `verbena machine list` names the saved ones, e.g. \
                 machine:mycluster"
                    .to_owned(),
            ),
            _ => Err(format!(
                "{kind:?} is not a target; use `software`, `hardware[:DEVICE[:PORT]]`, \
                 `model:PROFILE` (e.g. model:connectx6-hdr), `machine:NAME`, or `tcp` or `shm` \
                 for mpi.*"
            )),
        }
    }
}

/// A target ready to use.
#[derive(Debug, Clone)]
pub enum Found {
    /// An adapter behind the C ABI.
    Adapter(Resolved),
    /// A timing model.
    Model(Box<ModelTarget>),
}

impl Found {
    /// Returns the name of its directory in that of a run on several targets.
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
    pub fn find(&self, host: &dyn Host, profiles: &Profiles) -> Result<Found, Failure> {
        let (kind, library, wanted, port) = match self {
            Target::Software => ("software", host.software_library()?, None, 1),
            Target::Hardware { device, port } => {
                let system = PathBuf::from(verbena_verbs::library::SYSTEM_LIBRARY);
                ("hardware", system, device.as_deref(), *port)
            }
            Target::Tcp => return Ok(without_adapter("tcp", "lo")),
            Target::SharedMemory => return Ok(without_adapter("shm", "memory")),
            Target::Model { profile, fidelity } => {
                let library = profiles.library()?;
                let model = anchors::find(&library, profile, *fidelity, &profiles.anchors)?;
                return Ok(Found::Model(Box::new(model)));
            }
        };
        let loaded = Library::open(&library).map_err(|e| Failure::Suite(e.to_string()))?;
        let device = loaded.device(wanted).map_err(|error| {
            let name = wanted.unwrap_or("hardware");
            Failure::Input(format!(
                "cannot measure {name}: {error}; `--on software` and `--on model:PROFILE` need no \
                 adapter"
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
        assert_eq!(
            "machine:mine".parse(),
            Ok(Target::Model {
                profile: "machine:mine".to_owned(),
                fidelity: Fidelity::Packet,
            })
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
            "machine",
            "machine:",
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
