//! What is particular to a capture from packets.

/// Connections that are named in notes about missing data.
const NAMED_MAX: usize = 8;

/// Counters of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct PacketCounts {
    /// Packets of the server's port.
    pub packets: u64,
    /// Packets dropped by the kernel because its ring was full.
    pub dropped: u64,
    /// Truncated packets.
    pub cut: u64,
    /// Fragments, and packets with invalid headers.
    pub unread: u64,
    /// Whether a file of packets ends within a packet.
    pub is_torn: bool,
    /// Retransmitted bytes.
    pub repeated_bytes: u64,
    /// Packets that arrived out of order.
    pub reordered: u64,
    /// Gaps in connections.
    pub gaps: u64,
    /// Bytes in gaps, where known.
    pub gap_bytes: u64,
    /// Connections with gaps that were joined again.
    pub resumed: u64,
    /// Connections that existed before the capture.
    pub earlier: u64,
    /// Of these, joined.
    pub joined: u64,
    /// Connections with requests that could never be joined.
    pub left_out: u64,
    /// Bytes that clients sent on connections that waited to be joined.
    pub unread_bytes: u64,
    /// Packets of connections beyond the limit.
    pub crowded: u64,
    /// Addresses of clients whose connections are encrypted, the first few.
    pub encrypted: Vec<String>,
    /// Addresses of clients whose connections have gaps, the first few.
    pub with_gaps: Vec<String>,
}

/// Keeps a name while there is room.
pub fn name(names: &mut Vec<String>, name: impl ToString) {
    if names.len() < NAMED_MAX {
        names.push(name.to_string());
    }
}
