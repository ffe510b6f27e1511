"""Lightning's Trainer on an isocost.DataLoader.

    >>> from isocost.integrations.lightning import Module
    >>> class Captions(Module):
    ...     def __init__(self):
    ...         super().__init__(clip_norm=1.0)
    ...         self.model = AutoModelForImageTextToText.from_pretrained(DIR)
    ...     def make_loader(self):
    ...         return isocost.DataLoader("data/train", model=DIR, global_batch_size=64, max_tokens=16384)
    ...     def loss(self, microbatch):
    ...         return self.model(**microbatch).loss
    ...     def configure_optimizers(self):
    ...         return torch.optim.AdamW(self.parameters(), lr=1e-5)
    >>> lightning.Trainer(strategy="ddp", devices=8, max_epochs=1).fit(Captions(), ckpt_path="last")

A batch of the Trainer is an optimizer step: the microbatches that the plan has for this rank. Losses and gradients are
those of the global batch's mean, whatever the plan and the number of ranks. Lightning keeps the loader's state in its
checkpoints, and a resumed run goes on with the next step. Tested with Lightning 2.6.
"""

import contextlib
import copy
import warnings
from typing import Any, Dict, Iterator, List, Optional, Tuple

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, SingleDeviceStrategy
from lightning.pytorch.trainer.states import TrainerFn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import ReduceLROnPlateau

from isocost.base.counted import counted
from isocost.evaluation import check_same_samples
from isocost.integrations.versions import note_version
from isocost.loader import DataLoader
from isocost.loop.iteration import Iteration
from isocost.microbatches.microbatch import Microbatch
from isocost.optimizer_steps import Steps
from isocost.timing.own_work import OwnWork


class Step:
    """One step's microbatches. It is no list or mapping, which Lightning would take apart and put together again.

    Attributes:
        loader: the isocost.DataLoader that they are of.
        microbatches: list of isocost.Microbatch.
    """

    def __init__(self, loader: DataLoader, microbatches: List[Microbatch]):
        self.loader = loader
        self.microbatches = microbatches


class _StepIterator:
    def __init__(self, loader: DataLoader, iteration: Iteration):
        self._loader = loader
        self._iteration = iteration

    def __iter__(self) -> "_StepIterator":
        return self

    def __next__(self) -> Step:
        return Step(self._loader, next(self._iteration))


class _TrainSteps(Steps):
    """The steps of a loader, as Lightning iterates over them."""

    def __iter__(self) -> Iterator[Any]:
        return _StepIterator(self.loader, self.loader.begin_steps())


class _HeldOutSteps(Steps):
    """The steps of a loader to evaluate on. One that was left, as Lightning's check before training does, begins anew.
    It has no state: Lightning would keep it."""

    def __init__(self, loader: DataLoader):
        super().__init__(loader)
        self._iteration: Optional[Iteration] = None

    def __iter__(self) -> Iterator[Any]:
        if self._iteration is not None and self._iteration.is_under_way:
            self.loader.begin_again()
        self._iteration = self.loader.begin_steps()
        return _StepIterator(self.loader, self._iteration)


