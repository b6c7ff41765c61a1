use super::*;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

fn limits(text: &str) -> Arc<Addresses> {
    Addresses::of(Rules::parse(text).unwrap())
}

fn at(text: &str) -> SocketAddr {
    SocketAddr::new(text.parse().unwrap(), 9)
}

#[test]
fn valid_lines_are_parsed_and_invalid_ones_named() {
    let good = "# x\n\n10.0.0.0/8 sessions=4 # each\n::/0 together requests=10 bytes=2M\n\
                192.0.2.1 refuse\n";
    assert_eq!(Rules::parse(good).unwrap().0.len(), 3);
    for (line, word) in [
        ("10.0.0.1/8 sessions=4", "10.0.0.0/8"),
        ("10.0.0.0/33 sessions=4", "more bits"),
        ("10.0.0.0/ sessions=4", "more bits"),
        ("host sessions=4", "neither an address"),
        ("::ffff:10.0.0.0/104 sessions=4", "write 10.0.0.0/8"),
        ("::ffff:10.0.0.1 sessions=4", "write 10.0.0.1"),
        ("::ffff:0:0/96 refuse", "write 0.0.0.0/0"),
        ("::ffff:0:0/95 refuse", "beyond the network"),
        ("10.0.0.1", "no limit"),
        ("10.0.0.1 together", "no limit"),
        ("10.0.0.1 sessions=0", "at least 1"),
        ("10.0.0.1 sessions=2k", "at least 1"),
        ("10.0.0.1 requests=-1", "at least 1"),
        ("10.0.0.1 bytes=99999999999G", "at least 1"),
        ("10.0.0.1 bytes=M", "at least 1"),
        ("10.0.0.1 bytes=", "at least 1"),
        ("10.0.0.1 refuse sessions=4", "other limits"),
        ("10.0.0.1 refuse together", "other limits"),
        ("10.0.0.1 sesions=4", "is unknown"),
        ("192.0.2.1 sessions=4", "already"),
    ] {
        let bad = Rules::parse(&format!("192.0.2.1/32 refuse\n{line}\n")).unwrap_err();
        assert_eq!(bad.line, 2, "{line}");
        assert!(bad.what.contains(word), "{line}: {bad}");
    }
}

#[test]
fn the_narrowest_network_decides_in_any_order() {
    let now = Instant::now();
    let lines = [
        "10.0.0.0/8 sessions=1",
        "10.1.0.0/16 sessions=2",
        "10.1.2.3 refuse",
    ];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let addresses = limits(&order.map(|index| lines[index]).join("\n"));
        let enter = |text| addresses.enter(at(text), now);
        let _kept = [enter("10.9.9.9"), enter("10.1.9.9"), enter("10.1.9.9")].map(Result::unwrap);
        let refused = enter("10.9.9.9").unwrap_err().to_string();
        assert!(
            refused.contains("10.9.9.9 already has 1") && refused.contains("10.0.0.0/8"),
            "{refused}"
        );
        assert!(enter("10.1.9.9").is_err());
        // Each host counts separately.
        assert!(enter("10.9.9.8").is_ok());
        assert!(
            enter("10.1.2.3")
                .unwrap_err()
                .to_string()
                .contains("are refused")
        );
        assert!(enter("::ffff:10.1.2.3").is_err(), "the same host by IPv6");
        assert!(enter("11.0.0.1").is_ok());
        assert!(addresses.refuse(at("10.1.2.3")) && addresses.refuse(at("::ffff:10.1.2.3")));
        assert!(!addresses.refuse(at("10.1.9.9")) && !addresses.refuse(at("11.0.0.1")));
    }
}

#[test]
fn a_together_network_and_an_ipv6_host_count_as_one() {
    let now = Instant::now();
    let addresses = limits("10.0.0.0/8 together sessions=2\n2001:db8::/32 sessions=1");
    let one = addresses.enter(at("10.0.0.1"), now).unwrap();
    let _two = addresses.enter(at("10.200.0.1"), now).unwrap();
    let refused = addresses.enter(at("10.3.0.1"), now).unwrap_err();
    assert!(
        refused.to_string().contains("10.0.0.0/8 already has 2"),
        "{refused}"
    );
    drop(one);
    assert!(addresses.enter(at("10.3.0.1"), now).is_ok());
    let _host = addresses.enter(at("2001:db8::1"), now).unwrap();
    assert!(
        addresses.enter(at("2001:db8::ffff"), now).is_err(),
        "the same host"
    );
    assert!(
        addresses.enter(at("2001:db8:0:1::1"), now).is_ok(),
        "another one"
    );
}

/// A client that spreads its requests over sessions, time and reconnects gets no more than the
/// rate, and a burst of one second.
#[test]
fn a_rate_holds_over_all_sessions_of_a_host() {
    let begin = Instant::now();
    let addresses = limits("10.0.0.0/8 requests=100");
    let mut asked = 0;
    for millisecond in 0..10_000u64 {
        let now = begin + Duration::from_millis(millisecond);
        // A new session each time.
        let mut session = addresses.enter(at("10.0.0.1"), now).unwrap();
        while session.may_read_request(now) {
            session.charge_request();
            asked += 1;
        }
    }
    assert!(
        (1_090..=1_101).contains(&asked),
        "{asked} in ten seconds at 100 a second"
    );
    let mut other = addresses.enter(at("10.0.0.2"), begin).unwrap();
    assert!(other.may_read_request(begin), "another host has its own");
}

