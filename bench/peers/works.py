"""The works of the benchmark: which media become which tensors, and how near a contender has to come to the reference.

Differences are in steps of 8 bits (255 of them from black to white) for pictures, and in hundredths of a unit of
log-mel features for sound.
"""

import dataclasses

from contenders import CONTENDERS

SIDE = 384  # pixels of the fixed size
FRAMES = 8  # of a clip
MEAN, STD = 0.5, 0.5  # SigLIP's, of every channel
PASSES = 5  # over the files
WARM_PASSES = 1
TIMED_PASSES = 3  # those that follow keep the workers busy until the clock stops
WORKERS = 2


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """The greatest mean and single difference from the reference that a contender may have."""

    mean: float
    largest: float


EXACT = Tolerance(0, 0)
ROUNDED = Tolerance(0.6, 3)  # the same filter and decoder, rounded otherwise
OTHER_FILTER = Tolerance(6, 255)  # another filter or decoder
SOUND = Tolerance(2, 200)  # another resampler: quiet bands differ


@dataclasses.dataclass(frozen=True)
class Work:
    """A row of the table for each contender.

    Attributes:
        name: what --work takes.
        title: what the table and the bars show.
        media: the folder of files, made by media.py.
        output: what the tensors are; contenders go by it.
        files: number of samples of a pass, a multiple of batch. A pass has at least as many batches as loaders hold
            ready, and takes long enough to be timed.
        batch: samples of a batch.
        unit: what a difference of 1 is.
        scale: of the normalised tensors, to that unit.
        reference: the contender to whose tensors all others are compared.
        tolerances: of every contender that does this work.
        cannot: contender to the reason why it has no row.
        ours: the contender to which the others' times are compared.
        latency_ms: milliseconds after which a server that has the files answers; None: they lie on the disk.
        passes: over the files.
        warm_passes: those before the clock starts.
        data: the folder of its data set, where it is another work's.
    """

    name: str
    title: str
    media: str
    output: str
    files: int
    batch: int
    reference: str
    tolerances: dict
    cannot: dict
    unit: str = "of 255"
    scale: float = 127.5
    ours: str = "isocost"
    latency_ms: int | None = None
    passes: int = PASSES
    warm_passes: int = WARM_PASSES
    data: str = ""

    @property
    def folder(self):
        return self.data or self.name


PICTURES = {"isocost": ROUNDED, "isocost fast": OTHER_FILTER, "torchvision": ROUNDED, "pillow": EXACT,
            "pillow draft": OTHER_FILTER, "spdl": OTHER_FILTER, "dali": OTHER_FILTER, "webdataset": ROUNDED,
            "mosaic": ROUNDED}
FROM_SERVERS = {name: PICTURES[name] for name in ("isocost", "isocost fast", "webdataset", "mosaic")}
WITHOUT_FAST = {name: each for name, each in PICTURES.items() if name not in ("isocost fast", "pillow draft")}
FRAMES_OF = {"isocost": ROUNDED, "torchcodec": Tolerance(2, 255), "pyav": EXACT, "spdl": OTHER_FILTER}

# Why a contender has no row, unless the work says otherwise below.
NO_PICTURES = {"torchcodec": "is for video and sound: pictures are torchvision's row", "pyav": "is for video",
               "transformers": "see Qwen's tensors", "transformers pillow": "see Qwen's tensors",
               "isocost fast": "only JPEG can be scaled down while it is decoded",
               "pillow draft": "only JPEG can be scaled down while it is decoded",
               "dali": "no operator cuts pictures of different sizes into patches",
               "webdataset": "reads, and leaves decoding to torchvision: see there",
               "mosaic": "reads, and leaves decoding to torchvision: see there"}
NO_VIDEO = {"torchvision": "its video decoder has been removed in favour of torchcodec",
            "pillow": "decodes no video", "pillow draft": "decodes no video",
            "isocost fast": "exact and fast differ for JPEG alone",
            "dali": "has no H.264 on a CPU: its FFmpeg is built without (NVIDIA/DALI pull request 6352)",
            "webdataset": "reads, and leaves decoding to torchcodec: see there",
            "mosaic": "reads, and leaves decoding to torchcodec: see there",
            "transformers": "decodes by PyAV or torchcodec: see there",
            "transformers pillow": "decodes by PyAV or torchcodec: see there"}
NO_SOUND = {"torchvision": "decodes no sound", "pillow": "decodes no sound", "pillow draft": "decodes no sound",
            "isocost fast": "exact and fast differ for JPEG alone", "pyav": "see transformers",
            "torchcodec": "decodes for transformers' row", "webdataset": "reads, and leaves the rest: see transformers",
            "mosaic": "reads, and leaves the rest: see transformers", "transformers pillow": "the same as transformers"}
NO_QWEN = {**NO_PICTURES, "torchvision": "is inside transformers", "pillow": "is inside transformers",
           "pillow draft": "is not what transformers does", "spdl": "has no such operator: its users call transformers",
           "dali": "has no such operator", "webdataset": "reads, and leaves the rest: see transformers",
           "mosaic": "reads, and leaves the rest: see transformers"}
