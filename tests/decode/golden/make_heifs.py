#!/usr/bin/env python3
"""Makes the AVIF and HEIC files of this folder and, beside each, the pixels that Pillow and pillow-heif read from it;
as make.py, whose functions it uses, does for other formats.

    pip install pillow pillow-heif && python3 make_heifs.py      # needs the ffmpeg program, too

Files that no encoder at hand writes are put together here of coded pictures: grids, deep pictures with transparency,
premultiplied ones, cut ones and all turns.
"""

import io
import struct
import sys

sys.dont_write_bytecode = True  # the test reads every file of this folder

import pillow_heif  # noqa: E402
from make import FOLDER, exif, keep, picture, run_ffmpeg, saved, with_alpha  # noqa: E402
from PIL import Image  # noqa: E402


def box(kind, *parts):
    body = b"".join(parts)
    return struct.pack(">I", 8 + len(body)) + kind + body


def boxes(data):
    """The boxes in `data`: (kind, body)."""
    at = 0
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        yield kind, data[at + 8:at + size]
        at += size


def inside(data, *path):
    """The body of the first box on a path. Paths are those of full boxes, too."""
    for kind in path:
        data = next(body for found, body in boxes(data) if found == kind)
        data = data[4:] if kind in (b"meta", b"iref") else data
    return data


class Item:
    """A coded picture: its kind, data, and properties; `turns` are further properties."""

    def __init__(self, kind, data, properties, turns=()):
        self.kind, self.data, self.properties, self.turns = kind, data, list(properties), list(turns)


def first_item(file):
    """The primary picture of a file whose first item it is, and whose data are in one piece."""
    meta = inside(file, b"meta")
    places = inside(meta, b"iloc")
    version, sizes = places[0], struct.unpack(">H", places[4:6])[0]
    assert sizes >> 12 == 4 and sizes >> 8 & 15 == 4 and version in (0, 1), (version, sizes)
    at = 6 + 2 + 2 + (2 if version else 0) + 2
    base_bytes = sizes >> 4 & 15
    base = int.from_bytes(places[at:at + base_bytes], "big")
    count, offset, length = struct.unpack(">HII", places[at + base_bytes:at + base_bytes + 10])
    assert count == 1, count
    offset += base
    info = next(body for kind, body in boxes(inside(meta, b"iinf")[6:]) if kind == b"infe")
    wanted = (b"ispe", b"pixi", b"av1C", b"hvcC", b"colr")
    seen, properties = set(), []
    for kind, body in boxes(inside(meta, b"iprp", b"ipco")):
        if kind in wanted and kind not in seen:
            seen.add(kind)
            properties.append(box(kind, body))
    return Item(info[8:12], file[offset:offset + length], properties)


def heif(items, references=(), brands=(b"avif", b"mif1", b"miaf"), primaries=(1,)):
    """A file of items, the first of which is the primary one. `references`: (kind, from, [to]), by number from 1.
    `primaries`: the numbers that boxes name as the primary one, a box each."""
    all_properties, associations = [], b""
    for number, item in enumerate(items, 1):
        indices = b""
        for one in (*item.properties, *item.turns):
            if one not in all_properties:
                all_properties.append(one)
            essential = 0x80 if one[4:8] in (b"av1C", b"hvcC", b"irot", b"imir", b"clap") else 0
            indices += bytes([essential | (all_properties.index(one) + 1)])
        associations += struct.pack(">HB", number, len(indices)) + indices
    infos = b"".join(box(b"infe", b"\2\0\0\0", struct.pack(">HH", number, 0), item.kind, b"\0")
                     for number, item in enumerate(items, 1))
    named = b"".join(box(kind, struct.pack(f">HH{len(to)}H", source, len(to), *to)) for kind, source, to in references)

    def meta(begin):
        places = b""
        for number, item in enumerate(items, 1):
            places += struct.pack(">HHHII", number, 0, 1, begin, len(item.data))
            begin += len(item.data)
        return box(b"meta", bytes(4), box(b"hdlr", bytes(8), b"pict", bytes(13)),
                   *[box(b"pitm", bytes(4), struct.pack(">H", number)) for number in primaries],
                   box(b"iloc", bytes(4), struct.pack(">HH", 0x4400, len(items)), places),
                   box(b"iinf", bytes(4), struct.pack(">H", len(items)), infos),
                   *([box(b"iref", bytes(4), named)] if named else []),
                   box(b"iprp", box(b"ipco", *all_properties),
                       box(b"ipma", bytes(4), struct.pack(">I", len(items)), associations)))

    head = box(b"ftyp", brands[0], bytes(4), *brands)
    begin = len(head) + len(meta(0)) + 8
    return head + meta(begin) + box(b"mdat", *[item.data for item in items])


