//! `rfiod sessions` and `rfiod end`: requests to a running daemon.

use serde_json::{Value, json};
use verbena_rfio_server::admin;

use crate::arguments::{Administration, EndSession, ListSessions};
use crate::display::moment;
use crate::say;

/// Sends the request and prints the answer.
///
/// # Errors
/// The daemon does not answer, or there is no such session.
pub fn carry_out(what: &Administration) -> Result<(), String> {
    match what {
        Administration::Sessions(list) => sessions(list),
        Administration::End(end) => end_sessions(end),
    }
}

fn sessions(list: &ListSessions) -> Result<(), String> {
    let reply = ask(&list.admin, &json!({ "list": true }))?;
    if list.json {
        say!("{reply}");
        return Ok(());
    }
    say!("SESSION SINCE               PEER                     USER");
    let all = reply["sessions"].as_array();
    for session in all.into_iter().flatten() {
        let since = session["since"].as_i64().unwrap_or(0);
        let text = |name: &str| {
            session[name]
                .as_str()
                .unwrap_or("")
                .escape_debug()
                .to_string()
        };
        say!(
            "{:>7} {} {:24} {}",
            session["session"],
            moment(since.saturating_mul(1_000_000_000)),
            text("peer"),
            text("user")
        );
    }
    Ok(())
}

fn end_sessions(end: &EndSession) -> Result<(), String> {
    let number = end.target.parse::<u64>().ok().filter(|_| !end.user);
    let request = match number {
        Some(number) => json!({ "end_session": number }),
        None => json!({ "end_user": end.target }),
    };
    let reply = ask(&end.admin, &request)?;
    match (reply["ended"].as_u64(), number) {
        (Some(0) | None, Some(number)) => Err(format!("no session {number}")),
        (Some(0) | None, None) => Err(format!("user {} has no session", end.target)),
        (Some(count), _) => {
            say!("{count} ended");
            Ok(())
        }
    }
}

fn ask(path: &std::path::Path, request: &Value) -> Result<Value, String> {
    admin::ask(path, request).map_err(|error| {
        format!(
            "cannot ask the daemon at {}: {error}; start it with --admin {0}",
            path.display()
        )
    })
}
