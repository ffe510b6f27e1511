"""isocost.DataLoader: a node in this process with two decoding threads."""

import isocost
from contenders.settings import SETTINGS

SET = SETTINGS["isocost_loader"]
OUTPUT = {"square": "pixel_values", "qwen2_vl": "pixel_values", "qwen3_5": "pixel_values",
          "frames": "pixel_values_videos", "log_mel": "input_features", "native": "vision_patches"}


def batches(work, data, variant, ordered):
    options = {"model": data.model} if data.model else {}
    if work.output == "log_mel":
        options["loss"] = "token_loss"  # Whisper's own loss is no share of a global batch's
    node = isocost.NodeOptions(balance=SET["balance"], index_dir=data.index_dir,
                               **({"exactness": variant} if data.model else {}))
    with isocost.DataLoader(data.source, global_batch_size=work.batch, microbatches=1, shuffle=False, epochs=1,
                            workers=SET["workers"], prefetch=SET["prefetch"], node=node, **options) as loader:
        for microbatch in loader:
            if work.output == "mixture":
                yield {name: microbatch[name] for name in ("vision_patches", "audio_mel", "input_ids")
                       if name in microbatch}
            else:
                yield microbatch[OUTPUT[work.output]]
