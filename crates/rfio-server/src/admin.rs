//! The administrators' interface of a running service, over a Unix socket.
//!
//! A request is one line of JSON, `{"list": true}`, `{"end_session": 7}` or `{"end_user": "ann"}`,
//! and the answer another one. Only root and the service's own user are answered, identified by the
//! kernel's credentials.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use verbena_rfio_auth::peer;

use super::running::LocalSocket;
use super::service::Service;

/// Time limit for receiving a request, and for sending its answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum length of a line in bytes.
const LONGEST: u64 = 64 << 10;

/// Serves at `path` from a separate thread, which lives as long as the process. The socket is
/// removed when the returned value is dropped.
///
/// # Errors
/// The socket cannot be created, or another service uses it.
pub fn start(service: Arc<Service>, path: &Path) -> io::Result<LocalSocket> {
    let socket = LocalSocket::bind(path)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
    let listener = socket.listener()?;
    std::thread::Builder::new()
        .name("rfio-admin".into())
        .spawn(move || {
            for stream in listener.incoming() {
                match stream.and_then(|stream| answer(&service, &stream)) {
                    Ok(()) => {}
                    // Usually out of descriptors: not again at once.
                    Err(_) => std::thread::sleep(Duration::from_millis(50)),
                }
            }
        })?;
    Ok(socket)
}

fn answer(service: &Service, mut stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let user = peer::of_socket(stream)?;
    let reply = match user == 0 || user == rustix::process::geteuid().as_raw() {
        true => {
            let mut line = String::new();
            BufReader::new(stream.take(LONGEST)).read_line(&mut line)?;
            carry_out(service, &line, user)
        }
        false => json!({ "error": "only root and the daemon's own user may administer it" }),
    };
    stream.write_all(format!("{reply}\n").as_bytes())
}

fn carry_out(service: &Service, line: &str, user: u32) -> Value {
    let Ok(Value::Object(request)) = serde_json::from_str(line) else {
        return json!({ "error": "not a JSON object" });
    };
    let sessions = &service.open_sessions;
    let by = format!("ended by user id {user} of this host");
    if let Some(number) = request.get("end_session").and_then(Value::as_u64) {
        return json!({ "ended": sessions.end(&by, |session| session.number == number) });
    }
    if let Some(name) = request.get("end_user").and_then(Value::as_str) {
        return json!({ "ended": sessions.end(&by, |session| session.user == name) });
    }
    if request.get("list") == Some(&Value::Bool(true)) {
        let all = sessions.all();
        let all: Vec<Value> = all.iter().map(|session| session.describe()).collect();
        return json!({ "sessions": all });
    }
    json!({ "error": "unknown command; expected list, end_session or end_user" })
}

/// Sends a request to a service; returns its answer.
///
/// # Errors
/// No service answers there, or it refuses.
pub fn ask(path: &Path, request: &Value) -> io::Result<Value> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // A service that refuses does so without reading, so its answer takes precedence over this
    // error.
    let sent = stream.write_all(format!("{request}\n").as_bytes());
    let mut reply = String::new();
    match BufReader::new(&stream).read_line(&mut reply) {
        Ok(1..) => {}
        Ok(0) => return Err(sent.err().unwrap_or(io::ErrorKind::UnexpectedEof.into())),
        Err(error) => return Err(error),
    }
    let reply: Value = serde_json::from_str(&reply)?;
    match reply.get("error") {
        Some(error) => Err(io::Error::other(
            error.as_str().unwrap_or("refused").to_owned(),
        )),
        None => Ok(reply),
    }
}
