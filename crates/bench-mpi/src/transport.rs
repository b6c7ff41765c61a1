//! MPI library settings that enable exactly one transport. All of them are recorded.

use super::library::MpiKind;
use std::fmt;
use verbena_bench::resolved::Resolved;

/// The transport of messages between processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// The software adapter, through UCX over verbs.
    Software,
    /// A hardware adapter, through UCX over verbs or the vendor's interface.
    Hardware,
    /// TCP over loopback, through UCX.
    Tcp,
    /// The library's shared memory.
    SharedMemory,
}

impl Transport {
    /// Returns the transport for a target; `None` if there is none.
    pub fn to(target: &Resolved) -> Option<Transport> {
        match target.kind.as_str() {
            "software" => Some(Transport::Software),
            "hardware" => Some(Transport::Hardware),
            "tcp" => Some(Transport::Tcp),
            "shm" => Some(Transport::SharedMemory),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Transport::Software => "software",
            Transport::Hardware => "hardware",
            Transport::Tcp => "tcp",
            Transport::SharedMemory => "shm",
        }
    }

    pub fn is_adapter(self) -> bool {
        matches!(self, Transport::Software | Transport::Hardware)
    }
}

/// Arguments of the launcher and environment variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub arguments: Vec<&'static str>,
    pub variables: Vec<(&'static str, String)>,
}

impl Settings {
    pub fn of(kind: MpiKind, transport: Transport) -> Settings {
        let mut settings = match kind {
            MpiKind::Openmpi => of_openmpi(transport),
            MpiKind::Mpich => of_mpich(transport),
        };
        settings.variables.extend(owned(of_ucx(transport)));
        settings
    }
}

fn owned(
    variables: Vec<(&'static str, &'static str)>,
) -> impl Iterator<Item = (&'static str, String)> {
    let owned = |(name, value): (&'static str, &str)| (name, value.to_owned());
    variables.into_iter().map(owned)
}

fn of_openmpi(transport: Transport) -> Settings {
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
    arguments.extend(match transport {
        Transport::SharedMemory => [
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
        Transport::Software | Transport::Hardware | Transport::Tcp => &[
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

fn of_mpich(transport: Transport) -> Settings {
    let without_its_own = match transport {
        Transport::SharedMemory => "0",
        Transport::Software | Transport::Hardware | Transport::Tcp => "1",
    };
    Settings {
        arguments: vec!["-iface", "lo"],
        variables: owned(vec![("MPIR_CVAR_NOLOCAL", without_its_own)]).collect(),
    }
}

fn of_ucx(transport: Transport) -> Vec<(&'static str, &'static str)> {
    let mut variables = vec![("UCX_WARN_UNUSED_ENV_VARS", "n")];
    variables.extend(match transport {
        Transport::Software => [("UCX_TLS", "rc_verbs,ud_verbs:aux")].as_slice(),
        // `rc_verbs` or the vendor's transport, and datagrams for connection setup.
        Transport::Hardware => &[("UCX_TLS", "rc")],
        Transport::Tcp => &[("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "lo")],
        // Keeps operations that the library delegates to UCX off the adapter.
        Transport::SharedMemory => &[("UCX_TLS", "posix,self")],
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
        for kind in [MpiKind::Openmpi, MpiKind::Mpich] {
            for transport in [
                Transport::Software,
                Transport::Hardware,
                Transport::Tcp,
                Transport::SharedMemory,
            ] {
                let text = Settings::of(kind, transport).to_string();
                assert_eq!(
                    text.contains("UCX_TLS=rc"),
                    transport.is_adapter(),
                    "{text}"
                );
                assert_eq!(
                    text.contains("UCX_NET_DEVICES=lo"),
                    transport == Transport::Tcp,
                    "{text}"
                );
            }
        }
    }
}
