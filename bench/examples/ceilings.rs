//! Peak memory bandwidth and multiply-add rates of this machine, for `compare.py`.
//!
//! `ceilings THREADS [native|avx2] [RATE...]` prints one JSON object with the named rates, or all;
//! a rate is null if the CPU, or AVX2, has no such instruction.
//! Every rate is the maximum of several measurements. The file needs no crate, so `rustc` alone
//! builds it in seconds.

use std::hint::black_box;
use std::time::Instant;

/// Bytes read by all threads together: many times the size of the caches.
const BYTES: usize = 512 << 20;
/// Words of a cache line.
const LINE: usize = 8;
/// Additions to each accumulator per measurement, which takes about a tenth of a second.
const ITERATIONS: usize = 20_000_000;
/// Independent accumulators: more than an instruction's latency in cycles times the instructions
/// issued per cycle.
const SUMS: usize = 12;
/// Measurements; the maximum is reported.
const TRIES: usize = 5;

/// A function that computes `SUMS * ITERATIONS` vectors of multiply-adds, and the multiply-adds per
/// vector.
type Products = (fn(), usize);

fn main() {
    let threads = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let Some(threads) = threads.filter(|count| *count > 0) else {
        eprintln!("usage: ceilings THREADS (at least 1) [native|avx2] [RATE...]");
        std::process::exit(2);
    };
    let avx2_only = std::env::args().nth(2).is_some_and(|isa| isa == "avx2");
    let products = |products: Option<Products>| match products {
        Some((run, macs)) => format!("{:.2}", best(threads, |_| run(), SUMS * ITERATIONS * macs * threads)),
        None => "null".to_owned(),
    };
    let selected: Vec<String> = std::env::args().skip(3).collect();
    let rates: [(&str, &dyn Fn() -> String); 4] = [
        ("read_gb_s", &|| format!("{:.2}", read(threads))),
        ("int8_gmac_s", &|| products(cpu::int8(avx2_only))),
        ("bf16_gmac_s", &|| products(cpu::bf16(avx2_only))),
        ("f32_gmac_s", &|| products(cpu::f32(avx2_only))),
    ];
    let measured: Vec<String> = rates
        .iter()
        .filter(|(name, _)| selected.is_empty() || selected.iter().any(|selected| selected == name))
        .map(|(name, measure)| format!(r#""{name}": {}"#, measure()))
        .collect();
    println!("{{{}}}", measured.join(", "));
}

/// The read bandwidth in GB/s: every thread sums its own part of the memory.
fn read(threads: usize) -> f64 {
    let words = vec![1_u64; BYTES / 8];
    let parts: Vec<&[u64]> = words.chunks(words.len().div_ceil(threads)).collect();
    let add_up = |thread: usize| {
        let mut sums = [0_u64; LINE];
        for line in parts[thread].as_chunks::<LINE>().0 {
            prefetch(line);
            for (sum, word) in sums.iter_mut().zip(line) {
                *sum = sum.wrapping_add(*word);
            }
        }
        black_box(sums);
    };
    best(threads, add_up, BYTES)
}

/// Prefetches the line one page ahead: the hardware prefetcher stops at the end of a page.
fn prefetch(line: &[u64; LINE]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        let ahead = line.as_ptr().wrapping_add(4096 / 8);
        // SAFETY: every x86-64 CPU has the instruction, and a prefetch may take any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(ahead.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// Best rate in billions per second of `work`, which does `amount` on all threads together; called
/// with the thread's index.
fn best(threads: usize, work: impl Fn(usize) + Sync, amount: usize) -> f64 {
    let work = &work;
    let measure = || {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || work(thread));
            }
        });
        amount as f64 / start.elapsed().as_secs_f64() / 1e9
    };
    (0..TRIES).map(|_| measure()).fold(0.0, f64::max)
}

