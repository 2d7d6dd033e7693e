"""Tests of the measurement of drafts: `python -m unittest discover bench`."""

import argparse
import contextlib
import io
import json
import stat
import sys
import tempfile
import unittest
from pathlib import Path

import draft
import draft_page
import gguf
import grow
import numpy as np
from draft import Answer, Hearth, Task, difference, hearth_answer, llama_answer, measure, tasks
from draft_results import DraftResults, acceptance, interval, worst
from gguf.quants import dequantize

# As the programs printed it, with SmolLM2-135M and code-python.txt.
LOOKUP = """0.00.336.530 I cmn          init: llama threadpool init, n_threads = 2
0.55.804.316 I encoded  488 tokens in    8.004 seconds, speed:   77.837 t/s
0.55.804.341 I decoded  135 tokens in   44.465 seconds, speed:    3.036 t/s
0.55.804.349 I \n0.55.804.357 I n_draft      = 8
0.55.804.364 I n_predict    = 135
0.55.804.371 I n_drafted    = 221
0.55.804.379 I t_draft_flat = 0.29 ms
0.55.804.388 I t_draft      = 1.12 ms, 5.07 us per token, 197321.43 tokens per second
0.55.804.396 I n_accept     = 90
0.55.804.404 I accept       = 40.724%
"""
SPECULATIVE = """0.00.363.173 I cmn          init: llama threadpool init, n_threads = 2
0.24.849.630 I encoded  488 tokens in    5.737 seconds, speed:   85.055 t/s
0.24.849.652 I decoded  168 tokens in   12.646 seconds, speed:   13.285 t/s
0.24.849.659 I \n0.24.849.666 I n_draft   = 3
0.24.849.672 I n_predict = 168
0.24.849.679 I n_drafted = 146
0.24.849.686 I n_accept  = 112
0.24.849.693 I accept    = 76.712%
"""
PLAIN = """0.05.787.254 I encoded  498 tokens in    1.716 seconds, speed:  402.570 t/s
0.05.787.268 I decoded  193 tokens in    3.726 seconds, speed:   51.802 t/s
0.05.787.318 I n_accept     = 0
0.05.787.325 I accept       = -nan%
"""
# Stands in for `hearth run`: twice as fast with a draft. Its last id is wrong if the draft is called so.
FAKE = """#!{python}
import json, sys
choice = sys.argv[sys.argv.index("--draft") + 1]
report = dict(text="", ids=[1, 2, 3], tokens=3, prompt_tokens=9, finish_reason="length", prompt_tok_s=1.0, tok_s=10.0)
if choice != "none":
    report |= dict(tok_s=20.0, drafted=8, accepted=6, draft_gain=1.9, draft_used=0.5, draft_stopped=False)
if choice == "wrong":
    report["ids"] = [1, 2, 4]
print("loading")
print(json.dumps(report))
"""


def pair(speed: float, task: str = "code-a", program: str = "Hearth", name: str = "M", used: str = "ngram") -> tuple:
    plain = Answer(10.0, 3, 300, [1])
    return program, name, task.split("-")[0], task, used, plain, Answer(speed, 3, 300, [1], drafted=10, accepted=4, gain=speed / 10, used=0.5)


class Parsing(unittest.TestCase):
    def test_llama_cpps_reports_are_read(self) -> None:
        self.assertEqual(llama_answer(LOOKUP), Answer(3.036, 135, 488, drafted=221, accepted=90))
        self.assertEqual(llama_answer(SPECULATIVE), Answer(13.285, 168, 488, drafted=146, accepted=112))
        self.assertEqual(llama_answer(PLAIN), Answer(51.802, 193, 498))

    def test_a_report_without_a_speed_is_an_error(self) -> None:
        with self.assertRaises(SystemExit):
            llama_answer("E failed to initialize speculative decoding")

    def test_hearths_last_line_is_read(self) -> None:
        report = {"ids": [5], "tokens": 1, "prompt_tokens": 4, "tok_s": 7.5}
        self.assertEqual(hearth_answer(f"text\n{json.dumps(report)}\n"), Answer(7.5, 1, 4, [5]))
        with_draft = report | {"drafted": 9, "accepted": 8, "draft_gain": 1.5, "draft_used": 0.25, "draft_stopped": "slower"}
        self.assertEqual(hearth_answer(json.dumps(with_draft)), Answer(7.5, 1, 4, [5], 9, 8, 1.5, 0.25, True))
        for bad in ["", "text", "{}", "3"]:
            with self.assertRaises(SystemExit):
                hearth_answer(bad)

    def test_the_first_difference_is_found(self) -> None:
        self.assertIsNone(difference([1, 2], [1, 2]))
        self.assertEqual(difference([1, 2, 3], [1, 4, 3]), 1)
        self.assertEqual(difference([1, 2], [1, 2, 3]), 2)


