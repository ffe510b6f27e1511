"""Fine-tunes a vision-language model of transformers on WebDataset shards of LLaVA's conversations: before Isocost.

    python examples/huggingface/finetune_before.py --data SHARDS --model DIR --output OUT
    torchrun --nproc-per-node 2 examples/huggingface/finetune_before.py --data SHARDS --model DIR --output OUT

`finetune.py` is the same script with Isocost's loader; README.md shows the difference.
"""

import argparse
import io
import itertools
import json
import os
import pathlib
import re
import tarfile

import torch
import torch.distributed as dist
import transformers
from PIL import Image, ImageOps

ROLES = {"system": "system", "human": "user", "gpt": "assistant"}


class Conversations(torch.utils.data.Dataset):
    """The messages of each sample, and its images."""

    def __init__(self, directory):
        samples = {}
        for shard in sorted(pathlib.Path(directory).glob("*.tar")):
            with tarfile.open(shard) as tar:
                for member in tar:
                    key, _, name = member.name.partition(".")
                    samples.setdefault((shard, key), []).append((name, member.offset_data, member.size))
        self.samples = list(samples.items())

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        (shard, _), parts = self.samples[index]
        images = []
        with open(shard, "rb") as file:
            for name, offset, size in parts:
                file.seek(offset)
                body = file.read(size)
                if name.endswith("json"):
                    turns = json.loads(body)["conversations"]
                else:
                    images.append(ImageOps.exif_transpose(Image.open(io.BytesIO(body))).convert("RGB"))
        return [{"role": ROLES[turn["from"]],
                 "content": [{"type": "image"} if text == "<image>" else {"type": "text", "text": text}
                             for text in re.split("(<image>)", turn["value"]) if text]} for turn in turns], images


class Collator:
    """Pads the samples of a microbatch, and labels what the assistant writes."""

    def __init__(self, directory):
        self.processor = transformers.AutoProcessor.from_pretrained(directory)
        tokenizer = self.processor.tokenizer
        tokenizer.padding_side = "right"
        self.head = tokenizer("<|im_start|>assistant\n").input_ids
        self.end = tokenizer.convert_tokens_to_ids("<|im_end|>")

    def __call__(self, samples):
        texts = [self.processor.apply_chat_template(messages) for messages, _ in samples]
        images = [image for _, images in samples for image in images]
        batch = self.processor(text=texts, images=images or None, padding=True, return_tensors="pt")
        return {**batch, "labels": torch.tensor([self.labels(ids) for ids in batch["input_ids"].tolist()])}

    def labels(self, ids):
        labels, learnt = [], False
        for i, token in enumerate(ids):
            learnt = learnt or ids[max(0, i - len(self.head)):i] == self.head
            labels.append(token if learnt else -100)
            learnt = learnt and token != self.end
        return labels


def endless(loader, sampler):
    for epoch in itertools.count():
        sampler.set_epoch(epoch)
        yield from loader


def train(model, loader, sampler, device, arguments):
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    if ranks > 1:
        model = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)  # of text without images
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr, weight_decay=0.0)
    model.train()
    batches = endless(loader, sampler)
    for step in range(1, arguments.steps + 1):
        microbatches = list(itertools.islice(batches, arguments.microbatches))
        label_tokens = sum((microbatch["labels"] != -100).sum() for microbatch in microbatches).to(device)
        if ranks > 1:
            dist.all_reduce(label_tokens)
        total = 0.0
        for i, microbatch in enumerate(microbatches):
            model.require_backward_grad_sync = i == len(microbatches) - 1  # what DDP's no_sync sets
            microbatch = {name: tensor.to(device) for name, tensor in microbatch.items()}
            loss = model(**microbatch, num_items_in_batch=label_tokens, use_cache=False).loss
            (loss * ranks).backward()  # DDP averages over ranks, the loss is a sum
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        if ranks > 1:
            dist.all_reduce(total)
        if not dist.is_initialized() or dist.get_rank() == 0:
            print(json.dumps({"step": step, "loss": total.item()}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="directory of shards")
    parser.add_argument("--model", required=True, help="directory of the model, or its name on the hub")
    parser.add_argument("--output", help="directory for the trained model")
    parser.add_argument("--global-batch-size", type=int, default=16, help="samples of a step, over all ranks")
    parser.add_argument("--microbatches", type=int, default=2, help="per rank and step")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--no-shuffle", action="store_true", help="take the samples in the order of the shards")
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        dist.init_process_group()
    ranks, rank = (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
    device = torch.device(f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    model = transformers.AutoModelForImageTextToText.from_pretrained(arguments.model).to(device)
    dataset = Conversations(arguments.data)
    sampler = torch.utils.data.DistributedSampler(dataset, ranks, rank, shuffle=not arguments.no_shuffle,
                                                  drop_last=True)
    loader = torch.utils.data.DataLoader(dataset, arguments.global_batch_size // (ranks * arguments.microbatches),
                                         sampler=sampler, num_workers=2, collate_fn=Collator(arguments.model),
                                         drop_last=True)
    train(model, loader, sampler, device, arguments)
    if arguments.output and rank == 0:
        model.save_pretrained(arguments.output)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
