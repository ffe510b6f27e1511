"""A model's directory as the loader's recipe, compared with transformers' own processor and model."""

import dataclasses
import functools
import importlib.metadata
import importlib.util
import inspect
import io
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock

import isocost
from isocost.microbatches.model_inputs import ModelInputs
from support import PROGRAM, TIMEOUT, main

NEEDED = ("transformers", "tokenizers", "jinja2", "PIL", "torchvision")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if not MISSING:
    import numpy
    import PIL
    import torch
    import transformers
    from PIL import Image

    import model_directories
    from model_directories import LINEAR_ATTENTION

    # Pillow 13 resizes sides in another order (docs/models/processor_differences.md).
    ORDER = isocost.NodeOptions(resize_order="pillow-13" if int(PIL.__version__.split(".")[0]) >= 13 else "width-first")
    IN_ORDER = dataclasses.replace(ORDER, balance="in-order", correct=False)

SIZES = [(28, 28), (40, 300), (301, 40), (57, 91), (640, 480), (333, 517), (224, 168), (56, 112)]
CONVERSATIONS = 48


def picture(width, height, seed):
    noise = numpy.random.default_rng(seed).integers(0, 256, (height // 8 + 2, width // 8 + 2, 3), dtype=numpy.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)


def conversation(i):
    """The messages of a sample, and its pictures: none, one or two."""
    pictures = [picture(*SIZES[(i + k) % len(SIZES)], 10 * i + k) for k in range(i % 3)]
    shown = [{"type": "image"} for _each in pictures]
    messages = [{"role": "user", "content": [*shown, {"type": "text", "text": f"Question {i}? \u00e4\U0001f600"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "An answer. " * (1 + i % 7)}]}]
    if i % 4 == 0:
        messages += [{"role": "user", "content": [{"type": "text", "text": "Why?"}]},
                     {"role": "assistant", "content": [{"type": "text", "text": "Because."}]}]
    return messages, pictures


def this_python_first():
    return {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}


def encoded(image, extension):
    out = io.BytesIO()
    image.save(out, {"jpg": "JPEG", "png": "PNG", "webp": "WEBP"}[extension], quality=90)
    return out.getvalue()


def write_shards(directory, weights=None, turn_weights=(None,)):
    """Returns {key: (messages, pictures as their files have them)}. The assistant's turns of all samples have these
    weights in turn."""
    samples = {}
    of_turns = itertools.cycle(turn_weights)
    for shard in range(3):
        with tarfile.open(directory / f"{shard}.tar", "w") as out:
            for i in range(shard, CONVERSATIONS, 3):
                messages, pictures = conversation(i)
                for message in messages:
                    if message["role"] == "assistant":
                        message["weight"] = next(of_turns)
                weight = {} if weights is None else {"weight": weights[i % len(weights)]}
                members = {"json": json.dumps({"messages": messages, **weight}).encode()}
                for k, image in enumerate(pictures):
                    extension = ("jpg", "png", "webp")[(i + k) % 3]
                    members[f"{k}.{extension}"] = encoded(image, extension)
                samples[f"{shard}.tar/s{i}"] = (messages, [Image.open(io.BytesIO(data)).convert("RGB")
                                                           for name, data in members.items() if name != "json"])
                for name, data in members.items():
                    entry = tarfile.TarInfo(f"s{i}.{name}")
                    entry.size = len(data)
                    out.addfile(entry, io.BytesIO(data))
    return samples


class Oracle:
    """The inputs that transformers makes of a sample, with a family's image processor over Pillow."""

    def __init__(self, directory, samples):
        self.samples = samples
        self.model = transformers.AutoModelForImageTextToText.from_pretrained(directory, dtype=torch.float32).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
        self.template = (directory / "chat_template.jinja").read_text()
        self.image_token = self.model.config.image_token_id
        self.images = self.image_processor(directory)

    def image_processor(self, directory):
        settings = json.loads((directory / "preprocessor_config.json").read_text())
        name = settings["image_processor_type"].removesuffix("Fast")
        if hasattr(transformers, f"{name}Pil"):  # since transformers 5
            name += "Pil"
        return getattr(transformers, name).from_pretrained(directory)

    def sample(self, key):
        """input_ids and labels [1, tokens], and what the image processor makes of the pictures."""
        messages, pictures = self.samples[key]
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, chat_template=self.template)
        made = dict(self.images(pictures, return_tensors="pt")) if pictures else {}
        ids = self.ids(text, pictures, made)
        return {"input_ids": torch.tensor([ids]), "labels": torch.tensor([self.labels(ids)]), **made}

    def labels(self, ids):
        """The assistant's turns, without the role and the line break after them."""
        head = self.tokenizer("<|im_start|>assistant\n", add_special_tokens=False)["input_ids"]
        (end,) = self.tokenizer("<|im_end|>", add_special_tokens=False)["input_ids"]
        labels = [-100] * len(ids)
        for i in range(len(ids)):
            if ids[i:i + len(head)] == head:
                turn = slice(i + len(head), ids.index(end, i) + 1)
                labels[turn] = ids[turn]
        return labels

    def weights(self, key, ids):
        """Returns the weight of each token's turn."""
        starts = [i for i, label in enumerate(self.labels(ids)) if label != -100 and self.labels(ids)[i - 1] == -100]
        given = [message["weight"] for message in self.samples[key][0] if message["role"] == "assistant"]
        weights = torch.ones(len(ids))
        for start, weight in zip(starts, given):
            weights[start:] = 1.0 if weight is None else weight
        return weights

    def positions(self, sample):
        """Rows of position_ids beside those within the sample."""
        return torch.empty((0, sample["input_ids"].shape[1]), dtype=torch.int64)

    def kinds(self, sample):
        """Arguments that transformers requires since version 5."""
        if "mm_token_type_ids" not in inspect.signature(self.model.forward).parameters:
            return {}
        return {"mm_token_type_ids": (sample["input_ids"] == self.image_token).int()}

    def loss(self, sample):
        return self.model(**sample, **self.kinds(sample), use_cache=False).loss.item()


class QwenOracle(Oracle):
    def labels(self, ids):
        """Leaves out Qwen3.5's <think> in the prompt, too, and the line breaks after it, which are one token."""
        labels = super().labels(ids)
        think = self.tokenizer.convert_tokens_to_ids("<think>")
        for i in range(1, len(ids)):
            if labels[i] == think and labels[i - 1] == -100:
                labels[i:i + 2] = [-100, -100]
        return labels

    def image_processor(self, directory):
        images = super().image_processor(directory)
        if hasattr(transformers, "Qwen2VLImageProcessorPil"):
            return images
        # Before transformers 5 it ignores `size`, and takes three rows for channels unless it is told.
        size = json.loads((directory / "preprocessor_config.json").read_text())["size"]
        if size is not None:
            images.size, images.min_pixels, images.max_pixels = size, size["shortest_edge"], size["longest_edge"]
        return functools.partial(images, input_data_format="channels_last")

    def ids(self, text, _pictures, made):
        grids = iter(made["image_grid_thw"].tolist() if made else [])
        ids = []
        for token in self.tokenizer(text, add_special_tokens=False)["input_ids"]:
            _, rows, columns = next(grids) if token == self.image_token else (1, 2, 2)
            ids += [token] * (rows * columns // 4)
        return ids

    def positions(self, sample):
        """M-RoPE: [3, tokens]."""
        return self.model.model.get_rope_index(sample["input_ids"], image_grid_thw=sample.get("image_grid_thw"),
                                               **self.kinds(sample))[0][:, 0]


class LlavaOracle(Oracle):
    def image_processor(self, directory):
        images = super().image_processor(directory)
        settings = json.loads((directory / "processor_config.json").read_text())
        self.processor = transformers.LlavaProcessor(
            images, self.tokenizer, patch_size=settings["patch_size"],
            vision_feature_select_strategy=settings["vision_feature_select_strategy"],
            num_additional_image_tokens=settings["num_additional_image_tokens"])
        return images

    def ids(self, text, pictures, _made):
        return self.processor(text=[text], images=pictures or None, add_special_tokens=False)["input_ids"][0]


class InternVlOracle(Oracle):
    def image_processor(self, directory):
        images = super().image_processor(directory)
        settings = json.loads((directory / "processor_config.json").read_text())
        self.processor = transformers.InternVLProcessor(images, self.tokenizer, transformers.InternVLVideoProcessor(),
                                                        image_seq_length=settings["image_seq_length"])
        # The processor calls it with crop_to_patches, whatever the directory says.
        return lambda pictures, **how: {"pixel_values": images(pictures, crop_to_patches=True, **how)["pixel_values"]}

    def ids(self, text, pictures, _made):
        return self.processor(text=[text], images=pictures or None, add_special_tokens=False)["input_ids"][0]


class OneVisionOracle(Oracle):
    def image_processor(self, directory):
        images = super().image_processor(directory)
        settings = json.loads((directory / "processor_config.json").read_text())
        self.processor = transformers.LlavaOnevisionProcessor(
            images, self.tokenizer, transformers.LlavaOnevisionVideoProcessor(),
            num_image_tokens=settings["num_image_tokens"], vision_aspect_ratio=settings["vision_aspect_ratio"],
            vision_feature_select_strategy=settings["vision_feature_select_strategy"])

        def of_one_sample(pictures, **how):
            made = images([pictures], **how)
            return {**made, "pixel_values": torch.cat([self.without_filling(*each, len(pictures)) for each in
                                                       zip(made["pixel_values"], made["image_sizes"].tolist())])}
        return of_one_sample

    def without_filling(self, pixels, size, images):
        from transformers.models.llava_onevision.modeling_llava_onevision import image_size_to_num_patches

        tiles = image_size_to_num_patches(size, self.model.config.image_grid_pinpoints,
                                          self.model.config.vision_config.image_size)
        return pixels[:tiles if images == 1 else 1]

    def ids(self, text, pictures, _made):
        return self.processor(text=[text], images=[pictures] if pictures else None,
                              add_special_tokens=False)["input_ids"][0]


ORACLES = {"qwen2_vl": QwenOracle, "qwen2_5_vl": QwenOracle, "qwen3_vl": QwenOracle, "qwen3_vl_moe": QwenOracle,
           "qwen3_5": QwenOracle, "qwen3_5_moe": QwenOracle, "llava": LlavaOracle, "llava_siglip": LlavaOracle,
           "llava_onevision": OneVisionOracle, "internvl": InternVlOracle}
if not MISSING:
    ORACLES = {family: oracle for family, oracle in ORACLES.items() if model_directories.is_known(family)}


def sample_rows(microbatch):
    """Returns each sample's ids, labels and position_ids, [..., tokens], of packed samples and of padded ones."""
    lengths = microbatch.cu_seqlens["llm"].diff().tolist()
    names = ("input_ids", "labels", "position_ids")
    if "attention_mask" in microbatch:
        masks = microbatch["attention_mask"].bool()
        assert masks.sum(1).tolist() == lengths
        return [tuple(microbatch[name][..., i, :][..., mask] for name in names) for i, mask in enumerate(masks)]
    pieces = (microbatch[name][..., 0, :].split(lengths, -1) for name in names)
    return list(zip(*pieces))


# For tests of arguments, which are those for the model's own loss also if it is no share of the global batch's.
whatever_the_loss = unittest.mock.patch("isocost.microbatches.model_inputs._check_own_loss", lambda *_given: None)


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class Directories(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-model-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.shards = self.directory / "shards"
        self.shards.mkdir()

    def made(self, family="qwen2_vl"):
        return model_directories.make(self.directory / family, family, model=True)


class OwnLoss(Directories):
    def test_a_loss_that_is_no_share_of_the_global_batchs_is_refused(self):
        refusals = [("qwen3_vl", "4.57.6"), ("qwen3_vl_moe", "5.16.0"), ("qwen3_5", "5.2.0"), ("qwen3_5_moe", "5.16.3")]
        accepted = [("qwen2_vl", "4.57.6"), ("qwen2_5_vl", "5.0.0"), ("llava", "4.57.6"), ("qwen3_vl", "5.17.0"),
                    ("qwen3_5", "5.17.0.dev0"), ("qwen3_5", "6.0"), ("qwen3_vl_moe", None)]
        for family, version in [*refusals, *accepted]:
            model = model_directories.make(self.directory / family, family)

            def installed(_name, version=version):
                if version is None:
                    raise importlib.metadata.PackageNotFoundError
                return version

            with self.subTest(family=family, version=version), \
                    unittest.mock.patch("importlib.metadata.version", installed):
                if (family, version) in accepted:
                    ModelInputs(str(model), None, "model")
                    continue
                with self.assertRaisesRegex(ValueError, rf"loss = 'model': the own loss of qwen2_vl in transformers "
                                                        rf"{version} takes no num_items_in_batch.*upgrade.* to 5.17"):
                    ModelInputs(str(model), None, "model")
                ModelInputs(str(model), None, "token_loss")


@whatever_the_loss
class Model(Directories):

    def test_long_samples_are_cut_after_whole_turns(self):
        model = self.made()
        write_shards(self.shards)
        node = dataclasses.replace(IN_ORDER, balance="cost")

        def samples(**options):
            """{key: [input_ids, labels]} of an epoch, and the tokens of the longest microbatch."""
            found, most = {}, 0
            with isocost.DataLoader(self.shards, model=model, global_batch_size=12, epochs=1, **options) as loader:
                for microbatch in loader:
                    most = max(most, microbatch["input_ids"].shape[1])
                    cuts = microbatch.cu_seqlens["llm"].tolist()
                    for key, first, end in zip(microbatch.sample_keys, cuts, cuts[1:]):
                        found[key] = [microbatch[name][0, first:end].tolist() for name in ("input_ids", "labels")]
            return found, most

        def turns(labels):
            return sum(label != -100 and before == -100 for before, label in zip(labels, labels[1:]))

        whole, _most = samples(node=node)
        # The longest of two exchanges loses more than the line break after its last turn.
        limit = max(len(ids) for ids, labels in whole.values() if turns(labels) == 2) - 2
        node = dataclasses.replace(node, max_bad_samples=CONVERSATIONS)
        cut, most = samples(node=node, max_tokens=limit, on_long="truncate")
        self.assertLessEqual(most, limit)
        shorter = [key for key in cut if len(whole[key][0]) > limit]
        for key in shorter:
            for ours, theirs in zip(cut[key], whole[key]):
                self.assertEqual(ours, theirs[:len(ours)])
            self.assertNotEqual(cut[key][1][-1], -100)  # the end token of a turn
        self.assertIn(1, [turns(whole[key][1]) - turns(cut[key][1]) for key in shorter])
        for key in set(cut) - set(shorter):
            self.assertEqual(cut[key], whole[key])
        for key in set(whole) - set(cut):  # bad: the first exchange alone is too long
            self.assertGreater(len(whole[key][0]), limit)
            self.assertEqual(turns(whole[key][1]), 1)
        with self.assertRaisesRegex(ValueError, "on_long = truncate: give model"):
            isocost.DataLoader(self.shards, max_tokens=limit, on_long="truncate", global_batch_size=12)

    def loader(self, model, node=None, **options):
        loader = isocost.DataLoader(self.shards, model=model, node=node or ORDER, global_batch_size=12, microbatches=2,
                                    **options)
        self.addCleanup(loader.close)
        return loader

    def test_every_sample_is_what_transformers_makes_of_it(self):
        samples = write_shards(self.shards)
        for family, oracle_of in ORACLES.items():
            model = self.made(family)
            oracle, seen = oracle_of(model, samples), []
            for microbatch in self.loader(model):
                given = microbatch.tensors
                lengths = microbatch.cu_seqlens["llm"].diff().tolist()
                shape = (len(lengths), max(lengths)) if family in LINEAR_ATTENTION else (1, sum(lengths))
                self.assertEqual((given["input_ids"].shape, given["position_ids"].shape[-2:]), (shape, shape))
                first = 0
                others = {}
                for key, (ids, labels, positions) in zip(microbatch.sample_keys, sample_rows(microbatch)):
                    wanted = oracle.sample(key)
                    self.assertEqual(ids.tolist(), wanted["input_ids"][0].tolist(), key)
                    self.assertEqual(labels.tolist(), wanted["labels"][0].tolist(), key)
                    if family not in LINEAR_ATTENTION:  # Rows of their own need no positions within the sample.
                        within, *positions = positions.view(-1, len(ids))
                        self.assertEqual(within.tolist(), list(range(len(ids))))
                    self.assertEqual([row.tolist() for row in positions], oracle.positions(wanted).tolist(), key)
                    if "pixel_values" in wanted:
                        rows = slice(first, first + len(wanted["pixel_values"]))
                        self.assertTrue(torch.equal(given["pixel_values"][rows], wanted["pixel_values"]), key)
                        first = rows.stop
                    for name in wanted.keys() - {"input_ids", "labels", "pixel_values"}:
                        others.setdefault(name, []).append(wanted[name])
                    seen.append(key)
                for name, tensors in others.items():
                    self.assertTrue(torch.equal(given[name], torch.cat(tensors)), name)
                self.assertEqual(first, len(given["pixel_values"]) if "pixel_values" in given else 0)
            self.assertEqual(sorted(seen), sorted(samples))

    def test_the_loss_of_a_step_is_that_of_its_samples_one_by_one(self):
        samples = write_shards(self.shards)
        for family, oracle_of in ORACLES.items():
            if not model_directories.has_own_loss(family):
                continue
            model = self.made(family)
            oracle = oracle_of(model, samples)
            own = by_token_loss = expected = 0.0
            tokens = 0
            loaders = zip(self.loader(model), self.loader(model, loss="token_loss"))
            with torch.no_grad():
                for microbatch, without_labels in loaders:
                    self.assertEqual(microbatch.sample_ids, without_labels.sample_ids)
                    self.assertNotIn("labels", without_labels)
                    own += oracle.model(**microbatch).loss.item()
                    by_token_loss += isocost.token_loss(oracle.model(**without_labels).logits, without_labels).item()
                    for key in microbatch.sample_keys:
                        sample = oracle.sample(key)
                        count = int((sample["labels"] != -100).sum())
                        expected += oracle.loss(sample) * count
                        tokens += count
                    if microbatch.last_of_step:
                        break
            self.assertEqual(tokens, microbatch.global_label_tokens)
            self.assertAlmostEqual(own / (expected / tokens), 1, delta=1e-5)
            self.assertAlmostEqual(by_token_loss / (expected / tokens), 1, delta=1e-5)

    def test_flash_attention_keeps_samples_and_pictures_apart(self):
        """Its kernels take lengths of sequences instead of a mask, in the encoder others than in the decoder."""
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "gpu"))
        import varlen

        varlen.register()
        write_shards(self.shards)
        for family in ORACLES:
            if family in LINEAR_ATTENTION:
                continue
            model = self.made(family)
            masked, flash = (transformers.AutoModelForImageTextToText.from_pretrained(
                model, dtype=torch.float32, attn_implementation=name).eval() for name in ("sdpa", varlen.NAME))
            pictures = 0
            with torch.no_grad():
                for microbatch in self.loader(model):
                    self.assertGreater(len(microbatch.sample_ids), 1)
                    pictures += "pixel_values" in microbatch
                    self.assertAlmostEqual(flash(**microbatch).loss.item() / masked(**microbatch).loss.item(), 1,
                                           delta=1e-5, msg=family)
                    if microbatch.last_of_step:
                        break
            self.assertGreater(pictures, 0)

    def test_padded_rows_give_the_loss_of_packed_ones(self):
        samples = write_shards(self.shards)
        ways = ("padded", isocost.Padded("left", 64))
        version = tuple(map(int, transformers.__version__.split(".")[:2]))
        for family in ORACLES:
            if family in LINEAR_ATTENTION:
                continue
            model = self.made(family)
            oracle = Oracle(model, samples)
            loaders = [self.loader(model, batching=way, node=IN_ORDER) for way in ("packed", *ways)]
            with torch.no_grad():
                for packed, *padded in zip(*loaders):
                    wanted = oracle.model(**packed).loss.item()
                    for way, microbatch in zip(ways, padded):
                        self.assertEqual(microbatch.sample_ids, packed.sample_ids)
                        rows, longest = microbatch["input_ids"].shape
                        self.assertEqual(rows, len(packed.sample_ids))
                        self.assertEqual(longest % (1 if way == "padded" else 64), 0)
                        self.assertEqual(microbatch["attention_mask"].sum(1).tolist(),
                                         packed.cu_seqlens["llm"].diff().tolist())
                        self.assertAlmostEqual(oracle.model(**microbatch).loss.item() / wanted, 1, delta=1e-5)
                        if family.startswith("qwen3_vl") and version < (5, 17):
                            continue  # Its own loss is none of the global batch's.
                        logits = oracle.model(**{**microbatch, "labels": None}).logits
                        self.assertAlmostEqual(isocost.token_loss(logits, microbatch).item() / wanted, 1, delta=1e-5)
                    if packed.last_of_step:
                        break

    def test_rows_of_linear_attention_are_samples_one_by_one(self):
        samples = write_shards(self.shards)
        for family in LINEAR_ATTENTION:
            if family not in ORACLES:
                continue
            model = self.made(family)
            oracle = QwenOracle(model, samples)
            with self.assertRaisesRegex(ValueError, "batching = 'packed': .* linear attention.* give 'padded'"):
                self.loader(model, batching="packed")
            with torch.no_grad():
                for way in ("padded", isocost.Padded("left", 64)):
                    microbatch = next(iter(self.loader(model, batching=way)))
                    self.assertGreater(len(set(microbatch.cu_seqlens["llm"].diff().tolist())), 1)
                    logits = oracle.model(**microbatch).logits
                    for key, row, mask in zip(microbatch.sample_keys, logits, microbatch["attention_mask"].bool()):
                        sample = oracle.sample(key)
                        alone = oracle.model(**sample, **oracle.kinds(sample), use_cache=False).logits[0]
                        self.assertLess((row[mask] - alone).abs().max().item(), 1e-5, (family, way, key))

    def test_a_row_of_several_samples_leaks_through_linear_attention(self):
        """The reason why such rows are refused."""
        torch.manual_seed(0)
        ids = torch.randint(1000, (1, 40))
        positions = torch.cat([torch.arange(25), torch.arange(15)]).expand(4, 1, -1)
        for family in ORACLES:
            if not family.startswith("qwen3"):
                continue
            model = transformers.AutoModelForImageTextToText.from_pretrained(self.made(family), dtype=torch.float32)
            with torch.no_grad():
                packed = model.eval()(input_ids=ids, position_ids=positions, use_cache=False).logits[0, 25:]
                alone = model(input_ids=ids[:, 25:], use_cache=False).logits[0]
            difference = (packed - alone).abs().max().item()
            if family in LINEAR_ATTENTION:
                self.assertGreater(difference, 1e-2, family)
            else:
                self.assertLess(difference, 1e-5, family)

    def test_padding_that_nobody_asked_for_is_logged_once(self):
        write_shards(self.shards)
        for family, batching, lines in (("qwen3_5", None, 1), ("qwen3_5", "padded", 0), ("qwen2_vl", None, 0)):
            if family not in ORACLES:
                continue
            with self.assertLogs("isocost", "INFO") as logged:
                isocost.base.logs.log(1, "a line at least")
                model = self.made(family)
                for _ in range(2):
                    self.loader(model, batching=batching)
            noted = [line for line in logged.output if "linear attention" in line]
            self.assertEqual(len(noted), lines, logged.output)
            self.assertTrue(all("batching='padded'" in line for line in noted))

    def test_other_types_with_these_processors_are_refused(self):
        """Types that transformers gives the image processor of Qwen2-VL, and that were not compared."""
        from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES

        model = self.made("qwen3_vl")
        config = json.loads((model / "config.json").read_text())
        of_table = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", *LINEAR_ATTENTION)
        others = {"qwen2_5_omni", "qwen3_omni_moe"}  # at least, also where transformers lists fewer
        for name, classes in IMAGE_PROCESSOR_MAPPING_NAMES.items():
            if "Qwen2VLImageProcessor" in (classes.values() if isinstance(classes, dict) else classes):
                others.add(name)
        for name in others.difference(of_table):
            (model / "config.json").write_text(json.dumps({**config, "model_type": name}))
            with self.assertRaisesRegex(ValueError, f'config.json: model_type is "{name}", for which there is no '
                                                    "recipe; .*; with the same Qwen2VLImageProcessor and "
                                                    f"Qwen3VLVideoProcessor the nearest is ({'|'.join(of_table[2:])})"):
                isocost.DataLoader(self.shards, model=model)

    def test_limits_hold_for_rows_that_are_padded_to_a_multiple(self):
        write_shards(self.shards)
        model = self.made()
        longest = max(int(each) for microbatch in self.loader(model) for each in microbatch.cu_seqlens["llm"].diff())
        limit = -(-longest // 64) * 64
        counted, delivered = isocost.Padded("left", 64), 0
        with isocost.DataLoader(self.shards, model=model, node=ORDER, global_batch_size=12, batching=counted,
                                max_tokens=limit) as loader:
            for microbatch in loader:
                self.assertEqual(microbatch["input_ids"].shape[1] % 64, 0)
                self.assertLessEqual(microbatch["input_ids"].numel(), limit)
                delivered += len(microbatch.sample_ids)
        self.assertEqual(delivered, CONVERSATIONS)
        # The longest sample alone would exceed this limit, because padding counts.
        node = dataclasses.replace(ORDER, max_bad_samples=CONVERSATIONS)
        with isocost.DataLoader(self.shards, model=model, node=node, global_batch_size=12, batching=counted,
                                max_tokens=limit - 1) as loader:
            self.assertLess(sum(len(microbatch.sample_ids) for microbatch in loader), CONVERSATIONS)

    def test_planned_tokens_are_delivered_tokens_over_10_000_conversations(self):
        generator = random.Random(7)
        words = (pathlib.Path(__file__).parents[2] / "README.md").read_text().split()
        small = encoded(picture(60, 40, 1), "jpg")
        with tarfile.open(self.shards / "0.tar", "w") as out:
            for i in range(10_000):
                with_picture = i % 20 == 0
                shown = [{"type": "image"}] if with_picture else []
                messages = []
                for turn in range(2 * generator.randint(1, 3)):
                    said = " ".join(generator.choices(words, k=generator.randint(1, 40)))
                    messages.append({"role": ("user", "assistant")[turn % 2],
                                     "content": [*(shown if turn == 0 else []), {"type": "text", "text": said}]})
                members = {"json": json.dumps({"messages": messages}).encode(),
                           **({"jpg": small} if with_picture else {})}
                for name, data in members.items():
                    entry = tarfile.TarInfo(f"s{i}.{name}")
                    entry.size = len(data)
                    out.addfile(entry, io.BytesIO(data))
        model = self.made()
        tokens = labels = samples = 0
        loader = isocost.DataLoader(self.shards, model=model, node=ORDER, global_batch_size=500, microbatches=5)
        self.addCleanup(loader.close)
        of_step = 0
        for microbatch in loader:
            self.assertEqual(microbatch.tokens, microbatch["input_ids"].shape[1])
            of_step += int((microbatch["labels"] != -100).sum())
            tokens += microbatch["input_ids"].shape[1]
            samples += len(microbatch.sample_ids)
            if microbatch.last_of_step:
                self.assertEqual(of_step, microbatch.global_label_tokens)
                labels, of_step = labels + of_step, 0
        self.assertEqual(samples, 10_000)
        planned = json.loads(subprocess.run(
            [PROGRAM, "data", "profile", self.shards, "--model", model, "--samples", "0", "--json"], check=True,
            capture_output=True, text=True, timeout=TIMEOUT).stdout)["loads"]
        sums = dict(zip(planned["columns"], map(sum, zip(*planned["rows"]))))
        self.assertEqual((tokens, labels), (sums["llm_units"], sums["label_tokens"]))

    def test_predict_explains_a_sample(self):
        samples = write_shards(self.shards)
        for family, oracle_of in ORACLES.items():
            model = self.made(family)
            oracle = oracle_of(model, samples)
            made = subprocess.run([PROGRAM, "tokenize", self.shards, "--model", model], capture_output=True, text=True,
                                  timeout=TIMEOUT, env=this_python_first())
            self.assertEqual(made.returncode, 0, made.stderr)
            for key in ("s0", "s1", "s2", "s8"):
                (shard,) = (name for name in samples if name.endswith(f"/{key}"))
                _messages, pictures = samples[shard]
                wanted = oracle.sample(shard)
                arguments = [PROGRAM, "predict", "--data", self.shards, "--model", model, "--sample", key]
                told = json.loads(subprocess.run([*arguments, "--json"], check=True, capture_output=True, text=True,
                                                 timeout=TIMEOUT).stdout)
                sample, modules = told["sample"], told["modules"]
                tokens = wanted["input_ids"].shape[1]
                labels = int((wanted["labels"] != -100).sum())
                self.assertEqual((sample["key"], sample["tokens"], sample["label_tokens"], sample["other_tokens"]),
                                 (key, tokens, labels, 0))
                text, *media = sample["parts"]
                image_tokens = int((wanted["input_ids"] == oracle.image_token).sum())
                around = 2 * len(pictures) if family == "internvl" else 0  # <img> and </img>
                self.assertEqual((text["modality"], text["tokens"], text["label_tokens"]),
                                 ("text", tokens - image_tokens - around, labels))
                self.assertEqual([(part["width"], part["height"]) for part in media], [each.size for each in pictures])
                self.assertEqual(sum(part["tokens"] for part in media), image_tokens + around)
                if "image_grid_thw" in wanted:
                    self.assertEqual([[1, part["rows"], part["columns"]] for part in media],
                                     wanted["image_grid_thw"].tolist())
                elif media:
                    self.assertEqual(sum(part["frames"] for part in media), len(wanted["pixel_values"]))
                self.assertEqual(sum(part["vision"]["units"] for part in media), modules["vision"]["units"] if media
                                 else 0)
                table = subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=TIMEOUT).stdout
                self.assertRegex(table, rf"(?m)^sample +{labels} label tokens +{tokens}$")
                for part in media:
                    self.assertRegex(table, rf"(?m)^{part['name']} .*{part['width']}x{part['height']} .*"
                                            rf"{part['columns']}x{part['rows']} patches +{part['tokens']}$")

    def test_weights_need_token_loss(self):
        write_shards(self.shards, weights=[1, 0.5])
        model = self.made()
        loader = self.loader(model)
        with self.assertRaisesRegex(ValueError, r"samples of the data set have one \(the first is 0.tar/s\d+: it has "
                                                r"0.5\)..*loss='token_loss'.*weight_key"):
            next(iter(loader))
        node = dataclasses.replace(ORDER, weight_key="")
        self.assertEqual({1.0}, {weight for microbatch in self.loader(model, node=node)
                                 for weight in microbatch.sample_weights})
        checked = subprocess.run([PROGRAM, "check", self.shards, "--model", model], capture_output=True, text=True,
                                 timeout=TIMEOUT)
        self.assertRegex(checked.stderr, r"samples have a weight in the loss other than 0 and 1 "
                                         r"\(0.tar/s\d+ has 0.5\).*loss='token_loss'")
        for microbatch in self.loader(model, loss="token_loss"):
            self.assertNotIn("num_items_in_batch", dict(microbatch))

    def test_the_loss_weighs_turns_whatever_the_plan(self):
        samples = write_shards(self.shards, turn_weights=(0.25, None, 3, 0, 1, 0.5))
        model = self.made()
        oracle = QwenOracle(model, samples)
        node = dataclasses.replace(ORDER, max_bad_samples=CONVERSATIONS)
        steps = []
        for options in ({"microbatches": 2}, {"microbatches": 3, "batching": "padded"}):
            loader = isocost.DataLoader(self.shards, model=model, node=node, global_batch_size=12, loss="token_loss",
                                        **options)
            self.addCleanup(loader.close)
            loss = 0.0
            keys = []
            with torch.no_grad():
                for microbatch in loader:
                    loss += isocost.token_loss(oracle.model(**microbatch).logits, microbatch).item()
                    keys += microbatch.sample_keys
                    if microbatch.last_of_step:
                        break
                wanted, tokens = 0.0, 0
                for key in keys:
                    sample = oracle.sample(key)
                    weights = oracle.weights(key, sample["input_ids"][0].tolist())
                    logits = oracle.model(**{**sample, "labels": None}, **oracle.kinds(sample), use_cache=False).logits
                    each = torch.nn.functional.cross_entropy(logits[0, :-1], sample["labels"][0, 1:], reduction="none")
                    wanted += float((each * weights[1:]).sum())
                    tokens += int(((sample["labels"][0] != -100) & (weights != 0)).sum())
            self.assertEqual(tokens, microbatch.global_label_tokens)
            self.assertAlmostEqual(loss / (wanted / tokens), 1, delta=1e-5)
            steps.append((sorted(keys), loss))
        (first, loss), (second, other) = steps
        self.assertEqual(first, second)
        self.assertAlmostEqual(loss / other, 1, delta=1e-5)

    def test_weights_of_turns_need_token_loss_but_for_0(self):
        samples = write_shards(self.shards, turn_weights=(1, 1, 1, 0))
        model = self.made()
        oracle = QwenOracle(model, samples)
        node = dataclasses.replace(ORDER, max_bad_samples=CONVERSATIONS)
        masked = 0
        for microbatch in self.loader(model, node=node):
            sums = microbatch.cu_seqlens["llm"].tolist()
            for key, first, end in zip(microbatch.sample_keys, sums, sums[1:]):
                wanted = oracle.sample(key)
                weights = oracle.weights(key, wanted["input_ids"][0].tolist())
                masked += int(((weights == 0) & (wanted["labels"][0] != -100)).sum())
                self.assertEqual(microbatch["labels"][0, first:end].tolist(),
                                 wanted["labels"][0].masked_fill(weights == 0, -100).tolist())
        self.assertGreater(masked, 0)
        shutil.rmtree(self.shards)
        self.shards.mkdir()
        write_shards(self.shards, turn_weights=(1, 1, 0.5, 1))
        with self.assertRaisesRegex(ValueError, r"the first is \d.tar/s\d+: its turns have weights.*'token_loss'"):
            next(iter(self.loader(model, node=node)))

    def test_a_sample_without_weight_has_no_labels(self):
        write_shards(self.shards, weights=[1, 0])
        for microbatch in self.loader(self.made()):
            sums = microbatch.cu_seqlens["llm"].tolist()
            for i, weight in enumerate(microbatch.sample_weights):
                labels = microbatch["labels"][0, sums[i]:sums[i + 1]]
                self.assertEqual(bool((labels != -100).any()), weight > 0)

    def test_a_node_serves_what_isocost_tokenize_made(self):
        write_shards(self.shards)
        model, other = self.made(), self.made("qwen2_5_vl")
        serve = [PROGRAM, "serve", "--data", self.shards, "--model", model]
        refused = subprocess.run([*serve, "--bind", "tcp://127.0.0.1:*"], capture_output=True, text=True,
                                 timeout=TIMEOUT)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("isocost tokenize", refused.stderr)
        made = subprocess.run([PROGRAM, "tokenize", self.shards, "--model", model, "--labels", "last", "--json"],
                              capture_output=True, text=True, timeout=TIMEOUT, env=this_python_first())
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(json.loads(made.stdout)["samples"], CONVERSATIONS)
        endpoint = f"ipc://{self.directory}/node"
        serve += ["--bind", endpoint, "--ranks", "1", "--bad-samples-file", self.directory / "bad.jsonl"]
        with subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as node:
            try:
                with self.assertRaisesRegex(ValueError, "the node prepares media for another model"), \
                        isocost.DataLoader(endpoint, model=self.with_bounds(other)) as loader:
                    next(iter(loader))
                with isocost.DataLoader(endpoint, model=model) as loader:
                    self.assertEqual(sum(len(microbatch.sample_ids) for microbatch in loader), CONVERSATIONS)
                self.assertEqual(node.wait(TIMEOUT), 0)
            finally:
                node.kill()
                node.stderr.close()

    @staticmethod
    def with_bounds(model):
        """The directory, with other bounds of its pictures."""
        file = model / "preprocessor_config.json"
        settings = json.loads(file.read_text())
        file.write_text(json.dumps({**settings, "min_pixels": 784 * 8, "size": None}))
        return model

    def test_bad_input_is_named(self):
        write_shards(self.shards)
        model = self.made()
        with self.assertRaisesRegex(ValueError, "loss = 'mine'"):
            isocost.DataLoader(self.shards, model=model, loss="mine")
        with self.assertRaisesRegex(ValueError, "batching = 'ragged'"):
            isocost.DataLoader(self.shards, model=model, batching="ragged")
        for wrong in ({"side": "top"}, {"multiple": 0}):
            with self.assertRaisesRegex(ValueError, f"^{next(iter(wrong))} = "):
                isocost.Padded(**wrong)
        for recipe in (isocost.RecipeOptions(video_fps=3.0), "native28"):
            with self.assertRaisesRegex(ValueError, "leave recipe out"):
                isocost.DataLoader(self.shards, model=model, recipe=recipe)
        other = self.directory / "other"
        shutil.copytree(model, other)
        config = json.loads((other / "config.json").read_text())
        (other / "config.json").write_text(json.dumps({**config, "model_type": "foo"}))
        with self.assertRaisesRegex(ValueError, 'config.json: model_type is "foo", for which there is no recipe'):
            isocost.DataLoader(self.shards, model=other)
        with self.assertRaisesRegex(FileNotFoundError, "config.json: no such file"):
            isocost.DataLoader(self.shards, model=self.directory)
        with self.assertRaisesRegex(ValueError, "transform: not supported together with model= yet"):
            isocost.DataLoader(self.shards, model=model, transform=len)
        with self.assertRaisesRegex(ValueError, "d.tar has no tokens of .* made with options of their own"):
            tokenize = [PROGRAM, "tokenize", self.shards, "--model", model, "--labels", "all"]
            subprocess.run(tokenize, check=True, capture_output=True, env=this_python_first())
            shutil.copy(self.shards / "0.tar", self.shards / "d.tar")
            isocost.DataLoader(self.shards, model=model)


if __name__ == "__main__":
    main()
