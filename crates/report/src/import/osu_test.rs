//! Tables as printed by various OSU versions.

use super::*;
use crate::import::tests::{points, refused};
use crate::import::{Hints, parse};

#[test]
fn latency_and_bandwidth_tables_are_imported() {
    let latency = "# OSU MPI Latency Test v5.9\n# Size          Latency (us)\n0   1.12\n1   1.20\n";
    let found = points(latency);
    assert_eq!((found.len(), found[1].metrics[0].value), (2, 1200.0));
    assert_eq!(found[1].benchmark, "mpi.latency");
    let bandwidth =
        "# OSU MPI Bandwidth Test v5.9\r\n# Size      Bandwidth (MB/s)\r\n1024  900.5\r\n";
    assert_eq!(points(bandwidth)[0].metrics[0].value, 900.5e6);
}

#[test]
fn other_tests_get_their_own_names() {
    let name = |title: &str, columns: &str| {
        let figures = if columns.contains("Min") {
            "2.5 1 3"
        } else {
            "2.5"
        };
        let text = format!(
            "# OSU MPI{title} Test v7.3\n# Datatype: MPI_CHAR.\n# {columns}\n8 {figures}\n"
        );
        let point = points(&text).remove(0);
        (point.benchmark, point.metrics[0].name.clone())
    };
    let full = "Size  Avg Latency(us)  Min Latency(us)  Max Latency(us)";
    let of = |benchmark: &str, metric: &str| (benchmark.to_owned(), metric.to_owned());
    assert_eq!(name(" Latency", full), of("mpi.latency", "one-way-latency"));
    assert_eq!(
        name(" Allreduce Latency", full),
        of("mpi.allreduce-latency", "average-time")
    );
    assert_eq!(
        name("_Put Latency", full),
        of("mpi.put-latency", "completion-latency")
    );
    let rate = "Size  Bandwidth (MB/s)";
    assert_eq!(
        name(" Bi-Directional Bandwidth", rate),
        of("mpi.bandwidth-both", "cached-bandwidth")
    );
}

#[test]
fn message_rates_keep_their_pairs_and_a_barrier_has_no_size() {
    let text = "# OSU MPI Multiple Bandwidth / Message Rate Test v5.9\n\
                # [ pairs: 2 ] [ window size: 64 ]\n\
        # Size                  MB/s        Messages/s\n1   14.33   14330523.01\n";
    let found = &points(text)[0];
    assert_eq!(found.benchmark, "mpi.multi-pair-bandwidth");
    assert_eq!(found.parameters["pairs"], Value::Number(2.0));
    assert_eq!(found.metrics[1].value, 14_330_523.01);
    let barrier = "# OSU MPI Barrier Latency Test v5.9\n# Avg Latency(us)\n      1.84\n";
    assert_eq!(points(barrier)[0].metrics[0].value, 1840.0);
    assert!(!points(barrier)[0].parameters.contains_key("size"));
}

#[test]
fn invalid_rows_name_their_line() {
    let head = "# OSU MPI Latency Test v7.3\n# Size          Latency (us)\n";
    assert!(refused(&format!("{head}1 1,20\n")).contains("line 3"));
    assert!(refused(&format!("{head}1 1.20\n2")).contains("line 4"));
    assert!(
        refused(&format!(
            "{}1 1.20 Fail\n",
            head.replace("(us)\n", "(us)  Validation\n")
        ))
        .contains("validation")
    );
    assert!(refused(head).contains("without a result"));
}

/// Rows posted in open-mpi/ompi pull request 7735.
#[test]
fn nonblocking_times_exclude_the_computation() {
    let text = "# OSU MPI Non-blocking Allgather Latency Test v5.3.2\n\
        # Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n\
        # Size           Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)\n\
        1                     216.50            140.95            135.61             44.29\n";
    let found = &points(text)[0];
    assert_eq!(found.benchmark, "mpi.nonblocking-allgather-latency");
    let values: Vec<f64> = found.metrics.iter().map(|metric| metric.value).collect();
    assert_eq!(values, [135_610.0, 216_500.0]);
}

