//! Encoding round trips.

use super::*;
use proptest::prelude::*;

fn place() -> impl Strategy<Value = Place> {
    any::<(bool, bool)>().prop_map(|(begins, ends)| Place::new(begins, ends))
}

fn remote() -> impl Strategy<Value = Remote> {
    any::<(u64, u32, u32, Option<u32>)>().prop_map(|(address, key, length, shared)| Remote {
        address,
        key,
        length,
        shared,
    })
}

fn message() -> impl Strategy<Value = Message> {
    let body = proptest::sample::select(vec![Body::Here, Body::AtRequester, Body::InPlace]);
    let extra = prop_oneof![
        Just(Extra::None),
        any::<u32>().prop_map(Extra::Immediate),
        any::<u32>().prop_map(Extra::Invalidate),
    ];
    let shared = proptest::option::of((0u32..1 << 24, any::<u64>(), any::<u8>()));
    (place(), any::<u32>(), body, extra, any::<bool>(), shared).prop_map(
        |(place, total, body, extra, solicited, shared)| Message {
            place,
            total,
            body,
            extra,
            solicited,
            shared: shared.map(|(number, domain, rnr_timer)| SharedQueue {
                number,
                domain,
                rnr_timer,
            }),
        },
    )
}

fn datagram() -> impl Strategy<Value = Datagram> {
    any::<(u32, Option<u32>, bool, bool, bool, u16, u8, u32)>().prop_map(
        |(qkey, immediate, solicited, has_route, is_multicast, lid, level, interface)| Datagram {
            qkey,
            immediate,
            solicited,
            has_route,
            is_multicast,
            lid,
            service_level: level & 15,
            interface,
        },
    )
}

fn request() -> impl Strategy<Value = Request> {
    let write = (place(), remote(), any::<(Option<u32>, bool)>()).prop_map(
        |(place, remote, (immediate, solicited))| Write {
            place,
            remote,
            immediate: immediate.filter(|_| remote.shared.is_none()),
            solicited,
        },
    );
    prop_oneof![
        message().prop_map(Request::Message),
        write.prop_map(Request::Write),
        remote().prop_map(Request::Read),
        remote().prop_map(Request::Atomic),
        (remote(), flush()).prop_map(|(remote, flush)| Request::Flush(remote, flush)),
        datagram().prop_map(Request::Datagram),
    ]
}

fn faulty() -> impl Strategy<Value = Faulty> {
    let fault = proptest::sample::select(Faulty::FAULTS.to_vec());
    (fault, any::<bool>()).prop_map(|(fault, takes_receive)| Faulty {
        fault,
        takes_receive,
    })
}

fn flush() -> impl Strategy<Value = Flush> {
    any::<(bool, bool, bool)>().prop_map(|(visible, persistent, region)| Flush {
        visible,
        persistent,
        region,
    })
}

fn answer() -> impl Strategy<Value = Answer> {
    let naks = vec![
        Nak::NoAnswer,
        Nak::Refused(NakCode::InvalidRequest),
        Nak::Refused(NakCode::RemoteAccessError),
        Nak::Refused(NakCode::RemoteOperationalError),
        Nak::SourceProtection,
    ];
    prop_oneof![
        proptest::sample::select(naks).prop_map(Answer::Nak),
        any::<u8>().prop_map(|timer| Answer::Nak(Nak::ReceiverNotReady(timer))),
        any::<u64>().prop_map(Answer::ReadData),
        any::<u64>().prop_map(Answer::Atomic),
    ]
}

fn route() -> impl Strategy<Value = Route> {
    any::<(u32, u32, u32, u32, u32)>().prop_map(|(to, to_life, from, from_life, psn)| Route {
        destination: Endpoint {
            number: to,
            incarnation: to_life,
        },
        source: Endpoint {
            number: from,
            incarnation: from_life,
        },
        psn,
    })
}

