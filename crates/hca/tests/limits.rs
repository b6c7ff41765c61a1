//! Limits on the number of objects are those that the device advertises. One test, because the
//! limits are those of the process.

use std::sync::Arc;
use verbena_abi::ibv_ah_attr;
use verbena_hca::ah::AddressHandle;
use verbena_hca::context::Context;
use verbena_hca_memory::domain::Pd;
use verbena_hca_net::device::Device;
use verbena_hca_net::link::FIRST_PORT;
use verbena_hca_os::errno::{Errno, Result};

/// Makes objects until the adapter refuses.
fn all<T>(mut make: impl FnMut() -> Result<T>) -> Vec<T> {
    let mut made = Vec::new();
    loop {
        match make() {
            Ok(one) => made.push(one),
            Err(error) => {
                assert_eq!(error, Errno::ENOMEM);
                return made;
            }
        }
    }
}

#[test]
fn every_advertised_limit_is_reachable() {
    let context = Context::open(Device::FIRST).unwrap();
    let domains: Vec<Arc<Pd>> = all(|| Pd::allocate(&context.process.memory));
    assert_eq!(domains.len(), Device::FIRST.attributes().max_pd as usize);
    domains[0].retain();
    assert_eq!(domains[0].deallocate(), Err(Errno::EBUSY));
    domains[0].release();
    domains[0].deallocate().unwrap();
    let again = Pd::allocate(&context.process.memory).unwrap();
    assert!(Pd::allocate(&context.process.memory).is_err());
    drop(domains);

    let attribute = ibv_ah_attr {
        port_num: FIRST_PORT,
        ..Default::default()
    };
    let handles =
        all(|| AddressHandle::create(&context.process, context.device, &again, &attribute));
    assert_eq!(handles.len(), Device::FIRST.attributes().max_ah as usize);
    handles[7].destroy();
    handles[7].destroy();
    let another =
        AddressHandle::create(&context.process, context.device, &again, &attribute).unwrap();
    assert!(AddressHandle::create(&context.process, context.device, &again, &attribute).is_err());
    assert_eq!(again.deallocate(), Err(Errno::EBUSY));
    another.destroy();
    for handle in &handles {
        handle.destroy();
    }
    assert_eq!(again.deallocate(), Ok(()));
}
