//! Memory operands with embedded broadcast.

use super::Lanes;

/// Returns `address` and hides its origin from the compiler, so that it stays in one register and
/// is not recomputed as base plus index in each load. (`black_box` may go through memory.)
///
/// With an indexed address (base plus index), Intel's CPUs split a load from the instruction that
/// uses it (un-lamination; see `docs/tried/gemm.md`). On other architectures, returns `address`
/// unchanged.
#[inline(always)]
#[cfg_attr(
    target_arch = "x86_64",
    expect(
        clippy::pointers_in_nomem_asm_block,
        reason = "nothing is read or written through the address"
    )
)]
pub(crate) fn opaque<T>(address: *const T) -> *const T {
    #[cfg(target_arch = "x86_64")]
    {
        let opaque;
        // SAFETY: the assembly is a comment, which only names the operand.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) address => opaque, options(pure, nomem, nostack, preserves_flags));
        }
        opaque
    }
    #[cfg(not(target_arch = "x86_64"))]
    address
}

/// `N` references to `x` for `N` FMAs with a broadcast element of it. To the compiler they are
/// different addresses, so each FMA embeds its own load and broadcast: a shared broadcast would be
/// one more micro-operation. Without embedded broadcasts, returns `N` copies of the reference.
#[inline(always)]
pub(crate) fn operands<L: Lanes, T, const N: usize>(_: L, x: &T) -> [&T; N] {
    let (mut operands, mut address) = ([x; N], &raw const *x);
    if L::EMBEDS_BROADCASTS {
        for operand in &mut operands {
            // From the previous address: the compiler merges equal calls.
            address = opaque(address);
            // SAFETY: it is the address of `x`.
            *operand = unsafe { &*address };
        }
    }
    operands
}
