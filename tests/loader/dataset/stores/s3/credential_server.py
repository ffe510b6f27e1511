"""Answers as the services that hand out credentials do, on a port that it prints, until its input ends.

Paths: /imds (metadata of an instance with a role), /imds-without-role, /imds-v1 (gives no token), /imds-html,
/container (wants a token), /container-busy (refuses twice), /container-broken (another document), /sts (wants a token).
GET /requests returns what was asked, one "METHOD PATH" a line.
"""

import http.server
import json
import os
import sys
import threading
import urllib.parse

ROLES = "/latest/meta-data/iam/security-credentials/"
CREDENTIALS = {"Code": "Success", "AccessKeyId": "ASIAX", "SecretAccessKey": "se+cr/et", "Token": "tok==",
               "Expiration": "2036-11-30T01:02:03Z"}
STS_ANSWER = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Audience>sts</Audience><Credentials><SessionToken>sts&amp;token</SessionToken>
<SecretAccessKey>sts/secret</SecretAccessKey><Expiration>2036-11-30T01:02:03.5Z</Expiration>
<AccessKeyId>ASIASTS</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>
<ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></AssumeRoleWithWebIdentityResponse>"""
STS_REFUSAL = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>ExpiredTokenException</Code><Message>Token expired: current date/time must be before the expiration</Message>
</Error><RequestId>1</RequestId></ErrorResponse>"""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked: list[str] = []

    def log_message(self, *arguments):
        pass

    def answer(self, status, text=""):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_request(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        path = urllib.parse.urlsplit(self.path).path
        if path == "/requests":
            return self.answer(200, "\n".join(self.asked))
        self.asked.append(f"{self.command} {self.path}")
        kind, _, rest = path[1:].partition("/")
        return getattr(self, kind.replace("-", "_"))("/" + rest, body)

    do_GET = do_PUT = do_POST = handle_request

    def imds(self, path, _body, roles="the role\n"):
        if self.command == "PUT" and path == "/latest/api/token":
            seconds = self.headers.get("x-aws-ec2-metadata-token-ttl-seconds")
            return self.answer(200, "imds-token") if seconds == "21600" else self.answer(400)
        if self.headers.get("x-aws-ec2-metadata-token") != "imds-token":
            return self.answer(401)
        if path == ROLES:
            return self.answer(200, roles) if roles else self.answer(404)
        if path == ROLES + "the%20role":
            return self.answer(200, json.dumps(CREDENTIALS))
        return self.answer(404)

    def imds_without_role(self, path, body):
        self.imds(path, body, roles="")

    def imds_v1(self, _path, _body):
        self.answer(405)

    def imds_html(self, _path, _body):
        self.answer(200, "<html>\n<body>Sign in</body></html>")

    def container(self, _path, _body):
        if self.headers.get("Authorization") != "container token" or "AWS4" in str(self.headers):
            return self.answer(401, "wrong: " + str(self.headers.get("Authorization")))
        return self.answer(200, json.dumps(CREDENTIALS))

    def container_busy(self, _path, _body):
        if sum("/container-busy" in asked for asked in self.asked) < 3:
            return self.answer(503)
        return self.answer(200, json.dumps(CREDENTIALS))

    def container_broken(self, _path, _body):
        self.answer(200, '{"SecretAccessKey": "planted-secret", oops}')

    def sts(self, _path, body):
        form = dict(urllib.parse.parse_qsl(body))
        expected = {"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": "arn:aws:iam::1:role/r",
                    "RoleSessionName": "isocost", "WebIdentityToken": form["WebIdentityToken"]}
        if form != expected or self.command != "POST" or self.headers.get("Authorization"):
            return self.answer(500, str(form))
        return self.answer(200, STS_ANSWER) if form["WebIdentityToken"] == "good+/=" else self.answer(400, STS_REFUSAL)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
