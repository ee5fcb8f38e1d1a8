//! A journal read back, for checks and for people who keep one.

use crate::{Error, journal};
use cleave_control::Control;
use cleave_engine::{
    planner::{ByPrice, Walk},
    state::{CANONICAL_VERSION, NoSink, State},
};
use cleave_model::{event::Batch, plan::Budget};
use std::path::Path;

/// What a journal comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Records read, a state that was written out among them.
    pub records: u64,
    /// The number of the last.
    pub last: u64,
    /// The state that they come to, as text of this version.
    pub canonical: String,
    /// The version of that text.
    pub version: u32,
    /// Jobs that are not over.
    pub unfinished: u64,
}

/// Reads a journal and folds it, as a start would; writes nothing.
///
/// # Errors
/// It can't be read, has a gap, breaks a rule, or its state written out is not the same state.
pub fn replay(path: &Path) -> Result<Replayed, Error> {
    let records = journal::read(path)?;
    let count = records.len() as u64;
    let planner = Walk::new(ByPrice::default());
    let control = Control::restore(planner, Budget::UNBOUNDED, records, &mut NoSink)?;
    let state = control.state();
    let canonical = state.canonical();
    let bad = |what: String| Err(Error::Journal(format!("{}: {what}", path.display())));
    if let Err(broken) = state.check() {
        return bad(format!("its state breaks a rule: {broken}"));
    }
    let mut again = State::new();
    let genesis = Batch {
        number: state.batch(),
        now: state.now(),
        events: state.genesis(),
    };
    again.apply(&genesis, &mut NoSink);
    if again.canonical() != canonical {
        return bad("its state, written out and read back, is another".into());
    }
    Ok(Replayed {
        records: count,
        last: state.batch(),
        unfinished: state.workloads().count() as u64,
        version: CANONICAL_VERSION,
        canonical,
    })
}
