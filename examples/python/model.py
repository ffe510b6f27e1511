"""A small causal language model over packed bytes, for the examples."""

import torch


class TextModel(torch.nn.Module):
    """One attention layer; samples that share a microbatch do not see each other."""

    def __init__(self, width=64, vocabulary=260):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, input_ids, position_ids, **_):
        """int64 [tokens], int64 [tokens] that begin at 0 in each sample -> logits [tokens, vocabulary]"""
        sample = (position_ids == 0).cumsum(0)
        visible = (sample[:, None] == sample[None, :]).tril()
        x = self.embedding(input_ids)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = (q @ k.T / q.shape[-1] ** 0.5).masked_fill(~visible, float("-inf"))
        return self.head(x + scores.softmax(-1) @ v)
