//! f32 matrix multiplication.

use crate::device::{assert_near, floats, gpu, read};
use hearth_kernels::gpu::{self, Transpose};
use hearth_kernels::reference::{matmul, noise, transpose, wide};

/// `[m, k] @ [k, n]`, written to columns from `at` on of a matrix of `width`, or added to them.
struct Case {
    transpose: Transpose,
    shape: [usize; 3],
    at: usize,
    width: usize,
    add: bool,
}

const CASES: [Case; 6] = [
    case(Transpose::None, [3, 65, 7], 0, 7, false),
    case(Transpose::None, [70, 9, 33], 2, 36, true),
    case(Transpose::B, [1, 130, 16], 0, 16, false),
    case(Transpose::B, [70, 16, 100], 5, 106, true),
    case(Transpose::A, [9, 70, 65], 0, 70, false),
    case(Transpose::A, [64, 32, 32], 1, 33, true),
];

const fn case(transpose: Transpose, shape: [usize; 3], at: usize, width: usize, add: bool) -> Case {
    Case {
        transpose,
        shape,
        at,
        width,
        add,
    }
}

#[test]
fn matmul_matches_the_reference() {
    let Some(client) = gpu() else { return };
    for (number, case) in CASES.iter().enumerate() {
        let [m, k, n] = case.shape;
        let (a, b, before) = (noise(1, m * k), noise(2, k * n), noise(3, m * case.width));
        let mut expected = wide(&before);
        for (index, x) in matmul(&wide(&a), &wide(&b), m, k, n).into_iter().enumerate() {
            let out = &mut expected[index / n * case.width + case.at + index % n];
            *out = 0.5 * x + if case.add { *out } else { 0.0 };
        }
        let transposed = |x: &[f32], rows, cols| {
            transpose(&wide(x), rows, cols)
                .iter()
                .map(|x| *x as f32)
                .collect::<Vec<_>>()
        };
        let a = match case.transpose {
            Transpose::A => floats(&client, &transposed(&a, m, k), k, m),
            _ => floats(&client, &a, m, k),
        };
        let b = match case.transpose {
            Transpose::B => floats(&client, &transposed(&b, k, n), n, k),
            _ => floats(&client, &b, k, n),
        };
        let out = floats(&client, &before, m, case.width);
        gpu::matmul(&client, &a, &b, case.transpose, 0.5, &out, case.at, case.add).expect("shapes that fit");
        assert_near(&format!("case {number}"), &client, &out, &expected, 1e-6);
    }
}

#[test]
fn an_empty_matmul_is_zero_and_mismatched_sizes_are_errors() {
    let Some(client) = gpu() else { return };
    let ones = |rows, cols| floats(&client, &vec![1.0; rows * cols], rows, cols);
    let out = ones(2, 3);
    for (a, b, at) in [
        (ones(2, 4), ones(5, 3), 0),
        (ones(3, 4), ones(4, 3), 0),
        (ones(2, 4), ones(4, 3), 1),
    ] {
        assert!(gpu::matmul(&client, &a, &b, Transpose::None, 1.0, &out, at, false).is_err());
    }
    let mut short = ones(2, 4);
    short.cols = 400;
    assert!(gpu::matmul(&client, &short, &ones(400, 3), Transpose::None, 1.0, &out, 0, false).is_err());
    assert_eq!(read(&client, &out), vec![1.0; 6]);
    gpu::matmul(&client, &ones(2, 0), &ones(0, 3), Transpose::None, 1.0, &out, 0, false).expect("nothing fits");
    assert_eq!(read(&client, &out), vec![0.0; 6]);
}
