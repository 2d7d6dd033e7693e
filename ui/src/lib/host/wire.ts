// Generated from crates/app/src/wire; its test says how. Do not edit.

export type Theme = "system" | "light" | "dark";

export type GpuLayers = { "type": "auto" } | { "type": "all" } | { "type": "count",
/**
 * How many.
 */
count: number, };

export type KvType = "f16" | "q8_0";

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
 * The device that chats run on, by its identity; none: chosen by the worker.
 */
device: string | null,
/**
 * The device that runs of fine-tuning run on; none: chosen by the worker.
 */
trainingDevice: string | null,
/**
 * The build of Hearth that uses the GPU; none: the fastest.
 */
build: string | null,
/**
 * How many layers of a model that chats lie on a GPU.
 */
gpuLayers: GpuLayers,
/**
 * What a chat's KV cache is kept as.
 */
kv: KvType,
/**
 * Id of the model that was loaded last; it is loaded again when a message is sent.
 */
lastModel: string | null,
/**
 * Bytes that what was read of chats may take on the disk; 0 keeps nothing.
 */
keptBytes: number, };

export type Cache = "chats" | "weights";

export type Cached = {
/**
 * Which.
 */
cache: Cache,
/**
 * Its folder, which may not be there yet.
 */
path: string,
/**
 * Bytes of its files.
 */
bytes: number, };

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
notices: Array<string>,
/**
 * Layers on GPUs.
 */
gpuLayers: number,
/**
 * Layers there are: blocks, prediction blocks included, and the output layer.
 */
layersTotal: number,
/**
 * What the KV cache is kept as.
 */
kv: KvType,
/**
 * Where its bytes lie.
 */
placement: Array<PlannedDevice>, };

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
leftOut: LeftOut | null,
/**
 * The adapters it is made with; empty: the model as it is.
 */
adapters: Array<UsedAdapter>,
/**
 * The other answer of two that are compared side by side, without and with adapters.
 */
comparison: number | null,
/**
 * Whether a person preferred it to that one.
 */
better: boolean,
/**
 * What a person thinks of it.
 */
rating: Rating | null, };

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
 * The adapters that new answers are made with; empty: the model as it is.
 */
adapters: Array<AdapterChoice>,
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
 * What it is called from start to start: what settings name it by.
 */
identity: string,
/**
 * `cpu`, `discrete`, `integrated` or `software`.
 */
kind: string,
/**
 * The maker's name for it.
 */
name: string,
/**
 * How a model would run on it: `cpu`, `vulkan`, `metal`, `dx12` and so on; empty where it cannot.
 */
backend: string,
/**
 * Bytes; none where it cannot be told. A device that shares main memory says main memory here.
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
why: string,
/**
 * The driver's name and version; none for a processor and where it cannot be told.
 */
driver: string | null,
/**
 * The version of the interface the driver offers: `Vulkan 1.3.280`.
 */
api: string | null,
/**
 * How busy it is, 0 to 1; none where it cannot be told.
 */
load: number | null,
/**
 * Physical cores of a processor; none for a GPU.
 */
cores: number | null,
/**
 * How many of them are the fast ones.
 */
performanceCores: number | null,
/**
 * Every backend that can use it.
 */
backends: Array<string>,
/**
 * The builds of Hearth that can use it, the one that is chosen by itself first.
 */
ways: Array<DeviceWay>, };

export type DeviceWay = {
/**
 * `portable`, `vulkan`, `cuda` or `rocm`.
 */
build: string,
/**
 * The backend that it uses.
 */
backend: string,
/**
 * What was found when it was checked; none: it was not.
 */
check: DeviceCheck | null, };

export type DeviceCheck = {
/**
 * What it does otherwise than the processor, in one sentence; none: it computes the same.
 */
wrong: string | null,
/**
 * Bytes of weights that it reads in a second while it answers.
 */
bytesPerSecond: number,
/**
 * Weights that meet a token in a second while a prompt is read.
 */
productsPerSecond: number, };

export type WhatIf = {
/**
 * CPU threads; none: the number of physical cores.
 */
threads: number | null,
/**
 * Context in tokens; none: the model's own, within reason.
 */
context: number | null,
/**
 * A device's identity; none: chosen by the worker.
 */
device: string | null,
/**
 * The build of Hearth that uses the GPU; none: the fastest.
 */
build: string | null,
/**
 * How many layers lie on a GPU.
 */
gpuLayers: GpuLayers,
/**
 * What the KV cache is kept as.
 */
kv: KvType, };

