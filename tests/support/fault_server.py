#!/usr/bin/python3
"""An HTTP server of files that does what servers do on bad days.

    python3 fault_server.py --directory DIR --port-file FILE [--rules RULES.json] [--upstream HOST:PORT]
    with FaultServer(directory) as server: server.set_rules([{"fault": "status", "status": 503, "times": 2}])

It serves the files of a directory with strong ETags, ranges and If-Match, or passes each request on to another server,
with the headers as they came. Rules say what goes wrong. A rule is a dict:

    fault     what happens, see below
    path      a regular expression that the request's path, with its query, must contain
    method    the request's method
    skip      how many matching requests are left alone first
    times     how many are hit then (default: all)
    share     which part of them is hit, at random from --seed (default: 1)

The first rule that hits a request decides, after those of latency. Faults, and what else their rules hold:

    latency        ms: an answer comes so much later, and other rules follow
    status         status, retry_after, body, type: an answer of this status; retry_after may be "date+SECONDS"
    reset          the connection is reset before an answer
    cut            after, how ("reset", "close"), length: the body ends after so many bytes, whose announced
                   length is left out if length is false
    stall          after, seconds: nothing comes after so many bytes of the body; -1: not even headers
    drip           interval: a byte comes each so many seconds
    wrong_range    shift: the range begins and ends so many bytes later than asked for
    short_range    bytes: the range has at most so many bytes
    ignore_range   the whole object comes with status 200
    html           a web page comes with status 200
    garbage        what comes is not HTTP
    redirect       location, status: "{path}" in the location stands for the request's path
    headers        headers: these are sent besides, or instead of the own ones; null leaves one out
    changed        etag, keep_if_match: the object has another ETag, which If-Match is compared with, or not
    no_if_match    If-Match is ignored

Paths that begin with /_faults/ control it: PUT rules (a list), GET log (a list of the requests, headers included),
DELETE log.
"""

import argparse
import contextlib
import email.utils
import http.client
import http.server
import json
import os
import pathlib
import random
import re
import signal
import socket
import ssl
import struct
import threading
import time
import urllib.parse

CONTROL = "/_faults/"
PIECE = 1 << 18
PAGE = b"<!DOCTYPE html><html><body>Please log in.</body></html>"
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-connection"}


class Dropped(Exception):
    """The connection is not to be used any more."""


