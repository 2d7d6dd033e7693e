//! Tests of adapters through their doors alone. What PEFT and transformers say of the fixtures stands beside them.

mod fits;
mod fixtures;
mod hostile;
mod modelfiles;
mod round_trips;
