"""The data that a loader trains on."""

import dataclasses
from typing import Optional


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A loader's data. `len()` is the number of samples.

    Attributes:
        data: the directory of shards or the node's endpoint, as given to the loader.
        samples: int, the number of samples; None for a mixture of data sets without a length.
        fingerprint: int, equal for equal data. `isocost data profile --json` writes it as 16 hexadecimal digits, as
            this object's text does.
    """

    data: str
    samples: Optional[int]
    fingerprint: int

    def __repr__(self) -> str:
        return f"Dataset(data={self.data!r}, samples={self.samples}, fingerprint=0x{self.fingerprint:016x})"

    def __len__(self) -> int:
        if self.samples is None:
            raise TypeError("a mixture of data sets without a length has no number of samples")
        return self.samples