class _NoSteps:
    """An empty loader, for Lightning to skip. Without one it would warn that `validation_step` has no `val_dataloader`.
    It warns of this one, too, and names its class."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _Hooks(lightning.Callback):  # type: ignore[misc]
    """The hooks that a Module needs. A subclass may replace the module's own ones without `super()`, as Lightning
    allows, and would replace these with them. It has no state, and does nothing for other modules."""

    def on_validation_epoch_start(self, _trainer: Any, module: Any) -> None:
        if isinstance(module, Module):
            module._begin_evaluation()  # noqa: SLF001

    def on_validation_epoch_end(self, _trainer: Any, module: Any) -> None:
        if isinstance(module, Module):
            module._log_evaluation()  # noqa: SLF001

    def teardown(self, _trainer: Any, module: Any, stage: str) -> None:  # noqa: ARG002
        if isinstance(module, Module):
            module._close_loaders()  # noqa: SLF001


class Module(lightning.LightningModule):  # type: ignore[misc]
    """A LightningModule that is trained on an isocost.DataLoader, by manual optimization. A subclass has `make_loader`,
    `loss` and `configure_optimizers`, with one optimizer. Its hooks need not call `super()`.

    It logs "train_loss" in each step, the global batch's mean, and "grad_norm" with `clip_norm`; with
    `make_validation_loader` "val_loss", the mean over the label tokens of all its samples, which is there in a
    subclass's `on_validation_epoch_end`. Schedulers step after each epoch, Lightning's default, or after each step
    where their configuration says `"interval": "step"`; with `"frequency": n` after every nth of these, as Lightning
    counts them.

    Args:
        clip_norm: greatest norm of a step's gradient; None: it is not clipped. Lightning's own `gradient_clip_val`
            knows only automatic optimization.

    Raises, before the first step: TypeError where `make_loader` returns something else; ValueError for settings of the
    Trainer under which gradients or samples would be wrong, for a loader of another number of ranks, and for several
    optimizers and schedulers that would not be stepped; and from `Trainer.validate` ValueError where there is no loader
    to evaluate on.
    """

    def __init__(self, clip_norm: Optional[float] = None) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.clip_norm = clip_norm
        self._loaders: List[DataLoader] = []
        self._held_out_sums = torch.zeros(2, dtype=torch.float64)  # losses, label tokens

    # A subclass defines these.

    def make_loader(self) -> DataLoader:
        """Returns the loader to train on. It is called once in a fit, when the process group is initialised, so that
        ranks know of each other."""
        raise NotImplementedError("make_loader: return an isocost.DataLoader")

    def make_validation_loader(self) -> Optional[DataLoader]:
        """Returns the loader to evaluate on, or None."""
        return None

    def loss(self, microbatch: Microbatch) -> torch.Tensor:
        """Returns the microbatch's share of the global batch's mean loss, as a model's own loss is and
        isocost.token_loss. The microbatch is on the module's device."""
        raise NotImplementedError("loss: return self.model(**microbatch).loss, or isocost.token_loss")

    # Lightning calls the methods below.

    @property
    def trainer(self) -> Any:
        return super().trainer

    @trainer.setter
    def trainer(self, trainer: Any) -> None:
        # Lightning sets it when a fit or an evaluation begins, and no subclass replaces it by accident, as it might
        # `configure_callbacks`.
        if trainer is not None and not any(isinstance(each, _Hooks) for each in trainer.callbacks):
            trainer.callbacks = [_Hooks(), *trainer.callbacks]
        lightning.LightningModule.trainer.fset(self, trainer)

    def train_dataloader(self) -> Steps:
        note_version("lightning")
        _check_trainer(self.trainer)
        loader = self._keep(self.make_loader(), "make_loader")
        _check_epochs(loader, self.trainer)
        return _TrainSteps(loader)

    def val_dataloader(self) -> Any:
        loader = self.make_validation_loader()
        if loader is None and self.trainer.state.fn == TrainerFn.VALIDATING:
            raise ValueError("Trainer.validate: make_validation_loader returned no loader to evaluate on: return an "
                             "isocost.DataLoader")
        if loader is None:
            warnings.filterwarnings("ignore", message=f"Total length of `{_NoSteps.__name__}`")
            return _NoSteps()
        held_out = self._keep(loader, "make_validation_loader")
        check_same_samples(held_out, "make_validation_loader")
        if held_out.epochs > 0:
            raise ValueError("make_validation_loader: the loader ends after "
                             f"{counted(held_out.epochs, 'epoch')}, and each evaluation takes one: leave epochs= out")
        return _HeldOutSteps(held_out)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        if isinstance(batch, Step):
            return batch  # Each microbatch goes there when its turn comes.
        return super().transfer_batch_to_device(batch, device, dataloader_idx)

    def training_step(self, step: Step, batch_idx: int) -> None:
        _check_step(step, "make_loader", "train_dataloaders")
        ranks = self.trainer.world_size
        losses, works = [], []
        for microbatch in step.microbatches:
            self._sum_over_ranks_after(microbatch)
            with _measured(step.loader, microbatch) as work:
                loss = self.loss(copy.copy(microbatch).to(self.device))
                self.manual_backward(loss * ranks)  # Wrappers average over the ranks, and the loss is a sum.
            losses.append(loss.detach())
            works.append(work)
        self._step(step, works)
        self._step_schedulers(batch_idx)
        total = self.trainer.strategy.reduce(torch.stack(losses).sum(), reduce_op="sum")
        self.log("train_loss", total, batch_size=step.loader.global_batch_size)

    def validation_step(self, step: Step, batch_idx: int) -> None:  # noqa: ARG002
        _check_step(step, "make_validation_loader", "val_dataloaders")
        for microbatch in step.microbatches:
            share = self.loss(copy.copy(microbatch).to(self.device))
            sums = [share * microbatch.global_label_tokens, microbatch.label_tokens]
            self._held_out_sums = self._held_out_sums.to(self.device) + torch.stack(
                [torch.as_tensor(each, dtype=torch.float64, device=self.device) for each in sums])
            step.loader.note_trained(microbatch)

    # The hooks call these.

    def _begin_evaluation(self) -> None:
        self._held_out_sums = torch.zeros(2, dtype=torch.float64)

    def _log_evaluation(self) -> None:
        losses, tokens = self.trainer.strategy.reduce(self._held_out_sums.to(self.device), reduce_op="sum").tolist()
        if tokens > 0:
            self.log("val_loss", losses / tokens, rank_zero_only=True, batch_size=1)

    def _close_loaders(self) -> None:
        for loader in self._loaders:
            loader.close()
        self._loaders = []

    # Inside.

    def _keep(self, loader: Any, where: str) -> DataLoader:
        if not isinstance(loader, DataLoader):
            raise TypeError(f"{where} returned a {type(loader).__name__}: return an isocost.DataLoader")
        self._loaders.append(loader)
        _check_loader(loader, self.trainer, where)
        return loader

    def _sum_over_ranks_after(self, microbatch: Microbatch) -> None:
        """Leaves the sum of gradients over the ranks to the step's last microbatch."""
        wrapper = self.trainer.strategy.model
        if isinstance(wrapper, DistributedDataParallel):
            wrapper.require_backward_grad_sync = microbatch.last_of_step
        for module in self.modules():
            if hasattr(module, "set_requires_gradient_sync"):  # by fully_shard
                module.set_requires_gradient_sync(microbatch.last_of_step)

    def _step(self, step: Step, works: List[Optional[OwnWork]]) -> None:
        """Applies the step's gradient, and reports the seconds of its microbatches."""
        optimizer = self.optimizers()
        if self.clip_norm is not None:
            norm = torch.nn.utils.clip_grad_norm_(self.parameters(), self.clip_norm)
            self.log("grad_norm", getattr(norm, "full_tensor", lambda: norm)(), batch_size=1)
        optimizer.step()
        # The report says that they are trained. If the optimizer raises, a state must name this step again.
        for microbatch, work in zip(step.microbatches, works):
            if work is None:
                step.loader.recorder.pass_over(microbatch)
            else:
                step.loader.recorder.add_work(microbatch, [work])
        optimizer.zero_grad()

    def _step_schedulers(self, batch_idx: int) -> None:
        """Steps the schedulers when Lightning would: those of an epoch in its last step, so that a checkpoint of that
        step has their state."""
        for config in self.trainer.lr_scheduler_configs:
            is_of_epoch = config.interval == "epoch"
            count = 1 + (self.trainer.current_epoch if is_of_epoch else batch_idx)
            if count % config.frequency == 0 and (self.trainer.is_last_batch or not is_of_epoch):
                self.lr_scheduler_step(config.scheduler, None)


