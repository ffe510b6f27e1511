"""A job of model_layout_test.py: a model cut in two stages, each of which has half the layers of its text. Writes every
stage's gradients of an epoch's first step to OUT/RANK.pt, and prints the rank, its share of the loss, and the names of
the arguments that it was given. Arguments: data, the model's directory, the layout, how to balance, OUT."""

import dataclasses
import pathlib
import sys

import torch
import torch.distributed as distributed
import transformers

import isocost
from model_test import IN_ORDER

data, directory, layout, balance, out = sys.argv[1:]


class Stage:
    """Runs forward and backward passes of one stage; vectors are those between the layers of the text."""

    def __init__(self, is_first):
        self.model = transformers.AutoModelForImageTextToText.from_pretrained(directory).double().train()
        self.names = {parameter: name for name, parameter in self.model.named_parameters()}
        self.text = self.model.model.language_model
        half = len(self.text.layers) // 2
        own = slice(half) if is_first else slice(half, None)
        config = self.text.config
        self.text.layers, config.layer_types = self.text.layers[own], config.layer_types[own]
        config.num_hidden_layers = len(self.text.layers)
        if is_first:
            self.text.norm = torch.nn.Identity()

    def first(self, given):
        """Embeds tokens and media, and runs the first layers. Returns the vectors, [rows, tokens, width]."""
        return self.model.model(**given).last_hidden_state

    def last(self, vectors, given):
        """Runs the other layers and the head. Returns the loss, as the model's own forward does."""
        labels, count = given.pop("labels"), given.pop("num_items_in_batch")
        logits = self.model.lm_head(self.text(inputs_embeds=vectors, **given).last_hidden_state)
        return self.model.loss_function(logits=logits, labels=labels, num_items_in_batch=count,
                                        vocab_size=self.model.config.text_config.vocab_size)

    def gradients(self):
        return {name: parameter.grad for parameter, name in self.names.items() if parameter.grad is not None}


def run_first(stage, given):
    vectors = stage.first(given)
    distributed.send(vectors.detach(), 1)
    gradient = torch.empty_like(vectors)
    distributed.recv(gradient, 1)
    vectors.backward(gradient)
    return 0.0


def run_last(stage, given):
    vectors = torch.empty(*given["labels"].shape, stage.text.config.hidden_size, dtype=torch.float64)
    distributed.recv(vectors, 0)
    loss = stage.last(vectors.requires_grad_(), given)
    loss.backward()
    distributed.send(vectors.grad, 0)
    return loss.item()


def main():
    distributed.init_process_group("gloo")
    rank, loss, names = distributed.get_rank(), 0.0, set()
    node = dataclasses.replace(IN_ORDER, balance=balance)
    with isocost.DataLoader(data, model=directory, layout=layout, global_batch_size=8, node=node) as loader:
        stage = Stage(loader.place.stage == 0)
        for microbatch in loader:
            given = dict(microbatch.tensors)
            names |= set(given)
            loss += (run_first if loader.place.stage == 0 else run_last)(stage, given)
            if microbatch.last_of_step:
                break
    torch.save(stage.gradients(), pathlib.Path(out) / f"{rank}.pt")
    print(rank, loss, ",".join(sorted(names)), flush=True)
    distributed.barrier()


main()
