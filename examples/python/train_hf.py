"""A Hugging Face Trainer whose batches come from Isocost.

    python examples/python/train_hf.py DATA [--steps 4]
    torchrun --nproc-per-node 2 examples/python/train_hf.py DATA   # torch 2

The Trainer's gradient accumulation takes Isocost's microbatches one after the other; the loss is that of the whole
global batch, so it is neither divided by their number nor averaged.
"""

import argparse
import json
import tempfile

import torch
import transformers
from model import TextModel

import isocost

MICROBATCHES = 2


class Batch:
    """Carries a microbatch through the Trainer, which takes mappings apart and makes new ones of their type."""

    def __init__(self, microbatch):
        self.microbatch = microbatch


class Trainer(transformers.Trainer):
    """Hands out Isocost's microbatches, and takes their loss as it is."""

    def __init__(self, *arguments, data, **keywords):
        super().__init__(*arguments, **keywords)
        self.data = data
        self.model_accepts_loss_kwargs = True  # the loss is a sum over the step already

    def get_train_dataloader(self):
        # The Trainer divides a loss by the accumulation unless it finds labels to count.
        self.loader = isocost.DataLoader(
            self.data, global_batch_size=16, microbatches=self.args.gradient_accumulation_steps,
            node=isocost.NodeOptions(tail="drop"),
            collate=lambda microbatch: {"batch": Batch(microbatch), "labels": microbatch["labels"]})
        return self.loader

    def training_step(self, model, inputs, *rest):
        with self.loader.timed(inputs["batch"].microbatch):  # this rank's own seconds correct the cost model
            return super().training_step(model, inputs, *rest)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        microbatch = inputs["batch"].microbatch
        logits = model(**microbatch)
        loss = isocost.token_loss(logits, microbatch) * self.args.world_size  # DDP averages over ranks
        return (loss, logits) if return_outputs else loss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as output:
        settings = transformers.TrainingArguments(
            output, max_steps=arguments.steps, gradient_accumulation_steps=MICROBATCHES, learning_rate=1e-2,
            logging_steps=1,
            max_grad_norm=0, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=not torch.cuda.is_available())
        trainer = Trainer(TextModel(), settings, data=arguments.data, train_dataset=[0])
        trainer.train()
    for entry in trainer.state.log_history:
        if "loss" in entry:
            print(json.dumps({"step": entry["step"], "loss": float(entry["loss"]),
                              "grad_norm": float(entry["grad_norm"])}))


if __name__ == "__main__":
    main()
