//! Every GPU kernel against the f64 reference, at shapes that are not multiples of a tile.
//!
//! On Linux the driver is a software driver, unless the environment names another.

mod attention;
mod backward;
mod device;
mod heads;
mod linear;
mod matmul;
mod matrix_units;
mod rows;
