//! What goes wrong, how often.

use crate::random::SplitMix64;
use cleave_device::gpu::{Error, Fault};
use cleave_model::Millis;

/// Chances in a thousand that something goes wrong, each time it could.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A message or report is lost.
    pub lose: u32,
    /// A message or report comes twice.
    pub repeat: u32,
    /// A message or report takes up to a minute.
    pub delay: u32,
    /// The control plane dies during a close: before, between or after commit and effects.
    pub crash_control: u32,
    /// A node's hands die while they carry out an effect.
    pub crash_hands: u32,
    /// A call to a GPU goes wrong.
    pub device: u32,
    /// A process does not start.
    pub start: u32,
    /// A process ends with a failure.
    pub fail: u32,
    /// Nothing goes wrong from then on.
    pub until: Millis,
}

impl Faults {
    /// A bit of everything until a given time.
    pub fn some(until: Millis) -> Self {
        Self {
            lose: 100,
            repeat: 50,
            delay: 50,
            crash_control: 10,
            crash_hands: 10,
            device: 20,
            start: 20,
            fail: 20,
            until,
        }
    }

    /// The faults in force at a time.
    pub(crate) fn at(&self, now: Millis) -> Self {
        if now < self.until {
            *self
        } else {
            Self::default()
        }
    }

    /// What goes wrong with a call to a GPU; a client that takes hold of something is `client`.
    pub(crate) fn of_call(&self, random: &mut SplitMix64, client: u64) -> Option<Fault> {
        if !random.happens(self.device) {
            return None;
        }
        Some(match random.below(5) {
            0 => Fault::Refused(Error::Unknown),
            1 => Fault::Refused(Error::InUse),
            2 => Fault::Mute,
            3 => Fault::Slow(20_000),
            _ => Fault::Held(client),
        })
    }
}
