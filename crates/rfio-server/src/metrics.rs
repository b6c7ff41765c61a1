//! Counters, and the page of metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use verbena_rfio_protocol::Request;

use super::exposition::page::{Format, MetricType, Page};
use super::request_times::RequestTimes;

const OPERATIONS: usize = 64;

/// The path by which data travelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// The control connection.
    Stream,
    /// RDMA.
    Fabric,
}

/// Direction of file data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// To the client.
    Sent,
    /// From the client.
    Received,
}

/// Bytes of file data, by direction and carrier.
#[derive(Debug, Default)]
pub struct ByteCounters([[AtomicU64; 2]; 2]);

impl ByteCounters {
    /// Adds to a counter.
    pub fn add(&self, flow: Flow, carrier: Carrier, bytes: u64) {
        count(&self.0[flow as usize][carrier as usize], bytes);
    }

    /// Returns a counter.
    pub fn get(&self, flow: Flow, carrier: Carrier) -> u64 {
        self.0[flow as usize][carrier as usize].load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident = $name:literal, $help:literal;)*) => {
        /// Counters since the start.
        #[derive(Debug)]
        pub struct Metrics {
            $($(#[$doc])* pub $field: AtomicU64,)*
            requests: [AtomicU64; OPERATIONS],
            refusals: [AtomicU64; OPERATIONS],
            /// Latency of requests.
            pub times: RequestTimes,
        }

        impl Default for Metrics {
            fn default() -> Self {
                Self {
                    $($field: AtomicU64::new(0),)*
                    requests: [const { AtomicU64::new(0) }; OPERATIONS],
                    refusals: [const { AtomicU64::new(0) }; OPERATIONS],
                    times: RequestTimes::default(),
                }
            }
        }

        impl Metrics {
            fn render_counters(&self, page: &mut Page) {
                $(
                    page.family($name, MetricType::Counter, $help);
                    page.sample($name, &[], self.$field.load(Ordering::Relaxed));
                )*
            }
        }
    };
}

counters! {
    /// Accepted connections.
    connections = "rfio_connections_total", "Connections accepted.";
    /// Connections closed before authentication.
    turned_away = "rfio_connections_turned_away_total", "Connections closed before authentication \
                                                         by limits or deadlines.";
    /// Authenticated sessions.
    sessions = "rfio_sessions_authenticated_total", "Sessions authenticated.";
    /// Failed proofs.
    authentication_failures = "rfio_authentication_failures_total", "Failed authentications.";
    /// Tickets that opened a session.
    tickets_redeemed = "rfio_tickets_redeemed_total", "Sessions opened by a ticket.";
    /// Refused tickets.
    tickets_refused = "rfio_tickets_refused_total",
    "Tickets refused: forged, used, expired, or by a clock that differs.";
    /// Tokens that opened a session.
    tokens_accepted = "rfio_tokens_accepted_total", "Sessions opened by a token.";
    /// Refused tokens.
    tokens_refused = "rfio_tokens_refused_total",
        "Tokens refused: forged, expired, for another service, or granting nothing.";
    /// Protocol violations.
    violations = "rfio_protocol_violations_total",
    "Connections ended because the peer broke the protocol.";
    /// Bytes sent in the control connection.
    stream_sent = "rfio_stream_sent_bytes_total", "File data sent in the control connection.";
    /// Bytes received in the control connection.
    stream_received = "rfio_stream_received_bytes_total",
    "File data received in the control connection.";
    /// Bytes written to clients by RDMA.
    fabric_sent = "rfio_fabric_sent_bytes_total", "File data written to clients by RDMA.";
    /// Bytes read from clients by RDMA.
    fabric_received = "rfio_fabric_received_bytes_total", "File data read from clients by RDMA.";
    /// Queue pairs that failed.
    fabric_failures = "rfio_fabric_failures_total", "Data queue pairs ended by an error.";
    /// Blocks found in the cache.
    cache_hits = "rfio_cache_hits_total", "Blocks found in the cache.";
    /// Blocks read into the cache.
    cache_fills = "rfio_cache_fills_total", "Blocks read into the cache.";
    /// Reads that bypassed the cache.
    cache_bypasses = "rfio_cache_bypasses_total", "Reads that bypassed the cache.";
    /// Reads from storage that were batched with others of their request.
    reads_together = "rfio_reads_together_total", "Reads from storage that io_uring ran \
                                                   concurrently with others of their request.";
    /// Requests that found no memory.
    scarcities = "rfio_scarcities_total",
    "Requests that waited or were answered short because the service's or the user's memory was in \
     use.";
    /// Idle sessions ended to free space.
    made_room = "rfio_idle_sessions_ended_total", "Idle sessions ended because other clients were \
                                                   waiting.";
    /// Sessions ended because the client read no data.
    stalls = "rfio_stalls_total", "Sessions ended because the client received no data for too \
                                   long.";
    /// Sessions and queue pairs refused by a cap.
    caps = "rfio_caps_reached_total", "Sessions and queue pairs refused because a limit was \
                                       reached.";
    /// Sessions refused by a limit by address.
    unwelcome = "rfio_address_refusals_total",
    "Sessions refused by a limit of their address or network.";
    /// Requests delayed by a rate limit.
    held_back = "rfio_address_waits_total", "Requests delayed by the rate limit of their address \
                                             or network.";
    /// Checksums that did not match on arrival.
    checksum_failures = "rfio_checksum_failures_total",
    "Writes refused because their checksum did not match.";
}

/// Adds to a counter.
pub fn count(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// A value that goes up and down, read when the page is rendered.
#[derive(Debug)]
pub struct Gauge {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub help: &'static str,
    /// Its current value.
    pub value: u64,
}

impl Metrics {
    /// Counts a request and whether it was refused.
    pub fn request(&self, operation: u16, refused: bool) {
        let Some(requests) = self.requests.get(usize::from(operation)) else {
            return;
        };
        count(requests, 1);
        if refused {
            count(&self.refusals[usize::from(operation)], 1);
        }
    }

    /// Counts file data.
    pub fn moved(&self, flow: Flow, carrier: Carrier, bytes: u64) {
        let counter = match (flow, carrier) {
            (Flow::Sent, Carrier::Stream) => &self.stream_sent,
            (Flow::Sent, Carrier::Fabric) => &self.fabric_sent,
            (Flow::Received, Carrier::Stream) => &self.stream_received,
            (Flow::Received, Carrier::Fabric) => &self.fabric_received,
        };
        count(counter, bytes);
    }

    /// Renders the page with all counters and gauges; the caller may add to it.
    pub fn render(&self, format: Format, gauges: &[Gauge]) -> Page {
        let mut page = Page::new(format);
        self.render_counters(&mut page);
        for (name, help, table) in [
            (
                "rfio_requests_total",
                "Requests by operation.",
                &self.requests,
            ),
            (
                "rfio_refusals_total",
                "Refused requests by operation.",
                &self.refusals,
            ),
        ] {
            page.family(name, MetricType::Counter, help);
            for &operation in Request::OPERATIONS {
                let value = table[usize::from(operation)].load(Ordering::Relaxed);
                let label = Request::name_of(operation).unwrap_or("unknown");
                page.sample(name, &[("operation", label)], value);
            }
        }
        self.times.render(&mut page);
        for Gauge { name, help, value } in gauges {
            page.family(name, MetricType::Gauge, help);
            page.sample(name, &[], value);
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_counter() {
        assert!(
            Request::OPERATIONS
                .iter()
                .all(|&operation| usize::from(operation) < OPERATIONS)
        );
    }

    #[test]
    fn the_text_contains_the_values() {
        let metrics = Metrics::default();
        metrics.request(12, false);
        metrics.request(12, true);
        metrics.moved(Flow::Sent, Carrier::Fabric, 77);
        let gauge = Gauge {
            name: "rfio_x",
            help: "X.",
            value: 5,
        };
        let text = metrics.render(Format::Prometheus, &[gauge]).finish();
        assert!(text.contains("rfio_requests_total{operation=\"Read\"} 2\n"));
        assert!(text.contains("rfio_refusals_total{operation=\"Read\"} 1\n"));
        assert!(text.contains("rfio_fabric_sent_bytes_total 77\n"));
        assert!(text.contains("rfio_x 5\n"));
    }
}
