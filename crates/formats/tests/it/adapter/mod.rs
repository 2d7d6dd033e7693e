//! Tests of adapters through the public API. Reference values of PEFT and transformers are stored
//! beside the fixtures.

mod converted;
mod fits;
mod fixtures;
mod fused;
mod headers;
mod hostile;
mod modelfiles;
mod round_trips;
mod unmatched;