/// Rows posted in open-mpi/ompi pull request 12318.
#[test]
fn accelerators_and_other_libraries_are_kept_apart() {
    let cuda = "# OSU MPI-CUDA Allreduce Latency Test v7.3\n# Datatype: MPI_CHAR.\n\
        # Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n\
        1                    1901.97           1895.70           1909.23        1000\n";
    let found = &points(cuda)[0];
    assert_eq!(found.benchmark, "mpi-cuda.allreduce-latency");
    assert_eq!(found.metrics[0].value, 1_901_970.0);
    let buffers = "# OSU MPI-CUDA Latency Test v5.9\n\
        # Send Buffer on DEVICE (D) and Receive Buffer on HOST (H)\n# Size          Latency (us)\n\
        8 2.5\n";
    let key =
        |text: &str| crate::gather::key(&points(text)[0].benchmark, &points(text)[0].parameters);
    assert_eq!(
        key(buffers),
        "mpi-cuda.latency buffers=D-H size=8 transport=mpi-cuda"
    );
    let shmem = "# OSU OpenSHMEM Put Test v5.9\n# Size          Latency (us)\n8 2.5\n";
    assert_eq!(
        key(shmem),
        "openshmem.put-latency size=8 transport=openshmem"
    );
}

#[test]
fn collectives_get_our_names_and_the_given_process_count() {
    let hints = Hints::of(None, Some(4)).unwrap();
    for (title, name) in [
        ("Allreduce", "mpi.allreduce-latency"),
        ("Allgather", "mpi.allgather-latency"),
        ("Broadcast", "mpi.broadcast-latency"),
        ("All-to-All Personalized Exchange", "mpi.alltoall-latency"),
    ] {
        let text =
            format!("# OSU MPI {title} Latency Test v5.9\n# Size       Avg Latency(us)\n8 2.50\n");
        let (found, warnings) = parse(&text, &hints).unwrap();
        let key = crate::gather::key(&found[0].benchmark, &found[0].parameters);
        assert_eq!(key, format!("{name} processes=4 size=8 transport=mpi"));
        assert!(warnings.is_empty());
    }
    let two = "# OSU MPI Latency Test v5.9\n# Size       Latency (us)\n8 2.50\n";
    let (_, warnings) = parse(two, &hints).unwrap();
    assert!(warnings[0].contains("no collective"), "{warnings:?}");
}

#[test]
fn headers_of_old_versions_are_read() {
    let old = "# OSU MPI Multi BW / Message Rate Test (Version 1.1)\n\
               # [ pairs: 4 ] [ window size: 64 ]\n\n\
        #  Size    MB/sec    Messages/sec\n      4    28.00    7000000.00\n";
    let found = &points(old)[0];
    assert_eq!(found.benchmark, "mpi.multi-pair-bandwidth");
    assert_eq!(found.metrics[1].value, 7e6);
    let wrong = refused(&old.replace("7000000.00", "5700000000.00"));
    assert!(
        wrong.contains("line 5") && wrong.contains("inconsistent"),
        "{wrong}"
    );
}

#[test]
fn a_table_without_its_title_needs_a_name() {
    let text = "# Size       Avg Latency(us)\n8 2.50\n";
    assert!(refused(text).contains("--as osu:allreduce"));
    let hints = Hints::of(Some("osu:osu_allreduce"), Some(8)).unwrap();
    assert_eq!(
        parse(text, &hints).unwrap().0[0].benchmark,
        "mpi.allreduce-latency"
    );
    let names = [
        ("osu:bw", "mpi.latency"),
        ("osu:put_latency", "mpi.put-latency"),
        ("osu:iallreduce", "mpi.nonblocking-allreduce-latency"),
    ];
    for (name, benchmark) in names {
        let hints = Hints::of(Some(name), None).unwrap();
        assert_eq!(parse(text, &hints).unwrap().0[0].benchmark, benchmark);
    }
}
