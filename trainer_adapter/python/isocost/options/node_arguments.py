"""The arguments of isocost.DataLoader that decide what its node does."""

from typing import Any, Mapping, NamedTuple, Optional, Union

from isocost.options import arguments, keywords
from isocost.options.node_options import NodeOptions
from isocost.options.node_settings import NodeSettings


class NodeArguments(NamedTuple):
    """Arguments that an embedded node's settings are made of, by their names; None: not given.

    Attributes:
        direct: the arguments that are fields of NodeOptions, too.
    """

    global_batch_size: Optional[int]
    microbatches: Optional[int]
    shuffle: Union[bool, str, None]
    seed: Optional[int]
    epochs: int
    heartbeat_timeout: Optional[float]
    count_tokens: Any
    node: Optional[NodeOptions]
    direct: Mapping[str, Any]

    def refuse(self, endpoint: str, torch_options: Mapping[str, Any]) -> None:
        """Raises ValueError if any was given, or a keyword of torch that says the same: the node at `endpoint`
        decides them."""
        given = dict(self._asdict(), epochs=self.epochs or None, **self.direct)
        del given["direct"]
        given.update((name, value) for name, value in torch_options.items()
                     if name in arguments.NODE_KEYWORDS and not keywords.is_default(name, value))
        arguments.refuse_node_settings(endpoint, given)

    def settings(self, torch_options: Mapping[str, Any], data_ranks: int, *, model: Any, image_size: str,
                 padded_multiple: Optional[int], reprofile: bool) -> NodeSettings:
        """Returns the settings of an embedded node.

        Args:
            torch_options: the keywords of torch that are used.
            data_ranks: number of ranks that samples are divided over.
            model: the model's directory, or None.
            image_size: the size of its pictures, as text; "" for that of the directory.
            padded_multiple: the multiple that rows are padded to; None: samples are packed.
            reprofile: whether the loader measures a new model profile when it is asked to.
        Raises: TypeError and ValueError for arguments of a wrong type, or that contradict each other.
        """
        settings = arguments.node_settings(self.node, dict(self.direct, model=model))
        if image_size:
            settings.add("image_size", image_size, "image_size=")
        if padded_multiple is not None:
            arguments.add_padding(settings, padded_multiple)
        arguments.add_numbers(settings, self.global_batch_size, self.microbatches, self.seed, torch_options,
                              data_ranks)
        arguments.add_torch_options(settings, torch_options, self.heartbeat_timeout)
        if self.shuffle is not None:
            settings.add("shuffle", arguments.shuffle(self.shuffle), "shuffle=")
        settings.add("epochs", arguments.whole("epochs", self.epochs, 0), "epochs=")
        settings.add("reprofile", reprofile, "reprofile=")
        return settings
