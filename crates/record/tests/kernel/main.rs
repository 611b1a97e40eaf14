//! The recorder on a live kernel: one program, so that it is linked once. One file per probe or property.
#[macro_use]
mod common;

mod cache;
mod counts;
mod crosscheck;
mod flight;
mod flushes;
mod host;
mod join;
mod object;
mod owners;
mod pages;
mod scope;
mod starts;
mod syscalls;
mod syscalls_fio;
mod volumes;
mod writeback;

testing::main!();
