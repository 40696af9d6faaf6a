//! The startup of a connection, and its authentication.
//!
//! Supported are trust (and peer, ident, cert, which request nothing of a client), passwords in
//! clear text and by MD5, and SCRAM-SHA-256, in which the server has to prove that it knows the
//! password, too (its hashes cost about a millisecond of CPU time, by design). Not supported are
//! GSSAPI, SSPI and Kerberos, and **TLS**: a playback should run next to its server, and a driver
//! that encrypts would measure its own processor. A server that accepts nothing else refuses the
//! login, and its message is reported with what to do about it.
//!
//! # The encoding
//!
//! A server writes its log in the encoding of the session's database, whatever that of the client
//! was, so the bytes of a trace are in the encoding of the captured database. They are sent
//! unchanged, under `client_encoding=SQL_ASCII`: a server then converts nothing in either
//! direction, and still checks that its input is valid in its own encoding (PostgreSQL's manual,
//! "Character Set Support"; `pg_any_to_server` in its source). So the replayed database should have
//! the encoding of the captured one; otherwise, letters beyond ASCII cause the error 22021, or
//! become other letters. A captured `SET client_encoding` is sent like any statement and undone
//! before the next one.

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};

use super::answer::ServerError;
use super::messages::{self, MessageHeader};

/// The encoding under which a server converts nothing.
pub const NO_CONVERSION: &str = "SQL_ASCII";

/// Upper bound of a server's messages before authentication (libpq's `MAX_ERRLEN`).
const LOGIN_BYTES_MAX: usize = 30_000;

const INVALID_AUTHORIZATION: [u8; 5] = *b"28000";
const INVALID_PASSWORD: [u8; 5] = *b"28P01";

/// The parameters of a session.
#[derive(Clone, Copy)]
pub struct Login<'a> {
    /// The role.
    pub user: &'a str,
    /// The database.
    pub database: &'a str,
    /// The password; None without one.
    pub password: Option<&'a str>,
    /// The application name.
    pub application: &'a str,
    /// Whether its transactions are read-only by default.
    pub read_only: bool,
    /// Settings in the form of command line options, such as `-c work_mem=64MB`.
    pub options: Option<&'a str>,
}

impl Login<'_> {
    /// Appends the `StartupMessage`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut parameters = vec![
            ("user", self.user),
            ("database", self.database),
            ("application_name", self.application),
            ("client_encoding", NO_CONVERSION),
        ];
        if self.read_only {
            parameters.push(("default_transaction_read_only", "on"));
        }
        parameters.extend(self.options.map(|options| ("options", options)));
        messages::startup(out, &parameters);
    }
}

/// The state of the authentication.
enum AuthState {
    /// Nothing has been requested yet, or only a password, which was sent.
    Open,
    /// SCRAM is in progress.
    Scram(Box<ScramSha256>),
    /// The server has proved that it knows the password.
    Mutual,
    /// The client is authenticated.
    Done,
}

/// The authentication of a client.
pub struct Startup {
    user: String,
    password: Option<String>,
    state: AuthState,
}

impl Startup {
    /// A client that has sent its `StartupMessage`.
    pub fn new(login: &Login<'_>) -> Startup {
        Startup {
            user: login.user.to_owned(),
            password: login.password.map(str::to_owned),
            state: AuthState::Open,
        }
    }

    /// Whether the server has authenticated the client.
    pub fn is_in(&self) -> bool {
        matches!(self.state, AuthState::Done)
    }

    /// Whether a message is allowed here: few are before authentication. Anything else does not
    /// come from a PostgreSQL server, and is not awaited completely.
    pub fn awaits(&self, head: MessageHeader) -> bool {
        let is_short = head.body_bytes.is_some_and(|bytes| (4..=LOGIN_BYTES_MAX).contains(&bytes));
        self.is_in() || (is_short && matches!(head.kind, b'R' | b'E' | b'N' | b'v'))
    }

