//! Tables and files in the format of perftest 4.5.

use super::*;
use crate::import::tests::{points, refused};
use crate::import::{Hints, parse};

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
/// Output of 4.5: no quotes, commas before brackets.
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

/// Returns benchmark and parameters as in comparisons.
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
fn bidirectional_and_multi_qp_runs_have_their_own_keys() {
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
fn several_tests_in_one_file_are_imported() {
    let names: Vec<String> = points(&format!("{LATENCY}{BANDWIDTH}"))
        .into_iter()
        .map(|point| point.benchmark)
        .collect();
    assert_eq!(names, ["latency.write", "latency.write", "bandwidth.write"]);
}

#[test]
fn invalid_tables_name_their_line() {
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
fn json_and_perftests_invalid_json_are_read() {
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
fn invalid_json_values_are_named() {
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
fn other_output_is_not_recognized_as_perftest() {
    for text in ["hello", "{}", "{\"a\": nan}", ""] {
        refused(text);
    }
}

/// Output of ib_write_bw 4.5 with `-b --report-both`, recorded here.
const BOTH: &str = "\
                    RDMA_Write Bidirectional BW Test
 Number of qps   : 1\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      500              93306.26            77856.91\t\t   1.245711
---------------------------------------------------------------------------------------

 Local results:
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      500              46599.48            38798.06\t\t   0.620769
---------------------------------------------------------------------------------------

 Remote results:
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      500              46706.79            39058.85\t\t   0.624942
---------------------------------------------------------------------------------------
";

#[test]
fn the_two_sides_of_a_bidirectional_run_are_not_launches() {
    let found = points(BOTH);
    let keys: Vec<String> = found.iter().map(key).collect();
    assert_eq!(
        keys,
        [
            "bandwidth.write-both size=65536 transport=rc ways=both",
            "bandwidth.write-both side=local size=65536 transport=rc ways=both",
            "bandwidth.write-both side=remote size=65536 transport=rc ways=both",
        ]
    );
    assert_eq!(found[0].metrics[0].value, 77856.91 * MEBIBYTE);
    assert!(found.iter().all(|point| point.launch == 0));
}

#[test]
fn a_service_level_column_shifts_no_other_column() {
    let text = BANDWIDTH
        .replace("#bytes     #iter", "#bytes    #sl      #iter")
        .replace("65536      5000", "65536      3   5000");
    let found = &points(&text)[0];
    assert_eq!(found.metrics[0].value, 11400.0 * MEBIBYTE);
    assert!((found.metrics[1].value - 182_400.0).abs() < 1e-6);
    assert!(key(found).contains("service-level=3"));
}

#[test]
fn impossible_figures_are_refused() {
    let negative = refused(&BANDWIDTH.replace("11400.00", "-11400.00"));
    assert!(
        negative.contains("line 5") && negative.contains("negative"),
        "{negative}"
    );
    let shifted = refused(&BANDWIDTH.replace("0.182400", "0.282400"));
    assert!(
        shifted.contains("line 5") && shifted.contains("message rate"),
        "{shifted}"
    );
    let order = refused(&LATENCY.replace("3.26         0.89", "0.26         0.89"));
    assert!(
        order.contains("t_typical is 0.89, more than t_max"),
        "{order}"
    );
    let column = refused(&BANDWIDTH.replace("MsgRate[Mpps]", "MsgRate[Mpps] Wonders"));
    assert!(column.contains("unknown column \"Wonders\""), "{column}");
}

#[test]
fn a_shared_receive_queue_is_read_from_tabs_or_blanks() {
    let text = LATENCY
        .replace("OFF\n---", "ON\n---")
        .replace("\t\t", "     ");
    assert!(key(&points(&text)[0]).contains("receive-queue=shared"));
}

#[test]
fn intervals_of_an_endless_run_are_one_measurement() {
    let row = " 65536      5000             0.00               ";
    let text = format!("{BANDWIDTH}{row}5700.00\t\t   0.091200\n{row}5700.00\t\t   0.091200\n");
    let found = points(&text);
    assert_eq!(found.len(), 1);
    // 15,000 messages, of which 5,000 took half the time of the others.
    let average = 3.0 / (1.0 / 11400.0 + 2.0 / 5700.0) * MEBIBYTE;
    assert!((found[0].metrics[0].value / average - 1.0).abs() < 1e-9);
    let summary = found[0].metrics[0].summary.as_ref().unwrap();
    assert_eq!((summary.n, summary.max), (3, 11400.0 * MEBIBYTE));
}

#[test]
fn accelerator_memory_gets_its_own_key() {
    let text =
        format!("initializing CUDA\nallocated GPU buffer address at 0x1 pointer=0x2\n{BANDWIDTH}");
    assert!(key(&points(&text)[0]).contains("memory=gpu"));
}

#[test]
fn a_table_without_its_title_needs_a_name() {
    let text = &BANDWIDTH[BANDWIDTH.find(" #bytes").unwrap()..];
    let reason = refused(text);
    assert!(
        reason.contains("line 1") && reason.contains("--as perftest:write-bw"),
        "{reason}"
    );
    let hints = Hints::of(Some("perftest:write-bw"), None).unwrap();
    let (found, warnings) = parse(text, &hints).unwrap();
    assert_eq!(
        key(&found[0]),
        "bandwidth.write size=65536 transport=rc ways=one"
    );
    assert!(warnings.is_empty());
    let rows = refused(&text[text.find(" 65536").unwrap()..]);
    assert!(rows.contains("without a table heading"), "{rows}");
    assert!(Hints::of(Some("perftest:wonder-bw"), None).is_err());
}

#[test]
fn unrecognized_lines_are_named() {
    let text = format!("$ ib_write_bw host\n{BANDWIDTH}what is this\n");
    let (_, warnings) = parse(&text, &Hints::default()).unwrap();
    assert_eq!(
        warnings,
        ["2 lines were not understood: 1 \"$ ib_write_bw host\", 7 \"what is this\""]
    );
}

#[test]
fn launcher_and_mail_prefixes_are_ignored() {
    for prefix in ["> ", "[1,0]<stdout>:", "0: ", "> > [0] "] {
        let text: String = BOTH
            .lines()
            .map(|line| format!("{prefix}{line}\n"))
            .collect();
        assert_eq!(points(&text), points(BOTH), "{prefix}");
    }
    // Both ends under one launcher, with interleaved lines: the same result, once.
    let both: String = BANDWIDTH
        .lines()
        .map(|line| format!("0: {line}\n1: {line}\n"))
        .collect();
    let (found, warnings) = parse(&both, &Hints::default()).unwrap();
    assert_eq!(found, points(BANDWIDTH));
    assert!(
        warnings[0].contains("two processes printed alike"),
        "{warnings:?}"
    );
}

/// Generated tables for all options give the original figures.
#[test]
fn generated_tables_round_trip() {
    let mut count = 0;
    for test in ["RDMA_Write", "RDMA_Read", "Send", "Atomic FETCH_AND_ADD"] {
        for (unit, factor) in [("MB/sec", MEBIBYTE), ("Gb/sec", GIGABIT)] {
            for (level, port, cpu) in [
                (false, false, false),
                (true, false, false),
                (false, true, false),
                (true, true, true),
            ] {
                let sizes = [8.0, 4096.0, 8_388_608.0];
                let mut text = format!(
                    "                    {test} BW Test\n Connection type : RC\t\tUsing SRQ      : \
                     ON\n #bytes"
                );
                if level {
                    text += "    #sl";
                }
                text += &format!(
                    "     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]"
                );
                if port {
                    text += &format!(
                        "   BW Port1[{unit}]   MsgRate Port1[Mpps]   BW Port2[{unit}]   MsgRate \
                         Port2[Mpps]"
                    );
                }
                if cpu {
                    text += "    CPU_Util[%]";
                }
                text += "\n";
                for size in sizes {
                    let (bytes, rate) = (12.3e9_f64, 12.3e9 / size / 1e6);
                    text += &format!(" {size:<7}");
                    if level {
                        text += "    2";
                    }
                    text += &format!(
                        "    1000     0.00     {:.2}\t\t   {rate:.6}",
                        bytes / factor
                    );
                    if port {
                        text += &format!(
                            "   {:.2}   {:.6}   {:.2}   {:.6}",
                            bytes / factor / 2.0,
                            rate / 2.0,
                            bytes / factor / 2.0,
                            rate / 2.0
                        );
                    }
                    if cpu {
                        text += "\t    3.50";
                    }
                    text += "\n";
                }
                let found = points(&text);
                assert_eq!(found.len(), if port { 9 } else { 3 });
                for point in found
                    .iter()
                    .filter(|point| !point.parameters.contains_key("port"))
                {
                    let off = point.metrics[0].value - 12.3e9;
                    assert!(off.abs() <= 0.005 * factor + 1.0, "{text}: {off}");
                }
                count += 1;
            }
        }
    }
    assert_eq!(count, 32);
}
