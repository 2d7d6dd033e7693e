//! Merging the GPUs of several sources into one list.

use super::gpu::{Gpu, GpuBackend, Kind, Live, Pci};
use super::memory::Memory;
use hearth_protocol::DeviceCheck;

/// A GPU as seen by one source.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Product name.
    pub name: String,
    /// Kind, as far as the source knows.
    pub kind: Kind,
    /// Vendor id; a PCI vendor id for a card.
    pub vendor: u32,
    /// Device id of the vendor.
    pub device: u32,
    /// PCI address.
    pub pci: Option<Pci>,
    /// UUID of Vulkan and NVIDIA.
    pub uuid: Option<[u8; 16]>,
    /// Its index in wgpu's list.
    pub adapter: Option<usize>,
    /// Backends that can use it.
    pub backend_names: Vec<String>,
    /// Largest buffer binding in bytes.
    pub largest_buffer: Option<u64>,
    /// Its own memory.
    pub memory: Option<Memory>,
    /// Driver name and version.
    pub driver: Option<String>,
    /// API of the driver, with its version.
    pub api: Option<String>,
    /// Utilization from 0 to 1.
    pub load: Option<f32>,
    /// Source of current values.
    pub live: Live,
    /// Why a GPU that only this and later sources see is unusable, in one sentence.
    pub why_not: String,
}

impl Seen {
    /// Confidence that both are the same GPU; 0 means different.
    fn similarity(&self, other: &Self) -> u8 {
        fn agree<T: PartialEq>(a: Option<T>, b: Option<T>) -> Option<bool> {
            Some(a? == b?)
        }
        let models = (self.vendor, self.device) == (other.vendor, other.device);
        match (agree(self.pci, other.pci), agree(self.uuid, other.uuid)) {
            (Some(same), _) | (None, Some(same)) => 3 * u8::from(same),
            (None, None) if models => 1 + u8::from(self.name == other.name),
            _ => 0,
        }
    }

    /// Fills missing values from another source of the same GPU. Later sources measure memory
    /// better.
    fn absorb(&mut self, other: Self) {
        self.pci = self.pci.or(other.pci);
        self.uuid = self.uuid.or(other.uuid);
        self.driver = self.driver.take().or(other.driver);
        self.api = self.api.take().or(other.api);
        self.load = other.load.or(self.load);
        self.backend_names.extend(other.backend_names);
        self.largest_buffer = self.largest_buffer.or(other.largest_buffer);
        // The kernel reports only a small part of the memory that an integrated GPU uses.
        if self.kind == Kind::Discrete {
            self.memory = other.memory.or(self.memory);
            self.live = if other.live == Live::Unavailable {
                self.live
            } else {
                other.live
            };
        } else {
            self.memory = self.memory.or(other.memory);
        }
    }
}

/// Merges the sources, best source first; `main` is main memory.
pub fn merge(sources: Vec<Vec<Seen>>, main: Option<Memory>) -> Vec<Gpu> {
    let mut all: Vec<Seen> = Vec::new();
    for source in sources {
        let known = all.len();
        // Each entry of a source is a different GPU, so it matches one that no other entry of the
        // source has matched.
        let mut taken = vec![false; known];
        let mut left: Vec<Option<Seen>> = source.into_iter().map(Some).collect();
        for sure in [3, 2, 1] {
            for slot in &mut left {
                let found = slot
                    .as_ref()
                    .and_then(|seen| (0..known).find(|&at| !taken[at] && all[at].similarity(seen) == sure));
                if let Some(at) = found
                    && let Some(seen) = slot.take()
                {
                    taken[at] = true;
                    all[at].absorb(seen);
                }
            }
        }
        all.extend(left.into_iter().flatten());
    }
    all.sort_by_key(|seen| (seen.kind, seen.pci, seen.adapter.unwrap_or(usize::MAX)));
    let mut gpus: Vec<Gpu> = all.into_iter().map(|seen| settle(seen, main)).collect();
    number(&mut gpus);
    gpus
}

/// Assigns ids and identities. Equal identities are numbered.
fn number(gpus: &mut [Gpu]) {
    let mut names: Vec<String> = Vec::new();
    for (index, gpu) in gpus.iter_mut().enumerate() {
        gpu.id = format!("gpu{index}");
        let name = gpu.pci.map_or_else(|| gpu.name.clone(), |pci| pci.to_string());
        let before = names.iter().filter(|other| **other == name).count();
        gpu.identity = match before {
            0 => name.clone(),
            _ => format!("{name} #{}", before + 1),
        };
        names.push(name);
    }
}