class Statistics(unittest.TestCase):
    def test_the_interval_of_a_median_needs_six_values(self) -> None:
        self.assertEqual(interval([3.0, 1.0, 2.0]), (1.0, 3.0))
        self.assertEqual(interval([5.0]), (5.0, 5.0))
        # As in tables of the sign test: 6 values miss with 3 %, 9 without their extremes with 4 %.
        self.assertEqual(interval([float(value) for value in range(6)]), (0.0, 5.0))
        self.assertEqual(interval([float(value) for value in range(8)]), (0.0, 7.0))
        self.assertEqual(interval([float(value) for value in range(9)]), (1.0, 7.0))
        self.assertEqual(interval([float(value) for value in range(20)]), (5.0, 14.0))

    def test_acceptance_counts_all_pairs(self) -> None:
        self.assertEqual(acceptance([{"drafted": 10, "accepted": 10}, {"drafted": 30, "accepted": 0}]), 0.25)
        self.assertIsNone(acceptance([{"drafted": 0, "accepted": 0}]))


class Page(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.results = DraftResults(self.folder / "drafts.json")
        for speed in [20.0, 15.0, 16.0]:
            self.results.add(*pair(speed))
            self.results.add(*pair(speed * 0.8, program="llama.cpp"))
        self.results.add(*pair(9.0, "prose-b"))

    def test_a_row_has_speeds_and_ratios_of_both_programs(self) -> None:
        row = "| M | ngram | 10.0 | 16.0 | 1.60 [1.50, 2.00] | 40 % | 1.60 | 50 % |  | 10.0 | 12.8 | 1.28 [1.20, 1.60] | 40 % |"
        self.assertIn(row, draft_page.page(self.results))

    def test_the_worst_ratio_comes_first(self) -> None:
        ratio, row = worst(self.results, "Hearth") or (0.0, {})
        self.assertEqual((ratio, row["task"]), (0.9, "prose-b"))
        page = draft_page.page(self.results)
        self.assertIn("worst ratio of a prompt is **0.90 [0.90, 0.90]**: M, prompt `prose-b`, draft ngram.", page)
        self.assertLess(page.index("worst ratio"), page.index("## "))

    def test_differences_are_on_the_page(self) -> None:
        self.results.differences.append("M, code-a, self: token 3 differs")
        self.assertIn("**Error: M, code-a, self: token 3 differs.**", draft_page.page(self.results))

    def test_results_are_saved_and_those_of_other_settings_not_joined(self) -> None:
        self.results.about = {"threads": 2}
        self.results.save()
        again = DraftResults(self.results.path)
        self.assertEqual(again.pairs, self.results.pairs)
        about = dict.fromkeys(["processor", "cores", "hearth_sha256", "llama", "tokens", "llama_draft"])
        again.join(about | {"threads": 2})
        with self.assertRaises(SystemExit):
            again.join(about | {"threads": 1})


@unittest.skipIf(sys.platform == "win32", "the fake program is a script")
class Measuring(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        program = self.folder / "hearth"
        program.write_text(FAKE.format(python=sys.executable))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.hearth = Hearth(program, 2, 3)

    def measured(self, name: str) -> DraftResults:
        model = self.folder / "model.gguf"
        model.write_bytes(b"GGUF")
        results = DraftResults(self.folder / "drafts.json")
        args = argparse.Namespace(rounds=2, models=[str(model)], drafts=[name], tasks=[Task("code-a", "x = 1")])
        with contextlib.redirect_stderr(io.StringIO()):
            measure(args, results, [self.hearth])
        return results

    def test_each_round_is_a_pair(self) -> None:
        results = self.measured("ngram")
        self.assertEqual([(pair["plain"], pair["tok_s"], pair["used"]) for pair in results.pairs], [(10.0, 20.0, 0.5)] * 2)
        self.assertEqual(results.differences, [])

    def test_tokens_that_differ_are_reported(self) -> None:
        self.assertEqual(len(self.measured("wrong").differences), 2)
        self.assertIn("token 2 differs", self.measured("wrong").differences[0])

    def test_the_order_alternates(self) -> None:
        order: list[str | None] = []

        class Recorder:
            name = "Hearth"

            def decode(self, _model: Path, _task: Task, choice: str | None) -> Answer:
                order.append(choice)
                return Answer(1.0, 1, 1)

        for first in [False, True]:
            draft.both(Recorder(), Path(), Task("code-a", ""), "ngram", first)
        self.assertEqual(order, [None, "ngram", "ngram", None])

    def test_the_prompts_are_of_all_kinds(self) -> None:
        all_tasks = tasks()
        self.assertEqual({task.kind for task in all_tasks}, set(draft_page.KINDS))
        self.assertTrue(all(len(task.prompt) > 900 and task.prompt == task.prompt.rstrip() for task in all_tasks))


class Growing(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model, self.grown = Path(folder.name) / "small.gguf", Path(folder.name) / "grown.gguf"
        writer = gguf.GGUFWriter(self.model, "llama")
        writer.add_block_count(2)
        writer.add_context_length(64)
        writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
        rng = np.random.default_rng(2)
        writer.add_tensor("token_embd.weight", rng.random((4, 32), np.float32))
        for layer in range(2):
            writer.add_tensor(f"blk.{layer}.attn_norm.weight", rng.random(32, np.float32))
            for name, kind in [("attn_q", "Q4_1"), ("attn_output", "Q4_1"), ("ffn_down", "Q8_0")]:
                kind = gguf.GGMLQuantizationType[kind]
                rows = gguf.quants.quantize(rng.random((64, 32), np.float32), kind)
                writer.add_tensor(f"blk.{layer}.{name}.weight", rows, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def tensors(self, noise: float) -> dict:
        grow.grow(self.model, self.grown, 3, noise)
        return {tensor.name: tensor for tensor in gguf.GGUFReader(self.grown).tensors}

    def test_a_grown_model_has_the_original_layers_and_appended_ones_that_add_nothing(self) -> None:
        grown = self.tensors(0.0)
        original = gguf.GGUFReader(self.model)
        for tensor in original.tensors:
            self.assertTrue(np.array_equal(grown[tensor.name].data, tensor.data), tensor.name)
            self.assertEqual(grown[tensor.name].tensor_type, tensor.tensor_type)
        self.assertEqual(len(grown), 1 + 6 * 4)
        for layer in range(2, 6):
            self.assertTrue((grown[f"blk.{layer}.attn_norm.weight"].data == 1).all())
            for name in grow.OUTPUTS:
                tensor, like = grown[f"blk.{layer}.{name}"], grown[f"blk.1.{name}"]
                self.assertEqual((tensor.tensor_type, list(tensor.shape)), (like.tensor_type, list(like.shape)))
                self.assertFalse(dequantize(tensor.data, tensor.tensor_type).any())
            query = grown[f"blk.{layer}.attn_q.weight"]
            self.assertTrue(np.isfinite(dequantize(query.data, query.tensor_type)).all())
            self.assertTrue(dequantize(query.data, query.tensor_type).any())
        fields = gguf.GGUFReader(self.grown).fields
        self.assertEqual(fields["llama.block_count"].contents(), 6)
        self.assertEqual(fields["llama.context_length"].contents(), 64)
        self.assertEqual(fields["tokenizer.ggml.tokens"].contents(), ["a", "b"])

    def test_noise_is_what_the_appended_layers_add(self) -> None:
        def deviation(noise: float) -> float:
            tensor = self.tensors(noise)["blk.4.ffn_down.weight"]
            return float(dequantize(tensor.data, tensor.tensor_type).std())

        self.assertGreater(deviation(0.1), 0)
        self.assertAlmostEqual(deviation(0.2) / deviation(0.1), 2, delta=0.05)


if __name__ == "__main__":
    unittest.main()