/// [`Products`] of one or a few instructions; `None` if the CPU lacks a feature. Each product must
/// depend on the accumulator, or it would be hoisted out of the loop.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! products {
    ($detected:ident: $($feature:tt),+; $each:literal in $zero:expr; |$sum:ident| $product:expr) => {{
        $(#[target_feature(enable = $feature)])+
        fn make() {
            let mut sums: [_; SUMS] = std::array::from_fn(|_| black_box($zero));
            for _ in 0..ITERATIONS {
                for sum in &mut sums {
                    let $sum = *sum;
                    *sum = $product;
                }
            }
            black_box(sums);
        }
        // SAFETY: the features are detected below, before the function is returned.
        let made: Products = (|| unsafe { make() }, $each);
        ($(std::arch::$detected!($feature))&&+).then_some(made)
    }};
}

#[cfg(target_arch = "x86_64")]
mod cpu {
    use super::{ITERATIONS, Products, SUMS, black_box};
    use std::arch::x86_64::*;

    pub fn int8(avx2_only: bool) -> Option<Products> {
        let vnni = products!(is_x86_feature_detected: "avx512f", "avx512vnni"; 64 in _mm512_setzero_si512();
            |sum| _mm512_dpbusd_epi32(sum, sum, sum));
        let avx_vnni = products!(is_x86_feature_detected: "avx2", "avxvnni"; 32 in _mm256_setzero_si256();
            |sum| _mm256_dpbusd_avx_epi32(sum, sum, sum));
        // In 16 bits, as codes of few bits allow before their sums are widened.
        let avx2 = products!(is_x86_feature_detected: "avx2"; 32 in _mm256_setzero_si256();
            |sum| _mm256_add_epi16(sum, _mm256_maddubs_epi16(sum, sum)));
        vnni.or(avx_vnni).filter(|_| !avx2_only).or(avx2)
    }

    pub fn bf16(avx2_only: bool) -> Option<Products> {
        let avx512 = products!(is_x86_feature_detected: "avx512f", "avx512bf16"; 32 in _mm512_setzero_ps();
        |sum| {
            // SAFETY: both are 512 bits of any value.
            let pairs = unsafe { std::mem::transmute::<__m512, __m512bh>(sum) };
            _mm512_dpbf16_ps(sum, pairs, pairs)
        });
        avx512.filter(|_| !avx2_only)
    }

    pub fn f32(avx2_only: bool) -> Option<Products> {
        let avx512 = products!(is_x86_feature_detected: "avx512f"; 16 in _mm512_setzero_ps();
            |sum| _mm512_fmadd_ps(sum, sum, sum));
        let avx2 = products!(is_x86_feature_detected: "avx2", "fma"; 8 in _mm256_setzero_ps();
            |sum| _mm256_fmadd_ps(sum, sum, sum));
        avx512.filter(|_| !avx2_only).or(avx2)
    }
}

#[cfg(target_arch = "aarch64")]
mod cpu {
    use super::{ITERATIONS, Products, SUMS, black_box};
    use std::arch::aarch64::*;

    pub fn int8(_avx2_only: bool) -> Option<Products> {
        products!(is_aarch64_feature_detected: "neon", "dotprod"; 16 in vdupq_n_s32(0); |sum| {
            let mut sum = sum;
            // SAFETY: only registers are used. The intrinsic is not stable yet.
            unsafe {
                std::arch::asm!(".arch_extension dotprod", "sdot {sum:v}.4s, {sum:v}.16b, {sum:v}.16b", sum = inout(vreg) sum,
                    options(pure, nomem, nostack, preserves_flags));
            }
            sum
        })
    }

    /// `None`: the intrinsics are not stable yet.
    pub fn bf16(_avx2_only: bool) -> Option<Products> {
        None
    }

    pub fn f32(_avx2_only: bool) -> Option<Products> {
        products!(is_aarch64_feature_detected: "neon"; 4 in vdupq_n_f32(0.0); |sum| vfmaq_f32(sum, sum, sum))
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod cpu {
    use super::Products;

    pub fn int8(_avx2_only: bool) -> Option<Products> {
        None
    }

    pub fn bf16(_avx2_only: bool) -> Option<Products> {
        None
    }

    pub fn f32(_avx2_only: bool) -> Option<Products> {
        None
    }
}
