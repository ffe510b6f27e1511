#!/usr/bin/env python3
"""Prints the cases of qwen_video_test.cc with what transformers' video processors make of them.

    pip install numpy pillow torch torchvision transformers
    PYTHONPATH=.. python3 make_qwen_video_goldens.py > qwen_video_goldens.txt

Lines:

    frames HOW FRAMES RATE fps num_frames min_frames max_frames: number of sampled frames, FNV-1a hash of their numbers
        as 32 bits each; HOW is the processor (pairs: Qwen2-VL's, last: Qwen3-VL's, slices: InternVL's, steps:
        LLaVA-OneVision's of transformers 5), RATE is two numbers, a fraction. A last number beyond the video, which
        torch.arange may add by rounding, is left out.
    grid GENERATION frames width height least most cap max_video_tokens: rows and columns of patches
    times FRAMES RATE sampled tokens_per_second: FNV-1a hash of the times of M-RoPE of the pairs, as 32 bits each
"""

import random
from fractions import Fraction

import numpy
import torch
from test_pattern import fnv1a
from transformers.models.internvl.video_processing_internvl import InternVLVideoProcessor
from transformers.models.llava_onevision.video_processing_llava_onevision import LlavaOnevisionVideoProcessor
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor
from transformers.video_utils import VideoMetadata

RATES = [(30, 1), (25, 1), (24, 1), (30000, 1001), (24000, 1001), (60000, 1001), (15, 1), (10, 1), (1, 1), (1, 2),
         (50, 1), (60, 1), (120, 1), (2997, 100), (90000, 3003), (359, 12), (13978, 583), (7, 3)]
HOW = {"pairs": Qwen2VLVideoProcessor(), "last": Qwen3VLVideoProcessor(), "slices": InternVLVideoProcessor()}
STEPS = LlavaOnevisionVideoProcessor()


def hashed(numbers):
    return f"{fnv1a(numpy.asarray(numbers, dtype='<i4').tobytes()):016x}"


def metadata(frames, rate, indices=None):
    return VideoMetadata(total_num_frames=frames, fps=float(Fraction(*rate)), frames_indices=indices)


def show_frames(how, frames, rate, fps, num_frames, least, most):
    processor = HOW.get(how, STEPS)
    processor.min_frames, processor.max_frames, processor.fps = least, most, None
    try:
        indices = processor.sample_frames(metadata(frames, rate), fps=fps or None, num_frames=num_frames or None)
    except (ValueError, ZeroDivisionError):
        return  # Too short a video.
    numbers = [int(i) for i in indices if int(i) < frames]
    print("frames", how, frames, *rate, fps, num_frames, least, most, len(numbers), hashed(numbers))


def show_grid(generation, frames, width, height, least, most, cap, tokens):
    kind, patch = (Qwen2VLVideoProcessor, 14) if generation == 2 else (Qwen3VLVideoProcessor, 16)
    processor = kind(max_video_tokens=tokens)
    video = torch.empty((1, 1, 1, 1, 1), dtype=torch.uint8).expand(1, frames, 3, height, width)
    asked = []
    kind.__mro__[1].resize = lambda self, image, size, resample: asked.append(size)
    try:
        processor.resize(video, _Size(least, most), None, factor=2 * patch, temporal_factor=2, cap_pixels_per_frame=cap)
    except ValueError:
        return
    print("grid", generation, frames, width, height, least, most, int(cap), tokens, asked[0].height // patch,
          asked[0].width // patch)


class _Size:
    def __init__(self, least, most):
        self.shortest_edge, self.longest_edge = least, most


def show_times(frames, rate, sampled, tokens_per_second):
    seconds = 2 / metadata(frames, rate, list(range(sampled))).sampled_fps
    interval = tokens_per_second * torch.tensor([seconds])[0]
    thw = torch.tensor([(sampled + 1) // 2, 2, 2])
    times = Qwen2_5_VLModel.get_vision_position_ids(None, 0, thw, 1, 2, interval)[0]
    print("times", frames, *rate, sampled, tokens_per_second, hashed(times.tolist()))


def main():
    draw = random.Random(5)
    for frames in [*range(1, 40), 47, 49, 61, 98, 103, 107]:
        for rate in RATES[:12]:
            show_frames("pairs", frames, rate, 2.0, 0, 4, 768)
            show_frames("last", frames, rate, 2.0, 0, 4, 768)
    for _ in range(700):
        frames = draw.randint(1, draw.choice([50, 300, 3000, 40000, 1000000]))
        rate = draw.choice(RATES)
        fps = draw.choice([0.5, 1.0, 2.0, 2.0, 2.5, 4.0, 24.0])
        least, most = draw.choice([(4, 768), (1, 768), (8, 32), (4, 2048), (5, 101)])
        for how in ("pairs", "last"):
            show_frames(how, frames, rate, fps, 0, least, most)
        for how in HOW:
            show_frames(how, frames, rate, 0, draw.choice([2, 3, 5, 8, 9, 16, 32, 100, 768]), least, most)
        show_times(frames, rate, draw.randint(1, min(frames, 768)), draw.choice([1, 2, 4, 25]))
    for _ in range(500):
        side = draw.choice([40, 500, 4000])
        width, height = draw.randint(1, side), draw.randint(1, side)
        frames = draw.choice([2, 3, 4, 5, 6, 7, 9, 10, 32, 100, 333, 768])
        bounds = draw.choice([(128 * 28 * 28, 768 * 28 * 28), (3136, 12845056), (784, 1003520)])
        show_grid(2, frames + frames % 2, width, height, *bounds, draw.random() < 0.5,
                  draw.choice([128000, 24576, 500]))
        bounds = draw.choice([(128 * 32 * 32, 768 * 32 * 32), (4096, 25165824), (65536, 16777216)])
        show_grid(3, frames, width, height, *bounds, draw.random() < 0.5, draw.choice([768, 128]))
    for frames in [*range(1, 70), *(draw.randint(70, draw.choice([300, 40000, 1000000])) for _ in range(150))]:
        for number in (1, 8, 32, draw.randint(1, frames)):
            show_frames("steps", frames, draw.choice(RATES), 0, number, 0, 0)


if __name__ == "__main__":
    main()
