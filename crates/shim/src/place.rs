//! Decides which paths are Verbena's. It makes no system calls.

/// The longest path, with its final zero (PATH_MAX).
pub const LONGEST: usize = 4096;

/// A path with single slashes and without `.` components. `..` stays, as its meaning depends on
/// links.
pub struct Plain {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Plain {
    /// Returns the plain form of `path`, or `None` if it is too long.
    pub fn of(path: &[u8]) -> Option<Plain> {
        let mut plain = Plain {
            bytes: [0; LONGEST],
            length: 0,
        };
        let mut rest = path;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'/');
            let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
            if !part.is_empty() && part != b"." {
                plain.add(b"/")?;
                plain.add(part)?;
            }
            rest = after.strip_prefix(b"/").unwrap_or(after);
        }
        // With a slash at the end, a path names a directory, and the target of a link.
        if path.ends_with(b"/") || path.ends_with(b"/.") {
            plain.add(b"/")?;
        }
        Some(plain)
    }

    fn add(&mut self, text: &[u8]) -> Option<()> {
        // Reserves one byte for the final zero.
        self.bytes[..LONGEST - 1]
            .get_mut(self.length..self.length + text.len())?
            .copy_from_slice(text);
        self.length += text.len();
        Some(())
    }

    /// Returns the path.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A path that the shim may redirect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShimPath<'a> {
    /// A device node.
    Device,
    /// The connection manager's device.
    ConnectionManager,
    /// This path of the tree.
    Tree(&'a [u8]),
    /// This path of the tree of the program's node on a fabric.
    Fabric(&'a [u8], Option<Node>),
}

/// A device file of management datagrams, with its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// `umad<N>`.
    Datagrams(u32),
    /// `issm<N>`.
    Manager(u32),
}

/// The result of classifying a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The path's place.
    pub place: ShimPath<'a>,
    /// Whether hosts with real adapters may have the path too: then it is redirected only where the
    /// kernel does not have it.
    pub unless_there: bool,
}

/// The devices of the adapter.
#[derive(Clone, Copy)]
pub struct Devices<'a> {
    /// Their number.
    pub number: u8,
    /// Their names without the index.
    pub names: &'a [u8],
}

/// Directories whose entries have the names of devices.
const NAMED: [&[u8]; 3] = [
    b"/dev/infiniband/",
    b"/sys/class/infiniband/",
    b"/sys/class/infiniband_verbs/",
];

/// Returns whether the place of a plain `path`, or of a pattern of glob(7), may depend on the names
/// of the devices.
pub fn may_name_a_device(path: &[u8]) -> bool {
    NAMED.iter().any(|directory| path.starts_with(directory))
}

/// Returns the place of a plain `path`, or of a pattern of glob(7), if it is Verbena's with these
/// devices.
pub fn classify<'a>(path: &'a [u8], devices: Devices<'_>) -> Option<Answer<'a>> {
    let Devices {
        number: devices,
        names,
    } = devices;
    let always = |place| {
        Some(Answer {
            place,
            unless_there: false,
        })
    };
    let otherwise = |place| {
        Some(Answer {
            place,
            unless_there: true,
        })
    };
    if let Some(rest) = path.strip_prefix(b"/dev/infiniband") {
        return match rest {
            b"/rdma_cm" => always(ShimPath::ConnectionManager),
            _ if rest
                .strip_prefix(b"/")
                .is_some_and(|name| is_a_device(name, names, devices, <[u8]>::is_empty)) =>
            {
                always(ShimPath::Device)
            }
            _ if is_a_device(rest, b"/uverbs", devices, <[u8]>::is_empty) => {
                otherwise(ShimPath::Device)
            }
            _ if is_the_directory(rest) => otherwise(ShimPath::Tree(&path[1..])),
            _ => None,
        };
    }
    let relative = path.strip_prefix(b"/sys/")?;
    let tree = ShimPath::Tree(relative);
    for (class, own) in [
        (&b"devices/platform/"[..], &b"verbena."[..]),
        (b"bus/platform/devices/", b"verbena."),
        (b"class/infiniband/", names),
        (b"class/infiniband_verbs/", names),
    ] {
        let name = relative.strip_prefix(class);
        if name.is_some_and(|name| is_a_device(name, own, devices, is_below)) {
            return always(tree);
        }
    }
    let version = relative.strip_prefix(b"class/infiniband_verbs/abi_version");
    if version.is_some_and(is_below)
        || is_a_device(
            relative,
            b"class/infiniband_verbs/uverbs",
            devices,
            is_below,
        )
    {
        return otherwise(tree);
    }
    let rest = relative.strip_prefix(b"class/infiniband")?;
    let rest = rest.strip_prefix(b"_verbs").unwrap_or(rest);
    is_the_directory(rest).then(|| otherwise(tree))?
}

