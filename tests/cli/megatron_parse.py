"""Reads flags with Megatron-LM's own parser, and checks them with its own rules: megatron_parse.py FLAGS... Prints what
it understood, as JSON. A job of megatron_flags_test.py, for a Python that has megatron-core."""

import json
import os

from megatron.training import arguments

# Megatron asks the GPU for its generation, to warn of a slow setting; there is none here.
arguments.get_device_arch_version = lambda: 9


def add_multimodal_flags(parser):
    """Adds the flags that examples/multimodal/multimodal_args.py adds, which is not part of the package."""
    for name in ("--freeze-ViT", "--freeze-LM", "--recompute-vision"):
        parser.add_argument(name, action="store_true")
    return parser


def main():
    read = arguments.parse_args(add_multimodal_flags)
    arguments.validate_args(read)
    config = arguments.core_transformer_config_from_args(read)  # has rules about the layers of stages
    print(json.dumps({
        "ranks": int(os.environ["WORLD_SIZE"]), "tensor": config.tensor_model_parallel_size,
        "pipeline": config.pipeline_model_parallel_size, "data": read.data_parallel_size,
        "microbatches": read.global_batch_size // (read.micro_batch_size * read.data_parallel_size),
        "first": config.num_layers_in_first_pipeline_stage, "last": config.num_layers_in_last_pipeline_stage,
        "recompute": config.recompute_granularity, "modules": config.recompute_modules,
        "recompute_vision": read.recompute_vision, "freeze": [read.freeze_ViT, read.freeze_LM],
        "sharded_optimizer": read.use_distributed_optimizer}))


main()
