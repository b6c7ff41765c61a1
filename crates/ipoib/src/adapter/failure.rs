//! Why the adapter cannot be used.

use verbena_verbs::Gid;

use crate::administration::Refusal;

/// The reason why the adapter cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A verbs call failed.
    #[error(transparent)]
    Verbs(#[from] verbena_verbs::Error),

    /// No port is active.
    #[error("{0} has no active port; check it with ibv_devinfo")]
    NoPort(String),

    /// No GID can send to the groups.
    #[error(
        "port {port} of {device} has no IPv6 GID, which the groups of IP over InfiniBand need; \
         enable IPv6 on its interface"
    )]
    NoGid {
        /// The device.
        device: String,
        /// The port.
        port: u8,
    },

    /// The port was not joined to the broadcast group.
    #[error(
        "the port could not join {group}, the broadcast group of partition {partition:#06x}: \
         {refusal}; the subnet manager makes the group if partitions.conf has the flag ipoib for \
         the partition; `saquery -g` shows the groups"
    )]
    NoBroadcast {
        /// The group.
        group: Gid,
        /// The key of the partition.
        partition: u16,
        /// The reason.
        refusal: Refusal,
    },

    /// The MTU of the broadcast group is longer than that of the port.
    #[error(
        "the MTU of {group}, the broadcast group of partition {partition:#06x}, is {mtu}, and that \
         of the port is {of_port}; set a smaller one with the flag mtu in partitions.conf"
    )]
    LongBroadcast {
        /// The group.
        group: Gid,
        /// The key of the partition.
        partition: u16,
        /// MTU of the group.
        mtu: u32,
        /// MTU of the port.
        of_port: u32,
    },
}
