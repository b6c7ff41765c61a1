//! IP over the adapter: TCP connections and datagrams of UDP over an IP interface that the adapter
//! carries (IP over InfiniBand, or the Ethernet of a RoCE adapter), by message size and mode of the
//! interface.

use crate::agreement::{Outcome, Stop, agree, attempt};
use crate::context::{Context, Sweep};
use crate::ip_interface::Interface;
use crate::parameters;
use crate::tcp::{self, Ends};
use crate::udp;
use verbena_fabric::{Error, Fabric, Result};
use verbena_measure::result::Parameters;

/// A flow of `ip.*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    PingPong,
    Stream,
    Both,
    Datagrams,
}

/// Measures half a round trip, by mode and message size.
///
/// # Errors
///
/// The run ends.
pub async fn latency<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_mode(context, Flow::PingPong).await
}

/// Measures the rate one way, by mode and message size.
///
/// # Errors
///
/// The run ends.
pub async fn stream<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_mode(context, Flow::Stream).await
}

/// Measures the rate both ways together, by mode and message size.
///
/// # Errors
///
/// The run ends.
pub async fn stream_both<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_mode(context, Flow::Both).await
}

/// Measures the rate of datagrams of UDP one way, by mode and size.
///
/// # Errors
///
/// The run ends.
pub async fn datagrams<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    by_mode(context, Flow::Datagrams).await
}

/// Returns the message sizes of a benchmark: the user's, or the coarse or the fine list.
pub fn sizes(benchmark: &str, asked: Option<&[usize]>, is_coarse: bool) -> Vec<usize> {
    if let Some(asked) = asked {
        return asked.iter().copied().filter(|size| *size > 0).collect();
    }
    match (benchmark == "ip.latency", is_coarse) {
        _ if benchmark == "ip.datagrams" && is_coarse => vec![64, 1024, 16_384],
        _ if benchmark == "ip.datagrams" => {
            vec![1, 64, 256, 1024, 2016, 4064, 16_384, udp::LONGEST]
        }
        (true, true) => vec![1, 1024, 16_384],
        (true, false) => vec![1, 8, 64, 512, 1024, 4096, 16_384, 65_536],
        (false, true) => vec![64, 4096, 65_536],
        (false, false) => vec![64, 512, 4096, 16_384, 65_536, 1 << 18, 1 << 20],
    }
}

async fn by_mode<F: Fabric>(context: &Context<'_, F>, flow: Flow) -> Result<()> {
    let pair = context.pairing()[0];
    let none = Parameters::new();
    let opened = attempt(context, &none, open(context, pair)).await?;
    let Some(interfaces) = opened else {
        return Ok(());
    };
    let is_coarse = context.budget.sweep == Sweep::Coarse;
    let asked = context.options.sizes.as_deref();
    for (number, mode) in interfaces.modes.iter().enumerate() {
        for size in sizes(context.benchmark, asked, is_coarse) {
            let parameters = parameters! {
                "mode" => &*mode.name, "mtu" => mode.mtu as usize, "size" => size
            };
            let point = async {
                let own = interfaces.own.get(number);
                let ends = own.map_or(Ends::Hosts, Ends::Interface);
                match flow {
                    Flow::Datagrams => udp::datagrams(context, &parameters, own, size, pair).await,
                    Flow::PingPong => tcp::ping_pong(context, &parameters, ends, size, pair).await,
                    Flow::Stream | Flow::Both => {
                        let kind = (size, flow == Flow::Both);
                        tcp::stream(context, &parameters, ends, kind, pair).await
                    }
                }
            };
            attempt(context, &parameters, point).await?;
        }
    }
    Ok(())
}

/// A mode in which both processes of the pair have an interface.
struct ModeOfPair {
    name: String,
    mtu: u32,
}

struct Opened {
    modes: Vec<ModeOfPair>,
    /// This process's interfaces in the order of the modes; none outside of the pair.
    own: Vec<Interface>,
}

/// Opens the interfaces of the pair; both processes must have the same modes.
async fn open<F: Fabric>(context: &Context<'_, F>, pair: [usize; 2]) -> Outcome<Opened> {
    // Process numbers of a host differ.
    let numbers = agree(context, &std::process::id().to_le_bytes()).await?;
    let number = numbers[pair[0]].first_chunk().copied().unwrap_or_default();
    let own = match (context.interfaces, pair.contains(&context.rank())) {
        (Some(open), true) => open(u32::from_le_bytes(number)).map_err(Stop::Mine)?,
        (Some(_), false) => Vec::new(),
        (None, _) => {
            let fabric = context.fabric.capabilities().device.clone();
            return Err(Error::unsupported("an IP interface", fabric).into());
        }
    };
    let lines: Vec<String> = own
        .iter()
        .map(|one| format!("{} {}", one.mode, one.mtu))
        .collect();
    let all = agree(context, lines.join("\n").as_bytes()).await?;
    let [first, second] = pair.map(|rank| String::from_utf8_lossy(&all[rank]).into_owned());
    if first != second {
        let reason = format!(
            "the two interfaces differ (mode and MTU): {} and {}",
            first.replace('\n', ", "),
            second.replace('\n', ", ")
        );
        return Err(Error::invalid("ip", reason).into());
    }
    let mode = |line: &str| {
        let (name, mtu) = line.split_once(' ')?;
        Some(ModeOfPair {
            name: name.to_owned(),
            mtu: mtu.parse().ok()?,
        })
    };
    Ok(Opened {
        modes: first.lines().filter_map(mode).collect(),
        own,
    })
}
