"""Tests of the comparison: `python -m unittest discover bench`."""

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
from programs import Sample
from results import Results
from shares import rows


def measured(folder: str) -> Results:
    """A model of 1 GB and a billion multiply-adds, on a machine of 10 GB/s and 100 GMAC/s."""
    results = Results(Path(folder) / "results.json")
    results.about = dict(processor="P", cores=2, memory_gb=8, system="S", instructions=["avx2"], hearth="h", commit="c", llama="l", date="d", load=0)
    of_model = {"model": "M", "threads": 2, "int8_gmac_s": 100.0, "bf16_gmac_s": None, "f32_gmac_s": 50.0}
    results.ceilings = [of_model | {"read_gb_s": speed} for speed in [2.0, 10.0, 11.0]]
    results.ceilings.append(of_model | {"model": "another", "read_gb_s": 1.0})
    results.models = {"M": {"name": "M", "file_bytes": 1e9, "weight_bytes": 1e9, "kv_bytes": 250e6 / 4096, "macs": 1e9, "floats": False}}
    for values, program in [([9.0, 6.0, 1.0], "Hearth"), ([4.0], "llama.cpp")]:
        results.add(program, "M", [Sample("decode", 2, value) for value in values])
    return results


class Compare(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = measured(folder.name)

    def test_a_table_has_medians_shares_and_ratios(self) -> None:
        self.assertIn("| M | 0 | 6.0 | 60 % | 4.0 | 40 % | 1.50 |", page.page(self.results))

    def test_ceilings_count_multiply_adds_for_prefill_and_bytes_for_decode(self) -> None:
        for test, expected in [("prefill 512", 100.0), ("decode", 10.0), ("decode at 4096", 8.0), ("decode at 4096 q8_0", 10 / (1 + 0.25 * 34 / 64))]:
            self.assertAlmostEqual(self.results.ceiling("M", test, 2) or 0, expected)

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

    def test_results_of_other_programs_are_not_joined(self) -> None:
        self.results.about |= {"hearth_sha256": "1"}
        self.results.save()
        again = Results(self.results.path)
        self.assertEqual(again.values("Hearth", "M", "decode", 2), [9.0, 6.0, 1.0])
        again.join(self.results.about)
        with self.assertRaises(SystemExit):
            again.join(self.results.about | {"hearth_sha256": "2"})

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
