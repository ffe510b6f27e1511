"""How each contender is set: the values that run, and those that settings.md states with their sources. A test compares
the two."""

from works import SIDE, WORKERS

_LOADER = {"num_workers": WORKERS, "prefetch_factor": 2}  # of torch's DataLoader

SETTINGS = {
    "isocost_loader": {"workers": WORKERS, "balance": "cost", "prefetch": 2},
    "cpp_trainers": {"workers": WORKERS, "shuffle": "off"},
    "torchvision_loader": {**_LOADER, "transforms": "v2", "resize": "BICUBIC", "antialias": True},
    "pillow_loader": {**_LOADER, "resample": "BICUBIC", "draft": SIDE},
    "spdl_pipeline": {"num_threads": WORKERS, "concurrency": WORKERS, "scale_algo": "bicubic", "sink": 4,
                      "output_order": "completion"},
    "dali_pipeline": {"num_threads": WORKERS, "prefetch_queue_depth": 2, "interp_type": "INTERP_CUBIC",
                      "antialias": True},
    "webdataset_loader": {**_LOADER, "batch_size": None, "shardshuffle": False},
    "mosaic_loader": {**_LOADER, "shuffle": False, "compression": None, "size_limit": 1 << 26, "predownload": None},
    "torchcodec_loader": {**_LOADER, "num_ffmpeg_threads": 1, "seek_mode": "approximate", "resize": "BICUBIC"},
    "pyav_loader": {**_LOADER, "thread_count": 1, "resample": "BICUBIC"},
    "transformers_loader": {**_LOADER, "backend": "torchvision"},
}
