"""The state of a loader in the Trainer's checkpoints, and weights that the Trainer does not find in them."""

import json
import logging
import os
import pathlib
from typing import Any, Dict, NamedTuple, Optional, Set

import safetensors
import torch
import transformers
from transformers.trainer_utils import get_last_checkpoint
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

_LOG = logging.getLogger("isocost")
STATE_FILE, _TRAINER_FILE = "isocost.json", "trainer_state.json"


def last_checkpoint(output_dir: str) -> Optional[str]:
    """Returns the path of the last checkpoint in a Trainer's output directory that was saved to its end; if there is
    none, that of the last one (`train` then says what it lacks); None if there are no checkpoints."""
    folders = [folder for folder in pathlib.Path(output_dir).glob("checkpoint-*") if folder.name[11:].isdigit()]
    whole = [folder for folder in folders if (folder / _TRAINER_FILE).exists() and (folder / STATE_FILE).exists()]
    if whole:
        return str(max(whole, key=lambda folder: int(folder.name[11:])))
    last: Optional[str] = get_last_checkpoint(output_dir) if folders else None
    return last


def mark_as_begun(checkpoint: pathlib.Path) -> None:
    """Marks a checkpoint as incomplete before it is overwritten, until the Trainer writes its last file."""
    (checkpoint / _TRAINER_FILE).unlink(missing_ok=True)


class Saved(NamedTuple):
    """The content of a checkpoint beside the Trainer's own files.

    Attributes:
        loader: the loader's state.
        num_tokens: tokens that trl's trainer had counted; 0 for others.
    """

    loader: Dict[str, Any]
    num_tokens: int


def saved_state(checkpoint: pathlib.Path) -> Saved:
    """Returns what a checkpoint holds of a loader. Raises ValueError if there is none, or it is of another step."""
    file = checkpoint / STATE_FILE
    try:
        saved = json.loads(file.read_text(encoding="utf-8"))
        state = Saved(saved["loader"], int(saved.get("num_tokens", 0)))
        step = saved["global_step"]
        trained = json.loads((checkpoint / _TRAINER_FILE).read_text(encoding="utf-8"))["global_step"]
    except FileNotFoundError as error:
        raise ValueError(f"resume_from_checkpoint: {checkpoint} has no {os.path.basename(error.filename)}: it was "
                         "not saved by isocost.integrations.transformers, or a run ended while it saved it: give an "
                         "earlier one, or delete it, so that True takes the last whole one or begins anew") from None
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"resume_from_checkpoint: {file} is damaged: {error}") from None
    if step != trained:
        raise ValueError(f"resume_from_checkpoint: {checkpoint} is of step {trained}, and its {file.name} of step "
                         f"{step}: files of two checkpoints are mixed there")
    return state


def load_renamed_weights(model: Any, checkpoint: pathlib.Path) -> None:
    """Loads a checkpoint's weights where `save_pretrained` has written them by other names than the model's own, as
    transformers 5 does for the vision-language models of Qwen. The Trainer passes over them."""
    names = _saved_names(checkpoint)
    if not isinstance(model, transformers.PreTrainedModel) or names <= set(model.state_dict()):
        return
    sharding = getattr(model.config, "distributed_config", None)
    options = {} if sharding is None else {"distributed_config": sharding}
    # A single dtype would round the weights of the others.
    dtypes = {parameter.dtype for parameter in model.parameters()}
    loaded = type(model).from_pretrained(checkpoint, dtype=dtypes.pop() if len(dtypes) == 1 else torch.float32,
                                         **options)
    model.load_state_dict(loaded.state_dict())
    _LOG.info("%s has weights by other names than the model's, which the Trainer calls missing: they are loaded now",
              checkpoint)


def _saved_names(checkpoint: pathlib.Path) -> Set[str]:
    """Returns the names of the weights in a checkpoint of one or several files; empty if it has only adapters."""
    index, file = checkpoint / SAFE_WEIGHTS_INDEX_NAME, checkpoint / SAFE_WEIGHTS_NAME
    if index.exists():
        return set(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
    if not file.exists():
        return set()
    with safetensors.safe_open(file, "pt") as saved:
        return set(saved.keys())
