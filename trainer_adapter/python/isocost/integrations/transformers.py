"""The Trainer of transformers on an isocost.DataLoader.

    >>> from isocost.integrations.transformers import Trainer
    >>> train = isocost.DataLoader("data/train", model=DIR, global_batch_size=64, max_tokens=16384)
    >>> held_out = isocost.DataLoader("data/eval", model=DIR, global_batch_size=64, shuffle=False)
    >>> trainer = Trainer(model, args, train_dataset=train, eval_dataset=held_out)
    >>> trainer.train(resume_from_checkpoint=True)  # the second run, on any number of ranks

DIR is the model's directory, or its name on the hub.
A batch of the Trainer is an optimizer step: the microbatches that the plan has for this rank. Losses and gradients are
those of the global batch's mean, whatever the plan and the number of ranks. Checkpoints have the loader's state in a
file of their own, isocost.json. Tested with transformers 5.24 and, as `trainer_class(trl.SFTTrainer)`, trl 1.16; with
the setting `deepspeed`, DeepSpeed 0.19.
"""

import contextlib
import copy
import inspect
import json
import math
import os
import pathlib
import time
from typing import Any, ContextManager, Dict, Iterator, List, Optional, Set, Tuple

import torch
import transformers
from transformers.trainer_utils import speed_metrics

from isocost.evaluation import check_same_samples, evaluate
from isocost.integrations.processing_class import check_processing_class
from isocost.integrations.trainer_checkpoints import (
    STATE_FILE,
    last_checkpoint,
    load_renamed_weights,
    mark_as_begun,
    saved_state,
)
from isocost.integrations.trainer_checks import (
    IGNORED,
    IGNORED_OF_EVALUATION,
    REFUSED_OF_EVALUATION,
    check_arguments,
    check_base,
    check_clipping,
    check_endless_epochs,
    check_epochs,
    check_length,
    check_loader,
    check_refused,
    has_own_loss,
    loaders_to_evaluate,
    model_parallel,
    note_ignored,
)
from isocost.integrations.versions import TESTED, check_overridden, note_version
from isocost.loader import DataLoader
from isocost.microbatches.loss import token_loss
from isocost.microbatches.microbatch import Microbatch
from isocost.optimizer_steps import Steps

# Methods of the Trainer that are not public, and that are overridden.
_NOT_PUBLIC = ("_load_best_model", "_load_from_checkpoint", "_save_checkpoint", "_track_num_input_tokens")


def trainer_class(base: type) -> type:
    """Returns a subclass of a Trainer, transformers.Trainer or a class derived from it, whose `train_dataset` is an
    isocost.DataLoader with `model=`, and whose `eval_dataset` may be one or a dict of such.

    It overrides public methods only, except for the counter of tokens and the files of a checkpoint. Its constructor
    takes the base's arguments by name, after `model` and `args`. `train` without a checkpoint begins at the loader's
    first step. If the base has its own `compute_loss`, it is called for each microbatch, with the label tokens of the
    global batch as `num_items_in_batch`. It returns the sum of its tokens' losses divided by these, and knows nothing
    of ranks.

    Raises, from the constructor, before the first step: TypeError if train_dataset is another object; ValueError
    if a setting or argument contradicts a loader, for a loader that is endless or has a layout, of another model
    than the one to train, or made for another number of ranks, an evaluation's whose epochs end, and a base that is of
    trl and no SFTTrainer, or whose `compute_loss` has no `num_items_in_batch`; and from `train` for a checkpoint
    without the loader's state or of another step, and where `max_steps` or `num_train_epochs` exceed the node's epochs.
    Raises ImportError where the base, of another version than the tested one, lacks a method that is overridden, or
    gives it other arguments."""
    check_overridden(base, {name: each for name, each in vars(_StepTraining).items()
                            if inspect.isfunction(each) and (not name.startswith("_") or name in _NOT_PUBLIC)})
    return type(base.__name__, (_StepTraining, base), {"__module__": __name__, "__doc__": base.__doc__})


