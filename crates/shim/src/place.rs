//! Which paths are ours. Pure: nothing here asks the system.

/// The longest path, with its final zero (PATH_MAX).
pub const LONGEST: usize = 4096;

/// A path with one slash between its parts and without `.` among them. `..` stays, for what it
/// leads to depends on links.
pub struct Plain {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Plain {
    /// The plain form of `path`; `None` for one that is too long.
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
        // With a slash at the end a path names a directory, and what a link leads to.
        if path.ends_with(b"/") || path.ends_with(b"/.") {
            plain.add(b"/")?;
        }
        Some(plain)
    }

    fn add(&mut self, text: &[u8]) -> Option<()> {
        // One byte stays for the final zero.
        self.bytes[..LONGEST - 1]
            .get_mut(self.length..self.length + text.len())?
            .copy_from_slice(text);
        self.length += text.len();
        Some(())
    }

    /// The path.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A path that the shim may answer for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// A device node.
    Device,
    /// The connection manager's device.
    ConnectionManager,
    /// What stands at this path of the tree.
    Tree(&'a [u8]),
}

/// What answers for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<'a> {
    /// What.
    pub place: Place<'a>,
    /// Whether a host with real adapters has it itself: then it is ours only where the kernel has
    /// none.
    pub unless_there: bool,
}

/// The place that a plain `path`, or a pattern of glob(7), names if it is one of ours.
pub fn classify(path: &[u8]) -> Option<Answer<'_>> {
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
            b"/verbena0" => always(Place::Device),
            b"/rdma_cm" => always(Place::ConnectionManager),
            b"/uverbs0" => otherwise(Place::Device),
            _ if is_the_directory(rest) => otherwise(Place::Tree(&path[1..])),
            _ => None,
        };
    }
    let relative = path.strip_prefix(b"/sys/")?;
    let tree = Place::Tree(relative);
    for own in [
        &b"devices/platform/verbena.0"[..],
        b"bus/platform/devices/verbena.0",
        b"class/infiniband/verbena0",
        b"class/infiniband_verbs/verbena0",
    ] {
        if relative.strip_prefix(own).is_some_and(is_below) {
            return always(tree);
        }
    }
    for shared in [
        &b"class/infiniband_verbs/uverbs0"[..],
        b"class/infiniband_verbs/abi_version",
    ] {
        if relative.strip_prefix(shared).is_some_and(is_below) {
            return otherwise(tree);
        }
    }
    let rest = relative.strip_prefix(b"class/infiniband")?;
    let rest = rest.strip_prefix(b"_verbs").unwrap_or(rest);
    is_the_directory(rest).then(|| otherwise(tree))?
}

fn is_below(rest: &[u8]) -> bool {
    rest.is_empty() || rest.starts_with(b"/")
}

/// The suffix of a directory's own path, or of a pattern for its entries.
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
        let plain = Plain::of(path.as_bytes()).unwrap();
        let answer = classify(plain.bytes())?;
        let text = match answer.place {
            Place::Device => "node".into(),
            Place::ConnectionManager => "manager".into(),
            Place::Tree(path) => String::from_utf8(path.to_vec()).unwrap(),
        };
        Some((text, answer.unless_there))
    }

    #[test]
    fn the_device_is_always_ours() {
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
    fn what_real_adapters_share_is_ours_only_where_there_is_none() {
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
            "/sys/devices/platform/verbena.01",
            "/home/x/dev/infiniband/verbena0",
        ] {
            assert_eq!(answer(path), None, "{path}");
        }
    }

    #[test]
    fn a_path_that_is_too_long_has_no_plain_form() {
        assert!(Plain::of(&[b'x'; LONGEST - 1]).is_none());
        assert!(Plain::of(&[b'x'; LONGEST - 2]).is_some());
    }
}
