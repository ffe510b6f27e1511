"""Prints what a model reads of the first samples of a data set, and what it learns to write.

    python examples/huggingface/show_sample.py data/shards Qwen3.5-4B
    python examples/huggingface/show_sample.py data/shards Qwen3.5-4B 3     # of the first three

The model is a directory, or a name on the hub such as Qwen/Qwen3.5-4B.
A picture's or frame's placeholders are printed as one, with "..." behind it.
"""

import itertools
import re
import sys

import transformers

import isocost


def stretches_of(labels):
    """The stretches of a row's labels that the loss counts."""
    counts = (labels != -100).tolist()
    starts = [i for i, own in enumerate(counts) if own and not (i and counts[i - 1])]
    return [labels[i:(counts + [False]).index(False, i)] for i in starts]


data, model = sys.argv[1:3]
tokenizer = transformers.AutoTokenizer.from_pretrained(model)
with isocost.DataLoader(data, model=model, global_batch_size=1, microbatches=1, batching="padded",
                        shuffle=False) as loader:
    for microbatch in itertools.islice(loader, int(sys.argv[3]) if len(sys.argv) > 3 else 1):
        ids, labels = microbatch["input_ids"][0], microbatch["labels"][0]
        print(f"== {microbatch.sample_keys[0]}: reads")
        print(re.sub(r"(<\|(?:image|video)_pad\|>)+", r"\1...", tokenizer.decode(ids)))
        for stretch in stretches_of(labels):
            print(f"== learns to write\n{tokenizer.decode(stretch)}")
