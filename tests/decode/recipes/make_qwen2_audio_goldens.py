#!/usr/bin/env python3
"""Prints the cases of qwen2_audio_test.cc with what transformers' processor makes of them.

    pip install numpy tokenizers transformers
    python3 make_qwen2_audio_goldens.py > qwen2_audio_goldens.txt

A line: number, rate, channels, frames and mel bins of a sound (test_sound.py); its tokens and the frames of its mask;
and if its rate is 16 kHz, the mean of its features and those of some frames and bins: of bin (7 number + 13 n) % bins
in the n-th of these frames: 0, 1, the middle of the mask, its last one and the three after it, and the last of all.
With torch the extractor would compute in float32: values far below a loud tone would be off by up to 4e-4.
The processor takes sounds of 16 kHz and one channel: channels come as their mean, and of sounds of other rates only
the length in samples matters, that after they are resampled.
"""

import logging

import numpy
import transformers
from test_sound import cases, test_sound
from tokenizers import Tokenizer, models, pre_tokenizers

RATE = 16000
PLACEHOLDER = "<|AUDIO|>"


def make_processor(bins):
    vocabulary = {PLACEHOLDER: 0, "<|audio_bos|>": 1, "<|audio_eos|>": 2, "?": 3}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(list(vocabulary)[:3])
    return transformers.Qwen2AudioProcessor(transformers.WhisperFeatureExtractor(feature_size=bins),
                                            transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer))


def mono(sound):
    """float32 [frames]: the mean over channels, summed one after another."""
    total = numpy.zeros(len(sound), dtype=numpy.float32)
    for channel in sound.T:
        total += channel.astype(numpy.float32) / numpy.float32(32768)
    return total * (numpy.float32(1) / numpy.float32(sound.shape[1]))


def resampled_length(frames, rate):
    return (frames * RATE + rate // 2) // rate


def show(processor, number, rate, channels, frames, bins):
    exact = rate == RATE
    sound = mono(test_sound(number, channels, frames)) if exact else numpy.zeros(resampled_length(frames, rate))
    made = processor(text=f"<|audio_bos|>{PLACEHOLDER}<|audio_eos|>", audio=[sound.astype(numpy.float32)],
                     sampling_rate=RATE)
    (mask,) = numpy.asarray(made["feature_attention_mask"])
    (ids,) = made["input_ids"]
    (features,) = numpy.asarray(made["input_features"], dtype=numpy.float64)
    own = int(mask.sum())
    assert (mask[:own] == 1).all() and features.shape == (bins, 3000)
    values = []
    if exact:
        at = [0, 1, own // 2, own - 1, own, own + 1, own + 2, 2999]
        values = [features.mean()] + [features[(7 * number + 13 * n) % bins, min(frame, 2999)]
                                      for n, frame in enumerate(at)]
    print(number, rate, channels, frames, bins, list(ids).count(0), own, *(f"{value:.6f}" for value in values))


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    processors = {bins: make_processor(bins) for bins in (80, 128)}
    for case in cases():
        show(processors[case[-1]], *case)
