//! The network of the adapter: carries packets between hosts, and knows the devices and ports. It
//! knows neither queue pairs nor processes: packets are delivered through the traits of
//! [`roce::adapter`].
//!
//! | module | contents |
//! |---|---|
//! | [`device`] | devices: names, identifiers, limits, attributes of ports |
//! | [`link`] | link layer of the ports: InfiniBand, or Ethernet interfaces with their addresses |
//! | [`fabric`] | the fabric that the program is on: states of ports, paths, counts of traffic |
//! | [`port_switch`] | taking InfiniBand ports down and up |
//! | [`roce`] | RoCEv2: packets over UDP, queue pair 1, TCP fallback |
//! | [`capture`] | copies of packets for `verbena capture` |
//! | [`observed`] | whether requests are captured or counted |
//! | [`counters`] | counters of operations and packets |

pub mod capture;
pub mod counters;
pub mod device;
pub mod fabric;
pub mod identity;
pub mod link;
pub mod observed;
pub mod port_switch;
pub mod reported_port;
pub mod roce;
