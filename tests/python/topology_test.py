"""topology=: its four forms, and what contradicts them."""

import pathlib
import types
import unittest

import isocost
from isocost.options.topology import resolve
from isocost.rendezvous.rendezvous import Process
from support import ShardTest, main, torchrun

FORMS = "DeviceMesh .*process group .*isocost.Place, or the pair"


def mesh(names, shape, at):
    """Returns an object with the members of torch's DeviceMesh that a loader reads; older torch has no DeviceMesh."""
    groups = []

    def get_group(name):
        groups.append(name)
        return f"group of {name}"

    return types.SimpleNamespace(mesh_dim_names=names, shape=shape, get_coordinate=lambda: at, get_group=get_group)


class Resolving(unittest.TestCase):
    def test_without_arguments_there_is_one_process(self):
        self.assertEqual(resolve(None, None, None, False)[:4], (Process(0, 1), None, None, None))
        self.assertEqual(resolve(None, 2, 4, False)[:4], (Process(2, 4), None, None, None))
        self.assertEqual(resolve((None, None), 2, 4, False)[:4], (Process(2, 4), None, None, None))

    def test_a_mesh_gives_rank_world_size_and_replica_group(self):
        standing = resolve(mesh(("dp_replicate", "tp", "dp_shard"), (2, 4, 3), (1, 2, 1)), None, None, False)
        self.assertEqual(standing[:4], (Process(4, 6), None, "group of tp", None))
        self.assertEqual(resolve(mesh(("dp",), (2,), (1,)), None, None, False)[:4], (Process(1, 2), None, None, None))
        self.assertEqual(resolve(mesh(("dp", "tp"), (2, 1), (1, 0)), None, None, False).replica_group, None)

    def test_a_mesh_that_does_not_fit(self):
        for wrong, pattern in ((mesh(None, (2,), (0,)), "no dimension names"),
                               (mesh(("dp",), (2,), None), "not in the device mesh")):
            with self.assertRaisesRegex(ValueError, pattern):
                resolve(wrong, None, None, False)
        for numbers in ((0, 1), (None, 2), (1, None)):
            with self.assertRaisesRegex(ValueError, "device mesh, which gives rank and world_size"):
                resolve(mesh(("dp",), (2,), (0,)), *numbers, False)
        with self.assertRaisesRegex(ValueError, "device mesh, and layout="):
            resolve(mesh(("dp",), (2,), (0,)), None, None, True)

    def test_a_place_needs_a_layout(self):
        place = isocost.Place("llm", 1)
        self.assertEqual(resolve(place, None, None, True)[:4], (Process(0, 1), None, None, place))
        self.assertEqual(resolve((place, None), 1, 2, True)[:4], (Process(1, 2), None, None, place))
        for topology in (place, (place, None)):
            with self.assertRaisesRegex(ValueError, "a place in a layout: give layout="):
                resolve(topology, None, None, False)
        with self.assertRaisesRegex(ValueError, "neither 'encoder' nor 'llm'"):
            resolve(isocost.Place("decoder"), None, None, True)

    def test_other_types_are_refused_with_the_four_forms(self):
        for wrong in (3, "llm", b"llm", {"module": "llm"}, ("llm", 0, 0, 0), (), (None,), (None, None, None),
                      ("llm", 0), (None, 3), (3, None), (None, isocost.Place()), object(), True):
            with self.assertRaisesRegex(TypeError, FORMS):
                resolve(wrong, None, None, True)


class Groups(ShardTest):
    def test_forms_of_process_groups(self):
        script = pathlib.Path(self.directory) / "groups.py"
        script.write_text("""
import sys
import torch.distributed as dist
import isocost
from isocost.options.topology import resolve
dist.init_process_group("gloo")
rank = dist.get_rank()
pair, own = dist.new_group([0, 1]), [dist.new_group([0]), dist.new_group([1])]
assert resolve(pair, None, None, False)[:2] == ((rank, 2), pair)
assert resolve((pair, own[rank]), None, None, False)[:4] == ((rank, 2), pair, own[rank], None)
assert resolve((None, pair), 0, 1, False)[:4] == ((0, 1), None, pair, None)
for topology, error in ((pair, ValueError), ((pair, None), ValueError)):
    try:
        resolve(topology, rank, 2, False)
    except error as refused:
        assert "a data group, which gives rank and world_size" in str(refused), refused
    else:
        raise AssertionError(topology)
other = own[1 - rank]
for topology, name in ((other, "group"), ((other, None), "data group"), ((None, other), "replica group")):
    try:
        isocost.DataLoader(sys.argv[1], topology=topology)
    except ValueError as refused:
        assert f"this process is not in the {name}:" in str(refused), refused
    else:
        raise AssertionError(topology)
print("done", rank, flush=True)
dist.barrier()
""")
        run = torchrun([script, self.shards])
        self.assertEqual(sorted(run.stdout.split("\n")), ["", "done 0", "done 1"])


if __name__ == "__main__":
    main()
