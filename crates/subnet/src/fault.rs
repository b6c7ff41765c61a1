//! Faults of a running fabric by command: links that are cut, and errors that ports count.

use crate::attribute::counters::Counter;
use crate::attribute::port_info::physical;
use crate::fabric::{End, Fabric, Port};

/// A fault at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The cable of the port is cut: the link stays down.
    Cut,
    /// The cable is whole again: the link comes up, unless an end is disabled.
    Mend,
    /// The cable is cut and mended so many times. One that is cut stays so.
    Flap(u32),
    /// The port counts so many more errors.
    Count(Counter, u32),
}

impl Fabric {
    /// Executes a fault. Returns whether there is such a port, with a link if the fault is one of
    /// links.
    pub fn fault(&mut self, end: End, fault: Fault) -> bool {
        let Some(port) = self.port_mut(end) else {
            return false;
        };
        if let Fault::Count(counter, number) = fault {
            port.counters.add(counter, number.into());
            return true;
        }
        let Some(peer) = port.peer else {
            return false;
        };
        match fault {
            Fault::Cut => self.cut([end, peer]),
            Fault::Mend => self.mend([end, peer]),
            _ => {}
        }
        if let Fault::Flap(times) = fault
            && self.port(end).is_some_and(|port| !port.is_cut)
        {
            for _ in 0..times {
                self.cut([end, peer]);
                self.mend([end, peer]);
            }
        }
        true
    }

    fn set_cut(&mut self, ends: [End; 2], is_cut: bool) {
        for end in ends {
            if let Some(port) = self.port_mut(end) {
                port.is_cut = is_cut;
            }
        }
    }

    fn cut(&mut self, ends: [End; 2]) {
        self.set_cut(ends, true);
        if self.port(ends[0]).is_some_and(Port::is_linked) {
            self.set_link(ends[0], physical::POLLING);
        }
    }

    fn mend(&mut self, ends: [End; 2]) {
        self.set_cut(ends, false);
        // A port that is up keeps its state, and one that is disabled stays so.
        let is_polling = |port: &Port| port.physical() == physical::POLLING;
        if ends
            .iter()
            .all(|end| self.port(*end).is_some_and(is_polling))
        {
            self.set_link(ends[0], physical::POLLING);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::port_info::state;
    use crate::{Manager, build, small};

    const SWITCH: End = End { node: 0, port: 1 };
    const HOST: End = End { node: 1, port: 1 };

    fn fabric() -> Fabric {
        let mut fabric = build(&small()).unwrap();
        Manager::start(Manager::place(&fabric).unwrap(), &mut fabric, Vec::new());
        fabric
    }

    fn downs(fabric: &Fabric, end: End) -> u64 {
        let counters = &fabric.port(end).unwrap().counters;
        counters.get(Counter::LinkDowned)
    }

    fn physical_of(fabric: &Fabric) -> [u64; 2] {
        [SWITCH, HOST].map(|end| fabric.port(end).unwrap().physical())
    }

    #[test]
    fn a_cut_link_stays_down_until_it_is_mended() {
        let mut fabric = fabric();
        assert!(fabric.fault(HOST, Fault::Cut));
        assert!(fabric.fault(SWITCH, Fault::Cut));
        assert_eq!(physical_of(&fabric), [physical::POLLING; 2]);
        // As `ibportstate enable` does.
        fabric.set_link(SWITCH, physical::POLLING);
        assert_eq!(physical_of(&fabric), [physical::POLLING; 2]);
        assert!(fabric.fault(SWITCH, Fault::Flap(2)));
        assert_eq!(physical_of(&fabric), [physical::POLLING; 2]);
        assert!(fabric.fault(SWITCH, Fault::Mend));
        assert_eq!(physical_of(&fabric), [physical::LINK_UP; 2]);
        assert_eq!(fabric.port(HOST).unwrap().state(), state::INIT);
        assert_eq!((downs(&fabric, SWITCH), downs(&fabric, HOST)), (1, 1));
    }

    #[test]
    fn a_disabled_port_stays_disabled() {
        let mut fabric = fabric();
        fabric.set_link(SWITCH, physical::DISABLED);
        for fault in [Fault::Cut, Fault::Mend, Fault::Flap(3)] {
            assert!(fabric.fault(HOST, fault));
            let known = [physical::DISABLED, physical::POLLING];
            assert_eq!(physical_of(&fabric), known);
        }
        assert_eq!(downs(&fabric, HOST), 1);
    }

    #[test]
    fn mending_a_link_that_is_up_leaves_it_active() {
        let mut fabric = fabric();
        assert!(fabric.fault(HOST, Fault::Mend));
        assert_eq!(fabric.port(HOST).unwrap().state(), state::ACTIVE);
    }

    #[test]
    fn flaps_and_errors_are_counted() {
        let mut fabric = fabric();
        assert!(fabric.fault(HOST, Fault::Flap(5)));
        assert_eq!((downs(&fabric, SWITCH), downs(&fabric, HOST)), (5, 5));
        assert!(fabric.fault(SWITCH, Fault::Count(Counter::SymbolErrors, u32::MAX)));
        let counters = &fabric.port(SWITCH).unwrap().counters;
        assert_eq!(counters.get(Counter::SymbolErrors), u32::MAX.into());
    }

    #[test]
    fn ports_without_a_link_count_errors_alone() {
        let mut fabric = fabric();
        let free = End { node: 0, port: 5 };
        assert!(!fabric.fault(free, Fault::Cut));
        assert!(fabric.fault(free, Fault::Count(Counter::ReceiveErrors, 1)));
        for none in [End { node: 0, port: 99 }, End { node: 9, port: 1 }] {
            assert!(!fabric.fault(none, Fault::Count(Counter::ReceiveErrors, 1)));
        }
    }
}