proptest! {
    #[test]
    fn faulty_request_round_trips(faulty in faulty(), route in route()) {
        let header = faulty.emit(&route);
        prop_assert_eq!(Faulty::parse(&header), Some(faulty));
        prop_assert_eq!(Request::parse(&header), None);
        prop_assert_eq!(Route::of(&header), route);
    }

    #[test]
    fn request_round_trips(request in request(), route in route()) {
        let header = request.emit(&route);
        prop_assert_eq!(Request::parse(&header), Some(request));
        prop_assert_eq!(Route::of(&header), route);
        prop_assert_eq!(Answer::parse(&header), None);
    }

    #[test]
    fn lane_notice_round_trips(
        number in any::<u32>(), generation in any::<u16>(), route in route()
    ) {
        let notice = LaneNotice { number, generation };
        let header = notice.emit(&route);
        prop_assert_eq!(LaneNotice::parse(&header), Some(notice));
        prop_assert_eq!(Request::parse(&header), None);
        prop_assert_eq!(Route::of(&header), route);
    }

    #[test]
    fn message_in_a_lane_stands_for_a_record(
        length in 0u32..45,
        immediate in any::<Option<u32>>(),
        solicited in any::<bool>(),
        route in route(),
        echo in any::<Option<(u8, u32)>>(),
    ) {
        let psn = route.psn & 0xff_ffff;
        let echo = echo.map(|(lane, position)| lane::Echo { lane, position });
        let message = LaneMessage { length, immediate, solicited, psn };
        let header = message.emit(7, echo);
        let mut slot = [0u8; lane::PAYLOAD];
        // SAFETY: the slot has space for the immediate data.
        let data = unsafe { message.emit_immediate(slot.as_mut_ptr()) };
        let parsed = LaneMessage::parse(&header).unwrap();
        prop_assert_eq!(LaneMessage::echo(&header), echo);
        // SAFETY: the slot has as many bytes as the header names.
        let (found, payload) = unsafe { parsed.parse_immediate(slot.as_ptr()) };
        prop_assert_eq!((found, payload), (immediate, data.cast_const()));
        prop_assert_eq!((parsed.length, parsed.solicited, parsed.psn), (length, solicited, psn));
        let record = parsed.record(&route, found);
        let stands_for = Message {
            extra: immediate.map_or(Extra::None, Extra::Immediate),
            ..Plain { total: length, solicited }.message()
        };
        prop_assert_eq!(Request::parse(&record), Some(Request::Message(stands_for)));
        prop_assert_eq!(u32::from(record.length), length);
    }

    #[test]
    fn header_of_a_lane_names_no_byte_outside_of_its_slot(
        length in any::<u8>(),
        flags in any::<u8>(),
        psn in any::<u32>(),
    ) {
        let header = lane::Header { length, flags, psn_and_lane: psn, ..lane::Header::default() };
        if let Some(message) = LaneMessage::parse(&header) {
            let prefix = LaneMessage::prefix(message.immediate.is_some());
            prop_assert!(prefix + message.length as usize <= lane::PAYLOAD);
        }
    }

    #[test]
    fn plain_message_is_the_same_on_both_paths(
        total in any::<u16>(),
        solicited in any::<bool>(),
        route in route(),
    ) {
        let plain = Plain { total: total.into(), solicited };
        // The ring fills in the length.
        let short = Header { length: total, ..plain.emit(&route) };
        let long = Header { length: total, ..Request::Message(plain.message()).emit(&route) };
        for header in [short, long] {
            prop_assert_eq!(Plain::parse(&header), Some(plain));
            prop_assert_eq!(Request::parse(&header), Some(Request::Message(plain.message())));
            prop_assert_eq!(Route::of(&header), route);
        }
        let unknown = Header { flags: short.flags | flag::SHARED, ..short };
        prop_assert_eq!(Request::parse(&unknown), None);
    }

    #[test]
    fn answer_round_trips(answer in answer(), route in route()) {
        let header = answer.emit(&route.back());
        prop_assert_eq!(Answer::parse(&header), Some(answer));
        prop_assert_eq!(Route::of(&header).back(), route);
        prop_assert_eq!(Request::parse(&header), None);
    }

    #[test]
    fn source_round_trips(address in any::<u64>(), length in any::<u32>(), key in any::<u32>()) {
        let source = Source { address, length, key };
        prop_assert_eq!(Source::parse(&source.emit()), source);
    }
}
