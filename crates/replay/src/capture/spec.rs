//! What is to be captured, as it crosses from Python in JSON.

use std::path::PathBuf;

use serde::Deserialize;

use super::CaptureError;
use super::listen::ListenSpec;
use super::proxy::LISTENERS_MAX;

/// Clients, the server that they are passed on to, and the trace that is made of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureSpec {
    /// Where clients come in.
    pub listen: Vec<ListenSpec>,
    /// The server.
    pub server: WhereSpec,
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

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhereSpec {
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
        let places = spec.listen.len();
        if !(1..=LISTENERS_MAX).contains(&places) {
            let fault = format!("{places} places to listen at, where 1 to {LISTENERS_MAX} can be");
            return Err(CaptureError::Spec(fault));
        }
        Ok(spec)
    }
}

impl std::fmt::Display for WhereSpec {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_bare = self.host.contains(':') && !self.host.starts_with('/');
        if is_bare {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}
