"""mosaicml-streaming over local MDS shards, with torchvision's decoding and transforms."""

import pathlib

import streaming
import torch

from contenders import torch_files, torchvision_loader
from contenders.settings import SETTINGS

SET = SETTINGS["mosaic_loader"]



class Pictures(streaming.StreamingDataset):
    def __getitem__(self, index):
        body = bytearray(super().__getitem__(index)["image"])
        return torchvision_loader.TO_SQUARE(torchvision_loader.decode(torch.frombuffer(body, dtype=torch.uint8)))


def write(data):
    """The files as MDS, once."""
    directory = data.directory / "mds"
    if not (directory / "index.json").exists():
        with streaming.MDSWriter(out=str(directory), columns={"image": "bytes"},
                                 compression=SET["compression"]) as writer:
            for path in data.files:
                writer.write({"image": pathlib.Path(path).read_bytes()})
    return directory


def batches(work, data, variant, ordered):
    streaming.base.util.clean_stale_shared_memory()
    stream = streaming.Stream(local=str(write(data)), repeat=data.passes)
    dataset = Pictures(streams=[stream], batch_size=work.batch, shuffle=SET["shuffle"], num_canonical_nodes=1)
    return iter(streaming.StreamingDataLoader(dataset, work.batch, **torch_files.workers(SET)))
