"""The data that a loader trains on."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A loader's data. `len()` is the number of samples.

    Attributes:
        data: the directory of shards or the node's endpoint, as given to the loader.
        samples: int, the number of samples.
        fingerprint: int, equal for equal data.
    """

    data: str
    samples: int
    fingerprint: int

    def __len__(self) -> int:
        return self.samples
