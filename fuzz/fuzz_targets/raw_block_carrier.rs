//! A raw stream of `BlockCarrierRow` that may hold anything.
#![no_main]
use case::rows::BlockCarrierRow;
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use whodisk_fuzz::{read_stream, Scratch};

thread_local!(static SCRATCH: RefCell<Scratch> = RefCell::default());

fuzz_target!(|data: &[u8]| SCRATCH.with_borrow_mut(|scratch| read_stream::<BlockCarrierRow>(scratch, data)));
