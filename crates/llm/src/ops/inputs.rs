//! Inputs of operations. They are checked when a model is loaded, so a mismatch is a bug.

use burn_flex::FlexTensor;

/// The result of a kernel.
///
/// # Panics
/// If its inputs do not fit each other; the engine catches and reports it.
pub(super) fn checked<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("an operation received invalid inputs: {error}"),
    }
}

/// The elements of a float tensor, in order.
pub(super) fn floats(tensor: &FlexTensor) -> &[f32] {
    checked(tensor.as_slice().ok_or("a tensor that is not contiguous f32"))
}