class Rule:
    """A fault, and which requests it hits. The server's mutex guards its counts."""

    def __init__(self, says):
        self.says = says
        self.fault = says["fault"]
        self.path = re.compile(says.get("path", ""))
        self.matched = 0
        self.hits = 0

    def hits_request(self, method, path, chance):
        if self.says.get("method", method) != method or not self.path.search(path):
            return False
        self.matched += 1
        if self.matched <= self.says.get("skip", 0) or self.hits >= self.says.get("times", float("inf")):
            return False
        if chance >= self.says.get("share", 1):
            return False
        self.hits += 1
        return True


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith(CONTROL):
            return self.control(body)
        entry = {"method": self.command, "path": self.path, "status": 0, "bytes": 0, "fault": None,
                 "connection": self.client_address[1], "body": body[:1 << 16].decode("latin-1"),
                 "headers": {name.lower(): value for name, value in self.headers.items()}}
        self.entry, self.rule = entry, {}
        with self.server.counted(entry):
            try:
                self.answer_with_faults(body)
                self.wfile.flush()
            except (Dropped, OSError):
                self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_CONNECT = answer

    def answer_with_faults(self, body):
        for rule in self.server.faults_of(self.command, self.path):
            self.rule = rule.says
            self.entry["fault"] = rule.fault
            if rule.fault == "latency":
                self.server.ended.wait(rule.says["ms"] / 1000)
                self.rule = {}
        fault = getattr(self, f"fault_{self.rule['fault']}", None) if self.rule else None
        if fault is not None:
            fault()
        elif self.server.upstream:
            self.pass_on(body)
        else:
            self.give_file()

    # Faults that need no object.

    def fault_status(self):
        headers = {"Content-Type": self.rule.get("type", "text/plain")}
        if (wait := self.rule.get("retry_after")) is not None:
            if str(wait).startswith("date+"):
                wait = email.utils.formatdate(time.time() + int(wait[5:]), usegmt=True)
            headers["Retry-After"] = str(wait)
        self.give(self.rule["status"], headers, self.rule.get("body", "a fault\n").encode())

    def fault_reset(self):
        self.drop("reset")

    def fault_garbage(self):
        self.wfile.write(b"220 mail.example ESMTP\r\n")
        raise Dropped

    def fault_html(self):
        self.give(200, {"Content-Type": "text/html; charset=utf-8"}, PAGE)

    def fault_redirect(self):
        location = self.rule["location"].replace("{path}", self.path)
        self.give(self.rule.get("status", 302), {"Location": location, "Content-Type": "text/html"}, PAGE)

    # Objects.

    def pass_on(self, body):
        connection = http.client.HTTPConnection(self.server.upstream, timeout=60)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            given = response.read()
            headers = {name: value for name, value in response.getheaders() if name.lower() not in HOP_BY_HOP}
        finally:
            connection.close()
        length = int(headers.pop("Content-Length", len(given))) if self.command == "HEAD" else len(given)
        self.give(response.status, headers, given, length)

    def give_file(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).lstrip("/")
        file = (self.server.directory / path).resolve()
        if self.server.directory not in file.parents or not file.is_file():
            return self.give(404, {"Content-Type": "text/plain"}, b"no such file\n")
        with open(file, "rb") as opened:
            status = os.fstat(opened.fileno())
            self.give_object(opened, status.st_size, status)

    def give_object(self, opened, size, status):
        etag = f'"{size:x}-{status.st_mtime_ns:x}"'
        if self.rule.get("fault") == "changed":
            etag = self.rule.get("etag", '"changed"')
        headers = {"ETag": etag, "Accept-Ranges": "bytes", "Content-Type": "application/octet-stream",
                   "Last-Modified": email.utils.formatdate(status.st_mtime, usegmt=True)}
        wanted = self.headers.get("If-Match")
        ignored = self.rule.get("fault") == "no_if_match" or self.rule.get("keep_if_match")
        if wanted is not None and not ignored and wanted not in ("*", etag):
            return self.give(412, headers, b"")
        begin, end = self.range_of(size)
        if begin is None:
            return self.give_piece(200, headers, opened, 0, size)
        if begin >= size:
            return self.give(416, {**headers, "Content-Range": f"bytes */{size}"}, b"")
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
        self.give_piece(206, headers, opened, begin, end)

    def range_of(self, size):
        """Begin and end of the range that is asked for, as the fault lets it be; None: the whole object."""
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked is None or self.rule.get("fault") == "ignore_range":
            return None, None
        begin, end = int(asked[1]), min(int(asked[2]) + 1 if asked[2] else size, size)
        if self.rule.get("fault") == "wrong_range":
            begin, end = begin + self.rule["shift"], min(end + self.rule["shift"], size)
        if self.rule.get("fault") == "short_range":
            end = min(end, begin + self.rule["bytes"])
        return begin, end

    def give_piece(self, status, headers, opened, begin, end):
        self.start(status, headers, end - begin)
        if self.command == "HEAD":
            return
        opened.seek(begin)
        left = end - begin
        while left > 0:
            piece = opened.read(min(PIECE, left))
            if not piece:
                raise Dropped
            self.write(piece)
            left -= len(piece)

    def give(self, status, headers, body, length=None):
        self.start(status, headers, len(body) if length is None else length)
        if self.command != "HEAD":
            self.write(body)

    # Bytes.

    def start(self, status, headers, length):
        if self.rule.get("fault") == "stall" and self.rule.get("after", -1) < 0:
            self.stall()
        headers = {"Date": self.date_time_string(), "Content-Length": str(length), **headers}
        if self.rule.get("fault") == "headers":
            headers.update(self.rule["headers"])
        self.entry["status"] = status
        self.send_response_only(status)
        for name, value in headers.items():
            if value is not None:
                self.send_header(name, value)
        if self.rule.get("length") is False:
            headers["Content-Length"] = None
        if headers["Content-Length"] is None:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()

    def write(self, piece):
        fault, sent = self.rule.get("fault"), self.entry["bytes"]
        if fault == "drip":
            return self.drip(piece)
        if fault in ("cut", "stall") and sent + len(piece) > self.rule["after"]:
            self.write_now(piece[:self.rule["after"] - sent])
            if fault == "stall":
                self.stall()
            self.drop(self.rule.get("how", "reset"))
        self.write_now(piece)

    def write_now(self, piece):
        self.entry["bytes"] += len(piece)  # before the client can see them, and ask for the log
        self.wfile.write(piece)
        self.wfile.flush()

    def drip(self, piece):
        for byte in piece:
            self.write_now(bytes([byte]))
            if self.server.ended.wait(self.rule.get("interval", 1)):
                raise Dropped

    def stall(self):
        self.wfile.flush()
        self.server.ended.wait(self.rule.get("seconds", 3600))
        raise Dropped

    def drop(self, how):
        self.wfile.flush()
        if how == "reset":
            # A reset discards bytes that the client has not read yet, so it is given time to read them.
            self.server.ended.wait(0.05 if self.entry["bytes"] else 0)
            self.server.reset(self.connection)
        raise Dropped

    def control(self, body):
        self.entry, self.rule = {"bytes": 0}, {}
        what = self.path[len(CONTROL):]
        if (self.command, what) == ("PUT", "rules"):
            self.server.set_rules(json.loads(body))
        elif (self.command, what) == ("DELETE", "log"):
            self.server.clear_log()
        elif (self.command, what) != ("GET", "log"):
            return self.give(404, {}, b"")
        given = json.dumps(self.server.requests() if self.command == "GET" else None).encode()
        self.give(200, {"Content-Type": "application/json"}, given)
        self.wfile.flush()

    def log_message(self, *_):
        """Nothing is written: the log is asked for."""


