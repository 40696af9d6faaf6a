//! COPY over the connection.
//!
//! `COPY ... TO STDOUT` is played: the data that the server sends are passed over as they come, and
//! the command tag has the number of rows. The data of `COPY ... FROM STDIN` are in no log. Where a
//! server requests them anyhow (a COPY in a text of several statements, or one that the log's
//! reader did not see), the reply is that there are none, and the server answers with the error
//! 57014.

use seatrial_pgwire::messages;

const NO_DATA: &str = "no log holds the data of COPY FROM STDIN";

/// Replies to a server that requests data that there are none.
///
/// In the extended protocol a server passes over the `Sync` that came right behind `Execute`, as
/// it is then taking in data; after the error it waits for another.
pub fn refuse_data(out: &mut Vec<u8>, is_extended: bool) {
    messages::copy_fail(out, NO_DATA);
    if is_extended {
        messages::sync(out);
    }
}
