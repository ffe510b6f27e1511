"""A loader in the forms that pipeline schedules take: Megatron-style iterators, and the steps of
torch.distributed.pipelining."""

import functools
import inspect
import itertools
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Union

from isocost.base.tensor_names import CU_SEQLENS, IGNORED_LABEL, INPUT_IDS, LABELS, LENGTHS, LOSS_WEIGHTS, POSITION_IDS
from isocost.loader import DataLoader
from isocost.microbatches.microbatch import Microbatch
from isocost.optimizer_steps import steps
from isocost.timing.timers import StageTimers

_LOSS_TENSORS = (LABELS, LOSS_WEIGHTS)


def stage_iterators(loader: DataLoader) -> Union[Iterator[Any], List[Iterator[Any]]]:
    """Returns what Megatron-style schedules take as `data_iterator`: an iterator over this stage's microbatches, one
    for each `next(data_iterator)` of forward_step. If the layout's LLM stages hold several chunks of the model,
    returns a list of iterators, one for each chunk, each of which sees every microbatch.

    Every stage has an iterator, since packed attention needs cu_seqlens everywhere. It ends with the epoch; that of an
    endless loader never does. `microbatch.last_of_step` is True for the last microbatch of a step; an encoder with
    ranks of its own has another number of microbatches in a step than the LLM. Measure passes by
    `loader.timed(microbatch, part=...)` (docs/layout_trainers.md).

    Example:
        >>> loader = isocost.DataLoader("data/shards", layout="layout.json", global_batch_size=512, endless=True)
        >>> data_iterator = isocost.stage_iterators(loader)
        >>> def forward_step(data_iterator, model):
        ...     microbatch = next(data_iterator)
        ...     return model(**microbatch), functools.partial(loss, microbatch)
    """
    iterator: Iterator[Microbatch] = iter(loader)
    return iterator if loader.chunks == 1 else list(itertools.tee(iterator, loader.chunks))


class ScheduleStep:
    """A step's microbatches as one rank of a pipeline takes them. A step of fewer microbatches than the schedule has
    ends with microbatches of only padding.

    Attributes:
        microbatches: list of Microbatch, as the loader gave them.
        rows: list of int, the rows of the LLM's tensors for each microbatch of the schedule. If a microbatch has
            fewer tokens, padding follows its last sample as a sequence of its own, in `lengths`, `cu_seqlens` and
            `position_ids` too, without labels or weight.
        inputs: what `schedule.step(**inputs)` takes where it takes split microbatches (current torch):
            arg_mbs: on the first stage (input_ids,); elsewhere empty, since activations come from the neighbour.
            kwarg_mbs: this rank's other tensors, by their names; media are not padded.
            target_mbs: on the last stage what isocost.pipeline_loss takes; else None.
    """

    def __init__(self, microbatches: List[Microbatch], rows: List[int], inputs: Dict[str, Any],
                 note_trained: Optional[Callable[[Microbatch], None]] = None):
        self.microbatches = microbatches
        self.rows = rows
        self.inputs = inputs
        self._note_trained = note_trained

    def run(self, schedule: Any, losses: Optional[List[Any]] = None) -> None:
        """Gives the stages the number of rows to receive, then calls `schedule.step(**inputs)`. On the last stage
        `losses` is filled with one loss for each microbatch of the schedule. The step is then trained, as far as
        `state_dict` knows; a loop that calls the schedule itself gives `state_dict(after=step.microbatches[-1])`.

        Raises ValueError for a schedule that divides gradients by the number of microbatches, and for
        microbatches of several shapes where a stage was not made by isocost.packed_stage."""
        if schedule.scale_grads:
            raise ValueError("the schedule divides gradients by its number of microbatches, and the loss has been "
                             "divided by the global batch's label tokens: make the schedule with scale_grads=False")
        stages = getattr(schedule, "_stages", None) or [schedule._stage]  # noqa: SLF001
        for stage in stages:
            if hasattr(stage, "rows"):
                stage.rows = self.rows
            elif stage.num_stages > 1 and len(set(self.rows)) > 1:
                raise ValueError("stages of torch.distributed.pipelining exchange tensors of one shape: make them with "
                                 "isocost.packed_stage, or give isocost.schedule_steps max_tokens")
        self._run(schedule, stages, losses)
        if self._note_trained is not None:
            self._note_trained(self.microbatches[-1])

    def _run(self, schedule: Any, stages: List[Any], losses: Optional[List[Any]]) -> None:
        if _takes_lists(schedule):
            schedule.step(**self.inputs, losses=losses, return_outputs=False)
            return
        # In older releases of torch, `step` can only cut one batch into equal parts, which packed sequences and media
        # are not. The method that it then calls, with lists, is private.
        for stage in stages:
            stage.clear_runtime_states()
        schedule._step_microbatches(**self.inputs, losses=losses)  # noqa: SLF001


