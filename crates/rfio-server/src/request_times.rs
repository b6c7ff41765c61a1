//! Latency of requests by kind, as Prometheus histograms: from the reception of a complete request
//! frame until its reply is handed to the connection. It includes waiting for memory, a worker,
//! storage and the adapter, but not a client's delay in receiving the reply.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use verbena_rfio_protocol::Request;

use super::exposition::page::{MetricType, Page};

/// Kinds of requests with similar latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// Handshake, data queue pair, ping.
    Session,
    /// Opening and closing.
    Open,
    /// Reading one range.
    Read,
    /// Reading a vector of ranges.
    Vector,
    /// Writing.
    Write,
    /// A small file, whole, in either direction.
    Small,
    /// Other requests on an open file.
    File,
    /// Requests by name.
    Name,
}

impl RequestKind {
    const ALL: [Self; 8] = [
        Self::Session,
        Self::Open,
        Self::Read,
        Self::Vector,
        Self::Write,
        Self::Small,
        Self::File,
        Self::Name,
    ];

    /// Returns the kind of a request.
    pub fn of(request: &Request) -> Self {
        match request {
            Request::Hello(_)
            | Request::Prove(_)
            | Request::Redeem(_)
            | Request::Present(_)
            | Request::Connect(_)
            | Request::Ping(_)
            | Request::Cancel(_) => Self::Session,
            Request::Open(_) | Request::Close(_) => Self::Open,
            Request::Read(_) => Self::Read,
            Request::ReadVector(_) => Self::Vector,
            Request::Write(_) | Request::Copy(_) => Self::Write,
            Request::Fetch(_) | Request::Store(_) => Self::Small,
            Request::Examine(_)
            | Request::ChangeModeOf(_)
            | Request::ChangeOwnerOf(_)
            | Request::Truncate(_)
            | Request::Synchronise(_)
            | Request::Lock(_)
            | Request::Checksum(_)
            | Request::Extents(_)
            | Request::SetTimes(_) => Self::File,
            Request::Status(_)
            | Request::LinkStatus(_)
            | Request::Access(_)
            | Request::MakeDirectory(_)
            | Request::RemoveDirectory(_)
            | Request::Unlink(_)
            | Request::Rename(_)
            | Request::MakeLink(_)
            | Request::ReadLink(_)
            | Request::ChangeMode(_)
            | Request::ChangeOwner(_)
            | Request::Space(_)
            | Request::SynchroniseDirectory(_)
            | Request::ChangeTimes(_)
            | Request::MakeHardLink(_)
            | Request::Replace(_)
            | Request::Extended(_)
            | Request::SetExtended(_)
            | Request::List(_) => Self::Name,
        }
    }

    /// Returns its label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Open => "open",
            Self::Read => "read",
            Self::Vector => "vector",
            Self::Write => "write",
            Self::Small => "small",
            Self::File => "file",
            Self::Name => "name",
        }
    }
}

/// Upper bounds of the buckets, in nanoseconds, and in seconds as Prometheus writes them. A cached
/// read on one host takes tens of microseconds, a disk's answer milliseconds, a wait for memory up
/// to seconds.
const BUCKETS: [(u64, &str); 12] = [
    (10_000, "1e-05"),
    (30_000, "3e-05"),
    (100_000, "0.0001"),
    (300_000, "0.0003"),
    (1_000_000, "0.001"),
    (3_000_000, "0.003"),
    (10_000_000, "0.01"),
    (30_000_000, "0.03"),
    (100_000_000, "0.1"),
    (300_000_000, "0.3"),
    (1_000_000_000, "1.0"),
    (10_000_000_000, "10.0"),
];

/// Requests of one kind. The last bucket has no upper bound.
#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BUCKETS.len() + 1],
    nanoseconds: AtomicU64,
}

/// All kinds.
#[derive(Debug, Default)]
pub struct RequestTimes {
    kinds: [Histogram; RequestKind::ALL.len()],
}

impl RequestTimes {
    /// Records an answered request.
    pub fn observe(&self, kind: RequestKind, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let histogram = &self.kinds[kind as usize];
        let bucket = BUCKETS.partition_point(|&(end, _)| end < nanoseconds);
        histogram.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        histogram
            .nanoseconds
            .fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Renders the exposition: cumulative buckets, the sum, the count.
    pub fn render(&self, page: &mut Page) {
        const NAME: &str = "rfio_request_seconds";
        page.family(
            NAME,
            MetricType::Histogram,
            "Time from a complete request to its reply, by kind of request.",
        );
        let (bucket_of, sum_of, count_of) = (
            format!("{NAME}_bucket"),
            format!("{NAME}_sum"),
            format!("{NAME}_count"),
        );
        for kind in RequestKind::ALL {
            let (histogram, label) = (&self.kinds[kind as usize], kind.label());
            let mut count = 0;
            let ends = BUCKETS.iter().map(|&(_, end)| end).chain(["+Inf"]);
            for (bucket, end) in histogram.buckets.iter().zip(ends) {
                count += bucket.load(Ordering::Relaxed);
                page.sample(&bucket_of, &[("kind", label), ("le", end)], count);
            }
            let seconds = histogram.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
            page.sample(&sum_of, &[("kind", label)], seconds);
            page.sample(&count_of, &[("kind", label)], count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::page::Format;

    #[test]
    fn buckets_are_cumulative() {
        let times = RequestTimes::default();
        for micros in [5, 10, 11, 900, 60_000_000] {
            times.observe(RequestKind::Read, Duration::from_micros(micros));
        }
        let mut page = Page::new(Format::Prometheus);
        times.render(&mut page);
        let text = page.finish();
        for (end, count) in [
            ("1e-05", 2),
            ("3e-05", 3),
            ("0.0003", 3),
            ("0.001", 4),
            ("10.0", 4),
            ("+Inf", 5),
        ] {
            let line =
                format!("rfio_request_seconds_bucket{{kind=\"read\",le=\"{end}\"}} {count}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
        assert!(text.contains("rfio_request_seconds_sum{kind=\"read\"} 60.000926\n"));
        assert!(text.contains("rfio_request_seconds_count{kind=\"read\"} 5\n"));
        assert!(text.contains("rfio_request_seconds_count{kind=\"write\"} 0\n"));
    }

    #[test]
    fn bucket_labels_equal_their_bounds() {
        for (end, label) in BUCKETS {
            let seconds: f64 = label.parse().unwrap();
            assert_eq!((seconds * 1e9).round() as u64, end);
        }
        for (index, kind) in RequestKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
        }
    }
}
