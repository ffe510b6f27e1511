"""A job of model_layout_test.py: a Qwen2.5-VL cut in two stages, whose losses over an epoch's first step are printed.
Arguments: data, the model's directory, the layout."""

import sys

import torch
import torch.distributed as distributed
import transformers

import isocost

data, directory, layout = sys.argv[1:]


def first_layers(model, given):
    """Embeds tokens and media, and runs the first half of the layers: [1, tokens, width]."""
    core = model.model
    hidden = core.get_input_embeddings()(given["input_ids"])
    if "pixel_values" in given:
        features = core.get_image_features(given["pixel_values"], given["image_grid_thw"])
        vectors = torch.cat(list(getattr(features, "pooler_output", features)))
        is_image = (given["input_ids"] == model.config.image_token_id)[..., None].expand_as(hidden)
        hidden = hidden.masked_scatter(is_image, vectors.to(hidden.dtype))
    layers = core.language_model.layers
    return run(core.language_model, layers[:len(layers) // 2], hidden, given)


def last_layers(model, hidden, given):
    """Runs the other half and the head: the loss, as the model's own forward returns it."""
    text = model.model.language_model
    hidden = run(text, text.layers[len(text.layers) // 2:], hidden, given)
    return model.loss_function(logits=model.lm_head(text.norm(hidden)), labels=given["labels"],
                               vocab_size=model.config.text_config.vocab_size,
                               num_items_in_batch=given["num_items_in_batch"])


def run(text, layers, hidden, given):
    positions = given["position_ids"]
    sample = (positions[0] == 0).cumsum(-1)[0]
    seen = (sample[:, None] == sample) & torch.ones(len(sample), len(sample), dtype=torch.bool).tril()
    rotary = text.rotary_emb(hidden, positions[1:])
    for layer in layers:
        out = layer(hidden, attention_mask=seen[None, None], position_ids=positions[0], position_embeddings=rotary,
                    use_cache=False)
        hidden = out[0] if isinstance(out, tuple) else out
    return hidden


def main():
    distributed.init_process_group("gloo")
    model = transformers.AutoModelForImageTextToText.from_pretrained(directory, dtype=torch.float32,
                                                                     attn_implementation="sdpa").eval()
    loss, names = 0.0, set()
    with torch.no_grad(), isocost.DataLoader(data, model=directory, layout=layout, global_batch_size=16) as loader:
        for microbatch in loader:
            given = microbatch.tensors
            names |= set(given)
            if loader.place.stage == 0:
                distributed.send(first_layers(model, given), 1)
            else:
                hidden = torch.empty(1, microbatch.tokens, model.config.text_config.hidden_size)
                distributed.recv(hidden, 0)
                loss += last_layers(model, hidden, given).item()
            if microbatch.last_of_step:
                break
    print(distributed.get_rank(), loss, ",".join(sorted(names)), flush=True)
    distributed.barrier()


main()
