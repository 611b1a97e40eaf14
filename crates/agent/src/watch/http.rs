//! A responder for `GET /metrics` and nothing else: HTTP/1.1, one request per connection, one connection at a time.
//!
//! A peer that is slow, or sends nothing, is left after [`PATIENCE`]; others wait that long at most for each such peer.
use super::metrics;
use crate::failure::Failure;
use crate::output::say;
use record::watch::SharedTotals;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Time for one whole request and its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// Binds the address.
pub fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    if !address.ip().is_loopback() {
        say(&format!(
            "--prometheus: {address} can be reached from other hosts; there is no password"
        ));
    }
    TcpListener::bind(address).map_err(|error| {
        Failure::error(format!(
            "--prometheus: cannot listen on {address}: {error}; choose another port, or end what uses it"
        ))
    })
}

/// Serves in a thread of its own until the process ends.
pub fn serve(listener: TcpListener, totals: SharedTotals) -> Result<(), Failure> {
    let address = listener.local_addr().map_err(Failure::error)?;
    let answer_all = move || {
        for stream in listener.incoming() {
            match stream {
                // A peer that went away is no business of ours.
                Ok(stream) => drop(answer(stream, &totals)),
                // Out of descriptors: not forever, and not in a busy loop.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    };
    let thread = std::thread::Builder::new().name("whodisk-http".into());
    thread.spawn(answer_all).map_err(Failure::error)?;
    say(&format!("metrics on http://{address}/metrics"));
    Ok(())
}

fn answer(mut stream: TcpStream, totals: &SharedTotals) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = read_head(&mut stream)?;
    let (status, body) = match wanted(&head) {
        Ok(()) => {
            let now = totals.lock().unwrap_or_else(PoisonError::into_inner).clone();
            ("200 OK", metrics::render(&now))
        }
        Err(status) => (status, format!("{status}; GET /metrics is all there is\n")),
    };
    let allow = if status.starts_with("405") {
        "Allow: GET\r\n"
    } else {
        ""
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Reads up to the empty line, the longest head, the end of the stream or of our patience.
fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let (mut head, mut chunk) = (Vec::new(), [0; 1024]);
    while head.len() < HEAD_BYTES_MAX && !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut chunk)? {
            0 => break,
            read => head.extend_from_slice(&chunk[..read]),
        }
    }
    Ok(head)
}

/// Whether a request is the one that is answered; else the status that says why not.
fn wanted(head: &[u8]) -> Result<(), &'static str> {
    const BAD: &str = "400 Bad Request";
    if !head.windows(4).any(|end| end == b"\r\n\r\n") {
        return Err(if head.len() >= HEAD_BYTES_MAX {
            "431 Request Header Fields Too Large"
        } else {
            BAD
        });
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| BAD)?;
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else {
        return Err(BAD);
    };
    if !version.starts_with("HTTP/1.") {
        return Err(BAD);
    }
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET", "/metrics") => Ok(()),
        (_, "/metrics") => Err("405 Method Not Allowed"),
        _ => Err("404 Not Found"),
    }
}

#[cfg(test)]
mod tests {
    use super::wanted;

    #[test]
    fn only_one_request_is_answered() {
        let status = |head: &[u8]| wanted(head).err().map_or(200, |text| text[..3].parse().unwrap());
        for (head, expected) in [
            (&b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"[..], 200),
            (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", 200),
            (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
            (b"GET / HTTP/1.1\r\n\r\n", 404),
            (b"GET /metrics\r\n\r\n", 400),
            (b"GET /metrics SSH-2.0\r\n\r\n", 400),
            (b"\xff\xfe \x00 \xff\r\n\r\n", 400),
            (b"GET /metrics HTTP/1.1\r\n", 400),
            (b"", 400),
        ] {
            assert_eq!(status(head), expected, "{}", head.escape_ascii());
        }
        assert_eq!(status(&[b'a'; 9000]), 431);
    }
}
