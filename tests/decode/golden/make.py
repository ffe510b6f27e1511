#!/usr/bin/env python3
"""Makes the media of this folder and, beside each, the pixels that another decoder reads from it.

    pip install pillow && python3 make.py      # needs the ffmpeg program, too

TIFF, AVIF and HEIC files are made by make_tiffs.py and make_heifs.py afterwards, rare kinds by make_rare.py.

Pictures are read by Pillow, videos by the ffmpeg program. NAME.ppm holds the pixels of NAME: RGB,
transparency composed on white; of a video, the last frame. truncated.txt has a line for each file
that was cut after some bytes: its name, these bytes, and the CRC-32 of the pixels that Pillow makes
of it with LOAD_TRUNCATED_IMAGES, or "refused"; so has truncated_progressive.txt. Made with Pillow 13.0 and ffmpeg 5.1.
tests/decode/golden_test.cc says how close Isocost must be.
"""

import io
import pathlib
import struct
import subprocess
import zlib

from PIL import Image, ImageFile, ImageOps

FOLDER = pathlib.Path(__file__).parent
WIDTH, HEIGHT = 21, 18  # odd, so that rows and subsampled colours end in the middle of something
FRAME, FRAMES = 32, 5
PROGRESSIVE = "progressive.jpg"


def pixel(x, y, time=0):
    """A gradient with a sharp edge and a pattern that compresses badly."""
    noise = (x * 7919 + y * 104729 + time * 1299709) % 61
    edge = 90 if (x + y + 3 * time) % 16 < 8 else 0
    return ((9 * x + noise) % 256, (11 * y + edge) % 256, (5 * x + 4 * y + 10 * time + noise) % 256)


def picture(width=WIDTH, height=HEIGHT):
    image = Image.new("RGB", (width, height))
    image.putdata([pixel(x, y) for y in range(height) for x in range(width)])
    return image


def with_alpha(image):
    width, height = image.size
    alpha = Image.new("L", image.size)
    alpha.putdata([min(255, 17 * x + 3 * y) for y in range(height) for x in range(width)])
    image = image.convert("RGBA")
    image.putalpha(alpha)
    return image


def on_white(image):
    if image.mode == "I;16":  # grey of 16 bits: the upper byte, as Pillow does with colours
        image = Image.frombytes("L", image.size, image.tobytes()[1::2])
    if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def write_ppm(name, width, height, rgb):
    assert len(rgb) == width * height * 3, name
    (FOLDER / (name + ".ppm")).write_bytes(b"P6\n%d %d\n255\n" % (width, height) + rgb)


