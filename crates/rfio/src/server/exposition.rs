//! The metrics over HTTP: one page, for Prometheus, on an address of its own.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::service::Service;

/// Serves the metrics from a thread of their own; the address, with the port that the system chose.
///
/// The thread lives as long as the process. One request at a time, each with a deadline: whoever is slow to ask makes
/// only other scrapers wait, and never the service.
pub fn start(service: Arc<Service>, address: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    std::thread::Builder::new()
        .name("rfio-metrics".into())
        .spawn(move || {
            for connection in listener.incoming().flatten() {
                // A scraper that fails asks again.
                let _ = answer(connection, &service);
            }
        })?;
    Ok(address)
}

fn answer(mut connection: TcpStream, service: &Service) -> io::Result<()> {
    let patience = Some(Duration::from_secs(1));
    connection.set_read_timeout(patience)?;
    connection.set_write_timeout(patience)?;
    let mut request = [0; 1024];
    let read = connection.read(&mut request)?;
    let wanted =
        request[..read].starts_with(b"GET /metrics") || request[..read].starts_with(b"GET / ");
    let (status, body) = match wanted {
        true => ("200 OK", service.render_metrics()),
        false => ("404 Not Found", "the page is /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes())?;
    connection.write_all(body.as_bytes())
}