def packed_stage(module: Any, stage_index: int, num_stages: int, device: Any, **options: Any) -> Any:
    """Returns a torch.distributed.pipelining.PipelineStage that exchanges activations without padding: it receives as
    many rows as each microbatch has tokens, which every stage knows from its own `cu_seqlens`.

    Activations have tokens as first dimension, and are no DTensors. The arguments are those of PipelineStage; the
    number of rows of `input_args` and `output_args` does not matter. Torch itself refuses these shapes under
    TORCH_DISTRIBUTED_DEBUG=DETAIL.

    Raises: RuntimeError for a torch whose schedules take no split microbatches."""
    return _packed_class()(module, stage_index, num_stages, device, **options)


@functools.lru_cache(maxsize=None)
def _packed_class() -> Any:
    import torch

    try:
        from torch.distributed import pipelining
    except ImportError:
        pipelining = None
    if pipelining is None or not _takes_lists(pipelining.Schedule1F1B):
        raise RuntimeError(f"packed_stage: the schedules of torch {torch.__version__} take no split microbatches: use "
                           "a newer one, or torch's own stages with max_tokens of isocost.schedule_steps")

    class PackedStage(pipelining.PipelineStage):  # type: ignore[misc]
        rows: List[int] = []  # One number for each microbatch.

        # These two methods allocate the buffers, and no public one does: each buffer is replaced by one with the rows
        # that come.
        def get_fwd_recv_ops(self, fwd_chunk_id: int) -> List[Any]:
            ops = super().get_fwd_recv_ops(fwd_chunk_id)
            return self._resized(ops, self.args_recv_info[fwd_chunk_id], fwd_chunk_id)

        def get_bwd_recv_ops(self, bwd_chunk_id: int) -> List[Any]:
            ops = super().get_bwd_recv_ops(bwd_chunk_id)
            return self._resized(ops, self.grad_recv_info[bwd_chunk_id], bwd_chunk_id) if ops else ops

        def _resized(self, ops: List[Any], infos: Sequence[Any], microbatch: int) -> List[Any]:
            for op in ops:
                for info in infos:
                    if info.buffer is op.tensor:
                        info.buffer = info.buffer.new_empty((self.rows[microbatch], *info.buffer.shape[1:]))
                        op.tensor = info.buffer
                        break
            return ops

    return PackedStage


def _takes_lists(schedule: Any) -> bool:
    return "arg_mbs" in inspect.signature(schedule.step).parameters


