//! Guards the speed of this kind of machine: measures the products of each format, as ratios to a
//! plain reference on the same machine, and compares them with its line in `bench/machines.md`.
//!
//! `guard [--write]`; `--write` replaces the line, or adds it. Exits with 1 if a format has become
//! slower ([`MIN_DECODE`], [`MIN_PREFILL`]). See `cargo xtask guard`.
//!
//! A cell has three figures: decode relative to the rate at which a plain loop reads memory, decode
//! as a multiple of the scalar dot product of the same format on one thread, and prefill as a
//! multiple of that. Formats are measured alternately, and each figure is the best of several.

use hearth_bench::{Weight, noise};
use hearth_kernels::fused::norm_linears;
use hearth_kernels::gemv::{ActivationChunk, Activations};
use hearth_kernels::{Isa, MatmulPrecision, Prefetch, Quant, calibrate, team};
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Formats that are measured.
const FORMATS: [Quant; 10] = [
    Quant::Q4_0,
    Quant::Q4_1,
    Quant::Q5_0,
    Quant::Q8_0,
    Quant::Q4_K,
    Quant::Q5_K,
    Quant::Q6_K,
    Quant::IQ4_XS,
    Quant::MXFP4,
    Quant::F16,
];
const COLS: usize = 2048;
/// Bytes of a format's weight: together with the other formats' weights, more than the caches of
/// most CPUs.
const BYTES: usize = 48 << 20;
/// Bytes of the scalar product, which does not depend on memory.
const SCALAR_BYTES: usize = 1 << 20;
/// Tokens of prefill, and bytes of its weight.
const TOKENS: usize = 96;
const PREFILL_BYTES: usize = 4 << 20;
const TRIES: usize = 9;
/// Minimum share of the recorded ratios: decode has become slower if both of its ratios are below
/// it, and prefill if its ratio is below [`MIN_PREFILL`]. In runs on one virtual machine, single
/// ratios of decode differed by a fifth, and of prefill by a quarter.
const MIN_DECODE: f64 = 0.85;
const MIN_PREFILL: f64 = 0.75;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let write = std::env::args().any(|argument| argument == "--write");
    let _awake = team::enter();
    let samples = FORMATS.map(Sample::new);
    let samples = samples.into_iter().collect::<Result<Vec<_>, _>>()?;
    let matrices = samples.iter().map(|sample| Ok(sample.decode.linear()?.weight));
    let matrices = matrices.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    calibrate(&matrices, Duration::from_millis(600))?;
    let mut rates = [Rates::default(); FORMATS.len()];
    for _ in 0..TRIES {
        for (sample, rates) in samples.iter().zip(&mut rates) {
            rates.measure(sample)?;
        }
    }
    let formats: Vec<Figures> = rates.iter().map(Rates::figures).collect();
    for (quant, figures) in FORMATS.into_iter().zip(&formats) {
        println!("{quant}: {} (prefetch {})", figures.cell(), Prefetch::for_format(quant));
    }
    let line = Line {
        machine: machine(),
        commit: commit(),
        formats,
    };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines.md");
    let page = std::fs::read_to_string(&file)?;
    let recorded = page
        .lines()
        .filter_map(Line::read)
        .find(|recorded| recorded.machine == line.machine);
    if write {
        std::fs::write(&file, with_line(&page, &line))?;
        println!("{} has the line of {}.", file.display(), line.machine);
        return Ok(ExitCode::SUCCESS);
    }
    let Some(recorded) = recorded else {
        println!("{} has no line of {}; --write adds it.", file.display(), line.machine);
        return Ok(ExitCode::SUCCESS);
    };
    let losses = line.losses(&recorded);
    for loss in &losses {
        println!("slower than at {}: {loss}", recorded.commit);
    }
    if losses.is_empty() {
        println!("As fast as at {} on {}.", recorded.commit, line.machine);
    }
    Ok(ExitCode::from(u8::from(!losses.is_empty())))
}

