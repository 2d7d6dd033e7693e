//! The measured share of drafted tokens that were accepted.

/// Tokens are counted apart by how sure the draft was. The last bucket counts all of them.
pub const BUCKETS: usize = 7;

/// Weight of the prior, in tokens.
const PRIOR_TOKENS: f64 = 4.0;
/// Weight of earlier tokens after another one: about the last 50 count.
const DECAY: f64 = 0.98;
/// Weight of the evidence after a draft was declined: after about a hundred of them the prior
/// decides, and the draft is tried again.
const DECLINED_DECAY: f64 = 0.985;

/// The share of accepted tokens in each bucket: a prior, and the tokens seen lately.
#[derive(Debug, Clone, PartialEq)]
pub struct Acceptance {
    priors: [f64; BUCKETS],
    accepted: [f64; BUCKETS],
    seen: [f64; BUCKETS],
}

impl Acceptance {
    /// The bucket that counts all tokens.
    pub const ALL: usize = BUCKETS - 1;

    /// Nothing seen yet.
    pub fn new(priors: [f64; BUCKETS]) -> Self {
        Self {
            priors,
            accepted: [0.0; BUCKETS],
            seen: [0.0; BUCKETS],
        }
    }

    /// Records a verified token.
    pub fn record(&mut self, bucket: usize, accepted: bool) {
        let all = (bucket != Self::ALL).then_some(Self::ALL);
        for at in std::iter::once(bucket).chain(all).filter(|at| *at < BUCKETS) {
            self.accepted[at] = self.accepted[at] * DECAY + f64::from(u8::from(accepted));
            self.seen[at] = self.seen[at] * DECAY + 1.0;
        }
    }

    /// Records that a draft of this bucket was declined.
    pub fn record_declined(&mut self, bucket: usize) {
        if bucket < BUCKETS {
            self.accepted[bucket] *= DECLINED_DECAY;
            self.seen[bucket] *= DECLINED_DECAY;
        }
    }

    /// The expected share of accepted tokens of a bucket, from 0 to 1.
    pub fn share(&self, bucket: usize) -> f64 {
        let at = bucket.min(Self::ALL);
        (self.accepted[at] + self.priors[at] * PRIOR_TOKENS) / (self.seen[at] + PRIOR_TOKENS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_moves_from_the_prior_to_what_was_seen_and_back() {
        let mut acceptance = Acceptance::new([0.5; BUCKETS]);
        assert_eq!(acceptance.share(2), 0.5);
        for _ in 0..200 {
            acceptance.record(2, false);
        }
        assert!(acceptance.share(2) < 0.05 && acceptance.share(Acceptance::ALL) < 0.05);
        assert_eq!(acceptance.share(3), 0.5, "another bucket");
        for _ in 0..400 {
            acceptance.record_declined(2);
        }
        assert!(acceptance.share(2) > 0.45, "it is tried again");
        for _ in 0..100 {
            acceptance.record(2, true);
        }
        assert!(acceptance.share(2) > 0.9);
    }
}
