#!/usr/bin/env python3
"""Makes the TIFF files of this folder and, beside each, the pixels that Pillow reads from it; as make.py, whose
functions it uses, does for other formats.

    pip install pillow && python3 make_tiffs.py

NAME.ppm holds the pixels of NAME as Image.convert("RGB") has them; transparency is composed on white.
"""

import io
import struct
import sys
import zlib

sys.dont_write_bytecode = True  # the test reads every file of this folder

from make import (  # noqa: E402
    FOLDER,
    HEIGHT,
    WIDTH,
    XMP_6,
    on_white,
    pack_row,
    picture,
    pixel,
    saved,
    with_alpha,
    write_ppm,
)
from PIL import Image, ImageOps  # noqa: E402

SHORT, LONG = 3, 4
NONE, G3, G4, LZW, JPEG, DEFLATE, PACKBITS = 1, 3, 4, 5, 7, 8, 32773
GREY_INVERTED, GREY, RGB, PALETTE, CMYK, YCC = 0, 1, 2, 3, 5, 6


def keep(name, data):
    (FOLDER / name).write_bytes(data)
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    image = image.convert("RGB") if image.mode.startswith("I;16") else on_white(image)  # grey stops at 255
    write_ppm(name, *image.size, image.tobytes())


def directory(order, big, entries, at):
    """The bytes of a directory that begins at `at`: entries (tag, type, values), and the values that do not fit in them
    after it."""
    width = 8 if big else 4
    kind = {SHORT: "H", LONG: "I", 1: "B", 7: "B", 16: "Q"}
    head = struct.pack(order + ("Q" if big else "H"), len(entries))
    apart_at = at + len(head) + len(entries) * (20 if big else 12) + width
    apart = b""
    for tag, type_, values in sorted(entries):
        data = struct.pack(f"{order}{len(values)}{kind[type_]}", *values)
        head += struct.pack(order + "HH" + ("Q" if big else "I"), tag, type_, len(values))
        if len(data) <= width:
            head += data.ljust(width, b"\0")
        else:
            head += struct.pack(order + ("Q" if big else "I"), apart_at + len(apart))
            apart += data + b"\0" * (len(data) % 2)
    return head + b"\0" * width + apart


def tiff(blocks, bits, photometric, order="<", big=False, compression=NONE, extra=(), planes=1, tile=None, rows=HEIGHT,
         size=(WIDTH, HEIGHT), samples=None, more=()):
    """A TIFF of one picture, its directory after the pixels. `blocks`: the bytes of its strips or tiles."""
    samples = samples or len(bits)
    body, offsets = b"", []
    begin = 16 if big else 8
    for block in blocks:
        offsets.append(begin + len(body))
        body += block + b"\0" * (len(block) % 2)
    entries = [(256, LONG, [size[0]]), (257, LONG, [size[1]]), (258, SHORT, bits), (259, SHORT, [compression]),
               (262, SHORT, [photometric]), (277, SHORT, [samples]), (284, SHORT, [planes]), *more]
    counts = [len(block) for block in blocks]
    if tile:
        entries += [(322, SHORT, [tile[0]]), (323, SHORT, [tile[1]]), (324, LONG, offsets), (325, LONG, counts)]
    else:
        entries += [(273, LONG, offsets), (278, SHORT, [rows]), (279, LONG, counts)]
    if extra:
        entries.append((338, SHORT, list(extra)))
    mark = b"II" if order == "<" else b"MM"
    at = begin + len(body)
    header = mark + (struct.pack(order + "HHHQ", 43, 8, 0, at) if big else struct.pack(order + "HI", 42, at))
    return header + body + directory(order, big, entries, at)


def rows_of(samples_at, depth, order="<", size=(WIDTH, HEIGHT)):
    """Rows of pixels, each of the samples of `samples_at(x, y)`."""
    if depth == 16:
        return [b"".join(struct.pack(f"{order}H", value) for x in range(size[0]) for value in samples_at(x, y))
                for y in range(size[1])]
    return [pack_row([value for x in range(size[0]) for value in samples_at(x, y)], depth) for y in range(size[1])]


def alpha(x, y):
    return min(255, 17 * x + 3 * y)


def wide(values):
    return [value << 8 | (value * 37 + 200) % 256 for value in values]


