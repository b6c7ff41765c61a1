//! Groups of switches. Within a group each switch has a cable to each other; each group has as many cables to each other
//! group as its switches have ports for. Routed minimally: within the group to a switch that has a cable to the
//! destination's group, over it, and within that group. What has yet to leave its group is in class 0, the rest in class 1.
//! Source: Kim, Dally, Scott, Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008.

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

    /// To the other group over a cable of its own if the switch has one, else to a switch that has.
    pub fn ways(&self, at: usize, to: usize, each: &mut impl FnMut(Way)) {
        let target = self.switch_of(to);
        let (group, there) = (at / self.switches, target / self.switches);
        if group == there {
            let link = self.within(at, target);
            return each(Way { link, class: 1 });
        }
        let links = &self.between[group * self.groups + there];
        let own = |(switch, _): &&(usize, usize)| *switch == at;
        if links.iter().any(|link| own(&link)) {
            for &(_, link) in links.iter().filter(own) {
                each(Way { link, class: 0 });
            }
        } else {
            for &(switch, _) in links {
                let link = self.within(at, switch);
                each(Way { link, class: 0 });
            }
        }
    }
}
