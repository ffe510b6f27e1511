#!/usr/bin/env python3
"""Makes pictures of kinds that are rare, which some reader takes for damage or reads otherwise.

    pip install pillow && python3 make_rare.py

Pillow 13.0 reads the pixels that are kept beside them, as in make.py.
"""

import struct
import sys

sys.dont_write_bytecode = True  # the test reads every file of this folder

from make import HEIGHT, WIDTH, exif, keep, pack_row, picture, rle8_bmp, saved, with_alpha  # noqa: E402
from make_tiffs import LZW, RGB, tiff  # noqa: E402

UPRIGHT = exif(3, 1, struct.pack("<H", 1))
PLAIN_MASKS = (0xFF0000, 0xFF00, 0xFF)


def rare_bmp(bits, compression, header, masks, palette, body, offset=None, colours=None):
    """A BMP with a header of this many bytes, 40 at least; masks lie after one of 40, and else within it."""
    wanted = len(palette) // 4 if colours is None else colours
    info = struct.pack("<IiiHHIIiiII", header, WIDTH, HEIGHT, 1, bits, compression, len(body), 2835, 2835, wanted, 0)
    words = struct.pack(f"<{len(masks)}I", *masks)
    info = info + words if header == 40 else (info + words).ljust(header, b"\0")
    where = 14 + len(info) + len(palette) if offset is None else offset
    whole = info + palette + body
    return b"BM" + struct.pack("<IHHI", 14 + len(whole), 0, 0, where) + whole


def bottom_up(pack):
    rows = [b"".join(pack(x, y) for x in range(WIDTH)) for y in reversed(range(HEIGHT))]
    return b"".join(row + b"\0" * (-len(row) % 4) for row in rows)


