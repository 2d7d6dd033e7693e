//! Sampling parameters that a model's file recommends: llama.cpp's keys `general.sampling.*`.

use hearth_formats::gguf::{Metadata, Value};
use hearth_protocol::SamplingParams;
use serde::{Deserialize, Serialize};

/// Most bytes of `general.sampling.sequence`; the names of all samplers have 70.
const MAX_SEQUENCE_BYTES: usize = 512;

/// The parameters in a file's metadata. `None` means that a parameter is missing, of another type
/// or out of range.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FileSampling {
    /// `temp`.
    pub temperature: Option<f32>,
    /// `top_k`; negative ones disable it, as 0 does.
    pub top_k: Option<u32>,
    /// `top_p`.
    pub top_p: Option<f32>,
    /// `min_p`.
    pub min_p: Option<f32>,
    /// `xtc_probability`.
    pub xtc_probability: Option<f32>,
    /// `xtc_threshold`.
    pub xtc_threshold: Option<f32>,
    /// `penalty_last_n`.
    pub repeat_last_n: Option<u32>,
    /// `penalty_repeat`.
    pub repetition_penalty: Option<f32>,
    /// `mirostat`; version 1 is run as version 2.
    pub mirostat: Option<bool>,
    /// `mirostat_tau`.
    pub mirostat_tau: Option<f32>,
    /// `mirostat_eta`.
    pub mirostat_eta: Option<f32>,
}

impl FileSampling {
    /// Reads the parameters. A sampler that `sequence` leaves out is disabled; the order is always
    /// the engine's.
    pub fn read(metadata: &Metadata) -> Self {
        let value = |key: &str| number(metadata.get(&format!("general.sampling.{key}"))?);
        let in_range = |key, min: f64, max: f64| {
            let value = value(key).filter(|value| (min..=max).contains(value));
            value.map(|value| value as f32)
        };
        let integer = |key| value(key).filter(|value| value.fract() == 0.0);
        let count = |value: f64| (0.0..=f64::from(u32::MAX)).contains(&value).then_some(value as u32);
        let sampling = Self {
            temperature: in_range("temp", 0.0, 100.0),
            top_k: integer("top_k").and_then(|k| count(k.max(0.0))),
            top_p: in_range("top_p", 0.0, 1.0),
            min_p: in_range("min_p", 0.0, 1.0),
            xtc_probability: in_range("xtc_probability", 0.0, 1.0),
            xtc_threshold: in_range("xtc_threshold", 0.0, 1.0),
            repeat_last_n: integer("penalty_last_n").and_then(count),
            repetition_penalty: in_range("penalty_repeat", 0.01, 100.0),
            mirostat: integer("mirostat").and_then(|version| match version {
                0.0 => Some(false),
                1.0 | 2.0 => Some(true),
                _ => None,
            }),
            mirostat_tau: in_range("mirostat_tau", 0.0, 100.0),
            mirostat_eta: in_range("mirostat_eta", 0.0, 1.0),
        };
        match sequence(metadata) {
            Some(sequence) => sampling.only(&sequence),
            None => sampling,
        }
    }

    /// Disables the samplers that are not in the sequence.
    fn only(mut self, sequence: &[String]) -> Self {
        let is_missing = |name: &str| !sequence.iter().any(|listed| listed == name);
        if is_missing("penalties") {
            self.repetition_penalty = Some(1.0);
        }
        if is_missing("topk") {
            self.top_k = Some(0);
        }
        if is_missing("topp") {
            self.top_p = Some(1.0);
        }
        if is_missing("minp") {
            self.min_p = Some(0.0);
        }
        if is_missing("xtc") {
            self.xtc_probability = Some(0.0);
        }
        if is_missing("temperature") {
            self.temperature = Some(1.0);
        }
        self
    }

    /// Returns these parameters, with `others` for those that the file does not have.
    pub fn over(&self, others: SamplingParams) -> SamplingParams {
        SamplingParams {
            temperature: self.temperature.unwrap_or(others.temperature),
            top_k: self.top_k.unwrap_or(others.top_k),
            top_p: self.top_p.unwrap_or(others.top_p),
            min_p: self.min_p.unwrap_or(others.min_p),
            xtc_probability: self.xtc_probability.unwrap_or(others.xtc_probability),
            xtc_threshold: self.xtc_threshold.unwrap_or(others.xtc_threshold),
            repeat_last_n: self.repeat_last_n.unwrap_or(others.repeat_last_n),
            repetition_penalty: self.repetition_penalty.unwrap_or(others.repetition_penalty),
            mirostat: self.mirostat.unwrap_or(others.mirostat),
            mirostat_tau: self.mirostat_tau.unwrap_or(others.mirostat_tau),
            mirostat_eta: self.mirostat_eta.unwrap_or(others.mirostat_eta),
            ..others
        }
    }
}

/// Converts a number of any type. `None` means that the value is no number.
fn number(value: &Value) -> Option<f64> {
    Some(match *value {
        Value::U8(value) => value.into(),
        Value::I8(value) => value.into(),
        Value::U16(value) => value.into(),
        Value::I16(value) => value.into(),
        Value::U32(value) => value.into(),
        Value::I32(value) => value.into(),
        Value::U64(value) => value as f64,
        Value::I64(value) => value as f64,
        Value::F32(value) => value.into(),
        Value::F64(value) => value,
        Value::Bool(_) | Value::Str(_) | Value::Array(_) => return None,
    })
}

