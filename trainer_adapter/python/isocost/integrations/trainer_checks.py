"""Checks that the Trainer's settings, model and loader agree, and lists the settings that a loader replaces."""

import inspect
import json
import logging
import pathlib
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Tuple

from isocost.base.counted import counted
from isocost.loader import DataLoader

_LOG = logging.getLogger("isocost")

_ROWS = "the loader makes the rows, packed or padded, as its batching= says: leave it out"
# Settings of TrainingArguments that contradict the loader: the value that they must have, and what to do instead.
REFUSED = {
    "gradient_accumulation_steps": (1, "a batch is a whole step already, and the Trainer would divide its gradient: "
                                       "give microbatches= or max_tokens= to the loader"),
    "label_smoothing_factor": (0, "the model's own loss is used, which knows none"),
    "auto_find_batch_size": (False, "the loader's max_memory= keeps microbatches within the device's memory"),
    "packing": (False, _ROWS),
    "padding_free": (False, _ROWS),
    "eval_packing": (False, _ROWS),
    "assistant_only_loss": (False, "labels are made with the tokens: isocost tokenize --labels says which count"),
    "enable_jit_checkpoint": (False, "it saves before the optimizer steps, and the loader's state names the next step"),
}
# Those of them that an evaluation's loader contradicts.
REFUSED_OF_EVALUATION = ("label_smoothing_factor",)
# Settings that the loader replaces: if they differ from their defaults, a warning says what counts.
IGNORED = {
    "per_device_train_batch_size": "global_batch_size=",
    "dataloader_drop_last": 'node=isocost.NodeOptions(tail="drop")',
    "dataloader_num_workers": "workers=",
    "dataloader_prefetch_factor": "prefetch=",
    "dataloader_persistent_workers": "nothing: the node's workers stay",
    "dataloader_multiprocessing_context": "nothing: the node has threads",
    "dataloader_in_order": "nothing: the order is that of the plan",
    "train_sampling_strategy": "shuffle=",
    "completion_only_loss": "isocost tokenize --labels",
    "max_length": 'max_tokens=, with on_long="truncate"',
    "dataset_num_proc": "workers=",
    "packing_strategy": "nothing: the plan says which samples a row has",
    "shuffle_dataset": "shuffle=",
    "dataset_kwargs": "the records that isocost make-shards took",
    "truncation_mode": 'on_long="truncate", which keeps the beginning',
    "pad_to_multiple_of": "batching=isocost.Padded(multiple=)",
    "chat_template_path": "the template of the directory that isocost tokenize took",
    "eos_token": "the tokens of the directory that isocost tokenize took",
    "pad_token": "the tokens of the directory that isocost tokenize took",
    "dataset_text_field": "the records that isocost make-shards took",
    "data_seed": "seed=",
    "label_names": "nothing: microbatches have the model's names",
    "length_column_name": "nothing: the plan knows costs",
}
# Those of an evaluation whose data set is a loader.
IGNORED_OF_EVALUATION = {
    "per_device_eval_batch_size": "global_batch_size= of the evaluation's loader",
    "eval_accumulation_steps": "nothing: predictions are not kept",
}
REFUSED_ARGUMENTS = {
    "data_collator": "the loader's microbatches are the model's arguments already",
    "compute_loss_func": 'the loss is the model\'s own, or isocost.token_loss with loss="token_loss" of the loader',
    "compute_metrics": "evaluation computes the mean loss; its predictions are not kept",
    "preprocess_logits_for_metrics": "evaluation computes the mean loss; its predictions are not kept",
    "formatting_func": "samples were made of records when they were written: isocost tokenize says how",
}


def check_arguments(options: Mapping[str, Any]) -> None:
    for name, why in REFUSED_ARGUMENTS.items():
        if options.get(name) is not None:
            raise ValueError(f"{name}= cannot be used with an isocost.DataLoader: {why}: leave it out")


