//! The counters that a kernel shows for a port: the sums over all processes of the host.

use std::collections::BTreeMap;

use verbena_hca::describe;
use verbena_hca_net::device::MTU_BYTES;
use verbena_hca_net::link;
use verbena_hca_shm::registry;

/// The adapter's counters, by its own names.
pub type Totals = BTreeMap<String, u64>;

/// Returns the sums over all processes that use the adapter now.
pub fn totals() -> Totals {
    let mut totals = Totals::new();
    let Ok(processes) = describe::processes(&registry::directory()) else {
        return totals;
    };
    for text in processes.into_iter().filter_map(|(_, text)| text.ok()) {
        for (name, value) in parsed(&text) {
            *totals.entry(name.to_owned()).or_default() += value;
        }
    }
    totals
}

/// Parses the counters of a description: its last member, an object of numbers.
fn parsed(description: &str) -> impl Iterator<Item = (&str, u64)> {
    let counters = description
        .rsplit_once("\"counters\":{")
        .map(|(_, rest)| rest);
    let members = counters
        .unwrap_or_default()
        .trim_end_matches('}')
        .split(',');
    members.filter_map(|member| {
        let (name, value) = member.split_once(':')?;
        Some((name.trim_matches('"'), value.parse().ok()?))
    })
}

/// Returns the values of `ports/N/counters`. Data is counted in words of four bytes.
pub fn of_port(totals: &Totals) -> Vec<(&'static str, u64)> {
    let of = |name: &str| totals.get(name).copied().unwrap_or(0);
    let operations: u64 = ["send", "write", "read", "atomic", "other"]
        .iter()
        .map(|kind| of(&format!("{kind}_operations")))
        .sum();
    // Within a host, data sent by one process is received by another at the same port. For other
    // hosts, packets are counted.
    let bytes = of("operation_bytes");
    let within = operations.max(bytes.div_ceil(u64::from(MTU_BYTES)));
    let (sent, received) = match link::is_ethernet() {
        true => (of("packets_sent"), of("packets_received")),
        false => (0, 0),
    };
    let (sent, received) = (within.max(sent), within.max(received));
    vec![
        ("VL15_dropped", 0),
        ("excessive_buffer_overrun_errors", 0),
        ("link_downed", 0),
        ("link_error_recovery", 0),
        ("local_link_integrity_errors", 0),
        ("multicast_rcv_packets", 0),
        ("multicast_xmit_packets", 0),
        ("port_rcv_constraint_errors", 0),
        ("port_rcv_data", bytes / 4),
        ("port_rcv_errors", of("damaged_packets")),
        ("port_rcv_packets", received),
        ("port_rcv_remote_physical_errors", 0),
        ("port_rcv_switch_relay_errors", 0),
        ("port_xmit_constraint_errors", 0),
        ("port_xmit_data", bytes / 4),
        ("port_xmit_discards", 0),
        ("port_xmit_packets", sent),
        ("port_xmit_wait", 0),
        ("symbol_error", 0),
        ("unicast_rcv_packets", received),
        ("unicast_xmit_packets", sent),
    ]
}

/// Returns the values of `ports/N/hw_counters`, under common adapters' names.
pub fn of_hardware(totals: &Totals) -> Vec<(&'static str, u64)> {
    let of = |name: &str| totals.get(name).copied().unwrap_or(0);
    vec![
        // Milliseconds for which a value is cached: not at all.
        ("lifespan", 0),
        ("local_ack_timeout_err", of("lost_retries")),
        ("np_cnp_sent", of("congestion_notifications_sent")),
        ("np_ecn_marked_roce_packets", of("marked_packets")),
        ("req_cqe_error", of("failed_completions")),
        ("rnr_nak_retry_err", of("rnr_retries")),
        ("rp_cnp_handled", of("congestion_notifications_received")),
        ("rx_icrc_encapsulated", of("damaged_packets")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_parsed_from_a_description() {
        let text =
            r#"{"pid":1,"command":"a","counters":{"send_operations":3,"operation_bytes":40}}"#;
        let found: Vec<_> = parsed(text).collect();
        assert_eq!(found, [("send_operations", 3), ("operation_bytes", 40)]);
        assert_eq!(parsed("{}").count(), 0);
    }

    #[test]
    fn data_counters_are_in_four_byte_words() {
        let totals = Totals::from([
            ("send_operations".into(), 2),
            ("operation_bytes".into(), 8192 + 4),
        ]);
        let counters: BTreeMap<_, _> = of_port(&totals).into_iter().collect();
        assert_eq!(counters["port_xmit_data"], 2049);
        assert_eq!(counters["port_rcv_data"], 2049);
        assert_eq!(counters["port_xmit_packets"], 3);
    }
}
