"""Refuses requests as S3 does where moto does not, on a port that it prints, until its input ends.

The key says how, as the methods of Handler do. What is not refused is the object "0123456789".
"""

import email.utils
import http.server
import os
import sys
import threading
import time
import urllib.parse

DATA = b"0123456789"


def error(code, message="", more=""):
    """Returns an error document of S3."""
    return (f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{message}</Message>{more}'
            "<RequestId>R1</RequestId><StringToSign>planted</StringToSign></Error>")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked: list[str] = []
    late_s = 0

    def log_message(self, *arguments):
        pass

    def date_time_string(self, timestamp=None):
        return email.utils.formatdate((timestamp or time.time()) - self.late_s, usegmt=True)

    def answer(self, status, body=b"", headers=None):
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if "Content-Length" not in (headers or {}):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def scope(self):
        """Returns the region that the request is signed for."""
        parts = self.headers.get("Authorization", "").split("/")
        return parts[2] if len(parts) > 2 else ""

    def give(self):
        signed = "accept-encoding" in self.headers.get("Authorization", "")
        if self.headers.get("Accept-Encoding") != "identity" or signed:
            return self.answer(400, error("WrongTest", "Accept-Encoding"))
        headers = {"ETag": '"e"', "Last-Modified": "Mon, 30 Nov 2026 01:02:03 GMT"}
        if self.command == "HEAD":
            return self.answer(200, b"", headers | {"Content-Length": str(len(DATA))})
        first, last = (int(number) for number in self.headers["Range"].removeprefix("bytes=").split("-"))
        headers["Content-Range"] = f"bytes {first}-{last}/{len(DATA)}"
        return self.answer(206, DATA[first:last + 1], headers)

    def handle_request(self):
        url = urllib.parse.urlsplit(self.path)
        self.late_s = 0
        _, bucket, *key = url.path.split("/", 2)
        if bucket == "requests":
            return self.answer(200, "\n".join(self.asked))
        self.asked.append(f"{self.command} {url.path} {self.scope()}")
        if url.query:
            return self.listing(dict(urllib.parse.parse_qsl(url.query)))
        return getattr(self, key[0].replace("-", "_"))()

    do_GET = do_HEAD = handle_request

    def data(self):
        self.give()

    def moved(self):
        if self.scope() == "eu-west-1":
            return self.give()
        return self.answer(301, error("PermanentRedirect", "use the specified endpoint"),
                           {"x-amz-bucket-region": "eu-west-1"})

    def redirected(self):
        if self.scope() == "eu-west-1":
            return self.give()
        return self.answer(307, error("TemporaryRedirect", "re-send this request to the specified endpoint"),
                           {"x-amz-bucket-region": "eu-west-1", "Location": "/bucket/data"})

    def malformed(self):
        if self.scope() == "eu-west-1":
            return self.give()
        return self.answer(400, error("AuthorizationHeaderMalformed", "expecting eu-west-1",
                                      "<Region>eu-west-1</Region>"))

    def moving(self):
        other = "eu-west-1" if self.scope() != "eu-west-1" else "eu-west-2"
        self.answer(400, error("AuthorizationHeaderMalformed", "elsewhere", f"<Region>{other}</Region>"))

    def expired(self):
        if self.headers.get("x-amz-security-token") != "token-1":
            return self.give()
        return self.answer(400, error("ExpiredToken", "The provided token has expired."))

    def always_expired(self):
        self.answer(400, error("ExpiredToken", "The provided token has expired."))

    def skewed(self):
        self.late_s = 300
        self.answer(403, error("RequestTimeTooSkewed", "The difference is too large."))

    def denied(self):
        self.answer(403, error("AccessDenied", "Access Denied"))

    def without_head(self):
        return self.answer(403) if self.command == "HEAD" else self.give()

    def wrong_key(self):
        self.answer(403, error("SignatureDoesNotMatch", "does not match"))

    def unknown_key(self):
        self.answer(403, error("InvalidAccessKeyId", "does not exist"))

    def archived(self):
        self.answer(403, error("InvalidObjectState", "not valid for the object's storage class"))

    def replaced(self):
        self.answer(412, error("PreconditionFailed", "did not hold"))

    def absent(self):
        self.answer(404, error("NoSuchKey", "does not exist"))

    def plain_absent(self):
        self.answer(404, "404 page not found\n", {"Content-Type": "text/plain"})

    def plain_redirect(self):
        self.answer(301, "", {"Location": "https://127.0.0.1:1/"})

    def page(self):
        self.answer(200, "<html><body>Sign in</body></html>", {"Content-Type": "text/html"})

    def refused_by_proxy(self):
        self.answer(403, "<html><body>Blocked</body></html>", {"Content-Type": "text/html"})

    def busy(self):
        self.answer(503, error("SlowDown", "Reduce your request rate."))

    def requester_pays(self):
        signed = "x-amz-request-payer" in self.headers.get("Authorization", "")
        if signed and self.headers.get("x-amz-request-payer") == "requester":
            return self.give()
        return self.answer(403, error("AccessDenied", "Access Denied"))

    def listing(self, query):
        prefix = query["prefix"]
        if prefix == "page":
            return self.page()
        if prefix in ("denied", "plain-absent", "plain-redirect", "refused-by-proxy"):
            return getattr(self, prefix.replace("-", "_"))()
        return self.answer(200, "<ListBucketResult><IsTruncated>true</IsTruncated>"
                                "<NextContinuationToken>same</NextContinuationToken></ListBucketResult>")


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