def irot(turns):
    return box(b"irot", bytes([turns]))


def imir(axis):
    return box(b"imir", bytes([axis]))


def clap(width, height, x=0, y=0):
    """Cuts to a size whose middle lies `x` and `y` halves of a pixel off that of the picture."""
    return box(b"clap", struct.pack(">IIIIiIiI", width, 1, height, 1, x, 2, y, 2))


ALPHA = box(b"auxC", bytes(4), b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0")


def grid(cells, columns, width, height):
    """A picture that is put together of cells, and cut to its size."""
    rows = len(cells) // columns
    whole = Item(b"grid", struct.pack(">BBBBHH", 0, 0, rows - 1, columns - 1, width, height),
                 [box(b"ispe", bytes(4), struct.pack(">II", width, height)),
                  *[one for one in cells[0].properties if one[4:8] in (b"pixi", b"colr")]])
    return [whole, *cells], [(b"dimg", 1, list(range(2, len(cells) + 2)))]


def avif(image, **options):
    return saved(image, "AVIF", **{"quality": 90, "speed": 10, **options})


def deep_avif(image, pixel_format):
    """An AVIF of more than 8 bits, by the ffmpeg program."""
    path = FOLDER / "deep.avif.tmp"
    width, height = image.size
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-i", "-"]
    run_ffmpeg(source, image.tobytes(), ["-pix_fmt", pixel_format, "-c:v", "libaom-av1", "-still-picture", "1", "-crf",
                                         "10", "-cpu-used", "8", "-threads", "1", "-f", "avif", str(path)])
    data = path.read_bytes()
    path.unlink()
    return data


def heic(image, **options):
    return saved(image, "HEIF", **{"quality": 90, **options})


BT601 = {"matrix_coefficients": 6, "color_primaries": 6, "transfer_characteristics": 6}


def deep_heic(image, bits, chroma, **options):
    """A HEIC of 10 or 12 bits."""
    pillow_heif.options.SAVE_HDR_TO_12_BIT = bits == 12
    wide = b"".join(struct.pack("<H", value * 257) for value in image.tobytes())
    out = io.BytesIO()
    pillow_heif.from_bytes("RGB;16", image.size, wide).save(out, quality=90, chroma=chroma, **options)
    return out.getvalue()


def pieces(image, columns, rows, side):
    return [image.crop((x * side, y * side, (x + 1) * side, (y + 1) * side))
            for y in range(rows) for x in range(columns)]


def avifs():
    image = picture()
    for subsampling in ("4:2:0", "4:2:2", "4:4:4"):
        keep(f"{subsampling.replace(':', '')}.avif", avif(image, subsampling=subsampling))
    keep("limited.avif", avif(image, range="limited"))
    keep("grey.avif", avif(image.convert("L"), subsampling="4:0:0"))
    keep("alpha.avif", avif(with_alpha(image)))
    keep("animated.avif", avif(image, save_all=True, append_images=[image.rotate(180)]))
    keep("avif_called.jpg", avif(image))
    for pixel_format in ("yuv420p10le", "yuv422p10le", "yuv444p10le", "yuv420p12le", "yuv422p12le", "yuv444p12le"):
        keep(f"{pixel_format[3:-2]}.avif", deep_avif(image, pixel_format))
    grey = with_alpha(image).getchannel("A").convert("RGB")
    for bits in (10, 12):
        for chroma in (420, 444):
            colours = first_item(deep_avif(image, f"yuv{chroma}p{bits}le"))
            alpha = first_item(deep_avif(grey, f"gray{bits}le"))
            alpha.properties.append(ALPHA)
            keep(f"alpha_{chroma}p{bits}.avif", heif([colours, alpha], [(b"auxl", 2, [1])]))
            if chroma == 444:
                dark = first_item(deep_avif(premultiplied(image, grey.convert("L")), f"yuv444p{bits}le"))
                keep(f"premultiplied{bits}.avif",
                     heif([dark, alpha], [(b"auxl", 2, [1]), (b"prem", 1, [2])]))
    colours, alpha = first_item(avif(image)), first_item(avif(grey.convert("L"), subsampling="4:0:0"))
    alpha.properties.append(ALPHA)
    dark = first_item(avif(premultiplied(image, grey.convert("L"))))
    keep("premultiplied.avif", heif([dark, alpha], [(b"auxl", 2, [1]), (b"prem", 1, [2])]))
    tall = first_item(avif(picture(28, 56)))
    for turns in range(4):
        for axis in (None, 0, 1):
            more = ([irot(turns)] if turns else []) + ([imir(axis)] if axis is not None else [])
            if more:
                keep(f"turned{turns}{'' if axis is None else f'_mirrored{axis}'}.avif",
                     heif([Item(tall.kind, tall.data, tall.properties, more)]))
    keep("exif_says_nothing.avif", with_exif(tall))
    keep("cut.avif", heif([Item(tall.kind, tall.data, tall.properties, [clap(20, 30)])]))  # Pillow does not cut
    cells = [first_item(avif(one)) for one in pieces(picture(128, 128), 2, 2, 64)]
    keep("grid.avif", heif(*grid(cells, 2, 120, 102)))
    cells = [first_item(deep_avif(one, "yuv420p10le")) for one in pieces(picture(128, 64), 2, 1, 64)]
    keep("grid10.avif", heif(*grid(cells, 2, 128, 64)))
    keep("open_brand.avif", heif([colours], brands=(b"mif1", b"miaf", b"avif")))


def premultiplied(image, alpha):
    return Image.composite(image, Image.new("RGB", image.size), alpha)


def with_exif(picture_item):
    """A file whose EXIF states an orientation, beside a picture without turns. Only turns count."""
    block = Item(b"Exif", bytes(4) + exif(3, 1, struct.pack("<H", 6)), [])
    return heif([picture_item, block], [(b"cdsc", 2, [1])])


HEIC = (b"heic", b"mif1")


def heics():
    pillow_heif.register_heif_opener()  # not before, as it takes the AVIF files of an open brand
    image = picture()
    for chroma in ("420", "422", "444"):
        keep(f"{chroma}.heic", heic(image, chroma=chroma))
    keep("grey.heic", heic(image.convert("L")))
    keep("alpha.heic", heic(with_alpha(image)))
    keep("limited.heic", heic(image, full_range_flag=0, matrix_coefficients=1, color_primaries=1,
                              transfer_characteristics=1))
    keep("bt2020.heic", heic(image, matrix_coefficients=9, color_primaries=9, transfer_characteristics=14))
    keep("heic_called.jpg", heic(image))
    for bits in (10, 12):
        for chroma in ("420", "444"):
            keep(f"{chroma}p{bits}.heic", deep_heic(image, bits, chroma))
    for orientation in range(2, 9):
        data = saved(picture(64, 96), "HEIF", quality=90,
                     exif=b"Exif\0\0" + exif(3, 1, struct.pack("<H", orientation)))
        keep(f"orientation{orientation}.heic", data)
    coded = first_item(heic(picture(64, 96)))
    for turns in range(4):
        for axis in (0, 1):
            more = ([irot(turns)] if turns else []) + [imir(axis)]
            keep(f"turned{turns}_mirrored{axis}.heic",
                 heif([Item(coded.kind, coded.data, coded.properties, more)], brands=HEIC))
    for name, more in (("cut", [clap(40, 32)]), ("cut_aside", [clap(41, 31, -11, 7)]),
                       ("cut_turned", [clap(40, 32), irot(1)]), ("turned_cut", [irot(1), clap(40, 32)])):
        keep(f"{name}.heic", heif([Item(coded.kind, coded.data, coded.properties, more)], brands=HEIC))
    cells = [first_item(heic(one)) for one in pieces(picture(128, 128), 2, 2, 64)]
    keep("grid.heic", heif(*grid(cells, 2, 120, 102), brands=HEIC))
    items, references = grid(cells, 2, 120, 102)
    items[0].turns = [irot(3)]
    keep("grid_turned.heic", heif(items, references, brands=HEIC))
    for bits in (10, 12):
        for full_range in (0, 1):
            cells = [first_item(deep_heic(one, bits, "420", **BT601, full_range_flag=full_range))
                     for one in pieces(picture(128, 128), 2, 2, 64)]
            items, references = grid(cells, 2, 120, 102)
            keep(f"grid420p{bits}{'' if full_range else '_limited'}.heic", heif(items, references, brands=HEIC))
    items[0].turns = [irot(3), clap(82, 60)]
    keep("grid420p12_turned_cut.heic", heif(items, references, brands=HEIC))
    other = first_item(heic(picture(48, 40)))
    keep("named_twice.heic", heif([coded, other], brands=HEIC, primaries=(1, 2)))  # the first counts
    keep("open_brand.heic", heif([coded], brands=(b"mif1", b"miaf", b"heic")))
    out = io.BytesIO()
    two = pillow_heif.from_pillow(image)
    two.add_from_pillow(image.rotate(180))
    two.save(out, quality=90)
    keep("two.heic", out.getvalue())


LARGE = FOLDER.parent / "image/large"


def large():
    """Pictures of many pixels and few bytes, for tests of memory; their pixels are not kept."""
    LARGE.mkdir(exist_ok=True)
    smooth = Image.linear_gradient("L").resize((1000, 700))
    image = Image.merge("RGB", (smooth, smooth.rotate(180), smooth))
    seen = smooth.rotate(90).resize(image.size)
    (LARGE / "420.avif").write_bytes(avif(image, subsampling="4:2:0"))
    (LARGE / "444_alpha.avif").write_bytes(avif(Image.merge("RGBA", (*image.split(), seen)), subsampling="4:4:4"))
    (LARGE / "444p12.avif").write_bytes(deep_avif(image, "yuv444p12le"))
    for bits in (10, 12):
        deep = [first_item(deep_avif(image, f"yuv444p{bits}le")),
                first_item(deep_avif(seen.convert("RGB"), f"gray{bits}le"))]
        deep[1].properties.append(ALPHA)
        (LARGE / f"444p{bits}_alpha.avif").write_bytes(heif(deep, [(b"auxl", 2, [1])]))
    cells = [first_item(deep_avif(one, "yuv444p12le")) for one in pieces(image.resize((1024, 1024)), 2, 2, 512)]
    (LARGE / "grid444p12.avif").write_bytes(heif(*grid(cells, 2, 1000, 1000)))
    pillow_heif.register_heif_opener()
    for chroma in ("420", "444"):
        (LARGE / f"{chroma}.heic").write_bytes(heic(image, chroma=chroma, quality=50))
        (LARGE / f"{chroma}_alpha.heic").write_bytes(
            heic(Image.merge("RGBA", (*image.split(), seen)), chroma=chroma, quality=50))
        for bits in (10, 12):
            pillow_heif.options.SAVE_HDR_TO_12_BIT = bits == 12
            planes = Image.merge("RGBA", (*image.split(), seen))
            wide = b"".join(struct.pack("<H", value * 257) for value in planes.tobytes())
            out = io.BytesIO()
            pillow_heif.from_bytes("RGBA;16", image.size, wide).save(out, quality=50, chroma=chroma)
            (LARGE / f"{chroma}p{bits}_alpha.heic").write_bytes(out.getvalue())
    cells = [first_item(heic(one, chroma="444", quality=50)) for one in pieces(image.resize((1024, 1024)), 2, 2, 512)]
    items, references = grid(cells, 2, 1000, 1000)
    items[0].turns = [irot(1)]
    (LARGE / "grid_turned.heic").write_bytes(heif(items, references, brands=HEIC))


if __name__ == "__main__":
    avifs()
    heics()
    large()
