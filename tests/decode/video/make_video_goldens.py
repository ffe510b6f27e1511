#!/usr/bin/env python3
"""Makes small videos in golden_videos, and prints what PyAV makes of them, which transformers' processors read videos
with.

    pip install av==16.1.0 numpy
    PYTHONPATH=.. python3 make_video_goldens.py
    pip install av==14.0.1
    PYTHONPATH=.. python3 make_video_goldens.py none > video_goldens.txt

The second version cannot make all of them. From FFmpeg 8 on, which the first has, 10 bits a value and odd widths have
other colours, and from PyAV 17 on interlaced pictures. The line of late_key_hevc.mp4 is the first version's: before
FFmpeg 8, HEVC's frames before the first key frame are shown, too.

With names of videos it makes only these, with `none` none; it prints the lines of all. `encrypted` and `larger` make
those of refused_videos, `not_whole` those of not_whole.

A line has the file, frames, mean frames a second as two numbers (the encoder's where PyAV knows none), width and height
as displayed, and the FNV-1a hash of the RGB of all frames in the order in which they are shown, as displayed. For a
file whose frames name their colours the hash is 0, as PyAV does not look at them.
"""

import argparse
import fractions
import io
import pathlib
import re
import struct
import subprocess
import tempfile

import av
import numpy
from test_pattern import fnv1a

FOLDER = pathlib.Path(__file__).parent / "golden_videos"
NTSC = fractions.Fraction(30000, 1001)
FILM = fractions.Fraction(24000, 1001)
SMALL = {"size": (48, 32)}
REFRESH = {"x264-params": "intra-refresh=1:keyint=10:scenecut=0"}
OPEN = {"x264-params": "open-gop=1:b-adapt=0:scenecut=0:min-keyint=10"}

