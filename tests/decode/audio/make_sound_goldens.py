#!/usr/bin/env python3
"""Makes small sounds in golden_sounds and, beside each, the samples that another program reads from it.

    python3 make_sound_goldens.py      # needs the ffmpeg program, and Python's soundfile and numpy

NAME.f32 holds the samples of NAME: 32-bit floats, channels interleaved, all that ffmpeg's decoders give, as PyAV gives
them. Made with ffmpeg 5.1. MP3 files are read by soundfile 0.14, since ffmpeg 5.1 reads those of 24 kHz wrongly.
container_sound_test.cc says how close Isocost must be.
"""

import pathlib
import shutil
import subprocess

import numpy
import soundfile

FOLDER = pathlib.Path(__file__).parent / "golden_sounds"
TONE = "aevalsrc=0.4*sin(2*PI*t*(220+300*t))+0.1*random(0)-0.05:d=%s:s=%d"

# name: rate, channels, seconds, options of the encoder and the container
SOUNDS = {
    "aac.m4a": (16000, 1, 0.2, ["-c:a", "aac"]),
    "aac_stereo.mp4": (22050, 2, 0.1, ["-c:a", "aac"]),
    "aac_fragmented.mp4": (16000, 1, 0.2, ["-c:a", "aac", "-movflags", "frag_keyframe+empty_moov"]),
    "cover.m4a": (16000, 1, 0.1, ["-f", "lavfi", "-i", "color=red:s=16x16:r=1:d=1", "-map", "0", "-map", "1", "-c:a",
                                  "aac", "-c:v", "mjpeg", "-disposition:v", "attached_pic", "-shortest"]),
    "alac.m4a": (16000, 1, 0.3, ["-c:a", "alac"]),
    "alac24.m4a": (8000, 2, 0.2, ["-c:a", "alac", "-sample_fmt", "s32p"]),
    "pcm.mov": (8000, 1, 0.2, ["-c:a", "pcm_s16be"]),
    "adts.aac": (16000, 1, 0.2, ["-c:a", "aac"]),
    "id3.aac": (16000, 1, 0.2, ["-c:a", "aac", "-write_id3v2", "1", "-metadata", "title=a title"]),
    "wma2.wma": (16000, 1, 0.2, ["-c:a", "wmav2"]),
    "wma1.wma": (22050, 2, 0.1, ["-c:a", "wmav1"]),
    "pcm.aiff": (11025, 1, 0.2, []),
    "pcm24.aiff": (8000, 2, 0.1, ["-c:a", "pcm_s24be"]),
    "float.aifc": (8000, 1, 0.1, ["-f", "aiff", "-c:a", "pcm_f32be"]),
    "alac.caf": (16000, 1, 0.3, ["-c:a", "alac"]),
    "pcm.caf": (8000, 1, 0.1, ["-c:a", "pcm_s16be"]),
    "mulaw.caf": (8000, 1, 0.1, ["-c:a", "pcm_mulaw"]),
    "flac.oga": (16000, 1, 0.3, ["-c:a", "flac", "-f", "ogg"]),
    "flac.ogg": (16000, 2, 0.1, ["-c:a", "flac"]),
    "speex.spx": (16000, 1, 0.2, ["-c:a", "libspeex"]),
    "vorbis.mka": (16000, 1, 0.3, ["-c:a", "libvorbis"]),
    "opus.weba": (48000, 1, 0.2, ["-c:a", "libopus", "-f", "webm"]),
    "opus_long.weba": (48000, 1, 0.51, ["-c:a", "libopus", "-frame_duration", "120", "-f", "webm"]),
    "flac.mka": (16000, 1, 0.2, ["-c:a", "flac"]),
    "alac.mka": (16000, 1, 0.3, ["-c:a", "alac"]),
    "pcm.avi": (8000, 1, 0.2, []),
    "aac.ts": (16000, 1, 0.2, ["-c:a", "aac"]),
    "mp2.mpg": (16000, 1, 0.2, ["-c:a", "mp2"]),
    "mp2_24000.mp4": (24000, 1, 0.2, ["-c:a", "mp2"]),
    "aac.flv": (16000, 1, 0.2, ["-c:a", "aac"]),
    "mp3.flv": (22050, 1, 0.2, ["-c:a", "libmp3lame"]),
    "speex.flv": (16000, 1, 0.1, ["-c:a", "libspeex"]),
}

# Every sample rate of layer III, and one of MPEG-1 and of MPEG-2 for layer II.
MP3_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
MP2_RATES = (24000, 48000)

# Made with PyAV 14, since the program lacks the encoder: 0.2 s of the sound above at 8 kHz.
KEPT = ["amr.3gp"]


def run(*command):
    return subprocess.run(["ffmpeg", "-v", "error", "-y", *command], stdout=subprocess.PIPE, check=True).stdout


def make_mpeg_audio(path, encoder, rate, channels):
    """Makes loud noise beside the tone, which fills all bands."""
    noise = f"aevalsrc=0.3*sin(2*PI*t*(220+300*t))+0.6*random(0)-0.3:d=0.15:s={rate}"
    run("-f", "lavfi", "-i", noise, "-ac", str(channels), "-c:a", encoder, "-b:a", "64k", "-fflags", "+bitexact",
        "-flags:a", "+bitexact", str(path))
    samples, _ = soundfile.read(path, dtype="float32")
    path.with_name(path.name + ".f32").write_bytes(numpy.ascontiguousarray(samples).tobytes())


def main():
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.iterdir():
        if old.name not in KEPT:
            old.unlink()
    for name, (rate, channels, seconds, options) in SOUNDS.items():
        path = FOLDER / name
        run("-f", "lavfi", "-i", TONE % (seconds, rate), *options, "-ac", str(channels), "-fflags", "+bitexact",
            "-flags:a", "+bitexact", str(path))
    for rate in MP3_RATES:
        make_mpeg_audio(FOLDER / f"mono_{rate}.mp3", "libmp3lame", rate, 1)
    make_mpeg_audio(FOLDER / "stereo_24000.mp3", "libmp3lame", 24000, 2)
    for rate in MP2_RATES:
        make_mpeg_audio(FOLDER / f"stereo_{rate}.mp2", "mp2", rate, 2)
    run("-i", str(FOLDER / "stereo_24000.mp2"), "-c", "copy", "-fflags", "+bitexact", str(FOLDER / "mp2.wav"))
    shutil.copy(FOLDER / "stereo_24000.mp2.f32", FOLDER / "mp2.wav.f32")  # soundfile does not read it in a WAV
    run("-i", str(FOLDER / "mono_24000.mp3"), "-c", "copy", "-fflags", "+bitexact",
        str(FOLDER.parent / "refused_sounds" / "mp3_24000.mka"))
    key = "0123456789abcdef0123456789abcdef"
    run("-i", str(FOLDER / "aac.m4a"), "-c", "copy", "-encryption_scheme", "cenc-aes-ctr", "-encryption_key", key,
        "-encryption_kid", key, "-fflags", "+bitexact", str(FOLDER.parent / "refused_sounds" / "encrypted.m4a"))
    for name in [*SOUNDS, *KEPT]:
        samples = run("-i", str(FOLDER / name), "-f", "f32le", "-")
        (FOLDER / (name + ".f32")).write_bytes(samples)


if __name__ == "__main__":
    main()
