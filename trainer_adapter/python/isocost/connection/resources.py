"""The threads and sockets that a loader holds."""

import os
import weakref
from typing import Any, Optional

from isocost.connection.socket_directory import SocketDirectory
from isocost.microbatches.transform import TransformQueue


class Resources:
    """Objects that live until the loader is closed: the client, the node, and the directory of its socket.

    Attributes:
        pid: the process that these belong to.
        closed: whether `close` was called.
        forked_beside_a_node: of the class: whether this process was forked while a node ran in it, whose decoding
            threads did not come along.
    """

    live: "weakref.WeakSet[Resources]" = weakref.WeakSet()
    forked_beside_a_node = False

    def __init__(self) -> None:
        self.client: Optional[Any] = None
        self.pipeline: Optional[TransformQueue] = None
        self.node: Optional[Any] = None
        self.directory: Optional[SocketDirectory] = None
        self.pid = os.getpid()
        self.closed = False
        self._forgotten = False
        Resources.live.add(self)

    def close(self, grace_s: float) -> None:
        """Leaves the node, and stops a node that runs in this process, after up to `grace_s` seconds in which other
        ranks may finish. Does nothing in a forked child."""
        if self.pid != os.getpid():
            return
        self.closed = True
        self.leave()
        node, self.node = self.node, None
        if node is not None:
            node.stop(grace_s)
        directory, self.directory = self.directory, None
        if directory is not None:
            directory.remove()

    def leave(self) -> None:
        """Closes the client, and ends the threads that use it."""
        client, self.client = self.client, None
        pipeline, self.pipeline = self.pipeline, None
        if client is not None:
            client.close()
        if pipeline is not None:
            pipeline.close()

    def forget(self) -> None:
        """Forgets threads and sockets in a forked child: they belong to the parent, and joining or freeing them would
        block forever."""
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
