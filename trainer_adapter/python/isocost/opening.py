"""Opens a loader: resolves its arguments, starts an embedded node, and prepares the connection to the node."""

import dataclasses
import logging
import os
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Set, Union

from isocost import _isocost
from isocost.base.logs import log
from isocost.connection.connection import Address, Connection, Preparation
from isocost.connection.resources import Resources
from isocost.connection.socket_directory import SocketDirectory
from isocost.layout import PlaceInLayout, resolve_place
from isocost.loop.reprofiler import Reprofiler
from isocost.microbatches.model_inputs import ModelInputs, Padded
from isocost.model_directory import model_directory
from isocost.options import arguments, keywords
from isocost.options.image_size import image_size_text
from isocost.options.node_arguments import NodeArguments
from isocost.options.node_options import NodeOptions
from isocost.options.node_settings import NodeSettings
from isocost.options.topology import ResolvedTopology, resolve
from isocost.rendezvous import rendezvous
from isocost.tokens.recorded_options import TokenOptions

_LOG = logging.getLogger("isocost")
_noted_padding: Set[str] = set()  # Directories of models.
# A remark of nodes that is of the model. Loaders to train and to evaluate have the same model.
_OF_THE_MODEL = "no model profile is given for "
_noted_of_models: Set[str] = set()

PathLike = Union[str, os.PathLike[str]]
Data = Union[PathLike, Sequence[PathLike]]  # as isocost.DataLoader takes it


@dataclasses.dataclass(frozen=True)
class LoaderArguments:
    """The arguments of isocost.DataLoader that its embedded node does not decide; its docstring describes them.

    Attributes:
        node: those that decide what an embedded node does.
        torch_options: the other keywords of torch's DataLoader.
    """

    data: Data
    rank: Optional[int]
    world_size: Optional[int]
    topology: Any
    layout: Optional[PathLike]
    endless: bool
    prefetch: Optional[int]
    device: Any
    connect_timeout: float
    model: Optional[PathLike]
    revision: Optional[str]
    image_size: Optional[Mapping[str, int]]
    batching: Union[str, Padded, None]
    loss: str
    transform: Any
    collate: Any
    reprofile: Any
    curve_server_key: str
    curve_secret_key: str
    node: NodeArguments
    torch_options: Mapping[str, Any]


class Opened(NamedTuple):
    """The parts of a loader once its arguments are resolved.

    Attributes:
        data: the data or the node's endpoint, as one text.
        topology: this process among those that train together.
        in_layout: its place in the layout; None: there is no layout.
        replica_group: the process group whose members receive the same microbatches; None: only this process.
        model: what makes a model's arguments of tensors; None: there is no model.
        image_size: sizes of pictures in place of those of the model's directory.
        endless: whether one iteration runs through all epochs.
        reprofiler: measures a model profile when the node asks for one.
        resources: what lives until the loader is closed.
        connection: the connection to the node, which connects when it is first used.
    """

    data: str
    topology: ResolvedTopology
    in_layout: Optional[PlaceInLayout]
    replica_group: Optional[Any]
    model: Optional[ModelInputs]
    image_size: Dict[str, int]
    endless: bool
    reprofiler: Reprofiler
    resources: Resources
    connection: Connection

    @property
    def data_ranks(self) -> int:
        """Number of ranks that samples are divided over."""
        return _data_ranks(self.topology, self.in_layout)


def open_loader(given: LoaderArguments) -> Opened:
    """Returns the parts of the loader. Starts the embedded node in the first process, for which the others wait. Raises
    what isocost.DataLoader raises, and leaves nothing running then."""
    resources = Resources()
    try:
        return _Opening(given, resources).open()
    except BaseException:
        resources.close(0.0)
        raise


