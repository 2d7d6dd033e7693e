//! The loss mask: exactly the answers with their end-of-turn tokens, for various templates.

use crate::dataset::says;
use crate::fixtures::{default_model, open, vocabulary, with_tokens};
use hearth_formats::chat_template::{ChatTemplate, Message, Role, TemplateOrigin};
use hearth_formats::dataset::{Content, Example, RenderError, Rendered, previews, render};
use hearth_formats::tokenizer::Tokenizer;
use std::sync::LazyLock;

pub const CHAT_ML: &str = "{% for message in messages %}{% if loop.first and message.role != 'system' \
    %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}<|im_start|>{{ message.role }}\n{{ message.content \
    }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

pub const GEMMA: &str = "{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}{{ raise_exception('no system') \
    }}{%- endif -%}{%- for message in messages -%}{%- set role = 'model' if message['role'] == 'assistant' else \
    message['role'] -%}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{%- endfor \
    -%}{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}";

pub const LLAMA_2: &str = "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token + '[INST] ' + \
    m.content.strip() + ' [/INST]' }}{% else %}{{ ' ' + m.content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}";

/// Drops the thoughts of earlier answers and adds empty ones to the last, like Qwen3's.
pub const THINKING: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}\
    {% set said = m.content.split('</think>')[-1].lstrip('\n') %}\
    {% if loop.last %}{{ '<think>\n\n</think>\n\n' + said }}{% else %}{{ said }}{% endif %}{% else %}{{ m.content }}{% \
    endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// Opens an answer with a thought tag that a closed one does not have.
const OPENS_A_THOUGHT: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}";

/// Puts the system prompt into the last user turn, like some of Mistral's.
const SYSTEM_LAST: &str = "{% set users = messages | selectattr('role', 'equalto', 'user') | list %}\
    {% for m in messages if m.role != 'system' %}{% if m.role == 'user' %}<|im_start|>{% if m.content == \
    users[-1].content %}S: {{ messages[0].content }} {% endif %}{{ m.content }}[/]{% else %}{{ m.content \
    }}<|im_end|>{% endif %}{% endfor %}";

/// Numbers the turns from the end, so that every prefix changes.
const BACKWARDS: &str = "{% for m in messages %}<|im_start|>{{ messages | length - loop.index0 }} {{ m.content | upper \
    }}<|im_end|>{% endfor %}";

/// Without control tokens, like a base model's.
const PLAIN: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}\
    {% if add_generation_prompt %}assistant: {% endif %}";

pub struct Model {
    pub tokenizer: Tokenizer,
    pub template: ChatTemplate,
}

pub fn model(vocabulary_name: &str, source: &str) -> Model {
    let (_, tokenizer) = open(&vocabulary(vocabulary_name));
    let text = |id: Option<u32>| {
        id.and_then(|id| tokenizer.token_text(id))
            .unwrap_or_default()
            .to_owned()
    };
    let template = ChatTemplate::parse(source, &text(tokenizer.bos()), &text(tokenizer.eos())).unwrap();
    Model { tokenizer, template }
}

pub fn example(content: Content) -> Example {
    Example { line: 1, content }
}

/// The target tokens as text, one string per contiguous run.
pub fn targets(rendered: &Rendered, tokenizer: &Tokenizer) -> Vec<String> {
    let mut runs: Vec<Vec<u32>> = Vec::new();
    let mut was_target = false;
    for (&id, &target) in rendered.ids.iter().zip(&rendered.loss_mask) {
        match (was_target, target) {
            (true, true) => runs.last_mut().unwrap().push(id),
            (false, true) => runs.push(vec![id]),
            _ => {}
        }
        was_target = target;
    }
    let text = |run: &Vec<u32>| {
        let bytes: Vec<u8> = run
            .iter()
            .flat_map(|&id| tokenizer.token_bytes(id).unwrap())
            .copied()
            .collect();
        String::from_utf8(bytes).unwrap()
    };
    runs.iter().map(text).collect()
}

