#!/usr/bin/env python3
"""Makes small model directories, as save_pretrained would write them: configuration, processors' settings, tokenizer
and chat template, and with torch and transformers a tiny model with random weights. Needs the package tokenizers.

The vocabulary is a byte-level BPE of this repository's documentation, or Qwen's own of 151,643 entries where the
package dashscope is installed, which ships it.
"""

import argparse
import base64
import functools
import importlib.util
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[2]
SMALL_VOCABULARY = 1500

# Qwen's special tokens, in the order of their ids.
QWEN_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>",
               "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>",
               "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"]
QWEN3_5_TOKENS = [*QWEN_TOKENS, "<think>", "</think>"]
LLAVA_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>"]
ONEVISION_TOKENS = [*LLAVA_TOKENS, "<video>"]
QWEN_AUDIO_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|audio_bos|>", "<|AUDIO|>", "<|audio_eos|>"]
INTERNVL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<IMG_CONTEXT>", "<img>", "</img>", "<video>"]
# Languages in the order of their ids.
WHISPER_TOKENS = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|zh|>", "<|de|>", "<|translate|>",
                  "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
LLAMA_TOKENS = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]

# How most of them cut text into words; tokenizer.json of these models has it. Qwen3.5 keeps a letter and its marks
# together.
WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
WORDS_WITH_MARKS = WORDS.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}", r"[^\s\p{L}\p{M}")

_QWEN_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
_QWEN_VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"

_CHATML_CONTENT = """\
{%- macro write(content) -%}
  {%- if content is string -%}
    {{- content -}}
  {%- else -%}
    {%- for part in content -%}
      {%- if part.type == 'image' -%}{{- 'IMAGE' -}}
      {%- elif part.type == 'video' -%}{{- 'VIDEO' -}}
      {%- else -%}{{- part.text -}}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro -%}
"""

_CHATML_TOOLS = """\
{%- if tools %}
  {{- '<|im_start|>system\\n' }}
  {%- if messages[0].role == 'system' %}{{- write(messages[0].content) + '\\n\\n' }}{%- endif %}
  {{- '# Tools\\n\\n<tools>' }}
  {%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
  {{- '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role != 'system' %}
  {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
"""

_CHATML_ASSISTANT = """\
{{- write(message.content) if message.content else '' }}
    {%- for call in message.tool_calls or [] %}
      {%- set call = call.function or call %}
      {%- if message.content or not loop.first %}{{- '\\n' }}{%- endif %}
      {{- '<tool_call>\\n' + ({'name': call.name, 'arguments': call.arguments} | tojson) + '\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>' }}"""


def chatml(generation=False, image=_QWEN_IMAGE, video=_QWEN_VIDEO):
    """ChatML as Qwen's vision-language models have it: a default system turn, media, tools.

    generation: whether `{% generation %}` blocks mark what the assistant writes.
    image, video: what represents an image and a video.
    """
    begin, end = ("{%- generation %}", "{%- endgeneration %}") if generation else ("", "")
    return (_CHATML_CONTENT.replace("IMAGE", image).replace("VIDEO", video) + _CHATML_TOOLS + """\
{%- for message in messages %}
  {%- if message.role == 'system' and loop.first and tools %}{%- continue %}{%- endif %}
  {%- if message.role == 'assistant' %}
    {{- '<|im_start|>assistant\\n' }}
    """ + begin + _CHATML_ASSISTANT + end + """
    {{- '\\n' }}
  {%- elif message.role == 'tool' %}
    {%- if loop.first or loop.previtem.role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
    {{- '\\n<tool_response>\\n' + write(message.content) + '\\n</tool_response>' }}
    {%- if loop.last or loop.nextitem.role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
  {%- else %}
    {{- '<|im_start|>' + message.role + '\\n' + write(message.content) + '<|im_end|>\\n' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
""")


def reasoning_chatml(generation=False):
    """ChatML as Qwen3.5 has it: thoughts stand only in the turns after the last question, and the generation prompt
    begins them.

    generation: as chatml's.
    """
    begin, end = ("{%- generation %}", "{%- endgeneration %}") if generation else ("", "")
    return (_CHATML_CONTENT.replace("IMAGE", _QWEN_IMAGE).replace("VIDEO", _QWEN_VIDEO) + """\
{%- set last = namespace(question=-1) %}
{%- for message in messages %}
  {%- if message.role == 'user' %}{%- set last.question = loop.index0 %}{%- endif %}
{%- endfor %}
{%- if tools %}{{- '<|im_start|>system\\n' + (tools | tojson) + '<|im_end|>\\n' }}{%- endif %}
{%- for message in messages %}
  {%- set content = (write(message.content) if message.content else '') | trim %}
  {%- if message.role == 'assistant' %}
    {%- set thought = message.reasoning_content or '' %}
    {%- if '</think>' in content %}
      {%- set thought = content.split('</think>')[0].split('<think>')[-1] %}
      {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {%- set thinks = loop.index0 > last.question %}
    {{- '<|im_start|>assistant\\n' + ('<think>\\n' if thinks else '') }}
    """ + begin + """
    {{- (thought | trim) + '\\n</think>\\n\\n' if thinks else '' }}
    {{- content }}
    {%- for call in message.tool_calls or [] %}
      {%- if content or not loop.first %}{{- '\\n\\n' if loop.first else '\\n' }}{%- endif %}
      {{- '<tool_call>\\n<function=' + call.function.name + '>\\n</function>\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>' }}
    """ + end + """
    {{- '\\n' }}
  {%- elif message.role == 'tool' %}
    {{- '<|im_start|>user\\n<tool_response>\\n' + content + '\\n</tool_response><|im_end|>\\n' }}
  {%- else %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- endif %}
""")


# Headers around trimmed texts, after bos_token: a template of only strings.
LLAMA = """\
{{- bos_token }}
{%- for message in messages %}
  {%- if loop.index0 % 2 != (message.role == 'assistant') | int and messages[0].role != 'system' %}
    {{- raise_exception('users and assistants must take turns') }}
  {%- endif %}
  {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
"""


def has_qwen_vocabulary():
    return importlib.util.find_spec("dashscope") is not None


def qwen_ranks():
    """The byte strings of Qwen's vocabulary, with their ids."""
    file = pathlib.Path(importlib.util.find_spec("dashscope").origin).parent / "resources" / "qwen.tiktoken"
    lines = (line.split() for line in file.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def byte_letters():
    """The letter that byte-level BPE has for each byte: the byte's own if that can be seen, else one from U+0100."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return {**{byte: chr(byte) for byte in seen}, **{byte: chr(256 + i) for i, byte in enumerate(hidden)}}


def last_merge(token, ranks):
    """The two parts that are merged last into a token, by the ranks of what is merged before it."""
    parts = [token[i:i + 1] for i in range(len(token))]
    while len(parts) > 2:
        at = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], len(ranks)))
        parts[at:at + 2] = [parts[at] + parts[at + 1]]
    return parts


@functools.lru_cache(maxsize=None)
def qwen_bpe():
    from tokenizers import models

    ranks = qwen_ranks()
    letters = byte_letters()

    def spell(token):
        return "".join(letters[byte] for byte in token)

    merges = [tuple(map(spell, last_merge(token, ranks)))
              for token in sorted(ranks, key=ranks.__getitem__) if len(token) > 1]
    return models.BPE(vocab={spell(token): rank for token, rank in ranks.items()}, merges=merges)


@functools.lru_cache(maxsize=None)
def trained_bpe():
    """The model of a tokenizer that was trained on the documentation, as JSON."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = word_cutter()
    trainer = trainers.BpeTrainer(vocab_size=SMALL_VOCABULARY, min_frequency=2, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    files = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    tokenizer.train_from_iterator([file.read_text(encoding="utf-8") for file in files], trainer)
    return tokenizer.to_str()


def word_cutter(words=WORDS):
    from tokenizers import Regex, pre_tokenizers

    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(words), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def make_tokenizer(special, vocabulary="small"):
    """A byte-level BPE with these special tokens after its other entries.

    vocabulary: "small", or "qwen" for Qwen's.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, normalizers, processors

    tokenizer = Tokenizer(qwen_bpe()) if vocabulary == "qwen" else Tokenizer.from_str(trained_bpe())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = word_cutter()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer


def write_json(file, document):
    file.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def padded_vocabulary(tokenizer):
    """Rows of the embedding: as many as ids, rounded up."""
    return -(-tokenizer.get_vocab_size() // 128) * 128


def text_settings(tokenizer, **more):
    return {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "vocab_size": padded_vocabulary(tokenizer), "max_position_embeddings": 32768,
            "tie_word_embeddings": False, **more}


def qwen_media(tokenizer):
    """Ids of the tokens of media."""
    return {f"{key}_token_id": tokenizer.token_to_id(token)
            for key, token in (("image", "<|image_pad|>"), ("video", "<|video_pad|>"),
                               ("vision_start", "<|vision_start|>"), ("vision_end", "<|vision_end|>"))}


def qwen_ends(tokenizer):
    return {"bos_token_id": tokenizer.token_to_id("<|endoftext|>"), "eos_token_id": tokenizer.token_to_id("<|im_end|>")}


def qwen_vl(name, tokenizer):
    """Qwen2-VL and Qwen2.5-VL."""
    text = text_settings(tokenizer, model_type=f"{name}_text",
                         rope_scaling={"type": "mrope", "rope_type": "default", "mrope_section": [2, 3, 3]},
                         **qwen_ends(tokenizer))
    if name == "qwen2_vl":
        class_name = "Qwen2VL"
        vision = {"embed_dim": 64, "hidden_size": 64, "mlp_ratio": 2, "depth": 2, "num_heads": 4}
    else:
        class_name = "Qwen2_5_VL"
        vision = {"hidden_size": 64, "out_hidden_size": 64, "intermediate_size": 128, "depth": 2, "num_heads": 4,
                  "fullatt_block_indexes": [1], "window_size": 112}
    pixels = {"patch_size": 14, "temporal_patch_size": 2, "merge_size": 2, "do_resize": True, "do_rescale": True,
              "do_normalize": True, "do_convert_rgb": True, "rescale_factor": 1 / 255, "resample": 3,
              "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
              "processor_class": f"{class_name}Processor"}
    return {
        "config.json": {"architectures": [f"{class_name}ForConditionalGeneration"], "model_type": name,
                        **qwen_media(tokenizer), "text_config": text, "vision_config": {"model_type": name, **vision},
                        "tie_word_embeddings": False, "vocab_size": text["vocab_size"]},
        "preprocessor_config.json": {**pixels, "image_processor_type": "Qwen2VLImageProcessorFast",
                                     "size": {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 16384},
                                     "min_pixels": 56 * 56, "max_pixels": 28 * 28 * 16384},
        "video_preprocessor_config.json": {**pixels, "video_processor_type": "Qwen2VLVideoProcessor",
                                           "size": {"shortest_edge": 128 * 28 * 28, "longest_edge": 28 * 28 * 768},
                                           "min_pixels": 128 * 28 * 28, "max_pixels": 28 * 28 * 768,
                                           "min_frames": 4, "max_frames": 768},
        "tokenizer_config.json": qwen_tokenizer_config(tokenizer, f"{class_name}Processor"),
    }


EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}


def qwen3_vl(name, tokenizer):
    """Qwen3-VL, and its mixture of experts."""
    class_name = {"qwen3_vl": "Qwen3VL", "qwen3_vl_moe": "Qwen3VLMoe"}[name]
    text = text_settings(tokenizer, model_type=f"{name}_text", head_dim=16,
                         rope_scaling={"rope_type": "default", "mrope_section": [4, 2, 2], "mrope_interleaved": True},
                         **(EXPERTS if name == "qwen3_vl_moe" else {}), **qwen_ends(tokenizer))
    return qwen3_files(name, class_name, tokenizer, text, {"deepstack_visual_indexes": [0]})


def qwen3_5(name, tokenizer):
    """Qwen3.5, and its mixture of experts: a layer with attention after three of linear attention."""
    tokenizer.pre_tokenizer = word_cutter(WORDS_WITH_MARKS)
    class_name = {"qwen3_5": "Qwen3_5", "qwen3_5_moe": "Qwen3_5Moe"}[name]
    text = text_settings(
        tokenizer, model_type=f"{name}_text", num_hidden_layers=4, full_attention_interval=4, head_dim=32,
        rope_parameters={"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25,
                         "mrope_section": [2, 1, 1], "mrope_interleaved": True},
        linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4,
        **({**EXPERTS, "shared_expert_intermediate_size": 32} if name == "qwen3_5_moe" else {}), **qwen_ends(tokenizer))
    return qwen3_files(name, class_name, tokenizer, text, {})


def qwen3_files(name, class_name, tokenizer, text, vision):
    """The files of Qwen3-VL and of later models that have its processors."""
    vision = {"model_type": name, "hidden_size": 64, "intermediate_size": 128, "depth": 2, "num_heads": 4,
              "out_hidden_size": 64, "patch_size": 16, "num_position_embeddings": 2304, **vision}
    pixels = {"patch_size": 16, "temporal_patch_size": 2, "merge_size": 2, "image_mean": [0.5, 0.5, 0.5],
              "image_std": [0.5, 0.5, 0.5], "processor_class": "Qwen3VLProcessor"}
    return {
        "config.json": {"architectures": [f"{class_name}ForConditionalGeneration"], "model_type": name,
                        **qwen_media(tokenizer), "text_config": text, "vision_config": vision,
                        "tie_word_embeddings": False},
        "preprocessor_config.json": {**pixels, "image_processor_type": "Qwen2VLImageProcessorFast",
                                     "size": {"shortest_edge": 65536, "longest_edge": 16777216}},
        "video_preprocessor_config.json": {**pixels, "video_processor_type": "Qwen3VLVideoProcessor", "fps": 2,
                                           "do_sample_frames": True, "min_frames": 4, "max_frames": 768,
                                           "size": {"shortest_edge": 4096, "longest_edge": 25165824}},
        "tokenizer_config.json": qwen_tokenizer_config(tokenizer, "Qwen3VLProcessor"),
    }


def llava(name, tokenizer):
    """LLaVA-1.5, with CLIP's encoder; `llava_siglip` as LLaVA-Interleave, whose pictures are no multiple of patches."""
    pixels = {"do_resize": True, "do_rescale": True, "do_normalize": True, "do_convert_rgb": True, "resample": 3,
              "rescale_factor": 1 / 255, "processor_class": "LlavaProcessor"}
    small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
             "patch_size": 14}
    if name == "llava":
        vision = {"model_type": "clip_vision_model", "image_size": 112, "projection_dim": 64, **small}
        pixels.update(image_processor_type="CLIPImageProcessor", do_center_crop=True, size={"shortest_edge": 112},
                      crop_size={"height": 112, "width": 112}, image_mean=[0.48145466, 0.4578275, 0.40821073],
                      image_std=[0.26862954, 0.26130258, 0.27577711])
        text, tokens, strategy, additional = "llama", 64, "default", 1
    else:
        vision = {"model_type": "siglip_vision_model", "image_size": 90, "vision_use_head": False, **small}
        pixels.update(image_processor_type="SiglipImageProcessor", size={"height": 90, "width": 90},
                      image_mean=[0.5, 0.5, 0.5], image_std=[0.5, 0.5, 0.5])
        text, tokens, strategy, additional = "qwen2", 36, "full", 0
    return {
        "config.json": {"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava",
                        "image_token_index": tokenizer.token_to_id("<image>"), "image_seq_length": tokens,
                        "text_config": text_settings(tokenizer, model_type=text), "vision_config": vision,
                        "vision_feature_layer": -2, "vision_feature_select_strategy": strategy,
                        "projector_hidden_act": "gelu", "tie_word_embeddings": False},
        "preprocessor_config.json": pixels,
        "processor_config.json": {"image_token": "<image>", "num_additional_image_tokens": additional, "patch_size": 14,
                                  "processor_class": "LlavaProcessor", "vision_feature_select_strategy": strategy},
        "tokenizer_config.json": {**tokenizer_config(tokenizer, LLAVA_TOKENS), "image_token": "<image>",
                                  "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>",
                                  "pad_token": "<|endoftext|>", "processor_class": "LlavaProcessor"},
    }


def llava_onevision(_name, tokenizer):
    """LLaVA-OneVision, with canvases of up to 3 x 3 tiles."""
    canvases = [[90 * i, 90 * j] for i in range(1, 4) for j in range(1, 4)]
    vision = {"model_type": "siglip_vision_model", "image_size": 90, "vision_use_head": False, "hidden_size": 64,
              "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4, "patch_size": 14}
    return {
        "config.json": {"architectures": ["LlavaOnevisionForConditionalGeneration"], "model_type": "llava_onevision",
                        "image_token_index": tokenizer.token_to_id("<image>"),
                        "video_token_index": tokenizer.token_to_id("<video>"),
                        "text_config": text_settings(tokenizer, model_type="qwen2"), "vision_config": vision,
                        "image_grid_pinpoints": canvases, "vision_aspect_ratio": "anyres_max_4",
                        "vision_feature_layer": -1, "vision_feature_select_strategy": "full",
                        "projector_hidden_act": "gelu", "tie_word_embeddings": False},
        "preprocessor_config.json": {
            "do_resize": True, "do_rescale": True, "do_normalize": True, "do_convert_rgb": True, "do_pad": True,
            "resample": 3, "rescale_factor": 1 / 255, "size": {"height": 90, "width": 90},
            "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "image_grid_pinpoints": canvases,
            "image_processor_type": "LlavaOnevisionImageProcessor", "processor_class": "LlavaOnevisionProcessor"},
        "video_preprocessor_config.json": {
            "do_resize": True, "do_rescale": True, "do_normalize": True, "do_convert_rgb": True, "do_pad": True,
            "do_sample_frames": False, "num_frames": 8, "resample": 3, "rescale_factor": 1 / 255,
            "size": {"height": 90, "width": 90}, "image_mean": [0.48145466, 0.4578275, 0.40821073],
            "image_std": [0.26862954, 0.26130258, 0.27577711], "default_to_square": False,
            "video_processor_type": "LlavaOnevisionVideoProcessor", "processor_class": "LlavaOnevisionProcessor"},
        "processor_config.json": {"image_token": "<image>", "video_token": "<video>", "num_image_tokens": 36,
                                  "processor_class": "LlavaOnevisionProcessor", "vision_aspect_ratio": "anyres_max_4",
                                  "vision_feature_select_strategy": "full"},
        "tokenizer_config.json": {**tokenizer_config(tokenizer, ONEVISION_TOKENS), "image_token": "<image>",
                                  "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>",
                                  "pad_token": "<|endoftext|>", "processor_class": "LlavaOnevisionProcessor"},
    }


def internvl(_name, tokenizer):
    """InternVL3 in transformers' own form."""
    named = {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>",
             "video_token": "<video>"}
    vision = {"model_type": "internvl_vision", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
              "num_attention_heads": 4, "image_size": [56, 56], "patch_size": [14, 14]}
    return {
        "config.json": {"architectures": ["InternVLForConditionalGeneration"], "model_type": "internvl",
                        "image_token_id": tokenizer.token_to_id("<IMG_CONTEXT>"), "image_seq_length": 4,
                        "text_config": text_settings(tokenizer, model_type="qwen2"), "vision_config": vision,
                        "downsample_ratio": 0.5, "vision_feature_layer": -1, "projector_hidden_act": "gelu",
                        "vision_feature_select_strategy": "default", "tie_word_embeddings": False},
        "preprocessor_config.json": {
            "do_resize": True, "do_rescale": True, "do_normalize": True, "do_convert_rgb": True, "resample": 3,
            "rescale_factor": 1 / 255, "crop_to_patches": False, "min_patches": 1, "max_patches": 12,
            "size": {"height": 56, "width": 56}, "image_mean": [0.485, 0.456, 0.406],
            "image_std": [0.229, 0.224, 0.225],
            "image_processor_type": "GotOcr2ImageProcessorFast", "processor_class": "InternVLProcessor"},
        "processor_config.json": {"image_seq_length": 4, "processor_class": "InternVLProcessor"},
        "tokenizer_config.json": {**tokenizer_config(tokenizer, INTERNVL_TOKENS), **named,
                                  "extra_special_tokens": named, "tokenizer_class": "PreTrainedTokenizerFast",
                                  "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
                                  "processor_class": "InternVLProcessor"},
    }


def qwen2_audio(name, tokenizer):
    """Qwen2-Audio; `qwen2_audio_80` with the mel bins of Whisper before its third version, in processor_config.json as
    transformers 5 writes it."""
    bins = 80 if name == "qwen2_audio_80" else 128
    sound = {**whisper_extractor(bins), "return_attention_mask": True}
    encoder = {"model_type": "qwen2_audio_encoder", "d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4,
               "encoder_ffn_dim": 128, "num_mel_bins": bins}
    named = {"processor_class": "Qwen2AudioProcessor"}
    if bins == 80:
        processors = {"processor_config.json": {"feature_extractor": sound, "audio_token": "<|AUDIO|>",
                                                "audio_bos_token": "<|audio_bos|>", "audio_eos_token": "<|audio_eos|>",
                                                **named}}
    else:
        processors = {"preprocessor_config.json": {**sound, **named}}
    return {
        "config.json": {"architectures": ["Qwen2AudioForConditionalGeneration"], "model_type": "qwen2_audio",
                        "audio_token_index": tokenizer.token_to_id("<|AUDIO|>"), "audio_config": encoder,
                        "text_config": text_settings(tokenizer, model_type="qwen2"),
                        "vocab_size": padded_vocabulary(tokenizer)},
        **processors,
        "tokenizer_config.json": {**tokenizer_config(tokenizer, QWEN_AUDIO_TOKENS), "bos_token": None,
                                  "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>",
                                  "pad_token": "<|endoftext|>", **named},
    }


def whisper(name, tokenizer):
    """Whisper, whose tokenizer names a language and a task; `whisper_128` with the mel bins of its third version, in
    processor_config.json as transformers 5 writes it, and without a language."""
    bins, prefix = (128, []) if name == "whisper_128" else (80, ["<|de|>", "<|transcribe|>"])
    as_whisper(tokenizer, ["<|startoftranscript|>", *prefix, "<|notimestamps|>"])
    end = tokenizer.token_to_id("<|endoftext|>")
    processors = {"preprocessor_config.json": {**whisper_extractor(bins), "processor_class": "WhisperProcessor"}}
    if bins == 128:
        processors = {"processor_config.json": {"feature_extractor": whisper_extractor(bins),
                                                "processor_class": "WhisperProcessor"}}
    start = tokenizer.token_to_id("<|startoftranscript|>")
    return {
        "config.json": {"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 64,
                        "encoder_layers": 3, "encoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_layers": 2,
                        "decoder_attention_heads": 4, "decoder_ffn_dim": 128, "num_mel_bins": bins,
                        "max_target_positions": 64, "vocab_size": padded_vocabulary(tokenizer),
                        "decoder_start_token_id": start, "bos_token_id": end, "eos_token_id": end, "pad_token_id": end,
                        "begin_suppress_tokens": None},
        "generation_config.json": {"is_multilingual": True, "decoder_start_token_id": start, "eos_token_id": end,
                                   "max_length": 64},
        **processors,
        "tokenizer_config.json": {**tokenizer_config(tokenizer, WHISPER_TOKENS), "tokenizer_class": "WhisperTokenizer",
                                  **{f"{each}_token": "<|endoftext|>" for each in ("bos", "eos", "pad", "unk")},
                                  "processor_class": "WhisperProcessor",
                                  **({"language": "de", "task": "transcribe"} if prefix else {})},
    }


def whisper_extractor(bins):
    return {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": bins, "sampling_rate": 16000,
            "hop_length": 160, "n_fft": 400, "chunk_length": 30, "n_samples": 480000, "nb_max_frames": 3000,
            "padding_side": "right", "padding_value": 0.0, "dither": 0.0, "return_attention_mask": False}


def as_whisper(tokenizer, prefix):
    """Gives a tokenizer what WhisperTokenizer has, and these special tokens in front of every text."""
    from tokenizers import normalizers, pre_tokenizers, processors

    tokenizer.normalizer = normalizers.Sequence([])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    around = [*prefix, "<|endoftext|>"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[*prefix, "$A", "<|endoftext|>"], pair=[*prefix, "$A", "$B", "<|endoftext|>"],
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in around])


def qwen_text(_name, tokenizer):
    return {"config.json": {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", **text_settings(tokenizer)},
            "tokenizer_config.json": qwen_tokenizer_config(tokenizer)}


def qwen_tokenizer_config(tokenizer, processor=None):
    special = [token for token in QWEN3_5_TOKENS if tokenizer.token_to_id(token) is not None]
    return {**tokenizer_config(tokenizer, special), "tokenizer_class": "Qwen2Tokenizer", "bos_token": None,
            "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None,
            **({} if processor is None else {"processor_class": processor})}


def llama(_name, tokenizer):
    return {"config.json": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **text_settings(tokenizer)},
            "tokenizer_config.json": {**tokenizer_config(tokenizer, LLAMA_TOKENS),
                                      "tokenizer_class": "PreTrainedTokenizerFast",
                                      "bos_token": {"content": "<|begin_of_text|>", "lstrip": False, "rstrip": False,
                                                    "normalized": False, "single_word": False,
                                                    "__type": "AddedToken"},
                                      "eos_token": "<|eot_id|>"}}


def tokenizer_config(tokenizer, special):
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    return {"added_tokens_decoder": {str(tokenizer.token_to_id(token)): {"content": token, **flags}
                                     for token in special},
            "additional_special_tokens": special[1:], "model_max_length": 1000000, "add_prefix_space": False,
            "clean_up_tokenization_spaces": False}


AUDIO_CHATML = chatml(image="Audio: <|audio_bos|><|AUDIO|><|audio_eos|>\\n").replace("'image'", "'audio'")

# Families whose samples are rows of their own.
LINEAR_ATTENTION = ("qwen3_5", "qwen3_5_moe")
# The files of each family's directory, its special tokens, and its template; None: no conversations.
FAMILIES = {
    "qwen2_vl": (qwen_vl, QWEN_TOKENS, chatml()),
    "qwen2_5_vl": (qwen_vl, QWEN_TOKENS, chatml()),
    "qwen3_vl": (qwen3_vl, QWEN_TOKENS, chatml()),
    "qwen3_vl_moe": (qwen3_vl, QWEN_TOKENS, chatml()),
    "qwen3_5": (qwen3_5, QWEN3_5_TOKENS, reasoning_chatml()),
    "qwen3_5_moe": (qwen3_5, QWEN3_5_TOKENS, reasoning_chatml()),
    "internvl": (internvl, INTERNVL_TOKENS, chatml(image="<IMG_CONTEXT>\\n", video="<video>\\n")),
    "llava": (llava, LLAVA_TOKENS, chatml(image="<image>\\n")),
    "llava_siglip": (llava, LLAVA_TOKENS, chatml(image="<image>\\n")),
    "llava_onevision": (llava_onevision, ONEVISION_TOKENS, chatml(image="<image>\\n", video="<video>\\n")),
    "qwen2_audio": (qwen2_audio, QWEN_AUDIO_TOKENS, AUDIO_CHATML),
    "qwen2_audio_80": (qwen2_audio, QWEN_AUDIO_TOKENS, AUDIO_CHATML),
    "whisper": (whisper, WHISPER_TOKENS, None),
    "whisper_128": (whisper, WHISPER_TOKENS, None),
    "qwen2": (qwen_text, QWEN_TOKENS, chatml()),
    "llama": (llama, LLAMA_TOKENS, LLAMA),
}


def is_known(family):
    """Returns whether the installed transformers has the family's models."""
    import transformers

    return family not in LINEAR_ATTENTION or hasattr(transformers, "Qwen3_5ForConditionalGeneration")


def has_own_loss(family):
    """Returns whether the own loss of a family's models, in the installed transformers, heeds num_items_in_batch."""
    import transformers

    version = tuple(map(int, transformers.__version__.split(".")[:2]))
    return version >= (5, 17) or not family.startswith("qwen3")


def make(directory, family="qwen2_vl", vocabulary="small", template=None, model=False):
    """Writes the directory of a model, and returns its path.

    family: a key of FAMILIES.
    vocabulary: "small", or "qwen" for Qwen's; that needs the package dashscope.
    template: another chat template than the family's.
    model: whether random weights are written; that needs torch and transformers.
    """
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    files, special, own_template = FAMILIES[family]
    tokenizer = make_tokenizer(special, vocabulary)
    documents = files(family, tokenizer)
    tokenizer.save(str(directory / "tokenizer.json"))
    for name, document in documents.items():
        if name == "config.json":
            document["transformers_version"] = "4.57.0"
        write_json(directory / name, document)
    written = own_template if template is None else template
    if written is not None:
        (directory / "chat_template.jinja").write_text(written, encoding="utf-8")
    if model:
        write_model(directory)
    return directory


def write_model(directory):
    """Adds random weights, the same each time."""
    import torch
    import transformers

    (architecture,) = json.loads((directory / "config.json").read_text())["architectures"]
    config = transformers.AutoConfig.from_pretrained(directory)
    torch.manual_seed(0)
    getattr(transformers, architecture)(config).save_pretrained(directory)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path, help="directory in which a directory is made for each family")
    parser.add_argument("families", nargs="*", default=[], help=f"of {', '.join(FAMILIES)}; default: all")
    parser.add_argument("--vocabulary", choices=("small", "qwen"), default="small",
                        help="qwen needs the package dashscope (default: %(default)s)")
    parser.add_argument("--no-model", action="store_true", help="write no weights, so torch is not needed")
    arguments = parser.parse_args()
    unknown = [family for family in arguments.families if family not in FAMILIES]
    if unknown:
        parser.error(f"{', '.join(unknown)}: must be of {', '.join(FAMILIES)}")
    for family in arguments.families or FAMILIES:
        made = make(arguments.out / family, family, arguments.vocabulary, model=not arguments.no_model)
        print(made, file=sys.stdout)


if __name__ == "__main__":
    main()
