"""The sounds of tests/decode/recipes/qwen2_audio_test.cc, for the script that makes its golden file. All are made of
whole numbers of 16 bits, so both languages make the same."""

import numpy

# 256 points of a sine, of which tones have every n-th.
SINE = numpy.rint(12000 * numpy.sin(2 * numpy.pi * numpy.arange(256) / 256)).astype(numpy.int32)
KINDS = 6


def noise(index):
    """A hash of the position, of 16 bits; unsigned numbers of 32 bits wrap."""
    value = index * numpy.uint32(2654435761)
    value ^= value >> numpy.uint32(15)
    value *= numpy.uint32(2246822519)
    return (value >> numpy.uint32(16)).astype(numpy.int32) - 32768


def test_sound(number, channels, frames):
    """int16 [frames, channels]: by the number's remainder loud noise, noise of a few steps, a tone, a tone in noise
    that comes and goes, clicks, silence with a click at its end."""
    at = numpy.arange(frames, dtype=numpy.uint32)[:, None]
    channel = numpy.arange(channels, dtype=numpy.uint32)[None, :]
    grain = noise(at * numpy.uint32(channels) + channel + numpy.uint32(1000003 * number % 2**32))
    tone = SINE[(at * numpy.uint32(3 + number % 90) + 40 * channel) % 256]
    kind = number % KINDS
    if kind == 0:
        sound = grain // 2
    elif kind == 1:
        sound = grain // 8192
    elif kind == 2:
        sound = tone
    elif kind == 3:
        sound = numpy.where(at // 4000 % 2 == 0, tone, 0) + grain // 256
    elif kind == 4:
        sound = numpy.where((at + 100 * channel) % 1777 == 0, 30000, 0)
    else:
        sound = numpy.where(at + 1 == frames, 20000, 0) + 0 * channel
    return sound.astype(numpy.int16)


def cases():
    """Number, rate, channels, frames and mel bins of 200 sounds."""
    seconds = (0.1, 0.13, 0.25, 0.5, 0.73, 1, 1.6, 2.5, 4, 7, 11, 15, 20, 25, 29.9, 30.2, 35, 40)
    # At the end of 30 s, and in the last frames before it; the least that is taken.
    edges = [480000 - less for less in (0, 1, 40, 41, 159, 160, 161, 320, 479, 480, 481, 640)] + [480001, 961, 1120]
    for number in range(200):
        bins = 80 if number % 3 == 2 else 128
        channels = (1, 1, 2, 1, 3)[number % 5]
        if number < len(edges):
            yield number, 16000, channels, edges[number], bins
            continue
        rate = 16000 if number % 8 < 6 else (8000, 11025, 22050, 44100, 48000)[number // 8 % 5]
        yield number, rate, channels, int(seconds[number % len(seconds)] * rate) + number * 37 % 160, bins
