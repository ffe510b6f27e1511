"""A model of transformers made of its directory's configuration: its parameters are counted without memory, and its
modules are built with random weights, one at a time."""

import contextlib
import copy
import json
import os
import warnings
from typing import Any, Dict, Iterator, List, NamedTuple

from isocost import _isocost

_LLM = ("language_model", "decoder")  # names of it in models
_HEAD = ("lm_head", "proj_out")
MERGERS = ("merger", "deepstack_merger_list")  # names in Qwen's encoders, which contain their projectors
# Classes of models that transformers' AutoModelForImageTextToText does not know.
_CLASSES = {"qwen2_audio": "Qwen2AudioForConditionalGeneration", "whisper": "WhisperForConditionalGeneration"}


class ModuleAttribute(NamedTuple):
    """Attribute `name` of `parent`: a submodule, or a parameter outside the submodules."""

    parent: Any
    name: str

    def get(self) -> Any:
        return getattr(self.parent, self.name)

    def put(self, module: Any) -> None:
        setattr(self.parent, self.name, module)

    def parameters(self) -> List[Any]:
        found = self.get()
        return list(found.parameters()) if hasattr(found, "parameters") else [found]


class Skeleton:
    """A model on torch's meta device, whose tensors have shapes and no memory.

    Immutable. `build` returns another model, in which one module has memory.

    Args:
        directory: of the model, as transformers' from_pretrained takes it. Its weights are not read.
        attention: of transformers' attention implementations; "" for the model's own.
        image_size: sizes of pictures in place of the directory's, as text.

    Attributes:
        directory: str.
        name: of the directory, for people.
        description: what the recipe makes of the directory's media: its family and numbers.
        config: transformers' configuration.
        model: the model on the meta device.

    Raises: what reading a recipe from a directory raises; ImportError without torch and transformers, or without what
        the attention implementation needs; ValueError for a configuration or an attention that transformers refuses.
    """

    def __init__(self, directory: str, attention: str = "", image_size: str = ""):
        self.description: Dict[str, Any] = json.loads(_isocost.recipe_description(directory, image_size))
        _require()
        import transformers

        self.directory = directory
        self.name = os.path.basename(os.path.abspath(directory))
        self._attention = attention
        with _without_warnings():
            try:
                self.config = transformers.AutoConfig.from_pretrained(directory, local_files_only=True)
            except (OSError, KeyError, TypeError) as error:
                raise ValueError(f"{directory}: transformers {transformers.__version__} cannot read config.json: "
                                 f"{error}") from error
        _count_features_from_the_end(self.config)
        self.model = _empty_model(self.config, attention)
        if not hasattr(self.model, "model"):
            raise ValueError(f"{directory}: transformers {transformers.__version__} builds this model in another way "
                             "than transformers 5: pip install --upgrade transformers")

    def with_layers(self, module: str, layers: int) -> "Skeleton":
        """Returns the same model with only the first layers of a module."""
        fewer = copy.copy(self)
        fewer.config = copy.deepcopy(self.config)
        own = fewer.module_config(module)
        own.update({_layers_key(own, module): layers})
        if getattr(own, "layer_types", None):
            own.layer_types = own.layer_types[:layers]
        if getattr(own, "fullatt_block_indexes", None):
            own.fullatt_block_indexes = [i for i in own.fullatt_block_indexes if i < layers]
        if getattr(own, "deepstack_visual_indexes", None):
            own.deepstack_visual_indexes = [i for i in own.deepstack_visual_indexes if i < layers]
        fewer.model = _empty_model(fewer.config, self._attention)
        return fewer

    @property
    def encoder(self) -> str:
        """The name of the module other than the language model: "vision" or "audio"."""
        return "vision" if hasattr(self.config, "vision_config") else "audio"

    @property
    def text_config(self) -> Any:
        """The configuration of the language model; of a model without separate parts, its own."""
        return getattr(self.config, "text_config", self.config)

    def module_config(self, module: str) -> Any:
        return self.text_config if module == "llm" else getattr(self.config, f"{module}_config", self.config)

    def layers(self, module: str) -> Any:
        """Returns the torch.nn.ModuleList of the module's layers."""
        return layer_list(self.model, module).get()

    def parameters(self, module: str) -> int:
        """Returns the number of the module's parameters; those that two of its submodules share count once."""
        return sum(each.numel() for each in unique_parameters(self.model, module))

    def attention(self, module: str) -> str:
        """Returns the name of the module's attention implementation."""
        return attention_of(module_attributes(self.model, module)[0].get())

    def period(self, module: str) -> int:
        """Returns the number of first layers that have kinds of layers in the same proportion as all layers: with
        windows, with linear attention, with experts."""
        config = self.module_config(module)
        full = getattr(config, "fullatt_block_indexes", None) or ()
        types = getattr(config, "layer_types", None) or ()
        kinds = [(i in full, types[i:i + 1], sum(each.numel() for each in layer.parameters()))
                 for i, layer in enumerate(self.layers(module))]
        count = len(kinds)
        return next(period for period in range(1, count + 1)
                    if count % period == 0 and kinds == kinds[:period] * (count // period))

    def build(self, module: str, device: Any, dtype: Any, frozen: bool = False) -> Any:
        """Returns the whole model, in which one module has memory and random weights on the device: `vision` has all
        that makes vectors of pixels, `audio` of sounds, `llm` the language model and its output head. The others stay
        on the meta device. Blocks while weights are initialised."""
        import torch

        model = _empty_model(self.config, self._attention, dtype)
        tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
        with torch.device(device):
            for attribute in module_attributes(model, module):
                attribute.put(self._real(attribute, dtype))
                if frozen:
                    attribute.get().requires_grad_(False)
        if module == "llm" and tied:
            model.get_output_embeddings().weight = model.get_input_embeddings().weight
        return model.train()

    def _real(self, attribute: ModuleAttribute, dtype: Any) -> Any:
        import torch
        import transformers

        empty = attribute.get()
        with _without_warnings():
            if isinstance(empty, transformers.PreTrainedModel):
                return type(empty)._from_config(  # noqa: SLF001 (as models build their submodels)
                    copy.deepcopy(empty.config), attn_implementation=attention_of(empty), dtype=dtype)
            if isinstance(empty, torch.nn.Parameter):
                return torch.nn.Parameter(torch.randn(empty.shape, dtype=dtype) / empty.shape[-1]**0.5)
            if isinstance(empty, torch.nn.Linear):
                return torch.nn.Linear(empty.in_features, empty.out_features, empty.bias is not None, dtype=dtype)
            return type(empty)(self.config).to(dtype)  # The projector between encoder and language model.


def _empty_model(config: Any, attention: str, dtype: Any = None) -> Any:
    import torch
    import transformers

    given = {"dtype": dtype} if dtype is not None else {}
    if attention:
        given["attn_implementation"] = attention
    with torch.device("meta"), _without_warnings():
        if config.model_type in _CLASSES:
            return getattr(transformers, _CLASSES[config.model_type])._from_config(  # noqa: SLF001 (as above)
                copy.deepcopy(config), **given)
        return transformers.AutoModelForImageTextToText.from_config(copy.deepcopy(config), **given)


def module_attributes(model: Any, module: str) -> List[ModuleAttribute]:
    """Returns the submodules of a model that make up a module, and the parameters outside them."""
    inner = model.model
    children = [name for name, _child in inner.named_children()]
    if module == "llm":
        head = next(name for name in _HEAD if hasattr(model, name))
        return [ModuleAttribute(inner, name) for name in children if name in _LLM] + [ModuleAttribute(model, head)]
    beside = [name for name, _own in inner.named_parameters(recurse=False)]
    return [ModuleAttribute(inner, name) for name in [*children, *beside] if name not in _LLM]


def attention_of(model: Any) -> str:
    """Returns the name of a model's attention implementation."""
    return str(model.config._attn_implementation)  # noqa: SLF001 (transformers documents it)


def layer_list(model: Any, module: str) -> ModuleAttribute:
    """Returns the longest list of layers in a module, projectors aside."""
    import torch

    found = [ModuleAttribute(parent, name) for attribute in module_attributes(model, module)
             if isinstance(attribute.get(), torch.nn.Module)
             for parent in attribute.get().modules() for name, child in parent.named_children()
             if isinstance(child, torch.nn.ModuleList) and name not in MERGERS]
    return max(found, key=lambda attribute: len(attribute.get()))


@contextlib.contextmanager
def first_layers(model: Any, module: str, layers: int) -> Iterator[None]:
    """Makes the model run with only the first layers of a module, within the block."""
    attribute = layer_list(model, module)
    config = module_attributes(model, module)[0].get().config
    whole = attribute.get()
    attribute.put(whole[:layers])
    config.update({_layers_key(config, module): layers})
    try:
        yield
    finally:
        attribute.put(whole)
        config.update({_layers_key(config, module): len(whole)})


def _layers_key(config: Any, module: str) -> str:
    own = "decoder_layers" if module == "llm" else "encoder_layers"
    return next((key for key in ("depth", own) if hasattr(config, key)), "num_hidden_layers")


def unique_parameters(model: Any, module: str) -> List[Any]:
    """Returns the parameters of a module, each once."""
    found = {id(each): each for attribute in module_attributes(model, module) for each in attribute.parameters()}
    return list(found.values())


def _count_features_from_the_end(config: Any) -> None:
    """Makes the number of the layer whose vectors the language model sees negative, so that it holds with fewer layers,
    too."""
    feature: Any = getattr(config, "vision_feature_layer", None)
    if feature is None:
        return
    outputs = config.vision_config.num_hidden_layers + 1

    def from_the_end(layer: int) -> int:
        return layer - outputs if layer >= 0 else layer

    config.vision_feature_layer = (from_the_end(feature) if isinstance(feature, int)
                                   else [from_the_end(layer) for layer in feature])


def _require() -> None:
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise ImportError(f"models are built with torch and transformers ({error}): "
                          "pip install torch transformers") from None


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Silences the advice that libraries give on models for real use."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(before)
