"""Loads the same conversations by torch's DataLoader and the model's own processor: padded microbatches of a fixed
number of samples, as a training script without Isocost has them."""

import re

import torch
import transformers
from PIL import Image

ROLES = {"human": "user", "gpt": "assistant"}
FPS, LEAST_FRAMES, FRAME_MULTIPLE = 2, 4, 2


def frames_of(path):
    """Two frames a second, evenly spaced, and an even number of them: uint8 [frames, height, width, 3]."""
    import cv2
    import numpy

    video = cv2.VideoCapture(str(path))
    count, fps = int(video.get(cv2.CAP_PROP_FRAME_COUNT)), video.get(cv2.CAP_PROP_FPS)
    wanted = max(LEAST_FRAMES, int(count / fps * FPS) // FRAME_MULTIPLE * FRAME_MULTIPLE)
    wanted = set(numpy.linspace(0, count - 1, min(wanted, count)).round().astype(int).tolist())
    frames = []
    for at in range(count):
        if not video.grab():
            break
        if at in wanted:
            frames.append(cv2.cvtColor(video.retrieve()[1], cv2.COLOR_BGR2RGB))
    video.release()
    return numpy.stack(frames)


def part_of(text):
    return {"type": text[1:-1]} if text in ("<image>", "<video>") else {"type": "text", "text": text}


class Conversations(torch.utils.data.Dataset):
    """(messages, pictures, clips) of each record."""

    def __init__(self, records, media):
        self.records, self.media = records, media

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        record = self.records[index]
        messages = [{"role": ROLES[turn["from"]],
                     "content": [part_of(text) for text in re.split("(<image>|<video>)", turn["value"]) if text]}
                    for turn in record["conversations"]]
        pictures = [Image.open(self.media / name).convert("RGB") for name in record.get("image", [])]
        return messages, pictures, [frames_of(self.media / name) for name in record.get("video", [])]


class Collator:
    """Pads the samples of a microbatch. Labels are the texts, without what represents media."""

    def __init__(self, directory):
        self.processor = transformers.AutoProcessor.from_pretrained(directory)
        self.processor.tokenizer.padding_side = "right"
        tokenizer = self.processor.tokenizer
        self.media_ids = [tokenizer.convert_tokens_to_ids(token) for token in ("<|image_pad|>", "<|video_pad|>")]

    def __call__(self, samples):
        texts = [self.processor.apply_chat_template(messages, tokenize=False) for messages, _, _ in samples]
        pictures = [picture for _, own, _ in samples for picture in own]
        clips = [clip for _, _, own in samples for clip in own]
        batch = self.processor(text=texts, images=pictures or None, videos=clips or None, padding=True,
                               return_tensors="pt", videos_kwargs={"do_sample_frames": False, "fps": FPS})
        hidden = (batch["attention_mask"] == 0) | torch.isin(batch["input_ids"], torch.tensor(self.media_ids))
        return {**batch, "labels": batch["input_ids"].masked_fill(hidden, -100)}


def microbatches(records, media, directory, samples, workers, device):
    """Yields (arguments of the model on the device, tokens without padding) without end."""
    loader = torch.utils.data.DataLoader(Conversations(records, media), samples, shuffle=True, num_workers=workers,
                                         collate_fn=Collator(directory), drop_last=True, pin_memory=device == "cuda",
                                         persistent_workers=workers > 0)
    while True:
        for batch in loader:
            tokens = int(batch["attention_mask"].sum())
            yield {name: value.to(device, non_blocking=True) if isinstance(value, torch.Tensor) else value
                   for name, value in batch.items()}, tokens
