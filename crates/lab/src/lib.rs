//! The lab: a storage stack in virtual time that writes ordinary cases, marked as simulated.
//!
//! * [`scenario`]: a TOML file with a workload, a stack and faults, checked key by key.
//! * [`sim`]: clock, event queue, requests; conservation and causality asserted always.
//! * [`component`]: what a part of the stack is, and what the pure [`models`] inside them are.
//! * [`components`]: the parts themselves, one file each.
//! * [`stack`]: builds the parts of a scenario and connects them.
//! * [`embedded`]: the scenarios that come with the binary.
//! * [`explain`]: a scenario in words.
//! * [`generate`]: random cases with known truth.
//! * [`recording`]: reads operations back from a case.
//! * [`whatif`]: replays a case on a stack; [`fit`]: makes a stack from a case.
//! * [`run`]: runs a scenario, writes its case, and finds the truth by running it again without each fault.
mod agenda;
mod apart;
#[cfg(test)]
mod canary;
pub mod component;
pub mod components;
pub mod embedded;
pub mod error;
pub mod explain;
mod fast_map;
pub mod faults;
pub mod fit;
pub mod generate;
pub mod keys;
mod memory;
pub mod models;
mod names;
pub mod observation;
pub mod recorder;
pub mod recording;
pub mod request;
pub mod run;
pub mod scenario;
pub mod sim;
pub mod stack;
pub mod tally;
pub mod whatif;
mod wheel;
pub mod writer;