export type Verdict = { "type": "fits" } | { "type": "fitsWithLessContext",
/**
 * The longest that fits, in tokens.
 */
context: number, } | { "type": "slow" } | { "type": "wontFit" };

export type Plan = {
/**
 * Whether every device has room for what is planned there.
 */
fits: boolean,
/**
 * The same for a person.
 */
verdict: Verdict,
/**
 * Why, in one sentence.
 */
why: string,
/**
 * Context in tokens that is planned for.
 */
context: number,
/**
 * The longest context that fits with these layers; 0 if none does.
 */
contextFits: number,
/**
 * Layers on GPUs.
 */
gpuLayers: number,
/**
 * Layers there are: blocks, prediction blocks included, and the output layer.
 */
layersTotal: number,
/**
 * The most layers that fit on GPUs with this context.
 */
layersFit: number,
/**
 * What the KV cache is kept as.
 */
kv: KvType,
/**
 * Every device that gets something.
 */
devices: Array<PlannedDevice>, };

export type PlannedDevice = {
/**
 * Its id.
 */
id: string,
/**
 * The maker's name for it.
 */
name: string,
/**
 * Bytes of weights.
 */
weights: number,
/**
 * Bytes of the KV cache.
 */
kv: number,
/**
 * Bytes of the computation's buffers.
 */
compute: number,
/**
 * Bytes left free on purpose.
 */
margin: number,
/**
 * Its memory; none where it cannot be told.
 */
total: number | null,
/**
 * What of it is free without this model; none where it cannot be told.
 */
free: number | null,
/**
 * What lies there: `token_embd`, `blk.0` and so on, `output`.
 */
layers: Array<string>,
/**
 * Whether there is room for all that.
 */
fits: boolean, };

export type Measurement = {
/**
 * Id of the model in the library.
 */
model: string,
/**
 * Its name then.
 */
modelName: string,
/**
 * The device's identity.
 */
device: string,
/**
 * Layers on GPUs.
 */
gpuLayers: number,
/**
 * Layers there are.
 */
layersTotal: number,
/**
 * What the KV cache was kept as.
 */
kv: KvType,
/**
 * CPU threads.
 */
threads: number,
/**
 * Tokens of a prompt read in a second.
 */
promptTokensPerSecond: number,
/**
 * Tokens answered in a second.
 */
tokensPerSecond: number,
/**
 * Tokens of the prompt that was read.
 */
promptTokens: number,
/**
 * Tokens that were answered.
 */
tokens: number,
/**
 * When.
 */
measuredAt: number, };

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

export type Compared = {
/**
 * The conversation, perhaps a new one.
 */
conversation: ConversationSummary,
/**
 * What the person said.
 */
user: Message,
/**
 * The answer of the model as it is, still empty; it is made first.
 */
base: Message,
/**
 * The answer with adapters, still empty; it is made after the other.
 */
tuned: Message, };

export type Dataset = {
/**
 * Names the dataset in every command.
 */
id: number,
/**
 * For people.
 */
name: string,
/**
 * The file.
 */
path: string,
/**
 * When it was added.
 */
addedAt: number,
/**
 * How many examples it had when it was last looked at.
 */
examples: number | null,
/**
 * Why it cannot be used, if so: the file is gone, say. A whole sentence.
 */
problem: string | null, };

export type SampleDataset = {
/**
 * For people.
 */
name: string,
/**
 * The file.
 */
path: string,
/**
 * Bytes of it.
 */
size: number, };

export type ColumnMapping = {
/**
 * Whole conversations (messages or ShareGPT).
 */
messages: string | null,
/**
 * Instructions for the whole example.
 */
system: string | null,
/**
 * What is asked.
 */
prompt: string | null,
/**
 * What the question is about (alpaca's `input`).
 */
input: string | null,
/**
 * What is answered.
 */
answer: string | null,
/**
 * Plain text to go on.
 */
text: string | null, };

