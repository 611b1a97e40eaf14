//! One program: what it is linked with is compiled and linked once.
mod cases;
mod common;
mod generate;
mod mysteries;
mod queueing;
mod random_stacks;
mod reference;
mod whatif;
