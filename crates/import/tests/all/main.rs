//! One program: what it is linked with is compiled and linked once.
mod blkparse_text;
mod formats;
mod series;