export type Inspection = {
/**
 * `JSONL`, `CSV` and so on.
 */
container: string,
/**
 * How the examples are written: `messages`, `ShareGPT`, `alpaca`, `prompt and answer`, `text`.
 */
shape: string,
/**
 * The columns there are.
 */
columns: Array<string>,
/**
 * Which of them is what, as recognised or as asked for.
 */
mapping: ColumnMapping,
/**
 * Whether a person should confirm the mapping.
 */
unsure: boolean,
/**
 * Examples that can be used.
 */
examples: number,
/**
 * Their tokens, template included.
 */
tokens: number,
/**
 * Tokens that are learnt.
 */
trainedTokens: number,
/**
 * Tokens of the median, the 95th percentile and the longest example.
 */
lengths: [number, number, number],
/**
 * The sequence length that a run would use.
 */
sequence: number,
/**
 * Examples longer than it.
 */
truncated: number,
/**
 * Some examples token by token.
 */
previews: Array<Preview>,
/**
 * What a person should know, most serious first.
 */
findings: Array<Finding>,
/**
 * Lines that cannot be read, the first hundred.
 */
broken: Array<BrokenLine>,
/**
 * How many there are in all.
 */
brokenTotal: number, };

export type Preview = {
/**
 * Its line or row in the file, from 1.
 */
line: number,
/**
 * Its text in pieces; neighbours with the same marks are one piece.
 */
pieces: Array<Piece>,
/**
 * Tokens in all.
 */
tokens: number, };

export type Piece = {
/**
 * The text.
 */
text: string,
/**
 * How many tokens.
 */
tokens: number,
/**
 * Whether it is learnt.
 */
trained: boolean,
/**
 * Whether the template put it there (special tokens, role names).
 */
template: boolean,
/**
 * Whether it is cut off by the sequence length.
 */
cut: boolean, };

export type Severity = "note" | "warning" | "error";

export type Finding = {
/**
 * For programs: `duplicates`, `near_duplicates`, `truncated`, `empty_answers`, `secrets`, `leaks`, `few`, `broken`, `retrieve`.
 */
kind: string,
/**
 * How serious it is.
 */
severity: Severity,
/**
 * What was found and what to do: whole sentences.
 */
message: string,
/**
 * Lines concerned, the first twenty.
 */
lines: Array<number>, };

export type BrokenLine = {
/**
 * Its number, from 1.
 */
line: number,
/**
 * Why, in one sentence.
 */
why: string, };

export type Schedule = "cosine" | "linear" | "constant";

export type Precision = "auto" | "f32" | "bf16";

export type Checkpointing = "auto" | "operations" | "layers";

export type TrainSettings = {
/**
 * Rank of the adapters.
 */
rank: number,
/**
 * An adapter counts for alpha / rank (alpha / sqrt(rank) with `rslora`).
 */
alpha: number,
/**
 * Share of an adapter's inputs that is dropped in training.
 */
dropout: number,
/**
 * Rank-stabilised scaling.
 */
rslora: boolean,
/**
 * Linears with an adapter (`attn_q`, `q_proj`); empty: all.
 */
targets: Array<string>,
/**
 * The highest learning rate.
 */
learningRate: number,
/**
 * How the learning rate falls.
 */
schedule: Schedule,
/**
 * Share of the steps in which it rises.
 */
warmup: number,
/**
 * AdamW's decoupled decay.
 */
weightDecay: number,
/**
 * The gradient is scaled down to this norm; 0: never.
 */
maxGradientNorm: number,
/**
 * Times through the data, at most; none: chosen by how many examples there are.
 */
epochs: number | null,
/**
 * Steps, at most.
 */
maxSteps: number | null,
/**
 * Examples that go through the model together.
 */
batch: number | null,
/**
 * Batches a step.
 */
accumulation: number | null,
/**
 * Tokens an example may have; longer ones are cut, which is said.
 */
sequence: number | null,
/**
 * The same seed on the same machine gives the same run.
 */
seed: number,
/**
 * Share of the examples that is not trained on but measured with.
 */
evalSplit: number,
/**
 * Steps from one evaluation to the next.
 */
evalEvery: number | null,
/**
 * Evaluations without a better loss after which the run ends; 0: never.
 */
patience: number,
/**
 * Whether the order of the examples is drawn anew each epoch.
 */
shuffle: boolean,
/**
 * Id of an adapter to begin with.
 */
init: number | null,
/**
 * Steps from one checkpoint to the next.
 */
checkpointEvery: number | null,
/**
 * Factors of the products.
 */
precision: Precision,
/**
 * What is kept for the backward.
 */
checkpointing: Checkpointing,
/**
 * Learn from everything, not only from answers.
 */
trainOnPrompts: boolean, };