# name: codec, frames a second, frames, what else:
#   b, gop, size, pixels: of the encoder, and its other options
#   muxer: options of the container
#   variable: times at random; start: the first of them; turned: as a player turns or mirrors it
#   cut: the key frame from which packets are copied; skip: packets that are left out at the start
#   program: encoded by the ffmpeg program, as PyAV lacks the encoder
#   seconds: where the ffmpeg program cuts it out with `-c copy`, start and length; pictures before the first wanted one
#     get times before 0, which containers write in different ways
#   end: a last packet that holds no picture
#   unmarked: key frames behind the first are not marked in the blocks of Matroska, though in its index
#   twins: frames that get the time of the one before
#   edits: MP4's edit list, pairs of a first frame (None: nothing is shown) and a number of frames
#   sound: a track of silence beside it, first in the file
VIDEOS = {
    "cfr24.mp4": ("libx264", 24, 40, {"b": 0}),
    "cfr30_b.mp4": ("libx264", 30, 50, {"b": 3}),
    "ntsc.mp4": ("libx264", NTSC, 31, {"b": 2}),
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
    # Rates.
    "half.mp4": ("libx264", fractions.Fraction(1, 2), 5, SMALL),
    "film.mp4": ("libx264", FILM, 25, {**SMALL, "b": 1}),
    "film.mkv": ("libx264", FILM, 25, {**SMALL, "b": 2}),
    "pal50.mp4": ("libx264", 50, 21, {**SMALL, "b": 3}),
    "ntsc60.mp4": ("libx264", 2 * NTSC, 27, {**SMALL, "gop": 9}),
    "fast120.mp4": ("libx264", 120, 33, {**SMALL, "b": 2}),
    "fast144.webm": ("libvpx-vp9", 144, 20, SMALL),
    "seventh.mkv": ("libx264", fractions.Fraction(22, 7), 11, SMALL),
    "fifteen.avi": ("mpeg4", 15, 14, SMALL),
    "film.avi": ("libx264", FILM, 14, SMALL),
    # Variable times.
    "variable_b3.mp4": ("libx264", 24, 30, {**SMALL, "b": 3, "variable": True, "gop": 7}),
    "variable_hevc.mkv": ("libx265", 25, 20, {"variable": True}),
    "variable_vp8.webm": ("libvpx", 25, 20, {**SMALL, "variable": True}),
    "variable_vp9.webm": ("libvpx-vp9", 25, 20, {**SMALL, "variable": True}),
    "variable_av1.mp4": ("libsvtav1", 25, 20, {"size": (64, 64), "variable": True}),
    "variable_mpeg4.mp4": ("mpeg4", 25, 16, {**SMALL, "b": 1, "variable": True}),
    # Few frames.
    "one.mkv": ("libx264", 25, 1, SMALL),
    "one.avi": ("mpeg4", 25, 1, SMALL),
    "one_hevc.mp4": ("libx265", 25, 1, {}),
    "one_vp9.webm": ("libvpx-vp9", 25, 1, SMALL),
    "one_late.mp4": ("libx264", 25, 1, {**SMALL, "start": 30}),
    "two_b.mkv": ("libx264", 5, 2, {**SMALL, "b": 2}),
    # Codecs, containers and formats of pixels.
    "av1.mp4": ("libsvtav1", 25, 20, {"size": (64, 64)}),
    "av1.webm": ("libsvtav1", NTSC, 12, {"size": (80, 66)}),
    "hevc_b.mkv": ("libx265", 25, 26, {"b": 4}),
    "hevc_10bit.mp4": ("libx265", 25, 9, {"pixels": "yuv420p10le"}),
    "vp9_444.webm": ("libvpx-vp9", 25, 6, {**SMALL, "pixels": "yuv444p"}),
    "h264_422.mkv": ("libx264", 25, 6, {**SMALL, "pixels": "yuv422p"}),
    "h264_444.mp4": ("libx264", 25, 6, {"size": (49, 35), "pixels": "yuv444p"}),
    "h264_10bit.mp4": ("libx264", 25, 6, {**SMALL, "pixels": "yuv420p10le"}),
    "grey.mp4": ("libx264", 25, 6, {**SMALL, "pixels": "gray"}),
    "h264_b.avi": ("libx264", 25, 20, {**SMALL, "b": 2}),
    "mpeg4_b.avi": ("mpeg4", 25, 14, {**SMALL, "b": 2}),
    "h264.mov": ("libx264", 25, 14, {**SMALL, "b": 2}),
    "vp9.mp4": ("libvpx-vp9", 25, 20, {**SMALL, "options": {"lag-in-frames": "16"}}),
    "fragmented.mp4": ("libx264", 25, 30, {**SMALL, "b": 2, "muxer": {"movflags": "frag_keyframe+empty_moov"}}),
    "live.mkv": ("libx264", 25, 30, {**SMALL, "b": 2, "muxer": {"live": "1"}}),
    "sound.mp4": ("libx264", 25, 30, {**SMALL, "b": 2, "sound": True}),
    "sound.mkv": ("libx264", 25, 30, {**SMALL, "b": 2, "sound": True}),
    # Sizes.
    "odd.webm": ("libvpx-vp9", 25, 6, {"size": (51, 33)}),
    "odd.mkv": ("libvpx", 25, 6, {"size": (33, 51)}),
    "tiny.mp4": ("libx264", 25, 9, {"size": (16, 16), "b": 1}),
    "tiny.webm": ("libvpx-vp9", 25, 4, {"size": (1, 1)}),
    "wide.mp4": ("libx264", 25, 5, {"size": (640, 16)}),
    "tall.mp4": ("libx264", 25, 5, {"size": (18, 480)}),
    # Turned and mirrored.
    "mirrored.mp4": ("libx264", 25, 5, {**SMALL, "turned": "mirrored"}),
    "flipped.mp4": ("libx264", 25, 5, {**SMALL, "turned": "flipped"}),
    "transposed.mp4": ("libx264", 25, 5, {**SMALL, "turned": "transposed"}),
    "transverse.mp4": ("libx264", 25, 5, {**SMALL, "turned": "transverse"}),
    "hevc_turned.mp4": ("libx265", 25, 7, {"turned": 90}),
    # Groups of pictures.
    "refresh.mp4": ("libx264", 25, 40, {**SMALL, "options": {"x264-params": "intra-refresh=1:keyint=10:scenecut=0"}}),
    "late.mkv": ("libx264", 25, 30, {**SMALL, "b": 2, "start": 125}),
    "intra.mp4": ("libx264", 25, 12, {**SMALL, "gop": 1}),
    "endless.mp4": ("libx264", 25, 60, {**SMALL, "gop": 250, "b": 3}),
    "pyramid.mp4": ("libx264", 25, 40, {**SMALL, "b": 8, "gop": 30, "options": {"x264-params": "b-pyramid=normal"}}),
    "open.mp4": ("libx264", 25, 40, {**SMALL, "b": 3, "gop": 10, "options": {"x264-params": "open-gop=1"}}),
    "open_b.mp4": ("libx264", 25, 40, {**SMALL, "b": 3, "gop": 10, "options": OPEN}),
    "open_hevc.mp4": ("libx265", 25, 28, {"open": True}),
    "interlaced.mp4": ("libx264", 25, 20, {"size": (48, 64), "b": 2, "options": {"x264-params": "tff=1"}}),
    # Edit lists and early times.
    "edit_start.mp4": ("libx264", 25, 30, {**SMALL, "b": 2, "edits": [(4, 26)]}),
    "edit_key.mp4": ("libx264", 25, 30, {**SMALL, "edits": [(12, 18)]}),
    "edit_end.mp4": ("libx264", 25, 30, {**SMALL, "b": 2, "edits": [(0, 17)]}),
    "edit_middle.mp4": ("libx264", 25, 30, {**SMALL, "edits": [(5, 15)]}),
    "edit_delay.mp4": ("libx264", 25, 20, {**SMALL, "edits": [(None, 10), (0, 20)]}),
    "edit_two.mp4": ("libx264", 25, 30, {**SMALL, "edits": [(0, 10), (18, 12)]}),
    "early.mp4": ("libx264", 25, 20, {**SMALL, "b": 2, "muxer": {"movflags": "negative_cts_offsets"}}),
    "no_edits.mp4": ("libx264", 25, 20, {**SMALL, "b": 2, "muxer": {"use_editlist": "0"}}),
    # Frames of one time.
    "twins.mp4": ("libx264", 25, 30, {**SMALL, "twins": [3, 4, 12, 13, 20, 29]}),
    "twins.mkv": ("libx264", 25, 30, {**SMALL, "twins": [1, 12, 25]}),
    "twins_vp9.webm": ("libvpx-vp9", 25, 20, {**SMALL, "twins": [7, 8, 9, 12]}),
    "fast1500.mkv": ("libx264", 1500, 30, SMALL),
    # Cut where pictures refer to what came before.
    "cut.mkv": ("libx264", 25, 40, {**SMALL, "b": 2, "cut": 1}),
    "cut_open.mkv": ("libx264", 25, 40, {**SMALL, "b": 3, "cut": 1, "gop": 10, "options": OPEN}),
    "cut_open.mp4": ("libx264", 25, 40, {**SMALL, "b": 3, "cut": 2, "gop": 10, "options": OPEN}),
    "cut_whole.mp4": ("libx264", 25, 40, {**SMALL, "b": 3, "cut": 2, "gop": 10, "options": OPEN,
                                          "muxer": {"use_editlist": "0"}}),
    "cut_open_hevc.mkv": ("libx265", 25, 28, {"open": True, "cut": 1}),
    "cut_open_hevc.mp4": ("libx265", 25, 28, {"open": True, "cut": 2}),
    "cut_hevc_whole.mp4": ("libx265", 25, 28, {"open": True, "cut": 1, "muxer": {"use_editlist": "0"}}),
    "cut_hevc_frames.mp4": ("libx265", 25, 28, {"open": True, "cut": 1,
                                                "muxer": {"movflags": "frag_keyframe+empty_moov"}}),
    "shifted_h264.mkv": ("libx264", 25, 40, {**SMALL, "b": 3, "gop": 10, "options": OPEN, "seconds": (0.5, 1)}),
    "shifted_h264.mov": ("libx264", 25, 40, {**SMALL, "b": 3, "gop": 10, "options": OPEN, "seconds": (0.5, 1)}),
    "shifted_refresh.mp4": ("libx264", 25, 50, {**SMALL, "b": 2, "options": REFRESH, "seconds": (0.6, 1.2)}),
    "shifted_refresh.mkv": ("libx264", 25, 50, {**SMALL, "b": 2, "options": REFRESH, "seconds": (0.6, 1.2)}),
    "shifted_mpeg4.mkv": ("mpeg4", 25, 40, {**SMALL, "b": 2, "seconds": (0.6, 0.8)}),
    "shifted_mpeg2.mkv": ("mpeg2video", 25, 40, {**SMALL, "b": 2, "seconds": (0.6, 0.8)}),
    "shifted_mpeg2.ts": ("mpeg2video", 25, 40, {**SMALL, "b": 2, "seconds": (0.6, 0.8)}),
    "shifted_mpeg1.mp4": ("mpeg1video", 25, 40, {**SMALL, "b": 2, "seconds": (0.6, 0.8)}),
    "shifted_av1.mp4": ("libsvtav1", 25, 40, {"size": (64, 64), "program": True, "seconds": (0.7, 0.6)}),
    # The last packet holds no picture: the end of a sequence, a delimiter, nothing.
    "end_h264.mp4": ("libx264", 25, 12, {**SMALL, "b": 2, "end": b"\0\0\0\1\x0a"}),
    "end_h264.mkv": ("libx264", 25, 12, {**SMALL, "b": 2, "end": b"\0\0\0\1\x0a"}),
    "delimiter_h264.mp4": ("libx264", 25, 12, {**SMALL, "end": b"\0\0\0\2\x09\xf0"}),
    "end_hevc.mp4": ("libx265", 25, 12, {"b": 2, "end": b"\0\0\0\2\x48\x01"}),
    "end_hevc.mkv": ("libx265", 25, 12, {"b": 2, "end": b"\0\0\0\2\x48\x01"}),
    "end_mpeg2.mkv": ("mpeg2video", 25, 12, {**SMALL, "b": 1, "end": b"\0\0\1\xb7"}),
    "end_mpeg4.mp4": ("mpeg4", 25, 12, {**SMALL, "b": 1, "end": b"\0\0\1\xb1"}),
    # Seeking finds no key frame where the index says.
    "unmarked.mkv": ("libx264", 25, 60, {**SMALL, "b": 2, "gop": 12, "unmarked": True}),
    # Other containers and codecs.
    "mpeg2.mkv": ("mpeg2video", 25, 26, {**SMALL, "b": 2}),
    "mpeg2.ts": ("mpeg2video", 25, 26, {**SMALL, "b": 2}),
    "mpeg2.mpg": ("mpeg2video", 25, 26, {**SMALL, "b": 2}),
    "mpeg2_422.ts": ("mpeg2video", 25, 6, {**SMALL, "pixels": "yuv422p"}),
    "mpeg2_program.vob": ("mpeg2video", NTSC, 20, SMALL),
    "mpeg1.mpg": ("mpeg1video", 25, 26, {**SMALL, "b": 1}),
    "h264.ts": ("libx264", 25, 30, {**SMALL, "b": 3}),
    "h264_open.ts": ("libx264", 25, 40, {**SMALL, "b": 3, "gop": 10, "options": OPEN}),
    "h264.m2ts": ("libx264", 25, 20, {**SMALL, "b": 2}),
    "h264.mpg": ("libx264", 25, 20, {**SMALL, "b": 2}),
    "hevc.ts": ("libx265", 25, 20, {"b": 2}),
    "sound.ts": ("libx264", 25, 30, {**SMALL, "b": 2, "sound": True}),
    "late.ts": ("libx264", 25, 20, {**SMALL, "start": 500}),
    "h264.flv": ("libx264", 25, 30, {**SMALL, "b": 3}),
    "flv1.flv": ("flv", 25, 20, SMALL),
    "wmv1.asf": ("wmv1", 25, 20, SMALL),
    "wmv2.wmv": ("wmv2", 25, 20, SMALL),
    "h264.wmv": ("libx264", 25, 20, SMALL),
    "msmpeg4.avi": ("msmpeg4", 25, 20, SMALL),
    "msmpeg4v2.avi": ("msmpeg4v2", 25, 20, SMALL),
    "h264.3gp": ("libx264", 25, 20, {**SMALL, "b": 2}),
    "h263.3gp": ("h263", 15, 12, {"size": (128, 96)}),
    "mpeg4.3gp": ("mpeg4", 15, 12, SMALL),
    "mjpeg.avi": ("mjpeg", 25, 8, {**SMALL, "pixels": "yuvj420p"}),
    "mjpeg.mov": ("mjpeg", 25, 8, {**SMALL, "pixels": "yuvj422p"}),
    "prores.mov": ("prores_ks", 25, 4, {**SMALL, "pixels": "yuv422p10le"}),
    "prores_4444.mov": ("prores_ks", 25, 3, {**SMALL, "pixels": "yuv444p10le"}),
    "ffv1.mkv": ("ffv1", 25, 6, SMALL),
    "ffv1.avi": ("ffv1", 25, 4, {**SMALL, "pixels": "yuv422p10le"}),
    "theora.ogv": ("libtheora", 25, 26, {**SMALL, "program": True}),
    "sound.ogv": ("libtheora", 25, 26, {**SMALL, "program": True, "sound": True}),
    # The first key frame comes late.
    "late_key.mp4": ("libx264", 25, 30, {**SMALL, "b": 2, "skip": 5}),
    "late_key_sorted.mp4": ("libx264", 25, 30, {**SMALL, "skip": 3}),
    "late_key_frames.mp4": ("libx264", 25, 30, {**SMALL, "skip": 3, "muxer": {"movflags": "frag_keyframe+empty_moov"}}),
    "late_key_open.mp4": ("libx264", 25, 40, {**SMALL, "b": 3, "skip": 4, "gop": 10, "options": OPEN}),
    "late_key.mkv": ("libx264", 25, 30, {**SMALL, "b": 2, "skip": 5}),
    "late_key.ts": ("libx264", 25, 30, {**SMALL, "b": 2, "skip": 5}),
    "late_key.flv": ("libx264", 25, 30, {**SMALL, "skip": 5}),
    "late_key_hevc.mp4": ("libx265", 25, 30, {"b": 2, "skip": 3, "gop": 8}),
    "late_key_vp8.webm": ("libvpx", 25, 30, {**SMALL, "skip": 3}),
    "late_key_vp9.webm": ("libvpx-vp9", 25, 30, {**SMALL, "skip": 3}),
    "late_key_mpeg2.ts": ("mpeg2video", 25, 30, {**SMALL, "b": 2, "skip": 4}),
    "late_key_mpeg2.mkv": ("mpeg2video", 25, 30, {**SMALL, "b": 2, "skip": 4}),
    "late_key_mpeg2.mpg": ("mpeg2video", 25, 30, {**SMALL, "b": 2, "skip": 6, "gop": 10}),
    "late_key_mpeg4.mp4": ("mpeg4", 25, 30, {**SMALL, "skip": 4}),
}

