//! Several sources, one list: every GPU once.

use super::gpu::{Gpu, Kind, Live, Pci, Way};
use super::memory::Memory;
use hearth_protocol::DeviceCheck;

/// What one source says of one GPU.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The maker's name for it.
    pub name: String,
    /// As far as the source can tell.
    pub kind: Kind,
    /// The maker's number; a PCI vendor id for a card.
    pub vendor: u32,
    /// The maker's number for the model.
    pub device: u32,
    /// Where it sits.
    pub pci: Option<Pci>,
    /// The number by which Vulkan and NVIDIA know a card.
    pub uuid: Option<[u8; 16]>,
    /// Where wgpu lists it.
    pub adapter: Option<usize>,
    /// What can use it.
    pub backends: Vec<String>,
    /// Bytes of a buffer that a kernel sees at most.
    pub largest_buffer: Option<u64>,
    /// Its own memory.
    pub memory: Option<Memory>,
    /// The driver's name and version.
    pub driver: Option<String>,
    /// The interface that the driver offers, with its version.
    pub api: Option<String>,
    /// How busy it is, 0 to 1.
    pub load: Option<f32>,
    /// Whether the source can be asked again.
    pub live: Live,
    /// Why a GPU that only this source and later ones see cannot be used, in one sentence.
    pub why_not: String,
}