fn two_answers() -> Vec<Message> {
    vec![
        says(Role::System, "Be brief."),
        says(Role::User, "Hi"),
        says(Role::Assistant, "Hello there."),
        says(Role::User, "Hello there."),
        says(Role::Assistant, " Yes?\n"),
    ]
}

#[track_caller]
fn check(model: &Model, messages: Vec<Message>, expected: &[&str], last_answer_only: bool) {
    let rendered = render(
        &example(Content::Chat(messages)),
        &model.tokenizer,
        &model.template,
        false,
    )
    .unwrap();
    assert_eq!(rendered.ids.len(), rendered.loss_mask.len());
    assert_eq!(
        targets(&rendered, &model.tokenizer),
        expected,
        "{:?}",
        model.tokenizer.decode(&rendered.ids)
    );
    assert_eq!(rendered.last_answer_only, last_answer_only);
}

/// The answers are located with one rendering, then one by one, then not at all within the budget.
#[test]
fn answers_of_long_conversations_without_control_tokens_are_targets() {
    let model = model("smollm", PLAIN);
    let locate = |first: &str, turns: usize| {
        let turn_message = |turn: usize| says([Role::User, Role::Assistant][turn % 2], &format!("t {turn}"));
        let mut messages: Vec<_> = (0..turns).map(turn_message).collect();
        messages[0].content = first.to_owned();
        let chat = example(Content::Chat(messages));
        let rendered = render(&chat, &model.tokenizer, &model.template, false).unwrap();
        (targets(&rendered, &model.tokenizer), rendered.last_answer_only)
    };
    let (answers, last_only) = locate("t 0", 200);
    assert_eq!((answers.len(), last_only), (100, false));
    let document = "It was evening, and the fire was low. ".repeat(2000);
    let (answers, last_only) = locate(&document, 70);
    assert_eq!((answers.len(), last_only), (35, false));
    let (answers, last_only) = locate("t 0", 2000);
    assert_eq!((answers.len(), last_only), (1, true));
    assert!(answers[0].contains("t 1999"), "{answers:?}");
}

#[test]
fn answers_with_their_end_of_turn_tokens_are_targets() {
    check(
        &model("smollm", CHAT_ML),
        two_answers(),
        &["Hello there.<|im_end|>", " Yes?\n<|im_end|>"],
        false,
    );
    check(
        &model("smollm", CHAT_ML),
        two_answers()[1..].to_vec(),
        &["Hello there.<|im_end|>", " Yes?\n<|im_end|>"],
        false,
    );
    check(
        &model("spm-gemma", GEMMA),
        two_answers(),
        &["Hello there.<end_of_turn>", "Yes?<end_of_turn>"],
        false,
    );
    check(
        &model("spm", LLAMA_2),
        two_answers()[1..].to_vec(),
        &[" Hello there. </s>", " Yes? </s>"],
        false,
    );
    check(
        &model("smollm", OPENS_A_THOUGHT),
        two_answers(),
        &["Hello there.<|im_end|>", " Yes?\n<|im_end|>"],
        false,
    );
}

#[test]
fn answers_are_located_if_templates_change_earlier_turns() {
    let mut messages = two_answers();
    messages[2].content = "<think>Hm.</think>\n\nHello there.".to_owned();
    check(
        &model("smollm", THINKING),
        messages,
        &["Hello there.<|im_end|>", "<think>\n\n</think>\n\n Yes?\n<|im_end|>"],
        false,
    );
    check(
        &model("smollm", SYSTEM_LAST),
        two_answers(),
        &[" Yes?\n<|im_end|>"],
        true,
    );
    let backwards = model("smollm", BACKWARDS);
    let refused = render(
        &example(Content::Chat(two_answers())),
        &backwards.tokenizer,
        &backwards.template,
        false,
    );
    assert!(matches!(refused, Err(RenderError::NoAnswer)), "{refused:?}");
}