# The matrix that MP4 writes for a video that is shown so, and the function that makes the shown frame.
ONE = 1 << 16
TURNS = {
    90: ((0, ONE, -ONE, 0), lambda frame: numpy.rot90(frame, -1)),
    180: ((-ONE, 0, 0, -ONE), lambda frame: numpy.rot90(frame, 2)),
    270: ((0, -ONE, ONE, 0), lambda frame: numpy.rot90(frame, 1)),
    "mirrored": ((-ONE, 0, 0, ONE), lambda frame: frame[:, ::-1]),
    "flipped": ((ONE, 0, 0, -ONE), lambda frame: frame[::-1]),
    "transposed": ((0, ONE, ONE, 0), lambda frame: frame.transpose(1, 0, 2)),
    "transverse": ((0, -ONE, -ONE, 0), lambda frame: frame[::-1, ::-1].transpose(1, 0, 2)),
}


def pictures(width, height, count):
    """Frames that differ: a gradient that moves, and a patch of noise."""
    draw = numpy.random.default_rng(3)
    y, x = numpy.mgrid[:height, :width]
    for i in range(count):
        rgb = numpy.stack([3 * x + 5 * i, 2 * y + 7 * i, x + y + 11 * i], -1).astype(numpy.uint8)
        patch = rgb[8:24, 8:40] if width > 50 else rgb[8:16, 8:16]
        patch[:] = draw.integers(0, 256, patch.shape, dtype=numpy.uint8)
        yield rgb


