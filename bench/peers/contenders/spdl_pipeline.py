"""SPDL's pipeline: threads around its FFmpeg-based decoding, batches as its image and video examples make them."""

import spdl.io
import spdl.pipeline
import torch
from works import MEAN, SIDE, STD

from contenders.geometry import frame_numbers, native_size, patches
from contenders.settings import SETTINGS

SET = SETTINGS["spdl_pipeline"]
SCALE = spdl.io.get_video_filter_desc(scale_width=SIDE, scale_height=SIDE, scale_algo=SET["scale_algo"],
                                      scale_mode=None, pix_fmt="rgb24")


def normalised(buffer):
    """float32 [pictures, 3, height, width] of uint8 [pictures, height, width, 3]."""
    pictures = spdl.io.to_torch(buffer).permute(0, 3, 1, 2)
    return pictures.to(torch.float32, memory_format=torch.contiguous_format).sub_(255 * MEAN).div_(255 * STD)


def square(paths):
    return normalised(spdl.io.load_image_batch(paths, width=None, height=None, filter_desc=SCALE))


def native(paths):
    return torch.cat([native_picture(path) for path in paths])


def native_picture(path):
    packets = spdl.io.demux_image(path)
    codec = packets.codec
    width, height = native_size(codec.width, codec.height)
    scale = spdl.io.get_video_filter_desc(scale_width=width, scale_height=height, scale_algo="bilinear",
                                          scale_mode=None, pix_fmt="rgb24")
    pixels = spdl.io.to_torch(spdl.io.convert_frames(spdl.io.decode_packets(packets, filter_desc=scale)))
    return patches(pixels.reshape(height, width, 3).permute(2, 0, 1))


def frames(paths):
    return torch.stack([clip(path) for path in paths])


def clip(path):
    packets = spdl.io.demux_video(path)
    sampled = spdl.io.sample_decode_video(packets, frame_numbers(len(packets)), filter_desc=SCALE)
    return normalised(spdl.io.convert_frames(sampled))


class LogMel:
    """transformers' features of sound that SPDL decodes."""

    def __init__(self, model):
        from contenders.transformers_loader import features

        self.features = features(model)
        self.filter = spdl.io.get_audio_filter_desc(sample_rate=16000, sample_fmt="fltp")

    def __call__(self, paths):
        return torch.stack([self.features(self.samples(path)) for path in paths])

    def samples(self, path):
        """float32 [samples], the mean of the channels, as of torchcodec."""
        return spdl.io.to_torch(spdl.io.load_audio(path, filter_desc=self.filter)).mean(0)


def batches(work, data, variant, ordered):
    prepare = {"square": lambda: square, "native": lambda: native, "frames": lambda: frames,
               "log_mel": lambda: LogMel(data.model)}[work.output]()
    pipeline = (spdl.pipeline.PipelineBuilder()
                .add_source(map(str, data.all_files))
                .aggregate(work.batch)
                .pipe(prepare, concurrency=SET["concurrency"],
                      output_order="input" if ordered else SET["output_order"])
                .add_sink(SET["sink"])
                .build(num_threads=SET["num_threads"]))
    with pipeline.auto_stop():
        yield from pipeline
