"""Tests of the comparison: `python -m unittest discover bench`."""

import json
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import page
from blocks import FILL, random_rows
from chart import Bar, Panel, chart
from gguf import GGMLQuantizationType
from gguf.quants import dequantize
from programs import ADAPTER, AVX2, HEARTH, IK, ISA_GROUPS, LLAMA, NAMED, NATIVE, OPENVINO, START, TESTS, VARIANTS, Program, Sample, hearth, peer
from results import Best, Cell, Results
from shares import rows


DECODE = Cell("M", "decode", 2)


def measured(folder: str) -> Results:
    """A model of 1 GB and a billion multiply-adds, on a machine of 10 GB/s and 100 GMAC/s; 50 with AVX2."""
    results = Results(Path(folder) / "results.json")
    results.about = dict(processor="P", cores=2, memory_gb=8, system="S", instructions=["avx2"], hearth="h", commit="c", date="d", load=0)
    results.about["peers"] = {LLAMA: "l", IK: "i"}
    for test in ["decode", "decode at 4096", "decode at 4096 q8_0"]:
        of_test = vars(Cell("M", test, 2))
        results.ceilings += [of_test | {"read_gb_s": speed} for speed in [2.0, 10.0, 11.0]]
        results.ceilings.append(of_test | {"model": "another", "read_gb_s": 1.0})
    for isa, speed in [(NATIVE, 100.0), (AVX2, 50.0)]:
        results.ceilings.append(vars(Cell("M", "prefill 512", 2, isa)) | {"int8_gmac_s": speed})
    results.ceilings.append(vars(Cell("M", "prefill 64", 2)) | {"int8_gmac_s": 200.0})
    results.models = {"M": {"name": "M", "file_bytes": 1e9, "weight_bytes": 1e9, "kv_bytes": 250e6 / 4096, "macs": 1e9, "floats": False}}
    add(results, "decode", {HEARTH: [9.0, 6.0, 1.0], f"{LLAMA} stored": [3.0], f"{LLAMA} repacked": [4.0], f"{IK} stored": [5.0], f"{IK} repacked": [2.0]})
    return results


def add(results: Results, test: str, values: dict[str, list[float]], isa: str = NATIVE, model: str = "M") -> None:
    for title, samples in values.items():
        name = next(name for name in [HEARTH, *VARIANTS] if title.startswith(name))
        results.add(Program(name, Path(), isa, title.removeprefix(name).strip()), model, [Sample(test, 2, value) for value in samples])