export type NewRun = {
/**
 * For people; none: made from the dataset's and the model's.
 */
name: string | null,
/**
 * Id of the model that is trained on; its file is never written to.
 */
model: string,
/**
 * Id of the dataset.
 */
dataset: number,
/**
 * Which column is what; none: recognised.
 */
mapping: ColumnMapping | null,
/**
 * Leave out lines that cannot be read, instead of refusing the file.
 */
skipBroken: boolean,
/**
 * How it learns.
 */
settings: TrainSettings, };

export type RunPlan = {
/**
 * Examples trained on.
 */
examples: number,
/**
 * Examples held out.
 */
evalExamples: number,
/**
 * Examples that are cut to the sequence length.
 */
truncated: number,
/**
 * Steps at most.
 */
steps: number,
/**
 * Examples that go through the model together.
 */
batch: number,
/**
 * Batches a step.
 */
accumulation: number,
/**
 * Tokens an example may have.
 */
sequence: number,
/**
 * Numbers that are trained.
 */
parameters: number,
/**
 * The factors of its products.
 */
precision: Precision,
/**
 * What is kept for the backward.
 */
checkpointing: Checkpointing,
/**
 * CPU threads.
 */
threads: number,
/**
 * The largest resident memory that the measured steps took, in bytes.
 */
peakMemory: number,
/**
 * Seconds that a step takes, from those.
 */
stepSeconds: number,
/**
 * Seconds that the whole will take at most.
 */
totalSeconds: number,
/**
 * What a person should know. Whole sentences.
 */
notices: Array<string>, };

export type PauseReason = "person" | "chat" | "battery";

export type RunState = { "type": "preparing",
/**
 * From 0 to 1.
 */
fraction: number,
/**
 * What is being done, in a few words.
 */
stage: string, } | { "type": "planned" } | { "type": "running" } | { "type": "paused",
/**
 * Why.
 */
why: PauseReason, } | { "type": "finished" } | { "type": "stopped" } | { "type": "failed",
/**
 * Why.
 */
problem: Problem, } | { "type": "interrupted",
/**
 * What happened.
 */
problem: Problem, };

export type RunPoint = {
/**
 * The step, from 1.
 */
step: number,
/**
 * Times through the data so far.
 */
epoch: number,
/**
 * Mean loss a trained token.
 */
loss: number,
/**
 * The learning rate of this step.
 */
learningRate: number,
/**
 * Norm of the gradient before it was clipped.
 */
gradientNorm: number,
/**
 * Tokens a second in this step.
 */
tokensPerSecond: number,
/**
 * Resident memory, in bytes.
 */
memory: number,
/**
 * Seconds that were left, about.
 */
secondsLeft: number, };

export type RunEvaluation = {
/**
 * After which step; 0 before the first.
 */
step: number,
/**
 * Mean loss a token; none where it came to no number (NaN or infinite).
 */
loss: number | null,
/**
 * Whether it was the best so far; the best adapter is kept.
 */
best: boolean, };

export type RunCurves = {
/**
 * One a step.
 */
points: Array<RunPoint>,
/**
 * Now and then.
 */
evaluations: Array<RunEvaluation>, };

export type EndReason = "completed" | "earlyStop" | "stopped";

export type Outcome = {
/**
 * Why.
 */
reason: EndReason,
/**
 * Steps made, those before a resume included.
 */
steps: number,
/**
 * The step whose adapter is kept: the best by the held-out loss, or the last.
 */
bestStep: number,
/**
 * Mean loss of the last tenth of the steps.
 */
trainLoss: number,
/**
 * Held-out loss before the first step.
 */
evalLossBefore: number | null,
/**
 * Held-out loss of the adapter that is kept.
 */
evalLoss: number | null,
/**
 * Perplexity of a small general text, of the base model.
 */
generalBefore: number | null,
/**
 * The same with the adapter: much more means that the model forgot.
 */
generalAfter: number | null,
/**
 * Tokens a second over the steps.
 */
tokensPerSecond: number,
/**
 * Seconds that the steps took.
 */
seconds: number,
/**
 * The largest resident memory, in bytes.
 */
peakMemory: number, };