/// Joins the lists of all builds, in the same order in every build. `own` is this build. GPUs that
/// only others can open have no adapter index.
pub fn join(own: &str, seen: Vec<(&str, Vec<Gpu>)>) -> Vec<Gpu> {
    let mut all: Vec<Gpu> = Vec::new();
    for (build, gpus) in seen {
        for mut gpu in gpus {
            let (adapter, largest_buffer) = (gpu.adapter.take(), gpu.largest_buffer);
            let option = adapter.filter(|_| gpu.usable).map(|adapter| GpuBackend {
                build: build.to_owned(),
                adapter,
                backend: gpu.backend_names.first().cloned().unwrap_or_default(),
                check: None,
                largest_buffer,
            });
            let at = all.iter().position(|known| known.identity == gpu.identity);
            let known = match at {
                Some(at) => {
                    gpu.backend_names
                        .retain(|backend| !all[at].backend_names.contains(backend));
                    all[at].backend_names.append(&mut gpu.backend_names);
                    &mut all[at]
                }
                None => all.push_mut(gpu),
            };
            known.backends.extend(option);
            if build == own {
                known.adapter = adapter;
                known.largest_buffer = largest_buffer.or(known.largest_buffer);
            }
        }
    }
    all.sort_by(|a, b| (a.kind, a.pci, &a.identity).cmp(&(b.kind, b.pci, &b.identity)));
    for (index, gpu) in all.iter_mut().enumerate() {
        gpu.id = format!("gpu{index}");
    }
    all
}

/// Sorts a GPU's builds by their checks, and sets whether the GPU is usable.
pub fn rank(gpu: &mut Gpu, own: &str) {
    gpu.backends.sort_by(|a, b| {
        let seconds = |option: &GpuBackend| option.check.as_ref().map_or(f64::INFINITY, DeviceCheck::turn_seconds);
        let key = |option: &GpuBackend| (option.mismatch().is_some(), option.build != own);
        let (mismatch_a, other_a) = key(a);
        let (mismatch_b, other_b) = key(b);
        mismatch_a
            .cmp(&mismatch_b)
            .then(seconds(a).total_cmp(&seconds(b)))
            .then(other_a.cmp(&other_b))
    });
    let Some(best) = gpu.backends.first() else { return };
    if let Some(mismatch) = best.mismatch() {
        gpu.usable = false;
        gpu.why = mismatch.to_owned();
        return;
    }
    gpu.usable = true;
    if gpu.kind != Kind::Software {
        gpu.why = can_be_used(&gpu.backend_names);
    }
}

/// The merged GPU.
fn settle(seen: Seen, main: Option<Memory>) -> Gpu {
    let (usable, why) = verdict(&seen);
    let api = seen.api.or_else(|| {
        seen.backend_names
            .first()
            .map(|backend| display_name(backend).to_owned())
    });
    let memory = match (seen.kind, seen.memory, main) {
        (Kind::Discrete, own, _) => own,
        (Kind::Integrated, Some(own), Some(main)) => Some(Memory {
            total: own.total.min(main.total),
            free: own.free.min(main.free),
        }),
        (Kind::Integrated, own, main) => own.or(main),
        (Kind::Software, _, main) => main,
    };
    let mut gpu = Gpu {
        kind: seen.kind,
        name: seen.name,
        vendor: seen.vendor,
        device: seen.device,
        pci: seen.pci,
        adapter: seen.adapter,
        backend_names: seen.backend_names,
        largest_buffer: seen.largest_buffer,
        driver: seen.driver,
        api,
        load: seen.load,
        usable,
        why,
        live: seen.live,
        ..Gpu::default()
    };
    gpu.set_memory(memory);
    gpu
}

/// Whether a model can run on it if requested, and the reason.
fn verdict(seen: &Seen) -> (bool, String) {
    if seen.backend_names.is_empty() {
        return (false, seen.why_not.clone());
    }
    if seen.kind != Kind::Software {
        return (true, can_be_used(&seen.backend_names));
    }
    if cfg!(feature = "vulkan") {
        let why = "A software renderer on the CPU, which this build of Hearth cannot use.";
        return (false, why.to_owned());
    }
    let why = "A software renderer on the CPU; never selected automatically.";
    (true, why.to_owned())
}

