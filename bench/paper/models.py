"""The models of the paper as model profiles by FLOP: seconds are FLOP over one throughput, for forward and backward.

Dimensions are those of the published configurations. docs/cost_model.md derives the FLOP of a layer."""

import dataclasses
import typing

PEAK_FLOP = 312e12  # bf16 peak of an A100
EFFICIENCY = 0.40  # one for all modules, as in the built-in profile
LAUNCHES_PER_LAYER_S = 30 * 5e-6
PASSES = 3  # forward, and twice as much backward


@dataclasses.dataclass(frozen=True)
class Transformer:
    """Dimensions of an encoder or an LLM."""

    name: str
    layers: int
    width: int
    heads: int
    key_heads: int
    mlp: int
    vocabulary: int = 0  # of an LLM
    attention_width: int = 0  # 0: the width; more where heads are padded
    stem_parameters: int = 0  # of an encoder
    stem_flop: int = 0  # forward, for a unit
    gated_encoder: bool = False  # MLPs of LLMs are
    window: int = 0  # units in which layers of an encoder attend; 0: in all of the sequence
    full_layers: int = 0  # those that attend to all of it beside windows

    @property
    def queries(self) -> int:
        return self.attention_width or self.width

    @property
    def keys(self) -> int:
        return self.queries // self.heads * self.key_heads

    def flop(self, keys: "float | None" = None) -> "tuple[float, float]":
        """Forward FLOP of a unit, and of a unit squared. `keys`: another width of keys and of values."""
        keys = self.keys if keys is None else keys
        layer = 4 * self.width * self.queries + 4 * self.width * keys + (6 if self.gated else 4) * self.width * self.mlp
        # Causal attention touches half of the pairs.
        pairs = (2 if self.vocabulary else 4) * self.queries
        in_windows = self.layers - self.full_layers if self.window else 0
        return (self.layers * layer + in_windows * pairs * self.window + 2 * self.width * self.vocabulary +
                self.stem_flop, (self.layers - in_windows) * pairs)

    @property
    def gated(self) -> bool:
        return self.vocabulary > 0 or self.gated_encoder

    def released_keys(self) -> float:
        """Width of keys that DFLOP's release counts: as many heads as queries share one key, not as many as keys."""
        return self.queries / self.heads * (self.heads / self.key_heads)

    def architecture(self) -> "dict[str, typing.Any]":
        # The width of keys stands for padded heads, too: parameters are exact with it.
        keys = self.keys if self.queries == self.width else 2 * self.queries - self.width
        return {"name": self.name, "layers": self.layers, "width": self.width, "heads": self.heads,
                "key_value_width": keys, "mlp": self.mlp, "gated": self.gated,
                "embedding_parameters": 2 * self.vocabulary * self.width + self.stem_parameters,
                "head_flop_per_unit": 2 * self.vocabulary * self.width}

    def profile(self, released: bool = False) -> "dict[str, typing.Any]":
        unit, pair = self.flop(self.released_keys() if released else None)
        rate = PEAK_FLOP * EFFICIENCY
        return {"per_microbatch": self.layers * LAUNCHES_PER_LAYER_S, "per_sequence": 0,
                "per_unit": PASSES * unit / rate, "per_unit_squared": PASSES * pair / rate,
                "architecture": self.architecture()}


def patch_stem(patches: int, width: int) -> "dict[str, int]":
    return {"stem_parameters": (14 * 14 * 3 + patches) * width, "stem_flop": 2 * 14 * 14 * 3 * width}


SIGLIP = Transformer("SigLIP-so400m", 27, 1152, 16, 16, 4304, **patch_stem(729, 1152))
# Megatron-LM adds seven heads of zeros to the 25, so that tensor degrees divide them.
INTERNVIT = Transformer("InternViT-6B", 45, 3200, 32, 32, 12800, attention_width=4096, **patch_stem(1025, 3200))
# Two convolutions of width 3 over 128 mel bins; a unit is two frames.
WHISPER = Transformer("Whisper large-v3 encoder", 32, 1280, 20, 20, 5120,
                      stem_parameters=(3 * 128 + 3 * 1280 + 1500) * 1280,
                      stem_flop=2 * 2 * 3 * 128 * 1280 + 2 * 3 * 1280 * 1280)
# Two frames of 14 x 14 pixels in a patch; four patches in a vector, by two matrices.
QWEN2_5_VIT = Transformer("ViT of Qwen2.5-VL", 32, 1280, 16, 16, 3420, gated_encoder=True, window=64, full_layers=4,
                          stem_parameters=2 * 14 * 14 * 3 * 1280 + 5120 * (5120 + 3584),
                          stem_flop=2 * 2 * 14 * 14 * 3 * 1280 + 2 * 5120 * (5120 + 3584) // 4)
LLMS = {"Qwen2.5-7B": Transformer("Qwen2.5-7B", 28, 3584, 28, 4, 18944, 152064),
        "Qwen2.5-32B": Transformer("Qwen2.5-32B", 64, 5120, 40, 8, 27648, 152064),
        "Qwen2.5-72B": Transformer("Qwen2.5-72B", 80, 8192, 64, 8, 29568, 152064),
        "Llama-3-8B": Transformer("Llama-3-8B", 32, 4096, 32, 8, 14336, 128256),
        "Llama-3-70B": Transformer("Llama-3-70B", 80, 8192, 64, 8, 28672, 128256),
        "Qwen2-Audio": Transformer("Qwen2-7B of Qwen2-Audio", 32, 4096, 32, 32, 11008, 156032)}
NOTHING = {"per_microbatch": 0, "per_sequence": 0, "per_unit": 0, "per_unit_squared": 0}


def model_profile(encoder: Transformer, llm: Transformer, released: bool = False) -> "dict[str, typing.Any]":
    """A model profile. `released`: FLOP of keys and values as DFLOP's release counts them."""
    own = "audio" if encoder is WHISPER else "vision"
    modules = {"vision": dict(NOTHING), "audio": dict(NOTHING), "llm": llm.profile(released)}
    modules[own] = encoder.profile()
    return {"version": 1, "unit": "seconds", "source": f"FLOP at {EFFICIENCY:.0%} of {PEAK_FLOP / 1e12:.0f} TFLOP/s",
            "hardware": "A100 by FLOP", "dtype": "bfloat16", "modules": modules}
