//! Adapters as PEFT keeps them: a folder with `adapter_config.json` and `adapter_model.safetensors`.

use super::numbers::{Float, Numbers, floats};
use super::peft_config::{CONFIG, Config, MAX_CONFIG};
use super::safetensors_file::{Bytes, OnDisk, Table};
use super::whole::Staged;
use super::{AdapterError, AdapterFile, AdapterProblem, BaseShape, LoraTensors, Passport, TargetName};
use crate::regular::read_regular;
use safetensors::Dtype;
use safetensors::tensor::{TensorInfo, TensorView};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::{fs, io};

/// The tensors' file, in its folder.
pub(super) const TENSORS: &str = "adapter_model.safetensors";

/// The tensors' file of old, a program that Python runs.
const PICKLED: &str = "adapter_model.bin";

/// Hearth's own file in the folder.
const PASSPORT: &str = "hearth.json";

/// The largest [`PASSPORT`] that is read, in bytes; those that Hearth writes have some thousands.
const MAX_PASSPORT: u64 = 4 << 20;

/// What PEFT puts before the path of every module.
const WRAPPER: &str = "base_model.model.";

/// One half of a target, and where its numbers are.
struct Half {
    rows: usize,
    row: usize,
    float: Float,
    start: u64,
    len: usize,
}

/// The two halves of a target, as far as they were found.
#[derive(Default)]
struct Pair {
    /// The target's path, by which the configuration's patterns find it.
    module: String,
    a: Option<Half>,
    b: Option<Half>,
}

impl AdapterFile {
    /// Reads a folder of PEFT's for a model of these sizes, with the passport where Hearth made it.
    ///
    /// # Errors
    /// Where a file is missing or damaged, or the adapter does what Hearth cannot do.
    pub fn read_peft(folder: &Path, base: &BaseShape) -> Result<Self, AdapterError> {
        read_folder(folder, base, Numbers::Keep)
    }

    /// Reads what the files of such a folder hold: `adapter_config.json`, `adapter_model.safetensors` and, where there is one,
    /// `hearth.json`.
    ///
    /// # Errors
    /// As [`AdapterFile::read_peft`].
    pub fn from_peft(
        config: &[u8],
        tensors: &[u8],
        passport: Option<&[u8]>,
        base: &BaseShape,
    ) -> Result<Self, AdapterProblem> {
        read(config, &tensors, passport, base, Numbers::Keep)
    }

    /// Writes a folder that PEFT reads, for the model of these sizes; with the passport where there is one. The configuration
    /// comes last, so that a folder with one is whole.
    ///
    /// # Errors
    /// Where the adapter is not sound or not for that model, or the folder cannot be written; then what was there is unchanged.
    pub fn write_peft(&self, folder: &Path, base: &BaseShape) -> Result<(), AdapterError> {
        let fail = |problem| AdapterError::new(folder, problem);
        self.check().map_err(fail)?;
        let tensors = self.safetensors(base).map_err(fail)?;
        self.put_peft(folder, base, &tensors)
            .map_err(|error| fail(AdapterProblem::Write(error)))
    }

    fn put_peft(&self, folder: &Path, base: &BaseShape, tensors: &[u8]) -> io::Result<()> {
        let stage =
            |name: &str, bytes: &[u8]| Staged::write(&folder.join(name), |out| io::Write::write_all(out, bytes));
        let config = serde_json::to_vec_pretty(&Config::describe(self, base.layers))?;
        let passport = self.passport.as_ref().map(serde_json::to_vec_pretty).transpose()?;
        let made = !folder.exists();
        fs::create_dir_all(folder)?;
        // All is on the disk before anything takes the place of what was there.
        let staged = stage(TENSORS, tensors).and_then(|tensors| {
            let passport = passport.map(|bytes| stage(PASSPORT, &bytes)).transpose()?;
            Ok((tensors, passport, stage(CONFIG, &config)?))
        });
        let (tensors, passport, config) = staged.inspect_err(|_| {
            if made {
                // Empty, since what is staged removes itself; if it is not, it is somebody's.
                let _ = fs::remove_dir(folder);
            }
        })?;
        // From here to the last line a folder without a configuration is no adapter, rather than a mixture of two.
        remove_if_there(&folder.join(CONFIG))?;
        tensors.commit()?;
        match passport {
            Some(passport) => passport.commit()?,
            None => remove_if_there(&folder.join(PASSPORT))?,
        }
        config.commit()
    }

