//! Tables and files as perftest 4.5 writes them.

use super::*;

const LATENCY: &str = "\
---------------------------------------------------------------------------------------
                    RDMA_Write Latency Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 1\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 2       1000          0.85           3.26         0.89     \t       0.90        \t0.05   \t\t1.02    \t\t3.26
 4       1000          0.85           2.51         0.90     \t       0.90        \t0.04   \t\t1.00    \t\t2.51
---------------------------------------------------------------------------------------
";
const BANDWIDTH: &str = "\
                    RDMA_Write BW Test
 Number of qps   : 1\t\tTransport type : IB
 Connection type : UC\t\tUsing SRQ      : OFF
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      5000             11500.10            11400.00\t\t   0.182400
";
/// As 4.5 writes it: no quotes, commas before brackets.
const NOT_QUITE_JSON: &str = "{
test_info: {
test: RDMA_Write_BW_Test,
Device: \"mlx5_0\",
Number_of_qps: 4,
Connection_type: RC,
TX_depth : 128,
},
results: {
MsgSize: 65536,
n_iterations: 2000,
BW_peak: 276.76,
BW_average: 272.74,
MsgRate: 0.520208,
},
}
";

fn points(text: &str) -> Vec<Point> {
    parse(text).expect("perftest's").expect("points")
}

fn refused(text: &str) -> String {
    parse(text).expect("perftest's").unwrap_err()
}

/// Benchmark and parameters, as comparison has them.
fn key(point: &Point) -> String {
    crate::gather::key(&point.benchmark, &point.parameters)
}

#[test]
fn text_tables_have_the_keys_of_our_benchmarks() {
    let latency = points(LATENCY);
    assert_eq!(latency.len(), 2);
    assert_eq!(latency[0].metrics[0].value, 890.0);
    assert_eq!(
        key(&latency[0]),
        "latency.write receive-queue=own size=2 transport=rc"
    );
    let bandwidth = points(BANDWIDTH);
    assert_eq!(bandwidth[0].metrics[0].value, 11400.0 * MEBIBYTE);
    assert!((bandwidth[0].metrics[1].value - 182_400.0).abs() < 1e-6);
    assert_eq!(
        key(&bandwidth[0]),
        "bandwidth.write size=65536 transport=uc ways=one"
    );
}

#[test]
fn both_ways_and_many_queue_pairs_are_not_one_way_over_one() {
    let both = BANDWIDTH.replace("BW Test", "Bidirectional BW Test");
    assert_eq!(
        key(&points(&both)[0]),
        "bandwidth.write-both size=65536 transport=uc ways=both"
    );
    let several = BANDWIDTH.replace("qps   : 1", "qps   : 4");
    assert!(key(&points(&several)[0]).contains("queue-pairs=4"));
}

#[test]
fn gigabits_are_not_mebibytes() {
    let text = BANDWIDTH
        .replace("MB/sec", "Gb/sec")
        .replace("11400.00", "95.60");
    assert_eq!(points(&text)[0].metrics[0].value, 95.6e9 / 8.0);
}

#[test]
fn several_tests_in_one_file() {
    let names: Vec<String> = points(&format!("{LATENCY}{BANDWIDTH}"))
        .into_iter()
        .map(|point| point.benchmark)
        .collect();
    assert_eq!(names, ["latency.write", "latency.write", "bandwidth.write"]);
}

#[test]
fn wrong_tables_say_where() {
    let cut = &LATENCY[..LATENCY.find("2.51").unwrap() - 12];
    assert!(refused(cut).contains("line 9"), "{}", refused(cut));
    let comma = LATENCY.replace("0.90 ", "0,90 ");
    assert!(refused(&comma).contains("\"0,90\""), "{}", refused(&comma));
    let cycles = LATENCY.replace("[usec]", "[cycles]");
    assert!(refused(&cycles).contains("cycles"));
    let nothing = &LATENCY[..LATENCY.find(" #bytes").unwrap()];
    assert!(refused(nothing).contains("without a result"));
}

#[test]
fn json_and_what_is_not_quite() {
    let text = r#"{"test_info":{"test":"Send_Latency_Test","Connection_type":"RC"},
        "results":{"MsgSize":2,"n_iterations":1000,"t_min":1.0,"t_typical":1.25}}"#;
    assert_eq!(
        key(&points(text)[0]),
        "latency.send receive-queue=own size=2 transport=rc"
    );
    assert_eq!(points(text)[0].metrics[0].value, 1250.0);
    let found = &points(NOT_QUITE_JSON)[0];
    assert_eq!(
        found.metrics[0].value,
        272.74e9 / 8.0,
        "the message rate tells gigabits"
    );
    assert!(key(found).contains("queue-pairs=4 size=65536 transport=rc"));
    let mebibytes = NOT_QUITE_JSON.replace("272.74", "32513.0");
    assert_eq!(points(&mebibytes)[0].metrics[0].value, 32513.0 * MEBIBYTE);
}

#[test]
fn wrong_json_says_what() {
    let nan = NOT_QUITE_JSON.replace("272.74", "-nan");
    assert!(
        refused(&nan).contains("BW_average is -nan"),
        "{}",
        refused(&nan)
    );
    let cut = &NOT_QUITE_JSON[..NOT_QUITE_JSON.find("BW_average").unwrap()];
    assert!(refused(cut).contains("no BW_average"), "{}", refused(cut));
    let shorter = &NOT_QUITE_JSON[..NOT_QUITE_JSON.find("MsgSize").unwrap()];
    assert!(refused(shorter).contains("without a result"));
}

#[test]
fn something_else_is_not_perftest() {
    for text in ["hello", "{}", "{\"a\": nan}", ""] {
        assert_eq!(parse(text), None, "{text}");
    }
}
