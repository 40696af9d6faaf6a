//! What is particular to a capture from packets.

/// Connections that are named where something of them is missing.
const NAMED_MAX: usize = 8;

/// What was counted of packets, and of what they do not show.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct PacketCounts {
    /// Packets of the server's port that were looked at.
    pub packets: u64,
    /// Packets that the kernel dropped, as its ring was full.
    pub dropped: u64,
    /// Packets of which only the beginning was there.
    pub cut: u64,
    /// Packets that are fragments, or whose headers make no sense.
    pub unread: u64,
    /// Whether a file of packets ends in the midst of one.
    pub is_torn: bool,
    /// Bytes that came again.
    pub repeated_bytes: u64,
    /// Packets that came ahead of others.
    pub reordered: u64,
    /// Times that something of a connection was missing.
    pub gaps: u64,
    /// Bytes that were missing, where it is known how many.
    pub gap_bytes: u64,
    /// Connections with gaps that were read again from a later moment on.
    pub resumed: u64,
    /// Connections that were there before the capture.
    pub earlier: u64,
    /// Of these, read from a later moment on.
    pub joined: u64,
    /// Connections with requests that never came to such a moment.
    pub left_out: u64,
    /// Bytes that clients sent on connections that were waiting for such a moment.
    pub unread_bytes: u64,
    /// Packets of connections that were too many to be followed.
    pub crowded: u64,
    /// The first of the connections that are encrypted, by their clients' addresses.
    pub encrypted: Vec<String>,
    /// The first of those with gaps.
    pub with_gaps: Vec<String>,
}

/// Keeps a name where there is room.
pub fn name(names: &mut Vec<String>, name: impl ToString) {
    if names.len() < NAMED_MAX {
        names.push(name.to_string());
    }
}