def schedule_steps(loader: DataLoader, max_tokens: Optional[int] = None, *, pad_token: int = 0,
                   timed: Union[Any, Iterable[Any], None] = None) -> Iterator[ScheduleStep]:
    """Returns an iterator over the steps of one iteration over `loader`, for a schedule of torch.distributed.pipelining
    on this rank.

    Args:
        loader: an isocost.DataLoader with a layout whose encoder, if it has one, stands in the LLM's first stage
            (`encoder_place` "llm").
        max_tokens: None: microbatches stay as they are, for stages that isocost.packed_stage made. A number: they are
            padded to that many rows, as torch's own stages need, which exchange tensors of one shape.
        pad_token: input id of padding.
        timed: the module of this rank's stage, or the modules of its stages (any iterable, a torch.nn.ModuleList too).
            Their forward and backward passes are measured and reported, less the share of padding. For schedules
            without a separate backward pass of weights. None: nothing is measured.

    Raises: ValueError for a loader without layout, an encoder with ranks of its own or beyond the LLM's first stage,
        and a microbatch of more than `max_tokens`; TypeError if `timed` is no module.

    Example:
        >>> stage = isocost.packed_stage(model, loader.place.stage, loader.layout.llm["pipeline"], device, group=group)
        >>> schedule = Schedule1F1B(stage, loader.layout.microbatches, isocost.pipeline_loss, scale_grads=False)
        >>> for step in isocost.schedule_steps(loader, timed=model):
        ...     step.run(schedule)
        ...     # sum gradients over the data-parallel ranks; optimizer
    """
    layout = loader.layout
    if layout is None:
        raise ValueError("schedule_steps: the loader has no layout, so there is no pipeline: give it layout=")
    if layout.has_encoder_ranks:
        raise ValueError(f"schedule_steps: layout {layout.file} gives the encoder ranks of its own, and a schedule of "
                         "torch.distributed.pipelining is one chain of stages: use isocost.stage_iterators and move "
                         "embeddings by Microbatch.routes, or a layout with \"encoder_place\": \"llm\"")
    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1):
        raise ValueError(f"schedule_steps: max_tokens = {max_tokens!r}: must be a whole number from 1")
    modules = stage_modules(timed)
    return _steps(loader, max_tokens, pad_token, StageTimers(modules) if modules else None)


def stage_modules(timed: Any) -> List[Any]:
    """Returns the modules that `timed` names. Raises TypeError if one is not a module."""
    import torch

    def is_one(module: Any) -> bool:  # A list of modules is no module, since its hooks are never called.
        return (isinstance(module, torch.nn.Module)
                and getattr(module.forward, "__func__", None) is not torch.nn.Module.forward)

    if timed is None:
        return []
    if is_one(timed):
        return [timed]
    try:
        modules = list(timed.children() if isinstance(timed, torch.nn.Module) else timed)
    except TypeError:
        modules = [timed]
    for module in modules:
        if not is_one(module):
            raise TypeError(f"schedule_steps: timed= has a {type(module).__name__}: it must be the module of this "
                            "rank's stage, or a list of those of its stages, which the schedule calls")
    return modules


def _steps(loader: DataLoader, max_tokens: Optional[int], pad_token: int,
           timers: Optional[StageTimers]) -> Iterator[ScheduleStep]:
    assert loader.layout is not None and loader.place is not None
    try:
        for microbatches in steps(loader):
            for microbatch in microbatches:
                _check(microbatch, loader.place.stage, max_tokens)
            step = _step(microbatches, loader.layout.microbatches, loader.place.stage, max_tokens, pad_token,
                         loader.note_trained)
            is_measured = microbatches[0].seconds_wanted
            if timers is not None:
                timers.begin([kwargs[CU_SEQLENS] for kwargs in step.inputs["kwarg_mbs"]] if is_measured else [])
            yield step
            if timers is not None and not is_measured:
                loader.recorder.pass_over(microbatches[-1], is_trained=False)  # `run` says so, as in other steps
            elif timers is not None:
                for i, microbatch in enumerate(microbatches):
                    loader.recorder.add(microbatch, timers.of(i, share_without_padding(microbatch, step.rows[i])))
            del microbatches, microbatch, step  # Freed before the next step's tensors come.
    finally:
        if timers is not None:
            timers.remove()


def _step(microbatches: List[Microbatch], count: int, stage: int, max_tokens: Optional[int], pad_token: int,
          note_trained: Callable[[Microbatch], None]) -> ScheduleStep:
    tokens = [microbatch.tokens for microbatch in microbatches] + [0] * (count - len(microbatches))
    rows = [max_tokens or max(1, own) for own in tokens]
    tensors = [microbatch.tensors for microbatch in microbatches]
    tensors += [_emptied(tensors[0])] * (count - len(tensors))
    padded = [_padded(*each, pad_token) for each in zip(tensors, tokens, rows)]
    return ScheduleStep(microbatches, rows, _inputs(padded, stage, microbatches[0].global_label_tokens),
                        note_trained)


