//! Benchmarks of the kernels; results are in `docs/tried.md`.
//!
//! A separate package, with criterion as an ordinary dependency: as a development dependency of
//! `hearth-kernels` it would give shared crates different features in tests than in programs, so
//! that Burn would be built twice.
