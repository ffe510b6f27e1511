"""Trains a vision-language model with Lightning, under DistributedDataParallel or with parameters that `fully_shard`
spreads over the ranks, and goes on where an earlier run was stopped. Lightning starts the ranks itself.

    python examples/frameworks/lightning_module.py --data SHARDS --model DIR --checkpoints FOLDER --devices 2
"""

import json

import lightning
import torch
import transformers
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.fsdp import fully_shard

import isocost
from isocost.integrations.lightning import Module
from settings import argument_parser


class Captions(Module):
    def __init__(self, arguments):
        super().__init__(clip_norm=arguments.clip)
        self.arguments = arguments
        self.model = None

    def configure_model(self):
        if self.model is not None:
            return
        self.model = transformers.AutoModelForImageTextToText.from_pretrained(self.arguments.model,
                                                                              dtype=torch.float32).train()
        if self.arguments.sharded:
            mesh = self.device_mesh["data_parallel"]
            for layer in [*self.model.model.visual.blocks, *self.model.model.language_model.layers]:
                fully_shard(layer, mesh=mesh)
            fully_shard(self.model, mesh=mesh)

    def make_loader(self):
        return isocost.DataLoader(self.arguments.data, model=self.arguments.model, dummy_media="always",
                                  global_batch_size=self.arguments.global_batch_size,
                                  max_tokens=self.arguments.max_tokens, epochs=self.arguments.epochs)

    def loss(self, microbatch):
        return self.model(**microbatch).loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.arguments.lr)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        last, metrics = batch.microbatches[-1], self.trainer.callback_metrics
        if self.trainer.is_global_zero:
            print(json.dumps({"epoch": last.epoch, "step": last.step, "loss": metrics["train_loss"].item(),
                              "norm": metrics["grad_norm"].item()}), flush=True)


parser = argument_parser(__doc__)
parser.add_argument("--devices", type=int, default=1, help="number of ranks on this host")
parser.add_argument("--sharded", action="store_true", help="spread the parameters over the ranks")
arguments = parser.parse_args()

strategy = "ddp" if arguments.devices > 1 else "auto"
if arguments.sharded:
    strategy = ModelParallelStrategy(data_parallel_size=arguments.devices, tensor_parallel_size=1)
checkpoints = ModelCheckpoint(arguments.checkpoints, save_last=True, every_n_train_steps=arguments.save_every)
trainer = lightning.Trainer(accelerator="auto", strategy=strategy, devices=arguments.devices,
                            max_epochs=arguments.epochs, callbacks=[checkpoints], logger=False,
                            enable_progress_bar=False)
trainer.fit(Captions(arguments), ckpt_path="last")
