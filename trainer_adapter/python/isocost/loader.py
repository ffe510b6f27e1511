"""The loader: isocost.DataLoader, in place of torch.utils.data.DataLoader."""

import json
import weakref
from typing import Any, Callable, Dict, Iterator, List, Mapping, NoReturn, Optional, Union

from isocost import _isocost
from isocost.connection.state import State
from isocost.dataset import Dataset
from isocost.layout import Layout, Place
from isocost.loop.iteration import Iteration
from isocost.loop.trained import Trained
from isocost.loop.training_loop import TrainingLoop
from isocost.microbatches.microbatch import Microbatch
from isocost.microbatches.model_inputs import Padded
from isocost.microbatches.transform import Transform
from isocost.opening import Data, LoaderArguments, PathLike, open_loader
from isocost.options import arguments
from isocost.options.node_arguments import NodeArguments
from isocost.options.node_options import NodeOptions, RecipeOptions
from isocost.rendezvous.rank_check import RankCheck
from isocost.rendezvous.rank_sums import sum_over_ranks
from isocost.timing.recorder import NotTimed, Pass, Recorder, Timed, module_timers
from isocost.timing.timers import ModuleTimers

_FRAMEWORKS = ("or give it to a framework by its integration: transformers' Trainer by "
               "isocost.integrations.transformers, Lightning by isocost.integrations.lightning")
_GRACE_S = 10.0  # Seconds in which a closing host lets the other ranks finish.


