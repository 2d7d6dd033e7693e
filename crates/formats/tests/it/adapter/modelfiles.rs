//! Ollama Modelfiles.

use hearth_formats::adapter::modelfile;
use hearth_formats::chat_template::ChatTemplate;
use std::path::Path;

const SMOLLM: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}\
    {{ '<|im_start|>system\nYou are kind.<|im_end|>\n' }}{% endif %}\
    {{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

#[test]
fn a_template_is_written_only_for_chat_ml() {
    let base = Path::new("my model.gguf");
    let chat_ml = ChatTemplate::parse(SMOLLM, "", "").unwrap();
    let text = modelfile(
        base,
        Some(Path::new("adapter.gguf")),
        Some(&chat_ml),
        None,
        &[("temperature", "0.2")],
    );
    assert_eq!(
        text,
        "FROM \"my model.gguf\"\nADAPTER adapter.gguf\nPARAMETER temperature 0.2\nPARAMETER \
         stop \"<|im_end|>\"\nTEMPLATE \"\"\"{{ range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content \
         }}<|im_end|>\n{{ end }}<|im_start|>assistant\n\"\"\"\nSYSTEM \"You are kind.\"\n"
    );
    for other in [
        SMOLLM.replace("'<|im_end|>' + '\n'", "'<|im_end|>'"),
        "{{ messages[0].content }}".to_owned(),
    ] {
        let template = ChatTemplate::parse(&other, "", "").unwrap();
        let text = modelfile(base, None, Some(&template), None, &[]);
        assert!(text.starts_with("FROM \"my model.gguf\"\n# No TEMPLATE"), "{text}");
        assert_eq!(text, modelfile(base, None, None, None, &[]));
    }
}

#[test]
fn the_system_prompt_of_the_training_replaces_the_templates() {
    let base = Path::new("model.gguf");
    let chat_ml = ChatTemplate::parse(SMOLLM, "", "").unwrap();
    let other = ChatTemplate::parse("{{ messages[0].content }}", "", "").unwrap();
    for template in [&chat_ml, &other] {
        let text = modelfile(base, None, Some(template), Some("Be brief."), &[]);
        assert!(text.ends_with("\nSYSTEM \"Be brief.\"\n"), "{text}");
        let text = modelfile(base, None, Some(template), Some(""), &[]);
        assert!(!text.contains("SYSTEM"), "{text}");
    }
}
