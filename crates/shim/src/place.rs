//! Which paths are ours. Pure: nothing here asks the system.

/// A path that the shim may answer for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// The device node: always ours.
    Device,
    /// The connection manager's device: always ours, for it has to know our device.
    ConnectionManager,
    /// The node or a directory that a host with real adapters has itself: ours only where the
    /// kernel has none.
    Unless(Fallback),
    /// A path below `/sys`, relative to it, that belongs to our device. The library knows whether
    /// it is a file, a directory or nothing.
    Attribute(&'a [u8]),
}

/// What stands in for a path that the kernel does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// A device node under the name that the kernel would give to its first adapter.
    Device,
    /// A directory that holds our device.
    Directory,
}

const DEV: &[u8] = b"/dev/infiniband";
const SYS: &[u8] = b"/sys/";
const CLASS: &[u8] = b"class/infiniband";
const DEVICE: &[u8] = b"verbena0";

/// The place that `path` names, if it is one of ours.
pub fn classify(path: &[u8]) -> Option<Place<'_>> {
    // Nearly every path a program ever asks for ends here.
    if !(path.starts_with(DEV) || path.starts_with(SYS)) {
        return None;
    }
    let path = without_trailing_slashes(path);
    if let Some(rest) = path.strip_prefix(DEV) {
        return match rest {
            b"/verbena0" => Some(Place::Device),
            b"/rdma_cm" => Some(Place::ConnectionManager),
            b"/uverbs0" => Some(Place::Unless(Fallback::Device)),
            b"" => Some(Place::Unless(Fallback::Directory)),
            _ => None,
        };
    }
    let relative = path.strip_prefix(SYS)?;
    let rest = relative.strip_prefix(CLASS)?;
    // Both `infiniband` and `infiniband_verbs`.
    let rest = rest.strip_prefix(b"_verbs").unwrap_or(rest);
    if rest.is_empty() {
        return Some(Place::Unless(Fallback::Directory));
    }
    let rest = rest.strip_prefix(b"/")?.strip_prefix(DEVICE)?;
    let below = rest.is_empty() || rest.starts_with(b"/");
    below.then_some(Place::Attribute(relative))
}

fn without_trailing_slashes(mut path: &[u8]) -> &[u8] {
    while let [rest @ .., b'/'] = path {
        path = rest;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_node_is_ours() {
        assert_eq!(classify(b"/dev/infiniband/verbena0"), Some(Place::Device));
        let manager = Some(Place::ConnectionManager);
        assert_eq!(classify(b"/dev/infiniband/rdma_cm"), manager);
    }

    #[test]
    fn what_real_adapters_share_is_ours_only_as_a_fallback() {
        let device = Some(Place::Unless(Fallback::Device));
        let directory = Some(Place::Unless(Fallback::Directory));
        assert_eq!(classify(b"/dev/infiniband/uverbs0"), device);
        assert_eq!(classify(b"/dev/infiniband"), directory);
        assert_eq!(classify(b"/dev/infiniband/"), directory);
        assert_eq!(classify(b"/sys/class/infiniband"), directory);
        assert_eq!(classify(b"/sys/class/infiniband_verbs"), directory);
    }

    #[test]
    fn files_of_our_device_are_named_relative_to_sys() {
        for path in [
            "/sys/class/infiniband/verbena0",
            "/sys/class/infiniband/verbena0/ports/1/lid",
            "/sys/class/infiniband_verbs/verbena0/ibdev",
        ] {
            let relative = path.strip_prefix("/sys/").unwrap().as_bytes();
            assert_eq!(classify(path.as_bytes()), Some(Place::Attribute(relative)));
        }
    }

    #[test]
    fn everything_else_is_not_ours() {
        for path in [
            "",
            "/",
            "/dev/null",
            "/dev/infiniband/uverbs1",
            "/dev/infiniband/verbena01",
            "/dev/infinibandx",
            "/sys/class/net/eth0",
            "/sys/class/infiniband/mlx5_0/ports/1/lid",
            "/sys/class/infiniband/verbena01",
            "/sys/class/infiniband_mad",
            "dev/infiniband/verbena0",
            "/home/x/dev/infiniband/verbena0",
        ] {
            assert_eq!(classify(path.as_bytes()), None, "{path}");
        }
    }
}