def encoder_options(codec, how):
    options = {"threads": "1"}
    if codec == "libx264":
        options.update(crf="30", bf=str(how.get("b", 0)))
    if codec == "libx265":
        params = "log-level=none:pools=none:frame-threads=1:info=0"
        if "b" in how:
            params += f":bframes={how['b']}"
        if how.get("open"):
            params += ":open-gop=1:keyint=8:min-keyint=8:bframes=3:b-adapt=0:scenecut=0"
        options["x265-params"] = params
        if "b" in how or how.get("open"):
            options["crf"] = "36"
    if codec == "libsvtav1":
        options.update(preset="8", crf="40")
    return {**options, **how.get("options", {})}


def make(file, codec, rate, count, how):
    if "seconds" in how:
        cut_by_program(file, codec, rate, count, how)
    elif "end" in how:
        whole = io.BytesIO()
        encode(whole, "mp4" if "hevc" in file.name or "264" in file.name else "matroska", codec, rate, count,
               {key: how[key] for key in how if key != "end"})
        copy_from_key(whole, file, how)
    elif "cut" in how or "skip" in how:
        whole = io.BytesIO()
        plain = {key: how[key] for key in how if key != "muxer"}
        encode(whole, "matroska" if codec == "libvpx" else "mp4", codec, rate, count, plain)
        copy_from_key(whole, file, how)
    elif "program" in how:
        encode_by_program(file, codec, rate, count, how)
    else:
        encode(str(file), None, codec, rate, count, how)
    if file.suffix == ".mp4" and "twins" in how:
        edit(file, b"stts", lambda content, box: of_equal_times(content, box, how["twins"]))
    if "unmarked" in how:
        unmark(file)
    if "edits" in how:
        edit(file, b"elst", lambda content, _box: edit_list(content, rate, how["edits"]))
    if "turned" in how:
        turn(file, TURNS[how["turned"]][0])


