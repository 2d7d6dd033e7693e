//! Which layers lie on which device.
//!
//! Layers are counted as llama.cpp does: every block, those that predict further tokens included,
//! then the output layer. The last ones go to GPUs first; the token embedding stays with the
//! processor. One value says what is planned, what is placed and what is told.

/// Where something lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Place {
    /// With the processor.
    #[default]
    Cpu,
    /// On the GPU of this number.
    Gpu(usize),
}

/// How many layers a GPU has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The number of the GPU.
    pub gpu: usize,
    /// Layers.
    pub layers: usize,
}

/// Which layers lie on GPUs, of a model of so many.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    layers: usize,
    /// From the first layer on a GPU to the last layer.
    shares: Vec<Share>,
}

impl Placement {
    /// Everything with the processor.
    pub fn cpu(layers: usize) -> Self {
        Self {
            layers,
            shares: Vec::new(),
        }
    }

    /// The last `wanted` of `layers` layers on these GPUs, in their order, to each according to its
    /// weight (its free memory, say). More than there are means all.
    pub fn offload(layers: usize, wanted: usize, gpus: &[(usize, u64)]) -> Self {
        let wanted = wanted.min(layers);
        let total: u128 = gpus.iter().map(|(_, weight)| u128::from(*weight).max(1)).sum();
        let (mut before, mut given) = (0, 0);
        let shares = gpus.iter().map(|(gpu, weight)| {
            before += u128::from(*weight).max(1);
            // What the GPUs up to this one have together, so that rounding loses no layer.
            let until = (wanted as u128 * before / total.max(1)) as usize;
            let share = Share {
                gpu: *gpu,
                layers: until - given,
            };
            given = until;
            share
        });
        let shares: Vec<_> = shares.filter(|share| share.layers > 0).collect();
        Self { layers, shares }
    }

    /// Layers in all: the blocks and the output layer.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// Layers on GPUs.
    pub fn gpu_layers(&self) -> usize {
        self.shares.iter().map(|share| share.layers).sum()
    }

    /// The GPUs that have layers.
    pub fn gpus(&self) -> impl Iterator<Item = usize> {
        self.shares.iter().map(|share| share.gpu)
    }

    /// Where a layer lies: a block by its number, the output layer as the one after the last block.
    pub fn of(&self, layer: usize) -> Place {
        let mut first = self.layers - self.gpu_layers();
        for share in &self.shares {
            if (first..first + share.layers).contains(&layer) {
                return Place::Gpu(share.gpu);
            }
            first += share.layers;
        }
        Place::Cpu
    }

    /// Where the output layer lies.
    pub fn output(&self) -> Place {
        self.of(self.layers.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(placement: &Placement) -> Vec<Place> {
        (0..placement.layers()).map(|layer| placement.of(layer)).collect()
    }

    /// <https://github.com/ggml-org/llama.cpp/pull/24208>: with `n` layers the first one on the GPU is
    /// `max(n + 1 - wanted, 0)`.
    #[test]
    fn the_last_layers_go_first() {
        for blocks in 1..6 {
            for wanted in 0..blocks + 4 {
                let placement = Placement::offload(blocks + 1, wanted, &[(3, 10)]);
                let first = (blocks + 1).saturating_sub(wanted);
                let expected: Vec<_> = (0..=blocks)
                    .map(|layer| if layer < first { Place::Cpu } else { Place::Gpu(3) })
                    .collect();
                assert_eq!(places(&placement), expected, "{wanted} of {blocks} blocks");
                assert_eq!(placement.gpu_layers(), wanted.min(blocks + 1));
            }
        }
    }

    #[test]
    fn several_gpus_share_by_weight() {
        let of = |wanted, gpus: &[(usize, u64)]| places(&Placement::offload(5, wanted, gpus));
        let [cpu, zero, one] = [Place::Cpu, Place::Gpu(0), Place::Gpu(1)];
        assert_eq!(of(5, &[(0, 40), (1, 10)]), [zero, zero, zero, zero, one]);
        assert_eq!(of(3, &[(1, 1), (0, 1)]), [cpu, cpu, one, zero, zero]);
        assert_eq!(of(1, &[(0, 7), (1, 7)]), [cpu, cpu, cpu, cpu, one]);
        assert_eq!(of(9, &[(0, 0), (1, u64::MAX)]), [one; 5]);
        assert_eq!(of(4, &[]), [cpu; 5]);
    }
}
