//! Memory that hostile files take, and what they end with. Each allocation of a test's thread is counted.

mod adapters;
mod headers;
mod memory;
mod raw;
