"""What a loader holds that lives in threads and sockets."""

import os
import weakref
from typing import Any, Optional

from isocost.socket_directory import SocketDirectory
from isocost.transform import Pipeline


class Resources:
    """What outlives the loader object until it is closed: client, node, a directory for its socket."""

    live: "weakref.WeakSet[Resources]" = weakref.WeakSet()

    def __init__(self) -> None:
        self.client: Optional[Any] = None
        self.pipeline: Optional[Pipeline] = None
        self.node: Optional[Any] = None
        self.directory: Optional[SocketDirectory] = None
        self.pid = os.getpid()
        self._forgotten = False
        Resources.live.add(self)

    def close(self, grace_s: float) -> None:
        if self.pid != os.getpid():
            return  # the parent's
        self.leave()
        node, self.node = self.node, None
        if node is not None:
            node.stop(grace_s)
        directory, self.directory = self.directory, None
        if directory is not None:
            directory.remove()

    def leave(self) -> None:
        """Closes the client and ends what uses it."""
        client, self.client = self.client, None
        pipeline, self.pipeline = self.pipeline, None
        if client is not None:
            client.close()
        if pipeline is not None:
            pipeline.close()

    #: Whether this process was forked while a node ran in it: its decoding threads did not come along.
    forked_beside_a_node = False

    def forget(self) -> None:
        """In a forked child, once: threads and sockets are the parent's; joining or freeing them would
        hang."""
        if self._forgotten:
            return
        self._forgotten = True
        if self.client is not None:
            self.client.forget()
        if self.node is not None:
            Resources.forked_beside_a_node = True
            self.node.forget()
        if self.directory is not None:
            self.directory.forget()


def _forget_all() -> None:
    for resources in list(Resources.live):
        resources.forget()


os.register_at_fork(after_in_child=_forget_all)