def keep(name, data):
    (FOLDER / name).write_bytes(data)
    image = on_white(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    write_ppm(name, *image.size, image.tobytes())


def save(name, image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    keep(name, out.getvalue())


def jpegs():
    image = picture()
    for name, subsampling in (("444", 0), ("422", 1), ("420", 2), ("411", "4:1:1")):
        save(f"{name}.jpg", image, "JPEG", quality=90, subsampling=subsampling)
    save("progressive.jpg", image, "JPEG", quality=80, progressive=True, subsampling=2)
    save("optimized_restarts.jpg", image, "JPEG", quality=70, optimize=True, restart_marker_blocks=2)
    save("grey.jpg", image.convert("L"), "JPEG", quality=90)
    save("rgb.jpg", image, "JPEG", quality=90, keep_rgb=True)
    save("cmyk.jpg", image.convert("CMYK"), "JPEG", quality=95)
    exif = Image.Exif()
    for orientation in (3, 6):
        exif[0x0112] = orientation
        save(f"orientation{orientation}.jpg", picture(28, 56), "JPEG", quality=90, exif=exif)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pack_row(samples, depth):
    """The samples of a row, each of `depth` bits; the last byte is filled with zeros."""
    bits = "".join(f"{sample:0{depth}b}" for sample in samples)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def png(colour_type, depth, samples_at, more=b"", interlaced=False):
    """A PNG of any colour type and depth. `samples_at(x, y)`: the samples of a pixel."""
    body = b""
    for left, top, right, down in ADAM7 if interlaced else ((0, 0, 1, 1),):
        for y in range(top, HEIGHT, down):
            row = [sample for x in range(left, WIDTH, right) for sample in samples_at(x, y)]
            if row:
                body += b"\0" + pack_row(row, depth)
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour_type, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + more
            + chunk(b"IDAT", zlib.compress(body, 9)) + chunk(b"IEND", b""))


def pngs():
    grey, rgb, palette, grey_alpha, rgba = 0, 2, 3, 4, 6

    def wide(values):  # 16 bits whose lower byte is not the upper one
        return [value << 8 | (value * 37 + 200) % 256 for value in values]

    def alpha(x, y):
        return min(255, 17 * x + 3 * y)

    for depth in (1, 2, 4, 8):
        keep(f"grey{depth}.png", png(grey, depth, lambda x, y, d=depth: [pixel(x, y)[1] >> (8 - d)]))
        colours = bytes(value for i in range(1 << depth) for value in pixel(i, 3 * i))
        keep(f"palette{depth}.png",
             png(palette, depth, lambda x, y, d=depth: [pixel(x, y)[0] >> (8 - d)], chunk(b"PLTE", colours)))
    keep("grey16.png", png(grey, 16, lambda x, y: wide([pixel(x, y)[1]])))
    keep("rgb8.png", png(rgb, 8, pixel))
    keep("rgb16.png", png(rgb, 16, lambda x, y: wide(pixel(x, y))))
    keep("grey_alpha8.png", png(grey_alpha, 8, lambda x, y: [pixel(x, y)[1], alpha(x, y)]))
    keep("grey_alpha16.png", png(grey_alpha, 16, lambda x, y: wide([pixel(x, y)[1], alpha(x, y)])))
    keep("rgba8.png", png(rgba, 8, lambda x, y: [*pixel(x, y), alpha(x, y)]))
    keep("rgba16.png", png(rgba, 16, lambda x, y: wide([*pixel(x, y), alpha(x, y)])))
    keep("interlaced.png", png(rgb, 8, pixel, interlaced=True))
    keep("interlaced4.png", png(grey, 4, lambda x, y: [pixel(x, y)[1] >> 4], interlaced=True))
    keep("palette_transparent.png",
         png(palette, 2, lambda x, y: [pixel(x, y)[0] >> 6],
             chunk(b"PLTE", bytes(range(20, 140, 10))) + chunk(b"tRNS", bytes([0, 90, 200]))))
    keep("rgb_transparent.png",
         png(rgb, 8, lambda x, y: [v & 0xC0 for v in pixel(x, y)],
             chunk(b"tRNS", struct.pack(">HHH", *[v & 0xC0 for v in pixel(9, 9)]))))


def webps():
    image = picture()
    save("lossy.webp", image, "WEBP", quality=80)
    save("lossless.webp", image, "WEBP", lossless=True)
    save("lossy_alpha.webp", with_alpha(image), "WEBP", quality=80)
    save("lossless_alpha.webp", with_alpha(image), "WEBP", lossless=True)
    save("animated.webp", image, "WEBP", save_all=True, append_images=[image.rotate(180)], lossless=True)


def gifs():
    image = picture()
    few = image.quantize(13, dither=Image.Dither.NONE)
    save("interlaced.gif", image.quantize(64, dither=Image.Dither.NONE), "GIF", interlace=1)
    save("plain.gif", few, "GIF", interlace=0)
    save("transparent.gif", few, "GIF", transparency=few.getpixel((4, 4)))
    save("animated.gif", few, "GIF", save_all=True,
         append_images=[image.rotate(180).quantize(9, dither=Image.Dither.NONE)])


def bmps():
    image = picture()
    save("black_white.bmp", image.convert("1", dither=Image.Dither.NONE), "BMP")
    save("palette.bmp", image.quantize(16, dither=Image.Dither.NONE), "BMP")
    save("grey.bmp", image.convert("L"), "BMP")
    save("rgb.bmp", image, "BMP")
    keep("rgb555.bmp", ffmpeg_bmp(image, "rgb555le"))
    keep("rgb565.bmp", ffmpeg_bmp(image, "rgb565le"))
    keep("top_down.bmp", upside_down_bmp(image))
    keep("rle8.bmp", rle8_bmp(image))


def ffmpeg_bmp(image, pixel_format):
    return run_ffmpeg(raw_input(*image.size, 1), image.tobytes(),
                      ["-c:v", "bmp", "-pix_fmt", pixel_format, "-f", "image2pipe", "-"])


def bmp(bits, compression, height, palette, body):
    offset = 54 + len(palette)
    info = struct.pack("<IiiHHIIiiII", 40, WIDTH, height, 1, bits, compression, len(body), 2835, 2835,
                       len(palette) // 4, 0)
    return b"BM" + struct.pack("<IHHI", offset + len(body), 0, 0, offset) + info + palette + body


def upside_down_bmp(image):
    rows = [b"".join(bytes(reversed(image.getpixel((x, y)))) for x in range(WIDTH)) for y in range(HEIGHT)]
    return bmp(24, 0, -HEIGHT, b"", b"".join(row + b"\0" * (-len(row) % 4) for row in rows))


def rle8_bmp(image):
    """Runs and, for every third row, literal pixels."""
    image = image.quantize(8, dither=Image.Dither.NONE)
    palette = image.getpalette()[:24]
    table = b"".join(bytes([*reversed(palette[3 * i:3 * i + 3]), 0]) for i in range(8))
    body = b""
    for y in reversed(range(HEIGHT)):
        row = bytes(image.getpixel((x, y)) for x in range(WIDTH))
        if y % 3 == 0:
            body += bytes([0, WIDTH]) + row + b"\0" * (WIDTH % 2)
        else:
            body += b"".join(bytes([1, value]) for value in row)
        body += b"\0\0"
    return bmp(8, 1, HEIGHT, table, body + b"\0\1")


def with_masks_bmp(image):
    """32 bits whose masks name an alpha channel, in a header of version 4."""
    width, height = image.size
    body = b"".join(bytes(image.getpixel((x, y))) for y in reversed(range(height)) for x in range(width))
    info = struct.pack("<IiiHHIIiiIIIIII", 108, width, height, 1, 32, 3, len(body), 2835, 2835, 0, 0,
                       0xFF, 0xFF00, 0xFF0000, 0xFF000000).ljust(108, b"\0")
    return b"BM" + struct.pack("<IHHI", 122 + len(body), 0, 0, 122) + info + body


# Properties that files have in the wild, each of which some reader refuses or reads otherwise.


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def exif(kind, count, value, more=b""):
    """An EXIF block that states an orientation as `count` values of TIFF's type `kind`; `more` begins at offset 26."""
    return (b"II*\0" + struct.pack("<IHHHI", 8, 1, 0x0112, kind, count) + value.ljust(4, b"\0")
            + struct.pack("<I", 0) + more)


EXIF_6 = exif(3, 1, struct.pack("<H", 6))
XMP_6 = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
XMP_6_ELEMENT = b"<rdf:Description><tiff:Orientation>6</tiff:Orientation></rdf:Description>"


def jpeg_with(*segments):
    data = saved(picture(28, 56), "JPEG", quality=90)
    return data[:2] + b"".join(b"\xff\xe1" + struct.pack(">H", len(one) + 2) + one for one in segments) + data[2:]


def orientations():
    name, xmp = b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0"
    keep("orientation_long.jpg", jpeg_with(name + exif(4, 1, struct.pack("<I", 6))))
    keep("orientation_rational.jpg", jpeg_with(name + exif(5, 1, struct.pack("<I", 26), struct.pack("<II", 12, 2))))
    keep("orientation_apart.jpg", jpeg_with(name + exif(4, 2, struct.pack("<I", 26), struct.pack("<II", 6, 1))))
    keep("orientation_byte.jpg", jpeg_with(name + exif(1, 1, b"\6")))  # bytes are no number to Pillow
    keep("orientation_xmp.jpg", jpeg_with(xmp + XMP_6))
    keep("orientation_exif_before_xmp.jpg", jpeg_with(xmp + XMP_6, name + exif(3, 1, struct.pack("<H", 3))))
    keep("orientation_xmp.webp", saved(picture(28, 56), "WEBP", lossless=True, xmp=XMP_6_ELEMENT))
    keep("orientation_exif.webp", saved(picture(28, 56), "WEBP", lossless=True, exif=name + EXIF_6))
    data = saved(picture(28, 56), "PNG")
    lines = f"\nexif\n{len(EXIF_6) + 6:8}\n{(name + EXIF_6).hex()[:72]}\n{(name + EXIF_6).hex()[72:]}\n".encode()
    for kind, one in (("exif", chunk(b"eXIf", EXIF_6)),
                      ("xmp", chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP_6)),
                      ("compressed_xmp", chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(XMP_6))),
                      ("raw_profile", chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(lines)))):
        keep(f"orientation_{kind}.png", data[:33] + one + data[33:])
        keep(f"orientation_{kind}_after.png", data[:-12] + one + data[-12:])
    twice = data[:33] + chunk(b"eXIf", exif(3, 1, struct.pack("<H", 3))) + data[33:-12]
    keep("orientation_exif_before_and_after.png", twice + chunk(b"eXIf", EXIF_6) + data[-12:])