fn weight(quant: Quant, bytes: usize) -> Result<Weight, Box<dyn Error>> {
    let rows = bytes / quant.row_bytes(COLS).ok_or("whole blocks")? / 16 * 16;
    Ok(Weight::new(quant, rows, COLS)?)
}

/// The weights of a format that are measured.
struct Sample {
    quant: Quant,
    decode: Weight,
    prefill: Weight,
    /// Rows as stored in files, for the scalar dot product.
    rows: Vec<u8>,
}

impl Sample {
    fn new(quant: Quant) -> Result<Self, Box<dyn Error>> {
        let mut row = vec![0; quant.row_bytes(COLS).ok_or("whole blocks")?];
        quant.quantize_row(&noise(COLS), &mut row)?;
        Ok(Self {
            quant,
            decode: weight(quant, BYTES)?,
            prefill: weight(quant, PREFILL_BYTES)?,
            rows: row.repeat(SCALAR_BYTES / row.len()),
        })
    }
}

/// The best rates of a format, in bytes of weights per second.
#[derive(Clone, Copy, Default)]
struct Rates {
    read: f64,
    decode: f64,
    prefill: f64,
    scalar: f64,
}

impl Rates {
    fn measure(&mut self, sample: &Sample) -> Result<(), Box<dyn Error>> {
        self.read = self.read.max(read_rate(&sample.decode.bytes));
        self.decode = self.decode.max(product_rate(&sample.decode, 1)?);
        self.prefill = self.prefill.max(product_rate(&sample.prefill, TOKENS)?);
        self.scalar = self.scalar.max(scalar_rate(sample)?);
        Ok(())
    }

    fn figures(&self) -> Figures {
        let Self {
            read,
            decode,
            prefill,
            scalar,
        } = self;
        Figures([decode / read, decode / scalar, prefill / scalar])
    }
}

/// The ratios of a format; see the module's documentation.
struct Figures([f64; 3]);

impl Figures {
    fn cell(&self) -> String {
        let [bandwidth, decode, prefill] = self.0;
        format!("{bandwidth:.2} {decode:.1} {prefill:.1}")
    }

    fn read(cell: &str) -> Option<Self> {
        let figures = cell.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>();
        Some(Self(figures.ok()?.try_into().ok()?))
    }
}

/// Bytes of weights that are multiplied with `tokens` tokens, per second and token.
fn product_rate(weight: &Weight, tokens: usize) -> Result<f64, Box<dyn Error>> {
    let linear = [weight.linear()?];
    let (x, mut y) = (noise(tokens * COLS), vec![0.0; tokens * linear[0].weight.rows()]);
    let start = Instant::now();
    norm_linears(black_box(&x), None, &linear, MatmulPrecision::Int8Activations, &mut y)?;
    black_box(&y);
    Ok((weight.bytes.len() * tokens) as f64 / start.elapsed().as_secs_f64())
}

/// Bytes of weights per second of the scalar dot product on one thread, for one token.
fn scalar_rate(Sample { quant, rows, .. }: &Sample) -> Result<f64, Box<dyn Error>> {
    let (x, mut chunks) = (noise(COLS), vec![ActivationChunk::ZERO; Activations::chunks_for(COLS)]);
    let activations = Activations::quantize(&x, &mut chunks)?;
    let mut y = vec![0.0; rows.len() / quant.row_bytes(COLS).ok_or("whole blocks")?];
    let scalar = Isa::available()[0];
    let start = Instant::now();
    quant.gemv_on(scalar, black_box(rows), &activations, &mut y)?;
    black_box(&y);
    Ok(rows.len() as f64 / start.elapsed().as_secs_f64())
}