    /// Answers an `Authentication...` message.
    ///
    /// # Errors
    ///
    /// When a password is required but missing, when the server requests an unsupported method, or
    /// when it does not know the password itself.
    pub fn take_in(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), ServerError> {
        let requested = messages::number(body).unwrap_or(-1);
        let data = body.get(4..).unwrap_or_default();
        match requested {
            0 => return self.let_in(),
            3 => messages::password(out, self.password()?.as_bytes()),
            5 => {
                let salt = data.first_chunk().copied().ok_or_else(|| unknown(requested))?;
                let hash = md5_hash(self.user.as_bytes(), self.password()?.as_bytes(), salt);
                messages::password(out, hash.as_bytes());
            }
            10 => self.begin_scram(data, out)?,
            11 => {
                let AuthState::Scram(scram) = &mut self.state else {
                    return Err(unknown(requested));
                };
                scram.update(data).map_err(|why| unverified(&why))?;
                messages::sasl_response(out, scram.message());
            }
            12 => {
                let AuthState::Scram(scram) = &mut self.state else {
                    return Err(unknown(requested));
                };
                scram.finish(data).map_err(|why| unverified(&why))?;
                self.state = AuthState::Mutual;
            }
            _ => return Err(unknown(requested)),
        }
        Ok(())
    }

    fn begin_scram(&mut self, offered: &[u8], out: &mut Vec<u8>) -> Result<(), ServerError> {
        let mut names = offered.split(|byte| *byte == 0);
        if !names.any(|name| name == SCRAM_SHA_256.as_bytes()) {
            return Err(unknown(10));
        }
        let password = self.password()?.as_bytes();
        let scram = ScramSha256::new(password, ChannelBinding::unsupported());
        messages::sasl_initial_response(out, SCRAM_SHA_256, scram.message());
        self.state = AuthState::Scram(Box::new(scram));
        Ok(())
    }

    fn let_in(&mut self) -> Result<(), ServerError> {
        if matches!(self.state, AuthState::Scram(_)) {
            let sentence = "the server let the client in without a proof that it knows the \
                            password itself; it may not be the server that it seems to be";
            return Err(refusal(INVALID_AUTHORIZATION, sentence.to_owned()));
        }
        self.state = AuthState::Done;
        self.password = None;
        Ok(())
    }

    fn password(&self) -> Result<&str, ServerError> {
        self.password.as_deref().ok_or_else(|| {
            let user = &self.user;
            let sentence = format!(
                "the server asks for the password of role \"{user}\", and none was given: put it \
                 into PGPASSWORD or ~/.pgpass"
            );
            refusal(INVALID_PASSWORD, sentence)
        })
    }
}

/// A refusal with what to do about it, if the server accepts only unsupported methods.
pub fn explained(mut refusal: ServerError) -> ServerError {
    let words = refusal.message.to_ascii_lowercase();
    let wants_encryption = [
        "no encryption",      // PostgreSQL since 12
        "ssl off",            // before that
        "ssl required",       // PgBouncer
        "ssl connection",     // what clouds put before it
        "without encryption", // Odyssey
    ];
    let lacks_encryption = wants_encryption.iter().any(|wanted| words.contains(wanted));
    if lacks_encryption {
        refusal.message.push_str(
            ". A playback speaks without TLS: let this role in without it (a line hostnossl in \
             pg_hba.conf), play on the server's machine over its socket, or through a tunnel",
        );
    }
    refusal
}

fn unverified(why: &std::io::Error) -> ServerError {
    refusal(INVALID_AUTHORIZATION, format!("the exchange of passwords (SCRAM) failed: {why}"))
}

fn unknown(requested: i32) -> ServerError {
    let way = match requested {
        2 => "Kerberos",
        7 | 8 => "GSSAPI",
        9 => "SSPI",
        10..=12 => "SASL without SCRAM-SHA-256",
        _ => "a way that has no name here",
    };
    let sentence = format!(
        "the server asks for a login by {way}; a playback knows trust, password, md5 and \
         scram-sha-256: let the role in by one of these in pg_hba.conf"
    );
    refusal(INVALID_AUTHORIZATION, sentence)
}

fn refusal(sqlstate: [u8; 5], message: String) -> ServerError {
    ServerError { sqlstate, message }
}
