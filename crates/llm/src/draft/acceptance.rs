//! The acceptance rate of drafted tokens, measured.

/// The number of buckets. The last one counts all drafted tokens, each of the others the tokens of
/// a range of the draft's confidence.
pub const BUCKETS: usize = 7;

/// Weight of the prior, in tokens.
const PRIOR_TOKENS: f64 = 4.0;
/// Factor of the counts for each verified token, so that about the last 50 tokens count.
const DECAY: f64 = 0.98;
/// Factor of the counts for each declined draft. After about a hundred the prior dominates, and the
/// draft is tried again.
const DECLINED_DECAY: f64 = 0.985;

/// The acceptance rate of each bucket: a prior, and exponentially decaying counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Acceptance {
    priors: [f64; BUCKETS],
    /// Accepted tokens.
    accepted: [f64; BUCKETS],
    /// Verified tokens, accepted or rejected.
    verified: [f64; BUCKETS],
}

impl Acceptance {
    /// The bucket that counts all tokens.
    pub const ALL: usize = BUCKETS - 1;

    /// Acceptance rates before any token was verified.
    pub fn new(priors: [f64; BUCKETS]) -> Self {
        Self {
            priors,
            accepted: [0.0; BUCKETS],
            verified: [0.0; BUCKETS],
        }
    }

    /// Records a verified token.
    pub fn record(&mut self, bucket: usize, accepted: bool) {
        let all = (bucket != Self::ALL).then_some(Self::ALL);
        for index in std::iter::once(bucket).chain(all).filter(|index| *index < BUCKETS) {
            self.accepted[index] = self.accepted[index] * DECAY + f64::from(u8::from(accepted));
            self.verified[index] = self.verified[index] * DECAY + 1.0;
        }
    }

    /// Records that a draft of this bucket was declined.
    pub fn record_declined(&mut self, bucket: usize) {
        if bucket < BUCKETS {
            self.accepted[bucket] *= DECLINED_DECAY;
            self.verified[bucket] *= DECLINED_DECAY;
        }
    }

    /// The expected acceptance rate of a bucket, from 0 to 1.
    pub fn rate(&self, bucket: usize) -> f64 {
        let index = bucket.min(Self::ALL);
        (self.accepted[index] + self.priors[index] * PRIOR_TOKENS) / (self.verified[index] + PRIOR_TOKENS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_verified_tokens_and_decays_to_the_prior() {
        let mut acceptance = Acceptance::new([0.5; BUCKETS]);
        assert_eq!(acceptance.rate(2), 0.5);
        for _ in 0..200 {
            acceptance.record(2, false);
        }
        assert!(acceptance.rate(2) < 0.05 && acceptance.rate(Acceptance::ALL) < 0.05);
        assert_eq!(acceptance.rate(3), 0.5, "another bucket");
        for _ in 0..400 {
            acceptance.record_declined(2);
        }
        assert!(acceptance.rate(2) > 0.45, "it is tried again");
        for _ in 0..100 {
            acceptance.record(2, true);
        }
        assert!(acceptance.rate(2) > 0.9);
    }
}
