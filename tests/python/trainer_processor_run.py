"""Training runs for trainer_processor_test.py, one after the other in one process: the Trainer on a loader;
transformers' own Trainer, loader and collator with the model's processor, over the same global batches; and on one rank
a loop over steps. Prints the name of each, and then a line of JSON for each log."""

import argparse
import os
import pathlib
import sys

import torch
import transformers
from transformers.loss.loss_utils import ForCausalLMLoss

import isocost
from isocost.integrations.transformers import Trainer
from trainer_run import Watch, plain, say, settings_of

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "huggingface"))
from finetune_before import Collator, Conversations  # noqa: E402

GLOBAL_BATCH_SIZE, BATCH_SIZE = 8, 2


class ReasoningCollator(Collator):
    def labels(self, ids):
        """Leaves out the <think> that Qwen3.5's prompt ends with too, and the line breaks after it, which are one
        token with those of the empty thought."""
        labels = super().labels(ids)
        think = self.processor.tokenizer.convert_tokens_to_ids("<think>")
        for i in range(1, len(ids)):
            if labels[i] == think and labels[i - 1] == -100:
                labels[i:i + 2] = [-100, -100]
        return labels


def share_of_the_global_batch(outputs, labels, num_items_in_batch):
    """The model's own loss. The Trainer gives these models no num_items_in_batch, since their class refuses it."""
    return ForCausalLMLoss(outputs.logits, labels, outputs.logits.shape[-1], num_items_in_batch)


def train(trainer):
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()


def train_on_loader(model, loader, output):
    """Returns the keys of each step's samples, over all ranks."""
    steps = []

    class Recorded(Trainer):
        def training_step(self, model, inputs, *rest):
            steps.append([key for microbatch in inputs for key in microbatch.sample_keys])
            return super().training_step(model, inputs, *rest)

    train(Recorded(model, settings_of(output, num_train_epochs=1, save_strategy="no"), train_dataset=loader,
                   callbacks=[Watch()]))
    if loader.world_size == 1:
        return steps
    of_ranks = [None] * loader.world_size
    torch.distributed.all_gather_object(of_ranks, steps)
    return [sum(of_step, []) for of_step in zip(*of_ranks)]


def train_with_processor(model, arguments, steps):
    data = Conversations(arguments.data)
    numbers = {f"{shard.name}/{key}": i for i, ((shard, key), _) in enumerate(data.samples)}
    chosen = torch.utils.data.Subset(data, [numbers[key] for step in steps for key in step])
    ranks = int(os.environ.get("WORLD_SIZE", 1))
    settings = settings_of(arguments.output, num_train_epochs=1, save_strategy="no",
                           per_device_train_batch_size=BATCH_SIZE, train_sampling_strategy="sequential",
                           gradient_accumulation_steps=GLOBAL_BATCH_SIZE // (BATCH_SIZE * ranks))
    train(transformers.Trainer(model, settings, train_dataset=chosen, data_collator=ReasoningCollator(arguments.model),
                               compute_loss_func=share_of_the_global_batch, callbacks=[Watch()]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--model")
    parser.add_argument("--output")
    arguments = parser.parse_args()
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        torch.distributed.init_process_group("gloo")

    def model():
        return transformers.AutoModelForImageTextToText.from_pretrained(arguments.model)

    with isocost.DataLoader(arguments.data, model=arguments.model, global_batch_size=GLOBAL_BATCH_SIZE,
                            microbatches=2) as loader:
        say(run="loader")
        steps = train_on_loader(model(), loader, arguments.output)
        say(run="processor")
        train_with_processor(model(), arguments, steps)
        if loader.world_size == 1:
            say(run="plain")
            loader.set_epoch(0)
            plain(model(), loader, epochs=1)


if __name__ == "__main__":
    main()
