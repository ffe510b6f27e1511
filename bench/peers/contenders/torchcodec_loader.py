"""torch's DataLoader around torchcodec, and for the mixture around torchvision and transformers' features, too."""

import torch
from torchcodec.decoders import AudioDecoder, VideoDecoder
from torchvision.io import ImageReadMode, decode_image, read_file
from torchvision.transforms import InterpolationMode, v2
from works import MEAN, SIDE, STD

from contenders import torch_files, torchvision_loader
from contenders.geometry import frame_numbers, native_size, patches
from contenders.settings import SETTINGS

SET = SETTINGS["torchcodec_loader"]
BOS, EOS, VISION, AUDIO = 256, 257, 258, 259  # of native28's byte tokens
PICTURES, SOUNDS, TEXT = ("png", "jpg"), ("ogg", "wav", "flac", "mp3", "opus"), "txt"
MOST_FRAMES = 32
DECODER = {name: SET[name] for name in ("seek_mode", "num_ffmpeg_threads")}
TO_SQUARE = v2.Compose([v2.Resize((SIDE, SIDE), interpolation=InterpolationMode[SET["resize"]], antialias=True),
                        v2.ToDtype(torch.float32, scale=True), v2.Normalize([MEAN] * 3, [STD] * 3, inplace=True)])
RATE, WINDOW_S, BINS = 16000, 30, 128


def clip(path):
    """float32 [frames, 3, 384, 384]."""
    decoder = VideoDecoder(path, **DECODER)
    return TO_SQUARE(decoder.get_frames_at(frame_numbers(decoder.metadata.num_frames)).data)


def waveform(path):
    """float32 [samples] at 16 kHz, the mean of the channels: FFmpeg's own mixing is louder by the root of 2.

    An Ogg file's end is where its last page says; FFmpeg decodes up to 0.05 s less or more of a short one."""
    decoder = AudioDecoder(path, sample_rate=RATE)
    samples = decoder.get_all_samples().data.mean(0)
    if not path.endswith(".ogg"):
        return samples
    missing = round(decoder.metadata.duration_seconds_from_header * RATE) - len(samples)
    return torch.nn.functional.pad(samples, (0, missing))


class Mixture:
    """The tensors of native28: patches, log-mel, bytes."""

    def __init__(self):
        import transformers

        self.extractor = transformers.WhisperFeatureExtractor(feature_size=BINS)

    def __call__(self, sample):
        pixels, mel, tokens = [], [], [BOS]
        for name, value in sample:
            kind = name.rpartition(".")[2]
            if kind == TEXT:
                tokens += value.encode()
            elif kind in SOUNDS:
                made = self.sound(value)
                mel += made
                tokens += [AUDIO] * (sum(map(len, made)) // 4)
            else:
                made = [self.picture(value)] if kind in PICTURES else self.video(value)
                pixels += made
                tokens += [VISION] * (sum(map(len, made)) // 4)
        return {"vision_patches": pixels, "audio_mel": mel, "input_ids": [torch.tensor([*tokens, EOS])]}

    def picture(self, path):
        if not path.endswith("png"):
            return torchvision_loader.native(path)
        pixels = decode_image(read_file(path), ImageReadMode.RGB_ALPHA)
        alpha = pixels[3:].float() / 255  # on white
        return torchvision_loader.to_native((pixels[:3] * alpha + 255 * (1 - alpha)).round_().to(torch.uint8))

    def video(self, path):
        decoder = VideoDecoder(path, **DECODER)
        seconds = decoder.metadata.duration_seconds
        count = min(MOST_FRAMES, max(1, int(seconds)))
        frames = decoder.get_frames_played_at([(2 * i + 1) / (2 * count) * seconds for i in range(count)]).data
        width, height = native_size(frames.shape[3], frames.shape[2], "frame")
        resized = v2.functional.resize(frames, [height, width], InterpolationMode.BILINEAR, antialias=True)
        return [patches(frame) for frame in resized]

    def sound(self, path):
        """Log-mel [frames, bins] of each window of at most 30 s, frames filled up to a multiple of 4."""
        samples, windows = waveform(path), []
        for first in range(0, len(samples), RATE * WINDOW_S):
            part = samples[first:first + RATE * WINDOW_S]
            filled = torch.nn.functional.pad(part, (0, -len(part) % (4 * self.extractor.hop_length)))
            windows.append(self.extractor(filled.numpy(), sampling_rate=RATE, padding="do_not_pad",
                                          return_tensors="pt").input_features[0].T)
        return windows


def collate(samples):
    """Each tensor of all samples, joined along the first dimension; those that no sample has are left out."""
    joined = {name: [part for sample in samples for part in sample[name]] for name in samples[0]}
    return {name: torch.cat(parts) for name, parts in joined.items() if parts}


def batches(work, data, variant, ordered):
    if work.output == "mixture":
        return torch_files.loader(data.samples * data.passes, Mixture(), work, SET, collate)
    return torch_files.loader(data.all_files, clip, work, SET)