#[test]
fn a_request_above_the_rate_is_charged_afterwards() {
    let begin = Instant::now();
    let addresses = limits("::1 bytes=1M");
    let mut session = addresses.enter(at("::1"), begin).unwrap();
    assert!(session.may_read_request(begin));
    session.charge_bytes(5 << 20);
    for (milliseconds, may) in [(0, false), (3_990, false), (4_010, true)] {
        assert_eq!(
            session.may_read_request(begin + Duration::from_millis(milliseconds)),
            may
        );
    }
}

/// A debt belongs to the host and not to the session: it remains if the session ends and the client
/// returns at any later time.
#[test]
fn a_debt_outlives_the_session() {
    let begin = Instant::now();
    for rule in ["10.0.0.0/8 bytes=1M", "10.0.0.0/8 together bytes=1M"] {
        let addresses = limits(rule);
        let later = |milliseconds| begin + Duration::from_millis(milliseconds);
        let may_read_request = |milliseconds| {
            let mut session = addresses
                .enter(at("10.0.0.1"), later(milliseconds))
                .unwrap();
            session.may_read_request(later(milliseconds))
        };
        let mut session = addresses.enter(at("10.0.0.1"), begin).unwrap();
        assert!(session.may_read_request(begin));
        session.charge_bytes(11 << 20);
        drop(session);
        // Other hosts connect and disconnect meanwhile.
        for (milliseconds, may) in [(0, false), (3_000, false), (9_990, false), (10_010, true)] {
            let other = addresses.enter(at("10.0.0.2"), later(milliseconds));
            drop(other.unwrap());
            assert_eq!(
                may_read_request(milliseconds),
                may,
                "{rule} after {milliseconds} ms"
            );
        }
    }
    let addresses = limits("10.0.0.0/8 bytes=1M");
    for host in 0..100u32 {
        let host = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + host));
        let entered = addresses.enter(SocketAddr::new(host, 9), begin).unwrap();
        drop(entered);
    }
    assert_eq!(
        addresses.parties.lock().unwrap().len(),
        1,
        "clients without debt are forgotten"
    );
}

#[test]
fn unused_byte_credit_is_returned() {
    let begin = Instant::now();
    let addresses = limits("::1 requests=10 bytes=1M");
    let mut session = addresses.enter(at("::1"), begin).unwrap();
    assert!(session.may_read_request(begin));
    session.charge_bytes(8 << 20);
    assert!(!session.may_read_request(begin));
    session.refund_bytes(8 << 20);
    assert!(session.may_read_request(begin));
    // The credit never exceeds the amount of one second.
    session.refund_bytes(8 << 20);
    assert!(session.may_read_request(begin));
    session.charge_bytes((1 << 20) + 1);
    assert!(!session.may_read_request(begin));
}

/// A later refusal neither ends established sessions nor lifts their limits.
#[test]
fn later_refusals_keep_limits_of_established_sessions() {
    let now = Instant::now();
    let addresses = limits("10.0.0.0/8 requests=1");
    let mut session = addresses.enter(at("10.0.0.1"), now).unwrap();
    assert!(session.may_read_request(now));
    session.charge_request();
    addresses.replace(Rules::parse("10.0.0.0/8 refuse").unwrap());
    assert!(addresses.enter(at("10.0.0.1"), now).is_err());
    assert!(!session.may_read_request(now));
    assert!(session.may_read_request(now + Duration::from_secs(1)));
    session.charge_request();
    assert!(!session.may_read_request(now + Duration::from_secs(1)));
}

#[test]
fn new_rules_apply_to_established_sessions() {
    let now = Instant::now();
    let addresses = limits("10.0.0.0/8 sessions=3");
    let mut sessions = [(); 3].map(|()| addresses.enter(at("10.0.0.1"), now).unwrap());
    addresses.replace(Rules::parse("10.0.0.0/8 together sessions=4 requests=1").unwrap());
    for session in &mut sessions {
        session.may_read_request(now);
    }
    let _fourth = addresses.enter(at("10.0.0.2"), now).unwrap();
    assert!(addresses.enter(at("10.0.0.3"), now).is_err());
    assert!(sessions[0].may_read_request(now));
    sessions[0].charge_request();
    assert!(
        !sessions[1].may_read_request(now),
        "the rate is of all together"
    );
    addresses.replace(Rules::default());
    assert!(sessions[1].may_read_request(now));
    drop(sessions);
    // No session is counted twice or lost.
    addresses.replace(Rules::parse("10.0.0.0/8 sessions=1").unwrap());
    assert!(addresses.enter(at("10.0.0.1"), now).is_ok());
}

proptest! {
    /// An address is contained in its own network of any length, and in no network that differs
    /// within its bits.
    #[test]
    fn networks_contain_addresses_with_their_prefix(
        v4: u32, v6: u128, bits in 0u8..=32, flipped in 0u8..32) {
        let host = IpAddr::V4(Ipv4Addr::from(v4));
        let network = Network::around(host, bits);
        prop_assert!(network.holds(host));
        prop_assert_eq!(network.to_string().parse(), Ok(network));
        let other = IpAddr::V4(Ipv4Addr::from(v4 ^ (1 << (31 - flipped))));
        prop_assert_eq!(network.holds(other), flipped >= bits);
        prop_assert!(!network.holds(IpAddr::V6(Ipv6Addr::from(v6))));
        let host = IpAddr::V6(Ipv6Addr::from(v6));
        let network = Network::around(host, bits * 4);
        prop_assert!(network.holds(host));
        prop_assert_eq!(network.to_string().parse(), Ok(network));
    }
}
