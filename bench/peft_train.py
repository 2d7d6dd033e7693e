"""Trains an adapter with PEFT and PyTorch on a model of SmolLM2-135M's shape and reports the speed; run by `train.py`.

    python peft_train.py f32|f32-bf16|bf16 [--compile] --steps N --batch B --seq S --rank R --threads T

Weights and tokens are random, because neither affects the time, so nothing is downloaded. In `f32-bf16` everything is f32, and oneDNN
may round the factors of products to bf16. In `bf16` the frozen weights and the activations are bf16 and the adapter is f32, which is
PEFT's default. `--compile` compiles the model with `torch.compile`. The last line of stdout is a JSON object with the fields of
`hearth train --json`, and `baseline_mb`: the memory of the process after importing, before building the model. The first two steps are not
timed: PyTorch plans, allocates and compiles there.
"""

import argparse
import json
import sys
import time

import peft
import psutil
import torch
import transformers

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
MB = 1 << 20  # as in `hearth train`
DTYPES = {"f32": torch.float32, "f32-bf16": torch.float32, "bf16": torch.bfloat16}
UNTIMED = 2


def peak_mb():
    """Maximum resident set size of this process."""
    if sys.platform == "win32":
        return psutil.Process().memory_info().peak_wset / MB
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / MB if sys.platform == "darwin" else peak * 1024 / MB


def build(dtype, rank):
    config = transformers.LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, head_dim=64, max_position_embeddings=8192, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="default", rope_theta=100000.0),
    )
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    lora = peft.LoraConfig(task_type="CAUSAL_LM", r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules=TARGETS)
    return peft.get_peft_model(model, lora).train()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dtype", choices=DTYPES)
    parser.add_argument("--compile", action="store_true")
    for name in ["steps", "batch", "seq", "rank", "threads"]:
        parser.add_argument(f"--{name}", type=int, required=True)
    args = parser.parse_args()

    baseline = psutil.Process().memory_info().rss / MB
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    # In PyTorch's words, "medium" lets oneDNN round the factors of f32 products to bf16.
    torch.set_float32_matmul_precision("medium" if args.dtype == "f32-bf16" else "highest")
    model = build(DTYPES[args.dtype], args.rank)
    if args.compile:
        model.compile()
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    losses = []
    for step in range(args.steps + UNTIMED):
        if step == UNTIMED:
            begin = time.perf_counter()
        ids = torch.randint(0, 49152, (args.batch, args.seq))
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(loss.item())
        print(f"step {step}: loss {losses[-1]:.3f}", file=sys.stderr)
    seconds = time.perf_counter() - begin
    print(json.dumps({
        "steps": args.steps,
        "losses": losses,
        "tok_s": args.steps * args.batch * args.seq / seconds,
        "peak_rss_mb": peak_mb(),
        "baseline_mb": baseline,
    }))


if __name__ == "__main__":
    main()
