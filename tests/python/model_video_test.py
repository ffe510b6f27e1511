"""Videos in samples of a model's directory, compared with what the directory's own processor and model make of them."""

import dataclasses
import importlib.util
import io
import itertools
import json
import pathlib
import random
import shutil
import tarfile
import tempfile
import unittest
from fractions import Fraction

import isocost
from model_test import whatever_the_loss
from support import main

NEEDED = ("av", "transformers", "tokenizers", "jinja2", "PIL", "torchvision")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if not MISSING:
    import av
    import numpy
    import torch
    import transformers
    from PIL import Image
    from transformers.video_utils import VideoMetadata

    import model_directories
    from model_directories import LINEAR_ATTENTION
    from model_test import IN_ORDER as IN_ORDER_OF_PILLOW
    from model_test import encoded, picture

    # The processors that take videos are torchvision's, for pictures, too.
    IS_OLD = int(transformers.__version__.split(".")[0]) < 5
    IN_ORDER = dataclasses.replace(IN_ORDER_OF_PILLOW, resize_order="width-first")

VIDEOS = pathlib.Path(__file__).parents[1] / "decode" / "video" / "golden_videos"
TIMED_FAMILIES = ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")  # whose text has times of frames
if not MISSING:
    TIMED_FAMILIES = tuple(filter(model_directories.is_known, TIMED_FAMILIES))
ROPE_FAMILIES = ("qwen2_vl", "qwen2_5_vl", *TIMED_FAMILIES)
FAMILIES = (*ROPE_FAMILIES, "internvl", "llava_onevision")
VIDEO_SWEEP = 60
EXTREME = [(16, 16), (16, 1600), (1600, 16), (30, 500), (500, 30), (32, 32), (34, 30), (1280, 18), (18, 1280),
           (640, 480)]
RATES = [Fraction(5), Fraction(10), Fraction(24), Fraction(25), Fraction(30000, 1001), Fraction(60)]
# The media of each sample, in their order: videos by name, pictures by size.
SAMPLES = [["nine.mp4"], ["one.mp4"], ["variable.mp4"], ["turned90.mp4"], ["cfr30_b.mp4", (64, 48), "ntsc.mp4"],
           [(90, 60)], ["slow.mp4", "two.mp4"], [], ["turned270.mp4", "turned180.mp4"], ["hevc.mp4"], ["vp8.mkv"],
           ["variable.mkv"], ["mpeg4.avi", "odd.mp4"], ["vp9.webm"], ["late.mp4"], [(57, 91), "large.mp4"],
           ["twins.mp4"], ["cut_open_hevc.mkv", "av1.webm"], ["edit_middle.mp4"], ["mpeg4_b.avi", "fast1500.mkv"]]


