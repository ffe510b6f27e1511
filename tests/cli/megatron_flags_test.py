"""The flags that `isocost plan --emit megatron` writes, read by Megatron-LM's own parser: it understands the layout
that was planned. Arguments: isocost, a trace, and a Python that has megatron-core 0.17 or later."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = PHOTOS = PYTHON = ""
PARSE = pathlib.Path(__file__).with_name("megatron_parse.py")
# Qwen2.5-7B, as the built-in profile has it.
MODEL = ("--num-layers 28 --hidden-size 3584 --num-attention-heads 28 --group-query-attention --num-query-groups 4 "
         "--seq-length 4096 --max-position-embeddings 4096 --bf16 --lr 1e-5 --transformer-impl local").split()


def has_parser(python):
    if not pathlib.Path(python).exists():
        return False
    return subprocess.run([python, "-c", "import megatron.training.arguments"], capture_output=True, timeout=300,
                          check=False).returncode == 0


class Flags(unittest.TestCase):
    def plan(self, folder, *options):
        done = subprocess.run(
            [PROGRAM, "plan", "--trace", PHOTOS, "--global-batch-size", "64", "--batches", "1", "--evaluations", "10",
             "--emit", "megatron", "--output", folder / "layout.json", *options],
            capture_output=True, text=True, timeout=110, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        flags = subprocess.run(
            ["bash", "-c", '. "$0"; printf "%s\\n" "$ISOCOST_WORLD_SIZE" "${CUDA_DEVICE_MAX_CONNECTIONS-}" '
                           '"${ISOCOST_ARGS[@]}"', folder / "layout_megatron.sh"],
            capture_output=True, text=True, check=True).stdout.split("\n")
        settings = {"WORLD_SIZE": flags[0], "CUDA_DEVICE_MAX_CONNECTIONS": flags[1]}
        return json.loads((folder / "layout.json").read_text(encoding="utf-8")), settings, flags[2:-1]

    def understood(self, settings, flags):
        done = subprocess.run([PYTHON, PARSE, *MODEL, *flags], capture_output=True, text=True, timeout=300, check=False,
                              env={**os.environ, **settings})
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return json.loads(done.stdout.splitlines()[-1])

    def check(self, *options, **expected):
        with tempfile.TemporaryDirectory() as scratch, self.subTest(options=options):
            layout, settings, flags = self.plan(pathlib.Path(scratch), *options)
            found = self.understood(settings, flags)
            llm = layout["llm"]
            self.assertEqual({key: found[key] for key in ("tensor", "pipeline", "data")},
                             {key: llm[key] for key in ("tensor", "pipeline", "data")})
            self.assertEqual(found["microbatches"], layout["microbatches"])
            self.assertEqual(found["ranks"], llm["tensor"] * llm["pipeline"] * llm["data"])
            # The encoder would get the layers of an unequal last stage.
            self.assertEqual([found["first"], found["last"]], [None, None])
            self.assertEqual(llm["layers"], [28 // llm["pipeline"]] * llm["pipeline"])
            for key, value in expected.items():
                self.assertEqual(found[key], value, key)
            return llm["pipeline"]

    def test_the_parser_understands_the_layout(self):
        stages = {self.check("--gpus", gpus, "--gpu-memory", memory, "--interconnect", machines)
                  for gpus, memory, machines in (
                      ("2", "300GiB", "gpus-per-node=8"), ("8", "80GiB", "gpus-per-node=1"),
                      ("14", "40GiB", "gpus-per-node=1"), ("64", "24GiB", "gpus-per-node=4"))}
        self.assertGreater(len(stages), 2)

    def test_what_is_trained_and_computed_again(self):
        self.check("--gpus", "8", "--freeze", "encoder", freeze=[True, False], sharded_optimizer=True)
        self.check("--gpus", "8", "--freeze", "llm", "--replicate-optimizer", freeze=[False, True],
                   sharded_optimizer=False)
        self.check("--gpus", "8", "--recompute", "full", recompute="full", recompute_vision=False)
        self.check("--gpus", "8", "--recompute", "selective", recompute="selective", modules=["mlp"])
        self.check("--gpus", "8", "--recompute", "full", "--freeze", "encoder", recompute_vision=False)

    def test_the_parser_refuses_what_isocost_never_writes(self):
        done = subprocess.run(
            [PYTHON, PARSE, *MODEL, "--micro-batch-size", "1", "--global-batch-size", "4",
             "--pipeline-model-parallel-size", "4", "--decoder-first-pipeline-num-layers", "5",
             "--decoder-last-pipeline-num-layers", "6"],
            capture_output=True, text=True, timeout=300, check=False, env={**os.environ, "WORLD_SIZE": "4"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("must be divisible", done.stderr)


if __name__ == "__main__":
    PROGRAM, PHOTOS, PYTHON = sys.argv[1:4]
    if not has_parser(PYTHON):
        print(f"{PYTHON} has no parser of Megatron-LM (megatron-core 0.17 or later): setup/megatron_flags.sh makes one",
              file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
