"""The picture and the hash of tests/support/test_pattern.h, for scripts that make golden files."""

import numpy


def noise(index):
    """A hash of the position in the image; unsigned numbers of 32 bits wrap."""
    value = index * numpy.uint32(2654435761)
    value ^= value >> numpy.uint32(15)
    value *= numpy.uint32(2246822519)
    return (value >> numpy.uint32(24)).astype(numpy.uint8)


def test_pattern(width, height):
    """Tiles of 16 by 16 pixels in turn: noise, a gradient, noise in black and white."""
    index = numpy.arange(height * width * 3, dtype=numpy.uint32).reshape(height, width, 3)
    y = numpy.arange(height)[:, None, None]
    x = numpy.arange(width)[None, :, None]
    gradient = (3 * x + 2 * y + 85 * numpy.arange(3)[None, None, :]).astype(numpy.uint8)
    grain = noise(index)
    extreme = numpy.where(grain >= 128, 255, 0).astype(numpy.uint8)
    return numpy.choose((x // 16 + y // 16) % 3, [grain, gradient, extreme])


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
