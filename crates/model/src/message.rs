//! Messages: what a control plane tells the hands of a node.

use crate::{Millis, WorkerId, lease::Hold, observation::MessageNo};
use serde::{Deserialize, Serialize};

/// One message. Hands obey only messages newer than all they have heard, so a late or repeated
/// one has no effect, and a lost one must be said again under a new number. Every message that is
/// heard is answered by a report.
///
/// Every order that is heard leaves its attempt in the next report. So once a report's `heard`
/// has reached an order's number and the attempt is missing, that order was lost (or, after a
/// [`Order::Forget`], is over).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its position.
    pub no: MessageNo,
    /// What is to be done.
    pub order: Order,
}

/// What is to be done on the node. Repeating an order has no second effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// A control plane has started: report what is.
    Hello,
    /// Prepare this hold and start the worker. Refused as stale where the attempt is not newer
    /// than all known ones of the worker, an older one is not over, or its slices are not free.
    Place {
        /// The worker.
        worker: WorkerId,
        /// The attempt.
        attempt: u32,
        /// What it gets.
        hold: Hold,
    },
    /// Tell the worker to leave, end it after the grace, give back what it held. An attempt not
    /// known counts as freed from now on, and no older one is accepted.
    Evict {
        /// The worker.
        worker: WorkerId,
        /// The attempt.
        attempt: u32,
        /// Milliseconds between telling and ending.
        grace_ms: Millis,
    },
    /// The end of this attempt has been taken note of: leave it out of reports. Ignored for an
    /// attempt that is not over.
    Forget {
        /// The worker.
        worker: WorkerId,
        /// The attempt.
        attempt: u32,
    },
}
