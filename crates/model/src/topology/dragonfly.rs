//! Dragonfly: groups of switches. Within a group each switch has a cable to every other; each group
//! has as many cables to every other group as its switches have ports for. Minimal routing: within
//! the group to a switch that has a cable to the destination's group, over it, and within that
//! group. Packets that have yet to leave their group are in one class of virtual lanes, all others
//! in the next.
//!
//! All nodes of a group that send to the same other group share the few cables between the two. A
//! packet may therefore first go to an intermediate group and from there minimally (Valiant's
//! routing); until it arrives there it is in an additional first class. Source: Kim, Dally, Scott,
//! Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008 (three virtual channels
//! for non-minimal paths).

use super::routing::NextHop;

/// A dragonfly, its switches numbered group by group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dragonfly {
    groups: usize,
    /// Per group.
    switches: usize,
    /// Per switch.
    nodes: usize,
    cables: Vec<(usize, usize)>,
    /// By source and destination group: the links between them, each with its switch in the source
    /// group.
    between: Vec<Vec<(usize, usize)>>,
}

impl Dragonfly {
    /// Creates `groups` groups of `switches` switches with `nodes` nodes and `global` cables to
    /// other groups each.
    ///
    /// # Errors
    ///
    /// Returns an error if the cables are too few to connect all groups.
    pub fn new(
        groups: usize,
        switches: usize,
        nodes: usize,
        global: usize,
    ) -> Result<Dragonfly, String> {
        let (ports, others) = (switches * global, groups - 1);
        if ports < others {
            return Err(format!(
                "a group of {switches} switches with {global} cables each to other groups does not \
                 reach {others} of them"
            ));
        }
        let mut cables = Vec::new();
        for group in 0..groups {
            for one in 0..switches {
                for other in one + 1..switches {
                    cables.push((group * switches + one, group * switches + other));
                }
            }
        }
        let mut between = vec![Vec::new(); groups * groups];
        let rounds = ports.checked_div(others).unwrap_or(0);
        // Port k of group g leads to group g + k + 1, modulo the number of groups; the reverse link
        // uses that group's port `others - 1 - k`.
        for round in 0..rounds {
            for group in 0..groups {
                for step in 0..others {
                    let other = (group + step + 1) % groups;
                    if other < group {
                        continue;
                    }
                    let port_of = |step: usize| (round * others + step) / global;
                    let one = group * switches + port_of(step);
                    let far = other * switches + port_of(others - 1 - step);
                    let link = 2 * cables.len();
                    cables.push((one, far));
                    between[group * groups + other].push((one, link));
                    between[other * groups + group].push((far, link + 1));
                }
            }
        }
        Ok(Dragonfly {
            groups,
            switches,
            nodes,
            cables,
            between,
        })
    }

    /// Describes its sizes.
    pub fn about(&self) -> String {
        format!(
            "dragonfly of {} groups of {} switches with {} nodes each",
            self.groups, self.switches, self.nodes
        )
    }

    /// Returns the cables, those within groups first.
    pub fn cables(&self) -> Vec<(usize, usize)> {
        self.cables.clone()
    }

    /// Returns the number of switches of all groups.
    pub fn switches(&self) -> usize {
        self.groups * self.switches
    }

    /// Returns the number of nodes of all switches.
    pub fn nodes(&self) -> usize {
        self.switches() * self.nodes
    }

    /// Returns the switch of a node; nodes are numbered switch by switch.
    pub fn switch_of(&self, node: usize) -> usize {
        node / self.nodes
    }

    /// Returns the link between two switches of a group.
    fn within(&self, from: usize, to: usize) -> usize {
        let size = self.switches;
        let (group, one, other) = (from / size, from % size, to % size);
        let (low, high) = (one.min(other), one.max(other));
        // Pairs before those of `low`, then those of `low` before `high`.
        let pair = low * (2 * size - low - 1) / 2 + (high - low - 1);
        let cable = group * (size * (size - 1) / 2) + pair;
        2 * cable + usize::from(one > other)
    }

    /// Returns the group of a switch.
    pub fn group_of(&self, switch: usize) -> usize {
        switch / self.switches
    }

    /// Returns the number of groups.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Calls `each` with the links from switch `at` towards node `to`: within a group directly to
    /// the switch, to another group as `leave` does; in class `class`, and in the next class within
    /// the destination's group.
    pub fn ways(&self, at: usize, to: usize, class: usize, each: &mut impl FnMut(NextHop)) {
        let target = self.switch_of(to);
        if self.group_of(at) == self.group_of(target) {
            let link = self.within(at, target);
            let class = class + 1;
            return each(NextHop { link, class });
        }
        self.leave(at, self.group_of(target), class, each);
    }

    /// Calls `each` with the links towards group `there`: the switch's own cables to it, or else
    /// links to the switches that have one.
    pub fn leave(&self, at: usize, there: usize, class: usize, each: &mut impl FnMut(NextHop)) {
        let links = &self.between[self.group_of(at) * self.groups + there];
        let own = |(switch, _): &&(usize, usize)| *switch == at;
        if links.iter().any(|link| own(&link)) {
            for &(_, link) in links.iter().filter(own) {
                each(NextHop { link, class });
            }
        } else {
            for &(switch, _) in links {
                let link = self.within(at, switch);
                each(NextHop { link, class });
            }
        }
    }
}
