//! The schemas of the records that cross to Python as JSON.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use schemars::{Schema, schema_for};
use seatrial_capture::origin::Captured;
use seatrial_ingest::intake::origin::IntakeResult;
use seatrial_playback::played::ReplayRecord;
use seatrial_recording::About;
use seatrial_trace::mix::TraceSummary;
use seatrial_trace::mix::time_series::TimeSeries;

use crate::errors::{Failure, Outcome};
use crate::sql_trace::SequenceReport;

/// Return the JSON schema of each record that crosses, by the record's name.
#[pyfunction]
pub fn record_schemas() -> Outcome<BTreeMap<&'static str, String>> {
    let schemas: [(&str, Schema); 7] = [
        ("capture", schema_for!(Captured)),
        ("reading", schema_for!(IntakeResult)),
        ("recording", schema_for!(About)),
        ("replay", schema_for!(ReplayRecord)),
        ("sequences", schema_for!(Vec<SequenceReport>)),
        ("timeline", schema_for!(TimeSeries)),
        ("trace", schema_for!(TraceSummary)),
    ];
    let as_text = |(name, schema): &(&'static str, Schema)| {
        Ok((*name, serde_json::to_string(schema).map_err(Failure::defect)?))
    };
    schemas.iter().map(as_text).collect()
}
