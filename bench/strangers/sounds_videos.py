#!/usr/bin/env python3
"""Reads sounds and videos that others have made with Isocost, soundfile and PyAV, and counts where they agree.

    pip install av==14.0.1 soundfile numpy
    cmake --build build/release --target read_media
    python3 bench/strangers/sounds_videos.py [--made FOLDER] FOLDER...

With --made, the ffmpeg program first makes MPEG audio of every layer that it encodes, at every rate and in every mode
of channels, and the folder is read, too.

Every file below the folders is tried whose first bytes are those of a sound or video. A sound is equal if soundfile or
PyAV has the same samples, mixed to mono; a video if PyAV has the same frames. The table has a row for each kind; the
files that are not equal follow, with what was said of each, and so do videos of which a few frames alone are not what
they are among all: what a data set's check passes must be delivered. A file that ends PyAV or
soundfile is in no column.
"""

import argparse
import collections
import concurrent.futures
import pathlib
import subprocess
import sys

import av
import numpy
import soundfile
import sweep

ROOT = pathlib.Path(__file__).parents[2]
MARKS = ((0, b"fLaC", "FLAC"), (0, b"OggS", "Ogg"), (0, b"\x1a\x45\xdf\xa3", "Matroska"), (8, b"WAVE", "WAV"),
         (8, b"AVI ", "AVI"), (0, b"caff", "CAF"), (8, b"AIFF", "AIFF"), (8, b"AIFC", "AIFF"), (0, b"FLV\x01", "FLV"),
         (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "ASF"), (0, b"\0\0\x01\xba", "MPEG-PS"), (0, b"ID3", "MP3"),
         (4, b"moov", "MP4"), (4, b"mdat", "MP4"), (4, b"wide", "MP4"), (4, b"styp", "MP4"))
