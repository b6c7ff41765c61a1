//! Groups of switches. Within a group each switch has a cable to each other; each group has as many cables to each other
//! group as its switches have ports for. Routed minimally: within the group to a switch that has a cable to the
//! destination's group, over it, and within that group. What has yet to leave its group is in one class, the rest in the next.
//!
//! All nodes of a group that send to one other group share the few cables between the two. A packet may therefore go to a third
//! group first and from there on minimally (Valiant's routing); until it is there it is in a class before the two others. Source:
//! Kim, Dally, Scott, Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008 (three virtual channels for ways
//! that are not minimal).

use super::Way;

/// Switches are numbered group by group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dragonfly {
    groups: usize,
    /// Of a group.
    switches: usize,
    /// Of a switch.
    nodes: usize,
    cables: Vec<(usize, usize)>,
    /// From one group to another, by both: the links, and the switch in the first that has each.
    between: Vec<Vec<(usize, usize)>>,
}

impl Dragonfly {
    /// `groups` of `switches`, each of which has `nodes` nodes and `global` cables to other groups; an error says that these are
    /// too few to join all groups.
    pub fn new(
        groups: usize,
        switches: usize,
        nodes: usize,
        global: usize,
    ) -> Result<Dragonfly, String> {
        let (ports, others) = (switches * global, groups - 1);
        if ports < others {
            return Err(format!(
                "a group of {switches} switches with {global} cables each to other groups does not reach {others} of them"
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
        // Port k of a group goes to the group k + 1 further on; the way back is that one's port for as many less.
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

    /// Those within groups first.
    pub fn cables(&self) -> Vec<(usize, usize)> {
        self.cables.clone()
    }

    /// Of all groups.
    pub fn switches(&self) -> usize {
        self.groups * self.switches
    }

    /// Of all switches.
    pub fn nodes(&self) -> usize {
        self.switches() * self.nodes
    }

    /// Nodes are dealt out switch by switch.
    pub fn switch_of(&self, node: usize) -> usize {
        node / self.nodes
    }

    /// The link between two switches of a group.
    fn within(&self, from: usize, to: usize) -> usize {
        let size = self.switches;
        let (group, one, other) = (from / size, from % size, to % size);
        let (low, high) = (one.min(other), one.max(other));
        // Pairs before those of `low`, then before `high` among these.
        let pair = low * (2 * size - low - 1) / 2 + (high - low - 1);
        let cable = group * (size * (size - 1) / 2) + pair;
        2 * cable + usize::from(one > other)
    }

    /// The group of a switch.
    pub fn group_of(&self, switch: usize) -> usize {
        switch / self.switches
    }

    /// How many.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Within a group to the switch itself, to another group as `leave` does; in class `class`, and in the next where it arrives.
    pub fn ways(&self, at: usize, to: usize, class: usize, each: &mut impl FnMut(Way)) {
        let target = self.switch_of(to);
        if self.group_of(at) == self.group_of(target) {
            let link = self.within(at, target);
            let class = class + 1;
            return each(Way { link, class });
        }
        self.leave(at, self.group_of(target), class, each);
    }

    /// To another group over a cable of its own if the switch has one, else to a switch that has.
    pub fn leave(&self, at: usize, there: usize, class: usize, each: &mut impl FnMut(Way)) {
        let links = &self.between[self.group_of(at) * self.groups + there];
        let own = |(switch, _): &&(usize, usize)| *switch == at;
        if links.iter().any(|link| own(&link)) {
            for &(_, link) in links.iter().filter(own) {
                each(Way { link, class });
            }
        } else {
            for &(switch, _) in links {
                let link = self.within(at, switch);
                each(Way { link, class });
            }
        }
    }
}
