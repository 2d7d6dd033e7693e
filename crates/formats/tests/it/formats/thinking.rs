//! The thinking that real chat templates can switch, and how it is rendered.

use crate::fixtures::templates;
use hearth_formats::chat_template::{Chat, ChatTemplate, GenerationPrompt, Message, Role, Thinking, ThinkingSupport};
use std::fs;

fn template(name: &str) -> ChatTemplate {
    let path = templates().join("llama.cpp").join(format!("{name}.jinja"));
    let source = fs::read_to_string(path).expect("a fixture");
    ChatTemplate::parse(&source, "<s>", "</s>").expect("a template")
}

fn rendered(template: &ChatTemplate, enabled: Option<bool>, effort: Option<&'static str>) -> String {
    let message = Message {
        role: Role::User,
        content: "Hello".to_owned(),
    };
    let chat = Chat::from(&[message][..]).with_thinking(Thinking { enabled, effort });
    template.render_chat(&chat, GenerationPrompt::Add).expect("a prompt")
}

#[test]
fn the_fields_that_a_template_reads_are_detected() {
    for (name, switch, effort) in [
        ("Qwen-Qwen3-0.6B", Some(true), false),
        ("HuggingFaceTB-SmolLM3-3B", Some(true), false),
        ("deepseek-ai-DeepSeek-V3.1", Some(false), false),
        ("ibm-granite-granite-3.3-2B-Instruct", Some(false), false),
        ("openai-gpt-oss-120b", None, true),
        ("Qwen-Qwen2.5-7B-Instruct", None, false),
        ("google-gemma-2-2b-it", None, false),
        ("ibm-granite-granite-4.0", None, false),
        ("ibm-granite-granite-4.1", None, false),
        ("microsoft-Phi-3.5-mini-instruct", None, false),
        ("mistralai-Ministral-3-14B-Reasoning-2512", None, false),
        ("mistralai-Mistral-Nemo-Instruct-2407", None, false),
        ("meta-llama-Llama-3.1-8B-Instruct", None, false),
    ] {
        assert_eq!(template(name).thinking(), ThinkingSupport { switch, effort }, "{name}");
    }
}

#[test]
fn a_choice_is_a_variable_and_no_choice_is_none() {
    let qwen = template("Qwen-Qwen3-0.6B");
    assert!(rendered(&qwen, Some(false), None).ends_with("<think>\n\n</think>\n\n"));
    assert_eq!(rendered(&qwen, Some(true), None), rendered(&qwen, None, None));
    assert_eq!(rendered(&qwen, None, Some("high")), rendered(&qwen, None, None));
    let smol = template("HuggingFaceTB-SmolLM3-3B");
    let off = rendered(&smol, Some(false), None);
    assert!(off.contains("Reasoning Mode: /no_think\n") && off.ends_with("assistant\n<think>\n\n</think>\n"));
    let on = rendered(&smol, Some(true), None);
    assert!(on.contains("Reasoning Mode: /think\n") && on.ends_with("assistant\n"));
    assert_eq!(on, rendered(&smol, None, None));
    let granite = template("ibm-granite-granite-3.3-2B-Instruct");
    let asks = |enabled| rendered(&granite, enabled, None).contains("Write your thoughts between <think></think>");
    assert_eq!([None, Some(true), Some(false)].map(asks), [false, true, false]);
    let oss = template("openai-gpt-oss-120b");
    assert!(rendered(&oss, None, Some("high")).contains("Reasoning: high"));
    assert!(rendered(&oss, None, None).contains("Reasoning: medium"));
}

#[test]
fn templates_without_an_effect_or_that_fail_have_no_switch() {
    for source in [
        "{% set enable_thinking = true %}{{ enable_thinking }}",
        "{% if enable_thinking %}x{% else %}x{% endif %}{{ messages[0].content }}",
        "{{ message.enable_thinking }} 'reasoning_effort' {{ 'thinking' }}",
        "{{ raise_exception('no') }}{{ enable_thinking }}{{ reasoning_effort }}",
        "{% for x in range(100000000) %}{{ thinking }}{% endfor %}",
    ] {
        let template = ChatTemplate::parse(source, "", "").expect("a template");
        assert_eq!(template.thinking(), ThinkingSupport::default(), "{source}");
    }
}
