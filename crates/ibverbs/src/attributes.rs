//! The device's extended attributes: the answer of ibv_query_device_ex(3). The plain attributes and
//! the port's come from the adapter; unsupported features have zero capability here.

use verbena_abi::*;
use verbena_hca_memory::device::CAPACITY;
use verbena_hca_net::device::Device;

/// The board's name.
pub const BOARD: &str = "VERBENA_SOFTWARE";
/// Frequency of the adapter's clock in kHz: it counts nanoseconds.
const CLOCK_KHZ: u64 = 1_000_000;

/// Connected queue pairs support all operations on memory that is paged in on demand.
const ODP_CONNECTED: u32 = IBV_ODP_SUPPORT_SEND
    | IBV_ODP_SUPPORT_RECV
    | IBV_ODP_SUPPORT_WRITE
    | IBV_ODP_SUPPORT_READ
    | IBV_ODP_SUPPORT_ATOMIC
    | IBV_ODP_SUPPORT_SRQ_RECV;
const ODP_UNRELIABLE: u32 =
    IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_SRQ_RECV;
const ODP_DATAGRAM: u32 = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;

/// Returns the device's extended attributes.
pub fn device_ex(device: Device) -> ibv_device_attr_ex {
    let orig_attr = device.attributes();
    ibv_device_attr_ex {
        odp_caps: ibv_odp_caps {
            general_caps: IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
            per_transport_caps: ibv_odp_per_transport_caps {
                rc_odp_caps: ODP_CONNECTED,
                uc_odp_caps: ODP_UNRELIABLE,
                ud_odp_caps: ODP_DATAGRAM,
            },
        },
        completion_timestamp_mask: u64::MAX,
        hca_core_clock: CLOCK_KHZ,
        device_cap_flags_ex: u64::from(orig_attr.device_cap_flags)
            | IB_UVERBS_DEVICE_FLUSH_GLOBAL
            | IB_UVERBS_DEVICE_ATOMIC_WRITE,
        cq_mod_caps: ibv_cq_moderation_caps {
            max_cq_count: u16::MAX,
            max_cq_period: u16::MAX,
        },
        max_dm_size: CAPACITY,
        xrc_odp_caps: ODP_CONNECTED,
        phys_port_cnt_ex: u32::from(Device::ports()),
        orig_attr,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_features_have_no_capability() {
        let device = device_ex(Device::FIRST);
        assert_eq!(device.tso_caps.supported_qpts, 0);
        assert_eq!(device.rss_caps.supported_qpts, 0);
        assert_eq!(device.max_wq_type_rq, 0);
        assert_eq!(device.raw_packet_caps, 0);
        assert_eq!(device.tm_caps.max_num_tags, 0);
        assert_eq!(device.orig_attr.max_raw_ethy_qp, 0);
        assert_eq!(
            device.orig_attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING,
            0
        );
    }
}
