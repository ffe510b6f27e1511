"""The measured modules, with random weights: an encoder of SigLIP-so400m's shape and decoders of Qwen2.5's.

Microbatches are packed: without padding, and attention stays within each sequence. Every layer is checkpointed (its
forward runs again in backward), and so is the loss, in pieces of 4,096 tokens. This lets large microbatches fit.

Optimizer and gradient reduction are left out because their time does not depend on the data. The encoder's output is
not fed to the decoder: each module is predicted, measured and replayed on its own.
"""

from typing import NamedTuple

import torch
from packed_attention import packing_of
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

LOSS_TOKENS = 4096
PATCH_VALUES = 14 * 14 * 3


class EncoderShape(NamedTuple):
    layers: int
    width: int
    heads: int
    mlp: int
    positions: int = 4096  # learned

    def flop(self, lengths):
        """FLOP of a forward pass; a product of m×k by k×n takes 2·m·k·n."""
        per_unit = self.layers * (8 * self.width**2 + 4 * self.width * self.mlp) + 2 * PATCH_VALUES * self.width
        return per_unit * sum(lengths) + 4 * self.layers * self.width * sum(n * n for n in lengths)


class DecoderShape(NamedTuple):
    layers: int
    width: int
    heads: int
    key_heads: int
    mlp: int
    vocabulary: int
    tied: bool  # embedding and head are one matrix

    @property
    def key_width(self):
        return self.width // self.heads * self.key_heads

    def flop(self, lengths):
        """FLOP of a forward pass; causal attention computes half of the square."""
        layer = 4 * self.width * (self.width + self.key_width) + 6 * self.width * self.mlp
        per_unit = self.layers * layer + 2 * self.width * self.vocabulary
        return per_unit * sum(lengths) + 2 * self.layers * self.width * sum(n * n for n in lengths)


ENCODER = EncoderShape(layers=27, width=1152, heads=16, mlp=4304)
DECODERS = {"qwen2.5-0.5b": DecoderShape(24, 896, 14, 2, 4864, 151936, True),
            "qwen2.5-7b": DecoderShape(28, 3584, 28, 4, 18944, 152064, False)}
TINY_ENCODER = EncoderShape(layers=2, width=64, heads=2, mlp=128, positions=64)
TINY_DECODERS = {"qwen2.5-0.5b": DecoderShape(2, 64, 4, 2, 128, 256, True),
                 "qwen2.5-7b": DecoderShape(4, 128, 4, 2, 256, 256, False)}


def run_checkpointed(layer, *inputs):
    return checkpoint(layer, *inputs, use_reentrant=False, preserve_rng_state=False)


class EncoderLayer(nn.Module):
    """[patches, width] to the same: pre-norm attention over all patches of an image, then an MLP."""

    def __init__(self, shape, attend, **kind):
        super().__init__()
        self.heads, self.attend = shape.heads, attend
        self.norm = nn.LayerNorm(shape.width, **kind)
        self.qkv = nn.Linear(shape.width, 3 * shape.width, **kind)
        self.out = nn.Linear(shape.width, shape.width, **kind)
        self.mlp_norm = nn.LayerNorm(shape.width, **kind)
        self.up = nn.Linear(shape.width, shape.mlp, **kind)
        self.down = nn.Linear(shape.mlp, shape.width, **kind)

    def forward(self, rows, packing):
        queries, keys, values = self.qkv(self.norm(rows)).unflatten(1, (3, self.heads, -1)).unbind(1)
        rows = rows + self.out(self.attend(queries, keys, values, packing, False).flatten(1))
        return rows + self.down(functional.gelu(self.up(self.mlp_norm(rows)), approximate="tanh"))


class Encoder(nn.Module):
    def __init__(self, shape, attend, **kind):
        super().__init__()
        self.patch = nn.Linear(PATCH_VALUES, shape.width, **kind)
        self.position = nn.Embedding(shape.positions, shape.width, **kind)
        self.layers = nn.ModuleList(EncoderLayer(shape, attend, **kind) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width, **kind)
        # The plain sum of a norm's output has a gradient of zero, and zeros are multiplied faster than other numbers.
        self.register_buffer("probe", torch.randn(shape.width, **kind))

    def forward(self, patches, packing):
        """patches: [patches, 588] in the weights' type. Returns [patches], a value to differentiate."""
        rows = self.patch(patches) + self.position(packing.positions % self.position.num_embeddings)
        for layer in self.layers:
            rows = run_checkpointed(layer, rows, packing)
        return self.norm(rows) @ self.probe


