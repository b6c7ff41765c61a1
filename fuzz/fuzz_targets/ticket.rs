//! Fuzzes tickets: the client's text form, the claims sent to a server, and the times at which the
//! server accepts them.
#![no_main]

use std::collections::HashSet;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use verbena_rfio_auth::secrets::Secrets;
use verbena_rfio_auth::ticket::Ticket;
use verbena_rfio_protocol::Request;
use verbena_rfio_protocol::request::Open;
use verbena_rfio_protocol::ticket::Claims;
use verbena_rfio_server::session::confinement::Confinement;
use verbena_rfio_server::tickets::Tickets;

const SECRET: &[u8] = b"0123456789abcdef";

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(ticket) = text.parse::<Ticket>()
    {
        assert_eq!(ticket.to_string(), text, "one ticket has one text");
    }
    let Ok(claims) = Claims::decode(input) else {
        return;
    };
    assert_eq!(
        claims.encode(),
        input,
        "what is accepted encodes to the same bytes"
    );
    let ticket = Ticket::sign(SECRET, claims.clone());
    assert_eq!(ticket.to_string().parse(), Ok(ticket.clone()));

    // Changed claims need another key.
    let mut longer = claims.clone();
    longer.expires = longer.expires.wrapping_add(1);
    assert_ne!(Ticket::sign(SECRET, longer).key, ticket.key);

    // A ticket is accepted at most once, at any time.
    let issuers = Secrets::parse("xrootd:0123456789abcdef").expect("a good line");
    let tickets = Tickets::of(issuers, Duration::from_secs(5));
    let times = [
        claims.issued,
        claims.expires,
        i64::MIN,
        i64::MAX,
        claims.issued,
    ];
    let taken = times.map(|time| tickets.redeem(&claims, time).is_ok());
    assert!(taken.into_iter().filter(|&taken| taken).count() <= 1);

    // The session can open only the ticket's file, once, with no more access than the ticket
    // grants.
    let mut opened = HashSet::new();
    for flags in 0..256 {
        let mut session = Confinement::new(&claims);
        let open = Request::Open(Open {
            path: claims.path.clone(),
            flags,
            mode: 0o666,
        });
        if session.admit(&open).is_ok() {
            opened.insert(flags & 0x7f);
            assert!(
                session.admit(&open).is_err(),
                "a ticket opens its file once"
            );
        }
    }
    assert!(opened.iter().all(|flags| flags & !claims.access == 0));
});
