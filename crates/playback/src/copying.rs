//! COPY over the connection.
//!
//! `COPY ... TO STDOUT` is played: what the server sends is passed over as it comes, and its tag
//! tells the rows. The data of `COPY ... FROM STDIN` are in no log. Where a server asks for them
//! anyhow (a COPY in a text of several statements, or one that the log's reader did not see), it is
//! told that there are none, and its answer is the error 57014 that it makes of that.

use seatrial_pgwire::messages;

const NO_DATA: &str = "no log holds the data of COPY FROM STDIN";

/// Tells a server that asks for data that there are none.
///
/// In the extended protocol a server passes over the `Sync` that came right behind `Execute`, as
/// it is then taking in data; after the error it waits for another.
pub fn refuse_data(out: &mut Vec<u8>, is_extended: bool) {
    messages::copy_fail(out, NO_DATA);
    if is_extended {
        messages::sync(out);
    }
}
