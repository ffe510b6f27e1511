"""Copies to a CUDA device, with a stand-in for torch.cuda: they overlap, and nothing is released too early."""
import contextlib
import types
import unittest
import unittest.mock
from typing import Any, List, Optional

import torch

from isocost.microbatches.device_copies import DeviceCopies, moved_tensors
from isocost.microbatches.microbatch import Description, Microbatch


class Tensor:
    """A CPU tensor that records what is done with it."""

    def __init__(self, log: List[str], name: str, pinned: bool, device: str = "cpu"):
        self.log, self.name, self.pinned, self.device = log, name, pinned, torch.device(device)

    def is_pinned(self) -> bool:
        return self.pinned

    def pin_memory(self) -> "Tensor":
        self.log.append(f"pin {self.name}")
        return Tensor(self.log, f"pinned {self.name}", True)

    def to(self, device: str, non_blocking: bool) -> "Tensor":
        assert non_blocking
        self.log.append(f"copy {self.name} to {device}")
        return Tensor(self.log, f"copy of {self.name}", False, "cuda:1")

    def record_stream(self, stream: "Stream") -> None:
        self.log.append(f"{stream.name} uses {self.name}")


class Event:
    """Work of a stream up to a point, done when the test says so."""

    def __init__(self) -> None:
        self.is_done = False

    def query(self) -> bool:
        return self.is_done


class Stream:
    """A queue of work, which records what is to happen on it."""

    def __init__(self, log: List[str], name: str):
        self.log, self.name = log, name
        self.last: Optional[Event] = None

    def record_event(self) -> Event:
        self.log.append(f"{self.name} records")
        self.last = Event()
        return self.last

    def wait_event(self, event: Event) -> None:
        assert isinstance(event, Event)
        self.log.append(f"{self.name} waits")

    def synchronize(self) -> None:
        self.log.append(f"{self.name} is waited for")


class Cuda:
    """Stands in for torch.cuda."""

    def __init__(self, log: List[str]):
        self.log = log
        self.copies = Stream(log, "copies")
        self.compute = Stream(log, "compute")
        self.current = self.compute

    def Stream(self, device: str) -> Stream:  # noqa: N802: PyTorch's name
        del device
        return self.copies

    def current_device(self) -> int:
        return 1

    def current_stream(self, device: str) -> Stream:
        del device
        return self.current

    @contextlib.contextmanager
    def device(self, device: str) -> Any:
        self.log.append(f"current device {device}")
        yield

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Any:
        self.log.append(f"begin {stream.name}")
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before
            self.log.append(f"end {stream.name}")


class DeviceCopiesTest(unittest.TestCase):
    def setUp(self) -> None:
        self.log: List[str] = []
        self.cuda = Cuda(self.log)
        self.copies = DeviceCopies("gpu", self.cuda)

    def test_the_copy_is_on_a_stream_of_its_own_and_the_current_one_waits(self) -> None:
        result = self.copies.copy([Tensor(self.log, "a", True), Tensor(self.log, "b", False)])
        self.assertEqual([tensor.name for tensor in result], ["copy of a", "copy of pinned b"])
        self.assertEqual(self.log, ["pin b", "begin copies", "copy a to gpu", "copy pinned b to gpu", "copies records",
                                    "end copies", "compute waits", "compute uses copy of a",
                                    "compute uses copy of pinned b"])

    def test_memory_is_registered_with_the_device_current(self) -> None:
        tensor = Tensor(self.log, "a", False)

        def pin() -> bool:
            self.log.append("register")
            tensor.pinned = True
            return True

        self.copies.copy([tensor], pin)
        self.assertEqual(self.log[:4], ["current device gpu", "register", "begin copies", "copy a to gpu"])

    def test_a_source_is_kept_until_it_is_copied(self) -> None:
        released = []

        class Watched(Tensor):
            def __del__(self) -> None:
                released.append(self.name)

        self.copies.copy([Watched(self.log, "first", True)])
        first = self.cuda.copies.last
        self.copies.copy([Watched(self.log, "second", True)])
        self.copies.copy([])
        self.assertEqual(released, [])
        assert first is not None
        first.is_done = True
        self.copies.copy([])
        self.assertEqual(released, ["first"])


    def test_copies_that_have_begun_are_waited_for_where_a_later_one_fails(self) -> None:
        class Refused(Tensor):
            def to(self, device: str, non_blocking: bool) -> Tensor:
                raise MemoryError(device, non_blocking)

        with self.assertRaises(MemoryError):
            self.copies.copy([Tensor(self.log, "a", True), Refused(self.log, "b", True)])
        self.assertEqual(self.log, ["begin copies", "copy a to gpu", "copies is waited for", "end copies"])


class MicrobatchOnADevice(unittest.TestCase):
    """The methods that users call, with torch.cuda replaced."""

    def setUp(self) -> None:
        self.log: List[str] = []
        for patch in (unittest.mock.patch.object(torch, "cuda", Cuda(self.log)),
                      unittest.mock.patch("isocost.microbatches.device_copies._BY_DEVICE", {})):
            patch.start()
            self.addCleanup(patch.stop)

    def test_only_tensors_of_the_host_are_copied_beside_the_computation(self) -> None:
        tensors = [Tensor(self.log, "a", True), Tensor(self.log, "b", False, "cuda:0"), Tensor(self.log, "c", True)]
        moved = moved_tensors(tensors, "cuda")
        self.assertEqual([tensor.name for tensor in moved], ["copy of a", "copy of b", "copy of c"])
        self.assertEqual(self.log, ["begin copies", "copy a to cuda:1", "copy c to cuda:1", "copies records",
                                    "end copies", "compute waits", "compute uses copy of a",
                                    "compute uses copy of c", "copy b to cuda:1"])

    def microbatch(self, tensor: Tensor) -> Any:
        def pin() -> bool:
            self.log.append("register")
            tensor.pinned = True
            return True

        description = Description(
            position=(0, 0, 0), sample_ids=[], sample_keys=[], sample_weights=[], weighted=False, sample_images=[],
            last_of_step=True, last_of_epoch=False, predicted={}, label_tokens=0, global_label_tokens=0, plan_hash=0,
            profile_budget_s=0.0, seconds_wanted=True, cost_model_state=b"", routes=[])
        return Microbatch.received(types.SimpleNamespace(pin=pin, description=description), {"vision_patches": tensor})

    def test_its_block_is_registered_once_and_copied_from(self) -> None:
        microbatch = self.microbatch(Tensor(self.log, "a", False))
        self.assertEqual(microbatch.to("cuda").to("cuda")["vision_patches"].name, "copy of copy of a")
        self.assertEqual(self.log[:4], ["current device cuda:1", "register", "begin copies", "copy a to cuda:1"])
        self.assertEqual(self.log.count("register"), 1)

    def test_its_block_is_registered_after_a_copy_that_failed_before(self) -> None:
        microbatch = self.microbatch(Tensor(self.log, "a", False))
        with unittest.mock.patch.object(Tensor, "to", side_effect=MemoryError), self.assertRaises(MemoryError):
            microbatch.to("cuda")
        microbatch["vision_patches"].pinned = False
        microbatch.to("cuda")
        self.assertEqual(self.log.count("register"), 2)

    def test_tensors_in_pinned_memory_need_no_registration(self) -> None:
        self.microbatch(Tensor(self.log, "a", True)).to("cuda")
        self.assertNotIn("register", self.log)


if __name__ == "__main__":
    unittest.main()
