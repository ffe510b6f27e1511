"""The names of a microbatch's tensors, as keyword arguments of a model, and the label that does not count. They come
from base/tensor_schema.h."""

from isocost import _isocost

_TABLE = _isocost.tensor_table()
_NAMES = {(module, role): name for module, role, name, _of_recipe in _TABLE}

# Tensors of the LLM.
INPUT_IDS = _NAMES["llm", "ids"]
LABELS = _NAMES["llm", "labels"]
POSITION_IDS = _NAMES["llm", "positions"]
ROPE_POSITIONS = _NAMES["llm", "rope"]
LOSS_WEIGHTS = _NAMES["llm", "loss_weights"]
LENGTHS = _NAMES["llm", "lengths"]
CU_SEQLENS = _NAMES["llm", "cu_seqlens"]

IGNORED_LABEL = _isocost.ignored_label

# Names of lengths by module.
MODULE_LENGTHS = {module: name for (module, role), name in _NAMES.items() if role == "lengths"}
MODULE_CU_SEQLENS = {module: name for (module, role), name in _NAMES.items() if role == "cu_seqlens"}

# Tensors that the recipe makes, which have rows of each sample; the others follow from weights and lengths.
RECIPE = frozenset(name for _module, _role, name, of_recipe in _TABLE if of_recipe)
DERIVED = frozenset(_NAMES.values()) - RECIPE
