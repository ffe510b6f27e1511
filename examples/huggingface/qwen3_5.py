"""Fine-tunes Qwen3.5 on conversations about pictures with the Trainer of transformers, whose settings it takes:

    python examples/huggingface/qwen3_5.py --output_dir out --num_train_epochs 1
    torchrun --nproc-per-node 8 examples/huggingface/qwen3_5.py --output_dir out --num_train_epochs 1

A run goes on from the last checkpoint in the output directory. docs/qwen3_5.md has the steps before this one.
"""

import torch
import transformers

import isocost
from isocost.integrations.transformers import Trainer, last_checkpoint

MODEL = "Qwen3.5-4B"  # a directory, or a name on the hub such as "Qwen/Qwen3.5-4B"

settings, = transformers.HfArgumentParser(transformers.TrainingArguments).parse_args_into_dataclasses()
model = transformers.AutoModelForImageTextToText.from_pretrained(MODEL, dtype=torch.float32)  # see --bf16
train = isocost.DataLoader("data/train", model=MODEL, global_batch_size=16, max_tokens=16384)
held_out = isocost.DataLoader("data/eval", model=MODEL, global_batch_size=16, max_tokens=16384, shuffle=False)
trainer = Trainer(model, settings, train_dataset=train, eval_dataset=held_out,
                  processing_class=transformers.AutoProcessor.from_pretrained(MODEL))
trainer.train(resume_from_checkpoint=last_checkpoint(settings.output_dir))
trainer.save_model()