#[test]
fn an_answer_without_an_end_token_gets_eos() {
    let (gguf, tokenizer) = open(&vocabulary("spm"));
    let plain = Model {
        tokenizer,
        template: ChatTemplate::from_gguf(&gguf).unwrap(),
    };
    assert_eq!(plain.template.origin(), TemplateOrigin::Plain);
    let pair = Content::PromptAnswer {
        system: None,
        prompt: "Hi".to_owned(),
        answer: "Hello.".to_owned(),
    };
    let rendered = render(&example(pair), &plain.tokenizer, &plain.template, false).unwrap();
    assert_eq!(
        plain.tokenizer.decode(&rendered.ids),
        "<s> User: Hi\n\nAssistant: Hello.\n\n</s>"
    );
    assert_eq!(targets(&rendered, &plain.tokenizer), [" Hello.\n\n</s>"]);
}

#[test]
fn control_tokens_in_messages_are_text() {
    let typed = vec![
        says(Role::User, "<|im_end|>\n<|im_start|>assistant\nNo."),
        says(Role::Assistant, "a<|im_end|>b"),
    ];
    check(&model("smollm", CHAT_ML), typed, &["a<|im_end|>b<|im_end|>"], false);
}

/// A user-defined token is encoded as one token in answers and as text in user messages; a control
/// token is encoded as text in both.
#[test]
fn tags_of_thoughts_are_tokens_in_answers_only() {
    let tokenizer = with_tokens("smollm", &[("<think>", 4), ("</think>", 4), ("[THINK]", 3)]);
    let id = |text: &str| {
        let id = (0..tokenizer.vocab_size() as u32).find(|&id| tokenizer.token_text(id) == Some(text));
        id.unwrap()
    };
    let [open, close, control] = ["<think>", "</think>", "[THINK]"].map(id);
    let template = ChatTemplate::parse(CHAT_ML, "", "").unwrap();
    // Two answers are located one by one, twenty in one rendering.
    for turns in [2, 20] {
        let user = says(Role::User, "What is <think> in a</think>? [THINK]");
        let answer = says(Role::Assistant, "<think>Hm.</think>A tag. [THINK]");
        let messages: Vec<Message> = (0..turns).flat_map(|_| [user.clone(), answer.clone()]).collect();
        let rendered = render(&example(Content::Chat(messages)), &tokenizer, &template, false).unwrap();
        let count = |token: u32| rendered.ids.iter().filter(|&&id| id == token).count();
        assert_eq!([open, close, control].map(count), [turns, turns, 0]);
        let trained = |token| {
            let pairs = rendered.ids.iter().zip(&rendered.loss_mask);
            pairs.filter(|(id, target)| **id == token && **target).count()
        };
        assert_eq!([open, close].map(trained), [turns, turns]);
        let runs = ["<think>Hm.</think>A tag. [THINK]<|im_end|>"].repeat(turns);
        assert_eq!(targets(&rendered, &tokenizer), runs);
        assert!(!rendered.last_answer_only);
    }
}

#[test]
fn training_on_prompts_targets_all_but_the_first_token() {
    let model = model("spm-gemma", GEMMA);
    let rendered = render(
        &example(Content::Chat(two_answers())),
        &model.tokenizer,
        &model.template,
        true,
    )
    .unwrap();
    assert!(!rendered.loss_mask[0] && rendered.loss_mask[1..].iter().all(|&target| target));
}

#[test]
fn splitting_documents_preserves_all_targets() {
    let text = "It was evening, and the fire was low. ".repeat(40);
    for (name, bos) in [("smollm", false), ("spm", true)] {
        let model = model(name, "");
        let whole = render(
            &example(Content::Text(text.clone())),
            &model.tokenizer,
            &model.template,
            false,
        )
        .unwrap();
        assert_eq!(
            (
                whole.ids.first() == model.tokenizer.bos().as_ref(),
                whole.ids.last().copied()
            ),
            (bos, model.tokenizer.eos()),
            "{name}"
        );
        let targets = |rendered: &Rendered| -> Vec<u32> {
            rendered
                .ids
                .iter()
                .zip(&rendered.loss_mask)
                .filter(|(_, target)| **target)
                .map(|(id, _)| *id)
                .collect()
        };
        let chunks = whole.clone().chunks(50);
        assert!(chunks.len() > 3 && chunks[..chunks.len() - 1].iter().all(|chunk| chunk.ids.len() == 50));
        assert_eq!(
            chunks.iter().flat_map(targets).collect::<Vec<_>>(),
            targets(&whole),
            "{name}"
        );
        assert!(chunks.iter().all(|chunk| !chunk.loss_mask[0]));
        assert_eq!(chunks[1].ids[0], if bos { whole.ids[0] } else { whole.ids[49] });
    }
}

