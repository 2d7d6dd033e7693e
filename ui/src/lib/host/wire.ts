// Generated from crates/app/src/wire.rs; its test says how. Do not edit.

export type Theme = "system" | "light" | "dark";

export type Settings = {
/**
 * Light or dark.
 */
theme: Theme,
/**
 * CPU threads; none: the number of physical cores.
 */
threads: number | null,
/**
 * Context in tokens; none: the model's own, within reason.
 */
context: number | null,
/**
 * Id of the model that was loaded last; it is loaded again when a message is sent.
 */
lastModel: string | null, };

export type Sampling = {
/**
 * 0 takes the likeliest token always (greedy).
 */
temperature: number,
/**
 * Keep the k likeliest; 0 keeps all.
 */
topK: number,
/**
 * Keep the likeliest whose probabilities reach p together; 1 keeps all.
 */
topP: number,
/**
 * Drop what is less likely than this share of the likeliest; 0 drops nothing.
 */
minP: number,
/**
 * Divides the score of tokens seen lately; 1 changes nothing.
 */
repetitionPenalty: number,
/**
 * Taken from the score for every time a token was seen; 0 changes nothing.
 */
frequencyPenalty: number,
/**
 * Taken once from the score of a token that was seen; 0 changes nothing.
 */
presencePenalty: number,
/**
 * How many tokens back the penalties look.
 */
repeatLastN: number,
/**
 * The same seed gives the same answer on a CPU; none draws one.
 */
seed: number | null, };

export type Source = "bundled" | "catalog" | "file";

export type Model = {
/**
 * Names the model in every command.
 */
id: string,
/**
 * For people.
 */
name: string,
/**
 * The GGUF file (the first, of a split one).
 */
path: string,
/**
 * Bytes of the file.
 */
fileSize: number,
/**
 * `llama`, `qwen2` and so on; empty while the file cannot be read.
 */
architecture: string,
/**
 * `Q4_1` and so on; empty while the file cannot be read.
 */
quantization: string,
/**
 * Number of weights.
 */
parameters: number,
/**
 * Context in tokens that the model was trained for.
 */
contextTrained: number,
/**
 * One sentence; may be empty.
 */
description: string,
/**
 * What a conversation begins with when it has no system prompt of its own.
 */
systemPrompt: string | null,
/**
 * How its tokens are chosen.
 */
sampling: Sampling,
/**
 * Where it comes from.
 */
source: Source,
/**
 * Why it cannot be loaded, if so: the file is gone or cannot be read. A whole sentence.
 */
problem: string | null, };

export type ModelInfo = {
/**
 * The model's own name.
 */
name: string,
/**
 * `llama`, `qwen2` and so on.
 */
architecture: string,
/**
 * The file's quantisation.
 */
quantization: string,
/**
 * Number of weights.
 */
parameters: number,
/**
 * Bytes of the file.
 */
fileSize: number,
/**
 * Blocks.
 */
layers: number,
/**
 * Context in tokens that was set aside.
 */
context: number,
/**
 * Context in tokens that the model was trained for.
 */
contextTrained: number,
/**
 * The device's id.
 */
device: string,
/**
 * CPU threads in use.
 */
threads: number,
/**
 * How long loading took, in seconds.
 */
loadSeconds: number,
/**
 * What a person should know. Whole sentences.
 */
notices: Array<string>, };

export type ModelState = { "type": "none" } | { "type": "loading",
/**
 * Its id.
 */
model: string,
/**
 * From 0 to 1.
 */
fraction: number,
/**
 * What is being done, in a few words.
 */
stage: string, } | { "type": "ready",
/**
 * Its id.
 */
model: string,
/**
 * What is known of it.
 */
info: ModelInfo, } | { "type": "failed",
/**
 * Its id.
 */
model: string,
/**
 * Why.
 */
problem: Problem, };

export type Problem = {
/**
 * For programs.
 */
code: string,
/**
 * For people: what happened, to what, what to do.
 */
message: string, };

export type Role = "system" | "user" | "assistant";

export type CutReason = "length" | "contextFull";

export type MessageState = { "type": "complete" } | { "type": "waiting" } | { "type": "reading",
/**
 * Tokens read.
 */
done: number,
/**
 * Tokens in all.
 */
total: number, } | { "type": "streaming" } | { "type": "stopped" } | { "type": "cut",
/**
 * Why.
 */
reason: CutReason, } | { "type": "failed",
/**
 * Why.
 */
problem: Problem, };

export type Stats = {
/**
 * Tokens of the prompt.
 */
promptTokens: number,
/**
 * How many of them were still in the cache.
 */
cachedTokens: number,
/**
 * Tokens answered.
 */
tokens: number,
/**
 * Tokens answered in a second.
 */
tokensPerSecond: number,
/**
 * Tokens of the prompt read in a second, without those from the cache.
 */
promptTokensPerSecond: number,
/**
 * From the request to the first token, in seconds.
 */
firstTokenSeconds: number,
/**
 * Tokens of the context in use after the answer.
 */
contextUsed: number,
/**
 * Tokens of the context in all.
 */
context: number, };