def masked(image, masks, size):
    """Pixels whose bits lie where the masks say; the others are ones, to be seen where they count."""
    def pack(x, y):
        value = (1 << 8 * size) - 1
        for colour, mask in zip(image.getpixel((x, y)), masks, strict=False):
            if mask:
                shift = (mask & -mask).bit_length() - 1
                value = value & ~mask | (colour * (mask >> shift) // 255) << shift
        return value.to_bytes(size, "little")
    return bottom_up(pack)


def indexed(image, bits):
    rows = [pack_row([image.getpixel((x, y)) for x in range(WIDTH)], bits) for y in reversed(range(HEIGHT))]
    return b"".join(row + b"\0" * (-len(row) % 4) for row in rows)


def palette_of(image, colours, entry=4):
    values = image.getpalette()[:3 * colours]
    return b"".join(bytes(reversed(values[3 * i:3 * i + 3])) + bytes(entry - 3) for i in range(colours))


def palette_bmps():
    image = picture()
    eight = image.quantize(200, dither=0)
    four = image.quantize(13, dither=0)
    for name, few, bits, colours in (("palette8", eight, 8, 200), ("palette4", four, 4, 13)):
        body, table = indexed(few, bits), palette_of(few, colours)
        for offset in (54, 0):
            keep(f"{name}_offset_{offset}.bmp", rare_bmp(bits, 0, 40, (), table, body, offset))
        core = struct.pack("<IHHHH", 12, WIDTH, HEIGHT, 1, bits)
        table = palette_of(few, colours, 3) + bytes(3 * ((1 << bits) - colours))
        keep(f"{name}_os2.bmp", b"BM" + struct.pack("<IHHI", 0, 0, 0, 26) + core + table + body)
    keep("palette_too_short.bmp", rare_bmp(8, 0, 40, (), palette_of(eight, 90), indexed(eight, 8)))
    keep("palette4_64.bmp", rare_bmp(4, 0, 64, (), palette_of(four, 13), indexed(four, 4)))
    keep("rle4.bmp", rare_bmp(4, 2, 40, (), palette_of(four, 13), rle4(four)))
    data = rle8_bmp(image)
    keep("rle8_without_end.bmp", data[:-4])
    keep("rle8_wrong_size.bmp", data[:34] + struct.pack("<I", 1 << 20) + data[38:])


def rle4(image):
    """Runs of two colours and, for every third row, literal pixels of an odd number."""
    body = b""
    for y in reversed(range(HEIGHT)):
        row = [image.getpixel((x, y)) for x in range(WIDTH)]
        if y % 3 == 0:
            literal = pack_row(row, 4)
            body += bytes([0, WIDTH]) + literal + b"\0" * (len(literal) % 2)
        else:
            body += b"".join(bytes([len(row[x:x + 2]), row[x] << 4 | row[min(x + 1, WIDTH - 1)]])
                             for x in range(0, WIDTH, 2))
        body += b"\0\0"
    return body + b"\0\1"


def masked_bmps():
    image = picture()
    seen = with_alpha(image)
    keep("rgb_offset_0.bmp", rare_bmp(24, 0, 40, (), b"", masked(image, PLAIN_MASKS, 3), 0))
    keep("rgb_os2v2.bmp", rare_bmp(24, 0, 64, (), b"", masked(image, PLAIN_MASKS, 3)))
    keep("rgb_masks.bmp", rare_bmp(24, 3, 40, PLAIN_MASKS, b"", masked(image, PLAIN_MASKS, 3)))
    keep("bgrx_40.bmp", rare_bmp(32, 3, 40, PLAIN_MASKS, b"", masked(image, PLAIN_MASKS, 4), 0))
    keep("bgrx_52.bmp", rare_bmp(32, 3, 52, PLAIN_MASKS, b"", masked(image, PLAIN_MASKS, 4)))
    rgb565 = (0xF800, 0x7E0, 0x1F)
    keep("rgb565_52.bmp", rare_bmp(16, 3, 52, rgb565, b"", masked(image, rgb565, 2)))
    rgb555 = (0x7C00, 0x3E0, 0x1F)
    keep("rgb555_masks.bmp", rare_bmp(16, 3, 40, rgb555, b"", masked(image, rgb555, 2), 0))
    for name, masks in (("xbgr", (0xFF000000, 0xFF0000, 0xFF00, 0)), ("bgxr", (0xFF000000, 0xFF00, 0xFF, 0)),
                        ("abgr", (0xFF000000, 0xFF0000, 0xFF00, 0xFF)), ("rgba", (0xFF, 0xFF00, 0xFF0000, 0xFF000000)),
                        ("bgra", (*PLAIN_MASKS, 0xFF000000)), ("bgar", (0xFF000000, 0xFF00, 0xFF, 0xFF0000))):
        keep(f"{name}_56.bmp", rare_bmp(32, 3, 56, masks, b"", masked(seen, masks, 4)))
    keep("masks_of_zero.bmp", rare_bmp(32, 3, 124, (0, 0, 0, 0), b"", masked(seen, (*PLAIN_MASKS, 0xFF000000), 4)))


def lzw_codes(values, bits):
    """The codes of values of `bits` bits, each with its width, as GIF writes them."""
    clear, known, width, size = 1 << bits, {}, bits + 1, (1 << bits) + 2
    yield clear, width
    held = None
    for value in values:
        if held is None:
            held = value
            continue
        if (held, value) in known:
            held = known[held, value]
            continue
        yield held, width
        if size < 4096:
            known[held, value] = size
            if size == 1 << width and width < 12:
                width += 1
            size += 1
        elif bits < 12:
            yield clear, width
            known, width, size = {}, bits + 1, (1 << bits) + 2
        held = value
    yield held, width
    if size == 1 << width and width < 12:
        width += 1
    yield clear + 1, width


def lzw(values, bits):
    """Codes in bytes, the lower bits first."""
    pool = at = 0
    for code, width in lzw_codes(values, bits):
        pool |= code << at
        at += width
    return pool.to_bytes((at + 7) // 8, "little")


def rare_gif(values, bits, colours=b"", before=b"", data=None):
    """A GIF of indices, whose codes begin at `bits` bits; `before` stands between its table and its picture."""
    flags = 0x80 | (len(colours) // 3 - 1).bit_length() - 1 if colours else 0
    data = data or lzw(values, bits)
    blocks = b"".join(bytes([len(data[i:i + 255])]) + data[i:i + 255] for i in range(0, len(data), 255))
    return (b"GIF89a" + struct.pack("<HHBBB", WIDTH, HEIGHT, flags, 0, 0) + colours + before
            + b"," + struct.pack("<HHHHBB", 0, 0, WIDTH, HEIGHT, 0, bits) + blocks + b"\0;")


def gifs():
    image = picture().quantize(16, dither=0)
    colours = bytes(image.getpalette()[:48])
    indices = list(image.tobytes())
    for bits in range(9, 13):
        keep(f"codes{bits}.gif", rare_gif(indices, bits, colours))
    keep("codes10_beyond_a_byte.gif", rare_gif([index + 256 * (i % 3) for i, index in enumerate(indices)], 10, colours))
    keep("codes0.gif", rare_gif((), 0, colours, data=b"\1" + bytes(len(indices) // 8)))  # each 0 is a bit
    grey = list(picture().convert("L").tobytes())
    keep("no_palette.gif", rare_gif(grey, 8))
    keep("grey_palette_of_4.gif", rare_gif(grey, 8, bytes(i for i in range(4) for _ in range(3))))
    keep("palette_of_4.gif", rare_gif(grey, 8, bytes(40 * i for i in range(4) for _ in range(3))))
    keep("zeros_between.gif", rare_gif(indices, 4, colours, b"\0\0\0"))
    see_through, plain = (b"!\xf9\4" + bytes([flag, 0, 0, 3, 0]) for flag in (1, 0))
    keep("two_controls.gif", rare_gif(indices, 4, colours, see_through + plain))


def old_lzw_tiff():
    """TIFF's LZW of before 1989: the lower bits first, and wider codes one later."""
    rgb, strip = picture().tobytes(), 3 * WIDTH * 9
    strips = [lzw(rgb[i:i + strip], 8) for i in range(0, len(rgb), strip)]
    keep("old_lzw.tif", tiff(strips, [8, 8, 8], RGB, compression=LZW, rows=9))


def webps():
    lossy, lossless = (saved(with_alpha(picture()), "WEBP", exif=UPRIGHT, **options)
                       for options in ({"quality": 80}, {"lossless": True}))
    animated = saved(with_alpha(picture()), "WEBP", save_all=True, append_images=[picture()], quality=80)
    for name, data in (("lossy", lossy), ("lossless", lossless), ("animated", animated)):
        flags = data.index(b"VP8X") + 8
        keep(f"{name}_alpha_not_announced.webp", data[:flags] + bytes([data[flags] & ~0x10]) + data[flags + 1:])
    flags = lossy.index(b"VP8X") + 8
    opaque = saved(picture(), "WEBP", exif=UPRIGHT, quality=80)
    keep("alpha_announced_alone.webp", opaque[:flags] + bytes([opaque[flags] | 0x10]) + opaque[flags + 1:])


if __name__ == "__main__":
    palette_bmps()
    masked_bmps()
    gifs()
    old_lzw_tiff()
    webps()
