"""torch's DataLoader around a model's own processor: of images over torchvision or Pillow (Qwen2-VL's class, which
is Qwen3.5's, too), Whisper's."""

import torch
import transformers
from PIL import Image
from torchvision.io import ImageReadMode, decode_image, read_file

from contenders import torch_files
from contenders.settings import SETTINGS

SET = SETTINGS["transformers_loader"]

RATE = 16000


class Patches:
    """Each backend is given pictures as it takes them best: the one a tensor, the other a PIL image."""

    def __init__(self, model, backend):
        self.is_tensor = backend == "torchvision"
        if hasattr(transformers, "Qwen2VLImageProcessorPil"):  # since transformers 5
            made = transformers.Qwen2VLImageProcessor if self.is_tensor else transformers.Qwen2VLImageProcessorPil
        else:
            made = transformers.Qwen2VLImageProcessorFast if self.is_tensor else transformers.Qwen2VLImageProcessor
        self.processor = made.from_pretrained(model)

    def __call__(self, path):
        if self.is_tensor:
            picture = decode_image(read_file(path), ImageReadMode.RGB)
        else:
            with Image.open(path) as image:
                picture = image.convert("RGB")
        return self.processor(picture, return_tensors="pt")["pixel_values"]


def features(model):
    """A function from float32 [samples] to log-mel [bins, 3000]."""
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(model)

    def apply(samples):
        return extractor(samples.numpy(), sampling_rate=RATE, return_tensors="pt").input_features[0]

    return apply


class LogMel:
    def __init__(self, model):
        self.features = features(model)

    def __call__(self, path):
        from contenders.torchcodec_loader import waveform

        return self.features(waveform(path))


def batches(work, data, variant, ordered):
    if work.output == "log_mel":
        return torch_files.loader(data.all_files, LogMel(data.model), work, SET)
    return torch_files.loader(data.all_files, Patches(data.model, variant or SET["backend"]), work, SET, torch.cat)