def encode(out, container, codec, rate, count, how):
    width, height = how.get("size", (96, 64))
    pixels = how.get("pixels", "yuv420p")
    with av.open(out, "w", format=container, options=how.get("muxer", {})) as out:
        sound = out.add_stream("aac" if "mp4" in out.format.name else "libopus", 48000) if how.get("sound") else None
        stream = out.add_stream(codec, rate=rate, options=encoder_options(codec, how))
        stream.width, stream.height, stream.pix_fmt = width, height, pixels
        stream.codec_context.gop_size = how.get("gop", 12)
        stream.codec_context.max_b_frames = how.get("b", 0)
        stream.codec_context.bit_rate = 0 if codec == "libsvtav1" else 150_000
        if how.get("colours"):
            stream.codec_context.colorspace = 1
        draw = numpy.random.default_rng(5)
        time = how.get("start", 0)
        ticks = 10 if how.get("variable") else 1
        stream.codec_context.time_base = 1 / (fractions.Fraction(rate) * ticks)
        if sound:
            write_silence(out, sound)
        packets = 0
        for rgb in [*pictures(width, height, count), None]:
            if rgb is None:
                made = stream.encode()
            else:
                frame = av.VideoFrame.from_ndarray(rgb, format="rgb24").reformat(format=pixels)
                if how.get("colours"):
                    frame.colorspace = 1
                frame.pts = time
                frame.time_base = stream.codec_context.time_base
                time += int(draw.integers(4, 30)) if how.get("variable") else 1
                made = stream.encode(frame)
            for packet in made:
                if packets in how.get("twins", []) and container is None and not out.name.endswith(".mp4"):
                    packet.pts -= int(1 / (rate * packet.time_base))
                    packet.dts = packet.pts
                packets += 1
                out.mux(packet)