/// Returns the place of a plain `path`, or of a pattern of glob(7), that belongs to the tree of a
/// node on a fabric. (Elsewhere these paths belong to the adapter.)
pub fn classify_on_fabric(path: &[u8]) -> Option<Answer<'_>> {
    let answer = |below, node| Answer {
        place: ShimPath::Fabric(below, node),
        unless_there: false,
    };
    if let Some(rest) = path.strip_prefix(b"/dev/infiniband") {
        if let Some(index) = rest.strip_prefix(b"/umad").and_then(index) {
            return Some(answer(&path[1..], Some(Node::Datagrams(index))));
        }
        if let Some(index) = rest.strip_prefix(b"/issm").and_then(index) {
            return Some(answer(&path[1..], Some(Node::Manager(index))));
        }
        return is_the_directory(rest).then(|| answer(&path[1..], None));
    }
    let relative = path.strip_prefix(b"/sys/")?;
    if relative
        .strip_prefix(b"class/infiniband_mad")
        .is_some_and(is_below)
    {
        return Some(answer(relative, None));
    }
    let rest = relative.strip_prefix(b"class/infiniband")?;
    is_below(rest).then(|| answer(relative, None))
}

/// Returns the number that the text is.
fn index(text: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(text).ok()?;
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = text == "0" || !text.starts_with('0');
    text.parse().ok().filter(|_| is_number && is_plain)
}

/// Returns whether `path` consists of `before`, a device's index below `devices`, and an accepted
/// rest.
fn is_a_device(path: &[u8], before: &[u8], devices: u8, will_do: fn(&[u8]) -> bool) -> bool {
    let Some(rest) = path.strip_prefix(before) else {
        return false;
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (index, rest) = rest.split_at(digits);
    let is_index = !index.is_empty() && (index == b"0" || index[0] != b'0');
    let number = index.iter().fold(0u32, |number, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u32::from(digit - b'0'))
    });
    is_index && number < u32::from(devices) && will_do(rest)
}

fn is_below(rest: &[u8]) -> bool {
    rest.is_empty() || rest.starts_with(b"/")
}