class DataLoader:
    """Hands this rank its microbatches of every global batch, equal in cost to those of all other ranks.

    It takes the place of torch.utils.data.DataLoader. The whole training loop:

        >>> import isocost
        >>> loader = isocost.DataLoader("data/shards", global_batch_size=64, microbatches=4)
        >>> for microbatch in loader:
        ...     with loader.timed(microbatch):  # measured seconds correct the cost model
        ...         loss = isocost.token_loss(model(**microbatch), microbatch)
        ...         loss.backward()  # with DistributedDataParallel: (loss * world_size).backward()
        ...     if microbatch.last_of_step:
        ...         optimizer.step()
        ...         optimizer.zero_grad()

    One iteration is one epoch: this rank's microbatches (`isocost.Microbatch`) in order, as many as every other rank
    has. It has ended once its last microbatch was handed out, also in a loop that takes `len(loader)` of them and asks
    for no more. The next iteration is the next epoch, also after a `break` in an epoch of which steps are trained; a
    warning then says that the rest is not. If none is trained (see `state_dict`), the next iteration begins where the
    one that was left began. With endless it goes on behind the last step that is trained.
    All ranks make the same loader. Under torchrun rank 0 hosts the loader node, and the others find it.

    Args:
        data: what to train on. A directory of WebDataset shards, a shard, a pattern ("shards/{000..099}.tar",
            "**/*.tar"), a list of these, or a file with one on each line: a loader node runs inside this process (with
            several ranks, inside that of rank 0). Or the endpoint of a node that `isocost serve` runs,
            "tcp://HOST:PORT" or "ipc://PATH".

        rank, world_size: data-parallel rank and number of ranks. Default: those of the initialised process group, else
            of torchrun (RANK, WORLD_SIZE), of an mpirun (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE; PMI_RANK,
            PMI_SIZE), or of a step of srun (SLURM_PROCID, SLURM_STEP_NUM_TASKS), else one process. If a process group
            is initialised later, the first microbatch after that is ValueError if its numbers differ.
        topology: which ranks receive different microbatches, in one of four forms. The first two give rank and
            world_size themselves.
            - A torch DeviceMesh with named dimensions. Ranks that differ along dp, ddp, fsdp, data, dp_replicate or
              dp_shard receive different microbatches; ranks that differ along other dimensions receive the same.
            - The torch.distributed process group of the data-parallel ranks. Default: all processes. With a layout: of
              all its ranks.
            - An isocost.Place, this process's place in the layout. Default: that of its rank.
            - The pair (data group, replica group). The members of a replica group (tensor or context parallel) receive
              the same microbatch: the first one loads, and sends the tensors to the others. In place of the data group
              the pair may hold None or an isocost.Place.
        layout: the file that `isocost plan` writes. Every process receives what its place in the layout consumes
            (docs/layout.md). It sets microbatches. A node that `isocost serve` runs must have been given the same
            layout.

        global_batch_size: samples of one optimizer step, over all ranks. Default: 64, or batch_size of torch's keywords
            x ranks x microbatches.
        microbatches: microbatches per rank and step. Default: 4, or 1 with torch's batch_size; with one of the limits
            below, as few as keep it, chosen for each step and equal on all ranks.
        max_tokens, max_vision_tokens, max_memory: what a microbatch may hold at most: tokens of the LLM, patches of the
            vision encoder, and predicted memory ("40GiB": activations by the model profile, and tensors). A single
            sample that exceeds one is a bad sample. With microbatches= or a layout, a step that does not fit is an
            error that says by how much. Default: no limits.
        on_long: what becomes of a single sample that exceeds a limit. "bad", the default: it is a bad sample.
            "truncate": it loses whole turns from its end, with their media, until it fits; needs model and max_tokens.
        dummy_media: with model, what a microbatch gets that lacks pictures, videos or sounds, so that every rank runs
            the encoder, for which FSDP, `fully_shard` and DistributedDataParallel wait. "needed", the default: a small
            dummy without labels where the same microbatch of another rank has such media. "always": one in every
            microbatch, so that no parameter is ever unused. "off": nothing.
        shuffle: True: every epoch has an order of its own, which follows from seed and epoch. False: samples come in
            the order of the shards. "blocks": the shards are permuted, and then the samples of each window of
            `shuffle_shards` shards (isocost.NodeOptions), so that shards are read one window after another. Default:
            True, where torch's DataLoader does not shuffle.
        seed: decides, with the epoch, the samples of every step. Default: 0.
        epochs: epochs that the node prepares; 0, the default: without end.
        endless: one iteration runs through all epochs, and len() raises TypeError.
        prefetch: microbatches that wait ready for this rank. Default: 2.
        device: where the tensors are to be, e.g. "cuda". Default: the CPU.
        connect_timeout: seconds to wait for the node, for another rank that downloads the model's files, and for the
            other ranks to leave a job before this one. Ranks wait longer for one that makes indexes or tokens, or that
            waits for another job which makes them.
        heartbeat_timeout: seconds without a heartbeat before the node considers a rank lost, and a rank the node. Ranks
            that wait for a lost one fail after a second time-out of the same length. Default: 30.

        model: a model's directory or its name on the hub ("Qwen/Qwen3.5-4B"), as transformers' from_pretrained takes
            them. Its files say how media are prepared, its own tokenizer makes tokens of the text, and a microbatch is
            the arguments of its `forward`: `model(**microbatch).loss`. Text that has no tokens yet gets them first
            (`isocost tokenize` does it ahead of time). The files of a name, without weights, are taken from the hub's
            cache, or downloaded by one rank of each host; text that names an existing directory is that directory.
            With an endpoint: the directory that `isocost serve --model` was given, or the name of the same model.
            Excludes recipe.
        revision: with a name on the hub, the branch, tag or commit. Default: main.
        image_size: with model, sizes of pictures in place of those of its directory, by the keys of its image
            processor: {"max_pixels": 1003520} for Qwen, {"max_patches": 6} tiles for InternVL. Tokens do not depend on
            them. Videos have the sizes of the directory. With an endpoint: as `isocost serve --image-size` has them.
        batching: with model, "packed": samples are one row, without padding. "padded", or an isocost.Padded that says
            where and to which multiple: a row for each sample, with an `attention_mask`; an embedded node then plans
            by the cost of padded rows. With an endpoint: as its node does (`isocost serve --padded llm`). Default:
            "packed"; "padded" for Whisper, whose decoder attends to one sound in each row, and for Qwen3.5, whose
            linear attention keeps packed samples apart only on a GPU, with kernels of the packages
            flash-linear-attention and causal-conv1d.
        loss: with model, "model": its own loss, which is this microbatch's share of the global batch's mean.
            "token_loss": the microbatch has no labels (except for Whisper's, which its decoder also reads), and
            isocost.token_loss takes the logits; for models whose loss knows no `num_items_in_batch`, and for samples
            or turns with weights.
        workers, memory, cache, profile, recipe: the settings of NodeOptions that are used most, given directly.
        node: all other settings of an embedded node, an isocost.NodeOptions.

        transform: called with each isocost.Sample, in background threads; the order of samples is kept. It returns
            None, or a dict of torch tensors that replace or join the sample's, rows along the first dimension. If it
            returns new `input_ids`, labels (not shifted), position_ids and lengths follow from them unless it returns
            these, too. An exception names the sample, and the next step is not reached. With a layout of several stages
            each stage calls it with what it has of the samples, and replaced tensors must keep their number of rows.
        collate: called with each isocost.Microbatch, its tensors on the CPU, in a background thread (in a replica
            group, in the loop's thread). What it returns is handed out in place of the microbatch.
        count_tokens: called by the embedded node before a sample is planned, with a dict {"id", "shard", "key",
            "parts": [{"name", "modality", "text_bytes" | "width" | ...}], "llm_tokens", "label_tokens"}. Returns None,
            or a dict of the last two: how many there will be after `transform`.
        reprofile: called between two steps when the node detects model drift (an encoder was unfrozen, the context
            grew), with the seconds that it may take if it has a parameter `budget_s`. Returns the model profile that
            isocost.profile_model measures now, with a layout of several stages the layers of this stage
            (isocost.profile_layers). All ranks that have it call it at the same step; the first one's profile counts,
            or the layers of all stages. It should leave no gradients. What it may take is a share of the training so
            far (reprofile_budget of NodeOptions). A node that `isocost serve` runs asks only with `--reprofile on`.
        curve_server_key, curve_secret_key: key files, where the node uses CURVE.
        **torch_options: the other keywords of torch.utils.data.DataLoader. The first process of a job warns once of
            each, with a `KeywordNote` that says what it does here.
            - Used: batch_size, num_workers, drop_last, prefetch_factor, generator, timeout, pin_memory. A batch_size
              that contradicts global_batch_size is refused.
            - Not needed, without effect: worker_init_fn, multiprocessing_context, persistent_workers,
              pin_memory_device, in_order, and snapshot_every_n_steps of torchdata's StatefulDataLoader.
            - Refused: dataset, which is `data` here, sampler, batch_sampler and collate_fn.

    Settings of the node are refused with an endpoint; give them to `isocost serve`.

    One thread at a time uses a loader. Ctrl-C interrupts a wait within 100 ms. Close the loader, or use it as a context
    manager; otherwise it closes when the interpreter exits. It cannot be used after a fork, and a process that was
    forked while a loader node ran in it cannot host another one: start such processes with 'spawn'.

    Raises: ValueError for an invalid argument, arguments that contradict each other, a memory limit that cannot be
        kept, a state of other data, a revision that the hub does not have, and ranks that disagree; TypeError for an
        argument of a wrong type or an unknown keyword; ImportError without PyTorch, and for a name on the hub without
        huggingface_hub; FileNotFoundError if there are no shards, or no model of that directory or name, also in
        the hub's cache where HF_HUB_OFFLINE is set; PermissionError for a gated model, ConnectionError where the hub
        cannot be reached, and OSError where files cannot be downloaded; ShardError for damaged shards or too many bad
        samples; ProtocolError for a node of another version; NodeUnavailableError where the node has gone or failed;
        TimeoutError if no node answers, or the download takes too long; MemoryError if this machine has no
        memory for a microbatch; ClosedError after `close`.
    """

    # Libraries read these of torch's loader, and assign `_iterator`.
    sampler = None
    batch_sampler = None

    def __init__(self, data: Data = "", *, rank: Optional[int] = None, world_size: Optional[int] = None,
                 topology: Any = None, layout: Optional[PathLike] = None,
                 global_batch_size: Optional[int] = None, microbatches: Optional[int] = None,
                 shuffle: Union[bool, str, None] = None, seed: Optional[int] = None, epochs: int = 0,
                 endless: bool = False, prefetch: Optional[int] = None, device: Any = None,
                 connect_timeout: float = 120.0, heartbeat_timeout: Optional[float] = None,
                 max_tokens: Optional[int] = None, max_vision_tokens: Optional[int] = None,
                 max_memory: Optional[Union[int, str]] = None, on_long: Optional[str] = None,
                 dummy_media: Optional[str] = None,
                 workers: Optional[int] = None, memory: Optional[Union[int, str]] = None,
                 cache: Optional[PathLike] = None, profile: Optional[PathLike] = None, model: Optional[PathLike] = None,
                 revision: Optional[str] = None, image_size: Optional[Mapping[str, int]] = None,
                 batching: Union[str, Padded, None] = None, loss: str = "model",
                 recipe: Optional[Union[str, RecipeOptions]] = None,
                 node: Optional[NodeOptions] = None, transform: Optional[Transform] = None,
                 collate: Optional[Callable[[Microbatch], Any]] = None,
                 count_tokens: Optional[Callable[[Dict[str, Any]], Optional[Dict[str, int]]]] = None,
                 reprofile: Optional[Callable[..., Mapping[str, Any]]] = None,
                 curve_server_key: str = "", curve_secret_key: str = "", **torch_options: Any):
        direct = {"max_tokens": max_tokens, "max_vision_tokens": max_vision_tokens, "max_memory": max_memory,
                  "on_long": on_long, "dummy_media": dummy_media, "workers": workers, "memory": memory,
                  "cache": cache, "profile": profile, "recipe": recipe}
        asked = NodeArguments(global_batch_size, microbatches, shuffle, seed, epochs, heartbeat_timeout, count_tokens,
                              node, direct)
        self._opened = opened = open_loader(LoaderArguments(
            data, rank, world_size, topology, layout, endless, prefetch, device, connect_timeout, model, revision,
            image_size, batching, loss, transform, collate, reprofile, curve_server_key, curve_secret_key, asked,
            torch_options))
        self._closer = weakref.finalize(self, opened.resources.close, _GRACE_S if self.world_size > 1 else 0.0)
        self._connection = opened.connection
        trained = Trained(opened.connection)
        self._recorder = Recorder(self.chunks, opened.connection.send_report, trained.note_measured,
                                  shared=opened.replica_group is not None)
        ranks = RankCheck(opened.topology.process, opened.topology.source)
        self._loop = TrainingLoop(opened.connection, trained, self._recorder, ranks, opened.endless, opened.reprofiler)

    def __reduce__(self) -> Any:
        raise TypeError("an isocost.DataLoader cannot be pickled or copied: make it in the process that uses it; its "
                        "state_dict() can be")

    def __repr__(self) -> str:
        next_step = self._loop.next_step
        where = f"rank {self.rank} of {self.world_size}" if self.place is None else f"{self.place}"
        return (f"<isocost.DataLoader {self._opened.data!r}: {where}, next epoch {next_step.epoch}, step "
                f"{next_step.step}, {self._connection.state}>")

    @property
    def rank(self) -> int:
        """The rank of this process: the data-parallel rank, or with a layout the rank among all its processes."""
        return self._opened.topology.process.rank

    @property
    def world_size(self) -> int:
        """Number of data-parallel ranks, or with a layout of all its processes."""
        return self._opened.topology.process.world_size

    @property
    def model(self) -> Optional[str]:
        """The directory of the model whose arguments the microbatches are, of a name that of its files in the hub's
        cache; None: there is none."""
        return None if self._opened.model is None else self._opened.model.directory

    @property
    def image_size(self) -> Dict[str, int]:
        """Sizes of pictures in place of those of the model's directory, as they were given; {} for the directory's."""
        return self._opened.image_size

    @property
    def epochs(self) -> int:
        """Number of epochs that the node delivers; 0: without end. Blocks until the node has answered."""
        return int(self._connection.welcome()["epochs"])

    @property
    def global_batch_size(self) -> int:
        """Samples of a step over all ranks; the last one of an epoch may have fewer. Blocks until the node has
        answered."""
        return int(self._connection.welcome()["global_batch_size"])

    @property
    def endless(self) -> bool:
        """Whether one iteration runs through all epochs."""
        return self._opened.endless

    @property
    def layout(self) -> Optional[Layout]:
        """The layout that was given; None: there is none."""
        return None if self._opened.in_layout is None else self._opened.in_layout.layout

    @property
    def place(self) -> Optional[Place]:
        """This process's place in the layout; None if there is none."""
        return None if self._opened.in_layout is None else self._opened.in_layout.place

    @property
    def chunks(self) -> int:
        """Number of chunks of the model that this process holds: that of the layout's LLM stages, else 1."""
        return 1 if self._opened.in_layout is None else self._opened.in_layout.chunks

    @property
    def dataset(self) -> Dataset:
        """The data: an object with `len()`, `data`, `samples` and `fingerprint`. Blocks until the node has answered."""
        welcome = self._connection.welcome()
        samples = welcome["samples_per_epoch"] if welcome["has_length"] else None
        return Dataset(self._opened.data, samples, welcome["dataset_fingerprint"])

    @property
    def sources(self) -> List[str]:
        """The names of a mixture's sources, in the same order on all ranks; empty without a mixture. Blocks until the
        node has answered."""
        mixture = self._connection.welcome()["mixture"]
        return [str(source["name"]) for source in json.loads(mixture).get("sources", [])] if mixture else []

    @property
    def batch_size(self) -> Optional[int]:
        """Samples per microbatch, as the keyword: the global batch size divided by the numbers of data-parallel ranks
        and of microbatches.

        It is their mean, since microbatches are balanced by cost; None if it is no whole number, and if each
        step chooses its number of microbatches. Blocks until the node has answered."""
        welcome = self._connection.welcome()
        if welcome["microbatches"] == 0:
            return None
        samples, rest = divmod(welcome["global_batch_size"], self._opened.data_ranks * welcome["microbatches"])
        return samples if rest == 0 else None

    @property
    def has_length(self) -> bool:
        """Whether an epoch has a number of steps: not for an endless loader, and not for a mixture of data sets without
        a length. Blocks until the node has answered."""
        return not self.endless and bool(self._connection.welcome()["has_length"])

    @property
    def has_proportions(self) -> bool:
        """Whether it draws from a mixture of data sets with proportions, of which no epoch is one pass over all
        samples. Blocks until the node has answered."""
        mixture = self._connection.welcome()["mixture"]
        return bool(mixture) and any("proportions" in source for source in json.loads(mixture).get("sources", ()))

    @property
    def recorder(self) -> Recorder:
        """Collects this loader's measured seconds and sends them. For code that measures passes itself, as
        isocost.schedule_steps does."""
        return self._recorder

    # Iteration

    def __iter__(self) -> Iterator[Any]:
        return self._loop.begin(self)

    def begin_steps(self) -> Iteration:
        """Begins an iteration over steps. For isocost.steps."""
        return self._loop.begin_steps(self)

    def __getitem__(self, _index: Any) -> NoReturn:
        """Raises TypeError: a framework that asks for items one by one would make batches of its own."""
        raise TypeError(f"an isocost.DataLoader has microbatches and no items: iterate over it, {_FRAMEWORKS}")

    def __len__(self) -> int:
        """Returns the number of this rank's microbatches in a whole epoch. Blocks until the node has answered.

        Bad samples that decoding finds may make the last step shorter, limits of a microbatch may make it longer, and
        with tail "carry" later epochs have a step more or less than the first. Raises TypeError if the loader is
        endless, for a mixture of data sets without a length, and if each step chooses its number of microbatches: with
        a limit and without microbatches=, and for an encoder with ranks of its own."""
        if self.endless:
            raise TypeError("an endless isocost.DataLoader has no length")
        if self.place is not None and self.place.module == "encoder":
            raise TypeError("an encoder with ranks of its own has no length: each step decides how many microbatches "
                            "it has")
        steps, welcome = self.steps_per_epoch, self._connection.welcome()
        batch, full = welcome["global_batch_size"], welcome["microbatches"]
        if full == 0:
            raise TypeError("a loader with a limit of a microbatch and without microbatches= has no length: each step "
                            f"decides how many microbatches it has. Iterate over it, {_FRAMEWORKS}")
        ranks = welcome["ranks"] if self.layout is None else self._opened.data_ranks
        return _isocost.microbatches_of_epoch(steps, welcome["samples_per_epoch"], global_batch_size=batch,
                                              microbatches=full, ranks=ranks)

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps in a whole epoch, with limits of a microbatch too. Blocks until the node has answered.

        An epoch has fewer if all samples of a step are bad; with tail "carry" later epochs have a step more or less
        than the first. Raises TypeError for a mixture of data sets without a length."""
        welcome = self._connection.welcome()
        if not welcome["has_length"]:
            raise TypeError("a mixture of data sets has no length unless each source has `epochs`, no source has a "
                            "`proportion`, or `steps` is given: give one of these, or count the steps yourself")
        return int(welcome["steps_per_epoch"])

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration this epoch's. No effect if it would be anyway, so that a state within this epoch
        that was loaded keeps its step; from the beginning otherwise.
        Raises ValueError if epoch is not a whole number of at least 0."""
        arguments.whole("epoch", epoch, 0)
        self._loop.go_to_epoch(epoch)

    # State

    def state_dict(self, after: Optional[Microbatch] = None) -> Dict[str, Any]:
        """Returns the first step that is not trained yet: a small dict, equal at every rank and for any number of
        ranks, that JSON can hold. Take it after `optimizer.step()`.

        A microbatch is trained when its `timed` block has ended without an exception, when `report` was called for it,
        or when it is given here, and all before it are then trained, too. Those that were only handed out are not, so
        a loop may look ahead. In the middle of a step the state names that step, since its gradient was not applied;
        after its last microbatch it names the next one, after an epoch's last step the next epoch's first. The state
        also keeps the state of the cost model as of the last eight steps, kilobytes of text, from which a node that
        has measured nothing itself continues.

        Args:
            after: the last microbatch that is trained, for loops that do not measure every one. None: the last one that
                was measured.
        Raises: TypeError if `after` is no isocost.Microbatch; ValueError if whole steps were handed out and the loop
            has measured none, or none of the last eight, and for an `after` that was not handed out.
        """
        if after is not None:
            _check_handed_out("state_dict: after =", after)
        return self._loop.trained.state(after).to_dict()

    def note_trained(self, microbatch: Microbatch) -> None:
        """Records that a microbatch and all before it are trained. For loops of this package; a loop of yours measures
        them by `timed`, or gives `state_dict(after=microbatch)`."""
        self._loop.trained.note(microbatch)

    def begin_again(self) -> None:
        """Makes the next iteration begin at the job's first step. For integrations."""
        self._loop.begin_again()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration begin at a state. All ranks must do the same.

        Raises ValueError if the state is malformed. A state of other data is refused, with ValueError, when the node is
        asked."""
        self._loop.load(State.from_dict(state))

    # Measurement

    def timed(self, microbatch: Microbatch, part: Optional[Pass] = None) -> Union[Timed, NotTimed]:
        """Returns a context manager that measures its block, and reports the seconds for the microbatch, spread over
        its modules as predicted. On a CUDA device it uses events of the current device, which has to be the
        rank's (torch.cuda.set_device), and never waits for the stream. The microbatch is then trained, as far as
        `state_dict` knows. A block that an exception leaves is not measured, and its microbatch not trained.

        Only the rank's own work counts. Waits for the communication of DistributedDataParallel,
        FullyShardedDataParallel and `fully_shard` are left out, and so are other waits for a collective's result,
        except in a replica group (tensor or context parallelism), where they are part of the group's work.
        `stats()["communication_s"]` is their sum. Gradient accumulation (no_sync), checkpointing and torch.compile need
        no other form. If compiled autograd runs the backward pass of several ranks, waiting cannot be told from
        work: such blocks are not reported, and the log says so once.

        In a step whose seconds the node does not ask for (`microbatch.seconds_wanted`), the block is not measured, and
        its microbatch still counts as trained. `stats()["measuring_s"]` is what measuring took so far.

        Args:
            microbatch: the one that the block trains on.
            part: None: the block holds the forward and the backward pass, or always the same part of them.
                "forward", "backward": the block holds only that pass, of only this microbatch, and passes of other
                microbatches may come between. The seconds of several forward passes are added. One report is sent, with
                the forward pass told apart, after as many backward passes as the layout's LLM stages have chunks. Leave
                time that is spent waiting for neighbours outside the block.
        Raises: TypeError if microbatch is not an isocost.Microbatch; ValueError for another part, for a backward pass
            without a forward pass, and with a layout of several stages where `part` is None or the schedule has two
            backward passes (zb-h1).
        """
        _check_handed_out("timed:", microbatch)
        if part not in (None, "forward", "backward"):
            raise ValueError(f"timed: part = {part!r}: must be \"forward\" or \"backward\", or left out")
        _check_stages(self.layout, part)
        if part is not None:
            self._recorder.check_pass(part, microbatch)
        kind = Timed if microbatch.seconds_wanted else NotTimed
        return kind(self._recorder, microbatch, part)

    def attach(self, model: Any, *, vision: Optional[str] = None, audio: Optional[str] = None,
               llm: Optional[str] = None, encoder: Optional[str] = None) -> ModuleTimers:
        """Times parts of a model and reports their seconds, without changes to the training loop.

        Hooks on the named submodules measure the forward and backward pass of each microbatch. The loader reports the
        sums when the next microbatch is asked for. On a CUDA device events are used, and the stream is never waited
        for. Waiting for communication is left out as in `timed`. A module that a checkpoint computes again is measured
        with that; compiled autograd is not reported.

        Args:
            model: a torch.nn.Module, or a wrapper of one (DistributedDataParallel, FullyShardedDataParallel,
                torch.compile); submodules have the names that they have in the module itself.
            vision, audio, llm: the submodule's name for each module of the cost model.
            encoder: in place of the first two: one submodule for vision and audio together.
        Returns: the timers. `remove()` takes the hooks off. Those of an earlier call are taken off.
        Raises: TypeError if model is no torch.nn.Module; ValueError for a submodule that it does not have, if
            none is named, and for a loader whose layout has several stages, where passes of other microbatches come
            between the two of one microbatch.

        Example:
            >>> loader.attach(model, encoder="vision_tower", llm="language_model")
        """
        layout = self.layout
        if layout is not None and not layout.whole:
            raise ValueError(f"attach: layout {layout.file} has several stages, and its schedule runs other "
                             "microbatches' forward passes before one's backward pass: hooks cannot tell whose seconds "
                             "these are. Use isocost.schedule_steps(loader, timed=...), loader.timed(microbatch, "
                             "part=\"forward\") and \"backward\", or loader.report(microbatch, seconds, forward=...)")
        if encoder is not None and (vision is not None or audio is not None):
            raise ValueError("attach: encoder= stands for vision and audio together: leave these two out, or give both "
                             "instead")
        named = {"vision": vision, "audio": audio, "llm": llm, "encoder": encoder}
        recorder = weakref.ref(self._recorder)  # The model's hooks do not keep the loader.

        def in_use() -> bool:
            recording = recorder()
            current = None if recording is None else recording.current
            return current is not None and current.seconds_wanted

        timers = module_timers(model, {name: path for name, path in named.items() if path is not None}, in_use,
                               self._recorder.shared)
        self._recorder.attach(timers)
        return timers

    def report(self, microbatch: Microbatch, seconds: Union[float, Mapping[str, float]], *,
               forward: Optional[float] = None) -> None:
        """Reports measured seconds of forward and backward passes, from which the cost model learns. The microbatch is
        then trained, as far as `state_dict` knows. Seconds of a step that the node does not ask for
        (`microbatch.seconds_wanted`) are checked and not sent, so that they need not be measured: give 0.

        Args:
            microbatch: one of the current or the previous step.
            seconds: {module: seconds} with the modules "vision", "audio" and "llm", or "encoder" for vision and audio
                together; or one number for all modules together. With a layout: of this stage.
            forward: the part of these seconds, over all modules, that forward passes took; None: not measured apart.
        Raises: ValueError for seconds that are NaN, negative or absurd (below 1 ns, over a day), a forward pass that
            took more than the whole, an unknown module, or a stale microbatch; ClosedError after `close`.
        """
        self._connection.check_open()
        self._recorder.send_seconds(microbatch, seconds, forward)
        self._loop.trained.note_measured(microbatch)

    def stats(self) -> Dict[str, Any]:
        """Returns counts since the loader was made: microbatches; waited_s, the seconds that the loop was blocked;
        reports; communication_s, the seconds of waiting for communication that these leave out; measuring_s, the
        seconds that measuring and reporting took this process; bytes_copied from the socket into tensors, which those
        in shared memory are not; bytes_in_use by tensors; if this process hosts the node, its summary as node. Its
        samples are planned, and delivered when their rank has acknowledged them; its rank_slowdown holds the learned
        factor on each rank's seconds, 1 if it has learned none."""
        return {"microbatches": self._loop.microbatches, "waited_s": self._loop.waited_s,
                "reports": self._recorder.sent, "communication_s": self._recorder.communication_s,
                "measuring_s": self._recorder.measuring_s,
                **self._connection.counts()}

    def sum_over_ranks(self, tensor: Any) -> Any:
        """Returns a torch tensor's sum over the data-parallel ranks. For isocost.evaluate, which says what it
        raises."""
        return sum_over_ranks(tensor, self._opened.topology.process, self._opened.topology.data_group,
                              self._opened.replica_group)

    # Closing

    def close(self) -> None:
        """Leaves the job, and stops what runs in this process. A node that runs here for several ranks first serves the
        others until they have left, for up to 10 seconds. Calling it again does nothing."""
        self._closer()

    def __enter__(self) -> "DataLoader":
        return self

    def __exit__(self, *_exception: Any) -> None:
        self.close()


def _check_handed_out(where: str, microbatch: Any) -> None:
    """Raises TypeError for an object that no loader has handed out."""
    if not isinstance(microbatch, Microbatch):
        raise TypeError(f"{where} {type(microbatch).__name__} is no isocost.Microbatch; collate= may keep the one "
                        "it was called with")
    if not hasattr(microbatch, "predicted"):
        raise TypeError(f"{where} this microbatch was made of a mapping: give the one that the loader handed out")


def _check_stages(layout: Optional[Layout], part: Optional[Pass]) -> None:
    """Raises ValueError if a layout's schedule keeps `timed` from telling whose seconds a block measures."""
    if layout is None or layout.whole:
        return
    if part is None:
        raise ValueError(f"timed: layout {layout.file} has several stages, where passes of other microbatches come "
                         "between one's own: measure each in a block of its own, with part=\"forward\" and "
                         "part=\"backward\"")
    if layout.schedule == "zb-h1":
        raise ValueError("timed: zb-h1 has two backward passes, of inputs and of weights: measure both, and tell "
                         "the sum with loader.report(microbatch, seconds, forward=...)")
