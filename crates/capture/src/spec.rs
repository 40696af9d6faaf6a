//! What is to be captured, as it crosses from Python in JSON.

use std::net::SocketAddr;
use std::path::PathBuf;

use seatrial_trace::captured::Session;
use serde::Deserialize;

use super::CaptureError;
use super::listen::ListenSpec;
use super::proxy::LISTENERS_MAX;

/// Clients, their server, and the trace that is made of what they say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureSpec {
    /// Where clients come in to be passed on to the server; nowhere where packets are examined.
    #[serde(default)]
    pub listen: Vec<ListenSpec>,
    /// Packets to capture instead of listening.
    #[serde(default)]
    pub packets: Option<PacketsSpec>,
    /// Sessions that are there already, as the server reports them.
    #[serde(default)]
    pub known: Vec<KnownSession>,
    /// The server; of packets, those of its port, to and from any address where it has no host.
    pub server: ServerAddress,
    /// The trace.
    pub output: PathBuf,
    /// Whether literals, parameters and returned values are replaced.
    #[serde(default)]
    pub mask: bool,
    /// The server's own number for its data (`pg_controldata`), where it is known.
    #[serde(default)]
    pub system_identifier: Option<u64>,
    /// How often what was written is made findable: what is lost at most when the process is
    /// killed.
    #[serde(default = "checkpoint_s")]
    pub checkpoint_s: u64,
}

/// Often enough to lose little, seldom enough that the file's parts are large.
fn checkpoint_s() -> u64 {
    60
}

/// Where packets come from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PacketsSpec {
    /// An interface of this machine, or [`super::packets::ring::ANY`].
    Interface(String),
    /// A file of tcpdump (pcap) or Wireshark (pcapng).
    File(PathBuf),
}

impl std::fmt::Display for PacketsSpec {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PacketsSpec::Interface(name) => write!(out, "packets of {name}"),
            PacketsSpec::File(path) => write!(out, "packets in {}", path.display()),
        }
    }
}

/// A session that was there before a capture from packets, which do not show who it is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownSession {
    /// Its client's end.
    pub client: SocketAddr,
    /// The server's name for it: the number of its process.
    pub name: String,
    /// User that it connected as.
    pub user: String,
    /// Database that it connected to.
    pub database: String,
    /// What it calls itself.
    pub application: String,
}

impl KnownSession {
    /// Its session in a trace.
    pub fn session(self) -> Session {
        Session {
            name: self.name.into(),
            user: self.user.into(),
            database: self.database.into(),
            application: self.application.into(),
            connected_us: None,
            disconnected_us: None,
        }
    }
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerAddress {
    /// A folder with a socket in it, or a host's name or address.
    pub host: String,
    /// The port, or the number in the socket's name.
    pub port: u16,
    /// Of the addresses that the name stands for, the one that is taken; None for the first.
    #[serde(default)]
    pub address: Option<String>,
}

impl CaptureSpec {
    /// Reads and checks a specification.
    ///
    /// # Errors
    ///
    /// When it is no JSON of this form, or asks for what makes no sense.
    pub fn parse(json: &str) -> Result<CaptureSpec, CaptureError> {
        let spec: CaptureSpec =
            serde_json::from_str(json).map_err(|error| CaptureError::Spec(error.to_string()))?;
        let listeners = spec.listen.len();
        if spec.packets.is_some() {
            if listeners > 0 {
                return Err(CaptureError::Spec("packets and addresses to listen on".into()));
            }
        } else if !(1..=LISTENERS_MAX).contains(&listeners) {
            let fault = format!(
                "{listeners} addresses to listen on, where 1 to {LISTENERS_MAX} are allowed"
            );
            return Err(CaptureError::Spec(fault));
        }
        Ok(spec)
    }
}

impl std::fmt::Display for ServerAddress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_bare = self.host.contains(':') && !self.host.starts_with('/');
        if is_bare {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}