/// The samplers of `sequence`, without `_` and `-`; `None` if it names none that llama.cpp has.
fn sequence(metadata: &Metadata) -> Option<Vec<String>> {
    const KNOWN: [&str; 11] = [
        "penalties",
        "dry",
        "topnsigma",
        "topk",
        "typp",
        "topp",
        "minp",
        "xtc",
        "temperature",
        "infill",
        "adaptivep",
    ];
    let text = metadata.str("general.sampling.sequence").ok().flatten()?;
    if text.len() > MAX_SEQUENCE_BYTES {
        return None;
    }
    let normalize = |name: &str| match name.trim().to_lowercase().replace(['_', '-'], "").as_str() {
        "nucleus" => "topp".to_owned(),
        "temp" => "temperature".to_owned(),
        "typ" => "typp".to_owned(),
        name => name.to_owned(),
    };
    let names: Vec<String> = text
        .split(';')
        .map(normalize)
        .filter(|name| KNOWN.contains(&name.as_str()))
        .collect();
    (!names.is_empty()).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[(&str, Value)]) -> FileSampling {
        let mut metadata = Metadata::new();
        for (key, value) in values {
            metadata.insert(format!("general.sampling.{key}"), value.clone());
        }
        FileSampling::read(&metadata)
    }

    #[test]
    fn the_parameters_of_a_file_replace_the_defaults() {
        let defaults = SamplingParams::default();
        assert_eq!(read(&[]), FileSampling::default());
        assert_eq!(read(&[]).over(defaults.clone()), defaults);
        let all = read(&[
            ("temp", Value::F32(0.6)),
            ("top_k", Value::I32(20)),
            ("top_p", Value::F64(0.9)),
            ("min_p", Value::U8(0)),
            ("xtc_probability", Value::F32(0.5)),
            ("xtc_threshold", Value::F32(0.2)),
            ("penalty_last_n", Value::I32(256)),
            ("penalty_repeat", Value::F32(1.1)),
            ("mirostat", Value::I32(2)),
            ("mirostat_tau", Value::F32(4.0)),
            ("mirostat_eta", Value::F32(0.2)),
        ]);
        let expected = SamplingParams {
            temperature: 0.6,
            top_k: 20,
            top_p: 0.9,
            min_p: 0.0,
            xtc_probability: 0.5,
            xtc_threshold: 0.2,
            repeat_last_n: 256,
            repetition_penalty: 1.1,
            mirostat: true,
            mirostat_tau: 4.0,
            mirostat_eta: 0.2,
            ..defaults.clone()
        };
        assert_eq!(all.over(defaults), expected);
        let saved = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<FileSampling>(&saved).unwrap(), all);
    }

    #[test]
    fn values_outside_their_range_are_ignored() {
        let nothing = FileSampling::default();
        for (key, value) in [
            ("temp", Value::F32(-1.0)),
            ("temp", Value::F32(f32::NAN)),
            ("temp", Value::Str("0.5".to_owned())),
            ("top_k", Value::F32(1.5)),
            ("top_k", Value::U64(1 << 40)),
            ("top_p", Value::F32(1.1)),
            ("min_p", Value::F64(f64::INFINITY)),
            ("xtc_probability", Value::I32(2)),
            ("xtc_threshold", Value::Bool(true)),
            ("penalty_last_n", Value::I32(-1)),
            ("penalty_repeat", Value::F32(0.0)),
            ("mirostat", Value::I32(3)),
            ("mirostat_tau", Value::F32(-1.0)),
            ("mirostat_eta", Value::F32(2.0)),
            ("sequence", Value::U32(7)),
            ("sequence", Value::Str("unknown;;".to_owned())),
            ("sequence", Value::Str("top_k;".repeat(1000))),
        ] {
            assert_eq!(read(&[(key, value.clone())]), nothing, "{key} {value:?}");
        }
        assert_eq!(read(&[("top_k", Value::I32(-1))]).top_k, Some(0));
        assert_eq!(read(&[("mirostat", Value::I32(0))]).mirostat, Some(false));
    }

    #[test]
    fn samplers_that_the_sequence_lacks_are_disabled() {
        let read_sequence = |sequence: &str| {
            read(&[
                ("sequence", Value::Str(sequence.to_owned())),
                ("top_k", Value::I32(20)),
                ("top_p", Value::F32(0.9)),
            ])
        };
        let actual = read_sequence("Top-K;temp");
        assert_eq!(
            (actual.top_k, actual.top_p, actual.min_p),
            (Some(20), Some(1.0), Some(0.0))
        );
        assert_eq!((actual.temperature, actual.repetition_penalty), (None, Some(1.0)));
        assert_eq!(actual.xtc_probability, Some(0.0));
        let actual = read_sequence("penalties;nucleus;min_p;xtc");
        assert_eq!((actual.top_k, actual.top_p, actual.min_p), (Some(0), Some(0.9), None));
        assert_eq!((actual.temperature, actual.repetition_penalty), (Some(1.0), None));
        assert_eq!(actual.xtc_probability, None);
    }
}
