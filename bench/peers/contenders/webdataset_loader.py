"""webdataset over tar shards, with torchvision's decoding and transforms."""

import io

import torch
import webdataset

from contenders import torch_files, torchvision_loader
from contenders.settings import SETTINGS

SET = SETTINGS["webdataset_loader"]



def first(sample):
    body = next(value for name, value in sample.items() if name in ("jpg", "png"))
    return torchvision_loader.TO_SQUARE(torchvision_loader.decode(torch.frombuffer(io.BytesIO(body).getbuffer(),
                                                                                   dtype=torch.uint8)))


def batches(work, data, variant, ordered):
    # Two workers take every other shard, so that one alone gives samples in the order of the files.
    dataset = webdataset.WebDataset(data.tars, shardshuffle=SET["shardshuffle"]).map(first).batched(
        work.batch, collation_fn=torch.stack)
    workers = {**torch_files.workers(SET), **({"num_workers": 1} if ordered else {})}
    return iter(webdataset.WebLoader(dataset, batch_size=SET["batch_size"], **workers))
