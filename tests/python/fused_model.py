"""Layers of a transformer in bfloat16 whose attention and gate keep what fused kernels keep: no scores, and no second
copy of the gate."""

import dataclasses
import functools

import torch
from torch.utils.checkpoint import checkpoint


@dataclasses.dataclass(frozen=True)
class Shape:
    """The dimensions of layers, and how they are trained: "all", "adapters" or "none"."""

    layers: int
    width: int
    heads: int
    key_value_width: int
    mlp: int
    trained: str = "all"
    adapter_rank: int = 8

    def architecture(self, embedding_parameters=0):
        """The dimensions as a model profile has them."""
        return {"layers": self.layers, "width": self.width, "heads": self.heads,
                "key_value_width": self.key_value_width, "mlp": self.mlp, "gated": True,
                "embedding_parameters": embedding_parameters, "head_flop_per_unit": 0}


class Attention(torch.autograd.Function):
    """Attention that keeps its inputs and its output, and computes scores again."""

    @staticmethod
    def split(tensor, heads):
        return tensor.view(len(tensor), heads, -1).transpose(0, 1).float()

    @classmethod
    def attend(cls, query, key, value, heads):
        groups = heads * key.shape[1] // query.shape[1]
        query, key, value = (cls.split(each, count) for each, count in ((query, heads), (key, groups), (value, groups)))
        key, value = (each.repeat_interleave(heads // groups, 0) for each in (key, value))
        mixed = torch.softmax(query @ key.transpose(1, 2) / query.shape[-1] ** 0.5, dim=-1) @ value
        return mixed.transpose(0, 1).flatten(1).to(torch.bfloat16)

    @staticmethod
    def forward(ctx, query, key, value, heads):
        output = Attention.attend(query, key, value, heads)
        ctx.save_for_backward(query, key, value, output)
        ctx.heads = heads
        return output

    @staticmethod
    def backward(ctx, gradient):
        inputs = [each.detach().requires_grad_() for each in ctx.saved_tensors[:3]]
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(lambda each: each, lambda each: each):
            return (*torch.autograd.grad(Attention.attend(*inputs, ctx.heads), inputs, gradient), None)


class Gate(torch.autograd.Function):
    """silu(gate)·up, of which gate and up are kept."""

    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return torch.nn.functional.silu(gate) * up

    @staticmethod
    def backward(ctx, gradient):
        gate, up = ctx.saved_tensors
        with torch.no_grad():
            sigmoid = torch.sigmoid(gate)
            of_gate = gradient * up * sigmoid * (1 + gate * (1 - sigmoid))
            return of_gate, gradient * gate * sigmoid


class Linear(torch.nn.Module):
    def __init__(self, inputs, outputs, shape):
        super().__init__()
        weight = torch.randn(outputs, inputs) / inputs**0.5
        self.weight = torch.nn.Parameter(weight, requires_grad=shape.trained == "all")
        self.adapters = None
        if shape.trained == "adapters":
            self.adapters = torch.nn.ParameterList([torch.nn.Parameter(torch.randn(shape.adapter_rank, inputs)),
                                                    torch.nn.Parameter(torch.randn(outputs, shape.adapter_rank))])

    def forward(self, tensor):
        out = torch.nn.functional.linear(tensor, self.weight)
        if self.adapters is None:
            return out
        down, up = self.adapters
        return out + torch.nn.functional.linear(torch.nn.functional.linear(tensor, down), up)


class Mlp(torch.nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gate, self.up = (Linear(shape.width, shape.mlp, shape) for _ in range(2))
        self.down = Linear(shape.mlp, shape.width, shape)

    def forward(self, tensor):
        return self.down(Gate.apply(self.gate(tensor), self.up(tensor)))


class Layer(torch.nn.Module):
    """One layer, which computes again what `recompute` says: "none", "selective" or "full"."""

    def __init__(self, shape, recompute="none", reentrant=True):
        super().__init__()
        self.recompute, self.heads = recompute, shape.heads
        self.checkpoint = functools.partial(checkpoint, use_reentrant=reentrant)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(shape.width) for _ in range(2))
        self.norms.requires_grad_(shape.trained == "all")
        self.query, self.out = (Linear(shape.width, shape.width, shape) for _ in range(2))
        self.key, self.value = (Linear(shape.width, shape.key_value_width, shape) for _ in range(2))
        self.mlp = Mlp(shape)

    def computed(self, tensor):
        normed = self.norms[0](tensor)
        mixed = Attention.apply(self.query(normed), self.key(normed), self.value(normed), self.heads)
        tensor = tensor + self.out(mixed)
        normed = self.norms[1](tensor)
        if self.recompute == "selective":
            return tensor + self.checkpoint(self.mlp, normed)
        return tensor + self.mlp(normed)

    def forward(self, tensor):
        if self.recompute == "full":
            return self.checkpoint(self.computed, tensor)
        return self.computed(tensor)
