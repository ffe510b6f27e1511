"""The loader: in place of torch.utils.data.DataLoader."""

import functools
import json
import logging
import math
import os
import weakref
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Tuple, Union

from isocost import _isocost, arguments, rendezvous, timing
from isocost.layout import Layout, Place, PlaceLike, PlaceInLayout, take_place
from isocost.microbatch import Microbatch, moved, torch_tensors
from isocost.profile import hardware
from isocost.replicas import Replicas, is_first, mesh_place
from isocost.reports import by_module, checked_seconds
from isocost.resources import Resources
from isocost.socket_directory import SocketDirectory
from isocost.state import State
from isocost.transform import Pipeline, Sample

_LOG = logging.getLogger("isocost")
_GRACE_S = 10.0  # in which a closing host lets the other ranks finish
_LOG_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)

class DataLoader:
    """Hands a rank its microbatches of every global batch, equal in cost to those of all other ranks.

    Args:
        source: a directory of WebDataset shards: a loader node runs inside this process (with
            several ranks, inside that of rank 0). Or the endpoint of a node that `isocost serve`
            runs, "tcp://HOST:PORT" or "ipc://PATH".
        rank, world_size: data-parallel rank and number of ranks; default: those of the initialised
            process group, else torchrun's environment, else one process.
        process_group: the torch.distributed group of data-parallel ranks; default: all processes.
        replica_group: the group of ranks that need the same microbatch (tensor or context
            parallel). Its first member loads and sends the tensors to the others.
        layout: the file that `isocost plan` writes: every process takes what its place in it consumes
            (docs/layout.md). An embedded node plans for it; one of its own must have been given the
            same. Gives microbatches.
        place: this process's place in the layout, an isocost.Place or (module, data, stage, tensor);
            default: that of its rank. With tensor-parallel ranks one of each group loads: with
            `place`, give the group as replica_group.
        device_mesh: a torch DeviceMesh with named dimensions, in place of the four above: ranks
            that differ along dp, ddp, fsdp, data, dp_replicate or dp_shard get different
            microbatches, those that differ along other dimensions the same.
        global_batch_size: samples of one optimizer step, over all ranks. Default 64.
        microbatches: microbatches per rank and step. Default 4, or 1 where batch_size is given.
        seed: with the epoch it decides the samples of every step. Default 0.
        epochs: passes that the node prepares; 0 (default): as many as are asked for.
        endless: one iteration runs through all epochs; len() raises TypeError.
        prefetch: microbatches that wait ready for this rank. Default 2.
        device: where the tensors are to be, e.g. "cuda"; default: on the CPU.
        connect_timeout: seconds to wait for the node, and for the other ranks to leave a job
            before this one. Default 120.
        timeout: of an embedded node (one of its own has its setting): seconds without a sign of life
            after which the node gives a rank up, and a rank the node; after as long again those raise
            that wait for a rank that has gone. Default 30.
        transform: called with each `Sample` (id, weight, text, tensors) in background threads, order
            kept; returns None or a dict of tensors that replace or join the sample's, rows along the
            first dimension. From new `input_ids` follow labels (shifted), position_ids and lengths
            where it returns none. An exception names the sample, and the next step is not reached.
            Leaving the loader waits for calls that have begun. With a layout of several stages each
            calls it with what it has of the samples; replaced tensors keep their number of rows.
        collate: called with each Microbatch, its tensors on the CPU, in a background thread (in a
            replica group, in the loop's); what it returns is handed out.
        lengths: called by the embedded node with what is known of a sample before it is planned, a
            dict {"id", "shard", "key", "parts": [{"name", "modality", "text_bytes" | "width" |
            ...}], "llm_tokens", "label_tokens"}; returns None or a dict that replaces the last two:
            what `transform` will make of it.
        reprofile: called between two steps where the node finds that the model has changed (an encoder was unfrozen,
            the context grew): returns the profile that isocost.profile_model measures now, with a short budget. In
            the first data-parallel rank; the others wait for it. It should leave no gradients. A node in a process
            of its own asks with `--reprofile on` only.
        curve_server_key, curve_secret_key: key files, where the node uses CURVE.
        **options: further settings of an embedded node, by their names in docs/config.md (recipe,
            balance, tail, memory, workers, profile, on_bad_sample, ...), and every keyword of
            torch.utils.data.DataLoader; once for each of the latter a `KeywordNote` warning says
            whether it is used, or not needed. sampler, batch_sampler and collate_fn are refused, and
            with an endpoint those that are the node's to decide.

    Iterating gives the rank's microbatches (`isocost.Microbatch`) of one epoch, in order, the same
    number at every rank. The next iteration is the next epoch. One that was left by `break` begins
    its epoch anew; `load_state_dict` and `set_epoch` end it and begin elsewhere; all ranks must do
    the same.

    One thread at a time uses a loader; Ctrl-C interrupts a wait within 100 ms. Close it, or use it
    as a context manager; at exit it closes by itself. It cannot be used after a fork, nor can a process
    that was forked while it had a node make another with one: start such processes with 'spawn'.

    Raises: ValueError (an argument, a state of other data, ranks that disagree), TypeError (an
        unknown keyword), FileNotFoundError (no shards), ShardError (too many bad samples, damaged
        shards), ProtocolError (a node of another version), NodeUnavailableError (the node has gone
        or failed), TimeoutError (no answer), ClosedError.

    Example:
        >>> with isocost.DataLoader("shards/", global_batch_size=64, microbatches=4) as loader:
        ...     for microbatch in loader:
        ...         with loader.timed(microbatch):
        ...             loss = isocost.token_loss(model(**microbatch.tensors), microbatch)
        ...             loss.backward()
        ...         if microbatch.last_of_step:
        ...             optimizer.step()
        ...             optimizer.zero_grad()
    """

    def __init__(self, source: Union[str, "os.PathLike[str]"], *, rank: Optional[int] = None,
                 world_size: Optional[int] = None, process_group: Any = None,
                 replica_group: Any = None, device_mesh: Any = None,
                 layout: Optional[Union[str, "os.PathLike[str]"]] = None, place: Optional[PlaceLike] = None,
                 global_batch_size: Optional[int] = None,
                 microbatches: Optional[int] = None, seed: Optional[int] = None, epochs: int = 0,
                 endless: bool = False, prefetch: Optional[int] = None, device: Any = None,
                 connect_timeout: float = 120.0, timeout: Optional[float] = None,
                 transform: Optional[Callable[[Sample], Optional[Mapping[str, Any]]]] = None,
                 collate: Optional[Callable[[Microbatch], Any]] = None,
                 lengths: Optional[Callable[[Dict[str, Any]], Optional[Dict[str, int]]]] = None,
                 reprofile: Optional[Callable[[], Mapping[str, Any]]] = None,
                 curve_server_key: str = "", curve_secret_key: str = "", **options: Any):
        self._resources = Resources()
        if device_mesh is not None:
            if any(given is not None for given in (rank, world_size, process_group, replica_group)):
                raise ValueError("device_mesh says who is who: leave rank, world_size, process_group and "
                                 "replica_group out")
            rank, world_size, replica_group = mesh_place(device_mesh)
        self._process = rendezvous.this_process(rank, world_size, process_group)
        self._place_in_layout = self._sit_down(source, layout, place, replica_group, reprofile)
        self._replica_group = replica_group = self._place_in_layout.tensor_group if self._place_in_layout else replica_group
        self._closer = weakref.finalize(self, self._resources.close, _GRACE_S if self._process.world_size > 1 else 0.0)
        text = os.fspath(source)
        if "://" in text:
            arguments.refuse_the_nodes(text, options, {
                "global_batch_size": global_batch_size, "microbatches": microbatches, "seed": seed, "lengths": lengths,
                "epochs": epochs or None, "timeout": timeout or None})
        settings, torch_options = arguments.split(dict(options, **({} if timeout is None else {"timeout": timeout})))
        self._device = arguments.device(device)
        self._pin = arguments.flag("pin_memory", torch_options.get("pin_memory", False))
        self._prefetch = arguments.whole("prefetch_factor", torch_options.get("prefetch_factor", 2), 1)
        if prefetch is not None:
            self._prefetch = arguments.whole("prefetch", prefetch, 1)
        self._connect_timeout = arguments.seconds("connect_timeout", connect_timeout)
        self._keys = (curve_server_key, curve_secret_key)
        self._endless = arguments.flag("endless", endless)
        self._transform, self._collate, self._lengths = transform, collate, lengths
        self._reprofile = reprofile
        for name, function in (("transform", transform), ("collate", collate), ("lengths", lengths),
                               ("reprofile", reprofile)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} = {function!r}: must be a function")
        self._start = State(0, 0, 0)  # of the connection
        self._next = State(0, 0, 0)  # what state_dict() tells
        self._iterator: Optional["weakref.ref[_Epoch]"] = None
        self._finished = True  # no iteration is under way
        self._restarts = 0
        self._last: Optional[Microbatch] = None
        self._timers: Optional[timing.ModuleTimers] = None
        self._pending = timing.Pending()
        chunks = self._place_in_layout.layout.chunks if self._place_in_layout is not None and self._place_in_layout.place.module == "llm" else 1
        self._passes = timing.Passes(chunks, self._pending)
        self._counts = {"microbatches": 0, "waited_s": 0.0, "reports": 0}
        self._ended = False  # after the last epoch
        if "://" in text:
            self._endpoint = text
        else:
            settings.update(arguments.node_numbers(global_batch_size, microbatches, seed, torch_options, self._data_ranks()))
            settings.update(arguments.from_torch(torch_options))
            settings["epochs"] = str(arguments.whole("epochs", epochs, 0))
            settings["reprofile"] = "off" if reprofile is None else "on"
            self._endpoint = ""
            key = rendezvous.next_key(process_group)
            if replica_group is None or is_first(replica_group):
                self._endpoint = rendezvous.share_endpoint(key, self._process, self._connect_timeout,
                                                           lambda: self._host(text, settings))
        timing.set_current(self)

    def __reduce__(self) -> Any:
        raise TypeError("an isocost.DataLoader cannot be pickled or copied: make it in the process that uses it; its "
                        "state_dict() can be")

    @property
    def layout(self) -> Optional[Layout]:
        """As given."""
        return None if self._place_in_layout is None else self._place_in_layout.layout

    @property
    def place(self) -> Optional[Place]:
        """This process's, where there is a layout."""
        return None if self._place_in_layout is None else self._place_in_layout.place

    # Iterating.

    def __iter__(self) -> Iterator[Any]:
        self._check_process()
        active = self._iterator() if self._iterator is not None else None
        if active is not None and active.under_way:
            raise RuntimeError("this DataLoader is being iterated already: finish that iteration, or make a second "
                               "loader")
        if self._iterator is not None and not self._finished:
            self._restart(self._next._replace(step=0))  # left by break
        self._finished = False
        epoch = _Epoch(self)
        self._iterator = weakref.ref(epoch)
        return epoch

    def __len__(self) -> int:
        """Microbatches of a whole epoch for this rank; bad samples that decoding finds may make the
        last step shorter, and with tail = carry later epochs have a step more or less than the first.
        Raises TypeError where the loader is endless, and for an encoder with ranks of its own."""
        if self._endless:
            raise TypeError("an endless isocost.DataLoader has no length")
        if self._place_in_layout is not None and self._place_in_layout.place.module == "encoder":
            raise TypeError("how many microbatches an encoder with ranks of its own has, each step decides")
        welcome = self._client().welcome()
        steps, batch, full = welcome["steps_per_epoch"], welcome["global_batch_size"], welcome["microbatches"]
        ranks = welcome["ranks"] if self._place_in_layout is None else self._data_ranks()
        rest = welcome["samples_per_epoch"] - max(0, steps - 1) * batch
        if steps == 0 or rest >= batch:
            return steps * full
        last = max(1, min(math.ceil(rest * full / batch), rest // ranks, full))
        return (steps - 1) * full + last

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch's, from its beginning. Costs nothing where it would be
        anyway."""
        arguments.whole("epoch", epoch, 0)
        if (self._next.epoch, self._next.step) != (epoch, 0) or not self._finished:
            self._restart(self._next._replace(epoch=epoch, step=0))

    # State.

    def state_dict(self) -> Dict[str, Any]:
        """The first step that is not trained yet: a handful of numbers, the same at every rank and
        for any number of ranks. Taken in the middle of a step it is that step, since its gradient
        was not applied; from the step's last microbatch on it is the next one, so take it after
        `optimizer.step()`. With it goes what the cost model has learnt, as of the last eight
        steps (kilobytes, as text): a node that has measured nothing itself goes on from there."""
        return self._next.to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration goes on there; on all ranks alike. Raises ValueError for what is no
        state; one of other data is refused when the node is asked."""
        loaded = State.from_dict(state)
        if loaded != self._next or not self._finished:
            self._restart(loaded)

    # Measuring.

    def timed(self, microbatch: Microbatch, part: Optional[str] = None) -> "_Timed":
        """Context manager that measures the block and reports its seconds for the microbatch, spread
        over its modules as predicted. On a CUDA device by events: the stream is never waited for.
        Nothing is measured of a block that an exception leaves.

        Args:
            part: None: the block holds forward and backward, or always the same part of them.
                "forward", "backward": that pass alone, of this microbatch alone; passes of others may come
                between. Blocks of forward passes are summed; one report goes out, with the forward pass
                told apart, after as many backward passes as the layout's LLM stages have chunks. Leave
                waiting for neighbours outside.
        Raises: ValueError for another part, for a backward pass without a forward pass, and with a layout
            of several stages where `part` is None, or backward passes come in two (zb-h1).
        """
        if not isinstance(microbatch, Microbatch):
            raise TypeError(f"timed: {type(microbatch).__name__} is no isocost.Microbatch; collate= may keep the one it "
                            "was called with")
        if part not in (None, timing.FORWARD, timing.BACKWARD):
            raise ValueError(f"timed: part = {part!r}: must be \"forward\" or \"backward\", or left out")
        self._check_stages(part)
        if part is not None:
            self._passes.check(part, microbatch)
        return _Timed(self, microbatch, part)

    def report(self, microbatch: Microbatch, seconds: Union[float, Mapping[str, float]],
               forward: Optional[float] = None) -> None:
        """Sends measured seconds of forward and backward back to the cost model.

        Args:
            microbatch: of the current or the previous step.
            seconds: {module: seconds} with modules "vision", "audio", "llm", or "encoder" for vision
                and audio together; or one number for all of them. With a layout: of this stage.
            forward: of these, all together, the forward pass's; None: not told apart.
        Raises: ValueError for NaN, negative or absurd (below 1 ns, over a day) seconds, a forward pass that took
            more than all, an unknown module, or a stale microbatch.
        """
        self._check_process()
        if self._last is None:
            raise ValueError(f"report: {microbatch!r} is stale: no microbatch is in use; report it before the next one is "
                             "asked for")
        current = (self._last.epoch, self._last.step)
        at = (microbatch.epoch, microbatch.step)
        if at > current or at < (current[0] - (current[1] == 0), max(0, current[1] - 1)):
            raise ValueError(f"report: {microbatch!r} is stale: the loader is at epoch {current[0]}, step "
                             f"{current[1]}; report a microbatch before the next step ends")
        self._client().report(microbatch.epoch, microbatch.step, microbatch.index, by_module(microbatch, seconds),
                              -1.0 if forward is None else checked_seconds("forward", forward))
        self._counts["reports"] += 1

    def stats(self) -> Dict[str, Any]:
        """Counts since the loader was made: microbatches, seconds waited, reports, bytes copied from
        the socket into tensors, bytes of tensors that are held; where this process hosts the node,
        its summary under "node"."""
        self._check_process()
        stats: Dict[str, Any] = dict(self._counts)
        client = self._resources.client
        stats["bytes_copied"] = client.bytes_copied() if client is not None else 0
        stats["bytes_in_use"] = client.bytes_in_use() if client is not None else 0
        if self._resources.node is not None:
            stats["node"] = json.loads(self._resources.node.summary())
        return stats

    # The end.

    def close(self) -> None:
        """Leaves the job and stops what runs in this process; where it hosts the node of several
        ranks, that serves until the others have left, at most 10 seconds. Idempotent."""
        self._closer()

    def __enter__(self) -> "DataLoader":
        return self

    def __exit__(self, *_exception: Any) -> None:
        self.close()

    # Inside.

    def _check_stages(self, part: Optional[str]) -> None:
        layout = self.layout
        if layout is None or layout.whole:
            return
        if part is None:
            raise ValueError(f"timed: layout {layout.file} has several stages, where passes of other microbatches come between "
                             "one's own: measure each in a block of its own, with part=\"forward\" and part=\"backward\"")
        if layout.schedule == "zb-h1":
            raise ValueError("timed: zb-h1 has backward passes in two, of inputs and of weights: measure both, and tell the sum "
                             "with loader.report(microbatch, seconds, forward=...)")

    def _sit_down(self, source: Any, layout: Any, place: Any, replica_group: Any, reprofile: Any) -> Optional[PlaceInLayout]:
        if layout is None:
            if place is not None:
                raise ValueError("place= is a place in a layout: give layout=, too")
            return None
        taken = take_place(layout, place, self._process, "://" in os.fspath(source), replica_group)
        if reprofile is not None and not taken.layout.whole:
            raise ValueError(f"reprofile= measures the whole model, and no rank of layout {taken.layout.file} has all stages: "
                             "leave it out")
        return taken

    def _data_ranks(self) -> int:
        """Those that samples are divided over."""
        return self._process.world_size if self._place_in_layout is None else self._place_in_layout.layout.llm["data"]

    def _host(self, shards: str, settings: Dict[str, str]) -> str:
        if int(os.environ.get("LOCAL_WORLD_SIZE", self._process.world_size)) < self._process.world_size:
            raise RuntimeError("an embedded node serves the ranks of one host: for several hosts run `isocost serve` "
                               "and give its endpoint instead of a directory")
        if Resources.forked_beside_a_node:
            raise RuntimeError("this process was forked while a loader node ran in it, and its decoding threads did not "
                               "come along: start processes with 'spawn', close the loader before the fork, or run "
                               "`isocost serve`")
        self._resources.directory = SocketDirectory()
        settings = {"bad_samples_file": "", "max_bad_samples": "100%", **settings}
        settings["shards"] = shards
        if self._place_in_layout is None:
            settings["ranks"] = str(self._process.world_size)
        else:
            settings["layout"] = self._place_in_layout.layout.file
        settings["bind"] = f"ipc://{self._resources.directory.path}/node"
        self._resources.node = _isocost.Node(settings, _log, self._lengths)
        return self._resources.node.endpoint

    def _client(self) -> Any:
        self._check_process()
        if not self._closer.alive:
            from isocost.errors import ClosedError
            raise ClosedError("the loader is closed")
        if self._resources.client is None:
            group = self._replica_group
            client = self._connect() if group is None else Replicas(group, self._connect)
            cursor = client.welcome()["cursor"]
            self._start = self._start._replace(cursor=cursor)
            self._next = self._next._replace(cursor=cursor)
            self._resources.pipeline = self._make_pipeline(client)
            self._resources.client = client  # last: an interrupt before begins again
        return self._resources.client

    def _make_pipeline(self, client: Any) -> Optional[Pipeline]:
        whole = self._place_in_layout is None or self._place_in_layout.layout.whole
        if self._replica_group is not None:  # its first member transforms for all
            if self._transform is None or client.client is None:
                return None
            return Pipeline(client.client, self._transform, whole, lambda raw, tensors: (raw, tensors), self._prefetch)
        if self._transform is None and self._collate is None:
            return None
        return Pipeline(client, self._transform, whole, self._finish(), self._prefetch)

    def _finish(self) -> Callable[[Any, Dict[str, Any]], Tuple[Microbatch, Any]]:
        import torch

        here = self._device is None or self._device.type == "cuda"
        return functools.partial(_finished, self._pin and here and torch.cuda.is_available(), self._collate)

    def _connect(self) -> Any:
        server_key, secret_key = self._keys
        taken = self._place_in_layout
        rank, world_size = self._process if taken is None else (taken.receiver, taken.layout.receivers)
        return _isocost.Client(endpoint=self._endpoint, rank=rank, world_size=world_size,
                               layout=0 if taken is None else taken.layout.fingerprint, prefetch=self._prefetch, connect_timeout_s=self._connect_timeout,
                               start=tuple(self._start), server_key_file=server_key, secret_key_file=secret_key,
                               hardware=hardware())

    def _restart(self, start: State) -> None:
        """The next connection begins at `start`."""
        self._check_process()
        self._start = self._next = start
        self._finished = True
        self._restarts += 1
        self._last = None
        self._pending.clear()
        self._passes.clear()
        self._resources.leave()

    def _take(self) -> Tuple[bool, Any]:
        """Whether an epoch has ended, else the next microbatch or what `collate` made of it."""
        self._report_timers()
        self._last = None
        microbatch, item = self._receive()
        if microbatch is None:
            self._next = self._next._replace(epoch=max(item["epoch"] + 1, self._next.epoch), step=0)
            self._ended = item["last_epoch"]
            return True, None
        step = microbatch.step + 1 if microbatch.last_of_step else microbatch.step
        cost_model_state = microbatch.cost_model_state or self._next.cost_model_state
        self._next = self._next._replace(epoch=microbatch.epoch, step=step, cost_model_state=cost_model_state)
        if microbatch.profile_wanted:
            self._profile_again()
        self._last = microbatch
        self._counts["microbatches"] += 1
        self._counts["waited_s"] += microbatch.waited_s
        return False, item if self._device is None else moved(item, self._device)

    def _profile_again(self) -> None:
        if self._reprofile is None:
            _LOG.warning("the model has changed, and the node asks for a new profile: give reprofile= to measure one")
            return
        try:
            profile = json.dumps(self._reprofile())
        except Exception as error:  # correction goes on without it
            _LOG.warning("reprofile= failed, the old profile stays: %s: %s", type(error).__name__, error)
            return
        self._client().send_profile(profile)

    def _receive(self) -> Tuple[Optional[Microbatch], Any]:
        """A microbatch and what is handed out for it, or None and the end of an epoch."""
        client = self._client()
        pipeline = self._resources.pipeline
        if self._replica_group is None:
            if pipeline is not None:
                return pipeline.next()
            raw, rest = _next(client)
        else:
            raw, rest = client.next(lambda: _next(client.client) if pipeline is None else pipeline.next())
        return (None, rest) if raw is None else self._finish()(raw, rest)

    def _in_use(self) -> Callable[[], bool]:
        """Tells whether a microbatch is in use; does not keep the loader."""
        this = weakref.ref(self)

        def in_use() -> bool:
            loader = this()
            return loader is not None and loader._last is not None

        return in_use

    def _use_timers(self, timers: timing.ModuleTimers) -> None:
        if self._timers is not None:
            self._timers.remove()
        self._timers = timers

    def _report_timers(self) -> None:
        if self._timers is not None and self._last is not None:
            self._pending.add(self._last, self._timers.take())
        for microbatch, seconds in self._pending.measured():
            self._send_report(microbatch, seconds.get(timing.ALL, seconds), seconds.get(timing.FORWARD, -1.0))

    def _send_report(self, microbatch: Microbatch, seconds: Union[float, Mapping[str, float]], forward: float) -> None:
        try:
            spread = by_module(microbatch, seconds)
        except ValueError as error:  # a debugger's stop, say: no reason to end training
            _LOG.warning("not reported: %s", error)
            return
        if forward >= sum(measured for measured in spread if measured > 0):  # of a microbatch without work, say
            forward = -1.0
        self._client().report(microbatch.epoch, microbatch.step, microbatch.index, spread, forward)
        self._counts["reports"] += 1

    def _check_process(self) -> None:
        if self._resources.pid != os.getpid():
            raise RuntimeError("this isocost.DataLoader was made before the process forked: make it in the process "
                               "that uses it")


class _Timed:
    def __init__(self, loader: DataLoader, microbatch: Microbatch, part: Optional[str]):
        self._pending, self._passes = loader._pending, loader._passes
        self._microbatch = microbatch
        self._part = part

    def __enter__(self) -> None:
        self._watch = timing.Stopwatch()

    def __exit__(self, kind: Any, *_exception: Any) -> None:
        if kind is not None:
            return
        if self._part is None:
            self._pending.add(self._microbatch, {timing.ALL: [self._watch.stop()]})
        else:
            self._passes.add(self._part, self._microbatch, self._watch.stop())


class _Epoch:
    """One iteration."""

    def __init__(self, loader: DataLoader):
        self._loader = loader
        self._restarts = loader._restarts
        self._finished = False

    @property
    def under_way(self) -> bool:
        return not self._finished and self._restarts == self._loader._restarts

    def __iter__(self) -> "_Epoch":
        return self

    def __next__(self) -> Any:
        if self._restarts != self._loader._restarts:
            raise RuntimeError("set_epoch or load_state_dict has ended this iteration: begin another one")
        while not self._finished:
            ended, item = self._loader._take()
            if not ended:
                return item
            if not self._loader._endless or self._loader._ended:
                self._finished = self._loader._finished = True
        raise StopIteration


def _next(client: Any) -> Tuple[Optional[Any], Dict[str, Any]]:
    """A raw microbatch and its tensors, or None and the end of an epoch."""
    raw = client.next()
    return (None, client.epoch_end()) if raw is None else (raw, torch_tensors(raw))


def _finished(pin: bool, collate: Optional[Callable[[Microbatch], Any]], raw: Any,
              tensors: Dict[str, Any]) -> Tuple[Microbatch, Any]:
    """The microbatch and what is handed out for it."""
    if pin:
        tensors = {name: tensor.pin_memory() for name, tensor in tensors.items()}
    microbatch = Microbatch(raw, tensors)
    if collate is None:
        return microbatch, microbatch
    try:
        return microbatch, collate(microbatch)
    except Exception as error:
        raise RuntimeError(f"collate= failed for {microbatch!r}: {type(error).__name__}: {error}") from error


def _log(level: int, text: str) -> None:
    _LOG.log(_LOG_LEVELS[min(level, len(_LOG_LEVELS) - 1)], text)
