//! Blocks of query rows and keys that attention processes at once.

/// Keys processed at once: few enough for the scores of a block of rows to stay in L1, enough to
/// amortize the cost of the running maximum.
pub(super) const KEYS: usize = 128;
/// Maximum query rows of a block.
pub(super) const ROWS: usize = 12;

/// Defines [`SIZES`], and `with_rows!`, which runs a body with the number of rows of a block as a
/// constant.
macro_rules! block_sizes {
    ($($size:literal)*) => {
        /// Instantiated numbers of rows of a block. A block of one token has a row per query head
        /// that shares its KV head.
        const SIZES: [usize; [$($size),*].len() + 1] = [$($size,)* ROWS];

        macro_rules! with_rows {
            ($rows:expr, $R:ident => $body:expr) => {
                match $rows {
                    $($size => {
                        const $R: usize = $size;
                        $body
                    })*
                    _ => {
                        const $R: usize = ROWS;
                        $body
                    }
                }
            };
        }
    };
}
block_sizes!(1 2 3 4 6 8);
pub(super) use with_rows;

/// Scores, or probabilities, of a block of rows, `[row][key]`.
pub(super) type Scores = [[f32; KEYS]; ROWS];

/// Rows of a block if `rows` rows remain: the smallest instantiated size for all of them, at most
/// [`ROWS`].
pub(super) fn block_rows(rows: usize) -> usize {
    SIZES.into_iter().find(|size| rows <= *size).unwrap_or(ROWS)
}
