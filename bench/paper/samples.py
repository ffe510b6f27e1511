"""Samples of the paper's data as shapes, and requests for their loads by the models' own recipes."""

import csv
import pathlib
import random
import typing

HERE = pathlib.Path(__file__).resolve().parent
QUALITY = HERE.parent / "quality" / "data"
TILE = 448  # side of the tiles in which documents.csv counts
MOST_FRAMES = 32  # of a video, at one a second, as in the release
# Counts of the paper's data, in thousands, by a second-hand summary.
MIXTURE = {"single": 65, "several": 60, "video": 60}
# The release lists 18 thousand single images, and 2.8 thousand of them are AI2D and InfographicVQA.
DOCUMENTS_SHARE = 0.15
# Images of a sample with several. No source gives their distribution: it is an assumption.
LEAST_IMAGES, MEAN_IMAGES, MOST_IMAGES = 2, 4, 16
# Tiles of a page, without the one of the whole, as columns and rows.
CANVASES = {1: (1, 1), 3: (2, 1), 4: (3, 1), 5: (2, 2)}

Sample = typing.Dict[str, typing.Any]


def read(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def photo(row):
    return {"modality": "image", "width": int(row["width"]), "height": int(row["height"])}


class Source:
    """Draws samples from the traces."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.photos = read(HERE / "data/photos.csv")
        self.clips = read(HERE / "data/clips.csv")
        self.pages = read(QUALITY / "documents.csv")
        self.utterances = read(QUALITY / "speech.csv")

    def page(self) -> Sample:
        """A page of a document, as large as its tiles: the list that counts them has no sizes."""
        row = self.random.choice(self.pages)
        tiles = int(row["encoder_patches"]) // 1024
        columns, rows = CANVASES[tiles]
        return {"tokens": int(row["llm_tokens"]) - 256 * tiles,
                "parts": [{"modality": "image", "width": TILE * columns, "height": TILE * rows}]}

    def single(self) -> Sample:
        if self.random.random() < DOCUMENTS_SHARE:
            return self.page()
        row = self.random.choice(self.photos)
        return {"tokens": int(row["text_tokens"]), "parts": [photo(row)]}

    def several(self) -> Sample:
        images = LEAST_IMAGES
        while images < MOST_IMAGES and self.random.random() < 1 - 1 / (MEAN_IMAGES - LEAST_IMAGES + 1):
            images += 1
        rows = self.random.choices(self.photos, k=images)
        return {"tokens": sum(int(row["text_tokens"]) for row in rows), "parts": [photo(row) for row in rows]}

    def video(self) -> Sample:
        row = self.random.choice(self.clips)
        return {"tokens": int(row["text_tokens"]),
                "parts": [{"modality": "video", "width": 640, "height": 360, "seconds": float(row["seconds"])}]}

    def utterance(self) -> Sample:
        row = self.random.choice(self.utterances)
        positions = int(row["encoder_patches"])
        return {"tokens": int(row["llm_tokens"]) - (positions + 1) // 2,
                "parts": [{"modality": "audio", "seconds": positions / 50}]}

    def draw(self, data: str, count: int) -> "list[Sample]":
        makers = {"single": self.single, "several": self.several, "video": self.video, "speech": self.utterance}
        kinds = [data] * count
        if data == "mixture":
            kinds = self.random.choices(list(MIXTURE), weights=list(MIXTURE.values()), k=count)
        return [makers[kind]() for kind in kinds]


PIXELS: Sample = {"resample": 3, "resize_order": 0, "exactness": 0, "alpha": 0, "truncated": 0,
                  "rescale_factor": 1 / 255, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}


def llava_onevision(sample: Sample) -> Sample:
    """The recipe of LLaVA-OneVision for a sample: a frame a second of a video, at most 32."""
    return {"family": "llava_onevision", "side": 384, "most_tiles": 9, "image_token_id": 1, "video_token_id": 2,
            "canvases": [[384 * a, 384 * b] for a in range(1, 7) for b in range(1, 7)], **PIXELS,
            "videos": {"num_frames": frames(sample), **PIXELS}}


def internvl(sample: Sample) -> Sample:
    """The recipe of InternVL-2.5: at most 12 tiles, which the images of a sample share."""
    pictures = {"width": TILE, "height": TILE}
    return {"family": "internvl", **pictures, "min_tiles": 1, "max_tiles": max(1, 12 // len(sample["parts"])),
            "image_token_id": 1, "begin_token_id": 2, "end_token_id": 3, "video_token_id": 4, **PIXELS,
            "videos": {**pictures, "fps": 0, "num_frames": frames(sample), **PIXELS}}


def qwen2_audio(sample: Sample) -> Sample:
    return {"family": "qwen2_audio", "mel_bins": 128, "audio_token_id": 1}


def frames(sample: Sample) -> int:
    return max(1, min(MOST_FRAMES, int(sample["parts"][0].get("seconds", 1))))


def qwen2_5_vl(_: Sample) -> Sample:
    """The recipe of Qwen2.5-VL's processors: two frames a second."""
    pixels = {key: value for key, value in PIXELS.items() if key not in ("exactness", "alpha", "truncated")}
    return {"family": "qwen2_vl", "patch_size": 14, "image_token_id": 1, "video_token_id": 2, "tokens_per_second": 2,
            "has_timestamps": False, "linear_attention": False,
            "images": {"min_pixels": 3136, "max_pixels": 12845056, **PIXELS},
            "videos": {"min_pixels": 100352, "max_pixels": 602112, "cap_pixels_per_frame": False,
                       "max_video_tokens": 128_000, "fps": 2, "num_frames": 0, "min_frames": 4, "max_frames": 768,
                       **pixels}}


RECIPES = {"llava_onevision": llava_onevision, "internvl": internvl, "qwen2_audio": qwen2_audio,
           "qwen2_5_vl": qwen2_5_vl}


def loads_request(recipe: str, samples: "list[Sample]") -> Sample:
    """The request of `paper_plans loads`: equal recipes are sent once."""
    recipes: "list[Sample]" = []
    described = []
    for sample in samples:
        description = RECIPES[recipe](sample)
        if description not in recipes:
            recipes.append(description)
        described.append({"recipe": recipes.index(description), **sample})
    return {"recipes": recipes, "samples": described}