    /// The tensors in F32 by PEFT's names, in transformers' order of rows.
    fn safetensors(&self, base: &BaseShape) -> Result<Vec<u8>, AdapterProblem> {
        if let Some(why) = base.other_architecture(&self.architecture) {
            return Err(AdapterProblem::OtherModel(why));
        }
        let bytes = |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|value| value.to_le_bytes()).collect() };
        let mut halves = Vec::new();
        for (&target, lora) in &self.tensors {
            base.check_linear(target, lora.inputs, lora.outputs)?;
            let order = base.row_order(target.linear)?;
            let b = order.export(lora.b.clone(), lora.rank, base.head_dim);
            let name = |half: &str| format!("{WRAPPER}{}.{half}.weight", target.module());
            halves.push((name("lora_A"), [lora.rank, lora.inputs], bytes(&lora.a)));
            halves.push((name("lora_B"), [lora.outputs, lora.rank], bytes(&b)));
        }
        let unsound = |error: safetensors::SafeTensorError| AdapterProblem::damaged(TENSORS, error);
        let views = halves
            .iter()
            .map(|(name, shape, bytes)| Ok((name, TensorView::new(Dtype::F32, shape.to_vec(), bytes)?)))
            .collect::<Result<Vec<_>, _>>()
            .map_err(unsound)?;
        // transformers asks which library wrote a file, and means this by it.
        let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        safetensors::serialize(views, Some(about)).map_err(unsound)
    }
}

/// Reads a folder; see [`AdapterFile::read_peft`].
pub(super) fn read_folder(folder: &Path, base: &BaseShape, numbers: Numbers) -> Result<AdapterFile, AdapterError> {
    let fail = |problem| AdapterError::new(folder, problem);
    let read = |name: &str, most| if_there(name, read_regular(&folder.join(name), most)).map_err(fail);
    let no = |name: &str| AdapterProblem::NotAnAdapter(format!("the folder has no {name}"));
    let config = read(CONFIG, MAX_CONFIG)?.ok_or_else(|| fail(no(CONFIG)))?;
    let tensors = if_there(TENSORS, OnDisk::open(&folder.join(TENSORS))).map_err(fail)?;
    let tensors = tensors.ok_or_else(|| {
        fail(match folder.join(PICKLED).exists() {
            true => AdapterProblem::Unsupported(format!(
                "This adapter is stored as {PICKLED}, which is a program rather than data, so Hearth does not open it; load it \
                 in PEFT and save it again with safe_serialization=True."
            )),
            false => no(TENSORS),
        })
    })?;
    let passport = read(PASSPORT, MAX_PASSPORT)?;
    let mut adapter = self::read(&config, &tensors, passport.as_deref(), base, numbers).map_err(fail)?;
    folder.clone_into(&mut adapter.path);
    Ok(adapter)
}

/// A file of the folder; none where it is not there.
fn if_there<T>(name: &str, read: io::Result<T>) -> Result<Option<T>, AdapterProblem> {
    match read {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(AdapterProblem::Read(named(name, error))),
    }
}

/// An error of a file in the folder, with its name.
fn named(name: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{name}: {error}"))
}

