//! `NullServer`: a PostgreSQL server that answers at once.

use std::path::PathBuf;

use pyo3::prelude::*;
use seatrial_pgwire::null_server::{Address, NullServer};

use crate::errors::Outcome;

/// A server that speaks PostgreSQL's protocol and does nothing; it ends when it is dropped.
#[pyclass(frozen, name = "NullServer")]
pub struct PyNullServer(NullServer);

#[pymethods]
impl PyNullServer {
    /// Start a server in a private folder (mode 0700), or without one on a loopback port.
    ///
    /// Raises NativeError when the version is invalid, others may enter the folder, or the system
    /// refuses.
    #[new]
    #[pyo3(signature = (*, folder=None, port=0, server_version="15.0", connections_max=1024))]
    fn new(
        py: Python<'_>,
        folder: Option<PathBuf>,
        port: u16,
        server_version: &str,
        connections_max: usize,
    ) -> Outcome<PyNullServer> {
        let address = folder.map_or(Address::Loopback(port), Address::Folder);
        let start = || NullServer::start(&address, server_version, connections_max);
        Ok(PyNullServer(py.detach(start)?))
    }

    /// The host for clients: the folder, or the loopback address.
    #[getter]
    fn host(&self) -> &str {
        self.0.host()
    }

    /// The port, or the number in the socket's name.
    #[getter]
    fn port(&self) -> u16 {
        self.0.port()
    }

    /// Clients so far.
    #[getter]
    fn connections(&self) -> u64 {
        self.0.connections()
    }

    /// Statements answered so far.
    #[getter]
    fn statements(&self) -> u64 {
        self.0.statements()
    }

    /// Processor time (ns) of the server's one thread; 0 until it is stopped.
    #[getter]
    fn cpu_ns(&self) -> u64 {
        self.0.cpu_ns()
    }

    /// End the server; clients see the end of their connections.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.0.stop());
    }
}
