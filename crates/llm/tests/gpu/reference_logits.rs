//! Tiny random models entirely on a GPU have the logits of `transformers`, past every length at
//! which their arithmetic changes.

use crate::gpu;
use crate::reference::{Fixture, names};
use hearth_llm::ops::MatmulPrecision;
use hearth_llm::{LoadOptions, Placement, Session};
use hearth_test_parts::Parts;

#[test]
fn logits_on_a_gpu_are_those_of_transformers() {
    if gpu().is_none() {
        return;
    }
    let parts = Parts::from_variable("gpu");
    for (number, name) in names().into_iter().enumerate() {
        if !parts.includes(number, &format!("logits_on_a_gpu_are_those_of_transformers {name}")) {
            continue;
        }
        let fixture = Fixture::read(&name);
        for reference in &fixture.references {
            let layers = fixture.model(None).config().layers();
            let model = fixture.load(&LoadOptions {
                context: reference.context,
                placement: Some(Placement::offload(layers, layers, &[(0, 1)])),
                ..LoadOptions::default()
            });
            let session = Session::new(model, reference.fed).expect("a session");
            let mut session = session.with_precision(MatmulPrecision::F32);
            // The last tokens one by one, as in decode.
            let (prompt, decoded) = fixture.ids[..reference.fed].split_at(reference.fed - 3);
            let steps = std::iter::once(prompt).chain(decoded.chunks(1));
            let logits: Vec<f32> = steps.flat_map(|ids| session.extend(ids).expect("it runs")).collect();
            assert_eq!(logits.len(), reference.fed * fixture.vocab);
            reference.assert_near(&fixture.name, &logits);
        }
    }
}
