//! The parts of the stack that move requests, one file each.
pub mod clients;
pub mod drive;
pub mod fitted_drive;
pub mod host;
pub mod interrupts;
pub mod load;
pub mod network;
pub mod pages;
pub mod placement;
pub mod protocol;
pub mod replay;
pub mod server;
pub mod simple_drive;
pub mod slowness;
pub mod throttle;
pub mod volume;
pub mod writeback;
