//! The parts of the stack that move requests, one file each.
pub mod drive;
pub mod interrupts;
pub mod simple_drive;
pub mod slowness;
