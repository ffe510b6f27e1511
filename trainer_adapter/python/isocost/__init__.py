"""Isocost: a data loader that hands every rank microbatches of equal cost.

    >>> import isocost
    >>> loader = isocost.DataLoader("shards/", global_batch_size=64, microbatches=4)
    >>> for microbatch in loader:
    ...     loss = isocost.token_loss(model(**microbatch.tensors), microbatch)
    ...     with loader.timed(microbatch):
    ...         loss.backward()
    ...     if microbatch.last_of_step:
    ...         optimizer.step()
    ...         optimizer.zero_grad()

`help(isocost.DataLoader)` tells the rest.
"""

from isocost.errors import ClosedError, IsocostError, NodeUnavailableError, ProtocolError, ShardError
from isocost.keywords import KeywordNote
from isocost.layout import Layout, Place
from isocost.loader import DataLoader
from isocost.loss import pipeline_loss, token_loss
from isocost.microbatch import Microbatch, Route
from isocost.pipelines import stage_iterators
from isocost.profile import profile_model
from isocost.profiled_module import Architecture, Cut, ProfiledModule
from isocost.schedules import ScheduleStep, packed_stage, schedule_steps
from isocost.timing import attach
from isocost.transform import Sample

__all__ = ["Architecture", "ClosedError", "Cut", "DataLoader", "IsocostError", "KeywordNote", "Layout",
           "Microbatch", "NodeUnavailableError", "Place", "ProfiledModule", "ProtocolError", "Route", "Sample",
           "ScheduleStep", "ShardError", "attach", "packed_stage", "pipeline_loss", "profile_model",
           "schedule_steps", "stage_iterators", "token_loss"]