class _Opening:
    """The steps by which a loader is opened, in their order."""

    def __init__(self, given: LoaderArguments, resources: Resources):
        arguments.require_torch()
        keywords.check(given.torch_options)
        self._given = given
        self._resources = resources
        self._data = arguments.data(given.data)
        self._image_size = image_size_text(given.image_size)
        self._is_endpoint = arguments.is_endpoint(self._data)
        self._topology = resolve(given.topology, given.rank, given.world_size, given.layout is not None)
        self._in_layout = None if given.layout is None else resolve_place(
            given.layout, self._topology.place, self._topology.process, self._is_endpoint,
            self._topology.replica_group)
        self._replica_group = (self._topology.replica_group if self._in_layout is None
                               else self._in_layout.tensor_group)

    def open(self) -> Opened:
        given = self._given
        device = arguments.device(given.device)
        if self._is_endpoint:
            given.node.refuse(self._data, given.torch_options)
            if self._image_size and given.model is None:
                raise ValueError("image_size= says how a node prepares pictures for a model, and there is no model=: "
                                 "give it, too, or say both to `isocost serve` alone")
        if given.model is not None:
            arguments.refuse_with_model({"transform": given.transform, "count_tokens": given.node.count_tokens})
        timeout = arguments.seconds("connect_timeout", given.connect_timeout)
        model = self._model_inputs(device, timeout)
        used = self._take_keywords()
        preparation = self._preparation(used, device, model)
        endless = arguments.flag("endless", given.endless)
        count_tokens = arguments.function("count_tokens", given.node.count_tokens)
        # Without stages, the first rank's answer is that of all.
        reprofiler = Reprofiler(arguments.function("reprofile", given.reprofile),
                                self._has_stages() or self._receiver() == 0)
        endpoint = self._data if self._is_endpoint else self._embed(self._node_settings(used, model), count_tokens,
                                                                    timeout)
        connection = Connection(self._resources, self._address(endpoint, timeout), self._replica_group, preparation)
        return Opened(self._data, self._topology, self._in_layout, self._replica_group, model,
                      dict(given.image_size or {}), endless, reprofiler, self._resources, connection)

    def _has_stages(self) -> bool:
        return self._in_layout is not None and not self._in_layout.layout.whole

    def _check_whole(self, message: str, needs_all_stages: bool) -> None:
        if needs_all_stages and self._has_stages():
            assert self._in_layout is not None
            raise ValueError(message.format(f"{self._in_layout.layout.file}"))

    def _model_inputs(self, device: Any, timeout: float) -> Optional[ModelInputs]:
        """Returns what makes a model's arguments."""
        given = self._given
        directory = model_directory(given.model, given.revision, self._topology.process, timeout)
        if directory is None:
            return None
        inputs = ModelInputs(directory, given.batching, given.loss, device, self._image_size)
        self._check_whole("the decoder of this model attends to the encoder's vectors in every layer, so it cannot be "
                          "cut into the stages of layout {}: leave layout= out", inputs.has_decoder)
        if inputs.linear_attention and given.batching is None:
            self._note_padding(inputs.directory)
        return inputs

    def _note_padding(self, directory: str) -> None:
        """Logs, in the first process and once for a model, that samples are padded although nobody asked for it."""
        if self._is_first_process() and directory not in _noted_padding:
            _noted_padding.add(directory)
            _LOG.warning("batching='padded': the model's linear attention does not keep packed samples apart, so each "
                         "sample is a row")

    def _take_keywords(self) -> Dict[str, Any]:
        """Returns the keywords of torch that are used; the first process warns of what they do."""
        notes = self._is_first_process()
        used = keywords.take(self._given.torch_options, note=notes)
        if notes and self._given.node.shuffle is None and "batch_size" in used:
            keywords.note_shuffling()
        return used

    def _is_first_process(self) -> bool:
        """Returns whether this is the first of the processes that make the loader."""
        if self._in_layout is not None:
            return self._in_layout.layout.rank_of(self._in_layout.place) == 0
        return self._topology.process.rank == 0 and rendezvous.is_first(self._replica_group)

    def _preparation(self, used: Mapping[str, Any], device: Any, model: Optional[ModelInputs]) -> Preparation:
        given = self._given
        pins = arguments.flag("pin_memory", used.get("pin_memory", False)) and _can_pin(device)
        return Preparation(arguments.function("transform", given.transform),
                           arguments.function("collate", given.collate),
                           self._in_layout is None or self._in_layout.layout.whole, pins,
                           _ahead(given.prefetch, used), device, model)

    def _node_settings(self, used: Mapping[str, Any], model: Optional[ModelInputs]) -> NodeSettings:
        padded = None if model is None else model.padded
        return self._given.node.settings(used, _data_ranks(self._topology, self._in_layout),
                                         model=None if model is None else model.directory,
                                         image_size=self._image_size,
                                         padded_multiple=None if padded is None else padded.multiple,
                                         reprofile=self._given.reprofile is not None)

    def _embed(self, settings: NodeSettings, count_tokens: Any, timeout: float) -> str:
        """Starts the node in the first process. Returns its endpoint; "" at members of a replica group that do not
        connect."""
        settings.add("data", self._data, "data=")
        process = self._topology.process
        key = rendezvous.endpoints.next_key(self._topology.data_group)
        if not rendezvous.is_first(self._replica_group):
            return ""
        node = rendezvous.endpoints.share(key, process, timeout, lambda: self._host(settings, count_tokens),
                                          dict(settings.pairs()))
        if process.rank != 0:
            settings.check_same(process.rank, node.settings, self._has_stages())
        return node.endpoint

    def _host(self, settings: NodeSettings, count_tokens: Any) -> str:
        """Starts the node in this process. Returns its endpoint."""
        world_size = self._topology.process.world_size
        if int(os.environ.get("LOCAL_WORLD_SIZE", world_size)) < world_size:
            raise RuntimeError("an embedded node serves the ranks of one host: for several hosts run `isocost serve` "
                               "and give its endpoint instead of a directory")
        if Resources.forked_beside_a_node:
            raise RuntimeError("this process was forked while a loader node ran in it, and its decoding threads did "
                               "not come along: start processes with 'spawn', close the loader before the fork, or run "
                               "`isocost serve`")
        self._resources.directory = SocketDirectory()
        settings.add("bind", f"ipc://{self._resources.directory.path}/node", "data=")
        layout = None if self._in_layout is None else self._in_layout.layout
        if layout is None:
            settings.add("ranks", world_size, "world_size=")
        arguments.add_program(settings)
        # Made before the token pass, which takes long and may replace tokens.
        options = _isocost.NodeOptions(settings.pairs(), layout, "" if layout is None else layout.file)
        if settings.value("model"):
            _make_missing_tokens(self._data, settings)
        node = self._resources.node = _isocost.Node(options, _log_of_node, count_tokens)
        return str(node.endpoint)

    def _receiver(self) -> int:
        """Returns the number by which the node knows this process, or the group that it receives with."""
        return self._topology.process.rank if self._in_layout is None else self._in_layout.receiver

    def _address(self, endpoint: str, timeout: float) -> Address:
        world_size, fingerprint = self._topology.process.world_size, 0
        if self._in_layout is not None:
            layout = self._in_layout.layout
            world_size, fingerprint = layout.receivers, layout.fingerprint
        return Address(endpoint, self._receiver(), world_size, fingerprint, timeout, self._given.curve_server_key,
                       self._given.curve_secret_key)


