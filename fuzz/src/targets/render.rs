//! A dataset through a template and a tokenizer: loss mask, chunks, previews and report.

use super::tokenizer::TOKENIZERS;
use crate::seeds::{self, Seed};
use hearth_formats::chat_template::ChatTemplate;
use hearth_formats::dataset::{self, Dataset, ReadOptions, Report, ReportOptions};
use hearth_formats::tokenizer::Tokenizer;

/// The input: flags, then a template, a NUL, and a dataset.
pub fn run(bytes: &[u8]) -> bool {
    let Some((&flags, bytes)) = bytes.split_first() else {
        return false;
    };
    let Some((source, data)) = bytes.iter().position(|&byte| byte == 0).map(|at| bytes.split_at(at)) else {
        return false;
    };
    let tokenizer = &TOKENIZERS[usize::from(flags >> 2) % TOKENIZERS.len()];
    let (Ok(source), data) = (std::str::from_utf8(source), &data[1..]) else {
        return false;
    };
    let special = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id)).unwrap_or_default();
    let Ok(template) = ChatTemplate::parse(source, special(tokenizer.bos()), special(tokenizer.eos())) else {
        return false;
    };
    let options = ReadOptions {
        mapping: None,
        skip_broken: true,
    };
    let Ok(dataset) = Dataset::from_bytes(data.to_vec(), "x.jsonl", &options) else {
        return false;
    };
    check(
        &dataset,
        tokenizer,
        &template,
        flags & 1 == 1,
        if flags & 2 == 0 { 16 } else { 512 },
    );
    true
}

fn check(dataset: &Dataset, tokenizer: &Tokenizer, template: &ChatTemplate, train_on_prompts: bool, sequence: u32) {
    let examples = &dataset.examples[..dataset.examples.len().min(20)];
    let rendered = dataset::render_all(examples, tokenizer, template, train_on_prompts, 1, &mut |_| true);
    let rendered = rendered.expect("it was not cancelled");
    for (example, rendered) in examples.iter().zip(&rendered) {
        let Ok(rendered) = rendered else { continue };
        assert_eq!(rendered.line, example.line);
        assert_eq!(rendered.ids.len(), rendered.loss_mask.len());
        assert!(rendered.ids.iter().all(|&id| (id as usize) < tokenizer.vocab_size()));
        assert_ne!(
            rendered.loss_mask.first(),
            Some(&true),
            "nothing comes before the first token"
        );
        let chunks = rendered.clone().chunks(sequence);
        for chunk in &chunks {
            assert!(chunk.ids.len() <= sequence as usize && chunk.ids.len() == chunk.loss_mask.len());
            assert!(chunk.loss_mask.contains(&true));
        }
        if rendered.is_document {
            let targets = |one: &dataset::Rendered| one.loss_mask.iter().filter(|&&trained| trained).count();
            assert_eq!(chunks.iter().map(targets).sum::<usize>(), targets(rendered));
        }
    }
    let previews = dataset::previews(examples, &rendered, tokenizer, template, sequence, 3);
    for preview in previews {
        let shown: u32 = preview.pieces.iter().map(|piece| piece.tokens).sum();
        assert!(shown <= preview.tokens);
    }
    let options = ReportOptions {
        sequence: Some(sequence),
        context: 2048,
    };
    if examples.len() == dataset.examples.len() {
        let report = Report::new(dataset, &rendered, options);
        assert!(report.trained_tokens <= report.tokens);
    }
}

pub fn seeds() -> Vec<Seed> {
    const CHAT_ML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
        {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    const LLAMA_2: &str = "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token + '[INST] ' + \
     m.content.strip() + ' [/INST]' }}\
        {% else %}{{ ' ' + m.content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}";
    const THINKING: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}\
        {{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}\
        {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    const DATA: [&str; 3] = [
        r#"{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "And?"}, {"role": "assistant", "content": "<think>\nWell\n</think>\nYes?\n"}]}"#,
        "{\"prompt\": \"2 + 2?\", \"completion\": \"4\"}\n{\"prompt\": \"Zürich\", \"completion\": \"日本語 😀\"}\n",
        "{\"text\": \"Once upon a time there was a kettle, and it sang.\"}\n{\"text\": \"<|im_end|> </s> é\\n\\t\"}\n",
    ];
    let mut inputs = Vec::new();
    for (number, template) in [CHAT_ML, LLAMA_2, THINKING].into_iter().enumerate() {
        for (kind, data) in DATA.into_iter().enumerate() {
            // Covers every tokenizer and option.
            let flags = (4 * (3 * number + kind) + (number + kind) % 4) as u8;
            let bytes = [&[flags], template.as_bytes(), b"\0", data.as_bytes()].concat();
            inputs.push(Seed::new(format!("template {number}, dataset {kind}"), bytes));
        }
    }
    let sample = seeds::text("assets/datasets/hearthside.jsonl");
    let lines: String = sample.split_inclusive('\n').take(3).collect();
    inputs.push(Seed::new(
        "sample",
        [b"\x01", CHAT_ML.as_bytes(), b"\0", lines.as_bytes()].concat(),
    ));
    inputs
}