def damaged_chunk(kind, data):
    return chunk(kind, data)[:-1] + b"\0"


def pngs_with_faults():
    """All pixels are there, and what is not right lies elsewhere."""
    for name, data in (("", png(2, 8, pixel)), ("interlaced_", png(2, 8, pixel, interlaced=True))):
        at, end = data.index(b"IDAT") - 4, len(data) - 12
        before, after = data[:at], data[end:]
        stream = data[at + 8:end - 4]
        keep(f"{name}wrong_crc.png", before + damaged_chunk(b"IDAT", stream) + after)
        keep(f"{name}without_end.png", data[:end])
        keep(f"{name}without_last_crc.png", data[:end - 4])
        keep(f"{name}without_adler.png", before + chunk(b"IDAT", stream[:-4]) + after)
        keep(f"{name}wrong_crc_after.png", data[:end] + damaged_chunk(b"tEXt", b"a\0b") + damaged_chunk(b"IEND", b""))
        keep(f"{name}garbage_after.png", data[:end] + b"garbage garbage garbage")
        keep(f"{name}more_rows.png",
             before + chunk(b"IDAT", zlib.compress(zlib.decompress(stream) + bytes(1 + 3 * WIDTH))) + after)
        keep(f"{name}more_bytes.png", before + chunk(b"IDAT", stream + b"more") + after)
        keep(f"{name}many_texts.png", before + chunk(b"tEXt", b"a\0b") * 1200 + data[at:])
        keep(f"{name}bad_profile.png", before + chunk(b"iCCP", b"a\0\0no profile") + data[at:])
        keep(f"{name}unknown_chunk.png", before + chunk(b"ABCD", b"critical by its name") + data[at:])