export type Run = {
/**
 * Names the run in every command.
 */
id: number,
/**
 * For people.
 */
name: string,
/**
 * Id of the model that is trained on.
 */
model: string,
/**
 * Its name when the run was begun.
 */
modelName: string,
/**
 * Id of the dataset; none once it is forgotten for good.
 */
dataset: number | null,
/**
 * Its name when the run was begun.
 */
datasetName: string,
/**
 * How it learns.
 */
settings: TrainSettings,
/**
 * How far it is.
 */
state: RunState,
/**
 * What it does, once that is known.
 */
plan: RunPlan | null,
/**
 * Its last step so far.
 */
last: RunPoint | null,
/**
 * The step of the checkpoint that resuming goes on from; none: it would begin anew.
 */
checkpoint: number | null,
/**
 * How it ended.
 */
outcome: Outcome | null,
/**
 * Id of the adapter that came of it.
 */
adapter: number | null,
/**
 * When it was begun.
 */
createdAt: number,
/**
 * When it ended.
 */
endedAt: number | null, };

export type Votes = {
/**
 * The answer with the adapter was better.
 */
tuned: number,
/**
 * The answer without it was.
 */
base: number, };

export type Adapter = {
/**
 * Names the adapter in every command.
 */
id: number,
/**
 * For people.
 */
name: string,
/**
 * The run that it came of; none: it was imported.
 */
run: number | null,
/**
 * Id of the model it belongs to.
 */
model: string,
/**
 * That model's name.
 */
modelName: string,
/**
 * Its file or folder.
 */
path: string,
/**
 * When it was made or imported.
 */
createdAt: number,
/**
 * How its run ended.
 */
outcome: Outcome | null,
/**
 * What comparing said.
 */
votes: Votes,
/**
 * Why it cannot be used, if so: its file or its model is gone. A whole sentence.
 */
problem: string | null, };

export type AdapterChoice = {
/**
 * Id of the adapter.
 */
adapter: number,
/**
 * What it counts for; 1 as it was trained.
 */
scale: number, };

export type UsedAdapter = {
/**
 * Its id; the adapter may be gone.
 */
adapter: number,
/**
 * Its name then.
 */
name: string,
/**
 * What it counted for.
 */
scale: number, };

export type Thumb = "up" | "down";

export type Rating = {
/**
 * Whether it was good.
 */
thumb: Thumb,
/**
 * What it should have been.
 */
correction: string | null, };

export type ExportFormat = { "type": "ggufLora" } | { "type": "peft" } | { "type": "gguf",
/**
 * The type of its weights (`Q4_K`, `IQ4_XS`, `Q8_0`, `F16`); none: each as it is in the base model.
 */
kind: string | null, };

export type ExportOrder = {
/**
 * Id of the adapter.
 */
adapter: number,
/**
 * As what.
 */
format: ExportFormat,
/**
 * The file or folder to write.
 */
out: string,
/**
 * Reload what was written and compare.
 */
verify: boolean, };

export type Exported = {
/**
 * The file or folder.
 */
path: string,
/**
 * Bytes of it.
 */
bytes: number,
/**
 * How reloading it went, if that was asked for.
 */
verification: Verification | null, };

export type Verification = {
/**
 * Whether it may be used.
 */
passed: boolean,
/**
 * Prompts that were replayed.
 */
prompts: number,
/**
 * How far it is from what was trained: the mean Kullback-Leibler divergence of the tokens expected, in nats a token.
 */
divergence: number,
/**
 * How far the base model is from it, which is how much was taught, in nats a token.
 */
taught: number,
/**
 * Prompts whose greedy answers are the same.
 */
sameText: number,
/**
 * In a sentence.
 */
summary: string, };

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
problem: Problem, } | { "type": "measureProgress",
/**
 * From 0 to 1.
 */
fraction: number, } | { "type": "contextUsed",
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
total: number, } | { "type": "datasetsChanged",
/**
 * All there are now.
 */
datasets: Array<Dataset>, } | { "type": "runChanged",
/**
 * The run.
 */
run: Run, } | { "type": "runRemoved",
/**
 * Which.
 */
id: number, } | { "type": "runPoint",
/**
 * Which run.
 */
run: number,
/**
 * The step.
 */
point: RunPoint, } | { "type": "runEvaluated",
/**
 * Which run.
 */
run: number,
/**
 * What came of it.
 */
evaluation: RunEvaluation, } | { "type": "runEnded",
/**
 * Which run.
 */
run: number,
/**
 * How, in a sentence.
 */
message: string, } | { "type": "storeHeld",
/**
 * Whether it holds it.
 */
held: boolean, } | { "type": "closing",
/**
 * Which run.
 */
run: number, } | { "type": "adaptersChanged",
/**
 * All there are now.
 */
adapters: Array<Adapter>, };