class RmsNorm(nn.Module):
    def __init__(self, width, **kind):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, **kind))

    def forward(self, rows):
        if hasattr(functional, "rms_norm"):  # torch 2.4
            return functional.rms_norm(rows, (rows.shape[-1],), self.weight, 1e-6)
        wide = rows.float()
        return (wide * (wide.square().mean(-1, keepdim=True) + 1e-6).rsqrt()).to(rows.dtype) * self.weight


def rotations(positions, head_width, dtype):
    """Cosines and sines, each [tokens, 1, head_width / 2], of rotary embedding with base 1e6."""
    steps = torch.arange(0, head_width, 2, device=positions.device, dtype=torch.float32) / head_width
    angles = positions.float()[:, None] * 1e6 ** -steps
    return angles.cos().to(dtype)[:, None], angles.sin().to(dtype)[:, None]


def rotate(heads, cosines, sines):
    first, second = heads.chunk(2, -1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), -1)


class DecoderLayer(nn.Module):
    """[tokens, width] to the same: pre-norm causal attention with fewer key heads, then a gated MLP."""

    def __init__(self, shape, attend, **kind):
        super().__init__()
        self.heads, self.key_heads, self.attend = shape.heads, shape.key_heads, attend
        self.norm = RmsNorm(shape.width, **kind)
        self.queries = nn.Linear(shape.width, shape.width, **kind)
        self.keys = nn.Linear(shape.width, shape.key_width, **kind)
        self.values = nn.Linear(shape.width, shape.key_width, **kind)
        self.out = nn.Linear(shape.width, shape.width, bias=False, **kind)
        self.mlp_norm = RmsNorm(shape.width, **kind)
        self.gate = nn.Linear(shape.width, shape.mlp, bias=False, **kind)
        self.up = nn.Linear(shape.width, shape.mlp, bias=False, **kind)
        self.down = nn.Linear(shape.mlp, shape.width, bias=False, **kind)

    def forward(self, rows, cosines, sines, packing):
        normed = self.norm(rows)
        queries = rotate(self.queries(normed).unflatten(1, (self.heads, -1)), cosines, sines)
        keys = rotate(self.keys(normed).unflatten(1, (self.key_heads, -1)), cosines, sines)
        values = self.values(normed).unflatten(1, (self.key_heads, -1))
        rows = rows + self.out(self.attend(queries, keys, values, packing, True).flatten(1))
        normed = self.mlp_norm(rows)
        return rows + self.down(functional.silu(self.gate(normed)) * self.up(normed))


class Decoder(nn.Module):
    def __init__(self, shape, attend, **kind):
        super().__init__()
        self.head_width = shape.width // shape.heads
        self.embedding = nn.Embedding(shape.vocabulary, shape.width, **kind)
        self.layers = nn.ModuleList(DecoderLayer(shape, attend, **kind) for _ in range(shape.layers))
        self.norm = RmsNorm(shape.width, **kind)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False, **kind)
        nn.init.normal_(self.embedding.weight, std=0.02)
        if shape.tied:
            self.head.weight = self.embedding.weight

    def loss_of(self, rows, labels):
        return functional.cross_entropy(self.head(rows).float(), labels, reduction="sum")

    def forward(self, ids, packing):
        """ids: int64 [tokens], which are also the labels. Returns the summed loss, float32."""
        rows = self.embedding(ids)
        cosines, sines = rotations(packing.positions, self.head_width, rows.dtype)
        for layer in self.layers:
            rows = run_checkpointed(layer, rows, cosines, sines, packing)
        rows = self.norm(rows)
        return sum(run_checkpointed(self.loss_of, *part)
                   for part in zip(rows.split(LOSS_TOKENS), ids.split(LOSS_TOKENS)))


def encoder_inputs(encoder):
    """`prepare` of an isocost.ProfiledModule: maps lengths (patches of each image) to a forward pass."""
    weight = encoder.patch.weight

    def prepare(lengths):
        packing = packing_of(lengths, weight.device)
        patches = torch.randn(packing.units, PATCH_VALUES, device=weight.device, dtype=weight.dtype)
        return lambda: encoder(patches, packing)
    return prepare


def decoder_inputs(decoder):
    """`prepare` for the decoder: lengths are the tokens of each sample."""
    weight = decoder.embedding.weight

    def prepare(lengths):
        packing = packing_of(lengths, weight.device)
        ids = torch.randint(weight.shape[0], (packing.units,), device=weight.device)
        return lambda: decoder(ids, packing)
    return prepare
