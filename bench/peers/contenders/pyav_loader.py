"""torch's DataLoader around PyAV and Pillow: every frame up to the last wanted one is decoded, as transformers does."""

import av
import torch
from PIL import Image
from works import MEAN, SIDE, STD

from contenders import torch_files
from contenders.geometry import frame_numbers
from contenders.settings import SETTINGS

SET = SETTINGS["pyav_loader"]
FILTER = Image.Resampling[SET["resample"]]



def clip(path):
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = SET["thread_count"]
        wanted = frame_numbers(stream.frames)
        pictures = []
        for i, frame in enumerate(container.decode(stream)):
            if i in wanted:
                picture = Image.fromarray(frame.to_ndarray(format="rgb24")).resize((SIDE, SIDE), FILTER)
                pictures.append(torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8))
            if i == wanted[-1]:
                break
    values = torch.stack(pictures).view(len(pictures), SIDE, SIDE, 3).permute(0, 3, 1, 2)
    return values.to(torch.float32, memory_format=torch.contiguous_format).sub_(255 * MEAN).div_(255 * STD)


def batches(work, data, variant, ordered):
    return torch_files.loader(data.all_files, clip, work, SET)
