//! The sequences in which llama.cpp applies patterns, by the pre-tokenizer or model that they were
//! made for.

use super::patterns as p;
use super::steps::{Groups, Step};

/// The first step of AFMoE and Tiny Aya.
static GROUPS: Step = Step::Groups(Groups::WithTextBefore);

/// The second step of SuperBPE.
static GROUPS_IN_NUMBER: Step = Step::Groups(Groups::WithTextAfter);

pub(super) static AFMOE: &[&Step] = &[&GROUPS, &p::AFMOE_SCRIPTS, &p::DEEPSEEK_V3];
pub(super) static BLOOM: &[&Step] = &[&p::BLOOM];
pub(super) static CHAMELEON: &[&Step] = &[
    &p::SENTINEL,
    &p::IMAGE,
    &p::CHAMELEON_SPACE,
    &p::DIGIT,
    &p::ONE_PUNCTUATION,
    &p::GPT2,
];
pub(super) static DEEPSEEK_CODER: &[&Step] = &[
    &p::LINE_BREAK,
    &p::SPACE_AND_LETTERS,
    &p::SPACE_AND_PUNCTUATION,
    &p::EAST,
    &p::DIGIT,
];
pub(super) static DEEPSEEK_LLM: &[&Step] = &[
    &p::LINE_BREAK,
    &p::DEEPSEEK_LETTERS,
    &p::DEEPSEEK_SYMBOLS,
    &p::SPACE_AT_END,
    &p::EAST,
    &p::NUMBER,
];
pub(super) static DEEPSEEK_V3: &[&Step] = &[&p::UP_TO_THREE_DIGITS, &p::HAN_OR_KANA, &p::DEEPSEEK_V3];
pub(super) static DEFAULT: &[&Step] = &[&p::PUNCTUATION, &p::GPT2, &p::NUMBER, &p::THREE_ASCII_DIGITS];
pub(super) static EXAONE_MOE: &[&Step] = &[&p::EXAONE_MOE];
pub(super) static FALCON: &[&Step] = &[&p::PUNCTUATION_AND_BACKTICKS, &p::GPT2, &p::THREE_ASCII_DIGITS];
pub(super) static GPT2: &[&Step] = &[&p::GPT2];
pub(super) static GPT4O: &[&Step] = &[&p::GPT4O];
pub(super) static GRANITE: &[&Step] = &[&p::GRANITE];
pub(super) static JAIS2: &[&Step] = &[&p::JAIS2];
pub(super) static KIMI_K2: &[&Step] = &[&p::KIMI_K2];
pub(super) static LAGUNA: &[&Step] = &[&p::LINE_OR_BREAKS, &p::QWEN2];
pub(super) static LINES: &[&Step] = &[&p::LINE_OR_BREAKS];
pub(super) static LLAMA3: &[&Step] = &[&p::LLAMA3];
pub(super) static MINICPM5: &[&Step] = &[&p::UP_TO_THREE_DIGITS, &p::LLAMA3];
pub(super) static QWEN2: &[&Step] = &[&p::QWEN2];
pub(super) static QWEN35: &[&Step] = &[&p::QWEN35];
pub(super) static SEED_CODER: &[&Step] = &[&p::SEED_CODER];
pub(super) static SINGLE_DIGITS: &[&Step] = &[&p::DIGIT, &p::GPT2];
pub(super) static SPARK: &[&Step] = &[&p::UP_TO_THREE_DIGITS, &p::HAN_OR_KANA, &p::SPARK, &p::DIGIT];
pub(super) static SUPERBPE: &[&Step] = &[&p::NUMBER, &GROUPS_IN_NUMBER];
pub(super) static TEKKEN: &[&Step] = &[&p::TEKKEN];
pub(super) static TINY_AYA: &[&Step] = &[&GROUPS, &p::TINY_AYA];
pub(super) static UFAKZEKA: &[&Step] = &[&p::UFAKZEKA];
pub(super) static VIKING: &[&Step] = &[&p::BLOOM, &p::DIGIT];
pub(super) static YOUTU: &[&Step] = &[&p::YOUTU_SCRIPTS, &p::YOUTU];