def check_base(trainer: type, mixin: type) -> None:
    """Raises ValueError for a trainer whose batches or losses are not a loader's.

    Args:
        mixin: the class that calls the compute_loss of the classes after it."""
    of_trl = [each for each in trainer.__mro__ if each.__module__.startswith("trl.")]
    if of_trl and not any(each.__name__ == "SFTTrainer" for each in of_trl):
        raise ValueError(f"{of_trl[0].__name__}: of trl's trainers SFTTrainer alone can have an isocost.DataLoader: "
                         "others need samples of several answers, or make their own")
    if not has_own_loss(trainer):
        return
    owner = _owner_of_loss(trainer)
    if trainer.__mro__.index(owner) < trainer.__mro__.index(mixin):
        raise ValueError(f"compute_loss of {owner.__name__} would take the place of the one that knows steps of "
                         "several microbatches: derive a class that has it from transformers.Trainer, and let "
                         "trainer_class() make the trainer of that")
    if "num_items_in_batch" not in inspect.signature(owner.compute_loss).parameters:
        raise ValueError(f"compute_loss of {owner.__name__} has no num_items_in_batch: a microbatch's loss is the sum "
                         "over its label tokens divided by those of the global batch, which num_items_in_batch is: "
                         "give it that parameter, and divide by it")


def _owner_of_loss(trainer: type) -> Any:
    """Returns the class whose compute_loss a loader's trainer calls."""
    return next(each for each in trainer.__mro__
                if "compute_loss" in vars(each) and not each.__module__.startswith("isocost."))


def has_own_loss(trainer: type) -> bool:
    """Returns whether the trainer's compute_loss comes from neither transformers nor trl."""
    return _owner_of_loss(trainer).__module__.split(".")[0] not in ("transformers", "trl")


def check_loader(loader: DataLoader, model: Any, processes: int) -> None:
    if loader.model is None:
        raise ValueError(f"{loader!r} has no model=, so that its microbatches are no arguments of a model: give it the "
                         "model's directory or name")
    if loader.layout is not None:
        raise ValueError(f"{loader!r} has layout {loader.layout.file}, whose stages the Trainer does not know: leave "
                         "layout= out")
    if loader.endless:
        raise ValueError(f"{loader!r}: the Trainer counts epochs, and an endless loader has none: leave endless= out")
    _check_model(loader.model, model)
    if loader.world_size != processes:
        raise ValueError(f"the loader is for {loader.world_size} ranks, and the Trainer has {processes} processes: "
                         "make the loader after torch.distributed.init_process_group or "
                         "transformers.TrainingArguments, without rank= and world_size=")


def model_parallel(model: Any, accelerator: Any) -> Iterator[str]:
    """Yields the settings by which several ranks compute on one batch together: tensor, pipeline, expert, context or
    sequence parallelism."""
    for of in (getattr(getattr(model, "config", None), "distributed_config", None),
               getattr(accelerator, "parallelism_config", None)):
        for name in ("tp_size", "pp_size", "ep_size", "cp_size", "sp_size"):
            if (getattr(of, name, None) or 1) > 1:
                yield f"{name} = {getattr(of, name)}"


def check_length(loader: DataLoader) -> None:
    """Asks the node, and raises ValueError if an epoch has no number of steps."""
    if not loader.has_length:
        raise ValueError(f"{loader!r}: the Trainer counts epochs, and this mixture of data sets has none: give it "
                         "`steps`, or each of its sources `epochs`")


def check_endless_epochs(loader: DataLoader) -> None:
    if loader.epochs > 0:
        epochs = counted(loader.epochs, "epoch")
        raise ValueError(f"eval_dataset: {loader!r} ends after {epochs}, and each evaluation takes one: leave epochs= "
                         "out")


def check_refused(args: Any, names: Iterable[str] = REFUSED) -> None:
    """Raises ValueError for a setting that contradicts a loader."""
    for name in names:
        needed, why = REFUSED[name]
        value = getattr(args, name, needed)
        if (value or needed) != needed:
            raise ValueError(f"{name} = {value!r}: {why}")