def tiles(samples_at, depth, side=16):
    """Tiles of whole pixels; beyond the picture they are zeros."""
    def padded(x, y):
        values = samples_at(min(x, WIDTH - 1), min(y, HEIGHT - 1))
        return values if x < WIDTH and y < HEIGHT else [0] * len(values)

    return [b"".join(rows_of(lambda x, y, left=left, top=top: padded(x + left, y + top), depth, size=(side, side)))
            for top in range(0, HEIGHT, side) for left in range(0, WIDTH, side)]


def by_pillow():
    image = picture()
    black_white = image.convert("1", dither=Image.Dither.NONE)
    palette = image.quantize(64, dither=Image.Dither.NONE)
    wide_grey = Image.frombytes("I;16", image.size, b"".join(rows_of(lambda x, y: [13 * x + 4 * y], 16)))
    for name, one, options in (
            ("grey", image.convert("L"), {}), ("rgb", image, {}), ("palette", palette, {}),
            ("rgba", with_alpha(image), {}), ("grey_alpha", with_alpha(image).convert("LA"), {}),
            ("black_white", black_white, {}), ("cmyk", image.convert("CMYK"), {}), ("grey16", wide_grey, {}),
            ("group3", black_white, {"compression": "group3"}), ("group4", black_white, {"compression": "group4"}),
            ("lzw", image, {"compression": "tiff_lzw"}),
            ("lzw_predictor", image, {"compression": "tiff_lzw", "tiffinfo": {317: 2, 278: 5}}),
            ("lzw_rgba", with_alpha(image), {"compression": "tiff_lzw"}),
            ("deflate", image, {"compression": "tiff_adobe_deflate"}),
            ("deflate_grey16", wide_grey, {"compression": "tiff_deflate", "tiffinfo": {317: 2}}),
            ("packbits", image, {"compression": "packbits"}),
            ("packbits_palette", palette, {"compression": "packbits"}),
            ("jpeg", image, {"compression": "jpeg", "quality": 85}),
            ("jpeg_grey", image.convert("L"), {"compression": "jpeg"}),
            ("jpeg_cmyk", image.convert("CMYK"), {"compression": "jpeg"}),
            ("big", image, {"big_tiff": True}), ("strips", image, {"tiffinfo": {278: 1}}),
            ("big_deflate", image, {"big_tiff": True, "compression": "tiff_adobe_deflate"})):
        keep(f"{name}.tif", saved(one, "TIFF", **options))
    keep("pages.tif", saved(image, "TIFF", save_all=True, append_images=[image.rotate(180)]))


