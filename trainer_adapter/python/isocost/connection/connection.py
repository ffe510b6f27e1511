"""A loader's connection to its node, and the path of a microbatch from there to the loop."""

import functools
import json
import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from isocost import _isocost
from isocost.base.hardware import hardware
from isocost.base.logs import log
from isocost.connection.replicas import Replicas
from isocost.connection.resources import Resources
from isocost.connection.state import State
from isocost.errors import ClosedError
from isocost.microbatches.microbatch import Microbatch, moved, torch_tensors
from isocost.microbatches.model_inputs import ModelInputs
from isocost.microbatches.transform import Transform, TransformQueue


class Preparation(NamedTuple):
    """Steps that prepare a microbatch before the loop receives it.

    Attributes:
        transform, collate: the user's functions, or None.
        whole: whether this rank has the samples as a whole, not only what its stage consumes.
        pin: whether tensors go to pinned memory.
        ahead: number of microbatches that wait ready for the loop.
        device: the torch device to which they are moved, or None.
        model: makes a model's arguments of the tensors, or None.
    """

    transform: Optional[Transform]
    collate: Optional[Callable[[Microbatch], Any]]
    whole: bool
    pin: bool
    ahead: int
    device: Any
    model: Optional[ModelInputs] = None


class Address(NamedTuple):
    """The node's address, and the identity with which this process connects.

    Attributes:
        endpoint: of the node; "" at members of a replica group that do not connect.
        rank, world_size: the receiver that this process is, and how many there are.
        layout: the layout's fingerprint; 0: there is none.
        connect_timeout: in seconds.
        curve_server_key, curve_secret_key: key files, or "".
    """

    endpoint: str
    rank: int
    world_size: int
    layout: int
    connect_timeout: float
    curve_server_key: str
    curve_secret_key: str


