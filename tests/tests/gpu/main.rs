//! Every kernel for GPUs against the reference in f64, at shapes that fit no tile.
//!
//! On Linux the driver is one in software, unless the environment names another.

mod attention;
mod backward;
mod device;
mod heads;
mod linear;
mod matrix_units;
mod product;
mod rows;