def others_with_faults():
    image = picture()
    data = bytearray(saved(image.quantize(13, dither=Image.Dither.NONE), "GIF", interlace=0))
    data[6:10] = struct.pack("<HH", WIDTH - 5, HEIGHT - 3)  # The picture is larger than its canvas,
    keep("leaves_canvas.gif", bytes(data))
    at = data.index(b"\x2c" + struct.pack("<HHHH", 0, 0, WIDTH, HEIGHT))
    data[at + 1:at + 5] = struct.pack("<HH", 2, 4)  # and does not begin at its corner.
    keep("leaves_canvas_aside.gif", bytes(data))
    save("rgba_without_masks.bmp", with_alpha(image), "BMP")
    keep("rgba_with_masks.bmp", with_masks_bmp(with_alpha(image)))
    data = saved(picture(64, 64), "JPEG", quality=90, restart_marker_blocks=4)
    keep("missing_restart.jpg", data.replace(b"\xff\xd1", b"", 1))


def pixels_of_truncated(data):
    """Returns the CRC-32 of what Pillow reads, or "refused"."""
    try:
        image = Image.open(io.BytesIO(data))
        image.load()
        return f"{zlib.crc32(on_white(ImageOps.exif_transpose(image)).tobytes()):08x}"
    except (OSError, SyntaxError, ValueError):
        return "refused"


