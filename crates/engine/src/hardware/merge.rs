//! Merges the GPUs that several sources report into one list.

use super::gpu::{Gpu, GpuBackend, Kind, Live, Pci};
use super::memory::Memory;
use hearth_protocol::{DeviceCheck, DeviceStatus};

/// A GPU as one source reports it.
#[derive(Debug, Clone, Default)]
pub struct SourceGpu {
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
    /// Its index in the list of this build's backend.
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
    /// The reason why a GPU is unusable that no earlier source reports.
    pub unusable: DeviceStatus,
}

impl SourceGpu {
    /// Confidence that both are the same GPU, from 1 to 3. 0 means that they are different.
    fn similarity(&self, other: &Self) -> u8 {
        fn equal<T: PartialEq>(a: Option<T>, b: Option<T>) -> Option<bool> {
            Some(a? == b?)
        }
        let same_model = (self.vendor, self.device) == (other.vendor, other.device);
        match (equal(self.pci, other.pci), equal(self.uuid, other.uuid)) {
            (Some(same), _) | (None, Some(same)) => 3 * u8::from(same),
            (None, None) if same_model => 1 + u8::from(self.name == other.name),
            _ => 0,
        }
    }

    /// Fills in missing values from another source of the same GPU. Memory and utilization are
    /// taken from the later source, which measures them more accurately.
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

/// Merges the sources, of which the first is the most reliable.
pub fn merge(sources: Vec<Vec<SourceGpu>>, main_memory: Option<Memory>) -> Vec<Gpu> {
    let mut merged: Vec<SourceGpu> = Vec::new();
    for source in sources {
        let earlier = merged.len();
        // The entries of a source are different GPUs, so each of them matches another merged GPU.
        let mut is_matched = vec![false; earlier];
        let mut unmatched: Vec<Option<SourceGpu>> = source.into_iter().map(Some).collect();
        for similarity in [3, 2, 1] {
            for slot in &mut unmatched {
                let index = slot.as_ref().and_then(|gpu| {
                    (0..earlier).find(|&index| !is_matched[index] && merged[index].similarity(gpu) == similarity)
                });
                if let Some(index) = index
                    && let Some(gpu) = slot.take()
                {
                    is_matched[index] = true;
                    merged[index].absorb(gpu);
                }
            }
        }
        merged.extend(unmatched.into_iter().flatten());
    }
    merged.sort_by_key(|gpu| (gpu.kind, gpu.pci, gpu.adapter.unwrap_or(usize::MAX)));
    let mut gpus: Vec<Gpu> = merged.into_iter().map(|gpu| into_gpu(gpu, main_memory)).collect();
    number(&mut gpus);
    gpus
}

/// Assigns ids and identities. Equal identities get numbers.
fn number(gpus: &mut [Gpu]) {
    let mut names: Vec<String> = Vec::new();
    for (index, gpu) in gpus.iter_mut().enumerate() {
        gpu.id = format!("gpu{index}");
        let name = gpu.pci.map_or_else(|| gpu.name.clone(), |pci| pci.to_string());
        let duplicates = names.iter().filter(|other| **other == name).count();
        gpu.identity = match duplicates {
            0 => name.clone(),
            _ => format!("{name} #{}", duplicates + 1),
        };
        names.push(name);
    }
}

/// Joins the lists of all builds, in the same order in every build. `own` is this build. A GPU that
/// only other builds can open has no adapter index.
pub fn join(own: &str, lists: Vec<(&str, Vec<Gpu>)>) -> Vec<Gpu> {
    let mut all: Vec<Gpu> = Vec::new();
    for (build, gpus) in lists {
        for mut gpu in gpus {
            let (adapter, largest_buffer) = (gpu.adapter.take(), gpu.largest_buffer);
            let backend = adapter.filter(|_| gpu.usable).map(|adapter| GpuBackend {
                build: build.to_owned(),
                adapter,
                backend: gpu.backend_names.first().cloned().unwrap_or_default(),
                check: None,
                largest_buffer,
            });
            let index = all.iter().position(|joined| joined.identity == gpu.identity);
            let joined = match index {
                Some(index) => {
                    gpu.backend_names
                        .retain(|backend| !all[index].backend_names.contains(backend));
                    all[index].backend_names.append(&mut gpu.backend_names);
                    &mut all[index]
                }
                None => all.push_mut(gpu),
            };
            joined.backends.extend(backend);
            if build == own {
                joined.adapter = adapter;
                joined.largest_buffer = largest_buffer.or(joined.largest_buffer);
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
        gpu.status = DeviceStatus::Mismatch {
            mismatch: mismatch.clone(),
        };
        return;
    }
    gpu.usable = true;
    if gpu.kind != Kind::Software {
        gpu.status = usable_through(&gpu.backend_names);
    }
}

/// Converts a merged GPU, and limits shared memory to main memory.
fn into_gpu(source: SourceGpu, main_memory: Option<Memory>) -> Gpu {
    let (usable, status) = verdict(&source);
    let api = source.api.or_else(|| {
        source
            .backend_names
            .first()
            .map(|backend| display_name(backend).to_owned())
    });
    let memory = match (source.kind, source.memory, main_memory) {
        (Kind::Discrete, own, _) => own,
        (Kind::Integrated, Some(own), Some(main)) => Some(Memory {
            total: own.total.min(main.total),
            free: own.free.min(main.free),
        }),
        (Kind::Integrated, own, main) => own.or(main),
        (Kind::Software, _, main) => main,
    };
    let mut gpu = Gpu {
        kind: source.kind,
        name: source.name,
        vendor: source.vendor,
        device: source.device,
        pci: source.pci,
        adapter: source.adapter,
        backend_names: source.backend_names,
        largest_buffer: source.largest_buffer,
        driver: source.driver,
        api,
        load: source.load,
        usable,
        status,
        live: source.live,
        ..Gpu::default()
    };
    gpu.set_memory(memory);
    gpu
}

/// Whether a model can run on the GPU if it is requested, and the reason.
fn verdict(gpu: &SourceGpu) -> (bool, DeviceStatus) {
    if gpu.backend_names.is_empty() {
        (false, gpu.unusable.clone())
    } else if gpu.kind != Kind::Software {
        (true, usable_through(&gpu.backend_names))
    } else if cfg!(feature = "vulkan") {
        (false, DeviceStatus::SoftwareUnusable)
    } else {
        (true, DeviceStatus::Software)
    }
}

fn usable_through(backend_names: &[String]) -> DeviceStatus {
    let apis = backend_names.iter().map(|backend| display_name(backend).to_owned());
    DeviceStatus::Usable { apis: apis.collect() }
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
    use hearth_protocol::Mismatch;

    const GIB: u64 = 1 << 30;
    const MAIN_MEMORY: Option<Memory> = Some(Memory {
        total: 16 * GIB,
        free: 9 * GIB,
    });

    /// A card in this slot with this many GiB, all free.
    fn card(slot: &str, gib: u64) -> SourceGpu {
        SourceGpu {
            name: "Card".to_owned(),
            vendor: 0x10de,
            device: 0x2684,
            pci: slot.parse().ok(),
            memory: (gib > 0).then_some(Memory {
                total: gib * GIB,
                free: gib * GIB,
            }),
            ..SourceGpu::default()
        }
    }

    fn adapter(index: usize, backend_names: &[&str], gpu: SourceGpu) -> SourceGpu {
        SourceGpu {
            adapter: Some(index),
            backend_names: backend_names.iter().map(|&backend| backend.to_owned()).collect(),
            ..gpu
        }
    }

    #[test]
    fn a_card_seen_by_all_sources_is_one_gpu() {
        let gpus = merge(
            vec![
                vec![adapter(0, &["vulkan", "dx12"], card("0000:01:00.0", 0))],
                vec![card("0000:01:00.0", 23)],
                vec![SourceGpu {
                    live: Live::Nvml,
                    driver: Some("NVIDIA 550".to_owned()),
                    load: Some(0.5),
                    ..card("00000000:01:00.0", 24)
                }],
            ],
            MAIN_MEMORY,
        );
        assert_eq!(gpus.len(), 1, "{gpus:#?}");
        let gpu = &gpus[0];
        assert_eq!((gpu.id.as_str(), gpu.adapter, gpu.live), ("gpu0", Some(0), Live::Nvml));
        assert_eq!(gpu.backend_names, ["vulkan", "dx12"]);
        assert_eq!((gpu.memory_total, gpu.load), (Some(24 * GIB), Some(0.5)));
        let apis = vec!["Vulkan".to_owned(), "DirectX 12".to_owned()];
        assert!(gpu.usable);
        assert_eq!(gpu.status, DeviceStatus::Usable { apis });
    }

    #[test]
    fn equal_cards_stay_apart_and_keep_their_own_memory() {
        // wgpu reports the slot of the second card only, so the first card has the other slot.
        let gpus = merge(
            vec![
                vec![
                    adapter(0, &["dx12"], card("", 0)),
                    adapter(1, &["dx12"], card("0000:02:00.0", 0)),
                ],
                vec![card("0000:02:00.0", 8), card("0000:01:00.0", 4)],
            ],
            MAIN_MEMORY,
        );
        let actual: Vec<_> = gpus.iter().map(|gpu| (gpu.adapter, gpu.memory_total)).collect();
        assert_eq!(actual, [(Some(0), Some(4 * GIB)), (Some(1), Some(8 * GIB))]);
    }

    #[test]
    fn software_comes_last_has_main_memory_and_must_be_named() {
        let software = SourceGpu {
            kind: Kind::Software,
            vendor: 1,
            ..card("", 2)
        };
        let integrated = SourceGpu {
            kind: Kind::Integrated,
            vendor: 2,
            ..card("0000:00:02.0", 12)
        };
        let gpus = merge(
            vec![vec![
                adapter(0, &["vulkan"], software),
                adapter(1, &["vulkan"], integrated),
            ]],
            MAIN_MEMORY,
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

    /// Builds may have different buffer limits. Each build plans with its own limit.
    #[test]
    fn the_largest_buffer_is_this_builds() {
        let with_limit = |bytes| {
            let gpu = SourceGpu {
                largest_buffer: Some(bytes),
                ..adapter(0, &["vulkan"], card("0000:01:00.0", 8))
            };
            merge(vec![vec![gpu], vec![card("0000:01:00.0", 8)]], MAIN_MEMORY)
        };
        let joined = |own| {
            join(
                own,
                vec![("portable", with_limit(GIB / 8)), ("cuda", with_limit(2 * GIB))],
            )
        };
        assert_eq!(joined("portable")[0].info().largest_buffer, Some(GIB / 8));
        assert_eq!(joined("cuda")[0].info().largest_buffer, Some(2 * GIB));
    }

    #[test]
    fn an_unusable_card_has_a_reason() {
        let card = SourceGpu {
            unusable: DeviceStatus::NoVulkanDriver,
            ..card("0000:01:00.0", 0)
        };
        let gpus = merge(vec![vec![], vec![card]], MAIN_MEMORY);
        assert_eq!(
            (gpus[0].usable, &gpus[0].status),
            (false, &DeviceStatus::NoVulkanDriver)
        );
        assert_eq!(gpus[0].info().backend, "");
    }

    #[test]
    fn an_identity_is_the_pci_address_or_the_name() {
        let without_slot = |index| adapter(index, &["metal"], card("", 8));
        let gpus = merge(
            vec![vec![
                without_slot(0),
                adapter(1, &["vulkan"], card("0000:01:00.0", 8)),
                without_slot(2),
            ]],
            MAIN_MEMORY,
        );
        let names: Vec<_> = gpus.iter().map(|gpu| gpu.identity.as_str()).collect();
        assert_eq!(names, ["Card", "Card #2", "0000:01:00.0"]);
    }

    /// The lists of two builds, joined and ranked by checks.
    #[test]
    fn builds_share_a_list_and_the_fastest_correct_one_is_preferred() {
        let gpus_of = |backend: &str, slots: &[&str]| {
            let adapters = slots.iter().enumerate();
            let gpus = adapters.map(|(index, slot)| adapter(index, &[backend], card(slot, 8)));
            merge(vec![gpus.collect()], MAIN_MEMORY)
        };
        let joined = |own| {
            let vulkan = gpus_of("vulkan", &["0000:01:00.0", "0000:03:00.0"]);
            let cuda = gpus_of("cuda", &["0000:02:00.0", "0000:01:00.0"]);
            join(own, vec![("portable", vulkan), ("cuda", cuda)])
        };
        let (in_portable, in_cuda) = (joined("portable"), joined("cuda"));
        let ids = |gpus: &[Gpu]| {
            gpus.iter()
                .map(|gpu| (gpu.id.clone(), gpu.identity.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(&in_portable), ids(&in_cuda), "every build assigns the same ids");
        assert_eq!(in_portable.len(), 3);
        let adapters: Vec<_> = in_portable.iter().map(|gpu| gpu.adapter).collect();
        assert_eq!(
            adapters,
            [Some(0), None, Some(1)],
            "a GPU of another build has no adapter index"
        );
        assert_eq!(in_portable[0].backend_names, ["vulkan", "cuda"]);

        let check = |seconds: f64, mismatch: Option<&str>| DeviceCheck {
            mismatch: mismatch.map(|detail| Mismatch::Detail {
                detail: detail.to_owned(),
            }),
            bytes_per_second: 1e12 / seconds,
            macs_per_second: 1e12 / seconds,
            ..DeviceCheck::default()
        };
        let ranked = |portable: Option<DeviceCheck>, cuda: Option<DeviceCheck>| {
            let mut gpu = in_portable[0].clone();
            (gpu.backends[0].check, gpu.backends[1].check) = (portable, cuda);
            rank(&mut gpu, "portable");
            gpu
        };
        let assert_first = |gpu: Gpu, build: &str| {
            assert_eq!(
                (gpu.backends[0].build.as_str(), gpu.usable),
                (build, true),
                "{}",
                gpu.status
            );
        };
        assert_first(ranked(None, None), "portable");
        assert_first(ranked(Some(check(2.0, None)), Some(check(1.0, None))), "cuda");
        assert_first(ranked(Some(check(2.0, None)), Some(check(3.0, None))), "portable");
        assert_first(ranked(None, Some(check(3.0, None))), "cuda");
        assert_first(ranked(None, Some(check(0.0, Some("Wrong.")))), "portable");
        let wrong = ranked(Some(check(1.0, Some("All wrong."))), Some(check(2.0, Some("Wrong."))));
        assert_eq!((wrong.usable, wrong.status.to_string().as_str()), (false, "All wrong."));
    }
}
