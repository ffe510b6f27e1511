"""The contenders. Each module has the same interface, one function:

batches(work, data, variant, ordered): an iterator over batches of all passes, each a torch tensor (or for `mixture` a
    dict of them). If `ordered` is true, samples come in the order of the files; otherwise as the contender's
    documentation recommends. The worker processes and threads that it starts end with it.

How they are set is in settings.py. torch_files.py and geometry.py are what several share.
"""

import dataclasses
import importlib


@dataclasses.dataclass(frozen=True)
class Contender:
    name: str
    title: str
    module: str
    packages: tuple  # packages to install in addition to torch
    variant: str = ""
    program: str = ""  # in C++, of bench/peers/cpp, which does the work; the contender's process then only counts

    def load(self):
        return importlib.import_module(f"contenders.{self.module}")


CONTENDERS = {each.name: each for each in (
    Contender("isocost", "Isocost", "isocost_loader", (), "exact"),
    Contender("isocost fast", "Isocost, fast", "isocost_loader", (), "fast"),
    Contender("isocost c++", "Isocost, TorchLoader", "cpp_trainers", ("pillow",), "on", "torch_loader_trainer"),
    Contender("isocost c++ unisolated", "Isocost, TorchLoader, unisolated", "cpp_trainers", ("pillow",), "off",
              "torch_loader_trainer"),
    Contender("torch c++", "torch::data::DataLoader", "cpp_trainers", ("pillow",), "exact", "data_loader_trainer"),
    Contender("torch c++ fast", "torch::data::DataLoader, fast", "cpp_trainers", ("pillow",), "fast",
              "data_loader_trainer"),
    Contender("torchvision", "torchvision", "torchvision_loader", ("torchvision",)),
    Contender("spdl", "SPDL", "spdl_pipeline", ("spdl",)),
    Contender("pillow", "Pillow", "pillow_loader", ("pillow",), "exact"),
    Contender("pillow draft", "Pillow, draft", "pillow_loader", ("pillow",), "draft"),
    Contender("dali", "DALI, CPU", "dali_pipeline", ("nvidia-dali-cuda130",)),
    Contender("webdataset", "webdataset + torchvision", "webdataset_loader", ("webdataset", "torchvision")),
    Contender("mosaic", "mosaicml-streaming + torchvision", "mosaic_loader", ("mosaicml-streaming", "torchvision")),
    Contender("torchcodec", "torchcodec", "torchcodec_loader", ("torchcodec", "torchvision", "transformers")),
    Contender("pyav", "PyAV + Pillow", "pyav_loader", ("av", "pillow")),
    Contender("transformers", "transformers", "transformers_loader", ("transformers", "torchvision", "torchcodec")),
    Contender("transformers pillow", "transformers, Pillow", "transformers_loader",
              ("transformers", "torchvision", "pillow"), "Pillow"),
)}