class _StepTraining:
    """The differences from a Trainer over torch's DataLoader. Mixed in before the Trainer's class."""

    def __init__(self, model: Any = None, args: Any = None, **options: Any):
        loader = options.pop("train_dataset", None)
        if loader is not None and not isinstance(loader, DataLoader):
            raise TypeError(f"train_dataset is a {type(loader).__name__}: give an isocost.DataLoader, or use "
                            "transformers.Trainer itself")
        evaluated = loaders_to_evaluate(options.get("eval_dataset"))
        self._given = options.copy()
        # Directories, with sizes of pictures, that prepare samples as the processing class does.
        self._compared: Set[Tuple[str, str]] = set()
        if loader is not None or evaluated:
            check_arguments(options)
            check_base(type(self), _StepTraining)
        if loader is not None and args is not None:
            check_refused(args)
        self._is_trl = any(each.__module__.startswith("trl.") for each in type(self).__mro__)
        self._has_own_loss = has_own_loss(type(self))
        eval_dataset = options.get("eval_dataset")
        if self._is_trl:  # whose constructors prepare their data sets, and refuse to go without
            options["train_dataset"] = _stand_in()
            if evaluated:
                options["eval_dataset"] = _stand_in()
        super().__init__(model=model, args=args, **options)  # type: ignore[call-arg]
        if self._is_trl:
            self.train_dataset = None
            if evaluated:
                self.eval_dataset = eval_dataset
        self._microbatch: Optional[Microbatch] = None  # The one whose loss is being computed.
        self._microbatches = 1  # of the step that is trained
        if loader is not None:
            self._check_directory(loader)
        for each in evaluated:
            self._check_to_evaluate(each)
        if loader is not None or evaluated:
            self._note_versions()
        if evaluated:
            note_ignored(self.args, IGNORED_OF_EVALUATION)
        if loader is None:
            return
        self.train_dataset = _TrainSteps(loader)
        check_refused(self.args)  # again, since accelerator_config= sets some of them, too
        note_ignored(self.args, IGNORED)
        self._check_engine()
        # The first, so that others see the epoch that it corrects.
        self.callback_handler.callbacks.insert(0, _Epoch(loader))

    def _check_directory(self, loader: DataLoader) -> None:
        """Raises ValueError for a loader of another model than this one, or of other processors than those saved."""
        check_loader(loader, self.model, self.accelerator.num_processes)
        saved = getattr(self, "processing_class", None)
        assert loader.model is not None
        prepares = (loader.model, str(loader.image_size))
        if saved is not None and prepares not in self._compared:
            check_processing_class(saved, loader.model, loader.image_size)
            self._compared.add(prepares)

    def _note_versions(self) -> None:
        """Warns of versions that are not tested. Raises ImportError where trl's trainer counts tokens otherwise."""
        for package, is_used in (("transformers", True), ("accelerate", True), ("trl", self._is_trl),
                                 ("deepspeed", self.is_deepspeed_enabled)):
            if is_used:
                note_version(package)
        if self._is_trl and not (hasattr(self, "_total_train_tokens") and hasattr(self, "_metrics")):
            raise ImportError("trl's trainer has no _total_train_tokens and _metrics, whose count of tokens isocost "
                              f"corrects: install trl {TESTED['trl']}, with which it is tested")

    def _check_engine(self) -> None:
        """Raises ValueError if what trains, by the settings or by what `accelerate launch` has set, does not know
        steps of several microbatches."""
        tensor_parallel = self.get_tp_size() if self.is_deepspeed_enabled else 1  # type: ignore[attr-defined]
        more = [f"autotp_size = {tensor_parallel}"] if tensor_parallel > 1 else []
        for name in [*model_parallel(self.model, self.accelerator), *more]:
            raise ValueError(f"{name}: its ranks compute on one batch together, and each process would take one of its "
                             "own: shard over the data-parallel ranks alone (fsdp_size), or leave it out")
        if self.is_deepspeed_enabled:
            from deepspeed.runtime.constants import GRADIENT_CLIPPING_DEFAULT

            check_clipping(self.accelerator.state.deepspeed_plugin.deepspeed_config, self.args.max_grad_norm,
                           GRADIENT_CLIPPING_DEFAULT)
        if self.args.n_gpu > 1:
            raise ValueError(f"the Trainer would use torch's DataParallel over {self.args.n_gpu} devices in one "
                             "process: start a process for each with torchrun, or choose one with CUDA_VISIBLE_DEVICES")

    # Attributes of the Trainer.
    args: Any
    model: Any
    state: Any
    control: Any
    accelerator: Any
    callback_handler: Any
    train_dataset: Any
    eval_dataset: Any
    optimizer: Any
    is_in_train: bool
    current_gradient_accumulation_steps: float
    # Attributes of SFTTrainer in trl.
    _total_train_tokens: int
    _metrics: Dict[str, Dict[str, List[Any]]]
    is_deepspeed_enabled: bool
    is_fsdp_enabled: bool

    @property
    def _loader(self) -> Optional[DataLoader]:
        return self.train_dataset.loader if isinstance(self.train_dataset, Steps) else None

    # Training

    def get_train_dataloader(self) -> Any:
        loader = self._loader
        if loader is None:
            return super().get_train_dataloader()  # type: ignore[misc]
        check_epochs(loader, self.args)
        return self.train_dataset

    def num_examples(self, dataloader: Any) -> int:
        if isinstance(dataloader, Steps):
            return len(dataloader.loader.dataset)
        return int(super().num_examples(dataloader))  # type: ignore[misc]

    def get_total_train_batch_size(self, args: Any) -> int:
        loader = self._loader
        if loader is None:
            return int(super().get_total_train_batch_size(args))  # type: ignore[misc]
        return loader.global_batch_size

    def train(self, resume_from_checkpoint: Any = None, *rest: Any, **options: Any) -> Any:
        loader = self._loader
        if loader is None:
            return super().train(resume_from_checkpoint, *rest, **options)  # type: ignore[misc]
        if resume_from_checkpoint is True:
            resume_from_checkpoint = last_checkpoint(self.args.output_dir) or True  # Without one the Trainer says so.
        if isinstance(resume_from_checkpoint, (str, os.PathLike)):
            resume_from_checkpoint = os.fspath(resume_from_checkpoint)
            saved = saved_state(pathlib.Path(resume_from_checkpoint))
            loader.load_state_dict(saved.loader)
            self._total_train_tokens = saved.num_tokens
        else:
            loader.begin_again()
            self._total_train_tokens = 0
        check_length(loader)  # The node is asked, which refuses a state of other data.
        skips = self.args.ignore_data_skip
        self.args.ignore_data_skip = True  # The loader is at the step that comes next.
        try:
            return super().train(resume_from_checkpoint, *rest, **options)  # type: ignore[misc]
        finally:
            self.args.ignore_data_skip = skips

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, *rest: Any) -> Tuple[List[Any], Any]:
        if self._loader is None:
            found: Tuple[List[Any], Any] = super().get_batch_samples(  # type: ignore[misc]
                epoch_iterator, num_batches, *rest)
            return found
        step = next(epoch_iterator, None)
        return ([] if step is None else [step]), None  # The microbatches know the label tokens of the global batch.

    def training_step(self, model: Any, inputs: Any, *rest: Any) -> Any:
        loader = self._loader
        if loader is None:
            return super().training_step(model, inputs, *rest)  # type: ignore[misc]
        losses = []
        self._microbatches = len(inputs)
        for microbatch in inputs:
            self._microbatch = microbatch
            sync = contextlib.nullcontext() if microbatch.last_of_step else self._without_sync(model)
            # This rank's own seconds correct the cost model. DeepSpeed's optimizer steps within the last backward pass.
            own = contextlib.nullcontext() if microbatch.last_of_step and self.is_deepspeed_enabled \
                else loader.timed(microbatch)
            with sync, own:
                losses.append(super().training_step(model, self._on_device(microbatch), None))  # type: ignore[misc]
            loader.note_trained(microbatch)  # as `timed` does, which DeepSpeed's last one has not
        self._microbatch = None
        return torch.stack(losses).sum()

    def _without_sync(self, model: Any) -> ContextManager[None]:
        """Leaves the sum of gradients over the ranks to a later microbatch."""
        if self.is_deepspeed_enabled:
            return self._without_step()
        if hasattr(model, "set_requires_gradient_sync"):
            # It has fully_shard, which accelerate does not know where `from_pretrained` has sharded the model.
            return _without_sync_of_shards(model)
        without: ContextManager[None] = self.accelerator.no_sync(model)
        return without

    @contextlib.contextmanager
    def _without_step(self) -> Iterator[None]:
        """Makes accelerate run a backward pass of DeepSpeed's engine that does not end the step."""
        self.accelerator.sync_gradients = False
        try:
            yield
        finally:
            self.accelerator.sync_gradients = True

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, *rest: Any, **options: Any) -> Any:
        if self._microbatch is None:
            return super().compute_loss(model, inputs, return_outputs, *rest, **options)  # type: ignore[misc]
        loss, outputs = self._share(model, inputs)
        # Wrappers average gradients over the ranks, and the Trainer the losses that it logs: both are sums here.
        if self.accelerator.num_processes > 1:
            loss = loss * self.accelerator.num_processes
        return (loss, outputs) if return_outputs else loss

    def _on_device(self, microbatch: Microbatch) -> Microbatch:
        """Returns a copy on the device, whose pixels go there as bytes, and whose memory is free once it is dropped."""
        return copy.copy(microbatch).to(self.args.device)

    def _share(self, model: Any, inputs: Any) -> Tuple[Any, Any]:
        """Returns the microbatch's share of the global batch's mean, and the model's outputs; None for those of trl,
        which does not keep its logits."""
        if (self._is_trl or self._has_own_loss) and "num_items_in_batch" not in inputs:
            raise ValueError('loss="token_loss" of the loader: the trainer has a compute_loss of its own, which takes '
                             'labels: give loss="model"')
        if self._is_trl:
            return self._share_of_trl(model, inputs), None
        if self._has_own_loss:
            return self._own_share(model, inputs)
        if "num_items_in_batch" in inputs:  # loss="model" of the loader
            loss, outputs = super().compute_loss(model, inputs, return_outputs=True)  # type: ignore[misc]
            return self._with_auxiliary_part(loss, outputs), outputs
        assert self._microbatch is not None
        outputs = model(**inputs)
        return token_loss(outputs.logits, self._microbatch), outputs

    def _own_share(self, model: Any, inputs: Any) -> Tuple[Any, Any]:
        """Returns the loss and outputs of a base's own compute_loss."""
        averages = self.args.average_tokens_across_devices
        self.args.average_tokens_across_devices = False  # A loss would multiply by the ranks, as compute_loss does.
        try:
            arguments = dict(inputs)
            loss, outputs = super().compute_loss(  # type: ignore[misc]
                model, arguments, return_outputs=True, num_items_in_batch=arguments["num_items_in_batch"])
        finally:
            self.args.average_tokens_across_devices = averages
        return loss, outputs

    def _share_of_trl(self, model: Any, inputs: Any) -> Any:
        """Returns the loss of trl's SFTTrainer, which computes it without the logits of all tokens at once. It
        multiplies by the ranks if it divides by the label tokens of all of them."""
        arguments = dict(inputs)
        label_tokens = arguments.pop("num_items_in_batch")
        trained = self._total_train_tokens
        averages = self.args.average_tokens_across_devices
        self.current_gradient_accumulation_steps = self._auxiliary_parts() / (
            self.accelerator.num_processes if averages else 1)
        try:
            loss = super().compute_loss(model, arguments, num_items_in_batch=label_tokens)  # type: ignore[misc]
        finally:
            self.current_gradient_accumulation_steps = 1
        if self.model.training:
            # It counts by shapes, which with M-RoPE and padding are not those of the tokens.
            assert self._microbatch is not None
            tokens = torch.tensor(self._microbatch.tokens, device=loss.device)
            self._total_train_tokens = trained + int(self.accelerator.gather_for_metrics(tokens).sum())
            self._metrics["train"]["num_tokens"] = [self._total_train_tokens]
        return loss / self.accelerator.num_processes if averages else loss

    def _with_auxiliary_part(self, loss: Any, outputs: Any) -> Any:
        """Returns the loss of a mixture that has added its whole auxiliary loss, with this microbatch's part of it."""
        auxiliary = getattr(outputs, "aux_loss", None)
        if auxiliary is None:
            return loss
        weight = self.model.config.get_text_config().router_aux_loss_coef
        return loss - weight * auxiliary * (1 - 1 / self._auxiliary_parts())

    def _auxiliary_parts(self) -> float:
        """Returns by what to divide the auxiliary loss of a mixture, a mean of the microbatch's own tokens: in training
        by the step's microbatches of all ranks, in evaluation by the global batch's label tokens over its own."""
        assert self._microbatch is not None
        if self.model.training:
            return self._microbatches * int(self.accelerator.num_processes)
        own = self._microbatch.label_tokens
        return self._microbatch.global_label_tokens / own if own else math.inf

    # The next two count tokens, without padding: to ask a microbatch for `input_ids` would make all arguments of the
    # model again, on the CPU.

    def floating_point_ops(self, inputs: Any) -> int:
        if self._loader is None:
            return int(super().floating_point_ops(inputs))  # type: ignore[misc]
        tokens = sum(microbatch.tokens for microbatch in inputs)
        return int(6 * tokens * self.model.num_parameters(exclude_embeddings=True))

    def _track_num_input_tokens(self, inputs: Any) -> None:
        loader = self._loader
        if loader is None:
            super()._track_num_input_tokens(inputs)  # type: ignore[misc]
        elif self.args.include_num_input_tokens_seen != "no":
            tokens = torch.tensor(sum(microbatch.tokens for microbatch in inputs), dtype=torch.int64)
            self.state.num_input_tokens_seen += int(loader.sum_over_ranks(tokens))

    # Checkpoints

    def _save_checkpoint(self, model: Any, trial: Any, *rest: Any) -> None:
        loader = self._loader
        if loader is not None and self.args.should_save:
            # Before the Trainer's own files, so that a checkpoint that has all of those has this one.
            directory = pathlib.Path(self._get_output_dir(trial=trial))  # type: ignore[attr-defined]
            directory = directory / f"checkpoint-{self.state.global_step}"
            directory.mkdir(parents=True, exist_ok=True)
            mark_as_begun(directory)
            saved = {"global_step": self.state.global_step, "loader": loader.state_dict()}
            if self._is_trl:
                saved["num_tokens"] = self._total_train_tokens
            (directory / STATE_FILE).write_text(json.dumps(saved), encoding="utf-8")
        super()._save_checkpoint(model, trial, *rest)  # type: ignore[misc]

    def _load_from_checkpoint(self, resume_from_checkpoint: Any, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)  # type: ignore[misc]
        if not self.is_fsdp_enabled:  # its checkpoints have the model's own names
            load_renamed_weights(self.model, pathlib.Path(resume_from_checkpoint))

    def _load_best_model(self) -> None:
        super()._load_best_model()  # type: ignore[misc]
        if not (self.is_fsdp_enabled or self.is_deepspeed_enabled):
            load_renamed_weights(self.model, pathlib.Path(self.state.best_model_checkpoint))

    # Evaluation

    def evaluate(self, eval_dataset: Any = None, ignore_keys: Any = None,
                 metric_key_prefix: str = "eval") -> Dict[str, float]:
        data = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(data, str):
            data = self.eval_dataset[data]
        loaders_to_evaluate(data)  # refuses a list
        if isinstance(data, dict) and all(isinstance(each, DataLoader) for each in data.values()):
            several: Dict[str, float] = {}
            for name, loader in data.items():
                several.update(self.evaluate(loader, ignore_keys, f"{metric_key_prefix}_{name}"))
            return several
        if isinstance(data, DataLoader):
            return self._evaluate_loader(data, metric_key_prefix)
        found: Dict[str, float] = super().evaluate(  # type: ignore[misc]
            eval_dataset, ignore_keys=ignore_keys, metric_key_prefix=metric_key_prefix)
        return found

    def _evaluate_loader(self, loader: DataLoader, prefix: str) -> Dict[str, float]:
        self._check_to_evaluate(loader)
        trained, started = self.model.training, time.time()
        self._prepare_to_evaluate()
        self.model.eval()
        if callable(getattr(self.optimizer, "eval", None)):  # that of a schedule-free optimizer
            self.optimizer.eval()
        try:
            found = evaluate(loader, self._loss_and_weight)
            metrics: Dict[str, float] = {f"{prefix}_loss": found.loss}
            metrics.update(speed_metrics(prefix, started, num_samples=found.samples, num_steps=loader.steps_per_epoch))
            self.log(metrics)  # type: ignore[attr-defined]  # trl's adds what it has of this mode of the model
            if self._is_trl:
                self._metrics["eval"].clear()
        finally:
            self.model.train(trained)
            self._microbatch = None
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _check_to_evaluate(self, loader: DataLoader) -> None:
        self._check_directory(loader)
        check_same_samples(loader, "eval_dataset")
        check_endless_epochs(loader)
        # Once more for a loader that comes with a call, of a Trainer that was made without one.
        check_arguments(self._given)
        check_base(type(self), _StepTraining)
        check_refused(self.args, REFUSED_OF_EVALUATION)

    def _prepare_to_evaluate(self) -> None:
        """Does what the Trainer's own evaluation does to a model that was not trained before: it computes in the
        settings' precision, on their device."""
        if not self.accelerator._models:  # noqa: SLF001 (as the Trainer asks)
            if self.is_deepspeed_enabled:
                raise ValueError("evaluate: train() makes DeepSpeed's engine, which has the model's weights: evaluate "
                                 "after it, or set eval_on_start=True")
            self.accelerator.prepare_model(self.model, evaluation_mode=True)
        if not self.is_in_train and (self.args.fp16_full_eval or self.args.bf16_full_eval):
            half = torch.float16 if self.args.fp16_full_eval else torch.bfloat16
            self.model.to(dtype=half, device=self.args.device)

    def _loss_and_weight(self, microbatch: Microbatch) -> Tuple[Any, Any]:
        self._microbatch = microbatch
        inputs = self._prepare_inputs(self._on_device(microbatch))  # type: ignore[attr-defined]
        with self.compute_loss_context_manager():  # type: ignore[attr-defined]
            share, _outputs = self._share(self.model, inputs)
        return share * microbatch.global_label_tokens, microbatch.label_tokens

    def predict(self, test_dataset: Any, *rest: Any, **options: Any) -> Any:
        if isinstance(test_dataset, DataLoader):
            raise ValueError("predict: the order of an isocost.DataLoader's samples follows from their costs: give a "
                             "torch data set, or iterate over the loader, whose microbatches have sample_keys")
        return super().predict(test_dataset, *rest, **options)  # type: ignore[misc]


@contextlib.contextmanager
def _without_sync_of_shards(model: Any) -> Iterator[None]:
    model.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        model.set_requires_gradient_sync(True)


class _TrainSteps(Steps):
    """The steps of a loader, whose epochs follow each other as the loader counts them."""

    def set_epoch(self, epoch: int) -> None:
        """Does nothing. The Trainer calls it before each epoch, and the loader is where the epoch begins, or where the
        state that was loaded says."""


class _Epoch(transformers.TrainerCallback):  # type: ignore[misc]
    """Corrects the epoch that is logged, which the Trainer counts from the step at which this run began."""

    def __init__(self, loader: DataLoader):
        self._loader = loader

    def on_step_end(self, _args: Any, state: Any, _control: Any, **_rest: Any) -> None:
        state.epoch = state.global_step / self._loader.steps_per_epoch


def _stand_in() -> Any:
    """Returns a data set of one row, in place of a loader."""
    import datasets  # trl needs it

    return datasets.Dataset.from_list([{"input_ids": [0, 0], "labels": [0, 0]}])


Trainer = trainer_class(transformers.Trainer)
