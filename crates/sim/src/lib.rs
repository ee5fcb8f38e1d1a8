//! A world in virtual time around control: devices, workloads, faults, checkers.
