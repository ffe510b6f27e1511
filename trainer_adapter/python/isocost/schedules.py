"""Steps in the form that the schedules of torch.distributed.pipelining take."""

import inspect
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

from isocost.loader import DataLoader
from isocost.loss import IGNORED_LABEL
from isocost.microbatch import Microbatch
from isocost.timing import StageTimers

ROWS_MULTIPLE = 128  # of rows that are not given
_OF_THE_LOSS = ("labels", "loss_weights")


class ScheduleStep:
    """A step's microbatches as one rank of a pipeline takes them, each of `rows` rows: padding follows
    the last sample as a sequence of its own, in `lengths`, `cu_seqlens` and `position_ids` too, without
    labels or weight. A step of fewer microbatches than the schedule has ends with some of padding alone.

    Attributes:
        microbatches: list of Microbatch, as the loader gave them.
        rows: of the LLM's tensors, one number for all microbatches.
        inputs: what `schedule.step(**inputs)` takes where it takes split microbatches (current torch):
            arg_mbs: on the first stage (input_ids,); elsewhere the neighbour's activations come.
            kwarg_mbs: this rank's other tensors, by their names; media are not padded.
            target_mbs: on the last stage, for isocost.pipeline_loss; else None.
    """

    def __init__(self, microbatches: List[Microbatch], rows: int, inputs: Dict[str, Any]):
        self.microbatches = microbatches
        self.rows = rows
        self.inputs = inputs

    def run(self, schedule: Any, losses: Optional[List[Any]] = None) -> None:
        """`schedule.step(**inputs)`, also with releases of torch whose `step` splits whole batches only.
        On the last stage `losses` is filled with one loss for each microbatch, padding's too.

        Raises ValueError for a schedule that divides gradients by the number of microbatches."""
        if schedule.scale_grads:
            raise ValueError("the schedule divides gradients by its number of microbatches, and the loss has been divided by "
                             "the global batch's label tokens: make the schedule with scale_grads=False")
        if "arg_mbs" in inspect.signature(schedule.step).parameters:
            schedule.step(**self.inputs, losses=losses, return_outputs=False)
            return
        # Before, `step` could only cut one batch into equal parts, which packed sequences and media are not. What it
        # calls then is private, but has taken lists since torch 2.3.
        for stage in getattr(schedule, "_stages", None) or [schedule._stage]:
            stage.clear_runtime_states()
        schedule._step_microbatches(**self.inputs, losses=losses)