/// Bytes per second at which the team's threads add up these words.
fn read_rate(bytes: &[u8]) -> f64 {
    const PART: usize = 64 * 1024;
    let start = Instant::now();
    team::run(bytes.len().div_ceil(PART), &|part| {
        let part = &bytes[part * PART..bytes.len().min((part + 1) * PART)];
        let mut sums = [0_u64; 8];
        for line in part.as_chunks::<64>().0 {
            for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
                *sum = sum.wrapping_add(u64::from_le_bytes(*word));
            }
        }
        black_box(sums);
    });
    bytes.len() as f64 / start.elapsed().as_secs_f64()
}

/// A line of the page.
struct Line {
    /// CPU, instruction set and threads.
    machine: String,
    commit: String,
    formats: Vec<Figures>,
}

impl Line {
    fn read(line: &str) -> Option<Self> {
        let mut cells = line
            .trim()
            .strip_prefix('|')?
            .strip_suffix('|')?
            .split('|')
            .map(str::trim);
        let (machine, commit) = (cells.next()?.to_owned(), cells.next()?.to_owned());
        let formats = cells.map(Figures::read).collect::<Option<Vec<_>>>()?;
        (formats.len() == FORMATS.len()).then_some(Self {
            machine,
            commit,
            formats,
        })
    }

    fn text(&self) -> String {
        let cells: Vec<String> = self.formats.iter().map(Figures::cell).collect();
        format!("| {} | {} | {} |", self.machine, self.commit, cells.join(" | "))
    }

    /// Returns the regressions against the recorded line.
    fn losses(&self, recorded: &Self) -> Vec<String> {
        let mut losses = Vec::new();
        for ((quant, now), before) in FORMATS.into_iter().zip(&self.formats).zip(&recorded.formats) {
            let is_lost = |figure: usize, min_share: f64| now.0[figure] < before.0[figure] * min_share;
            let (now, before) = (now.cell(), before.cell());
            if is_lost(0, MIN_DECODE) && is_lost(1, MIN_DECODE) {
                losses.push(format!("decode of {quant}: {now}, was {before}"));
            }
            if is_lost(2, MIN_PREFILL) {
                losses.push(format!("prefill of {quant}: {now}, was {before}"));
            }
        }
        losses
    }
}

/// The page with this line in the place of the machine's own, or as a new one.
fn with_line(page: &str, line: &Line) -> String {
    let is_own = |text: &&str| Line::read(text).is_some_and(|own| own.machine == line.machine);
    let mut lines: Vec<String> = page.lines().filter(|text| !is_own(text)).map(str::to_owned).collect();
    lines.push(line.text());
    lines.join("\n") + "\n"
}

/// The kind of this machine: CPU, instruction set and threads.
fn machine() -> String {
    format!("{}, {}, {} threads", cpu(), Isa::best().name(), team::threads())
}

#[cfg(target_arch = "x86_64")]
fn cpu() -> String {
    use std::arch::x86_64::__cpuid;
    let name: Vec<u8> = (0x8000_0002..=0x8000_0004_u32)
        .map(__cpuid)
        .flat_map(|part| [part.eax, part.ebx, part.ecx, part.edx])
        .flat_map(u32::to_le_bytes)
        .take_while(|byte| *byte != 0)
        .collect();
    // Virtual machines hide the name.
    let signature = __cpuid(1).eax;
    let family = (signature >> 8 & 15) + (signature >> 20 & 255);
    let model = signature >> 4 & 15 | signature >> 12 & 0xf0;
    let name = String::from_utf8_lossy(&name).replace('|', " ");
    format!("{} (family {family}, model {model})", name.trim())
}

#[cfg(not(target_arch = "x86_64"))]
fn cpu() -> String {
    std::env::consts::ARCH.to_owned()
}

/// The commit that is checked out.
fn commit() -> String {
    let mut git = Command::new("git");
    let git = git
        .args(["rev-parse", "--short", "HEAD"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = git.output().ok().filter(|output| output.status.success());
    output.map_or_else(
        || "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
