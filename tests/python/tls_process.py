"""Python's ssl and Isocost speak TLS in one process: tls_process.py MODULES DIRECTORY CERTIFICATE KEY INDEXES.

MODULES are imported in this order, as in `isocost,ssl,torch`, and ssl's first connection comes before Isocost's if it
is imported before. The server of the shards in DIRECTORY is Python's, too, and in the same process. Prints a line of
JSON: the libraries of OpenSSL in the order in which they were loaded, and the samples that Isocost read.
"""

import importlib
import json
import pathlib
import re
import sys
import threading

LIBRARY = re.compile(r"/lib(?:crypto|ssl)[-.][^/]*$")


def loaded(before=()):
    """The files of OpenSSL's libraries in this process, those of `before` first."""
    mapped = {line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines()}
    return [*before, *sorted(path for path in mapped if LIBRARY.search(path) and path not in before)]


def read_with_python(address, directory):
    import ssl
    import urllib.request

    context = ssl.create_default_context()  # which reads SSL_CERT_FILE
    for shard in sorted(directory.glob("*.tar")):
        with urllib.request.urlopen(f"{address}{shard.name}", context=context, timeout=60) as response:
            if response.read() != shard.read_bytes():
                raise SystemExit(f"Python's ssl has read other bytes of {shard.name}")


def read_with_isocost(address, directory, indexes):
    import isocost

    last = len(list(directory.glob("*.tar"))) - 1
    node = isocost.NodeOptions(index_dir=str(indexes), io_timeout=20)
    with isocost.DataLoader(f"{address}shard-{{000000..{last:06}}}.tar", global_batch_size=8, microbatches=2,
                            node=node) as loader:
        return sorted(sample for microbatch in loader for sample, weight
                      in zip(microbatch.sample_ids, microbatch.sample_weights) if weight > 0)


def main():
    modules, (directory, certificate, key, indexes) = sys.argv[1].split(","), map(pathlib.Path, sys.argv[2:])
    libraries = []
    for module in modules:
        importlib.import_module(module)
        libraries = loaded(libraries)
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
    import fault_server

    with fault_server.FaultServer(directory, certificate=str(certificate), key=str(key)) as server:
        turns = [lambda: read_with_python(server.address, directory),
                 lambda: read_with_isocost(server.address, directory, indexes / "first")]
        if modules.index("isocost") < modules.index("ssl"):
            turns.reverse()
        for turn in turns:
            turn()
        beside = threading.Thread(target=read_with_python, args=(server.address, directory))
        beside.start()
        samples = read_with_isocost(server.address, directory, indexes / "second")
        beside.join()
    print(json.dumps({"libraries": loaded(libraries), "samples": samples}))


if __name__ == "__main__":
    main()
