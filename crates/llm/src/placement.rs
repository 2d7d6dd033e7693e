//! The assignment of layers to devices.
//!
//! Layers are counted as in llama.cpp: transformer layers, layers for multi-token prediction, then
//! the output layer. The last layers are offloaded first, and the token embedding is always on the
//! CPU. The plan, the loader and the report to the user share one [`Placement`].

use std::iter;
use std::ops::Range;

/// The device of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Place {
    /// The CPU.
    #[default]
    Cpu,
    /// The GPU with this number.
    Gpu(usize),
}

/// The number of layers on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The number of the GPU.
    pub gpu: usize,
    /// The number of layers.
    pub layers: usize,
}

/// The devices of a model's layers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    layers: usize,
    /// The GPUs, in the order of their layers.
    shares: Vec<Share>,
}

impl Placement {
    /// All layers on the CPU.
    pub fn cpu(layers: usize) -> Self {
        Self {
            layers,
            shares: Vec::new(),
        }
    }

    /// Offloads the last `offloaded` of `layers` layers to GPUs, at most all. Each GPU is given as
    /// a number and a weight, such as its free memory. The layers are split in this order and in
    /// proportion to the weights.
    pub fn offload(layers: usize, offloaded: usize, gpus: &[(usize, u64)]) -> Self {
        let offloaded = offloaded.min(layers);
        let total: u128 = gpus.iter().map(|(_, weight)| u128::from(*weight).max(1)).sum();
        let (mut cumulative, mut assigned) = (0, 0);
        let shares = gpus.iter().map(|(gpu, weight)| {
            cumulative += u128::from(*weight).max(1);
            // From cumulative weights, so that rounding loses no layer.
            let end = (offloaded as u128 * cumulative / total.max(1)) as usize;
            let share = Share {
                gpu: *gpu,
                layers: end - assigned,
            };
            assigned = end;
            share
        });
        let shares: Vec<_> = shares.filter(|share| share.layers > 0).collect();
        Self { layers, shares }
    }

    /// The number of all layers, including the output layer.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// The number of layers on GPUs.
    pub fn gpu_layers(&self) -> usize {
        self.shares.iter().map(|share| share.layers).sum()
    }

    /// The GPUs that have layers.
    pub fn gpus(&self) -> impl Iterator<Item = usize> {
        self.shares.iter().map(|share| share.gpu)
    }

    /// The device of a layer. The output layer has the last index.
    pub fn place(&self, layer: usize) -> Place {
        self.ranges()
            .find(|(_, layers)| layers.contains(&layer))
            .map_or(Place::Cpu, |(place, _)| place)
    }

    /// The layers on a device.
    pub fn on(&self, place: Place) -> Range<usize> {
        self.ranges()
            .find(|(other, _)| *other == place)
            .map_or(0..0, |(_, layers)| layers)
    }

    /// The layers on each device, the CPU first.
    fn ranges(&self) -> impl Iterator<Item = (Place, Range<usize>)> {
        let mut end = self.layers - self.gpu_layers();
        let cpu = (Place::Cpu, 0..end);
        iter::once(cpu).chain(self.shares.iter().map(move |share| {
            let start = end;
            end += share.layers;
            (Place::Gpu(share.gpu), start..end)
        }))
    }

    /// The device of the output layer.
    pub fn output(&self) -> Place {
        self.place(self.layers.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(placement: &Placement) -> Vec<Place> {
        (0..placement.layers()).map(|layer| placement.place(layer)).collect()
    }

    /// As in <https://github.com/ggml-org/llama.cpp/pull/24208>: of `n` transformer layers, the
    /// first one on the GPU is `max(n + 1 - offloaded, 0)`.
    #[test]
    fn the_last_layers_go_first() {
        for layers in 1..6 {
            for offloaded in 0..layers + 4 {
                let placement = Placement::offload(layers + 1, offloaded, &[(3, 10)]);
                let first = (layers + 1).saturating_sub(offloaded);
                let expected: Vec<_> = (0..=layers)
                    .map(|layer| if layer < first { Place::Cpu } else { Place::Gpu(3) })
                    .collect();
                assert_eq!(places(&placement), expected, "{offloaded} of {layers} layers");
                assert_eq!(placement.gpu_layers(), offloaded.min(layers + 1));
            }
        }
    }

    #[test]
    fn each_layer_is_on_its_device() {
        for offloaded in 0..8 {
            let placement = Placement::offload(6, offloaded, &[(2, 30), (0, 10), (7, 1)]);
            for place in [Place::Cpu, Place::Gpu(0), Place::Gpu(1), Place::Gpu(2), Place::Gpu(7)] {
                let expected: Vec<_> = (0..6).filter(|layer| placement.place(*layer) == place).collect();
                assert_eq!(
                    placement.on(place).collect::<Vec<_>>(),
                    expected,
                    "{offloaded} {place:?}"
                );
            }
        }
    }

    #[test]
    fn several_gpus_share_by_weight() {
        let offload = |offloaded, gpus: &[(usize, u64)]| places(&Placement::offload(5, offloaded, gpus));
        let [cpu, gpu0, gpu1] = [Place::Cpu, Place::Gpu(0), Place::Gpu(1)];
        assert_eq!(offload(5, &[(0, 40), (1, 10)]), [gpu0, gpu0, gpu0, gpu0, gpu1]);
        assert_eq!(offload(3, &[(1, 1), (0, 1)]), [cpu, cpu, gpu1, gpu0, gpu0]);
        assert_eq!(offload(1, &[(0, 7), (1, 7)]), [cpu, cpu, cpu, cpu, gpu1]);
        assert_eq!(offload(9, &[(0, 0), (1, u64::MAX)]), [gpu1; 5]);
        assert_eq!(offload(4, &[]), [cpu; 5]);
    }
}
