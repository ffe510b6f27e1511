"""Prints how many cases the goldens of models and videos hold; docs/models/exactness.md has these numbers."""

import pathlib

HERE = pathlib.Path(__file__).resolve().parent
NO_PIXELS = "0" * 16


def cases(name):
    lines = (HERE / f"{name}_goldens.txt").read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if not line.startswith("#")]


def main():
    for name in ("qwen2_vl", "internvl", "llava_onevision"):
        own = cases(f"recipes/{name}")
        sizes = sum(case[-1] == NO_PIXELS for case in own)
        print(f"{name}: {sizes} sizes, {len(own) - sizes} with pixels")
    print(f"llava: {len(cases('recipes/llava'))} pictures")
    sounds = cases("recipes/qwen2_audio")
    features = sum(len(case) == len(sounds[0]) for case in sounds)
    print(f"qwen2_audio: {features} sounds with features, {len(sounds) - features} more")
    frames = cases("recipes/qwen_video")
    counts = (f"{sum(case[0] == kind for case in frames)} {kind}" for kind in ("frames", "grid"))
    print(f"qwen_video: {', '.join(counts)}")
    print(f"videos: {len(cases('video/video'))}")


if __name__ == "__main__":
    main()
