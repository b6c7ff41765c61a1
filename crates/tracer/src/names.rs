//! Names of objects: `qp1`, `cq2`, in the order of their creation, as pointers are hard to read and
//! differ between runs.

use std::collections::BTreeMap;
use std::fmt;

/// The type of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Context,
    Pd,
    Mr,
    Mw,
    Cq,
    Channel,
    Qp,
    Srq,
    Ah,
    Xrcd,
    Td,
    Dm,
    Wq,
    IndirectionTable,
    Counters,
    Flow,
    FlowAction,
    CmId,
    CmChannel,
}

impl Kind {
    /// Returns its name, without a number.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Context => "ctx",
            Kind::Pd => "pd",
            Kind::Mr => "mr",
            Kind::Mw => "mw",
            Kind::Cq => "cq",
            Kind::Channel => "channel",
            Kind::Qp => "qp",
            Kind::Srq => "srq",
            Kind::Ah => "ah",
            Kind::Xrcd => "xrcd",
            Kind::Td => "td",
            Kind::Dm => "dm",
            Kind::Wq => "wq",
            Kind::IndirectionTable => "rwq_ind_table",
            Kind::Counters => "counters",
            Kind::Flow => "flow",
            Kind::FlowAction => "flow_action",
            Kind::CmId => "id",
            Kind::CmChannel => "cm",
        }
    }
}

/// The name of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// No object.
    Null,
    /// An object's type and number.
    Object(Kind, u32),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Null => f.write_str("NULL"),
            Name::Object(kind, number) => write!(f, "{}{number}", kind.word()),
        }
    }
}

/// The names in use.
#[derive(Debug)]
pub struct Names {
    given: BTreeMap<(Kind, usize), u32>,
    last: BTreeMap<Kind, u32>,
}

impl Names {
    pub const fn new() -> Self {
        Names {
            given: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    /// Returns the name of the object at an address. An unknown object gets a name, as the program
    /// may have created it in a way that the tracer does not know.
    pub fn of(&mut self, kind: Kind, address: usize) -> Name {
        if address == 0 {
            return Name::Null;
        }
        let Names { given, last } = self;
        let number = given.entry((kind, address)).or_insert_with(|| {
            let last = last.entry(kind).or_default();
            *last += 1;
            *last
        });
        Name::Object(kind, *number)
    }

    /// Removes the name of an object that is about to be destroyed, so that the next one at its
    /// address gets another.
    pub fn take(&mut self, kind: Kind, address: usize) -> Name {
        let name = self.of(kind, address);
        self.given.remove(&(kind, address));
        name
    }

    /// Restores the name of an object whose destruction failed.
    pub fn give_back(&mut self, address: usize, name: Name) {
        if let Name::Object(kind, number) = name {
            self.given.insert((kind, address), number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_lasts_for_its_object_and_is_never_reused() {
        let mut names = Names::new();
        assert_eq!(names.of(Kind::Qp, 0x10).to_string(), "qp1");
        assert_eq!(names.of(Kind::Cq, 0x10).to_string(), "cq1");
        assert_eq!(names.of(Kind::Qp, 0x20).to_string(), "qp2");
        assert_eq!(names.of(Kind::Qp, 0x10).to_string(), "qp1");
        let name = names.take(Kind::Qp, 0x10);
        names.give_back(0x10, name);
        assert_eq!(names.of(Kind::Qp, 0x10).to_string(), "qp1");
        names.take(Kind::Qp, 0x10);
        assert_eq!(names.of(Kind::Qp, 0x10).to_string(), "qp3");
        assert_eq!(names.of(Kind::Qp, 0).to_string(), "NULL");
    }
}