def by_hand():
    def grey(x, y):
        return [pixel(x, y)[1]]

    for depth in (1, 2, 4):
        rows = rows_of(lambda x, y, d=depth: [pixel(x, y)[1] >> (8 - d)], depth)
        keep(f"grey{depth}.tif", tiff([b"".join(rows)], [depth], GREY))
        keep(f"inverted{depth}.tif", tiff([b"".join(rows)], [depth], GREY_INVERTED, ">"))
        colours = [value << 8 | 255 for c in range(3) for i in range(1 << depth) for value in [pixel(i, 3 * i)[c]]]
        keep(f"palette{depth}.tif", tiff([b"".join(rows)], [depth], PALETTE, more=[(320, SHORT, colours)]))
    reversed_bits = b"".join(bytes(int(f"{byte:08b}"[::-1], 2) for byte in row)
                             for row in rows_of(lambda x, y: [pixel(x, y)[1] >> 7], 1))
    keep("fill_order.tif", tiff([reversed_bits], [1], GREY, more=[(266, SHORT, [2])]))
    keep("inverted8.tif", tiff([b"".join(rows_of(grey, 8))], [8], GREY_INVERTED))
    keep("inverted16.tif", tiff([b"".join(rows_of(lambda x, y: [13 * x + 4 * y], 16))], [16], GREY_INVERTED))
    keep("grey16_motorola.tif", tiff([b"".join(rows_of(lambda x, y: [13 * x + 4 * y], 16, ">"))], [16], GREY, ">"))
    keep("grey_signed.tif", tiff([b"".join(rows_of(grey, 8))], [8], GREY, more=[(339, SHORT, [2])]))
    keep("grey_unknown.tif", tiff([b"".join(rows_of(lambda x, y: [*grey(x, y), alpha(x, y)], 8))], [8, 8], GREY,
                                  extra=[0]))
    keep("palette_alpha.tif",
         tiff([b"".join(rows_of(lambda x, y: [pixel(x, y)[0], alpha(x, y)], 8))], [8, 8], PALETTE, extra=[2],
              more=[(320, SHORT, [pixel(i, 3 * i)[c] << 8 for c in range(3) for i in range(256)])]))
    for order, name in (("<", "intel"), (">", "motorola")):
        keep(f"rgb16_{name}.tif",
             tiff([b"".join(rows_of(lambda x, y: wide(pixel(x, y)), 16, order))], [16] * 3, RGB, order))
    rgba = b"".join(rows_of(lambda x, y: [*pixel(x, y), alpha(x, y)], 8))
    rgba16 = b"".join(rows_of(lambda x, y: wide([*pixel(x, y), alpha(x, y)]), 16))
    keep("rgba_unsaid.tif", tiff([rgba], [8] * 4, RGB))
    keep("rgbx.tif", tiff([rgba], [8] * 4, RGB, extra=[0]))
    keep("rgba_premultiplied.tif", tiff([rgba], [8] * 4, RGB, extra=[1]))
    keep("rgba16.tif", tiff([rgba16], [16] * 4, RGB, extra=[2]))
    keep("rgba16_premultiplied.tif", tiff([rgba16], [16] * 4, RGB, extra=[1]))
    keep("rgbaxx.tif", tiff([b"".join(rows_of(lambda x, y: [*pixel(x, y), alpha(x, y), 9, 99], 8))], [8] * 6, RGB,
                            extra=[2, 0, 0]))
    keep("cmyk16.tif",
         tiff([b"".join(rows_of(lambda x, y: wide([*pixel(x, y), alpha(x, y)]), 16, ">"))], [16] * 4, CMYK, ">"))
    keep("cmykx.tif",
         tiff([b"".join(rows_of(lambda x, y: [*pixel(x, y), alpha(x, y), 7], 8))], [8] * 5, CMYK, extra=[0]))
    keep("one_depth.tif", tiff([b"".join(rows_of(pixel, 8))], [8], RGB, samples=3))
    planes = [b"".join(rows_of(lambda x, y, c=c: [pixel(x, y)[c]], 8)) for c in range(3)]
    keep("planes.tif", tiff(planes, [8] * 3, RGB, planes=2))
    halves = [zlib.compress(half) for plane in planes for half in (plane[:10 * WIDTH], plane[10 * WIDTH:])]
    keep("planes_deflate.tif", tiff(halves, [8] * 3, RGB, planes=2, rows=10, compression=DEFLATE))
    keep("tiles.tif", tiff(tiles(pixel, 8), [8] * 3, RGB, tile=(16, 16)))
    keep("tiles_deflate.tif", tiff([zlib.compress(one) for one in tiles(pixel, 8)], [8] * 3, RGB, ">", tile=(16, 16),
                                   compression=DEFLATE))
    keep("tiles_grey16.tif", tiff(tiles(lambda x, y: [13 * x + 4 * y], 16), [16], GREY, tile=(16, 16)))
    keep("tile_of_all.tif", tiff(tiles(pixel, 8, 32), [8] * 3, RGB, tile=(32, 32)))
    jpeg_tiles = [saved(Image.frombytes("RGB", (16, 16), one), "JPEG", keep_rgb=True) for one in tiles(pixel, 8)]
    keep("tiles_jpeg.tif", tiff(jpeg_tiles, [8] * 3, RGB, tile=(16, 16), compression=JPEG))
    for name, subsampling, factors in (("444", 0, [1, 1]), ("420", 2, [2, 2])):
        jpeg = saved(picture(), "JPEG", progressive=True, subsampling=subsampling)
        keep(f"jpeg{name}_progressive.tif", tiff([jpeg], [8] * 3, YCC, compression=JPEG, more=[(530, SHORT, factors)]))


def orientations():
    size = (28, 56)
    rows = [b"".join(rows_of(pixel, 8, size=size))]
    for orientation in range(2, 9):
        keep(f"orientation{orientation}.tif", tiff(rows, [8] * 3, RGB, size=size, rows=size[1],
                                                   more=[(274, SHORT, [orientation])]))
    keep("orientation_xmp.tif", tiff(rows, [8] * 3, RGB, size=size, rows=size[1], more=[(700, 1, list(XMP_6))]))
    keep("orientation_big.tif", tiff(rows, [8] * 3, RGB, big=True, size=size, rows=size[1], more=[(274, SHORT, [6])]))


if __name__ == "__main__":
    by_pillow()
    by_hand()
    orientations()
