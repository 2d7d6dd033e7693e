//! Plain products.

use crate::device::{assert_near, floats, gpu, read};
use hearth_kernels::gpu::{Turned, product};
use hearth_kernels::reference::{matmul, noise, transpose, wide};

/// A product `[m, k] [k, n]` written to columns from `at` on of a matrix of `width`, or added to them.
struct Case {
    turned: Turned,
    shape: [usize; 3],
    at: usize,
    width: usize,
    add: bool,
}

const CASES: [Case; 6] = [
    case(Turned::None, [3, 65, 7], 0, 7, false),
    case(Turned::None, [70, 9, 33], 2, 36, true),
    case(Turned::Second, [1, 130, 16], 0, 16, false),
    case(Turned::Second, [70, 16, 100], 5, 106, true),
    case(Turned::First, [9, 70, 65], 0, 70, false),
    case(Turned::First, [64, 32, 32], 1, 33, true),
];

const fn case(turned: Turned, shape: [usize; 3], at: usize, width: usize, add: bool) -> Case {
    Case {
        turned,
        shape,
        at,
        width,
        add,
    }
}

#[test]
fn a_product_is_the_references() {
    let Some(client) = gpu() else { return };
    for (number, case) in CASES.iter().enumerate() {
        let [m, k, n] = case.shape;
        let (a, b, before) = (noise(1, m * k), noise(2, k * n), noise(3, m * case.width));
        let mut expected = wide(&before);
        for (at, x) in matmul(&wide(&a), &wide(&b), m, k, n).into_iter().enumerate() {
            let out = &mut expected[at / n * case.width + case.at + at % n];
            *out = 0.5 * x + if case.add { *out } else { 0.0 };
        }
        let turn = |x: &[f32], rows, cols| {
            transpose(&wide(x), rows, cols)
                .iter()
                .map(|x| *x as f32)
                .collect::<Vec<_>>()
        };
        let a = match case.turned {
            Turned::First => floats(&client, &turn(&a, m, k), k, m),
            _ => floats(&client, &a, m, k),
        };
        let b = match case.turned {
            Turned::Second => floats(&client, &turn(&b, k, n), n, k),
            _ => floats(&client, &b, k, n),
        };
        let out = floats(&client, &before, m, case.width);
        product(&client, &a, &b, case.turned, 0.5, &out, case.at, case.add).expect("shapes that fit");
        assert_near(&format!("case {number}"), &client, &out, &expected, 1e-6);
    }
}

#[test]
fn a_product_of_nothing_is_zero_and_what_does_not_fit_is_refused() {
    let Some(client) = gpu() else { return };
    let of = |rows, cols| floats(&client, &vec![1.0; rows * cols], rows, cols);
    let out = of(2, 3);
    for (a, b, at) in [
        (of(2, 4), of(5, 3), 0),
        (of(3, 4), of(4, 3), 0),
        (of(2, 4), of(4, 3), 1),
    ] {
        assert!(product(&client, &a, &b, Turned::None, 1.0, &out, at, false).is_err());
    }
    let mut short = of(2, 4);
    short.cols = 400;
    assert!(product(&client, &short, &of(400, 3), Turned::None, 1.0, &out, 0, false).is_err());
    assert_eq!(read(&client, &out), vec![1.0; 6]);
    product(&client, &of(2, 0), &of(0, 3), Turned::None, 1.0, &out, 0, false).expect("nothing fits");
    assert_eq!(read(&client, &out), vec![0.0; 6]);
}
