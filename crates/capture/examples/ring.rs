//! Has the kernel deliver the packets of a server, and looks into none: what that costs by itself,
//! for bench/capture.py. Ends with its input; prints how many packets came, and how many of them
//! the kernel dropped.
//!
//! ```text
//! ring INTERFACE PORT
//! ```

use std::env;
use std::error::Error;
use std::io::{Write, stdin, stdout};

use rustix::event::{PollFd, PollFlags, poll};
use seatrial_capture::packets::ring::Ring;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [interface, port] = &arguments[..] else { return Err("ring INTERFACE PORT".into()) };
    let mut ring = Ring::open(interface, port.parse()?)?;
    writeln!(stdout(), "open")?;
    let input = stdin();
    loop {
        // A block goes back to the kernel as it is dropped.
        while ring.block().is_some() {}
        let mut polled = [PollFd::new(&ring, PollFlags::IN), PollFd::new(&input, PollFlags::IN)];
        poll(&mut polled, None)?;
        if !polled[1].revents().is_empty() {
            let counts = ring.counts()?;
            writeln!(stdout(), "{} {}", counts.packets, counts.dropped)?;
            return Ok(());
        }
    }
}
