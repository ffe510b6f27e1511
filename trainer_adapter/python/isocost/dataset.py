"""The data that a loader trains on."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A loader's data. `len()` is the number of samples.

    Attributes:
        data: the directory of shards or the node's endpoint, as given to the loader.
        samples: int, the number of samples.
        fingerprint: int, equal for equal data. `isocost data profile --json` writes it as 16 hexadecimal digits, as
            this object's text does.
    """

    data: str
    samples: int
    fingerprint: int

    def __repr__(self) -> str:
        return f"Dataset(data={self.data!r}, samples={self.samples}, fingerprint=0x{self.fingerprint:016x})"

    def __len__(self) -> int:
        return self.samples