impl Seen {
    /// How sure it is that both are one GPU; 0 where they are not.
    fn likeness(&self, other: &Self) -> u8 {
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

    /// Takes over what another source knows of the same GPU and this one does not; later sources measure memory better.
    fn absorb(&mut self, other: Self) {
        self.pci = self.pci.or(other.pci);
        self.uuid = self.uuid.or(other.uuid);
        self.driver = self.driver.take().or(other.driver);
        self.api = self.api.take().or(other.api);
        self.load = other.load.or(self.load);
        self.backends.extend(other.backends);
        self.largest_buffer = self.largest_buffer.or(other.largest_buffer);
        // What the kernel calls the memory of an integrated one is a small part of what it uses.
        if self.kind == Kind::Discrete {
            self.memory = other.memory.or(self.memory);
            self.live = if other.live == Live::Nobody {
                self.live
            } else {
                other.live
            };
        } else {
            self.memory = self.memory.or(other.memory);
        }
    }
}

/// One list from what the sources see, best source first; `main` is main memory.
pub fn merge(sources: Vec<Vec<Seen>>, main: Option<Memory>) -> Vec<Gpu> {
    let mut all: Vec<Seen> = Vec::new();
    for source in sources {
        let known = all.len();
        // Each of a source is another GPU, so it takes one that no other of the source has taken.
        let mut taken = vec![false; known];
        let mut left: Vec<Option<Seen>> = source.into_iter().map(Some).collect();
        for sure in [3, 2, 1] {
            for slot in &mut left {
                let found = slot
                    .as_ref()
                    .and_then(|seen| (0..known).find(|&at| !taken[at] && all[at].likeness(seen) == sure));
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

/// Gives each its id and, where nothing else tells it from another, its identity.
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

/// One list from what builds see, each with its name, in an order that is the same in every build. `own` is this one: what only others can
/// open has no number here.
pub fn join(own: &str, seen: Vec<(&str, Vec<Gpu>)>) -> Vec<Gpu> {
    let mut all: Vec<Gpu> = Vec::new();
    for (build, gpus) in seen {
        for mut gpu in gpus {
            let (adapter, largest_buffer) = (gpu.adapter.take(), gpu.largest_buffer);
            let way = adapter.filter(|_| gpu.usable).map(|adapter| Way {
                build: build.to_owned(),
                adapter,
                backend: gpu.backends.first().cloned().unwrap_or_default(),
                check: None,
            });
            let at = all.iter().position(|known| known.identity == gpu.identity);
            let known = match at {
                Some(at) => {
                    gpu.backends.retain(|backend| !all[at].backends.contains(backend));
                    all[at].backends.append(&mut gpu.backends);
                    &mut all[at]
                }
                None => all.push_mut(gpu),
            };
            known.ways.extend(way);
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

/// Ranks the builds that can use a GPU by what was found when they were checked, and says what that comes to.
pub fn rank(gpu: &mut Gpu, own: &str) {
    gpu.ways.sort_by(|a, b| {
        let seconds = |way: &Way| way.check.as_ref().map_or(f64::INFINITY, DeviceCheck::turn_seconds);
        let key = |way: &Way| (way.wrong().is_some(), way.build != own);
        let (wrong_a, other_a) = key(a);
        let (wrong_b, other_b) = key(b);
        wrong_a
            .cmp(&wrong_b)
            .then(seconds(a).total_cmp(&seconds(b)))
            .then(other_a.cmp(&other_b))
    });
    let Some(best) = gpu.ways.first() else { return };
    if let Some(wrong) = best.wrong() {
        gpu.usable = false;
        gpu.why = wrong.to_owned();
        return;
    }
    gpu.usable = true;
    if gpu.kind != Kind::Software {
        gpu.why = can_be_used(&gpu.backends);
    }
}

/// What is known of a GPU in the end, and whether it can be used.
fn settle(seen: Seen, main: Option<Memory>) -> Gpu {
    let (usable, why) = verdict(&seen);
    let api = seen
        .api
        .or_else(|| seen.backends.first().map(|backend| people_say(backend).to_owned()));
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
        backends: seen.backends,
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

/// Whether a model can run on it when it is asked for, and why (not).
fn verdict(seen: &Seen) -> (bool, String) {
    if seen.backends.is_empty() {
        return (false, seen.why_not.clone());
    }
    if seen.kind != Kind::Software {
        return (true, can_be_used(&seen.backends));
    }
    if cfg!(feature = "vulkan") {
        let why = "Runs in software on the processor, which this build of Hearth cannot use.";
        return (false, why.to_owned());
    }
    let why = "Runs in software on the processor; never chosen by itself.";
    (true, why.to_owned())
}

fn can_be_used(backends: &[String]) -> String {
    let names: Vec<_> = backends.iter().map(|backend| people_say(backend)).collect();
    format!("Hearth can use it through {}.", names.join(" or "))
}

/// What people call a backend.
fn people_say(backend: &str) -> &str {
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

    /// A card of one model in this slot, with so many GiB that are all free.
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

    fn adapter(index: usize, backends: &[&str], seen: Seen) -> Seen {
        Seen {
            adapter: Some(index),
            backends: backends.iter().map(|&backend| backend.to_owned()).collect(),
            ..seen
        }
    }

    #[test]
    fn a_card_that_all_see_is_one() {
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
        assert_eq!(gpu.backends, ["vulkan", "dx12"]);
        assert_eq!((gpu.memory_total, gpu.load), (Some(24 * GIB), Some(0.5)));
        assert!(gpu.usable && gpu.why.contains("Vulkan or DirectX 12"), "{}", gpu.why);
    }

    #[test]
    fn equal_cards_stay_apart_and_keep_their_own_memory() {
        // Wgpu knows only the second's slot, so the first is what is left.
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

    /// One build may be let see more of a buffer than another: this one plans by its own.
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
    fn a_card_that_nothing_can_use_says_why() {
        let lonely = Seen {
            why_not: "No driver.".to_owned(),
            ..card("0000:01:00.0", 0)
        };
        let gpus = merge(vec![vec![], vec![lonely]], MAIN);
        assert_eq!((gpus[0].usable, gpus[0].why.as_str()), (false, "No driver."));
        assert_eq!(gpus[0].info().backend, "");
    }

    #[test]
    fn an_identity_is_where_a_card_sits_or_its_name() {
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

    /// What two builds see, as one list in which each is ranked by what was found.
    #[test]
    fn builds_share_a_list_and_the_fastest_that_is_right_leads() {
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
        assert_eq!(ids(&here), ids(&there), "every build has the same names");
        assert_eq!(here.len(), 3);
        let adapters: Vec<_> = here.iter().map(|gpu| gpu.adapter).collect();
        assert_eq!(
            adapters,
            [Some(0), None, Some(1)],
            "what only another build opens has no number here"
        );
        assert_eq!(here[0].backends, ["vulkan", "cuda"]);

        let found = |seconds: f64, wrong: Option<&str>| DeviceCheck {
            wrong: wrong.map(str::to_owned),
            bytes_per_second: 1e12 / seconds,
            products_per_second: 1e12 / seconds,
            ..DeviceCheck::default()
        };
        let ranked = |portable: Option<DeviceCheck>, cuda: Option<DeviceCheck>| {
            let mut gpu = here[0].clone();
            (gpu.ways[0].check, gpu.ways[1].check) = (portable, cuda);
            rank(&mut gpu, "portable");
            (gpu.ways[0].build.clone(), gpu.usable, gpu.why)
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