def _data_ranks(topology: ResolvedTopology, in_layout: Optional[PlaceInLayout]) -> int:
    return topology.process.world_size if in_layout is None else int(in_layout.layout.llm["data"])


def _can_pin(device: Any) -> bool:
    if device is not None and device.type != "cuda":
        return False
    import torch

    return bool(torch.cuda.is_available())


def _ahead(prefetch: Optional[int], used: Mapping[str, Any]) -> int:
    """Returns how many microbatches wait ready."""
    factor = arguments.whole("prefetch_factor", used.get("prefetch_factor", 2), 1)
    if prefetch is None:
        return factor
    if "prefetch_factor" in used:
        raise ValueError("prefetch= and prefetch_factor= are the same setting: give one of them")
    return arguments.whole("prefetch", prefetch, 1)


def _log_of_node(level: int, text: str) -> None:
    """Logs what a node says, and what it says of the model once in a process."""
    if text.startswith(_OF_THE_MODEL):
        if text in _noted_of_models:
            return
        _noted_of_models.add(text)
    log(level, text)


def _make_missing_tokens(data: str, settings: NodeSettings) -> None:
    # Imported here, since only a model needs these modules.
    from isocost.tokens.token_pass import make_missing
    from isocost.tokens.workers import Settings

    make_missing(Settings(data, settings.value("index_dir"), settings.value("model"), TokenOptions(),
                          settings.value("ignore_parts"), settings.value("weight_key", "weight"),
                          settings.value("image_size"),
                          int(settings.value("max_decoded_pixels", str(NodeOptions.max_decoded_pixels))),
                          settings.value("media_root"), settings.value("number_keys", "off") == "on",
                          settings.value("text"), settings.value("format"), settings.value("split"),
                          settings.value("ca_file")),
                 int(settings.value("workers", "0")) or len(os.sched_getaffinity(0)))
