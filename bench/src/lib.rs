//! Benches of what is hot; figures are in `docs/tried.md`.
//!
//! A package of its own, with what measures as an ordinary dependency: as a development dependency of `hearth-kernels` it would
//! give shared crates other features in tests than in programs, and so have Burn built twice.