/// Returns whether `rest` is the suffix of the directory itself, or of a pattern for its entries.
fn is_the_directory(rest: &[u8]) -> bool {
    let Some(name) = rest.strip_prefix(b"/") else {
        return rest.is_empty();
    };
    let end = name.iter().position(|byte| *byte == b'/');
    let name = &name[..end.unwrap_or(name.len())];
    name.is_empty() || name.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(path: &str) -> Option<(String, bool)> {
        answer_of(1, path)
    }

    fn answer_of(devices: u8, path: &str) -> Option<(String, bool)> {
        answer_of_named(b"verbena", devices, path)
    }

    fn answer_of_named(names: &[u8], devices: u8, path: &str) -> Option<(String, bool)> {
        let plain = Plain::of(path.as_bytes()).unwrap();
        let devices = Devices {
            number: devices,
            names,
        };
        let answer = classify(plain.bytes(), devices)?;
        let text = match answer.place {
            ShimPath::Device => "node".into(),
            ShimPath::ConnectionManager => "manager".into(),
            ShimPath::Tree(path) | ShimPath::Fabric(path, _) => {
                String::from_utf8(path.to_vec()).unwrap()
            }
        };
        Some((text, answer.unless_there))
    }

    #[test]
    fn device_paths_are_always_redirected() {
        for (path, place) in [
            ("/dev/infiniband/verbena0", "node"),
            ("/dev/infiniband/rdma_cm", "manager"),
            (
                "/sys/class/infiniband/verbena0",
                "class/infiniband/verbena0",
            ),
            (
                "/sys//class/./infiniband/verbena0/ports/1/lid",
                "class/infiniband/verbena0/ports/1/lid",
            ),
            (
                "/sys/class/infiniband/verbena0/../..",
                "class/infiniband/verbena0/../..",
            ),
            (
                "/sys/class/infiniband/verbena0/",
                "class/infiniband/verbena0/",
            ),
            (
                "/sys/class/infiniband_verbs/verbena0/ibdev",
                "class/infiniband_verbs/verbena0/ibdev",
            ),
            (
                "/sys/devices/platform/verbena.0/numa_node",
                "devices/platform/verbena.0/numa_node",
            ),
        ] {
            assert_eq!(answer(path), Some((place.into(), false)), "{path}");
        }
    }

    #[test]
    fn shared_paths_are_redirected_only_without_real_adapters() {
        for (path, place) in [
            ("/dev/infiniband/uverbs0", "node"),
            ("/dev/infiniband", "dev/infiniband"),
            ("/dev/infiniband/", "dev/infiniband/"),
            ("/sys/class/infiniband", "class/infiniband"),
            ("/sys/class/infiniband/.", "class/infiniband/"),
            ("/sys/class/infiniband/*/ports", "class/infiniband/*/ports"),
            ("/sys/class/infiniband_verbs", "class/infiniband_verbs"),
            (
                "/sys/class/infiniband_verbs/uverbs0/dev",
                "class/infiniband_verbs/uverbs0/dev",
            ),
        ] {
            assert_eq!(answer(path), Some((place.into(), true)), "{path}");
        }
    }

    #[test]
    fn paths_of_existing_devices_only_are_redirected() {
        for path in [
            "/dev/infiniband/verbena2",
            "/dev/infiniband/uverbs10",
            "/sys/class/infiniband/verbena10/ports",
            "/sys/devices/platform/verbena.2/vendor",
        ] {
            assert!(answer_of(11, path).is_some(), "{path}");
            assert_eq!(answer_of(2, path), None, "{path}");
        }
        for path in ["/dev/infiniband/verbena", "/dev/infiniband/verbena01"] {
            assert_eq!(answer_of(32, path), None, "{path}");
        }
    }

    #[test]
    fn only_some_paths_depend_on_names() {
        for path in [
            "/dev/null",
            "/dev/shm/x/table",
            "/sys/class/net/lo",
            "/sys/class/infiniband",
        ] {
            assert!(!may_name_a_device(path.as_bytes()), "{path}");
        }
        for path in [
            "/dev/infiniband/mlx5_0",
            "/sys/class/infiniband/mlx5_0/ports",
        ] {
            assert!(may_name_a_device(path.as_bytes()), "{path}");
            assert_ne!(answer_of_named(b"mlx5_", 1, path), answer(path));
        }
    }

    #[test]
    fn devices_may_have_other_names() {
        let of = |path: &str| answer_of_named(b"mlx5_", 2, path);
        for path in [
            "class/infiniband/mlx5_1/ports/1/lid",
            "class/infiniband_verbs/mlx5_0/ibdev",
            "devices/platform/verbena.1/vendor",
        ] {
            assert_eq!(of(&format!("/sys/{path}")), Some((path.into(), false)));
        }
        assert_eq!(of("/dev/infiniband/mlx5_0"), Some(("node".into(), false)));
        for path in [
            "/dev/infiniband/verbena0",
            "/sys/class/infiniband/verbena0",
            "/sys/class/infiniband/mlx5_2",
            "/sys/class/infiniband/mlx5_",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn other_paths_are_not_redirected() {
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
            "/sys/devices/platform/verbena.01",
            "/home/x/dev/infiniband/verbena0",
        ] {
            assert_eq!(answer(path), None, "{path}");
        }
    }

    #[test]
    fn management_paths_are_redirected_on_a_fabric() {
        for (path, node) in [
            ("/dev/infiniband/umad0", Some(Node::Datagrams(0))),
            ("/dev/infiniband/issm12", Some(Node::Manager(12))),
            ("/dev/infiniband/", None),
            ("/sys/class/infiniband_mad/abi_version", None),
            ("/sys/class/infiniband", None),
            ("/sys/class/infiniband/verbena0/ports/1/lid", None),
        ] {
            let answer = classify_on_fabric(path.as_bytes()).unwrap();
            let ShimPath::Fabric(_, found) = answer.place else {
                panic!("{path}");
            };
            assert_eq!(found, node, "{path}");
        }
        for path in [
            "/dev/infiniband/uverbs0",
            "/dev/infiniband/umad01",
            "/dev/infiniband/umad",
            "/sys/class/infiniband_verbs/uverbs0",
            "/sys/class/infiniband_madness",
        ] {
            assert_eq!(classify_on_fabric(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn a_path_beyond_the_limit_is_not_normalized() {
        assert!(Plain::of(&[b'x'; LONGEST - 1]).is_none());
        assert!(Plain::of(&[b'x'; LONGEST - 2]).is_some());
    }
}
