//! A client as cheap as can be: HTTP/1.1 on connections that stay open, each with one request outstanding.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: bench\r\n\r\n";
/// More than any answer here.
const BUFFER: usize = 4_096;

pub(crate) struct Connections {
    streams: Vec<TcpStream>,
    buffer: [u8; BUFFER],
}

impl Connections {
    pub(crate) fn open(address: SocketAddr, count: usize) -> io::Result<Self> {
        let streams = (0..count).map(|_| {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Ok(stream)
        });
        Ok(Self { streams: streams.collect::<io::Result<_>>()?, buffer: [0; BUFFER] })
    }

    /// Sends for that long, each connection anew once it has its answer, and counts the answers. All of them are to have this status.
    pub(crate) fn send(&mut self, slice: Duration, status: &str) -> io::Result<(u32, Duration)> {
        let began = Instant::now();
        for stream in &mut self.streams {
            stream.write_all(REQUEST)?;
        }
        let mut answers = 0;
        loop {
            let over = began.elapsed() >= slice;
            for stream in &mut self.streams {
                read(stream, &mut self.buffer, status)?;
                answers += 1;
                if !over {
                    stream.write_all(REQUEST)?;
                }
            }
            if over {
                return Ok((answers, began.elapsed()));
            }
        }
    }
}

/// One answer, to the end of its body.
fn read(stream: &mut TcpStream, buffer: &mut [u8; BUFFER], status: &str) -> io::Result<()> {
    let unexpected = |text: &[u8]| io::Error::other(format!("not {status}: {}", String::from_utf8_lossy(text)));
    let mut filled = 0;
    loop {
        match stream.read(&mut buffer[filled..])? {
            0 => return Err(unexpected(&buffer[..filled])),
            more => filled += more,
        }
        let text = &buffer[..filled];
        if let Some(length) = length(text)
            && filled >= length
        {
            let right = text[b"HTTP/1.1 ".len()..].starts_with(status.as_bytes()) && filled == length;
            return if right { Ok(()) } else { Err(unexpected(text)) };
        }
    }
}

/// How long the answer is, if its head is all there.
fn length(text: &[u8]) -> Option<usize> {
    const LENGTH: &[u8] = b"content-length: ";
    let head = text.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let field = text[..head].windows(LENGTH.len()).position(|part| part == LENGTH)? + LENGTH.len();
    let digits = text[field..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(head + digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0')))
}