def decoded(file):
    """uint8 [frames, height, width, 3] as displayed, and the frames a second."""
    name = file.name
    with av.open(str(file)) as given:
        rate = given.streams.video[0].average_rate
        frames = numpy.stack([frame.to_ndarray(format="rgb24") for frame in given.decode(video=0)])
    turned = int(name.removeprefix("turned").removesuffix(".mp4")) if name.startswith("turned") else 0
    return numpy.ascontiguousarray(numpy.rot90(frames, -turned // 90, (1, 2))), float(rate)


def conversation(i, media):
    shown = [{"type": "video" if isinstance(medium, str) else "image"} for medium in media]
    shown.insert(i % 2, {"type": "text", "text": f"What is it, number {i}? "})
    return [{"role": "user", "content": shown},
            {"role": "assistant", "content": [{"type": "text", "text": "An answer. " * (1 + i % 3)}]}]


def make_video(file, width, height, frames, rate, seed):
    """Coarse noise that moves, as H.264 in MP4."""
    coarse = numpy.random.default_rng(seed).integers(0, 256, (height // 8 + 2, width // 8 + 2, 3), dtype=numpy.uint8)
    still = numpy.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))
    with av.open(str(file), "w") as out:
        stream = out.add_stream("libx264", rate=rate, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for i in range(frames):
            out.mux(stream.encode(av.VideoFrame.from_ndarray(numpy.roll(still, (i, 3 * i), (0, 1)), format="rgb24")))
        out.mux(stream.encode())


def write_shard(file, samples=SAMPLES, folder=VIDEOS):
    with tarfile.open(file, "w") as out:
        for i, media in enumerate(samples):
            members = {"json": json.dumps({"messages": conversation(i, media)}).encode()}
            for k, medium in enumerate(media):
                if isinstance(medium, str):
                    members[f"{k}.{medium.split('.')[1]}"] = (folder / medium).read_bytes()
                else:
                    members[f"{k}.png"] = encoded(picture(*medium, k), "png")
            for name, data in members.items():
                entry = tarfile.TarInfo(f"s{i:02}.{name}")
                entry.size = len(data)
                out.addfile(entry, io.BytesIO(data))


class Oracle:
    """The directory's own processor and model, with two frames a second or, of families of single frames, eight.

    samples, folder: the media of each sample, and the folder of their videos.
    """

    def __init__(self, directory, family, samples=SAMPLES, folder=VIDEOS):
        self.family, self.samples, self.folder = family, samples, folder
        self.model = transformers.AutoModelForImageTextToText.from_pretrained(directory, dtype=torch.float32).eval()
        self.processor = transformers.AutoProcessor.from_pretrained(directory)
        self.template = (directory / "chat_template.jinja").read_text()
        self.kinds = {"image": self.model.config.image_token_id,
                      "video": getattr(self.model.config, "video_token_id", None)}

    def sample(self, i):
        media = self.samples[i]
        text = self.processor.tokenizer.apply_chat_template(conversation(i, media), tokenize=False,
                                                            chat_template=self.template)
        videos = [decoded(self.folder / medium) for medium in media if isinstance(medium, str)]
        images = [picture(*medium, k) for k, medium in enumerate(media) if not isinstance(medium, str)]
        if self.family in TIMED_FAMILIES:
            # Since 5.22 the processor leaves the marks around the video's place, and writes others within.
            text = text.replace("<|vision_start|><|video_pad|><|vision_end|>", "<|video_pad|>")
        made = {}
        if videos:
            sampled = {"internvl": {"num_frames": 8}, "llava_onevision": {"num_frames": 8},
                       **dict.fromkeys(TIMED_FAMILIES, {})}.get(self.family, {"fps": 2})
            made = {"videos": [frames for frames, _rate in videos], "do_sample_frames": True, **sampled,
                    "video_metadata": [VideoMetadata(total_num_frames=len(frames), fps=rate)
                                       for frames, rate in videos]}
        inputs = self.processor(text=[text], images=images or None, return_tensors="pt", **made)
        inputs = {name: value for name, value in inputs.items() if name != "attention_mask"}
        if self.family == "llava_onevision" and images:
            inputs["pixel_values"] = inputs["pixel_values"].flatten(0, 1)  # at most one image each
        return inputs

    def too_short(self, i):
        """Videos that the processor fails on: of one frame, or of fewer than eight."""
        least = 2 if self.family in ROPE_FAMILIES else 8
        return any(len(decoded(self.folder / medium)[0]) < least for medium in self.samples[i]
                   if isinstance(medium, str))

    def positions(self, inputs):
        """Returns the positions of M-RoPE, [3, tokens], where tokens after a medium follow the largest of its
        positions: what transformers 4 computes, and the papers describe."""
        model, ids = self.model.model, inputs["input_ids"][0]
        if IS_OLD:
            given = {name: inputs.get(name) for name in ("image_grid_thw", "video_grid_thw")}
            return model.get_rope_index(inputs["input_ids"], **given)[0][:, 0]
        images = iter(inputs.get("image_grid_thw", []))
        videos = inputs.get("video_grid_thw", torch.empty((0, 3), dtype=torch.int64))
        seconds = iter(inputs.get("second_per_grid_ts", []))
        if self.family in TIMED_FAMILIES:
            videos = videos.repeat_interleave(videos[:, 0], 0)
            videos[:, 0] = 1
        videos = iter(videos)
        rows, at = [], 0
        for token, group in itertools.groupby(ids.tolist()):
            count = len(list(group))
            if token in self.kinds.values():
                is_video = token == self.kinds["video"]
                more = {}
                if is_video and self.family == "qwen2_5_vl":
                    more["time_interval"] = self.model.config.vision_config.tokens_per_second * next(seconds)
                grid = next(videos if is_video else images)
                rows.append(model.get_vision_position_ids(at, grid, 1, 2, **more))
                assert rows[-1].shape[1] == count
            else:
                rows.append(at + torch.arange(count).expand(3, -1))
            at = int(rows[-1].max()) + 1
        return torch.cat(rows, 1)


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class ModelVideo(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-model-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.shards = self.directory / "shards"
        self.shards.mkdir()
        write_shard(self.shards / "0.tar")

    def made(self, family):
        return model_directories.make(self.directory / family, family, model=True)

    @whatever_the_loss
    def microbatches(self, model, node=None):
        """One sample each, in order."""
        loader = isocost.DataLoader(self.shards, model=model, node=node or IN_ORDER, shuffle=False,
                                    global_batch_size=1, microbatches=1)
        self.addCleanup(loader.close)
        return list(loader)

    def test_every_sample_is_what_transformers_makes_of_it(self):
        for family in FAMILIES:
            model = self.made(family)
            oracle = Oracle(model, family)
            microbatches = self.microbatches(model)
            self.assertEqual([microbatch.sample_keys for microbatch in microbatches],
                             [[f"0.tar/s{i:02}"] for i in range(len(SAMPLES))])
            for i, microbatch in enumerate(microbatches):
                if oracle.too_short(i):
                    continue
                with self.subTest(family=family, media=SAMPLES[i]):
                    self.compare(microbatch.tensors, oracle.sample(i), oracle)

    def compare(self, given, wanted, oracle):
        self.assertEqual(given["input_ids"].tolist(), wanted["input_ids"].tolist())
        for name in ("image_grid_thw", "video_grid_thw", "image_sizes", "batch_num_images"):
            self.assertEqual(name in given, name in wanted)
            if name in wanted:
                self.assertEqual(given[name].tolist(), wanted[name].tolist())
        positions = given["position_ids"].reshape(-1, given["input_ids"].shape[1])
        if oracle.family not in LINEAR_ATTENTION:
            self.assertEqual(positions[0].tolist(), list(range(positions.shape[1])))
            positions = positions[1:]
        if oracle.family in ROPE_FAMILIES and not (IS_OLD and oracle.family == "qwen2_5_vl"):  # It rounds seconds.
            self.assertEqual(positions.tolist(), oracle.positions(wanted).tolist())
        for name in ("pixel_values", "pixel_values_videos"):
            self.assertEqual(name in given, name in wanted)
            if name not in wanted:
                continue
            self.assertEqual(given[name].shape, wanted[name].shape)
            # torchvision resizes, and differs from Pillow by a step if it rounds otherwise.
            steps = (given[name] - wanted[name]).abs() * 255 * max(oracle.processor.video_processor.image_std)
            self.assertLess(steps.max(), 2.4)
            self.assertLess((steps > 1.2).float().mean(), 1e-4)
            self.assertLess((steps > 0.5).float().mean(), 0.02)

    def test_videos_of_extreme_shapes(self):
        source = random.Random(11)
        sizes = [EXTREME[i % len(EXTREME)] if i % 3 == 0 else (2 * source.randint(8, 200), 2 * source.randint(8, 200))
                 for i in range(VIDEO_SWEEP)]
        samples = [[f"v{i:02}.mp4"] for i in range(VIDEO_SWEEP)]
        for i, (size, (name,)) in enumerate(zip(sizes, samples)):
            make_video(self.directory / name, *size, source.choice((2, 3, 5, source.randint(6, 90))),
                       source.choice(RATES), i)
        (self.shards / "0.tar").unlink()
        write_shard(self.shards / "0.tar", samples, self.directory)
        for family in TIMED_FAMILIES:
            model = self.made(family)
            oracle = Oracle(model, family, samples, self.directory)
            microbatches = self.microbatches(model)
            self.assertEqual(len(microbatches), VIDEO_SWEEP)
            for i, microbatch in enumerate(microbatches):
                if IS_OLD and min(sizes[i]) < 32:  # which its processor refuses
                    continue
                with self.subTest(family=family, size=sizes[i]):
                    self.compare(microbatch.tensors, oracle.sample(i), oracle)

    def test_frames_are_resized_as_torchvision_does_whatever_pillow_does(self):
        model = self.made("llava_onevision")
        orders = [dataclasses.replace(IN_ORDER, resize_order=order) for order in ("width-first", "pillow-13")]
        for one, other in zip(*(self.microbatches(model, order) for order in orders)):
            if "pixel_values_videos" in one.tensors:
                self.assertTrue(torch.equal(one["pixel_values_videos"], other["pixel_values_videos"]))

    def test_videos_that_are_too_short_give_what_they_have(self):
        for family in FAMILIES:
            one = self.microbatches(self.made(family))[1]
            if family == "internvl":
                self.assertEqual(len(one["pixel_values"]), 1)
            elif family == "llava_onevision":  # as many as the other videos of the microbatch
                frames = one["pixel_values_videos"]
                self.assertEqual(frames.shape[:2], (1, 8))
                self.assertTrue((frames == frames[:, :1]).all())
            else:
                self.assertEqual(one["video_grid_thw"][0, 0], 1)
                rows = one["pixel_values_videos"].view(len(one["pixel_values_videos"]), 3, 2, -1)
                self.assertTrue(torch.equal(rows[:, :, 0], rows[:, :, 1]))

    def test_the_loss_of_packed_samples_is_that_of_each(self):
        for family in filter(model_directories.has_own_loss, FAMILIES):
            model = self.made(family)
            oracle = Oracle(model, family)
            alone = self.microbatches(model)
            with torch.no_grad():
                wanted = [self.own_loss(oracle, microbatch) for microbatch in alone]
                ways = ("padded",) if family in LINEAR_ATTENTION else ("packed", "padded")
                losses = {batching: self.loss_of_a_step(oracle, model, batching) for batching in ways}
            counts = [microbatch.label_tokens for microbatch in alone]
            expected = sum(loss * count for loss, count in zip(wanted, counts)) / sum(counts)
            for batching, loss in losses.items():
                self.assertAlmostEqual(loss / expected, 1, delta=1e-5, msg=f"{family}, {batching}")

    def loss_of_a_step(self, oracle, model, batching):
        """Returns the loss of all samples in two microbatches, computed by the model itself."""
        loader = isocost.DataLoader(self.shards, model=model, node=IN_ORDER, global_batch_size=len(SAMPLES),
                                    microbatches=2, batching=batching)
        self.addCleanup(loader.close)
        return sum(oracle.model(**microbatch).loss.item() for microbatch in loader)

    @staticmethod
    def own_loss(oracle, microbatch):
        """The mean of a sample's labels, as the model itself computes it of what the loader gives."""
        given = {name: value for name, value in microbatch.tensors.items()
                 if name in ("input_ids", "labels", "pixel_values", "pixel_values_videos", "image_grid_thw",
                             "video_grid_thw", "image_sizes", "batch_num_images")}
        if oracle.family in ROPE_FAMILIES:
            given["position_ids"] = microbatch["position_ids"][-3:]
        return oracle.model(**given, use_cache=False).loss.item()

    def test_other_settings_are_other_tokens(self):
        model = self.made("qwen3_vl")
        before = [microbatch["input_ids"].shape[1] for microbatch in self.microbatches(model)]
        file = model / "video_preprocessor_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "fps": 4}))
        after = [microbatch["input_ids"].shape[1] for microbatch in self.microbatches(model)]
        self.assertGreater(after[4], before[4])
        self.assertEqual(after[5], before[5])


if __name__ == "__main__":
    main()
