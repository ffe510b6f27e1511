"""The special tokens of a model directory: their names in templates, and whether the tokenizer has them."""

import os
import re
from typing import Any, Dict, Iterable, List

from isocost.tokens.chat_template import ChatTemplate, read_json
from isocost.tokens.conversation import Conversation

HOW_TO_SAVE = ("transformers writes it: AutoProcessor.from_pretrained(DIR).save_pretrained(DIR), or with AutoTokenizer "
               "for a model of text alone")
_SPECIAL = re.compile(r"<\|\w[\w-]*\|>")
_CLOSING = re.compile(r"</(\w[\w-]*)>")


def special_variables(directory: str, tokenizer: Any) -> Dict[str, Any]:
    """Returns the special tokens by the names that templates have for them. Raises ValueError if the configuration
    adds tokens that the tokenizer does not have."""
    variables: Dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        file = os.path.join(directory, name)
        if not os.path.exists(file):
            continue
        config = read_json(file)
        named = config.get("extra_special_tokens")
        for key, value in {**config, **(named if isinstance(named, dict) else {})}.items():
            text = value.get("content") if isinstance(value, dict) else value
            if key.endswith("_token") and isinstance(text, str):
                variables[key] = text
        for number, token in (config.get("added_tokens_decoder") or {}).items():
            if tokenizer.token_to_id(token["content"]) != int(number):
                found = tokenizer.token_to_id(token["content"]) or "none"
                raise ValueError(f"{file}: added_tokens_decoder gives {token['content']} the id {number}, and in "
                                 f"tokenizer.json it has {found}: {HOW_TO_SAVE}")
    return variables


def check_written_tokens(template: ChatTemplate, modalities: Iterable[str], tokenizer: Any) -> None:
    """Raises ValueError if the template writes a special token that the tokenizer would read as pieces of text: one
    of the form <|name|>, or one of <name> and </name> of which it has the other. Tokens of media and of plain turns are
    looked at; a template has branches for others, too, which its model may not have."""
    media = list(modalities)
    asked = [*({"type": modality} for modality in media), {"type": "text", "text": "a"}]
    turns: List[Dict[str, Any]] = [{"role": "user", "content": asked if media else "a"},
                                   {"role": "assistant", "content": "b"}]
    try:
        text = template.render(Conversation("", turns, None, dict.fromkeys(media, 1)))
    except ValueError:
        return  # It objects to this conversation, and may take those of the data set.
    written = set(_SPECIAL.findall(text))
    for name in _CLOSING.findall(text):
        pair = {f"<{name}>", f"</{name}>"}
        if any(tokenizer.token_to_id(token) is not None for token in pair):
            written |= {token for token in pair if token in text}
    for token in sorted(written):
        if tokenizer.token_to_id(token) is None:
            raise ValueError(f"{template.file}: the template writes the token {token}, which tokenizer.json does not "
                             "have, so that it would be pieces of text. The files are not of one model, or not of one "
                             f"version of it: {HOW_TO_SAVE}")
