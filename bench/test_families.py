"""Tests of the comparison in the shapes of published models, with fake programs: `python -m unittest discover bench`."""

import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import families
import gguf
import models
from families import MEMORY, Contender
from names import RECIPES
from programs import HEARTH, IK, LLAMA, OPENVINO, can_run
from shapes import PUBLISHED, SHAPES, Mistral3, Phi3

# The sizes of the published files in Q4_K_M, with their tokenizers; shapes.py names them.
FILES = {"ministral-3b": 2_147_023_008, "phi-4-mini": 2_491_874_272}


def size(kind: str, rows: int, cols: int) -> int:
    elements, block = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    return rows * cols // elements * block


class PublishedShapes(unittest.TestCase):
    def test_tensors_have_the_size_of_the_published_files(self) -> None:
        for name, file in FILES.items():
            shape = PUBLISHED[name]
            tensors = sum(size(kind, rows, cols) for _, kind, rows, cols in shape.tensors(RECIPES["Q4_K_M"], shape.vocab))
            # The rest is a tokenizer, of 7 to 9 MB with vocabularies of this size.
            self.assertTrue(7e6 < file - tensors < 9e6, f"{name}: {file - tensors}")

    def test_a_written_model_has_the_keys_tensors_and_vocabulary_of_its_architecture(self) -> None:
        small = {"layers": 2, "width": 256, "ffn": 512, "heads": 2, "kv_heads": 1, "vocab": 50000, "context": 16384}
        cases = [
            (Mistral3(**small, head_width=256), {"attention.temperature_scale": 0.1, "attention.key_length": 256}, {"blk.1.attn_q.weight": [256, 512]}),
            (
                Phi3(**small),
                {"rope.dimension_count": 96, "attention.sliding_window": 262144},
                {"blk.1.attn_qkv.weight": [256, 512], "blk.1.ffn_up.weight": [256, 1024], "rope_factors_long.weight": [48]},
            ),
        ]
        for shape, keys, tensors in cases:
            with tempfile.TemporaryDirectory() as folder, mock.patch.dict(SHAPES, {"small": shape}):
                path = Path(folder) / "small.gguf"
                models.write(path, "small", "Q4_K_M")
                reader = gguf.GGUFReader(path)
                for key, value in keys.items():
                    self.assertAlmostEqual(reader.fields[f"{shape.architecture}.{key}"].contents(), value, places=6)
                shapes = {tensor.name: tensor.shape.tolist() for tensor in reader.tensors}
                self.assertEqual(tensors, {name: shapes[name] for name in tensors})
                self.assertEqual(shapes["token_embd.weight"], [256, 50000])
                tokens = reader.fields["tokenizer.ggml.tokens"].contents()
                self.assertEqual((len(tokens), tokens[-1]), (50000, "[PAD49999]"))
                self.assertEqual(len(reader.fields["tokenizer.ggml.token_type"].contents()), 50000)

    def test_openvino_reads_only_llama_layers(self) -> None:
        self.assertTrue(can_run(OPENVINO, "1B Q4_K_M", "decode", "native"))
        for name in PUBLISHED:
            self.assertFalse(can_run(OPENVINO, f"{name} Q4_K_M", "decode", "native"))


class Families(unittest.TestCase):
    def contenders(self, values: dict[str, list[float]]) -> list[Contender]:
        """Hearth and two peers with these medians of a test."""
        contenders = [Contender(HEARTH, Path()), Contender(LLAMA, Path(), "stored"), Contender(IK, Path(), "repacked")]
        for test, of_test in values.items():
            for contender, value in zip(contenders, of_test, strict=True):
                contender.add("M", test, value)
        return contenders

    def test_hearth_is_compared_with_the_best_peer(self) -> None:
        values = {"prefill 512": [28.0, 20.0, 19.0], "decode": [10.0, 5.0, 10.0], MEMORY: [2000.0, 2200.0, 1900.0]}
        text, missed = families.table(self.contenders(values), "M", 2060.0)
        self.assertIn("| prefill 512 | 28.0 | 20.0 | 19.0 | llama.cpp stored | 1.40 | at least 1.4 |", text)
        self.assertIn("| decode | 10.0 | 5.0 | 10.0 | ik_llama.cpp repacked | 1.00 | at least 1.1 |", text)
        self.assertIn(f"| {MEMORY} | 2000 | 2200 | 1900 | ik_llama.cpp repacked | 1.05 | at most 1.0 |", text)
        self.assertIn("| plan, MiB | 2060 |  |  | Hearth's peak | 1.03 | within 5% |", text)
        self.assertEqual(missed, ["M, decode: 1.00 of ik_llama.cpp repacked", f"M, {MEMORY}: 1.05 of ik_llama.cpp repacked"])

    def test_a_plan_outside_of_its_limit_is_missed(self) -> None:
        for plan in [1890.0, 2110.0]:
            _, missed = families.table(self.contenders({MEMORY: [2000.0, 2200.0, 2200.0]}), "M", plan)
            self.assertEqual(len(missed), 1, missed)

    def test_a_peer_without_a_figure_has_no_best(self) -> None:
        contenders = self.contenders({"decode": [1.0, 2.0, 3.0]})
        contenders[2].values.clear()
        self.assertIsNone(families.best(contenders[1:], "M", "decode"))

    def test_reports_of_programs_are_read(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            hearth, peer = Path(folder) / "hearth", Path(folder) / "bench"
            # The prompt's length is the value after -p.
            hearth.write_text('#!/bin/sh\necho "{\\"prompt_tok_s\\": ${8}, \\"gen_tok_s\\": 4.5}"\n')
            lines = [f'{{"n_prompt": {prompt}, "n_gen": {generated}, "avg_ts": {speed}}}' for prompt, generated, speed in [(64, 0, 30), (512, 0, 31), (0, 64, 5)]]
            peer.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in ["warning", *lines]))
            for script in [hearth, peer]:
                script.chmod(0o755)
            ours, theirs = Contender(HEARTH, hearth), Contender(LLAMA, peer, "stored", ("--repack", "0"))
            for contender, expected in [(ours, [64.0, 512.0, 4.5]), (theirs, [30.0, 31.0, 5.0])]:
                families.measure(contender, "M", "m.gguf", 2)
                self.assertEqual([contender.median("M", test) for test in ["prefill 64", "prefill 512", "decode"]], expected)
                self.assertTrue(0.5 < (contender.median("M", MEMORY) or 0) < 1000)

    def test_peak_memory_is_that_of_the_program(self) -> None:
        command = [sys.executable, "-c", "b'x' * (300 << 20); print('{}')"]
        _, peak = families.run(command)
        self.assertTrue(300 < peak < 400, peak)
        with self.assertRaisesRegex(SystemExit, "exit code 3"):
            families.run([sys.executable, "-c", "exit(3)"])


if __name__ == "__main__":
    unittest.main()
