//! Checks of operations' inputs. Shapes are checked when a model is loaded, so a mismatch here is a
//! bug.

use burn_flex::FlexTensor;

/// Unwraps the result of a kernel.
///
/// # Panics
/// If the inputs of the kernel do not match. The engine catches and reports the panic.
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