def schedule_steps(loader: DataLoader, max_tokens: Optional[int] = None, *, pad_token: int = 0,
                   timed: Union[Any, Sequence[Any]] = ()) -> Iterator[ScheduleStep]:
    """The steps of one iteration over `loader`, for a schedule of torch.distributed.pipelining on this
    rank. That library's stages exchange tensors of one shape, so microbatches are padded.

    Args:
        loader: with a layout whose encoder, if it has one, stands in the LLM's first stage
            (`encoder_place` "llm").
        max_tokens: rows that microbatches are padded to. None: as many as the largest so far, rounded up
            to a multiple of 128; where `step.rows` has grown, make stage and schedule anew.
        pad_token: input id of padding.
        timed: the module of this rank's stage, or the modules of its stages: their forward and backward
            passes are measured and reported, less what padding took. For schedules without a
            backward pass of weights alone.

    Raises ValueError for a loader without layout, an encoder with ranks of its own or beyond the LLM's
    first stage, and a microbatch of more than `max_tokens`.

    Example:
        >>> steps = isocost.schedule_steps(loader, max_tokens=8192, timed=model)
        >>> stage = PipelineStage(model, loader.place.stage, loader.layout.llm["pipeline"], device, group=group,
        ...                       input_args=inputs, output_args=outputs)
        >>> schedule = Schedule1F1B(stage, loader.layout.microbatches, isocost.pipeline_loss, scale_grads=False)
        >>> for step in steps:
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
    modules = timed if isinstance(timed, (list, tuple)) else [timed]
    return _steps(loader, max_tokens, pad_token, StageTimers(modules) if modules else None)


def _steps(loader: DataLoader, max_tokens: Optional[int], pad_token: int,
           timers: Optional[StageTimers]) -> Iterator[ScheduleStep]:
    assert loader.layout is not None and loader.place is not None
    count, stage, rows = loader.layout.microbatches, loader.place.stage, max_tokens or 0
    microbatches: List[Microbatch] = []
    try:
        for microbatch in loader:
            _check(microbatch, stage)
            microbatches.append(microbatch)
            if not microbatch.last_of_step:
                continue
            largest = max(microbatch.tokens for microbatch in microbatches)
            if max_tokens is None:
                rows = max(rows, -(-largest // ROWS_MULTIPLE) * ROWS_MULTIPLE)
            elif largest > max_tokens:
                raise ValueError(f"schedule_steps: a microbatch of epoch {microbatch.epoch}, step {microbatch.step} has "
                                 f"{largest} tokens, beyond max_tokens = {max_tokens}: raise it, or plan more microbatches")
            padded = [_padded(microbatch.tensors, microbatch.tokens, rows, pad_token) for microbatch in microbatches]
            padded += [_padded(_emptied(microbatch.tensors), 0, rows, pad_token)] * (count - len(padded))
            step = ScheduleStep(microbatches, rows, _inputs(padded, stage, microbatch.global_label_tokens))
            if timers is not None:
                timers.begin([kwargs["cu_seqlens"] for kwargs in step.inputs["kwarg_mbs"]])
            yield step
            if timers is not None:
                for i, timed in enumerate(microbatches):
                    loader._pending.add(timed, timers.of(i, _share(timed, rows)))
            microbatches = []
            del step, padded  # before the next step's tensors come
    finally:
        if timers is not None:
            timers.remove()


def _check(microbatch: Any, stage: int) -> None:
    if not isinstance(microbatch, Microbatch):
        raise TypeError(f"schedule_steps: collate= made a {type(microbatch).__name__} of a microbatch: leave it out, or have "
                        "it return the isocost.Microbatch")
    if "cu_seqlens" not in microbatch.tensors or (stage > 0 and "input_ids" in microbatch.tensors):
        raise ValueError("schedule_steps: the layout cuts the encoder into several stages; how many rows these exchange, media "
                         "decide, and stages of torch.distributed.pipelining exchange a fixed number: give the layout 'layers' "
                         "that put the LLM's first one on the first stage")


def _padded(tensors: Dict[str, Any], tokens: int, rows: int, pad_token: int) -> Dict[str, Any]:
    """A microbatch's tensors, those of the LLM with a sequence of padding at the end."""
    import torch

    padding = rows - tokens
    if padding == 0:
        return dict(tensors)
    lengths = tensors["lengths"]
    ends = {"lengths": lengths.new_full((1,), padding), "cu_seqlens": lengths.new_full((1,), rows)}
    if "input_ids" in tensors:
        ends["input_ids"] = tensors["input_ids"].new_full((padding,), pad_token)
        ends["position_ids"] = torch.arange(padding, dtype=tensors["position_ids"].dtype, device=lengths.device)
    if "labels" in tensors:
        ends["labels"] = tensors["labels"].new_full((padding,), IGNORED_LABEL)
        ends["loss_weights"] = tensors["loss_weights"].new_zeros(padding)
    return {name: torch.cat([tensor, ends[name]]) if name in ends else tensor for name, tensor in tensors.items()}


def _emptied(tensors: Dict[str, Any]) -> Dict[str, Any]:
    """Those of a microbatch without samples."""
    llm = ("input_ids", "position_ids", "lengths", *_OF_THE_LOSS)
    empty = {name: tensors[name][:0] for name in llm if name in tensors}
    return dict(empty, cu_seqlens=tensors["cu_seqlens"].new_zeros(1))


def _inputs(padded: List[Dict[str, Any]], stage: int, global_label_tokens: int) -> Dict[str, Any]:
    import torch

    of_arguments = ("input_ids",) if stage == 0 else ()
    targets = None
    if "labels" in padded[0]:
        # One tensor, for schedules infer shapes from it; float64 holds labels and weights exactly.
        targets = [torch.stack([tensors["labels"].double(),
                                tensors["loss_weights"].double() / max(1, global_label_tokens)], dim=1) for tensors in padded]
    return {"arg_mbs": [tuple(tensors[name] for name in of_arguments) for tensors in padded],
            "kwarg_mbs": [{name: tensor for name, tensor in tensors.items() if name not in (*of_arguments, *_OF_THE_LOSS)}
                          for tensors in padded],
            "target_mbs": targets}


def _share(microbatch: Microbatch, rows: int) -> float:
    """Of the measured seconds, what would have passed without padding, were the LLM's in proportion to
    rows."""
    llm, whole = microbatch.predicted["llm"], sum(microbatch.predicted.values())
    padded = whole - llm + llm * rows / max(1, microbatch.tokens)
    return whole / padded if padded > 0 else 1.0
