"""Settings of an embedded node: isocost.NodeOptions and isocost.RecipeOptions.

Generated from the node's option table by trainer_adapter/python/generate/node_options.py. Do not edit.
"""

import dataclasses
import os
from typing import Literal, Sequence, Union

from isocost.options.given_fields import remember_given

Path = Union[str, os.PathLike[str]]


@remember_given
@dataclasses.dataclass(frozen=True)
class RecipeOptions:
    """How a loader node turns media into tensors.

    Attributes:
        name: How media are prepared without a model's directory; native28 is the only such recipe.
        max_image_patches: Images with more 14-pixel patches are scaled down.
        max_frame_patches: Video frames with more 14-pixel patches are scaled down.
        video_fps: Frames sampled per second of video.
        max_video_frames: Frames sampled per video, at most.
        max_audio_seconds: Seconds of audio per part; the rest is cut off.
        max_text_tokens: Tokens of text per part; the rest is cut off.
    """

    name: str = "native28"
    max_image_patches: int = 4096
    max_frame_patches: int = 1024
    video_fps: float = 1.0
    max_video_frames: int = 32
    max_audio_seconds: float = 120.0
    max_text_tokens: int = 8192


@remember_given
@dataclasses.dataclass(frozen=True)
class NodeOptions:
    """Settings of a loader node that runs inside this process. Sizes are bytes or text such as "512MiB". A value that
    cannot be is refused with ValueError when the loader is made.

    Attributes:
        recipe: How media become tensors; a name stands for RecipeOptions(name).
        max_tokens: Limit of LLM tokens per microbatch, with balance = cost; 0: no limit. A longer sample is bad.
        max_vision_tokens: Limit of patches per microbatch, which are the tokens of the vision encoder, with balance =
            cost; 0: no limit. A sample with more is bad.
        max_memory: Limit of predicted memory per microbatch, activations by the model profile and tensors, with balance
            = cost; 0: no limit. A sample that needs more is bad.
        on_long: A single sample that exceeds a limit of a microbatch is a bad sample, or loses whole turns from its
            end, with their media, until it fits; truncate needs model and max_tokens.
        dummy_media: With model: a microbatch without pictures, videos or sounds, which the same microbatch of another
            rank has, gets one small dummy without labels (needed), or each microbatch does (always), so that every rank
            runs the encoder: sharded parameters and summed gradients wait for it. Without effect on a layout with
            stages.
        balance: in-order deals samples as they are drawn; tokens equalises LLM tokens (LPT); cost equalises predicted
            cost.
        lookahead: Global batches composed together, with balance = cost and given ranks; 1 keeps each as it was drawn.
        steps: An epoch ends after this many steps; 0 takes all samples.
        skip_steps: Steps to leave out of each epoch, as in 1200-1210,1300; the others keep their samples.
        shuffle_shards: With shuffle = blocks: shards whose samples are permuted together; all of them if there are
            fewer.
        tail: Samples left at the end of an epoch: delivered as a smaller step, dropped, or moved to the next epoch.
        profile: Model profile to start from; empty: the built-in one, estimated from the FLOP of SigLIP-so400m, Whisper
            large-v3 and Qwen2.5-7B.
        padded: Modules that the trainer pads to the longest sequence of a microbatch (for example llm or vision,llm).
            Plans count padding, and with llm group samples of like length; data is delivered packed.
        padded_multiple: With padded = llm: the trainer pads sequences of the LLM to a multiple of this length. Plans
            and limits count that, too.
        correct: Correct the cost model from measured seconds.
        reprofile_budget: Part of the training so far that measuring again may take, above 0 and at most 1.
        correction_file: Keeps the state of the cost model for the node's next run; empty: not kept.
        model: A model's directory, as transformers' from_pretrained takes it: its files say how media are prepared, and
            isocost tokenize has made tokens of the text. Empty: the recipe.
        resize_order: Which side of a model's pictures is resized first: width, as torchvision and Pillow before 13 do,
            or as Pillow 13 does, which often begins with the height.
        exactness: How near a model's pictures are to those of its own processor: equal, or about equal, where JPEGs are
            scaled down while they are decoded.
        alpha: What becomes of the transparency of a model's pictures: they are composed on white, or it is ignored.
        truncated: What becomes of a picture whose file is cut off: its sample is bad, or what is missing is grey in a
            JPEG and zero elsewhere, as with Pillow's LOAD_TRUNCATED_IMAGES.
        on_bad_sample: A bad sample is left out, replaced by another one, or ends training.
        max_bad_samples: Bad samples beyond which training ends: a number, or a percentage of the samples looked at,
            which counts from ten bad samples on.
        bad_samples_file: JSON lines: shard, key, part and reason of each bad sample.
        allow_broken_shards: Shards that may be damaged or lost: a number, or a percentage of all shards. With more,
            nothing starts; otherwise what can be read of them is used.
        accept_unread_archives: Pass over archives that are not read without a warning: those of other formats and
            directories of shards beside the shards, and what stands behind their ends.
        max_decoded_pixels: Images and frames with more pixels are refused as bad samples. The index keeps the choice,
            so give all commands the same. The size to which a model's pictures are scaled is image_size.
        memory: Budget for decoding, decoded samples and blocks of shared memory.
        microbatch_memory: Limit of tensor bytes per microbatch, with balance = cost; 0: no limit. A sample with more is
            bad.
        workers: Decoding threads or processes; 0: one per core.
        io_timeout: Seconds that reads of shards may fail, with delivery paused, before the job ends.
        decode_timeout: Seconds of CPU time that decoding one sample may take; one that takes longer is bad.
        isolate: Decode in worker processes, so that a decoder that crashes or hangs costs one sample; isocost serve
            does unless told otherwise.
        decode_program: The isocost program that decode workers run; empty: the running one.
        index_dir: Where shard indexes are kept; empty: .isocost beside the shards.
        ca_file: Certificates of the authorities that servers of HTTPS are checked against; empty: the file of
            SSL_CERT_FILE or AWS_CA_BUNDLE, else the system's.
        cache: Directory on a local disk where bytes of shards on servers are kept for the next epoch and for other
            processes; empty: none.
        cache_size: What cache may take on the disk, for all processes together.
        ignore_parts: Extensions of parts that are left out of samples, as in avif,heic. The index keeps the choice, so
            give all commands the same.
        weight_key: Member of a sample's JSON that scales its loss; empty: none does. The index keeps the choice, so
            give all commands the same.
        media_root: Directory where the relative paths of media in a file of records start; empty: the file's own. Give
            all commands the same.
        number_keys: Call the samples of a file of records by their line or array element instead of by their id, which
            may then be repeated. Give all commands the same.
        text: Where a sample's text stands in a shard, as in json[caption],txt; empty: its text parts, or the text of
            its JSON. The index keeps the choice, so give all commands the same.
        format: How a directory is read: webdataset, energon, mds or records; empty: its files say. Give all commands
            the same.
        split: The split of a data set that has splits; empty: train of Energon. Give all commands the same.
        plan_ahead: Steps decoded and planned ahead of training.
        io_threads: Threads of ZeroMQ, 1 to 64, each of which moves the bytes of some of the trainers. Raise it if
            trainers on other hosts together need more than one thread moves: 1.7 GB/s on the machine where it was
            measured, or 0.7 with CURVE keys.
        shared_memory: Trainers of this user on this host receive microbatches in shared memory, without a copy of their
            own. It counts in memory until they drop the tensors; where there is none left, microbatches go over the
            socket.
        stall_timeout: Seconds without a microbatch acknowledged or, while none is due, a step planned or sent, after
            which logs, metrics and /healthz say what is in the way; 0: never.
        metrics: Address of the HTTP endpoint for metrics: PORT (of 127.0.0.1), ADDRESS:PORT or [IPV6]:PORT; empty: no
            endpoint.
    """

    recipe: Union[str, RecipeOptions] = RecipeOptions()
    max_tokens: int = 0
    max_vision_tokens: int = 0
    max_memory: Union[int, str] = 0
    on_long: Literal["bad", "truncate"] = "bad"
    dummy_media: Literal["off", "needed", "always"] = "needed"
    balance: Literal["in-order", "tokens", "cost"] = "cost"
    lookahead: int = 1
    steps: int = 0
    skip_steps: Sequence[str] = ()
    shuffle_shards: int = 16
    tail: Literal["deliver", "drop", "carry"] = "deliver"
    profile: Path = ""
    padded: Sequence[str] = ()
    padded_multiple: int = 1
    correct: bool = True
    reprofile_budget: float = 0.005
    correction_file: Path = ""
    model: Path = ""
    resize_order: Literal["width-first", "pillow-13"] = "width-first"
    exactness: Literal["exact", "fast"] = "exact"
    alpha: Literal["white", "drop"] = "white"
    truncated: Literal["bad", "accept"] = "bad"
    on_bad_sample: Literal["skip", "replace", "fail"] = "skip"
    max_bad_samples: Union[int, str] = "1%"
    bad_samples_file: Path = ""
    allow_broken_shards: Union[int, str] = 0
    accept_unread_archives: bool = False
    max_decoded_pixels: int = 178956970
    memory: Union[int, str] = "2GiB"
    microbatch_memory: Union[int, str] = 0
    workers: int = 0
    io_timeout: float = 120.0
    decode_timeout: float = 60.0
    isolate: bool = False
    decode_program: Path = ""
    index_dir: Path = ""
    ca_file: Path = ""
    cache: Path = ""
    cache_size: Union[int, str] = "100GiB"
    ignore_parts: Sequence[str] = ()
    weight_key: str = "weight"
    media_root: Path = ""
    number_keys: bool = False
    text: str = ""
    format: str = ""
    split: str = ""
    plan_ahead: int = 2
    io_threads: int = 1
    shared_memory: bool = True
    stall_timeout: float = 1800.0
    metrics: str = ""
