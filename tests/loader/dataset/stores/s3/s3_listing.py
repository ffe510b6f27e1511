"""Lists the objects of a bucket as S3 does, on a port that it prints, until its input ends.

Below each of gate/1/ to gate/4/ lies one object, and they are listed only when all four are asked for at once.
"""

import http.server
import os
import sys
import threading
import urllib.parse

KEYS = ["data/0.tar", "data/1.tar", "data/note.txt", "data/old/2.tar", "more/en/3.tar", "odd//4.tar"]
GATE = threading.Barrier(4)
GATE_S = 10


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        keys = [key for key in KEYS if key.startswith(prefix) and (not delimiter or delimiter not in key[len(prefix):])]
        if prefix.startswith("gate/"):
            try:
                GATE.wait(GATE_S)
                keys = [prefix + "a.tar"]
            except threading.BrokenBarrierError:
                keys = []
        objects = "".join(f"<Contents><Key>{urllib.parse.quote(key)}</Key><Size>1</Size><ETag>&quot;e&quot;</ETag>"
                          "<LastModified>2026-11-30T00:00:00.000Z</LastModified></Contents>" for key in keys)
        body = ("<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
                f"{objects}</ListBucketResult>").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
