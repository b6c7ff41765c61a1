//! Fuzzes the parsers of locations and of secrets files. An accepted location survives formatting
//! and parsing unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbena_rfio_auth::secrets::Secrets;
use verbena_rfio_client::{Address, Location};

fuzz_target!(|input: &str| {
    if let Ok(Location::Remote(address, path)) = Location::parse(input)
        && path.as_bytes().starts_with(b"/")
        && let Ok(text) = std::str::from_utf8(path.as_bytes())
    {
        // For messages, control characters in the path of a socket are shown in another way.
        let server = match &address {
            Address::Socket(socket) => format!("[{}]", socket.display()),
            Address::Host(..) => address.to_string(),
        };
        let again = Location::parse(format!("rfio://{server}{text}"));
        assert_eq!(again, Ok(Location::Remote(address, path)));
    }
    if let Err(line) = Secrets::parse(input) {
        assert!(line >= 1 && line <= input.lines().count());
    }
});