fn read(
    config: &[u8],
    tensors: &impl Bytes,
    passport: Option<&[u8]>,
    base: &BaseShape,
    numbers: Numbers,
) -> Result<AdapterFile, AdapterProblem> {
    let config = Config::parse(config)?;
    let passport: Option<Passport> = passport
        .map(serde_json::from_slice)
        .transpose()
        .map_err(|error| AdapterProblem::damaged(PASSPORT, error))?;
    // The rows of Q and K cannot be put in order for a model of another kind.
    if let Some(difference) = passport.as_ref().and_then(|p| p.base.shape.difference(base)) {
        return Err(AdapterProblem::OtherModel(difference));
    }
    let mut pairs: BTreeMap<TargetName, Pair> = BTreeMap::new();
    let table = Table::read(tensors)?;
    for (name, info) in table.tensors() {
        let (module, is_a) = module(&name)?;
        let target = TargetName::from_module(module).ok_or_else(|| unknown(module))?;
        let pair = pairs.entry(target).or_default();
        module.clone_into(&mut pair.module);
        let half = if is_a { &mut pair.a } else { &mut pair.b };
        if half.replace(matrix(&name, info, &table)?).is_some() {
            return Err(AdapterProblem::target(target, "it is there twice"));
        }
    }
    let found: BTreeSet<TargetName> = pairs.keys().copied().collect();
    if let Some(missing) = config.missing(&found, base.layers) {
        let layers = found.last().map_or(0, |last| last.layer + 1);
        if (1..base.layers).contains(&layers) && config.missing(&found, layers).is_none() {
            return Err(AdapterProblem::OtherModel(format!(
                "it changes all layers of a model of {layers}, and this one has {}",
                base.layers
            )));
        }
        return Err(AdapterProblem::target(
            missing,
            format!("{CONFIG} says that the adapter changes it, and {TENSORS} holds nothing for it"),
        ));
    }
    let tensors = pairs
        .into_iter()
        .map(|(target, pair)| Ok((target, lora(target, pair, tensors, &config, base, numbers)?)))
        .collect::<Result<_, AdapterProblem>>()?;
    let adapter = AdapterFile {
        path: Default::default(),
        architecture: base.architecture.clone(),
        base_name: config.base_model_name_or_path,
        rslora: config.use_rslora,
        tensors,
        passport,
    };
    adapter.check_any()?;
    Ok(adapter)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn unknown(what: &str) -> AdapterProblem {
    AdapterProblem::Unsupported(format!("This adapter changes '{what}'."))
}

/// Which module of the model a tensor belongs to, and whether it is its A.
fn module(name: &str) -> Result<(&str, bool), AdapterProblem> {
    // PEFT leaves the adapter's own name out when it saves; what others write may still have the usual one.
    let bare = name.strip_suffix(".weight").unwrap_or(name);
    let bare = bare.strip_suffix(".default").unwrap_or(bare);
    let bare = bare.strip_prefix(WRAPPER).unwrap_or(bare);
    match (bare.strip_suffix(".lora_A"), bare.strip_suffix(".lora_B")) {
        (Some(module), _) => Ok((module, true)),
        (_, Some(module)) => Ok((module, false)),
        _ => Err(unknown(name)),
    }
}

fn matrix(name: &str, info: &TensorInfo, table: &Table) -> Result<Half, AdapterProblem> {
    let &[rows, row] = info.shape.as_slice() else {
        return Err(AdapterProblem::damaged(
            TENSORS,
            format!("'{name}' has {} dimensions instead of 2", info.shape.len()),
        ));
    };
    let float = match info.dtype {
        Dtype::F32 => Float::F32,
        Dtype::F16 => Float::F16,
        Dtype::BF16 => Float::Bf16,
        other => {
            return Err(AdapterProblem::Unsupported(format!(
                "This adapter stores '{name}' as {other:?}, not as F32, F16 or BF16."
            )));
        }
    };
    let (start, len) = table.place(info);
    Ok(Half {
        rows,
        row,
        float,
        start,
        len,
    })
}

fn lora(
    target: TargetName,
    pair: Pair,
    file: &impl Bytes,
    config: &Config,
    base: &BaseShape,
    numbers: Numbers,
) -> Result<LoraTensors, AdapterProblem> {
    let missing = |name: &str| AdapterProblem::target(target, format!("its {name} is missing"));
    let a = pair.a.ok_or_else(|| missing("lora_A"))?;
    let b = pair.b.ok_or_else(|| missing("lora_B"))?;
    let (rank, inputs, outputs, rank_b) = (a.rows, a.row, b.rows, b.row);
    let says = config.rank(&pair.module);
    if rank != rank_b || rank != says {
        return Err(AdapterProblem::target(
            target,
            format!("its lora_A has the rank {rank}, its lora_B {rank_b}, and {CONFIG} says {says}"),
        ));
    }
    if let Some(why) = LoraTensors::size_problem(rank, inputs, outputs) {
        return Err(AdapterProblem::target(target, why));
    }
    // Rows can be put in order only where they are the model's.
    base.check_linear(target, inputs, outputs)?;
    let values = |half: &Half| {
        let read = |start: usize, len: usize| file.read(half.start + start as u64, len);
        floats(half.float, half.len, read).map_err(|error| AdapterProblem::Read(named(TENSORS, error)))
    };
    let lora = LoraTensors {
        a: values(&a)?,
        b: values(&b)?,
        rank,
        inputs,
        outputs,
        alpha: config.alpha(&pair.module),
    };
    let mut lora = numbers.checked(target, lora)?;
    if !lora.b.is_empty() {
        lora.b = base.row_order(target.linear)?.import(lora.b, rank, base.head_dim);
    }
    Ok(lora)
}
