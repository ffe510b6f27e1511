"""Packed, padded and single rows of every family that may be packed, on a CUDA device: do models make the same of them?

    python3 bench/gpu/packed_rows.py                              # about a minute
    python3 bench/gpu/packed_rows.py --families qwen3_5 --json build/packed_rows.json
    python3 bench/gpu/packed_rows.py --device cpu                 # without the families that need a GPU's kernels

Small models with random weights in float32. A sample alone in its row is the reference. Its logits, and the gradient
of a step, are compared with those of packed rows, and of rows padded on the right and on the left. Linear attention
(Qwen3.5) needs the packages flash-linear-attention and causal-conv1d for packed rows; for these the check also
demands that results differ if nothing tells the layers where samples end. Prints a line for each family, and ends
with 1 if one failed.
"""

import argparse
import importlib.metadata
import json
import logging
import pathlib
import sys
import tempfile
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
GLOBAL_BATCH = 12
# Largest differences: of logits relative to the largest one, of gradients relative to the norm. The kernels of linear
# attention multiply in TensorFloat-32, with three digits, along chunks that begin elsewhere in a padded row.
MOST, MOST_OF_KERNELS = 1e-5, 5e-3
LEAK = 2e-2  # at least, if nothing tells samples apart
NOT_TOLD = "packed, not told apart"
WAYS = {"packed": "packed", "padded": "padded", "padded left": ("left", 64)}
# Heads of the width that the kernels are made for.
LINEAR = {"linear_key_head_dim": 128, "linear_value_head_dim": 128}


# A family of sounds; the others are of pictures.
SOUNDS = ("qwen2_audio",)


def families():
    """Those whose rows may be packed; {name: whether its layers carry states}."""
    import model_directories

    names = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "internvl", "llava", "llava_onevision",
             "qwen2_audio", "qwen3_5", "qwen3_5_moe")  # the last two's kernels are compiled for minutes, at first use
    return {name: name in model_directories.LINEAR_ATTENTION for name in names if model_directories.is_known(name)}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--families", type=lambda text: text.split(","), metavar="NAME[,NAME]", help="default: all")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="where the results are written, too")
    return parser.parse_args()


def shards_of(name, folder, **options):
    """The folder of samples that the family takes, made if it is not there yet."""
    from device_loader import make_shard

    directory = folder / ("sounds" if name in SOUNDS else "pictures")
    return directory if directory.exists() else make_shard(directory, sounds=name in SOUNDS, **options)


class Family:
    """A small model on the device, and loaders of its microbatches."""

    def __init__(self, name, shards, folder, device):
        import torch
        import transformers

        import model_directories

        self.name, self.shards, self.device = name, shards, device
        self.directory = model_directories.make(folder / name, name)
        if name in model_directories.LINEAR_ATTENTION:
            file = self.directory / "config.json"
            config = json.loads(file.read_text(encoding="utf-8"))
            config["text_config"].update(LINEAR)
            file.write_text(json.dumps(config), encoding="utf-8")
        torch.manual_seed(0)
        config = transformers.AutoConfig.from_pretrained(self.directory)
        (architecture,) = config.architectures
        self.model = getattr(transformers, architecture)(config).to(device).train()

    def step(self, batching, alone=False, forget=()):
        """Returns {sample: its logits} of the first step, and the gradient of its loss, both in float64 on the host.
        alone: whether each sample is a microbatch; forget: arguments that are left out."""
        import torch

        import isocost

        batching = isocost.Padded(*batching) if isinstance(batching, tuple) else batching
        self.model.zero_grad(set_to_none=True)
        found = {}
        with isocost.DataLoader(self.shards, model=self.directory, batching=batching, global_batch_size=GLOBAL_BATCH,
                                microbatches=GLOBAL_BATCH if alone else 2, device=self.device, loss="token_loss",
                                node=isocost.NodeOptions(balance="in-order", correct=False)) as loader:
            for microbatch in loader:
                arguments = {name: value for name, value in microbatch.items() if name not in forget}
                logits = self.model(**arguments).logits
                isocost.token_loss(logits, microbatch).backward()
                found.update(zip(microbatch.sample_keys, rows(logits.detach(), microbatch)))
                if microbatch.last_of_step:
                    break
        gradient = torch.cat([parameter.grad.flatten().double().cpu() for parameter in self.model.parameters()
                              if parameter.grad is not None])
        return found, gradient

    def compare(self):
        """Returns {way: {"logits": …, "gradient": …}}, the largest differences from samples alone."""
        expected, gradient = self.step("padded", alone=True)
        found = {way: differences(expected, gradient, *self.step(batching)) for way, batching in WAYS.items()}
        if self.name in linear():
            found[NOT_TOLD] = differences(
                expected, gradient, *self.step("packed", forget=("cu_seq_lens_q", "seq_idx")))
        return found


