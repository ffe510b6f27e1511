"""mosaicml-streaming over MDS shards, on the disk or in a bucket, with torchvision's decoding and transforms."""

import contextlib
import pathlib
import tempfile

import streaming
import torch

from contenders import torch_files, torchvision_loader
from contenders.settings import SETTINGS

SET = SETTINGS["mosaic_loader"]



class Pictures(streaming.StreamingDataset):
    def __getitem__(self, index):
        body = bytearray(super().__getitem__(index)["image"])
        return torchvision_loader.TO_SQUARE(torchvision_loader.decode(torch.frombuffer(body, dtype=torch.uint8)))


def write(data, files):
    """The files as MDS, once."""
    directory = data.directory / "mds"
    if not (directory / "index.json").exists():
        with streaming.MDSWriter(out=str(directory), columns={"image": "bytes"},
                                 compression=SET["compression"], size_limit=SET["size_limit"]) as writer:
            for path in files:
                writer.write({"image": pathlib.Path(path).read_bytes()})
    return directory


@contextlib.contextmanager
def stream(data):
    """All passes. Files on the disk are repeated. In a bucket each pass has samples of its own: what was
    downloaded once would be read from the disk when it is repeated."""
    if not data.server:
        yield streaming.Stream(local=str(write(data, data.files)), repeat=data.passes)
        return
    bucket = write(data, data.all_files)
    with tempfile.TemporaryDirectory(dir=data.server.scratch) as local:
        yield streaming.Stream(remote=f"s3://{bucket.name}", local=local)


def batches(work, data, variant, ordered):
    streaming.base.util.clean_stale_shared_memory()
    with stream(data) as all_passes:
        dataset = Pictures(streams=[all_passes], batch_size=work.batch, shuffle=SET["shuffle"],
                           predownload=SET["predownload"], num_canonical_nodes=1)
        yield from streaming.StreamingDataLoader(dataset, work.batch, **torch_files.workers(SET))
