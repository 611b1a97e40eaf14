//! One program: what it is linked with is compiled and linked once.
#[path = "../common/mod.rs"]
mod common;
mod format_doc;
mod golden;
mod many_numbers;
mod meta;
mod verify;