def linear():
    import model_directories

    return model_directories.LINEAR_ATTENTION


def rows(logits, microbatch):
    """Each sample's logits, in the order of the microbatch."""
    if "attention_mask" not in microbatch:
        parts = logits[0].split(microbatch.cu_seqlens["llm"].diff().tolist())
    else:
        parts = [row[mask] for row, mask in zip(logits, microbatch["attention_mask"].bool())]
    return [part.double().cpu() for part in parts]


def differences(expected, gradient, found, found_gradient):
    if expected.keys() != found.keys():
        raise RuntimeError(f"other samples: {sorted(expected)}, {sorted(found)}")
    largest = max(float(logits.abs().max()) for logits in expected.values())
    off = max(float((found[key] - logits).abs().max()) for key, logits in expected.items())
    return {"logits": off / largest, "gradient": float((found_gradient - gradient).norm() / gradient.norm())}


def holds(found, most):
    return all(max(own.values()) >= LEAK if way == NOT_TOLD else max(own.values()) <= most
               for way, own in found.items())


def main():
    settings = parse()
    import torch

    from isocost.microbatches import packed_states

    logging.getLogger("isocost").setLevel(logging.ERROR)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    obstacle = packed_states.obstacle(torch.device(settings.device))
    hardware = torch.cuda.get_device_name() if settings.device == "cuda" else "CPU"
    versions = {name: importlib.metadata.version(name) for name in
                ("torch", "transformers", "isocost", "flash-linear-attention", "causal-conv1d") if known(name)}
    print(hardware, *(f"{name} {version}" for name, version in versions.items()), sep=", ", flush=True)
    document = {"hardware": hardware, "versions": versions, "most": MOST, "most_of_kernels": MOST_OF_KERNELS,
                "families": {}}
    failed = False
    with tempfile.TemporaryDirectory(prefix="isocost-bench-") as scratch:
        folder = pathlib.Path(scratch)
        for name, carries_states in families().items():
            if settings.families and name not in settings.families:
                continue
            if carries_states and obstacle:
                print(f"-      {name}: left out: {obstacle}")
                document["families"][name] = {"left_out": obstacle}
                continue
            try:
                found = Family(name, shards_of(name, folder), folder, settings.device).compare()
                ok = holds(found, MOST_OF_KERNELS if carries_states else MOST)
            except Exception:  # a family that breaks has failed; the others continue
                found, ok = {"failed": traceback.format_exc()}, False
            failed = failed or not ok
            document["families"][name] = {"holds": ok, **found}
            print(f"{'ok' if ok else 'FAILED':6} {name}: {found.get('failed') or told(found)}", flush=True)
            if settings.json:  # each time, since the next family may be cut off
                settings.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 1 if failed else 0


def told(found):
    return "; ".join(f"{way}: logits {own['logits']:.1e}, gradient {own['gradient']:.1e}" for way, own in found.items())


def known(name):
    try:
        return bool(importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return False


if __name__ == "__main__":
    sys.exit(main())