def _check(microbatch: Any, stage: int, max_tokens: Optional[int]) -> None:
    if not isinstance(microbatch, Microbatch):
        raise TypeError(f"schedule_steps: collate= made a {type(microbatch).__name__} of a microbatch: leave it out, "
                        "or have it return the isocost.Microbatch")
    if CU_SEQLENS not in microbatch.tensors or (stage > 0 and INPUT_IDS in microbatch.tensors):
        raise ValueError("schedule_steps: the layout cuts the encoder into several stages; how many rows these "
                         "exchange, media decide, and stages of torch.distributed.pipelining exchange a fixed number: "
                         "give the layout 'layers' that put the LLM's first one on the first stage")
    if max_tokens is not None and microbatch.tokens > max_tokens:
        raise ValueError(f"schedule_steps: {microbatch!r} has {microbatch.tokens} tokens, beyond max_tokens = "
                         f"{max_tokens}: raise it, or plan more microbatches")


def _padded(tensors: Dict[str, Any], tokens: int, rows: int, pad_token: int) -> Dict[str, Any]:
    """Returns a microbatch's tensors; those of the LLM have a sequence of padding at the end."""
    import torch

    padding = rows - tokens
    if padding == 0:
        return dict(tensors)
    lengths = tensors[LENGTHS]
    ends = {LENGTHS: lengths.new_full((1,), padding), CU_SEQLENS: lengths.new_full((1,), rows)}
    if INPUT_IDS in tensors:
        ends[INPUT_IDS] = tensors[INPUT_IDS].new_full((padding,), pad_token)
        ends[POSITION_IDS] = torch.arange(padding, dtype=tensors[POSITION_IDS].dtype, device=lengths.device)
    if LABELS in tensors:
        ends[LABELS] = tensors[LABELS].new_full((padding,), IGNORED_LABEL)
        ends[LOSS_WEIGHTS] = tensors[LOSS_WEIGHTS].new_zeros(padding)
    return {name: torch.cat([tensor, ends[name]]) if name in ends else tensor for name, tensor in tensors.items()}


def _emptied(tensors: Dict[str, Any]) -> Dict[str, Any]:
    """Returns the tensors of a microbatch without samples."""
    llm = (INPUT_IDS, POSITION_IDS, LENGTHS, *_LOSS_TENSORS)
    empty = {name: tensors[name][:0] for name in llm if name in tensors}
    return {**empty, CU_SEQLENS: tensors[CU_SEQLENS].new_zeros(1)}


def _inputs(padded: List[Dict[str, Any]], stage: int, global_label_tokens: int) -> Dict[str, Any]:
    import torch

    arguments = (INPUT_IDS,) if stage == 0 else ()
    targets = None
    if LABELS in padded[0]:
        # One tensor holds both, since schedules infer shapes from it. float64 holds labels and weights exactly.
        label_tokens = max(1, global_label_tokens)
        targets = [torch.stack([tensors[LABELS].double(), tensors[LOSS_WEIGHTS].double() / label_tokens], dim=1)
                   for tensors in padded]
    elsewhere = (*arguments, *_LOSS_TENSORS)
    return {"arg_mbs": [tuple(tensors[name] for name in arguments) for tensors in padded],
            "kwarg_mbs": [{name: tensor for name, tensor in tensors.items() if name not in elsewhere}
                          for tensors in padded],
            "target_mbs": targets}


def share_without_padding(microbatch: Microbatch, rows: int) -> float:
    """Returns the fraction of the measured seconds that would have passed without padding, if the LLM's are
    proportional to rows."""
    llm, whole = microbatch.predicted["llm"], sum(microbatch.predicted.values())
    padded = whole - llm + llm * rows / max(1, microbatch.tokens)
    return whole / padded if padded > 0 else 1.0
