#!/usr/bin/env python3
"""Makes small videos in golden_videos, and prints what PyAV makes of them, which transformers' processors read videos
with.

    pip install av numpy
    python3 make_video_goldens.py > video_goldens.txt

A line: file, frames, mean frames a second as two numbers, width and height as displayed, FNV-1a hash of the RGB of all
frames in the order in which they are shown, as displayed. For a file whose frames name their colours the hash is 0, as
PyAV does not look at them.
"""

import fractions
import pathlib

import av
import numpy
from test_pattern import fnv1a

FOLDER = pathlib.Path(__file__).parent / "golden_videos"

# name: codec, frames a second, frames, what else
VIDEOS = {
    "cfr24.mp4": ("libx264", 24, 40, {"b": 0}),
    "cfr30_b.mp4": ("libx264", 30, 50, {"b": 3}),
    "ntsc.mp4": ("libx264", fractions.Fraction(30000, 1001), 31, {"b": 2}),
    "slow.mp4": ("libx264", 1, 7, {}),
    "fast.mp4": ("libx264", 60, 61, {"gop": 20}),
    "nine.mp4": ("libx264", 10, 9, {}),
    "one.mp4": ("libx264", 25, 1, {}),
    "two.mp4": ("libx264", 25, 2, {}),
    "variable.mp4": ("libx264", 30, 40, {"b": 2, "variable": True}),
    "variable.mkv": ("libx264", 30, 33, {"b": 2, "variable": True}),
    "turned90.mp4": ("libx264", 12, 13, {"turned": 90}),
    "turned180.mp4": ("libx264", 12, 13, {"turned": 180}),
    "turned270.mp4": ("libx264", 12, 13, {"turned": 270, "variable": True}),
    "odd.mp4": ("libx264", 15, 12, {"size": (70, 54)}),
    "large.mp4": ("libx264", 15, 6, {"size": (210, 130)}),
    "late.mp4": ("libx264", 20, 22, {"b": 2, "start": 17}),
    "hevc.mp4": ("libx265", 20, 22, {}),
    "vp8.mkv": ("libvpx", 25, 44, {"size": (64, 48), "options": {"auto-alt-ref": "1", "lag-in-frames": "16"}}),
    "vp9.webm": ("libvpx-vp9", 25, 30, {"options": {"lag-in-frames": "16"}}),
    "mpeg4.avi": ("mpeg4", 25, 30, {}),
    "mpeg4_b.mp4": ("mpeg4", 25, 30, {"b": 2}),
    "bt709.mp4": ("libx264", 25, 5, {"colours": True}),
}


def pictures(width, height, count):
    """Frames that differ: a gradient that moves, and a patch of noise."""
    draw = numpy.random.default_rng(3)
    y, x = numpy.mgrid[:height, :width]
    for i in range(count):
        rgb = numpy.stack([3 * x + 5 * i, 2 * y + 7 * i, x + y + 11 * i], -1).astype(numpy.uint8)
        rgb[8:24, 8:40] = draw.integers(0, 256, (16, 32, 3), dtype=numpy.uint8)
        yield rgb


def make(file, codec, rate, count, how):
    width, height = how.get("size", (96, 64))
    with av.open(str(file), "w") as out:
        stream = out.add_stream(codec, rate=rate, options={"threads": "1", **how.get("options", {})})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.gop_size = how.get("gop", 12)
        stream.codec_context.max_b_frames = how.get("b", 0)
        stream.codec_context.bit_rate = 150_000
        if codec == "libx264":
            stream.options = {"threads": "1", "crf": "30", "bf": str(how.get("b", 0))}
        if how.get("colours"):
            stream.codec_context.colorspace = 1
        draw = numpy.random.default_rng(5)
        time = how.get("start", 0)
        ticks = 10 if how.get("variable") else 1
        stream.codec_context.time_base = 1 / (fractions.Fraction(rate) * ticks)
        for rgb in pictures(width, height, count):
            frame = av.VideoFrame.from_ndarray(rgb, format="rgb24").reformat(format="yuv420p")
            if how.get("colours"):
                frame.colorspace = 1
            frame.pts = time
            frame.time_base = stream.codec_context.time_base
            time += int(draw.integers(4, 30)) if how.get("variable") else 1
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    if "turned" in how:
        turn(file, how["turned"])


def turn(file, degrees):
    """Writes the display matrix of a video that a player turns clockwise."""
    one = 1 << 16
    matrix = {90: (0, one, -one, 0), 180: (-one, 0, 0, -one), 270: (0, -one, one, 0)}[degrees]
    identity = numpy.array([one, 0, 0, 0, one, 0, 0, 0, 1 << 30], dtype=">i4").tobytes()
    turned = numpy.array([matrix[0], matrix[1], 0, matrix[2], matrix[3], 0, 0, 0, 1 << 30], dtype=">i4").tobytes()
    content = file.read_bytes()
    at = content.index(identity, content.index(b"tkhd"))
    file.write_bytes(content[:at] + turned + content[at + len(turned):])


def show(name, how):
    with av.open(str(FOLDER / name)) as given:
        rate = given.streams.video[0].average_rate
        frames = [frame.to_ndarray(format="rgb24") for frame in given.decode(video=0)]
    shown = numpy.ascontiguousarray([numpy.rot90(frame, -how.get("turned", 0) // 90) for frame in frames])
    value = 0 if how.get("colours") else fnv1a(shown.tobytes())
    print(name, len(frames), rate.numerator, rate.denominator, shown.shape[2], shown.shape[1], f"{value:016x}")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for video, (encoder, per_second, length, more) in VIDEOS.items():
        make(FOLDER / video, encoder, per_second, length, more)
        show(video, more)