def encode_by_program(file, codec, rate, count, how):
    width, height = how["size"]
    rgb = b"".join(picture.tobytes() for picture in pictures(width, height, count))
    sound = ["-f", "lavfi", "-i", "sine=d=1", "-map", "1", "-map", "0", "-c:a", "libvorbis"] if "sound" in how else []
    command = ["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r",
               str(rate), "-i", "-", *sound, "-c:v", codec, "-pix_fmt", "yuv420p", "-g", "12", "-q:v", "6", "-fflags",
               "+bitexact", str(file)]
    subprocess.run(command, input=rgb, check=True)


def write_silence(out, stream):
    stream.layout = "mono"
    frame = av.AudioFrame.from_ndarray(numpy.zeros((1, 24000), numpy.float32), format="flt", layout="mono")
    frame.sample_rate, frame.pts = 48000, 0
    out.mux(stream.encode(frame))
    out.mux(stream.encode())


def copy_from_key(whole, file, how):
    """Cuts without decoding: copies packets from a key frame on, with their times."""
    whole.seek(0)
    with av.open(whole) as given, av.open(str(file), "w", options=how.get("muxer", {})) as out:
        source = given.streams.video[0]
        stream = out.add_stream_from_template(source)
        keys = packets = 0
        for packet in given.demux(source):
            if packet.dts is None:
                continue
            keys += packet.is_keyframe
            packets += 1
            if keys > how.get("cut", -1) and packets > how.get("skip", 0):
                out.mux(copied(packet, bytes(packet), stream))
                last = packet
        if "end" in how:
            end = copied(last, how["end"], stream)
            end.dts, end.is_keyframe = last.dts + last.duration, False
            end.pts = end.dts + 10 * last.duration
            out.mux(end)