fn can_be_used(backend_names: &[String]) -> String {
    let names: Vec<_> = backend_names.iter().map(|backend| display_name(backend)).collect();
    format!("Hearth can use it through {}.", names.join(" or "))
}

/// Display name of a backend.
fn display_name(backend: &str) -> &str {
    match backend {
        "vulkan" => "Vulkan",
        "metal" => "Metal",
        "dx12" => "DirectX 12",
        "cuda" => "CUDA",
        "rocm" => "ROCm",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const MAIN: Option<Memory> = Some(Memory {
        total: 16 * GIB,
        free: 9 * GIB,
    });

    /// A card in this slot with this many GiB, all free.
    fn card(slot: &str, gib: u64) -> Seen {
        Seen {
            name: "Card".to_owned(),
            vendor: 0x10de,
            device: 0x2684,
            pci: slot.parse().ok(),
            memory: (gib > 0).then_some(Memory {
                total: gib * GIB,
                free: gib * GIB,
            }),
            ..Seen::default()
        }
    }

    fn adapter(index: usize, backend_names: &[&str], seen: Seen) -> Seen {
        Seen {
            adapter: Some(index),
            backend_names: backend_names.iter().map(|&backend| backend.to_owned()).collect(),
            ..seen
        }
    }

    #[test]
    fn a_card_seen_by_all_sources_is_one_gpu() {
        let gpus = merge(
            vec![
                vec![adapter(0, &["vulkan", "dx12"], card("0000:01:00.0", 0))],
                vec![card("0000:01:00.0", 23)],
                vec![Seen {
                    live: Live::Nvml,
                    driver: Some("NVIDIA 550".to_owned()),
                    load: Some(0.5),
                    ..card("00000000:01:00.0", 24)
                }],
            ],
            MAIN,
        );
        assert_eq!(gpus.len(), 1, "{gpus:#?}");
        let gpu = &gpus[0];
        assert_eq!((gpu.id.as_str(), gpu.adapter, gpu.live), ("gpu0", Some(0), Live::Nvml));
        assert_eq!(gpu.backend_names, ["vulkan", "dx12"]);
        assert_eq!((gpu.memory_total, gpu.load), (Some(24 * GIB), Some(0.5)));
        assert!(gpu.usable && gpu.why.contains("Vulkan or DirectX 12"), "{}", gpu.why);
    }

    #[test]
    fn equal_cards_stay_apart_and_keep_their_own_memory() {
        // Wgpu knows only the second's slot, so the first is the remaining one.
        let gpus = merge(
            vec![
                vec![
                    adapter(0, &["dx12"], card("", 0)),
                    adapter(1, &["dx12"], card("0000:02:00.0", 0)),
                ],
                vec![card("0000:02:00.0", 8), card("0000:01:00.0", 4)],
            ],
            MAIN,
        );
        let found: Vec<_> = gpus.iter().map(|gpu| (gpu.adapter, gpu.memory_total)).collect();
        assert_eq!(found, [(Some(0), Some(4 * GIB)), (Some(1), Some(8 * GIB))]);
    }

    #[test]
    fn software_comes_last_has_main_memory_and_must_be_named() {
        let software = Seen {
            kind: Kind::Software,
            vendor: 1,
            ..card("", 2)
        };
        let integrated = Seen {
            kind: Kind::Integrated,
            vendor: 2,
            ..card("0000:00:02.0", 12)
        };
        let gpus = merge(
            vec![vec![
                adapter(0, &["vulkan"], software),
                adapter(1, &["vulkan"], integrated),
            ]],
            MAIN,
        );
        let [integrated, software] = gpus.as_slice() else {
            panic!("{gpus:#?}")
        };
        assert_eq!((integrated.adapter, integrated.kind), (Some(1), Kind::Integrated));
        assert!(integrated.usable);
        assert_eq!(
            (integrated.memory_total, integrated.memory_free),
            (Some(12 * GIB), Some(9 * GIB))
        );
        assert_eq!((software.kind, software.memory_total), (Kind::Software, Some(16 * GIB)));
        assert_eq!(software.kind, Kind::Software);
        assert_eq!(software.usable, !cfg!(feature = "vulkan"));
    }

    /// Builds may have different buffer limits; each plans with its own.
    #[test]
    fn the_largest_buffer_is_this_builds() {
        let sees = |bytes| {
            let seen = Seen {
                largest_buffer: Some(bytes),
                ..adapter(0, &["vulkan"], card("0000:01:00.0", 8))
            };
            merge(vec![vec![seen], vec![card("0000:01:00.0", 8)]], MAIN)
        };
        let joined = |own| join(own, vec![("portable", sees(GIB / 8)), ("cuda", sees(2 * GIB))]);
        assert_eq!(joined("portable")[0].info().largest_buffer, Some(GIB / 8));
        assert_eq!(joined("cuda")[0].info().largest_buffer, Some(2 * GIB));
    }

    #[test]
    fn an_unusable_card_has_a_reason() {
        let lonely = Seen {
            why_not: "No driver.".to_owned(),
            ..card("0000:01:00.0", 0)
        };
        let gpus = merge(vec![vec![], vec![lonely]], MAIN);
        assert_eq!((gpus[0].usable, gpus[0].why.as_str()), (false, "No driver."));
        assert_eq!(gpus[0].info().backend, "");
    }

    #[test]
    fn an_identity_is_the_pci_address_or_the_name() {
        let nameless = |at| adapter(at, &["metal"], card("", 8));
        let gpus = merge(
            vec![vec![
                nameless(0),
                adapter(1, &["vulkan"], card("0000:01:00.0", 8)),
                nameless(2),
            ]],
            MAIN,
        );
        let names: Vec<_> = gpus.iter().map(|gpu| gpu.identity.as_str()).collect();
        assert_eq!(names, ["Card", "Card #2", "0000:01:00.0"]);
    }

    /// The lists of two builds, joined and ranked by checks.
    #[test]
    fn builds_share_a_list_and_the_fastest_correct_one_is_preferred() {
        let sees = |backend: &str, slots: &[&str]| {
            let adapters = slots.iter().enumerate();
            let seen = adapters.map(|(at, slot)| adapter(at, &[backend], card(slot, 8)));
            merge(vec![seen.collect()], MAIN)
        };
        let joined = |own| {
            let vulkan = sees("vulkan", &["0000:01:00.0", "0000:03:00.0"]);
            let cuda = sees("cuda", &["0000:02:00.0", "0000:01:00.0"]);
            join(own, vec![("portable", vulkan), ("cuda", cuda)])
        };
        let (here, there) = (joined("portable"), joined("cuda"));
        let ids = |gpus: &[Gpu]| {
            gpus.iter()
                .map(|gpu| (gpu.id.clone(), gpu.identity.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(&here), ids(&there), "every build assigns the same ids");
        assert_eq!(here.len(), 3);
        let adapters: Vec<_> = here.iter().map(|gpu| gpu.adapter).collect();
        assert_eq!(
            adapters,
            [Some(0), None, Some(1)],
            "a GPU of another build has no adapter index"
        );
        assert_eq!(here[0].backend_names, ["vulkan", "cuda"]);

        let found = |seconds: f64, mismatch: Option<&str>| DeviceCheck {
            mismatch: mismatch.map(str::to_owned),
            bytes_per_second: 1e12 / seconds,
            macs_per_second: 1e12 / seconds,
            ..DeviceCheck::default()
        };
        let ranked = |portable: Option<DeviceCheck>, cuda: Option<DeviceCheck>| {
            let mut gpu = here[0].clone();
            (gpu.backends[0].check, gpu.backends[1].check) = (portable, cuda);
            rank(&mut gpu, "portable");
            (gpu.backends[0].build.clone(), gpu.usable, gpu.why)
        };
        let says = |ranked: (String, bool, String), build: &str, usable: bool| {
            assert_eq!((ranked.0.as_str(), ranked.1), (build, usable), "{}", ranked.2);
        };
        says(ranked(None, None), "portable", true);
        says(ranked(Some(found(2.0, None)), Some(found(1.0, None))), "cuda", true);
        says(ranked(Some(found(2.0, None)), Some(found(3.0, None))), "portable", true);
        says(ranked(None, Some(found(3.0, None))), "cuda", true);
        says(ranked(None, Some(found(0.0, Some("Wrong.")))), "portable", true);
        let (_, usable, why) = ranked(Some(found(1.0, Some("All wrong."))), Some(found(2.0, Some("Wrong."))));
        assert_eq!((usable, why.as_str()), (false, "All wrong."));
    }
}
