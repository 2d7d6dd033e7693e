//! Blocks of query rows and keys that attention processes at once.

/// Keys processed at once: few enough for the scores of a block of rows to stay in L1, enough to
/// amortise the cost of the running maximum.
pub(super) const KEYS: usize = 128;
/// Maximum query rows of a block.
pub(super) const ROWS: usize = 12;

/// Instantiates a body with the rows of a block as a constant, for each of the [`SIZES`].
macro_rules! of_rows {
    ($($size:literal)*) => {
        /// Instantiated row counts of a block: one token has as many rows as query heads share a KV
        /// head.
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
of_rows!(1 2 3 4 6 8);
pub(super) use with_rows;

/// Scores, or probabilities, of a block of rows.
pub(super) type Scores = [[f32; KEYS]; ROWS];

/// Rows of a block when `rows` are left: the smallest instantiated size that holds them all, at
/// most [`ROWS`].
pub(super) fn block_rows(rows: usize) -> usize {
    SIZES.into_iter().find(|size| rows <= *size).unwrap_or(ROWS)
}