export type LeftOut = {
/**
 * How many messages from the beginning.
 */
messages: number,
/**
 * How many tokens they took.
 */
tokens: number, };

export type Message = {
/**
 * Names the message.
 */
id: number,
/**
 * Whose it is.
 */
conversation: number,
/**
 * What it follows; none for the first.
 */
parent: number | null,
/**
 * Who says it.
 */
role: Role,
/**
 * What is said.
 */
content: string,
/**
 * How far it is.
 */
state: MessageState,
/**
 * When it was begun.
 */
createdAt: number,
/**
 * Name of the model that answered.
 */
model: string | null,
/**
 * How fast it was, once it has ended.
 */
stats: Stats | null,
/**
 * What the model could not see of the conversation.
 */
leftOut: LeftOut | null, };

export type ConversationSummary = {
/**
 * Names the conversation.
 */
id: number,
/**
 * For people.
 */
title: string,
/**
 * When it was begun.
 */
createdAt: number,
/**
 * When something was last said in it.
 */
updatedAt: number,
/**
 * Name of the model that answered last.
 */
model: string | null, };

export type Conversation = {
/**
 * Names the conversation.
 */
id: number,
/**
 * For people.
 */
title: string,
/**
 * When it was begun.
 */
createdAt: number,
/**
 * When something was last said in it.
 */
updatedAt: number,
/**
 * Name of the model that answered last.
 */
model: string | null,
/**
 * The conversation's own system prompt; none: the model's.
 */
systemPrompt: string | null,
/**
 * The last message of the branch that is shown.
 */
leaf: number | null,
/**
 * All nodes of the tree, in order of creation.
 */
messages: Array<Message>, };

export type SnippetPart = {
/**
 * The text.
 */
text: string,
/**
 * Whether it is what was searched for.
 */
hit: boolean, };

export type SearchHit = {
/**
 * The conversation.
 */
conversation: number,
/**
 * Its title.
 */
title: string,
/**
 * The message; none where only the title has it.
 */
message: number | null,
/**
 * The text around the hit.
 */
snippet: Array<SnippetPart>,
/**
 * When something was last said in the conversation.
 */
updatedAt: number, };

export type Device = {
/**
 * `cpu`, `gpu0` and so on.
 */
id: string,
/**
 * `cpu`, `discrete`, `integrated` or `software`.
 */
kind: string,
/**
 * The maker's name for it.
 */
name: string,
/**
 * `cpu`, `vulkan`, `metal`, `dx12` or `cuda`.
 */
backend: string,
/**
 * Bytes; none where it cannot be told.
 */
memoryTotal: number | null,
/**
 * Bytes; none where it cannot be told.
 */
memoryFree: number | null,
/**
 * Whether a model can run on it.
 */
usable: boolean,
/**
 * Why (not), in one sentence.
 */
why: string, };

export type Snapshot = {
/**
 * Hearth's version.
 */
version: string,
/**
 * What a person chose.
 */
settings: Settings,
/**
 * Newest first.
 */
conversations: Array<ConversationSummary>,
/**
 * What is on this machine.
 */
models: Array<Model>,
/**
 * What is loaded.
 */
modelState: ModelState,
/**
 * Id of the model a new conversation begins with.
 */
defaultModel: string | null, };

export type Sent = {
/**
 * The conversation, perhaps a new one.
 */
conversation: ConversationSummary,
/**
 * What the person said; none when only the answer is new.
 */
user: Message | null,
/**
 * The answer, still empty.
 */
answer: Message, };

export type Event = { "type": "modelState",
/**
 * The new state.
 */
state: ModelState, } | { "type": "messageDelta",
/**
 * Whose message it is.
 */
conversation: number,
/**
 * The message.
 */
message: number,
/**
 * What to append.
 */
text: string,
/**
 * Tokens answered so far.
 */
tokens: number,
/**
 * Tokens answered in a second so far.
 */
tokensPerSecond: number, } | { "type": "messageChanged",
/**
 * The message.
 */
message: Message, } | { "type": "conversationChanged",
/**
 * The conversation.
 */
conversation: ConversationSummary,
/**
 * The last message of the branch that is shown.
 */
leaf: number | null, } | { "type": "conversationRemoved",
/**
 * Which.
 */
id: number, } | { "type": "modelsChanged",
/**
 * What is on this machine now.
 */
models: Array<Model>, } | { "type": "workerDied",
/**
 * What happened.
 */
problem: Problem, } | { "type": "contextUsed",
/**
 * The conversation.
 */
conversation: number,
/**
 * Tokens in use.
 */
used: number,
/**
 * Tokens in all.
 */
total: number, };