class Compare(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = measured(folder.name)

    def test_a_table_has_medians_shares_and_the_ratio_to_the_best_peer(self) -> None:
        self.assertIn("| M | 0 | 6.0 | 60 % | 4.0 repacked | **5.0 stored** | 50 % | 1.20 |", page.page(self.results))

    def test_the_better_variant_of_a_peer_counts(self) -> None:
        self.assertEqual(self.results.peer(LLAMA, DECODE), Best(LLAMA, "repacked", 4.0))
        self.assertEqual(self.results.best(DECODE), Best(IK, "stored", 5.0))
        self.assertEqual(self.results.ratio(DECODE), 1.2)

    def test_a_peer_that_cannot_run_a_test_does_not_count(self) -> None:
        self.results.about["peers"] |= {OPENVINO: "o"}
        model = "0.5B Q4_0"
        self.results.models[model] = self.results.models["M"]
        measured = {HEARTH: [9.0], f"{LLAMA} stored": [3.0], f"{LLAMA} repacked": [4.0], f"{IK} stored": [5.0], f"{IK} repacked": [2.0]}
        for test, isa in [("decode", NATIVE), (ADAPTER, NATIVE), ("decode", AVX2)]:
            add(self.results, test, measured, isa, model)
        able, *unable = [Cell(model, "decode", 2), Cell(model, ADAPTER, 2), Cell(model, "decode", 2, AVX2), DECODE]
        for cell in unable:
            self.assertEqual(self.results.best(cell), Best(IK, "stored", 5.0))
        self.assertIsNone(self.results.best(able), "it is not measured")
        add(self.results, "decode", {f"{OPENVINO} PA": [7.0], f"{OPENVINO} SDPA": [5.5]}, model=model)
        self.assertEqual(self.results.best(able), Best(OPENVINO, "PA", 7.0))
        text = page.page(self.results)
        self.assertIn("llama.cpp, ik_llama.cpp and OpenVINO GenAI", text)
        self.assertIn(f"| {model} | with adapter | 9.0 |  | 4.0 repacked | **5.0 stored** |  |", text)
        # No separate column where it cannot run.
        _, _, avx2 = text.partition("## Decode with AVX2")
        self.assertIn("| llama.cpp | ik_llama.cpp | of the peak |", avx2)

    def test_the_least_time_and_memory_are_the_best(self) -> None:
        for test in ["start", "memory"]:
            add(self.results, test, {HEARTH: [1.0], f"{LLAMA} stored": [3.0], f"{LLAMA} repacked": [4.0], f"{IK} stored": [5.0], f"{IK} repacked": [2.0]})
            self.assertEqual(self.results.best(Cell("M", test, 2)), Best(IK, "repacked", 2.0))
        self.assertIn("| M | 1.00 | 2.00 ik_llama.cpp repacked | 0.50 | 1000 | 1.0 | 2.0 ik_llama.cpp repacked | 0.00 |", page.page(self.results))

    def test_a_peer_that_was_measured_in_part_has_no_best(self) -> None:
        add(self.results, "prefill 64", {HEARTH: [8.0], f"{LLAMA} stored": [3.0], f"{LLAMA} repacked": [4.0], f"{IK} stored": [2.0]})
        cell = Cell("M", "prefill 64", 2)
        self.assertEqual(self.results.peer(LLAMA, cell), Best(LLAMA, "repacked", 4.0))
        self.assertIsNone(self.results.peer(IK, cell))
        self.assertIsNone(self.results.best(cell))
        self.assertIn("| M | 64 | 8.0 | 4 % | 4.0 repacked |  |  |  |", page.page(self.results))

    def test_avx2_has_a_table_and_peak_rates_of_its_own(self) -> None:
        # In the title, which names the CPU's instructions.
        self.assertEqual(page.page(self.results).count("AVX2 only"), 1)
        values = {HEARTH: [20.0], f"{LLAMA} stored": [40.0], f"{LLAMA} repacked": [10.0], f"{IK} stored": [10.0], f"{IK} repacked": [10.0]}
        add(self.results, "prefill 512", values, AVX2)
        text = page.page(self.results)
        _, _, table = text.partition("## Prefill with AVX2")
        self.assertIn("| M | 512 | 20.0 | 40 % | **40.0 stored** | 10.0 stored | 80 % | 0.50 |", table)
        self.assertNotIn("## Prefill\n", text)
        self.assertEqual(self.results.ratio(Cell("M", "prefill 512", 2, AVX2)), 0.5)
        self.assertIsNone(self.results.ratio(Cell("M", "prefill 512", 2)))

    def test_another_page_has_a_chart_and_a_command_of_its_own(self) -> None:
        text = page.page(self.results, Path("docs/PERFORMANCE-OTHER.md"))
        self.assertIn("](performance-other.svg)", text)
        self.assertTrue(text.startswith("# Performance on a CPU with AVX2 only\n"))
        self.assertIn("--isa native --write docs/PERFORMANCE-OTHER.md`", text)

    def test_the_worst_ratio_comes_first(self) -> None:
        values = {HEARTH: [20.0], f"{LLAMA} stored": [40.0], f"{LLAMA} repacked": [10.0], f"{IK} stored": [10.0], f"{IK} repacked": [10.0]}
        add(self.results, "prefill 512", values, AVX2)
        text = page.page(self.results)
        avx2 = text.index("Worst ratio with AVX2 only: **0.50**, prefill 512 of M, 2 threads: 20.0 tokens per second, llama.cpp stored 40.0. 1 of 1")
        native = text.index("Worst ratio with all instructions of the machine: **1.20**, decode of M")
        self.assertLess(avx2, native)
        self.assertLess(native, text.index("## Decode"))

    def test_each_variant_and_instruction_set_is_a_contender(self) -> None:
        stored, repacked = peer(IK, Path("ik_bench"), AVX2)
        self.assertEqual((stored.title, stored.options), ("ik_llama.cpp stored avx2", ("--repack", "0")))
        self.assertEqual((repacked.title, repacked.options), ("ik_llama.cpp repacked avx2", ("--repack", "1")))
        limited = hearth(Path("hearth"), Path("cache"), AVX2)
        self.assertIn(("HEARTH_ISA", "avx2"), limited.environment)
        # Neither finds what the other one cached or measured.
        self.assertNotEqual(dict(limited.environment)["HEARTH_DATA"], dict(hearth(Path("hearth"), Path("cache")).environment)["HEARTH_DATA"])
        self.assertFalse(START.group in ISA_GROUPS[AVX2])
        self.assertTrue({64, 200} <= {test.prefill for test in TESTS})

    def test_ceilings_count_multiply_adds_for_prefill_and_bytes_for_decode(self) -> None:
        for test, expected in [("prefill 512", 100.0), ("decode", 10.0), ("decode at 4096", 8.0), ("decode at 4096 q8_0", 10 / (1 + 0.25 * 34 / 64))]:
            self.assertAlmostEqual(self.results.ceiling(Cell("M", test, 2)) or 0, expected)
        self.assertEqual(self.results.ceiling(Cell("M", "prefill 512", 2, AVX2)), 50.0)
        self.assertEqual(NAMED["prefill 512"].bounds(floats=True), ["bf16_gmac_s", "f32_gmac_s"])

    def test_a_benchmark_is_compared_with_its_ceiling(self) -> None:
        ceilings = {"read_gb_s": 10.0, "int8_gmac_s": 100.0, "bf16_gmac_s": 50.0, "f32_gmac_s": 20.0}

        def share(group: str, function: str | None, value: str | None, kind: str) -> str | None:
            about = {"full_id": "", "group_id": group, "function_id": function, "value_str": value, "throughput": {kind: 5000}}
            return next((row[-1] for row in rows([(about, {"median": {"point_estimate": 1000.0}})], ceilings)), None)

        self.assertEqual(share("gemv", None, "Q4_1", "Bytes"), "50 %")
        self.assertEqual(share("gemm", "Int8Activations 512", "Q4_1", "Elements"), "5 %")
        self.assertEqual(share("gemm", "Int8Activations 512", "F16", "Elements"), "10 %")
        self.assertEqual(share("gemm", "F32 512", "Q4_1", "Elements"), "25 %")
        self.assertIsNone(share("135M", "decode", None, "Elements"))

    def test_fine_tuning_is_compared_with_the_fastest_peft_of_the_same_products(self) -> None:
        speeds = {"PEFT f32": 10, "PEFT f32, compiled": 20, "PEFT bf16": 50, "PEFT bf16, compiled": 40, "Hearth f32": 60, "Hearth bf16": 75}
        self.results.train = {name: [{"tok_s": speed, "peak_rss_mb": 1, "steps": 5}] for name, speed in speeds.items()}
        text = page.page(self.results)
        self.assertIn("- Fine-tuning with products in f32: **3.00** times PEFT f32, compiled.", text)
        self.assertIn("- Fine-tuning with products in bf16: **1.50** times PEFT bf16.", text)
        self.assertIn("| PEFT f32 | f32 | 10.0 | 10.0 - 10.0 | 0.50 |", text)
        self.assertIn("60.0 tokens/s", page.drawing(self.results))

    def test_results_of_other_programs_are_not_joined(self) -> None:
        self.results.about |= {"hearth_sha256": "1"}
        self.results.save()
        again = Results(self.results.path)
        self.assertEqual(again.values(HEARTH, "", DECODE), [9.0, 6.0, 1.0])
        again.join(self.results.about)
        for other in [{"hearth_sha256": "2"}, {"peers": {LLAMA: "another"}}]:
            with self.assertRaises(SystemExit):
                again.join(self.results.about | other)
        again.join(self.results.about | {"peers": {IK: "i"}})
        self.assertEqual(again.peers(), [LLAMA, IK])

    def test_results_of_an_older_form_are_refused(self) -> None:
        old = {"about": {"llama": "l"}, "samples": [{"program": "llama.cpp", "model": "M", "test": "decode", "threads": 2, "value": 4.0}]}
        for saved in [old, old | {"form": 3}, old | {"form": 5}]:
            self.results.path.write_text(json.dumps(saved))
            with self.assertRaisesRegex(SystemExit, "another version"):
                Results(self.results.path)

    def test_the_chart_is_well_formed(self) -> None:
        panels = [Panel("A & B <c>", "one", [("x", [Bar("k", 0.5, "f"), Bar("l", 90.0, "g")])]), Panel("Nothing", "", [])]
        root = ElementTree.fromstring(chart(panels))
        self.assertEqual(root.findtext("{*}title"), "A & B <c>; Nothing")
        self.assertTrue(ElementTree.fromstring(page.drawing(self.results)).findall("{*}rect"))

    def test_random_weights_have_the_magnitude_of_trained_ones(self) -> None:
        for name in FILL:
            rows = random_rows(np.random.default_rng(1), name, 16, 1024)
            weights = dequantize(rows, GGMLQuantizationType[name])
            self.assertTrue(np.isfinite(weights).all(), name)
            # 1 / sqrt(1024) is 0.03; if the scale would be too small for f16, they are larger.
            self.assertTrue(0.02 < weights.std() < 0.2 and abs(weights.mean()) < 0.02, f"{name}: {weights.mean()}, {weights.std()}")


if __name__ == "__main__":
    unittest.main()