PICTURES = {b"avif", b"avis", b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1", b"jp2 ", b"crx "}
TOLERANCE = 4e-6


def kind_of(head):
    """The kind that the first bytes tell, or None."""
    for at, mark, kind in MARKS:
        if head[at:at + len(mark)] == mark:
            return kind
    if head[4:8] == b"ftyp":
        return None if head[8:12] in PICTURES else "MP4"
    if len(head) > 377 and all(head[at] == 0x47 for at in (0, 188, 376)):
        return "MPEG-TS"
    if len(head) > 4 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0:
        return kind_of_frames(head)
    return None


def kind_of_frames(head):
    """The kind of a stream of frames whose headers begin with eleven ones; other files begin so, too."""
    if head[1] & 0xF6 == 0xF0:
        return "ADTS"
    is_possible = head[1] & 0x18 != 8 and head[2] & 0xF0 not in (0, 0xF0) and head[2] & 0x0C != 0x0C
    layer = 4 - (head[1] >> 1 & 3)
    return f"MP{layer}" if is_possible and layer < 4 else None


MPEG_RATES = {"libmp3lame": (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000),
              "libtwolame": (16000, 22050, 24000, 32000, 44100, 48000)}
MPEG_MODES = {"libmp3lame": {"mono": ["-ac", "1"], "joint": ["-ac", "2", "-joint_stereo", "1"],
                             "stereo": ["-ac", "2", "-joint_stereo", "0"]},
              "libtwolame": {name: ["-ac", "1" if name == "mono" else "2", "-mode", name]
                             for name in ("mono", "stereo", "joint_stereo", "dual_channel")}}


def make_mpeg_audio(folder):
    """Half a second of a tone and noise, which fills all bands, at a low and a high rate of bits."""
    folder.mkdir(exist_ok=True)
    for encoder, rates in MPEG_RATES.items():
        for rate in rates:
            left, right = "0.3*sin(2*PI*t*(220+300*t))+0.6*random(0)-0.3", "0.3*sin(2*PI*t*440)+0.6*random(1)-0.3"
            sound = f"aevalsrc={left}|{right}:d=0.5:s={rate}"
            for mode, options in MPEG_MODES[encoder].items():
                for bits in ("64k", "160k"):
                    name = f"{mode}_{rate}_{bits}.{'mp3' if encoder == 'libmp3lame' else 'mp2'}"
                    command = ["ffmpeg", "-v", "quiet", "-y", "-f", "lavfi", "-i", sound, *options, "-c:a", encoder,
                               "-b:a", bits, str(folder / name)]
                    if subprocess.run(command, check=False).returncode != 0:
                        (folder / name).unlink(missing_ok=True)  # the layer has no such rate of bits


class Isocost(sweep.Program):
    def ask(self, path):
        """("sound", format, rate, samples) or ("video", format, width, height, frames)."""
        self.send(path)
        verdict, rest = self.line()
        *name, first, second = rest.split(" ")
        if verdict == "sound":
            raw = self.read(4 * int(second))
            return verdict, " ".join(name), int(first), numpy.frombuffer(raw, numpy.float32)
        return verdict, " ".join(name[:-1]), int(name[-1]), int(first), int(second)

    def frames(self, width, height):
        while self.line()[0] == "frame":
            yield numpy.frombuffer(self.read(3 * width * height), numpy.uint8).reshape(height, width, 3)

    def sampled(self):
        return self.line()[1]


def by_soundfile(path):
    """Rate and samples."""
    with soundfile.SoundFile(path) as sound:
        values = sound.read(dtype="float32", always_2d=True)
        return sound.samplerate, values.mean(axis=1, dtype=numpy.float32)


def by_pyav(path):
    """Rate and samples of the first sound."""
    chunks = []
    rate = 0
    with av.open(str(path)) as given:
        for frame in given.decode(audio=0):
            values = frame.to_ndarray()
            if values.dtype.kind in "iu":
                largest = 128 if values.dtype.itemsize == 1 else 2.0 ** (8 * values.dtype.itemsize - 1)
                values = (values.astype(numpy.float64) - (128 if values.dtype.kind == "u" else 0)) / largest
            channels = frame.layout.nb_channels
            values = values.reshape(channels, -1) if frame.format.is_planar else values.reshape(-1, channels).T
            chunks.append(values.mean(axis=0).astype(numpy.float32))
            rate = frame.sample_rate
    if not chunks:
        raise sweep.Refused("no samples")
    return rate, numpy.concatenate(chunks)


def has_video(path):
    """Whether PyAV finds pictures that are no cover."""
    try:
        with av.open(str(path)) as given:
            return any(not int(stream.disposition) & int(av.stream.Disposition.attached_pic)
                       for stream in given.streams.video)
    except Exception:  # PyAV raises what FFmpeg's errors are
        return False


def difference(ours, theirs):
    """How two sounds differ; "" where they do not."""
    if ours[0] != theirs[0]:
        return f"{ours[0]} Hz, not {theirs[0]}"
    both = min(len(ours[1]), len(theirs[1]))
    apart = float(numpy.abs(ours[1][:both] - theirs[1][:both]).max(initial=0))
    if not apart <= TOLERANCE:
        return f"by up to {apart:.2g}"
    # Containers state where a sound ends, which readers keep to within a packet.
    if abs(len(ours[1]) - len(theirs[1])) > ours[0] // 10:
        return f"{len(ours[1])} samples, not {len(theirs[1])}, equal as far as both go"
    return ""


def compared_sound(ours, path):
    """The column, and what is to be told of it."""
    remarks = {}
    for name, read in (("soundfile", by_soundfile), ("PyAV", by_pyav)):
        try:
            theirs = read(path)
        except Exception as error:  # each reader raises its own
            remarks[name] = f"refused, {type(error).__name__}: {error}"
            continue
        remarks[name] = "read" if ours is None else difference(ours, theirs)
        if remarks[name] == "":
            return "equal", ""
    told = "; ".join(f"{name}: {remark}" for name, remark in remarks.items())
    is_refused = all(remark.startswith("refused") for remark in remarks.values())
    if ours is None:
        return ("refused by both" if is_refused else "refused here alone"), told
    return ("read here alone" if is_refused else "differ"), told


def shown_by_pyav(path):
    """The frames that players show, in RGB: packets before the first key frame fail, or give none."""
    has_begun = False
    with av.open(str(path)) as given:
        for packet in given.demux(video=0):
            try:
                frames = packet.decode()
            except (av.error.InvalidDataError, av.error.ValueError):
                if has_begun:
                    raise
                continue
            for frame in frames:
                has_begun = True
                yield frame


def upright(rgb, frame):
    """The frame as a player turns and mirrors it, by the display matrix of its container."""
    matrix = next((numpy.frombuffer(bytes(data), numpy.int32) for data in frame.side_data
                   if data.type == av.sidedata.sidedata.Type.DISPLAYMATRIX), None)
    if matrix is None or not matrix[[0, 1, 3, 4]].any():
        return rgb
    right, up, left, down = (int(matrix[at]) for at in (0, 1, 3, 4))
    if abs(up) > abs(right):
        rgb, right, down = rgb.transpose(1, 0, 2), left, up
    return rgb[::-1 if down < 0 else 1, ::-1 if right < 0 else 1]


def rgb_of(frame, with_matrix):
    matrix = {"src_colorspace": frame.colorspace} if with_matrix else {}
    return upright(frame.reformat(format="rgb24", **matrix).to_ndarray(), frame)


def compared_video(isocost, width, height, path):
    """The column, and what is to be told of it."""
    ours = isocost.frames(width, height)
    count = differing = most = 0
    remark = ""
    refused = None
    frame = None
    for theirs in shown_by_pyav(path):
        if refused is None:
            try:
                frame = next(ours, None)
            except sweep.Refused as error:
                refused = str(error)
        if refused is None and frame is None and not remark:
            remark = f"{count} frames, and PyAV has more"
        if refused is not None or remark:
            break
        count += 1
        expected = rgb_of(theirs, with_matrix=False)
        if frame.shape == expected.shape and not (frame == expected).all():
            expected = rgb_of(theirs, with_matrix=True)
        if frame.shape != expected.shape:
            differing, most = differing + 1, 255
            continue
        apart = int(numpy.abs(frame.astype(numpy.int16) - expected).max(initial=0))
        differing, most = differing + (apart > 0), max(most, apart)
    more = 0
    try:
        more = sum(1 for _ in ours) if refused is None else 0
    except sweep.Refused as error:
        refused = str(error)
    if refused is not None:
        return "refused here alone", f"after {count} frames: {refused}"
    if more:
        remark = f"{more} frames that PyAV has not"
    if differing and not remark:
        remark = f"{differing} of {count} frames, by up to {most}"
    return ("differ" if remark else "equal"), remark


def compared(isocost, path, kind):
    """Kind, column, and what is to be told of it."""
    try:
        answer = isocost.ask(path)
    except sweep.Refused as error:
        if not has_video(path):
            column, told = compared_sound(None, path)
            return f"{kind}, sound", column, f"{error}; {told}"
        try:
            is_read = any(True for _ in shown_by_pyav(path))
        except Exception:
            is_read = False
        return f"{kind}, video", "refused here alone" if is_read else "refused by both", str(error)
    if answer[0] == "sound":
        return f"{kind}, sound", *compared_sound(answer[2:], path)
    try:
        column, told = compared_video(isocost, *answer[2:4], path)
    except Exception as error:  # PyAV's
        try:
            collections.deque(isocost.frames(*answer[2:4]), maxlen=0)
            column, told = "read here alone", f"{type(error).__name__}: {error}"
        except sweep.Refused as refused:
            column, told = "refused by both", str(refused)
    sampled = isocost.sampled()
    if (sampled == "whole") != (column not in ("refused here alone", "refused by both")):
        told += f"; FEW FRAMES ARE OTHERWISE: {sampled}"
    return f"{kind}, video", column, told


class Comparison:
    """A process that compares one file after another, and a new one after a file that ends PyAV or soundfile."""

    def __init__(self, program):
        self.program = program
        self.begin()

    def begin(self):
        self.pool = concurrent.futures.ProcessPoolExecutor(1, initializer=begin_comparing, initargs=(self.program,))

    def __call__(self, path, kind):
        try:
            return self.pool.submit(compare, path, kind).result()
        except concurrent.futures.process.BrokenProcessPool:
            self.begin()
            return kind, "not compared", "another reader ends with a signal"


def begin_comparing(program):
    global comparing_with
    av.logging.set_level(av.logging.PANIC)
    comparing_with = Isocost(program)


def compare(path, kind):
    return compared(comparing_with, path, kind)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folders", nargs="*", type=pathlib.Path, metavar="FOLDER")
    arguments.add_argument("--program", default=ROOT / "build/release/bench/read_media")
    arguments.add_argument("--made", type=pathlib.Path, metavar="FOLDER", help="make MPEG audio in this folder")
    chosen = arguments.parse_args()
    if chosen.made:
        make_mpeg_audio(chosen.made)
        chosen.folders.append(chosen.made)
    comparison = Comparison(chosen.program)
    table = sweep.Table()
    for path, kind in sweep.files(chosen.folders, kind_of):
        table.add(path, *comparison(path, kind))
    return table.show(("CRASHED", "OTHERWISE"))


if __name__ == "__main__":
    sys.exit(main())
