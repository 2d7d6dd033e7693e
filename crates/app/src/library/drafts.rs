//! Pairs of target and draft models for speculative decoding.

use super::{Model, ModelMetadata};

/// Minimum number of parameters of a model per parameter of its draft. A draft runs a separate step
/// for each token that it proposes. With a third of the weights, three drafted tokens cost as much
/// as the step that verifies them: twice the speed if all are accepted, half of it if none is. A
/// larger draft seldom pays off.
pub const MIN_PARAMETERS_PER_DRAFT_PARAMETER: u64 = 3;

/// Whether a model can draft for another: the same vocabulary, and small enough.
pub fn can_draft(draft: &ModelMetadata, target: &ModelMetadata) -> bool {
    draft.vocabulary.is_some()
        && draft.vocabulary == target.vocabulary
        && (1..=target.parameters / MIN_PARAMETERS_PER_DRAFT_PARAMETER).contains(&draft.parameters)
}

/// The models that can draft for a model, in the order of the list. Files that cannot be read are
/// neither drafts nor targets.
pub fn drafts_of<'a>(target: &'a Model, models: &'a [Model]) -> impl Iterator<Item = &'a Model> {
    models.iter().filter(|draft| match (&draft.metadata, &target.metadata) {
        (Ok(draft), Ok(target)) => can_draft(draft, target),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::FileSampling;
    use crate::wire::{Problem, ProblemCode, Source};

    fn metadata(vocabulary: Option<&str>, parameters: u64) -> ModelMetadata {
        ModelMetadata {
            name: None,
            architecture: "llama".to_owned(),
            quantization: "Q4_1".to_owned(),
            parameters,
            file_size: 1,
            context_trained: 2048,
            vocabulary: vocabulary.map(str::to_owned),
            shape: None,
            merged: Vec::new(),
            sampling: FileSampling::default(),
        }
    }

    #[test]
    fn a_draft_has_the_same_vocabulary_and_at_most_a_third_of_the_parameters() {
        let check = |draft: (Option<&str>, u64), target: (Option<&str>, u64), expected: bool| {
            let actual = can_draft(&metadata(draft.0, draft.1), &metadata(target.0, target.1));
            assert_eq!(actual, expected, "{draft:?} for {target:?}");
        };
        let (same, other) = (Some("00112233aabbccdd"), Some("ffeeddccbbaa9988"));
        check((same, 135), (same, 1700), true);
        check((same, 100), (same, 300), true);
        check((same, 100), (same, 299), false);
        check((same, 300), (same, 300), false);
        check((same, 1700), (same, 135), false);
        check((other, 100), (same, 300), false);
        check((None, 100), (same, 300), false);
        check((same, 100), (None, 300), false);
        check((None, 100), (None, 300), false);
        // A file without tensors.
        check((same, 0), (same, 300), false);
        check((same, u64::MAX / 3), (same, u64::MAX), true);
        check((same, u64::MAX), (same, u64::MAX), false);
    }

    #[test]
    fn drafts_are_listed_in_order_without_unreadable_files() {
        let model = |id: &str, metadata| Model {
            id: id.to_owned(),
            name: id.to_owned(),
            path: id.into(),
            source: Source::File,
            entry: None,
            origin: None,
            is_flat_entry: false,
            metadata,
            is_incomplete: false,
            training_prompt: None,
            base_entry: None,
        };
        let models = [
            model("small", Ok(metadata(Some("a"), 100))),
            model("lost", Err(Problem::detail(ProblemCode::FileUnreadable, "It is gone."))),
            model("large", Ok(metadata(Some("a"), 900))),
            model("other", Ok(metadata(Some("b"), 100))),
            model("tiny", Ok(metadata(Some("a"), 10))),
        ];
        let drafts = |index: usize| {
            drafts_of(&models[index], &models)
                .map(|draft| draft.id.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(drafts(2), ["small", "tiny"]);
        assert_eq!(drafts(0), ["tiny"]);
        for index in [1, 3, 4] {
            assert!(drafts(index).is_empty(), "{}", models[index].id);
        }
    }
}
