//! One program: what it is linked with is compiled and linked once.
mod process;
mod reference;
