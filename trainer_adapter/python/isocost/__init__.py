"""Isocost: a data loader that hands every rank microbatches of equal cost.

    >>> import isocost
    >>> loader = isocost.DataLoader("data/shards", global_batch_size=64, microbatches=4)
    >>> for microbatch in loader:
    ...     with loader.timed(microbatch):  # measured seconds correct the cost model
    ...         loss = isocost.token_loss(model(**microbatch), microbatch)
    ...         loss.backward()  # with DistributedDataParallel: (loss * world_size).backward()
    ...     if microbatch.last_of_step:
    ...         optimizer.step()
    ...         optimizer.zero_grad()

`help(isocost.DataLoader)` describes all of it.
"""

from typing import List

from isocost.base.missing_library import explained

try:
    from isocost import _isocost
except ImportError as error:
    raise explained(error) from None

from isocost.dataset import Dataset
from isocost.errors import ClosedError, IsocostError, NodeUnavailableError, ProtocolError, ShardError
from isocost.evaluation import Evaluation, evaluate
from isocost.layout import Layout, Place
from isocost.loader import DataLoader
from isocost.microbatches.context_parallel import ContextPart, context_part
from isocost.microbatches.loss import pipeline_loss, token_loss
from isocost.microbatches.microbatch import Microbatch, Route
from isocost.microbatches.model_inputs import Padded
from isocost.microbatches.source_losses import SourceLosses, losses_by_source
from isocost.microbatches.transform import Part, Sample
from isocost.optimizer_steps import steps
from isocost.options.keywords import KeywordNote
from isocost.options.node_options import NodeOptions, RecipeOptions
from isocost.profiling.descriptions import Architecture, Cut, ProfiledModule
from isocost.profiling.profile_layers import ProfiledLayers, profile_layers
from isocost.profiling.profile_model import profile_model
from isocost.schedules import ScheduleStep, packed_stage, schedule_steps, stage_iterators

__version__ = _isocost.version

__all__ = ["Architecture", "ClosedError", "ContextPart", "Cut", "DataLoader", "Dataset", "Evaluation", "IsocostError",
           "KeywordNote", "Layout", "Microbatch", "NodeOptions", "NodeUnavailableError", "Padded", "Part", "Place",
           "ProfiledLayers", "ProfiledModule", "ProtocolError", "RecipeOptions", "Route", "Sample", "ScheduleStep",
           "ShardError", "SourceLosses", "context_part", "evaluate", "losses_by_source", "packed_stage",
           "pipeline_loss", "profile_layers", "profile_model", "schedule_steps", "stage_iterators", "steps",
           "token_loss"]


def __dir__() -> List[str]:
    return sorted([*__all__, "__version__"])