NO_NATIVE = {**NO_PICTURES, "isocost fast": "native28 is always fast",
             "pillow draft": "draft halves, and native sizes are not below half"}
NO_MIXTURE = {**NO_SOUND, "torchvision": "decodes the pictures of torchcodec's row",
              "isocost fast": "native28 is always fast", "pyav": "see torchcodec",
              "transformers": "makes the log-mel of torchcodec's row",
              "spdl": "not written: a pipeline for each kind of medium, and their join",
              "dali": "has no H.264 on a CPU, and no samples of several parts",
              "webdataset": "reads, and leaves the rest: see torchcodec", "mosaic": "as webdataset"}
READS_FILES = "reads files, not from a server"
NO_SERVER = {**NO_PICTURES, "torchvision": "reads files: see webdataset and mosaicml-streaming", "pillow": READS_FILES,
             "pillow draft": READS_FILES, "spdl": "leaves reading to a function of the user",
             "dali": "not written: its readers take addresses of S3"}
IN_CPP = {name: "a trainer in C++: see the work cpp" for name, each in CONTENDERS.items() if each.program}
NO_CPP = {name: "a loader in Python: see the work native" for name, each in CONTENDERS.items() if not each.program}


def work(name, title, media, output, files, batch, reference, tolerances, reasons, **more):
    """A Work whose reasons are those of the contenders that do not do it."""
    cannot = {each: {**IN_CPP, **reasons}[each] for each in CONTENDERS if each not in tolerances}
    return Work(name, title, media, output, files, batch, reference, tolerances, cannot, **more)


WORKS = (
    work("photographs", "photographs to 384×384", "photographs", "square", 144, 8, "pillow", PICTURES, NO_PICTURES),
    # A pass has more samples than a shard of mosaicml-streaming. Isocost reads up to 2,048 samples ahead: the passes
    # after the timed ones have as many, and the two before suffice until it is as far ahead as later.
    *(work(f"photographs_{latency}ms", f"photographs on a server that answers after {latency} ms, to 384×384",
           "photographs", "square", 432, 8, "pillow", FROM_SERVERS, NO_SERVER, latency_ms=latency, passes=10,
           warm_passes=2, data="photographs_server") for latency in (50, 500)),
    work("small", "small pictures to 384×384", "small", "square", 288, 16, "pillow", PICTURES, NO_PICTURES),
    work("png", "PNG to 384×384", "png", "square", 72, 8, "pillow", WITHOUT_FAST, NO_PICTURES),
    work("native", "photographs to native patches, fast", "photographs", "native", 144, 8, "pillow",
         {"isocost": OTHER_FILTER, "torchvision": ROUNDED, "pillow": EXACT, "spdl": OTHER_FILTER}, NO_NATIVE, scale=1),
    # Its trainers say which samples they got, which contenders/cpp_trainers.py checks.
    work("cpp", "photographs to native patches in C++, fast", "photographs", "native", 144, 8, "pillow",
         {"isocost c++": OTHER_FILTER, "isocost c++ unisolated": OTHER_FILTER, "torch c++": ROUNDED,
          "torch c++ fast": OTHER_FILTER, "pillow": EXACT}, NO_CPP, scale=1, ours="isocost c++"),
    work("qwen2_vl", "photographs to Qwen2-VL tensors", "photographs", "qwen2_vl", 48, 4, "transformers pillow",
         {"isocost": ROUNDED, "isocost fast": OTHER_FILTER, "transformers": ROUNDED, "transformers pillow": EXACT},
         NO_QWEN, scale=255 * 0.27),
    work("qwen3_5", "photographs to Qwen3.5 tensors", "photographs", "qwen3_5", 48, 4, "transformers pillow",
         {"isocost": ROUNDED, "isocost fast": OTHER_FILTER, "transformers": ROUNDED, "transformers pillow": EXACT},
         NO_QWEN),
    work("short_clips", "short clips, 8 frames of 384×384", "short_clips", "frames", 16, 2, "pyav", FRAMES_OF,
         NO_VIDEO),
    work("long_clips", "long clips, 8 frames of 384×384", "long_clips", "frames", 4, 1, "pyav", FRAMES_OF, NO_VIDEO),
    work("speech", "speech to Whisper's log-mel", "speech", "log_mel", 384, 8, "transformers",
         {"isocost": SOUND, "transformers": EXACT, "spdl": SOUND, "dali": SOUND}, NO_SOUND,
         unit="hundredths of log-mel", scale=100),
    work("mixture", "mixture to native patches, log-mel and bytes, fast", "mixture", "mixture", 192, 8, "torchcodec",
         {"isocost": OTHER_FILTER, "torchcodec": EXACT}, NO_MIXTURE, scale=1),
)


def work_of(name):
    return next(each for each in WORKS if each.name == name)
