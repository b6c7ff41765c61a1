//! The groups that programs in the namespace have joined: `/proc/net/igmp` and `/proc/net/igmp6`,
//! opened in the namespace.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::proc_file;

/// Returns whether a packet of the kernel may report a changed membership: IGMP, or IPv6 with
/// hop-by-hop options, as reports of MLD have.
pub fn is_report(packet: &[u8]) -> bool {
    const IGMP: u8 = 2;
    const HOP_BY_HOP: u8 = 0;
    match packet.first().map(|first| first >> 4) {
        Some(4) => packet.get(9) == Some(&IGMP),
        Some(6) => packet.get(6) == Some(&HOP_BY_HOP),
        _ => false,
    }
}

/// Returns the groups of the interface with this index in the files.
pub fn read(files: &[File], index: u32) -> Vec<IpAddr> {
    let texts = files.iter().filter_map(|file| proc_file::text(file).ok());
    texts.flat_map(|text| groups(&text, index)).collect()
}

/// Returns the groups of an interface in the text of either file. Its name is not compared: a
/// program can change it, and a long one has no space behind it.
fn groups(text: &str, index: u32) -> Vec<IpAddr> {
    let mut found = Vec::new();
    let mut is_own = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words.as_slice() {
            // IPv4: the interface's line precedes those of its groups, which begin with a tab.
            [number, ..] if !line.starts_with(char::is_whitespace) => {
                let of_ipv6 = words.get(2).and_then(|group| ipv6(group));
                is_own = number.parse() == Ok(index);
                found.extend(of_ipv6.filter(|_| is_own));
            }
            [group, ..] if is_own => found.extend(ipv4(group)),
            _ => {}
        }
    }
    found
}

/// IPv4 groups are numbers in the order of the processor's bytes.
fn ipv4(text: &str) -> Option<IpAddr> {
    let number = u32::from_str_radix(text, 16)
        .ok()
        .filter(|_| text.len() == 8)?;
    Some(Ipv4Addr::from(number.to_ne_bytes()).into())
}

fn ipv6(text: &str) -> Option<IpAddr> {
    let number = u128::from_str_radix(text, 16)
        .ok()
        .filter(|_| text.len() == 32)?;
    Some(Ipv6Addr::from_bits(number).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IPV4: &str = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
                        1\tlo        :     1      V3\n\
                        \t\t\t\t010000E0     1 0:00000000\t\t0\n\
                        2\tib0       :     2      V3\n\
                        \t\t\t\tFB0000E0     1 0:00000000\t\t1\n\
                        \t\t\t\t010000E0     1 0:00000000\t\t0\n";
    const IPV6: &str = "1    lo              ff020000000000000000000000000001     1 0000000C 0\n\
                        2    ib0             ff0200000000000000000000000000fb     1 00000004 0\n\
                        2    ib0             ff020000000000000000000000000001     1 0000000C 0\n";

    #[test]
    #[cfg(target_endian = "little")]
    fn ipv4_groups_of_the_interface_are_found() {
        let found: Vec<String> = groups(IPV4, 2).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["224.0.0.251", "224.0.0.1"]);
        assert_eq!(groups(IPV4, 1).len(), 1);
        assert!(groups(IPV4, 3).is_empty());
    }

    #[test]
    fn ipv6_groups_of_the_interface_are_found() {
        let found: Vec<String> = groups(IPV6, 2).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["ff02::fb", "ff02::1"]);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn groups_of_an_interface_with_a_long_name_are_found() {
        // The kernel's format is "%d\t%-10s:".
        let ipv4 = IPV4.replace("ib0       :", "fifteen-letters:");
        let ipv6 = IPV6.replace("ib0            ", "fifteen-letters");
        assert_eq!(groups(&ipv4, 2), groups(IPV4, 2));
        assert_eq!(groups(&ipv6, 2), groups(IPV6, 2));
        assert_eq!(groups(&ipv4, 2).len() + groups(&ipv6, 2).len(), 4);
    }

    #[test]
    fn reports_are_recognized() {
        let mut packet = [0; 60];
        (packet[0], packet[9]) = (0x46, 2);
        assert!(is_report(&packet));
        packet[9] = 17;
        assert!(!is_report(&packet));
        packet[0] = 0x60;
        assert!(is_report(&packet));
        packet[6] = 58;
        assert!(!is_report(&packet) && !is_report(&[]));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text: String) {
            let _ = groups(&text, 2);
        }
    }
}