class FaultServer(http.server.ThreadingHTTPServer):
    """The server. It listens on a loopback port of its own choice from its construction on."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, directory=".", rules=(), upstream="", seed=1, certificate="", key=""):
        super().__init__(("127.0.0.1", 0), Handler)
        self.directory = pathlib.Path(directory).resolve()
        self.upstream = upstream
        self.ended = threading.Event()
        self.mutex = threading.Lock()
        self.random = random.Random(seed)
        self.log = []
        self.in_flight = 0
        self.to_reset = set()
        self.set_rules(rules)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key or None)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.scheme = "https" if certificate else "http"

    @property
    def port(self):
        return self.server_address[1]

    @property
    def address(self):
        return f"{self.scheme}://127.0.0.1:{self.port}/"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.shutdown()
        self.server_close()

    def set_rules(self, rules):
        made = [Rule(rule) for rule in rules]
        with self.mutex:
            self.rules = made

    def requests(self):
        """Returns the requests that have come so far, in their order."""
        with self.mutex:
            return [dict(entry) for entry in self.log]

    def clear_log(self):
        with self.mutex:
            self.log.clear()

    def faults_of(self, method, path):
        """The rules that hit a request: those of latency, and at most one other."""
        hit = []
        with self.mutex:
            for rule in self.rules:
                if rule.hits_request(method, path, self.random.random()):
                    hit.append(rule)
                    if rule.fault != "latency":
                        break
        return hit

    @contextlib.contextmanager
    def counted(self, entry):
        with self.mutex:
            self.in_flight += 1
            entry["in_flight"] = self.in_flight
            entry["time"] = time.monotonic()
            self.log.append(entry)
        try:
            yield
        finally:
            with self.mutex:
                self.in_flight -= 1

    def reset(self, connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.to_reset.add(connection)

    def shutdown_request(self, request):
        if request in self.to_reset:
            self.to_reset.discard(request)
            return self.close_request(request)  # without a FIN before: a reset
        return super().shutdown_request(request)

    def handle_error(self, *_):
        """A client that went away is no error."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", default=".", help="the files to serve")
    parser.add_argument("--port-file", required=True, help="where to write the port once it listens")
    parser.add_argument("--rules", help="a JSON file with a list of rules")
    parser.add_argument("--upstream", default="", metavar="HOST:PORT", help="pass requests on to this server")
    parser.add_argument("--seed", type=int, default=1, help="of the rules with a share")
    parser.add_argument("--certificate", default="", help="speak TLS with this certificate (PEM)")
    parser.add_argument("--key", default="", help="its key, if it is in another file")
    given = parser.parse_args()
    rules = json.loads(pathlib.Path(given.rules).read_text(encoding="utf-8")) if given.rules else []
    with FaultServer(given.directory, rules, given.upstream, given.seed, given.certificate, given.key) as server:
        made = pathlib.Path(given.port_file + ".new")
        made.write_text(f"{server.port}\n", encoding="utf-8")
        made.rename(given.port_file)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
