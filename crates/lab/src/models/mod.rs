//! Pure models: what a part of the stack does, without queues, events or clocks of their own.
pub mod cache;