@contextlib.contextmanager
def _measured(loader: DataLoader, microbatch: Microbatch) -> Iterator[Optional[OwnWork]]:
    """Measures a block as `loader.timed` does, and leaves the report to the caller. Gives None where it does not."""
    if not microbatch.seconds_wanted:
        yield None
        return
    work = OwnWork(loader.recorder.shared)
    try:
        yield work
    finally:
        work.stop()


def _check_step(batch: Any, method: str, argument: str) -> None:
    if not isinstance(batch, Step):
        raise TypeError(f"a batch is of type {type(batch).__name__}: return an isocost.DataLoader from {method}, and "
                        f"leave {argument}= out, or define the step of such batches in your class")


def _check_trainer(trainer: Any) -> None:
    """Raises ValueError for settings under which gradients or samples would be wrong."""
    strategy = trainer.strategy
    kinds = (SingleDeviceStrategy, DDPStrategy, ModelParallelStrategy)
    if not isinstance(strategy, kinds):
        raise ValueError(f"strategy = {type(strategy).__name__}: it is not supported: use \"ddp\", or "
                         "ModelParallelStrategy with fully_shard in configure_model")
    sizes = _mesh_sizes(strategy)
    if sizes.get("tensor_parallel", 1) > 1:
        raise ValueError(f"tensor_parallel_size = {sizes['tensor_parallel']}: ranks that share a sample need the same "
                         f"microbatches, which is not supported: use ModelParallelStrategy(data_parallel_size="
                         f"{trainer.world_size}, tensor_parallel_size=1)")
    refused: Dict[str, Tuple[bool, str]] = {
        f"precision = {trainer.precision}": ("16" in trainer.precision and "bf16" not in trainer.precision,
                                             "gradients of several microbatches would overflow unseen: use bf16"),
        f"accumulate_grad_batches = {trainer.accumulate_grad_batches}": (
            trainer.accumulate_grad_batches != 1, "a batch is a whole step already: leave it out"),
        f"overfit_batches = {trainer.overfit_batches}": (
            trainer.overfit_batches > 0, "the loader decides the samples: leave it out"),
        f"reload_dataloaders_every_n_epochs = {trainer.reload_dataloaders_every_n_epochs}": (
            trainer.reload_dataloaders_every_n_epochs > 0, "each loader would begin with its first epoch: leave it "
                                                           "out")}
    for setting, (is_wrong, reason) in refused.items():
        if is_wrong:
            raise ValueError(f"{setting}: {reason}")
    _check_optimizers(trainer)


