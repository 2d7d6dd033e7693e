//! Floats in JSON, which has neither NaN nor infinities.

use serde::{Deserialize, Deserializer};

/// Deserializes a float. `null`, which serde_json writes for NaN and infinities, becomes NaN, so
/// that such a value does not make the whole message unreadable. Used for every float of a message
/// that is not an `Option`; a test enforces it.
///
/// # Errors
/// The value is neither a number nor `null`.
pub fn or_nan<'de, D: Deserializer<'de>, F: Deserialize<'de> + From<f32>>(deserializer: D) -> Result<F, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(|| f32::NAN.into()))
}

#[cfg(test)]
mod tests {
    use crate::*;

    /// Replaces each float with `null`, as serde_json writes NaN. Returns their number.
    fn replace_floats(json: &mut serde_json::Value) -> usize {
        use serde_json::Value;
        match json {
            Value::Number(number) if number.is_f64() => {
                *json = Value::Null;
                1
            }
            Value::Array(items) => items.iter_mut().map(replace_floats).sum(),
            Value::Object(fields) => fields.values_mut().map(replace_floats).sum(),
            _ => 0,
        }
    }

    /// Asserts that the event has this many floats and can be read with all of them NaN.
    fn assert_event_is_read(event: Event, float_count: usize) {
        assert_is_read(&Envelope { id: 1, message: event }, float_count);
    }

    /// Asserts that the message has this many floats and can be read with all of them NaN.
    fn assert_is_read<M: serde::Serialize + serde::de::DeserializeOwned>(message: &M, float_count: usize) {
        let mut json = serde_json::to_value(message).expect("it is written");
        assert_eq!(replace_floats(&mut json), float_count, "{json}");
        let line = json.to_string();
        if let Err(error) = serde_json::from_str::<M>(&line) {
            panic!("{error}: {line}");
        }
    }

    #[test]
    fn events_with_nan_floats_are_read() {
        let training = |event| Event::Training { event };
        assert_event_is_read(
            training(TrainingEvent::Evaluated {
                step: 3,
                loss: Some(0.5),
                best: false,
            }),
            1,
        );
        assert_event_is_read(
            training(TrainingEvent::Step(StepReport {
                step: 1,
                steps: 2,
                epoch: 0.5,
                loss: 0.5,
                learning_rate: 0.5,
                gradient_norm: 0.5,
                tokens: 3,
                tokens_per_second: 0.5,
                memory: 4,
                seconds_left: 0.5,
            })),
            6,
        );
        assert_event_is_read(
            training(TrainingEvent::Finished(Box::new(Outcome {
                reason: EndReason::Completed,
                steps: 1,
                best_step: 1,
                train_loss: 0.5,
                eval_loss_before: Some(0.5),
                eval_loss: Some(0.5),
                general_before: Some(0.5),
                general_after: Some(0.5),
                tokens_per_second: 0.5,
                seconds: 0.5,
                peak_memory: 1,
                adapter: "adapter".into(),
            }))),
            7,
        );
        assert_event_is_read(
            Event::Exported(Exported {
                path: "out".into(),
                bytes: 1,
                modelfile: None,
                verification: Some(Verification {
                    passed: false,
                    learned: true,
                    prompts: 1,
                    divergence: 0.5,
                    taught: 0.5,
                    same_text: 0,
                    result: VerificationResult::NothingLearned,
                }),
                notices: Vec::new(),
            }),
            2,
        );
        let check = DeviceCheck {
            mismatch: None,
            bytes_per_second: 0.5,
            step_seconds: 0.5,
            layer_seconds: 0.5,
            macs_per_second: 0.5,
            seconds: 0.5,
            kernels_launched: 1,
            kernels_compiled: 1,
            load: Some(0.5),
        };
        let option = BackendOption {
            check: Some(check),
            ..BackendOption::default()
        };
        let device = DeviceInfo {
            load: Some(0.5),
            backends: vec![option],
            ..DeviceInfo::default()
        };
        assert_event_is_read(Event::Devices { devices: vec![device] }, 7);
        assert_event_is_read(
            Event::Measured(Measured {
                prompt_tokens_per_second: 0.5,
                tokens_per_second: 0.5,
                prompt_tokens: 1,
                tokens: 1,
            }),
            2,
        );
        assert_event_is_read(
            Event::Progress {
                fraction: 0.5,
                stage: Stage::default(),
            },
            1,
        );
    }

    #[test]
    fn requests_with_nan_floats_are_readable_so_that_the_worker_can_refuse_them() {
        let settings: TrainSettings = TrainSettings {
            alpha: 0.5,
            dropout: 0.5,
            learning_rate: 0.5,
            warmup: 0.5,
            weight_decay: 0.5,
            max_gradient_norm: 0.5,
            epochs: Some(0.5),
            eval_split: 0.5,
            ..TrainSettings::default()
        };
        assert_is_read(&settings, 8);
        let with_null: TrainSettings = serde_json::from_str(r#"{"learningRate": null}"#).expect("it is read");
        assert!(with_null.learning_rate.is_nan() && with_null.alpha == <TrainSettings>::default().alpha);
        let sampling = SamplingParams {
            temperature: 0.5,
            top_p: 0.5,
            min_p: 0.5,
            repetition_penalty: 0.5,
            frequency_penalty: 0.5,
            presence_penalty: 0.5,
            typical_p: 0.5,
            top_n_sigma: 0.5,
            xtc_probability: 0.5,
            xtc_threshold: 0.5,
            dry_multiplier: 0.5,
            dry_base: 0.5,
            mirostat_tau: 0.5,
            mirostat_eta: 0.5,
            dynatemp_range: 0.5,
            dynatemp_exponent: 0.5,
            logit_bias: vec![LogitBias::Id { id: 1, bias: Some(0.5) }],
            ..SamplingParams::default()
        };
        assert_is_read(&sampling, 17);
        assert_is_read(
            &AdapterChoice {
                path: "adapter".into(),
                scale: 0.5,
            },
            1,
        );
    }

    /// Covers floats that are added to messages later.
    #[test]
    fn every_float_of_a_message_uses_or_nan() {
        let sources = [
            include_str!("device.rs"),
            include_str!("draft.rs"),
            include_str!("messages.rs"),
            include_str!("plan.rs"),
            include_str!("training.rs"),
        ];
        let mut float_count = 0;
        for source in sources {
            let lines: Vec<&str> = source.lines().map(str::trim).collect();
            for (index, line) in lines.iter().enumerate() {
                let is_float = line.ends_with(": f32,") || line.ends_with(": f64,");
                if is_float {
                    float_count += 1;
                    assert!(lines[index - 1].contains("number::or_nan"), "{line}");
                }
                let has_nested_float = ["[f32", "[f64", "<f32", "<f64", "(f32", "(f64"]
                    .iter()
                    .any(|pattern| line.contains(pattern));
                assert!(
                    !has_nested_float || line.contains("Option<f"),
                    "several floats at once: {line}"
                );
            }
        }
        assert!(float_count > 30, "{float_count}");
    }
}
