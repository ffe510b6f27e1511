"""isocost plan, isocost-lab simulate and emulate from the outside: what they print and write, their exit
statuses, and what they say about a call that is wrong. Arguments: isocost, isocost-lab, a trace."""

import json
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

PROGRAM = LAB = PHOTOS = ""


def call(command, *arguments):
    """Runs a command of either program."""
    command = [PROGRAM if command == "plan" else LAB, command, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)


class Planner(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def answer(self, *arguments):
        done = call(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refused(self, says, *arguments, status=2):
        done = call(*arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertIn(says, done.stdout + done.stderr)
        self.assertNotIn("json.exception", done.stderr)

    def plan(self, *more):
        layout = self.folder / "layout.json"
        answer = self.answer(
            "plan", "--trace", PHOTOS, "--gpus", 8, "--global-batch-size", 64, "--evaluations", 200,
            "--batches", 2, "--output", layout, *more)
        return answer, layout

    def test_plan_knows_how_modules_are_trained(self):
        answer, file = self.plan("--freeze", "encoder", "--adapters", "llm=16", "--recompute", "auto", "--force")
        layout = json.loads(file.read_text(encoding="utf-8"))
        self.assertEqual((layout["encoder"]["train"], layout["llm"]["train"]), ("none", "adapters"))
        self.assertEqual(layout["llm"]["adapter_rank"], 16)
        self.assertNotIn("recompute", layout["encoder"])
        whole, _ = self.plan("--force")
        self.assertLess(answer["best"][0]["step_s"], whole["best"][0]["step_s"])
        recomputed, _ = self.plan("--recompute", "full", "--force")
        self.assertEqual(recomputed["best"][0]["layout"]["llm"]["recompute"], "full")
        self.assertGreater(recomputed["best"][0]["step_s"], whole["best"][0]["step_s"])
        replicated, _ = self.plan("--replicate-optimizer", "--force")
        self.assertEqual(replicated["best"][0]["layout"]["optimizer"], "replicated")

    def test_contradictions_about_training_are_refused(self):
        for says, *arguments in (
                ("name encoder, llm or both", "--freeze", "decoder"),
                ("adapters freeze it already", "--freeze", "llm", "--adapters", "llm=16"),
                ("adapters freeze it already", "--freeze", "both", "--adapters", "encoder=4"),
                ("has a rank already", "--adapters", "llm=16,llm=32"),
                ("llm=16 (the rank is at most 65536)", "--adapters", "llm"),
                ("llm=16 (the rank is at most 65536)", "--adapters", "llm=0"),
                ("must be none, selective, full or auto", "--recompute", "yes"),
                ("exclude each other", "--shard-weights", "--replicate-optimizer")):
            with self.subTest(arguments=arguments):
                self.refused(says, "plan", "--trace", PHOTOS, "--output", self.folder / "layout.json", *arguments)

    def test_mixtures_of_experts_are_refused_before_they_are_measured(self):
        (self.folder / "model").mkdir()
        for key, config in (("num_experts", {"text_config": {"num_experts": 128}}),
                            ("num_local_experts", {"num_local_experts": 128, "text_config": None})):
            with self.subTest(key=key):
                (self.folder / "model/config.json").write_text(json.dumps(config), encoding="utf-8")
                self.refused("config.json has layers with 128 experts, and layouts are planned for dense layers alone: "
                             "missing are expert parallelism", "plan", "--data", self.folder, "--model",
                             self.folder / "model", "--output", self.folder / "layout.json")

    def test_weights_stay_gathered_where_transfers_take_longer_than_passes(self):
        kept, file = self.plan("--shard-weights", "--emit", "fsdp2", "--gpu-memory", "120GiB", "--interconnect",
                               "gpus-per-node=1,network=2GB/s")
        layout = json.loads(file.read_text(encoding="utf-8"))
        self.assertIs(layout["llm"]["reshard"], False)
        text = (self.folder / "layout_fsdp2.py").read_text(encoding="utf-8")
        self.assertIn('RESHARD_AFTER_FORWARD = {"encoder": True, "llm": False}' if "reshard" not in layout["encoder"]
                      else 'RESHARD_AFTER_FORWARD = {"encoder": False, "llm": False}', text)
        dropped, file = self.plan("--shard-weights", "--emit", "fsdp2", "--gpu-memory", "36GiB", "--interconnect",
                                  "gpus-per-node=1,network=2GB/s", "--recompute", "full", "--force")
        self.assertNotIn("reshard", json.loads(file.read_text(encoding="utf-8"))["llm"])
        self.assertGreater(dropped["best"][0]["step_s"], kept["best"][0]["step_s"])

    def test_later_stages_may_recompute_less(self):
        done = call("plan", "--trace", PHOTOS, "--gpus", 16, "--global-batch-size", 256, "--evaluations", 100,
                    "--batches", 1, "--gpu-memory", "24GiB", "--interconnect", "gpus-per-node=1", "--recompute", "auto",
                    "--output", self.folder / "layout.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        best = json.loads((self.folder / "layout.json").read_text(encoding="utf-8"))
        by_stage = best["llm"]["recompute"]
        self.assertEqual(len(by_stage), best["llm"]["pipeline"])
        self.assertEqual(by_stage, sorted(by_stage, key=["full", "selective", "none"].index))
        self.assertIn("recomputation of the LLM", done.stdout)

    def test_a_framework_is_given_its_file(self):
        answer, file = self.plan("--emit", "megatron@0.17", "--gpu-memory", "24GiB", "--recompute", "auto", "--freeze",
                                 "encoder")
        layout = json.loads(file.read_text(encoding="utf-8"))
        self.assertIsNone(answer["mean_shape"])
        self.assertEqual({score["layout"]["encoder_place"] for score in answer["best"]}, {"llm"})
        self.assertEqual(layout["encoder"]["layers"][1:], [0] * (layout["llm"]["pipeline"] - 1))
        text = (self.folder / "layout_megatron.sh").read_text(encoding="utf-8")
        done = subprocess.run(["bash", "-uc", '. "$0"; printf "%s\n" "$ISOCOST_WORLD_SIZE" "${ISOCOST_ARGS[@]}"',
                               self.folder / "layout_megatron.sh"], capture_output=True, text=True, check=True)
        ranks, *flags = done.stdout.split("\n")
        self.assertEqual(ranks, "8")
        for name, value in (("tensor-model-parallel-size", layout["llm"]["tensor"]), ("micro-batch-size", 1),
                            ("pipeline-model-parallel-size", layout["llm"]["pipeline"]),
                            ("global-batch-size", layout["llm"]["data"] * layout["microbatches"])):
            self.assertEqual(flags[flags.index(f"--{name}") + 1], str(value))
        self.assertIn("--freeze-ViT", flags)
        self.assertIn("--use-distributed-optimizer", flags)
        self.assertIn("megatron-core 0.17", text)
        (self.folder / "layout.json").unlink()
        self.refused("layout_megatron.sh exists", "plan", "--trace", PHOTOS, "--emit", "megatron", "--output",
                     self.folder / "layout.json")

    def test_what_a_framework_cannot_do_is_refused(self):
        for says, *arguments in (
                ("it must be fsdp2 or megatron", "--emit", "deepspeed"),
                ("it must be fsdp2 or megatron", "--emit", "any"),
                ("known releases of megatron-core are 0.12 to 0.19: name the nearest", "--emit", "megatron@0.30"),
                ("known releases of torch are 2.6 to 2.15: name the nearest", "--emit", "fsdp2@1.13"),
                ("known releases of torch are 2.6 to 2.15", "--emit", "fsdp2@newest"),
                ("known releases of torch are 2.6 to 2.15", "--emit", "fsdp2@2"),
                ("known releases of torch are 2.6 to 2.15", "--emit", "fsdp2@"),
                ("its own data parallelism alone", "--emit", "megatron", "--shard-weights"),
                ("known releases of torch are 2.6 to 2.15", "--emit", 'fsdp2@2.8.x'),
                ("no name of a module; use letters", "--emit", "fsdp2", "--output", self.folder / "layout-4.json"),
                ("--html and --output name one file", "--output", self.folder / "p.json", "--html",
                 self.folder / "p.json"),
                ("--html and --output name one file", "--output", self.folder / "p.json", "--html",
                 os.path.relpath(self.folder / "p.json")),
                ("--html and --trace name one file", "--html", PHOTOS, "--force"),
                ("--output and --trace name one file", "--output", PHOTOS, "--force"),
                ("its name has a control character", "--emit", "megatron", "--output", f"{self.folder}/n\necho x.json"),
                ("--gpu-memory is '80', which is no memory of a GPU: give its unit", "--gpu-memory", "80"),
                ("--gpu-memory: '-4GiB' is not a size", "--gpu-memory=-4GiB"),
                ("--budget says how long --model is measured", "--budget", "5m"),
                ("no flag for low-rank adapters; freeze the module", "--emit", "megatron", "--adapters", "llm=8"),
                ("for 1f1b alone", "--emit", "megatron", "--schedule", "zb-h1"),
                ("/dev/null is no file; name one", "--emit", "fsdp2", "--output", "/dev/null")):
            with self.subTest(arguments=arguments):
                if "--output" not in arguments:
                    arguments += ["--output", self.folder / "layout.json"]
                self.refused(says, "plan", "--trace", PHOTOS, *arguments)
                self.assertFalse(list(self.folder.iterdir()))

    def profile(self, name="profile.json", hardware="H100", dtype="bfloat16", unmeasured=(), without=()):
        """A model profile with stated weights."""
        shape = {"name": "small", "layers": 8, "width": 1024, "heads": 16, "key_value_width": 1024, "mlp": 4096,
                 "gated": False, "embedding_parameters": 1000000, "head_flop_per_unit": 1000000}
        modules = {}
        for module in ("vision", "audio", "llm"):
            weight = 0 if module == "audio" or module in unmeasured else 1e-6
            modules[module] = {"per_microbatch": 0, "per_sequence": 0, "per_unit": weight, "per_unit_squared": 0}
            if module != "audio" and module not in without:
                modules[module]["architecture"] = shape
        file = self.folder / name
        file.write_text(json.dumps({"version": 1, "unit": "seconds", "hardware": hardware, "dtype": dtype,
                                    "modules": modules}), encoding="utf-8")
        return file

    def test_profiles_that_do_not_serve_a_plan_are_refused(self):
        plan = ("plan", "--trace", PHOTOS, "--gpus", 8, "--output", self.folder / "layout.json")
        whole = self.profile()
        other = self.profile("other.json", hardware="A100")
        half = self.profile("half.json", dtype="float16")
        self.refused("whose seconds do not compare; give one: a run of 'isocost model profile DIR'", *plan,
                     "--profile", whole, "--profile", other)
        self.refused("(H100, float16), whose seconds do not compare", *plan, "--profile", whole, "--profile", half)
        self.refused("(H100, bfloat16); give one: a run of", *plan, "--profile", whole, "--profile", whole)
        self.refused("'modules.llm.architecture' is missing", *plan, "--profile", self.profile(without=("llm",)))
        self.refused("'isocost model profile DIR' writes them; to add them by hand, see docs/model_profile.md", *plan,
                     "--profile", self.profile(without=("vision",)))
        blind = self.profile("blind.json", unmeasured=("vision",))
        for flags in (("--freeze", "encoder"), ("--freeze", "both"), ("--adapters", "encoder=8")):
            self.refused(f"{flags[0]} names the encoder, of which model profile", *plan, "--profile", blind, *flags)
            self.refused("measure all modules in one profile", *plan, "--profile", blind, *flags)
        self.refused("--freeze names the llm", *plan, "--profile", self.profile(unmeasured=("llm",)), "--freeze", "llm")
        self.assertEqual(call(*plan, "--profile", blind, "--freeze", "llm", "--evaluations", 10).returncode, 0)

    def test_what_would_fit_is_said(self):
        plan = ("plan", "--trace", PHOTOS, "--gpus", 8, "--global-batch-size", 64, "--evaluations", 10, "--batches", 1,
                "--force", "--output", self.folder / "layout.json")
        for memory, framework, says in (("16GiB", (), "a layout may fit with --gpus 16"),
                                        ("16GiB", ("--emit", "megatron"), "a layout may fit with --gpus 16"),
                                        ("80GiB", ("--emit", "fsdp2", "--replicate-optimizer"),
                                         "a layout may fit with no --replicate-optimizer"),
                                        ("2GiB", (), "use more memory per GPU, freeze a module")):
            with self.subTest(memory=memory, framework=framework):
                self.refused(says, *plan, "--gpu-memory", memory, *framework, status=1)
        layout = self.folder / "layout.json"  # what it names fits
        done = call("plan", "--trace", PHOTOS, "--gpus", 16, "--global-batch-size", 64, "--evaluations", 10,
                    "--batches", 1, "--force", "--output", layout, "--gpu-memory", "16GiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused("use fewer GPUs, or a larger --global-batch-size", "plan", "--trace", PHOTOS, "--gpus", 64,
                     "--global-batch-size", 8, "--emit", "fsdp2", "--force", "--output", layout)

    def test_simulate_draws_what_it_reports(self):
        picture = self.folder / "step.svg"
        answer = self.answer(
            "simulate", "--trace", PHOTOS, "--dp", 2, "--pp", 3, "--microbatches", 4,
            "--global-batch-size", 32, "--steps", 2, "--svg", picture)
        self.assertEqual(list(answer["policies"]), ["in-order", "lpt", "cost"])
        for of_policy in answer["policies"].values():
            self.assertGreaterEqual(of_policy["step_s"], of_policy["bound_s"])
            self.assertGreater(of_policy["memory_gib"], of_policy["peak_activation_gib"])
        text = picture.read_text(encoding="utf-8")
        self.assertEqual(text.count("first step, the slowest replica"), 3)
        self.assertTrue(text.endswith("</svg>\n"))

    def test_simulate_looks_ahead_and_knows_slowdowns(self):
        answer = self.answer(
            "simulate", "--trace", PHOTOS, "--dp", 2, "--pp", 3, "--microbatches", 4,
            "--global-batch-size", 32, "--steps", 5, "--lookahead", 3, "--slowdowns", "1,1.5",
            "--balance", "tokens,cost")
        self.assertEqual((answer["version"], answer["lookahead"]), (1, 3))
        self.assertEqual(list(answer["policies"]), ["tokens", "cost"])

    def test_defaults_of_every_schedule_run_and_fit(self):
        for schedule in ("gpipe", "1f1b", "interleaved", "zb-h1"):
            answer = self.answer(
                "simulate", "--trace", PHOTOS, "--steps", 1, "--balance", "in-order",
                "--schedule", schedule)
            self.assertTrue(answer["policies"]["in-order"]["fits_gpu"], schedule)
            self.assertEqual(answer["layout"]["llm"]["tensor"], 4)

    def test_simulate_plans_encoder_and_llm_apart(self):
        options = ("simulate", "--trace", PHOTOS, "--dp", 2, "--pp", 3, "--microbatches", 4,
                   "--global-batch-size", 32, "--steps", 2, "--balance", "cost", "--decouple")
        answer = self.answer(*options)
        self.assertLessEqual(answer["decoupled"]["step_s"], answer["decoupled"]["coupled_s"])
        self.assertAlmostEqual(
            answer["decoupled"]["coupled_s"], answer["policies"]["cost"]["step_s"])
        self.refused("--decouple", "simulate", "--trace", PHOTOS, "--pp", 1, "--decouple")

    def test_simulate_says_what_no_gpu_holds(self):
        options = ("simulate", "--trace", PHOTOS, "--steps", 1, "--balance", "in-order",
                   "--gpu-memory", "2GiB")
        self.assertFalse(self.answer(*options)["policies"]["in-order"]["fits_gpu"])
        done = call(*options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("of a GPU of 2.0", done.stdout)

    def test_plan_writes_what_the_others_read(self):
        answer, layout = self.plan()
        self.assertLessEqual(answer["best"][0]["step_s"], answer["alike"]["step_s"])
        written = json.loads(layout.read_text(encoding="utf-8"))
        self.assertEqual(sum(written["llm"]["layers"]), 28)
        self.assertEqual(sum(written["encoder"]["layers"]), 27)
        memory = answer["best"][0]["memory_bytes"] / 2**30
        self.assertLessEqual(memory, answer["usable_memory_gib"])
        simulated = self.answer(
            "simulate", "--trace", PHOTOS, "--global-batch-size", 64, "--steps", 1, "--layout", layout)
        self.assertEqual(simulated["layout"], written)
        # A cut that is none of the model's layers is refused, by both that read it.
        written["llm"]["layers"][0] += 1
        layout.write_text(json.dumps(written), encoding="utf-8")
        for command in ("simulate", "emulate"):
            self.refused("'llm.layers' add up to 29", command, "--trace", PHOTOS,
                         "--global-batch-size", 64, "--layout", layout)

    def test_plan_goes_on_from_its_scores(self):
        scores = self.folder / "scores.jsonl"
        first, _ = self.plan("--resume", scores)
        lines = scores.read_text(encoding="utf-8").splitlines(keepends=True)
        scores.write_text("".join(lines[:-3]) + lines[-3][:20], encoding="utf-8")  # torn
        again, _ = self.plan("--resume", scores, "--force")
        self.assertEqual(again["best"], first["best"])
        lines[2] = "nonsense\n"
        scores.write_text("".join(lines), encoding="utf-8")
        done = call(
            "plan", "--trace", PHOTOS, "--gpus", 8, "--global-batch-size", 64, "--evaluations", 200,
            "--batches", 2, "--resume", scores, "--force", "--output", self.folder / "layout.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("line 3 is not a score", done.stderr)
        self.assertNotIn("json.exception", done.stderr)

    def test_plan_keeps_an_older_layout(self):
        layout = self.folder / "layout.json"
        options = ("plan", "--trace", PHOTOS, "--gpus", 8, "--global-batch-size", 64, "--evaluations", 50,
                   "--batches", 1, "--output", layout)
        layout.write_text("older", encoding="utf-8")
        self.refused(f"{layout} exists: --force replaces it", *options)
        for answer, status in ((b"n\n", 2), (b"\n", 2), (b"y\n", 0)):
            self.assertEqual(layout.read_text(encoding="utf-8"), "older")
            terminal, its_end = pty.openpty()
            asked = subprocess.Popen([PROGRAM, *map(str, options)], stdin=its_end, stderr=its_end,
                                     stdout=subprocess.PIPE)
            os.close(its_end)
            shown = b""
            while not shown.endswith(b"exists: overwrite it? [y/N] "):
                shown += os.read(terminal, 4096)
            os.write(terminal, answer)
            told, _ = asked.communicate(timeout=110)
            self.assertEqual((asked.returncode, b"is written to" in told), (status, status == 0), shown)
            os.close(terminal)
        self.assertEqual(json.loads(layout.read_text(encoding="utf-8"))["version"], 1)
        self.assertEqual(call(*options, "--force").returncode, 0)

    def test_emulate_with_flags_and_with_a_layout(self):
        answer = self.answer(
            "emulate", "--trace", PHOTOS, "--dp", 2, "--pp", 3, "--microbatches", 3,
            "--global-batch-size", 24, "--steps", 5, "--step-seconds", 0.05)
        # Sleeps never end early, and both keys say which seconds they are.
        self.assertGreater(answer["emulated_step_s"], (1 - 1e-6) * answer["simulated_step_s"])
        layout = self.folder / "two.json"
        layout.write_text(json.dumps(
            {"version": 1, "encoder_place": "own",
             "encoder": {"tensor": 2, "pipeline": 1, "data": 2, "layers": [27]},
             "llm": {"tensor": 4, "pipeline": 2, "data": 2, "layers": [20, 8]},
             "microbatches": 3, "chunks": 1, "schedule": "zb-h1", "coupled": True}), encoding="utf-8")
        answer = self.answer(
            "emulate", "--trace", PHOTOS, "--layout", layout, "--global-batch-size", 24, "--steps", 5,
            "--step-seconds", 0.05)
        self.assertEqual(answer["layout"], "encoder 2x1x2, llm 4x2x2, 3 microbatches, zb-h1, coupled")
        self.assertEqual(answer["trainers"], 6)
        self.assertEqual(answer["decoupled_steps"], 0)

    def test_emulate_with_a_virtual_clock_is_what_simulate_says(self):
        apart = {"version": 1, "encoder_place": "own",
                 "encoder": {"tensor": 1, "pipeline": 2, "data": 3},
                 "llm": {"tensor": 4, "pipeline": 2, "data": 2},
                 "microbatches": 8, "chunks": 1, "encoder_ahead": 1}
        layouts = [("decoupled", apart),
                   ("coupled", {**apart, "coupled": True, "encoder": {"tensor": 2, "pipeline": 1, "data": 2}}),
                   ("on the LLM's ranks",
                    {**apart, "encoder_place": "llm", "encoder": apart["llm"], "encoder_ahead": 0})]
        disturbed = ("--noise", 0.1, "--slow-rank", "1:1.5", "--change", "encoder:3@2")
        for name, layout in layouts:
            for schedule in ("gpipe", "1f1b", "zb-h1"):
                file = self.folder / "layout.json"
                file.write_text(json.dumps({**layout, "schedule": schedule}), encoding="utf-8")
                for more in ((), disturbed):
                    with self.subTest(layout=name, schedule=schedule, more=more):
                        # Clocks count whole nanoseconds, of which a long step rounds few away.
                        answer = self.answer(
                            "emulate", "--trace", PHOTOS, "--layout", file, "--global-batch-size", 48, "--steps", 4,
                            "--step-seconds", 1000, "--virtual-clock", *more)
                        self.assertLess(answer["largest_step_error"], 1e-9)
                        self.assertLess(abs(answer["emulated_step_s"] / answer["simulated_step_s"] - 1), 1e-9)
                        self.assertGreater(answer["emulated_step_s"], 100)
                        self.assertEqual(answer["decoupled_steps"] > 0, name == "decoupled")
                        self.assertIs(answer["virtual_clock"], True)

    def test_emulate_follows_the_routes_of_decoupled_plans(self):
        layout = self.folder / "apart.json"
        layout.write_text(json.dumps(
            {"version": 1, "encoder_place": "own",
             "encoder": {"tensor": 1, "pipeline": 2, "data": 3},
             "llm": {"tensor": 4, "pipeline": 2, "data": 2},
             "microbatches": 4, "chunks": 1, "schedule": "1f1b", "encoder_ahead": 1}), encoding="utf-8")
        picture = self.folder / "last.svg"
        answer = self.answer(
            "emulate", "--trace", PHOTOS, "--layout", layout, "--global-batch-size", 48, "--steps", 4,
            "--step-seconds", 0.1, "--svg", picture)
        self.assertEqual(answer["trainers"], 10)
        drawn = picture.read_text(encoding="utf-8")
        for part in ("predicted: epoch 0, step 4", "measured: epoch 0, step 4", ">encoder 1<", ">LLM 1<"):
            self.assertIn(part, drawn)
        self.assertGreater(answer["decoupled_steps"], 0)

    def test_idle_encoder_replicas_do_not_decouple_a_step(self):
        text_alone = self.folder / "text.csv"
        text_alone.write_text("encoder_patches,llm_tokens\n0,5\n", encoding="utf-8")
        answer = self.answer(
            "emulate", "--trace", text_alone, "--dp", 2, "--pp", 3, "--microbatches", 4,
            "--global-batch-size", 16, "--steps", 1, "--step-seconds", 0.05)
        self.assertEqual(answer["decoupled_steps"], 0)

    def test_emulate_draws_stages_that_have_no_work(self):
        layout = self.folder / "idle.json"
        layout.write_text(json.dumps(
            {"version": 1, "encoder_place": "own", "coupled": True,
             "encoder": {"tensor": 1, "pipeline": 1, "data": 1},
             "llm": {"tensor": 4, "pipeline": 2, "data": 1, "layers": [0, 28]},
             "microbatches": 2, "chunks": 1, "schedule": "1f1b"}), encoding="utf-8")
        picture = self.folder / "idle.svg"
        arguments = ("--trace", PHOTOS, "--layout", layout, "--global-batch-size", 16, "--steps", 2)
        answer = self.answer("emulate", *arguments, "--step-seconds", 0.05, "--svg", picture)
        self.assertIn("measured: epoch 0, step 2", picture.read_text(encoding="utf-8"))
        # Stages take the time that they are told to take, with four tensor ranks, too.
        self.assertLess(answer["correction"]["prediction_error_ratio"]["llm"], 0.05)
        self.refused("'coupled'", "simulate", *arguments, "--decouple")

    def test_emulate_hides_costs_that_the_node_learns(self):
        job = ("emulate", "--trace", PHOTOS, "--dp", 2, "--pp", 2, "--microbatches", 4,
               "--global-batch-size", 48, "--steps", 40, "--step-seconds", 0.05)
        exact = self.answer(*job)["correction"]
        self.assertEqual(exact["drifts"], 0)
        self.assertLess(max(exact["prediction_error_ratio"].values()), 0.005)  # whatever else this machine does
        changed = self.answer(*job, "--noise", 0.02, "--slow-rank", "1:1.5", "--change", "encoder:3@20")
        self.assertEqual(len(changed["step_s"]), 40)
        self.assertGreaterEqual(changed["correction"]["drifts"], 1)
        other, slow = changed["correction"]["rank_slowdowns"][:2]
        self.assertGreater(slow / other, 1.2)

    def test_emulate_weighs_what_correction_gains_and_what_measuring_costs(self):
        job = ("emulate", "--trace", PHOTOS, "--dp", 2, "--pp", 2, "--microbatches", 4, "--global-batch-size", 48,
               "--steps", 60, "--virtual-clock", "--step-seconds", 100)
        dear = self.answer(*job, "--measuring-cost", 0.1)
        correction = dear["correction"]
        self.assertLess(abs(dear["relative_error"]), 1e-9)  # The simulator gets what measuring takes, too.
        self.assertFalse(correction["correction_on"])
        self.assertGreater(correction["measuring_stride"], 100)  # 10 % in one step of 200 are 0.05 %.
        self.assertLess(correction["measured_steps"], 40)
        self.assertLess(abs(correction["overhead"] - 0.1), 0.03)
        # It costs a tenth of each measured step, and nothing else.
        self.assertAlmostEqual(correction["net_gain"], -0.1 * correction["measured_steps"] / 60, delta=0.01)
        self.assertEqual(set(correction["penalties"]), {"vision", "audio", "llm"})
        unasked = self.answer(*job)["correction"]
        self.assertNotIn("net_gain", unasked)
        self.assertEqual(self.answer(*job, "--anomalies", "0.2:3")["correction"]["measuring"], 0)

    def test_what_emulate_hides_is_checked(self):
        for flag, text in (("--noise", "nan"), ("--noise", "2"), ("--step-seconds", "nan"),
                           ("--slow-rank", "1"), ("--slow-rank", "9:1.2"), ("--slow-rank", "1:0"),
                           ("--slow-rank", "1:1.2@9-3"), ("--slow-rank", "1:nan"),
                           ("--anomalies", "0.1"), ("--anomalies", "2:1.5"), ("--measuring-cost", "-1"),
                           ("--change", "decoder:2"), ("--change", "llm"), ("--change", "llm:2@x")):
            done = call("emulate", "--trace", PHOTOS, "--dp", 2, flag, text)
            self.assertEqual(done.returncode, 2, text)
            self.assertIn(flag, done.stderr)
        self.refused("--change is given twice for llm", "emulate", "--trace", PHOTOS, "--dp", 2,
                     "--change", "llm:2", "--change", "encoder:2", "--change", "llm:3")

    def test_emulate_names_the_temporary_directory(self):
        missing = str(self.folder / "missing")
        with unittest.mock.patch.dict(os.environ, TMPDIR=missing):
            self.refused(f"in '{missing}'", "emulate", "--trace", PHOTOS, "--dp", 2)

    def test_flags_that_a_layout_replaces_are_refused(self):
        layout = self.folder / "layout.json"
        layout.write_text("{}", encoding="utf-8")
        for command, flags in (
            ("simulate", ("--dp", "--pp", "--encoder-pp", "--tp", "--chunks", "--microbatches")),
            ("emulate", ("--dp", "--pp", "--encoder-pp", "--microbatches")),
        ):
            for flag in flags:
                done = call(command, "--trace", PHOTOS, "--layout", layout, flag, 2)
                self.assertNotEqual(done.returncode, 0, flag)
                self.assertIn(flag, done.stdout + done.stderr)
        self.refused("layout.json", "simulate", "--trace", PHOTOS, "--layout", layout)
        for command in ("simulate", "emulate", "plan"):
            self.refused(f"trace {self.folder} is a directory", command, "--trace", self.folder)
            trace = self.folder / "broken.csv"
            for rows in ("", "0,x\n", "0,0.5\n"):
                trace.write_text("encoder_patches,llm_tokens\n" + rows, encoding="utf-8")
                self.refused(str(trace), command, "--trace", trace)
            self.refused(str(layout), command, "--trace", PHOTOS, "--profile", layout)

    def test_wrong_calls_are_named(self):
        simulate = ("simulate", "--trace", PHOTOS, "--steps", 1)
        self.refused("--encoder-pp", *simulate, "--pp", 1, "--encoder-pp", 1)
        self.refused("--encoder-pp is 8", *simulate, "--encoder-pp", 8)
        self.refused("slowdown", *simulate, "--slowdowns", "nan,1,1,1,1,1,1,1")
        self.refused("--balance is 'isocost'; it must be in-order, tokens, lpt or cost",
                     *simulate, "--balance", "isocost")
        self.refused("--balance: 'none' is not one of in-order|tokens|cost", "emulate", "--trace", PHOTOS, "--balance",
                     "none")
        self.refused("empty file name", "simulate", "--trace", PHOTOS + ",")
        self.refused("--svg", *simulate, "--svg", "/nonexistent/step.svg")
        drawn = self.folder / "drawn.svg"
        drawn.write_text("precious", encoding="utf-8")
        for command in (simulate, ("emulate", "--trace", PHOTOS, "--steps", 1)):
            self.refused("drawn.svg exists: --force replaces it, or name another file with --svg",
                         *command, "--svg", drawn)
            self.assertEqual(drawn.read_text(encoding="utf-8"), "precious")
        self.answer(*simulate, "--svg", drawn, "--force")
        self.assertTrue(drawn.read_text(encoding="utf-8").endswith("</svg>\n"))
        self.refused("--output", "plan", "--trace", PHOTOS, "--output", "/nonexistent/l.json")
        self.refused("microbatches", "emulate", "--trace", PHOTOS, "--global-batch-size", 3)
        # Blanks after commas are no part of a name.
        done = call("simulate", "--trace", f"{PHOTOS}, {PHOTOS}", "--steps", 1,
                       "--balance", "in-order, lpt")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    LAB = sys.argv.pop(1)
    PHOTOS = sys.argv.pop(1)
    unittest.main()
