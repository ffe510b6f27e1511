"""Fine-tunes a vision-language model of transformers on WebDataset shards.

    python examples/huggingface/finetune.py --data SHARDS --model DIR --output OUT
    python examples/huggingface/finetune.py --data SHARDS --model DIR --output OUT --trainer
    torchrun --nproc-per-node 2 examples/huggingface/finetune.py --data SHARDS --model DIR --output OUT   # torch 2

The model is transformers' own. The loss of a microbatch is its share of the global batch's mean, so the losses of all
microbatches and ranks are summed. `finetune_before.py` is the same script without Isocost; README.md shows the
difference.
"""

import argparse
import json
import os

import torch
import torch.distributed as dist
import transformers

import isocost


class PrintSteps(transformers.TrainerCallback):
    def on_log(self, settings, state, control, logs=None, **rest):
        if state.is_world_process_zero and "loss" in logs:
            print_step(state.global_step, logs["loss"])


def train(model, loader, arguments):
    ranks, step, total = loader.world_size, 0, 0.0
    if ranks > 1:
        model = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)  # of text without images
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr, weight_decay=0.0)
    model.train()
    for microbatch in loader:
        model.require_backward_grad_sync = microbatch.last_of_step  # what DDP's no_sync sets
        with loader.timed(microbatch):  # this rank's own seconds correct the cost model
            loss = model(**microbatch).loss
            (loss * ranks).backward()  # DDP averages over ranks, the loss is a sum
        total += loss.detach()
        if microbatch.last_of_step:
            optimizer.step()
            optimizer.zero_grad()
            if ranks > 1:
                dist.all_reduce(total)
            step += 1
            if loader.rank == 0:
                print_step(step, total.item())
            total = 0.0
            if step == arguments.steps:
                break


def print_step(step, loss):
    print(json.dumps({"step": step, "loss": float(loss)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="directory of shards")
    parser.add_argument("--model", required=True, help="directory of the model, or its name on the hub")
    parser.add_argument("--output", help="directory for the trained model")
    parser.add_argument("--global-batch-size", type=int, default=16, help="samples of a step, over all ranks")
    parser.add_argument("--microbatches", type=int, default=2, help="per rank and step")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--no-shuffle", action="store_true", help="take the samples in the order of the shards")
    parser.add_argument("--trainer", action="store_true", help="train with transformers.Trainer")
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        dist.init_process_group()
    device = torch.device(f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    model = transformers.AutoModelForImageTextToText.from_pretrained(arguments.model).to(device)
    with isocost.DataLoader(arguments.data, model=arguments.model, global_batch_size=arguments.global_batch_size,
                            microbatches=arguments.microbatches, shuffle=not arguments.no_shuffle,
                            endless=not arguments.trainer, device=device,
                            node=isocost.NodeOptions(tail="drop")) as loader:
        if arguments.trainer:
            from isocost.integrations.transformers import Trainer

            settings = transformers.TrainingArguments(
                arguments.output, max_steps=arguments.steps, learning_rate=arguments.lr,
                lr_scheduler_type="constant", max_grad_norm=0, logging_steps=1, save_strategy="no", report_to=[],
                disable_tqdm=True, use_cpu=device.type == "cpu")
            trainer = Trainer(model, settings, train_dataset=loader, callbacks=[PrintSteps()])
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()
        else:
            train(model, loader, arguments)
        if arguments.output and loader.rank == 0:
            model.save_pretrained(arguments.output)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
