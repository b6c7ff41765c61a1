//! Fuzzes the client's decoder of reply bodies: two bytes of operation, then the body. An accepted
//! body encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbena_rfio_protocol::reply;

fuzz_target!(|input: &[u8]| {
    let Some((operation, body)) = input.split_first_chunk::<2>() else {
        return;
    };
    let operation = u16::from_be_bytes(*operation);
    if let Ok(outcome) = reply::decode(operation, body) {
        assert_eq!(reply::encode(&outcome), body);
    }
});
