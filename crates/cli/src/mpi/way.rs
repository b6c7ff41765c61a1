//! MPI library settings that enable exactly one transport. All of them are recorded.

use super::library::Kind;
use crate::suite::target::Resolved;
use std::fmt;

/// The transport of messages between processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The software adapter, through UCX over verbs.
    Software,
    /// A hardware adapter, through UCX over verbs or the vendor's interface.
    Hardware,
    /// TCP over loopback, through UCX.
    Tcp,
    /// The library's shared memory.
    SharedMemory,
}

impl Way {
    /// Returns the transport for a target; `None` if there is none.
    pub fn to(target: &Resolved) -> Option<Way> {
        match target.kind.as_str() {
            "software" => Some(Way::Software),
            "hardware" => Some(Way::Hardware),
            "tcp" => Some(Way::Tcp),
            "shm" => Some(Way::SharedMemory),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Way::Software => "software",
            Way::Hardware => "hardware",
            Way::Tcp => "tcp",
            Way::SharedMemory => "shm",
        }
    }

    pub fn is_adapter(self) -> bool {
        matches!(self, Way::Software | Way::Hardware)
    }
}

/// Arguments of the launcher and environment variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub arguments: Vec<&'static str>,
    pub variables: Vec<(&'static str, String)>,
}

impl Settings {
    pub fn of(kind: Kind, way: Way) -> Settings {
        let mut settings = match kind {
            Kind::Openmpi => of_openmpi(way),
            Kind::Mpich => of_mpich(way),
        };
        settings.variables.extend(owned(of_ucx(way)));
        settings
    }
}

fn owned(
    variables: Vec<(&'static str, &'static str)>,
) -> impl Iterator<Item = (&'static str, String)> {
    let owned = |(name, value): (&'static str, &str)| (name, value.to_owned());
    variables.into_iter().map(owned)
}

fn of_openmpi(way: Way) -> Settings {
    // Allows more processes than processors, which is a valid measurement. Each process pins itself
    // if there are enough processors.
    let mut arguments = vec![
        "--oversubscribe",
        "--bind-to",
        "none",
        "--mca",
        "oob_tcp_if_include",
        "lo",
    ];
    arguments.extend(match way {
        Way::SharedMemory => [
            "--mca",
            "pml",
            "ob1",
            "--mca",
            "btl",
            "self,vader",
            "--mca",
            "osc",
            "^ucx",
        ]
        .as_slice(),
        Way::Software | Way::Hardware | Way::Tcp => &[
            "--mca",
            "pml",
            "ucx",
            "--mca",
            "osc",
            "ucx",
            "--mca",
            "opal_common_ucx_devices",
            "any",
            "--mca",
            "opal_common_ucx_tls",
            "any",
            "--mca",
            "btl",
            "^openib,vader,tcp",
        ],
    });
    Settings {
        arguments,
        // Open MPI refuses to run as root without both variables; it starts only Verbena's programs
        // here.
        variables: owned(vec![
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ])
        .collect(),
    }
}

fn of_mpich(way: Way) -> Settings {
    let without_its_own = match way {
        Way::SharedMemory => "0",
        Way::Software | Way::Hardware | Way::Tcp => "1",
    };
    Settings {
        arguments: vec!["-iface", "lo"],
        variables: owned(vec![("MPIR_CVAR_NOLOCAL", without_its_own)]).collect(),
    }
}

fn of_ucx(way: Way) -> Vec<(&'static str, &'static str)> {
    let mut variables = vec![("UCX_WARN_UNUSED_ENV_VARS", "n")];
    variables.extend(match way {
        Way::Software => [("UCX_TLS", "rc_verbs,ud_verbs:aux")].as_slice(),
        // `rc_verbs` or the vendor's transport, and datagrams for connection setup.
        Way::Hardware => &[("UCX_TLS", "rc")],
        Way::Tcp => &[("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "lo")],
        // Keeps operations that the library delegates to UCX off the adapter.
        Way::SharedMemory => &[("UCX_TLS", "posix,self")],
    });
    variables
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables = self
            .variables
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let arguments = self.arguments.iter().map(|word| (*word).to_owned());
        let words: Vec<String> = variables
            .chain(["mpirun".to_owned()])
            .chain(arguments)
            .collect();
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ucx_settings_name_the_adapter_only_on_its_transport() {
        for kind in [Kind::Openmpi, Kind::Mpich] {
            for way in [Way::Software, Way::Hardware, Way::Tcp, Way::SharedMemory] {
                let text = Settings::of(kind, way).to_string();
                assert_eq!(text.contains("UCX_TLS=rc"), way.is_adapter(), "{text}");
                assert_eq!(
                    text.contains("UCX_NET_DEVICES=lo"),
                    way == Way::Tcp,
                    "{text}"
                );
            }
        }
    }
}
