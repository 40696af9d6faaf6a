//! For each id that a trace uses, the statement that is taken to have drawn it, so that whoever
//! changes how ids are proved can compare that with the rows of the server.
//!
//!     draws_of TRACE CATALOG.json
//!
//! One line an id, with tabs between: its column, the id, how that is known or why not, the
//! statement's position in the trace, the row.

use std::error::Error;

use seatrial_sqltext::catalog::Catalog;
use seatrial_trace::TraceReader;

use seatrial_playback::ids::infer::IdSource;
use seatrial_playback::ids::plan::Plan;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, trace, catalog] = &arguments[..] else {
        return Err("give a trace and a catalogue".into());
    };
    let catalog: Catalog = serde_json::from_slice(&std::fs::read(catalog)?)?;
    let trace = TraceReader::open(trace.as_ref())?;
    let sessions = trace.sessions()?.len();
    let plan = Plan::of(&trace, &vec![true; sessions], &catalog)?;
    for (class, id, found) in plan.all_found() {
        let name = plan.class(class).map_or("", |class| &class.name);
        let (how, number, row) = match found {
            IdSource::Slot(slot, level) => {
                let drawn = plan.of_slot(slot).map(|drawn| (drawn.number, slot - drawn.first_slot));
                let shown = || plan.giver(slot).map(|(number, _)| (number, 0));
                let (number, row) = drawn.or_else(shown).ok_or("a slot of no statement")?;
                (format!("{level:?}"), number, row)
            }
            IdSource::NotGenerated => ("old".to_owned(), 0, 0),
            IdSource::Unresolved(reason, _) => (reason.name().to_owned(), 0, 0),
        };
        println!("{name}\t{}\t{how}\t{number}\t{row}", id.number());
    }
    Ok(())
}
