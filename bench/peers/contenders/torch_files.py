"""The shared parts of the contenders in torch's DataLoader: a map-style dataset over files, and the loader."""

import torch


class Files(torch.utils.data.Dataset):
    """prepare(file) of each file."""

    def __init__(self, files, prepare):
        self.files, self.prepare = files, prepare

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.prepare(self.files[index])


def workers(settings):
    """Returns those of a contender's settings that torch's DataLoader takes."""
    return {name: settings[name] for name in ("num_workers", "prefetch_factor")}


def loader(files, prepare, work, settings, collate=None):
    """Batches of prepared files, stacked, or joined along the first dimension by collate=torch.cat."""
    return iter(torch.utils.data.DataLoader(Files(files, prepare), work.batch, collate_fn=collate,
                                            **workers(settings)))
