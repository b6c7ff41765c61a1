//! Fuzzes the TCP fallback's frame parser with a stream in chunks of any size: every accepted frame
//! encodes to the same bytes, and after an invalid frame the parser accepts nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbena_hca_net::roce::fallback::frame::{Assembler, Frame};

fuzz_target!(|input: &[u8]| {
    let Some((piece, stream)) = input.split_first() else {
        return;
    };
    let mut assembler = Assembler::default();
    let mut taken = 0;
    for piece in stream.chunks(usize::from(*piece) + 1) {
        assembler.room().extend_from_slice(piece);
        loop {
            match assembler.take() {
                Ok(None) => break,
                Err(_) => return,
                Ok(Some(frame)) => {
                    let mut again = frame.head();
                    if let Frame::Packets { bytes, .. } = frame {
                        again.extend_from_slice(bytes);
                    }
                    assert_eq!(stream.get(taken..taken + again.len()), Some(&again[..]));
                    taken += again.len();
                }
            }
        }
    }
});
