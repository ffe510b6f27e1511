"""Packed, padded and single rows: what a model makes of a sample does not depend on those beside it.

bench/gpu/packed_rows.py compares them on a GPU, with the kernels themselves; here, stand-ins take the place of these,
which split the row where the arguments say, and call transformers' own functions for each sample.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest
import unittest.mock

from isocost.microbatches import packed_states
from support import TIMEOUT, main

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench" / "gpu"
NEEDED = ("torch", "transformers", "tokenizers", "jinja2", "torchvision")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if not MISSING:
    import torch

    import model_directories

STAND_INS = {
    "fla/__init__.py": "",
    "fla/ops/__init__.py": "",
    "fla/ops/gated_delta_rule.py": """
        import importlib
        import torch

        def by_sample(name, of_values, cu_seqlens, **settings):
            whole = getattr(importlib.import_module("transformers.models.qwen3_5.modeling_qwen3_5"), name).__wrapped__
            if cu_seqlens is None:
                return whole(**of_values, **settings)
            assert cu_seqlens.dtype == torch.int32 and int(cu_seqlens[-1]) == of_values["query"].shape[1]
            parts = zip(*(value.split(cu_seqlens.diff().tolist(), dim=1) for value in of_values.values()))
            return torch.cat([whole(**dict(zip(of_values, part)), **settings)[0] for part in parts], dim=1), None

        def chunk_gated_delta_rule(query, key, value, g, beta, initial_state=None, output_final_state=False,
                                   use_qk_l2norm_in_kernel=False, cu_seqlens=None):
            assert initial_state is None
            return by_sample("torch_chunk_gated_delta_rule", dict(query=query, key=key, value=value, g=g, beta=beta),
                             cu_seqlens, output_final_state=output_final_state,
                             use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel)
    """,
    "causal_conv1d/__init__.py": """
        import importlib
        import torch

        def causal_conv1d_fn(hidden_states, weight, bias=None, seq_idx=None, activation=None):
            module = importlib.import_module("transformers.models.qwen3_5.modeling_qwen3_5")
            whole = module.causal_conv1d_fn.__wrapped__
            if seq_idx is None:
                return whole(hidden_states, weight, bias, activation=activation)
            assert seq_idx.dtype == torch.int32 and seq_idx.shape == (1, hidden_states.shape[-1])
            parts = hidden_states.split(torch.bincount(seq_idx[0]).tolist(), dim=-1)
            return torch.cat([whole(part, weight, bias, activation=activation) for part in parts], dim=-1)
    """,
}
# Compares the family that is named, as if the kernels were there.
COMPARED = """
import json, logging, pathlib, sys, tempfile, unittest.mock
sys.path.insert(0, sys.argv[1])
import packed_rows
from isocost.microbatches import packed_states
logging.getLogger("isocost").setLevel(logging.ERROR)
with unittest.mock.patch.object(packed_states, "obstacle", return_value=""), tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    shards = packed_rows.shards_of(sys.argv[2], folder, samples=24)
    family = packed_rows.Family(sys.argv[2], shards, folder, "cpu")
    found = family.compare()
print(json.dumps({"found": found, "holds": packed_rows.holds(found, 1e-5)}))
"""


def write_stand_ins(folder):
    for name, text in STAND_INS.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")


@unittest.skipIf(MISSING, f"needs {', '.join(MISSING)}")
class Rows(unittest.TestCase):
    def setUp(self):
        sys.path.insert(0, str(BENCH))
        self.addCleanup(sys.path.remove, str(BENCH))

    def test_a_sample_is_the_same_alone_packed_and_padded(self):
        import packed_rows

        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            for name, carries_states in packed_rows.families().items():
                if carries_states:
                    continue
                shards = packed_rows.shards_of(name, folder, samples=24)
                found = packed_rows.Family(name, shards, folder, "cpu").compare()
                self.assertEqual(set(found), {"packed", "padded", "padded left"})
                for way, own in found.items():
                    self.assertLess(max(own.values()), 1e-5, (name, way))

    def test_linear_attention_heeds_where_packed_samples_end(self):
        if not model_directories.is_known("qwen3_5"):
            self.skipTest("this transformers does not know Qwen3.5")
        with tempfile.TemporaryDirectory() as folder:
            write_stand_ins(pathlib.Path(folder))
            for name in model_directories.LINEAR_ATTENTION:
                done = subprocess.run(
                    [sys.executable, "-B", "-c", COMPARED, str(BENCH), name], capture_output=True, text=True,
                    timeout=5 * TIMEOUT, env=with_path(folder))
                self.assertEqual(done.returncode, 0, done.stderr[-3000:])
                said = json.loads(done.stdout.splitlines()[-1])
                self.assertTrue(said["holds"], said)
                self.assertLessEqual({"packed", "padded", "padded left"}, set(said["found"]))
                # Without the arguments the states would leak.
                self.assertGreater(said["found"]["packed, not told apart"]["logits"], 2e-2)


def with_path(folder):
    return {**os.environ, "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])}


@unittest.skipIf(MISSING, f"needs {', '.join(MISSING)}")
class Obstacles(unittest.TestCase):
    def obstacle(self, device, packages=(), transformers="5.24.0", breaks=None, how=None):
        def imported(name):
            if name == breaks:
                raise how or ImportError(f"{name}.so: undefined symbol: c10")
            if name not in packages:
                raise ModuleNotFoundError(f"No module named '{name}'", name=name.partition(".")[0])

        with unittest.mock.patch.object(packed_states.importlib, "import_module", imported), \
                unittest.mock.patch.object(packed_states.importlib.metadata, "version", return_value=transformers):
            return packed_states.obstacle(device and torch.device(device))

    def test_they_name_what_is_missing(self):
        both = ("fla.ops.gated_delta_rule", "causal_conv1d")
        for device in (None, "cpu"):
            self.assertIn("need a GPU: give device='cuda'", self.obstacle(device, both))
        self.assertIn("it needs flash-linear-attention and causal-conv1d: install them", self.obstacle("cuda:0"))
        self.assertIn("it needs causal-conv1d: install it", self.obstacle("cuda:0", both[:1]))
        self.assertIn("transformers 5.18.1 hands the ends of packed samples on to the encoder: upgrade it to 5.19 or "
                      "later", self.obstacle("cuda:0", both, "5.18.1"))
        self.assertIn("causal-conv1d is installed and does not load (causal_conv1d.so: undefined symbol: c10): install "
                      "one that fits this torch", self.obstacle("cuda:0", both, breaks="causal_conv1d"))
        self.assertIn("flash-linear-attention is installed and does not load (No module named 'triton')",
                      self.obstacle("cuda:0", both, breaks=both[0],
                                    how=ModuleNotFoundError("No module named 'triton'", name="triton")))
        for version in ("5.19.0", "5.19rc1", "5.24.0.dev0", "6.0"):
            self.assertEqual(self.obstacle("cuda:0", both, version), "")


if __name__ == "__main__":
    main()
