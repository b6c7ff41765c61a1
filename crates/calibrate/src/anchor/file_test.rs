//! Files as the tools print them.

use super::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// As perftest 4.5 prints it, shortened.
const WRITE_LATENCY: &str = "\
---------------------------------------------------------------------------------------
                    RDMA_Write Latency Test
 Dual-port       : OFF		Device         : mlx5_0
 Number of qps   : 1		Transport type : IB
 Connection type : RC		Using SRQ      : OFF
 TX depth        : 1
 Mtu             : 4096[B]
 Link type       : IB
 Max inline data : 220[B]
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    \
t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 2       1000          1.00           3.00         1.02                1.03          0.05            1.20                    3.00
 8       1000          1.01           3.00         1.03                1.04          0.05            1.20                    3.00
 4096    1000          2.01           4.00         2.03                2.04          0.05            2.20                    4.00
---------------------------------------------------------------------------------------
";

/// As perftest 24 prints it with --report_gbits, shortened.
const SEND_BANDWIDTH: &str = "\
---------------------------------------------------------------------------------------
                    Send BW Test
 Dual-port       : OFF		Device         : mlx5_0
 Number of qps   : 1		Transport type : IB
 Connection type : UD		Using SRQ      : OFF
 CQ Moderation   : 1
 Max inline data : 0[B]
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 64         1000             2.05               2.048                4.000000
---------------------------------------------------------------------------------------
";

fn of(text: &str) -> Result<(Vec<MeasuredCurve>, Vec<String>), AnchorError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("verbena-anchor-{}-{number}.txt", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text).expect("written");
    let curves = read(&path);
    std::fs::remove_file(&path).expect("removed");
    curves
}

#[test]
fn perftest_latencies_have_their_settings() {
    let (curves, _) = of(WRITE_LATENCY).expect("read");
    let [curve] = curves.as_slice() else {
        panic!("one curve: {curves:?}");
    };
    assert_eq!(curve.benchmark, "latency.write");
    assert_eq!(curve.settings.inline, Some(220));
    assert_eq!(curve.points.len(), 3);
    let anchor = curve.anchor().expect("an anchor");
    assert_eq!((anchor.bytes, anchor.figure), (8, 1.03));
}

#[test]
fn perftest_rates_in_gigabits_of_datagrams() {
    let (curves, _) = of(SEND_BANDWIDTH).expect("read");
    let anchor = curves[0].anchor().expect("an anchor");
    assert_eq!(anchor.to_string(), "bandwidth.send (ud) 64 B = 256 MB/s");
    assert_eq!(anchor.settings.signal_every, Some(1));
}

#[test]
fn osu_curves_of_three_versions() {
    let texts = [
        "# OSU MPI Latency Test v5.9\n# Size          Latency (us)\n0   1.12\n1   1.20\n8 1.21\n",
        "# OSU MPI Latency Test v7.3\n# Datatype: MPI_CHAR.\n# Size       Avg Latency(us)\n\
         8 1.21\n",
        "# OSU MPI Latency Test v6.1\n# Size          Latency (us)\n4   1.20\n16 1.25\n",
    ];
    for (text, expected) in texts.iter().zip([(8, 1.21), (8, 1.21), (16, 1.25)]) {
        let (curves, _) = of(text).expect("read");
        let anchor = curves[0].anchor().expect("an anchor");
        assert_eq!((anchor.bytes, anchor.figure), expected, "{text}");
        assert_eq!(anchor.settings, Settings::default());
    }
    let rates =
        "# OSU MPI Bandwidth Test v5.9\n# Size      Bandwidth (MB/s)\n64  200.5\n65536 9000\n";
    let (curves, _) = of(rates).expect("read");
    assert_eq!(curves[0].anchor().map(|one| one.figure), Some(200.5));
}

#[test]
fn several_pairs_are_left_out_with_a_reason() {
    let text = "# OSU MPI Multiple Bandwidth / Message Rate Test v5.9\n\
                # [ pairs: 2 ] [ window size: 64 ]\n\
                # Size                  MB/s        Messages/s\n64 100.0 1562500.0\n";
    let error = of(text).expect_err("nothing is left").to_string();
    assert!(error.contains("several pairs"), "{error}");
    assert!(error.contains("expected output of ib_write_lat"), "{error}");
}

#[test]
fn what_is_not_a_result_is_an_error() {
    for text in ["", "hello\n", "# OSU MPI Latency Test v5.9\n", "{\"a\": 1}"] {
        let error = of(text).expect_err(text).to_string();
        assert!(error.contains("expected output"), "{error}");
    }
    let missing = read(Path::new("/nonexistent/osu.txt")).expect_err("no file");
    assert!(missing.to_string().contains("/nonexistent/osu.txt"));
}
