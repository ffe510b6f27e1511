"""The options of a pass: those given, else those that the data set's tokens were made with.

Options are the user's choice and recorded with the tokens, as on a command line. A pass that makes tokens again, for a
changed template or for new shards, must not fall back to the defaults: the model would learn other turns."""

import ast
import re
from typing import List, NamedTuple, Optional, Sequence

from isocost.tokens.conversation import DEFAULT_LABELS, MEDIA_MARK

_WRITTEN = re.compile(r"(?:--labels (\S+))?(?: ?--caption-template (.+))?")


class TokenOptions(NamedTuple):
    """Options by which text becomes tokens, as ConversationOptions has them; None: not given."""

    labels: Optional[str] = None
    caption_template: Optional[str] = None

    def over(self, others: "TokenOptions") -> "TokenOptions":
        """Returns these options, and the others if one of these is not given."""
        return TokenOptions(*(theirs if ours is None else ours for ours, theirs in zip(self, others)))

    def written(self) -> str:
        """Returns the options that are not the defaults, as on a command line; "" if all are."""
        labels, caption_template = self.over(_DEFAULTS)
        options = [] if labels == DEFAULT_LABELS else [f"--labels {labels}"]
        if caption_template != MEDIA_MARK:  # In quotes, and on one line.
            options.append(f"--caption-template {caption_template!r}")
        return " ".join(options)


_DEFAULTS = TokenOptions(DEFAULT_LABELS, MEDIA_MARK)


def read_options(written: str) -> TokenOptions:
    """Returns what TokenOptions.written wrote. Raises ValueError for another text."""
    found = _WRITTEN.fullmatch(written)
    if found is None:
        raise ValueError(f"tokens were made with {written!r}, which this version of isocost does not know")
    labels, caption_template = found.groups()
    template = None if caption_template is None else ast.literal_eval(caption_template)
    return TokenOptions(labels, template).over(_DEFAULTS)


class ShardOptions(NamedTuple):
    """A shard's tokens.

    Attributes:
        shard: str, its name.
        options: as recorded; None if there are no tokens.
        usable: whether they are of the model.
    """

    shard: str
    options: Optional[str]
    usable: bool


def chosen_options(given: TokenOptions, shards: Sequence[ShardOptions], *, replace: bool = False) -> TokenOptions:
    """Returns the options for all shards of a data set.

    replace: whether usable tokens of other options may be made again.
    Raises: ValueError that names both where the shards' tokens were made with several options and not all are given,
        and where the given ones are others than those of usable tokens.
    """
    recorded = [each for each in shards if each.options is not None]
    if recorded and None in given:
        _check_equal(given, recorded)
        given = given.over(read_options(recorded[0].options or ""))
    chosen = given.over(_DEFAULTS)
    other = next((each for each in recorded if each.usable and each.options != chosen.written()), None)
    if other is not None and not replace:
        raise ValueError(f"the tokens of {other.shard} were made with {named(other.options)}, and now "
                         f"{named(chosen.written())} would be used: leave the options out to keep the tokens, or "
                         "give `isocost tokenize --force` with the options, which makes all of them anew")
    return chosen


def _check_equal(given: TokenOptions, recorded: List[ShardOptions]) -> None:
    """Raises ValueError if the shards' tokens were made with several values of an option that is not given."""
    first = recorded[0]
    wanted = given.over(read_options(first.options or ""))
    other = next((each for each in recorded if given.over(read_options(each.options or "")) != wanted), None)
    if other is not None:
        raise ValueError(f"the tokens of {first.shard} were made with {named(first.options)}, and those of "
                         f"{other.shard} with {named(other.options)}: choose with `isocost tokenize --force`, --labels "
                         "and --caption-template, which makes all of them anew")


def named(written: Optional[str]) -> str:
    """Returns options as a message names them."""
    return written or "the default options"