class Connection:
    """Connects when it is first used, and again after `restart`. Only the thread that uses the loader calls it.

    Attributes:
        start: where the connection begins; its cursor and mixture are the node's once it is connected.
    """

    def __init__(self, resources: Resources, address: Address, replica_group: Any, preparation: Preparation):
        self.start = State(0, 0, 0)
        self._resources = resources
        self._address = address
        self._replica_group = replica_group
        self._preparation = preparation
        self._welcome: Optional[Dict[str, Any]] = None  # The answer to a client that takes no place in the job.
        # Taken from the client and not handed out yet: a microbatch that could not be is tried again.
        self._taken: Optional[Tuple[Any, Any]] = None
        self._waited_s = 0.0  # Seconds that the loop was blocked and that the client does not know yet.

    def check_process(self) -> None:
        """Raises RuntimeError in a process that was forked from the one that made the loader."""
        if self._resources.pid != os.getpid():
            raise RuntimeError("this isocost.DataLoader was made before the process forked: make it in the process "
                               "that uses it")

    def check_open(self) -> None:
        """Raises ClosedError once the loader is closed, and the error of check_process."""
        self.check_process()
        if self._resources.closed:
            raise ClosedError("the loader is closed")

    def client(self) -> Any:
        """Returns the client. Blocks until it is connected."""
        self.check_open()
        if self._resources.client is None:
            connect = functools.partial(self._connect, self._address.rank)
            client = connect() if self._replica_group is None else Replicas(self._replica_group, connect)
            self._check_welcome(client)
            self.start = self.start.with_order_of(client.welcome())
            self._resources.pipeline = self._pipeline(client)
            self._resources.client = client  # Assigned last, so that the next call connects anew after an interrupt.
        return self._resources.client

    def gather(self, value: Any) -> List[Any]:
        """Returns the value of each process that receives the same microbatches. Blocks until all have called it."""
        client = self.client()
        return [value] if self._replica_group is None else list(client.gather(value))

    def _check_welcome(self, client: Any) -> None:
        """Raises ValueError, after it has closed the client, if the model cannot take what the node delivers."""
        model, welcome = self._preparation.model, client.welcome()
        if model is None:
            return
        try:
            self._check_recipe(model, welcome["recipe_fingerprint"])
            model.check_weights(welcome)
            model.check_batching(welcome)
        except ValueError:
            client.close()
            raise

    @staticmethod
    def _check_recipe(model: Any, fingerprint: int) -> None:
        if fingerprint not in model.fingerprints:
            size = f" with image_size {model.image_size}" if model.image_size else ""
            raise ValueError(f"model = {model.directory!r}{size}: the node prepares media for another model, for "
                             "pictures of another size, or for no model: give it the same model as `isocost serve "
                             "--model`, at the same revision, and the same image_size")

    def welcome(self) -> Dict[str, Any]:
        """Returns the node's welcome message. Blocks until the node has answered. Before anything is received, it is
        asked without a rank: what begins where the loader asks for its length might not begin where it is to."""
        self.check_open()
        if self._resources.client is not None:
            found: Dict[str, Any] = self._resources.client.welcome()
            return found
        if self._welcome is None:
            ask = functools.partial(self._connect, _isocost.no_rank)
            client = ask() if self._replica_group is None else Replicas(self._replica_group, ask)
            try:
                self._check_welcome(client)
                self._welcome = client.welcome()
            finally:
                client.close()
            self.start = self.start.with_order_of(self._welcome)
        return self._welcome

    def counts(self) -> Dict[str, Any]:
        """Returns the bytes copied from the socket into tensors, and the bytes of tensors that are held; "node" has the
        summary of a node in this process."""
        self.check_process()
        client, node = self._resources.client, self._resources.node
        counts: Dict[str, Any] = {"bytes_copied": client.bytes_copied() if client is not None else 0,
                                  "bytes_in_use": client.bytes_in_use() if client is not None else 0}
        if node is not None:
            counts["node"] = json.loads(node.summary())
        return counts

    @property
    def state(self) -> str:
        """Returns a state for people: "closed", "connected" or "not connected"."""
        if self._resources.closed:
            return "closed"
        return "not connected" if self._resources.client is None else "connected"

    def restart(self, start: State) -> None:
        """Leaves the node. The next use connects again, and begins at `start`."""
        self.check_process()
        self.start = start
        self._taken = self._welcome = None
        self._resources.leave()

    def receive(self, whole_step: bool = False) -> Tuple[Optional[Microbatch], Any]:
        """Returns a microbatch and the item to hand out for it, or None and the end of an epoch. Blocks until it is
        there. Acknowledges what is trained; with `whole_step` nothing between two ends of steps."""
        client = self.client()
        asked = time.perf_counter()
        if self._taken is None:
            client.acknowledge()
            self._taken = self._take(client, self._resources.pipeline)
        microbatch, item = self._taken
        if microbatch is not None:
            if not isinstance(microbatch, Microbatch):
                microbatch, item = finished(self._preparation, microbatch, item)
            microbatch.waited_s = time.perf_counter() - asked
            if self._preparation.device is not None:
                item = moved(item, self._preparation.device)
            self._waited_s += microbatch.waited_s
            if microbatch.last_of_step or not whole_step:
                client.use(*microbatch.position, self._waited_s)
                self._waited_s = 0.0
        self._taken = None
        return microbatch, item

    def _take(self, client: Any, pipeline: Optional[TransformQueue]) -> Tuple[Any, Any]:
        """Returns a microbatch that a thread has finished and its item, a raw one and its tensors, or None and the end
        of an epoch."""
        if self._replica_group is not None:
            result: Tuple[Any, Any] = client.next(lambda: _next(client.client) if pipeline is None else pipeline.next())
            return result
        return _next(client) if pipeline is None else pipeline.next()

    def send_trained(self, microbatch: Microbatch) -> None:
        """Tells the node, with the next microbatch that the loop asks for, that it is trained on this one and all
        before it."""
        client = self._resources.client
        if client is not None:  # It is None once the loader is closed.
            client.trained(microbatch.epoch, microbatch.step, microbatch.index)

    def send_report(self, microbatch: Microbatch, seconds: List[float], forward: float, measuring: float) -> None:
        """Sends measured seconds, in the order of MODULES, and how long measuring took."""
        self.client().report(microbatch.epoch, microbatch.step, microbatch.index, seconds, forward, measuring)

    def _connect(self, rank: int) -> Any:
        address = self._address
        return _isocost.Client(endpoint=address.endpoint, rank=rank, world_size=address.world_size,
                               layout=address.layout, prefetch=self._preparation.ahead,
                               connect_timeout_s=address.connect_timeout, start=(*self.start,),
                               server_key_file=address.curve_server_key, secret_key_file=address.curve_secret_key,
                               hardware=hardware(), on_log=log)

    def _pipeline(self, client: Any) -> Optional[TransformQueue]:
        """Returns what runs the user's functions ahead of the loop; None if there are none, and if another member
        of the replica group runs them. The group's first member transforms for all, and each calls `collate` itself."""
        transform, whole, ahead = self._preparation.transform, self._preparation.whole, self._preparation.ahead
        if self._replica_group is not None:
            if transform is None or client.client is None:
                return None
            return TransformQueue(client.client, transform, whole, lambda raw, tensors: (raw, tensors), ahead)
        if transform is None and self._preparation.collate is None:
            return None
        return TransformQueue(client, transform, whole, functools.partial(finished, self._preparation), ahead)


def _next(client: Any) -> Tuple[Optional[Any], Dict[str, Any]]:
    """Returns a raw microbatch and its tensors, or None and the end of an epoch."""
    raw = client.next()
    return (None, client.epoch_end()) if raw is None else (raw, torch_tensors(raw))


def finished(preparation: Preparation, raw: Any, tensors: Dict[str, Any]) -> Tuple[Microbatch, Any]:
    """Returns the microbatch and the item to hand out for it."""
    if preparation.pin:
        tensors = {name: tensor.pin_memory() for name, tensor in tensors.items()}
    microbatch = Microbatch.received(raw, tensors, preparation.model)
    if preparation.collate is None:
        return microbatch, microbatch
    try:
        return microbatch, preparation.collate(microbatch)
    except Exception as error:
        raise RuntimeError(f"collate= failed for {microbatch!r}: {type(error).__name__}: {error}") from error
