//! The one-machine shell around the control plane.