def _check_optimizers(trainer: Any) -> None:
    """Raises ValueError for what `configure_optimizers` returned, if some of it would not be stepped."""
    if len(trainer.optimizers) > 1:
        raise ValueError(f"configure_optimizers returned {len(trainer.optimizers)} optimizers, and a step is one "
                         "optimizer's: return one, with a parameter group for each set of settings")
    for config in trainer.lr_scheduler_configs:
        # Lightning sets `reduce_on_plateau` under automatic optimization alone, and checks the interval there alone.
        if isinstance(config.scheduler, ReduceLROnPlateau):
            raise ValueError("configure_optimizers: ReduceLROnPlateau needs a metric, and would not be stepped: keep "
                             "it out of what you return and step it in on_validation_epoch_end, or use another "
                             "scheduler")
        if config.interval not in ("epoch", "step"):
            raise ValueError(f"configure_optimizers: \"interval\" = {config.interval!r}: must be \"epoch\" or "
                             "\"step\"")


def _mesh_sizes(strategy: Any) -> Dict[str, int]:
    mesh = strategy.device_mesh if isinstance(strategy, ModelParallelStrategy) else None
    return {} if mesh is None else dict(zip(mesh.mesh_dim_names, mesh.shape))


def _check_epochs(loader: DataLoader, trainer: Any) -> None:
    """Raises ValueError if the loader ends before the Trainer: it would go on with epochs that have no step."""
    if loader.epochs == 0:
        return
    limits = [trainer.max_epochs] if (trainer.max_epochs or -1) > 0 else []
    if trainer.max_steps > 0:
        limits.append(-(-trainer.max_steps // max(_steps_of_epoch(loader, trainer), 1)))
    if not limits or min(limits) > loader.epochs:
        wanted = counted(min(limits), "epoch") if limits else "epochs without an end"
        raise ValueError(f"make_loader: the Trainer takes {wanted} (max_epochs = {trainer.max_epochs}, max_steps = "
                         f"{trainer.max_steps}, limit_train_batches = {trainer.limit_train_batches}), and the loader "
                         f"ends after {loader.epochs}: leave epochs= out")


def _steps_of_epoch(loader: DataLoader, trainer: Any) -> int:
    """Returns the number of steps that the Trainer takes of an epoch before it goes on to the next one."""
    limit = trainer.limit_train_batches
    return min(loader.steps_per_epoch, limit) if isinstance(limit, int) else int(loader.steps_per_epoch * limit)


def _check_loader(loader: DataLoader, trainer: Any, where: str) -> None:
    if loader.layout is not None or loader.endless:
        has = "a layout" if loader.layout is not None else "endless=True"
        raise ValueError(f"{where}: the loader has {has}, which is not supported: leave it out")
    if not loader.has_length:
        raise ValueError(f"{where}: the Trainer counts epochs, and this mixture of data sets has none: give it "
                         "`steps`, or each of its sources `epochs`")
    if loader.world_size != trainer.world_size:
        raise ValueError(f"{where}: the loader is of {loader.world_size} ranks, and the Trainer of "
                         f"{trainer.world_size}: make the loader in {where}, without rank= and world_size=")
