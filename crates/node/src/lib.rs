//! A node's hands.