def copied(packet, content, stream):
    """A packet of another stream with the times of one."""
    copy = av.Packet(content)
    copy.pts, copy.dts, copy.time_base, copy.duration = packet.pts, packet.dts, packet.time_base, packet.duration
    copy.is_keyframe = packet.is_keyframe
    copy.stream = stream
    return copy


def cut_by_program(file, codec, rate, count, how):
    start, length = how["seconds"]
    with tempfile.TemporaryDirectory() as folder:
        whole = pathlib.Path(folder) / ("whole.mp4" if codec in ("libx264", "mpeg4") else "whole.mkv")
        if "program" in how:
            encode_by_program(whole, codec, rate, count, how)
        else:
            encode(str(whole), None, codec, rate, count, how)
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-ss", str(start), "-i", str(whole), "-t", str(length), "-c",
                        "copy", "-fflags", "+bitexact", str(file)], check=True)


def unmark(file):
    """Takes the mark of a key frame from the blocks of Matroska, but for the first one."""
    content = bytearray(file.read_bytes())
    marks = [at.end() - 1 for at in re.finditer(rb"\xa3(?:[\x80-\xff]|[\x40-\x7f].|[\x20-\x3f]..)\x81..\x80", content,
                                                re.DOTALL)]
    for mark in marks[1:]:
        content[mark] = 0
    file.write_bytes(content)


def boxes(content, begin, end):
    """Type, start and end of each box of an MP4."""
    while begin < end:
        size, kind = struct.unpack_from(">I4s", content, begin)
        yield kind, begin, begin + size
        begin += size


def way_to(content, kind, begin=0, end=None):
    """Starts of the boxes around the first of this type in a video's track, and its own."""
    for found, start, stop in boxes(content, begin, len(content) if end is None else end):
        if found == kind:
            return [start]
        if found in (b"moov", b"trak", b"edts", b"mdia", b"minf", b"stbl"):
            way = way_to(content, kind, start + 8, stop)
            if way:
                return [start, *way]
    return None


def edit(file, kind, payload):
    """Gives a box another payload. The index must come after the frames, whose places stay then."""
    content = bytearray(file.read_bytes())
    *around, start = way_to(content, kind)
    size = struct.unpack_from(">I", content, start)[0]
    made = payload(content, start)
    content[start:start + size] = struct.pack(">I4s", 8 + len(made), kind) + made
    for box in around:
        old = struct.unpack_from(">I", content, box)[0]
        struct.pack_into(">I", content, box, old + 8 + len(made) - size)
    file.write_bytes(content)


def of_equal_times(content, box, twins):
    (entries,) = struct.unpack_from(">I", content, box + 12)
    steps = []
    for i in range(entries):
        count, step = struct.unpack_from(">II", content, box + 16 + 8 * i)
        steps += [step] * count
    for i in twins:
        steps[i - 1] = 0
    return struct.pack(">II", 0, len(steps)) + b"".join(struct.pack(">II", 1, step) for step in steps)


def edit_list(content, rate, edits):
    """Times of the movie are in milliseconds, those of the frames in ticks."""
    header = way_to(content, b"mdhd")[-1]
    (scale,) = struct.unpack_from(">I", content, header + 20)
    # The muxer's own list begins at the first frame, which B-frames put off.
    (first,) = struct.unpack_from(">i", content, way_to(content, b"elst")[-1] + 20)
    made = struct.pack(">II", 0, len(edits))
    for start, count in edits:
        begin = -1 if start is None else first + round(start * scale / rate)
        made += struct.pack(">Iii", round(count * 1000 / rate), begin, ONE)
    return made


def turn(file, matrix):
    """Writes the display matrix of a video that a player turns or mirrors."""
    one = 1 << 16
    identity = numpy.array([one, 0, 0, 0, one, 0, 0, 0, 1 << 30], dtype=">i4").tobytes()
    turned = numpy.array([matrix[0], matrix[1], 0, matrix[2], matrix[3], 0, 0, 0, 1 << 30], dtype=">i4").tobytes()
    content = file.read_bytes()
    at = content.index(identity, content.index(b"tkhd"))
    file.write_bytes(content[:at] + turned + content[at + len(turned):])


def decoded(given):
    """The frames that players show: packets before the first key frame fail, or give none."""
    for packet in given.demux(video=0):
        try:
            yield from packet.decode()
        except (av.error.InvalidDataError, av.error.ValueError):
            pass