# Pictures that are not cut: Pillow refuses what ends within bytes after the picture, and takes a picture in runs whose
# only the end mark is missing.
NOT_CUT = ("garbage_after.png", "interlaced_garbage_after.png", "rle8.bmp")


def truncated(table, names):
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    lines = []
    for name in names:
        data = (FOLDER / name).read_bytes()
        cuts = {len(data) * part // 15 for part in range(1, 15)} | {len(data) - less for less in (1, 3, 9, 14)}
        lines += [f"{name} {cut} {pixels_of_truncated(data[:cut])}\n" for cut in sorted(cuts)]
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    (FOLDER / table).write_text("".join(lines))


def truncated_pictures():
    """Upright ones, since the others have the same codecs."""
    files = [file for file in sorted(FOLDER.iterdir()) if file.suffix in (".jpg", ".png", ".gif", ".bmp", ".webp")]
    truncated("truncated.txt", [file.name for file in files if not file.name.startswith("orientation") and
                                file.name not in (*NOT_CUT, PROGRESSIVE)])


def truncated_progressive():
    """Run it alone with the Pillow of Debian 12: libjpeg-turbo 3 smooths the blocks of such a file in another way than
    libjpeg-turbo 2.1, which decodes here."""
    truncated("truncated_progressive.txt", [PROGRESSIVE])


def raw_input(width, height, rate):
    return ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(rate), "-i", "-"]


def run_ffmpeg(before, data, after):
    command = ["ffmpeg", "-v", "error", "-y", *before, *after]
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def video(name, codec, *options, decoder=None, pixel_format="yuv420p"):
    frames = b"".join(bytes(value for y in range(FRAME) for x in range(FRAME) for value in pixel(x, y, t))
                      for t in range(FRAMES))
    path = FOLDER / name
    run_ffmpeg(raw_input(FRAME, FRAME, 10), frames,
               ["-pix_fmt", pixel_format, "-c:v", codec, *options, "-fflags", "+bitexact", str(path)])
    chosen = ["-c:v", decoder] if decoder else []
    # The flags are those of the loader: what is compared is decoding, and the choice of the matrix
    # and range of colours.
    rgb = run_ffmpeg([*chosen, "-i", str(path)], b"",
                     ["-vf", f"select=eq(n\\,{FRAMES - 1}),scale=flags=bicubic+accurate_rnd+full_chroma_int",
                      "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"])
    write_ppm(name, FRAME, FRAME, rgb)


def videos():
    x264 = ("-x264-params", "bframes=2", "-crf", "20")
    video("h264.mp4", "libx264", *x264)
    video("h264_full_range.mp4", "libx264", *x264, "-vf", "scale=out_range=full", "-color_range", "pc")
    video("h264_bt709.mkv", "libx264", *x264, "-vf", "scale=out_color_matrix=bt709", "-colorspace", "bt709")
    video("h264_444.mkv", "libx264", *x264, pixel_format="yuv444p")
    video("hevc.mp4", "libx265", "-x265-params", "log-level=error:info=0", "-crf", "20")
    video("hevc_10bit.mkv", "libx265", "-x265-params", "log-level=error:info=0", "-crf", "20",
          pixel_format="yuv420p10le")
    # Their decoders here are other programs than the ones that libavcodec prefers.
    video("vp8.webm", "libvpx", "-crf", "10", "-b:v", "1M", decoder="libvpx")
    video("vp9.webm", "libvpx-vp9", "-crf", "20", "-b:v", "0", decoder="libvpx-vp9")
    video("av1.mp4", "libaom-av1", "-crf", "20", "-cpu-used", "6", decoder="libaom-av1")
    video("mpeg4.mp4", "mpeg4", "-qscale:v", "3")


def main():
    for old in FOLDER.iterdir():
        if old.suffix != ".py" and old.name != "truncated_progressive.txt":
            old.unlink()
    for make in (jpegs, pngs, webps, gifs, bmps, orientations, pngs_with_faults, others_with_faults,
                 truncated_pictures, videos):
        make()


if __name__ == "__main__":
    main()
