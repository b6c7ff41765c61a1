//! Settings of UCX that select ports and mark packets as the suite's own benchmarks do (UCX:
//! `ucx_info -cf`).

use super::transport::Transport;
use verbena_bench::options::MeasureOptions;
use verbena_bench::resolved::Resolved;

/// The P_Key bit for full membership, which UCX determines itself.
const FULL_MEMBER: u16 = 0x8000;

/// Returns names and values of variables; none for transports without an adapter.
pub fn of(
    transport: Transport,
    target: &Resolved,
    options: &MeasureOptions,
) -> Vec<(&'static str, String)> {
    if !transport.is_adapter() {
        return Vec::new();
    }
    let ports = target.ports.iter();
    let ports: Vec<String> = ports
        .map(|port| format!("{}:{}", port.device, port.number))
        .collect();
    let route = &options.route;
    let member = route.pkey.map(|key| key & !FULL_MEMBER);
    let asked = [
        (
            "UCX_IB_GID_INDEX",
            options.gid_index.map(|index| index.to_string()),
        ),
        (
            "UCX_IB_TRAFFIC_CLASS",
            route.traffic_class.map(|class| class.to_string()),
        ),
        (
            "UCX_IB_SL",
            route.service_level.map(|level| level.to_string()),
        ),
        ("UCX_IB_PKEY", member.map(|key| format!("{key:#x}"))),
        (
            "UCX_IB_PCI_RELAXED_ORDERING",
            options.relaxed_ordering.then(|| "on".to_owned()),
        ),
    ];
    let asked = asked
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    std::iter::once(("UCX_NET_DEVICES", ports.join(",")))
        .chain(asked)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_bench::resolved::Port;
    use verbena_bench::target::Target;

    #[test]
    fn route_options_are_passed_to_ucx() {
        let port = |device: &str, number| Port {
            device: device.to_owned(),
            number,
        };
        let target = Resolved {
            kind: "hardware".to_owned(),
            library: "libibverbs.so.1".into(),
            ports: vec![port("mlx5_0", 1), port("mlx5_1", 2)],
        };
        let mut options = MeasureOptions::quick_on(Target::Software);
        let ports = ("UCX_NET_DEVICES", "mlx5_0:1,mlx5_1:2".to_owned());
        assert_eq!(
            of(Transport::Hardware, &target, &options),
            std::slice::from_ref(&ports)
        );
        options.gid_index = Some(3);
        options.route.pkey = Some(0x8001);
        options.route.traffic_class = Some(104);
        options.relaxed_ordering = true;
        let all = of(Transport::Software, &target, &options);
        let told =
            |name: &str, value: &str| all.iter().any(|(a, b)| (*a, b.as_str()) == (name, value));
        assert!(all.contains(&ports));
        assert!(
            told("UCX_IB_GID_INDEX", "3") && told("UCX_IB_PKEY", "0x1"),
            "{all:?}"
        );
        assert!(told("UCX_IB_TRAFFIC_CLASS", "104") && told("UCX_IB_PCI_RELAXED_ORDERING", "on"));
        assert!(!all.iter().any(|(name, _)| *name == "UCX_IB_SL"));
        assert!(of(Transport::Tcp, &target, &options).is_empty());
    }
}