def show(name, how):
    with av.open(str(FOLDER / name)) as given:
        rate = given.streams.video[0].average_rate or fractions.Fraction(VIDEOS[name][1])
        frames = [frame.to_ndarray(format="rgb24") for frame in decoded(given)]
    as_shown = TURNS[how["turned"]][1] if "turned" in how else lambda frame: frame
    shown = numpy.ascontiguousarray([as_shown(frame) for frame in frames])
    value = 0 if how.get("colours") else fnv1a(shown.tobytes())
    print(name, len(frames), rate.numerator, rate.denominator, shown.shape[2], shown.shape[1], f"{value:016x}")


def make_encrypted():
    """Videos whose packets are encrypted, which Isocost names, in refused_videos."""
    folder = FOLDER.parent / "refused_videos"
    folder.mkdir(exist_ok=True)
    key = "0123456789abcdef0123456789abcdef"
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", str(FOLDER / "two.mp4"), "-c", "copy", "-encryption_scheme",
                    "cenc-aes-ctr", "-encryption_key", key, "-encryption_kid", key, "-fflags", "+bitexact",
                    str(folder / "encrypted.mp4")], check=True)
    live = folder / "encrypted.webm"
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", str(FOLDER / "one_vp9.webm"), "-c", "copy", "-live", "1",
                    "-fflags", "+bitexact", str(live)], check=True)
    live.write_bytes(with_key(live.read_bytes()))


def make_larger():
    """Videos whose frames become larger than their container says, in refused_videos."""
    for name, codec in (("larger_vp8.webm", "libvpx"), ("larger_h264.mkv", "libx264")):
        parts = []
        for size in ((64, 48), (640, 480)):
            parts.append(io.BytesIO())
            options = {"x264-params": "repeat-headers=1"} if codec == "libx264" else {}
            encode(parts[-1], "matroska", codec, 25, 4, {"size": size, "options": options})
            parts[-1].seek(0)
        with av.open(str(FOLDER.parent / "refused_videos" / name), "w") as out:
            stream = None
            time = 0
            for part in parts:
                with av.open(part) as given:
                    stream = stream or out.add_stream_from_template(given.streams.video[0])
                    for packet in given.demux(video=0):
                        if packet.dts is not None:
                            copy = copied(packet, bytes(packet), stream)
                            copy.pts = copy.dts = time
                            time += packet.duration
                            out.mux(copy)


def make_not_whole():
    """Videos whose last packet ends early, in not_whole."""
    folder = FOLDER.parent / "not_whole"
    folder.mkdir(exist_ok=True)
    for name in ("sound.mp4", "open_b.mp4", "end_hevc.mp4", "mpeg2.ts", "end_mpeg2.mkv", "mpeg4_b.mp4", "h264.flv"):
        with av.open(str(FOLDER / name)) as given, av.open(str(folder / name), "w") as out:
            stream = out.add_stream_from_template(given.streams.video[0])
            packets = [packet for packet in given.demux(video=0) if packet.size > 8]
            for packet in packets:
                content = bytes(packet)
                out.mux(copied(packet, content[:len(content) // 2] if packet is packets[-1] else content, stream))


def element(name, content):
    """An element of Matroska."""
    return name + (len(content) | 0x10000000).to_bytes(4, "big") + content


def with_key(content):
    """A live WebM whose only track says that its blocks are encrypted, and by which key."""
    encryption = element(b"\x50\x35", b"\x47\xe1\x81\x05" + element(b"\x47\xe2", bytes(range(16))))
    encoding = element(b"\x62\x40", b"\x50\x31\x81\x00" + b"\x50\x32\x81\x01" + b"\x50\x33\x81\x01" + encryption)
    added = element(b"\x6d\x80", encoding)
    tracks = content.rindex(b"\x16\x54\xae\x6b")  # its size takes one byte, that of its only entry eight
    end = tracks + 5 + (content[tracks + 4] & 0x7F)
    entry = element(b"\xae", content[tracks + 5 + 9:end] + added)
    return content[:tracks] + element(b"\x16\x54\xae\x6b", entry) + content[end:]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(VIDEOS))
    chosen = parser.parse_args().names
    FOLDER.mkdir(exist_ok=True)
    for video, (encoder, per_second, length, more) in VIDEOS.items():
        if video in chosen:
            make(FOLDER / video, encoder, per_second, length, more)
        show(video, more)
    if "encrypted" in chosen:
        make_encrypted()
    if "not_whole" in chosen:
        make_not_whole()
    if "larger" in chosen:
        make_larger()
