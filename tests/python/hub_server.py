"""A hub of models on the loopback, and the cache that huggingface_hub fills from one."""

import hashlib
import http.server
import json
import os
import pathlib
import re
import threading
import urllib.parse

GATED, PRIVATE, REFUSED, BROKEN = "tiny/gated", "tiny/private", "tiny/refused", "tiny/broken"


def commit_of(files):
    """The commit of {name: bytes}."""
    return hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()


def files_of(directory):
    return {path.name: path.read_bytes() for path in pathlib.Path(directory).iterdir() if path.is_file()}


class HubServer:
    """Answers as the hub does to huggingface_hub, until the block ends.

    Attributes:
        endpoint: for HF_ENDPOINT.
        requests: ["METHOD PATH"] that were made, in their order.
    """

    def __init__(self, models):
        """models: {name: {revision: {file: bytes}}}."""
        self.models = models
        self.requests = []
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                hub.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_arguments):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_exception):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def downloads(self):
        """The files that were downloaded, sorted."""
        asked = (line for line in self.requests if line.startswith("GET"))
        return sorted(line.rpartition("/")[2] for line in asked if "/resolve/" in line)

    def answer(self, request):
        path = urllib.parse.unquote(urllib.parse.urlsplit(request.path).path)
        self.requests.append(f"{request.command} {path}")
        about = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        found = about or file
        name, revision = (found[1], (found[3] if about else found[2]) or "main") if found else ("", "")
        refusal = self._refusal(name, revision, about is not None)
        if refusal is not None:
            status, code = refusal
            return self._send(request, status, b"{}", **({"X-Error-Code": code} if code else {}))
        files = self._files(name, revision)
        commit = commit_of(files)
        if file:
            content = files.get(file[3])
            if content is None:
                return self._send(request, 404, b"", **{"X-Error-Code": "EntryNotFound"})
            return self._send(request, 200, content, **{"X-Repo-Commit": commit,
                                                        "ETag": f'"{hashlib.sha1(content).hexdigest()}"'})
        if about[2] == "tree":
            document = [{"type": "file", "path": each, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                        for each, content in files.items()]
        else:
            document = {"_id": "0", "id": name, "modelId": name, "sha": commit, "private": False, "tags": [],
                        "downloads": 0, "likes": 0, "siblings": [{"rfilename": each} for each in files]}
        return self._send(request, 200, json.dumps(document).encode(), **{"Content-Type": "application/json"})

    def _files(self, name, revision):
        revisions = self.models[name]
        return revisions.get(revision) or next(
            (files for files in revisions.values() if commit_of(files) == revision), None)

    def _refusal(self, name, revision, is_about):
        """The status and error code of the answer; None: there are such files."""
        if name in (PRIVATE, REFUSED, BROKEN):
            return {PRIVATE: (401, "RepoNotFound"), REFUSED: (403, ""), BROKEN: (501, "")}[name]
        if name == GATED and not is_about:
            return 403, "GatedRepo"
        if name not in self.models:
            return 404, "RepoNotFound"
        return None if self._files(name, revision) else (404, "RevisionNotFound")

    @staticmethod
    def _send(request, status, body, **headers):
        request.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(body)


def fill_cache(home, name, files, revision="main"):
    """Writes the cache below HF_HOME as huggingface_hub does. Returns the snapshot's directory."""
    folder = pathlib.Path(home) / "hub" / f"models--{name.replace('/', '--')}"
    commit = commit_of(files)
    snapshot = folder / "snapshots" / commit
    for directory in (folder / "blobs", folder / "refs", snapshot):
        directory.mkdir(parents=True, exist_ok=True)
    (folder / "refs" / revision).write_text(commit)
    for each, content in files.items():
        blob = hashlib.sha1(content).hexdigest()
        (folder / "blobs" / blob).write_bytes(content)
        (snapshot / each).symlink_to(pathlib.Path("..", "..", "blobs", blob))
    return snapshot


def environment(home, endpoint=None):
    """The environment of a process that has this HF_HOME and this hub; None: it is offline."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("HF_") and not name.lower().endswith("_proxy")}
    told = {"HF_HUB_OFFLINE": "1"} if endpoint is None else {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": endpoint}
    return {**kept, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_XET": "1", **told}
