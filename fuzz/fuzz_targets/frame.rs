//! Fuzzes the parser of frame headers, with the limits of every session state: an accepted header
//! is within the limits and encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbena_rfio_protocol::frame::{HEADER, Header, Limits, MOST_BODY, MOST_PAYLOAD};

fuzz_target!(|input: &[u8]| {
    let Some(input) = input.first_chunk::<HEADER>() else {
        return;
    };
    let session = Limits {
        body: MOST_BODY,
        payload: MOST_PAYLOAD,
    };
    for limits in [Limits::STRANGER, session] {
        if let Ok(header) = Header::parse(input, limits) {
            assert!(
                header.body as usize <= limits.body && header.payload as usize <= limits.payload
            );
            assert_eq!(&header.emit(), input);
        }
    }
});
