"""A training run for the tests of trainers, in a process of its own: with the Trainer, or with a loop over steps.
Prints a line of JSON for each log and each step's samples."""

import argparse
import json
import os

import torch
import transformers

import isocost

CLIP, RATE = 0.5, 0.05


def say(**line):
    print(json.dumps(line), flush=True)


class OwnLoss(transformers.Trainer):
    """A loss of one's own in the form that transformers documents: a mean, or a sum over the items of the batch."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        logits, targets = outputs.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
        loss = loss / ((targets >= 0).sum() if num_items_in_batch is None else num_items_in_batch)
        if self.args.average_tokens_across_devices:
            loss = loss * self.accelerator.num_processes
        return (loss, outputs) if return_outputs else loss


class Watch(transformers.TrainerCallback):
    def __init__(self, dies_after=None):
        self.dies_after = dies_after

    def on_log(self, args, state, control, logs=None, **rest):
        if state.is_world_process_zero:
            say(step=state.global_step, epoch_seen=state.epoch, **logs)

    def on_step_end(self, args, state, control, **rest):
        if state.global_step == self.dies_after:
            os._exit(9)


def settings_of(output, settings_class=transformers.TrainingArguments, **more):
    """Those of the loop in `plain`, and more."""
    return settings_class(output, **{"optim": "sgd", "learning_rate": RATE, "lr_scheduler_type": "constant",
                                     "max_grad_norm": CLIP, "logging_steps": 1, "report_to": [], "disable_tqdm": True,
                                     "use_cpu": True, "seed": 0, "bf16": False, **more})


def zero(stage):
    return {"zero_optimization": {"stage": stage}, "gradient_clipping": "auto", "train_batch_size": "auto",
            "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"}


def adapters():
    import peft

    return peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"])


def settings_of_trainer(arguments):
    settings_class = transformers.TrainingArguments
    if arguments.trl:
        import trl

        settings_class = trl.SFTConfig
    adam = {"optim": "adamw_torch", "learning_rate": RATE / 50} if arguments.adam else {}
    return settings_of(
        arguments.output, settings_class, num_train_epochs=arguments.epochs, save_strategy="steps", save_steps=2,
        eval_strategy="steps" if arguments.held_out else "no", eval_steps=3,
        activation_checkpointing=arguments.checkpointing, include_num_input_tokens_seen="all",
        save_only_model=arguments.sharded, fsdp=arguments.fsdp,
        deepspeed=zero(arguments.zero) if arguments.zero else None, **adam)


def trainer_of(arguments, settings, model, train, held_out):
    from isocost.integrations.transformers import Trainer, trainer_class

    base, more = Trainer, {}
    if arguments.trl:
        import trl

        base = trainer_class(trl.SFTTrainer)
        more["processing_class"] = transformers.AutoTokenizer.from_pretrained(arguments.model)
        if arguments.lora:
            more["peft_config"] = adapters()

    if arguments.own_loss:
        base = trainer_class(OwnLoss)

    class Watched(base):
        def training_step(self, model, inputs, *rest):
            say(at=self.state.global_step, ids=[sample for each in inputs for sample in each.sample_ids])
            return super().training_step(model, inputs, *rest)

    trainer = Watched(model, settings, train_dataset=train, eval_dataset=held_out,
                      callbacks=[Watch(arguments.dies_after)], **more)
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def plain(model, train, held_out=None, epochs=2):
    """Trains as the Trainer does, in a loop over steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    model.train()
    done = tokens = 0
    for _ in range(epochs):
        for step in isocost.steps(train):
            loss = 0.0
            for microbatch in step:
                share = model(**microbatch).loss
                share.backward()
                loss += share.item()
                tokens += microbatch.tokens
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad()
            done += 1
            say(step=done, loss=loss, grad_norm=norm.item(), num_input_tokens_seen=tokens)
            if held_out and done % 3 == 0:
                model.eval()
                found = isocost.evaluate(held_out, lambda each: (model(**each).loss * each.global_label_tokens,
                                                                 each.label_tokens))
                model.train()
                say(step=done, eval_loss=found.loss, samples=found.samples)


def shard_on_cpus(settings):
    """Makes accelerate follow the settings `fsdp` on CPUs, where it passes over them: its code is the one that runs on
    several GPUs, the device and the process group stay."""
    import accelerate

    assert settings.device.type == "cpu"
    state = accelerate.PartialState()
    assert state.distributed_type == accelerate.DistributedType.MULTI_CPU
    state.distributed_type = accelerate.DistributedType.MULTI_GPU


def init_group(arguments):
    if arguments.zero:
        import deepspeed

        deepspeed.init_distributed("gloo")  # The settings leave it out on CPUs.
    else:
        torch.distributed.init_process_group("gloo")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--held-out")
    parser.add_argument("--model")
    parser.add_argument("--output")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--max-tokens", type=int)
    parser.add_argument("--dies-after", type=int)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--token-loss", action="store_true")
    parser.add_argument("--evaluates", action="store_true", help="the model in float64, instead of training")
    parser.add_argument("--own-loss", action="store_true", help="a compute_loss of the trainer")
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--lora", action="store_true")
    parser.add_argument("--router-logits", action="store_true", help="in the model's configuration")
    parser.add_argument("--trl", action="store_true", help="its SFTTrainer")
    parser.add_argument("--zero", type=int, help="stage of DeepSpeed")
    parser.add_argument("--sharded", action="store_true", help="the model's layers, over all ranks")
    parser.add_argument("--adam", action="store_true", help="in the Trainer")
    parser.add_argument("--fsdp", action="store_true", help="the Trainer's own setting")
    arguments = parser.parse_args()
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        init_group(arguments)
    # Before the model, whose weights from_pretrained makes sharded where the settings ask for ZeRO 3.
    settings = None if arguments.plain else settings_of_trainer(arguments)
    if arguments.fsdp:
        shard_on_cpus(settings)
    sharding = {}
    if arguments.sharded:
        from transformers.distributed import DistributedConfig

        layers = ("model.language_model.layers.*", "model.visual.blocks.*")
        sharding["distributed_config"] = DistributedConfig(fsdp_size=int(os.environ["WORLD_SIZE"]),
                                                           fsdp_plan=dict.fromkeys(layers, "free_full_weight"))
    model = transformers.AutoModelForImageTextToText.from_pretrained(arguments.model, **sharding)
    if arguments.router_logits:
        model.config.text_config.output_router_logits = True
    torch.manual_seed(0)  # as the adapters begin with
    if arguments.lora and (arguments.plain or not arguments.trl):
        import peft

        model = peft.get_peft_model(model, adapters())
    limits = {"max_tokens": arguments.max_tokens} if arguments.max_tokens else {"microbatches": 2}
    loss = "token_loss" if arguments.token_loss else "model"
    with isocost.DataLoader(arguments.data, model=arguments.model, global_batch_size=8, loss=loss, **limits) as train:
        held_out = None
        if arguments.held_out:
            held_out = isocost.DataLoader(arguments.held_out, model=arguments.model, global_batch_size=4,
                                          microbatches=1, shuffle=False, loss=loss)
        if arguments.evaluates:
            trainer_of(arguments, settings, model.double(), train, held_out).evaluate()
        elif arguments.plain:
            plain(model, train, held_out, arguments.epochs)
        else:
            trainer_of(arguments, settings, model, train, held_out).train(resume_from_checkpoint=arguments.resume)
        if held_out:
            held_out.close()


if __name__ == "__main__":
    main()