def check_clipping(config: Mapping[str, Any], max_grad_norm: Optional[float], default: float) -> None:
    """Raises ValueError where DeepSpeed's engine, which clips, would not clip at the Trainer's norm.

    Args:
        config: DeepSpeed's configuration. The Trainer compares what it says of clipping.
        default: the norm at which the engine clips where it says nothing; 0: it does not."""
    if "gradient_clipping" in config or (max_grad_norm or 0.0) == default:
        return
    clips = f"clips at its default of {default}" if default else "does not clip"
    raise ValueError(f"max_grad_norm = {max_grad_norm}: DeepSpeed's configuration has no gradient_clipping, and its "
                     f"engine {clips}: write \"gradient_clipping\": \"auto\" there, which takes max_grad_norm")


def loaders_to_evaluate(data: Any) -> List[DataLoader]:
    """Returns the loaders of `eval_dataset`: itself, or those of a dict. Raises TypeError for those in a list."""
    if isinstance(data, (list, tuple)) and any(isinstance(each, DataLoader) for each in data):
        raise TypeError(f"eval_dataset is a {type(data).__name__} with an isocost.DataLoader: give the loader itself, "
                        "or a dict of several, whose keys name their losses: {\"held_out\": loader} logs "
                        "eval_held_out_loss")
    found = data.values() if isinstance(data, dict) else [data]
    return [each for each in found if isinstance(each, DataLoader)]


def note_ignored(args: Any, settings: Mapping[str, str]) -> None:
    """Warns, in the first process, of settings that a loader takes the place of. One that is None asks for nothing, as
    "auto" does, which the settings replace by it."""
    if args.process_index > 0:
        return
    defaults = {field.name: field.default for field in type(args).__dataclass_fields__.values()}
    for name, instead in settings.items():
        if name in defaults and getattr(args, name) not in (None, defaults[name]):
            _LOG.warning("%s = %r has no effect with an isocost.DataLoader; in its place: %s", name,
                         getattr(args, name), instead)


def _check_model(directory: str, model: Any) -> None:
    """Raises ValueError if the loader prepares samples for a model of another type, with other placeholders or with
    other patches than the one to train."""
    config = getattr(model, "config", None)
    if config is None:
        return
    prepared = json.loads((pathlib.Path(directory) / "config.json").read_text(encoding="utf-8"))
    trained = config.to_dict()
    if trained.get("model_type") == f"{prepared.get('model_type')}_text":
        raise ValueError(f"the model is a {type(model).__name__}, the language model of {directory} alone, which takes "
                         "no media: load it with transformers.AutoModelForImageTextToText")
    for key, theirs, ours in _told_by_both(trained, prepared):
        if theirs != ours:
            raise ValueError(f"the model's {key} is {theirs}, and the loader prepares samples for {directory}, whose "
                             f"{key} is {ours}: give both the same directory or name")


def _told_by_both(trained: Mapping[str, Any], prepared: Mapping[str, Any]) -> Iterator[Tuple[str, Any, Any]]:
    """Yields the keys that decide what a microbatch holds and that both configurations have, with their values."""
    for key in ("model_type", "image_token_id", "video_token_id", "audio_token_id", "image_token_index",
                "audio_token_index", "vision_start_token_id"):
        if trained.get(key) is not None and prepared.get(key) is not None:
            yield key, trained[key], prepared[key]
    for key in ("patch_size", "spatial_merge_size", "temporal_patch_size"):
        theirs, ours = ((config.get("vision_config") or {}).get(key) for config in (trained, prepared))
        if theirs is not None and ours is not None:
            yield f"vision_config.{key}", theirs, ours


def check_epochs(loader: DataLoader, args: Any) -> None:
    if loader.epochs == 0:
        return
    wanted = args.max_steps / loader.steps_per_epoch if args.max_steps > 0 else args.num_train_epochs
    if wanted > loader.epochs:
        asked = f"max_steps = {args.max_steps}" if args.max_steps > 0 else f"num_train_epochs = {args.num_train_epochs}"
        raise ValueError(f"{asked} needs {wanted:.4g} epochs of {loader.steps_per_epoch} steps, and the node has "
                         f"{loader.epochs}: give the loader epochs=0, or more of them")