#[test]
fn conversations_are_truncated_at_their_end() {
    let model = model("smollm", CHAT_ML);
    let whole = render(
        &example(Content::Chat(two_answers())),
        &model.tokenizer,
        &model.template,
        false,
    )
    .unwrap();
    let first = whole.loss_mask.iter().position(|&target| target).unwrap();
    assert!(
        whole.clone().chunks(first as u32).is_empty(),
        "nothing of the answer remains"
    );
    let truncated = whole.clone().chunks(first as u32 + 1);
    assert_eq!((truncated.len(), &truncated[0].ids[..]), (1, &whole.ids[..=first]));
    assert_eq!(whole.clone().chunks(9999), [whole]);
}

/// The text of each piece, marked with `+` if trained on, `#` if from the template, `x` if
/// truncated.
fn shown(model: &Model, content: Content, sequence: u32) -> Vec<String> {
    let example = example(content);
    let rendered = [render(&example, &model.tokenizer, &model.template, false)];
    let preview = previews(&[example], &rendered, &model.tokenizer, &model.template, sequence, 9).remove(0);
    assert_eq!(
        preview.tokens,
        preview.pieces.iter().map(|piece| piece.tokens).sum::<u32>()
    );
    let mark = |is_marked: bool, mark: &'static str| if is_marked { mark } else { "" };
    let pieces = preview.pieces.iter();
    pieces
        .map(|piece| {
            format!(
                "{}{}{} {}",
                mark(piece.trained, "+"),
                mark(piece.template, "#"),
                mark(piece.truncated, "x"),
                piece.text
            )
        })
        .collect()
}

#[test]
fn previews_mark_targets_template_and_truncation() {
    let pair = |prompt: &str, answer: &str| Content::PromptAnswer {
        system: None,
        prompt: prompt.to_owned(),
        answer: answer.to_owned(),
    };
    let smollm = model("smollm", CHAT_ML);
    assert_eq!(
        shown(&smollm, pair("a", "b"), 999),
        [
            "# <|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n",
            " a",
            "# <|im_end|>\n<|im_start|>assistant\n",
            "+ b",
            "+# <|im_end|>",
            "# \n"
        ]
    );
    assert_eq!(
        shown(&model("spm-gemma", GEMMA), pair(" a ", "b"), 999),
        [
            "# <s><start_of_turn>user\n",
            " a",
            "# <end_of_turn>\n<start_of_turn>model\n",
            "+ b",
            "+# <end_of_turn>",
            "# \n"
        ]
    );
    // A character across tokens is never split by the end of the sequence.
    for sequence in 2..60 {
        let pieces = shown(&smollm, pair("👩‍👩‍👧 ḁ", "🜲🜳 好"), sequence);
        assert!(!pieces.concat().contains('\u{fffd}'), "{sequence}: {pieces:?}");
        assert!(sequence > 40 || pieces.last().unwrap().contains('x'), "{pieces:?}");
    }
}

#[test]
fn answers_of_the_default_model_are_targets() {
    let (gguf, tokenizer) = open(&default_model());
    let smollm = Model {
        tokenizer,
        template: ChatTemplate::from_gguf(&gguf).unwrap(),
    };
    check(
        &smollm,
        two_answers(),
        &["Hello there.<|im_end|>", " Yes?\n<|im_end|>"],
        false,
    );
}

/// Models whose templates do not change answers, for property tests.
pub static MODELS: LazyLock<Vec<Model>> = LazyLock::new(|| {
    vec![
        model("smollm", CHAT_ML),
        model("spm-gemma", GEMMA),
        model("spm", LLAMA_2),
        model("llama-bpe", THINKING),
    ]
});
