use super::*;
use std::fs::{Permissions, set_permissions, write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use rustix::net::sockopt::set_socket_linger;
use rustls::ServerConnection;
use verbena_rfio_auth::tls::{ClientFiles, ClientRules, TlsServer};
use verbena_rfio_common::scratch::Scratch;

/// A self-signed certificate for servers at 127.0.0.1, valid until 2120, and its key, which is not
/// secret.
const FILES: [(&str, &str, u32); 3] = [
    ("certificate", include_str!("tests/certificate.pem"), 0o644),
    ("key", include_str!("tests/key.pem"), 0o600),
    ("users", "", 0o644),
];

/// The server refuses the client's certificate, which is for servers, and has closed the connection
/// before the client sends anything: sending fails, and the reason is in the data received before.
#[test]
fn a_refusal_is_read_after_sending_failed() {
    let scratch = Scratch::new();
    for (name, text, mode) in FILES {
        write(scratch.path(name), text).unwrap();
        set_permissions(scratch.path(name), Permissions::from_mode(mode)).unwrap();
    }
    let (certificate, key) = (scratch.path("certificate"), scratch.path("key"));
    let rules = ClientRules {
        authorities: &certificate,
        revoked: None,
        users: &scratch.path("users"),
    };
    let server = TlsServer::asking(&certificate, &key, rules).unwrap();
    let files = ClientFiles {
        trusted: Some(certificate.clone()),
        certificate: Some(certificate.clone()),
        key: Some(key),
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Host("127.0.0.1".into(), listener.local_addr().unwrap().port());
    let refusing = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let timeout = Some(Duration::from_secs(20));
        socket.set_read_timeout(timeout).unwrap();
        let mut connection = ServerConnection::new(server.config).unwrap();
        while connection.complete_io(&mut socket).is_ok() {}
        while connection.wants_write() {
            connection.write_tls(&mut socket).unwrap();
        }
        // Resets the connection, as closing it with unread data does.
        set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
    });
    let tls = files.configuration().unwrap();
    let mut stream = Stream::connect(&address, tls.as_ref(), Duration::from_secs(20)).unwrap();
    refusing.join().unwrap();
    stream.set_nonblocking().unwrap();
    let sent = stream.send_some(&[IoSlice::new(b"hello")]);
    assert!(
        matches!(
            sent,
            Err(Error::CertificateRefused("it is not for clients"))
        ),
        "{sent:?}"
    );
}
