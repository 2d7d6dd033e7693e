//! Use cases, wire types, the store and the library of models.

pub mod wire;
