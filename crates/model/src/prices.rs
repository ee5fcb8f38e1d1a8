//! Bid prices as they are recorded.

use serde::{Deserialize, Serialize};

/// Bid prices with the iterates from which the next refinement goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prices {}
